"""The penalised quadratic: optimality conditions, scikit-learn, and descent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from fedrulefit.core.quadratic import kkt_residual, solve_quadratic

KINDS = ["plain", "wide", "duplicated", "complementary", "zero", "rules"]


def make_problem(kind: str, seed: int) -> tuple[Any, Any, Any]:
    """Return H, c and π with c in the range of H, as a loss gives them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    rows = n // 2 + 1 if kind == "wide" else 4 * n
    X = rng.normal(size=(rows, n))
    if kind in ("complementary", "rules"):
        X = (rng.random((rows, n)) < rng.uniform(0.05, 0.95, n)).astype(float)
        X[:, 0] = 1
    if kind == "duplicated":
        X[:, n // 2 :] = X[:, : n - n // 2]
    if kind == "complementary":
        X[:, n // 2 :] = 1 - X[:, : n - n // 2]
        X[:, 0] = 1
    if kind == "zero":
        X[:, ::3] = 0
    target = X @ rng.normal(size=n) * (rng.random() + 0.1) + rng.normal(size=rows)
    penalty = rng.choice([0.0, 0.01, 0.1, 0.5], n) if seed % 2 else np.full(n, 0.05)
    return X.T @ X / rows, -X.T @ target / rows, penalty


def value(H: Any, c: Any, penalty: Any, b: Any) -> float:
    return float(b @ H @ b / 2 + c @ b + penalty @ np.abs(b))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_the_optimality_conditions_hold(kind: str, seed: int) -> None:
    H, c, penalty = make_problem(kind, seed)
    start = np.zeros(len(c))
    if seed % 3:
        start = np.random.default_rng(seed).normal(size=len(c)) * (seed % 3 == 1)
    found = solve_quadratic(H, c, penalty, start, tolerance=1e-12)
    assert kkt_residual(H @ found + c, found, penalty) <= 1e-9 * np.abs(c).max()
    assert value(H, c, penalty, found) <= value(H, c, penalty, start) + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_rounds", [1, 2])
def test_it_only_goes_down_even_if_stopped_early(kind: str, seed: int, max_rounds: int) -> None:
    H, c, penalty = make_problem(kind, seed)
    start = 10 * np.random.default_rng(seed).normal(size=len(c))
    found = solve_quadratic(H, c, penalty, start, tolerance=1e-14, max_rounds=max_rounds)
    assert value(H, c, penalty, found) <= value(H, c, penalty, start)


@pytest.mark.parametrize("seed", range(6))
def test_from_its_own_solution_it_does_not_move(seed: int) -> None:
    H, c, penalty = make_problem("plain", seed)
    once = solve_quadratic(H, c, penalty, np.zeros(len(c)), tolerance=1e-12)
    again = solve_quadratic(H, c, penalty, once, tolerance=1e-12)
    np.testing.assert_allclose(again, once, rtol=0, atol=1e-12)
    far = solve_quadratic(H, c, penalty, 100 * np.ones(len(c)), tolerance=1e-12)
    np.testing.assert_allclose(far, once, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(0, 12, 2))
@pytest.mark.parametrize("penalty", [0.001, 0.05, 0.4])
def test_it_agrees_with_scikit_learn(seed: int, penalty: float) -> None:
    H, c, _ = make_problem("plain", seed)
    n = len(c)
    root = np.linalg.cholesky(H)
    lasso = Lasso(alpha=penalty / n, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    lasso.fit(root.T, -np.linalg.solve(root, c))
    found = solve_quadratic(H, c, np.full(n, penalty), np.zeros(n), tolerance=1e-12)
    np.testing.assert_allclose(found, lasso.coef_, rtol=0, atol=1e-7)


def test_a_column_of_zeros_stays_at_zero() -> None:
    H, c, penalty = make_problem("zero", 3)
    found = solve_quadratic(H, c, 0 * penalty, np.zeros(len(c)), tolerance=1e-12)
    assert not found[np.diag(H) == 0].any()
    assert found[np.diag(H) > 0].all()


def test_without_curvature_it_ends_and_is_finite() -> None:
    """A matrix of zeros once ended in an error about infinity."""
    zero = np.zeros((2, 2))
    for start in (np.zeros(2), np.ones(2)):
        found = solve_quadratic(zero, np.zeros(2), np.ones(2), start, tolerance=1e-9)
        assert np.isfinite(found).all()


def test_a_penalty_above_every_slope_gives_zero() -> None:
    H, c, _ = make_problem("plain", 0)
    limit = np.abs(c).max()
    for factor, expected in ((1.0001, 0), (0.999, 1)):
        found = solve_quadratic(
            H, c, np.full(len(c), factor * limit), np.ones(len(c)), tolerance=1e-13
        )
        assert (found != 0).sum() == expected


def test_the_residual_is_the_least_subgradient() -> None:
    gradient = np.array([0.3, -0.5, 0.2, -1.0])
    coef = np.array([0.0, 1.0, 0.0, -2.0])
    penalty = np.array([0.1, 0.5, 0.4, 0.25])
    assert kkt_residual(gradient, coef, penalty) == pytest.approx(1.25)
    assert kkt_residual(gradient[:3], coef[:3], penalty[:3]) == pytest.approx(0.2)
    assert kkt_residual(np.empty(0), np.empty(0), np.empty(0)) == 0
