"""The coordinator: turns replies into the next requests, and at last a model.

In: the replies of all sites. Out: the next requests, or the finished model.
It keeps no clock and no connection; the same replies give the same model, in
whatever order they arrived. So a run is resumed by handing a new coordinator the
replies of the old one.

Sums over sites are added in fixed point, masked or not
(:mod:`fedrulefit.privacy.masks`). Where a run may go on without a lost site, a
round that misses an answer is given up and asked again among the rest, under a
new step; the sites see to it that only one of the two can be opened.

The conversation reads top to bottom in :meth:`Coordinator._conversation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from fedrulefit import __version__
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.certificate import (
    SlopeSums,
    SlopeUnits,
    certify,
    choose_scales,
    read_slopes,
)
from fedrulefit.core.fedda import server_update, soft_threshold
from fedrulefit.core.fixed import LOSS_BITS, Bounds, from_units
from fedrulefit.core.grid import Grid, SpreadUnits, read_spreads, term_bounds
from fedrulefit.core.importance import TermUnits, squares_of, term_importance
from fedrulefit.core.newton import (
    STEPS,
    CurvatureSums,
    CurvatureUnits,
    Newton,
    Point,
    Query,
    read_curvature,
)
from fedrulefit.core.path import Path, PathSearch
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.rules import Rule, check_rules, complement, merge_rules, mirror
from fedrulefit.core.scores import Measures, ScoreSums
from fedrulefit.errors import FitError, ProtocolError, one_line
from fedrulefit.model import (
    Counts,
    LinearTerm,
    Model,
    PathPoint,
    Provenance,
    RuleTerm,
    Term,
)
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.publish import round_model
from fedrulefit.privacy.bill import EXACT_ITEMS, SUMMED_ITEMS, PrivacyBill, itemise
from fedrulefit.privacy.masks import SEED_BYTES, add_rings, open_sum
from fedrulefit.privacy.policy import ReleaseKind
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import (
    VOTE_BYTES,
    Tally,
    count_ballot,
    count_rules,
    count_votes,
    free_rules,
    make_grid,
)
from fedrulefit.protocol.site import MAX_RULES, SITE_WEIGHT
from fedrulefit.protocol.solver_settings import make_factors, make_schedule, most_rules
from fedrulefit.protocol.sums import (
    Lengths,
    SumReply,
    check_lengths,
    curvature_lengths,
    dual_lengths,
    evaluate_lengths,
    from_total,
    offer_lengths,
    ring_of,
    size,
    slope_lengths,
    spread_lengths,
    summary_lengths,
    triangle_size,
)
from fedrulefit.study import Study

FORBIDDEN = 1e9
"""A penalty factor so large that the term stays 0."""

MAX_CONDITIONS = 100
"""Most conditions of one rule."""

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
class _Counted:
    """The sites' histograms, as they signed them, and their sum."""

    histograms: tuple[m.Histogram, ...]
    counts: Ints


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
        Name of the run; by default derived from the study and the sites. Runs
        between hospitals need names of their own.
    secure : bool
        Whether sums are masked.
    dropouts : {"wait", "continue"}
        Whether the run goes on without sites that do not reply.
    """

    def __init__(
        self,
        study: Study,
        sites: Sequence[str],
        *,
        grid: Grid | None = None,
        run: str | None = None,
        secure: bool = False,
        dropouts: Literal["wait", "continue"] = "wait",
    ) -> None:
        if not sites:
            raise FitError("a run needs at least one site")
        if len(set(sites)) != len(sites):
            raise FitError("two sites have the same name: names must differ")
        self.study = study
        self.sites = tuple(sorted(sites))
        self.run = run or _name_run(study, self.sites)
        self.secure = secure
        self.dropouts = dropouts
        self.progress = Progress("join")
        self._rounding = EXACT
        self._peers: dict[str, m.Peer] = {}
        self._min_votes = 0
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
        join = partial(m.JoinRequest, sites=self.sites, secure=self.secure, dropouts=self.dropouts)
        joined = yield from self._ask(m.JoinReply, join)
        self._rounding = _coarsest(joined)
        if self.secure:
            self._min_votes = _most_votes(joined)
            yield from self._exchange_keys()
        grid, noise, counted = self._grid, None, None
        if grid is None:
            grid, noise, counted = yield from self._agree_on_grid()
        candidates = yield from self._collect_rules(grid, counted)
        if self.study.settings.solver == "fedda":
            solution = yield from self._fit_by_averaging(candidates.factors[0])
        else:
            solution = yield from self._fit_exactly(candidates, grid)
        found = _Found(grid, candidates, solution, noise)
        return (yield from self._summarise(found))

    def _exchange_keys(self) -> Talk[None]:
        """Carry the sites' signed keys to all sites."""
        self.progress = Progress("keys")
        replies = yield from self._ask(m.KeyReply, m.KeyRequest)
        self._peers = {
            r.header.site: m.Peer(r.header.site, r.public, r.certificate, r.dropouts, r.signature)
            for r in replies
        }
        yield from self._hand_out_keys()

    def _hand_out_keys(self) -> Talk[None]:
        """Name the sites of the sums to come."""
        peers = tuple(self._peers[site] for site in self.sites)
        yield from self._ask(m.PeersReply, partial(m.PeersRequest, peers=peers))

    def _agree_on_grid(self) -> Talk[tuple[Grid, _Noise, _Counted]]:
        """Paper 2.2.1: sum the histograms, read off cut-offs and limits."""
        self.progress = Progress("histograms")
        settings, bins = self.study.settings, self.study.bins
        replies = yield from self._ask(m.GridReply, m.GridRequest)
        counts = _total([r.counts for r in replies], sum(b.n_cells for b in bins))
        signed = tuple(m.Histogram(r.header.site, r.counts, r.signature) for r in replies)
        spreads = None
        if settings.spreads == "exact":
            sums = yield from self._sum(
                m.SpreadsReply, spread_lengths(self.study.n_features), m.SpreadsRequest
            )
            if min(sums.known.min(), sums.squares.min()) < 0:
                raise ProtocolError("the sites' spreads do not add up to spreads")
            spreads = read_spreads(SpreadUnits(sums.known, sums.sums, sums.squares), bins)
        grid = make_grid(self.study, counts, spreads)
        mechanism = "; ".join(sorted({one_line(r.mechanism, 100) for r in replies}))
        noise = _Noise(mechanism, private=all(r.private for r in replies))
        return grid, noise, _Counted(signed if self.secure else (), counts)

    def _collect_rules(self, grid: Grid, counted: _Counted | None) -> Talk[_Candidates]:
        """Paper 2.2.2: every site grows rules; equal ones are merged."""
        self.progress = Progress("rules")
        settings = self.study.settings
        n_folds = settings.folds if settings.penalty == "cv" else 0
        histograms = () if counted is None else counted.histograms
        counts = None if counted is None else counted.counts
        replies = yield from self._ask(
            m.RulesReply, partial(m.RulesRequest, grid=grid, histograms=histograms)
        )
        for reply in replies:
            _check_rules(reply, n_folds, grid, min(MAX_RULES, most_rules(settings)))
        free = free_rules(self.study, grid, counts)
        # One set for the fit to all patients, and one per fold for its cross-validation.
        groups = [free.union(*(reply.rules for reply in replies))]
        for fold in range(n_folds):
            groups.append(free.union(*(reply.fold_rules[fold] for reply in replies)))
        rules = merge_rules(groups, grid, drop_complements=settings.drop_complements)
        ballots: tuple[m.Ballot, ...] = ()
        if self._min_votes > 0:
            tally, ballots = yield from self._hold_vote(rules, replies)
            elected = tally.elect(self._min_votes)
            rules = tuple(rule for rule, stays in zip(rules, elected, strict=True) if stays)
        self.progress = Progress("terms")
        built = yield from self._ask(
            m.TermsReply, partial(m.TermsRequest, rules=rules, ballots=ballots)
        )
        if len({reply.n_terms for reply in built}) != 1:
            raise ProtocolError("the sites disagree on the number of terms")
        factors = make_factors(settings, rules, built[0].n_terms)
        return _Candidates(rules, [_forbid(factors, rules, group, grid) for group in groups])

    def _hold_vote(
        self, rules: tuple[Rule, ...], sent: Sequence[m.RulesReply]
    ) -> Talk[tuple[Tally, tuple[m.Ballot, ...]]]:
        """Ask how many sites have enough patients in each rule; return what they signed, too."""
        self.progress = Progress("votes")
        senders = tuple(m.Sender(r.header.site, count_rules(r), r.signature) for r in sent)
        replies, seeds = yield from self._ask_together(
            m.VoteReply, partial(m.VoteRequest, rules=rules, senders=senders)
        )
        n_votes = count_ballot(len(rules), len(replies))
        for reply in replies:
            if len(reply.votes) != VOTE_BYTES * n_votes:
                raise ProtocolError(f"site {reply.header.site!r} did not vote on every rule")
        ballots = tuple(
            m.Ballot(reply.header.site, reply.votes, reply.signature, seed)
            for reply, seed in zip(replies, seeds or [b""] * len(replies), strict=True)
        )
        return count_votes(ballots, len(rules)), ballots

    def _fit_by_averaging(self, factors: Floats) -> Talk[_Solution]:
        """Paper 2.2.3, algorithm 2."""
        schedule = make_schedule(self.study.settings)
        dual = np.zeros(len(factors))
        history: list[float] = []
        for round_ in range(schedule.rounds):
            last = history[-1] if history else None
            self.progress = Progress("fit", round_, schedule.rounds, last)
            sums = yield from self._sum(
                m.DualReply,
                dual_lengths(len(factors)),
                partial(m.DualRequest, round=round_, dual=dual),
            )
            weight = _positive(sums.weight)
            loss = sums.loss / weight
            coef = soft_threshold(dual, schedule.threshold(round_, 0), factors)
            history.append(loss + schedule.penalty * float(factors @ np.abs(coef)))
            self._check_converges(history[-1], history[0], round_)
            dual = server_update(dual, sums.increment / weight, schedule.server_step)
        coef = soft_threshold(dual, schedule.threshold(schedule.rounds), factors)
        return _Solution(coef, schedule.penalty, weight, history)

    def _check_converges(self, objective: float, first: float, round_: int) -> None:
        if objective > DIVERGED * first:
            raise self._diverges(
                f"round {round_}: the objective is {objective:.3g}, it started at {first:.3g}"
            )

    def _diverges(self, how: str) -> FitError:
        step = self.study.settings.client_step
        return FitError(
            f"FedDA diverges ({how}): lower 'client_step' (now {step:g}) or set 'centre = true'"
        )

    def _fit_exactly(self, candidates: _Candidates, grid: Grid) -> Talk[_Solution]:
        """Proximal Newton, after cross-validation where λ is not given."""
        settings, penalty = self.study.settings, self.study.settings.penalty
        bounds = self._bounds(candidates, grid)
        if isinstance(penalty, float):
            return (yield from self._solve(candidates, bounds, penalty, None, []))
        search = PathSearch(
            candidates.factors,
            bounds=bounds.terms,
            length=settings.path_length,
            ratio=settings.path_ratio,
            max_active=settings.max_active,
        )
        history: list[float] = []
        while not search.done and len(history) < settings.max_rounds:
            self.progress = Progress("path", len(history), 0, _last(history))
            search.update((yield from self._evaluate(search.solvers, bounds)))
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
            solution = yield from self._solve(candidates, bounds, float(penalty), start, history)
            kept = int((solution.coef[1 : 1 + n_rules] != 0).sum())
            if settings.max_rules is None or kept <= settings.max_rules:
                break
        return replace(solution, path=path)

    def _solve(
        self,
        candidates: _Candidates,
        bounds: Bounds,
        penalty: float,
        start: Point | None,
        history: list[float],
    ) -> Talk[_Solution]:
        """Go to the optimum at one λ; `history` goes on."""
        settings, factors = self.study.settings, candidates.factors[0]
        newton = Newton(
            factors,
            penalty,
            bounds=bounds.terms,
            start=start,
            tolerance=settings.tolerance,
            max_active=settings.max_active,
        )
        weight = 0.0
        while not newton.converged and newton.rounds < settings.max_rounds:
            self.progress = Progress("fit", len(history), 0, _last(history))
            (sums,) = yield from self._evaluate((newton,), bounds)
            newton.update(sums)
            history.append(newton.point.objective)
            weight = sums.weight
        return _Solution(newton.point.coef, penalty, weight, history)

    def _bounds(self, candidates: _Candidates, grid: Grid) -> Bounds:
        """Return how large patients' numbers can be: the same as every site finds."""
        settings, n_terms = self.study.settings, len(candidates.factors[0])
        weight = self.study.most_weight if settings.weighting == "patients" else SITE_WEIGHT
        return Bounds(term_bounds(grid, len(candidates.rules), n_terms), weight)

    def _evaluate(self, solvers: Sequence[Newton], bounds: Bounds) -> Talk[list[CurvatureSums]]:
        """Sum the curvature at the solvers' next points."""
        return (yield from self._sum_curvature([solver.query() for solver in solvers], bounds))

    def _sum_curvature(self, queries: Sequence[Query], bounds: Bounds) -> Talk[list[CurvatureSums]]:
        """Sum the curvature at all points over the sites."""
        n_terms = len(bounds.terms)
        sums = yield from self._sum(
            m.CurvatureReply,
            curvature_lengths(queries, n_terms),
            partial(m.CurvatureRequest, queries=tuple(queries)),
        )
        n = len(queries)
        weights, held_weights = sums.weights, sums.held_weights
        losses = sums.losses.reshape(n, len(STEPS))
        gradients = sums.gradients.reshape(n, n_terms)
        ends = np.cumsum([triangle_size(query) for query in queries])
        judged = np.array([query.fold >= 0 for query in queries])
        if not (weights > 0).all() or not (held_weights[judged] > 0).all():
            raise FitError(
                "too few patients for cross-validation: lower 'folds', or give 'penalty' a number"
            )
        found = [
            CurvatureUnits(
                weight=int(weights[k]),
                held_weight=int(held_weights[k]),
                losses=losses[k],
                held_loss=int(sums.held_losses[k]),
                gradient=gradients[k],
                hessian=hessian,
            )
            for k, hessian in enumerate(np.split(sums.hessians, ends[:-1]))
        ]
        return [read_curvature(u, q, bounds) for u, q in zip(found, queries, strict=True)]

    def _summarise(self, found: _Found) -> Talk[Model]:
        """Paper 2.3: support and importance of the terms that stayed; the certificate."""
        solution = found.solution
        coef, n_rounds = solution.coef, len(solution.history)
        self.progress = Progress("summary", n_rounds, n_rounds, _last(solution.history))
        kept = np.flatnonzero(coef != 0)
        terms: Ints = np.concatenate([[0], kept[kept > 0]]).astype(np.int64)
        slopes = yield from self._sum(
            m.SlopesReply,
            slope_lengths(len(coef)),
            partial(m.SlopesRequest, terms=terms, coef=coef[terms]),
        )
        bounds = self._bounds(found.candidates, found.grid).terms
        summed = read_slopes(SlopeUnits(slopes.cases, slopes.others), bounds)
        penalties = solution.penalty * found.factors
        scales = choose_scales(summed, solution.weight, penalties)
        n_rules = int(((terms > 0) & (terms <= len(found.rules))).sum())
        sums = yield from self._sum(
            m.SummaryReply,
            summary_lengths(n_rules, len(terms)),
            partial(
                m.SummaryRequest,
                terms=terms,
                coef=coef[terms],
                scales=np.array(scales or (0.0, 0.0)),
            ),
        )
        model = self._build_model(found, terms, summed, scales, sums)
        # What is judged is what is published.
        told = _told_coef(round_model(model, self._rounding), found, terms)
        if self.study.settings.holdout > 0:
            evaluation = yield from self._evaluate_model(terms, told)
            model = replace(model, evaluation=evaluation)
        if self.study.settings.per_site:
            rules = [found.rules[k - 1] for k in terms[1 : n_rules + 1]]
            model = yield from self._add_results(model, terms, told, rules)
        self.progress = replace(self.progress, step="done")
        return round_model(model, self._rounding)

    def _evaluate_model(self, terms: Ints, coef: Floats) -> Talk[Evaluation]:
        """Judge the model on held-out patients."""
        self.progress = replace(self.progress, step="evaluation")
        sums = yield from self._sum(
            m.EvaluateReply,
            evaluate_lengths(),
            partial(m.EvaluateRequest, terms=terms, coef=coef),
        )
        scores = ScoreSums(sums.cases, sums.others, sums.chances, sums.squares, sums.loss)
        return Evaluation(scores, judged=self._rounding)

    def _add_results(
        self, model: Model, terms: Ints, coef: Floats, rules: Sequence[Rule]
    ) -> Talk[Model]:
        """Add the sites' own results: those that no site keeps back."""
        self.progress = replace(self.progress, step="results")
        kept_back = yield from self._sum(
            m.OfferReply, offer_lengths(len(rules)), partial(m.OfferRequest, terms=terms)
        )
        # Sums of zeros and ones, in fixed point.
        totals, judged = kept_back.totals < 0.5, kept_back.evaluation < 0.5
        told = np.flatnonzero(kept_back.rules < 0.5) if totals else np.empty(0, dtype=np.int64)
        replies = yield from self._ask(
            m.ResultsReply,
            partial(
                m.ResultsRequest,
                terms=terms,
                coef=coef,
                rules=told,
                totals=totals,
                evaluation=judged,
            ),
        )
        for reply in replies:
            _check_results(reply, told, totals=totals, evaluation=judged)
        by_site = tuple(Counts(*reply.totals.tolist()) for reply in replies) if totals else ()
        counts = {
            rules[k]: tuple(
                Counts(float(reply.inside[place]), float(reply.events_inside[place]))
                for reply in replies
            )
            for place, k in enumerate(told.tolist())
        }
        evaluation = model.evaluation
        if judged and evaluation is not None:
            measures = {reply.header.site: _read_measures(reply) for reply in replies}
            evaluation = replace(evaluation, sites=measures)
        return replace(
            model,
            terms=tuple(
                replace(term, by_site=counts.get(term.rule, ()))
                if isinstance(term, RuleTerm)
                else term
                for term in model.terms
            ),
            provenance=replace(model.provenance, by_site=by_site),
            evaluation=evaluation,
        )

    def _build_model(
        self,
        found: _Found,
        terms: Ints,
        slopes: SlopeSums,
        scales: tuple[float, float] | None,
        sums: m.SummaryReply,
    ) -> Model:
        solution = found.solution
        coef = solution.coef
        patients, events = _positive(float(from_units(sums.total))), float(from_units(sums.events))
        if not 0 < events < patients:
            raise FitError("all patients of all sites are of one outcome class: nothing to learn")
        bounds = self._bounds(found.candidates, found.grid).terms[terms]
        counted = TermUnits(
            sums.total, sums.events, sums.inside, sums.events_inside, sums.sums, sums.squares
        )
        importance = term_importance(coef[terms], squares_of(counted, bounds), patients - 1)
        inside, events_inside = from_units(sums.inside), from_units(sums.events_inside)
        penalties = solution.penalty * found.factors
        loss = float(from_units(sums.loss, LOSS_BITS))
        conjugate = float(from_units(sums.conjugate))
        objective = loss / solution.weight + float(penalties @ np.abs(coef))
        if self.study.settings.solver == "fedda":
            self._check_converges(objective, solution.history[0], len(solution.history))
        n_rounds = len(solution.history)
        self.progress = Progress("summary", n_rounds, n_rounds, objective)
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
        folds = settings.folds if settings.penalty == "cv" else 0
        released = self._released(noise)
        return PrivacyBill(
            mechanism="none" if noise is None else noise.mechanism,
            epsilon_per_histogram=self.study.epsilon_per_histogram if private else None,
            n_histograms=0 if noise is None else self.study.n_features,
            ranges_from_data=self.study.ranges_from_data,
            sum_of=len(self.sites) if self.secure else None,
            exact=itemise(EXACT_ITEMS, released, rounds=rounds, folds=folds),
            sums=itemise(SUMMED_ITEMS, released, rounds=rounds, folds=folds),
        )

    def _released(self, noise: _Noise | None) -> set[ReleaseKind]:
        """Return the kinds of release that the run asks for, beside noisy histograms."""
        settings = self.study.settings
        asked: dict[ReleaseKind, bool] = {
            "exact-histograms": noise is not None and not noise.private,
            "spreads": noise is not None and settings.spreads == "exact",
            "rules": True,
            "votes": self._min_votes > 0,
            "curvature": settings.solver == "exact",
            "dual": settings.solver == "fedda",
            "slopes": True,
            "summary": True,
            "evaluation": settings.holdout > 0,
            "site-results": settings.per_site,
        }
        return {kind for kind, leaves in asked.items() if leaves}

    def _sum(
        self, kind: type[SumReply], lengths: Lengths, request: Callable[[m.Header], m.Request]
    ) -> Talk[SumReply]:
        """Ask all sites for a sum; return their total."""
        try:
            if self.secure:
                total = yield from self._add_sealed(size(lengths), request)
            else:
                total = _add_replies((yield from self._ask(kind, request)), lengths)
        except ProtocolError as error:
            if error.code == "overflow" and self.study.settings.solver == "fedda":
                raise self._diverges(f"the numbers outgrow a sum ({error})") from None
            raise
        header = m.Header(m.PROTOCOL_VERSION, self.run, self._steps, "", self.study.digest)
        return from_total(kind, header, lengths, total)

    def _add_sealed(self, length: int, request: Callable[[m.Header], m.Request]) -> Talk[Ints]:
        replies, seeds = yield from self._ask_together(m.SealedReply, request)
        sealed = [reply.numbers for reply in replies]
        if any(numbers.shape != (length,) for numbers in sealed):
            raise ProtocolError(f"a site sent a sum that is not of {length} numbers")
        return open_sum(sealed, seeds, length)

    def _ask_together(
        self, kind: type[Answer], request: Callable[[m.Header], m.Request]
    ) -> Talk[tuple[list[Answer], list[bytes]]]:
        """Return masked answers of one set of sites, and the seeds that open their own masks."""
        while True:
            asked, before = self._steps, self.sites
            replies = yield from self._ask(kind, request)
            if self.sites == before:
                break  # else given up: the masks shared with the lost sites would stay
        seeds: list[bytes] = []
        if self.dropouts == "continue":
            # Once a site has opened its mask, only this set of sites can end the round.
            opened = yield from self._ask(
                m.OpenReply, partial(m.OpenRequest, sealed=asked), may_leave=False
            )
            seeds = [reply.seed for reply in opened]
            if any(len(seed) != SEED_BYTES for seed in seeds):
                raise ProtocolError("a site opened a sum with something that is not a seed")
        return replies, seeds

    def _ask(
        self,
        kind: type[Answer],
        request: Callable[[m.Header], m.Request],
        *,
        may_leave: bool = True,
    ) -> Talk[list[Answer]]:
        """Send the same request to all sites; return their replies by name."""
        headers = {
            site: m.Header(m.PROTOCOL_VERSION, self.run, self._steps, site, self.study.digest)
            for site in self.sites
        }
        self._steps += 1
        replies = yield {site: request(header) for site, header in headers.items()}
        refusals = [
            f"  {site}: {one_line(reply.reason)} [{one_line(reply.code, 40)}]"
            for site, reply in sorted(replies.items())
            if isinstance(reply, m.Refusal)
        ]
        for site, reply in replies.items():
            if isinstance(reply, m.Refusal) and reply.code == "overflow":
                raise ProtocolError(f"site {site!r}: {one_line(reply.reason)}", reply.code)
        if refusals:
            raise FitError("\n".join(["these sites refused:", *refusals]))
        missing = [site for site in self.sites if site not in replies]
        ordered: list[Answer] = []
        for site, header in headers.items():
            if site in missing:
                continue
            reply = replies[site]
            if not isinstance(reply, kind) or reply.header != header:
                raise ProtocolError(f"site {site!r} answered another question")
            ordered.append(reply)
        if missing:
            yield from self._go_on_without(missing, may_leave=may_leave)
        return ordered

    def _go_on_without(self, missing: Sequence[str], *, may_leave: bool) -> Talk[None]:
        """Let lost sites go, where the run allows it."""
        lost = ", ".join(missing)
        left = tuple(site for site in self.sites if site not in missing)
        if self.dropouts == "wait" or not may_leave or not left:
            raise ProtocolError(
                f"no reply from {lost}: the run can be resumed once they are back", "lost"
            )
        if self.study.settings.per_site:
            raise ProtocolError(
                f"no reply from {lost}: the study tells results of single sites, and the "
                "difference to earlier sums would tell theirs; the run can be resumed once they "
                "are back",
                "lost",
            )
        if self.progress.step in ("summary", "evaluation"):
            raise ProtocolError(
                f"no reply from {lost}: the model rests on their patients; "
                "the run can be resumed once they are back",
                "lost",
            )
        self.sites = left
        if self._peers:
            yield from self._hand_out_keys()


Number = TypeVar("Number", Floats, Ints)


def _total(arrays: Sequence[Number], length: int) -> Number:
    """Sum over sites, in the order of their names."""
    for array in arrays:
        if array.shape != (length,):
            raise ProtocolError(f"a site sent {array.shape} numbers where {length} were due")
    total: Number = np.sum(np.stack(arrays), axis=0)
    return total


def _add_replies(replies: Sequence[m.Sum], lengths: Lengths) -> Ints:
    """Add up, in fixed point, what the sites sent without masks."""
    for reply in replies:
        check_lengths(reply, lengths)
    return add_rings([ring_of(reply, len(replies)) for reply in replies], size(lengths))


def _check_results(reply: m.ResultsReply, rules: Ints, *, totals: bool, evaluation: bool) -> None:
    """Refuse results that are not those asked for."""
    site, n_known = reply.header.site, len(reply.known)
    lengths = (
        (reply.totals, 2 if totals else 0),
        (reply.inside, len(rules)),
        (reply.events_inside, len(rules)),
        (reply.measures, n_known),
    )
    places = set(reply.known.tolist())
    wanted = {0, 1} if evaluation else set()
    if any(array.shape != (length,) for array, length in lengths) or len(places) < n_known:
        raise ProtocolError(f"site {site!r} sent other results than were asked for")
    if not wanted <= places or (places and not evaluation):
        raise ProtocolError(f"site {site!r} sent other results than were asked for")
    if not places <= set(range(len(fields(Measures)))):
        raise ProtocolError(f"site {site!r} sent a measure that does not exist")
    parts = [(reply.events_inside, reply.inside)]
    if totals:
        parts.append((reply.totals[1:], reply.totals[:1]))
        parts.append((reply.inside, np.full(len(rules), reply.totals[0])))
        parts.append((reply.events_inside, np.full(len(rules), reply.totals[1])))
    if any((few < 0).any() or (few > many * (1 + 1e-9)).any() for few, many in parts):
        raise ProtocolError(f"site {site!r} counts more patients in a part than in the whole")


def _read_measures(reply: m.ResultsReply) -> Measures:
    values = np.full(len(fields(Measures)), np.nan)
    values[reply.known] = reply.measures
    try:
        return Measures(*values.tolist())
    except ValueError as error:
        raise ProtocolError(f"site {reply.header.site!r}: {error}") from None


def _positive(total: float) -> float:
    if not total > 0:
        raise ProtocolError("the sites count no patients")
    return total


def _check_rules(reply: m.RulesReply, n_folds: int, grid: Grid, most: int) -> None:
    """Refuse rules that the study's trees cannot give, and name who sent them."""
    site, sets = reply.header.site, (reply.rules, *reply.fold_rules)
    if len(reply.fold_rules) != n_folds:
        raise ProtocolError(f"site {site!r} did not send rules for {n_folds} folds")
    largest = max(map(len, sets))
    if largest <= most:
        try:
            for rules in sets:
                check_rules(rules, grid)
        except ValueError as error:
            raise ProtocolError(f"site {site!r}: {error}") from None
        largest = len(set().union(*sets))
    if largest > most:
        raise ProtocolError(
            f"site {site!r} sent {largest} rules, where the study's trees give {most} at most: "
            "ask the site what it runs, or leave it out",
            "too-many-rules",
        )
    longest = max((len(rule) for rules in sets for rule in rules), default=0)
    if longest > MAX_CONDITIONS:
        raise ProtocolError(
            f"site {site!r} sent a rule of {longest} conditions, of at most {MAX_CONDITIONS}",
            "too-many-rules",
        )


def _forbid(factors: Floats, rules: Sequence[Rule], allowed: Set[Rule], grid: Grid) -> Floats:
    """Forbid all rules that neither stand in `allowed` nor negate one that does."""
    changed = factors.copy()
    for k, rule in enumerate(rules, start=1):
        if allowed.isdisjoint((rule, complement(rule, grid), mirror(rule, grid))):
            changed[k] = FORBIDDEN
    return changed


def _last(history: Sequence[float]) -> float | None:
    return history[-1] if history else None


def _coarsest(joined: Sequence[m.JoinReply]) -> Rounding:
    """Return the rounding that every site's policy asks for."""
    rounding = EXACT
    for reply in joined:
        try:
            rounding = rounding.join(Rounding(reply.round_counts, reply.min_published))
        except ValueError as error:
            raise ProtocolError(f"site {reply.header.site!r}: {error}") from None
    return rounding


def _most_votes(joined: Sequence[m.JoinReply]) -> int:
    """Return the votes for a rule that every site's policy asks for."""
    for reply in joined:
        if not 0 <= reply.min_votes <= len(joined):
            raise ProtocolError(
                f"site {reply.header.site!r} asks for {reply.min_votes} votes of {len(joined)} "
                "sites for each rule: no rule could have them ('min_votes' of its policy)"
            )
    return max(reply.min_votes for reply in joined)


def _told_coef(model: Model, found: _Found, terms: Ints) -> Floats:
    """Return the coefficients of a model that was rounded, in the order of `terms`.

    0 for a term that rounding left out.
    """
    rules = {term.rule: term.coefficient for term in model.rule_terms}
    linear = {term.feature: term.coefficient for term in model.linear_terms}
    n_rules = len(found.rules)
    told = [
        rules.get(found.rules[k - 1], 0.0)
        if k <= n_rules
        else linear.get(found.grid.linear[k - 1 - n_rules], 0.0)
        for k in terms[1:].tolist()
    ]
    return np.array([model.intercept, *told])


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
