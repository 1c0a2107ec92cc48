"""Round numbers against naive loops over fractions, and what must hold of every choice."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grids import estimate, ones

from fedrulefit.core.bins import Bins, count_histograms, public_cutoffs
from fedrulefit.core.cutoffs import exact_grid
from fedrulefit.core.grid import Axis, on_public_edges
from fedrulefit.core.ladder import (
    ROUNDEST,
    choose_limits,
    choose_round,
    find_roundness,
    log_round_edges,
    round_edges,
    roundest_between,
)
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.study import Number

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=80)


# --- naive twins ------------------------------------------------------------------------


RUNGS = {3 * e + k: d * Fraction(10) ** e for e in range(-9, 12) for k, d in enumerate((1, 2, 5))}


@cache
def rank_of(number: float) -> int:
    """The highest rung that divides a number, of all from 10⁻⁹ to 5·10¹¹."""
    exact = Fraction(repr(number))
    if exact == 0:
        return ROUNDEST
    return max(rung for rung in RUNGS if exact % RUNGS[rung] == 0)


def candidates(low: float, high: float, step: float | None, unit: Fraction) -> list[float]:
    """All multiples of a unit (and the step) strictly inside a range, by counting."""
    first, last = int(Fraction(low) / unit) - 1, int(Fraction(high) / unit) + 1
    every = [k * unit for k in range(first, last + 1)]
    if step is not None:
        every = [v for v in every if v % Fraction(repr(step)) == 0]
    return [float(v) for v in every if low < float(v) < high]


def naive_choice(ranks: Any, below: Any, least: float) -> list[bool]:
    """Take the roundest first if every chosen neighbour, and either end, is far enough."""
    taken: list[int] = []
    for place in sorted(range(len(ranks)), key=lambda i: (-ranks[i], i)):
        marks = [0.0, 1.0, *(below[i] for i in taken)]
        if min(abs(below[place] - mark) for mark in marks) >= least - 1e-12:
            taken.append(place)
    return [i in taken for i in range(len(ranks))]


# --- the ladder -------------------------------------------------------------------------


@REPEATABLE
@given(st.integers(-(10**6), 10**6), st.integers(-4, 4))
def test_roundness_is_the_highest_rung_that_divides(digits: int, place: int) -> None:
    number = float(Fraction(digits) * Fraction(10) ** place)
    assert find_roundness(np.array([number])).tolist() == [rank_of(number)]


def test_roundness_by_hand() -> None:
    expected = {100.0: 6, 50: 5, 40: 4, 35: 2, 37: 0, 0.5: -1, 0.25: -4, -20: 4, 0: ROUNDEST}
    assert find_roundness(np.array([*expected])).tolist() == [*expected.values()]


@REPEATABLE
@given(
    st.integers(-2000, 2000),
    st.integers(10, 3000),
    st.integers(5, 120),
    st.sampled_from([None, 0.01, 0.25, 1.0, 3.0]),
)
def test_edges_are_all_numbers_of_the_least_roundness_that_has_room(
    start: int, width: int, n_bins: int, step: float | None
) -> None:
    low, high = start / 100, (start + width) / 100
    edges = round_edges(low, high, n_bins, step=step)
    assert len(edges) - 1 <= n_bins
    assert (edges[0], edges[-1]) == (low, high)
    assert (np.diff(edges) > 0).all()
    top = (
        step is not None
        and Fraction(repr(high)) % Fraction(repr(step)) == 0
        and step / 2 < high - low
    )
    room = n_bins - 1 - top
    # All that is coarse enough: of this unit there are too many, or no finer multiples of the step.
    unit = Fraction(10) ** int(np.floor(np.log10((high - low) / n_bins)))
    every = candidates(low, high, step, unit if step is None else Fraction(1, 100))
    ranks = {v: rank_of(v) for v in every}
    expected: list[float] = []
    for least in sorted(set(ranks.values()), reverse=True):
        found = [v for v in every if ranks[v] >= least]
        if len(found) > room:
            break
        expected = found
    assert edges[1 : -1 - top].tolist() == sorted(expected)
    if top:
        assert edges[-2] == pytest.approx(high - step / 2)  # type: ignore[operator]


@settings(REPEATABLE, max_examples=40)
@given(st.integers(1, 50), st.integers(2, 1000), st.integers(6, 50), st.sampled_from([None, 1.0]))
def test_log_edges_are_as_round_as_a_share_of_them(
    start: int, times: int, n_bins: int, step: float | None
) -> None:
    low, high = start / 10, start * (1 + times / 10) / 10
    edges = log_round_edges(low, high, n_bins, step=step)
    assert len(edges) - 1 <= n_bins
    assert (edges[0], edges[-1]) == (low, high)
    assert (np.diff(edges) > 0).all()
    inside = edges[1:-1]
    if step is not None and high % 1 == 0 and high - low > 0.5:
        inside = inside[:-1]
    if not len(inside) or n_bins < 20:
        return
    # One k for all: with it, every number that is in is in, and none else; with one more, too many.
    k = max(int(np.ceil(v / rung_of(v) - 1e-9)) for v in inside.tolist())
    unit = Fraction(10) ** int(np.floor(np.log10(low / (k + 1))))
    every = candidates(low, high, step, unit) if high / unit < 20_000 else []
    if every:
        reach = {v: v / rung_of(v) for v in every}
        assert inside.tolist() == [v for v in every if reach[v] <= k + 1e-9]
        further = sorted(r for r in reach.values() if r > k + 1e-9)
        nearest = np.ceil(further[0] - 1e-9) if further else np.inf
        room = n_bins - 1 - (len(edges) - 2 - len(inside))
        assert not further or sum(r <= nearest + 1e-9 for r in reach.values()) > room


def rung_of(number: float) -> float:
    rank = int(find_roundness(np.array([number]))[0])
    return float((1, 2, 5)[rank % 3] * Fraction(10) ** (rank // 3))


@REPEATABLE
@given(
    st.lists(st.integers(-200, 200), min_size=2, max_size=8, unique=True).map(sorted),
    st.sampled_from([None, 0.01, 0.05, 0.25]),
)
def test_the_roundest_between_is_the_first_of_the_roundest(
    hundredths: list[int], step: float | None
) -> None:
    own = 1 if step is None else round(100 * step)
    values = np.unique([float(Fraction(h * own, 100)) for h in hundredths])
    found, ranks = roundest_between(values[:-1], values[1:], step)
    assert len(found) == len(values) - 1
    for a, b, number, rank in zip(values, values[1:], found, ranks, strict=False):
        # Of coarser numbers than the values' own hundredths there may be none.
        every = [*candidates(a, b, step, Fraction(1, 100)), float(b)]
        best = max(map(rank_of, every))
        assert rank == best
        assert number == min(v for v in every if rank_of(v) == best)


# --- the choice -------------------------------------------------------------------------


@st.composite
def crowds(draw: Any) -> tuple[Any, Any]:
    """Ranks of candidates, and patients below each: whole numbers, so that ties are exact."""
    counts = draw(st.lists(st.integers(0, 20), min_size=2, max_size=40))
    total = max(sum(counts), 1)
    below = np.cumsum(counts)[:-1] / total
    ranks = draw(st.lists(st.integers(-3, 3), min_size=len(below), max_size=len(below)))
    return np.array(ranks), below


@REPEATABLE
@given(crowds(), st.integers(1, 20))
def test_the_choice_is_that_of_the_naive_loop(crowd: Any, n_cutoffs: int) -> None:
    ranks, below = crowd
    least = 1 / (n_cutoffs + 1)
    chosen = choose_round(ranks, below, least)
    assert chosen.tolist() == naive_choice(ranks.tolist(), below.tolist(), least)
    assert chosen.sum() <= n_cutoffs
    between = np.diff([0.0, *below[chosen], 1.0])
    assert chosen.sum() == 0 or between.min() >= least - 1e-9


@REPEATABLE
@given(crowds(), st.integers(1, 20), st.integers(1, 20))
def test_room_for_more_never_drops_one_but_for_one_as_round(
    crowd: Any, n_cutoffs: int, more: int
) -> None:
    ranks, below = crowd
    few = choose_round(ranks, below, 1 / (n_cutoffs + 1))
    many = choose_round(ranks, below, 1 / (n_cutoffs + more + 1))
    order = sorted(range(len(ranks)), key=lambda i: (-ranks[i], i))
    first = next((i for i in order if few[i] != many[i]), None)
    assert first is None or many[first]


@REPEATABLE
@given(crowds(), st.sampled_from([0.01, 0.025, 0.1, 0.3, 0.45]))
def test_limits_are_the_roundest_near_their_share(crowd: Any, most: float) -> None:
    ranks, below = crowd
    numbered = np.arange(len(ranks) + 2.0)
    below, ranks = np.array([0.0, *below, 1.0]), np.array([0, *ranks, 0])
    low, high = (int(v) for v in choose_limits(numbered, ranks, below, 1 - below, most))
    assert low <= high
    for place, beyond in ((low, below), (high, 1 - below)):
        allowed = [i for i, b in enumerate(beyond) if b <= most + 1e-12]
        near = [i for i in allowed if beyond[i] >= most / 2 - 1e-12]
        assert place in allowed
        if near:
            assert ranks[place] == max(ranks[i] for i in near)
            assert beyond[place] == max(beyond[i] for i in near if ranks[i] == ranks[place])
        else:
            assert beyond[place] == max(beyond[i] for i in allowed)


# --- grids of round numbers -------------------------------------------------------------


def round_bins(low: float, high: float, n_bins: int = 100, **facts: Any) -> Bins:
    return Number(range=(low, high), **facts).bins(n_bins, "round")


def fit_round(x: Any, bins: Bins, **changes: Any) -> Axis:
    counts = count_histograms(x[:, None], ones(len(x)), [bins])
    options = {"n_cutoffs": 32, "winsor": 0.025, "repair": "project", "centre": True}
    return estimate(counts, bins, **{**options, "style": "round", **changes}).axes[0]


@REPEATABLE
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.sampled_from(
        [
            round_bins(-3, 4.5),
            round_bins(15, 100, step=1.0),
            round_bins(0, 14, step=0.5),
            round_bins(0.2, 90, spacing="log"),
            round_bins(0, 1000, 30, complete=True),
        ]
    ),
)
def test_without_noise_histograms_and_pooled_values_give_the_same(
    seed: int, n_cutoffs: int, bins: Bins
) -> None:
    """Where values are as round as the bins: no bin then holds two."""
    rng = np.random.default_rng(seed)
    ends = bins.edges[[0, -1]]
    x = rng.choice(np.unique([ends[0], *public_cutoffs(bins)]), 300)
    x = np.minimum(x, rng.choice(x, 300))
    axis = fit_round(x, bins, n_cutoffs=n_cutoffs)
    options = {"n_cutoffs": n_cutoffs, "winsor": 0.025, "centre": True, "style": "round"}
    pooled = exact_grid(x[:, None], np.ones(300), [bins], **options).axes[0]
    assert axis.cutoffs.tolist() == pooled.cutoffs.tolist()
    assert on_public_edges(axis, bins)


def test_round_cutoffs_part_enough_patients_and_end_with_the_range() -> None:
    rng = np.random.default_rng(3)
    x = np.clip(np.rint(rng.normal(55, 18, 3000)), 16, 99)
    bins = round_bins(15, 100, step=1.0, complete=True)
    axis = fit_round(x, bins, n_cutoffs=12)
    sides = np.histogram(x, [-np.inf, *axis.cutoffs, np.inf])[0]
    assert sides.min() >= 3000 / 13
    # 30 has too few below; 32 is the next that is round.
    assert axis.cutoffs.tolist() == [32, 40, 45, 50, 55, 60, 65, 70, 80]
    assert axis.limits == (18, 92)  # 2.53 % are below 20, and more above 90


def test_the_middle_of_a_bin_is_that_of_the_values_it_can_hold() -> None:
    """Of whole numbers, that between 14 and 14.5 is 14, not 14.25: means would be too high."""
    bins = round_bins(3, 15, step=1.0)
    assert bins.middles.tolist() == list(range(3, 16))
    coarse = round_bins(0, 40, 5, step=1.0)
    assert coarse.edges.tolist() == [0, 10, 20, 30, 39.5, 40]
    assert coarse.middles.tolist() == [4.5, 14.5, 24.5, 34.5, 40]
    assert round_bins(0, 4, 5).middles.tolist() == [0.5, 1.5, 2.5, 3.5]
    x = np.random.default_rng(1).integers(3, 16, 500).astype(float)
    axis = fit_round(x, bins)
    assert axis.centre == pytest.approx(x.mean(), rel=1e-12)
    assert axis.spread == pytest.approx(x.std(), rel=1e-12)


def test_the_highest_score_has_a_bin_and_a_cutoff_of_its_own() -> None:
    x = np.repeat([3.0, 9.0, 14, 15], [10, 10, 10, 40])
    axis = fit_round(x, round_bins(3, 15, step=1.0, complete=True), n_cutoffs=5)
    assert axis.cutoffs.tolist() == [10]  # one in seven at 14 is too few between 10 and 15
    axis = fit_round(x, round_bins(3, 15, step=1.0, complete=True), n_cutoffs=6)
    assert axis.cutoffs.tolist() == [5, 10, 15]
    assert axis.limits == (3, 15)


def test_noise_moves_few_round_cutoffs_and_more_quantiles() -> None:
    """Fixed draws of the noise of five sites. Of two runs' cut-offs, nine in ten are in both."""
    rng = np.random.default_rng(5)
    x = np.clip(rng.normal(120, 20, 2000), 60, 220)
    shared = {}
    for style in ("round", "quantile"):
        bins = Number(range=(60, 220)).bins(100, style)  # type: ignore[arg-type]
        draws = [cutoffs_under_noise(x, bins, seed, style) for seed in range(12)]
        pairs = [(a, b) for k, a in enumerate(draws) for b in draws[:k]]
        shared[style] = np.mean([len(a & b) / len(a | b) for a, b in pairs])
    assert shared["round"] > 0.9
    assert shared["quantile"] < 0.8


def cutoffs_under_noise(x: Any, bins: Bins, seed: int, style: Any) -> set[float]:
    counts = count_histograms(x[:, None], ones(len(x)), [bins])
    for site in range(5):
        noise = UnsafeSeededLaplace(seed, f"site {site}")
        counts, _ = noise.add(counts, sensitivity=1, epsilon=1.0)
    options = {"n_cutoffs": 48 if style == "round" else 32, "repair": "project", "style": style}
    return {*estimate(counts, bins, **options).axes[0].cutoffs.tolist()}
