"""``fedrulefit ledger``: what left a hospital, for its data-protection officer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedrulefit.cli.console import friendly_errors, printable, stdout
from fedrulefit.cli.options import JsonOption
from fedrulefit.errors import LedgerError
from fedrulefit.privacy.ledger import FIRST, Release, read_rows

app = typer.Typer(name="ledger", help="See and verify what left a site.", no_args_is_help=True)

PathArgument = Annotated[Path, typer.Argument(help="The ledger file.")]


@app.command(epilog="Example: fedrulefit ledger show fedrulefit-site/ledger.jsonl")
@friendly_errors()
def show(
    path: PathArgument,
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every row, not rounds together.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what left: when, to whom, how it was protected, and what it cost."""
    rows = _rows(path)
    everything = [Release.from_facts(row) for row in rows]
    spent = rows[-1]["epsilon_so_far"]["add_or_remove_one"] if rows else 0.0
    last = rows[-1]["hash"] if rows else FIRST
    releases = [r for r in everything if run is None or r.run == run]
    if as_json:
        facts = {
            "releases": [{**asdict(r), "protection": r.protection} for r in releases],
            "epsilon": {"add_or_remove_one": spent, "replace_one": 2 * spent},
            "last_hash": last,
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    console = stdout()
    _print_rows(console, releases, every=every)
    exact = sum(r.epsilon is None and r.sum_of is None for r in everything)
    summed = sum(r.sum_of is not None for r in everything)
    console.print(
        Text(
            f"ε so far: {spent:g} for adding or removing one patient, "
            f"{2 * spent:g} for replacing one. Besides: {exact} releases exactly "
            f"(ε = ∞), {summed} exactly inside secure sums."
        )
    )
    console.print(Text(f"Last hash: {last}"))


@app.command(epilog="Example: fedrulefit ledger verify fedrulefit-site/ledger.jsonl")
@friendly_errors()
def verify(
    path: PathArgument,
    expect: Annotated[
        str | None, typer.Option(help="A hash noted before, which must be in the chain.")
    ] = None,
) -> None:
    """Check that no row was changed, moved or taken out.

    Rows cut off at the end are noticed by the site's journal, where it lies beside the ledger,
    or with --expect: note the last hash elsewhere.
    """
    hashes = [row["hash"] for row in _rows(path)]
    _compare_with_journal(path)
    if expect is not None and expect not in hashes:
        raise LedgerError(f"{path}: the chain does not hold {expect}: rows were taken out")
    last = hashes[-1] if hashes else "none"
    stdout().print(Text(f"{path}: {len(hashes)} rows, the chain holds. Last hash: {last}"))


def _compare_with_journal(path: Path) -> None:
    """Refuse a ledger that does not end where its site's journal says."""
    from fedrulefit.federation.journal import Journal
    from fedrulefit.federation.site.status import check_ledger
    from fedrulefit.federation.state import JOURNAL, LEDGER

    beside = path.with_name(JOURNAL)
    if path.name != LEDGER or not beside.exists():
        return
    journal = Journal(beside, read_only=True)
    try:
        wrong = check_ledger(path, journal)
    finally:
        journal.close()
    if wrong is not None:
        raise LedgerError(wrong)


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise LedgerError(f"there is no ledger {path}")
    return list(read_rows(path))


def _print_rows(console: Console, releases: Sequence[Release], *, every: bool) -> None:
    """One table per run; rounds of a fit together, unless every row is wanted."""
    runs: dict[tuple[str, str, str], dict[tuple[object, ...], list[Release]]] = {}
    for release in releases:
        key = release.message, release.quantity, release.digest if every else ""
        run_key = release.run, release.study, release.recipient
        runs.setdefault(run_key, {}).setdefault(key, []).append(release)
    for (run, study, recipient), groups in runs.items():
        times = [row.time for rows in groups.values() for row in rows if row.time]
        when = f", {min(times)} to {max(times)}" if times else ""
        title = f"Run {run} of {study}, to the {recipient}{when}"
        console.print(Text(printable(title), style="bold"))
        table = Table("message", "quantity", "numbers", "times", "protection", box=None)
        for rows in groups.values():
            first, sizes = rows[0], {_size(row) for row in rows}
            numbers = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)}–{max(sizes)}"
            cells = (first.message, printable(first.quantity), numbers, str(len(rows)))
            table.add_row(*cells, first.protection)
        console.print(table)
        console.print()


def _size(release: Release) -> int:
    size = 1
    for length in release.shape:
        size *= length
    return size
