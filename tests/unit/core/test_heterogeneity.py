"""Random effects against statsmodels, closed forms, a naive likelihood, and draws."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import chi2
from scipy.stats import t as student
from statsmodels.stats.meta_analysis import combine_effects

from fedrulefit.core.heterogeneity import FEWEST, combine

MANY = 40_000


def draw(seed: int, n_sites: int, tau: float = 0.3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.05, 0.5, n_sites)
    return rng.normal(0.8, tau, n_sites) + errors * rng.normal(size=n_sites), errors


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(FEWEST, 30), st.floats(0, 1))
def test_spread_and_mean_are_those_of_statsmodels(seed: int, n_sites: int, tau: float) -> None:
    estimates, errors = draw(seed, n_sites, tau)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no intervals of single sites
        theirs = combine_effects(estimates, errors**2, method_re="iterated", use_t=True)
    found = combine(estimates, errors)
    assert found.hospitals == n_sites
    assert found.tau**2 == pytest.approx(max(theirs.tau2, 0), abs=1e-6)
    assert found.mean == pytest.approx(theirs.mean_effect_re, abs=1e-6)
    assert found.new_low <= found.low <= found.mean <= found.high <= found.new_high


def restricted_likelihood(estimates: Any, errors: Any) -> float:
    """Return τ² of the restricted likelihood, by trying."""

    def loss(spread: float) -> float:
        weights = 1 / (errors**2 + spread)
        mean = weights @ estimates / weights.sum()
        fit = -np.log(weights).sum() + np.log(weights.sum())
        return float(fit + weights @ (estimates - mean) ** 2)

    grid = np.linspace(0, 4, 400)
    best = grid[np.argmin([loss(spread) for spread in grid])]
    ends = max(best - 0.02, 0), best + 0.02
    return float(minimize_scalar(loss, bounds=ends, method="bounded").x)


@pytest.mark.parametrize("seed", range(20))
def test_hospitals_of_one_size_have_a_closed_form(seed: int) -> None:
    estimates, _ = draw(seed, 4 + seed)
    found = combine(estimates, np.full(len(estimates), 0.2))
    spread = max(estimates.var(ddof=1) - 0.04, 0)
    assert found.mean == pytest.approx(estimates.mean(), abs=1e-9)
    assert found.tau**2 == pytest.approx(spread, abs=1e-6)
    assert restricted_likelihood(estimates, np.full(len(estimates), 0.2)) == pytest.approx(
        spread, abs=1e-3
    )
    freedom = len(estimates) - 1
    chance = 0.04 * chi2(freedom).ppf(0.02) / freedom  # who agree better agree by chance
    error = (max(estimates.var(ddof=1), chance) / len(estimates)) ** 0.5
    wide = student(freedom).ppf(0.975) * error
    assert (found.low, found.high) == pytest.approx(
        (estimates.mean() - wide, estimates.mean() + wide), abs=1e-6
    )


def test_with_many_hospitals_the_spread_is_that_of_the_restricted_likelihood() -> None:
    estimates, errors = draw(5, 400)
    assert combine(estimates, errors).tau == pytest.approx(
        restricted_likelihood(estimates, errors) ** 0.5, abs=0.01
    )


@pytest.mark.parametrize("n_sites", [3, 4, 12])
def test_the_intervals_are_quantiles_of_draws(n_sites: int) -> None:
    """The naive twin draws τ², t and Z, where the fast one integrates."""
    rng = np.random.default_rng(n_sites)
    estimates, errors = draw(n_sites, n_sites)
    spreads, weights = np.zeros(MANY), np.empty((MANY, n_sites))
    targets, far = rng.chisquare(n_sites - 1, MANY), np.full(MANY, 1e4)
    for step in range(60):
        middle = 0.5 * (spreads + far) if step else np.zeros(MANY)
        weights = 1 / (errors**2 + middle[:, None])
        means = (weights @ estimates) / weights.sum(axis=1)
        excess = (weights * (estimates - means[:, None]) ** 2).sum(axis=1)
        above = excess > targets
        far = np.where(above, far, middle)
        spreads = np.where(above, middle, spreads)
    widths = np.sqrt(excess / (n_sites - 1) / weights.sum(axis=1))
    mean = means + widths * rng.standard_t(n_sites - 1, MANY)
    new = mean + np.sqrt(spreads) * rng.normal(size=MANY)
    found = combine(estimates, errors)
    for drawn, interval in (
        (mean, (found.low, found.high)),
        (new, (found.new_low, found.new_high)),
    ):
        slack = 0.03 * (interval[1] - interval[0])
        assert interval == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=slack)


def test_it_moves_and_stretches_with_the_estimates() -> None:
    estimates, errors = draw(3, 6)
    found, other = combine(estimates, errors), combine(5 - 2 * estimates, 2 * errors)
    assert other.tau == pytest.approx(2 * found.tau, abs=1e-5)
    for low, high in (("low", "high"), ("new_low", "new_high")):
        assert getattr(other, low) == pytest.approx(5 - 2 * getattr(found, high), abs=1e-4)


@pytest.mark.parametrize("n_sites", [0, 1, 2])
def test_too_few_hospitals_tell_of_no_other(n_sites: int) -> None:
    found = combine(*draw(0, n_sites))
    assert found.hospitals == n_sites
    assert np.isnan([found.mean, found.low, found.new_low, found.new_high]).all()
    assert np.isnan(found.tau) == (n_sites < 2)


def test_hospitals_that_agree_to_the_last_digit_do_not_make_it_certain() -> None:
    """Hartung and Knapp's error of equal estimates is 0, and the interval was one point."""
    found = combine(np.full(3, 1.2), np.full(3, 0.3))
    assert found.tau == 0
    assert found.high - found.low > 0.2
    assert found.new_low <= found.low
