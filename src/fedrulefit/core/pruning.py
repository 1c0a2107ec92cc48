r"""Few terms instead of many: drop, polish, refit, and let the folds choose how far to go.

Not in the paper. In: the path of the lasso, with the fits of all patients and of each fold, and
sums over all sites. Out: the few terms of the model, and their coefficients. Leaves the site: what
a refit asks for (:mod:`fedrulefit.core.refit`).

A lasso keeps many terms where few would do: it needs several cut-offs to follow one step that lies
between them, and shrinks what is needed to keep out what is not. From here on the terms of a fit
are chosen one by one, at a *price* c that rises from stage to stage. All fits (*tracks*), that to
all patients and those without each fold, go the same stages, each on its own sums:

1. *Drop* terms whose leaving raises the deviance by less than c times their
   :func:`~fedrulefit.core.pricing.cost`, the least first, at most a third of all, and *refit* the
   others; on the way to their optimum again, wherever the quadratic leads, until none is left to
   drop.
2. *Polish*, once few terms are left: put a variant (:mod:`fedrulefit.core.variants`) in the place
   of a rule where deviance + c·cost falls, as the quadratic has it. What does not fall when it is
   tried is taken back after a round or two, and not tried again at a price at which it is as bad.

Of a fold's patients, who are held out, only a loss is told. So every stage has a cross-validated
loss, as every λ has, and :meth:`PruneSearch.choose` takes the fewest terms that cost hardly
anything. There are two walks. One begins with the terms of the best lasso, at nearly its λ*: where
many small effects add up, few terms less are as good, and less shrinkage would be worse. The other
begins with about 70 % of the terms and fits them with λ*/2: where few effects are large, it
leaves out what the lasso needs only to make up for its shrinkage.

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
from fedrulefit.core.pricing import Fitted, Problem, Swap, drop, find_swaps, look_ahead
from fedrulefit.core.refit import RefitQuery, RefitSums
from fedrulefit.core.signs import learnt

STARTS: Final = ((1.0, 0.9), (0.7, 0.5))
"""Walks: where the lasso has such a share of the terms that it has at the chosen λ one begins, and
with such a share of this λ it fits."""

FIRST_PRICE: Final = 0.25
PRICE_RATIO: Final = 2.0
MOST_STAGES: Final = 13
"""Prices c: ¼, ½, 1, 2, 4, … in units of the deviance."""

MOST_ROUNDS: Final = 36
"""Rounds after which the walks end, wherever they are, unless a most of terms is wanted."""

POLISHED: Final = 20
"""Terms are few enough to be polished: more would need many sums."""

MOST_VARIANTS: Final = 5_000
"""Variants of one point's terms that are asked for at most."""

MOST_TRIES: Final = 2
"""Rounds after which variants that are not better yet are given up."""

TOLERANCE: Final = 0.1
"""KKT residual, as a share of the penalty, that is good enough for a stage."""

MOST_STEPS: Final = 12
"""Rounds after which a refit is taken as it is."""

SLACK: Final = 0.003
"""Mean loss that fewer terms may cost, beside the best of the cross-validation."""

WORST: Final = 0.001
"""What they may cost beside the best lasso, a standard error above what was measured."""

LOST: Final = 0.01
"""Mean loss above the best of a walk from which it leads nowhere; twice as much of many terms,
which are not polished yet."""

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
        self._refused: dict[bytes, tuple[float, float]] = {}
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
            if self._problem.count(fit.terms[~self._problem.is_kept(fit.terms)]) == 0:
                return
            price *= PRICE_RATIO

    def _note(self, price: float, fit: Fitted) -> None:
        self.stages.append(Stage(price, fit.terms, fit.coef, fit.objective, fit.held_loss))

    def _stage(self, fit: Fitted, price: float) -> Generator[RefitQuery, RefitSums, Fitted]:
        """Drop what is not worth its price, and polish what is left."""
        left = drop(self._problem, fit, price)
        if left is not None:
            fit = yield from self._refit(left, price)
        return (yield from self._polish(fit, price))

    def _polish(self, fit: Fitted, price: float) -> Generator[RefitQuery, RefitSums, Fitted]:
        """Put variants in the place of rules, as far as that is better."""
        swaps = find_swaps(self._problem, fit, price)
        worth = self._worth(fit, price) * (1 - SMALL)
        for chosen in (swaps, swaps[:1])[: len(swaps)]:
            start = self._swap(fit, chosen)
            key = self._problem.supported(start).tobytes()
            known = self._refused.get(key)
            if known is not None and known[0] + price * known[1] >= worth:
                continue
            tried = yield from self._try(start, price, worth)
            if self._worth(tried, price) < worth:
                return (yield from self._refit(self._dense(tried), price))
            self._refused[key] = self._deviance(tried), self._cost(tried)
        return fit

    def _try(
        self, start: Floats, price: float, worth: float
    ) -> Generator[RefitQuery, RefitSums, Fitted]:
        """Look whether the terms that `start` has are worth more; soon enough if they are not."""
        own, new = self._begin(start)
        old = new
        for _ in range(MOST_TRIES):
            sums = yield self._ask(old, new, own)
            old, new = self._ends(sums.query)
            fit = self._read(sums, new, own)
            ahead = look_ahead(self._problem, fit, TOLERANCE)
            if self._worth(fit, price) < worth or self._worth(ahead, price) >= worth:
                break
            old, new = new, self._confine(self._dense(ahead))
        return fit

    def _worth(self, fit: Fitted, price: float) -> float:
        """Return deviance + price·cost."""
        return self._deviance(fit) + price * self._cost(fit)

    def _deviance(self, fit: Fitted) -> float:
        return 2 * fit.weight * fit.objective / self._problem.spread

    def _cost(self, fit: Fitted) -> float:
        return float(self._problem.costs[fit.terms[fit.coef != 0]].sum())

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

    def _refit(self, start: Floats, price: float = 0.0) -> Generator[RefitQuery, RefitSums, Fitted]:
        """Go to the best coefficients of the terms that `start` has.

        On the way terms are dropped that are not worth the price where the quadratic leads to.
        """
        problem, own, new = self._problem, *self._begin(start)
        old = new
        for _ in range(MOST_STEPS):
            sums = yield self._ask(old, new, own)
            old, new = self._ends(sums.query)
            shorter = self._step_back(sums, old, new)
            if shorter is not None:
                new = shorter
                continue
            fit = self._read(sums, new, own)
            ahead = look_ahead(problem, fit, TOLERANCE)
            left = drop(problem, ahead, price)
            if left is not None:
                own, new = self._begin(left)
                old = new
            elif ahead is fit:
                break
            else:
                old, new = new, self._confine(self._dense(ahead))
        return fit.without_zeros(problem)

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

    def _begin(self, coef: Floats) -> tuple[Ints, Floats]:
        """Return the terms that coefficients have, and coefficients that may be asked about."""
        obeying = self._problem.obey(coef)
        return self._problem.supported(obeying), self._confine(obeying)

    def _confine(self, coef: Floats) -> Floats:
        """Return coefficients of a size that sites answer."""
        held = np.where(learnt(len(coef), self._problem.signs), 0.0, coef)
        fixed = largest_predictor(held, self._problem.bounds)
        size = largest_predictor(coef - held, self._problem.bounds)
        most = self._problem.family.largest_predictor * (1 - ROUNDING) - fixed
        return coef if size <= most else held + (coef - held) * (most / size)


@dataclass(frozen=True, eq=False)
class Pruned:
    """What the folds say of one stage of one walk.

    Parameters
    ----------
    stage : Stage
        Of the fit to all patients.
    folds : tuple of Stage
        Of the fit without each fold; their held-out losses.
    share : float
        Of the chosen λ, with which they were fitted.
    """

    stage: Stage
    folds: tuple[Stage, ...]
    share: float = 1.0

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
    shares : sequence of float
        For each start, the share of the problem's penalties with which terms are fitted.
    most : int, optional
        Terms that a model may have; None for any number.
    """

    def __init__(
        self,
        problem: Problem,
        starts: Sequence[Sequence[Floats]],
        lasso: Floats,
        *,
        shares: Sequence[float] = (1.0,),
        most: int | None = None,
    ) -> None:
        self._problem = problem
        self._lasso = lasso
        self._most = most
        self._shares = shares
        self._walks = [
            [
                Track(replace(problem, penalties=share * problem.penalties), fold, coef)
                for fold, coef in enumerate(start, start=-1)
            ]
            for start, share in zip(starts, shares, strict=True)
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
        return [
            replace(pruned, share=share)
            for walk, share in zip(self._walks, self._shares, strict=True)
            for pruned in _compare(walk)
        ]

    def _leads_nowhere(self, walk: Sequence[Track]) -> bool:
        """Whether terms are few enough, and the loss is far above what it was with more."""
        known = _compare(walk)
        n_terms = self._problem.count(known[-1].stage.terms) if known else 0
        if not known or (self._most is not None and n_terms > self._most):
            return False
        losses = [pruned.held.mean() for pruned in known]
        far = LOST * (1 if n_terms <= POLISHED else 2)
        return bool(losses[-1] > min(losses) + far * self._problem.spread)

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

    def _plainness(self, pruned: Pruned) -> tuple[int, float, float]:
        """Return how many terms the folds have, whose losses they are; the mean loss, the price."""
        n_terms = sum(self._problem.count(stage.terms) for stage in pruned.folds)
        return n_terms, float(pruned.held.mean()), pruned.stage.price


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
