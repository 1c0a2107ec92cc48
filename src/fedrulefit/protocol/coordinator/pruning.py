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
from fedrulefit.core.pruning import HALF, SHARES, Pruned, PruneSearch, Stage
from fedrulefit.core.refit import RefitSums
from fedrulefit.core.variants import find_places, index_rules
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import list_variants, with_variants
from fedrulefit.protocol.coordinator.agreeing import FORBIDDEN, ask_ballots
from fedrulefit.protocol.coordinator.asking import Asker, Progress, Talk
from fedrulefit.protocol.public import Public

Choose = Callable[[Sequence[Any]], Sequence[Any]]
"""Names the next point of each solver, or track."""

MOST_BASES: Final = 1_000
"""Rules whose variants are asked for at most: those of fewer terms come first."""


@dataclass(frozen=True, eq=False)
class Selection:
    """How terms were pruned.

    Parameters
    ----------
    rounds : int
        Of refits.
    stages : tuple of Pruned
        What the folds say of every stage; empty where the lasso stays.
    """

    rounds: int
    stages: tuple[Pruned, ...]


@dataclass(frozen=True, eq=False)
class Fewer:
    """Where the exact fit of few terms starts.

    Parameters
    ----------
    factors : (n_terms,) float64
        Penalty factors, such that no other term enters.
    penalty : float
    start : Point
    """

    factors: Floats
    penalty: float
    start: Point


@dataclass(frozen=True, eq=False)
class Choice:
    """What pruning came to.

    Parameters
    ----------
    public : Public
        With the variants among the rules.
    factors : (n_terms,) float64
        Of the lasso, which has none of them.
    path : Path
        With coefficients for them.
    selection : Selection
    fewer : Fewer or None
        None where fewer terms would predict worse: then the lasso stays.
    """

    public: Public
    factors: Floats
    path: Path
    selection: Selection
    fewer: Fewer | None


def prune(
    asker: Asker,
    public: Public,
    factors: Floats,
    search: PathSearch,
    path: Path,
    choose: Choose,
    min_votes: int,
) -> Talk[Choice]:
    """Drop terms of the lasso, and move cut-offs, as far as the folds let it.

    `factors` are the penalty factors of the lasso.
    """
    starts = [search.starts(path.chosen, share) for share in SHARES]
    bases = find_bases(public, [coef for start in reversed(starts) for coef in start])
    wider = yield from _agree_on_variants(asker, public, bases, min_votes)
    places = _place_terms(public, wider)
    penalty = HALF * float(path.penalties[path.chosen])
    lasso = search.held(path.chosen)
    problem = _pose(wider, penalty, float(lasso.mean()))
    walk = PruneSearch(
        problem,
        [[_spread(coef, places, wider.n_terms) for coef in start] for start in starts],
        lasso,
        most=asker.settings.max_terms,
    )
    rounds = 0
    while not walk.done and rounds < asker.settings.max_rounds:
        asker.progress = Progress("pruning", rounds)
        question = partial(m.RefitRequest, queries=tuple(choose(walk.tracks)))
        found: list[RefitSums] = yield from asker.sum(question, wider)
        walk.update(found)
        rounds += 1
    chosen = walk.choose(partial(_is_allowed, wider.layout, asker.settings.max_rules))
    same = np.full(wider.n_terms, FORBIDDEN)
    same[places] = factors
    return Choice(
        public=wider,
        factors=same,
        path=replace(
            path,
            points=tuple(
                replace(
                    point,
                    coef=_spread(point.coef, places, wider.n_terms),
                    gradient=_spread(point.gradient, places, wider.n_terms),
                )
                for point in path.points
            ),
        ),
        selection=Selection(rounds, tuple(walk.found())),
        fewer=None if chosen is None else _fix(wider, chosen.stage, penalty),
    )


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
        dispersion=public.family.dispersion(held),
    )


def _is_allowed(layout: Layout, max_rules: int | None, stage: Stage) -> bool:
    return max_rules is None or int(layout.are_rules(stage.terms).sum()) <= max_rules


def _fix(public: Public, stage: Stage, penalty: float) -> Fewer:
    """Return the problem in which only the terms of a stage may have a coefficient."""
    factors = np.full(public.n_terms, FORBIDDEN)
    factors[stage.terms] = public.factors[stage.terms]
    coef = np.zeros(public.n_terms)
    coef[stage.terms] = stage.coef
    start = Point(coef, stage.objective, np.zeros(public.n_terms), np.inf, float("nan"))
    return Fewer(factors, penalty, start)
