"""Measures from histograms agree with scikit-learn's on the patients, within the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, confusion_matrix, log_loss, roc_auc_score

from fedrulefit.core import scores


@st.composite
def patients(draw: st.DrawFn) -> Any:
    """Scores, outcomes and sites of some patients; both classes are there."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(4, 400))
    score = rng.normal(draw(st.floats(-2, 2)), draw(st.floats(0.01, 6)), n_rows)
    outcome = (rng.random(n_rows) < expit(draw(st.floats(0, 2)) * score)).astype(float)
    outcome[:2] = 0, 1
    sites = rng.integers(draw(st.integers(1, 5)), size=n_rows)
    return expit(score), outcome, sites


def pooled(chance: Any, outcome: Any) -> scores.ScoreSums:
    return scores.count_scores(chance, outcome, np.ones(len(chance)))


@settings(max_examples=200, deadline=None)
@given(patients())
def test_federated_equals_pooled_equals_scikit_learn(made: Any) -> None:
    chance, outcome, sites = made
    parts = [pooled(chance[sites == s], outcome[sites == s]) for s in np.unique(sites)]
    together, alone = scores.add_scores(parts), pooled(chance, outcome)
    for name in ("cases", "others", "chances", "squares", "loss"):
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), atol=1e-9)
    found = scores.discriminate(together)
    assert abs(found.auc - roc_auc_score(outcome, chance)) <= found.bound + 1e-12
    assert found.low <= found.auc <= found.high
    n_rows = len(outcome)
    assert together.squares / n_rows == pytest.approx(brier_score_loss(outcome, chance))
    near = np.clip(chance, 1e-15, 1 - 1e-15)
    assert together.loss / n_rows == pytest.approx(log_loss(outcome, near), rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(patients(), st.integers(1, 40))
def test_merged_bins_hold_enough_and_keep_within_the_bound(made: Any, least: int) -> None:
    chance, outcome, _ = made
    fine = pooled(chance, outcome)
    coarse = scores.coarsen(fine, least)
    weight = coarse.cases + coarse.others
    assert weight[weight > 0].min() >= min(least, len(outcome))
    for name in ("cases", "others"):
        assert getattr(coarse, name).sum() == pytest.approx(getattr(fine, name).sum())
    for name in ("squares", "loss"):
        assert getattr(coarse, name) == pytest.approx(getattr(fine, name), rel=1e-3)
    found = scores.discriminate(coarse)
    assert abs(found.auc - roc_auc_score(outcome, chance)) <= found.bound + 1e-12
    assert found.bound >= scores.discriminate(fine).bound - 1e-12
    # A group stands where its own patients are, in their order.
    held = np.flatnonzero(weight)
    ends = np.cumsum(weight[held]).astype(int)
    ordered = np.split(np.sort(chance), ends[:-1])
    mean = coarse.chances[held] / weight[held]
    np.testing.assert_allclose(mean, [part.mean() for part in ordered], rtol=6e-3)


@settings(max_examples=100, deadline=None)
@given(patients(), st.floats(0.01, 0.99))
def test_decisions_are_those_at_the_named_threshold(made: Any, threshold: float) -> None:
    chance, outcome, _ = made
    found = scores.decide(pooled(chance, outcome), threshold)
    assert abs(logit(found.threshold) - logit(threshold)) <= 16 / 512 / 2 + 1e-9
    treated = chance >= found.threshold
    (tn, fp), (fn, tp) = confusion_matrix(outcome, treated, labels=[0, 1])
    assert found.sensitivity == pytest.approx(tp / (tp + fn))
    assert found.specificity == pytest.approx(tn / (tn + fp))
    assert found.ppv == pytest.approx(tp / (tp + fp) if tp + fp else np.nan, nan_ok=True)
    assert found.npv == pytest.approx(tn / (tn + fn) if tn + fn else np.nan, nan_ok=True)
    odds = found.threshold / (1 - found.threshold)
    assert found.net_benefit == pytest.approx((tp - odds * fp) / len(outcome))
    assert found.treat_all == pytest.approx((tp + fn - odds * (fp + tn)) / len(outcome))


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.5, 0.7), (1.6, -0.4)])
def test_calibration_agrees_with_a_logistic_regression(slope: float, shift: float) -> None:
    rng = np.random.default_rng(3)
    score = rng.normal(-0.5, 1.5, 4000)
    outcome = (rng.random(4000) < expit(slope * score + shift)).astype(float)
    found = scores.calibrate(pooled(expit(score), outcome))
    fitted = LogisticRegression(C=np.inf).fit(score[:, None], outcome)
    assert found.slope == pytest.approx(fitted.coef_[0, 0], abs=2e-3)
    x = np.column_stack([score, np.ones_like(score)])
    p = expit(fitted.coef_[0, 0] * score + fitted.intercept_[0])
    covariance = np.linalg.inv((x.T * (p * (1 - p))) @ x)
    assert found.slope_error == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-2)
    assert found.observed == pytest.approx(outcome.mean())
    assert found.expected == pytest.approx(expit(score).mean())
    # In the large: with the scores as they are, observed and expected agree.
    assert expit(score + found.intercept).mean() == pytest.approx(outcome.mean(), abs=2e-4)


def test_delong_s_interval_is_that_of_the_patients() -> None:
    """Oracle: DeLong's variance by its definition, over all pairs."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=300)
    outcome = (rng.random(300) < expit(1.2 * score)).astype(float)
    wins = (score[outcome == 1][:, None] > score[outcome == 0]).astype(float)
    v10, v01 = wins.mean(axis=1), wins.mean(axis=0)
    error = np.sqrt(v10.var(ddof=1) / len(v10) + v01.var(ddof=1) / len(v01))
    auc = wins.mean()
    wide = 1.959964 * error / (auc * (1 - auc))
    found = scores.discriminate(pooled(expit(score), outcome))
    assert (found.low, found.high) == pytest.approx(
        (expit(logit(auc) - wide), expit(logit(auc) + wide)), abs=1e-3
    )


def test_intervals_cover_as_often_as_they_say() -> None:
    """300 samples with a fixed seed; the true area is known from a large one."""
    rng = np.random.default_rng(7)

    def draw(n: int) -> Any:
        score = rng.normal(size=n)
        return expit(score), (rng.random(n) < expit(1.5 * score)).astype(float)

    truth = scores.discriminate(pooled(*draw(400_000))).auc
    hits = [found.low <= truth <= found.high for found in
            (scores.discriminate(pooled(*draw(200))) for _ in range(300))]  # fmt: skip
    assert 0.91 <= np.mean(hits) <= 0.99


def test_groups_hold_all_patients_and_their_means() -> None:
    rng = np.random.default_rng(1)
    chance = expit(rng.normal(size=1000))
    outcome = (rng.random(1000) < chance).astype(float)
    groups = scores.calibration_groups(pooled(chance, outcome))
    assert len(groups) == 10
    assert groups[:, 2].sum() == 1000
    assert groups[:, 3].sum() == outcome.sum()
    assert (np.diff(groups[:, 0]) > 0).all()
    np.testing.assert_allclose(groups[:, 2], 100, atol=12)
    assert groups[:, 0] @ groups[:, 2] == pytest.approx(chance.sum())


def test_one_class_has_no_area() -> None:
    found = scores.discriminate(pooled(np.array([0.2, 0.7]), np.ones(2)))
    assert np.isnan(found.auc)
    perfect = scores.discriminate(pooled(np.array([0.2, 0.7]), np.array([0.0, 1.0])))
    assert (perfect.auc, perfect.low, perfect.high, perfect.bound) == (1, 1, 1, 0)


def test_scores_beyond_the_ends_are_counted() -> None:
    sums = pooled(np.array([0.0, 1.0, 1e-9]), np.array([0.0, 1.0, 0.0]))
    assert sums.others[0] == 2
    assert sums.cases[-1] == 1
    assert np.isfinite(sums.loss)
