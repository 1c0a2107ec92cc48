"""The intervals of time of a baseline: public times, none read off the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def place_cuts(horizons: Sequence[float], n_intervals: int) -> tuple[float, ...]:
    """Return the public times that cut the follow-up into intervals, shorter at the start.

    Interval j of K ends at h·(j/K)^1.5, not rounded: days and years have the same intervals. h is
    the last horizon; each other one takes the place of the end next to it.

    Parameters
    ----------
    horizons : sequence of float
        Increasing and above 0.
    n_intervals : int
        K, at least the number of horizons.

    Returns
    -------
    tuple of float, of length n_intervals - 1

    Examples
    --------
    >>> place_cuts([64.0, 512.0], 4)
    (64.0, 181.01933598375618, 332.55375505322445)
    """
    *others, last = horizons
    # Not ** 1.5: roots and products are the same on every machine, powers are not.
    shares = [j / n_intervals for j in range(1, n_intervals)]
    ends = [last * share * math.sqrt(share) for share in shares]
    free = list(ends)
    for horizon in others:
        free.remove(min(free, key=lambda end: abs(end - horizon)))
    return tuple(sorted([*free, *others]))


def increases(numbers: Sequence[float]) -> bool:
    """Whether each number is larger than the one before."""
    return all(a < b for a, b in pairwise(numbers))
