"""Neighbouring bins put together: until each holds enough patients, or into a few groups.

In: weights of patients per public bin. Out: which bins belong together. Nothing leaves a site
here.

Oracle: ``tests/properties/test_yesno_scores.py``, and counting by hand in
``tests/unit/core/test_grouping.py``.
"""

from __future__ import annotations

import numpy as np

from fedrulefit.core.arrays import Floats, Ints


def merge_bins(parts: Floats, least: float) -> Ints | None:
    """Return where merged bins begin, such that each holds at least `least` of each part.

    Parameters
    ----------
    parts : (n_parts, n_bins) float64
        Weights of the kinds of patients that must reach it.
    least : float

    Returns
    -------
    (n_merged,) int64
        The first bin of each, 0 at first; None where all together are too few.
    """
    starts = [0]
    held, left = np.zeros(len(parts)), parts.sum(axis=1)
    if (left < least).any():
        return None
    for b in range(parts.shape[1] - 1):
        held, left = held + parts[:, b], left - parts[:, b]
        if (held >= least).all() and (left >= least).all():  # the last takes what is left over
            starts.append(b + 1)
            held = np.zeros(len(parts))
    return np.array(starts, dtype=np.int64)


def group_bins(weight: Floats, n_groups: int) -> Ints:
    """Return the group of each bin: groups are neighbours, and of similar weight.

    Parameters
    ----------
    weight : (n_bins,) float64
    n_groups : int
        The most groups.

    Returns
    -------
    (n_bins,) int64
    """
    middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    group: Ints = np.minimum((middle * n_groups).astype(np.int64), n_groups - 1)
    return group


def group_ends(group: Ints, ends: Floats, found: Ints) -> tuple[Floats, Floats]:
    """Return where groups begin and end.

    Parameters
    ----------
    group : (n_bins,) int64
        As :func:`group_bins` returns it.
    ends : (n_bins + 1,) float64
        Ends of the bins.
    found : (n_found,) int64
        The groups to tell of.
    """
    first, last = (np.searchsorted(group, found, side) for side in ("left", "right"))
    return ends[first], ends[last]
