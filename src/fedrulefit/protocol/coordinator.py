"""The coordinator: turns replies into the next requests, and at last a model.

In: the replies of all sites. Out: the next requests, or the finished model.
It keeps no clock and no connection; the same replies give the same model, in
whatever order they arrived.

The conversation reads top to bottom in :meth:`Coordinator._conversation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TypeAlias, TypeVar

import numpy as np

from fedrulefit import __version__
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.certificate import SlopeSums, certify, choose_scales
from fedrulefit.core.fedda import server_update, soft_threshold
from fedrulefit.core.grid import Grid, SpreadSums, estimate_grid
from fedrulefit.core.importance import term_importance
from fedrulefit.core.newton import STEPS, CurvatureSums, Newton, Point, Query
from fedrulefit.core.path import Path, PathSearch
from fedrulefit.core.rules import (
    Rule,
    check_rules,
    complement,
    cutoff_rules,
    level_rules,
    merge_rules,
    mirror,
)
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.model import LinearTerm, Model, PathPoint, Provenance, RuleTerm, Term
from fedrulefit.privacy.bill import PrivacyBill, exact_releases
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.schedule import make_factors, make_schedule
from fedrulefit.study import Study

FORBIDDEN = 1e9
"""A penalty factor so large that the term stays 0."""

DIVERGED = 10.0
"""A loss so many times the first one will not come back."""

Answer = TypeVar("Answer")
Talk: TypeAlias = Generator[Mapping[str, m.Request], Mapping[str, m.Reply], Answer]
"""Yields requests, is sent the replies, and returns what they add up to."""


@dataclass(frozen=True)
class Progress:
    """Where the run is: the step, its round, and the objective so far."""

    step: str
    round: int = 0
    rounds: int = 0
    objective: float | None = None


@dataclass(frozen=True)
class _Noise:
    """What protected the histograms, and whether it guarantees their ε."""

    mechanism: str
    private: bool


@dataclass(frozen=True, eq=False)
class _Solution:
    """Coefficients, and how they were found."""

    coef: Floats
    penalty: float
    weight: float
    history: list[float]
    path: Path | None = None


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The merged rules, and penalty factors for all patients and then each fold.

    A rule grown on the patients of a fold must not be judged on them: it is
    forbidden in the fits that hold that fold out.
    """

    rules: tuple[Rule, ...]
    factors: list[Floats]

    @property
    def n_allowed(self) -> int:
        """Rules that the fit to all patients may use."""
        return int((self.factors[0][1 : 1 + len(self.rules)] < FORBIDDEN).sum())


@dataclass(frozen=True, eq=False)
class _Found:
    """All that the run has agreed on before the summary."""

    grid: Grid
    candidates: _Candidates
    solution: _Solution
    noise: _Noise | None

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.candidates.rules

    @property
    def factors(self) -> Floats:
        return self.candidates.factors[0]


class Coordinator:
    """Leads one run of a study.

    Parameters
    ----------
    study : Study
    sites : sequence of str
        Names of the sites that take part.
    grid : Grid, optional
        Known cut-offs: then no histogram is asked for.
    run : str, optional
        Name of the run; by default derived from the study and the sites.
    """

    def __init__(
        self,
        study: Study,
        sites: Sequence[str],
        *,
        grid: Grid | None = None,
        run: str | None = None,
    ) -> None:
        if not sites:
            raise FitError("a run needs at least one site")
        if len(set(sites)) != len(sites):
            raise FitError("two sites have the same name: names must differ")
        self.study = study
        self.sites = tuple(sorted(sites))
        self.run = run or _name_run(study, self.sites)
        self.progress = Progress("join")
        self._grid = grid
        self._steps = 0
        self._talk = self._conversation()
        self._started = False

    def step(self, replies: Mapping[str, m.Reply] | None = None) -> Mapping[str, m.Request] | Model:
        """Take the replies to the last requests; return the next, or the model."""
        try:
            if self._started:
                return self._talk.send(dict(replies or {}))
            self._started = True
            return next(self._talk)
        except StopIteration as finished:
            model: Model = finished.value
            return model

    def _conversation(self) -> Talk[Model]:
        yield from self._ask(m.JoinReply, m.JoinRequest)
        grid, noise = self._grid, None
        if grid is None:
            grid, noise = yield from self._agree_on_grid()
        candidates = yield from self._collect_rules(grid)
        if self.study.settings.solver == "fedda":
            solution = yield from self._fit_by_averaging(candidates.factors[0])
        else:
            solution = yield from self._fit_exactly(candidates)
        found = _Found(grid, candidates, solution, noise)
        return (yield from self._summarise(found))

    def _agree_on_grid(self) -> Talk[tuple[Grid, _Noise]]:
        """Paper 2.2.1: sum the histograms, read off cut-offs and limits."""
        self.progress = Progress("histograms")
        settings, bins = self.study.settings, self.study.bins
        replies = yield from self._ask(m.GridReply, m.GridRequest)
        n_cells = sum(b.n_cells for b in bins)
        n_spreads = self.study.n_features if settings.spreads == "exact" else 0
        counts = _total([r.counts for r in replies], n_cells)
        spreads = SpreadSums(
            _total([r.spread_squares for r in replies], n_spreads),
            _total([r.spread_freedom for r in replies], n_spreads),
        )
        grid = estimate_grid(
            counts,
            bins,
            n_cutoffs=settings.n_cutoffs,
            winsor=settings.winsor,
            repair=settings.repair,
            centre=settings.centre,
            spreads=spreads if n_spreads else None,
        )
        mechanism = "; ".join(sorted({r.mechanism for r in replies}))
        return grid, _Noise(mechanism, private=all(r.private for r in replies))

    def _collect_rules(self, grid: Grid) -> Talk[_Candidates]:
        """Paper 2.2.2: every site grows rules; equal ones are merged."""
        self.progress = Progress("rules")
        settings = self.study.settings
        n_folds = settings.folds if settings.penalty == "cv" else 0
        replies = yield from self._ask(m.RulesReply, partial(m.RulesRequest, grid=grid))
        for reply in replies:
            _check_rules(reply, n_folds, grid)
        free = set(level_rules(grid))
        if settings.single_cutoffs:
            free |= set(cutoff_rules(grid))
        # One set for the fit to all patients, and one per fold for its cross-validation.
        groups = [free.union(*(reply.rules for reply in replies))]
        for fold in range(n_folds):
            groups.append(free.union(*(reply.fold_rules[fold] for reply in replies)))
        rules = merge_rules(groups, grid, drop_complements=settings.drop_complements)
        self.progress = Progress("terms")
        built = yield from self._ask(m.TermsReply, partial(m.TermsRequest, rules=rules))
        if len({reply.n_terms for reply in built}) != 1:
            raise ProtocolError("the sites disagree on the number of terms")
        factors = make_factors(settings, rules, built[0].n_terms)
        return _Candidates(rules, [_forbid(factors, rules, group, grid) for group in groups])

    def _fit_by_averaging(self, factors: Floats) -> Talk[_Solution]:
        """Paper 2.2.3, algorithm 2."""
        schedule = make_schedule(self.study.settings)
        dual = np.zeros(len(factors))
        history: list[float] = []
        for round_ in range(schedule.rounds):
            last = history[-1] if history else None
            self.progress = Progress("fit", round_, schedule.rounds, last)
            replies = yield from self._ask(
                m.DualReply, partial(m.DualRequest, round=round_, dual=dual)
            )
            weight = _positive_total({r.header.site: r.weight for r in replies})
            loss = sum(reply.loss for reply in replies) / weight
            coef = soft_threshold(dual, schedule.threshold(round_, 0), factors)
            history.append(loss + schedule.penalty * float(factors @ np.abs(coef)))
            self._check_converges(history[-1], history[0], round_)
            increment = _total([reply.increment for reply in replies], len(factors)) / weight
            dual = server_update(dual, increment, schedule.server_step)
        coef = soft_threshold(dual, schedule.threshold(schedule.rounds), factors)
        return _Solution(coef, schedule.penalty, weight, history)

    def _check_converges(self, objective: float, first: float, round_: int) -> None:
        if objective > DIVERGED * first:
            raise FitError(
                f"FedDA diverges (round {round_}: the objective is {objective:.3g}, it "
                f"started at {first:.3g}): lower 'client_step' (now "
                f"{self.study.settings.client_step:g}) or set 'centre = true'"
            )

    def _fit_exactly(self, candidates: _Candidates) -> Talk[_Solution]:
        """Proximal Newton, after cross-validation where λ is not given."""
        settings, penalty = self.study.settings, self.study.settings.penalty
        if isinstance(penalty, float):
            return (yield from self._solve(candidates, penalty, None, []))
        search = PathSearch(
            candidates.factors,
            length=settings.path_length,
            ratio=settings.path_ratio,
            max_active=settings.max_active,
        )
        history: list[float] = []
        while not search.done and len(history) < settings.max_rounds:
            self.progress = Progress("path", len(history), 0, _last(history))
            search.update((yield from self._evaluate(search.queries(), len(candidates.factors[0]))))
            history.append(search.objective)
        if not search.done:
            raise FitError(
                f"cross-validation did not end within {settings.max_rounds} rounds: raise "
                "'max_rounds', or make 'path_length' shorter"
            )
        n_rules = len(candidates.rules)
        path = search.finish(n_rules, rule=settings.selection, max_rules=settings.max_rules)
        # The path is only near its optima: the exact fit may keep a rule more than allowed,
        # and then goes back up the path.
        back = [(path.penalties[k], path.points[k]) for k in range(path.chosen, -1, -1)]
        for penalty, start in (*back, (1.05 * path.penalties[0], path.points[0])):
            solution = yield from self._solve(candidates, float(penalty), start, history)
            kept = int((solution.coef[1 : 1 + n_rules] != 0).sum())
            if settings.max_rules is None or kept <= settings.max_rules:
                break
        return replace(solution, path=path)

    def _solve(
        self,
        candidates: _Candidates,
        penalty: float,
        start: Point | None,
        history: list[float],
    ) -> Talk[_Solution]:
        """Go to the optimum at one λ; `history` goes on."""
        settings, factors = self.study.settings, candidates.factors[0]
        newton = Newton(
            factors,
            penalty,
            start=start,
            tolerance=settings.tolerance,
            max_active=settings.max_active,
        )
        weight = 0.0
        while not newton.converged and newton.rounds < settings.max_rounds:
            self.progress = Progress("fit", len(history), 0, _last(history))
            (sums,) = yield from self._evaluate((newton.query(),), len(factors))
            newton.update(sums)
            history.append(newton.point.objective)
            weight = sums.weight
        return _Solution(newton.point.coef, penalty, weight, history)

    def _evaluate(self, queries: Sequence[Query], n_terms: int) -> Talk[list[CurvatureSums]]:
        """Sum the curvature at all points over the sites."""
        replies = yield from self._ask(
            m.CurvatureReply, partial(m.CurvatureRequest, queries=tuple(queries))
        )
        n, n_steps = len(queries), len(STEPS)
        sizes = [len(q.active) * (len(q.active) + 1) // 2 for q in queries]
        weights = _total([r.weights for r in replies], n)
        held_weights = _total([r.held_weights for r in replies], n)
        losses = _total([r.losses for r in replies], n * n_steps).reshape(n, n_steps)
        held_losses = _total([r.held_losses for r in replies], n)
        gradients = _total([r.gradients for r in replies], n * n_terms).reshape(n, n_terms)
        hessians = _total([r.hessians for r in replies], sum(sizes))
        judged = np.array([query.fold >= 0 for query in queries])
        if not (weights > 0).all() or not (held_weights[judged] > 0).all():
            raise FitError(
                "too few patients for cross-validation: lower 'folds', or give 'penalty' a number"
            )
        return [
            CurvatureSums(
                weight=float(weights[k]),
                held_weight=float(held_weights[k]),
                losses=losses[k],
                held_loss=float(held_losses[k]),
                gradient=gradients[k],
                hessian=hessian,
            )
            for k, hessian in enumerate(np.split(hessians, np.cumsum(sizes)[:-1]))
        ]

    def _summarise(self, found: _Found) -> Talk[Model]:
        """Paper 2.3: support and importance of the terms that stayed; the certificate."""
        solution = found.solution
        coef, n_rounds = solution.coef, len(solution.history)
        self.progress = Progress("summary", n_rounds, n_rounds, _last(solution.history))
        kept = np.flatnonzero(coef != 0)
        terms: Ints = np.concatenate([[0], kept[kept > 0]]).astype(np.int64)
        slopes = yield from self._ask(
            m.SlopesReply, partial(m.SlopesRequest, terms=terms, coef=coef[terms])
        )
        summed = SlopeSums(
            _total([reply.cases for reply in slopes], len(coef)),
            _total([reply.others for reply in slopes], len(coef)),
        )
        penalties = solution.penalty * found.factors
        scales = choose_scales(summed, solution.weight, penalties)
        replies = yield from self._ask(
            m.SummaryReply,
            partial(
                m.SummaryRequest,
                terms=terms,
                coef=coef[terms],
                scales=np.array(scales or (0.0, 0.0)),
            ),
        )
        return self._build_model(found, terms, summed, scales, replies)

    def _build_model(
        self,
        found: _Found,
        terms: Ints,
        slopes: SlopeSums,
        scales: tuple[float, float] | None,
        replies: Sequence[m.SummaryReply],
    ) -> Model:
        solution = found.solution
        coef = solution.coef
        patients = _positive_total({r.header.site: r.total for r in replies})
        events = sum(reply.events for reply in replies)
        if not 0 < events < patients:
            raise FitError("all patients of all sites are of one outcome class: nothing to learn")
        n_rules = int(((terms > 0) & (terms <= len(found.rules))).sum())
        inside = _total([reply.inside for reply in replies], n_rules)
        events_inside = _total([reply.events_inside for reply in replies], n_rules)
        squares = _total([reply.squares for reply in replies], len(terms))
        importance = term_importance(coef[terms], squares, patients - len(replies))
        penalties = solution.penalty * found.factors
        loss = sum(reply.loss for reply in replies) / solution.weight
        objective = loss + float(penalties @ np.abs(coef))
        conjugate = sum(reply.conjugate for reply in replies)
        if self.study.settings.solver == "fedda":
            self._check_converges(objective, solution.history[0], len(solution.history))
        n_rounds = len(solution.history)
        self.progress = Progress("done", n_rounds, n_rounds, objective)
        return Model(
            study=self.study,
            grid=found.grid,
            intercept=float(coef[0]),
            terms=_make_terms(found, terms, importance, inside, events_inside),
            privacy=self._bill(found.noise, n_rounds),
            provenance=Provenance(
                sites=self.sites,
                patients=patients,
                events=events,
                candidates=found.candidates.n_allowed,
                solver=self.study.settings.solver,
                penalty=solution.penalty,
                rounds=n_rounds,
                objective=objective,
                certificate=certify(
                    slopes,
                    solution.weight,
                    coef,
                    penalties,
                    objective=objective,
                    conjugate=None if scales is None else conjugate,
                ),
                history=tuple(solution.history),
                path=_path_points(solution.path),
                software=_software(),
            ),
        )

    def _bill(self, noise: _Noise | None, rounds: int) -> PrivacyBill:
        settings = self.study.settings
        private = noise is not None and noise.private
        return PrivacyBill(
            mechanism="none" if noise is None else noise.mechanism,
            epsilon_per_histogram=settings.epsilon if private else None,
            n_histograms=0 if noise is None else self.study.n_features,
            ranges_from_data=self.study.ranges_from_data,
            exact=tuple(
                exact_releases(
                    noise=private,
                    histograms=noise is not None,
                    exact_spreads=settings.spreads == "exact",
                    rounds=rounds,
                    curvature=settings.solver == "exact",
                    folds=settings.folds if settings.penalty == "cv" else 0,
                )
            ),
        )

    def _ask(
        self, kind: type[Answer], request: Callable[[m.Header], m.Request]
    ) -> Talk[list[Answer]]:
        """Send the same request to all sites; return their replies by name."""
        headers = {
            site: m.Header(m.PROTOCOL_VERSION, self.run, self._steps, site, self.study.digest)
            for site in self.sites
        }
        self._steps += 1
        replies = yield {site: request(header) for site, header in headers.items()}
        refusals = [
            f"  {site}: {reply.reason} [{reply.code}]"
            for site, reply in sorted(replies.items())
            if isinstance(reply, m.Refusal)
        ]
        if refusals:
            raise FitError("\n".join(["these sites refused:", *refusals]))
        missing = [site for site in self.sites if site not in replies]
        if missing:
            raise ProtocolError(f"no reply from {', '.join(missing)}")
        ordered: list[Answer] = []
        for site in self.sites:
            reply = replies[site]
            if not isinstance(reply, kind) or reply.header != headers[site]:
                raise ProtocolError(f"site {site!r} answered another question")
            ordered.append(reply)
        return ordered


Number = TypeVar("Number", Floats, Ints)


def _total(arrays: Sequence[Number], length: int) -> Number:
    """Sum over sites, in the order of their names."""
    for array in arrays:
        if array.shape != (length,):
            raise ProtocolError(f"a site sent {array.shape} numbers where {length} were due")
    total: Number = np.sum(np.stack(arrays), axis=0)
    return total


def _positive_total(numbers: Mapping[str, float]) -> float:
    """Sum over sites what must be above 0 at each of them."""
    for site, number in numbers.items():
        if not number > 0:
            raise ProtocolError(f"site {site!r} counts no patients")
    return sum(numbers.values())


def _check_rules(reply: m.RulesReply, n_folds: int, grid: Grid) -> None:
    if len(reply.fold_rules) != n_folds:
        raise ProtocolError(f"site {reply.header.site!r} did not send rules for {n_folds} folds")
    for rules in (reply.rules, *reply.fold_rules):
        try:
            check_rules(rules, grid)
        except ValueError as error:
            raise ProtocolError(f"site {reply.header.site!r}: {error}") from None


def _forbid(factors: Floats, rules: Sequence[Rule], allowed: Set[Rule], grid: Grid) -> Floats:
    """Forbid all rules that neither stand in `allowed` nor negate one that does."""
    changed = factors.copy()
    for k, rule in enumerate(rules, start=1):
        if allowed.isdisjoint((rule, complement(rule, grid), mirror(rule, grid))):
            changed[k] = FORBIDDEN
    return changed


def _last(history: Sequence[float]) -> float | None:
    return history[-1] if history else None


def _make_terms(
    found: _Found, terms: Ints, importance: Floats, inside: Floats, events_inside: Floats
) -> tuple[Term, ...]:
    """Return the terms that stayed, most important first."""
    coef, n_rules = found.solution.coef, len(found.rules)
    points = found.solution.path.points if found.solution.path else ()
    made: list[Term] = []
    for k, term in enumerate(terms[1:], start=1):
        beta, size = float(coef[term]), float(importance[k])
        path = tuple(float(point.coef[term]) for point in points)
        if term <= n_rules:
            counts = float(inside[k - 1]), float(events_inside[k - 1])
            made.append(RuleTerm(found.rules[term - 1], beta, size, *counts, path=path))
        else:
            made.append(LinearTerm(found.grid.linear[term - 1 - n_rules], beta, size, path))
    return tuple(sorted(made, key=lambda term: -term.importance))


def _path_points(path: Path | None) -> tuple[PathPoint, ...]:
    if path is None:
        return ()
    columns = path.penalties, path.deviance, path.error, path.n_terms, path.n_rules
    return tuple(
        PathPoint(float(penalty), float(deviance), float(error), n_terms, n_rules)
        for penalty, deviance, error, n_terms, n_rules in zip(*columns, strict=True)
    )


def _name_run(study: Study, sites: Sequence[str]) -> str:
    text = "\n".join([study.digest, *sites])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _software() -> tuple[tuple[str, str], ...]:
    libraries = ("numpy", "scipy", "lightgbm", "opendp")
    return ("fedrulefit", __version__), *((name, version(name)) for name in libraries)
