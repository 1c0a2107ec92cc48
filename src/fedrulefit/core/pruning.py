r"""Few terms instead of many: drop, polish, refit, and let the folds choose how far to go.

Not in the paper. In: the path of the lasso, with the fits of all patients and of each fold, and
sums over all sites. Out: the few terms of the model, and their coefficients. Leaves the site: what
a refit asks for (:mod:`fedrulefit.core.refit`).

A lasso keeps many terms where few would do: it needs several cut-offs to follow one step that lies
between them, and shrinks what is needed to keep out what is not. From here on the terms of a fit
are chosen one by one, at a *price* c that rises from stage to stage. All fits (*tracks*), that to
all patients and those without each fold, go the same stages, each on its own sums:

1. *Refit* the chosen terms with the penalty λ*/2.
2. *Drop* terms whose leaving raises the deviance by less than c times their
   :func:`~fedrulefit.core.pricing.cost`, the least first, at most a third of all, and refit;
   again, until none is left to drop.
3. *Polish*, once few terms are left: put a variant (:mod:`fedrulefit.core.variants`) in the place
   of a rule where deviance + c·cost falls, as the quadratic has it; refit, and take it back if
   deviance + c·cost did not fall.

Of a fold's patients, who are held out, only a loss is told. So every stage has a cross-validated
loss, as every λ has, and :meth:`PruneSearch.finish` takes the fewest terms that cost hardly
anything. The walk starts from several points of the path, since what belongs together is easier to
see among few terms, and what is needed among many.

What a term is worth is told in :mod:`fedrulefit.core.pricing`.

Oracles: the same walk on a dense matrix, one term at a time, by refitting
(``tests/unit/core/test_pruning.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.curvature import STEPS, unpack_triangle
from fedrulefit.core.fixed import largest_predictor
from fedrulefit.core.newton import ROUNDING, near_coef
from fedrulefit.core.pricing import Fitted, Problem, Swap, drop, find_swaps
from fedrulefit.core.quadratic import kkt_residual, solve_quadratic
from fedrulefit.core.refit import RefitQuery, RefitSums

SHARES: Final = (1.0, 0.5, 0.25)
"""The walk starts where the lasso has so many of the terms that it has at the chosen λ."""

FIRST_PRICE: Final = 1.0
PRICE_RATIO: Final = 1.5
MOST_STAGES: Final = 30
"""Prices c: 1, 1.5, 2.25, … in units of the deviance."""

HALF: Final = 0.5
"""Share of the chosen λ with which few terms are fitted."""

POLISHED: Final = 30
"""Terms are few enough to be polished: more would need many sums."""

MOST_VARIANTS: Final = 5_000
"""Variants of one point's terms that are asked for at most."""

POLISHES: Final = 2
"""Times that terms are polished at a price."""

TOLERANCE: Final = 0.02
"""KKT residual, as a share of the penalty, that is good enough for a stage."""

MOST_STEPS: Final = 12
"""Rounds after which a refit is taken as it is."""

SLACK: Final = 0.001
"""Mean loss that fewer terms may cost, beside the best of the cross-validation."""

WORST: Final = 0.002
"""What they may cost beside the best lasso, a standard error above what was measured."""

LOST: Final = 0.01
"""Mean loss above the best of a walk from which it leads nowhere."""

SMALL: Final = 1e-9
"""What deviance + price must fall by, as a share of itself."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A fit of few terms, and the price at which it stands.

    Parameters
    ----------
    price : float
        c; 0 before a term was dropped.
    terms : (n_own,) int64
        The baseline and the terms with a coefficient.
    coef : (n_own,) float64
    objective : float
        Penalised mean loss.
    held_loss : float
        Mean loss of the held-out patients; NaN without any.
    """

    price: float
    terms: Ints
    coef: Floats
    objective: float
    held_loss: float


Walk = Generator[RefitQuery, RefitSums, None]
"""Asks for sums at one point after another."""


class Track:
    """One fit on its way to fewer terms.

    Parameters
    ----------
    problem : Problem
    fold : int
        Whose patients are held out; -1 for none.
    coef : (n_terms,) float64
        Where to start.
    """

    def __init__(self, problem: Problem, fold: int, coef: Floats) -> None:
        self.fold = fold
        self.layout = problem.layout
        self.stages: list[Stage] = []
        self.stopped = False
        self._problem = problem
        self._walk = self._go(coef)
        self._asked: RefitQuery | None = next(self._walk)

    @property
    def over(self) -> bool:
        """Whether the walk has come to its end."""
        return self._asked is None

    @property
    def done(self) -> bool:
        """Whether nothing more is asked."""
        return self.over or self.stopped

    def query(self) -> RefitQuery:
        """Return the point to evaluate next."""
        if self._asked is None:
            raise ValueError("this walk is over")
        return self._asked

    def could_ask(self, query: RefitQuery) -> bool:
        """Whether another machine, whose last digits differ, could ask for this point here."""
        own = self.query()
        return (
            query.fold == own.fold
            and np.array_equal(query.terms, own.terms)
            and np.array_equal(query.variants, own.variants)
            and near_coef(query.start, own.start)
            and near_coef(query.end, own.end)
        )

    def update(self, sums: RefitSums) -> None:
        """Take the summed answer, and go on to the next point."""
        try:
            self._asked = self._walk.send(sums)
        except StopIteration:
            self._asked = None

    # --- The walk -------------------------------------------------------------------------------

    def _go(self, coef: Floats) -> Walk:
        """Go from stage to stage, until no term is left."""
        fit = yield from self._refit(coef)
        self._note(0.0, fit)
        price = FIRST_PRICE
        for _ in range(MOST_STAGES):
            fit = yield from self._stage(fit, price)
            self._note(price, fit)
            if self._problem.is_kept(fit.terms).sum() == self._problem.count(fit.terms):
                return
            price *= PRICE_RATIO

    def _note(self, price: float, fit: Fitted) -> None:
        self.stages.append(Stage(price, fit.terms, fit.coef, fit.objective, fit.held_loss))

    def _stage(self, fit: Fitted, price: float) -> Generator[RefitQuery, RefitSums, Fitted]:
        """Drop what is not worth its price and polish what is left, a few times."""
        for _ in range(POLISHES):
            fit = yield from self._drop(fit, price)
            better = yield from self._polish(fit, price)
            if better is None:
                return fit
            fit = better
        return (yield from self._drop(fit, price))

    def _drop(self, fit: Fitted, price: float) -> Generator[RefitQuery, RefitSums, Fitted]:
        """Drop terms and refit, until each is worth its price."""
        while (left := drop(self._problem, fit, price)) is not None:
            fit = yield from self._refit(left)
        return fit

    def _polish(self, fit: Fitted, price: float) -> Generator[RefitQuery, RefitSums, Fitted | None]:
        """Put variants in the place of rules; None where that is no better."""
        swaps = find_swaps(self._problem, fit, price)
        for chosen in (swaps, swaps[:1])[: len(swaps)]:
            tried = yield from self._refit(self._swap(fit, chosen))
            if self._worth(tried, price) < self._worth(fit, price) * (1 - SMALL):
                return tried
        return None

    def _worth(self, fit: Fitted, price: float) -> float:
        """Return deviance + price·cost."""
        problem = self._problem
        deviance = 2 * fit.weight * fit.objective / problem.spread
        return deviance + price * float(problem.costs[fit.terms].sum())

    def _dense(self, fit: Fitted) -> Floats:
        dense = np.zeros(len(self._problem.penalties))
        dense[fit.terms] = fit.coef
        return dense

    def _swap(self, fit: Fitted, swaps: Sequence[Swap]) -> Floats:
        """Return the coefficients that several swaps together are expected to lead to."""
        dense = self._dense(fit)
        for swap in swaps:
            dense[fit.terms] += swap.coef - fit.coef
        for swap in swaps:
            dense[swap.old] = 0.0
        for swap in swaps:
            dense[swap.new] = swap.own
        return dense

    # --- One refit ------------------------------------------------------------------------------

    def _refit(self, start: Floats) -> Generator[RefitQuery, RefitSums, Fitted]:
        """Go to the best coefficients of the terms that `start` has."""
        problem = self._problem
        start = problem.obey(start)
        own = problem.supported(start)
        penalties, largest = problem.penalties[own], float(problem.penalties.max())
        old = new = self._confine(start)
        for _ in range(MOST_STEPS):
            sums = yield self._ask(old, new, own)
            old, new = self._ends(sums.query)
            shorter = self._step_back(sums, old, new)
            if shorter is not None:
                new = shorter
                continue
            fit = self._read(sums, new, own)
            signs = None if problem.signs is None else problem.signs.take(own)
            if kkt_residual(fit.gradient, fit.coef, penalties, signs) <= TOLERANCE * largest:
                break
            old, new = new, self._confine(self._solve(fit, penalties, 0.1 * TOLERANCE * largest))
        return _without_zeros(fit, problem)

    def _ask(self, old: Floats, new: Floats, own: Ints) -> RefitQuery:
        problem = self._problem
        terms = np.union1d(own, np.flatnonzero((old != 0) | (new != 0)))
        variants: Ints = np.empty(0, dtype=np.int64)
        if problem.count(own) <= POLISHED:
            near = [problem.variants(term) for term in own.tolist()]
            variants = np.setdiff1d(np.concatenate([variants, *near]), terms).astype(np.int64)
        return RefitQuery(self.fold, terms, old[terms], new[terms], variants)

    def _ends(self, query: RefitQuery) -> tuple[Floats, Floats]:
        """Return the coefficients of all terms where sums were taken: perhaps another machine's."""
        old, new = np.zeros((2, len(self._problem.penalties)))
        old[query.terms], new[query.terms] = query.start, query.end
        return old, new

    def _step_back(self, sums: RefitSums, old: Floats, new: Floats) -> Floats | None:
        """Return where to go instead, on the way, if the objective did not fall."""
        objectives = [
            loss / sums.weight + self._penalty(old + t * (new - old))
            for t, loss in zip(STEPS, sums.losses.tolist(), strict=True)
        ]
        if objectives[-1] <= objectives[0] + ROUNDING * self._problem.family.unit:
            return None
        return old + STEPS[max(int(np.argmin(objectives)), 1)] * (new - old)

    def _penalty(self, coef: Floats) -> float:
        return float(self._problem.penalties @ np.abs(coef))

    def _read(self, sums: RefitSums, new: Floats, own: Ints) -> Fitted:
        """Return means over the patients, of the fit's own terms."""
        asked, weight = sums.query, sums.weight
        at = np.searchsorted(asked.terms, own)
        hessian = unpack_triangle(sums.hessian, len(asked.terms))[np.ix_(at, at)] / weight
        if self._problem.family.own_terms:  # all baselines alike change nothing: see Newton
            base = self._problem.layout.baseline
            hessian[base, base] += float(np.trace(hessian)) / len(hessian)
        cross = sums.cross.reshape(len(asked.variants), len(asked.terms))[:, at]
        return Fitted(
            terms=own,
            coef=new[own],
            objective=float(sums.losses[-1]) / weight + self._penalty(new),
            held_loss=sums.held_loss / sums.held_weight if sums.held_weight > 0 else float("nan"),
            weight=weight,
            gradient=sums.gradient[at] / weight,
            hessian=hessian,
            variants=asked.variants,
            beside=sums.beside / weight,
            cross=cross / weight,
            squares=sums.squares / weight,
        )

    def _solve(self, fit: Fitted, penalties: Floats, tolerance: float) -> Floats:
        """Return the best coefficients of the quadratic, of all terms."""
        linear = fit.gradient - fit.hessian @ fit.coef
        following = np.zeros(len(self._problem.penalties))
        following[fit.terms] = solve_quadratic(
            fit.hessian,
            linear,
            penalties,
            fit.coef,
            tolerance=tolerance,
            signs=None if self._problem.signs is None else self._problem.signs.take(fit.terms),
        )
        return following

    def _confine(self, coef: Floats) -> Floats:
        """Return coefficients of a size that sites answer."""
        size = largest_predictor(coef, self._problem.bounds)
        most = self._problem.family.largest_predictor * (1 - ROUNDING)
        return coef if size <= most else coef * (most / size)


def _without_zeros(fit: Fitted, problem: Problem) -> Fitted:
    """Return a fit without the terms whose coefficient is 0, but for those that are kept."""
    baseline = np.arange(len(fit.coef)) < problem.layout.n_baseline
    kept = np.flatnonzero((fit.coef != 0) | baseline | problem.is_kept(fit.terms))
    return replace(
        fit,
        terms=fit.terms[kept],
        coef=fit.coef[kept],
        gradient=fit.gradient[kept],
        hessian=fit.hessian[np.ix_(kept, kept)],
        cross=fit.cross[:, kept],
    )


@dataclass(frozen=True, eq=False)
class Pruned:
    """What the folds say of one stage of one walk.

    Parameters
    ----------
    stage : Stage
        Of the fit to all patients.
    folds : tuple of Stage
        Of the fit without each fold; their held-out losses.
    """

    stage: Stage
    folds: tuple[Stage, ...]

    @property
    def held(self) -> Floats:
        """Held-out mean losses, shape (n_folds,)."""
        return np.array([stage.held_loss for stage in self.folds])


class PruneSearch:
    """All tracks from all starts, in shared rounds.

    Ask :meth:`queries`, give the summed answers to :meth:`update`, until :attr:`done`; then
    :meth:`choose`.

    Parameters
    ----------
    problem : Problem
    starts : sequence of sequences of (n_terms,) float64
        For each start, the coefficients of all patients' fit and of each fold's.
    lasso : (n_folds,) float64
        Held-out mean losses of the best lasso.
    most : int, optional
        Terms that a model may have; None for any number.
    """

    def __init__(
        self,
        problem: Problem,
        starts: Sequence[Sequence[Floats]],
        lasso: Floats,
        *,
        most: int | None = None,
    ) -> None:
        self._problem = problem
        self._lasso = lasso
        self._most = most
        self._walks = [
            [Track(problem, fold, coef) for fold, coef in enumerate(start, start=-1)]
            for start in starts
        ]

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The tracks that are still on their way."""
        return tuple(track for walk in self._walks for track in walk if not track.done)

    @property
    def done(self) -> bool:
        """Whether all walks are over."""
        return not self.tracks

    def queries(self) -> tuple[RefitQuery, ...]:
        """Return the next point of every track that is on its way."""
        return tuple(track.query() for track in self.tracks)

    def update(self, answers: Sequence[RefitSums]) -> None:
        """Take the summed answers to the last queries."""
        for track, sums in zip(self.tracks, answers, strict=True):
            track.update(sums)
        for walk in self._walks:
            if self._leads_nowhere(walk):
                for track in walk:
                    track.stopped = True

    def found(self) -> list[Pruned]:
        """Return the stages that all tracks have been at."""
        return [pruned for walk in self._walks for pruned in _compare(walk)]

    def _leads_nowhere(self, walk: Sequence[Track]) -> bool:
        """Whether few terms are left, and the loss is far above what it was with more."""
        known = _compare(walk)
        enough = POLISHED if self._most is None else min(self._most, POLISHED)
        if not known or self._problem.count(known[-1].stage.terms) > enough:
            return False
        losses = [pruned.held.mean() for pruned in known]
        return bool(losses[-1] > min(losses) + LOST * self._problem.spread)

    def choose(self, allowed: Callable[[Stage], bool]) -> Pruned | None:
        """Return the fewest terms that cost hardly anything; None if the lasso has to stay.

        Parameters
        ----------
        allowed : callable
            Whether a stage may be chosen.
        """
        found = [pruned for pruned in self.found() if allowed(pruned.stage)]
        scale = self._problem.spread
        if self._most is not None:
            found = [p for p in found if self._problem.count(p.stage.terms) <= self._most]
        best = min([self._lasso.mean(), *(pruned.held.mean() for pruned in found)])
        near = [
            pruned
            for pruned in found
            if pruned.held.mean() <= best + SLACK * scale
            and _least_sure(pruned.held - self._lasso) <= WORST * scale
        ]
        if self._most is not None and found and not near:
            near = [min(found, key=lambda pruned: float(pruned.held.mean()))]
        return min(near, key=self._plainness, default=None)

    def _plainness(self, pruned: Pruned) -> tuple[int, float]:
        return self._problem.count(pruned.stage.terms), float(pruned.held.mean())


def _compare(walk: Sequence[Track]) -> list[Pruned]:
    """Return the stages that all tracks of a walk have been at; who is at the end stays there."""
    reached = [MOST_STAGES + 1 if track.over else len(track.stages) for track in walk]
    n_stages = min(*reached, max(len(track.stages) for track in walk))
    found = []
    for k in range(n_stages):
        own, *folds = (track.stages[min(k, len(track.stages) - 1)] for track in walk)
        found.append(Pruned(own, tuple(folds)))
    return found


def _least_sure(differences: Floats) -> float:
    """Return a mean difference over folds, and a standard error more."""
    error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return float(differences.mean() + error)
