"""``fedrulefit federation run``, ``status``, ``stop`` and ``record``: studies in a consortium."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import (
    check_writable,
    friendly_errors,
    indented,
    printable,
    stderr,
    stdout,
)
from fedrulefit.cli.options import STATE, JsonOption, ModelOption, StateOption, TopOption
from fedrulefit.cli.report import (
    NoReportOption,
    ReportOption,
    choose_page,
    write_page,
)
from fedrulefit.errors import FederationError
from fedrulefit.model import Model
from fedrulefit.protocol.coordinator import STEPS
from fedrulefit.study import Study

app = typer.Typer()

ABSENT = 15.0
"""Seconds without a coordinator's process after which we no longer wait for it."""

ResumeOption = Annotated[
    str | None, typer.Option(help="Go on with a run that failed or was stopped.")
]
OnlySitesOption = Annotated[
    list[str] | None, typer.Option("--site", help="Only these sites; all by default.")
]
DropoutsOption = Annotated[
    str, typer.Option(help="'wait' for a lost site, or 'continue' among the rest.")
]
WaitOption = Annotated[
    float | None,
    typer.Option(
        help="Seconds without a sign after which a site is lost: "
        "a day, or ten minutes where the run may continue.",
        min=1,
    ),
]
GiveUpOption = Annotated[
    float | None,
    typer.Option(
        metavar="HOURS",
        help="Give a site up that answers a step with nothing but 'working' or 'a person "
        "decides' for so long. By default the run waits, and says for whom.",
        min=0.01,
    ),
]
PlainOption = Annotated[
    bool, typer.Option("--plain-sums", help="Without masks, where every policy allows it.")
]


@app.command(epilog="Example: fedrulefit federation run --study study.toml -o model.json")
@friendly_errors()
def run(
    output: ModelOption,
    study: Annotated[Path | None, typer.Option("--study", "-s", help="The study file.")] = None,
    state: StateOption = STATE,
    name: Annotated[str | None, typer.Option("--run", help="A name for the run.")] = None,
    resume: ResumeOption = None,
    site: OnlySitesOption = None,
    dropouts: DropoutsOption = "wait",
    wait: WaitOption = None,
    give_up: GiveUpOption = None,
    plain: PlainOption = False,
    report: ReportOption = None,
    no_report: NoReportOption = False,
    top: TopOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Learn a model with all hospitals of the consortium.

    The coordinator's process does the work: this command shows it, and can be left and
    come back to with --resume.
    """
    from fedrulefit.federation.coordinator import runs

    if dropouts not in ("wait", "continue"):
        raise FederationError(f"--dropouts takes 'wait' or 'continue', not {dropouts!r}")
    check_writable(output)
    page = choose_page(output, report, no_report=no_report)
    known = _known_sites(state)
    patience = None if give_up is None else 3600 * give_up
    if resume is not None:
        folder = runs.resume(state, resume, give_up=patience)
    elif study is None:
        raise FederationError("give --study STUDY.toml for a new run, or --resume RUN")
    else:
        request = runs.RunRequest(
            sites=_choose_sites(site, known),
            run=name or _name_run(Study.load(study)),
            secure=not plain,
            dropouts="continue" if dropouts == "continue" else "wait",
            wait=wait or (600.0 if dropouts == "continue" else 86_400.0),
            give_up=patience,
        )
        folder = runs.submit(state, request, study)
    ended = _follow(folder, quiet=as_json)
    _check_done(ended, folder, output, state)
    shutil.copyfile(folder / "model.json", output)
    model = Model.load(output)
    written = write_page(model, output, page)
    if as_json:
        typer.echo(json.dumps({"run": folder.name, "model": str(output), **ended}, indent=2))
    else:
        wrote = f"{written} (run {folder.name})"
        show.print_model(stdout(), model, output, top=top, written=wrote)


@app.command(epilog="Example: fedrulefit federation status")
@friendly_errors()
def status(state: StateOption = STATE, as_json: JsonOption = False) -> None:
    """Show which sites are there, and how far every run is."""
    from fedrulefit.federation.coordinator import runs
    from fedrulefit.federation.folderlock import is_held

    facts = _sites_facts(state)
    found = {folder.name: runs.read_status(folder) for folder in runs.run_folders(state)}
    if as_json:
        typer.echo(json.dumps({**facts, "runs": found}, indent=2))
        return
    console = stdout()
    if not is_held(state):
        console.print(Text("The coordinator is not running; this is how it was left."))
    signs = ", ".join(f"{name} {_sign(here)}" for name, here in facts["sites"].items())
    console.print(Text(f"Sites: {signs} (as of {facts['updated']})"))
    for warning in facts.get("warnings", []):
        console.print(Text.assemble(("Warning: ", "yellow"), printable(warning)))
    if not found:
        console.print("No runs yet.")
    for name, one in found.items():
        console.print(_status_lines(name, one))


@app.command(epilog="Example: fedrulefit federation stop sepsis-20261116-101500")
@friendly_errors()
def stop(
    run_name: Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")],
    state: StateOption = STATE,
) -> None:
    """Stop a run; what it has so far is kept, and it can be resumed."""
    from fedrulefit.federation.coordinator import runs

    runs.stop(state, run_name)
    stdout().print(Text(f"{run_name} will stop; resume it with federation run --resume."))


@app.command(epilog="Example: fedrulefit federation record sepsis-20261116-101500 -o record.zip")
@friendly_errors()
def record(
    run_name: Annotated[str, typer.Argument(metavar="RUN", help="The run's name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The record to write.")],
    state: StateOption = STATE,
) -> None:
    """Write the record of a run, finished or not, for hospitals that want to recheck it.

    It holds what the coordinator asked and knew: each site's rules and noisy histograms, and all
    sums.
    """
    from fedrulefit.federation.coordinator.runs import run_folder
    from fedrulefit.federation.record import write_record

    check_writable(output)
    _known_sites(state)
    write_record(run_folder(state, run_name), output)
    stdout().print(Text(f"Wrote {output}: hospitals recheck it with 'federation audit'."))


def _name_run(study: Study) -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", study.name).strip("-") or "run"
    return f"{slug[:40]}-{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}"


def _choose_sites(wanted: list[str] | None, known: list[str]) -> tuple[str, ...]:
    """Return the sites of a run: those that are wanted, or all."""
    sites = tuple(sorted(set(wanted or known)))
    strangers = set(sites) - set(known)
    if strangers:
        raise FederationError(
            f"{', '.join(sorted(strangers))}: not of this consortium ({', '.join(known)})"
        )
    return sites


def _check_done(ended: dict[str, Any], folder: Path, output: Path, state: Path) -> None:
    """Say of a run that ended without a model why, and how it goes on."""
    if ended["state"] != "done":
        raise FederationError(
            f"run {folder.name} {ended['state']}: {ended.get('message', '')}\n"
            f"It can be resumed: fedrulefit federation run --resume {folder.name} -o {output} "
            f"--state {state}"
        )


def _known_sites(state: Path) -> list[str]:
    return list(_sites_facts(state)["sites"])


def _sites_facts(state: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((state / "sites.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise FederationError(
            f"no coordinator has run in {state}: start one with 'fedrulefit coordinator start', "
            "or name its folder with --state"
        ) from None
    return facts


def _follow(folder: Path, *, quiet: bool) -> dict[str, Any]:
    """Show a run until it ends."""
    from fedrulefit.federation.coordinator import runs
    from fedrulefit.federation.folderlock import is_held

    console = Console(quiet=True) if quiet else stderr()
    seen = time.monotonic()
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        while True:
            found = runs.read_status(folder)
            live.update(_status_lines(folder.name, found))
            if found["state"] not in ("waiting", "running"):
                return found
            if is_held(folder.parent.parent):
                seen = time.monotonic()
            elif time.monotonic() - seen > ABSENT:
                raise FederationError(
                    f"the coordinator of run {folder.name} is not running: start it with "
                    "'fedrulefit coordinator start', and the run goes on by itself"
                )
            time.sleep(0.25)


def _sign(here: bool) -> str:
    return "online" if here else "OFFLINE"


def _status_lines(name: str, status: dict[str, Any]) -> Group:
    """Return a run in a few lines: step, round, objective, bytes, sites."""
    head = Text.assemble((printable(name), "bold"), f"  {status['state']}")
    progress = status.get("progress")
    if progress:
        if status["state"] != "done":
            head.append(f"  {STEPS[progress['step']]}")
        if progress["round"] or progress["rounds"]:
            of = f" of {progress['rounds']}" if progress["rounds"] else ""
            head.append(f", round {progress['round']}{of}")
        if progress["objective"] is not None:
            head.append(f", objective {progress['objective']:.5f}")
        head.append(f", {_bytes(status['sent'])} out, {_bytes(status['received'])} in")
    return Group(head, *map(indented, _site_lines(status)))


def _site_lines(status: dict[str, Any]) -> list[str]:
    """Say who is there, who is waited for, and what went wrong."""
    lines = []
    signs = [f"{site} {_sign(here)}" for site, here in status.get("sites", {}).items()]
    if signs and status["state"] == "running":
        lines.append(", ".join(signs))
    if status.get("pending"):
        waited = f" (for {_minutes(status['waited'] // 60)})" if status.get("waited") else ""
        names = ", ".join(status["pending"])
        lines.append(f"waiting for a person's approval at: {names}{waited}")
    if status["state"] == "running":
        lines += [
            f"{site} has not answered for {_minutes(minutes)}; resume the run with --give-up to "
            "go on without waiting for it"
            for site, minutes in status.get("slow", {}).items()
        ]
        lines += [f"Warning: {warning}" for warning in status.get("warnings", [])]
    lines += status.get("given_up", [])
    lines += [text for text in (status.get("message") or "").split("\n") if text]
    return lines


def _minutes(number: int) -> str:
    return f"{number:.0f} min" if number < 120 else f"{number / 60:.0f} h"


def _bytes(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e5 else f"{number / 1e3:.1f} kB"
