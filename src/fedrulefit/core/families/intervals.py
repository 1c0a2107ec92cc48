r"""Numbers with their 95 % intervals: what holds of all of them, whatever the outcome.

In: an estimate, and a standard error or two ends. Out: an interval, or a refusal of one that
cannot be. Nothing leaves a site here.

An explained share is :math:`1 - A/B`, with A a mean loss of the model and B that of the mean alone:
R² of squares, D² of deviances. It can be far below 0 and is never above 1, so its interval is
of :math:`\log(A/B)`, whose influence is :math:`a_i/A - b_i/B` of a patient that adds
:math:`a_i` and :math:`b_i`. No distribution is assumed; how well B's own mean is known moves B
by less.

Oracle: ``tests/unit/core/test_intervals.py``, and simulated coverage there.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import stdtrit

FEWEST: Final = 10
"""Intervals of means over patients rest on at least so many of them."""

Estimate = tuple[float, float, float]
"""A number, and both ends of its 95 % interval."""

UNKNOWN: Final[Estimate] = (math.nan, math.nan, math.nan)


def reach_student(error: float, freedom: float) -> float:
    """Return how far a 95 % interval reaches: Student's t times a standard error."""
    return float(stdtrit(freedom, 0.975)) * error


def estimate(value: float, error: float, n: float, *, lost: int = 1) -> Estimate:
    """Return a number with its interval, unknown of fewer than :data:`FEWEST` patients.

    Parameters
    ----------
    value, error : float
        And its standard error.
    n : float
        Patients.
    lost : int
        Degrees of freedom that they lose.
    """
    if n < FEWEST or not math.isfinite(error):
        return value, math.nan, math.nan
    reach = reach_student(error, n - lost)
    return value, value - reach, value + reach


def estimate_ratio(value: float, error: float, n: float) -> Estimate:
    """Return a number above 0 with its interval, from the standard error of its logarithm."""
    if not value > 0:
        return value, math.nan, math.nan
    _, low, high = (math.exp(end) for end in estimate(math.log(value), error, n))
    if math.isnan(low):
        return value, low, high
    return value, min(low, value), max(high, value)  # exp(log(x)) need not be x


def spread_of_logs(influence: float, n: float) -> float:
    """Return the standard error of the logarithm of a mean loss, or of a ratio of two.

    It is as of five patients fewer, roughly: what is off most adds most, and few samples have it.

    Parameters
    ----------
    influence : float
        Mean square of what one patient moves it by, times n.
    n : float
        Patients.
    """
    return math.sqrt(max(influence, 0.0) / n) * n / max(n - 5, 1)


def estimate_explained(left: float, whole: float, influence: float, n: float) -> Estimate:
    """Return an explained share with its interval.

    Parameters
    ----------
    left, whole : float
        A and B: mean losses of the model, and of the mean alone.
    influence : float
        Mean square of :math:`a_i/A - b_i/B`.
    n : float
        Patients.
    """
    if not whole > 0:
        return UNKNOWN
    ratio, low, high = estimate_ratio(left / whole, spread_of_logs(influence, n), n)
    return 1 - ratio, 1 - high, 1 - low


def check_interval(low: float, value: float, high: float) -> None:
    """Refuse an interval that does not hold its number, or of which one end is not known.

    Raises
    ------
    ValueError
        Then.
    """
    if low > value or value > high:
        raise ValueError("a measure lies outside of its interval")
    if np.isnan(low) != np.isnan(high) or np.isnan(low) < np.isnan(value):
        raise ValueError("a measure knows half of its interval")
