"""The means, for a file and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.experiments.cutoffs.repetitions import NONE, OWN, SHOWN
from fedrulefit.experiments.markdown import make_table

if TYPE_CHECKING:
    import pandas as pd


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean, SD and standard error of every number, by model, bins and quantiles."""
    grouped = rows.groupby(["model", "bins", "quantiles"])[list(SHOWN)]
    summary = grouped.agg(["mean", "std", "sem"])
    summary.columns = summary.columns.map("_".join)
    return summary.reset_index()


def results_table(summary: pd.DataFrame) -> str:
    """Return the table as Markdown; scores and seconds with their standard errors."""
    head = ["model", "bins", "quantiles", *SHOWN.values()]
    words = {NONE: ("none", "–"), OWN: ("none, own values", "–")}
    digits = {"seconds": 2, "rules": 0, "candidates": 0}
    rows = []
    for row in summary.to_dict("records"):
        point = (row["bins"], row["quantiles"])
        cells = []
        for name in SHOWN:
            mean, error = row[f"{name}_mean"], row[f"{name}_sem"]
            n = digits.get(name, 4)
            with_error = "" if n == 0 else f" ± {error:.{n}f}"
            cells.append("–" if np.isnan(mean) else f"{mean:.{n}f}{with_error}")
        rows.append([str(row["model"]), *words.get(point, map(str, point)), *cells])
    return make_table(head, rows)
