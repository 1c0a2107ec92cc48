"""Rows of a model file, checked before sums are made of them.

In: rows of named numbers, as a file has them. Out: nothing, or a refusal.

Oracle: ``tests/unit/core/test_number_judge.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedrulefit.core.arrays import Floats


def check_rows(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> None:
    """Refuse rows of other names, and such that lack a number.

    Raises
    ------
    ValueError
        Then.
    """
    for row in rows:
        if row.keys() != names.keys() or any(value is None for value in row.values()):
            raise ValueError(f"evaluation.groups: each has {', '.join(names)}")


def check_ends(above: Floats, below: Floats) -> None:
    """Refuse groups that do not follow each other without gaps.

    Parameters
    ----------
    above, below : (n_groups,) float64
        Where they begin and end.

    Raises
    ------
    ValueError
        Then.
    """
    if (above[1:] != below[:-1]).any():
        raise ValueError("the groups of the evaluation have gaps")
    if (np.diff([*above, below[-1]]) <= 0).any():
        raise ValueError("the groups of the evaluation do not grow")
