r"""What a term is worth: which to drop, and which rule to put a variant in place of.

Not in the paper. In: a refit of few terms, with the sums at it
(:mod:`fedrulefit.core.refit`), and a price. Out: coefficients without what is not worth its
price, and swaps that should lower deviance + price. The coordinator's own work, on sums that it
has: nothing here is asked of a site.

=========================  ==================================================================
here                       mathematics
=========================  ==================================================================
``look_ahead``             the least of :math:`g^⊤Δ + \tfrac12 Δ^⊤HΔ + \sum_j λπ_j|b_j + Δ_j|`
``_drop_one``              :math:`b ← b - M_{·j}\,b_j/M_{jj}`,
                           :math:`M ← M - M_{·j}M_{j·}/M_{jj}`, with :math:`M = H^{-1}`
``drop``                   :math:`n\,b_j^2/M_{jj}`: by how much the deviance rises without j
``_gain``                  :math:`\tfrac12 (g_z + h^⊤Δ)^2 / (s - h^⊤M'h)`: by how much the mean
                           loss falls where z enters after j left; M' is M without j, Δ what
                           the others did then, h the products of z with them, s with itself
=========================  ==================================================================

Oracle: minimising the quadratic anew without the term, or with the variant
(``tests/unit/core/test_pricing.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.families import Family
from fedrulefit.core.layout import Layout
from fedrulefit.core.quadratic import kkt_residual, solve_quadratic
from fedrulefit.core.signs import Signs, learnt

LINEAR_COST: Final = 0.3
CONDITION_COST: Final = 0.25

MOST_DROPPED: Final = 3
"""At most one of so many terms is dropped in one go."""

RIDGE: Final = 1e-10
"""How much steeper a Hessian is made before it is inverted, as a share of its mean curvature."""

FLAT: Final = 1e-6
"""A variant that the other terms explain but for such a share tells nothing new."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What all tracks have in common.

    Parameters
    ----------
    family : Family
    layout : Layout
        Of all terms, variants among them.
    penalties : (n_terms,) float64
        λ·π of the refits.
    costs : (n_terms,) float64
        See :func:`cost`.
    bounds : (n_terms,) float64
        Largest size of each term.
    variants : callable
        The terms that could stand in for a term, increasing.
    spread : float
        Mean losses are divided by it: a difference of 1 is one of the log-likelihood.
    signs : Signs, optional
        That coefficients may have; any, by default.
    kept : (n_terms,) bool, optional
        Terms that stay whatever they are worth.
    """

    family: Family
    layout: Layout
    penalties: Floats
    costs: Floats
    bounds: Floats
    variants: Callable[[int], Ints]
    spread: float = 1.0
    signs: Signs | None = None
    kept: Bools | None = None

    def supported(self, coef: Floats) -> Ints:
        """Return the baseline, the terms with a coefficient and those kept, increasing."""
        stands = coef != 0 if self.kept is None else (coef != 0) | self.kept
        return self.layout.with_baseline(np.flatnonzero(stands))

    def obey(self, coef: Floats) -> Floats:
        """Return coefficients of the right signs, of all terms."""
        return coef if self.signs is None else self.signs.clip(coef)

    def is_kept(self, terms: Ints) -> Bools:
        """Return which terms are neither dropped nor swapped, shape (n,)."""
        return np.zeros(len(terms), dtype=np.bool_) if self.kept is None else self.kept[terms]

    def count(self, terms: Ints) -> int:
        """Return how many of the terms are learnt, and none of the baseline."""
        return int(self.is_learnt(terms).sum()) - self.layout.n_baseline

    def is_learnt(self, terms: Ints) -> Bools:
        """Return which terms have a coefficient that is not held, shape (n,)."""
        return learnt(len(terms), None if self.signs is None else self.signs.take(terms))

    def invert(self, fit: Fitted) -> Floats:
        """Return the inverse Hessian of a refit; 0 for what is held, which nothing moves."""
        (free,) = np.nonzero(self.is_learnt(fit.terms))
        inverse = np.zeros_like(fit.hessian)
        inverse[np.ix_(free, free)] = _invert(fit.hessian[np.ix_(free, free)])
        return inverse


@dataclass(frozen=True, eq=False)
class Fitted:
    """A refit that is done, with what was summed there.

    ``terms`` and what follows them have one row for the baseline and each term with a
    coefficient; ``beside``, ``cross`` and ``squares`` one for each of ``variants``.
    """

    terms: Ints
    coef: Floats
    objective: float
    held_loss: float
    weight: float
    gradient: Floats
    hessian: Floats
    variants: Ints
    beside: Floats
    cross: Floats
    squares: Floats

    def without_zeros(self, problem: Problem) -> Fitted:
        """Return the fit without the terms whose coefficient is 0, but for those that are kept."""
        baseline = np.arange(len(self.coef)) < problem.layout.n_baseline
        kept = np.flatnonzero((self.coef != 0) | baseline | problem.is_kept(self.terms))
        return replace(
            self,
            terms=self.terms[kept],
            coef=self.coef[kept],
            gradient=self.gradient[kept],
            hessian=self.hessian[np.ix_(kept, kept)],
            cross=self.cross[:, kept],
        )


@dataclass(frozen=True, eq=False)
class Swap:
    """A variant in the place of a rule, and what is expected of it.

    Parameters
    ----------
    change : float
        Of deviance + price.
    old, new : int
        Terms.
    coef : (n_own,) float64
        Of the other terms then.
    own : float
        Of the new one.
    """

    change: float
    old: int
    new: int
    coef: Floats
    own: float


def cost(n_conditions: int) -> float:
    """Return what a term costs to read: a rule 1, and ¼ more for each further condition.

    A linear term, of no condition, costs 0.3.
    """
    return LINEAR_COST if n_conditions == 0 else 1 + CONDITION_COST * (n_conditions - 1)


def look_ahead(problem: Problem, fit: Fitted, tolerance: float) -> Fitted:
    """Return where the quadratic is best; the fit itself where it is good enough already.

    Parameters
    ----------
    problem : Problem
    fit : Fitted
    tolerance : float
        KKT residual, as a share of the penalty, that is good enough.
    """
    penalties = problem.penalties[fit.terms]
    enough = tolerance * float(problem.penalties.max())
    signs = None if problem.signs is None else problem.signs.take(fit.terms)
    if kkt_residual(fit.gradient, fit.coef, penalties, signs) <= enough:
        return fit
    linear = fit.gradient - fit.hessian @ fit.coef
    coef = solve_quadratic(
        fit.hessian, linear, penalties, fit.coef, tolerance=0.1 * enough, signs=signs
    )
    way = coef - fit.coef
    change = way @ (fit.gradient + fit.hessian @ way / 2)
    change += penalties @ (np.abs(coef) - np.abs(fit.coef))
    return replace(fit, coef=coef, objective=fit.objective + float(change))


def _invert(hessian: Floats) -> Floats:
    """Return the inverse; of columns that cancel out, of a hair more."""
    n = len(hessian)
    ridge = RIDGE * float(np.trace(hessian)) / n
    inverse = np.linalg.inv(hessian + ridge * np.eye(n))
    return np.asarray(inverse, dtype=np.float64)


def _drop_one(coef: Floats, inverse: Floats, j: int) -> tuple[Floats, Floats]:
    """Return the coefficients and the inverse once term j is 0, as the quadratic has it."""
    column = inverse[:, j] / inverse[j, j]
    return coef - column * coef[j], inverse - np.outer(column, inverse[j])


def drop(problem: Problem, fit: Fitted, price: float) -> Floats | None:
    """Return the coefficients of all terms without those that are not worth their price.

    The least first, at most a third of the terms; None where all are worth it.
    """
    coef, inverse = fit.coef, problem.invert(fit)
    costs = problem.costs[fit.terms]
    n_baseline, fast = problem.layout.n_baseline, problem.is_kept(fit.terms)
    fast[:n_baseline] = True
    here = np.flatnonzero(~fast)
    left = list(here)
    while left and len(here) - len(left) < max(1, len(here) // MOST_DROPPED):
        rises = fit.weight * coef[left] ** 2 / np.diag(inverse)[left] / problem.spread
        least = int(np.argmin(rises / costs[left]))
        if rises[least] >= price * costs[left[least]]:
            break
        coef, inverse = _drop_one(coef, inverse, int(left.pop(least)))
    if len(left) == len(here):
        return None
    kept = np.union1d(np.flatnonzero(fast), left).astype(np.int64)
    dense = np.zeros(len(problem.penalties))
    dense[fit.terms[kept]] = coef[kept]
    return dense


def find_swaps(problem: Problem, fit: Fitted, price: float) -> list[Swap]:
    """Return the swaps that are expected to lower deviance + price, the best first.

    Each rule and each variant is in one of them at most.
    """
    inverse, places = problem.invert(fit), {int(v): k for k, v in enumerate(fit.variants)}
    found: list[Swap] = []
    for j in range(problem.layout.n_baseline, len(fit.terms)):
        old = int(fit.terms[j])
        if problem.is_kept(fit.terms[[j]])[0]:
            continue
        coef, without = _drop_one(fit.coef, inverse, j)
        rise = fit.coef[j] ** 2 / (2 * inverse[j, j])
        for new in problem.variants(old).tolist():
            if new in places:
                gain, own, shift = _gain(fit, places[new], coef, without)
                change = 2 * fit.weight * (rise - gain) / problem.spread
                change += price * (problem.costs[new] - problem.costs[old])
                allowed = problem.signs is None or problem.signs.allows(new, own)
                if change < 0 and own != 0 and allowed:
                    found.append(Swap(change, old, new, coef + shift, own))
    return _take_apart(sorted(found, key=lambda swap: (swap.change, swap.old, swap.new)))


def _gain(fit: Fitted, place: int, coef: Floats, without: Floats) -> tuple[float, float, Floats]:
    """Return how much the mean loss falls if a variant enters after a term left.

    And its coefficient then, and by how much the others move.
    """
    products = fit.cross[place]
    answer = without @ products
    steep = float(fit.squares[place] - products @ answer)
    if steep <= FLAT * float(fit.squares[place]):
        return 0.0, 0.0, np.zeros_like(coef)
    slope = float(fit.beside[place] + products @ (coef - fit.coef))
    own = -slope / steep
    return slope**2 / (2 * steep), own, -own * answer


def _take_apart(swaps: Sequence[Swap]) -> list[Swap]:
    """Return the swaps in which neither rule nor variant was in an earlier one."""
    taken: set[int] = set()
    apart = []
    for swap in swaps:
        if taken.isdisjoint((swap.old, swap.new)):
            taken |= {swap.old, swap.new}
            apart.append(swap)
    return apart
