r"""The rate of what is counted, inside and outside a rule, and the rate ratio.

Tallies are u, e, u², u·e and e²: counts and exposures as shares of the largest
(:mod:`fedrulefit.core.families.count`), and what tells how well their ratio is known. With
:math:`R = \sum u/\sum e`

.. math:: se(\log R)^2 = \frac{n}{n-1}\,\frac{\sum (u - R e)^2}{(R\sum e)^2}

No distribution of counts is assumed: patients may differ by more than Poisson's. Intervals are
even on the logarithmic scale; the logarithm of the ratio of two rates has the sum of their
variances.

Oracle: sums over patients and simulated coverage (``tests/unit/core/test_sides.py``).
"""

from __future__ import annotations

import math

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.sides import ROUNDED, Contrast, LevelWords, MeasuredLevels, Side
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.shares import Z95
from fedrulefit.numerals import format_effect

N_TALLIES = 5


class RateLevels(MeasuredLevels):
    """Rates of what is counted, and their ratio.

    Parameters
    ----------
    rate : float
        What Σu/Σe = 1 means, as people are told rates.
    most : float
        The largest count.
    unit : str
        Behind a rate, with its blank: `` per 100 days``.
    counted : str
        What is counted.
    """

    def __init__(self, rate: float, most: float, unit: str, counted: str) -> None:
        self.rate, self.most = rate, most
        self.words = LevelWords(
            level="rate",
            gap="rate_ratio",
            one="rate",
            many="rates",
            unit=unit,
            heading="rate",
            gap_heading="Rate ratio, inside to outside",
            shown=f"and the rate of {counted}",
            axis="rate of ",
            few=f"fewer than that many {counted} were counted there",
        )

    def find(self, patients: float, sums: Floats) -> Side:
        """Return the rate and the standard error of its logarithm, from the sums of tallies."""
        counts, exposure, squares, products, wide = sums.tolist()
        if not (patients > 0 and exposure > 0):
            return Side(patients, math.nan, math.nan, 0.0)
        ratio, events = counts / exposure, counts * self.most
        if counts <= 0 or patients <= 1:
            return Side(patients, self.rate * ratio, math.nan, events)
        spread = max(squares - 2 * ratio * products + ratio**2 * wide, 0.0)
        error = math.sqrt(spread * patients / (patients - 1)) / counts
        return Side(patients, self.rate * ratio, error, events)

    def compare(self, inside: Side, outside: Side) -> Contrast:
        """Return both rates and their ratio, with intervals that are even for logarithms."""
        gap = inside.level / outside.level if outside.level > 0 else math.nan
        error = math.hypot(inside.error, outside.error)
        found = [
            (level, level * math.exp(-Z95 * own), level * math.exp(Z95 * own))
            for level, own in (
                (inside.level, inside.error),
                (outside.level, outside.error),
                (gap, error),
            )
        ]
        return Contrast(*found[0], *found[1], *found[2])

    def step(self, side: Side, rounding: Rounding, unit: float) -> float:
        """Return by how much the rate moves with the counts that are one step apart."""
        return rounding.multiple * unit * side.level / max(side.events or 0.0, 1.0)

    def spread(self, side: Side, step: float) -> float:
        """Return the standard deviation of rounding, of the logarithm."""
        return ROUNDED * step / side.level

    def write(self, level: float, *, coarse: bool) -> str:
        """Return a rate as text."""
        return f"{level:.0f}" if level >= 100 else f"{level:#.3g}"

    def write_gap(self, gap: float, *, coarse: bool) -> str:
        """Return a rate ratio."""
        return format_effect(gap)

    def share(self, level: float, largest: float) -> float:
        """Return the rate as a share of the largest beside it."""
        return level / largest if largest > 0 else 0.0
