"""The table of risks and times, within hospitals, what is published, and the words.

Comparison with other programs: ``tests/properties/test_time_measures.py``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core.families.time_at_risk import TICK
from fedrulefit.core.families.time_judge import TimeJudge
from fedrulefit.core.families.time_measures import FEWEST, Measures, bin_means, measure, rank
from fedrulefit.core.families.time_sums import FINEST, PART_STEP, TimeSums, find_times
from fedrulefit.core.families.time_within import NOBODY, TimeWithin, TimeWithinSums, tell_within
from fedrulefit.core.families.yesno_sums import EDGES, STEP
from fedrulefit.core.families.yesno_within import AREA_STEP
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.sums import Packing

JUDGE = TimeJudge((1.0, 2.0, 3.0), (2.5, 5.0), unit="years")
NAN = float("nan")


def draw(
    seed: int, n_rows: int, late: float = 0.0, base: float = 0.3, spread: float = 0.8
) -> tuple[Any, Any]:
    """Return predicted risks that are right, and outcomes with censoring and late entry."""
    rng = np.random.default_rng(seed)
    hazard = base * np.exp(rng.normal(0, spread, n_rows))
    event, lost = rng.exponential(5 / hazard), rng.exponential(6, n_rows)
    entry = np.where(rng.random(n_rows) < late, rng.uniform(0, 2, n_rows), 0.0)
    time = np.minimum(np.minimum(event, lost), 5.0)
    happened = ((event <= lost) & (event <= 5.0)).astype(float)
    kept = time > entry
    outcome = np.column_stack([entry, time, happened])
    return -np.expm1(-hazard)[kept], outcome[kept]


def count(risk: Any, outcome: Any) -> TimeSums:
    return JUDGE.count(risk, outcome, np.ones(len(risk)))


# --- the table --------------------------------------------------------------------------------


def test_times_hold_all_public_ones_and_no_long_interval() -> None:
    times = JUDGE.times
    assert {0, 1, 2, 2.5, 3, 5} <= set(times.tolist())
    assert np.diff(times).min() > 0
    assert np.diff(times).max() <= 5 / FINEST + 1e-12
    assert find_times(np.array([0.0, 8.0]), [8.0]).tolist() == np.linspace(0, 8, 17).tolist()


def place_naively(entry: float, time: float, event: float, times: Any) -> list[Any]:
    """The naive twin: what one patient adds, interval by interval."""
    entry, time, *ends = (
        round(x / times[-1] / TICK) * TICK for x in (entry, time, *times.tolist())
    )
    event, rows = event and time <= 1, []
    for k, (low, high) in enumerate(pairwise(ends)):
        inside = low < time <= high or (k == 0 and time == 0)
        last = inside or (k == len(ends) - 2 and time > 1)
        begun = entry <= low and (time > low or (k == 0 and time == 0))
        left = last and not event and time < 1
        share = min(max(min(time, high) - max(entry, low), 0) / (high - low), 1.0)
        share = float(np.rint(share / PART_STEP) * PART_STEP)
        part = share if left or (not begun and not (inside and event)) else 0.0
        rows.append([begun, inside and bool(event), left, part])
    return [*map(list, zip(*rows, strict=True)), not event and time >= 1]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.booleans())
def test_the_table_is_that_of_each_patient(seed: int, n_rows: int, ties: bool) -> None:
    risk, outcome = draw(seed, n_rows, late=0.4)
    if ties:
        outcome[:, 1] = np.clip(np.round(outcome[:, 1] * 2) / 2, 0, 5)
        outcome[:, 0] = np.minimum(np.round(outcome[:, 0] * 2) / 2, outcome[:, 1])
    sums = count(risk, outcome)
    n_spans = len(JUDGE.times) - 1
    tables = [np.zeros((25, n_spans)) for _ in range(4)]
    followed = np.zeros(25)
    bins = np.searchsorted(EDGES, risk, side="right")
    for b, row in zip(bins, outcome, strict=True):
        *parts, end = place_naively(*row, JUDGE.times)
        followed[b] += end
        for table, part in zip(tables, parts, strict=True):
            table[b] += np.array(part, dtype=float)
    found = sums.table
    np.testing.assert_array_equal(found.started, np.column_stack([tables[0], followed]))
    for name, table in zip(("events", "left", "partial"), tables[1:], strict=True):
        np.testing.assert_array_equal(getattr(found, name), table)
    assert found.patients.sum() == len(risk)
    assert (found.entered >= 0).all()
    assert sums.chances == pytest.approx(risk.sum(), abs=len(risk) * STEP / 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(1, 6))
def test_any_split_of_the_same_patients_has_the_same_total(seed: int, n: int, sites: int) -> None:
    risk, outcome = draw(seed, n, late=0.3)
    if not len(risk):
        return
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 5000, len(risk)) / 1024
    owner = rng.integers(sites, size=len(risk))
    parts = [
        JUDGE.count(risk[owner == s], outcome[owner == s], weights[owner == s])
        for s in np.unique(owner)
    ]
    alone, together = JUDGE.count(risk, outcome, weights), JUDGE.add(parts)
    packing = JUDGE.packing()
    total = np.sum([packing.round(part) for part in parts], axis=0)
    np.testing.assert_array_equal(total, packing.round(alone))
    back = packing.read(total)
    for name in TimeSums.quantities():
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))
        np.testing.assert_array_equal(getattr(back, name), getattr(alone, name))
    assert back.times is JUDGE.times


def test_the_unit_of_time_does_not_matter() -> None:
    risk, outcome = draw(3, 500, late=0.3)
    days = outcome * [365.0, 365.0, 1.0]
    days[:, :2] = np.round(days[:, :2])
    years = days / [365.0, 365.0, 1.0]
    other = TimeJudge((365, 730, 1095), (912.5, 1825), unit="days")
    ours, theirs = count(risk, years), other.count(risk, days, np.ones(len(risk)))
    for name in TimeSums.quantities():
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert JUDGE.measure(ours) == other.measure(theirs)


# --- measures ---------------------------------------------------------------------------------


def test_perfect_and_inverted_risks() -> None:
    outcome = np.array([[0.0, 0.1 + 0.3 * k, 1.0] for k in range(16)] + [[0.0, 5.0, 0.0]] * 8)
    risk = np.array([*np.linspace(0.97, 0.2, 16), *np.full(8, 0.01)])
    best, worst = measure(count(risk, outcome)), measure(count(1 - risk, outcome))
    assert best.concordance > 0.97
    assert worst.concordance < 0.03
    assert best.concordance_high == pytest.approx(1.0, abs=0.01)
    assert np.isnan(worst.slope) or worst.slope < 0
    assert best.brier < 0.2 < worst.brier


@pytest.mark.parametrize(
    "rows",
    [
        [[0.0, 3.0, 0.0]] * 5,
        [[0.0, 5.0, 0.0]] * 5,
        [[0.0, 0.0, 1.0]],
        [[0.0, 0.0, 0.0]] * 3,
        [[0.0, 2.0, 1.0]] + [[0.0, 5.0, 0.0]] * 4,
        [[0.0, 2.0, 1.0]] * 30,
        [[1.0, 2.0, 1.0]] * 20 + [[1.5, 5.0, 0.0]] * 20,
        [[0.0, 9.0, 1.0]] * 20,
    ],
)
def test_extreme_patients_have_measures_or_none(rows: Any) -> None:
    outcome, n_rows = np.array(rows), len(rows)
    for risk in (np.full(n_rows, 0.3), np.linspace(0, 1, n_rows), np.ones(n_rows)):
        sums = count(risk, outcome)
        found = JUDGE.measure(sums)
        assert found.patients == n_rows
        assert "patients" in JUDGE.tell(found)
        assert JUDGE.tell_unknown({"a": found}).startswith("Not told of a")
        for group in JUDGE.groups(sums, 5):
            assert group.low <= group.observed <= group.high
        JUDGE.decisions(sums)
        assert found.events >= FEWEST or np.isnan(found.concordance_low)


def test_nobody_has_no_measures() -> None:
    found = JUDGE.measure(count(np.zeros(0), np.zeros((0, 3))))
    assert (found.patients, found.events) == (0, 0)
    assert np.isnan([found.concordance, found.brier, found.ratio]).all()


def test_few_events_have_no_intervals() -> None:
    outcome = np.array([[0.0, 0.3 * k, 1.0] for k in range(1, 10)] + [[0.0, 5.0, 0.0]] * 30)
    found = JUDGE.measure(count(np.linspace(0.6, 0.1, 39), outcome))
    assert not np.isnan(found.concordance)
    assert np.isnan([found.concordance_low, found.ratio_low, found.slope]).all()
    assert "too few events" in JUDGE.tell_unknown({"north": found})


@pytest.mark.parametrize(
    "changes",
    [{"concordance": 1.5}, {"events": 900.0}, {"slope_low": 9.0}, {"ratio_low": NAN}],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="measure"):
        replace(measure(count(*draw(1, 400))), **changes)


# --- within and between hospitals -------------------------------------------------------------


def test_within_hospitals_is_the_mean_of_their_own() -> None:
    parts = [count(*draw(seed, 300)) for seed in range(3)]
    placed = [JUDGE.place_within(part, 5) for part in parts]
    total = Packing(TimeWithinSums).read(
        np.sum([Packing(TimeWithinSums).round(part) for part in placed], axis=0)
    )
    found = JUDGE.measure_within(total)
    assert found is not None
    own = [rank(part) for part in parts]
    weights = [5 * (o.events // 5) for o in own]
    assert (found.sites, found.events) == (3, sum(weights))
    expected = np.average([o.value for o in own], weights=weights)
    assert found.concordance == pytest.approx(expected, abs=AREA_STEP / 2)
    assert found.concordance_low < found.concordance < found.concordance_high
    assert JUDGE.place_within(parts[0], 1000) == NOBODY
    assert JUDGE.measure_within(placed[0]) is None, "one hospital's own is not told"
    assert found.rounded(Rounding(5, 10000), 1.0) is None
    told = found.rounded(Rounding(5, 10), 1.0)
    assert told is not None
    assert told.concordance == round(found.concordance, 3)


def test_words_hold_concordances_against_each_other() -> None:
    found = measure(count(*draw(1, 2000)))
    c = found.concordance
    low = TimeWithin(3, 100, c - 0.1, c - 0.13, c - 0.05)
    high = TimeWithin(3, 100, c + 0.1, c + 0.05, c + 0.13)
    same = TimeWithin(3, 100, c, c - 0.05, c + 0.05)
    assert "tells hospitals apart, not patients" in tell_within(found, low)
    assert "in ways that the model does not know" in tell_within(found, high)
    assert tell_within(found, same).endswith("3 hospitals.")
    with pytest.raises(ValueError, match="two hospitals"):
        replace(same, sites=1)
    with pytest.raises(ValueError, match="outside"):
        replace(same, concordance_low=0.99)


def test_hospitals_tell_of_a_further_one() -> None:
    sites = [measure(count(*draw(seed, 500))) for seed in range(4)]
    ranked, slopes, ratios = JUDGE.summarise(sites)
    assert (ranked.name, slopes.name, ratios.name) == ("concordance", "slope", "ratio")
    assert ranked.across.new_low < ranked.across.mean < ranked.across.new_high < 1
    assert ratios.across.low < 1.1
    assert ratios.across.high > 0.9
    assert "A further hospital like them" in JUDGE.tell_summary(sites)
    assert "times the risk that is predicted" in JUDGE.tell_summary(sites)
    assert "not told" in JUDGE.tell_summary(sites[:2])
    assert "Paule and Mandel" in JUDGE.tell_heterogeneity(sites)
    assert JUDGE.tell_heterogeneity(sites[:1]) == ""
    assert JUDGE.heterogeneity(sites) >= 0
    assert JUDGE.tell_span(sites).startswith("By site the concordance is from 0.")


# --- published --------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(20, 600), st.integers(1, 40), st.booleans())
def test_merged_bins_hold_enough(seed: int, n_rows: int, least: int, each: bool) -> None:
    sums = count(*draw(seed, n_rows))
    merged = JUDGE.coarsen(sums, least, each=each)
    held = (
        np.stack([sums.cases, sums.patients - sums.cases]) if each else sums.patients[None]
    ).sum(axis=1)
    if held.min() < least:
        assert merged is None
        return
    assert merged is not None
    parts = [merged.cases, merged.patients - merged.cases] if each else [merged.patients]
    assert min(part.min() for part in parts) >= least
    assert merged.patients.sum() == sums.patients.sum()
    fine, coarse = measure(sums), measure(merged)
    assert (coarse.brier, coarse.slope) == pytest.approx((fine.brier, fine.slope), nan_ok=True)
    assert coarse.observed == pytest.approx(fine.observed)


@pytest.mark.parametrize("rounding", [EXACT, Rounding(5, 10), Rounding(10, 20)])
def test_what_is_published_can_be_written_and_read(rounding: Rounding) -> None:
    sums = count(*draw(7, 1500))
    measures = JUDGE.measure(sums)
    made = JUDGE.publish(sums, measures, rounding, 1.0)
    assert made is not None
    told, rounded = made
    assert JUDGE.measure(told) == rounded
    least = max(5, rounding.smallest)
    assert told.cases.min() >= least
    assert (told.patients - told.cases).min() >= least - rounding.multiple
    assert not told.table.started.any(), "no table leaves"
    if rounding != EXACT:
        assert (told.patients % rounding.multiple == 0).all()
        assert rounded.concordance == round(measures.concordance, 3)
    back = JUDGE.read(json.loads(json.dumps(JUDGE.write(told))), rounded)
    assert JUDGE.groups(back, 10) == JUDGE.groups(told, 10)
    assert JUDGE.decisions(back) == JUDGE.decisions(told)
    merged = JUDGE.coarsen(sums, least, each=True)
    assert merged is not None
    for ours, theirs in zip(JUDGE.groups(told, 99), JUDGE.groups(merged, 99), strict=True):
        assert ours.observed == pytest.approx(theirs.observed, abs=0.06)
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.08)
    again = JUDGE.publish(told, rounded, Rounding(25, 50), 1.0)
    assert again is not None
    assert again[0].cases.min() >= 50
    few = count(*draw(7, 12))
    assert JUDGE.publish(few, JUDGE.measure(few), EXACT, 1.0) is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("risks", lambda x: 2.0),
        ("predicted", lambda x: 0.999),
        ("events", lambda x: 10_000.0),
        ("below", lambda x: x / 2),
        ("errors", lambda x: -x),
        ("above", lambda x: x - 0.1),
        ("risk_above", lambda x: 1.5),
        ("other", lambda x: 1.0),
    ],
)
def test_what_does_not_fit_is_not_read(name: str, change: Any) -> None:
    sums = count(*draw(7, 1500))
    made = JUDGE.publish(sums, JUDGE.measure(sums), Rounding(5, 10), 1.0)
    assert made is not None
    facts = JUDGE.write(made[0])
    first, *rest = facts["groups"]
    changed = {"groups": [{**first, name: change(first.get(name))}, *rest]}
    with pytest.raises(ValueError, match="group|risk"):
        JUDGE.read(changed, made[1])


def test_groups_hold_all_patients_and_their_means() -> None:
    risk, outcome = draw(4, 2000)
    groups = JUDGE.groups(count(risk, outcome), 10)
    assert sum(group.patients for group in groups) == len(risk)
    assert 7 <= len(groups) <= 10
    total = sum(group.patients * group.predicted for group in groups)
    assert total == pytest.approx(risk.sum(), rel=1e-3)
    assert all(a.below == b.above for a, b in pairwise(groups))


def test_decisions_without_censoring_are_those_of_yes_no() -> None:
    risk, outcome = draw(4, 800)
    outcome[outcome[:, 2] == 0, 1] = 5.0
    for found in JUDGE.decisions(count(risk, outcome)):
        at = found.threshold
        treated, case = risk >= at, outcome[:, 2] == 1
        hit, false = (treated & case).sum(), (treated & ~case).sum()
        n, odds = len(risk), at / (1 - at)
        assert found.net_benefit == pytest.approx((hit - odds * false) / n)
        assert found.treat_all == pytest.approx((case.sum() - odds * (~case).sum()) / n)
        assert found.sensitivity == pytest.approx(hit / case.sum())
        assert found.specificity == pytest.approx(1 - false / (~case).sum())
        if treated.any() and not treated.all():
            assert found.ppv == pytest.approx(hit / treated.sum())
            assert found.npv == pytest.approx((~treated & ~case).sum() / (~treated).sum())


def test_the_words_of_measures() -> None:
    found = JUDGE.measure(count(*draw(1, 1000)))
    words = JUDGE.tell(found)
    assert f"concordance {found.concordance:.3f}" in words
    assert "Brier score by 5 years" in words
    assert dict(JUDGE.tell_briefly(found))["Brier"] == f"{found.brier:.3f}"
    assert JUDGE.tell_unknown({"all": found}) == ""
    names = set(vars(found))
    assert {column.name for column in JUDGE.measure_columns if "within" not in column.name} <= names
    sums = count(*draw(1, 1000))
    for columns, rows in (
        (JUDGE.group_columns, JUDGE.groups(sums, 5)),
        (JUDGE.decision_columns, JUDGE.decisions(sums)),
    ):
        assert {column.name for column in columns} <= set(vars(rows[0]))
    assert isinstance(found.rounded(5.0), Measures)
    assert found.rounded(5.0).patients % 5 == 0
    assert bin_means(sums).shape == (25,)
