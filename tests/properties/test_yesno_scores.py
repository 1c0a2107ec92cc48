"""Measures from histograms agree with scikit-learn's on the patients, within the bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import brier_score_loss, confusion_matrix, log_loss, roc_auc_score

from fedrulefit.core.families.yesno_calibration import calibrate
from fedrulefit.core.families.yesno_measures import (
    FEWEST_RANKED,
    bin_means,
    calibration_groups,
    decide,
    discriminate,
)
from fedrulefit.core.families.yesno_sums import (
    EDGES,
    STEP,
    ScoreSums,
    add_scores,
    coarsen,
    count_scores,
)


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


def pooled(chance: Any, outcome: Any) -> ScoreSums:
    return count_scores(chance, outcome, np.ones(len(chance)))


@settings(max_examples=200, deadline=None)
@given(patients())
def test_federated_equals_pooled_equals_scikit_learn(made: Any) -> None:
    chance, outcome, sites = made
    parts = [pooled(chance[sites == s], outcome[sites == s]) for s in np.unique(sites)]
    together, alone = add_scores(parts), pooled(chance, outcome)
    for name in ScoreSums.quantities():
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
    found = discriminate(together)
    assert abs(found.auc - roc_auc_score(outcome, chance)) <= found.bound + 1e-12
    if min(outcome.sum(), (1 - outcome).sum()) >= FEWEST_RANKED:
        assert 0 <= found.low <= found.auc <= found.high <= 1
        assert found.low < found.high
    else:
        assert np.isnan([found.low, found.high]).all()
    n_rows = len(outcome)
    half = STEP / 2 + 1e-12
    assert together.squares / n_rows == pytest.approx(brier_score_loss(outcome, chance), abs=half)
    near = np.clip(chance, STEP, 1 - STEP)
    assert together.loss / n_rows == pytest.approx(log_loss(outcome, near), abs=half)
    assert together.chances / n_rows == pytest.approx(chance.mean(), abs=half)


@settings(max_examples=100, deadline=None)
@given(patients(), st.integers(0, 2**32 - 1))
def test_two_splits_of_the_same_patients_give_identical_totals(made: Any, seed: int) -> None:
    """With weights in units of 1/1024, as sites have them, no split can be told from another."""
    chance, outcome, sites = made
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 5000, len(chance)) / 1024
    for split in (rng.permutation(sites), rng.integers(7, size=len(sites))):
        parts = [
            count_scores(chance[split == s], outcome[split == s], weights[split == s])
            for s in np.unique(split)
        ]
        together = add_scores(parts)
        alone = count_scores(chance, outcome, weights)
        for name in ScoreSums.quantities():
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


@settings(max_examples=200, deadline=None)
@given(patients(), st.integers(1, 40), st.booleans())
def test_merged_bins_hold_enough_and_keep_within_the_bound(
    made: Any, least: int, each: bool
) -> None:
    chance, outcome, _ = made
    fine = pooled(chance, outcome)
    coarse = coarsen(fine, least, each=each)
    parts = [fine.cases, fine.others] if each else [fine.cases + fine.others]
    if min(part.sum() for part in parts) < least:
        assert coarse is None, "nothing but that they are too few"
        return
    assert coarse is not None
    merged = [coarse.cases, coarse.others] if each else [coarse.cases + coarse.others]
    assert min(part.min() for part in merged) >= least
    assert set(coarse.edges) <= set(EDGES)
    assert (coarse.chances, coarse.squares, coarse.loss) == (fine.chances, fine.squares, fine.loss)
    bins = np.searchsorted(coarse.edges, chance, side="right")
    np.testing.assert_array_equal(coarse.cases, np.bincount(bins, outcome, len(coarse.cases)))
    found = discriminate(coarse)
    assert abs(found.auc - roc_auc_score(outcome, chance)) <= found.bound + 1e-12
    assert found.bound >= discriminate(fine).bound - 1e-12


@settings(max_examples=100, deadline=None)
@given(patients())
def test_bin_means_lie_in_their_bins_and_add_up(made: Any) -> None:
    chance, outcome, _ = made
    sums = pooled(chance, outcome)
    means = bin_means(sums)
    ends = np.array([0, *EDGES, 1])
    assert ((ends[:-1] <= means) & (means <= ends[1:])).all()
    off = abs((sums.cases + sums.others) @ means - sums.chances)
    assert off <= len(chance) * STEP / 2 + 1e-6, "but for rounded predictions"


def test_a_model_that_gives_all_patients_one_probability_is_placed_right() -> None:
    """An edge is the worst place for a guess; the summed predictions put it there."""
    sums = pooled(np.full(200, 0.2), np.repeat([0.0, 1.0], [160, 40]))
    assert calibrate(sums).intercept == pytest.approx(0, abs=0.01)


@settings(max_examples=100, deadline=None)
@given(patients(), st.integers(0, len(EDGES) - 1))
def test_decisions_are_those_at_the_named_threshold(made: Any, edge: int) -> None:
    chance, outcome, _ = made
    found = decide(pooled(chance, outcome), edge)
    assert found.threshold == EDGES[edge]
    treated = chance >= found.threshold
    (tn, fp), (fn, tp) = confusion_matrix(outcome, treated, labels=[0, 1])
    assert found.sensitivity == pytest.approx(tp / (tp + fn))
    assert found.specificity == pytest.approx(tn / (tn + fp))
    assert found.ppv == pytest.approx(tp / (tp + fp) if tp + fp else np.nan, nan_ok=True)
    assert found.npv == pytest.approx(tn / (tn + fn) if tn + fn else np.nan, nan_ok=True)
    odds = found.threshold / (1 - found.threshold)
    assert found.net_benefit == pytest.approx((tp - odds * fp) / len(outcome))
    assert found.treat_all == pytest.approx((tp + fn - odds * (fp + tn)) / len(outcome))


def test_groups_hold_all_patients_and_their_means() -> None:
    rng = np.random.default_rng(1)
    chance = expit(rng.normal(size=1000))
    outcome = (rng.random(1000) < chance).astype(float)
    groups = calibration_groups(pooled(chance, outcome))
    assert 7 <= len(groups) <= 10
    mean, above, below, _, _, _, weight, cases = np.array([[*vars(g).values()] for g in groups]).T
    assert weight.sum() == 1000
    assert cases.sum() == outcome.sum()
    assert (np.diff(mean) > 0).all()
    assert (above[0], below[-1]) == (0, 1)
    assert (above[1:] == below[:-1]).all()
    inside = [((a <= chance) & (chance < b)).sum() for a, b in zip(above, below, strict=True)]
    assert weight.tolist() == inside
    np.testing.assert_allclose(weight, 100, atol=75)
    assert mean @ weight / 1000 == pytest.approx(chance.mean(), abs=STEP / 2)


@settings(max_examples=100, deadline=None)
@given(patients(), st.integers(1, 30))
def test_merged_bins_keep_the_means_that_were_told(made: Any, least: int) -> None:
    chance, outcome, _ = made
    fine = pooled(chance, outcome)
    coarse = coarsen(replace(fine, means=bin_means(fine)), least)
    if coarse is None:
        return
    means, weight = bin_means(coarse), coarse.cases + coarse.others
    assert ((coarse.ends[:-1] - 1e-12 <= means) & (means <= coarse.ends[1:] + 1e-12)).all()
    bins = np.searchsorted(coarse.edges, chance, side="right")
    truth = np.bincount(bins, chance, len(weight)) / weight
    widest = np.diff(EDGES, prepend=0, append=1).max()
    assert np.abs(means - truth).max() <= widest + 1e-9, "off by no more than in a fine bin"


def test_one_class_has_no_area() -> None:
    found = discriminate(pooled(np.array([0.2, 0.7]), np.ones(2)))
    assert np.isnan(found.auc)
    perfect = discriminate(pooled(np.array([0.2, 0.7]), np.array([0.0, 1.0])))
    assert (perfect.auc, perfect.bound) == (1, 0)


def test_scores_beyond_the_ends_are_counted() -> None:
    sums = pooled(np.array([0.0, 1.0, 1e-9]), np.array([0.0, 1.0, 0.0]))
    assert sums.others[0] == 2
    assert sums.cases[-1] == 1
    assert np.isfinite(sums.loss)
