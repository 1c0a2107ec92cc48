"""The logistic loss against scikit-learn and numerical differentiation."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from fedrulefit.core.losses import logistic_loss, logistic_slope


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_loss_is_the_summed_log_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    predictor = rng.normal(size=50) * 3
    outcome = rng.integers(0, 2, 50).astype(float)
    weights = rng.uniform(0, 2, 50)
    expected = log_loss(outcome, expit(predictor), sample_weight=weights, normalize=False)
    assert logistic_loss(predictor, outcome, weights) == pytest.approx(expected, rel=1e-12)


def test_the_loss_adds_up_over_patients_and_starts_at_log_two() -> None:
    rng = np.random.default_rng(4)
    predictor, outcome = rng.normal(size=9), rng.integers(0, 2, 9).astype(float)
    each = [logistic_loss(predictor[i : i + 1], outcome[i : i + 1], np.ones(1)) for i in range(9)]
    assert logistic_loss(predictor, outcome, np.ones(9)) == pytest.approx(sum(each), rel=1e-12)
    assert logistic_loss(np.zeros(9), outcome, np.ones(9)) == pytest.approx(9 * np.log(2))


def test_the_slope_is_the_derivative_of_the_loss() -> None:
    rng = np.random.default_rng(5)
    predictor = rng.normal(size=20) * 4
    outcome = rng.integers(0, 2, 20).astype(float)
    weights = rng.uniform(0, 2, 20)
    width = 1e-5
    for i in range(20):
        up, down = predictor.copy(), predictor.copy()
        up[i] += width
        down[i] -= width
        rise = logistic_loss(up, outcome, weights) - logistic_loss(down, outcome, weights)
        slope = logistic_slope(predictor, outcome, weights)[i]
        assert slope == pytest.approx(rise / (2 * width), abs=1e-8)


@pytest.mark.parametrize("size", [40.0, 800.0, 1e8, 1e300])
def test_extreme_predictors_overflow_nowhere(size: float) -> None:
    predictor, outcome = np.array([size, size, -size, -size]), np.array([1.0, 0.0, 1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [
            logistic_loss(predictor[i : i + 1], outcome[i : i + 1], np.ones(1)) for i in range(4)
        ]
        slopes = logistic_slope(predictor, outcome, np.ones(4))
    assert losses == pytest.approx([0.0, size, size, 0.0], rel=1e-12, abs=1e-14)
    assert slopes == pytest.approx([0.0, 1.0, -1.0, 0.0], abs=1e-15)
