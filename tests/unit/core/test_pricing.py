"""What terms are worth, against minimising the quadratic anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.oracles import YES_NO

from fedrulefit.core.layout import Layout
from fedrulefit.core.pricing import Fitted, Problem, Swap, cost, drop, find_swaps, look_ahead

N = 40.0


def make_fit(seed: int, n_own: int = 6, n_variants: int = 4) -> tuple[Fitted, Any]:
    """Return a fit at the minimum of a quadratic, and the Hessian with the variants."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_own + n_variants, n_own + n_variants))
    both = root @ root.T / 10 + 0.05 * np.eye(n_own + n_variants)
    coef = rng.normal(size=n_own)
    fit = Fitted(
        terms=np.arange(n_own),
        coef=coef,
        objective=0.6,
        held_loss=0.7,
        weight=N,
        gradient=np.zeros(n_own),
        hessian=both[:n_own, :n_own],
        variants=np.arange(n_own, n_own + n_variants),
        beside=rng.normal(size=n_variants),
        cross=both[n_own:, :n_own],
        squares=np.diag(both)[n_own:].copy(),
    )
    return fit, both


def make_problem(fit: Fitted, variants: Any = None, **changes: Any) -> Problem:
    n_terms = len(fit.terms) + len(fit.variants)
    facts: dict[str, Any] = {
        "family": YES_NO,
        "layout": Layout(1, n_terms - 1, 0),
        "penalties": np.zeros(n_terms),
        "costs": np.array([0.0, *[1.0] * (n_terms - 1)]),
        "bounds": np.ones(n_terms),
        "variants": variants or (lambda term: np.empty(0, dtype=np.int64)),
    }
    return Problem(**{**facts, **changes})


def rise_without(fit: Fitted, gone: list[int]) -> tuple[float, Any]:
    """Return how much the mean loss rises where some coefficients are 0, and the others then."""
    left = [k for k in range(len(fit.terms)) if k not in gone]
    fixed = fit.hessian[np.ix_(left, gone)] @ fit.coef[gone]
    coef = np.zeros(len(fit.terms))
    coef[left] = fit.coef[left] + np.linalg.solve(fit.hessian[np.ix_(left, left)], fixed)
    change = coef - fit.coef
    return 0.5 * change @ fit.hessian @ change, coef


@pytest.mark.parametrize("seed", range(8))
def test_what_lies_ahead_is_the_least_of_the_penalised_quadratic(seed: int) -> None:
    """Against small steps of proximal gradient descent, which never leave it."""
    rng = np.random.default_rng(seed)
    fit = replace(make_fit(seed)[0], gradient=rng.normal(size=6))
    penalties = np.array([0.0, *rng.uniform(0.1, 0.5, 9)])
    problem = make_problem(fit, penalties=penalties)
    own, step = penalties[:6], 1 / np.linalg.eigvalsh(fit.hessian).max()
    coef = fit.coef.copy()
    for _ in range(20_000):
        moved = coef - step * (fit.gradient + fit.hessian @ (coef - fit.coef))
        coef = np.sign(moved) * np.maximum(np.abs(moved) - step * own, 0)
    ahead = look_ahead(problem, fit, 1e-9)
    np.testing.assert_allclose(ahead.coef, coef, atol=1e-6)
    way = coef - fit.coef
    least = fit.gradient @ way + 0.5 * way @ fit.hessian @ way
    least += own @ np.abs(coef) - own @ np.abs(fit.coef)
    assert ahead.objective == pytest.approx(fit.objective + least, abs=1e-8)
    assert ahead.objective < fit.objective
    at_rest = replace(ahead, gradient=fit.gradient + fit.hessian @ way)
    assert look_ahead(problem, at_rest, 1e-6) is at_rest


def test_costs() -> None:
    assert [cost(n) for n in range(4)] == [0.3, 1.0, 1.25, 1.5]


@pytest.mark.parametrize("seed", range(8))
def test_the_least_terms_are_dropped_as_far_as_they_are_not_worth_the_price(seed: int) -> None:
    """One after another, by solving anew without each: at most a third."""
    fit, _ = make_fit(seed, n_own=8)
    problem = make_problem(fit)
    for price in (0.5, 5.0, 50.0, 1e6):
        gone: list[int] = []
        while len(gone) < 2:
            before = rise_without(fit, gone)[0]
            rises = {
                k: 2 * N * (rise_without(fit, [*gone, k])[0] - before)
                for k in range(1, 8)
                if k not in gone
            }
            least = min(rises, key=lambda k: rises[k])
            if rises[least] >= price:
                break
            gone.append(least)
        left = drop(problem, fit, price)
        if not gone:
            assert left is None
            continue
        assert left is not None
        np.testing.assert_allclose(left[:8], rise_without(fit, gone)[1], atol=1e-6)


def test_costly_terms_are_dropped_first_and_spread_scales_the_price() -> None:
    fit, _ = make_fit(1)
    rises = [2 * N * rise_without(fit, [k])[0] for k in range(1, 6)]
    best = 1 + int(np.argmax(rises))
    costs = np.array([0.0, *[1e-9] * 9])
    costs[best] = 1.0
    left = drop(make_problem(fit, costs=costs), fit, 2 * max(rises))
    assert left is not None
    assert left[best] == 0
    assert np.count_nonzero(left) == 5
    assert drop(make_problem(fit, spread=1e-6), fit, max(rises)) is None


@pytest.mark.parametrize("seed", range(8))
def test_swaps_promise_what_solving_anew_gives(seed: int) -> None:
    fit, both = make_fit(seed)
    problem = make_problem(fit, lambda term: fit.variants if term > 0 else fit.variants[:0])
    price, n_own = 0.7, len(fit.terms)
    promised: dict[tuple[int, int], Swap] = {}
    for old in range(1, n_own):
        for new in fit.variants.tolist():
            only = make_problem(fit, lambda term: np.array([new] * (term == old), dtype=np.int64))  # noqa: B023
            for swap in find_swaps(only, fit, price):
                promised[swap.old, swap.new] = swap
    slope = np.concatenate([fit.gradient, fit.beside])
    here = np.concatenate([fit.coef, np.zeros(len(fit.variants))])
    better = 0
    for old in range(1, n_own):
        for new in fit.variants.tolist():
            used = [*(k for k in range(n_own) if k != old), new]
            # Minimise gᵀd + ½dᵀHd where the old term's part of d is fixed.
            fixed = -here[old] * both[used, old]
            change = np.zeros(len(here))
            change[old] = -here[old]
            change[used] = np.linalg.solve(both[np.ix_(used, used)], -slope[used] - fixed)
            gain = slope @ change + 0.5 * change @ both @ change
            if 2 * N * gain < -1e-6:
                better += 1
                swap = promised[old, new]
                assert swap.change == pytest.approx(2 * N * gain, rel=1e-5, abs=1e-5)
                assert swap.own == pytest.approx(change[new], rel=1e-5, abs=1e-7)
                others = [k for k in range(n_own) if k != old]
                np.testing.assert_allclose(swap.coef[others], (here + change)[others], atol=1e-5)
            elif 2 * N * gain > 1e-6:
                assert (old, new) not in promised
    assert better > 0
    together = find_swaps(problem, fit, price)
    for which in ("old", "new"):
        names = [getattr(swap, which) for swap in together]
        assert len(set(names)) == len(names)
    assert together[0].change == min(swap.change for swap in promised.values())


def test_a_variant_that_the_other_terms_explain_is_no_swap() -> None:
    fit, _ = make_fit(2)
    flat = fit.cross.copy()
    flat[0] = fit.hessian[3]
    squares = fit.squares.copy()
    squares[0] = fit.hessian[3, 3]
    same = Fitted(**{**vars(fit), "cross": flat, "squares": squares})
    problem = make_problem(fit, lambda term: fit.variants[:1] if term == 2 else fit.variants[:0])
    assert find_swaps(problem, same, 0.0) == []
