r"""The mean outcome of patients inside and outside a rule, in the study's unit.

Tallies are t and t², in half ranges h from the middle m. Of n patients

.. math:: \bar y = m + h\,\frac{\sum t}{n},\quad
   s^2 = \frac{h^2}{n-1}\Bigl(\sum t^2 - \frac{(\sum t)^2}{n}\Bigr),\quad se = s/\sqrt n

Intervals are Student's; that of the difference is Welch's. No distribution of the outcome is
assumed beyond that means are about normal.

Oracle: scipy's ``ttest_ind`` (``tests/unit/core/test_sides.py``).
"""

from __future__ import annotations

import math

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.intervals import reach_student
from fedrulefit.core.families.sides import ROUNDED, Contrast, LevelWords, MeasuredLevels, Side
from fedrulefit.core.rounding import Rounding


class MeanLevels(MeasuredLevels):
    """Means of a measured number, and their difference.

    Parameters
    ----------
    low, high : float
        The public range.
    unit : str
    decimals : int
        To which the outcome is told.
    """

    from_zero = False

    def __init__(self, low: float, high: float, unit: str, decimals: int) -> None:
        self.low, self.high, self.decimals = low, high, decimals
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self.words = LevelWords(
            level="mean",
            gap="difference",
            one="mean outcome",
            many="mean outcomes",
            unit=f" {unit}" if unit else "",
            heading="mean",
            gap_heading=f"Inside − outside{f' ({unit})' if unit else ''}",
            shown="and their mean outcome",
            axis="mean of ",
        )

    def find(self, patients: float, sums: Floats) -> Side:
        """Return the mean and its standard error, from Σt and Σt²."""
        if patients <= 0:
            return Side(patients, math.nan, math.nan)
        mean, square = sums / patients
        if patients <= 1:
            return Side(patients, float(self.middle + self.half * mean), math.nan)
        variance = max(square - mean**2, 0.0) / (patients - 1)
        return Side(
            patients, float(self.middle + self.half * mean), float(self.half * math.sqrt(variance))
        )

    def compare(self, inside: Side, outside: Side) -> Contrast:
        """Return means and their difference, with Student's and Welch's intervals."""
        (low, high), (low_out, high_out) = (
            _reach(side.level, side.error, side.patients - 1) for side in (inside, outside)
        )
        gap = inside.level - outside.level
        error = math.hypot(inside.error, outside.error)
        parts = [side.error**4 / max(side.patients - 1, 1) for side in (inside, outside)]
        freedom = error**4 / sum(parts) if sum(parts) > 0 else math.inf
        return Contrast(
            inside.level, low, high, outside.level, low_out, high_out,
            gap, *_reach(gap, error, freedom),
        )  # fmt: skip

    def step(self, side: Side, rounding: Rounding, unit: float) -> float:
        """Return the most that one patient moves the mean."""
        return max(2 * unit / side.patients, 1e-3) * self.half

    def spread(self, side: Side, step: float) -> float:
        """Return the standard deviation of rounding."""
        return ROUNDED * step

    def write(self, level: float, *, coarse: bool) -> str:
        """Return a mean as text."""
        return f"{level:z.{self.decimals}f}"

    def write_gap(self, gap: float, *, coarse: bool) -> str:
        """Return a difference with its sign."""
        return f"{gap:+z.{self.decimals}f}"

    def share(self, level: float, largest: float) -> float:
        """Return where the mean lies in the public range."""
        return (level - self.low) / (self.high - self.low)


def _reach(value: float, error: float, freedom: float) -> tuple[float, float]:
    """Return both ends of Student's 95 % interval; NaN where the error is not known."""
    if not (math.isfinite(error) and freedom > 0):
        return math.nan, math.nan
    reach = reach_student(error, freedom) if math.isfinite(freedom) else 0.0
    return value - reach, value + reach
