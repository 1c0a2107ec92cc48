"""Classes without an order: numerical mathematics, and solvers that know of no sites."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from tests.oracles import YES_NO, ask, bounds_of, make_design, solve

from fedrulefit.core.boosting import grow_trees
from fedrulefit.core.certificate import (
    GapSums,
    SlopeSums,
    certify,
    choose_scales,
    sum_gap,
    sum_slopes,
)
from fedrulefit.core.class_design import ClassDesign
from fedrulefit.core.curvature import Query, sum_curvature
from fedrulefit.core.families.classes import Classes
from fedrulefit.core.fixed import LARGEST_PREDICTOR, Bounds, capacity
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.path import PathSearch

C, N_RULES, N_LINEAR = 3, 5, 2
CLASSES = Classes(["home", "ward", "died"])


def draw(seed: int, n_rows: int = 240, n_classes: int = C) -> tuple[Any, Any, Any, Any]:
    """Return hits of rules, linear values, outcomes and weights."""
    rng = np.random.default_rng(seed)
    hits = rng.random((n_rows, N_RULES)) < 0.4
    linear = rng.normal(size=(n_rows, N_LINEAR))
    effects = 1.2 * rng.normal(size=(N_RULES + N_LINEAR, n_classes))
    chance = softmax(np.hstack([hits, linear]) @ effects + np.linspace(0.5, -0.5, n_classes), 1)
    outcome = np.array([rng.choice(n_classes, p=p) for p in chance]).astype(float)
    return hits, linear, outcome, rng.uniform(0.3, 2.0, n_rows)


def make_site(hits: Any, linear: Any, n_classes: int = C) -> ClassDesign:
    return ClassDesign.of_each(make_design(hits, linear), n_classes)


def make_sites(patients: Any, sizes: tuple[int, ...], n_classes: int = C) -> list[Any]:
    hits, linear, outcome, weights = patients
    edges = np.cumsum((0, *sizes)).tolist()
    return [
        (make_site(hits[a:b], linear[a:b], n_classes), outcome[a:b], weights[a:b])
        for a, b in pairwise(edges)
    ]


def factors_of(n_classes: int = C) -> Any:
    return np.array([0.0] * n_classes + [1.0] * (n_classes * (N_RULES + N_LINEAR)))


def as_table(coef: Any, n_classes: int = C) -> Any:
    """Return coefficients by column and class, shape (1 + N_RULES + N_LINEAR, n_classes)."""
    baseline, rules, linear = np.split(coef, [n_classes, n_classes * (1 + N_RULES)])
    blocks = [block.reshape(n_classes, -1).T for block in (baseline, rules, linear)]
    return np.vstack(blocks)


def dense_lasso(patients: Any, penalty: float, n_classes: int = C, steps: int = 60_000) -> Any:
    """Return the symmetric multinomial lasso by accelerated proximal gradients, and its objective.

    With restarts, and centred baselines; nothing of ours is in it.
    """
    hits, linear, outcome, w = patients
    X = np.hstack([np.ones((len(hits), 1)), hits, linear])
    Y, share = np.eye(n_classes)[outcome.astype(int)], (w / w.sum())[:, None]
    limits = penalty * np.r_[0.0, np.ones(N_RULES + N_LINEAR)][:, None]
    size = 2.0 / np.linalg.eigvalsh((X * share).T @ X)[-1]
    coef = ahead = np.zeros((X.shape[1], n_classes))
    inertia = 1.0
    for _ in range(steps):
        target = ahead - size * (X.T @ (share * (softmax(X @ ahead, 1) - Y)))
        new = np.sign(target) * np.maximum(np.abs(target) - size * limits, 0.0)
        if ((ahead - new) * (new - coef)).sum() > 0:
            inertia, ahead = 1.0, coef
            continue
        faster = (1 + np.sqrt(1 + 4 * inertia**2)) / 2
        moved, ahead = np.abs(new - ahead).max(), new + (inertia - 1) / faster * (new - coef)
        coef, inertia = new, faster
        if moved < 1e-14:
            break
    coef = coef.copy()
    coef[0] -= coef[0].mean()
    loss = -(share * Y * log_softmax(X @ coef, 1)).sum()
    return coef, float(loss + (limits * np.abs(coef)).sum())


# --- the family -------------------------------------------------------------------------------


def draw_points(seed: int, n_rows: int = 30, most: float = 6.0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    outcome = rng.integers(0, C, n_rows).astype(float)
    return rng.uniform(-most, most, (n_rows, C)), outcome, rng.uniform(0.1, 2, n_rows)


def test_derivatives_are_numerical_ones() -> None:
    points, outcome, weights = draw_points(1)
    width = 1e-5
    for c in range(C):
        up, down = points.copy(), points.copy()
        up[:, c] += width
        down[:, c] -= width
        rise = CLASSES.value(up, outcome, weights) - CLASSES.value(down, outcome, weights)
        slope = CLASSES.slope(points, outcome, weights)
        np.testing.assert_allclose(slope[:, c], rise / (2 * width), atol=1e-8)
        turn = CLASSES.slope(up, outcome, weights) - CLASSES.slope(down, outcome, weights)
        crossed = CLASSES.curvature(points, outcome, weights)
        np.testing.assert_allclose(crossed[:, c], turn / (2 * width), atol=1e-8)
    np.testing.assert_allclose(crossed.sum(axis=2), 0, atol=1e-15)
    assert np.linalg.eigvalsh(crossed).min() > -1e-15


def test_the_loss_is_that_of_scikit_learn() -> None:
    points, outcome, weights = draw_points(2)
    ours = CLASSES.value(points, outcome, weights).sum()
    p = CLASSES.to_probabilities(points)
    np.testing.assert_allclose(p, softmax(points, 1), rtol=1e-13)
    theirs = log_loss(outcome, p, sample_weight=weights, normalize=False)
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("shrink", [0.0, 0.3, 0.9])
def test_the_conjugate_is_the_largest_distance_below_a_plane(shrink: float) -> None:
    points, outcome, weights = draw_points(3, 10, 2.0)
    theta = shrink * CLASSES.slope(points, outcome, np.ones(10))
    ours = CLASSES.conjugate(points, outcome, weights, np.full(10, shrink))
    for i in range(10):

        def below(f: Any, i: int = i) -> float:
            value = CLASSES.value(f[None], outcome[i : i + 1], np.ones(1))[0]
            return float(value - theta[i] @ f)

        found = minimize(below, np.zeros(C), method="BFGS", options={"gtol": 1e-9})
        assert ours[i] == pytest.approx(-weights[i] * found.fun, abs=1e-5)
    slope = CLASSES.slope(points, outcome, weights)
    touching = CLASSES.value(points, outcome, weights) + CLASSES.conjugate(
        points, outcome, weights, np.ones(10)
    )
    np.testing.assert_allclose(touching, (slope * points).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, LARGEST_PREDICTOR])
def test_bounds_are_never_exceeded(size: float) -> None:
    rng = np.random.default_rng(4)
    points = size * rng.choice([-1.0, -0.5, 0.0, 1.0], (60, C))
    outcome = rng.integers(0, C, 60).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = CLASSES.value(points, outcome, np.ones(60))
        slope = CLASSES.slope(points, outcome, np.ones(60))
        crossed = CLASSES.curvature(points, outcome, np.ones(60))
        conjugate = CLASSES.conjugate(points, outcome, np.ones(60), rng.random(60))
    assert 0 <= value.min() <= value.max() <= CLASSES.most_value(size)
    assert np.abs(slope).max() <= CLASSES.most_slope
    assert np.abs(crossed).max() <= CLASSES.most_curvature
    assert np.abs(conjugate).max() <= CLASSES.most_conjugate
    assert capacity(CLASSES, 3) > 0.999 * capacity(YES_NO, 3), "as many patients as for yes/no"


def test_the_start_is_the_centred_log_shares() -> None:
    outcome, weights = np.array([0, 0, 1, 2.0]), np.array([1, 2, 3, 2.0])
    start = CLASSES.start(outcome, weights)
    assert start is not None
    assert start.sum() == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(softmax(start), [3 / 8, 3 / 8, 2 / 8])
    assert CLASSES.start(np.array([0, 1.0]), np.ones(2)) is None


def test_what_is_counted_and_told() -> None:
    outcome = np.array([0, 1, 2.0])
    assert CLASSES.events(outcome, np.ones(3)).tolist() == [0, 1, 1]
    assert CLASSES.tallies(outcome).tolist() == [[0, 0], [1, 0], [0, 1]]
    assert CLASSES.tallies(outcome).shape[1] == CLASSES.n_tallies
    some = np.ones(C)
    assert CLASSES.tell_unseen(-some, some) == ""
    assert f"level {CLASSES.names[0]!r}:" in CLASSES.tell_unseen(np.arange(C) * -some, some)
    assert CLASSES.tell(0.25) == "25.0 %"
    assert CLASSES.effect(np.log(2)) == pytest.approx(2)
    f, rng = np.zeros((1, C)), np.random.default_rng(0)
    told = float(CLASSES.tell_move(0.3).split("by at most ")[-1].split()[0])
    for _ in range(500):
        f = rng.normal(size=(1, C))
        moved = f + rng.choice([-0.3, 0.3], (1, C))
        change = np.abs(CLASSES.to_probabilities(moved) - CLASSES.to_probabilities(f)).max()
        assert 100 * change <= told


@pytest.mark.parametrize("levels", [["a", "b"], ["a", "b", "a"]])
def test_levels_are_three_or_more_each_once(levels: list[str]) -> None:
    with pytest.raises(ValueError, match="three or more, each once"):
        Classes(levels)


# --- the fit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(240,), (3, 150, 87)])
@pytest.mark.parametrize("penalty", [0.01, 0.04])
def test_federated_is_the_pooled_symmetric_lasso(penalty: float, sizes: tuple[int, ...]) -> None:
    patients = draw(7)
    newton = solve(
        make_sites(patients, sizes), factors_of(), penalty, family=CLASSES, tolerance=1e-11
    )
    assert newton.converged
    assert newton.rounds <= 20
    best, lowest = dense_lasso(patients, penalty)
    np.testing.assert_allclose(as_table(newton.point.coef), best, atol=1e-7)
    assert newton.point.objective == pytest.approx(lowest, abs=1e-8)
    assert newton.point.coef[:C].sum() == pytest.approx(0, abs=1e-9)
    effects = as_table(newton.point.coef)[1:]
    assert (np.median(effects, axis=1) == 0).all(), "of three coefficients one is 0"


def test_an_even_number_of_classes_has_the_pooled_objective_and_predictions() -> None:
    """Coefficients need not be unique there."""
    family, patients = Classes("abcd"), draw(8, 300, 4)
    newton = solve(
        make_sites(patients, (100, 200), 4), factors_of(4), 0.01, family=family, tolerance=1e-10
    )
    assert newton.converged
    best, lowest = dense_lasso(patients, 0.01, 4)
    assert newton.point.objective == pytest.approx(lowest, abs=1e-8)
    design = make_site(*patients[:2], 4)
    X = np.hstack([np.ones((300, 1)), *patients[:2]])
    np.testing.assert_allclose(
        family.to_probabilities(design.predictor(newton.point.coef)),
        softmax(X @ best, 1),
        atol=1e-7,
    )


def test_without_a_penalty_it_is_scikit_learns_multinomial_regression() -> None:
    patients = hits, linear, outcome, weights = draw(9, 400)
    newton = solve(
        make_sites(patients, (150, 250)), factors_of(), 1e-9, family=CLASSES, tolerance=1e-11
    )
    X = np.hstack([hits, linear])
    peer = LogisticRegression(C=1e10, tol=1e-12, max_iter=10_000, solver="newton-cg").fit(
        X, outcome, sample_weight=weights
    )
    design = make_site(hits, linear)
    np.testing.assert_allclose(
        CLASSES.to_probabilities(design.predictor(newton.point.coef)),
        peer.predict_proba(X),
        atol=1e-5,
    )


def test_the_gap_bounds_the_distance() -> None:
    hits, linear, outcome, weights = patients = draw(8)
    design, penalties = make_site(hits, linear), 0.02 * factors_of()
    _, lowest = dense_lasso(patients, 0.02)
    newton = solve(make_sites(patients, (240,)), factors_of(), 0.02, family=CLASSES)
    bounds, rng = bounds_of([(design, outcome, weights)]), np.random.default_rng(0)
    for size in (0.0, 1e-3, 0.1):
        coef = newton.point.coef + size * rng.normal(size=design.n_terms)
        predictor = design.predictor(coef)
        facts = CLASSES, design, outcome, weights, predictor, bounds
        slopes = SlopeSums.packing(bounds).read(sum_slopes(*facts))
        scales = choose_scales(design.layout, slopes, weights.sum(), penalties)
        assert scales is not None
        gap = GapSums.packing(bounds).read(
            sum_gap(CLASSES, outcome, weights, predictor, scales, bounds)
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
    n_terms = len(factors_of())
    active = np.union1d(np.arange(C), rng.choice(n_terms, 9))
    query = Query(1, np.arange(n_terms), *rng.normal(size=(2, n_terms)), active)
    bounds = Bounds(np.array([1.0] * (C * (1 + N_RULES)) + [6.0] * (C * N_LINEAR)), 2.0)
    folds = rng.integers(0, 3, 203)
    found = []
    for sizes in ((203,), (1, 202), (96, 8, 99)):
        parts = np.split(folds, np.cumsum(sizes)[:-1])
        sums = [
            sum_curvature(CLASSES, *site, part, query, bounds)
            for site, part in zip(make_sites(patients, sizes), parts, strict=True)
        ]
        found.append(np.sum(sums, axis=0).tolist())
    assert found[0] == found[1] == found[2]


def test_the_path_goes_down_for_classes() -> None:
    patients = draw(11, 300)
    sites = make_sites(patients, (120, 180))
    folds = [np.arange(n) % 3 for n in (120, 180)]
    path = PathSearch(
        CLASSES, sites[0][0].layout, [factors_of()] * 4, length=12, ratio=0.02, max_active=100
    )
    while not path.done and path.rounds < 200:
        path.update([ask(sites, q, folds, family=CLASSES) for q in path.queries()])
    found = path.finish(rule="min")
    assert path.done
    penalty = found.penalties[found.chosen]
    _, lowest = dense_lasso(patients, float(penalty))
    assert found.points[found.chosen].objective == pytest.approx(lowest, abs=1e-4)
    assert found.chosen > 0
    assert found.n_rules[0] == 0


def test_each_class_has_trees_of_its_own() -> None:
    """The only covariate that tells the third class comes first in some tree."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (600, 3)).astype(np.uint8)
    outcome = np.where(codes[:, 2] == 1, 2.0, codes[:, 1]).astype(float)
    grid = Grid((Axis("number", np.array([0.5]), 2, True),) * 3)
    trees = grow_trees(
        CLASSES, codes, outcome, np.ones(600), grid, n_trees=7, mean_leaves=2.0, learning_rate=0.1,
        subsample=1.0, min_leaf=5, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert len(trees) == 7
    first = [tree.root.left.feature for tree in trees if tree.root is not None]
    assert {1, 2} == set(first)
