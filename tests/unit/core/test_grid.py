"""Histograms, quantiles, spreads and codes against naive loops and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.fixed import FINE_BITS, LARGEST_TERM, from_units
from fedrulefit.core.grid import (
    Axis,
    Bins,
    Grid,
    SpreadUnits,
    check_linear,
    count_histograms,
    encode,
    estimate_grid,
    exact_grid,
    linear_values,
    on_public_edges,
    public_cells,
    read_spreads,
    repair_counts,
    split_cells,
    sum_spreads,
    term_bounds,
)
from fedrulefit.core.rules import Condition, describe_condition

SUMS = tuple(SpreadUnits.__annotations__)

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)


def numbers(
    edges: Any, *, cutoffs: Any = None, step: float | None = None, complete: bool = True
) -> Bins:
    fixed = None if cutoffs is None else np.asarray(cutoffs, float)
    return Bins.numeric(np.asarray(edges, float), cutoffs=fixed, step=step, complete=complete)


def estimate(counts: Any, bins: Bins | list[Bins], **changes: Any) -> Grid:
    options: dict[str, Any] = {
        "n_cutoffs": 3,
        "winsor": 0.0,
        "repair": "clip",
        "centre": False,
        "spreads": None,
    }
    every = bins if isinstance(bins, list) else [bins]
    return estimate_grid(np.asarray(counts, np.int64), every, **{**options, **changes})


def ones(n_rows: int) -> Any:
    return np.ones(n_rows, dtype=np.int64)


# --- histograms -------------------------------------------------------------------------


def naive_counts(column: Any, units: Any, bins: Bins) -> list[int]:
    counts = [0] * bins.n_cells
    for value, unit in zip(column, units, strict=True):
        if math.isnan(value):
            cell = bins.n_bins
        elif value < bins.edges[0]:
            cell = 0
        elif value >= bins.edges[-1]:
            cell = bins.n_bins - 1
        else:
            (cell,) = [b for b in range(bins.n_bins) if bins.edges[b] <= value < bins.edges[b + 1]]
        counts[cell] += int(unit)
    return counts


def test_counts_equal_a_naive_loop_over_patients() -> None:
    rng = np.random.default_rng(1)
    bins = [
        numbers([-2, -1, 0.5, 1, 3], complete=False),
        Bins.categorical(4, complete=False),
        Bins.binary(complete=False),
        numbers(np.linspace(-3, 3, 12)),
    ]
    n_rows = 300
    values = np.column_stack(
        [
            rng.choice([-5, -2, -1, 0.2, 0.5, 1, 2.9, 3, 9, np.nan], n_rows),
            rng.choice([0, 1, 2, 3, np.nan], n_rows),
            rng.choice([0, 1, np.nan], n_rows),
            rng.normal(size=n_rows) * 2,
        ]
    )
    units = rng.integers(0, 5, n_rows)
    expected = [n for j, b in enumerate(bins) for n in naive_counts(values[:, j], units, b)]
    counts = count_histograms(values, units, bins)
    assert counts.dtype == np.int64
    assert counts.tolist() == expected


def test_values_outside_the_public_range_count_in_the_end_bins() -> None:
    bins = numbers([0, 1, 2, 3])
    values = np.array([[-1e9], [-0.1], [0.0], [1.0], [2.999], [3.0], [1e9]])
    assert count_histograms(values, ones(7), [bins]).tolist() == [3, 1, 3]


def test_a_missing_value_has_its_own_last_cell() -> None:
    bins = numbers([0, 1, 2], complete=False)
    values = np.array([[np.nan], [0.5], [np.nan], [1.5]])
    assert count_histograms(values, ones(4), [bins]).tolist() == [1, 1, 2]


def test_a_missing_value_in_a_complete_covariate_is_refused() -> None:
    with pytest.raises(ValueError, match="declares complete"):
        count_histograms(np.array([[np.nan]]), ones(1), [numbers([0, 1])])


def test_each_patient_stands_in_exactly_one_cell_of_each_covariate() -> None:
    """The sensitivity that the noise is scaled to."""
    rng = np.random.default_rng(2)
    bins = [numbers([0, 1, 2], complete=False), Bins.categorical(3, complete=False)]
    values = np.column_stack([rng.choice([-1, 0.5, 7, np.nan], 50), rng.choice([0, 2, np.nan], 50)])
    for row in range(50):
        parts = split_cells(count_histograms(values[row : row + 1], ones(1), bins), bins)
        assert [sorted(part.tolist()) for part in parts] == [[0, 0, 1], [0, 0, 0, 1]]


def test_histograms_of_sites_add_up_to_the_pooled_histogram() -> None:
    rng = np.random.default_rng(3)
    bins = [numbers(np.linspace(-2, 2, 9), complete=False)]
    values = rng.normal(size=(60, 1))
    site = rng.integers(0, 3, 60)
    parts = [count_histograms(values[site == m], ones((site == m).sum()), bins) for m in range(3)]
    assert sum(parts).tolist() == count_histograms(values, ones(60), bins).tolist()


def test_split_cells_refuses_a_wrong_number_of_counts() -> None:
    with pytest.raises(ValueError, match="expected 3 counts"):
        split_cells(np.zeros(4, np.int64), [numbers([0, 1, 2], complete=False)])


# --- categories and scores, by hand ---------------------------------------------------------

LEVELS = ("fall", "car", "burn", "other")
"""Positions 0 to 3."""


@pytest.mark.parametrize(
    ("level", "cells", "code", "condition"),
    [
        (0.0, [1, 0, 0, 0, 0], 0, "injury = fall"),
        (1.0, [0, 1, 0, 0, 0], 1, "injury = car"),
        (2.0, [0, 0, 1, 0, 0], 2, "injury = burn"),
        (3.0, [0, 0, 0, 1, 0], 3, "injury = other"),
        (math.nan, [0, 0, 0, 0, 1], 255, "injury is missing"),
    ],
)
def test_each_level_has_its_own_cell_code_and_word(
    level: float, cells: list[int], code: int, condition: str
) -> None:
    """Written out: a twin that reads the same edges is blind to levels moved by one."""
    bins = Bins.categorical(4, complete=False)
    values = np.array([[level]])
    assert count_histograms(values, ones(1), [bins]).tolist() == cells
    grid = estimate([1, 2, 3, 4, 5], bins)
    assert encode(values, grid).tolist() == [[code]]
    said = describe_condition(Condition(0, 1 << code), grid.axes[0], "injury", levels=LEVELS)
    assert said == condition


@pytest.mark.parametrize(
    ("value", "cells", "code"),
    [(0.0, [1, 0, 0], 0), (1.0, [0, 1, 0], 1), (math.nan, [0, 0, 1], 255)],
)
def test_no_is_0_and_yes_is_1(value: float, cells: list[int], code: int) -> None:
    bins = Bins.binary(complete=False)
    assert count_histograms(np.array([[value]]), ones(1), [bins]).tolist() == cells
    grid = estimate([5, 5, 5], bins)
    assert grid.axes[0].cutoffs.tolist() == [0.5]
    assert encode(np.array([[value]]), grid).tolist() == [[code]]


def test_bins_by_hand() -> None:
    category, binary = Bins.categorical(3, complete=True), Bins.binary(complete=False)
    assert category.edges.tolist() == [-0.5, 0.5, 1.5, 2.5]
    assert category.midpoints.tolist() == [0, 1, 2]
    assert (category.n_bins, category.n_cells) == (3, 3)
    assert binary.edges.tolist() == [-0.5, 0.5, 1.5]
    assert (binary.n_bins, binary.n_cells) == (2, 3)
    number = numbers([-2, 0, 6])
    assert (number.centre, number.half, number.midpoints.tolist()) == (2, 4, [-1, 3])
    assert [number.clip(x) for x in (-3, -2, 1.5, 6, 7)] == [-2, -2, 1.5, 6, 6]


def test_codes_of_a_number_by_hand() -> None:
    """The code is the number of cut-offs that are not above the value."""
    axis = Axis("number", np.array([40.0, 57.0, 80.0]), 4, complete=False)
    values = np.array([-1e9, 39.9, 40.0, 56.9, 57.0, 79.9, 80.0, 1e9, math.nan])
    codes = encode(values[:, None], Grid((axis,)))
    assert codes.dtype == np.uint8
    assert codes[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 255]


def test_an_axis_has_between_one_and_255_codes() -> None:
    for n_codes in (1, 255):
        assert Axis("category", np.empty(0), n_codes, complete=True).n_codes == n_codes
    for n_codes in (0, 256):
        with pytest.raises(ValueError, match="1 to 255 codes"):
            Axis("category", np.empty(0), n_codes, complete=True)
    with pytest.raises(ValueError, match="one code more"):
        Axis("number", np.array([1.0, 2.0]), 2, complete=True)
    for cutoffs in ([1.0, 1.0], [2.0, 1.0]):
        with pytest.raises(ValueError, match="must increase"):
            Axis("number", np.array(cutoffs), 3, complete=True)
    for wrong in ({"spread": -1.0}, {"limits": (2.0, 1.0)}):
        with pytest.raises(ValueError, match="must not be negative, nor"):
            Axis("number", np.array([1.0]), 2, complete=True, **wrong)


def test_which_codes_there_are() -> None:
    assert Axis("category", np.empty(0), 3, complete=True).every_code == 0b111
    assert Axis("category", np.empty(0), 3, complete=False).every_code == 0b111 | 1 << 255


def test_which_covariates_have_a_linear_term() -> None:
    cut = np.array([1.0])
    term = Axis("number", cut, 2, complete=True, limits=(0.0, 4.0), spread=0.5, centre=1.0)
    none = [
        replace(term, spread=0.0),
        replace(term, limits=(2.0, 2.0)),
        Axis("number", cut, 2, complete=True),
        Axis("category", np.empty(0), 2, complete=True, limits=(0.0, 4.0), spread=0.5),
    ]
    assert Grid((none[0], term, none[1], none[2], none[3], term)).linear == (1, 5)
    # 0.4·max(|0 − 1|, |4 − 1|, |fill − 1|)/0.5
    assert term.largest == pytest.approx(2.4)
    assert replace(term, fill=-5.0).largest == pytest.approx(4.8)


# --- cut-offs ---------------------------------------------------------------------------


def test_a_quantile_is_the_upper_edge_of_its_bin_erratum_7() -> None:
    # Counts 1, 1, 2, 0 on [0, 10), [10, 20), [20, 30), [30, 40): F̂ = 1/4, 2/4, 1, 1.
    # Levels 1/4, 2/4, 3/4 are reached in bins 1, 2, 3, whose upper edges are 10, 20, 30;
    # the paper's lower edges would be 0, 10, 20.
    grid = estimate([1, 1, 2, 0], numbers([0, 10, 20, 30, 40]))
    assert grid.axes[0].cutoffs.tolist() == [10, 20, 30]
    assert grid.axes[0].n_codes == 4


def test_a_cutoff_leaves_at_least_its_share_of_patients_below() -> None:
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 30, 25)
    bins = numbers(np.arange(26))
    for n_cutoffs in (1, 4, 9):
        cutoffs = estimate(counts, bins, n_cutoffs=n_cutoffs).axes[0].cutoffs
        expected = set()
        for q in range(1, n_cutoffs + 1):
            upper = next(
                b + 1
                for b in range(25)
                # whole numbers: no rounding
                if counts[: b + 1].sum() * (n_cutoffs + 1) >= q * counts.sum()
            )
            expected.add(upper)
        assert cutoffs.tolist() == sorted(expected - {25})


def test_quantiles_agree_with_numpy_to_within_one_fine_bin() -> None:
    rng = np.random.default_rng(5)
    x = rng.gamma(3.0, size=(4000, 1))
    width = 0.01
    bins = numbers(np.arange(0, 40 + width / 2, width))
    counts = count_histograms(x, ones(4000), [bins])
    grid = estimate(counts, bins, n_cutoffs=19, winsor=0.025)
    levels = np.arange(1, 20) / 20
    exact = np.quantile(x, levels, method="inverted_cdf")
    above = grid.axes[0].cutoffs - exact
    assert len(grid.axes[0].cutoffs) == 19
    assert (above > 0).all()
    assert (above <= width + 1e-9).all()
    limits = np.quantile(x, [0.025, 0.975], method="inverted_cdf")
    assert np.allclose(grid.axes[0].limits, limits, atol=width + 1e-9)


def test_cutoffs_at_the_top_of_the_range_are_dropped() -> None:
    # 3 of 4 levels are reached only in the last bin: no declared value lies beyond it.
    assert estimate([1, 0, 0, 9], numbers([0, 1, 2, 3, 4])).axes[0].cutoffs.tolist() == []
    assert estimate([3, 0, 0, 7], numbers([0, 1, 2, 3, 4])).axes[0].cutoffs.tolist() == [1]


def test_repeated_quantiles_give_one_cutoff() -> None:
    assert estimate([0, 9, 1], numbers([0, 1, 2, 3]), n_cutoffs=8).axes[0].cutoffs.tolist() == [2]


def test_public_cutoffs_win_over_estimates() -> None:
    axis = estimate([5, 5], numbers([0, 1, 2], cutoffs=[0.3, 1.7])).axes[0]
    assert axis.cutoffs.tolist() == [0.3, 1.7]
    assert axis.n_codes == 3


@pytest.mark.parametrize("step", [1.0, 0.5, 0.1, 2.0])
def test_snapping_to_the_step_keeps_the_same_patients_in_every_condition(step: float) -> None:
    """Also for step 0.1, where 3 · 0.1 > 0.3 would lose the patients at 0.3."""
    rng = np.random.default_rng(6)
    # As a file gives them: the double nearest to "0.3".
    x = np.array([float(f"{v:.6g}") for v in rng.binomial(24, 0.4, 500) * step])
    # Edges off the multiples, so that the rounding of edges plays no part.
    edges = np.linspace(-0.37 * step, 24.63 * step, 60)
    counts = count_histograms(x[:, None], ones(500), [numbers(edges)])
    plain = estimate(counts, numbers(edges), n_cutoffs=12).axes[0].cutoffs
    snapped = estimate(counts, numbers(edges, step=step), n_cutoffs=12).axes[0].cutoffs
    sides = {tuple(x >= c) for c in plain}
    assert {tuple(x >= c) for c in snapped} == sides
    assert len(snapped) == len(sides)
    assert set(snapped) <= {float(f"{k * step:.6g}") for k in range(26)}


def test_a_cutoff_snapped_to_zero_is_not_minus_zero() -> None:
    axis = estimate([1, 1, 1], numbers([-1, -0.3, 0.4, 1], step=1.0), n_cutoffs=2).axes[0]
    assert [math.copysign(1, c) for c in axis.cutoffs] == [1, 1]
    assert axis.cutoffs.tolist() == [0, 1]


def test_with_a_step_the_highest_score_stays_a_cutoff() -> None:
    # GCS 3 … 15 with two thirds at 15: `≥ 15` is a condition that splits them.
    edges = np.linspace(3, 15, 25)
    x = np.repeat([3.0, 9.0, 15.0], [10, 10, 40])[:, None]
    bins = numbers(edges, step=1.0)
    axis = estimate(count_histograms(x, ones(60), [bins]), bins, n_cutoffs=5).axes[0]
    assert 15 in axis.cutoffs
    assert (encode(x, Grid((axis,)))[:, 0] == axis.n_codes - 1).sum() == 40


def test_a_top_score_of_decimal_steps_stays_a_cutoff() -> None:
    """7 · 0.1 = 0.7000000000000001 must still be recognised as the range's end, 0.7."""
    bins = numbers(np.linspace(0, 0.7, 8), step=0.1)
    assert 0.7 in estimate([1, 0, 0, 0, 0, 0, 9], bins).axes[0].cutoffs


def test_a_snapped_cutoff_beyond_the_range_is_dropped() -> None:
    axis = estimate([5, 5], numbers([0, 1.2, 1.5], step=1.0), n_cutoffs=1).axes[0]
    assert axis.cutoffs.tolist() == []


# --- mending noisy counts ---------------------------------------------------------------


def naive_projection(counts: Any, total: float) -> Any:
    """Nearest non-negative vector of that total, by bisection for the shift."""
    low, high = float(min(counts)) - abs(total) - 1, float(max(counts)) + 1
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(counts - middle, 0).sum() > total:
            low = middle
        else:
            high = middle
    return np.maximum(counts - low, 0)


noisy_counts = st.lists(st.integers(-50, 200), min_size=1, max_size=30).map(
    lambda c: np.array(c, np.int64)
)


@REPEATABLE
@given(noisy_counts)
def test_projection_is_the_nearest_non_negative_histogram_of_the_same_total(counts: Any) -> None:
    total = int(counts.sum())
    mended = repair_counts(counts, "project")
    assert (mended >= 0).all()
    if total <= 0:
        assert mended.tolist() == np.maximum(counts, 0).tolist()
        return
    assert np.isclose(mended.sum(), total, rtol=1e-12)
    assert np.allclose(mended, naive_projection(counts.astype(float), total), atol=1e-8)
    # Karush-Kuhn-Tucker: one shift for all bins that stay, at most 0 for the others.
    shift = (counts - mended)[mended > 0]
    assert np.allclose(shift, shift[0], atol=1e-9)
    assert (counts[mended == 0] <= shift[0] + 1e-9).all()


@REPEATABLE
@given(noisy_counts)
def test_clipping_cuts_at_zero_and_changes_nothing_else(counts: Any) -> None:
    assert repair_counts(counts, "clip").tolist() == [max(int(c), 0) for c in counts]


def test_counts_without_noise_are_left_alone() -> None:
    counts = np.array([3, 0, 7, 1])
    assert repair_counts(counts, "clip").tolist() == [3, 0, 7, 1]
    assert repair_counts(counts, "project").tolist() == [3, 0, 7, 1]


def test_the_repair_asked_for_is_the_one_that_is_done() -> None:
    # clip: 9, 0, 0, 3, 3, 3 passes 3/4 in bin 5; project on total 6 (shift 3): 6, 0, 0, 0, 0, 0.
    bins = numbers(np.arange(7))
    cutoffs = {
        how: estimate([9, -6, -6, 3, 3, 3], bins, repair=how).axes[0].cutoffs.tolist()
        for how in ("clip", "project")
    }
    assert cutoffs == {"clip": [1, 5], "project": [1]}


@pytest.mark.parametrize("repair", ["clip", "project"])
@pytest.mark.parametrize("counts", [[0, 0, 0, 0], [-5, -1, -2, -9]])
def test_no_patients_left_after_the_noise_means_uniform_bins(
    counts: list[int], repair: Literal["clip", "project"]
) -> None:
    axis = estimate(counts, numbers([0, 1, 2, 3, 4]), repair=repair).axes[0]
    assert axis.cutoffs.tolist() == [1, 2, 3]


def test_the_missing_cell_is_no_part_of_the_distribution() -> None:
    with_missing = estimate([1, 1, 2, 0, 500], numbers([0, 10, 20, 30, 40], complete=False))
    assert with_missing.axes[0].cutoffs.tolist() == [10, 20, 30]
    assert not with_missing.axes[0].complete


# --- winsor limits, spread, centre ------------------------------------------------------


def test_winsor_zero_means_the_whole_public_range() -> None:
    assert estimate([1, 2, 3], numbers([-1, 0, 5, 7])).axes[0].limits == (-1, 7)


def test_winsor_limits_are_the_outer_quantiles() -> None:
    bins = numbers(np.arange(11))
    assert estimate([10] * 10, bins, winsor=0.1).axes[0].limits == (1, 9)
    assert estimate([10] * 10, bins, winsor=0.11).axes[0].limits == (2, 9)


def test_the_exact_spread_is_that_of_all_patients_together() -> None:
    rng = np.random.default_rng(7)
    bins = [numbers([-100, 0, 100]), numbers([-100, 0, 100], complete=False)]
    sites = [rng.normal(m, 1 + m, size=(n, 2)) for m, n in enumerate([5, 9, 20])]
    sites[1][:3, 1] = np.nan
    parts = [sum_spreads(x, np.ones(len(x)), bins) for x in sites]
    total = SpreadUnits(*(sum(getattr(p, name) for p in parts) for name in SUMS))
    grid = estimate(np.ones(5), bins, spreads=read_spreads(total, bins))
    pooled = np.vstack(sites)
    for j in range(2):
        expected = np.nanstd(pooled[:, j], ddof=1)
        assert grid.axes[j].spread == pytest.approx(expected, rel=1e-9)
    whole = sum_spreads(pooled, np.ones(len(pooled)), bins)
    for name in SUMS:
        assert getattr(total, name).tolist() == getattr(whole, name).tolist()


def test_spread_sums_treat_weights_as_repeated_patients() -> None:
    rng = np.random.default_rng(8)
    x, weights = rng.normal(size=(12, 1)), rng.integers(0, 4, 12)
    bins = [numbers([-9, 0, 9])]
    weighted = sum_spreads(x, weights.astype(float), bins)
    repeated = sum_spreads(np.repeat(x, weights, axis=0), np.ones(weights.sum()), bins)
    assert weighted.known.tolist() == repeated.known.tolist()
    # In units: a patient is rounded once, its copies each.
    assert weighted.sums == pytest.approx(repeated.sums, abs=float(weights.sum()))
    assert weighted.squares == pytest.approx(repeated.squares, abs=float(weights.sum()))


def test_spread_sums_see_a_value_outside_as_the_end_of_the_range() -> None:
    bins = [numbers([0, 1, 2])]
    outside = sum_spreads(np.array([[-50.0], [1.0], [99.0]]), np.ones(3), bins)
    at_ends = sum_spreads(np.array([[0.0], [1.0], [2.0]]), np.ones(3), bins)
    for sums in (outside, at_ends):
        found = [from_units(part, FINE_BITS).tolist() for part in vars(sums).values()]
        assert found == [[3], [0], [2]]


def test_a_category_and_an_unknown_covariate_send_no_spread() -> None:
    bins = [Bins.categorical(3, complete=True), numbers([0, 1], complete=False)]
    sums = sum_spreads(np.array([[0, np.nan], [2, np.nan]]), np.ones(2), bins)
    assert [part.tolist() for part in vars(sums).values()] == [[0, 0]] * 3
    assert read_spreads(sums, bins).tolist() == [0, 0]


def test_a_spread_is_never_so_small_that_the_term_outgrows_a_sum() -> None:
    """A range in kelvin, a spread of millikelvin: the term would be in the thousands."""
    bins = [numbers([250, 300, 350])]
    for centre in (True, False):
        axis = estimate([3, 3], bins, spreads=np.array([1e-3]), centre=centre).axes[0]
        assert axis.largest == pytest.approx(LARGEST_TERM)
        ends = linear_values(np.array([[0.0], [250], [350], [999], [np.nan]]), Grid((axis,)))
        assert np.abs(ends).max() == pytest.approx(LARGEST_TERM)
        check_linear(axis, bins[0])


GOOD = Axis("number", np.array([1.0]), 2, False, (0.5, 2.0), 0.5, 1.0, 1.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"limits": (-1.0, 2.0)}, "outside"),
        ({"limits": (0.5, 1e9)}, "outside"),
        ({"centre": -1e6}, "outside"),
        ({"centre": 0.4}, "outside"),
        ({"fill": 1e300}, "outside"),
        ({"fill": 0.4}, "outside"),
        ({"spread": 1e9}, "outside"),
        ({"spread": 1e-300}, "too small"),
        ({"spread": 0.006}, "too small"),
    ],
)
def test_a_linear_term_stays_within_the_public_range(wrong: dict[str, Any], words: str) -> None:
    bins = numbers([0, 1, 2], complete=False)
    check_linear(GOOD, bins)
    check_linear(replace(GOOD, centre=0.0), bins)
    with pytest.raises(ValueError, match=words):
        check_linear(replace(GOOD, **wrong), bins)


@pytest.mark.parametrize("centre", [True, False])
def test_bounds_hold_for_every_value(centre: bool) -> None:
    rng = np.random.default_rng(3)
    bins = [numbers([0, 1, 2, 30], complete=False), Bins.binary(complete=False)]
    grid = estimate([5, 3, 1, 4, 9, 2, 1], bins, winsor=0.025, centre=centre)
    values = np.column_stack([rng.normal(0, 50, 500), rng.integers(0, 2, 500)])
    values[::7] = np.nan
    bounds = term_bounds(grid, 3, 6)
    assert bounds[:4].tolist() == [1, 1, 1, 1]
    assert (np.abs(linear_values(values, grid)) <= bounds[4:] * (1 + 1e-12)).all()


def test_one_patient_in_all_has_no_spread_and_no_linear_term() -> None:
    bins = [numbers([0, 1, 2])]
    spreads = read_spreads(sum_spreads(np.array([[0.5]]), np.ones(1), bins), bins)
    grid = estimate([1, 0], bins, spreads=spreads)
    assert grid.axes[0].spread == 0
    assert grid.linear == ()


def test_spread_from_the_histogram_is_that_of_the_bin_middles() -> None:
    bins = numbers([0, 2, 4, 8])
    axis = estimate([1, 2, 1], bins, centre=True).axes[0]
    assert axis.spread == pytest.approx(np.std([1, 3, 3, 6]), rel=1e-12)
    assert axis.fill == axis.centre == pytest.approx(np.mean([1, 3, 3, 6]), rel=1e-12)


def test_spread_from_fine_bins_comes_near_the_sample_spread() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(50, 7, size=(3000, 1))
    bins = numbers(np.linspace(0, 100, 1001))
    axis = estimate(count_histograms(x, ones(3000), [bins]), bins, centre=True).axes[0]
    assert axis.spread == pytest.approx(x.std(), rel=1e-3)
    assert axis.centre == pytest.approx(x.mean(), abs=0.05)


def test_fill_lies_inside_the_winsor_limits() -> None:
    # Mean 0.92 lies below the low limit 1, the upper edge of the first bin.
    axis = estimate([95, 4, 1], numbers([0, 1, 10, 30]), winsor=0.025, centre=True).axes[0]
    assert axis.limits == (1, 10)
    assert axis.fill == axis.centre == 1


def test_yes_no_is_never_winsorised_away() -> None:
    # 1 % yes: its 2.5 % limits as a number would be equal, and the term lost.
    axis = estimate([99, 1], Bins.binary(complete=True), winsor=0.025).axes[0]
    assert axis.limits == (0, 1)
    assert axis.cutoffs.tolist() == [0.5]
    assert axis.n_codes == 2
    assert axis.has_linear


def test_a_category_has_levels_and_neither_cutoffs_nor_linear_term() -> None:
    axis = estimate([5, 1, 2, 0], Bins.categorical(3, complete=False)).axes[0]
    assert (axis.kind, axis.n_codes, len(axis.cutoffs)) == ("category", 3, 0)
    assert not axis.ordered
    assert not axis.has_linear
    assert axis.every_code == 0b111 | 1 << MISSING


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_codes": 0, "cutoffs": np.empty(0)}, "codes"),
        ({"n_codes": 256, "cutoffs": np.arange(255.0)}, "codes"),
        ({"n_codes": 4}, "one code more"),
        ({"cutoffs": np.array([2.0, 1.0])}, "increase"),
        ({"cutoffs": np.array([1.0, 1.0])}, "increase"),
        ({"spread": -1.0}, "negative"),
        ({"limits": (2.0, 1.0)}, "reversed"),
    ],
)
def test_an_impossible_axis_is_refused(wrong: dict[str, Any], message: str) -> None:
    facts = {"kind": "number", "cutoffs": np.array([1.0, 2.0]), "n_codes": 3, "complete": True}
    assert Axis(**facts).n_codes == 3
    with pytest.raises(ValueError, match=message):
        Axis(**{**facts, **wrong})


# --- the exact grid of pooled data ------------------------------------------------------


def exact(x: Any, weights: Any = None, *, n_cutoffs: int = 20, **changes: Any) -> Axis:
    x = np.asarray(x, float)[:, None]
    weights = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    bins = changes.pop("bins", numbers([-1e6, 1e6], complete=False))
    options = {"winsor": 0.0, "centre": False, **changes}
    return exact_grid(x, weights, [bins], n_cutoffs=n_cutoffs, **options).axes[0]


def test_few_distinct_values_are_all_separated() -> None:
    x = [3, 1, 1, 7, 4, np.nan, 3]
    assert exact(x, n_cutoffs=3).cutoffs.tolist() == [3, 4, 7]
    codes = encode(np.array([[1.0], [3], [4], [7]]), Grid((exact(x, n_cutoffs=3),)))
    assert codes[:, 0].tolist() == [0, 1, 2, 3]


def test_many_distinct_values_give_quantiles_that_hold_their_share_below() -> None:
    rng = np.random.default_rng(10)
    x = rng.normal(size=501)
    cutoffs = exact(x, n_cutoffs=9).cutoffs
    below = np.quantile(x, np.arange(1, 10) / 10, method="inverted_cdf")
    # x < cut-off holds exactly the patients up to and including the quantile.
    for cutoff, quantile in zip(cutoffs, below, strict=True):
        assert ((x < cutoff) == (x <= quantile)).all()


def test_exact_quantiles_count_weights_as_repeated_patients() -> None:
    rng = np.random.default_rng(11)
    x, weights = rng.normal(size=80), rng.integers(1, 5, 80)
    weighted = exact(x, weights, n_cutoffs=7, winsor=0.1, centre=True)
    repeated = exact(np.repeat(x, weights), n_cutoffs=7, winsor=0.1, centre=True)
    assert weighted.cutoffs.tolist() == repeated.cutoffs.tolist()
    assert weighted.limits == repeated.limits
    assert weighted.spread == pytest.approx(repeated.spread, rel=1e-12)
    assert weighted.centre == pytest.approx(repeated.centre, rel=1e-12)


def test_exact_limits_spread_and_centre_are_those_of_the_sample() -> None:
    rng = np.random.default_rng(12)
    x = rng.gamma(2.0, size=400)
    axis = exact(x, winsor=0.025, centre=True)
    assert axis.limits == tuple(np.quantile(x, [0.025, 0.975], method="inverted_cdf"))
    assert axis.spread == pytest.approx(x.std(ddof=1), rel=1e-12)
    assert axis.centre == pytest.approx(x.mean(), rel=1e-12)
    assert exact(x).limits == (x.min(), x.max())


def test_a_heavy_end_keeps_its_cutoff_at_either_end() -> None:
    """Nine in ten patients at the highest value once left the covariate without cut-offs."""
    assert exact([*range(10), *[99] * 90], n_cutoffs=5).cutoffs.tolist() == [99]
    assert exact([*range(1, 11), *[0] * 90], n_cutoffs=5).cutoffs.tolist() == [1]


def test_a_covariate_that_nobody_has_becomes_one_code() -> None:
    axis = exact([np.nan, np.nan])
    assert (axis.n_codes, axis.has_linear) == (1, False)


# --- codes and linear terms -------------------------------------------------------------


def test_codes_equal_a_naive_count_of_cutoffs() -> None:
    rng = np.random.default_rng(13)
    number = Axis("number", np.array([-1.0, 0.0, 2.5]), 4, complete=False)
    grid = Grid((number, Axis("category", np.empty(0), 3, complete=False)))
    values = np.column_stack(
        [
            rng.choice([-9, -1, -0.5, 0, 2.4, 2.5, 1e9, np.nan], 200),
            rng.choice([0, 1, 2, np.nan], 200),
        ]
    )
    codes = encode(values, grid)
    assert codes.dtype == np.uint8
    for (x, level), (code, level_code) in zip(values, codes, strict=True):
        assert code == (MISSING if math.isnan(x) else sum(c <= x for c in number.cutoffs))
        assert level_code == (MISSING if math.isnan(level) else level)


def linear_axis(**changes: Any) -> Axis:
    facts: dict[str, Any] = {
        "limits": (1.0, 5.0),
        "spread": 2.0,
        "centre": 0.0,
        "fill": 3.0,
        **changes,
    }
    return Axis("number", np.empty(0), 1, complete=False, **facts)


def test_linear_terms_are_winsorised_centred_filled_and_scaled() -> None:
    values = np.array([[-7.0], [1.0], [4.0], [5.0], [80.0], [np.nan]])
    plain = linear_values(values, Grid((linear_axis(),)))
    assert plain[:, 0] == pytest.approx([0.2, 0.2, 0.8, 1.0, 1.0, 0.6])
    centred = linear_values(values, Grid((linear_axis(centre=3.0),)))
    assert centred[:, 0] == pytest.approx([-0.4, -0.4, 0.2, 0.4, 0.4, 0.0])


def test_covariates_without_spread_range_or_order_have_no_linear_term() -> None:
    grid = Grid(
        (
            linear_axis(spread=0.0),
            linear_axis(),
            linear_axis(limits=(2.0, 2.0)),
            Axis("category", np.empty(0), 3, complete=True, limits=(0.0, 1.0), spread=1.0),
            linear_axis(limits=(0.0, 1.0), spread=1.0),
        )
    )
    assert grid.linear == (1, 4)
    values = np.tile([9.0, 3.0, 9.0, 1.0, 0.5], (2, 1))
    assert linear_values(values, grid) == pytest.approx(np.array([[0.6, 0.2]] * 2))


def test_a_linear_term_has_the_spread_of_an_average_rule() -> None:
    rng = np.random.default_rng(14)
    x = rng.normal(size=(700, 1))
    grid = exact_grid(x, np.ones(700), [numbers([-1e6, 1e6])], n_cutoffs=5, winsor=0.0, centre=True)
    term = linear_values(x, grid)[:, 0]
    assert term.std(ddof=1) == pytest.approx(0.4, rel=1e-12)
    assert term.mean() == pytest.approx(0.0, abs=1e-12)


# --- what is public of a value --------------------------------------------------------------


def test_cells_that_no_public_cutoff_parts() -> None:
    """By hand: edges 0, 10, 20 and a public cut-off at 5 and one that no edge has, 12."""
    bins = numbers([0, 10, 20], cutoffs=[5, 12], complete=False)
    values = np.array([-3, 0, 4.9, 5, 9.9, 10, 11.9, 12, 19.9, 20, 99, np.nan])
    cells = public_cells(values, bins)
    assert cells.dtype == np.int64
    assert cells.tolist() == [1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, -1]
    # Without public cut-offs the edges are the cut-offs, moved to whole scores.
    scores = numbers([0, 1.5, 3], step=1.0)
    assert public_cells(np.array([0, 1, 1.5, 2, 3]), scores).tolist() == [1, 1, 2, 3, 4]
    assert public_cells(np.array([0.0, 1.0]), Bins.binary(complete=True)).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("cutoffs", "limits", "public"),
    [
        ([10.0], (0.0, 20.0), True),
        ([10.0], (10.0, 20.0), True),
        ([], (0.0, 20.0), True),
        ([10.5], (0.0, 20.0), False),
        ([10.0], (0.5, 20.0), False),
        ([10.0], (0.0, 19.0), False),
        ([0.0], (0.0, 20.0), False),  # an end of the range parts nobody
    ],
)
def test_a_grid_lies_on_public_edges(cutoffs: Any, limits: Any, public: bool) -> None:
    axis = Axis("number", np.array(cutoffs), len(cutoffs) + 1, complete=True, limits=limits)
    assert on_public_edges(axis, numbers([0, 10, 20])) is public


def test_limits_of_a_yes_no_covariate_are_its_values() -> None:
    """Its edges are −0.5, 0.5 and 1.5; nobody has such a value."""
    binary = Bins.binary(complete=True)
    axis = Axis("yes/no", np.array([0.5]), 2, complete=True, limits=(0.0, 1.0))
    assert on_public_edges(axis, binary)
    assert not on_public_edges(replace(axis, limits=(0.0, 0.9)), binary)
    number = numbers([-0.5, 0.5, 1.5], cutoffs=[0.5])
    assert not on_public_edges(replace(axis, kind="number"), number)


def test_an_axis_without_more_facts_has_no_linear_term() -> None:
    axis = Axis("number", np.array([1.0]), 2, complete=True)
    assert (axis.limits, axis.spread, axis.centre, axis.fill) == ((0, 0), 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "fine"),
    [
        ({}, True),
        ({"centre": 2.0}, True),
        ({"centre": 8.0}, True),
        ({"centre": 1.9}, False),
        ({"centre": 8.1}, False),
        ({"fill": 2.0}, True),
        ({"fill": 1.9}, False),
        ({"fill": 8.1}, False),
        ({"limits": (0.0, 10.0)}, True),
        ({"limits": (-0.1, 8.0)}, False),
        ({"limits": (2.0, 10.1)}, False),
        ({"spread": 10.0}, True),  # twice half the range
        ({"spread": 10.1}, False),
        ({"spread": 0.4 * 8 / 64}, True),  # the largest term is 0.4·8/spread
        ({"spread": 0.4 * 8 / 64.01}, False),
    ],
)
def test_a_linear_term_at_its_limits(changes: dict[str, Any], fine: bool) -> None:
    bins = numbers([0, 5, 10])
    plain = Axis("number", np.array([5.0]), 2, complete=True, limits=(2.0, 8.0), spread=1.0,
                 fill=4.0)  # fmt: skip
    axis = replace(plain, **changes)
    if fine:
        check_linear(axis, bins)
    else:
        with pytest.raises(ValueError, match="the grid has a"):
            check_linear(axis, bins)


@pytest.mark.parametrize(
    ("weights", "spread"),
    [([1, 1, 1], 1.0), ([0.5, 0, 0.5], 0.0), ([0.6, 0.6, 0.6], math.sqrt(1.2 / 0.8))],
)
def test_spread_of_weights_of_one_patient_in_all_is_none(weights: Any, spread: float) -> None:
    grid = exact_grid(
        np.array([[1.0], [2.0], [3.0]]), np.array(weights, float), [numbers([0, 2, 4])],
        n_cutoffs=5, winsor=0.0, centre=False,
    )  # fmt: skip
    assert grid.axes[0].spread == pytest.approx(spread)


def test_a_spread_that_values_far_from_zero_need_is_fine() -> None:
    """Uncentred values near 1,000 of a range of 1: a term of 64 asks for more than the range."""
    bins = numbers([1000, 1000.5, 1001])
    axis = estimate([5, 5], bins).axes[0]
    assert axis.spread == pytest.approx(0.4 * 1001 / 64)
    assert axis.spread > 2 * bins.half
    check_linear(axis, bins)
    with pytest.raises(ValueError, match="outside the public range"):
        check_linear(replace(axis, spread=axis.spread * (1 + 1e-8)), bins)
    with pytest.raises(ValueError, match="too small"):
        check_linear(replace(axis, spread=axis.spread * (1 - 1e-8)), bins)


def test_one_patient_is_no_reason_for_uniform_bins() -> None:
    axis = estimate([0, 1, 0], numbers([0, 1, 2, 3]), n_cutoffs=2, winsor=0.1).axes[0]
    assert axis.cutoffs.tolist() == [2]
    assert axis.limits == (2, 2)


@pytest.mark.parametrize(
    ("known", "variance"),
    [(3.0, (5 - 1 / 3) / 2), (1.5, (5 - 1 / 1.5) / 0.5), (0.1, 0.0), (1.0, 0.0)],
)
def test_spreads_from_their_sums(known: float, variance: float) -> None:
    """Σz = 1 and Σz² = 5, half a range of 4; one patient has none."""
    one = 2**FINE_BITS
    units = SpreadUnits(np.array([round(known * one)]), np.array([one]), np.array([5 * one]))
    found = read_spreads(units, [numbers([-2, 0, 6])])
    assert found[0] == pytest.approx(4 * math.sqrt(variance), rel=1e-9)
