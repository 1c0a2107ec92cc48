r"""A hospital's own baseline: what a site finds for itself inside, and never tells.

Not in the paper. Hospitals differ in what no covariate tells. With baselines of their own the
linear predictor of a patient of hospital m is :math:`F + b_m`, and the pooled objective is

.. math:: P(w) = \tfrac1W \sum_m φ_m(w) + λ\sum_j π_j|w_j|, \quad
   φ_m(w) = \min_{b} \sum_{i∈m} w_iℓ(F_i + b, y_i) + \frac{|b|^2}{2τ^2}

so hospitals' own baselines are as if drawn from N(0, τ²), with a public spread τ. A site minimises
over its b by itself, at every point, and only φ, its gradient and its Hessian are summed. With v
the curvatures at the minimiser, B the columns that b multiplies, and :math:`C = X^⊤vB`:

=============================================  =======================================
of φ                                           here
=============================================  =======================================
value, with the *price* |b|²/2τ²               :attr:`Own.price`
gradient :math:`X^⊤ℓ'`                         slopes at :meth:`Own.shift`
Hessian :math:`X^⊤vX - C\,(B^⊤vB + I/τ^2)^{-1}C^⊤`   :func:`profile`
conjugate of the price, at the dual point      :func:`price_conjugate`
=============================================  =======================================

B are columns of the shared baseline, one for one: so C and :math:`B^⊤vB` are parts of
:math:`X^⊤vX`. Of an outcome whose predictors are steps of one scale
(:attr:`~fedrulefit.core.families.base.Family.own_shift`) b is one number, which shifts all of them.

No |b| is above :data:`LARGEST_OWN`, and solvers ask for predictors that much smaller
(:func:`with_room`): so whatever b is, F + b is a predictor whose loss and slopes have public
bounds, and φ is at most the loss without b. At the limit φ is still convex, and its derivatives
those with that b held.

In: predictors, outcomes, weights, τ. Out: b. Leaves the site: nothing of it.

Oracles: a joint minimum of all coefficients and all b, by another solver
(``tests/unit/core/test_own.py``).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import LARGEST_OWN, ROOT_BITS

MOST_STEPS: Final = 200
"""Of Newton's method; a handful are usual."""

SMALL: Final = 1e-7
"""A step of so little is the last one: what is then left is about its square."""

HALVINGS: Final = 40
"""Of a step that leads uphill."""


@dataclass(frozen=True, eq=False)
class Own:
    """A hospital's own baseline at a point.

    Parameters
    ----------
    values : (n_own,) float64
        b.
    free : (n_own,) bool
        Which of them are within :data:`~fedrulefit.core.fixed.LARGEST_OWN`.
    spread : float
        τ.
    """

    values: Floats
    free: Bools
    spread: float

    @property
    def price(self) -> float:
        """|b|²/2τ²."""
        return float(self.values @ self.values) / (2 * self.spread**2)

    def shift(self, predictor: Floats) -> Floats:
        """Return F + b, of the shape of `predictor`."""
        return predictor + self.values


@dataclass(frozen=True, eq=False)
class Estimate:
    """A hospital's own baseline, and how well its patients tell it.

    Parameters
    ----------
    values, errors : (n_own,) float64
        b, and its standard errors: roots of the diagonal of the inverse second derivatives, the
        prior's among them.
    patients : float
        How many patients of equal weight would tell as much: (Σw)²/Σw².
    """

    values: Floats
    errors: Floats
    patients: float


def count_own(family: Family) -> int:
    """Return how many numbers a hospital's own baseline of an outcome has."""
    return 1 if family.own_shift else family.n_baseline


def with_room(family: Family) -> Family:
    """Return the family as solvers see it where hospitals have baselines of their own.

    Predictors stay so small that any own baseline can be added; and sums at F = 0, where each
    hospital's own is already added, do not tell the best constants.
    """
    smaller = copy.copy(family)
    smaller.largest_predictor = family.largest_predictor - LARGEST_OWN
    smaller.jumps = False
    return smaller


def settle(
    family: Family,
    predictor: Floats,
    outcome: Any,
    weights: Floats,
    spread: float,
    start: Own | None = None,
) -> Own:
    """Return the b that minimises Σ w·ℓ(F + b) + |b|²/2τ², by damped Newton steps.

    Parameters
    ----------
    family : Family
    predictor : (n_rows,) or (n_rows, parts) float64
        F, without an own baseline.
    outcome
        As the family takes it, or as it prepared it.
    weights : (n_rows,) float64
        0 for those who do not count.
    spread : float
        τ.
    start : Own, optional
        Near where it may be; the minimum is the same.
    """
    n_own = count_own(family)
    if not weights.any():
        return Own(np.zeros(n_own), np.ones(n_own, dtype=np.bool_), spread)
    here = np.zeros(n_own) if start is None else start.values
    height = None
    for _ in range(MOST_STEPS):
        slope, bend = _derive(family, predictor + here, outcome, weights, n_own)
        slope = slope + here / spread**2
        free = (np.abs(here) < LARGEST_OWN) | (slope * here > 0)
        step = np.zeros(n_own)
        bend = bend[np.ix_(free, free)] + np.eye(int(free.sum())) / spread**2
        step[free] = np.linalg.solve(bend, -slope[free])
        last = bool(np.abs(step).max() <= SMALL)
        if last:
            return _stop(_clip(here + step), spread)
        if height is None:
            height = _rate(family, predictor, outcome, weights, here, spread)
        here, height = _go(family, predictor, outcome, weights, spread, here, step, height)
    return _stop(here, spread)


def _stop(values: Floats, spread: float) -> Own:
    return Own(values, np.abs(values) < LARGEST_OWN, spread)


def _clip(values: Floats) -> Floats:
    clipped: Floats = np.clip(values, -LARGEST_OWN, LARGEST_OWN)
    return clipped


def _go(
    family: Family,
    predictor: Floats,
    outcome: Any,
    weights: Floats,
    spread: float,
    here: Floats,
    step: Floats,
    height: float,
) -> tuple[Floats, float]:
    """Return where a step leads, halved until it leads no higher, and how high that is."""
    for _ in range(HALVINGS):
        there = _clip(here + step)
        found = _rate(family, predictor, outcome, weights, there, spread)
        if found <= height + 1e-14 * abs(height):  # so little is rounding
            return there, found
        step = step / 2
    return here, height


def _rate(
    family: Family,
    predictor: Floats,
    outcome: Any,
    weights: Floats,
    values: Floats,
    spread: float,
) -> float:
    """Return Σ w·ℓ(F + b) + |b|²/2τ²."""
    loss = family.value(predictor + values, outcome, weights).sum()
    return float(loss) + float(values @ values) / (2 * spread**2)


def _derive(
    family: Family, predictor: Floats, outcome: Any, weights: Floats, n_own: int
) -> tuple[Floats, Floats]:
    """Return gradient (n_own,) and Hessian (n_own, n_own) in b of the summed loss."""
    slope = family.slope(predictor, outcome, weights).sum(axis=0)
    bend = family.curvature(predictor, outcome, weights).sum(axis=0)
    if n_own == 1:
        return np.array([slope.sum()]), np.array([[bend.sum()]])
    return slope, np.diag(bend) if bend.ndim == 1 else bend


def estimate(
    family: Family, predictor: Floats, outcome: Floats, weights: Floats, spread: float
) -> Estimate:
    """Return a hospital's own baseline, with standard errors; see :func:`settle`.

    Where the loss is no log-likelihood as it stands, what slopes vary beside curvatures is taken
    from these patients: Σ wℓ'²/Σ wℓ''. So of half squares of errors the errors' own spread stands
    for 1, and τ is counted in it, too; counts may vary more than Poisson's. Of predictors that
    count only by their differences, b adds up to 0, and standard errors are of that.
    """
    spread, n_own = scale_spread(family, spread), count_own(family)
    own = settle(family, predictor, outcome, weights, spread)
    _, bend = _derive(family, own.shift(predictor), outcome, weights, n_own)
    spreads = np.linalg.inv(bend + np.eye(n_own) / spread**2)
    if family.crossed:
        centre = np.eye(n_own) - 1 / n_own
        spreads = centre @ spreads @ centre
    if family.of_errors or family.likelihoods != 1:
        spreads = spreads * _vary(family, own.shift(predictor), outcome, weights)
    squares = float(weights @ weights)
    patients = float(weights.sum()) ** 2 / squares if squares > 0 else 0.0
    return Estimate(own.values, np.sqrt(np.diag(spreads)), patients)


def scale_spread(family: Family, spread: float) -> float:
    """Return τ as it stands beside losses: of some a log-likelihood is a known multiple.

    Of a log-likelihood C·ℓ the prior's b²/2τ² is b²/2Cτ² beside ℓ.
    """
    return spread * math.sqrt(family.likelihoods)


def _vary(family: Family, predictor: Floats, outcome: Floats, weights: Floats) -> float:
    """Return Σ wℓ'²/Σ wℓ''; 1 where nobody counts."""
    counted = weights > 0
    if not counted.any():
        return 1.0
    there, seen = predictor[counted], outcome[counted]
    ones = np.ones(len(there))
    slopes, bends = family.slope(there, seen, ones), family.curvature(there, seen, ones)
    return float(weights[counted] @ slopes**2) / max(float(weights[counted] @ bends), 1e-300)


def profile(own: Own, matrix: Ints, base: slice, beside: Ints, unit: float) -> Ints:
    """Return by how much second derivatives fall where b follows: :math:`C(B^⊤vB + I/τ²)^{-1}D^⊤`.

    Parameters
    ----------
    own : Own
    matrix : (n, n) int64
        :math:`X^⊤vX` in units of 2⁻⁴⁰, with all of the shared baseline.
    base : slice
        Where that stands.
    beside : (n_more, n_baseline) int64
        D: products of more columns with the baseline's, in the same unit.
    unit : float
        What one unit of such products stands for is 2⁻⁴⁰ of this.

    Returns
    -------
    falls : (n_more, n) int64
        In the same unit; n_more = n where `beside` is the matrix's own.
    """
    answer = np.linalg.solve(*_system(own, matrix, base, unit))
    falls = _onto(own, beside.astype(np.float64)) @ answer
    return np.rint(falls).astype(np.int64)


def profile_squares(own: Own, matrix: Ints, base: slice, beside: Ints, unit: float) -> Ints:
    """Return the same for squares of more columns, shape (n_more,)."""
    inner, _ = _system(own, matrix, base, unit)
    columns = _onto(own, beside.astype(np.float64))
    falls: Floats = (columns * np.linalg.solve(inner, columns.T).T).sum(axis=1)
    rounded: Ints = np.rint(falls).astype(np.int64)
    return rounded


def _onto(own: Own, products: Floats) -> Floats:
    """Return products with b's columns from those with the shared baseline's; 0 where b is held."""
    onto = products if len(own.values) > 1 else products.sum(axis=1, keepdims=True)
    return onto * own.free


def _system(own: Own, matrix: Ints, base: slice, unit: float) -> tuple[Floats, Floats]:
    """Return :math:`B^⊤vB + I/τ²` and :math:`C^⊤`."""
    columns = _onto(own, matrix[:, base].astype(np.float64))
    inner = _onto(own, columns[base].T) if len(own.values) > 1 else columns[base].sum(axis=0)
    ridge = 2.0 ** (2 * ROOT_BITS) / (unit * own.spread**2)
    return inner.reshape(len(own.values), -1) + ridge * np.eye(len(own.values)), columns.T


def price_conjugate(family: Family, slopes: Floats, spread: float) -> float:
    """Return the conjugate of the price at −S: with b within its bounds at most τ²S²/2.

    Parameters
    ----------
    family : Family
    slopes : (n_rows,) or (n_rows, parts) float64
        The dual point, times weights.
    spread : float
        τ.
    """
    n_own = count_own(family)
    whole = np.abs(slopes.sum(axis=0) if n_own > 1 else np.array([slopes.sum()]))
    best = np.minimum(spread**2 * whole, LARGEST_OWN)
    return float((best * whole - best**2 / (2 * spread**2)).sum())
