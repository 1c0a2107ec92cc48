"""The share of patients on one side of a split of levels, inside and outside a rule.

The first tallies count who is beyond the split: of levels in an order, who is at the second or
a higher one, of classes, who is of another than the first (all tallies together). Intervals are
Wilson's, and Newcombe's for the difference (:mod:`fedrulefit.core.shares`), of as many patients
as the published error tells.

Beside that share, how many patients are at each level; of a rule of which some level has too few
on either side, no level's number is told.

Oracle: simulated coverage (``tests/unit/core/test_sides.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    Sides,
)
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.shares import newcombe, wilson


class SplitLevels(MeasuredLevels):
    """Shares of patients beyond a split of levels, and their difference.

    Parameters
    ----------
    beyond : str
        Who they are, behind “share”: ``above the level 2``.
    names : sequence of str
        The levels.
    ordered : bool
        Whether tallies count who is at least at each level, not who is at it.
    """

    drawn = PERCENT

    def __init__(self, beyond: str, names: Sequence[str], *, ordered: bool) -> None:
        self.names, self.ordered = tuple(names), ordered
        self.n_counted = 1 if ordered else len(self.names) - 1
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
        """Return the share, its standard error and the patients at each level."""
        counted = float(sums[: self.n_counted].sum())
        if patients <= 0:
            return Side(patients, math.nan, math.nan, counted)
        share = min(max(counted / patients, 0.0), 1.0)
        error = math.sqrt(share * (1 - share) / patients)
        return Side(patients, share, error, counted, self._count_levels(patients, sums))

    def _count_levels(self, patients: float, sums: Floats) -> tuple[float, ...]:
        """Return the patients at each level."""
        if self.ordered:
            return tuple((-np.diff(sums, prepend=patients, append=0.0)).tolist())
        return (patients - float(sums.sum()), *sums.tolist())

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

    def publish(self, sides: Sides, rounding: Rounding, unit: float) -> Sides | None:
        """Return what may be told of a rule: of no level, where one has too few on a side.

        What is left of all others would tell how few they are.
        """
        fewest = min(min(side.at_levels, default=0.0) for side in sides)
        if fewest < rounding.least(unit):
            inside, outside = (replace(side, at_levels=()) for side in sides)
            sides = inside, outside
        return super().publish(sides, rounding, unit)

    def round(self, side: Side, rounding: Rounding, unit: float) -> Side:
        """Return the share that follows from rounded counts, and rounded counts of levels."""
        told = super().round(side, rounding, unit)
        return replace(
            told,
            level=min((told.events or 0.0) / told.patients, 1.0),
            at_levels=tuple(rounding.count(x, unit) for x in side.at_levels),
        )

    def split(self, side: Side) -> tuple[float, ...]:
        """Return the share of patients at each level; empty where that is not told."""
        whole = sum(side.at_levels)  # rounded counts need not add up to the patients
        return tuple(x / whole for x in side.at_levels)

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
