r"""Risks over time inside and outside a rule: which moments of them may be told.

In: both sides of a rule, with the risk at the end of each public interval
(:class:`~fedrulefit.core.families.sides.Moment`). Out: the same at fewer moments, or none. Nothing
leaves a site here: all follows from sums that the table of subgroups rests on
(:class:`~fedrulefit.core.subgroups.SubgroupSums`).

With a hazard that is constant inside intervals, the risk at their ends is one minus
:math:`\exp(-\sum_k d_k/e_k)`: Kaplan and Meier's curve on the public grid, but for when inside an
interval events were. A step of it counts the events of an interval, and its last ones may rest on a
few patients. So a moment is told where, on both sides of the rule,

* at least k patients have had the event since the moment told before it, and
* at least k were watched through the interval that ends there, and through each one before it.

The last horizon's own risk is told with the rule, where enough have the event and have it not: so
the events since the last moment must be k, too. What is told of a moment is its risk, no finer than
that of the last horizon, with its error, and how many were watched, rounded as counts are.

Oracle: Kaplan and Meier's curve, and each condition, interval by interval
(``tests/unit/core/test_side_curves.py``).
"""

from __future__ import annotations

import math
from dataclasses import replace

from fedrulefit.core.families.sides import ROUNDED, Moment, Side, Sides
from fedrulefit.core.rounding import EXACT, Rounding, round_digits, round_step, round_up_step

_ERROR_DIGITS = 2


def choose_moments(sides: Sides, least: float) -> list[int]:
    """Return at which places of the curves something may be told; the last horizon is not one."""
    told: list[int] = []
    before = [0.0, 0.0]
    n_moments = min(len(side.curve) for side in sides)
    for k in range(n_moments):
        here = [side.curve[k] for side in sides]
        if any(moment.watched < least for moment in here):
            break
        grown = [moment.events - old for moment, old in zip(here, before, strict=True)]
        if min(grown) >= least:
            told.append(k)
            before = [moment.events for moment in here]
    last = [side.events or 0.0 for side in sides]
    while (
        told
        and min(
            whole - side.curve[told[-1]].events for whole, side in zip(last, sides, strict=True)
        )
        < least
    ):
        told.pop()
    return told


def publish_curves(sides: Sides, told: Sides, rounding: Rounding, unit: float) -> Sides:
    """Return the sides with curves of which all may be told.

    Parameters
    ----------
    sides, told : (Side, Side)
        As they were, and with their levels as they are told.
    rounding : Rounding
    unit : float
        The most that one patient counts.
    """
    places = choose_moments(sides, rounding.least(unit))
    first, second = (
        replace(after, curve=tuple(_round(before, k, rounding, unit) for k in places))
        for before, after in zip(sides, told, strict=True)
    )
    return first, second


def _round(side: Side, place: int, rounding: Rounding, unit: float) -> Moment:
    """Return a moment as coarse as the side's own level is told."""
    moment = side.curve[place]
    if rounding == EXACT:
        return moment
    step = rounding.multiple * unit / side.patients
    hazard = -math.log1p(-moment.level)
    spread = ROUNDED * step / ((1 - moment.level) * hazard)
    return Moment(
        moment.time,
        round_step(moment.level, round_up_step(step)),
        round_digits(math.hypot(moment.error, spread), _ERROR_DIGITS),
        rounding.count(moment.watched, unit),
        rounding.count(moment.events, unit),
    )
