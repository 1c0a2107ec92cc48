"""``fedrulefit experiment``: rerun the paper's studies, and see how often our intervals hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.progress import TimeRemainingColumn as Remaining
from rich.text import Text

from fedrulefit.cli.console import friendly_errors, printable, stderr, stdout

if TYPE_CHECKING:
    import pandas as pd

    from fedrulefit.experiments.claims import Claim
    from fedrulefit.experiments.methods import Effort
    from fedrulefit.experiments.units import Unit

app = typer.Typer(
    name="experiment",
    help="Rerun the paper's studies, and see how often our intervals hold.",
    no_args_is_help=True,
)

Repetitions = Annotated[
    int | None,
    typer.Option(help="Repetitions of every setting.", min=2, show_default="100; 2 with --quick"),
]
Jobs = Annotated[int, typer.Option(help="Processes that work at the same time.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of patients, splits, trees and noise.", min=0)]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="Folder of the results; a stopped run goes on.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Few trees and rounds, to see that it runs: no results.")
]

_QUICK: Final = "A quick run: everything works, but its numbers mean nothing."


@app.callback()
def _experiment() -> None:
    """Rerun the paper's studies, and see how often our intervals hold."""


@app.command(epilog="Example: fedrulefit experiment simulation --repetitions 100 --jobs 2")
@friendly_errors()
def simulation(
    output: Output = Path("paper-study/simulation"),
    repetitions: Repetitions = None,
    jobs: Jobs = 2,
    seed: Seed = 2026,
    quick: Quick = False,
    methods: Annotated[
        str | None, typer.Option(help="Only these, with commas between.", show_default="all")
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(help="results.parquet of a run with the same seed: only adds what it lacks."),
    ] = None,
) -> None:
    """Compare all methods on simulated patients: scenarios 1–3, models 1 and 2."""
    import hashlib

    from fedrulefit.experiments import simulation as study
    from fedrulefit.experiments.methods import METHODS, parse_methods
    from fedrulefit.experiments.units import read_rows

    chosen = METHODS if methods is None else parse_methods(methods)
    known = None if earlier is None else read_rows(earlier)
    facts = {} if methods is None else {"methods": ",".join(chosen)}
    if earlier is not None:
        digest = hashlib.sha256(earlier.read_bytes()).hexdigest()
        facts |= {"earlier": earlier.name, "earlier_sha256": digest}

    def make_units(n: int, *, seed: int, effort: Effort) -> Sequence[Unit]:
        units = study.make_units(n, seed=seed, effort=effort, methods=chosen)
        return units if known is None else study.leave_out_known(units, known)

    _rerun(
        "simulation", make_units, study.write_results, output, repetitions, jobs, seed, quick,
        facts=facts, known=known,
    )  # fmt: skip


@app.command(epilog="Example: fedrulefit experiment cutoffs --repetitions 100 --jobs 2")
@friendly_errors()
def cutoffs(
    output: Output = Path("paper-study/cutoffs"),
    repetitions: Repetitions = None,
    jobs: Jobs = 2,
    seed: Seed = 2026,
    quick: Quick = False,
) -> None:
    """Vary the histograms' bins and quantiles (the paper's appendix 2)."""
    from fedrulefit.experiments.cutoffs import make_units, write_results

    _rerun("cutoffs", make_units, write_results, output, repetitions, jobs, seed, quick)


@app.command(epilog="Example: fedrulefit experiment trauma --data trauma.csv")
@friendly_errors()
def trauma(
    output: Output = Path("paper-study/trauma"),
    data: Annotated[
        Path | None,
        typer.Option(help="trauma.csv or its folder; without it, FEDRULEFIT_DATA or a download."),
    ] = None,
    repetitions: Repetitions = None,
    jobs: Jobs = 2,
    seed: Seed = 2026,
    quick: Quick = False,
) -> None:
    """Compare with BFI on the paper's trauma patients, and show the rules."""
    from fedrulefit.experiments import trauma as study
    from fedrulefit.experiments.methods import Effort

    # Read, or downloaded into the folder, once it is clear that the folder is this run's.
    patients = cache(lambda: study.load_trauma(data, folder=output))

    def make_units(n: int, *, seed: int, effort: Effort) -> Sequence[Unit]:
        return study.make_units(n, seed=seed, effort=effort, patients=patients())

    def write_results(rows: pd.DataFrame, folder: Path) -> list[Claim]:
        models = study.fit_all(patients(), seed=seed, effort=Effort(quick))
        return study.write_results(rows, models, folder)

    _rerun("trauma", make_units, write_results, output, repetitions, jobs, seed, quick)


@app.command(epilog="Example: fedrulefit experiment coverage --repetitions 1000 --jobs 2")
@friendly_errors()
def coverage(
    output: Output = Path("coverage"),
    repetitions: Annotated[
        int | None,
        typer.Option(help="Draws of every setting.", min=2, show_default="1000; 2 with --quick"),
    ] = None,
    jobs: Jobs = 2,
    seed: Seed = 2026,
    quick: Quick = False,
) -> None:
    """Count how often the 95 % intervals of our measures hold the truth, with few events too."""
    from fedrulefit.experiments.coverage import make_units, write_results

    _count_coverage("coverage", make_units, write_results, output, repetitions, jobs, seed, quick)


@app.command(epilog="Example: fedrulefit experiment hospitals --repetitions 1000 --jobs 2")
@friendly_errors()
def hospitals(
    output: Output = Path("hospitals"),
    repetitions: Annotated[
        int | None,
        typer.Option(help="Draws of every setting.", min=2, show_default="1000; 2 with --quick"),
    ] = None,
    jobs: Jobs = 2,
    seed: Seed = 2026,
    quick: Quick = False,
) -> None:
    """Count how often 95 % intervals of a mean over hospitals, and of a further one, hold."""
    from fedrulefit.experiments.coverage.hospitals import make_units, write_results

    _count_coverage("hospitals", make_units, write_results, output, repetitions, jobs, seed, quick)


@app.command(epilog="Example: fedrulefit experiment evidence --repetitions 100 --jobs 2")
@friendly_errors()
def evidence(
    output: Output = Path("evidence"),
    repetitions: Annotated[
        int | None,
        typer.Option(help="Models of every setting.", min=2, show_default="1000; 2 with --quick"),
    ] = None,
    jobs: Jobs = 2,
    seed: Seed = 2026,
    quick: Quick = False,
) -> None:
    """Count how often the 95 % intervals of rules on held-out patients hold, and false alarms."""
    from fedrulefit.experiments.coverage.evidence import make_units, write_results

    _count_coverage("evidence", make_units, write_results, output, repetitions, jobs, seed, quick)


def _count_coverage(
    experiment: str,
    make_units: _MakeUnits,
    write_results: Callable[[pd.DataFrame, Path], str],
    output: Path,
    repetitions: int | None,
    jobs: int,
    seed: int,
    quick: bool,
) -> None:
    """Run what is left of a study of coverage, and print its table."""
    tables = []

    def keep_table(rows: pd.DataFrame, folder: Path) -> list[Claim]:
        tables.append(write_results(rows, folder))
        return []

    draws = repetitions or (2 if quick else 1000)
    _rerun(experiment, make_units, keep_table, output, draws, jobs, seed, quick)
    for table in tables:
        stdout().print(Text(table), soft_wrap=True)


class _MakeUnits(Protocol):
    def __call__(self, n: int, /, *, seed: int, effort: Effort) -> Sequence[Unit]: ...


def _rerun(
    experiment: str,
    make_units: _MakeUnits,
    write_results: Callable[[pd.DataFrame, Path], list[Claim]],
    output: Path,
    repetitions: int | None,
    jobs: int,
    seed: int,
    quick: bool,
    *,
    facts: Mapping[str, str] = MappingProxyType({}),
    known: pd.DataFrame | None = None,
) -> None:
    """Run what is left of an experiment, write its results, and say what came out."""
    import pandas as pd

    from fedrulefit.experiments.claims import claims_table
    from fedrulefit.experiments.markdown import write_texts
    from fedrulefit.experiments.methods import Effort
    from fedrulefit.experiments.units import Folder, run_units, write_parquet

    folder = Folder(output, experiment, {"seed": seed, "quick": quick, **facts})
    n = repetitions or (2 if quick else 100)
    units = make_units(n, seed=seed, effort=Effort(quick))
    parts: list[pd.DataFrame] = [] if known is None else [known]
    if not units:
        folder.write_record(jobs=jobs, seconds=0.0)
    else:
        with _progress(stderr(), experiment) as tell:
            parts.append(run_units(units, folder, jobs=jobs, on_progress=tell))
    rows = pd.concat(parts, ignore_index=True)
    write_parquet(folder.path / "results.parquet", rows)
    claims = write_results(rows, folder.path)
    head = f"{_QUICK}\n\n" if quick else ""
    told = folder.describe(units, n) if units else "All rows are of an earlier run."
    texts = {"claims.md": head + claims_table(claims)} if claims else {}
    write_texts(folder.path, {**texts, "run.md": told})
    if quick:
        stdout().print(Text(_QUICK))
    else:
        _show_claims(stdout(), claims)
    if claims:
        made = ", tables, figures and claims.md"
    else:
        made = ", tables" if (folder.path / "tables.md").exists() else ", of some methods only"
    stdout().print(Text(f"In {folder.path}/: results.parquet{made}."))


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Callable[[int, int], None]]:
    """Show how much is done and how long the rest takes; in a log, a line a minute."""
    if not console.is_terminal:
        yield _Log(console, name)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(),
        Elapsed(), TextColumn("left"), Remaining(),
    )  # fmt: skip
    # A repetition takes long: the speed is that of the last hour, not of the last seconds.
    with Progress(*columns, console=console, speed_estimate_period=3600) as bar:
        task = bar.add_task(name, total=None)

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield tell


class _Log:
    """Progress for a file: at most a line a minute."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._start: tuple[float, int] | None = None
        self._told = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._start is None:
            self._start = now, done
        elif now - self._told < 60 and done < total:
            return
        self._told = now
        started, before = self._start
        left = ""
        if before < done < total:
            minutes = (now - started) / (done - before) * (total - done) / 60
            left = f", about {minutes:.0f} min left"
        self._console.print(Text(f"{self._name}: {done} of {total}{left}"))


def _show_claims(console: Console, claims: Sequence[Claim]) -> None:
    for claim in claims:
        console.print(Text(printable(claim.text), style="bold"))
        for label, verdict in (("paper", claim.paper), ("ours", claim.ours)):
            if verdict is not None:
                style = {True: "green", False: "red", None: "yellow"}[verdict.holds]
                numbers = printable(verdict.numbers)
                console.print(Text.assemble(f"  {label:<6}", (verdict.word, style), f": {numbers}"))
