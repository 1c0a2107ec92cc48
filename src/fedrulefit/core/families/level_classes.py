r"""The share of patients of a class, inside and outside a rule that counts for this class.

Tallies say who is of the second, third … class (:mod:`fedrulefit.core.families.classes`); who is
of none of these is of the first. Intervals are Wilson's, that of the difference Newcombe's, as of a
yes/no outcome (:mod:`fedrulefit.core.shares`).

Oracle: :func:`fedrulefit.core.subgroups.contrast` on the class against the rest
(``tests/unit/core/test_levels.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.levels import (
    PERCENT,
    ROUNDED,
    UNKNOWN,
    Contrast,
    LevelWords,
    MeasuredLevels,
    Side,
)
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.shares import effective_size, newcombe, wilson


class ClassLevels(MeasuredLevels):
    """Shares of one class, and their difference.

    Parameters
    ----------
    names : sequence of str
        Of the classes.
    own : str, optional
        The class; the first where a rule counts for none.
    """

    drawn = PERCENT

    def __init__(self, names: Sequence[str], own: str | None = None) -> None:
        self.names = tuple(names)
        self.place = 0 if own is None else self.names.index(own)
        self.words = LevelWords(
            level="share",
            gap="difference",
            one="share of the class",
            many="shares of their class",
            unit=" %",
            heading="share",
            gap_heading="Inside − outside (points)",
            shown="and the share of them who are of the class that stands before the rule",
            axis="share of its class: ",
        )

    def of_level(self, name: str | None) -> ClassLevels:
        """Return shares of a class."""
        return ClassLevels(self.names, name)

    def find(self, patients: float, sums: Floats) -> Side:
        """Return the share of the class, from how many are of each but the first."""
        counts = [patients - float(sums.sum()), *sums.tolist()]
        cases, rarest = counts[self.place], min(counts)
        if patients <= 0:
            return Side(patients, math.nan, math.nan, cases, rarest)
        share = min(max(cases / patients, 0.0), 1.0)
        return Side(patients, share, _error(share, patients), cases, rarest)

    def compare(self, inside: Side, outside: Side) -> Contrast:
        """Return both shares and their difference, with intervals."""
        sides = inside, outside
        shares = np.array([side.level for side in sides])
        counts = np.array([side.patients for side in sides])
        if not (counts > 0).all() or not np.isfinite(shares).all():
            return UNKNOWN
        own = np.array([_error(side.level, side.patients) for side in sides])
        noise = np.maximum(np.array([side.error for side in sides]) ** 2 - own**2, 0.0)
        sizes = effective_size(shares, counts, noise)
        low, high = wilson(shares, sizes)
        apart = newcombe(shares[0], sizes[0], shares[1], sizes[1], np.zeros(()))
        (low_in, low_out), (high_in, high_out) = low.tolist(), high.tolist()
        return Contrast(
            inside.level, low_in, high_in, outside.level, low_out, high_out,
            inside.level - outside.level, *map(float, apart),
        )  # fmt: skip

    def fewest(self, side: Side) -> float:
        """Return the fewest of any class; once that is rounded away, of the class and others."""
        cases = side.events or 0.0
        own = min(cases, side.patients - cases)
        return own if side.rarest is None else min(own, side.rarest)

    def step(self, side: Side, rounding: Rounding, unit: float) -> float:
        """Return by how much the share moves with counts that are one step apart."""
        return max(rounding.multiple * unit / side.patients, 1e-3)

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


def _error(share: float, patients: float) -> float:
    """Return a share's standard error."""
    return math.sqrt(share * (1 - share) / patients)
