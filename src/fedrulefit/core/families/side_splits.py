"""The share of patients on one side of a split of levels, inside and outside a rule.

The first tallies count who is beyond the split: of levels in an order, who is at the second or
a higher one, of classes, who is of another than the first (all tallies together). Intervals are
Wilson's, and Newcombe's for the difference (:mod:`fedrulefit.core.shares`), of as many patients
as the published error tells.

Oracle: simulated coverage (``tests/unit/core/test_sides.py``).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.sides import (
    PERCENT,
    ROUNDED,
    Contrast,
    LevelWords,
    MeasuredLevels,
    Side,
)
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.shares import newcombe, wilson


class SplitLevels(MeasuredLevels):
    """Shares of patients beyond a split of levels, and their difference.

    Parameters
    ----------
    beyond : str
        Who they are, behind “share”: ``above the level 2``.
    n_counted : int
        How many of the tallies count them.
    """

    drawn = PERCENT

    def __init__(self, beyond: str, n_counted: int) -> None:
        self.n_counted = n_counted
        self.words = LevelWords(
            level="share",
            gap="difference",
            one=f"share {beyond}",
            many=f"shares {beyond}",
            unit=" %",
            heading="share",
            gap_heading="Inside − outside (points)",
            shown=f"and the share of them {beyond}",
            axis=f"share {beyond}: ",
            few=f"fewer than that many are {beyond}, or are not, there",
        )

    def find(self, patients: float, sums: Floats) -> Side:
        """Return the share and its standard error."""
        counted = float(sums[: self.n_counted].sum())
        if patients <= 0:
            return Side(patients, math.nan, math.nan, counted)
        share = min(max(counted / patients, 0.0), 1.0)
        return Side(patients, share, math.sqrt(share * (1 - share) / patients), counted)

    def compare(self, inside: Side, outside: Side) -> Contrast:
        """Return both shares and their difference, with Wilson's and Newcombe's intervals."""
        shares = np.array([inside.level, outside.level])
        errors = np.array([inside.error, outside.error])
        sizes = shares * (1 - shares) / np.maximum(errors, 1e-12) ** 2
        (low, low_out), (high, high_out) = (ends.tolist() for ends in wilson(shares, sizes))
        (first, second), (n_first, n_second) = shares[:, None], sizes[:, None]
        ends = newcombe(first, n_first, second, n_second, np.zeros(1))
        low_gap, high_gap = (float(end[0]) for end in ends)
        return Contrast(
            inside.level, low, high, outside.level, low_out, high_out,
            inside.level - outside.level, low_gap, high_gap,
        )  # fmt: skip

    def fewest(self, side: Side) -> float:
        """Return the fewer of those beyond the split, and those who are not."""
        counted = side.events or 0.0
        return min(counted, side.patients - counted)

    def round(self, side: Side, rounding: Rounding, unit: float) -> Side:
        """Return the share that follows from rounded counts."""
        told = super().round(side, rounding, unit)
        return replace(told, level=min((told.events or 0.0) / told.patients, 1.0))

    def step(self, side: Side, rounding: Rounding, unit: float) -> float:
        """Return by how much the share moves with counts that are one step apart."""
        return rounding.multiple * unit / side.patients

    def spread(self, side: Side, step: float) -> float:
        """Return the standard deviation of rounding."""
        return ROUNDED * step

    def write(self, level: float, *, coarse: bool) -> str:
        """Return a share in percent, of rounded counts without decimals."""
        return f"{100 * level:z.{0 if coarse else 1}f}"

    def write_gap(self, gap: float, *, coarse: bool) -> str:
        """Return a difference in percentage points, with its sign."""
        return f"{100 * gap:+z.{0 if coarse else 1}f}"

    def share(self, level: float, largest: float) -> float:
        """Return the share itself."""
        return level
