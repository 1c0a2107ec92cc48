"""What outcomes of several levels share, ordered or not: they are told by their position.

In: positions 0 … C − 1, shape (n_rows,). Out: indicators of levels. Nothing leaves a site here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats

FEWEST_LEVELS: Final = 3
"""Two levels are a yes/no outcome."""


def check_levels(levels: Sequence[str]) -> tuple[str, ...]:
    """Return the levels.

    Raises
    ------
    ValueError
        If they are fewer than three, or one stands there twice.
    """
    told = tuple(str(level) for level in levels)
    if len(told) < FEWEST_LEVELS or len(set(told)) < len(told):
        raise ValueError("an outcome of several levels has three or more, each once")
    return told


def tell_unseen_levels(names: Sequence[str], seen: Bools) -> str:
    """Return which levels nobody has, and what to do; empty where each has somebody."""
    missing = [repr(names[k]) for k in np.flatnonzero(~seen).tolist()]
    if not missing:
        return ""
    return (
        f"no patient of any site has the level {' or '.join(missing)}: leave it out of the "
        "'levels' of the outcome, or join it with another"
    )


def are_level(outcome: Floats, n_levels: int) -> Floats:
    """Return 1 where a patient has a level, else 0, shape (n_rows, n_levels)."""
    are: Floats = (outcome[:, None] == np.arange(n_levels)).astype(np.float64)
    return are


def reach_level(outcome: Floats, n_levels: int) -> Floats:
    """Return 1 where a patient's level is at least 1 … C − 1, else 0: (n_rows, n_levels − 1)."""
    reached: Floats = (outcome[:, None] >= np.arange(1, n_levels)).astype(np.float64)
    return reached
