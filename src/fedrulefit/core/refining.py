"""A grid with further cut-offs, and rules on it.

In: a grid and numbers. Out: the grid with these among its cut-offs, and how codes of the old one
are told on the new: a condition that ends at a cut-off still does. Nothing leaves the site.

Oracle: rows of values on both grids (``tests/unit/core/test_refining.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrulefit.core.arrays import MAX_CODES, Floats
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule, as_interval, interval


@dataclass(frozen=True, eq=False)
class Refined:
    """A grid with further cut-offs.

    Parameters
    ----------
    old, grid : Grid
        Before and after.
    """

    old: Grid
    grid: Grid

    def carry(self, rule: Rule) -> Rule:
        """Return the rule on the new grid."""
        return Rule(tuple(map(self._carry, rule.conditions)))

    def _carry(self, condition: Condition) -> Condition:
        old, new = (grid.axes[condition.feature] for grid in (self.old, self.grid))
        bounds = as_interval(condition.codes)
        if not old.ordered or bounds is None or bounds == (0, 0):
            return condition
        low, high = (_carry_limit(bound, old, new) for bound in bounds)
        return Condition(condition.feature, interval(low, high, missing=condition.missing))

    def spread(self, shares: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return the shares of codes on the new grid: those of a code that is parted, evenly."""
        return tuple(
            _spread(each, old, new)
            for each, old, new in zip(shares, self.old.axes, self.grid.axes, strict=True)
        )


def refine(grid: Grid, cutoffs: Mapping[int, Sequence[float]]) -> Refined:
    """Return the grid with further cut-offs of some covariates.

    Raises
    ------
    ValueError
        If a covariate then has more than codes can tell.
    """
    axes = []
    for feature, axis in enumerate(grid.axes):
        joined = np.union1d(axis.cutoffs, np.asarray(cutoffs.get(feature, ()), dtype=np.float64))
        if len(joined) == len(axis.cutoffs):
            axes.append(axis)
            continue
        if len(joined) > MAX_CODES - 1:
            raise ValueError(f"a covariate would have {len(joined)} cut-offs, of {MAX_CODES - 1}")
        axes.append(replace(axis, cutoffs=joined, n_codes=len(joined) + 1))
    return Refined(grid, Grid(tuple(axes)))


def _carry_limit(bound: int, old: Axis, new: Axis) -> int:
    """Return where a limit between codes stands."""
    if bound in (0, old.n_codes):
        return new.n_codes if bound else 0
    return int(np.searchsorted(new.cutoffs, old.cutoffs[bound - 1])) + 1


def _spread(shares: Floats, old: Axis, new: Axis) -> Floats:
    if old.n_codes == new.n_codes:
        return shares
    ends = [_carry_limit(bound, old, new) for bound in range(old.n_codes + 1)]
    parts = np.diff(ends)
    known: Floats = np.repeat(shares[: old.n_codes] / parts, parts)
    return np.append(known, shares[old.n_codes :])
