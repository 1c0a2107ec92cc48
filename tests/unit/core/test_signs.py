"""Terms of one sign: brute force over codes, and a dense fit with bounds."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from tests.oracles import YES_NO, bounds_of, dense, fires, objective, pool, solve, split

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.certificate import (
    GapSums,
    SlopeSums,
    certify,
    choose_scales,
    sum_gap,
    sum_slopes,
)
from fedrulefit.core.fedda import Schedule, client_update, server_update, soft_threshold
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.path import largest_penalty
from fedrulefit.core.quadratic import kkt_residual, solve_quadratic
from fedrulefit.core.rules import Condition, conjoin, interval
from fedrulefit.core.signs import Signs, allowed_signs, find_signs, join_signs, pull

AXES = (
    Axis("number", np.array([1.0, 2.0, 3.0]), 4, False),
    Axis("number", np.array([1.0, 2.0]), 3, True),
    Axis("yes/no", np.array([0.5]), 2, False),
)
GRID = Grid(AXES)


def random_signs(rng: Any, n_terms: int) -> Signs:
    """Return signs of every sort; those of the baseline are free."""
    up, down = rng.random(n_terms) < 0.6, rng.random(n_terms) < 0.6
    up[0] = down[0] = True
    return Signs(up, down)


def fit_bounded(X: Any, y: Any, w: Any, penalties: Any, signs: Signs) -> Any:
    """Minimise with b = p − q, p and q at least 0 and 0 where they may not be, by L-BFGS-B."""
    share, n = w / w.sum(), X.shape[1]

    def value(parts: Any) -> tuple[float, Any]:
        coef = parts[:n] - parts[n:]
        slope = X.T @ (share * (expit(X @ coef) - y))
        total = share @ (np.logaddexp(0, X @ coef) - y * (X @ coef)) + np.tile(penalties, 2) @ parts
        return float(total), np.concatenate([slope, -slope]) + np.tile(penalties, 2)

    may = [*signs.up.tolist(), *signs.down.tolist()]
    found = minimize(
        value,
        np.zeros(2 * n),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None if each else 0.0) for each in may],
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return found.x[:n] - found.x[n:]


def make_patients(seed: int, n: int = 300) -> tuple[Any, Any, Any]:
    """Return columns of ones, rules and linear terms, the outcome and weights."""
    rng = np.random.default_rng(seed)
    rules = rng.random((n, 5)) < rng.uniform(0.2, 0.8, 5)
    linear = np.clip(rng.normal(size=(n, 2)), -2, 2)
    X = np.hstack([np.ones((n, 1)), rules, linear])
    truth = rng.normal(size=X.shape[1])
    return X, (rng.random(n) < expit(X @ truth)).astype(float), rng.choice([1.0, 2.0], n)


def moves(side: Any, values: Any) -> bool:
    """Whether numbers only rise (side 1), or only fall (−1), from each to the next."""
    return bool((side * np.diff(values) >= 0).all())


@pytest.mark.parametrize("directions", [(1, 0, 0), (-1, 0, 0), (1, -1, 0), (1, 1, 1), (0, -1, 1)])
def test_a_rule_has_a_sign_just_if_it_never_goes_against_a_direction(directions: Any) -> None:
    codes = [[*range(axis.n_codes)] for axis in AXES]
    seen = set()
    for lows in product(*[[(a, b) for a in c for b in range(a + 1, len(c) + 1)] for c in codes]):
        for missing in product([False, True], repeat=3):
            rule = conjoin(
                [
                    Condition(j, interval(*lows[j], missing=missing[j] and not AXES[j].complete))
                    for j in range(3)
                ],
                GRID,
            )
            if rule is None or not len(rule):
                continue
            told = allowed_signs(rule, directions, GRID)
            seen.add(told)
            for sign, may in ((1, told[0]), (-1, told[1])):
                fine = True
                for j, direction in enumerate(directions):
                    others = [[*c, MISSING] if not AXES[k].complete else c for k, c in
                              enumerate(codes) if k != j]  # fmt: skip
                    for rest in product(*others):
                        rows = np.array([[*rest[:j], c, *rest[j:]] for c in codes[j]], np.uint8)
                        fine &= not direction or moves(sign * direction, fires(rule, rows) * 1.0)
                assert fine == may
    assert len(seen) >= 3


def test_a_rule_of_missing_values_alone_is_free() -> None:
    for codes in (1 << MISSING, interval(0, 4)):
        rule = conjoin([Condition(0, codes)], GRID)
        assert rule is not None
        assert allowed_signs(rule, (1, 1, 1), GRID) == (True, True)


def test_linear_terms_and_rules_get_their_signs_where_they_stand() -> None:
    rule = conjoin([Condition(0, interval(2, 4))], GRID)
    assert rule is not None
    found = find_signs([rule], [0, 1, 2], (1, -1, 0), GRID)
    signs = join_signs(Layout(2, 1, 3), *found)
    assert signs.up.tolist() == [True, True, True, True, False, True]
    assert signs.down.tolist() == [True, True, False, False, True, True]
    assert signs.bound.tolist() == [False, False, True, True, True, False]


def test_pulls_are_one_sided() -> None:
    signs = Signs(np.array([True, True, False, False]), np.array([True, False, True, False]))
    assert pull(np.full(4, 2.0), None).tolist() == [2] * 4
    assert pull(np.full(4, 2.0), signs).tolist() == [2, 0, 2, 0]
    assert pull(np.full(4, -2.0), signs).tolist() == [2, 2, 0, 0]
    assert signs.clip(np.ones(4)).tolist() == [1, 1, 0, 0]
    assert signs.clip(-np.ones(4)).tolist() == [-1, 0, -1, 0]
    assert largest_penalty(np.array([9.0, 3, 3, 3]), np.array([0, 1, 1, 1.0]), signs) == 3
    assert largest_penalty(np.array([9.0, 3, -3, 3]), np.array([0, 1, 1, 1.0]), signs) == 0


@pytest.mark.parametrize("seed", range(30))
def test_quadratics_with_signs_are_solved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    A = rng.normal(size=(3 * n, n)) if seed % 3 else rng.normal(size=(n // 2 + 1, n))
    H = A.T @ A / len(A)
    c = -H @ rng.normal(size=n) * 2
    penalty = rng.choice([0.0, 0.01, 0.1], n)
    signs = random_signs(rng, n)
    found = solve_quadratic(
        H, c, penalty, signs.clip(rng.normal(size=n)), tolerance=1e-11, signs=signs
    )
    assert np.array_equal(signs.clip(found), found)
    assert kkt_residual(H @ found + c, found, penalty, signs) <= 1e-9

    def value(parts: Any) -> Any:
        b = parts[:n] - parts[n:]
        slope = H @ b + c
        return (
            b @ H @ b / 2 + c @ b + np.tile(penalty, 2) @ parts,
            np.concatenate([slope, -slope]) + np.tile(penalty, 2),
        )

    may = [*signs.up.tolist(), *signs.down.tolist()]
    bounds = [(0.0, None if each else 0.0) for each in may]
    oracle = minimize(
        value, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10},
    )  # fmt: skip
    own = float(found @ H @ found / 2 + c @ found + penalty @ np.abs(found))
    assert own <= oracle.fun + 1e-9 * max(1.0, abs(oracle.fun))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("penalty", [0.003, 0.02])
@pytest.mark.parametrize("kept", [False, True])
def test_the_exact_fit_is_the_dense_bounded_fit(seed: int, penalty: float, kept: bool) -> None:
    X, y, w = make_patients(seed)
    sites = split(X, 5, y, w, [100, 150, 50])
    signs = random_signs(np.random.default_rng(seed + 100), X.shape[1])
    factors = np.array([0, 1, 1, 1, 2, 2, 0.2, 0.0 if kept else 0.2])
    newton = solve(sites, factors, penalty, signs=signs, tolerance=1e-10)
    oracle = fit_bounded(X, y, w, penalty * factors, signs)
    coef = newton.point.coef
    assert np.array_equal(signs.clip(coef), coef)
    assert objective(X, y, w, coef, penalty * factors) == pytest.approx(
        objective(X, y, w, oracle, penalty * factors), abs=1e-9
    )
    np.testing.assert_allclose(coef, oracle, atol=2e-4)


@pytest.mark.parametrize("seed", range(8))
def test_the_certificate_holds_with_signs_and_kept_terms(seed: int) -> None:
    X, y, w = make_patients(seed)
    sites = split(X, 5, y, w, [300])
    rng = np.random.default_rng(seed + 200)
    signs = random_signs(rng, X.shape[1])
    factors = np.array([0, 1, 1, 0, 2, 2, 0.2, 0.0])
    kept = (factors == 0) & (np.arange(len(factors)) > 0)
    penalties, layout = 0.01 * factors, sites[0][0].layout
    least = objective(X, y, w, fit_bounded(X, y, w, penalties, signs), penalties)
    best = solve(sites, factors, 0.01, signs=signs, tolerance=1e-10).point.coef
    for coef, near in ((best, True), (signs.clip(best + rng.normal(size=8) * 0.3), False)):
        predictor, bounds = X @ coef, bounds_of(sites)
        slopes = SlopeSums.packing(bounds).read(
            sum_slopes(YES_NO, sites[0][0], y, w, predictor, bounds)
        )
        asked = {"signs": signs, "kept": kept}
        scales = choose_scales(layout, slopes, w.sum(), penalties, **asked)
        assert scales is not None
        gap_sums = read_gap(y, w, predictor, scales, bounds)
        here = objective(X, y, w, coef, penalties)
        proof = certify(
            layout, slopes, w.sum(), coef, penalties,
            objective=here, conjugate=gap_sums.conjugate, scales=scales, **asked,
        )  # fmt: skip
        assert proof.gap is not None
        assert here - proof.gap <= least + 1e-8
        assert not near or (proof.gap < 1e-6 and proof.residual < 1e-8)
    assert choose_scales(layout, slopes, w.sum(), penalties) is None


def read_gap(y: Any, w: Any, predictor: Any, scales: Any, bounds: Any) -> Any:
    units = sum_gap(YES_NO, y, w, predictor, scales, bounds)
    return GapSums.packing(bounds).read(units)


def test_two_sided_limits_would_be_too_narrow() -> None:
    """With |g| ≤ λπ as the limit of one-sided terms, the dual bound is far below the optimum."""
    X, y, w = make_patients(3)
    sites = split(X, 5, y, w, [300])
    free = solve(sites, np.array([0, *[1.0] * 7]), 0.01).point.coef
    signs = Signs(free <= 0, free >= 0)  # what patients show may not be: all terms stay 0
    signs.up[0] = signs.down[0] = True
    factors = np.array([0, *[1.0] * 7])
    coef = solve(sites, factors, 0.01, signs=signs, tolerance=1e-10).point.coef
    bounds, layout = bounds_of(sites), sites[0][0].layout
    slopes = SlopeSums.packing(bounds).read(sum_slopes(YES_NO, sites[0][0], y, w, X @ coef, bounds))
    narrow = choose_scales(layout, slopes, w.sum(), 0.01 * factors)
    own = choose_scales(layout, slopes, w.sum(), 0.01 * factors, signs=signs)
    assert narrow is not None
    assert own is not None
    assert max(own) == pytest.approx(1, abs=1e-6)
    assert max(narrow) < 0.9


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_solver_goes_to_the_bounded_optimum(seed: int) -> None:
    X, y, w = make_patients(seed)
    w = np.ones(len(w))
    sites = split(X, 5, y, w, [200, 100])
    signs = random_signs(np.random.default_rng(seed), 8)
    factors = np.array([0, *[1.0] * 7])
    schedule = Schedule(rounds=400, local_steps=10, server_step=1.0, client_step=0.05, penalty=0.01)
    duals = np.zeros(8)
    for round_ in range(schedule.rounds):
        parts = [
            client_update(
                YES_NO, *site, factors, duals, round_, schedule, counts=len(site[1]), signs=signs
            )
            for site in sites
        ]
        total = sum(part.weight for part in parts)
        increment = np.sum([part.increment for part in parts], axis=0) / total
        duals = server_update(duals, increment, schedule.server_step)
    coef = soft_threshold(duals, schedule.threshold(schedule.rounds), factors, signs)
    assert np.array_equal(signs.clip(coef), coef)
    oracle = fit_bounded(X, y, w, 0.01 * factors, signs)
    assert objective(X, y, w, coef, 0.01 * factors) <= (
        objective(X, y, w, oracle, 0.01 * factors) + 1e-3
    )


def test_dense_and_design_agree() -> None:
    X, y, w = make_patients(0)
    assert np.array_equal(pool(split(X, 5, y, w, [150, 150]))[0], X)
    assert dense(split(X, 5, y, w, [300])[0][0]).shape == X.shape
