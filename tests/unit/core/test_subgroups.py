"""Who satisfies rules, counted one by one; how often intervals of rates hold."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from tests.oracles import YES_NO

from fedrulefit.core.design import build_design
from fedrulefit.core.families.sides import UNKNOWN
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.core.shares import newcombe, wilson
from fedrulefit.core.subgroups import SubgroupSums, contrast, sum_subgroups

RULES = (
    Rule((Condition(0, 0b0011),)),
    Rule((Condition(0, 0b1110), Condition(1, 0b01))),
    Rule((Condition(1, 0b10 | 1 << 255),)),
)


def make_patients(seed: int, n_rows: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, 4, n_rows), rng.choice([0, 1, 255], n_rows)])
    weights = rng.choice([0.0, 1.0, 2.5], n_rows)
    return codes.astype(np.uint8), rng.integers(0, 2, n_rows).astype(float), weights


def add_up(codes: Any, outcome: Any, weights: Any) -> Any:
    return sum_subgroups(
        build_design(codes, RULES, np.empty((len(codes), 0))), outcome, weights, YES_NO
    )


def test_counts_are_those_of_the_patients_and_add_up_over_sites() -> None:
    sites = [make_patients(seed, n_rows) for seed, n_rows in ((1, 23), (2, 40), (3, 0))]
    packing = SubgroupSums.packing(len(RULES), YES_NO)
    total = np.sum([add_up(*site) for site in sites], axis=0)
    pooled = [np.concatenate(parts) for parts in zip(*sites, strict=True)]
    np.testing.assert_array_equal(total, add_up(*pooled))
    found = packing.read(total)
    for k, rule in enumerate(RULES):
        inside = events = 0.0
        for row, y, w in zip(*pooled, strict=True):
            if all(c.codes >> int(row[c.feature]) & 1 for c in rule):
                inside += w
                events += w * y
        assert (found.inside[k], found.tallies_inside[k]) == (inside, events)


def test_rates_of_exact_counts_have_the_usual_intervals() -> None:
    found = contrast(80, 20, 500, 60, step=0)
    inside, outside = np.array([0.25, 80.0]), np.array([40 / 420, 420.0])
    assert (found.level_inside, found.level_outside) == (inside[0], outside[0])
    assert (found.low_inside, found.high_inside) == wilson(*inside)
    assert (found.low_outside, found.high_outside) == wilson(*outside)
    ends = newcombe(*inside, *outside, np.float64(0))
    assert (found.low_gap, found.high_gap) == pytest.approx(ends)
    assert found.gap == inside[0] - outside[0]


@pytest.mark.parametrize("counts", [(0, 0, 100, 20), (100, 20, 100, 20)])
def test_nobody_on_one_side_is_not_compared(counts: Any) -> None:
    assert contrast(*counts, step=5) is UNKNOWN
    assert all(map(math.isnan, astuple(UNKNOWN)))


def test_rounded_counts_that_do_not_fit_each_other_still_give_rates() -> None:
    found = contrast(100, 60, 500, 55, step=5)
    assert found.level_outside == 0
    assert 0 <= found.low_outside <= found.high_outside < 0.1


N_DRAWN = 4000


def draw_told(rng: Any, total: int, share: float, rates: Any, step: float) -> Any:
    """Return the intervals that are told of samples, shape (≤ N_DRAWN, 9).

    As in a model file: not where a cell of the table rule × outcome is small, and of rounded
    counts.
    """
    told, least = [], 10 if step else 5
    for _ in range(N_DRAWN):
        inside = rng.binomial(total, share)
        sizes = np.array([inside, total - inside])
        cases = rng.binomial(sizes, rates)
        if min(*cases, *(sizes - cases)) >= least:
            counts = np.array([inside, cases[0], total, cases.sum()], dtype=float)
            told.append(contrast(*(step * np.rint(counts / step) if step else counts), step))
    return np.array([astuple(one) for one in told])


ENDS = ((1, 2), (4, 5), (7, 8))
"""Columns of the intervals of both rates, and of the difference."""


@pytest.mark.parametrize("step", [0.0, 5.0])
@pytest.mark.parametrize(("total", "share"), [(501, 0.1), (502, 0.5), (2019, 0.25)])
@pytest.mark.parametrize("rates", [(0.4, 0.1), (0.3, 0.3), (0.6, 0.45)])
def test_intervals_hold(total: int, share: float, rates: Any, step: float) -> None:
    """In 93 to 98 % of samples, of rounded counts, too.

    At a coverage of .95 the share of 4,000 samples has a standard error of .0034: below .93 or
    above .98 it is less than once in 10⁸. The coverage itself is .942 to .970.
    """
    rng = np.random.default_rng([total, int(10 * rates[0]), int(step)])
    found = draw_told(rng, total, share, rates, step)
    assert len(found) > 0.9 * N_DRAWN
    for truth, (low, high) in zip((*rates, rates[0] - rates[1]), ENDS, strict=True):
        covered = ((found[:, low] <= truth) & (truth <= found[:, high])).mean()
        assert 0.93 <= covered <= 0.98


@pytest.mark.parametrize("step", [0.0, 5.0])
@pytest.mark.parametrize(
    ("total", "events"),
    [(n, cases) for n in (100, 500, 2000) for cases in (2, 5, 20, 100) if cases < n],
)
def test_with_few_events_nothing_is_told_rather_than_something_wrong(
    total: int, events: int, step: float
) -> None:
    """Of all samples few have an interval that misses: the others hold, or say "too few".

    At most one in twenty; that more than .07 of 4,000 do then has a chance below 10⁻⁸.
    """
    rng = np.random.default_rng([total, events, int(step)])
    found = draw_told(rng, total, 0.25, [events / total] * 2, step)
    missed = np.zeros(1) if not len(found) else (found[:, 7] > 0) | (found[:, 8] < 0)
    assert missed.sum() <= 0.07 * N_DRAWN
    if events == 2:
        assert len(found) == 0
