"""Fewer terms: every stage against a dense matrix, the choice among stages by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from tests.oracles import YES_NO, bounds_of, split

from fedrulefit.core.layout import Layout
from fedrulefit.core.pricing import Problem
from fedrulefit.core.pruning import (
    FIRST_PRICE,
    LOST,
    MOST_TRIES,
    PRICE_RATIO,
    SLACK,
    TOLERANCE,
    WORST,
    PruneSearch,
    Stage,
    Track,
)
from fedrulefit.core.refit import RefitSums, sum_refit

N_ROWS, N_CUTS, FOLDS = 900, 20, 3


def make_data(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Return X (an intercept and cut-offs of two covariates), y, w and folds."""
    rng = np.random.default_rng(seed)
    x = rng.random((N_ROWS, 2))
    cuts = (np.arange(N_CUTS) + 1) / (N_CUTS + 1)
    X = np.hstack([np.ones((N_ROWS, 1)), x[:, :1] < cuts, x[:, 1:] < cuts]).astype(float)
    y = (rng.random(N_ROWS) < expit(-1.2 + 2.5 * X[:, 11])).astype(float)
    return X, y, rng.choice([0.5, 1.0, 2.0], N_ROWS), rng.integers(0, FOLDS, N_ROWS)


def nearest(term: int) -> Any:
    """Return the cut-offs one and two away from one, of the same covariate."""
    first = 1 + N_CUTS * ((term - 1) // N_CUTS)
    near = [term + k for k in (-2, -1, 1, 2) if first <= term + k < first + N_CUTS]
    return np.array(near if term > 0 else [], dtype=np.int64)


def make_problem(**changes: Any) -> Problem:
    n_terms = 1 + 2 * N_CUTS
    facts: dict[str, Any] = {
        "family": YES_NO,
        "layout": Layout(1, n_terms - 1, 0),
        "penalties": np.array([0.0, *[0.002] * (n_terms - 1)]),
        "costs": np.array([0.0, *[1.0] * (n_terms - 1)]),
        "bounds": np.ones(n_terms),
        "variants": nearest,
    }
    return Problem(**{**facts, **changes})


def walk_down(sizes: Any, seed: int = 0, **changes: Any) -> PruneSearch:
    """Play a search from the support of too many terms."""
    X, y, w, folds = make_data(seed)
    sites = split(X, 2 * N_CUTS, y, w, sizes)
    parts, bounds = np.split(folds, np.cumsum(sizes)[:-1]), bounds_of(sites)
    start = np.zeros(X.shape[1])
    start[[0, 3, 9, 10, 12, 13, 22, 30, 38]] = [-1, *[0.1] * 8]
    search = PruneSearch(make_problem(**changes), [[start] * (FOLDS + 1)], np.full(FOLDS, 0.6))
    while not search.done:
        answers = []
        for query in search.queries():
            units = [
                sum_refit(YES_NO, *site, part, query, bounds)
                for site, part in zip(sites, parts, strict=True)
            ]
            answers.append(RefitSums.packing(query, bounds).read(np.sum(units, axis=0)))
        search.update(answers)
    return search


def tracks_of(search: PruneSearch) -> list[Track]:
    return [track for walk in search._walks for track in walk]


# --- the walk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_every_stage_is_a_fit_of_its_terms_and_none_is_below_its_price(seed: int) -> None:
    X, y, w, folds = make_data(seed)
    problem = make_problem()
    for track in tracks_of(walk_down([N_ROWS], seed)):
        inside = folds != track.fold
        prices = [FIRST_PRICE * PRICE_RATIO**k for k in range(len(track.stages) - 1)]
        assert [stage.price for stage in track.stages] == pytest.approx([0.0, *prices])
        for stage in track.stages:
            own = X[:, stage.terms]
            F = own @ stage.coef
            chance, weight = expit(F), w * inside
            slope = own.T @ (weight * (chance - y)) / weight.sum()
            penalties = problem.penalties[stage.terms]
            off = slope + penalties * np.sign(stage.coef)
            assert np.abs(off).max() <= 1.01 * TOLERANCE * problem.penalties.max() + 1e-9
            losses = w * (np.logaddexp(0, F) - y * F)
            if track.fold >= 0:
                held = losses[~inside].sum() / w[~inside].sum()
                assert stage.held_loss == pytest.approx(held, abs=1e-6)
            size = penalties @ np.abs(stage.coef)
            assert stage.objective == pytest.approx(losses[inside].sum() / weight.sum() + size)
            hessian = (own.T * (weight * chance * (1 - chance))) @ own
            rises = stage.coef**2 / np.diag(np.linalg.inv(hessian))
            assert (rises[1:] >= 0.99 * stage.price).all()


def test_terms_become_fewer_and_the_planted_cut_off_is_found_between_those_given() -> None:
    search = walk_down([N_ROWS])
    track = tracks_of(search)[0]
    counts = [len(stage.terms) for stage in track.stages]
    assert counts == sorted(counts, reverse=True)
    two = next(stage for stage in track.stages if len(stage.terms) == 2)
    assert two.terms.tolist() == [0, 11], "the start has its neighbours only"
    without = tracks_of(walk_down([N_ROWS], variants=lambda term: nearest(term)[:0]))[0]
    assert all(11 not in stage.terms for stage in without.stages)


def test_any_split_of_the_patients_walks_the_same_way() -> None:
    """Federated equals pooled, bit for bit."""
    pooled = tracks_of(walk_down([N_ROWS]))
    for sizes in ([450, 450], [1, 398, 500, 1]):
        for one, other in zip(pooled, tracks_of(walk_down(sizes)), strict=True):
            assert len(one.stages) == len(other.stages)
            for stage, same in zip(one.stages, other.stages, strict=True):
                np.testing.assert_array_equal(stage.terms, same.terms)
                np.testing.assert_array_equal(stage.coef, same.coef)


def test_what_is_no_better_is_not_asked_again() -> None:
    """Variants that were tried in vain at a price are not tried at the next, if they cost alike."""
    X, y, w, folds = make_data()
    start = np.zeros(X.shape[1])
    start[[0, 11]] = -1, 2.5
    search = PruneSearch(make_problem(), [[start] * (FOLDS + 1)], np.full(FOLDS, 0.6))
    asked: list[tuple[int, ...]] = []
    (site,), bounds = split(X, 2 * N_CUTS, y, w, [N_ROWS]), bounds_of(split(X, 40, y, w, [N_ROWS]))
    while not search.done:
        answers = []
        for query in search.queries():
            if query.fold == -1:
                asked.append(tuple(query.terms))
            units = sum_refit(YES_NO, *site, folds, query, bounds)
            answers.append(RefitSums.packing(query, bounds).read(units))
        search.update(answers)
    stages = tracks_of(search)[0].stages
    single = [stage for stage in stages if stage.terms.tolist() == [0, 11]]
    assert len(single) > 5
    for terms in set(asked) - {(0, 11)}:
        assert asked.count(terms) <= MOST_TRIES


def test_each_walk_has_its_own_share_of_the_penalty() -> None:
    X, y, w, folds = make_data()
    start = np.zeros(X.shape[1])
    start[[0, 10, 12]] = -1, 1, 1
    starts, shares = [[start] * (FOLDS + 1)] * 2, (1.0, 0.25)
    search = PruneSearch(make_problem(), starts, np.full(FOLDS, 0.6), shares=shares)
    sites, problem = split(X, 2 * N_CUTS, y, w, [N_ROWS]), make_problem()
    bounds = bounds_of(sites)
    while not search.done:
        units = [sum_refit(YES_NO, *sites[0], folds, query, bounds) for query in search.queries()]
        packings = [RefitSums.packing(query, bounds) for query in search.queries()]
        search.update([p.read(u) for p, u in zip(packings, units, strict=True)])
    assert {pruned.share for pruned in search.found()} == set(shares)
    for pruned in search.found():
        own = X[:, pruned.stage.terms]
        chance = expit(own @ pruned.stage.coef)
        slope = own.T @ (w * (chance - y)) / w.sum()
        penalties = pruned.share * problem.penalties[pruned.stage.terms]
        off = np.abs(slope + penalties * np.sign(pruned.stage.coef)).max()
        assert off <= 1.01 * TOLERANCE * pruned.share * problem.penalties.max() + 1e-9


def test_a_track_could_ask_only_what_it_asks_but_for_last_digits() -> None:
    start = np.zeros(1 + 2 * N_CUTS)
    start[[0, 5]] = 0.3
    track = Track(make_problem(), -1, start)
    query = track.query()
    assert track.could_ask(query)
    assert track.could_ask(replace(query, end=query.end * (1 + 1e-9)))
    assert not track.could_ask(replace(query, end=query.end + 1e-3))
    assert not track.could_ask(replace(query, fold=0))
    assert not track.could_ask(replace(query, variants=query.variants[1:]))
    assert not track.could_ask(replace(query, terms=np.array([0, 6])))


# --- the choice -----------------------------------------------------------------------------------


def search_with(*stages: tuple[int, list[float]], lasso: Any, **options: Any) -> PruneSearch:
    """Return a search that has been at stages of so many terms with these held-out losses."""
    search = PruneSearch(
        make_problem(), [[np.zeros(1 + 2 * N_CUTS)] * (len(lasso) + 1)], np.array(lasso), **options
    )
    for fold, track in enumerate(tracks_of(search), start=-1):
        track.stages = [
            Stage(0.0, np.arange(1 + n), np.ones(1 + n), 0.5, losses[fold] if fold >= 0 else np.nan)
            for n, losses in stages
        ]
    return search


def chosen(search: PruneSearch) -> int | None:
    found = search.choose(lambda stage: True)
    return None if found is None else len(found.stage.terms) - 1


def test_the_fewest_terms_that_cost_hardly_anything() -> None:
    lasso = [0.5, 0.5, 0.5]
    level = 0.5 - 0.01
    best, near = [level] * 3, [level + 0.9 * SLACK] * 3
    far = [level + 1.1 * SLACK] * 3
    assert chosen(search_with((9, best), (5, near), (3, far), lasso=lasso)) == 5
    assert chosen(search_with((9, best), (3, far), lasso=lasso)) == 9


def test_terms_are_counted_in_the_folds_whose_losses_they_are() -> None:
    """At a price at which all fits have one term less, no fold's loss speaks for that."""
    same = [0.5] * 3
    search = search_with((4, same), (3, same), lasso=same)
    for track in tracks_of(search)[1:]:
        track.stages = [replace(track.stages[0], price=price) for price in (1.0, 2.0)]
    for price, stage in zip((1.0, 2.0), tracks_of(search)[0].stages, strict=True):
        object.__setattr__(stage, "price", price)
    assert chosen(search) == 4


def test_who_may_be_much_worse_than_the_lasso_is_not_chosen() -> None:
    """What was measured in three folds, and a standard error more, must not be far above it."""
    lasso = [0.5, 0.5, 0.5]
    sure = [0.5 + 0.9 * WORST] * 3
    spread = 3 * WORST
    unsure = [0.5 - spread, 0.5, 0.5 + spread]
    assert chosen(search_with((4, sure), lasso=lasso)) == 4
    assert chosen(search_with((4, unsure), lasso=lasso)) is None
    assert chosen(search_with((4, [0.6] * 3), lasso=lasso)) is None


def test_a_most_of_terms_is_kept_even_where_more_predict_better() -> None:
    stages = (9, [0.4] * 3), (5, [0.6] * 3), (3, [0.55] * 3)
    assert chosen(search_with(*stages, lasso=[0.45] * 3)) == 9
    assert chosen(search_with(*stages, lasso=[0.45] * 3, most=5)) == 3
    assert chosen(search_with(*stages, lasso=[0.45] * 3, most=2)) is None


def test_what_is_not_allowed_is_not_chosen() -> None:
    search = search_with((9, [0.4] * 3), (5, [0.4] * 3), lasso=[0.45] * 3)
    found = search.choose(lambda stage: len(stage.terms) > 6)
    assert found is not None
    assert len(found.stage.terms) == 10


def test_a_walk_ends_where_it_leads_nowhere() -> None:
    few, many = (3, [0.5 + 1.1 * LOST] * 3), (100, [0.5 + 1.1 * LOST] * 3)
    good = (120, [0.5] * 3)
    assert search_with(good, few, lasso=[0.5] * 3)._leads_nowhere(
        search_with(good, few, lasso=[0.5] * 3)._walks[0]
    )
    kept = search_with(good, many, lasso=[0.5] * 3)
    assert not kept._leads_nowhere(kept._walks[0])
    lost = search_with(good, (100, [0.5 + 2.1 * LOST] * 3), lasso=[0.5] * 3)
    assert lost._leads_nowhere(lost._walks[0])
    wanted = search_with(good, (100, [0.5 + 2.1 * LOST] * 3), lasso=[0.5] * 3, most=5)
    assert not wanted._leads_nowhere(wanted._walks[0])
    near = search_with(good, (3, [0.5 + 0.9 * LOST] * 3), lasso=[0.5] * 3)
    assert not near._leads_nowhere(near._walks[0])
