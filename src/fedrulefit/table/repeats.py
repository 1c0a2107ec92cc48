"""Rows that repeat other rows, and columns that say the same of every patient.

In: a table as numbers, NaN where missing. Out: counts, places of columns, and findings: questions
for whoever made the table: a join that went wrong, patients with several rows, one measure twice.

Rows can be equal by chance where a table has few columns of few values. Among pairs of rows that
agree in all columns but one, chance makes as many agree in that one as among all pairs, or somewhat
more; rows that were copied agree always. So copies are told from chance in the column where the
surplus is smallest.

Oracle: pairs counted in loops, copied rows and independent ones
(``tests/unit/table/test_repeats.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedrulefit.core.arrays import Floats
from fedrulefit.study import Study
from fedrulefit.table.findings import Finding, warning

MOST_COLUMNS: Final = 12
"""How many columns, those of most values, are looked at one by one."""

SURPLUS: Final = 0.1
"""Least surplus of agreement that is no chance."""

LARGE_SURPLUS: Final = 0.5
"""The same where half of all rows or more repeat others, as in a table of few values."""

MANY_VALUES: Final = 5
"""A column has many values where one stands for fewer rows than this, on average."""

FEW_OTHERS: Final = 5
"""Fewest patients beside the most frequent value, for columns to be compared."""


REPEATED_ROWS: Final = warning(
    "repeated-rows",
    "{n} of {all} rows repeat another row in every column of the study",
    "check the export for rows that were joined or appended twice; where a patient has several "
    "rows, name the column of patients in the study: [patient]",
)
SAME_AS_OUTCOME: Final = warning(
    "same-as-outcome",
    "tells patients apart exactly as the outcome {other} does",
    "it is probably known only with the outcome: take it out of the study, with all sites",
)
SAME_COLUMNS: Final = warning(
    "same-columns",
    "tells patients apart exactly as column {other} does",
    "keep one of the two in the study, unless they differ at another site",
)


def check_repeats(
    values: Floats, outcome: Floats | None, study: Study, parts: Sequence[str]
) -> list[Finding]:
    """Look for rows and columns that repeat others; `parts` are the columns of the outcome's."""
    whole = values if outcome is None else np.column_stack([outcome, values])
    n_parts = 0 if outcome is None else len(parts)
    names = [*parts[:n_parts], *study.names]
    findings = [
        (SAME_AS_OUTCOME if first < n_parts else SAME_COLUMNS).of(
            names[later], other=repr(names[first])
        )
        for first, later in find_twins(whole)
        if later >= n_parts
    ]
    n_repeats = 0 if study.patient is not None else count_repeats(whole)
    if n_repeats:
        findings.append(REPEATED_ROWS.of(n=n_repeats, all=len(whole)))
    return findings


def count_repeats(values: Floats) -> int:
    """Return how many rows repeat an earlier one, or 0 where that may be chance.

    Parameters
    ----------
    values : (n_rows, n_columns) float64
    """
    n_rows, n_columns = values.shape
    if not n_columns:
        return 0
    whole = np.zeros(n_rows, np.uint64)
    n_alike = np.empty(n_columns)
    for j in range(n_columns):
        codes = pd.factorize(values[:, j])[0]
        whole += _hash(codes, seed=j)
        n_alike[j] = _count_pairs(codes)
    n_repeats = int(n_rows - np.unique(whole).size)
    if not n_repeats:
        return 0
    n_equal = _count_pairs(whole)
    chances = n_alike / (n_rows * (n_rows - 1) / 2)
    least = SURPLUS if 2 * n_repeats < n_rows else LARGE_SURPLUS
    for j in np.argsort(chances)[:MOST_COLUMNS]:
        if chances[j] == 1:
            break
        others = whole - _hash(pd.factorize(values[:, j])[0], seed=int(j))
        agreeing = n_equal / _count_pairs(others)
        if (agreeing - chances[j]) / (1 - chances[j]) < least:
            return 0
    return n_repeats


def find_twins(values: Floats) -> list[tuple[int, int]]:
    """Return places of columns of which each tells patients apart exactly as an earlier one.

    Parameters
    ----------
    values : (n_rows, n_columns) float64

    Returns
    -------
    list of (first, later)
        Few values may be coded otherwise; many must rise or fall together. Columns with nearly
        one value only are not compared.
    """
    seen: dict[bytes, int] = {}
    twins = []
    for j in range(values.shape[1]):
        codes, distinct = pd.factorize(values[:, j], use_na_sentinel=False)
        if len(values) - np.bincount(codes, minlength=len(distinct)).max(initial=0) < FEW_OTHERS:
            continue
        if len(distinct) * MANY_VALUES > len(values):
            codes = _ranks(values[:, j])
        key = blake2b(codes.astype(np.int64).tobytes()).digest()
        first = seen.setdefault(key, j)
        if first != j:
            twins.append((first, j))
    return twins


def _ranks(x: Floats) -> npt.NDArray[np.int64]:
    """Return which value each is by size, from the end that comes first in the table."""
    missing = np.isnan(x)
    ranks = np.unique(x, return_inverse=True)[1].astype(np.int64)
    known = ranks[~missing]
    if known.size and known[0] * 2 > known.max():
        ranks = known.max() - ranks
    return np.where(missing, -1, ranks)


def _hash(codes: npt.NDArray[np.intp], seed: int) -> npt.NDArray[np.uint64]:
    """Return 64 random bits for each code, the same for the same code."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2**64, size=int(codes.max(initial=-1)) + 2, dtype=np.uint64)
    return table[codes + 1]


def _count_pairs(keys: npt.NDArray[Any]) -> float:
    """Return how many pairs of rows have the same key."""
    sizes = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((sizes * (sizes - 1)).sum() / 2)
