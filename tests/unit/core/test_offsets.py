"""An offset: a coefficient that is held, beside dense fits that know it as a number per patient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from tests.oracles import YES_NO, ask, bounds_of, make_design, solve, split
from tests.unit.core.test_pricing import N, make_fit, make_problem

from fedrulefit.core.adjusting import BASELINE_SPREAD, SPREAD, Adjustment
from fedrulefit.core.bins import Bins
from fedrulefit.core.boosting import grow_trees
from fedrulefit.core.certificate import (
    GapSums,
    SlopeSums,
    certify,
    choose_scales,
    sum_gap,
    sum_slopes,
)
from fedrulefit.core.cutoffs import estimate_grid, exact_grid
from fedrulefit.core.families import Family
from fedrulefit.core.families.number import Number
from fedrulefit.core.fedda import Schedule, client_update, server_update, soft_threshold
from fedrulefit.core.grid import Axis, Grid, check_linear, linear_values
from fedrulefit.core.layout import Layout
from fedrulefit.core.path import PATH_TOLERANCE, PathSearch, largest_penalty
from fedrulefit.core.pricing import drop, find_swaps
from fedrulefit.core.pruning import Track
from fedrulefit.core.quadratic import kkt_residual, solve_quadratic
from fedrulefit.core.signs import Signs, begin, count_terms, pull

LAST = 7
"""The place of the offset."""


def hold(n_terms: int = 8, at: int = LAST, free: Any = None) -> Signs:
    """Return signs of terms of which one is an offset."""
    held = np.arange(n_terms) == at
    up, down = (np.ones(n_terms, dtype=np.bool_), ~held) if free is None else free
    return Signs(up & ~held, down & ~held, held)


def make_patients(seed: int, n: int = 300, *, n_baseline: int = 1) -> tuple[Any, Any, Any]:
    """Return columns (baseline, rules, linear terms, the offset last), outcome and weights."""
    rng = np.random.default_rng(seed)
    start = np.ones((n, 1)) if n_baseline == 1 else np.eye(n_baseline)[rng.integers(0, 2, n)]
    rules = rng.random((n, 8 - n_baseline - 2)) < 0.4
    linear = np.column_stack([np.clip(rng.normal(size=n), -2, 2), rng.normal(-1.0, 1.5, n)])
    X = np.hstack([start, rules, linear])
    truth = np.append(rng.normal(size=7), 0.6)
    y = (rng.random(n) < expit(X @ truth)).astype(float)
    return X, y, rng.choice([1.0, 2.0], n)


def fit_beside(X: Any, y: Any, w: Any, penalties: Any, signs: Signs) -> tuple[Any, float]:
    """Minimise over all columns but the last, which is added as it is, by L-BFGS-B."""
    share, own, offset = w / w.sum(), X[:, :LAST], X[:, LAST]
    limits = np.tile(penalties[:LAST], 2)

    def value(parts: Any) -> tuple[float, Any]:
        predictor = own @ (parts[:LAST] - parts[LAST:]) + offset
        slope = own.T @ (share * (expit(predictor) - y))
        loss = share @ (np.logaddexp(0, predictor) - y * predictor)
        return float(loss + limits @ parts), np.concatenate([slope, -slope]) + limits

    may = [*signs.up[:LAST].tolist(), *signs.down[:LAST].tolist()]
    found = minimize(
        value, np.zeros(2 * LAST), jac=True, method="L-BFGS-B",
        bounds=[(0.0, None if each else 0.0) for each in may],
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-11},
    )  # fmt: skip
    return np.append(found.x[:LAST] - found.x[LAST:], 1.0), float(found.fun)


def objective(X: Any, y: Any, w: Any, coef: Any, penalties: Any) -> float:
    F = X @ coef
    return float(
        w @ (np.logaddexp(0, F) - y * F) / w.sum() + penalties[:LAST] @ np.abs(coef[:LAST])
    )


FACTORS = np.array([0, 1, 1, 1, 2, 2, 0.2, 0.0])


# --- Signs --------------------------------------------------------------------------------------


def test_what_is_held_is_neither_pulled_nor_counted() -> None:
    signs = hold()
    assert begin(8, signs).tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    assert begin(8, None).tolist() == [0] * 8
    assert signs.clip(np.full(8, 3.0)).tolist() == [3] * 7 + [1]
    assert pull(np.full(8, -2.0), signs).tolist() == [2] * 7 + [0]
    assert kkt_residual(np.array([0.0] * 7 + [5]), begin(8, signs), np.zeros(8), signs) == 0
    assert kkt_residual(np.array([0.0] * 7 + [5]), begin(8, signs), np.zeros(8)) == 5
    assert largest_penalty(np.array([0.0] * 6 + [0.1, 9]), FACTORS, signs) == pytest.approx(0.5)
    assert count_terms(np.ones(8), slice(1, 8), signs) == 6
    assert count_terms(np.ones(8), slice(1, 8), None) == 7
    left = signs.among(np.arange(8) > 3)
    assert left.held is not None
    assert left.up.tolist() == [False] * 4 + [True] * 3 + [False]
    assert left.take(np.array([0, 7])).learnt.tolist() == [True, False]


@pytest.mark.parametrize("seed", range(20))
def test_quadratics_are_solved_beside_what_is_held(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    A = rng.normal(size=(3 * n, n)) if seed % 3 else rng.normal(size=(n // 2 + 1, n))
    H, penalty, at = A.T @ A / len(A), rng.choice([0.0, 0.05], n), int(rng.integers(n))
    c = -H @ rng.normal(size=n) * 2
    up, down = rng.random((2, n)) < 0.7
    signs = hold(n, at, (up, down))
    start = signs.clip(rng.normal(size=n))
    found = solve_quadratic(H, c, penalty, start, tolerance=1e-11, signs=signs)
    assert found[at] == 1
    rest = np.delete(np.arange(n), at)
    other = solve_quadratic(
        H[np.ix_(rest, rest)], c[rest] + H[rest, at], penalty[rest], start[rest], tolerance=1e-11,
        signs=Signs(up[rest], down[rest]),
    )  # fmt: skip
    assert np.array_equal(found[rest], other)
    assert kkt_residual(H @ found + c, found, penalty, signs) <= 1e-9


# --- The exact solver ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("penalty", [0.0, 0.003, 0.02])
def test_the_exact_fit_is_the_dense_fit_with_an_offset(seed: int, penalty: float) -> None:
    X, y, w = make_patients(seed)
    rng = np.random.default_rng(seed + 50)
    free = np.ones((2, 8), dtype=np.bool_) if seed % 2 else rng.random((2, 8)) < 0.7
    free[:, 0] = True
    signs = hold(free=tuple(free))
    newton = solve(split(X, 5, y, w, [100, 150, 50]), FACTORS, penalty, signs=signs,
                   tolerance=1e-10)  # fmt: skip
    coef = newton.point.coef
    oracle, least = fit_beside(X, y, w, penalty * FACTORS, signs)
    assert coef[LAST] == 1
    assert newton.point.objective == pytest.approx(least, abs=1e-9)
    np.testing.assert_allclose(coef, oracle, atol=1e-4)
    np.testing.assert_allclose(X @ coef, X @ oracle, atol=2e-4)


def test_without_a_penalty_it_is_statsmodels_fit_with_an_offset() -> None:
    sm = pytest.importorskip("statsmodels.api")
    X, y, w = make_patients(4)
    coef = solve(split(X, 5, y, w, [300]), 0 * FACTORS, 0.0, signs=hold(), tolerance=1e-11)
    glm = sm.GLM(y, X[:, :LAST], sm.families.Binomial(), offset=X[:, LAST], freq_weights=w).fit(
        tol=1e-13
    )
    np.testing.assert_allclose(coef.point.coef[:LAST], glm.params, atol=1e-6)
    free = solve(split(X, 5, y, w, [300]), 0 * FACTORS, 0.0, tolerance=1e-11).point.coef
    assert abs(free[LAST] - 1) > 0.1  # the patients would say another weight


def test_any_split_of_the_patients_gives_the_same_bits() -> None:
    X, y, w = make_patients(2)
    one, three = (
        solve(split(X, 5, y, w, sizes), FACTORS, 0.004, signs=hold(), tolerance=1e-10).point.coef
        for sizes in ([300], [20, 200, 80])
    )
    np.testing.assert_allclose(one, three, rtol=0, atol=1e-12)


def test_a_path_begins_beside_the_offset() -> None:
    X, y, w = make_patients(1)
    sites = split(X, 5, y, w, [300])
    folds = [np.arange(300) % 3]
    search = PathSearch(YES_NO, sites[0][0].layout, [FACTORS] * 4, length=8, ratio=0.05,
                        max_active=50, signs=hold())  # fmt: skip
    while not search.done:
        search.update([ask(sites, query, folds) for query in search.queries()])
    path = search.finish(rule="min")
    null, _ = fit_beside(X, y, w, 1e6 * FACTORS, hold())
    slope = X.T @ (w * (expit(X @ null) - y)) / w.sum()
    largest = np.abs(slope[1:LAST] / FACTORS[1:LAST]).max()
    assert path.penalties[0] == pytest.approx(largest, rel=1e-3)
    assert path.n_terms[0] == 0
    for point in path.points:
        assert point.coef[LAST] == 1
    assert all(coef[LAST] == 1 for fold in path.folds for coef in fold)
    for penalty, point in zip(path.penalties, path.points, strict=True):
        _, least = fit_beside(X, y, w, penalty * FACTORS, hold())
        assert least - 1e-9 <= point.objective <= least + PATH_TOLERANCE * penalty


def test_the_papers_solver_goes_to_the_same_optimum() -> None:
    X, y, _ = make_patients(5)
    sites, signs = split(X, 5, y, np.ones(300), [200, 100]), hold()
    schedule = Schedule(rounds=400, local_steps=10, server_step=1.0, client_step=0.05, penalty=0.01)
    factors, dual = np.array([0, *[1.0] * 6, 0.0]), np.zeros(8)
    for round_ in range(schedule.rounds):
        parts = [
            client_update(
                YES_NO, *site, factors, dual, round_, schedule, counts=len(site[1]), signs=signs
            )
            for site in sites
        ]
        increment = np.sum([part.increment for part in parts], axis=0) / 300
        dual = server_update(dual, increment, schedule.server_step)
    coef = soft_threshold(dual, schedule.threshold(schedule.rounds), factors, signs)
    oracle, _ = fit_beside(X, y, np.ones(300), 0.01 * factors, signs)
    assert coef[LAST] == 1
    np.testing.assert_allclose(coef, oracle, atol=0.02)


# --- The certificate ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_baseline", [1, 2])
@pytest.mark.parametrize("keeps", [False, True])
def test_the_certificate_holds_with_an_offset(seed: int, n_baseline: int, keeps: bool) -> None:
    X, y, w = make_patients(seed, n_baseline=n_baseline)
    sites = split(X, 6 - n_baseline, y, w, [300], n_baseline=n_baseline)
    rng, layout, signs = np.random.default_rng(seed + 200), sites[0][0].layout, hold()
    factors = np.where(np.arange(8) < n_baseline, 0.0, FACTORS)
    factors[5] = 0.0 if keeps else 2.0
    kept = (factors == 0) & (np.arange(8) >= n_baseline)
    penalties = 0.01 * factors
    _, least = fit_beside(X, y, w, penalties, signs)
    best = solve(sites, factors, 0.01, signs=signs, tolerance=1e-10).point.coef
    far = signs.clip(best + rng.normal(size=8) * 0.3)
    untrue = False
    for coef in (best, far):
        predictor, bounds = X @ coef, bounds_of(sites)
        slopes = SlopeSums.packing(bounds).read(
            sum_slopes(YES_NO, sites[0][0], y, w, predictor, bounds)
        )
        asked = {"signs": signs, "kept": kept}
        scales = choose_scales(layout, slopes, w.sum(), penalties, **asked)
        assert scales is not None
        units = sum_gap(YES_NO, y, w, predictor, scales, bounds)
        conjugate = GapSums.packing(bounds).read(units).conjugate
        here = objective(X, y, w, coef, penalties)
        proof = certify(
            layout, slopes, w.sum(), coef, penalties,
            objective=here, conjugate=conjugate, scales=scales, **asked,
        )  # fmt: skip
        assert proof.gap is not None
        assert here - proof.gap <= least + 1e-8
        # The bound at its very number: −Σ wℓ*/W + g·1, less what is paid for.
        shrunk = (scales[0] * slopes.falling + scales[1] * slopes.rising) / w.sum()
        left = np.abs(shrunk[kept & ~signs.held]).sum()
        left += (
            0.0
            if n_baseline == 1
            else np.abs((slopes.falling + slopes.rising)[:2]).sum() / (w.sum())
        )
        bound = -conjugate / w.sum() + shrunk[LAST] - 20 * left
        assert proof.gap == pytest.approx(max(here - bound, 0.0), abs=1e-12)
        if coef is best:
            assert proof.gap < 1e-6
            assert proof.residual < 1e-8
        untrue |= abs(shrunk[LAST]) > 1e-3
    assert untrue  # without its part the bound would be another


# --- Pruning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_dropping_and_swapping_leave_an_offset_alone(seed: int) -> None:
    """As in the problem in which its column is no term at all."""
    fit, _ = make_fit(seed)
    signs = hold(10, 5)
    kept = signs.held
    assert kept is not None
    variants = {k: np.arange(6, 10) for k in range(1, 5)}
    problem = make_problem(
        fit, lambda term: variants.get(term, np.empty(0, dtype=np.int64)), signs=signs, kept=kept
    )
    assert problem.count(fit.terms) == 4
    inner = np.arange(5)
    small = type(fit)(
        terms=inner, coef=fit.coef[:5], objective=fit.objective, held_loss=fit.held_loss,
        weight=N, gradient=fit.gradient[:5], hessian=fit.hessian[:5, :5], variants=fit.variants,
        beside=fit.beside, cross=fit.cross[:, :5], squares=fit.squares,
    )  # fmt: skip
    plain = make_problem(
        small, lambda term: variants.get(term, np.empty(0, dtype=np.int64)),
        layout=Layout(1, 9, 0), penalties=np.zeros(10), costs=problem.costs,
    )  # fmt: skip
    for price in (0.5, 2.0, 8.0):
        left, beside = drop(problem, fit, price), drop(plain, small, price)
        assert (left is None) == (beside is None)
        if left is not None and beside is not None:
            assert left[5] == fit.coef[5]
            np.testing.assert_allclose(np.delete(left, 5), np.delete(beside, 5), atol=1e-9)
        swaps, others = (find_swaps(*own, price) for own in ((problem, fit), (plain, small)))
        assert [(s.old, s.new) for s in swaps] == [(s.old, s.new) for s in others]
        for swap, other in zip(swaps, others, strict=True):
            assert swap.coef[5] == fit.coef[5]
            np.testing.assert_allclose(swap.coef[:5], other.coef, atol=1e-9)
            assert swap.change == pytest.approx(other.change, rel=1e-6)


def test_a_start_too_large_is_shortened_beside_the_offset() -> None:
    fit, _ = make_fit(0)
    signs = hold(10, 5)
    problem = make_problem(fit, signs=signs, kept=signs.held, bounds=np.full(10, 16.0))
    track = Track(problem, -1, np.full(10, 1e3))
    end = dict(zip(track.query().terms.tolist(), track.query().end.tolist(), strict=True))
    assert end[5] == 1
    size = 16.0 * sum(map(abs, end.values()))
    assert size == pytest.approx(YES_NO.largest_predictor, rel=1e-6)


# --- After the fit, and before it ----------------------------------------------------------------


def test_an_offset_is_not_adjusted() -> None:
    X, y, w = make_patients(3)
    sites = split(X, 5, y, w, [300])
    refit = Adjustment(sites[0][0].layout, begin(8, hold()), hold())
    while not refit.done:
        refit.update(ask(sites, refit.query()))
    estimates, errors = refit.finish(YES_NO)
    ridge = np.array([BASELINE_SPREAD**-2, *[SPREAD**-2] * 6])
    own = X[:, :LAST]

    def value(b: Any) -> tuple[float, Any]:
        F = own @ b + X[:, LAST]
        loss = w @ (np.logaddexp(0, F) - y * F) + ridge @ b**2 / 2
        return float(loss), own.T @ (w * (expit(F) - y)) + ridge * b

    found = minimize(value, np.zeros(7), jac=True, method="BFGS", options={"gtol": 1e-7})
    assert (estimates[LAST], errors[LAST]) == (1, 0)
    np.testing.assert_allclose(estimates[:LAST], found.x, atol=1e-5)
    p = expit(X @ np.append(found.x, 1.0))
    H = (own * (w * p * (1 - p))[:, None]).T @ own + np.diag(ridge)
    np.testing.assert_allclose(errors[:LAST], np.sqrt(np.diag(np.linalg.inv(H))), rtol=1e-4)


def make_offset_bins(low: float, high: float, unit: float, step: float | None = None) -> Bins:
    bins = Bins.numeric(np.linspace(low, high, 21), cutoffs=None, step=step, complete=True)
    return bins.as_offset(unit)


@pytest.mark.parametrize("unit", [1.0, 30.0])
@pytest.mark.parametrize("centre", [False, True])
def test_the_linear_term_of_an_offset_is_the_number_itself(unit: float, centre: bool) -> None:
    rng = np.random.default_rng(0)
    bins = make_offset_bins(-3 * unit, unit, unit)
    values = rng.uniform(-3 * unit, unit, (50, 1))
    values[0] = 9 * unit  # counts at the end of the range
    weights, asked = np.ones(50), {"n_cutoffs": 5, "winsor": 0.1, "centre": centre}
    grids = [
        exact_grid(values, weights, [bins], style="round", **asked),
        exact_grid(values, weights, [bins], **asked),
        *(
            estimate_grid(
                rng.integers(0, 9, 20) * many, [bins], n_cutoffs=5, winsor=0.1, repair="clip",
                centre=centre, spreads=None,
            )
            for many in (1, 0)
        ),
    ]  # fmt: skip
    for grid in grids:
        expected = np.clip(values / unit, -3, 1)
        np.testing.assert_allclose(linear_values(values, grid), expected, rtol=1e-14, atol=1e-15)
        check_linear(grid.axes[0], bins)
        assert grid.axes[0].largest == pytest.approx(3)


@pytest.mark.parametrize(
    "change", [{"limits": (-1.0, 1.0)}, {"spread": 0.5}, {"centre": 0.1}, {"fill": 7.0}]
)
def test_a_grid_that_does_not_add_an_offset_as_it_is_is_refused(change: Any) -> None:
    facts = {"limits": (-3.0, 1.0), "spread": 0.4, "centre": 0.0, "fill": -1.0}
    bins = make_offset_bins(-3, 1, 1.0)
    check_linear(Axis("number", np.array([0.0]), 2, True, **facts), bins)
    with pytest.raises(ValueError, match="offset"):
        check_linear(Axis("number", np.array([0.0]), 2, True, **{**facts, **change}), bins)


# --- Trees --------------------------------------------------------------------------------------


def grow(family: Family, codes: Any, y: Any, w: Any, grid: Grid, **more: Any) -> Any:
    return grow_trees(
        family, codes, y, w, grid, n_trees=6, mean_leaves=4.0, learning_rate=0.1, subsample=1.0,
        min_leaf=5.0, rng=np.random.default_rng(1), **more,
    )  # fmt: skip


def test_trees_of_numbers_grow_on_what_the_offset_leaves() -> None:
    """Of squared errors, an offset is the same as another outcome."""
    rng, family = np.random.default_rng(5), Number(-100.0, 100.0)
    grid = Grid(tuple(Axis("number", np.arange(1.0, 5), 5, True) for _ in range(3)))
    codes = rng.integers(0, 5, (400, 3)).astype(np.uint8)
    offset = 4.0 * codes[:, 0] + rng.integers(-8, 8, 400)
    y, w = 6.0 * (codes[:, 1] > 2) + offset + rng.normal(size=400), np.ones(400)
    own = grow(family, codes, y, w, grid, offset=offset / family.half)
    assert own == grow(family, codes, y - offset, w, grid)
    assert own != grow(family, codes, y, w, grid)


def test_trees_start_at_the_best_constant_beside_a_far_offset() -> None:
    """An offset and the same, moved by a constant, tell the same."""
    rng = np.random.default_rng(6)
    grid = Grid(tuple(Axis("number", np.arange(1.0, 5), 5, True) for _ in range(3)))
    codes = rng.integers(0, 5, (400, 3)).astype(np.uint8)
    offset = 1.5 * (codes[:, 0] - 2.0)
    y = (rng.random(400) < expit(offset + 1.5 * (codes[:, 1] > 2) - 1)).astype(float)
    w = rng.choice([1.0, 2.0], 400)
    near, far = (grow(YES_NO, codes, y, w, grid, offset=offset + c) for c in (0.0, -12.0))
    assert near == far
    assert near[0].root is not None
    assert near[0].root.left.feature == 1
    assert grow(YES_NO, codes, y, w, grid)[0].root.left.feature == 0


def test_designs_know_nothing_of_offsets() -> None:
    """A site adds them up like any other linear term."""
    X, _, _ = make_patients(0, 20)
    design = make_design(X[:, 1:6] > 0, X[:, 6:])
    np.testing.assert_allclose(design.dot(begin(8, hold())), X[:, LAST])
