"""Calibration from 25 bins and six sums agrees with statsmodels' on the patients themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import chi2

from fedrulefit.core.crossing import find_crossing
from fedrulefit.core.families.yesno_calibration import FEWEST, Calibration, calibrate, overlap
from fedrulefit.core.families.yesno_measures import measure
from fedrulefit.core.families.yesno_places import FARTHEST
from fedrulefit.core.families.yesno_sums import ScoreSums, coarsen, count_scores


def count(odds: Any, outcome: Any, weights: Any = None) -> ScoreSums:
    return count_scores(expit(odds), outcome, np.ones(len(odds)) if weights is None else weights)


def fit_slope(odds: Any, outcome: Any, weights: Any = None) -> Any:
    """Slope and its standard error by statsmodels, on the patients."""
    design = np.column_stack([np.ones_like(odds), odds])
    fitted = sm.GLM(outcome, design, sm.families.Binomial(), freq_weights=weights).fit()
    return fitted.params[1], fitted.bse[1]


def find_large(odds: Any, outcome: Any) -> float:
    return float(brentq(lambda a: expit(odds + a).sum() - outcome.sum(), -60, 60))


SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_t(3, n) / 1.7,
    "skewed": lambda rng, n: rng.exponential(size=n) - 1,
    "even": lambda rng, n: rng.uniform(-1.7, 1.7, n),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("mean", "spread", "slope", "shift"),
    [
        (0, 1, 1, 0), (0, 0.3, 1, 0), (-3, 1.5, 1, 0), (-2, 3, 0.5, 0), (3, 5, 0.3, -1),
        (0, 6, 0.15, 0), (0, 10, 0.15, 0.5), (0, 8, -0.1, 0), (0, 4, 2, 1), (-6, 1, 0.5, -1),
    ],
)  # fmt: skip
def test_a_slope_of_bins_is_that_of_the_patients(
    shape: str, mean: float, spread: float, slope: float, shift: float
) -> None:
    """Predictions beyond ±8 had a slope of .24 for .149: bins end at .005 and .98."""
    rng = np.random.default_rng(4)
    odds = np.clip(mean + spread * SHAPES[shape](rng, 4000), -FARTHEST, FARTHEST)
    outcome = (rng.random(4000) < expit(shift + slope * odds)).astype(float)
    found = calibrate(count(odds, outcome))
    expected, error = fit_slope(odds, outcome)
    assert abs(found.slope - expected) < 0.8 * error + 0.03 * abs(expected)
    assert found.slope_low < expected < found.slope_high
    large = find_large(odds, outcome)
    assert found.intercept_low < large < found.intercept_high
    if spread < 5:
        assert found.intercept == pytest.approx(large, abs=0.05)


@pytest.mark.parametrize(
    ("predicted", "observed"), [(0.01, 0.10), (0.02, 0.20), (0.05, 0.50), (0.90, 0.30)]
)
def test_calibration_in_the_large_is_known_where_it_is_worst(
    predicted: float, observed: float
) -> None:
    """It was NaN, for Newton's steps went too far. Predictions alike have a closed form."""
    outcome = np.repeat([1.0, 0.0], [round(1000 * observed), round(1000 * (1 - observed))])
    found = calibrate(count(np.full(1000, logit(predicted)), outcome))
    exact = logit(observed) - logit(predicted)
    assert found.intercept == pytest.approx(exact, abs=1 / 128 + 1e-9)
    assert np.isnan(found.slope)
    # The score interval is Wilson's of the share, but for half a patient and the bin's width.
    half = 1.959964 / np.sqrt(1000 * observed * (1 - observed))
    assert found.intercept_high - found.intercept_low == pytest.approx(2 * half, rel=0.05)


def test_a_model_of_two_predictions_has_an_interval_that_holds_its_slope() -> None:
    """Where in their bins two predictions stand is not known: the interval is wider for it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ends = rng.uniform(-4.5, 1.5, 2)
        odds = rng.choice(ends, 4000)
        outcome = (rng.random(4000) < expit(odds)).astype(float)
        found = calibrate(count(odds, outcome))
        if not np.isnan(found.slope):
            assert found.slope_low < fit_slope(odds, outcome)[0] < found.slope_high


def test_the_interval_is_that_of_the_likelihood_ratio() -> None:
    """Predictions at the middles of bins: nothing but the patients' chance is left, and little."""
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 1, 150)
    outcome = (rng.random(150) < expit(odds)).astype(float)
    found = calibrate(count(odds, outcome))

    def log_likelihood(slope: float) -> float:
        model = sm.GLM(outcome, np.ones(150), sm.families.Binomial(), offset=slope * odds)
        return float(model.fit().llf)

    best = fit_slope(odds, outcome)[0]
    least = log_likelihood(best) - chi2.ppf(0.95, 1) / 2
    low = brentq(lambda b: log_likelihood(b) - least, best - 3, best)
    high = brentq(lambda b: log_likelihood(b) - least, best, best + 3)
    assert found.slope_low == pytest.approx(low, abs=0.04)
    assert found.slope_high == pytest.approx(high, abs=0.04)


def test_weights_count_as_repeated_patients() -> None:
    rng = np.random.default_rng(2)
    odds = rng.normal(-1, 1.5, 300)
    outcome = (rng.random(300) < expit(odds)).astype(float)
    weights = rng.integers(0, 4, 300)
    weighted = measure(count(odds, outcome, weights.astype(float)))
    repeated = measure(count(np.repeat(odds, weights), np.repeat(outcome, weights)))
    np.testing.assert_array_equal([*vars(weighted).values()], [*vars(repeated).values()])
    expected, error = fit_slope(odds, outcome, weights)
    assert weighted.slope == pytest.approx(expected, abs=0.3 * error)
    assert weighted.slope_high - weighted.slope_low == pytest.approx(2 * 1.96 * error, rel=0.15)


@st.composite
def extremes(draw: st.DrawFn) -> Any:
    """Patients of any kind: perfect, inverted, constant, few, one class, all in one bin."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 200))
    odds = draw(st.sampled_from([-800.0, -20.0, -5.0, 0.0, 1.0, 9.0, 800.0])) + draw(
        st.sampled_from([0.0, 0.01, 1.0, 10.0])
    ) * rng.normal(size=n)
    kind = draw(st.sampled_from(["random", "perfect", "inverted", "all", "none", "one"]))
    outcome = {
        "random": (rng.random(n) < 0.3).astype(float),
        "perfect": (odds > np.median(odds)).astype(float),
        "inverted": (odds < np.median(odds)).astype(float),
        "all": np.ones(n),
        "none": np.zeros(n),
        "one": np.eye(1, n, n // 2)[0],
    }[kind]
    return odds, outcome, rng.integers(1, 4000, n) / 1024


@settings(max_examples=300, deadline=None)
@given(extremes())
def test_a_fit_ends_or_is_not_told(made: Any) -> None:
    odds, outcome, weights = made
    sums = count(odds, outcome, weights)
    found = measure(sums)  # refuses a value outside of its interval
    known = {name: bool(np.isfinite(value)) for name, value in vars(found).items()}
    both = 0 < outcome.sum() < len(outcome)
    assert known["auc"] == known["intercept"] == both
    enough = min(sums.n_cases, sums.n_others) >= FEWEST
    assert known["slope"] == (enough and overlap(sums.cases, sums.others))
    merged = coarsen(sums, 5)
    if merged is not None:
        # Read off the bins as they were.
        np.testing.assert_equal(vars(calibrate(merged)), vars(calibrate(sums)))


def test_calibration_says_what_it_does_not_know() -> None:
    assert np.isnan([*vars(calibrate(count(np.zeros(5), np.ones(5)))).values()]).all()
    assert isinstance(calibrate(count(np.zeros(5), np.eye(1, 5)[0])), Calibration)


@settings(max_examples=200, deadline=None)
@given(st.floats(-30, 30), st.floats(0.01, 50), st.integers(1, 5))
def test_crossings_are_those_of_brentq(place: float, steep: float, power: int) -> None:
    def rise(x: float) -> float:
        return float(np.tanh(steep * (x - place)) + steep * (x - place) ** (2 * power - 1) / 1e6)

    expected = brentq(rise, -40, 40, xtol=1e-13)
    assert find_crossing(rise, -40, 40) == pytest.approx(expected, abs=1e-9)
    assert find_crossing(rise, place + 1, 40) == place + 1
    assert find_crossing(rise, -40, place - 1) == place - 1
