"""``fedrulefit site``: a hospital's own process, policy and approvals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli.console import friendly_errors, printable, stderr, stdout
from fedrulefit.cli.federation import SocketOption, need_flare, whoami, write_example
from fedrulefit.errors import FederationError
from fedrulefit.privacy.policy import EXAMPLE, Policy
from fedrulefit.study import Study
from fedrulefit.table import inspect_table

app = typer.Typer(name="site", help="Take part with a hospital's data.", no_args_is_help=True)

STATE = Path("fedrulefit-site")
StateOption = Annotated[
    Path,
    typer.Option(
        "--state", envvar="FEDRULEFIT_SITE_STATE", help="Folder for ledger and journal; keep it."
    ),
]


@app.command(
    epilog="Example: fedrulefit site start --kit kits/north --study study.toml --data north.csv"
)
@friendly_errors()
def start(
    kit: Annotated[Path, typer.Option("--kit", help="This hospital's start-up kit.")],
    study: Annotated[
        list[Path], typer.Option("--study", "-s", help="A study file; once per study.")
    ],
    data: Annotated[Path, typer.Option("--data", help="The hospital's table.")],
    policy: Annotated[
        Path | None, typer.Option("--policy", help="What may leave; careful defaults without.")
    ] = None,
    state: StateOption = STATE,
    socket: SocketOption = None,
) -> None:
    """Take part with a hospital's data, until Ctrl-C.

    Everything is checked first: kit, study, table, policy and ledger.
    """
    from fedrulefit.engines import service
    from fedrulefit.engines.consortium import Kit
    from fedrulefit.engines.host import lock_folder
    from fedrulefit.privacy.ledger import read_rows

    need_flare()
    checked = Kit.load(kit, "site")
    if socket is None:
        checked.carrier()
    rules = Policy.load(policy) if policy else Policy()
    for path in study:
        inspection = inspect_table(data, Study.load(path), where=f"site {checked.name}")
        if inspection.errors:
            lines = [f"  {finding}" for finding in inspection.errors]
            raise FederationError("\n".join([f"{data} does not fit {path}:", *lines]))
        for warning in inspection.warnings:
            stderr().print(Text.assemble(("Warning: ", "yellow"), printable(str(warning))))
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock_folder(state).close()
    ledger = state / "ledger.jsonl"
    spent = sum(row["epsilon"] or 0.0 for row in read_rows(ledger)) if ledger.exists() else 0.0
    console = stdout()
    console.print(Text(f"Site {checked.name} of {checked.consortium}; Ctrl-C stops it."))
    identity = checked.identity
    console.print(Text(f"Root certificate {checked.root_fingerprint}"), soft_wrap=True)
    console.print(
        Text(f"This site's certificate {identity.fingerprint}, valid until {identity.expires}"),
        soft_wrap=True,
    )
    for line in rules.words():
        console.print(Text(f"  {line}"))
    console.print(Text(f"Spent so far on this data set: ε = {spent:g}. State: {state.resolve()}"))
    facts = {
        "kit": str(checked.folder),
        "studies": [str(path.resolve()) for path in study],
        "data": str(data.resolve()),
        "policy": str(policy.resolve()) if policy else "",
        "state": str(state.resolve()),
    }
    service.start_site(checked, facts, socket)


@app.command(epilog="Example: fedrulefit site policy -o policy.toml")
@friendly_errors()
def policy(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a policy with its defaults here.")
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Say this policy in words.")] = None,
) -> None:
    """Write a policy to start from, or say one in words."""
    if show is not None:
        for line in Policy.load(show).words():
            stdout().print(Text(line))
    else:
        write_example(EXAMPLE, output, "read it, and change what your hospital needs")


@app.command(epilog="Example: fedrulefit site review")
@friendly_errors()
def review(
    state: StateOption = STATE,
    accept: Annotated[str | None, typer.Option(help="Accept this one without asking.")] = None,
    decline: Annotated[str | None, typer.Option(help="Decline this one without asking.")] = None,
) -> None:
    """See in plain words what is about to leave, and accept or decline it."""
    from fedrulefit.engines.host import approvals, decide

    for chosen, yes in ((accept, True), (decline, False)):
        if chosen is not None:
            decide(state, chosen, accept=yes, by=whoami())
            stdout().print(Text(f"{chosen}: {'accepted' if yes else 'declined'}."))
            return
    waiting = {name: facts for name, facts in approvals(state).items() if not facts["decision"]}
    if not waiting:
        stdout().print("Nothing waits for a decision.")
    for name, facts in waiting.items():
        console = stdout()
        console.print(Text(f"\n{name} (asked {facts['asked']})", style="bold"))
        for line in facts["words"]:
            console.print(Text(printable(line)))
        yes = typer.confirm("May this leave?")
        decide(state, name, accept=yes, by=whoami())
