"""What is public of an outcome, read off y where no study declares it, and rounded outward.

The ends are round numbers, so that they say less of single patients, and hardly move with them.
No ε covers what they say: the study has ``ranges_from_data``, and the privacy bill tells.
"""

from __future__ import annotations

import math
from typing import Final

from fedrulefit.core.arrays import Floats
from fedrulefit.core.rounding import round_up_step
from fedrulefit.errors import DataError

STEPS: Final = 20
"""A range is rounded outward to multiples of about this part of it."""


def outward_range(y: Floats) -> tuple[float, float]:
    """Return round numbers at or below, and at or above, all of y.

    Examples
    --------
    >>> import numpy as np
    >>> outward_range(np.array([35.2, 38.7, 41.9]))
    (35.0, 42.0)
    """
    low, high = extremes(y)
    step = round_up_step((high - low) / STEPS)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    ends = math.floor(low / step), math.ceil(high / step)
    below, above = (round(end * step, digits) for end in ends)
    # Of numbers far from 0 and close together, rounding may move an end inside.
    return min(below, low), max(above, high)


def upward(largest: float) -> float:
    """Return the next number of two digits that is as large.

    Examples
    --------
    >>> upward(1234.0), upward(17.0), upward(0.31)
    (1300.0, 17.0, 0.31)
    """
    place = math.floor(math.log10(largest)) - 1
    scaled = math.ceil(largest / 10.0**place * (1 - 1e-12))
    return max(float(f"{scaled}e{place}"), largest)


def extremes(y: Floats) -> tuple[float, float]:
    """Return the smallest and the largest number of y, which are not the same."""
    if not len(y):
        raise ValueError("no patient has a weight above 0: nothing to learn")
    low, high = float(y.min()), float(y.max())
    if low == high:
        raise DataError("y is the same for all patients: there is nothing to learn")
    return low, high
