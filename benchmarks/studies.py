"""Studies that keep their rows: run on after a stop, and written as parts of a page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import duckdb
import pandas as pd

from fedrulefit.experiments.markdown import write_texts
from fedrulefit.experiments.units import Folder, Unit, machine, run_units, write_parquet


def make_parser(study: str) -> argparse.ArgumentParser:
    """Return a parser of what all studies may be told; `study` names the default folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2, help="processes at the same time")
    parser.add_argument("--output", type=Path, default=Path(f"{study}-study"), help="folder")
    return parser


def run_study(
    study: str,
    units: Sequence[Unit],
    options: argparse.Namespace,
    *,
    seed: int,
    command: str,
    make_texts: Callable[[pd.DataFrame], Mapping[str, str]],
    earlier: Path | None = None,
) -> None:
    """Do the units that are left; write rows and texts into the folder.

    The rows of an `earlier` run stand before these, but for those of the same data sets.
    """
    folder = Folder(options.output, study, {"seed": seed})

    def tell(done: int, n: int) -> None:
        print(f"{done} of {n}", flush=True)

    rows = run_units(units, folder, jobs=options.jobs, on_progress=tell)
    if earlier is not None:
        known = duckdb.read_parquet(str(earlier)).df()
        kept = known[~known["data"].isin(rows["data"])].reindex(columns=rows.columns)
        rows = pd.concat([kept, rows], ignore_index=True)
    write_parquet(folder.path / "results.parquet", rows)
    run = f"Made with `{command}` ({machine()})."
    texts = {"run": run, **make_texts(rows)}
    write_texts(folder.path, {f"{name}.md": text for name, text in texts.items()})
    print(f"Fill the page with: python docs/make_results.py {folder.path}")
