"""Ranges of counts hold the share of patients that they say, and a few more: counts are whole."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import nbinom

from fedrulefit.core.families.count_ranges import find_count_range
from fedrulefit.core.families.count_spread import SpreadJudge


@pytest.mark.parametrize("mean", [0.05, 1.7, 23.0, 400.0])
@pytest.mark.parametrize("dispersion", [0.7, 1.0, 1.3, 6.0])
@pytest.mark.parametrize("share", [0.8, 0.95])
def test_counts_of_this_mean_and_variance_lie_inside(
    mean: float, dispersion: float, share: float
) -> None:
    rng = np.random.default_rng(3)
    spread = max(dispersion, 1.0)
    size = mean / (spread - 1) if spread > 1 else np.inf
    means = rng.gamma(size, mean / size, 40_000) if spread > 1 else np.full(40_000, mean)
    counts = rng.poisson(means)
    low, high = find_count_range(np.array([mean]), dispersion, share)[0]
    inside = np.mean((low <= counts) & (counts <= high))
    step = np.mean(counts == low) + np.mean(counts == high)  # what the ends themselves hold
    assert share - 0.015 < inside < share + step + 0.015


def test_each_patient_has_a_range() -> None:
    found = find_count_range(np.array([0.1, 5.0]), 2.0, 0.8)
    assert found.shape == (2, 2)
    assert (found[1] >= found[0]).all()


def test_with_a_learnt_dispersion_they_are_its_quantiles() -> None:
    judge = SpreadJudge(40.0, dispersion=0.8)
    mean = np.array([0.1, 2.0, 30.0])
    found = find_count_range(mean, judge.spread_at(mean, 0.8), 0.95)
    expected = [nbinom.ppf(at, 1 / 0.8, 1 / (1 + 0.8 * mean)) for at in (0.025, 0.975)]
    np.testing.assert_array_equal(found, np.column_stack(expected))
    told = judge.find_ranges(None, 2.0, str)  # type: ignore[arg-type]
    assert told[1] == (95, *(f"{x:.0f}" for x in found[1]))
    flat = find_count_range(mean, np.array([0.5, 1.0, 3.0]), 0.8)
    for k, spread in enumerate((0.5, 1.0, 3.0)):
        np.testing.assert_array_equal(flat[k], find_count_range(mean[k : k + 1], spread, 0.8)[0])
