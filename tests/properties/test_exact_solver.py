"""The exact solver finds the optimum of pooled patients, however they are spread over sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from fedrulefit.core.newton import ROUNDING, Newton
from tests.oracles import YES_NO, ask, fista, objective, pool, solve, split

FACTORS = [0.0, 0.2, 0.5, 1.0, 1.75]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Any, Any, float]:
    """Sites (some of one patient), penalty factors, and a penalty."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rules, n_linear = draw(st.integers(0, 8)), draw(st.integers(1, 4))
    sizes = draw(st.lists(st.sampled_from([1, 2, 5, 30, 90, 200]), min_size=1, max_size=5))
    sizes = [*sizes, 120]
    n_rows = sum(sizes)
    hits = rng.random((n_rows, n_rules)) < rng.uniform(0.25, 0.75, n_rules)
    X = np.hstack([np.ones((n_rows, 1)), hits, rng.normal(size=(n_rows, n_linear))])
    signal = X @ (rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < 0.5))
    y = (rng.random(n_rows) < expit(signal)).astype(float)
    w = rng.choice([0.5, 1.0, 3.0], n_rows) if draw(st.booleans()) else np.ones(n_rows)
    factors = np.ones(X.shape[1])
    if draw(st.booleans()):
        factors = rng.choice(FACTORS, X.shape[1])
    factors[0] = 0
    penalty = draw(st.sampled_from([0.003, 0.01, 0.03, 0.1]))
    return split(X, n_rules, y, w, sizes), factors, penalty


@given(problems())
@settings(max_examples=40, derandomize=True, deadline=None)
def test_any_partition_has_the_pooled_optimum(problem: tuple[Any, Any, float]) -> None:
    sites, factors, penalty = problem
    newton = solve(sites, factors, penalty, tolerance=1e-9)
    assert newton.converged
    assert newton.rounds <= 15
    X, y, w = pool(sites)
    best = fista(X, y, w, penalty * factors)
    found = newton.point.coef
    lowest = objective(X, y, w, best, penalty * factors)
    assert abs(objective(X, y, w, found, penalty * factors) - lowest) <= 1e-9
    bend = w * expit(X @ best) * expit(-(X @ best)) / w.sum()
    if np.linalg.eigvalsh((X * bend[:, None]).T @ X)[0] > 1e-3:
        np.testing.assert_allclose(found, best, rtol=0, atol=1e-6)


@given(problems())
@settings(max_examples=15, derandomize=True, deadline=None)
def test_every_round_is_the_same_as_with_pooled_patients(problem: tuple[Any, Any, float]) -> None:
    sites, factors, penalty = problem
    X, y, w = pool(sites)
    whole = split(X, sites[0][0].layout.n_rules, y, w, [len(X)])
    apart, together = (
        Newton(YES_NO, whole[0][0].layout, factors, penalty, tolerance=1e-7) for _ in range(2)
    )
    while not together.converged:
        apart.update(ask(sites, apart.query()))
        together.update(ask(whole, together.query()))
        assert apart.point.objective == together.point.objective
        np.testing.assert_array_equal(apart.point.coef, together.point.coef)


@given(problems())
@settings(max_examples=20, derandomize=True, deadline=None)
def test_weights_are_repeated_patients(problem: tuple[Any, Any, float]) -> None:
    sites, factors, penalty = problem
    X, y, _ = pool(sites)
    n_rules = sites[0][0].layout.n_rules
    times = np.random.default_rng(len(X)).integers(0, 4, len(X))
    times[-50:] = 1
    rows = np.repeat(np.arange(len(X)), times)
    weighted = split(X, n_rules, y, times.astype(float), [len(X)])
    repeated = split(X[rows], n_rules, y[rows], np.ones(len(rows)), [len(rows)])
    left, right = (solve(s, factors, penalty, tolerance=1e-10) for s in (weighted, repeated))
    assert abs(left.point.objective - right.point.objective) <= ROUNDING


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("penalty", [0.005, 0.05])
def test_it_agrees_with_scikit_learn(seed: int, penalty: float) -> None:
    """Penalty factors are a change of the columns' units."""
    rng = np.random.default_rng(seed)
    X = np.hstack([np.ones((300, 1)), rng.normal(size=(300, 6))])
    y = (rng.random(300) < expit(X @ [0.5, 1, -1, 0.5, 0, 0, 0])).astype(float)
    w = rng.uniform(0.5, 2, 300)
    factors = np.array([0, 1, 0.2, 1.75, 1, 0.5, 1])
    newton = solve(split(X, 0, y, w, [7, 200, 93]), factors, penalty, tolerance=1e-10)
    # Until 1.8 scikit-learn read l1_ratio only under this name of the penalty.
    version = tuple(map(int, sklearn.__version__.split(".")[:2]))
    old: dict[str, Any] = {"penalty": "elasticnet"} if version < (1, 8) else {}
    lasso = LogisticRegression(
        l1_ratio=1.0, solver="saga", C=1 / (penalty * w.sum()), tol=1e-10, max_iter=50_000, **old
    ).fit(X[:, 1:] / factors[1:], y, sample_weight=w)
    np.testing.assert_allclose(newton.point.coef[0], lasso.intercept_[0], atol=1e-6)
    np.testing.assert_allclose(newton.point.coef[1:], lasso.coef_[0] / factors[1:], atol=1e-6)
