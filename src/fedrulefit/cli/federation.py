"""``fedrulefit federation``: set a consortium up, and run studies in it."""

from __future__ import annotations

import datetime as dt
import getpass
import json
import re
import shutil
import time
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import (
    EXIT_FINDINGS,
    check_writable,
    friendly_errors,
    indented,
    line,
    printable,
    stderr,
    stdout,
)
from fedrulefit.cli.report import (
    NoReportOption,
    ReportOption,
    choose_page,
    write_page,
    written,
)
from fedrulefit.errors import FederationError
from fedrulefit.model import Model
from fedrulefit.study import Study

if TYPE_CHECKING:
    from fedrulefit.federation.audit import Audit

app = typer.Typer(
    name="federation",
    help="Set up a consortium of hospitals, and learn models in it.",
    no_args_is_help=True,
)

STATE = Path("fedrulefit-coordinator")
"""The coordinator's state folder, where no other is named."""

SocketOption = Annotated[
    Path | None,
    typer.Option(
        "--socket", help="Unix socket to a carrier of another user; else it is a child process."
    ),
]

ABSENT = 15.0
"""Seconds without a coordinator's process after which we no longer wait for it."""

StateOption = Annotated[
    Path,
    typer.Option(
        "--state",
        envvar="FEDRULEFIT_COORDINATOR_STATE",
        help="The coordinator's state folder.",
    ),
]


def need_flare() -> None:
    """Say how to get NVIDIA FLARE where it is missing; a carrier loads it."""
    if find_spec("nvflare") is None:
        raise FederationError(
            "federations need NVIDIA FLARE (nvflare is not installed): "
            'pip install "fedrulefit[flare]"'
        )


@app.command(epilog="Example: fedrulefit federation draft -o consortium.toml")
@friendly_errors()
def draft(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Write a consortium file to start from: who takes part, and where to call."""
    from fedrulefit.federation.consortium import EXAMPLE

    write_example(EXAMPLE, output, "put in your own names, host and port")


@app.command(epilog="Example: fedrulefit federation init consortium.toml -o kits")
@friendly_errors()
def init(
    consortium: Annotated[Path, typer.Argument(help="Who takes part.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the kits.")] = Path(
        "kits"
    ),
    renew: Annotated[
        bool, typer.Option("--renew", help="Replace the kits; the consortium's root stays.")
    ] = False,
) -> None:
    """Make a sealed start-up kit for the coordinator and each hospital.

    Each has two parts: one for the process that has the network, one for the one that
    signs. Hand each hospital its own folder over a private channel, and keep authority/
    safe: it can make new kits.
    """
    from fedrulefit.federation.charter import make_charter
    from fedrulefit.federation.consortium import Consortium, Kit
    from fedrulefit.federation.provision import provision
    from fedrulefit.files import close_to_others, write_private

    facts = Consortium.load(consortium)
    if output.exists() and any(output.iterdir()) and not renew:
        raise FederationError(
            f"{output} is not empty: choose another folder, or --renew the kits in it"
        )
    folders = provision(facts, output)
    close_to_others(output)
    kits = {
        name: Kit.load(folder, "coordinator" if name == "coordinator" else "site")
        for name, folder in folders.items()
    }
    sites = {name: kit for name, kit in kits.items() if name != "coordinator"}
    charter = make_charter(kits["coordinator"], sites)
    write_private(output / "charter.toml", charter.text().encode())
    console = stdout()
    console.print(Text(f"Root certificate {charter.root}"), soft_wrap=True)
    for name, kit in kits.items():
        console.print(Text.assemble((str(folders[name]), "bold"), f"  for {kit.name}"))
        console.print(Text(f"  certificate {kit.identity.fingerprint}"), soft_wrap=True)
    console.print(Text.assemble((str(output / "charter.toml"), "bold"), "  for all hospitals"))
    console.print(Text(f"  hash {charter.hash}"), soft_wrap=True)
    console.print(
        Text(
            f"Hand each hospital its folder over a private channel, and the charter; keep "
            f"{output / 'authority'} safe. Each hospital compares the charter's hash with the "
            "others by another way, such as the telephone, and accepts it with 'fedrulefit site "
            "accept'."
        )
    )


@app.command(epilog="Example: fedrulefit federation run --study study.toml -o model.json")
@friendly_errors()
def run(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    study: Annotated[Path | None, typer.Option("--study", "-s", help="The study file.")] = None,
    state: StateOption = STATE,
    name: Annotated[str | None, typer.Option("--run", help="A name for the run.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with a run that failed or was stopped.")
    ] = None,
    site: Annotated[
        list[str] | None, typer.Option("--site", help="Only these sites; all by default.")
    ] = None,
    dropouts: Annotated[
        str, typer.Option(help="'wait' for a lost site, or 'continue' among the rest.")
    ] = "wait",
    wait: Annotated[
        float | None,
        typer.Option(
            help="Seconds without a sign after which a site is lost: "
            "a day, or ten minutes where the run may continue.",
            min=1,
        ),
    ] = None,
    give_up: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS",
            help="Give a site up that answers a step with nothing but 'working' or 'a person "
            "decides' for so long. By default the run waits, and says for whom.",
            min=0.01,
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain-sums", help="Without masks, where every policy allows it.")
    ] = False,
    report: ReportOption = None,
    no_report: NoReportOption = False,
    top: Annotated[int, typer.Option(help="Rules to print.", min=0)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Learn a model with all hospitals of the consortium.

    The coordinator's process does the work: this command shows it, and can be left and
    come back to with --resume.
    """
    from fedrulefit.federation import runs

    if dropouts not in ("wait", "continue"):
        raise FederationError(f"--dropouts takes 'wait' or 'continue', not {dropouts!r}")
    check_writable(output)
    page = choose_page(output, report, no_report=no_report)
    known = _known_sites(state)
    if resume is not None:
        folder = runs.resume(state, resume, give_up=None if give_up is None else 3600 * give_up)
    elif study is None:
        raise FederationError("give --study STUDY.toml for a new run, or --resume RUN")
    else:
        sites = tuple(sorted(set(site or known)))
        strangers = set(sites) - set(known)
        if strangers:
            raise FederationError(
                f"{', '.join(sorted(strangers))}: not of this consortium ({', '.join(known)})"
            )
        run_name = name or _name_run(Study.load(study))
        request = runs.RunRequest(
            run=run_name,
            sites=sites,
            secure=not plain,
            dropouts="continue" if dropouts == "continue" else "wait",
            wait=wait or (600.0 if dropouts == "continue" else 86_400.0),
            give_up=None if give_up is None else 3600 * give_up,
        )
        folder = runs.submit(state, request, study)
    status = _follow(folder, quiet=as_json)
    if status["state"] != "done":
        raise FederationError(
            f"run {folder.name} {status['state']}: {status.get('message', '')}\n"
            f"It can be resumed: fedrulefit federation run --resume {folder.name} -o {output} "
            f"--state {state}"
        )
    shutil.copyfile(folder / "model.json", output)
    model = Model.load(output)
    write_page(model, output, page)
    if as_json:
        typer.echo(json.dumps({"run": folder.name, "model": str(output), **status}, indent=2))
        return
    show.print_model(
        stdout(), model, output, top=top, written=f"{written(output, page)} (run {folder.name})"
    )


@app.command(epilog="Example: fedrulefit federation status")
@friendly_errors()
def status(
    state: StateOption = STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show which sites are there, and how far every run is."""
    from fedrulefit.federation import runs
    from fedrulefit.federation.host import is_held

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
    from fedrulefit.federation import runs

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
    from fedrulefit.federation.audit import write_record
    from fedrulefit.federation.runs import run_folder

    check_writable(output)
    _known_sites(state)
    write_record(run_folder(state, run_name), output)
    stdout().print(Text(f"Wrote {output}: hospitals recheck it with 'federation audit'."))


@app.command(epilog="Example: fedrulefit federation audit record.zip --kit kit")
@friendly_errors()
def audit(
    record: Annotated[Path, typer.Argument(help="The run's record, from the coordinator.")],
    kit: Annotated[Path, typer.Option("--kit", help="This hospital's start-up kit.")],
    state: Annotated[
        Path,
        typer.Option(
            "--state", envvar="FEDRULEFIT_SITE_STATE", help="This hospital's state folder."
        ),
    ] = Path("fedrulefit-site"),
    model: Annotated[
        Path | None, typer.Option("--model", help="The model file that this hospital was given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Recheck, at a hospital, that a run was led as the protocol says, as far as it went.

    Compares every question with the one that this hospital answered, and with the one that
    follows from the signed replies of all sites; and the model. Ends with code 1 if anything does
    not fit; else notes in the state folder that the run was audited.
    """
    from fedrulefit.federation.audit import audit as check
    from fedrulefit.federation.audited import note_audit
    from fedrulefit.federation.charter import read_acceptance
    from fedrulefit.federation.consortium import Kit
    from fedrulefit.federation.host import run_memory
    from fedrulefit.federation.journal import Journal
    from fedrulefit.federation.state import JOURNAL, read_owner

    own = Kit.load(kit, "site")
    if not (state / JOURNAL).exists():
        raise FederationError(f"{state} is not the state folder of a site: name it with --state")
    owner = read_owner(state)
    if owner is not None and owner.name != own.name:
        raise FederationError(f"{state} is the state folder of {owner.name}, not of {own.name}")
    accepted = read_acceptance(state)
    pinned = {} if accepted is None else accepted.charter.pins
    journal = Journal(state / JOURNAL, read_only=True)
    try:
        found = check(
            record,
            site=own.name,
            memory_of=partial(run_memory, journal),
            trust=own.trust(pinned),
            coordinator=own.coordinator,
            model=model,
        )
    finally:
        journal.close()
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    elif not found.problems:
        stdout().print(line(_audit_words(found, model)))
    else:
        stderr().print(line(f"Run {found.run} does not fit its record:"))
        for problem in found.problems:
            stderr().print(indented(problem))
    if found.problems:
        raise typer.Exit(EXIT_FINDINGS)
    note_audit(state, record, study=found.study, run=found.run, step=found.answered)


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


def write_example(text: str, output: Path | None, advice: str) -> None:
    """Print a file to start from, or write it where none is."""
    if output is None:
        typer.echo(text, nl=False)
    elif output.exists():
        raise FederationError(f"{output} is there already")
    else:
        output.write_text(text, encoding="utf-8")
        stdout().print(Text(f"Wrote {output}: {advice}."))


def _name_run(study: Study) -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", study.name).strip("-") or "run"
    return f"{slug[:40]}-{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}"


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
    from fedrulefit.federation import runs
    from fedrulefit.federation.host import is_held

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
            head.append(f"  {show.STEPS[progress['step']]}")
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


def whoami() -> str:
    """Return the name of the person at the keyboard, for approvals."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
