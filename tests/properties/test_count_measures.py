"""Measures of counts from sums agree with scikit-learn's and statsmodels' on the patients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import d2_tweedie_score, mean_absolute_error, mean_poisson_deviance

from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.count_spread import SpreadJudge
from fedrulefit.core.families.count_sums import STEP, CountSums

MOST, LONGEST, PER = 20.0, 365.0, 30.0
JUDGE = CountJudge(MOST, LONGEST, PER, unit="admissions", exposure_unit="days")


def judge_of(dispersion: float) -> SpreadJudge:
    return SpreadJudge(
        MOST, LONGEST, PER, unit="admissions", exposure_unit="days", dispersion=dispersion
    )


@st.composite
def patients(draw: st.DrawFn) -> Any:
    """Rates per 30 days, counts, exposures in days, weights and sites of some patients."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(20, 500))
    place, spread = np.log(draw(st.floats(0.05, 0.4))), draw(st.floats(0.05, 0.9))
    rate = np.exp(rng.normal(place, spread, n_rows))
    exposure = rng.uniform(20, LONGEST, n_rows)
    true = rate ** draw(st.floats(0.3, 1.5)) * draw(st.floats(0.5, 2))
    more = rng.gamma(2, 0.5, n_rows) if draw(st.booleans()) else 1.0
    count = np.minimum(rng.poisson(true / PER * exposure * more), MOST).astype(float)
    count[:2] = 1, 2
    weights = rng.integers(0, 3000, n_rows) / 1024 if draw(st.booleans()) else np.ones(n_rows)
    weights[:2] = 1
    rate = np.clip(rate, 1.01 * 2.0**-12 * MOST * PER / LONGEST, None)
    return rate, np.column_stack([count, exposure]), weights, rng.integers(4, size=n_rows)


@settings(max_examples=100, deadline=None)
@given(patients(), st.integers(0, 2**32 - 1))
def test_any_split_of_the_same_patients_has_identical_totals(made: Any, seed: int) -> None:
    rate, outcome, weights, sites = made
    alone = JUDGE.count(rate, outcome, weights)
    order = np.random.default_rng(seed).permutation(len(sites))
    for split in (sites, sites[order]):
        parts = [
            JUDGE.count(rate[split == s], outcome[split == s], weights[split == s])
            for s in np.unique(split)
        ]
        together = JUDGE.add(parts)
        for name in CountSums.quantities():
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
    read = JUDGE.packing().read(JUDGE.packing().round(alone))
    for name in CountSums.quantities():
        np.testing.assert_array_equal(getattr(read, name), getattr(alone, name))


@settings(max_examples=150, deadline=None)
@given(patients())
def test_measures_are_those_of_scikit_learn(made: Any) -> None:
    rate, outcome, weights, _ = made
    found = JUDGE.measure(JUDGE.count(rate, outcome, weights))
    (count, exposure), mean = outcome.T, rate / PER * outcome[:, 1]
    slack = MOST * STEP
    deviance = mean_poisson_deviance(count, mean, sample_weight=weights)
    assert found.deviance == pytest.approx(deviance, abs=slack)
    off = mean_absolute_error(count, mean, sample_weight=weights)
    assert found.mae == pytest.approx(off, abs=slack)
    assert found.events == weights @ count
    assert found.patients_with == weights[count > 0].sum()
    assert found.exposure == pytest.approx(weights @ exposure, rel=1e-4)
    assert found.ratio == pytest.approx(weights @ count / (weights @ mean), rel=1e-3)
    assert found.observed == pytest.approx(weights @ count / (weights @ exposure) * PER, rel=1e-4)
    squares = np.minimum((count - mean) ** 2 / mean, 1024)
    assert found.dispersion == pytest.approx(np.average(squares, weights=weights), abs=1e-3)
    # scikit-learn's D² has no exposure: rates, weighted by exposure, have the same deviances.
    explained = d2_tweedie_score(
        count / exposure, rate / PER, sample_weight=weights * exposure, power=1
    )
    assert found.explained == pytest.approx(explained, abs=3e-3)


@settings(max_examples=100, deadline=None)
@given(patients())
def test_the_slope_is_that_of_statsmodels_on_the_patients(made: Any) -> None:
    rate, outcome, _, _ = made
    found = JUDGE.measure(JUDGE.count(rate, outcome, np.ones(len(rate))))
    if np.isnan(found.slope):
        return
    (count, exposure), at = outcome.T, np.log(rate)
    fit = sm.GLM(
        count, sm.add_constant(at), family=sm.families.Poisson(), offset=np.log(exposure)
    ).fit(cov_type="HC0")
    usual = sm.GLM(
        count, sm.add_constant(at), family=sm.families.Poisson(), offset=np.log(exposure)
    ).fit()
    width = (found.slope_high - found.slope_low) / 2
    assert abs(found.slope - fit.params[1]) <= 0.02 + 0.5 * width
    if at.std() > 0.3 and count.sum() >= 50:
        assert abs(found.slope - fit.params[1]) <= 0.02 + 0.2 * width
        assert width >= 0.85 * 1.96 * usual.bse[1]


@settings(max_examples=100, deadline=None)
@given(patients(), st.integers(1, 60), st.booleans())
def test_merged_bins_hold_enough_and_keep_what_is_no_bin(made: Any, least: int, each: bool) -> None:
    rate, outcome, weights, _ = made
    fine = JUDGE.count(rate, outcome, weights)
    coarse = JUDGE.coarsen(fine, least, each=each)
    if min(fine.total, fine.people_with.sum() if each else fine.total) < least:
        assert coarse is None
        return
    assert coarse is not None
    assert (coarse.people_with if each else coarse.people).min() >= least
    for name in ("people", "people_with", "events", "exposures", "expected", "pearson"):
        assert getattr(coarse, name).sum() == pytest.approx(getattr(fine, name).sum())
    assert JUDGE.measure(coarse).explained == pytest.approx(
        JUDGE.measure(fine).explained, nan_ok=True
    )


@settings(max_examples=60, deadline=None)
@given(patients(), st.integers(1, 12))
def test_groups_hold_all_patients_and_their_rates(made: Any, n_groups: int) -> None:
    rate, outcome, weights, _ = made
    groups = JUDGE.groups(JUDGE.count(rate, outcome, weights), n_groups)
    assert len(groups) <= n_groups
    assert sum(g.patients for g in groups) == pytest.approx(weights.sum())
    assert sum(g.events for g in groups) == pytest.approx(weights @ outcome[:, 0])
    for g in groups:
        rows = (rate >= g.above) & (rate < g.below)
        days = weights[rows] * outcome[rows, 1]
        assert g.observed == pytest.approx(
            weights[rows] @ outcome[rows, 0] / days.sum() * PER, rel=1e-3
        )
        assert g.predicted == pytest.approx(days @ rate[rows] / days.sum(), rel=1e-3)
        assert g.low <= g.observed <= g.high


# --- negative binomial counts -------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(patients(), st.floats(0.01, 20), st.integers(0, 2**32 - 1))
def test_their_spread_adds_up_over_any_split(made: Any, dispersion: float, seed: int) -> None:
    rate, outcome, weights, sites = made
    judge = judge_of(dispersion)
    alone = judge.count(rate, outcome, weights)
    split = sites[np.random.default_rng(seed).permutation(len(sites))]
    together = judge.add(
        [
            judge.count(rate[split == s], outcome[split == s], weights[split == s])
            for s in np.unique(split)
        ]
    )
    read = judge.packing().read(judge.packing().round(alone))
    for name in CountSums.quantities():
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
        np.testing.assert_array_equal(getattr(read, name), getattr(alone, name))
    plain = JUDGE.count(rate, outcome, weights)
    for name in ("spread_losses", "spread", "gains"):
        assert getattr(plain, name).shape == (0,), "of Poisson counts nothing more is told"
        assert getattr(alone, name).shape == (1,)


@settings(max_examples=100, deadline=None)
@given(patients(), st.floats(0.01, 20))
def test_their_spread_is_that_of_statsmodels_and_scipy(made: Any, dispersion: float) -> None:
    rate, outcome, weights, _ = made
    judge = judge_of(dispersion)
    found = judge.measure(judge.count(rate, outcome, weights))
    y, mean, size = outcome[:, 0], rate / PER * outcome[:, 1], 1 / dispersion
    n = weights.sum()
    peer = sm.families.NegativeBinomial(alpha=dispersion)
    deviance = peer.deviance(y, mean, var_weights=weights) / n
    spread = weights @ np.minimum((y - mean) ** 2 / peer.variance(mean), 1024) / n
    likely = stats.nbinom.logpmf(y, size, size / (size + mean))
    gain = weights @ (likely - stats.poisson.logpmf(y, mean)) / n
    assert found.spread_deviance == pytest.approx(deviance, abs=MOST * STEP)
    assert found.spread == pytest.approx(spread, abs=1e-3)
    assert found.gain == pytest.approx(gain, abs=MOST * STEP + 1e-9)
    usual = JUDGE.measure(JUDGE.count(rate, outcome, weights))
    for name, value in vars(usual).items():
        assert getattr(found, name) == pytest.approx(value, nan_ok=True, abs=0)


def test_the_right_dispersion_tells_counts_best_and_its_spread_is_one() -> None:
    """Of 40,000 patients: the spread is within five standard errors of 1."""
    rng = np.random.default_rng(3)
    rate = np.exp(rng.normal(np.log(0.3), 0.5, 40_000))
    exposure = rng.uniform(20, LONGEST, 40_000)
    mean = rate / PER * exposure
    count = rng.poisson(mean * rng.gamma(2.0, 0.5, 40_000))
    outcome, weights = np.column_stack([count, exposure]).astype(float), np.ones(40_000)
    wide = {
        a: SpreadJudge(1000.0, LONGEST, PER, dispersion=a).measure(
            SpreadJudge(1000.0, LONGEST, PER, dispersion=a).count(rate, outcome, weights)
        )
        for a in (0.1, 0.5, 2.5)
    }
    assert wide[0.5].spread == pytest.approx(1, abs=0.05)
    assert wide[0.1].spread > 1.2
    assert wide[2.5].spread < 0.7
    assert wide[0.5].gain > max(wide[0.1].gain, wide[2.5].gain) > 0


def test_what_is_told_of_their_spread() -> None:
    rng = np.random.default_rng(5)
    rate = np.exp(rng.normal(np.log(0.3), 0.5, 900))
    exposure = rng.uniform(20, LONGEST, 900)
    count = np.minimum(rng.poisson(rate / PER * exposure * rng.gamma(2.0, 0.5, 900)), MOST)
    judge = judge_of(0.5)
    sums = judge.count(rate, np.column_stack([count, exposure]).astype(float), np.ones(900))
    found = judge.measure(sums)
    assert "as the model's dispersion says; it tells them better than Poisson's" in judge.tell(
        found
    )
    told = found.rounded(10)
    assert type(told) is type(found)
    assert told.spread == round(found.spread, 3)
    names = {column.name for column in judge.measure_columns}
    assert {"spread_deviance", "spread", "gain"} <= names
    assert set(judge.file_words["overall"]) == set(vars(found))
