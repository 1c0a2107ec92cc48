"""Rows that are the same: of coarse columns by chance, else perhaps of the same patient.

In: the cells of all rows as numbers. Out: how many rows repeat another, where that is more than
chance would make. Leaves the site: nothing; counts may be shown.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats

SHARE: Final = 0.05
"""Share of rows that repeat another from which it is worth a word ..."""

TIMES: Final = 5.0
"""... if that is so many times what chance makes of columns that know nothing of each other."""


def count_repeats(columns: Floats) -> int:
    """Return how many rows are the same as an earlier one; 0 where that is no surprise.

    Parameters
    ----------
    columns : (n_rows, n_columns) float64
        Covariates and outcome; NaN is a value like others.
    """
    cells = np.where(np.isnan(columns), np.inf, columns)  # NaN would be many values
    n_repeats = len(cells) - len(np.unique(cells, axis=0))
    least = max(SHARE * len(cells), TIMES * expect_repeats(cells))
    return n_repeats if n_repeats > least else 0


def expect_repeats(cells: Floats) -> float:
    r"""Return how many rows would repeat another by chance, were the columns independent.

    A row whose like has the chance p is the first of its kind among n rows with the chance
    :math:`(1 - (1 - p)^n) / (n\,p)`.

    Parameters
    ----------
    cells : (n_rows, n_columns) float64
        Without NaN.
    """
    n_rows = len(cells)
    alike = np.zeros(n_rows)
    for column in cells.T:
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        alike += np.log(counts / n_rows)[place]
    chance = np.exp(alike)
    missed = np.exp(n_rows * np.log1p(-np.minimum(chance, 1 - 1e-12)))
    return float((1 - (1 - missed) / (n_rows * chance)).sum())
