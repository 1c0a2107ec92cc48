"""Measures from tables agree with other programs' on the patients, within the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sksurv.metrics import brier_score, concordance_index_censored
from sksurv.nonparametric import kaplan_meier_estimator
from sksurv.util import Surv
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.duration.survfunc import SurvfuncRight
from statsmodels.stats.proportion import proportion_confint

from fedrulefit.core.families.survival import bound_survival, estimate_survival
from fedrulefit.core.families.time_judge import TimeJudge
from fedrulefit.core.families.time_measures import FEWEST, fit_slope, follow, measure
from fedrulefit.core.families.time_sums import TimeSums, to_log_hazard

JUDGE = TimeJudge((0.5, 1.0, 3.0), (1.0, 5.0), unit="years")


def draw(
    rng: np.random.Generator, n_rows: int, base: float, spread: float, loss: float = 6.0
) -> tuple[Any, Any]:
    """Return predicted risks that are right, and censored outcomes."""
    hazard = base * np.exp(rng.normal(0, spread, n_rows))
    event, lost = rng.exponential(5 / hazard), rng.exponential(loss, n_rows)
    time = np.minimum(np.minimum(event, lost), 5.0)
    happened = (event <= lost) & (event <= 5.0)
    return -np.expm1(-hazard), np.column_stack([np.zeros(n_rows), time, happened])


@st.composite
def patients(draw_: st.DrawFn) -> Any:
    """Risks and outcomes of some patients; with ties in whole half years for some."""
    rng = np.random.default_rng(draw_(st.integers(0, 2**32 - 1)))
    n_rows = draw_(st.integers(2, 300))
    base, spread = draw_(st.floats(0.02, 3)), draw_(st.floats(0.0, 2.0))
    risk, outcome = draw(rng, n_rows, base, spread, draw_(st.floats(1, 20)))
    if draw_(st.booleans()):
        outcome[:, 1] = np.clip(np.ceil(outcome[:, 1] * 2) / 2, 0.5, 5.0)
    return rng.permutation(risk) if draw_(st.booleans()) else risk, outcome


def pooled(risk: Any, outcome: Any) -> TimeSums:
    return JUDGE.count(risk, outcome, np.ones(len(risk)))


@settings(max_examples=150, deadline=None)
@given(patients())
def test_the_concordance_is_scikit_survivals_within_the_bound(made: Any) -> None:
    risk, outcome = made
    found = measure(pooled(risk, outcome))
    if np.isnan(found.concordance):
        return
    event = outcome[:, 2] > 0
    told = concordance_index_censored(event, outcome[:, 1], risk)[0]
    assert abs(found.concordance - told) <= found.concordance_bound + 1e-12
    assert np.isnan(found.concordance_low) == (event.sum() < FEWEST)


def test_the_concordance_is_much_nearer_than_its_bound() -> None:
    for seed in range(5):
        risk, outcome = draw(np.random.default_rng(seed), 3000, 0.4, 1.0)
        found = measure(pooled(risk, outcome))
        told = concordance_index_censored(outcome[:, 2] > 0, outcome[:, 1], risk)[0]
        assert abs(found.concordance - told) < 0.005
        assert found.concordance_bound < 0.1


def follow_patients(outcome: Any, times: Any) -> Any:
    """Return scikit-survival's curve of the patients at some times."""
    late = outcome[:, 0] if outcome[:, 0].any() else None
    at, alive = kaplan_meier_estimator(outcome[:, 2] > 0, outcome[:, 1], time_enter=late)
    return np.concatenate([[1.0], alive])[np.searchsorted(at, times, side="right")]


@settings(max_examples=150, deadline=None)
@given(patients())
def test_survival_is_scikit_survivals_at_the_ends_within_the_bound(made: Any) -> None:
    risk, outcome = made
    table = pooled(risk, outcome).table.pooled()
    curve = follow(table).survival[0]
    low, high = (part[0] for part in bound_survival(table.events, table.through, table.left))
    told = follow_patients(outcome, JUDGE.times)
    known = JUDGE.times <= outcome[:, 1].max()
    slack = 1e-12
    assert (low[known] - slack <= told[known]).all()
    assert (told[known] <= high[known] + slack).all()
    inside = ~np.isnan(curve)
    assert (low[inside] - slack <= curve[inside]).all()
    assert (curve[inside] <= high[inside] + slack).all()


def test_without_censoring_the_curve_is_exact_and_its_interval_wilsons() -> None:
    risk, outcome = draw(np.random.default_rng(1), 500, 0.6, 1.0, 1e9)
    table = pooled(risk, outcome).table.pooled()
    curve = follow(table)
    alive = [
        (outcome[:, 1] > t).mean() + (outcome[:, 1] == 5).mean() * (t == 5) for t in JUDGE.times
    ]
    np.testing.assert_allclose(curve.survival[0], alive, atol=1e-12)
    low, high = (end[0, 1:] for end in curve.interval())
    counts = np.round(np.array(alive[1:]) * 500)
    told = [proportion_confint(count, 500, method="wilson") for count in counts]
    np.testing.assert_allclose(np.column_stack([low, high]), told, atol=1e-9)


def test_greenwoods_variance_is_that_of_statsmodels() -> None:
    """One event per interval at most, and news that end with an interval: nothing is lost."""
    events, left = np.array([[1.0, 0, 1, 1, 0, 1]]), np.array([[2.0, 1, 0, 3, 1, 0]])
    n = 20 - np.concatenate([[0], np.cumsum(events + left)[:-1]])[None]
    curve = estimate_survival(events, n - events - left, left)
    times = np.repeat(np.arange(1.0, 7), (events + left)[0].astype(int)).tolist()
    kinds = [k < e for e, c in zip(events[0], left[0], strict=True) for k in range(int(e + c))]
    rest = 20 - len(times)
    told = SurvfuncRight(np.array([*times, *[6.0] * rest]), np.array([*kinds, *[False] * rest]))
    seen = told.surv_times.astype(int)
    np.testing.assert_allclose(curve.survival[0, seen], told.surv_prob)
    errors = curve.survival[0, seen] * np.sqrt(curve.spread[0, seen])
    np.testing.assert_allclose(errors, told.surv_prob_se)


@settings(max_examples=150, deadline=None)
@given(patients())
def test_the_brier_score_is_scikit_survivals_within_the_bound(made: Any) -> None:
    risk, outcome = made
    found = measure(pooled(risk, outcome))
    if np.isnan(found.brier) or not outcome[:, 2].any():
        return
    known = Surv.from_arrays(outcome[:, 2] > 0, outcome[:, 1])
    # Up to the last moment before the horizon: whoever is followed to it is free of event.
    later = Surv.from_arrays(outcome[:, 2] > 0, np.where(outcome[:, 1] == 5, 5.1, outcome[:, 1]))
    if (outcome[(outcome[:, 1] == 5), 2] > 0).any():
        return
    (told,) = brier_score(known, later, 1 - risk[:, None], [5.0 - 1e-9])[1]
    assert abs(found.brier - told) <= found.brier_bound + 1e-9


def test_the_brier_score_is_much_nearer_than_its_bound() -> None:
    risk, outcome = draw(np.random.default_rng(2), 3000, 0.4, 1.0)
    found = measure(pooled(risk, outcome))
    known = Surv.from_arrays(outcome[:, 2] > 0, outcome[:, 1])
    (told,) = brier_score(known, known, 1 - risk[:, None], [5.0 - 1e-9])[1]
    assert abs(found.brier - told) < 0.001


@pytest.mark.parametrize("late", [0.0, 0.4])
def test_the_slope_is_that_of_cox(late: float) -> None:
    """Compared with what the patients' own times give, it is off by half of its error at most."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        risk, outcome = draw(rng, 3000, 0.4, 1.0)
        outcome[:, 0] = np.where(rng.random(3000) < late, rng.uniform(0, 2, 3000), 0.0)
        kept = outcome[:, 1] > outcome[:, 0]
        risk, outcome = risk[kept], outcome[kept]
        hazard = to_log_hazard(risk)
        cox = PHReg(outcome[:, 1], hazard, status=outcome[:, 2], entry=outcome[:, 0]).fit()
        slope, low, high = fit_slope(pooled(risk, outcome))
        assert abs(slope - cox.params[0]) < 0.5 * cox.bse[0]
        assert (high - low) / (2 * 1.96) == pytest.approx(cox.bse[0], rel=0.05)


def test_intervals_cover_as_often_as_they_say() -> None:
    """A correct interval of 92.5 % fails fewer than once in a million times."""
    large = [draw(np.random.default_rng(seed), 4000, 0.3, 0.8) for seed in (1, 2, 3)]
    truth = np.mean([concordance_index_censored(o[:, 2] > 0, o[:, 1], r)[0] for r, o in large])
    draws, held = 300, np.zeros(3)
    for seed in range(draws):
        found = measure(pooled(*draw(np.random.default_rng(100 + seed), 120, 0.3, 0.8)))
        held += [
            found.concordance_low <= truth <= found.concordance_high,
            found.slope_low <= 1 <= found.slope_high,
            found.ratio_low <= 1 <= found.ratio_high,
        ]
    assert (held >= binom.ppf(1e-6, draws, 0.925)).all(), held / draws


def test_with_late_entry_the_curve_counts_who_is_at_risk() -> None:
    rng = np.random.default_rng(3)
    risk, outcome = draw(rng, 3000, 0.5, 0.5)
    outcome[:, 0] = np.where(rng.random(3000) < 0.5, rng.uniform(0, 1.5, 3000), 0.0)
    kept = outcome[:, 1] > outcome[:, 0]
    risk, outcome = risk[kept], outcome[kept]
    found = measure(pooled(risk, outcome))
    (told,) = follow_patients(outcome, [5.0])
    assert found.observed == pytest.approx(1 - told, abs=0.005)
    assert 0 < found.brier_bound < 0.5
    assert 0.1 < found.brier < 0.25
