"""All that a run of the coverage study writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedrulefit.experiments.coverage.tables import coverage_table, summarise
from fedrulefit.experiments.markdown import write_texts

if TYPE_CHECKING:
    import pandas as pd


def write_results(rows: pd.DataFrame, folder: Path) -> str:
    """Write the table into `folder`, and return it as Markdown."""
    summary = summarise(rows)
    summary.to_csv(folder / "summary.csv", index=False)
    table = coverage_table(summary)
    write_texts(folder, {"tables.md": table})
    return table
