"""Discrimination within hospitals: against all pairs of patients of one hospital."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom

from fedrulefit.core.families.yesno_measures import discriminate, estimate_area, measure
from fedrulefit.core.families.yesno_sums import EDGES, count_scores
from fedrulefit.core.families.yesno_within import (
    AREA_STEP,
    DOUBT_STEP,
    NOBODY,
    Within,
    WithinSums,
    measure_within,
    place_within,
    tell_within,
)
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.shares import Z95
from fedrulefit.core.sums import Packing
from fedrulefit.model.evaluation import Evaluation

LEAST = 5


def draw(seed: int, n_sites: int, n_rows: int, apart: float = 2.0) -> Any:
    """Draw patients of hospitals that differ by `apart`, and little else."""
    rng = np.random.default_rng(seed)
    site = rng.integers(n_sites, size=n_rows)
    score = apart * (site / n_sites - 0.5) + rng.normal(0, 0.5, n_rows)
    return expit(score), (rng.random(n_rows) < expit(score)).astype(float), site


def area_of_pairs(scores: Any, outcome: Any) -> float:
    """The naive twin: over all pairs of a case and another patient, ties half."""
    cases, others = scores[outcome == 1], scores[outcome == 0]
    above = cases[:, None] > others
    return float((above + 0.5 * (cases[:, None] == others)).mean())


def add_within(parts: Any) -> Within:
    placed = [place_within(part, LEAST) for part in parts]
    total = WithinSums(*np.sum([list(vars(part).values()) for part in placed], axis=0).tolist())
    found = measure_within(total)
    assert found is not None
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(20, 600))
def test_it_is_the_mean_of_the_hospitals_own_areas(seed: int, n_sites: int, n_rows: int) -> None:
    chance, outcome, site = draw(seed, n_sites, n_rows)
    found = Evaluation.of_predictions(chance, outcome, sites=site).within
    cases, areas, bounds, told = [], [], [], []
    for s in range(n_sites):
        own, scores = outcome[site == s], chance[site == s]
        if min(own.sum(), (1 - own).sum()) >= LEAST:
            sums = count_scores(scores, own, np.ones(len(own)))
            cases.append(LEAST * (own.sum() // LEAST))
            areas.append(area_of_pairs(scores, own))
            bounds.append(2 * discriminate(sums).bound)
            told.append(estimate_area(sums))
    if len(cases) < 2:
        assert found is None, "one hospital's own area is not told"
        return
    assert found is not None
    assert (found.sites, found.cases) == (len(cases), sum(cases))
    assert found.auc == pytest.approx(np.average(told, weights=cases), abs=AREA_STEP / 2)
    bound = np.average(bounds, weights=cases) + AREA_STEP / 2
    assert found.auc == pytest.approx(np.average(areas, weights=cases), abs=bound)
    assert found.auc_low <= found.auc <= found.auc_high


def test_a_model_that_knows_the_hospital_only_is_told_as_such() -> None:
    """Pooled .71, within hospitals .5 to .6, and nothing said so."""
    chance, outcome, site = draw(1, 4, 4000, apart=4.0)
    flat = expit(4.0 * (site / 4 - 0.5))
    found = Evaluation.of_predictions(flat, outcome, sites=site)
    assert found.total.auc > 0.7
    assert found.within is not None
    assert found.within.auc == 0.5
    assert "tells hospitals apart, not patients" in found.words()
    frame = found.metrics_frame()
    assert frame.loc[0, "within_auc"] == 0.5
    assert frame["within_auc"].isna().tolist() == [False, True, True, True, True]
    alone = Evaluation.of_predictions(flat, outcome)
    assert "hospital" not in alone.words()
    assert "within_auc" not in alone.metrics_frame()
    same = Evaluation.of_predictions(chance, outcome, sites=np.zeros(4000))
    assert same.within is None


def test_words_say_when_pooling_hides_what_the_model_can_do() -> None:
    """Hospitals whose patients fare better than the model knows pull the pooled AUC down."""
    found = measure(count_scores(*draw(2, 1, 1000)[:2], np.ones(1000)))
    within = Within(3, 100, found.auc + 0.1, found.auc + 0.05, found.auc + 0.13)
    assert "in ways that the model does not know" in tell_within(found, within)
    hidden = Within(3, 100, found.auc + 0.02, found.auc + 0.01, found.auc + 0.03)
    assert found.auc_bound > 0.02
    assert tell_within(found, hidden).endswith("3 hospitals."), "bins may hide as much"
    near = Within(3, 100, found.auc, found.auc - 0.05, found.auc + 0.05)
    assert tell_within(found, near).endswith("3 hospitals.")


def test_few_patients_add_nothing_and_others_in_coarse_steps() -> None:
    chance, outcome, _ = draw(3, 1, 300)
    cases, others = np.flatnonzero(outcome == 1), np.flatnonzero(outcome == 0)

    def place(n_cases: int, n_others: int, least: float = LEAST) -> WithinSums:
        rows = np.concatenate([cases[:n_cases], others[:n_others]])
        return place_within(count_scores(chance[rows], outcome[rows], np.ones(len(rows))), least)

    assert place(4, 60) == NOBODY == place(60, 4) == place(60, 60, math.inf)
    for n_cases in range(20, 25):
        placed = place(n_cases, 60)
        assert placed.cases == 20, "whole multiples of the smallest count"
        assert placed.placed / 20 % AREA_STEP == 0
        assert placed.doubts / 20 % DOUBT_STEP == 0
    assert place(24, 60, 10.0).cases == 20


def test_many_hospitals_give_the_same_totals() -> None:
    """Two hospitals' sums are one of very many pairs that could be: none is told apart."""
    chance, outcome, site = draw(4, 2, 500)
    parts = [
        place_within(
            count_scores(chance[site == s], outcome[site == s], np.ones((site == s).sum())), 5
        )
        for s in (0, 1)
    ]
    cases, placed = (
        round(sum(getattr(p, n) for p in parts) / 5 * u) for n, u in (("cases", 1), ("placed", 256))
    )
    fits = 0
    for first in range(1, cases):
        for area in range(128, 257):
            rest, over = divmod(placed - first * area, cases - first)
            fits += over == 0 and 128 <= rest <= 256
    assert fits > 50


def test_the_sums_travel_exactly() -> None:
    packing = Packing(WithinSums)
    sums = WithinSums(1.0, 25.0, 25 * 0.75, 25 * 17 / 32)
    assert vars(packing.read(packing.round(sums))) == vars(sums)


def test_the_interval_is_where_the_area_is_not_far() -> None:
    for auc in (0.0, 0.3, 0.5, 0.8, 1.0):
        found = measure_within(WithinSums(3, 60, 60 * auc, 60 * 60 * 0.02))
        assert found is not None
        for end in (found.auc_low, found.auc_high):
            g = (1 - end) / (2 - end) + end / (1 + end)
            off = Z95 * math.sqrt(end * (1 - end) * g * 0.02)
            assert abs(auc - end) == pytest.approx(off, abs=1e-9)
        assert found.auc_low < found.auc_high
    perfect = measure_within(WithinSums(2, 10, 10, 100 * 0.1))
    assert perfect is not None
    assert perfect.auc_low < 0.9, "ten cases do not make it certain"


def test_what_is_published_is_rounded_and_rests_on_enough() -> None:
    found = Within(3, 57, 0.71234, 0.61234, 0.81234)
    assert found.rounded(EXACT, 1.0) == Within(3, 57, 0.712, 0.612, 0.812)
    assert found.rounded(Rounding(5, 10), 1.0) == Within(3, 55, 0.712, 0.612, 0.812)
    assert found.rounded(Rounding(5, 60), 1.0) is None


@pytest.mark.parametrize(
    "changes",
    [{"sites": 1}, {"cases": 0.0}, {"auc_low": 0.8}, {"auc_high": 1.1}, {"auc": math.nan}],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="hospitals"):
        replace(Within(2, 20, 0.7, 0.6, 0.8), **changes)


def test_the_interval_covers_as_often_as_it_says() -> None:
    """A correct interval of 95 % (or of 92.5 %) fails fewer than once in a million times."""
    rng, draws, held = np.random.default_rng(7), 600, 0
    for _ in range(draws):
        parts = []
        for n_rows in (60, 100, 150, 400):
            outcome = (np.arange(n_rows) < n_rows // 8).astype(float)
            chance = expit(-2 + rng.normal(size=n_rows) + 1.19 * outcome)
            parts.append(count_scores(chance, outcome, np.ones(n_rows)))
        found = add_within(parts)
        held += found.auc_low <= 0.8 <= found.auc_high
    least = 0.925
    assert held >= binom.ppf(1e-6, draws, least)


def draw_rare(rng: Any, n_rows: int, n_cases: int) -> Any:
    """Draw a hospital where the outcome is rare; the AUC is .95, nearly all in the first bins."""
    outcome = (np.arange(n_rows) < n_cases).astype(float)
    width = math.sqrt(2) * 1.6448536
    score = -4.6 - width**2 / 2 + width * rng.normal(size=n_rows) + width**2 * outcome
    return expit(score), outcome


def test_where_the_outcome_is_rare_bins_hide_the_order_and_it_is_made_up_for() -> None:
    """Regression: the mean of the areas of bins was told, .013 to .019 too low."""
    chance, outcome = draw_rare(np.random.default_rng(5), 40_000, 400)
    sums = count_scores(chance, outcome, np.ones(len(chance)))
    area = area_of_pairs(chance, outcome)
    assert area_of_pairs(np.searchsorted(EDGES, chance, side="right"), outcome) < area - 0.01
    assert add_within([sums, sums]).auc == pytest.approx(area, abs=0.004)


def test_the_interval_covers_where_the_outcome_is_rare() -> None:
    """It held in 76 of 100; one that holds in 92.5 % fails fewer than once in a million times."""
    rng, draws, held = np.random.default_rng(8), 300, 0
    for _ in range(draws):
        found = add_within([count_scores(*draw_rare(rng, n, 25), np.ones(n)) for n in (900, 1500)])
        held += found.auc_low <= 0.95 <= found.auc_high
    assert held >= binom.ppf(1e-6, draws, 0.925)
