"""Paired comparisons of methods that saw the same patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from fedrulefit.experiments.claims import LEVEL, Mean

BETTER: Final = {"auc": 1, "within_auc": 1, "loss": -1, "brier": -1}
"""Measures, and whether a larger one is better."""
NAMES: Final = {"auc": "AUC", "loss": "log-loss"}
"""Measures on which verdicts are given."""

SILENT: Final = "not told apart"


def by_method(rows: pd.DataFrame, measure: str, *, over: str) -> pd.DataFrame:
    """Return a column per method, a row per draw or split; all methods must have all."""
    table = rows.pivot(index=over, columns="method", values=measure)
    if table.isna().any(axis=None):
        missing = list(table.columns[table.isna().any()])
        raise ValueError(f"not all methods have every {over}: {', '.join(missing)}")
    return table


def compare(values: pd.DataFrame, method: str, reference: str, *, shared: float = 0.0) -> Mean:
    """Return the mean difference of a method to another.

    Parameters
    ----------
    values : DataFrame
        Of :func:`by_method`.
    method, reference : str
    shared : float
        Share of the patients that a number is computed from, where the rows are splits of the
        same patients (:mod:`fedrulefit.experiments.claims`); 0 of independent draws.
    """
    return Mean.over_splits(np.asarray(values[method] - values[reference], float), shared)


def is_clear(difference: Mean) -> bool:
    """Whether a difference, of either sign, is more than chance: two-sided 5 %, Student's t."""
    return abs(difference.mean) > difference.reach(LEVEL / 2)


def tell(difference: Mean) -> str:
    """Return difference and standard error, in bold where it is more than chance."""
    words = difference.words()
    return f"**{words}**" if is_clear(difference) else words


def compare_all(
    rows: pd.DataFrame, ours: str, others: Sequence[str], *, over: str, shared: float = 0.0
) -> dict[tuple[str, str], Mean]:
    """Return the differences of `ours` to each other method, by (method, measure)."""
    tables = {measure: by_method(rows, measure, over=over) for measure in NAMES}
    return {
        (other, measure): compare(tables[measure], ours, other, shared=shared)
        for other in others
        for measure in NAMES
    }


def verdict(measure: str, difference: Mean) -> str:
    """Return whether the first is better or worse, or cannot be told apart."""
    if not is_clear(difference):
        return SILENT
    return "better" if difference.mean * BETTER[measure] > 0 else "worse"


def sum_up(title: str, found: Mapping[tuple[str, str], Mean]) -> str:
    """Return as a line than whom the defaults are better or worse, by which measures."""
    told = {key: verdict(key[1], difference) for key, difference in found.items()}
    parts = []
    for word in ("better", "worse"):
        whom: dict[str, list[str]] = {}
        for (other, measure), is_so in told.items():
            if is_so == word:
                whom.setdefault(other, []).append(NAMES[measure])
        if whom:
            names = [f"{other} ({join(by)})" for other, by in whom.items()]
            parts.append(f"{word} than {join(names)}")
    silent = sum(is_so == SILENT for is_so in told.values())
    if silent:
        parts.append(f"in {silent} of {len(told)} comparisons {SILENT}")
    return f"- **{title}:** the defaults are {'; '.join(parts)}."


def count_verdicts(found: Sequence[Mapping[tuple[str, str], Mean]]) -> str:
    """Return in a sentence how many comparisons there are, and what came out."""
    words = [verdict(key[1], mean) for one in found for key, mean in one.items()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in ("better", "worse", SILENT))
    return (
        f"{len(words)} comparisons of the defaults with another method, each with an error of "
        f"{100 * LEVEL:.0f} % (two-sided, not adjusted for their number: about "
        f"{LEVEL * len(words):.1f} would stand out by chance alone): {counts}."
    )


def join(names: Sequence[str]) -> str:
    """Return names with commas and 'and' between."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
