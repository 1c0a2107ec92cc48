r"""Small ℓ1-penalised quadratics, solved to the last digits.

.. math:: \min_b \tfrac12 b^⊤Hb + c^⊤b + \sum_j π_j|b_j|

with H positive semi-definite and π ≥ 0; some b may be allowed one sign only
(:mod:`fedrulefit.core.signs`). This is the coordinator's own work in a
round of the exact solver (:mod:`fedrulefit.core.newton`): H has at most a few
hundred rows.

Coordinate descent finds which coefficients differ from 0 and their signs; a
linear solve on these then gives the minimum of their orthant at once. Where the
solve would change a sign, we stop at the first zero crossing and leave that
coefficient out. Both steps only go down, so the method ends at the minimum also
where columns are equal or complementary (H singular).

Oracle: the KKT conditions, and scikit-learn's Lasso
(``tests/unit/core/test_quadratic.py``).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.signs import Signs, pull

_SWEEPS = 5
_RIDGE = 1e-12
_PATIENCE = 5


def solve_quadratic(
    hessian: Floats,
    linear: Floats,
    penalty: Floats,
    start: Floats,
    *,
    tolerance: float,
    max_rounds: int = 100,
    signs: Signs | None = None,
) -> Floats:
    """Return the minimiser b, shape (n,).

    Parameters
    ----------
    hessian : (n, n) float64, positive semi-definite
    linear : (n,) float64
    penalty : (n,) float64, not negative
    start : (n,) float64
    tolerance : float
        On the KKT residual. Where rounding keeps it from being reached, the
        best point found is returned.
    signs : Signs, optional
        That coefficients may have; `start` has no others.
    """
    coef = start.copy()
    coef[(np.diag(hessian) == 0) & (pull(linear, signs) <= penalty)] = 0.0
    best, best_residual, idle = coef.copy(), np.inf, 0
    for _ in range(max_rounds):
        _descend(hessian, linear, penalty, coef, signs)
        _jump(hessian, linear, penalty, coef, signs)
        residual = kkt_residual(hessian @ coef + linear, coef, penalty, signs)
        idle = 0 if residual < 0.5 * best_residual else idle + 1
        if residual < best_residual:
            best, best_residual = coef.copy(), residual
        if residual <= tolerance or idle >= _PATIENCE:
            break
    return best


def kkt_residual(
    gradient: Floats, coef: Floats, penalty: Floats, signs: Signs | None = None
) -> float:
    """Return how far `coef` is from optimal: the largest entry of the least subgradient."""
    moved = np.abs(gradient + penalty * np.sign(coef))
    at_zero = np.maximum(pull(gradient, signs) - penalty, 0.0)
    return float(np.where(coef != 0, moved, at_zero).max(initial=0.0))


def _descend(
    hessian: Floats, linear: Floats, penalty: Floats, coef: Floats, signs: Signs | None = None
) -> None:
    """A few sweeps of coordinate descent, in place: all, then those that moved."""
    gradient = hessian @ coef + linear
    diagonal = np.diag(hessian)
    movable = diagonal > 0
    for sweep in range(_SWEEPS):
        awake = np.zeros(len(coef), dtype=np.bool_)
        if sweep == 0:
            awake = pull(gradient, signs) > penalty
        order = np.flatnonzero(movable & (awake | (coef != 0)))
        for j in order:
            old = coef[j]
            target = old * diagonal[j] - gradient[j]
            size = abs(target) - penalty[j]
            new = 0.0 if size <= 0 else (size if target > 0 else -size) / diagonal[j]
            if signs is not None and not signs.allows(int(j), new):
                new = 0.0
            if new != old:
                coef[j] = new
                gradient += hessian[j] * (new - old)


def _jump(
    hessian: Floats, linear: Floats, penalty: Floats, coef: Floats, signs: Signs | None = None
) -> None:
    """Go to the minimum of the orthant, in place; drop what would cross zero."""
    held = penalty > 0 if signs is None else (penalty > 0) | signs.bound
    free: Bools = ((coef != 0) | ~held) & (np.diag(hessian) > 0)
    for _ in range(int(free.sum())):
        chosen = np.flatnonzero(free)
        sides = np.sign(coef[chosen])
        goal = _solve(hessian[np.ix_(chosen, chosen)], -(linear + penalty * np.sign(coef))[chosen])
        way = goal - coef[chosen]
        crosses = (sides * goal < 0) & held[chosen]
        if not crosses.any():
            coef[chosen] = goal
            return
        part = np.full(len(chosen), np.inf)
        part[crosses] = -coef[chosen][crosses] / way[crosses]
        first = int(np.argmin(part))
        coef[chosen] += part[first] * way
        coef[chosen[first]] = 0.0
        free[chosen[first]] = False


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Solve a positive semi-definite system; a hair of ridge where it is singular."""
    scale = float(np.trace(matrix)) / len(matrix)
    ridge = _RIDGE
    while True:
        try:
            factor = cho_factor(matrix + ridge * scale * np.eye(len(matrix)))
            solution: Floats = cho_solve(factor, right)
            solution += cho_solve(factor, right - matrix @ solution)
            return solution
        except LinAlgError:
            ridge *= 100
