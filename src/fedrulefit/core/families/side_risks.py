r"""The risk of an event by the last horizon, inside and outside a rule.

Tallies are events :math:`d_k` and time at risk :math:`e_k` by interval, as shares of its length
(:mod:`fedrulefit.core.families.time`). Patients who are not followed to the end count as long as
they are. With a hazard that is constant inside intervals

.. math:: H = \sum_k d_k/e_k,\quad \text{risk} = 1 - e^{-H},\quad
   se(\log H)^2 = \sum_k d_k/e_k^2 \,/\, H^2

The same holds by the end of each interval before it: a curve, told at few moments
(:mod:`fedrulefit.core.families.side_curves`). Intervals are even for :math:`\log H`; that of the
difference is put together from both risks' own (Zou and Donner 2008, Statistics in Medicine 27:
1693–1702). Unknown where nobody is followed through some interval.

Oracle: Kaplan and Meier's curve, and simulated coverage (``tests/unit/core/test_sides.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.side_curves import publish_curves
from fedrulefit.core.families.sides import (
    PERCENT,
    ROUNDED,
    Contrast,
    LevelWords,
    MeasuredLevels,
    Moment,
    Side,
    Sides,
)
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.shares import Z95


class RiskLevels(MeasuredLevels):
    """Risks by the last horizon, and their difference.

    Parameters
    ----------
    by : str
        The horizon, with its unit.
    ends : (K,) sequence of float
        Where intervals end, the last at the horizon.
    """

    drawn = PERCENT
    event = "the event"

    def __init__(self, by: str, ends: Sequence[float]) -> None:
        self.ends = tuple(float(end) for end in ends)
        self.words = LevelWords(
            level="risk",
            gap="difference",
            one="observed risk",
            many="observed risks",
            unit=" %",
            heading="risk",
            gap_heading="Inside − outside (points)",
            shown=f"and the risk of the event by {by} that was observed among them, with "
            "follow-up that ended earlier accounted for",
            axis=f"risk by {by}: ",
        )

    def find(self, patients: float, sums: Floats) -> Side:
        """Return the risk and the standard error of log H, from Σd and Σe by interval."""
        events, watched = np.split(sums, 2)
        return self.follow(patients, events[None], watched)

    def follow(self, patients: float, events: Floats, watched: Floats) -> Side:
        """Return the risk by the last horizon, and by the end of each interval before it.

        Parameters
        ----------
        patients : float
        events : (n_causes, K) float64
            Of each cause that there is, the one of interest first.
        watched : (K,) float64
            Time at risk, as shares of the intervals.
        """
        known = int(np.argmin(watched > 0)) if not (watched > 0).all() else len(watched)
        levels, errors = self.grow(events[:, :known], watched[:known])
        counts = np.cumsum(events[0])
        columns = (self.ends, levels, errors, watched, counts)
        rows = zip(*(np.asarray(column)[:known].tolist() for column in columns), strict=True)
        curve = tuple(Moment(*row) for row in rows)
        whole = float(counts[-1])
        if known < len(watched):
            return Side(patients, math.nan, math.nan, whole, curve=curve)
        return Side(patients, curve[-1].level, curve[-1].error, whole, curve=curve[:-1])

    def grow(self, events: Floats, watched: Floats) -> tuple[Floats, Floats]:
        """Return the risk by the end of each interval, and the standard error of log H."""
        hazard = np.cumsum(events[0] / watched)
        spread = np.sqrt(np.cumsum(events[0] / watched**2))
        with np.errstate(divide="ignore", invalid="ignore"):
            return -np.expm1(-hazard), np.where(hazard > 0, spread / hazard, np.nan)

    def publish(self, sides: Sides, rounding: Rounding, unit: float) -> Sides | None:
        """Return what may be told of a rule, curves among it; None where too few on a side."""
        told = super().publish(sides, rounding, unit)
        return told and publish_curves(sides, told, rounding, unit)

    def reach(self, moment: Moment) -> tuple[float, float]:
        """Return both ends of the 95 % interval of the risk by a time."""
        return _reach(moment)

    def compare(self, inside: Side, outside: Side) -> Contrast:
        """Return both risks and their difference, with intervals."""
        (low, high), (low_out, high_out) = _reach(inside), _reach(outside)
        gap = inside.level - outside.level
        below = math.hypot(inside.level - low, high_out - outside.level)
        above = math.hypot(high - inside.level, outside.level - low_out)
        return Contrast(
            inside.level, low, high, outside.level, low_out, high_out,
            gap, max(gap - below, -1.0), min(gap + above, 1.0),
        )  # fmt: skip

    def fewest(self, side: Side) -> float:
        """Return the fewer of those with and without the event."""
        events = side.events or 0.0
        return min(events, side.patients - events)

    def step(self, side: Side, rounding: Rounding, unit: float) -> float:
        """Return by how much the share of events moves with counts that are one step apart."""
        return rounding.multiple * unit / side.patients

    def spread(self, side: Side, step: float) -> float:
        """Return the standard deviation of rounding, of log H."""
        hazard = -math.log1p(-side.level)
        return ROUNDED * step / ((1 - side.level) * hazard)

    def write(self, level: float, *, coarse: bool) -> str:
        """Return a risk in percent, of rounded counts without decimals."""
        return f"{100 * level:z.{0 if coarse else 1}f}"

    def write_gap(self, gap: float, *, coarse: bool) -> str:
        """Return a difference in percentage points, with its sign."""
        return f"{100 * gap:+z.{0 if coarse else 1}f}"

    def share(self, level: float, largest: float) -> float:
        """Return the risk itself."""
        return level


def _reach(side: Side | Moment) -> tuple[float, float]:
    """Return both ends of a risk's 95 % interval."""
    if not (0 < side.level < 1 and math.isfinite(side.error)):
        return math.nan, math.nan
    hazard = -math.log1p(-side.level)
    low, high = (-math.expm1(-hazard * math.exp(sign * Z95 * side.error)) for sign in (-1, 1))
    return low, high
