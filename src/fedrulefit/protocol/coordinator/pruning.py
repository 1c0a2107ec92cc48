"""Few terms: variants of the lasso's rules are agreed on, then terms are dropped and moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import Point
from fedrulefit.core.path import Path, PathSearch
from fedrulefit.core.pricing import Problem, cost
from fedrulefit.core.pruning import MOST_ROUNDS, STARTS, Pruned, PruneSearch, Stage
from fedrulefit.core.refit import RefitSums
from fedrulefit.core.variants import find_places, index_rules
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import list_variants, with_variants
from fedrulefit.protocol.coordinator.agreeing import FORBIDDEN, Candidates, ask_ballots
from fedrulefit.protocol.coordinator.asking import Asker, Progress, Talk
from fedrulefit.protocol.public import Public

Choose = Callable[[Sequence[Any]], Sequence[Any]]
"""Names the next point of each solver, or track."""

LEAST_SPREAD: Final = 1e-12
"""Least variance of errors, in squared half ranges."""

MOST_BASES: Final = 1_000
"""Rules whose variants are asked for at most: those of fewer terms come first."""


@dataclass(frozen=True, eq=False)
class Few:
    """Where the exact fit of few terms starts.

    Parameters
    ----------
    candidates : Candidates
        With penalty factors such that no other term enters.
    penalty : float
    start : Point
    folds : tuple of (n_terms,) float64
        Coefficients of the fits without each fold.
    held : (n_folds,) float64
        Mean losses of their held-out patients.
    """

    candidates: Candidates
    penalty: float
    start: Point
    folds: tuple[Floats, ...]
    held: Floats


@dataclass(frozen=True, eq=False)
class Pruning:
    """How terms were pruned.

    Parameters
    ----------
    lasso : Candidates
        What the lasso fits, with variants among the rules, none of which enters.
    path : Path
        With coefficients for them.
    rounds : int
        Of refits.
    stages : tuple of Pruned
        What the folds say of every stage.
    few : Few or None
        None where fewer terms would predict worse: then the lasso stays.
    """

    lasso: Candidates
    path: Path
    rounds: int
    stages: tuple[Pruned, ...]
    few: Few | None

    @property
    def fitted(self) -> Candidates:
        """What was fitted in the end."""
        return self.lasso if self.few is None else self.few.candidates


def prune(
    asker: Asker,
    candidates: Candidates,
    search: PathSearch,
    path: Path,
    choose: Choose,
    min_votes: int,
) -> Talk[Pruning]:
    """Drop terms of the lasso, and move cut-offs, as far as the folds let it."""
    public, settings = candidates.public, asker.settings
    starts = [search.starts(path.chosen, share) for share, _ in STARTS]
    bases = find_bases(public, [coef for start in reversed(starts) for coef in start])
    wider = yield from _agree_on_variants(asker, public, bases, min_votes)
    places = _place_terms(public, wider)
    penalty = float(path.penalties[path.chosen])
    lasso = search.held(path.chosen)
    walk = PruneSearch(
        _pose(wider, penalty, float(lasso.mean())),
        [[_spread(coef, places, wider.n_terms) for coef in start] for start in starts],
        lasso,
        shares=[share for _, share in STARTS],
        most=settings.max_terms,
    )
    rounds = yield from _walk(asker, wider, walk, choose)
    chosen = walk.choose(partial(_is_allowed, wider.layout, settings.max_rules))
    if chosen is not None and chosen.stage.price == 0 and chosen.share == STARTS[0][1]:
        chosen = None  # no term may leave: that is the lasso, which has its own λ
    factors = np.full(wider.n_terms, FORBIDDEN)
    factors[places] = candidates.factors[0]
    return Pruning(
        lasso=Candidates(wider, [factors]),
        path=_widen(path, places, wider.n_terms),
        rounds=rounds,
        stages=tuple(walk.found()),
        few=None if chosen is None else _fix(wider, chosen, chosen.share * penalty),
    )


def _walk(asker: Asker, public: Public, walk: PruneSearch, choose: Choose) -> Talk[int]:
    """Ask for sums until all walks are over; return how often."""
    rounds, most = 0, asker.settings.max_rounds
    if asker.settings.max_terms is None:  # else they go on until terms are as few as that
        most = min(most, MOST_ROUNDS)
    while not walk.done and rounds < most:
        asker.progress = Progress("pruning", rounds)
        question = partial(m.RefitRequest, queries=tuple(choose(walk.tracks)))
        found: list[RefitSums] = yield from asker.sum(question, public)
        walk.update(found)
        rounds += 1
    return rounds


def _widen(path: Path, places: Ints, n_terms: int) -> Path:
    """Return a path with coefficients, and slopes, for all terms: 0 for the new ones."""
    points = (
        replace(
            point,
            coef=_spread(point.coef, places, n_terms),
            gradient=_spread(point.gradient, places, n_terms),
        )
        for point in path.points
    )
    folds = (tuple(_spread(coef, places, n_terms) for coef in fold) for fold in path.folds)
    return replace(path, points=tuple(points), folds=tuple(folds))


def find_bases(public: Public, coefs: Sequence[Floats]) -> Ints:
    """Return the places of the rules whose variants are asked for, increasing.

    Parameters
    ----------
    coefs : sequence of (n_terms,) float64
        The fits that pruning starts from, the most important first.
    """
    columns = public.columns
    known: dict[int, None] = {}
    for coef in coefs:
        used = public.columns_of(np.union1d(np.flatnonzero(coef), np.arange(1)))
        known.update(dict.fromkeys(columns.rules_among(used).tolist()))
    return np.sort(np.array(list(known)[:MOST_BASES], dtype=np.int64))


def _agree_on_variants(asker: Asker, public: Public, bases: Ints, min_votes: int) -> Talk[Public]:
    """Let the sites vote on variants, and add those that have the votes to the fit."""
    asker.progress = Progress("votes")
    ballots: tuple[m.Ballot, ...] = ()
    if min_votes > 0:
        ballots = yield from ask_ballots(
            asker,
            partial(m.VariantVoteRequest, bases=bases),
            len(list_variants(public, bases)),
        )
    question = partial(m.VariantsRequest, bases=bases, min_votes=min_votes, ballots=ballots)
    wider = with_variants(question(asker.header("")), public)
    built = yield from asker.ask(m.TermsReply, question)
    if {reply.n_terms for reply in built} != {wider.n_terms}:
        raise ProtocolError("the sites disagree on the number of terms")
    return wider


def _place_terms(public: Public, wider: Public) -> Ints:
    """Return where each term stands once rules were added, shape (n_terms,)."""
    shift = wider.columns.n_rules - public.columns.n_rules

    def move(columns: Ints) -> Ints:
        return np.where(columns >= public.columns.linear.start, columns + shift, columns)

    if public.owners is None or wider.owners is None:
        return move(np.arange(public.n_terms))
    known = {
        pair: k
        for k, pair in enumerate(
            zip(wider.owners.parts.tolist(), wider.owners.at.tolist(), strict=True)
        )
    }
    pairs = zip(public.owners.parts.tolist(), move(public.owners.at).tolist(), strict=True)
    return np.array([known[pair] for pair in pairs], dtype=np.int64)


def _spread(coef: Floats, places: Ints, n_terms: int) -> Floats:
    """Return coefficients of all terms, 0 for the new ones."""
    wide = np.zeros(n_terms)
    wide[places] = coef
    return wide


def _pose(public: Public, penalty: float, held: float) -> Problem:
    """Return what all tracks have in common."""
    columns, owners = public.columns, public.owners
    rules = [cost(len(rule)) for rule in public.fitted_rules]
    by_column = columns.join(
        np.zeros(columns.n_baseline),
        np.array(rules),
        np.full(columns.n_linear, cost(0)),
    )
    index = index_rules(public.fitted_rules, public.grid)

    def find_variants(term: int) -> Ints:
        column = term if owners is None else int(owners.at[term])
        if not columns.are_rules(np.array([column]))[0]:
            return np.empty(0, dtype=np.int64)
        rule = public.fitted_rules[column - columns.rules.start]
        found = columns.of_rules(np.array(find_places(rule, index, public.grid), dtype=np.int64))
        if owners is None:
            return found
        own = owners.of_part(int(owners.parts[term]))
        return own[np.isin(owners.at[own], found)]

    known: dict[int, Ints] = {}

    def variants(term: int) -> Ints:
        if term not in known:
            known[term] = find_variants(term)
        return known[term]

    return Problem(
        family=public.family,
        layout=public.layout,
        penalties=penalty * public.factors,
        costs=by_column if owners is None else owners.spread(by_column),
        bounds=public.bounds.terms,
        variants=variants,
        spread=max(2 * held, LEAST_SPREAD) if public.family.of_errors else 1.0,
        signs=public.signs,
        kept=public.kept,
    )


def _is_allowed(layout: Layout, max_rules: int | None, stage: Stage) -> bool:
    return max_rules is None or int(layout.are_rules(stage.terms).sum()) <= max_rules


def _fix(public: Public, chosen: Pruned, penalty: float) -> Few:
    """Return the problem in which only the terms of a stage may have a coefficient."""
    stage, n_terms = chosen.stage, public.n_terms
    factors = np.full(n_terms, FORBIDDEN)
    factors[stage.terms] = public.factors[stage.terms]
    coef, *folds = (_spread(one.coef, one.terms, n_terms) for one in (stage, *chosen.folds))
    start = Point(coef, stage.objective, np.zeros(n_terms), np.inf, float("nan"))
    return Few(Candidates(public, [factors]), penalty, start, tuple(folds), chosen.held)
