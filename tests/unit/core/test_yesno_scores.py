"""Measures by hand. Comparison with scikit-learn: ``tests/properties/test_yesno_scores.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from fedrulefit.core.families import yesno_measures, yesno_sums
from fedrulefit.core.families.yesno_measures import (
    Group,
    Measures,
    bin_means,
    calibrate,
    calibration_groups,
    decide,
    discriminate,
    measure,
)
from fedrulefit.core.families.yesno_sums import EDGES, STEP, ScoreSums, coarsen, count_scores
from fedrulefit.core.rounding import round_to

NAN = float("nan")


def make_sums(cases: Any, others: Any, edges: Any = (0.2, 0.5), **facts: Any) -> ScoreSums:
    defaults = {"chances": 3.0, "squares": 2.0, "loss": 4.0, **facts}
    return ScoreSums(
        np.asarray(cases, float), np.asarray(others, float), edges=np.asarray(edges), **defaults
    )


def test_the_bins_are_frozen() -> None:
    """Sums of versions with other edges must not be added."""
    assert EDGES.tolist() == [
        0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35,
        0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98,
    ]  # fmt: skip
    assert yesno_sums.N_BINS == 25
    assert STEP == 1 / 1024
    assert pytest.approx(1.959963984540054) == yesno_measures.Z95


def test_scores_are_counted_by_hand() -> None:
    """Bin b holds EDGES[b − 1] ≤ p < EDGES[b]: 0.2 opens bin 12, 0.98 the last, 24."""
    chance = np.array([0.0, 0.2, 0.1999, 0.98, 1.0, 0.5])
    outcome, weights = np.array([0, 1, 0, 1, 0, 1.0]), np.array([1, 2, 3, 4, 5, 6.0])
    found = count_scores(chance, outcome, weights)
    assert {b: n for b, n in enumerate(found.cases) if n} == {12: 2, 24: 4, 17: 6}
    assert {b: n for b, n in enumerate(found.others) if n} == {0: 1, 11: 3, 24: 5}
    assert (found.n_cases, found.n_others, found.total) == (12, 9, 21)
    rounded = [round(p * 1024) / 1024 for p in chance]
    assert found.chances == pytest.approx(float(weights @ rounded), abs=1e-12)
    squares = [round((p - y) ** 2 * 1024) / 1024 for p, y in zip(chance, outcome, strict=True)]
    assert found.squares == pytest.approx(float(weights @ squares), abs=1e-12)
    near = np.clip(chance, 1 / 1024, 1023 / 1024)
    losses = [-np.log(p) if y else -np.log(1 - p) for p, y in zip(near, outcome, strict=True)]
    expected = weights @ [round(loss * 1024) / 1024 for loss in losses]
    assert found.loss == pytest.approx(expected, abs=1e-12)
    assert losses[4] == pytest.approx(np.log(1024))


def test_ends_of_bins() -> None:
    assert make_sums([1, 1, 1], [1, 1, 1]).ends.tolist() == [0, 0.2, 0.5, 1]


# --- merging --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "edges", "cases", "others"),
    [
        # In all 3, 5, 2, 6 patients, of whom 1, 4, 0, 5 are cases.
        (0, [0.1, 0.2, 0.5], [1, 4, 0, 5], [2, 1, 2, 1]),
        (2, [0.1, 0.2, 0.5], [1, 4, 0, 5], [2, 1, 2, 1]),
        (3, [0.1, 0.2], [1, 4, 5], [2, 1, 3]),
        (5, [0.2], [5, 5], [3, 3]),
        (8, [0.2], [5, 5], [3, 3]),  # exactly enough on either side
        (9, [], [10], [6]),
        (16, [], [10], [6]),
    ],
)
def test_bins_are_merged_from_the_left(
    least: float, edges: list[float], cases: list[float], others: list[float]
) -> None:
    sums = make_sums([1, 4, 0, 5], [2, 1, 2, 1], edges=(0.1, 0.2, 0.5))
    found = coarsen(sums, least)
    assert found is not None
    assert found.edges.tolist() == edges
    assert found.cases.tolist() == cases
    assert found.others.tolist() == others
    assert (found.chances, found.squares, found.loss) == (3, 2, 4)
    assert coarsen(sums, 16.5) is None


def test_merging_can_ask_for_cases_and_others_each() -> None:
    sums = make_sums([1, 4, 0, 5], [2, 1, 2, 1], edges=(0.1, 0.2, 0.5))
    found = coarsen(sums, 3, each=True)
    assert found is not None
    assert found.edges.tolist() == [0.2]
    assert coarsen(sums, 6, each=True) is not None
    assert coarsen(sums, 6.5, each=True) is None  # six others in all
    assert coarsen(sums, 6.5) is not None


def test_merged_means_are_weighted_and_an_empty_bin_has_none() -> None:
    sums = make_sums(
        [1, 3, 0, 2], [1, 1, 0, 0], edges=(0.1, 0.2, 0.5), means=np.array([0.05, 0.15, 0.3, 0.9])
    )
    found = coarsen(sums, 6)
    assert found is not None
    assert found.means is not None
    assert found.means.tolist() == [pytest.approx((2 * 0.05 + 4 * 0.15 + 2 * 0.9) / 8)]
    two = coarsen(sums, 2)
    assert two is not None
    assert two.means is not None
    np.testing.assert_allclose(two.means, [0.05, 0.15, 0.9])
    empty = coarsen(make_sums([0, 1], [0, 1], edges=(0.5,), means=np.array([0.1, 0.7])), 0)
    assert empty is not None
    assert empty.means is not None
    assert empty.means.tolist() == [0, 0.7]


# --- where predictions lie in a bin ---------------------------------------------------------


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.9, 0.999])
def test_means_lie_at_the_same_share_of_every_bin(share: float) -> None:
    sums = make_sums([1, 2, 0], [2, 1, 4])
    expected = np.array([0.2 * share, 0.2 + 0.3 * share, 0.5 + 0.5 * share])
    weight = sums.cases + sums.others
    found = bin_means(replace(sums, chances=float(weight @ expected)))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_means_beyond_what_the_bins_allow_are_their_ends() -> None:
    sums = make_sums([1, 2, 0], [2, 1, 4])
    np.testing.assert_allclose(bin_means(replace(sums, chances=0.0)), [0, 0.2, 0.5], atol=1e-12)
    np.testing.assert_allclose(bin_means(replace(sums, chances=99.0)), [0.2, 0.5, 1], atol=1e-12)
    told = replace(sums, means=np.array([0.1, 0.3, 0.7]))
    assert bin_means(told).tolist() == [0.1, 0.3, 0.7]


# --- discrimination ---------------------------------------------------------------------------


def test_an_area_by_hand() -> None:
    """Cases 1, 1, 2 and others 3, 1, 0: pairs won are 1·0, 1·3, 2·4; ties 3 and 1 count half."""
    found = discriminate(make_sums([1, 1, 2], [3, 1, 0]))
    assert found.auc == pytest.approx((0 + 3 + 8 + (3 + 1) / 2) / 16)
    assert found.bound == pytest.approx((3 + 1) / 2 / 16)
    # DeLong: variance of the cases' places among the others, and of the others' among the cases.
    v_cases = np.var([1.5 / 4, 3.5 / 4, 1, 1], ddof=1) / 4
    v_others = np.var([3.5 / 4] * 3 + [2.5 / 4], ddof=1) / 4
    wide = yesno_measures.Z95 * np.sqrt(v_cases + v_others) / (found.auc * (1 - found.auc))
    assert found.low == pytest.approx(expit(logit(found.auc) - wide))
    assert found.high == pytest.approx(expit(logit(found.auc) + wide))


@pytest.mark.parametrize(
    ("cases", "others", "auc"), [([0, 0, 1], [1, 0, 0], 1), ([1, 0], [0, 1], 0)]
)
def test_an_area_of_one_or_none_has_no_width(cases: Any, others: Any, auc: float) -> None:
    found = discriminate(make_sums(cases, others, edges=[0.5] if len(cases) == 2 else [0.2, 0.5]))
    assert (found.auc, found.low, found.high, found.bound) == (auc, auc, auc, 0)


@pytest.mark.parametrize(("cases", "others"), [([0, 0, 0], [1, 1, 1]), ([1, 0, 0], [0, 0, 0])])
def test_one_class_has_no_area(cases: Any, others: Any) -> None:
    assert np.isnan(discriminate(make_sums(cases, others)).auc)


def test_few_weights_have_no_variance_below_that_of_two() -> None:
    """One patient of each class: divided by 1, not by 0."""
    found = discriminate(make_sums([1, 0, 0.5], [0, 1, 0]))
    assert np.isfinite([found.low, found.high]).all()


# --- calibration ------------------------------------------------------------------------------


def test_calibration_by_hand() -> None:
    """Two bins and two coefficients: the fit goes through both observed log-odds."""
    sums = make_sums([10, 60], [90, 40], edges=[0.5], means=np.array([0.2, 0.7]), chances=90.0)
    found = calibrate(sums)
    x, y = logit(np.array([0.2, 0.7])), logit(np.array([0.1, 0.6]))
    slope = (y[1] - y[0]) / (x[1] - x[0])
    assert found.slope == pytest.approx(slope, rel=1e-9)
    # Var(y) of a group of 100 is 1/(100·p·(1 − p)).
    errors = 1 / np.sqrt([9.0, 24.0])
    assert found.slope_error == pytest.approx(np.hypot(*errors) / (x[1] - x[0]), rel=1e-6)
    assert (found.observed, found.expected) == (70 / 200, 90 / 200)
    shifted = expit(x + found.intercept)
    assert 100 * shifted.sum() == pytest.approx(70, rel=1e-9)
    weights = 100 * shifted * (1 - shifted)
    assert found.intercept_error == pytest.approx(1 / np.sqrt(weights.sum()), rel=1e-6)


def test_predictions_of_zero_and_one_have_finite_log_odds() -> None:
    ends = make_sums([10, 60], [90, 40], edges=[0.5], means=np.array([0.0, 1.0]), chances=90.0)
    near = replace(ends, means=np.array([1 / 1024, 1023 / 1024]))
    assert calibrate(ends).slope == calibrate(near).slope
    assert np.isfinite(calibrate(ends).slope)


def test_calibration_without_an_answer_is_nan() -> None:
    one_score = calibrate(make_sums([5, 0], [5, 0], edges=[0.5], means=np.array([0.3, 0.7])))
    assert np.isnan([one_score.slope, one_score.slope_error]).all()
    assert one_score.intercept == pytest.approx(-logit(0.3))
    one_class = calibrate(make_sums([5, 5], [0, 0], edges=[0.5], means=np.array([0.3, 0.7])))
    assert np.isnan([one_class.slope, one_class.intercept]).all()


def tell_group(group: Group) -> list[float]:
    """Return a group without its interval."""
    return [group.predicted, group.above, group.below, group.observed, group.patients, group.events]


def test_groups_by_hand() -> None:
    """Weights 1, 3, 2, 2 in four bins, for two groups: the middles are 1/16, 5/16, 10/16, 14/16."""
    sums = make_sums(
        [1, 1, 0, 2], [0, 2, 2, 0], edges=(0.1, 0.4, 0.6), means=np.array([0.05, 0.3, 0.5, 0.9])
    )
    np.testing.assert_allclose(
        [tell_group(group) for group in calibration_groups(sums, 2)],
        [[(0.05 + 0.9) / 4, 0.0, 0.4, 2 / 4, 4, 2], [(1.0 + 1.8) / 4, 0.4, 1.0, 2 / 4, 4, 2]],
    )
    (one,) = calibration_groups(sums, 1)
    assert tell_group(one) == [pytest.approx(3.75 / 8), 0.0, 1.0, 0.5, 8, 4]
    assert len(calibration_groups(sums)) == 4
    empty = make_sums([1, 0, 1], [1, 0, 1], means=np.array([0.1, 0.3, 0.9]))
    assert [group.patients for group in calibration_groups(empty, 3)] == [2, 2]


# --- all measures -----------------------------------------------------------------------------


def test_means_and_intervals_of_all_measures() -> None:
    sums = make_sums(
        [10, 60], [90, 40], edges=[0.5], means=np.array([0.2, 0.7]), chances=90.0, squares=30.0,
        loss=110.0,
    )  # fmt: skip
    found, fit = measure(sums), calibrate(sums)
    assert (found.patients, found.events) == (200, 70)
    assert (found.brier, found.log_loss) == (0.15, 0.55)
    assert found.slope_low == fit.slope - yesno_measures.Z95 * fit.slope_error
    assert found.slope_high == fit.slope + yesno_measures.Z95 * fit.slope_error
    assert found.intercept_low == fit.intercept - yesno_measures.Z95 * fit.intercept_error
    assert found.intercept_high == fit.intercept + yesno_measures.Z95 * fit.intercept_error


GOOD = Measures(
    patients=100, events=40, auc=0.8, auc_low=0.7, auc_high=0.9, auc_bound=0.01, brier=0.2,
    log_loss=0.5, slope=1.0, slope_low=0.8, slope_high=1.2, intercept=0.0, intercept_low=-0.1,
    intercept_high=0.1, observed=0.4, expected=0.41,
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {name: value}
        for name in ("auc", "auc_low", "auc_high", "auc_bound", "brier", "observed", "expected")
        for value in (-2e-6, 1 + 2e-6)
    ]
    + [{"events": -2e-6}, {"events": 100 + 2e-6}, {"log_loss": -2e-6}]
    + [
        {f"{name}_{end}": value}
        for name, low, high in (("auc", 0.79, 0.81), ("slope", 0.9, 1.1), ("intercept", -0.1, 0.1))
        for end, value in (("low", high), ("high", low))
    ],
)
def test_measures_that_cannot_be_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a measure"):
        replace(GOOD, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"brier": -0.5e-6}, {"brier": 1 + 0.5e-6}, {"auc_low": 0.8}, {"auc_high": 0.8},
        {"events": 0.0}, {"events": 100.0}, {"events": 100 + 0.5e-6}, {"log_loss": 0.0},
        {"slope": NAN, "slope_low": NAN, "slope_high": NAN}, {"brier": 0.0}, {"expected": 1.0},
        {"slope_low": 1.0, "slope_high": 1.0}, {"log_loss": -0.5e-6}, {"events": -0.5e-6},
    ],
)  # fmt: skip
def test_measures_at_their_limits_are_fine(changes: dict[str, float]) -> None:
    assert replace(GOOD, **changes) is not None


def test_rounded_measures_tell_no_table() -> None:
    found = replace(GOOD, patients=103, events=38, auc=0.81249, observed=38 / 103).rounded(5)
    assert (found.patients, found.events, found.auc) == (105, 40, 0.812)
    assert found.observed == round(40 / 105, 3)
    few = replace(GOOD, patients=2, events=2).rounded(5)
    assert (few.patients, few.events) == (0, 0)
    assert np.isnan(few.observed)
    assert replace(GOOD, patients=7, events=6).rounded(10).observed == 1.0
    assert round_to(np.array([1.0, 2.4, 2.6, -3.0]), 5).tolist() == [0, 0, 5, -5]


def test_a_decision_by_hand() -> None:
    """At 0.2: of 10 cases 7 and of 20 others 6 lie at or above it."""
    sums = make_sums([3, 5, 2], [14, 5, 1])
    found = decide(sums, 0)
    assert found.threshold == 0.2
    assert (found.sensitivity, found.specificity) == (0.7, 0.7)
    assert (found.ppv, found.npv) == (7 / 13, 14 / 17)
    assert found.net_benefit == pytest.approx((7 - 0.25 * 6) / 30)
    assert found.treat_all == pytest.approx((10 - 0.25 * 20) / 30)
    last = decide(sums, 1)
    assert (last.threshold, last.sensitivity, last.ppv) == (0.5, 0.2, 2 / 3)
    none = decide(make_sums([3, 0, 0], [14, 0, 0]), 1)
    assert np.isnan(none.ppv)
    assert none.npv == 14 / 17
