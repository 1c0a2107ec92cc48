"""Intervals of means and of explained shares: against SciPy, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedrulefit.core.families.intervals import (
    FEWEST,
    check_interval,
    estimate,
    estimate_explained,
    estimate_ratio,
)


def test_the_interval_of_a_mean_is_student_s() -> None:
    x = np.random.default_rng(1).normal(3, 2, 17)
    value, low, high = estimate(x.mean(), stats.sem(x), 17)
    expected = stats.t.interval(0.95, 16, x.mean(), stats.sem(x))
    assert (low, high) == pytest.approx(expected)
    assert value == x.mean()


def test_of_few_nothing_is_told() -> None:
    assert np.isnan(estimate(1.0, 0.1, FEWEST - 1)[1:]).all()
    assert np.isnan(estimate_ratio(0.0, 0.1, 50)[1:]).all()
    assert np.isnan(estimate_explained(1.0, 0.0, 1.0, 50)).all()


def test_an_explained_share_is_never_above_1_and_can_be_far_below_0() -> None:
    value, low, high = estimate_explained(0.01, 1.0, 4.0, 30)
    assert low < value == 0.99 < high < 1
    value, low, high = estimate_explained(9.0, 1.0, 4.0, 30)
    assert low < value == -8 < high
    assert estimate_explained(0.0, 1.0, 0.0, 30)[0] == 1


@pytest.mark.parametrize("ends", [(1, 0, 2), (0, 3, 2), (0, 1, math.nan), (math.nan, 1, 2)])
def test_an_interval_that_cannot_be_is_refused(ends: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="interval"):
        check_interval(*ends)
