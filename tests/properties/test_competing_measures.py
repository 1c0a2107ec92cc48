"""Measures of a cause from tables agree with other programs' on the patients, within the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sksurv.nonparametric import CensoringDistributionEstimator
from sksurv.nonparametric import cumulative_incidence_competing_risks as aalen_johansen
from sksurv.util import Surv
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.stats.proportion import proportion_confint

from fedrulefit.core.families.competing_judge import CompetingJudge
from fedrulefit.core.families.competing_measures import score_by_horizon
from fedrulefit.core.families.competing_sums import CompetingSums, follow_incidence
from fedrulefit.core.families.time_judge import TimeJudge
from fedrulefit.core.families.time_sums import to_log_hazard

HORIZONS = (1.0, 5.0)
JUDGE = CompetingJudge((0.5, 1.0, 3.0), HORIZONS, ("relapse", "death"), unit="years")


def risks_of(first: Any, second: Any) -> Any:
    """Return the risk of the first of two constant hazards by each horizon."""
    total = first + second
    times = np.array(HORIZONS) / HORIZONS[-1]
    return (first / total)[:, None] * -np.expm1(-np.outer(total, times))


def draw(
    rng: np.random.Generator, n_rows: int, base: float, spread: float, loss: float = 6.0
) -> tuple[Any, Any]:
    """Return predicted risks that are right, and censored outcomes of two causes."""
    first = base * np.exp(rng.normal(0, spread, n_rows))
    second = base * np.exp(rng.normal(0, 0.5 * spread, n_rows))
    events = rng.exponential(5 / np.array([first, second]))
    lost = rng.exponential(loss, n_rows)
    time = np.minimum.reduce([*events, lost, np.full(n_rows, 5.0)])
    cause = np.select([events[0] == time, events[1] == time], [1, 2], 0)
    return risks_of(first, second), np.column_stack([np.zeros(n_rows), time, cause])


@st.composite
def patients(draw_: st.DrawFn) -> Any:
    """Risks and outcomes of some patients; with ties in whole half years for some."""
    rng = np.random.default_rng(draw_(st.integers(0, 2**32 - 1)))
    n_rows = draw_(st.integers(2, 300))
    base, spread = draw_(st.floats(0.02, 3)), draw_(st.floats(0.0, 2.0))
    risk, outcome = draw(rng, n_rows, base, spread, draw_(st.floats(1, 20)))
    if draw_(st.booleans()):
        outcome[:, 1] = np.clip(np.ceil(outcome[:, 1] * 2) / 2, 0.5, 5.0)
    return risk[rng.permutation(n_rows)] if draw_(st.booleans()) else risk, outcome


def pooled(risk: Any, outcome: Any) -> CompetingSums:
    return JUDGE.count(risk, outcome, np.ones(len(risk)))


# --- cumulative incidence ---------------------------------------------------------------------


def follow_patients(outcome: Any, times: Any) -> Any:
    """Return scikit-survival's cumulative incidence of the first cause at some times."""
    if not (outcome[:, 2] == 1).any():
        return np.zeros(len(times))
    codes = outcome[:, 2].astype(int)
    at, risks = aalen_johansen(codes, outcome[:, 1])
    return np.concatenate([[0.0], risks[1]])[np.searchsorted(at, times, side="right")]


def test_without_censoring_the_incidence_is_the_share_and_its_interval_wilsons() -> None:
    risk, outcome = draw(np.random.default_rng(1), 500, 0.6, 1.0, 1e9)
    curve = pooled(risk, outcome).table.pooled().follow()
    found = 1 - curve.survival[0]
    np.testing.assert_allclose(found, follow_patients(outcome, JUDGE.times), atol=1e-12)
    events = [((outcome[:, 1] <= t) & (outcome[:, 2] == 1)).sum() for t in JUDGE.times]
    np.testing.assert_allclose(500 * found, events, atol=1e-9)
    high, low = (1 - end[0, 1:] for end in curve.interval())
    told = [proportion_confint(count, 500, method="wilson") for count in events[1:]]
    np.testing.assert_allclose(np.column_stack([low, high]), told, atol=1e-9)


def test_with_censoring_the_incidence_is_scikit_survivals_but_for_when_inside_an_interval() -> None:
    for seed in range(5):
        risk, outcome = draw(np.random.default_rng(seed), 4000, 0.5, 1.0)
        found = 1 - pooled(risk, outcome).table.pooled().follow().survival[0]
        np.testing.assert_allclose(found, follow_patients(outcome, JUDGE.times), atol=0.002)


def test_with_news_at_ends_of_intervals_alone_it_is_scikit_survivals() -> None:
    """Then nobody is lost inside an interval, and nothing is left open."""
    risk, outcome = draw(np.random.default_rng(3), 600, 0.8, 1.0)
    ends = JUDGE.times[np.searchsorted(JUDGE.times, outcome[:, 1])]
    outcome[:, 1] = ends
    table = pooled(risk, outcome).table.pooled()
    # At the same time events come before losses.
    late = follow_incidence(table.events, table.others, table.through + table.left)
    np.testing.assert_allclose(
        1 - late.survival[0], follow_patients(outcome, JUDGE.times), atol=1e-12
    )


def naive_variance(events: Any, others: Any, stay: Any) -> Any:
    """Marubini and Valsecchi's variance, sum by sum."""
    alive, found, rows = 1.0, [], []
    total = 0.0
    for d, q, s in zip(events, others, stay, strict=True):
        n = d + q + s
        total += alive * d / n
        rows.append((d, q, n, alive))
        found.append(total)
        alive *= s / n
    variances = []
    for t in range(len(rows)):
        variance = 0.0
        for (d, q, n, before), own in zip(rows[: t + 1], found, strict=False):
            gap = found[t] - own
            if n > d + q:
                variance += gap**2 * (d + q) / (n * (n - d - q))
            variance += before**2 * d * (n - d) / n**3 - 2 * gap * before * d / n**2
        variances.append(variance)
    return np.array(found), np.array(variances)


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_is_that_of_the_naive_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    events, others = rng.integers(0, 4, 8).astype(float), rng.integers(0, 4, 8).astype(float)
    stay = 100 - np.cumsum(events + others) - np.cumsum(rng.integers(0, 3, 8))
    curve = follow_incidence(events, others, stay.astype(float))
    found, variances = naive_variance(events, others, stay)
    np.testing.assert_allclose(1 - curve.survival[1:], found, rtol=1e-12)
    np.testing.assert_allclose(
        curve.spread[1:] * (1 - found) ** 2, variances, rtol=1e-9, atol=1e-15
    )


def test_one_cause_alone_has_kaplan_and_meier_s_curve_and_greenwood_s_error() -> None:
    rng = np.random.default_rng(2)
    events, stay = rng.integers(0, 4, 8).astype(float), 90.0 - 7 * np.arange(8)
    from fedrulefit.core.families.survival import estimate_survival

    ours = follow_incidence(events, np.zeros(8), stay)
    theirs = estimate_survival(events, stay, np.zeros(8))
    np.testing.assert_allclose(ours.survival, theirs.survival, rtol=1e-12)
    np.testing.assert_allclose(ours.spread, theirs.spread, rtol=1e-9)


# --- concordance ------------------------------------------------------------------------------


def wolbers(risk: Any, outcome: Any) -> float:
    """Return the concordance over all pairs, patient by patient."""
    won = pairs = 0.0
    for i in np.flatnonzero(outcome[:, 2] == 1):
        later = (outcome[:, 1] > outcome[i, 1]) | (outcome[:, 2] == 2)
        later |= (outcome[:, 1] == outcome[i, 1]) & (outcome[:, 2] == 0)
        pairs += later.sum()
        won += (risk[later] < risk[i]).sum() + 0.5 * (risk[later] == risk[i]).sum()
    return won / pairs if pairs else np.nan


@settings(max_examples=100, deadline=None)
@given(patients())
def test_the_concordance_is_that_of_all_pairs_within_the_bound(made: Any) -> None:
    risk, outcome = made
    found = JUDGE.measure(pooled(risk, outcome))
    if np.isnan(found.concordance):
        return
    told = wolbers(risk[:, -1], outcome)
    assert abs(found.concordance - told) <= found.concordance_bound + 1e-12


def test_the_concordance_is_much_nearer_than_its_bound() -> None:
    for seed in range(3):
        risk, outcome = draw(np.random.default_rng(seed), 3000, 0.4, 1.0)
        found = JUDGE.measure(pooled(risk, outcome))
        assert abs(found.concordance - wolbers(risk[:, -1], outcome)) < 0.005


# --- Brier scores -----------------------------------------------------------------------------


def naive_brier(risk: Any, outcome: Any, horizon: float) -> float:
    """Return the score weighed by scikit-survival's chance to be under observation still."""
    time, cause = outcome[:, 1], outcome[:, 2]
    censoring = CensoringDistributionEstimator().fit(Surv.from_arrays(cause > 0, time))
    known = (time <= horizon) & (cause > 0)
    total = 0.0
    weights = censoring.predict_proba(np.nextafter(time, 0))  # before the event, ties aside
    for i in np.flatnonzero(known):
        total += ((cause[i] == 1) - risk[i]) ** 2 / weights[i]
    after = (time > horizon) | ((time == horizon) & (cause == 0) & (horizon == HORIZONS[-1]))
    kept = censoring.predict_proba(np.array([np.nextafter(horizon, 0)]))[0]
    return float((total + (risk[after] ** 2).sum() / kept) / len(risk))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(50, 300), st.floats(0.1, 2))
def test_brier_scores_by_each_horizon_lie_within_their_bounds(
    seed: int, n: int, base: float
) -> None:
    risk, outcome = draw(np.random.default_rng(seed), n, base, 1.0)
    found = score_by_horizon(pooled(risk, outcome))
    if found is None:
        return
    for k, horizon in enumerate(HORIZONS):
        told = naive_brier(risk[:, k], outcome, horizon)
        assert abs(found.brier[k] - told) <= found.bounds[k] + 1e-9


def test_brier_scores_and_risks_by_each_horizon_are_near() -> None:
    for seed in range(3):
        risk, outcome = draw(np.random.default_rng(seed), 3000, 0.5, 1.0)
        found = score_by_horizon(pooled(risk, outcome))
        assert found is not None
        observed = follow_patients(outcome, np.array(HORIZONS))
        for k, horizon in enumerate(HORIZONS):
            told = naive_brier(risk[:, k], outcome, horizon)
            assert found.brier[k] == pytest.approx(told, abs=0.003)
            assert found.observed[k] == pytest.approx(observed[k], abs=0.002)
            assert found.expected[k] == pytest.approx(risk[:, k].mean(), abs=0.001)


def test_without_censoring_brier_scores_are_mean_squared_errors() -> None:
    risk, outcome = draw(np.random.default_rng(4), 800, 0.5, 1.0, 1e9)
    found = score_by_horizon(pooled(risk, outcome))
    assert found is not None
    for k, horizon in enumerate(HORIZONS):
        came = (outcome[:, 1] <= horizon) & (outcome[:, 2] == 1)
        assert found.brier[k] == pytest.approx(((came - risk[:, k]) ** 2).mean(), abs=1e-3)


# --- calibration ------------------------------------------------------------------------------


def test_without_censoring_the_slope_is_that_of_fine_and_gray() -> None:
    """Their model is Cox's then, with who had a competing event followed to the end."""
    for seed, stretch in ((0, 1.0), (1, 0.5), (2, 2.0)):
        risk, outcome = draw(np.random.default_rng(seed), 1500, 0.5, 1.0, 1e9)
        given = -np.expm1(-np.exp(stretch * np.log(-np.log1p(-risk))))
        found = JUDGE.measure(pooled(given, outcome))
        time = np.where(outcome[:, 2] == 2, 5.0, outcome[:, 1])
        told = PHReg(time, to_log_hazard(given[:, -1])[:, None], status=outcome[:, 2] == 1).fit()
        assert found.slope == pytest.approx(told.params[0], abs=0.6 * told.bse[0])


def test_with_censoring_a_right_model_has_the_slope_that_it_has_without() -> None:
    slopes = []
    for loss in (1e9, 6.0):
        risk, outcome = draw(np.random.default_rng(7), 20000, 0.5, 1.0, loss)
        slopes.append(JUDGE.measure(pooled(risk, outcome)).slope)
    assert slopes[0] == pytest.approx(slopes[1], abs=0.06)


def test_a_right_model_observes_what_it_predicts() -> None:
    risk, outcome = draw(np.random.default_rng(8), 20000, 0.5, 1.0)
    found = JUDGE.measure(pooled(risk, outcome))
    assert found.ratio == pytest.approx(1.0, abs=0.03)
    assert found.ratio_low < 1 < found.ratio_high
    for group in JUDGE.groups(pooled(risk, outcome), 5):
        assert group.observed == pytest.approx(group.predicted, abs=0.03)


def test_taking_a_competing_event_for_the_end_of_follow_up_predicts_too_much() -> None:
    """What the naive model does: one minus the survival of a world without the other cause."""
    rng = np.random.default_rng(9)
    _, outcome = draw(rng, 5000, 0.8, 0.0)
    naive = np.full((5000, 2), -np.expm1(-0.8 * np.array(HORIZONS) / 5))
    found = JUDGE.measure(pooled(naive, outcome))
    assert found.ratio_high < 0.9
    alone = np.column_stack([outcome[:, :2], outcome[:, 2] == 1])
    own = TimeJudge((0.5, 1.0, 3.0), HORIZONS, unit="years")
    blind = own.measure(own.count(naive[:, -1], alone, np.ones(5000)))
    assert blind.ratio == pytest.approx(1.0, abs=0.05), "and does not see it"


def test_late_entry_leaves_the_slope_unknown_and_brier_scores_nearly_as_they_were() -> None:
    """Who came late had to survive until then, without any event: weights make up for it."""
    rng = np.random.default_rng(5)
    risk, outcome = draw(rng, 40000, 0.5, 1.0, 1e9)
    whole = score_by_horizon(pooled(risk, outcome))
    entry = np.where(rng.random(40000) < 0.4, rng.uniform(0, 1, 40000), 0.0)
    outcome[:, 0] = entry
    seen = outcome[:, 1] > entry
    late = pooled(risk[seen], outcome[seen])
    found = JUDGE.measure(late)
    assert np.isnan([found.slope, found.slope_low]).all()
    assert not np.isnan([found.concordance, found.ratio]).any()
    scores = score_by_horizon(late)
    assert scores is not None
    assert whole is not None
    np.testing.assert_allclose(scores.brier, whole.brier, atol=0.006)
    assert found.brier == scores.brier[-1]
