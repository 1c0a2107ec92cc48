"""The penalised quadratic: optimality conditions, scikit-learn, and descent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from fedrulefit.core import quadratic
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


# --- by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("linear", "penalty", "expected"),
    [
        (0.5, 1.0, 0.0),
        (1.0, 1.0, 0.0),  # at the very limit
        (-1.0, 1.0, 0.0),
        (0.0, 0.0, 0.0),
        (1.5, 1.0, 7.0),  # falls for ever: it stays where it was
    ],
)
def test_a_column_without_curvature_goes_to_zero_where_that_is_best(
    linear: float, penalty: float, expected: float
) -> None:
    H, start = np.diag([0.0, 2.0]), np.array([7.0, 0.0])
    c, limits = np.array([linear, -3.0]), np.array([penalty, 1.0])
    found = solve_quadratic(H, c, limits, start, tolerance=1e-12)
    assert found.tolist() == [expected, 1.0]
    assert start.tolist() == [7.0, 0.0], "what was given is left alone"


def test_a_diagonal_problem_is_solved_by_hand() -> None:
    """Soft thresholds: (|c| − π) / h with the sign of −c."""
    H, c = np.diag([2.0, 0.5, 1.0, 4.0, 1.0]), np.array([-3.0, 1.0, 0.3, 0.0, -0.2])
    penalty = np.array([1.0, 0.25, 0.3, 1.0, 0.0])
    found = solve_quadratic(H, c, penalty, np.ones(5), tolerance=1e-12)
    np.testing.assert_allclose(found, [1.0, -1.5, 0.0, 0.0, 0.2], atol=1e-12)
    assert (found[2:4] == 0).all()


@pytest.mark.parametrize(
    ("start", "goal", "penalty", "expected"),
    [
        ([1.0, 1.0], [2.0, 3.0], [0.5, 0.5], [2.0, 3.0]),  # nothing crosses
        ([1.0, 1.0], [-2.5, 3.5], [0.5, 0.5], [0.0, 3.5]),  # one drops out, the other goes on
        ([2.0, 1.0], [-2.0, -3.0], [0.5, 0.5], [0.0, 0.0]),  # both, the nearer one first
        ([1.0, -1.0], [-2.5, -3.5], [0.0, 0.5], [-2.5, -3.5]),  # unpenalised may cross
        ([-1.0, 2.0], [0.5, 1.0], [0.5, 0.5], [0.0, 1.0]),
        ([1.0, 0.0], [4.0, 9.0], [0.5, 0.5], [4.0, 0.0]),  # what is 0 stays out
        ([1.0, 0.0], [4.0, 9.0], [0.5, 0.0], [4.0, 9.0]),  # unless it is unpenalised
        ([1.0, 1.0], [0.0, 3.0], [0.5, 0.5], [0.0, 3.0]),  # to zero is not across
        *[([0.1 * k, 1.0], [-0.3, 2.0], [0.5, 0.5], [0.0, 2.0]) for k in range(1, 12)],  # exactly 0
    ],
)
def test_the_jump_stops_where_a_sign_would_change(
    start: list[float], goal: list[float], penalty: list[float], expected: list[float]
) -> None:
    """With unit curvature the minimum of an orthant is −c − π·sign."""
    coef, limits = np.array(start), np.array(penalty)
    linear = -np.array(goal) - limits * np.sign(coef)
    quadratic._jump(np.eye(2), linear, limits, coef)
    np.testing.assert_allclose(coef, expected, atol=1e-10)
    assert (coef == 0).tolist() == [value == 0 for value in expected]


def test_the_jump_stops_at_the_first_crossing_along_the_way() -> None:
    """From (1, 1) towards (−1, −3): at a quarter of the way β₂ is 0; then β₁ goes on alone."""
    H, limits = np.array([[1.0, 0.5], [0.5, 1.0]]), np.full(2, 0.1)
    coef = np.array([1.0, 1.0])
    linear = -H @ np.array([-1.0, -3.0]) - limits
    seen: list[list[float]] = []
    plain = quadratic._solve

    def spy(matrix: Any, right: Any) -> Any:
        seen.append(coef.tolist())
        return plain(matrix, right)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadratic, "_solve", spy)
        quadratic._jump(H, linear, limits, coef)
    assert seen == [[1.0, 1.0], [0.5, 0.0]]
    # Alone: −(c + π) = 1·(−1) + 0.5·(−3), far below 0.
    assert coef.tolist() == [0.0, 0.0]


def test_the_jump_leaves_out_columns_without_curvature() -> None:
    coef = np.array([3.0, 1.0])
    quadratic._jump(np.diag([0.0, 2.0]), np.array([0.0, -8.5]), np.array([0.5, 0.5]), coef)
    np.testing.assert_allclose(coef, [3.0, 4.0], atol=1e-10)
    alone = np.array([3.0])
    quadratic._jump(np.zeros((1, 1)), np.zeros(1), np.zeros(1), alone)
    assert alone.tolist() == [3.0]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_singular_systems_are_solved_where_they_have_a_solution(scale: float) -> None:
    ones = np.ones((3, 3)) * scale
    found = quadratic._solve(ones, np.full(3, 6.0 * scale))
    assert found.sum() == pytest.approx(6, rel=1e-9)
    np.testing.assert_allclose(found, 2, rtol=1e-3)  # the shortest, up to rounding


def test_a_regular_system_is_solved_to_the_last_digits() -> None:
    """The ridge is a hair, and its error is taken off again."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    matrix, exact = root @ root.T, rng.normal(size=6)
    found = quadratic._solve(matrix, matrix @ exact)
    np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_a_matrix_that_rounding_made_indefinite_is_given_more_ridge() -> None:
    """Eigenvalues 2 and −1e-8: no factor with the first ridges; the solution is finite."""
    matrix = np.array([[1.0, 1.0 + 1e-8], [1.0 + 1e-8, 1.0]])
    found = quadratic._solve(matrix, np.array([2.0, 2.0]))
    np.testing.assert_allclose(found, 1, atol=1e-6)


def scripted(residuals: list[float], **options: Any) -> tuple[int, float]:
    """Return the rounds of a solver that finds these residuals, and which one's point it gives."""
    rounds = 0

    def descend(hessian: Any, linear: Any, penalty: Any, coef: Any, *_: Any) -> None:
        nonlocal rounds
        rounds += 1
        coef[0] = rounds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadratic, "_descend", descend)
        patch.setattr(quadratic, "_jump", lambda *facts: None)
        patch.setattr(quadratic, "kkt_residual", lambda *facts: residuals[rounds - 1])
        one = np.ones(1)
        found = solve_quadratic(np.eye(1), one, one, one, **{"tolerance": 0.1, **options})
    return rounds, float(found[0])


@pytest.mark.parametrize(
    ("residuals", "rounds", "best"),
    [
        ([0.1], 1, 1),  # at the tolerance
        ([0.5, 0.11, 0.09], 3, 3),
        ([8, 9, 9, 9, 9, 9, 9], 6, 1),  # five rounds in vain are enough
        ([8, 7, 6, 5, 4.5, 4.2, 1], 6, 6),  # better, but not by half
        ([8, 7, 6, 2.9, 2.8, 2.7, 2.6, 2.5, 2.4, 1], 9, 9),  # once to less than half
        ([8, 9, 3.9, 9, 3.9, 9, 9, 9, 9, 9], 8, 3),
        ([8, 4, 4, 4, 4, 4, 1], 6, 2),  # half is not less than half
    ],
)
def test_patience(residuals: list[float], rounds: int, best: int) -> None:
    assert scripted(residuals) == (rounds, best)


def test_rounds_are_bounded() -> None:
    falling = [0.4**k for k in range(200)]
    assert scripted(falling, tolerance=0.0) == (100, 100)
    assert scripted(falling, tolerance=0.0, max_rounds=3) == (3, 3)


def test_descent_reaches_the_minimum_of_a_diagonal_problem_in_one_sweep() -> None:
    coef = np.array([0.0, 5.0, -1.0, 2.0])
    penalty = np.array([1.0, 1.0, 0.0, 0.5])
    quadratic._descend(np.diag([1.0, 2.0, 4.0, 0.0]), np.array([1.0, 3.0, 2.0, 9.0]), penalty, coef)
    assert coef.tolist() == [0.0, -1.0, -0.5, 2.0]


def test_descent_by_hand_on_two_columns() -> None:
    """Five sweeps of H = [[2, 1], [1, 2]], c = (−4, −1), π = (1, 0): to (5/3, −1/3)."""
    coef, penalty = np.zeros(2), np.array([1.0, 0.0])
    quadratic._descend(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([-4.0, -1.0]), penalty, coef)
    first, second = 0.0, 0.0
    for _ in range(5):
        first = (4 - second - 1) / 2
        second = (1 - first) / 2
    assert coef.tolist() == [first, second]
