r"""The exact solver, at the coordinator: proximal Newton on a screened active set.

It minimises the pooled objective

.. math:: P(w) = \tfrac1W \sum_i w_i\,ℓ(F_i, y_i) + λ\sum_j π_j|w_j|

in a few rounds, where FedDA needs hundreds (paper 2.2.3 has the same objective
with π = 1; the baseline has π = 0). The loss ℓ is that of the outcome's family
(:mod:`fedrulefit.core.families`).

In: sums over all sites at a point (:mod:`fedrulefit.core.curvature`). Out: the next point.

A round: the coordinator names a point and the *active* terms; every site sends
its summed loss at the point and at a few points before it, the gradient for all
terms and the Hessian of the active ones. The coordinator checks that the
objective went down (else it goes back along the way, on losses it already has),
solves the penalised quadratic for the active terms, and names the next point.
Active are the terms with a coefficient and those whose gradient comes near its
penalty (the strong rule); since the gradient is known for all terms, none is
left out in the end. No point lies beyond what sites answer
(:attr:`~fedrulefit.core.families.base.Family.largest_predictor`): a longer step is shortened.

Oracle: scikit-learn's and a dense solver's optimum, any partition into sites
(``tests/unit/core/test_newton.py``, ``tests/properties``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.curvature import STEPS, CurvatureSums, Query, unpack_triangle
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import LOSS_BITS, largest_predictor
from fedrulefit.core.grid import Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.quadratic import kkt_residual, solve_quadratic
from fedrulefit.core.rules import Rule, tells_missing
from fedrulefit.core.signs import Signs, pull
from fedrulefit.errors import FitError

NEAR: Final = 0.7
"""A term is active from this share of its penalty on."""

ROUNDING: Final = 2.0**-LOSS_BITS
"""A rise of the objective by so little, times the unit of the family's losses, may be the rounding
of patients' losses."""

RIDGES: Final = (0.0, 1e-9, 1e-6, 1e-4, 1e-2)
"""How much steeper a quadratic is made, as a share of its mean curvature, if it leads too far."""

SHORTEST: Final = 1e-3
"""A step of which less is left within the bounds ends the way: no better point can be asked for."""

MAX_ACTIVE: Final = 2000
"""Most terms in a Hessian, whatever the study says: it then has 16 MB."""

SAME: Final = (1e-7, 1e-9)
"""Another machine's coefficients may differ by so much: a share of their size, and at all."""

FLAT: Final = 1e-7
"""Where columns cancel out, coefficients are not unique. They may differ by more, if predictors
(root mean square, weighted by the curvature) move by no more than this share of the change."""

SAME_NEAR: Final = 1e-6
"""And which terms are active, if these are so near to the limit, as a share of their penalty."""


@dataclass(frozen=True, eq=False)
class Point:
    """Where a solver stands, and what it knows there.

    Parameters
    ----------
    coef : (n_terms,) float64
    objective : float
        Penalised mean loss.
    gradient : (n_terms,) float64
        Of the mean loss.
    residual : float
        Largest entry of the least subgradient (KKT).
    held_loss : float
        Mean loss of the held-out patients; NaN without any.
    """

    coef: Floats
    objective: float
    gradient: Floats
    residual: float
    held_loss: float


def penalty_factors(
    layout: Layout,
    rules: Sequence[Rule],
    grid: Grid,
    *,
    linear_factor: float,
    interaction_factor: float,
) -> Floats:
    """Return π for baseline (0), rules and linear terms, shape (n_terms,).

    ``x is missing`` counts as a linear term: it stands beside that of x, which is silent of a
    missing value. No cut-off of x then takes its place.
    """
    by_rule = [interaction_factor if len(rule) > 1 else 1.0 for rule in rules]
    for k, rule in enumerate(rules):
        if tells_missing(rule, grid):
            by_rule[k] = linear_factor
    return layout.join(
        np.zeros(layout.n_baseline), np.array(by_rule), np.full(layout.n_linear, linear_factor)
    )


class Newton:
    """One penalised problem on its way to the optimum.

    Ask :meth:`query`, give the summed answer to :meth:`update`, until
    :attr:`converged`. Then :meth:`continue_at` goes on with another λ.

    Parameters
    ----------
    family : Family
        Of the outcome.
    layout : Layout
        Of the terms.
    factors : (n_terms,) float64
        Penalty factors π; 0 leaves a term unpenalised, as the baseline always is.
    penalty : float
        λ.
    fold : int
        Held-out fold, -1 for none.
    tolerance : float
        On the KKT residual.
    max_active : int
        Most terms in a Hessian; a quarter more than those with a coefficient where
        these are many. Never more than :data:`MAX_ACTIVE`.
    start : Point, optional
        Where to begin, such as a point of a path.
    bounds : (n_terms,) float64, optional
        Largest size of each term, from which follows how large a predictor can be; 1 by
        default.
    signs : Signs, optional
        That coefficients may have; any, by default.
    """

    def __init__(
        self,
        family: Family,
        layout: Layout,
        factors: Floats,
        penalty: float,
        *,
        bounds: Floats | None = None,
        start: Point | None = None,
        fold: int = -1,
        tolerance: float = 1e-8,
        max_active: int = 300,
        signs: Signs | None = None,
    ) -> None:
        self.family = family
        self.layout = layout
        self.factors = factors
        self.penalty = penalty
        self.fold = fold
        self.tolerance = tolerance
        self.max_active = max_active
        self.rounds = 0
        self.separated = False
        self.confined = False
        self._signs = signs
        self._bounds = np.ones(len(factors)) if bounds is None else bounds
        self._point: Point | None = None
        self._old = self._new = np.zeros(len(factors)) if start is None else start.coef
        # The first guess needs no data: what is penalised least.
        near = np.full(len(factors), penalty) if start is None else pull(start.gradient, signs)
        self._slopes: Floats = near  # by which the active terms were chosen
        self._jumps = start is None and family.jumps  # first of all the baseline, alone
        self._active: Ints = (
            np.arange(layout.n_baseline) if self._jumps else self._choose_active(near, self._new)
        )
        self._curved: Ints = self._active  # the terms of the Hessian at the point
        self._hessian: Floats = np.zeros((1, 1))

    @property
    def point(self) -> Point:
        """Where the solver stands."""
        if self._point is None:
            raise ValueError("the solver has no point before its first round")
        return self._point

    @property
    def converged(self) -> bool:
        """Whether the point is optimal to the tolerance, or cannot get better."""
        if self.separated or self.confined:
            return True
        return self._point is not None and self.point.residual <= self.tolerance

    def query(self) -> Query:
        """Return the point to evaluate next."""
        used = (self._old != 0) | (self._new != 0)
        used[self.layout.baseline] = True
        terms = np.flatnonzero(used)
        return Query(self.fold, terms, self._old[terms], self._new[terms], self._active)

    def update(self, sums: CurvatureSums) -> None:
        """Take the summed answer; go on, or go back along the way.

        The solver stands where the answer was taken: at its own :meth:`query`, or at one that
        another machine, whose last digits differ, made of the same sums.
        """
        self.rounds += 1
        query = sums.query
        self._old, self._new = self._dense(query, query.start), self._dense(query, query.end)
        self._active = query.active
        objectives = self._objectives(sums)
        best = len(STEPS) - 1
        if objectives[-1] > objectives[0] + ROUNDING * self.family.unit:
            best = int(np.argmin(objectives))
        if best < len(STEPS) - 1:
            step = STEPS[max(best, 1)]
            self._new = self._old + step * (self._new - self._old)
            return
        gradient = sums.gradient / sums.weight
        held = sums.held_loss / sums.held_weight if sums.held_weight > 0 else float("nan")
        self.separated = bool(objectives[-1] < self.family.separated)
        residual = self._residual(gradient, self._new)
        self._point = Point(self._new, float(objectives[-1]), gradient, residual, held)
        self._curved = self._active
        self._hessian = self._hold(unpack_triangle(sums.hessian, len(self._active)) / sums.weight)
        if not self.converged:
            self._step()

    def _hold(self, hessian: Floats) -> Floats:
        """Return the Hessian with a curvature where all baselines move alike, if it has none.

        Else they would drift, by rounding alone; so they go on to add up to 0.
        """
        if self.family.crossed:
            base = self.layout.baseline
            hessian[base, base] += float(np.trace(hessian)) / len(hessian)
        return hessian

    def continue_at(self, penalty: float) -> None:
        """Go on from here with another λ; the curvature known here is used."""
        point = self.point
        change = (penalty - self.penalty) * float(self.factors @ np.abs(point.coef))
        self.penalty = penalty
        residual = self._residual(point.gradient, point.coef)
        self._point = replace(point, objective=point.objective + change, residual=residual)
        self.confined = False
        self._step()

    def _residual(self, gradient: Floats, coef: Floats) -> float:
        return kkt_residual(gradient, coef, self.penalty * self.factors, self._signs)

    def could_ask(self, query: Query) -> bool:
        """Whether another machine, whose last digits differ, could ask for this point here.

        Parameters
        ----------
        query : Query
            Of this problem's terms.
        """
        start, end = self._dense(query, query.start), self._dense(query, query.end)
        if query.fold != self.fold or not near_coef(start, self._old):
            return False
        if not (near_coef(end, self._new) or self._is_flat(end)):
            return False
        return self._could_choose(query.active, end)

    def _could_choose(self, active: Ints, coef: Floats) -> bool:
        """Whether these are the active terms, but for some at the very limit."""
        if np.array_equal(active, self._active):
            return True
        own, nearness = self._choose_active(self._slopes, coef), self._nearness(self._slopes, coef)
        full = len(own) == active_room(int(np.isinf(nearness).sum()), self.max_active)
        limit = nearness[own].min() if full else NEAR
        either = nearness[np.setxor1d(active, own)]
        return bool(np.isfinite(either).all() and (np.abs(either - limit) <= SAME_NEAR).all())

    def _is_flat(self, end: Floats) -> bool:
        """Whether a point solves the quadratic like the solver's own: the data do not tell them."""
        if self._point is None:
            return False
        change, (_, least) = end - self._new, SAME
        inside = change[self._curved]
        moved = np.sqrt(max(float(inside @ self._hessian @ inside), 0.0))
        return bool(
            np.count_nonzero(change) == np.count_nonzero(inside)
            and np.abs(change).max() <= 1 + np.abs(self._new).max()
            and moved <= FLAT * np.linalg.norm(inside) + least
            and self.penalty * abs(self.factors @ (np.abs(end) - np.abs(self._new))) <= least
        )

    def _dense(self, query: Query, coef: Floats) -> Floats:
        """Return the coefficients of all terms, shape (n_terms,)."""
        dense = np.zeros(len(self.factors))
        dense[query.terms] = coef
        return dense

    def _objectives(self, sums: CurvatureSums) -> Floats:
        way = self._new - self._old
        sizes = [self.factors @ np.abs(self._old + t * way) for t in STEPS]
        return sums.losses / sums.weight + self.penalty * np.array(sizes)

    def _step(self) -> None:
        """Solve the quadratic on the active terms; choose the next active ones."""
        point, active = self.point, self._curved
        if self.separated:
            self._old = self._new = point.coef  # no curvature is left to go by
            return
        if self._jumps:
            self._jump()
            return
        here = point.coef[active]
        new = self._confine()
        change = new[active] - here
        predicted = point.gradient.copy()
        predicted[active] += self._hessian @ change
        self._old, self._new = point.coef, new
        self._slopes = pull(predicted, self._signs)
        self._active = self._choose_active(self._slopes, new)

    def _jump(self) -> None:
        """Go from 0 to the best constants; what to look at first is as unknown as before."""
        point, own = self.point, self.layout.baseline
        new = point.coef.copy()
        new[own] = self.family.jump(point.gradient[own], np.diag(self._hessian))
        self._jumps = False
        self._old, self._new = point.coef, new
        self._active = self._choose_active(self._slopes, new)

    def _solve(self, ridge: float) -> Floats:
        """Minimise the penalised quadratic, which is made steeper by `ridge`."""
        point, active = self.point, self._curved
        here, steep = point.coef[active], self._hessian
        if ridge > 0:
            steep = steep + ridge * float(np.trace(steep)) / len(active) * np.eye(len(active))
        new = point.coef.copy()
        new[active] = solve_quadratic(
            steep,
            point.gradient[active] - steep @ here,
            self.penalty * self.factors[active],
            here,
            tolerance=max(1e-3 * point.residual, 0.01 * self.tolerance),
            signs=None if self._signs is None else self._signs.take(active),
        )
        return new

    def _confine(self) -> Floats:
        """Return the next point: the first, with ever steeper quadratics, that sites answer.

        Flat directions, in which columns cancel out, are given up first. At last the step is
        shortened; if hardly any is left, there is no better point to ask for.
        """
        most = self.family.largest_predictor * (1 - ROUNDING)
        for ridge in RIDGES:
            new = self._solve(ridge)
            there = self._reach(new)
            if there <= most:
                return new
        old = self.point.coef
        here = self._reach(old)
        # The size is convex along the way: at this part of it, it is at most the largest.
        part = max(0.0, (most - here) / (there - here))
        self.confined = part < SHORTEST
        return old if self.confined else old + part * (new - old)

    def _reach(self, coef: Floats) -> float:
        """Return how large a predictor could be."""
        return largest_predictor(coef, self._bounds, self.family.n_baseline)

    def _nearness(self, gradient: Floats, coef: Floats) -> Floats:
        """Return how near each term is to its penalty; infinite if it must be active."""
        limit = self.penalty * self.factors
        nearness = np.full(len(coef), np.inf)
        np.divide(gradient, limit, out=nearness, where=(coef == 0) & (limit > 0))
        return nearness

    def _choose_active(self, gradient: Floats, coef: Floats) -> Ints:
        """Terms with a coefficient, and the nearest to having one."""
        nearness = self._nearness(gradient, coef)
        must = int(np.isinf(nearness).sum())
        if must > MAX_ACTIVE:
            raise FitError(
                f"{must} terms have a coefficient, and a fit can have {MAX_ACTIVE}: raise "
                "'penalty', 'path_ratio' or 'linear_factor', or grow fewer trees"
            )
        order = np.argsort(-nearness, kind="stable")[: active_room(must, self.max_active)]
        return np.sort(order[nearness[order] >= NEAR])


def near_coef(coef: Floats, other: Floats) -> bool:
    """Whether coefficients are those of the same problem, up to another machine's last digits."""
    share, least = SAME
    return bool((np.abs(coef - other) <= least + share * np.abs(other)).all())


def active_room(must: int, max_active: int) -> int:
    """Return the most active terms of a query in which `must` have to be.

    There is some room for terms to enter, however many have a coefficient.
    """
    return min(MAX_ACTIVE, max(max_active, must + max_active // 4 + 1))
