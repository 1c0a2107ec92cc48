"""``fedrulefit site``: a hospital's own process, charter, policy and approvals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fedrulefit.cli.budget import budget_of
from fedrulefit.cli.console import friendly_errors, printable, stderr, stdout, whoami, write_example
from fedrulefit.cli.options import JsonOption, KitOption, SocketOption
from fedrulefit.errors import FederationError
from fedrulefit.privacy.policy import EXAMPLE, Policy
from fedrulefit.study import Study

if TYPE_CHECKING:
    from fedrulefit.federation.site.startup import OpenedSite, SiteStart
    from fedrulefit.privacy.ledger import Ledger

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
    kit: KitOption,
    study: Annotated[
        list[Path], typer.Option("--study", "-s", help="A study file; once per study.")
    ],
    data: Annotated[Path, typer.Option("--data", help="The hospital's table.")],
    policy: Annotated[
        Path | None, typer.Option("--policy", help="What may leave; careful defaults without.")
    ] = None,
    state: StateOption = STATE,
    without_charter: Annotated[
        bool,
        typer.Option(
            "--without-charter",
            help="Start without an accepted charter. Nothing then says who the other sites are: "
            "invented ones could surround this one, and 'a sum of three' be its own number.",
        ),
    ] = False,
    socket: SocketOption = None,
) -> None:
    """Take part with a hospital's data, until Ctrl-C.

    Everything is checked first: kit, charter, study, table, policy, state folder and ledger.
    """
    from fedrulefit.federation.kits.kit import Kit
    from fedrulefit.federation.site import process
    from fedrulefit.federation.site.startup import SiteStart
    from fedrulefit.federation.transport import TRANSPORTS

    own = Kit.load(kit, "site")
    TRANSPORTS.check(own.transport)
    given = SiteStart(
        kit=own,
        studies={path: Study.load(path) for path in study},
        data=data.resolve(),
        state=state.resolve(),
        policy=Policy.load(policy) if policy else Policy(),
        without_charter=without_charter,
    )
    process.start_site(given, socket, lambda opened: _tell(given, opened))


def _tell(given: SiteStart, opened: OpenedSite) -> None:
    """Say who starts, with which patients, and what may leave."""
    kit, console = given.kit, stdout()
    _warn(opened.warnings)
    budget = _budget_lines(given, opened.host.ledger)
    console.print(Text(f"Site {kit.name} of {kit.consortium}; Ctrl-C stops it."))
    console.print(Text(f"Root certificate {kit.root_fingerprint}"), soft_wrap=True)
    own = f"This site's certificate {kit.identity.fingerprint}, valid until {kit.identity.expires}"
    console.print(Text(own), soft_wrap=True)
    if opened.charter is not None:
        others = ", ".join(name for name in opened.charter.site_names if name != kit.name)
        console.print(Text(f"Charter {opened.charter.hash}, with {others}"), soft_wrap=True)
    for line in _table_words(opened.host.tables):
        console.print(Text(line))
    for line in given.policy.words():
        console.print(Text(f"  {line}"))
    for line in budget:
        console.print(Text(printable(line)))


def _budget_lines(given: SiteStart, ledger: Ledger) -> list[str]:
    """Say what each study costs and is paid for; refuse a first one that is not."""
    rows = [release.facts() for release in ledger.releases]
    spent = ledger.epsilon
    lines = [f"Spent so far on this data set: ε = {spent:g}. State: {given.state}"]
    for path, study in given.studies.items():
        budget = budget_of(study, given.policy, rows)
        if budget.problem and spent == 0:
            raise FederationError(f"{path}: {budget.problem}")
        lines += [f"Study {path}:", *(f"  {line}" for line in budget.words())]
        if budget.problem:  # what an earlier run paid for still costs nothing
            lines.append(f"  Only runs over unchanged patients: {budget.problem}")
    return lines


def _table_words(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    return [
        printable(f"Table for {t['study']}: {t['patients']:,} patients, hash {t['hash']}")
        for t in tables
    ]


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        stderr().print(Text.assemble(("Warning: ", "yellow"), printable(warning)))


@app.command(epilog="Example: fedrulefit site accept charter.toml --kit kits/north --state state")
@friendly_errors()
def accept(
    charter: Annotated[Path, typer.Argument(help="The consortium's charter.")],
    kit: KitOption,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="The policy that names the data set.")
    ] = None,
    state: StateOption = STATE,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: it was compared before.")] = False,
    new_root: Annotated[
        bool, typer.Option("--new-root", help="The consortium has a new root certificate.")
    ] = False,
) -> None:
    """Accept who takes part: the names and certificates of all hospitals.

    Compare the fingerprints, or the charter's hash, with every other hospital by telephone.
    'site start' then believes these certificates and no others.
    """
    from fedrulefit.federation.expiry import warn_of_expiry
    from fedrulefit.federation.kits import charter as charters
    from fedrulefit.federation.kits.kit import Kit
    from fedrulefit.federation.state import open_state

    found, checked = charters.Charter.load(charter), Kit.load(kit, "site")
    rules = Policy.load(policy) if policy else Policy()
    found.check_kit(checked)
    charters.join_pins(rules, found)
    charters.check_successor(state, found, checked.name, new_root=new_root)
    earlier = charters.find_earlier(state)
    console = stdout()
    for line in found.words():
        console.print(Text(printable(line)))
    who = f"You accept as {checked.name!r}, for the data set {rules.dataset!r}"
    console.print(Text(printable(f"{who}, in {state}."), style="bold"))
    ends = {f"the certificate of {p.name}": p.expires for p in (found.coordinator, *found.sites)}
    _warn(warn_of_expiry(ends))
    for line in _charter_changes(found, earlier.charter if earlier else None):
        console.print(Text(printable(line)))
    if not yes and not typer.confirm("Are these the hospitals, and did you compare?"):
        raise FederationError("not accepted: nothing was written")
    _warn(open_state(state))
    charters.accept(state, found, site=checked.name, dataset=rules.dataset, by=whoami())
    console.print(Text("Accepted. A site that runs takes it up when it is started again."))


def _charter_changes(found: Any, earlier: Any) -> list[str]:
    """Say what is new against the charter accepted before."""
    if earlier is None:
        return ["No charter was accepted here before."]
    changes = found.changes(earlier)
    if not changes:
        return ["It says the same as the charter accepted before."]
    return ["Against the charter accepted before:", *(f"  {line}" for line in changes)]


@app.command(epilog="Example: fedrulefit site status")
@friendly_errors()
def status(
    state: StateOption = STATE,
    as_json: JsonOption = False,
) -> None:
    """Show what this site knows: charter, certificates, table, budget, runs, warnings."""
    from fedrulefit.federation.site.status import read_site_status

    facts = read_site_status(state)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    console = stdout()
    running = "running" if facts["running"] else "not running; this is how it was left"
    console.print(Text(printable(f"Site {facts['site']}: {running}."), style="bold"))
    if facts["charter"] is None:
        console.print("No charter was accepted.")
    else:
        by = f"accepted by {facts['charter']['by']} on {facts['charter']['time']}"
        console.print(Text(printable(f"Charter {facts['charter']['hash']}, {by}")), soft_wrap=True)
        console.print(Text(printable(f"  with {', '.join(facts['charter']['sites'])}")))
    for whose, end in facts["certificates"].items():
        console.print(Text(printable(f"{whose[0].upper()}{whose[1:]}: valid until {end}")))
    console.print(Text(printable(f"Data set {facts['dataset']}: ε = {facts['epsilon']:g} spent")))
    for line in _table_words(facts["tables"]):
        console.print(Text(line))
    for run in facts["runs"]:
        line = f"Run {run['run']} of {run['study']}: {run['state']}, last asked {run['seen']}"
        line += f"; {run['audit']}" if run["audit"] else ""
        console.print(Text(printable(line)))
    for name in facts["pending"]:
        console.print(Text(printable(f"Waits for a decision ('site review'): {name}")))
    _warn(facts["warnings"])


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
    from fedrulefit.federation.site.approvals import decide, read_approvals

    for chosen, yes in ((accept, True), (decline, False)):
        if chosen is not None:
            decide(state, chosen, accept=yes, by=whoami())
            stdout().print(Text(f"{chosen}: {'accepted' if yes else 'declined'}."))
            return
    waiting = {
        name: facts for name, facts in read_approvals(state).items() if not facts["decision"]
    }
    if not waiting:
        stdout().print("Nothing waits for a decision.")
    for name, facts in waiting.items():
        console = stdout()
        console.print(Text(f"\n{name} (asked {facts['asked']})", style="bold"))
        for line in facts["words"]:
            console.print(Text(printable(line)))
        yes = typer.confirm("May this leave?")
        decide(state, name, accept=yes, by=whoami())
