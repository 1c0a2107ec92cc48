"""A baseline of more than one column, through every solver and the certificate.

Here a column for each of two hospitals, in place of the intercept: always in the model, never
penalised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from tests.oracles import (
    YES_NO,
    ask,
    bounds_of,
    dense,
    fista,
    make_design,
    objective,
    pool,
    solve,
    split,
)

from fedrulefit.core.certificate import SlopeSums, certify, choose_scales, sum_conjugate, sum_slopes
from fedrulefit.core.design import Design
from fedrulefit.core.fedda import Schedule, client_update, server_update, soft_threshold
from fedrulefit.core.fixed import Bounds, from_units
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.importance import TermSums, squares_of, sum_terms, term_importance
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import ROUNDING, Newton, penalty_factors
from fedrulefit.core.path import PathSearch
from fedrulefit.core.rules import Condition, Rule

LAYOUT = Layout(n_baseline=2, n_rules=5, n_linear=3)
FACTORS = np.array([0, 0, 1, 1, 0.5, 1.75, 1, 0.2, 1, 0.2])


def make_data(seed: int, n_rows: int = 300) -> tuple[Any, Any, Any]:
    """Return X, y and w; the outcome is more frequent in the second hospital."""
    rng = np.random.default_rng(seed)
    second = (rng.random(n_rows) < 0.4).astype(float)
    hits = rng.random((n_rows, LAYOUT.n_rules)) < rng.uniform(0.2, 0.8, LAYOUT.n_rules)
    linear = rng.normal(size=(n_rows, LAYOUT.n_linear))
    X = np.column_stack([1 - second, second, hits, linear])
    signal = X @ np.array([-0.9, 0.8, 1.2, -1.0, 0, 0, 0, 0.5, 0, 0])
    y = (rng.random(n_rows) < expit(signal)).astype(float)
    return X, y, rng.uniform(0.3, 2.0, n_rows)


def make_sites(X: Any, y: Any, w: Any, sizes: tuple[int, ...] = (7, 200, 93)) -> Any:
    return split(X, LAYOUT.n_rules, y, w, sizes, n_baseline=LAYOUT.n_baseline)


def test_the_design_has_the_baseline_s_columns() -> None:
    X, y, w = make_data(0)
    sites = make_sites(X, y, w)
    assert all(design.layout == LAYOUT for design, _, _ in sites)
    np.testing.assert_array_equal(pool(sites)[0], X)


def test_the_baseline_has_no_penalty() -> None:
    rules = [Rule((Condition(0, 1),))] * LAYOUT.n_rules
    grid = Grid((Axis("yes/no", np.array([0.5]), 2, complete=True),))
    factors = penalty_factors(LAYOUT, rules, grid, linear_factor=0.2, interaction_factor=1.75)
    assert factors.tolist() == [0, 0, 1, 1, 1, 1, 1, 0.2, 0.2, 0.2]


@pytest.mark.parametrize("penalty", [0.005, 0.05, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_exact_solver_finds_the_optimum(seed: int, penalty: float) -> None:
    X, y, w = make_data(seed)
    newton = solve(make_sites(X, y, w), FACTORS, penalty, tolerance=1e-10)
    assert newton.converged
    assert newton.rounds <= 12
    best = fista(X, y, w, penalty * FACTORS)
    np.testing.assert_allclose(newton.point.coef, best, rtol=0, atol=1e-6)
    assert (newton.point.coef[LAYOUT.baseline] != 0).all()
    if penalty == 5.0:
        assert not newton.point.coef[LAYOUT.effects].any()


def test_without_penalty_it_is_scipy_s_optimum() -> None:
    X, y, w = make_data(4)

    def mean_loss(coef: Any) -> tuple[float, Any]:
        gradient = X.T @ (w * (expit(X @ coef) - y)) / w.sum()
        return objective(X, y, w, coef, np.zeros(len(coef))), gradient

    best = minimize(mean_loss, np.zeros(X.shape[1]), jac=True, method="BFGS", tol=1e-10).x
    newton = solve(make_sites(X, y, w), FACTORS, 0.0, tolerance=1e-10)
    np.testing.assert_allclose(newton.point.coef, best, rtol=0, atol=1e-6)


def test_every_question_names_the_whole_baseline() -> None:
    """Also where its coefficients are still 0."""
    X, y, w = make_data(5)
    newton = Newton(YES_NO, LAYOUT, FACTORS, 9.0)
    for _ in range(3):
        query = newton.query()
        assert query.terms.tolist() == [0, 1]
        assert LAYOUT.holds(query.active)
        newton.update(ask(make_sites(X, y, w), query))


def test_columns_that_are_the_intercept_again_do_no_harm() -> None:
    """An intercept and both hospitals: the sum of two columns is the third."""
    X, y, w = make_data(6)
    X = np.column_stack([np.ones(len(X)), X])
    factors = np.append(0.0, FACTORS)
    sites = split(X, LAYOUT.n_rules, y, w, [100, 200], n_baseline=3)
    newton = solve(sites, factors, 0.01, tolerance=1e-9)
    lowest = objective(*pool(sites), fista(X, y, w, 0.01 * factors), 0.01 * factors)
    assert newton.converged
    assert newton.point.objective == pytest.approx(lowest, abs=1e-8)


def test_the_path_walks_from_the_baseline_alone() -> None:
    X, y, w = make_data(7)
    sites = make_sites(X, y, w, (150, 150))
    folds = np.split(np.arange(len(y)) % 3, 2)
    search = PathSearch(YES_NO, LAYOUT, [FACTORS] * 4, length=10, ratio=0.02, max_active=300)
    while not search.done:
        search.update([ask(sites, query, folds) for query in search.queries()])
        assert search.rounds < 100
    path = search.finish(rule="min")
    first = path.points[0].coef
    assert not first[LAYOUT.effects].any()
    for hospital in (0, 1):
        there = X[:, hospital] > 0
        assert expit(first[hospital]) == pytest.approx(
            np.average(y[there], weights=w[there]), abs=1e-3
        )
    assert (path.n_terms[0], path.n_rules[0]) == (0, 0)
    last = path.points[-1].coef
    assert path.n_terms[-1] == (last[LAYOUT.effects] != 0).sum()
    assert path.n_rules[-1] == (last[LAYOUT.rules] != 0).sum() > 1
    assert path.deviance[path.chosen] < path.deviance[0]


def test_the_certificate_of_two_columns_has_a_residual_and_a_gap() -> None:
    """What two scales cannot balance is paid for, by the largest baseline there may be."""
    X, y, w = make_data(8)
    penalties = 0.01 * FACTORS
    best = fista(X, y, w, penalties)
    ((design, *_),) = make_sites(X, y, w, (300,))
    bounds, lowest = bounds_of([(design, y, w)]).terms, objective(X, y, w, best, penalties)
    for coef, most in ((best, 1e-8), (0.9 * best, np.inf), (np.zeros(len(best)), np.inf)):
        slopes = SlopeSums.packing(Bounds(bounds)).read(
            sum_slopes(YES_NO, design, y, w, X @ coef, Bounds(bounds))
        )
        scales = choose_scales(LAYOUT, slopes, w.sum(), penalties)
        assert scales is not None
        assert scales[0] == scales[1]
        value = objective(X, y, w, coef, penalties)
        conjugate = float(from_units(sum_conjugate(YES_NO, y, w, X @ coef, scales)))
        proof = certify(
            design.layout, slopes, w.sum(), coef, penalties, objective=value, conjugate=conjugate
        )
        assert proof.gap is not None
        assert proof.gap >= value - lowest - 1e-8
        assert proof.residual <= most
        if most < 1:
            assert proof.gap <= 1e-6
    gradient = X.T @ (w * (0.5 - y)) / w.sum()
    assert proof.residual >= np.abs(gradient[LAYOUT.baseline]).max() - ROUNDING


@pytest.mark.parametrize("column", ["positive", "mixed", "negative"])
def test_one_baseline_column_of_any_numbers_has_a_gap(column: str) -> None:
    """The column need not be of ones: the dual point is feasible by its own sum."""
    X, y, w = make_data(9)
    values = np.random.default_rng(0).uniform(0.2, 1.0, len(y))
    X[:, 0] = {"positive": values, "mixed": values - 0.5, "negative": -values}[column]
    X = np.delete(X, 1, axis=1)
    factors = np.delete(FACTORS, 1)
    ((design, *_),) = split(X, LAYOUT.n_rules, y, w, [len(X)])
    penalties = 0.02 * factors
    best = fista(X, y, w, penalties)
    lowest = objective(X, y, w, best, penalties)
    bounds = bounds_of([(design, y, w)]).terms
    for coef in (best, 0.9 * best, np.zeros(len(best))):
        slopes = SlopeSums.packing(Bounds(bounds)).read(
            sum_slopes(YES_NO, design, y, w, X @ coef, Bounds(bounds))
        )
        scales = choose_scales(design.layout, slopes, w.sum(), penalties)
        assert scales is not None
        falling, rising = scales
        total = falling * slopes.falling + rising * slopes.rising
        assert total[0] == pytest.approx(0, abs=1e-9)
        assert (np.abs(total[1:]) <= penalties[1:] * w.sum() * (1 + 1e-12)).all()
        slope = YES_NO.slope(X @ coef, y, w)
        shrink = np.where(slope < 0, falling, rising)
        dual = -YES_NO.conjugate(X @ coef, y, w, shrink).sum() / w.sum()
        assert dual <= lowest + 1e-9


def test_federated_averaging_comes_near_the_optimum() -> None:
    X, y, w = make_data(10)
    sites = make_sites(X, y, w, (100, 200))
    schedule = Schedule(1500, 2, 1.0, 0.4, 0.02)
    dual = np.zeros(LAYOUT.n_terms)
    for r in range(schedule.rounds):
        local = [client_update(YES_NO, *site, FACTORS, dual, r, schedule) for site in sites]
        shares = [site[2].sum() / w.sum() for site in sites]
        increment = sum(s * each.increment for s, each in zip(shares, local, strict=True))
        dual = server_update(dual, increment, schedule.server_step)
    coef = soft_threshold(dual, schedule.threshold(schedule.rounds), FACTORS)
    penalties = 0.02 * FACTORS
    lowest = objective(X, y, w, fista(X, y, w, penalties), penalties)
    assert objective(X, y, w, coef, penalties) <= lowest * 1.005


def test_totals_and_importances_do_not_hang_on_the_first_column() -> None:
    """The first column is not of ones, so its sum is not the number of patients."""
    X, y, w = make_data(11)
    ((design, *_),) = make_sites(X, y, w, (300,))
    bounds = bounds_of([(design, y, w)]).terms
    packing = TermSums.packing(LAYOUT.n_rules, LAYOUT.n_linear)
    sums = packing.read(sum_terms(design, y, w, bounds))
    assert sums.total == pytest.approx(w.sum())
    assert sums.events == pytest.approx(w @ y)
    squares = squares_of(LAYOUT, sums, bounds)
    coef = np.linspace(-1, 1, LAYOUT.n_terms)
    found = term_importance(LAYOUT, coef, squares, w.sum() - 1)
    mean = w @ X / w.sum()
    expected = np.abs(coef) * np.sqrt(w @ (X - mean) ** 2 / (w.sum() - 1))
    assert found[LAYOUT.baseline].tolist() == [0, 0]
    np.testing.assert_allclose(found[LAYOUT.effects], expected[LAYOUT.effects], rtol=1e-6)


def test_an_unpacked_design_keeps_the_baseline() -> None:
    X, *_ = make_data(12, n_rows=20)
    design: Design = make_design(X[:, LAYOUT.rules] > 0, X[:, LAYOUT.linear], X[:, LAYOUT.baseline])
    np.testing.assert_array_equal(dense(design), X)
    np.testing.assert_array_equal(design.unpacked().matrix, X)
    taken = design.take(np.array([0, 1, 3, 8]))
    assert taken.layout == Layout(2, 1, 1)
    np.testing.assert_array_equal(dense(taken), X[:, [0, 1, 3, 8]])
