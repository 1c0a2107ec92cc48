"""Measures by hand. Comparison with scikit-learn: ``tests/properties/test_yesno_scores.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from statsmodels.stats.proportion import proportion_confint

from fedrulefit.core.families import yesno_sums
from fedrulefit.core.families.areas import TRUST
from fedrulefit.core.families.yesno_judge import YesNoJudge
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
from fedrulefit.core.families.yesno_sums import (
    EDGES,
    STEP,
    ScoreSums,
    coarsen,
    count_scores,
    sum_log_odds,
)
from fedrulefit.core.rounding import round_to
from fedrulefit.core.shares import Z95

NAN = float("nan")


def make_sums(cases: Any, others: Any, edges: Any = (0.2, 0.5), **facts: Any) -> ScoreSums:
    """Sums of these counts; log-odds are those of the bins' middles, where nothing else is said."""
    cases, others = np.asarray(cases, float), np.asarray(others, float)
    ends = np.array([0, *edges, 1])
    middles = (ends[1:] + ends[:-1]) / 2
    log_odds, squares = sum_log_odds(middles, cases, others, ends[1:] <= 0.5)
    defaults = {"chances": 3.0, "squares": 2.0, "loss": 4.0, **facts}
    defaults = {"log_odds": log_odds, "odds_squares": squares, **defaults}
    return ScoreSums(cases, others, edges=np.asarray(edges), **defaults)


def test_the_bins_are_frozen() -> None:
    """Sums of versions with other edges must not be added."""
    assert EDGES.tolist() == [
        0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35,
        0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98,
    ]  # fmt: skip
    assert yesno_sums.N_BINS == 25
    assert STEP == 1 / 1024
    assert pytest.approx(1.959963984540054) == Z95


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


def newcombe(area: float, n1: float, n0: float) -> float:
    """Newcombe's variance (2006, method 5)."""
    both = (1 - area) / (2 - area) + area / (1 + area)
    return area * (1 - area) * (1 + ((n1 + n0) / 2 - 1) * both) / (n1 * n0)


def test_an_area_s_interval_ends_where_the_score_test_does() -> None:
    """Of each end `auc` is 1.96 standard errors away: its own, scaled a sixth by DeLong's."""
    sums = make_sums([1, 1, 2], [3, 1, 0])
    found, shift = (
        discriminate(sums),
        float((sums.cases * sums.others / 16) @ sums.place().sorting()),
    )
    v_cases = np.var([1.5 / 4, 3.5 / 4, 1, 1], ddof=1) / 4
    v_others = np.var([3.5 / 4] * 3 + [2.5 / 4], ddof=1) / 4
    ratio = (v_cases + v_others) / newcombe(found.auc, 4, 4)
    scale = (TRUST + 4 * ratio) / (TRUST + 4)
    low, high = found.low - min(shift, 0), found.high - max(shift, 0)
    for end in (low, high):
        error = np.sqrt(scale * newcombe(end, 4, 4))
        assert abs(found.auc - end) == pytest.approx(Z95 * error, rel=1e-6)
    assert low < found.auc < high


def test_an_area_of_one_or_none_has_a_width() -> None:
    """It had none: 1 to 1, however few the patients."""
    for n in (2, 5, 20):
        low = discriminate(make_sums([0, 0, n], [20, 0, 0])).low
        assert 1 - low == pytest.approx(1.959964 * np.sqrt(newcombe(low, n, 20)), rel=1e-5)
    perfect = discriminate(make_sums([0, 0, 5], [20, 0, 0]))
    assert (perfect.auc, perfect.high, perfect.bound) == (1, 1, 0)
    inverted = discriminate(make_sums([5, 0], [0, 20], edges=[0.5]))
    assert (inverted.auc, inverted.low, inverted.bound) == (0, 0, 0)
    assert inverted.high == pytest.approx(1 - perfect.low)


def test_one_event_has_no_interval() -> None:
    found = discriminate(make_sums([0, 0, 1], [20, 3, 0]))
    assert found.auc == 1
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(("cases", "others"), [([0, 0, 0], [1, 1, 1]), ([1, 0, 0], [0, 0, 0])])
def test_one_class_has_no_area(cases: Any, others: Any) -> None:
    assert np.isnan(discriminate(make_sums(cases, others)).auc)


def test_few_weights_have_no_variance_below_that_of_two() -> None:
    """Two patients of each class: divided by 1, not by 0."""
    found = discriminate(make_sums([1, 0, 1], [0, 2, 0]))
    assert np.isfinite([found.low, found.high]).all()


# --- calibration ------------------------------------------------------------------------------


def test_calibration_by_hand() -> None:
    """Two bins and two coefficients: the fit goes through both observed log-odds."""
    sums = make_sums([10, 60], [90, 40], edges=[0.5], **stand_at(0.2, 0.7, [10, 60], [90, 40]))
    found = calibrate(sums)
    x, y = logit(np.array([0.2, 0.7])), logit(np.array([0.1, 0.6]))
    assert found.slope == pytest.approx((y[1] - y[0]) / (x[1] - x[0]), rel=1e-6)
    assert found.slope_low < found.slope < found.slope_high
    assert 100 * expit(x + found.intercept).sum() == pytest.approx(70, rel=1e-6)
    assert found.intercept_low < found.intercept < found.intercept_high


def stand_at(low: float, high: float, cases: Any, others: Any) -> Any:
    """Log-odds of patients who all stand at one of two probabilities."""
    x = logit(np.array([low, high]))
    both = np.array(cases) + np.array(others)
    return {"log_odds": np.concatenate([cases * x, others * x]), "odds_squares": both * x**2}


def test_calibration_without_an_answer_is_nan() -> None:
    one_score = calibrate(make_sums([15, 0], [15, 0], edges=[0.5]))
    assert np.isnan([one_score.slope, one_score.slope_low]).all()
    assert one_score.intercept == pytest.approx(-logit(0.25), abs=1 / 64)
    one_class = calibrate(make_sums([5, 5], [0, 0], edges=[0.5]))
    assert np.isnan([one_class.slope, one_class.intercept]).all()
    few = calibrate(make_sums([5, 9], [5, 5], edges=[0.5]))
    assert not np.isnan(few.slope)
    assert np.isnan(calibrate(make_sums([4, 5], [50, 50], edges=[0.5])).slope)
    for cases, others in (([0, 20], [20, 0]), ([0, 20], [20, 5]), ([20, 5], [0, 20])):
        found = calibrate(make_sums(cases, others, edges=[0.5]))
        assert np.isnan(found.slope), "separated: it has no end"
        assert np.isfinite(found.intercept)


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
    assert {name: getattr(found, name) for name in vars(fit)} == vars(fit)
    assert (found.observed, found.expected) == (70 / 200, 90 / 200)


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
    ]
    + [{f"{name}_{end}": NAN} for name in ("auc", "slope") for end in ("low", "high")]
    + [{"slope": NAN}],
)
def test_measures_that_cannot_be_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a measure"):
        replace(GOOD, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"brier": -0.5e-6}, {"brier": 1 + 0.5e-6}, {"auc_low": 0.8}, {"auc_high": 0.8},
        {"events": 0.0}, {"events": 100.0}, {"events": 100 + 0.5e-6}, {"log_loss": 0.0},
        {"slope": NAN, "slope_low": NAN, "slope_high": NAN}, {"brier": 0.0},
        {"auc_low": NAN, "auc_high": NAN}, {"expected": 1.0},
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


# --- in words ---------------------------------------------------------------------------------


def test_what_is_not_known_is_told_with_its_reason() -> None:
    """It said "AUC nan (nan to nan)", or nothing."""
    judge = YesNoJudge()
    unknown = {"slope": NAN, "slope_low": NAN, "slope_high": NAN}
    few = replace(GOOD, events=5, **unknown)
    apart = replace(GOOD, auc=1, auc_high=1, auc_bound=0, **unknown)
    alike = replace(GOOD, auc=0.5, auc_low=0.4, auc_high=0.6, auc_bound=0.5, **unknown)
    one = replace(few, events=1, auc_low=NAN, auc_high=NAN)
    none = measure(make_sums([0, 0, 0], [5, 5, 5]))
    assert judge.tell_unknown({"a": GOOD}) == ""
    told = judge.tell_unknown({"a": few, "b": one, "c": apart, "d": alike, "e": none, "f": few})
    assert told == (
        "Not told of a, b and f: the calibration slope, as fewer than 10 had, or had not, the "
        "outcome. Not told of b: the interval of the AUC, as fewer than 2 had, or had not, the "
        "outcome. Not told of c: the calibration slope, as predictions separate patients with and "
        "without the outcome, and it has no end. Not told of d: the calibration slope, as all "
        "predictions are nearly alike. Not told of e: AUC and calibration, as all patients had the "
        "outcome, or none had."
    )
    rounded = judge.tell_unknown({"g": replace(GOOD, **unknown)})
    assert "fewer than 10 had, or had not, the outcome, or bins of the predictions" in rounded
    for found in (few, one, apart, alike, none):
        words = judge.tell(found) + str(judge.tell_briefly(found))
        assert "nan" not in words
    assert "AUC 0.800, Brier" in judge.tell(one)
    assert "AUC not known, Brier" in judge.tell(none)
    assert dict(judge.tell_briefly(few))["slope"] == "not known"


def test_only_sites_that_tau_used_are_counted() -> None:
    """A site with an AUC of 1 is not comparable, and was counted all the same."""
    perfect = replace(GOOD, auc=1, auc_high=1)
    unknown = replace(GOOD, auc_low=NAN, auc_high=NAN)
    told = YesNoJudge().tell_heterogeneity([GOOD, GOOD, perfect, unknown])
    assert "the AUCs of 2 sites is seen" in told
    assert YesNoJudge().tell_heterogeneity([GOOD, perfect]) == ""


def test_a_share_of_few_has_poisson_s_end() -> None:
    """Wilson's end for 1 of 100 lies too far inside: it held .15 % in 86 % of samples."""
    (group,) = calibration_groups(make_sums([1, 0, 0], [99, 0, 0]), 1)
    assert group.low == pytest.approx(-np.log(0.95) / 100)
    (other,) = calibration_groups(make_sums([99, 0, 0], [1, 0, 0]), 1)
    assert (other.low, other.high) == pytest.approx((1 - group.high, 1 - group.low))
    (many,) = calibration_groups(make_sums([4, 0, 0], [96, 0, 0]), 1)
    expected = proportion_confint(4, 100, method="wilson")
    assert (many.low, many.high) == pytest.approx(expected)
    (none,) = calibration_groups(make_sums([0, 0, 0], [20, 0, 0]), 1)
    assert (none.low, none.high) == pytest.approx(proportion_confint(0, 20, method="wilson"))


def test_intervals_are_called_that_and_few_sites_know_little_of_tau() -> None:
    """Brackets stood beside the AUC without a word, and a τ of four sites like that of forty."""
    judge = YesNoJudge()
    told = judge.tell(GOOD)
    assert f"({GOOD.auc_low:.3f} to {GOOD.auc_high:.3f})" in told
    assert f"({GOOD.slope_low:.2f} to {GOOD.slope_high:.2f})".replace("-", "−") in told
    assert told.endswith("; in brackets 95 % intervals.")
    nan = float("nan")
    no_interval = {"auc_low": nan, "auc_high": nan, "slope": nan}
    no_interval |= {"slope_low": nan, "slope_high": nan}
    assert "95 %" not in judge.tell(replace(GOOD, **no_interval))
    width = GOOD.auc_high - GOOD.auc_low
    apart = replace(GOOD, auc=0.6, auc_low=0.6 - width / 4, auc_high=0.6 + width / 4)
    assert "hardly known" in judge.tell_heterogeneity([apart, GOOD] * 2)
    assert "hardly known" not in judge.tell_heterogeneity([apart, GOOD] * 5)


def test_predictions_that_overlap_in_two_bins_are_not_said_to_lie_apart() -> None:
    """Bins may hide that predictions overlap; the words once said that they hardly did."""
    rng = np.random.default_rng(1)
    chance, outcome = rng.uniform(0.36, 0.49, 200), np.zeros(200)
    outcome[np.argsort(-chance + rng.normal(0, 0.05, 200))[:40]] = 1
    outcome[(chance < 0.4)] = 0
    found = measure(count_scores(chance, outcome, np.ones(200)))
    assert np.isnan(found.slope)
    told = YesNoJudge().tell_unknown({"a": found})
    assert told.endswith("or bins of the predictions do not show that both overlap.")
