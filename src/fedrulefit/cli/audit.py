"""``fedrulefit federation audit``: a hospital rechecks a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedrulefit.cli.console import (
    EXIT_FINDINGS,
    friendly_errors,
    indented,
    line,
    stderr,
    stdout,
)
from fedrulefit.cli.options import JsonOption, KitOption
from fedrulefit.errors import FederationError

if TYPE_CHECKING:
    from fedrulefit.federation.audit import Audit
    from fedrulefit.federation.kits.kit import Kit

app = typer.Typer()


@app.command(epilog="Example: fedrulefit federation audit record.zip --kit kit")
@friendly_errors()
def audit(
    record: Annotated[Path, typer.Argument(help="The run's record, from the coordinator.")],
    kit: KitOption,
    state: Annotated[
        Path,
        typer.Option(
            "--state", envvar="FEDRULEFIT_SITE_STATE", help="This hospital's state folder."
        ),
    ] = Path("fedrulefit-site"),
    model: Annotated[
        Path | None, typer.Option("--model", help="The model file that this hospital was given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recheck, at a hospital, that a run was led as the protocol says, as far as it went.

    Compares every question with the one that this hospital answered, and with the one that
    follows from the signed replies of all sites; and the model. Ends with code 1 if anything does
    not fit; else notes in the state folder that the run was audited.
    """
    from fedrulefit.federation.kits.kit import Kit
    from fedrulefit.federation.site.audits import note_audit

    own = Kit.load(kit, "site")
    _check_state(state, own)
    found = _recheck(record, own, state, model)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    elif found.problems:
        _print_problems(found)
    else:
        stdout().print(line(_audit_words(found, model)))
    if found.problems:
        raise typer.Exit(EXIT_FINDINGS)
    note_audit(state, record, study=found.study, run=found.run, step=found.answered)


def _check_state(state: Path, own: Kit) -> None:
    """Refuse a folder that is not this hospital's."""
    from fedrulefit.federation.state import JOURNAL, read_owner

    if not (state / JOURNAL).exists():
        raise FederationError(f"{state} is not the state folder of a site: name it with --state")
    owner = read_owner(state)
    if owner is not None and owner.name != own.name:
        raise FederationError(f"{state} is the state folder of {owner.name}, not of {own.name}")


def _recheck(record: Path, own: Kit, state: Path, model: Path | None) -> Audit:
    """Compare a record with what this hospital remembers."""
    from fedrulefit.federation.audit import audit as check
    from fedrulefit.federation.journal import Journal
    from fedrulefit.federation.kits.charter import read_acceptance
    from fedrulefit.federation.site.remembered import run_memory
    from fedrulefit.federation.state import JOURNAL

    accepted = read_acceptance(state)
    pinned = {} if accepted is None else accepted.charter.pins
    journal = Journal(state / JOURNAL, read_only=True)
    try:
        return check(
            record,
            site=own.name,
            memory_of=partial(run_memory, journal),
            trust=own.trust(pinned),
            coordinator=own.coordinator,
            model=model,
        )
    finally:
        journal.close()


def _print_problems(found: Audit) -> None:
    stderr().print(line(f"Run {found.run} does not fit its record:"))
    for problem in found.problems:
        stderr().print(indented(problem))


def _audit_words(found: Audit, model: Path | None) -> str:
    """Say what fits."""
    fits = (
        f"Run {found.run}: all {found.questions} questions to this hospital follow from the study "
        f"and the {found.replies} signed replies of all sites. "
    )
    if not found.finished:
        return f"{fits}The run was not finished: {found.steps} steps fit."
    if not found.model:
        return f"{fits}The record holds no model."
    return f"{fits}So does the model, {model or 'in the record'} (SHA-256 {found.model})."
