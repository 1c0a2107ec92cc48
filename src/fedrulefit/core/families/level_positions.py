r"""The mean position of ordered levels inside and outside a rule.

Levels are counted from 0, the lowest. Tallies are :math:`z_k = [y ≥ k]` for k = 1 … C − 1, from
which both moments of the position follow:

.. math:: \sum_i y_i = \sum_k z_k,\quad \sum_i y_i^2 = \sum_k (2k - 1)\,z_k

The rest is as of a measured number (:mod:`fedrulefit.core.families.level_means`): steps up the
scale count alike, as they do where a mean score is told.

Oracle: the mean and the standard error of the positions (``tests/unit/core/test_levels.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.level_means import MeanLevels
from fedrulefit.core.families.levels import Side
from fedrulefit.core.rounding import Rounding

_DECIMALS = 2


class PositionLevels(MeanLevels):
    """Mean positions of ordered levels, and their difference.

    Parameters
    ----------
    levels : sequence of str
        From low to high.
    """

    from_zero = True

    def __init__(self, levels: Sequence[str]) -> None:
        last = len(levels) - 1
        super().__init__(0.0, float(last), "", _DECIMALS)
        self.words = replace(
            self.words,
            level="position",
            one="mean position",
            many="mean positions",
            heading="mean position",
            gap_heading="Inside − outside",
            shown=f"and the mean position of their levels, from 0 ({levels[0]}) to {last} "
            f"({levels[-1]})",
            axis="mean position of ",
        )

    def find(self, patients: float, sums: Floats) -> Side:
        """Return the mean position and its standard error, from how many reach each level."""
        if patients <= 0:
            return Side(patients, math.nan, math.nan)
        mean = float(sums.sum()) / patients
        if patients <= 1:
            return Side(patients, mean, math.nan)
        odd = 2 * np.arange(len(sums)) + 1
        variance = max(float(odd @ sums) / patients - mean**2, 0.0) / (patients - 1)
        return Side(patients, mean, math.sqrt(variance))

    def step(self, side: Side, rounding: Rounding, unit: float) -> float:
        """Return by how much some patients more, at either end of the scale, move the mean.

        Of a few levels, one patient alone would show in most means.
        """
        return rounding.multiple * unit / rounding.count(side.patients, unit) * self.half
