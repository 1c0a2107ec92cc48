"""Patients with several predictors each: the same as a row for each of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
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
from fedrulefit.core.design import Design
from fedrulefit.core.families import YesNo
from fedrulefit.core.grid import Axis, Grid

K, N_RULES, N_LINEAR = 4, 5, 2


class Steps(YesNo):
    """Each patient tries up to K steps, and succeeds or not at each: y and whether it tried."""

    n_baseline = K
    most_slope = most_curvature = float(K)

    def value(self, predictor: Any, outcome: Any, weights: Any) -> Any:
        return self._each(YES_NO.value, predictor, outcome, weights).sum(axis=1)

    def slope(self, predictor: Any, outcome: Any, weights: Any) -> Any:
        return self._each(YES_NO.slope, predictor, outcome, weights)

    def curvature(self, predictor: Any, outcome: Any, weights: Any) -> Any:
        return self._each(YES_NO.curvature, predictor, outcome, weights)

    def conjugate(self, predictor: Any, outcome: Any, weights: Any, shrink: Any) -> Any:
        parts = [
            YES_NO.conjugate(predictor[:, k], outcome[:, k], weights * outcome[:, K + k], shrink)
            for k in range(K)
        ]
        return np.sum(parts, axis=0)

    def start(self, outcome: Any, weights: Any) -> Any:
        tried = weights[:, None] * outcome[:, K:]
        rate = (tried * outcome[:, :K]).sum(axis=0) / tried.sum(axis=0)
        return np.log(rate / (1 - rate))

    def _each(self, function: Any, predictor: Any, outcome: Any, weights: Any) -> Any:
        return function(predictor, outcome[:, :K], weights[:, None] * outcome[:, K:])


STEPS = Steps()


def draw(seed: int, n_rows: int = 160) -> tuple[Any, Any, Any, Any]:
    """Return hits of rules, linear values, outcomes and weights."""
    rng = np.random.default_rng(seed)
    hits = rng.random((n_rows, N_RULES)) < 0.4
    linear = rng.normal(size=(n_rows, N_LINEAR))
    shared = hits @ [1.0, -0.8, 0.0, 0.0, 0.5] + linear @ [0.4, 0.0]
    chance = 1 / (1 + np.exp(-(shared[:, None] + np.linspace(-1.5, 0.5, K))))
    success = rng.random((n_rows, K)) < chance
    tried = np.cumsum(success, axis=1) - success == 0
    outcome = np.hstack([success & tried, tried]).astype(float)
    return hits, linear, outcome, rng.uniform(0.3, 2.0, n_rows)


def in_parts(hits: Any, linear: Any) -> Design:
    bits = np.packbits(hits, axis=0, bitorder="little")
    return Design(np.ones((len(hits), K)), bits, linear, parts=K)


def in_rows(hits: Any, linear: Any, outcome: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Return the dense matrix, outcomes and weights of a row for each patient and step."""
    n_rows = len(hits)
    steps = np.tile(np.eye(K), (n_rows, 1))
    X = np.hstack([steps, np.repeat(np.hstack([hits, linear]), K, axis=0)])
    tried = outcome[:, K:].ravel()
    return X, outcome[:, :K].ravel(), np.repeat(weights, K) * tried


@pytest.mark.parametrize("seed", range(3))
def test_products_are_those_of_a_row_for_each_part(seed: int) -> None:
    hits, linear, outcome, weights = draw(seed)
    design, (X, _, _) = in_parts(hits, linear), in_rows(hits, linear, outcome, weights)
    rng, n_rows = np.random.default_rng(seed), len(hits)
    coef, bounds = rng.normal(size=X.shape[1]), np.ones(X.shape[1])
    bounds[-N_LINEAR:] = 4.0
    np.testing.assert_allclose(design.predictor(coef).ravel(), X @ coef, atol=1e-11)
    units = np.rint(rng.normal(size=(n_rows, K)) * 1e6)
    np.testing.assert_allclose(
        design.sum_columns(units, bounds), X.T @ units.ravel() / bounds, atol=n_rows
    )
    curvature = rng.uniform(0, 0.2, (n_rows, K))
    found = design.sum_products(curvature, bounds) / 2.0**40 * np.outer(bounds, bounds)
    exact = (X * curvature.ravel()[:, None]).T @ X
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(found)[0] > -1e-7, "no direction of negative curvature"
    few = np.array([0, 1, 2, 3, 5, 8, 10])
    np.testing.assert_array_equal(
        design.take(few).sum_products(curvature, bounds[few]),
        design.sum_products(curvature, bounds)[np.ix_(few, few)],
    )


def test_sums_of_parts_do_not_depend_on_the_split() -> None:
    hits, linear, _, _ = draw(5, 203)
    rng = np.random.default_rng(5)
    curvature, bounds = rng.uniform(0, 0.3, (203, K)), np.ones(K + N_RULES + N_LINEAR)
    units = np.rint(rng.normal(size=(203, K)) * 2.0**38)
    whole = in_parts(hits, linear)
    for cut in (1, 8, 77):
        parts = [in_parts(hits[s], linear[s]) for s in (slice(cut), slice(cut, None))]
        for sums, numbers in (("sum_products", curvature), ("sum_columns", units)):
            halves = zip(parts, np.split(numbers, [cut]), strict=True)
            added = sum(getattr(part, sums)(own, bounds) for part, own in halves)
            np.testing.assert_array_equal(added, getattr(whole, sums)(numbers, bounds))


@pytest.mark.parametrize("sizes", [(160,), (3, 90, 67)])
@pytest.mark.parametrize("penalty", [0.01, 0.05])
def test_federated_in_parts_is_the_pooled_optimum_of_rows(
    penalty: float, sizes: tuple[int, ...]
) -> None:
    hits, linear, outcome, weights = draw(7)
    X, y, w = in_rows(hits, linear, outcome, weights)
    factors = np.array([0.0] * K + [1.0] * (N_RULES + N_LINEAR))
    edges = np.cumsum((0, *sizes))
    sites = [
        (in_parts(hits[a:b], linear[a:b]), outcome[a:b], weights[a:b])
        for a, b in pairwise(edges.tolist())
    ]
    newton = solve(sites, factors, penalty, family=STEPS, tolerance=1e-11)
    assert newton.converged
    assert newton.rounds <= 15
    # The mean is over patients, not over rows.
    share = w.sum() / weights.sum()
    best = fista(X, y, w, penalty * factors / share)
    np.testing.assert_allclose(newton.point.coef, best, atol=1e-7)
    lowest = share * objective(X, y, w, best, penalty * factors / share)
    assert newton.point.objective == pytest.approx(lowest, abs=1e-8)


def test_the_gap_of_parts_bounds_the_distance() -> None:
    hits, linear, outcome, weights = draw(8)
    design, (X, y, w) = in_parts(hits, linear), in_rows(hits, linear, outcome, weights)
    factors = np.array([0.0] * K + [1.0] * (N_RULES + N_LINEAR))
    share, penalties = w.sum() / weights.sum(), 0.02 * factors
    best = fista(X, y, w, penalties / share)
    lowest = share * objective(X, y, w, best, penalties / share)
    bounds, rng = bounds_of([(design, outcome, weights)]), np.random.default_rng(0)
    for size in (0.0, 1e-3, 0.1):
        coef = best + size * rng.normal(size=len(best))
        predictor = design.predictor(coef)
        facts = STEPS, design, outcome, weights, predictor, bounds
        slopes = SlopeSums.packing(bounds).read(sum_slopes(*facts))
        scales = choose_scales(design.layout, slopes, weights.sum(), penalties)
        assert scales is not None
        gap = GapSums.packing(bounds).read(
            sum_gap(STEPS, outcome, weights, predictor, scales, bounds)
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


def test_trees_move_all_parts_alike() -> None:
    """The first split is that of the summed residuals."""
    hits, _, outcome, weights = draw(9, 400)
    codes = hits.astype(np.uint8)
    grid = Grid((Axis("number", np.array([0.5]), 2, True),) * N_RULES)
    (tree,) = grow_trees(
        STEPS, codes, outcome, weights, grid, n_trees=1, mean_leaves=2.0, learning_rate=0.1,
        subsample=1.0, min_leaf=5, rng=np.random.default_rng(0),
    )  # fmt: skip
    start = np.broadcast_to(STEPS.start(outcome, weights), (400, K))
    residual = STEPS.slope(start, outcome, weights).sum(axis=1)

    def gain(hit: Any) -> float:
        return sum(residual[s].sum() ** 2 / weights[s].sum() for s in (hit, ~hit))

    gains = [gain(hits[:, k]) for k in range(N_RULES)]
    assert tree.root is not None
    assert tree.root.left.feature == int(np.argmax(gains))


def test_products_of_parts_are_those_of_one_column_at_a_time() -> None:
    """The naive twin: baseline k and every other term, the patients' part k summed by itself."""
    hits, linear, *_ = draw(12, 700)
    design = in_parts(hits, linear)
    rng = np.random.default_rng(12)
    curvature = rng.uniform(0, 1, (700, K)) * (rng.random((700, K)) < 0.7)
    bounds = bounds_of([(design, np.zeros(700), np.ones(700))]).terms
    found = design.sum_products(curvature, bounds)
    whole = curvature.sum(axis=1)
    counted = np.rint(np.sqrt(whole) * 2.0**20) ** 2 / np.maximum(whole, 1e-300)
    for k in range(K):
        column = np.rint(curvature[:, k] * counted)
        alone = design.sum_columns(column, bounds)
        assert found[k, K:].tolist() == found[K:, k].tolist() == alone[K:].tolist()
        assert found[k, :K].tolist() == [int(column.sum()) * (k == other) for other in range(K)]
