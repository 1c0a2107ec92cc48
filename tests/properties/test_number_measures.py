"""Measures of numbers from sums agree with scikit-learn's and statsmodels' on the patients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from fedrulefit.core.families.number_judge import NumberJudge
from fedrulefit.core.families.number_sums import N_BINS, STEP, NumberSums

LOW, HIGH = 40.0, 200.0
HALF = (HIGH - LOW) / 2
JUDGE = NumberJudge(LOW, HIGH, "mmHg")


@st.composite
def patients(draw: st.DrawFn) -> Any:
    """Predictions, outcomes, weights and sites of some patients."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(12, 400))
    place, spread = draw(st.floats(60, 180)), draw(st.floats(4, 40))
    prediction = rng.normal(place, spread, n_rows)
    noise = draw(st.floats(1, 60)) * (rng.standard_t(4, n_rows) if draw(st.booleans()) else 1.0)
    outcome = np.clip(
        draw(st.floats(-1, 2)) * prediction + rng.normal(0, 8, n_rows) + noise, LOW, HIGH
    )
    outcome[:2] = LOW, HIGH
    weights = rng.integers(0, 3000, n_rows) / 1024 if draw(st.booleans()) else np.ones(n_rows)
    weights[:2] = 1
    return prediction, outcome, weights, rng.integers(draw(st.integers(1, 5)), size=n_rows)


def seen(prediction: Any, outcome: Any) -> tuple[Any, Any]:
    """The naive twin of rounding: what is counted of each patient, in the outcome's unit."""
    middle = (LOW + HIGH) / 2
    step = HALF * STEP
    t = middle + step * np.rint((outcome - middle) / step)
    p = middle + step * np.rint(np.clip((prediction - middle) / HALF, -2, 2) * HALF / step)
    return t, p


@settings(max_examples=100, deadline=None)
@given(patients(), st.integers(0, 2**32 - 1))
def test_any_split_of_the_same_patients_has_identical_totals(made: Any, seed: int) -> None:
    prediction, outcome, weights, sites = made
    alone = JUDGE.count(prediction, outcome, weights)
    order = np.random.default_rng(seed).permutation(len(sites))
    for split in (sites, sites[order]):
        parts = [
            JUDGE.count(prediction[split == s], outcome[split == s], weights[split == s])
            for s in np.unique(split)
        ]
        together = JUDGE.add(parts)
        for name in NumberSums.quantities():
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
    read = JUDGE.packing().read(JUDGE.packing().round(alone))
    for name in NumberSums.quantities():
        np.testing.assert_array_equal(getattr(read, name), getattr(alone, name))


@settings(max_examples=150, deadline=None)
@given(patients())
def test_measures_are_those_of_scikit_learn(made: Any) -> None:
    prediction, outcome, weights, _ = made
    found = JUDGE.measure(JUDGE.count(prediction, outcome, weights))
    t, p = seen(prediction, outcome)
    assert found.patients == weights.sum()
    assert found.r2 == pytest.approx(r2_score(t, p, sample_weight=weights), abs=1e-6)
    mean_square = mean_squared_error(t, p, sample_weight=weights)
    assert found.rmse == pytest.approx(np.sqrt(mean_square), abs=1e-5)
    assert found.mae == pytest.approx(mean_absolute_error(t, p, sample_weight=weights))
    assert found.observed == pytest.approx(np.average(t, weights=weights))
    assert found.expected == pytest.approx(np.average(p, weights=weights))
    assert found.intercept == pytest.approx(np.average(t - p, weights=weights), abs=1e-9)
    # Of the patients themselves, as far as rounding and the farthest prediction go:
    cut = np.clip(prediction, LOW - HALF, HIGH + HALF)
    off = mean_absolute_error(outcome, cut, sample_weight=weights)
    assert found.mae == pytest.approx(off, abs=HALF * STEP)
    rmse = np.sqrt(mean_squared_error(outcome, cut, sample_weight=weights))
    assert found.rmse == pytest.approx(rmse, abs=HALF * STEP)


@settings(max_examples=100, deadline=None)
@given(patients())
def test_calibration_is_the_line_of_statsmodels_with_its_robust_errors(made: Any) -> None:
    prediction, outcome, _, _ = made
    t, p = seen(prediction, outcome)
    found = JUDGE.measure(JUDGE.count(prediction, outcome, np.ones(len(t))))
    fit = sm.OLS(t, sm.add_constant(p)).fit(cov_type="HC1", use_t=True)
    assert found.slope == pytest.approx(fit.params[1], abs=1e-7)
    ends = fit.conf_int()[1]
    assert (found.slope_low, found.slope_high) == pytest.approx(
        ends, abs=2e-3 + 0.02 * np.ptp(ends)
    )
    large = sm.OLS(t - p, np.ones(len(t))).fit()
    ends = large.conf_int()[0]
    assert (found.intercept_low, found.intercept_high) == pytest.approx(ends, abs=1e-4)


@settings(max_examples=100, deadline=None)
@given(patients())
def test_the_reach_is_an_order_statistic_but_for_the_bin(made: Any) -> None:
    prediction, outcome, _, _ = made
    found = JUDGE.measure(JUDGE.count(prediction, outcome, np.ones(len(outcome))))
    t, p = seen(prediction, outcome)
    errors, n_rows = np.sort(np.abs(t - p)), len(t)
    for share in (80, 95):
        reach = getattr(found, f"reach_{share}")
        bound = getattr(found, f"reach_{share}_bound")
        k = int(np.ceil(share * (n_rows + 1) / 100))
        if k > n_rows or errors[k - 1] >= 2 * HALF:
            assert np.isnan(reach), "nobody lies beyond"
            continue
        assert reach - bound - 1e-9 <= errors[k - 1] <= reach + 1e-9
        assert bound <= max(HALF / 256, 0.081 * reach) + 1e-9


@settings(max_examples=100, deadline=None)
@given(patients(), st.integers(1, 60))
def test_merged_bins_hold_enough_and_keep_what_is_no_bin(made: Any, least: int) -> None:
    prediction, outcome, weights, _ = made
    fine = JUDGE.count(prediction, outcome, weights)
    coarse = JUDGE.coarsen(fine, least)
    if fine.total < least:
        assert coarse is None
        return
    assert coarse is not None
    assert min(coarse.people.min(), coarse.errors.min()) >= least
    assert coarse.people.sum() == coarse.errors.sum() == fine.total
    assert JUDGE.measure(coarse).r2 == JUDGE.measure(fine).r2
    for name in ("outcomes", "squares", "predictions"):
        assert getattr(coarse, name).sum() == getattr(fine, name).sum()


@settings(max_examples=60, deadline=None)
@given(patients(), st.integers(1, 12))
def test_groups_hold_all_patients_and_their_means(made: Any, n_groups: int) -> None:
    prediction, outcome, weights, _ = made
    groups = JUDGE.groups(JUDGE.count(prediction, outcome, weights), n_groups)
    assert len(groups) <= min(n_groups, N_BINS)
    assert sum(g.patients for g in groups) == pytest.approx(weights.sum())
    assert (groups[0].above, groups[-1].below) <= (HIGH, HIGH)
    mean = sum(g.patients * g.observed for g in groups) / weights.sum()
    assert mean == pytest.approx(np.average(outcome, weights=weights), abs=HALF / 64)
    for g in groups:
        rows = (prediction >= g.above) & (prediction < g.below) & (weights > 0)
        if g.above > LOW and g.below < HIGH and rows.any():
            assert g.predicted == pytest.approx(
                np.average(prediction[rows], weights=weights[rows]), abs=HALF / 8
            )
        assert not g.low > g.observed
        assert not g.high < g.observed


@pytest.mark.parametrize("wide", [1, 3, 10, 30, 100, 1000])
@pytest.mark.parametrize("seed", range(15))
def test_small_errors_in_a_wide_range_have_an_honest_interval_or_none(wide: int, seed: int) -> None:
    """Fourth moments drowned in rounding: an interval of no width, and sometimes an error."""
    rng = np.random.default_rng(seed)
    outcome = rng.normal(0, 1, 200)
    prediction = 0.8 * outcome + rng.normal(0, 0.4, 200)
    judge = NumberJudge(-4.0 * wide, 4.0 * wide)
    found = judge.measure(judge.count(prediction, outcome, np.ones(200)))
    near = NumberJudge(-4.0, 4.0)
    told = near.measure(near.count(prediction, outcome, np.ones(200)))
    assert not np.isnan(told.r2_low)
    for name in ("r2", "rmse", "slope"):
        width, right = (
            getattr(of, f"{name}_high") - getattr(of, f"{name}_low") for of in (found, told)
        )
        assert np.isnan(width) or abs(width / right - 1) < 0.5
    if wide <= 3:
        assert not np.isnan([found.r2_low, found.rmse_low, found.slope_low]).any()
    if wide >= 100:
        assert np.isnan([found.r2_low, found.rmse_low, found.slope_low]).all()
        assert "too small a part of the study's range" in judge.tell_unknown({"all": found})
