"""Measures of several levels agree with scikit-learn's on the patients, within the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from fedrulefit.core.families.levels_judge import LevelsJudge
from fedrulefit.core.families.levels_sums import LevelsSums
from fedrulefit.core.families.yesno_sums import EDGES, STEP

HALF = STEP / 2 + 1e-12


@st.composite
def patients(draw: st.DrawFn) -> Any:
    """Probabilities, levels and sites of some patients; every level is there."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_levels = draw(st.integers(3, 6))
    n_rows = draw(st.integers(n_levels, 300))
    score = rng.normal(size=(n_rows, n_levels)) * draw(st.floats(0.01, 5))
    chance = softmax(score, axis=1)
    truth = softmax(draw(st.floats(0, 2)) * score, axis=1)
    level = np.array([rng.choice(n_levels, p=p) for p in truth]).astype(float)
    level[:n_levels] = np.arange(n_levels)
    return chance, level, rng.integers(draw(st.integers(1, 5)), size=n_rows)


def make_judge(chance: Any, *, ordered: bool) -> LevelsJudge:
    return LevelsJudge([f"level {k}" for k in range(chance.shape[1])], ordered=ordered)


def pooled(judge: LevelsJudge, chance: Any, level: Any) -> LevelsSums:
    return judge.count(chance, level, np.ones(len(chance)))


@settings(max_examples=100, deadline=None)
@given(patients(), st.booleans())
def test_federated_equals_pooled_equals_scikit_learn(made: Any, ordered: bool) -> None:
    chance, level, sites = made
    judge = make_judge(chance, ordered=ordered)
    packing = judge.packing()
    parts = [pooled(judge, chance[sites == s], level[sites == s]) for s in np.unique(sites)]
    alone = pooled(judge, chance, level)
    together = packing.read(np.sum([packing.round(part) for part in parts], axis=0))
    for name in LevelsSums.quantities():
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
        np.testing.assert_array_equal(getattr(judge.add(parts), name), getattr(alone, name))
    found = judge.measure(together)
    n_levels = chance.shape[1]
    counts = np.bincount(level.astype(int), minlength=n_levels)
    assert together.held.tolist() == counts.tolist()
    assert (found.patients, found.rarest) == (len(level), counts.min())
    one_hot, above = np.eye(n_levels)[level.astype(int)], level[:, None] >= np.arange(1, n_levels)
    up = np.minimum(np.cumsum(chance[:, ::-1], axis=1)[:, ::-1][:, 1:], 1)
    if ordered:
        areas = [roc_auc_score(y, p) for y, p in zip(above.T, up.T, strict=True)]
        auc = np.mean(areas)
        assert found.rps == pytest.approx(((up - above) ** 2).sum(1).mean(), abs=n_levels * HALF)
    else:
        auc = roc_auc_score(level, chance / chance.sum(1)[:, None], multi_class="ovr")
        assert np.isnan(found.rps)
    assert abs(found.auc - auc) <= found.auc_bound + 1e-12
    assert np.isnan(found.auc_low) == (counts.min() < 2)
    assert not found.auc_low > found.auc
    near = np.clip(chance[np.arange(len(level)), level.astype(int)], STEP, 1)
    assert found.log_loss == pytest.approx(-np.log(near).mean(), abs=HALF)
    assert found.brier == pytest.approx(((chance - one_hot) ** 2).sum(1).mean(), abs=HALF)
    shares = counts / counts.sum()
    none = log_loss(level, np.tile(shares, (len(level), 1)))
    assert found.explained == pytest.approx(1 - found.log_loss / none, abs=1e-9)
    for row, y, p in zip(
        judge.levels_of(together), *((above.T, up.T) if ordered else (one_hot.T, chance.T)),
        strict=True,
    ):  # fmt: skip
        assert row.observed == pytest.approx(y.mean())
        assert row.expected == pytest.approx(p.mean(), abs=HALF)
        assert abs(row.auc - roc_auc_score(y, p)) <= row.auc_bound + 1e-12
    squares = [brier_score_loss(y, p) for y, p in zip(one_hot.T, chance.T, strict=True)]
    if not ordered:
        np.testing.assert_allclose(together.squares / len(level), squares, atol=HALF)


@settings(max_examples=60, deadline=None)
@given(patients(), st.booleans(), st.integers(0, 2**32 - 1))
def test_two_splits_of_the_same_patients_give_identical_bytes(
    made: Any, ordered: bool, seed: int
) -> None:
    chance, level, sites = made
    rng, judge = np.random.default_rng(seed), make_judge(chance, ordered=ordered)
    weights, packing = rng.integers(1, 5000, len(chance)) / 1024, judge.packing()
    found = set()
    for owner in (sites, rng.permutation(sites), np.zeros(len(sites))):
        parts = [
            packing.round(judge.count(chance[owner == s], level[owner == s], weights[owner == s]))
            for s in np.unique(owner)
        ]
        found.add(np.sum(parts, axis=0).tobytes())
    assert len(found) == 1


@settings(max_examples=60, deadline=None)
@given(patients(), st.booleans())
def test_no_patient_adds_more_than_is_declared(made: Any, ordered: bool) -> None:
    """Of weight 1; the formulas' bounds stand in the declarations."""
    chance, level, _ = made
    judge = make_judge(chance, ordered=ordered)
    most = {"log_odds": 16.0, "odds_squares": 256.0, "log_loss": 7.0, "brier": 2.0}
    for i in range(min(len(chance), 5)):
        one = judge.count(chance[i : i + 1], level[i : i + 1], np.ones(1))
        for name, told in LevelsSums.quantities().items():
            largest = np.abs(getattr(one, name)).max()
            assert largest <= most.get(name, 1.0)
            assert told.most == (f"{most[name]:g}·w" if name in most else "w")


@settings(max_examples=60, deadline=None)
@given(patients(), st.booleans(), st.integers(1, 40), st.booleans())
def test_merged_bins_hold_enough(made: Any, ordered: bool, least: int, each: bool) -> None:
    chance, level, _ = made
    judge = make_judge(chance, ordered=ordered)
    fine = pooled(judge, chance, level)
    coarse = judge.coarsen(fine, least, each=each)
    if coarse is None:
        assert (fine.held.min() if each else fine.total) < least
        return
    for split, before in zip(coarse.splits, fine.splits, strict=True):
        sides = [split.cases, split.others] if each else [split.cases + split.others]
        assert min(side.min() for side in sides) >= least
        assert set(split.edges) <= set(EDGES)
        assert (split.n_cases, split.n_others) == (before.n_cases, before.n_others)
    assert judge.measure(coarse).log_loss == judge.measure(fine).log_loss
    assert judge.measure(coarse).auc_bound >= judge.measure(fine).auc_bound - 1e-12
    groups = judge.groups(coarse, 10)
    for k, name in enumerate(dict.fromkeys(group.level for group in groups)):
        own = [group for group in groups if group.level == name]
        assert sum(group.patients for group in own) == len(level)
        assert sum(group.events for group in own) == coarse.splits[k].n_cases
