"""Causes that compete: each is the family of times alone, and so is its fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tests.oracles import bounds_of, dense, make_design, solve

from fedrulefit.core.boosting import grow_trees
from fedrulefit.core.certificate import (  # fmt: skip
    GapSums,
    SlopeSums,
    certify,
    choose_scales,
    sum_gap,
    sum_slopes,
)
from fedrulefit.core.class_design import ClassDesign
from fedrulefit.core.design import Design
from fedrulefit.core.families.competing import Competing
from fedrulefit.core.families.time import Time
from fedrulefit.core.fixed import Bounds, capacity
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.layout import Layout, Owners

CUTS, HORIZONS = (90.0, 180.0), (180.0, 365.0)
CAUSES = ("readmission", "death")
FAMILY, ONE = Competing(CUTS, HORIZONS, CAUSES, unit="days"), Time(CUTS, HORIZONS, unit="days")
C, K, N_RULES, N_LINEAR = 2, 3, 4, 2


def draw(seed: int, n_rows: int = 300) -> tuple[Any, Any, Any, Any]:
    """Return hits of rules, linear values, outcomes and weights."""
    rng = np.random.default_rng(seed)
    hits, linear = rng.random((n_rows, N_RULES)) < 0.4, rng.normal(size=(n_rows, N_LINEAR))
    first = rng.exponential(300 * np.exp(-1.2 * hits[:, 0] - 0.5 * linear[:, 0]))
    second = rng.exponential(500 * np.exp(-1.0 * hits[:, 1] + 0.4 * linear[:, 0]))
    lost = rng.uniform(30, 700, n_rows)
    entry = np.where(rng.random(n_rows) < 0.2, rng.uniform(0, 20, n_rows), 0.0)
    time = np.minimum.reduce([first, second, lost]) + entry
    cause = np.where(lost + entry == time, 0, np.where(first + entry == time, 1, 2))
    outcome = np.column_stack([entry, time.clip(max=365), np.where(time > 365, 0, cause)])
    return hits, linear, outcome, rng.uniform(0.3, 2.0, n_rows)


def of_cause(outcome: Any, cause: int) -> Any:
    return np.column_stack([outcome[:, :2], outcome[:, 2] == cause])


def points(seed: int, n_rows: int = 40, most: float = 6.0) -> tuple[Any, Any, Any]:
    _, _, outcome, weights = draw(seed, n_rows)
    return np.random.default_rng(seed).uniform(-most, most, (n_rows, C * K)), outcome, weights


# --- the family -------------------------------------------------------------------------------


def test_everything_is_the_sum_over_causes_or_stands_side_by_side() -> None:
    predictor, outcome, weights = points(1)
    shrink = np.random.default_rng(0).random(40)
    each = [(predictor[:, c * K : (c + 1) * K], of_cause(outcome, c + 1)) for c in range(C)]
    for name in ("value", "slope", "curvature"):
        found = getattr(FAMILY, name)(predictor, outcome, weights)
        parts = [getattr(ONE, name)(own, y, weights) for own, y in each]
        np.testing.assert_array_equal(found, sum(parts) if name == "value" else np.hstack(parts))
    found = FAMILY.conjugate(predictor, outcome, weights, shrink)
    np.testing.assert_allclose(
        found, sum(ONE.conjugate(own, y, weights, shrink) for own, y in each), rtol=1e-14
    )
    np.testing.assert_array_equal(
        FAMILY.start(outcome, weights),
        np.concatenate([ONE.start(y, weights) for _, y in each]),  # type: ignore[arg-type]
    )
    prepared = FAMILY.prepare(outcome)
    np.testing.assert_array_equal(
        FAMILY.slope(predictor, prepared, weights), FAMILY.slope(predictor, outcome, weights)
    )


@pytest.mark.parametrize("k", range(C * K))
def test_derivatives_are_numerical_ones(k: int) -> None:
    (predictor, outcome, weights), width = points(2), 1e-5
    up, down = predictor.copy(), predictor.copy()
    up[:, k] += width
    down[:, k] -= width
    rise = FAMILY.value(up, outcome, weights) - FAMILY.value(down, outcome, weights)
    slope = FAMILY.slope(predictor, outcome, weights)[:, k]
    np.testing.assert_allclose(slope, rise / (2 * width), rtol=1e-6, atol=1e-6)
    turn = FAMILY.slope(up, outcome, weights) - FAMILY.slope(down, outcome, weights)
    others = np.delete(turn, k, axis=1)
    assert not others.any(), "no curvature is crossed"


def test_at_the_slope_itself_the_conjugate_touches() -> None:
    predictor, outcome, weights = points(3)
    both = FAMILY.value(predictor, outcome, weights)
    both = both + FAMILY.conjugate(predictor, outcome, weights, np.ones(40))
    slope = FAMILY.slope(predictor, outcome, weights)
    np.testing.assert_allclose(both, (predictor * slope).sum(axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [0.0, 1.0, 20.0, FAMILY.largest_predictor])
def test_the_bounds_are_never_exceeded(size: float) -> None:
    predictor, outcome, _ = points(4, 200)
    predictor, ones = np.sign(predictor) * size, np.ones(200)
    slopes = np.abs(FAMILY.slope(predictor, outcome, ones)).reshape(200, C, K).sum(axis=2)
    curved = FAMILY.curvature(predictor, outcome, ones).reshape(200, C, K).sum(axis=2)
    for value, most in (
        (np.abs(FAMILY.value(predictor, outcome, ones)), FAMILY.most_value(size)),
        (slopes, FAMILY.most_slope),
        (curved, FAMILY.most_curvature),
        (np.abs(FAMILY.conjugate(predictor, outcome, ones, ones)), FAMILY.most_conjugate),
    ):
        assert value.max() <= most * (1 + 1e-12)
    assert capacity(FAMILY, 3) == capacity(ONE, 3), "as many patients fit into a sum"


def test_who_is_counted() -> None:
    outcome = np.array([[0.0, 50.0, 1.0], [0.0, 50.0, 2.0], [0.0, 365.0, 0.0], [20.0, 100.0, 2.0]])
    assert FAMILY.events(outcome, np.ones(4)).tolist() == [1, 0, 0, 0]
    tallies = FAMILY.tallies(outcome)
    assert tallies.shape == (4, FAMILY.n_tallies)
    assert tallies[:, :6].tolist() == [
        [1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0],
    ]  # fmt: skip
    np.testing.assert_allclose(tallies[:, 6], [5 / 9, 5 / 9, 1, 7 / 9], atol=1e-5)
    assert FAMILY.present(outcome)[:, 2].tolist() == [False, False, True, False]
    assert FAMILY.start(outcome[outcome[:, 2] != 2], np.ones(2)) is None
    assert "nobody" not in FAMILY.tell_nothing_to_learn(4, 1)
    assert "the event 'readmission'" in FAMILY.tell_nothing_to_learn(4, 0)
    seen, unseen = np.full(6, -0.01), np.array([-0.01] * 3 + [-1e-9] * 3)
    assert FAMILY.tell_unseen(seen, -seen) == ""
    assert "has the event 'death'" in FAMILY.tell_unseen(unseen, -unseen)


def test_causes_are_two_or_more_each_once() -> None:
    for wrong in (("a",), ("a", "a"), ()):
        with pytest.raises(ValueError, match="two causes or more"):
            Competing(CUTS, HORIZONS, wrong)


def test_no_risk_moves_further_than_is_told() -> None:
    rng = np.random.default_rng(0)
    predictor = rng.uniform(-8, 3, (4000, C * K))
    for most in (0.02, 0.4):
        words = FAMILY.tell_move(most)
        told = float(words.split("by at most ")[-1].split()[0])
        move = rng.choice([-most, most], (4000, C)).repeat(K, axis=1)
        gap = 100 * np.abs(FAMILY.predict(predictor + move) - FAMILY.predict(predictor))
        assert gap.max() <= told


# --- the design -------------------------------------------------------------------------------


def make_site(hits: Any, linear: Any) -> ClassDesign:
    plain = make_design(hits, linear)
    own = Design(np.ones((len(hits), K)), plain.bits, plain.linear, parts=K)
    return ClassDesign.of_each(own, C)


def test_owners_of_several_baselines() -> None:
    owners = Owners.of_each(2, 1, 1, n_baseline=2)
    assert owners.parts.tolist() == [0, 0, 1, 1, 0, 1, 0, 1]
    assert owners.at.tolist() == [0, 1, 0, 1, 2, 2, 3, 3]
    assert (owners.n_parts, owners.layout) == (2, Layout(4, 2, 2))
    taken, needed = owners.take(np.array([0, 1, 2, 3, 5]))
    assert needed.tolist() == [0, 1, 2]
    assert (taken.n_parts, taken.layout) == (2, Layout(4, 1, 0))


def long_rows(design: ClassDesign) -> Any:
    """Return x of each patient and predictor over all terms, shape (n_rows, C·K, n_terms)."""
    X, owners = dense(design.columns), design.owners
    rows = np.zeros((design.n_rows, C * K, design.n_terms))
    for t, (part, at) in enumerate(zip(owners.parts, owners.at, strict=True)):
        for k in range(K):
            rows[:, part * K + k, t] = (at == k) if at < K else X[:, at]
    return rows


@pytest.mark.parametrize("few", [False, True])
def test_products_are_those_of_the_dense_matrix(few: bool) -> None:
    rng = np.random.default_rng(1)
    hits, linear, *_ = draw(1, 83)
    design = make_site(hits, linear)
    if few:
        design = design.take(np.array([*range(C * K), 7, 9, 10, 15]))
    rows, n_terms = long_rows(design), design.n_terms
    bounds = np.where(np.arange(n_terms) < design.layout.linear.start, 1.0, 5.0)
    coef = rng.normal(size=n_terms)
    np.testing.assert_allclose(design.predictor(coef), rows @ coef, atol=1e-11)
    units = np.rint(rng.normal(size=(83, C * K)) * 1e6)
    exact = np.einsum("ikt,ik->t", rows, units) / bounds
    np.testing.assert_allclose(design.sum_columns(units, bounds), exact, atol=83)
    curvature = rng.uniform(0, 1, (83, C * K))
    found = design.sum_products(curvature, bounds) / 2.0**40 * np.outer(bounds, bounds)
    exact = np.einsum("ikt,ik,iku->tu", rows, curvature, rows)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(found)[0] > -1e-9
    whole = design.sum_products(curvature, bounds)
    parts = [make_site(hits[s], linear[s]) for s in (slice(30), slice(30, None))]
    if not few:
        halves = zip(parts, np.split(curvature, [30]), strict=True)
        np.testing.assert_array_equal(sum(d.sum_products(c, bounds) for d, c in halves), whole)


# --- the fit ----------------------------------------------------------------------------------


def make_sites(patients: Any, sizes: tuple[int, ...]) -> list[Any]:
    hits, linear, outcome, weights = patients
    edges = np.cumsum((0, *sizes)).tolist()
    return [
        (make_site(hits[a:b], linear[a:b]), outcome[a:b], weights[a:b]) for a, b in pairwise(edges)
    ]


@pytest.mark.parametrize("penalty", [0.003, 0.03])
def test_each_cause_has_the_fit_that_it_has_alone(penalty: float) -> None:
    """And however patients are spread over sites."""
    patients = draw(5)
    hits, linear, outcome, weights = patients
    factors = np.array([0.0] * (C * K) + [1.0] * (C * (N_RULES + N_LINEAR)))
    together = solve(make_sites(patients, (300,)), factors, penalty, family=FAMILY)
    spread = solve(make_sites(patients, (37, 200, 63)), factors, penalty, family=FAMILY)
    np.testing.assert_allclose(spread.point.coef, together.point.coef, atol=1e-8)
    assert together.point.residual < 1e-8
    owners, total = make_site(hits, linear).owners, 0.0
    for c in range(C):
        own = Design(np.ones((300, K)), make_design(hits, linear).bits, linear, parts=K)
        site = [(own, of_cause(outcome, c + 1), weights)]
        alone = solve(site, factors[owners.of_part(c)], penalty, family=ONE)
        np.testing.assert_allclose(
            together.point.coef[owners.of_part(c)], alone.point.coef, atol=1e-6
        )
        total += alone.point.objective
    assert together.point.objective == pytest.approx(total, abs=1e-9)


def test_the_certificate_closes() -> None:
    patients, penalty = draw(6), 0.01
    factors = np.array([0.0] * (C * K) + [1.0] * (C * (N_RULES + N_LINEAR)))
    sites = make_sites(patients, (300,))
    found = solve(sites, factors, penalty, family=FAMILY).point
    ((design, outcome, weights),) = sites
    own = bounds_of(sites)
    bounds = Bounds(own.terms, own.weight, FAMILY.unit)
    predictor = design.predictor(found.coef)
    slopes = SlopeSums.packing(bounds).read(
        sum_slopes(FAMILY, design, outcome, weights, predictor, bounds)
    )
    whole, penalties = float(weights.sum()), penalty * factors
    scales = choose_scales(design.layout, slopes, whole, penalties)
    assert scales is not None
    gap = GapSums.packing(bounds).read(sum_gap(FAMILY, outcome, weights, predictor, scales, bounds))
    told = certify(
        design.layout, slopes, whole, found.coef, penalties,
        objective=found.objective, conjugate=gap.conjugate,
    )  # fmt: skip
    assert told.residual < 1e-8
    assert told.gap is not None
    assert told.gap < 1e-6


def test_a_hazard_ratio_is_found_where_another_cause_competes() -> None:
    """Without a penalty it is the maximum of the likelihood, along each term."""
    patients = draw(7, 800)
    factors = np.array([0.0] * (C * K) + [1.0] * (C * (N_RULES + N_LINEAR)))
    coef = solve(make_sites(patients, (800,)), factors, 1e-9, family=FAMILY).point.coef
    design, outcome, weights = make_sites(patients, (800,))[0]
    for t in (C * K, C * K + N_RULES + 1):

        def loss(x: float, t: int = t) -> float:
            moved = coef.copy()
            moved[t] = x
            return float(FAMILY.value(design.predictor(moved), outcome, weights).sum())

        best = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9})
        assert coef[t] == pytest.approx(best.x, abs=1e-5)
    assert coef[C * K] == pytest.approx(1.2, abs=0.35)
    assert coef[C * K + N_RULES + 1] == pytest.approx(1.0, abs=0.35)


def test_trees_are_grown_for_each_cause() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (600, 3)).astype(np.uint8)
    first = rng.exponential(200 * np.exp(-2.5 * (codes[:, 0] >= 3)))
    second = rng.exponential(200 * np.exp(-2.5 * (codes[:, 2] >= 2)))
    time = np.minimum(first, second)
    outcome = np.column_stack([np.zeros(600), time.clip(max=365), np.where(first < second, 1, 2)])
    outcome[time > 365, 2] = 0
    grid = Grid((Axis("number", np.arange(4.0), 5, True),) * 3)
    trees = grow_trees(
        FAMILY, codes, outcome, np.ones(600), grid, n_trees=4, mean_leaves=2.01, learning_rate=0.1,
        subsample=1.0, min_leaf=10, rng=np.random.default_rng(1),
    )  # fmt: skip
    seen = [tree.root.left.feature for tree in trees if tree.root is not None]
    assert seen == [0, 0, 2, 2]
