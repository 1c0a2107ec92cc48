"""The sums of a site at a point, against dense matrices and numerical differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from tests.oracles import (
    YES_NO,
    ask,
    bounds_of,
    split,
)
from tests.unit.core.test_newton import make_data, one_site

from fedrulefit.core.curvature import STEPS, Query, pack_triangle, sum_curvature, unpack_triangle


def make_query(rng: Any, n_terms: int, fold: int = -1) -> Query:
    terms = np.array([0, 2, 3, n_terms - 1])
    start, end = rng.normal(size=(2, 4))
    return Query(fold, terms, start, end, np.array([0, 1, 3, n_terms - 2]))


@pytest.mark.parametrize("fold", [-1, 0, 2])
def test_the_sums_by_their_definition(fold: int) -> None:
    X, y, w = make_data(0)
    rng = np.random.default_rng(1)
    folds = rng.integers(0, 3, len(X))
    query = make_query(rng, X.shape[1], fold)
    sums = ask(one_site(X, 6, y, w), query, [folds])
    train = folds != fold
    old, new = (X[:, query.terms] @ c for c in (query.start, query.end))

    def loss(predictor: Any, rows: Any) -> float:
        return float((w * (np.log1p(np.exp(predictor)) - y * predictor))[rows].sum())

    assert sums.weight == pytest.approx(w[train].sum())
    assert sums.held_weight == pytest.approx(w[~train].sum())
    along = [loss(old + t * (new - old), train) for t in STEPS]
    # Each patient is rounded to 2⁻³⁰.
    rounding = len(X) * 2.0**-31
    np.testing.assert_allclose(sums.losses, along, rtol=1e-12, atol=rounding)
    assert sums.held_loss == pytest.approx(loss(new, ~train), rel=1e-12, abs=rounding)
    slope = np.where(train, w * (expit(new) - y), 0)
    np.testing.assert_allclose(sums.gradient, X.T @ slope, rtol=1e-10, atol=1e-10)
    bend = np.where(train, w * expit(new) * expit(-new), 0)
    A = X[:, query.active]
    exact = (A * bend[:, None]).T @ A
    np.testing.assert_allclose(
        unpack_triangle(sums.hessian, 4), exact, rtol=1e-10, atol=1e-5 * np.abs(exact).max()
    )


def test_gradient_and_hessian_are_the_derivatives_of_the_loss() -> None:
    X, y, w = make_data(2)
    n = X.shape[1]
    sites = one_site(X, 6, y, w)
    at = np.random.default_rng(3).normal(size=n)

    def sums(coef: Any) -> Any:
        return ask(sites, Query(-1, np.arange(n), at, coef, np.arange(n)))

    here, step = sums(at), 1e-3  # patients are rounded: a smaller step has no more digits
    hessian = unpack_triangle(here.hessian, n)
    for j, nudge in enumerate(step * np.eye(n)):
        up, down = sums(at + nudge), sums(at - nudge)
        assert here.gradient[j] == pytest.approx(
            (up.losses[-1] - down.losses[-1]) / (2 * step), rel=1e-5, abs=1e-4
        )
        numeric = (up.gradient - down.gradient) / (2 * step)
        np.testing.assert_allclose(hessian[j], numeric, rtol=1e-4, atol=1e-3)


def test_the_sums_of_sites_add_up_to_those_of_the_pool() -> None:
    X, y, w = make_data(4)
    query = make_query(np.random.default_rng(5), X.shape[1], fold=1)
    folds = np.arange(len(X)) % 3
    (whole,) = one_site(X, 6, y, w)
    bounds = bounds_of([whole])
    pooled = sum_curvature(YES_NO, *whole, folds, query, bounds)
    sizes = [1, 100, 7, 42]
    parts = np.split(folds, np.cumsum(sizes)[:-1])
    apart = np.sum(
        [
            sum_curvature(YES_NO, *site, part, query, bounds)
            for site, part in zip(split(X, 6, y, w, sizes), parts, strict=True)
        ],
        axis=0,
    )
    np.testing.assert_array_equal(apart, pooled)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_triangles_are_packed_row_by_row(n: int) -> None:
    square = np.random.default_rng(0).normal(size=(n, n))
    square = square + square.T
    packed = pack_triangle(square)
    assert packed.tolist() == [square[i, j] for i in range(n) for j in range(i, n)]
    np.testing.assert_array_equal(unpack_triangle(packed, n), square)
