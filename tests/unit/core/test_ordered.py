"""Ordered levels: each step up the scale is a yes/no outcome of those who try it."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from tests.oracles import YES_NO, bounds_of, fista, objective, solve

from fedrulefit.core.boosting import grow_trees
from fedrulefit.core.certificate import (
    GapSums,
    SlopeSums,
    certify,
    choose_scales,
    sum_gap,
    sum_slopes,
)
from fedrulefit.core.curvature import Query, sum_curvature
from fedrulefit.core.design import Design
from fedrulefit.core.families.ordered import Ordered
from fedrulefit.core.fixed import LARGEST_PREDICTOR, Bounds, capacity
from fedrulefit.core.grid import Axis, Grid

N_RULES, N_LINEAR = 5, 2
SCALE = Ordered(["none", "mild", "moderate", "severe"])
K = 3
FACTORS = np.array([0.0] * K + [1.0] * (N_RULES + N_LINEAR))


def draw(seed: int, n_rows: int = 220) -> tuple[Any, Any, Any, Any]:
    """Return hits of rules, linear values, levels and weights."""
    rng = np.random.default_rng(seed)
    hits = rng.random((n_rows, N_RULES)) < 0.4
    linear = rng.normal(size=(n_rows, N_LINEAR))
    shared = hits @ [1.0, -0.8, 0.0, 0.0, 0.5] + linear @ [0.4, 0.0]
    goes = rng.random((n_rows, K)) < expit(shared[:, None] + [0.8, 0.0, -0.6])
    level = np.cumprod(goes, axis=1).sum(axis=1).astype(float)
    return hits, linear, level, rng.uniform(0.3, 2.0, n_rows)


def make_design(hits: Any, linear: Any) -> Design:
    bits = np.packbits(hits, axis=0, bitorder="little")
    return Design(np.ones((len(hits), K)), bits, linear, parts=K)


def in_rows(patients: Any) -> tuple[Any, Any, Any]:
    """Return the dense matrix, outcomes and weights of a row for each step that was tried."""
    hits, linear, level, weights = patients
    rows = [
        (np.r_[np.eye(K)[k - 1], hits[i], linear[i]], float(y >= k), weights[i])
        for i, y in enumerate(level.astype(int))
        for k in range(1, min(y + 1, K) + 1)
    ]
    X, y, w = zip(*rows, strict=True)
    return np.array(X), np.array(y), np.array(w)


def draw_points(seed: int, n_rows: int = 30, most: float = 6.0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, K + 1, n_rows).astype(float)
    return rng.uniform(-most, most, (n_rows, K)), levels, rng.uniform(0.1, 2, n_rows)


# --- the family -------------------------------------------------------------------------------


def test_a_patient_tries_steps_until_one_fails() -> None:
    """By hand: level 1 of 0 … 3 goes on at the first step, fails at the second, tries no third."""
    points, one = np.array([[0.3, -0.7, 2.0]]), np.ones(1)
    each = {
        0: np.log1p(np.exp(0.3)),
        1: np.log1p(np.exp(0.3)) - 0.3 + np.log1p(np.exp(-0.7)),
        2: np.log1p(np.exp(0.3)) - 0.3 + np.log1p(np.exp(-0.7)) + 0.7 + np.log1p(np.exp(2.0)),
        3: np.log1p(np.exp(-0.3)) + np.log1p(np.exp(0.7)) + np.log1p(np.exp(-2.0)),
    }
    for level, loss in each.items():
        found = SCALE.value(points, np.array([float(level)]), one)
        assert found[0] == pytest.approx(loss, rel=1e-12)
        p = SCALE.to_probabilities(points)[0]
        assert -np.log(p[level]) == pytest.approx(loss, rel=1e-12), "the loss is the log-loss"
        tried = SCALE.slope(points, np.array([float(level)]), one)[0] != 0
        assert tried.tolist() == [k <= min(level + 1, K) for k in (1, 2, 3)]


def test_probabilities_add_up_and_reach_the_ends() -> None:
    points, _, _ = draw_points(0)
    p = SCALE.to_probabilities(points)
    assert p.shape == (30, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(p[:, 1:].sum(axis=1), expit(points[:, 0]), atol=1e-15)
    np.testing.assert_allclose(p[:, 3], expit(points).prod(axis=1))
    extreme = SCALE.to_probabilities(np.array([[2048.0] * 3, [-2048.0] * 3]))
    assert extreme.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    baseline, f = np.array([0.5, -1.0, 0.2]), np.array([0.3, -2.0])
    intercept = SCALE.join_baseline(baseline)
    found = SCALE.probabilities(intercept, baseline - intercept, f)
    np.testing.assert_allclose(found, SCALE.to_probabilities(f[:, None] + baseline))
    np.testing.assert_allclose(1 - found[:, 0], SCALE.link.inverse(intercept + f))


def test_derivatives_are_numerical_ones() -> None:
    points, outcome, weights = draw_points(1)
    width = 1e-5
    for k in range(K):
        up, down = points.copy(), points.copy()
        up[:, k] += width
        down[:, k] -= width
        rise = SCALE.value(up, outcome, weights) - SCALE.value(down, outcome, weights)
        slope = SCALE.slope(points, outcome, weights)
        np.testing.assert_allclose(slope[:, k], rise / (2 * width), atol=1e-8)
        turn = SCALE.slope(up, outcome, weights) - SCALE.slope(down, outcome, weights)
        curvature = SCALE.curvature(points, outcome, weights)
        np.testing.assert_allclose(curvature[:, k], turn[:, k] / (2 * width), atol=1e-8)


@pytest.mark.parametrize("shrink", [0.0, 0.3, 0.9])
def test_the_conjugate_is_the_largest_distance_below_a_plane(shrink: float) -> None:
    points, outcome, weights = draw_points(3, 10, 2.0)
    theta = shrink * SCALE.slope(points, outcome, np.ones(10))
    ours = SCALE.conjugate(points, outcome, weights, np.full(10, shrink))
    for i in range(10):

        def below(f: Any, i: int = i) -> float:
            value = SCALE.value(f[None], outcome[i : i + 1], np.ones(1))[0]
            return float(value - theta[i] @ f)

        found = minimize(below, np.zeros(K), method="BFGS", options={"gtol": 1e-9})
        assert ours[i] == pytest.approx(-weights[i] * found.fun, abs=1e-5)
    slope = SCALE.slope(points, outcome, weights)
    touching = SCALE.value(points, outcome, weights) + SCALE.conjugate(
        points, outcome, weights, np.ones(10)
    )
    np.testing.assert_allclose(touching, (slope * points).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, LARGEST_PREDICTOR])
def test_bounds_are_never_exceeded(size: float) -> None:
    rng = np.random.default_rng(4)
    points = size * rng.choice([-1.0, -0.5, 0.0, 1.0], (60, K))
    outcome, ones = rng.integers(0, K + 1, 60).astype(float), np.ones(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = SCALE.value(points, outcome, ones)
        slope = SCALE.slope(points, outcome, ones)
        curvature = SCALE.curvature(points, outcome, ones)
        conjugate = SCALE.conjugate(points, outcome, ones, rng.random(60))
    assert 0 <= value.min() <= value.max() <= SCALE.most_value(size)
    assert np.abs(slope).sum(axis=1).max() <= SCALE.most_slope
    assert curvature.sum(axis=1).max() <= SCALE.most_curvature
    assert np.abs(conjugate).max() <= SCALE.most_conjugate
    assert capacity(SCALE, 3) > capacity(YES_NO, 3) / 2


def test_the_start_has_the_log_odds_of_each_step() -> None:
    outcome, weights = np.array([0, 1, 1, 2, 3.0]), np.array([2.0, 1, 1, 1, 3])
    start = SCALE.start(outcome, weights)
    assert start is not None
    np.testing.assert_allclose(start, np.log([6 / 2, 4 / 2, 3 / 1]))
    assert SCALE.start(np.ones(5), np.ones(5)) is None
    rare = SCALE.start(np.array([0, 1.0]), np.ones(2))
    assert rare is not None
    np.testing.assert_allclose(rare, [0, np.log(0.5 / 1.5), 0])


def test_what_is_counted_and_told() -> None:
    outcome = np.array([0, 1, 2, 3.0])
    assert SCALE.events(outcome, np.ones(4)).tolist() == [0, 1, 1, 1]
    assert SCALE.tallies(outcome).tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert SCALE.tallies(outcome).shape[1] == SCALE.n_tallies
    some, none = np.ones(3), np.zeros(3)
    assert SCALE.tell_unseen(-some, some) == ""
    assert f"level {SCALE.names[-1]!r}:" in SCALE.tell_unseen(none, some)
    assert f"level {SCALE.names[1]!r}:" in SCALE.tell_unseen(-some, np.array([1.0, 0.0, 1.0]))
    assert SCALE.tell(0.25) == "25.0 %"
    assert SCALE.effect(np.log(2)) == pytest.approx(2)
    assert SCALE.information(12, 0.3) == YES_NO.information(12, 0.3)
    assert "at most 0.3," in SCALE.tell_move(0.3)
    with pytest.raises(ValueError, match="three or more"):
        Ordered(["a", "b"])


# --- the fit ----------------------------------------------------------------------------------


def split(patients: Any, sizes: tuple[int, ...]) -> list[Any]:
    hits, linear, outcome, weights = patients
    edges = np.cumsum((0, *sizes)).tolist()
    return [
        (make_design(hits[a:b], linear[a:b]), outcome[a:b], weights[a:b])
        for a, b in pairwise(edges)
    ]


@pytest.mark.parametrize("sizes", [(220,), (3, 140, 77)])
@pytest.mark.parametrize("penalty", [0.01, 0.05])
def test_federated_is_the_pooled_optimum_of_steps(penalty: float, sizes: tuple[int, ...]) -> None:
    patients = draw(7)
    newton = solve(split(patients, sizes), FACTORS, penalty, family=SCALE, tolerance=1e-11)
    assert newton.converged
    X, y, w = in_rows(patients)
    share = w.sum() / patients[3].sum()  # the mean is over patients, not over rows
    best = fista(X, y, w, penalty * FACTORS / share)
    np.testing.assert_allclose(newton.point.coef, best, atol=1e-7)
    lowest = share * objective(X, y, w, best, penalty * FACTORS / share)
    assert newton.point.objective == pytest.approx(lowest, abs=1e-8)


def test_without_a_penalty_it_is_scikit_learns_logistic_regression_of_steps() -> None:
    patients = draw(9, 400)
    newton = solve(split(patients, (150, 250)), FACTORS, 1e-9, family=SCALE, tolerance=1e-11)
    X, y, w = in_rows(patients)
    peer = LogisticRegression(C=1e12, tol=1e-12, max_iter=10_000, fit_intercept=False).fit(
        X, y, sample_weight=w
    )
    np.testing.assert_allclose(newton.point.coef, peer.coef_[0], atol=1e-4)


def test_the_gap_bounds_the_distance() -> None:
    hits, linear, outcome, weights = patients = draw(8)
    design, (X, y, w) = make_design(hits, linear), in_rows(patients)
    share, penalties = w.sum() / weights.sum(), 0.02 * FACTORS
    best = fista(X, y, w, penalties / share)
    lowest = share * objective(X, y, w, best, penalties / share)
    bounds, rng = bounds_of([(design, outcome, weights)]), np.random.default_rng(0)
    for size in (0.0, 1e-3, 0.1):
        coef = best + size * rng.normal(size=len(best))
        predictor = design.predictor(coef)
        facts = SCALE, design, outcome, weights, predictor, bounds
        slopes = SlopeSums.packing(bounds).read(sum_slopes(*facts))
        scales = choose_scales(design.layout, slopes, weights.sum(), penalties)
        assert scales is not None
        gap = GapSums.packing(bounds).read(
            sum_gap(SCALE, outcome, weights, predictor, scales, bounds)
        )
        value = gap.loss / weights.sum() + float(penalties @ np.abs(coef))
        proof = certify(
            design.layout, slopes, weights.sum(), coef, penalties,
            objective=value, conjugate=gap.conjugate,
        )  # fmt: skip
        assert proof.gap is not None
        assert proof.gap >= value - lowest - 1e-8
        if size == 0:
            assert proof.gap <= 1e-6


def test_any_split_has_the_same_sums() -> None:
    patients, rng = draw(10, 203), np.random.default_rng(10)
    n_terms = len(FACTORS)
    query = Query(1, np.arange(n_terms), *rng.normal(size=(2, n_terms)), np.arange(n_terms))
    bounds = Bounds(np.array([1.0] * (K + N_RULES) + [6.0] * N_LINEAR), 2.0)
    folds = rng.integers(0, 3, 203)
    found = []
    for sizes in ((203,), (1, 202), (96, 8, 99)):
        parts = np.split(folds, np.cumsum(sizes)[:-1])
        sums = [
            sum_curvature(SCALE, *site, part, query, bounds)
            for site, part in zip(split(patients, sizes), parts, strict=True)
        ]
        found.append(np.sum(sums, axis=0).tolist())
    assert found[0] == found[1] == found[2]


def test_trees_find_what_raises_the_level() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (400, 3)).astype(np.uint8)
    level = codes[:, 1] * 2 + rng.integers(0, 2, 400).astype(float)
    grid = Grid((Axis("number", np.array([0.5]), 2, True),) * 3)
    (tree,) = grow_trees(
        SCALE, codes, level, np.ones(400), grid, n_trees=1, mean_leaves=2.0, learning_rate=0.1,
        subsample=1.0, min_leaf=5, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert tree.root is not None
    assert tree.root.left.feature == 1
