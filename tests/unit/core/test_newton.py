"""The exact solver and its behaviour in awkward places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from tests.oracles import (
    YES_NO,
    ask,
    dense,
    fista,
    make_design,
    objective,
    pool,
    solve,
    split,
)

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.curvature import Query
from fedrulefit.core.fixed import LARGEST_PREDICTOR, largest_predictor
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import ROUNDING, Newton, penalty_factors
from fedrulefit.core.rules import Condition, Rule


def make_data(
    seed: int, n_rows: int = 150, n_rules: int = 6, n_linear: int = 3
) -> tuple[Any, Any, Any]:
    """Return X with its intercept, y and w."""
    rng = np.random.default_rng(seed)
    hits = rng.random((n_rows, n_rules)) < rng.uniform(0.2, 0.8, n_rules)
    X = np.hstack([np.ones((n_rows, 1)), hits, rng.normal(size=(n_rows, n_linear))])
    signal = X @ np.resize([0.2, 1.2, -1.5, 0.0], X.shape[1])
    y = (rng.random(n_rows) < expit(signal)).astype(float)
    return X, y, rng.uniform(0.3, 2.0, n_rows)


def ones(n_terms: int) -> Any:
    return np.array([0.0, *[1.0] * (n_terms - 1)])


def one_site(X: Any, n_rules: int, y: Any, w: Any) -> Any:
    return split(X, n_rules, y, w, [len(X)])


def test_penalty_factors_by_kind_of_term() -> None:
    one, two = Rule((Condition(0, 1),)), Rule((Condition(0, 1), Condition(1, 2)))
    missing = Rule((Condition(0, 1 << MISSING),))
    grid = Grid(
        (
            Axis("yes/no", np.array([0.5]), 2, complete=False),
            Axis("category", np.empty(0), 3, complete=True),
        )
    )
    factors = penalty_factors(
        Layout(1, 3, 2), [one, two, missing], grid, linear_factor=0.2, interaction_factor=1.75
    )
    assert factors.tolist() == [0, 1, 1.75, 0.2, 0.2, 0.2]


# --- the way ------------------------------------------------------------------------------


def test_a_solver_has_no_point_before_its_first_round() -> None:
    newton = Newton(YES_NO, Layout(1, 2, 0), ones(3), 0.1)
    assert not newton.converged
    with pytest.raises(ValueError, match="first round"):
        _ = newton.point


@pytest.mark.parametrize("seed", range(4))
def test_the_objective_of_accepted_points_never_rises(seed: int) -> None:
    X, y, w = make_data(seed)
    factors, penalty = ones(X.shape[1]), 0.004
    sites = one_site(X, 6, y, w)
    newton, values = Newton(YES_NO, sites[0][0].layout, factors, penalty, tolerance=1e-11), []
    while not newton.converged and newton.rounds < 50:
        newton.update(ask(sites, newton.query()))
        values.append(newton.point.objective)
        assert newton.point.objective == pytest.approx(
            objective(X, y, w, newton.point.coef, penalty * factors), abs=ROUNDING
        )
    assert newton.converged
    assert newton.rounds <= 10
    assert (np.diff(values) <= ROUNDING).all()


def test_a_step_too_far_is_taken_back() -> None:
    """From far away a Newton step of logistic regression leads nowhere."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 1))
    X = np.hstack([np.ones((300, 1)), x])
    y = (rng.random(300) < expit(x[:, 0])).astype(float)
    sites = one_site(X, 0, y, np.ones(300))
    far = np.array([4.0, -6.0])
    near = solve(sites, ones(2), 0.001)
    start = replace(near.point, coef=far)
    newton = Newton(YES_NO, Layout(1, 0, 1), ones(2), 0.001, start=start, tolerance=1e-10)
    values, lengths = [], []
    while not newton.converged and newton.rounds < 60:
        query = newton.query()
        newton.update(ask(sites, query))
        values.append(newton.point.objective)
        lengths.append(np.abs(query.end - query.start).max(initial=0))
    assert newton.converged
    assert newton.rounds > len(set(values)), "some round took a step back"
    assert (np.diff(values) <= ROUNDING).all()
    np.testing.assert_allclose(newton.point.coef, near.point.coef, atol=1e-7)


def test_few_active_terms_still_reach_the_optimum() -> None:
    X, y, w = make_data(6, n_rules=30)
    factors, penalty = ones(X.shape[1]), 0.005
    sites = one_site(X, 30, y, w)
    free, tight = (solve(sites, factors, penalty, max_active=k) for k in (300, 4))
    assert tight.converged
    assert tight.rounds >= free.rounds
    assert tight.point.objective == pytest.approx(free.point.objective, abs=ROUNDING)


def test_another_penalty_goes_on_from_here() -> None:
    X, y, w = make_data(7)
    factors = ones(X.shape[1])
    sites = one_site(X, 6, y, w)
    newton = solve(sites, factors, 0.02)
    newton.continue_at(0.01)
    assert newton.point.objective == pytest.approx(
        objective(X, y, w, newton.point.coef, 0.01 * factors), abs=ROUNDING
    )
    while not newton.converged:
        newton.update(ask(sites, newton.query()))
    fresh = solve(sites, factors, 0.01)
    np.testing.assert_allclose(newton.point.coef, fresh.point.coef, atol=1e-6)


# --- special problems ---------------------------------------------------------------------


def test_a_large_penalty_leaves_the_log_odds() -> None:
    X, y, w = make_data(8)
    factors = ones(X.shape[1])
    newton = solve(one_site(X, 6, y, w), factors, 10.0, tolerance=1e-12)
    assert not newton.point.coef[1:].any()
    assert newton.point.coef[0] == pytest.approx(logit(w @ y / w.sum()), abs=1e-9)


def test_without_penalty_it_is_logistic_regression() -> None:
    X, y, w = make_data(9, n_rows=400)
    newton = solve(one_site(X, 6, y, w), ones(X.shape[1]), 0.0, tolerance=1e-12)
    assert newton.converged
    assert not newton.separated
    coef = np.zeros(X.shape[1])
    for _ in range(30):  # textbook Newton-Raphson
        p = expit(X @ coef)
        coef -= np.linalg.solve((X * (w * p * (1 - p))[:, None]).T @ X, X.T @ (w * (p - y)))
    np.testing.assert_allclose(newton.point.coef, coef, atol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1e-9])
def test_perfectly_separated_outcomes_stop_bounded(penalty: float) -> None:
    X, _, w = make_data(10)
    y = (X[:, -1] > 0).astype(float)
    newton = solve(one_site(X, 6, y, w), ones(X.shape[1]), penalty)
    assert newton.separated
    assert newton.converged
    assert newton.rounds < 40
    assert np.isfinite(newton.point.coef).all()
    assert newton.point.objective < 1e-4


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_stops_bounded(label: float) -> None:
    """Once the path over such data ended in an error about infinity."""
    X, _, w = make_data(11)
    sites = one_site(X, 6, np.full(len(X), label), w)
    newton = solve(sites, ones(X.shape[1]), 0.1)
    assert newton.separated
    assert 5 < abs(newton.point.coef[0]) < 30
    assert not newton.point.coef[1:].any()
    newton.continue_at(0.01)
    newton.update(ask(sites, newton.query()))
    assert newton.converged


def test_a_group_without_events_has_no_finite_optimum_but_stops() -> None:
    """Quasi-separation: without penalty one coefficient drifts away, the loss does not vanish."""
    X, y, w = make_data(12)
    y = np.where(X[:, 1] > 0, 0.0, y)
    newton = solve(one_site(X, 6, y, w), ones(X.shape[1]), 0.0)
    assert newton.converged
    assert newton.point.coef[1] < -8
    assert np.isfinite(newton.point.coef).all()


def test_equal_complementary_and_empty_columns() -> None:
    X, y, w = make_data(13)
    hits = X[:, 1:7] > 0
    nothing = np.zeros((len(X), 1), dtype=bool)
    hits = np.hstack([hits, hits, ~hits, nothing, ~nothing])
    linear = X[:, 7:]
    site = (make_design(hits, np.hstack([linear, linear])), y, w)
    factors = ones(site[0].n_terms)
    newton = solve([site], factors, 0.003, tolerance=1e-9)
    assert newton.converged
    assert newton.rounds <= 12
    best = fista(dense(site[0]), y, w, 0.003 * factors, steps=20_000)
    assert newton.point.objective <= objective(*pool([site]), best, 0.003 * factors) + 1e-9
    assert newton.point.coef[-1] + newton.point.coef[-4] != 0
    assert newton.point.coef[1 + 18] == 0, "a rule that never holds"


def test_zero_factors_leave_terms_unpenalised() -> None:
    X, y, w = make_data(14)
    factors = np.array([0, 0, 1, 1, 1, 1, 1, 0, 1, 1.0])
    newton = solve(one_site(X, 6, y, w), factors, 0.5, tolerance=1e-11)
    kept = np.flatnonzero(newton.point.coef)
    assert kept.tolist() == [0, 1, 7]
    np.testing.assert_allclose(newton.point.gradient[kept], 0, atol=1e-11)


# --- bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["separated", "ordinary"])
@pytest.mark.parametrize("bound", [1.0, 400.0, 1600.0])
def test_no_point_lies_beyond_what_sites_answer(outcome: str, bound: float) -> None:
    """The solver shortens its own steps; an honest run is never refused."""
    X, y, w = make_data(15)
    if outcome == "separated":
        y = (X[:, -1] > 0).astype(float)
    bounds = np.where(np.arange(X.shape[1]) < 7, 1.0, bound)
    sites, factors = one_site(X, 6, y, w), ones(X.shape[1])
    newton, values = Newton(YES_NO, sites[0][0].layout, factors, 1e-5, bounds=bounds), []
    while not newton.converged and newton.rounds < 60:
        query = newton.query()
        for coef in (query.start, query.end):
            assert largest_predictor(coef, bounds[query.terms]) <= LARGEST_PREDICTOR
        newton.update(ask(sites, query))
        values.append(newton.point.objective)
    assert newton.converged
    assert newton.rounds < 40
    assert (np.diff(values) <= ROUNDING).all()
    free = solve(sites, factors, 1e-5)
    inside = largest_predictor(free.point.coef, bounds) <= LARGEST_PREDICTOR
    if inside:
        assert newton.point.objective == pytest.approx(free.point.objective, abs=1e-4)
    else:
        assert newton.confined
        assert newton.point.residual > newton.tolerance, "the residual tells"


def test_a_solver_at_the_border_goes_on_with_a_larger_penalty() -> None:
    X, y, w = make_data(15)
    bounds = np.where(np.arange(X.shape[1]) < 7, 1.0, 1600.0)
    sites, factors = one_site(X, 6, y, w), ones(X.shape[1])
    newton = Newton(YES_NO, sites[0][0].layout, factors, 1e-5, bounds=bounds)
    while not newton.converged:
        newton.update(ask(sites, newton.query()))
    assert newton.confined
    newton.continue_at(0.2)
    while not newton.converged:
        newton.update(ask(sites, newton.query()))
    assert not newton.confined
    fresh = solve(sites, factors, 0.2)
    np.testing.assert_allclose(newton.point.coef, fresh.point.coef, atol=1e-6)


# --- the same point, on another machine -----------------------------------------------------


def shift(query: Query, terms: Any, by: Any) -> Query:
    """Return the query with some coefficients of its new point moved."""
    n_terms = 1 + max([*query.terms, *terms])
    start, end = np.zeros(n_terms), np.zeros(n_terms)
    start[query.terms], end[query.terms] = query.start, query.end
    end[list(terms)] += by
    used = np.union1d(query.terms, terms).astype(np.int64)
    return replace(query, terms=used, start=start[used], end=end[used])


def twin_columns(penalty: float = 0.01) -> tuple[Newton, Any]:
    """A solver that has made its first steps, where rules 1 and 2 hold for the same patients."""
    X, y, w = make_data(4)
    X[:, 2] = X[:, 1]
    sites = one_site(X, 6, y, w)
    newton = Newton(YES_NO, sites[0][0].layout, ones(X.shape[1]), penalty)
    for _ in range(2):
        newton.update(ask(sites, newton.query()))
    assert not newton.converged
    return newton, sites


def test_another_machine_asks_for_the_same_point_up_to_its_last_digits() -> None:
    newton, _ = twin_columns()
    query = newton.query()
    assert newton.could_ask(query)
    assert newton.could_ask(replace(query, end=query.end * (1 + 1e-9)))
    assert not newton.could_ask(replace(query, end=query.end + 1e-6))
    assert not newton.could_ask(replace(query, start=query.start + 1e-6))
    assert not newton.could_ask(replace(query, fold=0))


def test_equal_rules_may_share_a_coefficient_otherwise() -> None:
    newton, _ = twin_columns()
    query = newton.query()
    first, second = (shift(query, [k], 0.0).end[k] for k in (1, 2))
    large, small = (1, 2) if abs(first) >= abs(second) else (2, 1)
    part = 0.3 * (first if large == 1 else second)
    assert part != 0
    assert newton.could_ask(shift(query, [large, small], [-part, part]))
    # Larger coefficients of opposite signs predict the same, and cost more.
    assert not newton.could_ask(shift(query, [large, small], [9 * part, -9 * part]))
    assert not newton.could_ask(shift(query, [large, small], [1e3, -1e3]))
    assert not newton.could_ask(shift(query, [large], [part]))


def test_terms_are_active_by_their_gradient_only() -> None:
    newton, _ = twin_columns(0.08)
    query = newton.query()
    idle = np.setdiff1d(np.arange(len(newton.factors)), query.active)
    kept = np.setdiff1d(query.active, query.terms)
    assert len(idle)
    assert len(kept)
    assert not newton.could_ask(replace(query, active=np.union1d(query.active, idle[:1])))
    assert not newton.could_ask(replace(query, active=np.setdiff1d(query.active, [query.terms[1]])))
    assert not newton.could_ask(replace(query, active=np.setdiff1d(query.active, kept[:1])))
    # One that is at the very limit may be in or out.
    limit = newton.penalty * newton.factors
    newton._slopes[idle[0]] = 0.7 * limit[idle[0]] * (1 - 1e-12)
    assert newton.could_ask(replace(query, active=np.union1d(query.active, idle[:1])))


def test_the_solver_goes_on_from_the_point_that_was_asked() -> None:
    newton, sites = twin_columns()
    query = newton.query()
    moved = replace(query, end=query.end * (1 + 1e-3))
    newton.update(ask(sites, moved))
    coef = np.zeros(len(newton.factors))
    coef[moved.terms] = moved.end
    np.testing.assert_array_equal(newton.point.coef, coef)
