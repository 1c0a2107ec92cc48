"""The table of risks, times and causes, what is published, the words, and both sides of a rule.

Comparison with other programs: ``tests/properties/test_competing_measures.py``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_competing_measures import HORIZONS, JUDGE, draw, follow_patients, pooled
from tests.unit.core.test_time_scores import place_naively

from fedrulefit.core.families.competing import Competing
from fedrulefit.core.families.competing_judge import CompetingJudge
from fedrulefit.core.families.competing_measures import CauseMeasures
from fedrulefit.core.families.competing_sums import CompetingSums
from fedrulefit.core.families.time_sums import TimeSums
from fedrulefit.core.families.yesno_sums import EDGES, STEP
from fedrulefit.core.rounding import EXACT, Rounding


def of(seed: int, n_rows: int, base: float = 0.5) -> tuple[Any, Any]:
    return draw(np.random.default_rng(seed), n_rows, base, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.booleans())
def test_the_table_is_that_of_each_patient(seed: int, n_rows: int, ties: bool) -> None:
    risk, outcome = of(seed, n_rows)
    if ties:
        outcome[:, 1] = np.clip(np.round(outcome[:, 1] * 2) / 2, 0, 5)
    outcome[::2, 0] = np.minimum(0.4, outcome[::2, 1])
    sums, n_spans = pooled(risk, outcome), len(JUDGE.times) - 1
    tables = {name: np.zeros((25, n_spans)) for name in CompetingSums.tables()}
    followed, squares = np.zeros(25), np.zeros((2, 3))
    bins = np.searchsorted(EDGES, risk[:, -1], side="right")
    for b, p, (entry, time, cause) in zip(bins, risk, outcome, strict=True):
        *parts, end = place_naively(entry, time, float(cause > 0), JUDGE.times)
        followed[b] += end
        begun, happened, left, partial = (np.array(part, dtype=float) for part in parts)
        tables["started"][b] += begun
        tables["events" if cause == 1 else "others"][b] += happened
        tables["left"][b] += left
        tables["partial"][b] += partial
        for k, horizon in enumerate(HORIZONS):
            came = cause > 0 and time <= horizon
            if came:
                squares[k, 0 if cause == 1 else 1] += np.rint(((cause == 1) - p[k]) ** 2 / STEP)
            elif (time > horizon and entry <= horizon) or (horizon == 5.0 and end):
                squares[k, 2] += np.rint(p[k] ** 2 / STEP)
    found = sums.table
    np.testing.assert_array_equal(found.started, np.column_stack([tables["started"], followed]))
    for name in ("events", "left", "partial", "others"):
        np.testing.assert_array_equal(getattr(found, name), tables[name])
    assert found.patients.sum() == n_rows
    assert (found.entered >= 0).all()
    np.testing.assert_allclose(sums.squares.reshape(2, 3) / STEP, squares, atol=1e-9)
    np.testing.assert_allclose(sums.expected, risk.sum(axis=0), atol=n_rows * STEP / 2)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(1, 6))
def test_any_split_of_the_same_patients_has_the_same_total(seed: int, n: int, sites: int) -> None:
    risk, outcome = of(seed, n)
    rng = np.random.default_rng(seed)
    weights, owner = rng.integers(0, 5000, n) / 1024, rng.integers(sites, size=n)
    parts = [
        JUDGE.count(risk[owner == s], outcome[owner == s], weights[owner == s])
        for s in np.unique(owner)
    ]
    alone, together = JUDGE.count(risk, outcome, weights), JUDGE.add(parts)
    packing = JUDGE.packing()
    total = np.sum([packing.round(part) for part in parts], axis=0)
    np.testing.assert_array_equal(total, packing.round(alone))
    back = packing.read(total)
    for name in CompetingSums.quantities():
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
        np.testing.assert_array_equal(getattr(back, name), getattr(alone, name))
    assert JUDGE.measure(back) == JUDGE.measure(alone) or np.isnan(JUDGE.measure(alone).slope)
    assert set(TimeSums.quantities()) < set(CompetingSums.quantities())


def test_the_unit_of_time_does_not_matter() -> None:
    risk, outcome = of(3, 500)
    days = np.round(outcome * [365.0, 365.0, 1.0])
    other = CompetingJudge((182.5, 365, 1095), (365, 1825), ("relapse", "death"), unit="days")
    ours = pooled(risk, days / [365.0, 365.0, 1.0])
    theirs = other.count(risk, days, np.ones(500))
    for name in CompetingSums.quantities():
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize(
    "rows",
    [
        [[0.0, 3.0, 2.0]] * 30,
        [[0.0, 5.0, 0.0]] * 5,
        [[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]],
        [[0.0, 2.0, 1.0]] * 30,
        [[1.0, 2.0, 1.0]] * 20 + [[1.5, 5.0, 2.0]] * 20,
        [[0.0, 9.0, 1.0]] * 20,
    ],
)
def test_extreme_patients_have_measures_or_none(rows: Any) -> None:
    outcome, n_rows = np.array(rows), len(rows)
    for own in (np.full(n_rows, 0.3), np.linspace(0, 1, n_rows), np.ones(n_rows)):
        sums = pooled(np.column_stack([own / 2, own]), outcome)
        found = JUDGE.measure(sums)
        assert found.patients == n_rows
        assert found.competing == (outcome[:, 2] == 2).sum()
        assert "patients" in JUDGE.tell(found)
        assert JUDGE.tell_unknown({"a": found}).startswith("Not told of a")
        for group in JUDGE.groups(sums, 5):
            assert group.low <= group.observed <= group.high
        JUDGE.decisions(sums)


@pytest.mark.parametrize("rounding", [EXACT, Rounding(5, 10), Rounding(10, 20)])
def test_what_is_published_can_be_written_and_read(rounding: Rounding) -> None:
    sums = pooled(*of(7, 1500))
    measures = JUDGE.measure(sums)
    made = JUDGE.publish(sums, measures, rounding, 1.0)
    assert made is not None
    told, rounded = made
    assert isinstance(rounded, CauseMeasures)
    assert JUDGE.measure(told) == rounded
    least = max(5, rounding.smallest)
    assert told.cases.min() >= least
    assert not told.table.started.any(), "no table leaves"
    assert not told.table.others.any()
    if rounding != EXACT:
        assert rounded.competing % rounding.multiple == 0
    back = JUDGE.read(json.loads(json.dumps(JUDGE.write(told))), rounded)
    assert JUDGE.groups(back, 10) == JUDGE.groups(told, 10)
    assert JUDGE.decisions(back) == JUDGE.decisions(told)
    assert JUDGE.publish(pooled(*of(7, 12)), JUDGE.measure(pooled(*of(7, 12))), EXACT, 1.0) is None


def test_decisions_without_censoring_are_those_of_yes_no() -> None:
    """Who had a competing event has not the event of interest."""
    risk, outcome = draw(np.random.default_rng(4), 800, 0.6, 1.0, 1e9)
    case = outcome[:, 2] == 1
    for found in JUDGE.decisions(pooled(risk, outcome)):
        treated, odds = risk[:, -1] >= found.threshold, found.threshold / (1 - found.threshold)
        hit, false = (treated & case).sum(), (treated & ~case).sum()
        assert found.net_benefit == pytest.approx((hit - odds * false) / 800)
        assert found.sensitivity == pytest.approx(hit / case.sum())


def test_the_words_of_measures() -> None:
    sums = pooled(*of(1, 1000))
    found = JUDGE.measure(sums)
    words = JUDGE.tell(found)
    assert (
        f"{found.events:g} of them with the event relapse and {found.competing:g} with a " in words
    )
    names = set(vars(found))
    columns = [column.name for column in JUDGE.measure_columns]
    assert "competing" in columns
    assert {name for name in columns if "within" not in name} <= names
    assert set(JUDGE.file_words["overall"]) == names
    headings = [c.heading for c in (*JUDGE.measure_columns, *JUDGE.group_columns)]
    assert not any("Kaplan" in heading or "Harrell" in heading for heading in headings)
    assert sum("Aalen and Johansen" in heading for heading in headings) == 2
    scores = JUDGE.score_over_time(sums, None)
    assert scores is not None
    told = JUDGE.tell_over_time(scores)
    assert told.startswith("Risk of relapse by 1 years ")
    assert f"{100 * scores.expected[1]:.1f} % predicted" in told
    assert scores.rounded().brier == tuple(round(x, 3) for x in scores.brier)
    with pytest.raises(ValueError, match="lacks its risks"):
        replace(scores, observed=(0.1,))
    with pytest.raises(ValueError, match="risk does not lie"):
        replace(scores, expected=(0.1, 1.2))


# --- both sides of a rule ---------------------------------------------------------------------


FAMILY = Competing((1.0, 2.0, 3.0, 4.0), (5.0,), ("relapse", "death"), unit="years")


def side_of(outcome: Any) -> Any:
    return FAMILY.levels.find(float(len(outcome)), FAMILY.tallies(outcome).sum(axis=0))


def test_the_risk_of_a_side_is_nearly_aalen_and_johansens() -> None:
    for seed in range(4):
        _, outcome = draw(np.random.default_rng(seed), 3000, 0.6, 0.5)
        side = side_of(outcome)
        told = follow_patients(outcome, np.array([5.0]))[0]
        assert side.level == pytest.approx(told, abs=0.01)
        assert side.events == (outcome[:, 2] == 1).sum()


def test_intervals_of_a_side_cover_as_often_as_they_say() -> None:
    """Of 600, 95 % are covered: below 92 % once in 1,000 correct tests, and seeds are fixed."""
    rng, covered = np.random.default_rng(0), 0
    share, total = 0.4 / 0.7, 0.7
    truth = share * -np.expm1(-total)
    for _ in range(600):
        events = rng.exponential(5 / np.array([0.4, 0.3])[:, None], (2, 200))
        lost = rng.exponential(12, 200)
        time = np.minimum.reduce([*events, lost, np.full(200, 5.0)])
        cause = np.select([events[0] == time, events[1] == time], [1, 2], 0)
        side = side_of(np.column_stack([np.zeros(200), time, cause]))
        contrast = FAMILY.levels.compare(side, side)
        covered += contrast.low_inside <= truth <= contrast.high_inside
    assert 0.92 <= covered / 600 <= 0.98


def test_a_side_of_which_little_is_known() -> None:
    ended = np.array([[0.0, 2.5, 1.0]] * 4 + [[0.0, 2.9, 0.0]] * 3)
    assert np.isnan(side_of(ended).level), "nobody is followed to the end"
    none = np.array([[0.0, 2.5, 2.0]] * 4 + [[0.0, 5.0, 0.0]] * 3)
    assert (side_of(none).level, side_of(none).events) == (0.0, 0.0)
