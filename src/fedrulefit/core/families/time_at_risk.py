r"""Follow-up in public intervals of time: how long somebody was at risk in each, and the event.

In: entry, time and event of each patient, and where the intervals end. Out: with
:math:`c_0 = 0 < c_1 < … < c_K` the ends, for each patient and interval

=====================================================================  ===============  ==========
mathematics                                                            here             shape
=====================================================================  ===============  ==========
:math:`e_k`, time at risk in :math:`(c_{k-1}, c_k]`, as a share of it  ``exposure``     (n_rows, K)
:math:`d_k`, 1 where the event happened there                          ``event``        (n_rows, K)
=====================================================================  ===============  ==========

So somebody who came late is not at risk before, and nobody is after the last end: an event
there does not count. Shares do not depend on the unit of time: times are compared as multiples of
2⁻³⁰ of the whole, and shares are multiples of 2⁻²⁰, so that days and years give the same to the
last bit.

The event's own part has a share of at least :data:`SHORTEST`: an event at the very moment of entry
(on day 0, for instance) would otherwise be one at no risk, and without bound its hazard. That
moves a hazard of one event per interval by 0.3 %, and smaller ones by less.

Oracle: patient by patient, in plain Python (``tests/unit/core/test_time_family.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.rounding import round_to

SHORTEST: Final = 5 / 64
"""The part of an interval that ends with the event is at least so large a share of it."""

STEP: Final = 2.0**-20
"""Shares are multiples of this."""

TICK: Final = 2.0**-30
"""Times are compared as multiples of this share of the whole, or days and years would differ."""


def check_ends(cuts: Sequence[float], horizons: Sequence[float]) -> Floats:
    """Return where the intervals end, from 0 to the last horizon, shape (K + 1,).

    Raises
    ------
    ValueError
        If the horizons or the cuts between do not grow, or lie outside.
    """
    steps = np.asarray(horizons, dtype=np.float64)
    if not (len(steps) and np.isfinite(steps).all() and (np.diff(steps, prepend=0.0) > 0).all()):
        raise ValueError("horizons must grow, and the first lie above 0")
    ends = np.concatenate([[0.0], np.asarray(cuts, dtype=np.float64), steps[-1:]])
    if not (np.diff(ends) > 0).all():
        raise ValueError("cuts must grow, and lie between 0 and the last horizon")
    return ends


def to_ticks(times: Floats, last: float) -> Floats:
    """Return times as shares of the last, in multiples of 2⁻³⁰: the same for days and years."""
    return round_to(times / last, TICK)


def find_interval(time: Floats, ends: Floats) -> Ints:
    """Return in which interval a time lies, shape (n_rows,); its end belongs to an interval."""
    found: Ints = np.clip(np.searchsorted(ends, time, side="left") - 1, 0, len(ends) - 2)
    return found


@dataclass(frozen=True, eq=False)
class AtRisk:
    """Follow-up by interval.

    Parameters
    ----------
    exposure : (n_rows, K) float64
        Time at risk, as a share of the interval's length.
    event : (n_rows, K) float64
        1 where the event happened, else 0.
    """

    exposure: Floats
    event: Floats


def at_risk(outcome: Floats, ends: Floats) -> AtRisk:
    """Return follow-up by interval.

    Parameters
    ----------
    outcome : (n_rows, 3) float64
        Entry, time of the event or of the last news, and event (1) or none (0).
    ends : (K + 1,) float64
        Where intervals end, from 0 on.
    """
    happened = outcome[:, 2]
    entry, time = to_ticks(outcome[:, :2], ends[-1]).T
    ends = to_ticks(ends, ends[-1])
    since = np.maximum(entry[:, None], ends[:-1])
    until = np.minimum(time[:, None], ends[1:])
    exposure = round_to(np.maximum(until - since, 0.0) / np.diff(ends), STEP)
    event = np.zeros_like(exposure)
    counts = np.flatnonzero((happened > 0) & (time <= ends[-1]))
    where = find_interval(time[counts], ends)
    event[counts, where] = 1.0
    exposure[counts, where] = np.maximum(exposure[counts, where], SHORTEST)
    return AtRisk(exposure, event)
