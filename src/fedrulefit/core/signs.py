r"""Which signs coefficients may have, so that predictions never go against a declared direction.

Not in the paper. In: for some covariates, whether the prediction may only rise (+1) or only fall
(−1) with them. Out: what that leaves of each term: a coefficient of any sign, of one, or none.

Of all known values of a covariate, the others held fixed, a rule's indicator never falls if the
values that satisfy its condition are all above those that do not, and never rises if they are all
below. So with a coefficient of the right sign the term moves in the declared direction, or not at
all; a linear term does so, too, since winsorising keeps the order. A sum of such terms is monotone,
and so is every prediction that grows with it. Rules that have both a lower and an upper limit on
a directed covariate, or conditions on two that ask for opposite signs, move both ways: they
cannot be used. Directions are of known values: a missing value lies on no side of the others.

With one-sided terms the optimality conditions are one-sided: where a coefficient that may only be
positive is 0, only a falling loss could move it. :meth:`Signs.pull` is the size of that slope, and
takes the place of :math:`|g_j|` in the solver, in :math:`λ_{\max}` and in the dual constraints.

Oracle: brute force over all rows of codes, and a bounded dense fit
(``tests/unit/core/test_signs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.grid import Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.rules import Rule, as_interval

BOTH, NEITHER = (True, True), (False, False)


@dataclass(frozen=True, eq=False)
class Signs:
    """Whether each coefficient may be positive, and whether negative.

    Parameters
    ----------
    up, down : (n_terms,) bool
    """

    up: Bools
    down: Bools

    @property
    def bound(self) -> Bools:
        """Which coefficients have a bound at 0, shape (n_terms,)."""
        bound: Bools = ~(self.up & self.down)
        return bound

    def take(self, terms: Ints | slice) -> Signs:
        """Return the signs of some terms."""
        return Signs(self.up[terms], self.down[terms])

    def pull(self, gradient: Floats) -> Floats:
        """Return how steeply the loss falls where a coefficient of 0 may go, shape (n_terms,)."""
        rise, fall = np.where(self.up, -gradient, 0.0), np.where(self.down, gradient, 0.0)
        return np.maximum(np.maximum(rise, fall), 0.0)

    def clip(self, coef: Floats) -> Floats:
        """Return the nearest coefficients of the right signs."""
        clipped: Floats = np.where((coef > 0) & ~self.up | (coef < 0) & ~self.down, 0.0, coef)
        return clipped

    def allows(self, term: int, coef: float) -> bool:
        """Whether a term may have this coefficient."""
        return bool(self.up[term] if coef > 0 else self.down[term] if coef < 0 else True)


def pull(gradient: Floats, signs: Signs | None) -> Floats:
    """Return :meth:`Signs.pull`; of coefficients of any sign, the size of the gradient."""
    return np.abs(gradient) if signs is None else signs.pull(gradient)


def side_of(codes: int, n_codes: int) -> int | None:
    """Return which known values satisfy a condition: the upper (+1), the lower (−1) or all (0).

    0, too, if none does; None if they are in the middle.
    """
    known = codes & ((1 << n_codes) - 1)
    bounds = as_interval(known)
    if bounds is None:
        return None
    low, high = bounds
    if low == high or (low == 0 and high == n_codes):
        return 0
    if high == n_codes:
        return 1
    return -1 if low == 0 else None


def allowed_signs(rule: Rule, directions: Sequence[int], grid: Grid) -> tuple[bool, bool]:
    """Return whether a rule's coefficient may be positive, and whether negative.

    Parameters
    ----------
    directions : (n_features,) of {-1, 0, 1}
        What the prediction may do as the covariate rises; 0: anything.
    """
    needed: set[int] = set()
    for feature, codes in rule:
        if directions[feature]:
            side = side_of(codes, grid.axes[feature].n_codes)
            if side is None:
                return NEITHER
            needed.add(side * directions[feature])
    needed.discard(0)
    return -1 not in needed, 1 not in needed


def find_signs(
    rules: Sequence[Rule], linear: Sequence[int], directions: Sequence[int], grid: Grid
) -> tuple[list[tuple[bool, bool]], list[tuple[bool, bool]]]:
    """Return what rules, and the linear terms of these covariates, may have."""
    by_rule = [allowed_signs(rule, directions, grid) for rule in rules]
    by_linear = [(directions[j] >= 0, directions[j] <= 0) for j in linear]
    return by_rule, by_linear


def join_signs(
    layout: Layout, rules: Sequence[tuple[bool, bool]], linear: Sequence[tuple[bool, bool]]
) -> Signs:
    """Return the signs of all terms; those of the baseline are free."""
    every = np.array([*[BOTH] * layout.n_baseline, *rules, *linear], dtype=np.bool_)
    return Signs(every[:, 0], every[:, 1])
