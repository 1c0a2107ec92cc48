"""How numbers are judged: extreme patients, coverage of intervals, what is published, words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.families.intervals import FEWEST
from fedrulefit.core.families.number_judge import NumberJudge
from fedrulefit.core.families.number_measures import Measures
from fedrulefit.core.families.number_sums import NumberSums
from fedrulefit.core.rounding import EXACT, PUBLISHED, Rounding
from fedrulefit.model.evaluation import Evaluation

JUDGE = NumberJudge(0.0, 30.0, "days")


def judge(prediction: Any, outcome: Any, weights: Any = None) -> Measures:
    prediction, outcome = (np.asarray(x, dtype=np.float64) for x in (prediction, outcome))
    return JUDGE.measure(
        JUDGE.count(prediction, outcome, np.ones(len(outcome)) if weights is None else weights)
    )


def draw(rng: Any, n_rows: int, *, heavy: bool = True) -> tuple[Any, Any]:
    """Errors that are larger where predictions are, and have heavy tails; or normal ones."""
    prediction = rng.uniform(4, 20, n_rows)
    noise = rng.standard_t(6, n_rows) * (0.5 + prediction / 12)
    if not heavy:
        noise = rng.normal(0, 2, n_rows)
    return prediction, np.clip(1 + 0.9 * prediction + noise, 0, 30)


def no_nan(found: Measures) -> None:
    words = JUDGE.tell(found) + str(JUDGE.tell_briefly(found)) + JUDGE.tell_unknown({"a": found})
    assert "nan" not in words


# --- extreme patients ---------------------------------------------------------------------------


def test_perfect_predictions() -> None:
    outcome = np.linspace(0, 30, 65)
    found = judge(outcome, outcome)
    assert (found.r2, found.rmse, found.mae, found.intercept) == (1, 0, 0, 0)
    assert found.slope == pytest.approx(1)
    assert math.isnan(found.r2_low)
    assert found.reach_95 == found.reach_95_bound == 15 / 256
    assert "hit every outcome" in JUDGE.tell_unknown({"a": found})
    no_nan(found)
    assert found.rounded(5).rmse == 0


def test_predictions_turned_around() -> None:
    outcome = np.linspace(0, 30, 65)
    found = judge(30 - outcome, outcome)
    assert found.slope == pytest.approx(-1)
    assert found.r2 == pytest.approx(-3)
    assert found.r2_low < found.r2 < found.r2_high
    assert "R² −3.000" in JUDGE.tell(found)


def test_constant_outcomes_have_no_share_and_constant_predictions_no_slope() -> None:
    spread = np.linspace(0, 30, 40)
    same = judge(spread, np.full(40, 7.0))
    assert np.isnan([same.r2, same.r2_low]).all()
    assert same.slope == pytest.approx(0, abs=1e-9)
    flat = judge(np.full(40, 15.0), spread)
    assert math.isnan(flat.slope)
    assert flat.r2 == pytest.approx(0, abs=1e-9)
    told = JUDGE.tell_unknown({"a": same, "b": flat})
    assert "R², as all outcomes are alike" in told
    assert "Not told of b: the calibration slope, as all predictions are alike" in told
    no_nan(same)
    no_nan(flat)


def test_few_patients_have_no_interval() -> None:
    rng = np.random.default_rng(4)
    found = judge(*draw(rng, FEWEST - 1))
    names = ("r2", "rmse", "mae", "slope", "intercept")
    assert np.isnan([getattr(found, f"{name}_low") for name in names]).all()
    assert not math.isnan(found.r2)
    assert math.isnan(found.reach_95)
    assert "fewer than 10" in JUDGE.tell_unknown({"a": found})
    no_nan(found)
    no_nan(judge([3.0], [4.0]))


def test_a_weight_counts_for_that_many_patients() -> None:
    rng = np.random.default_rng(5)
    prediction, outcome = draw(rng, 50)
    often = rng.integers(1, 5, 50)
    once = judge(prediction, outcome, often.astype(float))
    assert vars(once) == pytest.approx(
        vars(judge(np.repeat(prediction, often), np.repeat(outcome, often))), nan_ok=True
    )


def test_predictions_far_outside_of_the_range_are_counted() -> None:
    found = judge(np.array([1e9, -1e9, 5.0]), np.array([30.0, 0.0, 5.0]))
    assert found.mae == pytest.approx((15 + 15) / 3)
    (first, *_, last) = JUDGE.groups(JUDGE.count(*[np.array([99.0, -99.0])] * 2, np.ones(2)), 9)
    assert (first.above, last.below) == (0, 30)
    assert math.isnan(first.low)


def test_a_range_without_width_is_refused() -> None:
    with pytest.raises(ValueError, match="range"):
        NumberJudge(3.0, 3.0)


# --- intervals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "heavy", "least"),
    [(50, False, 0.92), (100, False, 0.92), (100, True, 0.91), (600, True, 0.925)],
)
def test_intervals_cover(n_rows: int, heavy: bool, least: float) -> None:
    """With heavy tails and few patients those of R² and RMSE hold a little less than 95 %."""
    rng = np.random.default_rng(6)
    truth = judge(*draw(rng, 1_000_000, heavy=heavy))
    draws = 500
    names = ("r2", "rmse", "mae", "slope", "intercept")
    held = dict.fromkeys(names, 0)
    reach = 0.0
    for _ in range(draws):
        found = judge(*draw(rng, n_rows, heavy=heavy))
        for name in names:
            low, high = (getattr(found, f"{name}_{end}") for end in ("low", "high"))
            held[name] += low <= getattr(truth, name) <= high
        new = draw(rng, 200, heavy=heavy)
        reach += float((np.abs(new[1] - new[0]) <= found.reach_95).mean()) / draws
    assert {k: v for k, v in held.items() if not least <= v / draws <= 0.98} == {}
    assert 0.945 <= reach <= 0.98


# --- hospitals ----------------------------------------------------------------------------------


def make_sites() -> list[Measures]:
    rng = np.random.default_rng(8)
    return [judge(*draw(rng, n)) for n in (120, 200, 90, 150)]


def test_hospitals_are_summarised() -> None:
    sites = make_sites()
    shares, slopes, large = JUDGE.summarise(sites)
    assert shares.across.hospitals == 4
    assert min(f.r2 for f in sites) < shares.across.mean < max(f.r2 for f in sites)
    for found in (shares.across, slopes.across, large.across):
        assert found.new_low <= found.low <= found.mean <= found.high <= found.new_high
    assert shares.across.new_high < 1
    assert JUDGE.heterogeneity(sites) == shares.across.tau
    assert "calibration slope from" in JUDGE.tell_summary(sites)
    assert "4 sites" in JUDGE.tell_heterogeneity(sites)
    assert "By site R² is from" in JUDGE.tell_span(sites)
    assert "not told" in JUDGE.tell_summary(sites[:2])
    alike = judge(np.linspace(0, 30, 40), np.full(40, 7.0))
    assert "not told" in JUDGE.tell_span([alike])
    assert JUDGE.tell_heterogeneity([alike]) == ""


# --- what is published --------------------------------------------------------------------------


def publish(rounding: Rounding, n_rows: int = 300) -> tuple[NumberSums, Measures]:
    prediction, outcome = draw(np.random.default_rng(9), n_rows)
    sums = JUDGE.count(prediction, outcome, np.ones(n_rows))
    published = JUDGE.publish(sums, JUDGE.measure(sums), rounding, 1.0)
    assert published is not None
    return published


@pytest.mark.parametrize("rounding", [EXACT, PUBLISHED, Rounding(7, 20)])
def test_what_is_published_rests_on_enough_and_is_read_again(rounding: Rounding) -> None:
    sums, measures = publish(rounding)
    assert min(sums.people.min(), sums.errors.min()) >= rounding.least()
    if rounding != EXACT:
        assert (sums.people % rounding.multiple == 0).all()
        assert (sums.errors % rounding.multiple == 0).all()
        assert measures.patients % rounding.multiple == 0
    facts = JUDGE.write(sums)
    again = JUDGE.read(facts, measures)
    assert JUDGE.write(again) == facts, "a file that is read and written is the same"
    for group, other in zip(JUDGE.groups(sums, 10), JUDGE.groups(again, 10), strict=True):
        assert vars(group) == pytest.approx(vars(other))
    assert again.misses == pytest.approx(measures.mae / 15 * again.total)
    assert set(JUDGE.file_words["overall"]) == set(vars(measures))
    assert set(JUDGE.file_words["sums"]) == set(facts["sums"])
    twice = JUDGE.publish(again, measures, rounding, 1.0)
    assert twice is not None
    assert JUDGE.write(twice[0]) == facts


def test_too_few_are_not_published() -> None:
    sums = JUDGE.count(*draw(np.random.default_rng(1), 9), np.ones(9))
    assert JUDGE.publish(sums, JUDGE.measure(sums), PUBLISHED, 1.0) is None


def test_rounded_measures_have_three_digits_of_the_error() -> None:
    _, found = publish(PUBLISHED)
    for name in ("rmse", "mae", "intercept", "observed", "expected", "reach_95"):
        value = getattr(found, name)
        assert value == round(value, 2), name
    assert found.r2 == round(found.r2, 3)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda facts: facts["groups"][0].pop("spread"), "each has"),
        (lambda facts: facts["groups"][0].update(observed=None), "each has"),
        (lambda facts: facts["groups"][0].update(below=1.0), "gaps"),
        (lambda facts: facts["groups"][0].update(above=90.0), "grow"),
        (lambda facts: facts["sums"]["errors"].pop(), "do not fit"),
        (lambda facts: facts["sums"].update(errors=3.0), "a list"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(edit: Callable[[Any], None], words: str) -> None:
    sums, measures = publish(PUBLISHED)
    facts: Any = JUDGE.write(sums)
    edit(facts)
    with pytest.raises(ValueError, match=words):
        JUDGE.read(facts, measures)


def test_measures_that_contradict_themselves_are_refused() -> None:
    (found, *_) = make_sites()
    with pytest.raises(ValueError, match="interval"):
        replace(found, slope_low=2.0)
    with pytest.raises(ValueError, match="contradicts"):
        replace(found, r2=1.5, r2_high=2.0)


def test_one_sentence_tells_how_far_a_new_patient_may_be_off() -> None:
    (found, *_) = make_sites()
    told = JUDGE.tell(found)
    assert f"lies within {found.reach_95:.3g} days of the prediction in 95 %" in told
    assert "in brackets 95 % intervals" in told


class Told:
    """Stands for the family of a study: all that an evaluation asks of it is its judge."""

    judge = JUDGE


def test_an_evaluation_asks_for_nothing_else() -> None:
    rng = np.random.default_rng(10)
    prediction, outcome = draw(rng, 400)
    family: Any = Told()
    sites = rng.integers(3, size=400).astype(str)
    found = Evaluation.of_predictions(prediction, outcome, family=family, sites=sites)
    assert found.within is not None
    assert "Between patients of one and the same hospital R²" in found.words()
    told = found.rounded(PUBLISHED)
    assert told is not None
    assert len(told.sites) == 3
    assert {"r2", "reach_95", "within_explained"} <= set(told.metrics_frame().columns)
    assert 1 < len(told.calibration_frame()) <= 10
    assert len(told.decision_frame()) == 0
