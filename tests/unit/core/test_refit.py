"""The sums of a refit, against the definitions on a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from tests.oracles import YES_NO, bounds_of, split

from fedrulefit.core.curvature import STEPS
from fedrulefit.core.refit import LEAST_CHUNK, RefitQuery, RefitSums, sum_refit

N_ROWS, N_RULES = 170, 60


def make_data(seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Return X with its intercept, y, w and folds."""
    rng = np.random.default_rng(seed)
    hits = rng.random((N_ROWS, N_RULES)) < rng.uniform(0.2, 0.8, N_RULES)
    X = np.hstack([np.ones((N_ROWS, 1)), hits, rng.normal(size=(N_ROWS, 2))])
    y = (rng.random(N_ROWS) < 0.4).astype(float)
    return X, y, rng.uniform(0.3, 2.0, N_ROWS), rng.integers(0, 3, N_ROWS)


def ask(sites: Any, folds: Any, query: RefitQuery) -> RefitSums:
    bounds = bounds_of(sites)
    units = [
        sum_refit(YES_NO, *site, part, query, bounds)
        for site, part in zip(sites, folds, strict=True)
    ]
    return RefitSums.packing(query, bounds).read(np.sum(units, axis=0))


@pytest.mark.parametrize("n_variants", [0, 1, LEAST_CHUNK, 2 * LEAST_CHUNK + 3])
@pytest.mark.parametrize("fold", [-1, 1])
def test_sums_are_their_definitions(n_variants: int, fold: int) -> None:
    X, y, w, folds = make_data()
    terms, rng = np.array([0, 2, 7, 30, 61]), np.random.default_rng(1)
    variants = np.setdiff1d(np.arange(1, N_RULES + 1), terms)[:n_variants]
    start, end = rng.normal(size=(2, len(terms)))
    query = RefitQuery(fold, terms, start, end, variants)
    sizes = [60, 70, 40]
    sites = split(X, N_RULES, y, w, sizes)
    told = ask(sites, np.split(folds, np.cumsum(sizes)[:-1]), query)
    inside = folds != fold
    own, other = X[:, terms], X[:, variants]
    along = [own @ (start + t * (end - start)) for t in STEPS]
    losses = [w * (np.logaddexp(0, F) - y * F) for F in along]
    chance = expit(along[-1])
    slope, curved = w * (chance - y) * inside, w * chance * (1 - chance) * inside
    near = {"rtol": 1e-5, "atol": 1e-5}
    assert told.weight == pytest.approx(w[inside].sum())
    assert told.held_weight == pytest.approx(w[~inside].sum(), abs=1e-9)
    np.testing.assert_allclose(told.losses, [loss[inside].sum() for loss in losses], **near)
    assert told.held_loss == pytest.approx(losses[-1][~inside].sum(), abs=1e-5)
    np.testing.assert_allclose(told.gradient, own.T @ slope, **near)
    np.testing.assert_allclose(told.beside, other.T @ slope, **near)
    full = (own.T * curved) @ own
    np.testing.assert_allclose(told.hessian, full[np.triu_indices(len(terms))], **near)
    cross = told.cross.reshape(len(variants), len(terms))
    np.testing.assert_allclose(cross, (other.T * curved) @ own, **near)
    np.testing.assert_allclose(told.squares, ((other.T**2) @ curved), **near)


def test_any_split_has_the_same_sums() -> None:
    """Federated equals pooled, bit for bit."""
    X, y, w, folds = make_data(3)
    query = RefitQuery(0, np.array([0, 5, 62]), np.zeros(3), np.ones(3), np.array([6, 7]))
    pooled = ask(split(X, N_RULES, y, w, [N_ROWS]), [folds], query)
    for sizes in ([100, 70], [1, 168, 1], [34] * 5):
        parts = np.split(folds, np.cumsum(sizes)[:-1])
        told = ask(split(X, N_RULES, y, w, sizes), parts, query)
        for name in RefitSums.quantities():
            np.testing.assert_array_equal(getattr(told, name), getattr(pooled, name))
