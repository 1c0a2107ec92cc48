"""Measures of several levels by hand, their intervals by simulation, and their words."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from fedrulefit.core.families.levels_judge import LevelsJudge
from fedrulefit.core.families.levels_measures import LevelsMeasures
from fedrulefit.core.families.levels_sums import LevelsSums, split_levels
from fedrulefit.core.sums import Packing

NAN = float("nan")
CLASSES = LevelsJudge("abc", ordered=False)
SCALE = LevelsJudge("abc", ordered=True)
FOUND = LevelsMeasures(100, 20, 0.8, 0.75, 0.85, 0.02, 0.8, 0.4, 0.2, 0.25)
every_judge = pytest.mark.parametrize("judge", [CLASSES, SCALE], ids=["classes", "ordered"])


def draw(seed: int, n_rows: int, signal: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    chance = softmax(signal * rng.normal(size=(n_rows, 3)) + [0.5, 0.0, -0.5], axis=1)
    return chance, np.array([rng.choice(3, p=p) for p in chance]).astype(float)


def test_two_patients_by_hand() -> None:
    chance, level = np.array([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]), np.array([0.0, 1.0])
    weights = np.array([2.0, 1.0])
    of_classes, of_scale = (judge.count(chance, level, weights) for judge in (CLASSES, SCALE))
    # Bins of 0.125, 0.25, 0.5, 0.75 are 10, 13, 17, 19; of 0.875 it is 21.
    cases = of_classes.cases.reshape(3, 25)
    assert {(k, b): cases[k, b] for k, b in np.argwhere(cases)} == {(0, 17): 2, (1, 10): 1}
    others = of_scale.others.reshape(2, 25)
    assert {(k, b): others[k, b] for k, b in np.argwhere(others)} == {
        (0, 17): 2, (1, 13): 2, (1, 19): 1,
    }  # fmt: skip
    assert of_classes.held.tolist() == of_scale.held.tolist() == [2, 1, 0]
    assert of_classes.brier == 2 * (0.25 + 2 * 0.0625) + (1 / 64 + 49 / 64 + 9 / 16)
    assert of_scale.squares.sum() == 2 * (0.25 + 0.0625) + (1 / 64 + 9 / 16)
    step = 1024
    loss = 2 * round(np.log(2) * step) / step + round(np.log(8) * step) / step
    assert of_classes.log_loss == of_scale.log_loss == pytest.approx(loss)
    assert np.isnan(CLASSES.measure(of_classes).auc), "no patient has the third class"
    assert split_levels(chance, ordered=True).tolist() == [[0.5, 0.25], [0.875, 0.75]]


def test_the_numbers_that_leave_a_site() -> None:
    assert CLASSES.packing().size == 3 * (2 * 25 + 2 + 4 + 2) + 2
    assert SCALE.packing().size == 2 * (2 * 25 + 2 + 4 + 2) + 2
    assert Packing(CLASSES.within_sums).size == 4


@every_judge
def test_weights_are_repeated_rows(judge: LevelsJudge) -> None:
    chance, level = draw(1, 80)
    times = np.random.default_rng(1).integers(1, 4, 80)
    heavy = judge.count(chance, level, times.astype(float))
    rows = judge.count(np.repeat(chance, times, 0), np.repeat(level, times), np.ones(times.sum()))
    assert judge.measure(heavy) == judge.measure(rows) or np.isnan(judge.measure(rows).rps)
    assert heavy.cases.tolist() == rows.cases.tolist()


def find_area(judge: LevelsJudge, chance: Any, level: Any) -> float:
    """Return the mean area of the patients themselves."""
    up = split_levels(chance, ordered=judge.ordered)
    came = [level >= k for k in (1, 2)] if judge.ordered else [level == k for k in range(3)]
    return float(np.mean([roc_auc_score(y, p) for y, p in zip(came, up.T, strict=True)]))


@every_judge
def test_the_interval_of_the_mean_area_covers_it(judge: LevelsJudge) -> None:
    """As wide as if all splits erred together: it is wide (98 to 99 % of 600 samples).

    With coverage 0.95, fewer than 178 of 200 samples are seen in 2 of 10,000 runs.
    """
    truth = find_area(judge, *draw(0, 100_000))
    held = 0
    for seed in range(1, 201):
        found = judge.measure(judge.count(*draw(seed, 60), np.ones(60)))
        held += found.auc_low <= truth <= found.auc_high
    assert held >= 178


def test_the_right_model_explains_more_than_none() -> None:
    chance, level = draw(3, 2000)
    known = CLASSES.measure(CLASSES.count(chance, level, np.ones(2000)))
    shares = np.tile(np.bincount(level.astype(int)) / 2000, (2000, 1))
    none = CLASSES.measure(CLASSES.count(shares, level, np.ones(2000)))
    assert known.explained > 0.1
    assert none.explained == pytest.approx(0, abs=1e-3)
    assert none.auc == 0.5
    for row in CLASSES.levels_of(CLASSES.count(chance, level, np.ones(2000))):
        assert row.slope_low < 1 < row.slope_high
        assert row.intercept_low < 0 < row.intercept_high


# --- within and between hospitals ---------------------------------------------------------------


@every_judge
def test_areas_within_hospitals_are_those_of_their_own_pairs(judge: LevelsJudge) -> None:
    parts = [draw(seed, 300) for seed in range(4)]
    packing: Any = Packing(judge.within_sums)
    placed = [
        judge.place_within(judge.count(chance, level, np.ones(len(level))), 5.0)
        for chance, level in parts
    ]
    total = packing.read(np.sum([packing.round(part) for part in placed], axis=0))
    within = judge.measure_within(total)
    assert within is not None
    assert within.sites == 4
    areas = [find_area(judge, *part) for part in parts]
    smallest = [min((level == k).sum() for k in range(3)) for _, level in parts]
    assert within.auc == pytest.approx(np.average(areas, weights=smallest), abs=0.01)
    assert within.auc_low < within.auc < within.auc_high
    pooled = judge.measure(
        judge.count(*map(np.concatenate, zip(*parts, strict=True)), np.ones(1200))
    )
    # Of as many patients, hospital by hospital, the area is known about as well.
    widths = within.auc_high - within.auc_low, pooled.auc_high - pooled.auc_low
    assert 0.6 < widths[0] / widths[1] < 1.7
    assert "over 4 hospitals" in judge.tell_within(pooled, within)


def test_a_hospital_with_too_few_of_a_level_adds_nothing() -> None:
    chance, level = draw(5, 100)
    sums = CLASSES.count(chance, level, np.ones(100))
    rarest = sums.held.min()
    assert CLASSES.place_within(sums, rarest + 1).sites == 0
    placed = CLASSES.place_within(sums, rarest)
    assert (placed.sites, placed.cases) == (1, rarest)
    assert CLASSES.place_within(sums, 5.0).cases == 5 * (rarest // 5)
    assert (256 * placed.placed / placed.cases) % 1 == pytest.approx(0, abs=1e-9)
    assert CLASSES.measure_within(placed) is None, "of one hospital nothing is told"


def test_hospitals_are_compared_by_their_mean_areas() -> None:
    sites = [
        CLASSES.measure(CLASSES.count(*draw(seed, 400, 0.5 + 0.2 * seed), np.ones(400)))
        for seed in range(6)
    ]
    (areas,) = CLASSES.summarise(sites)
    assert areas.across.hospitals == 6
    assert areas.across.low < np.mean([found.auc for found in sites]) < areas.across.high
    assert CLASSES.heterogeneity(sites) > 0.05
    assert "A further hospital like them" in CLASSES.tell_summary(sites)
    assert "standard deviation" in CLASSES.tell_heterogeneity(sites)
    assert "is not told: that takes" in CLASSES.tell_summary(sites[:2])
    low, high = min(found.auc for found in sites), max(found.auc for found in sites)
    assert f"{low:.3f} to {high:.3f}" in CLASSES.tell_span(sites)
    assert "too few" in CLASSES.tell_span([replace(FOUND, auc=NAN, auc_low=NAN, auc_high=NAN)])


# --- words, columns, and what is refused ----------------------------------------------------------


@every_judge
def test_what_people_read(judge: LevelsJudge) -> None:
    told = judge.tell(FOUND)
    assert "AUC 0.800 (0.750 to 0.850, 95 % interval), the mean of" in told
    assert "25 % less" in told
    assert ("ranked probability score 0.200" in told) is judge.ordered
    assert ("above against those below" in told) is judge.ordered
    briefly = dict(judge.tell_briefly(FOUND))
    assert briefly["AUC (95 % CI)"] == "0.800 (0.750 to 0.850)"
    assert ("RPS" in briefly) is judge.ordered
    few = replace(FOUND, auc_low=NAN, auc_high=NAN)
    none = replace(few, auc=NAN)
    gaps = judge.tell_unknown({"a": few, "b": none, "c": none, "d": FOUND})
    assert "Not told of a: the interval of the AUC" in gaps
    assert "Not told of b and c: the AUC" in gaps
    assert judge.tell_unknown({"d": FOUND}) == ""
    assert "not known" in judge.tell(none)


@every_judge
def test_columns_are_fields(judge: LevelsJudge) -> None:
    chance, level = draw(6, 200)
    sums = judge.count(chance, level, np.ones(200))
    names = {field.name for field in fields(LevelsMeasures)}
    for columns, known in (
        (judge.measure_columns, names | {f"within_{f.name}" for f in fields(judge.within)}),
        (judge.group_columns, set(vars(judge.groups(sums, 5)[0]))),
        (judge.level_columns, set(vars(judge.levels_of(sums)[0]))),
    ):
        assert {column.name for column in columns} <= known
        assert {column.upto for column in columns if column.upto} <= known
    assert judge.decisions(sums) == []
    assert set(judge.file_words["overall"]) == names
    assert set(judge.file_words["within"]) == {field.name for field in fields(judge.within)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"auc": 1.2, "auc_high": 1.3}, {"auc_low": 0.82}, {"auc_low": NAN}, {"brier": 2.1},
        {"log_loss": -0.1}, {"rps": -0.1}, {"rarest": 101}, {"explained": 1.1},
    ],
)  # fmt: skip
def test_measures_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="measure|loss"):
        replace(FOUND, **wrong)


def test_rounded_measures_have_few_digits() -> None:
    exact = LevelsMeasures(
        103, 22, 0.81234, 0.75678, 0.85432, 0.02345, 0.81234, 0.041234, NAN, 0.25678
    )
    told = exact.rounded(5.0)
    assert told.counts == (105, 20)
    assert (told.auc, told.auc_low, told.auc_high, told.auc_bound) == (0.812, 0.757, 0.854, 0.023)
    assert (told.log_loss, told.brier, told.explained) == (0.812, 0.0412, 0.257)
    assert np.isnan(told.rps)
    assert told.with_counts(110, 30).counts == (110, 30)
    assert exact.fewest == 22
    assert np.isnan(exact.with_outcome)


def test_sums_hold_flat_numbers_as_their_packing_says() -> None:
    sums = SCALE.count(*draw(0, 50), np.ones(50))
    for name, length in SCALE.packing().lengths.items():
        assert np.size(getattr(sums, name)) == length
    assert isinstance(SCALE.packing().read(SCALE.packing().round(sums)), LevelsSums)
