"""Quantiles, mended counts, limits and spreads against NumPy and closed forms."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grids import estimate, numbers, ones

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.bins import Bins, SpreadSums, count_histograms, find_spreads, sum_spreads
from fedrulefit.core.cutoffs import exact_grid, repair_counts
from fedrulefit.core.fixed import LARGEST_TERM
from fedrulefit.core.grid import Axis, Grid, check_linear, encode, linear_values

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)


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
    assert with_missing.axes[0].cutoffs.tolist() == [10, 20]  # nobody known is above 30
    assert not with_missing.axes[0].complete


def test_where_values_may_be_missing_a_cutoff_has_known_patients_on_either_side() -> None:
    """``chol < 507.5``, of 99.4 % of the known, said that chol was measured."""
    counts = [1, 49, 49, 1]
    values = np.repeat([5.0, 15, 25, 35, np.nan], [*counts, 400])[:, None]
    for complete, n_cutoffs, fewest, expected in (
        (True, 33, 0, [20, 30]),
        (False, 33, 0, [20]),  # half a quantile step is 1.5 %
        (False, 99, 0, [10, 20, 30]),  # and 0.5 % here
        (False, 99, 5, [20]),
        (True, 99, 5, [10, 20, 30]),
    ):
        bins = numbers([0, 10, 20, 30, 40], complete=complete)
        cells = counts if complete else [*counts, 400]
        axis = estimate(cells, bins, n_cutoffs=n_cutoffs, fewest=fewest).axes[0]
        assert axis.cutoffs.tolist() == expected, (complete, n_cutoffs, fewest)
        if not (complete or fewest):
            options = {"n_cutoffs": n_cutoffs, "winsor": 0.0, "centre": True}
            exact = exact_grid(values, np.ones(len(values)), [bins], **options).axes[0]
            assert exact.cutoffs.tolist() == [c + 5 for c in expected]


def test_nobody_known_no_cutoff() -> None:
    axis = estimate([0, 0, 0, 0, 70], numbers([0, 10, 20, 30, 40], complete=False)).axes[0]
    assert (axis.cutoffs.tolist(), axis.n_codes) == ([], 1)


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
    total = np.sum(parts, axis=0)
    found = SpreadSums.packing(2).read(total)
    grid = estimate(np.ones(5), bins, spreads=find_spreads(found, bins))
    pooled = np.vstack(sites)
    for j in range(2):
        expected = np.nanstd(pooled[:, j], ddof=1)
        assert grid.axes[j].spread == pytest.approx(expected, rel=1e-9)
    whole = sum_spreads(pooled, np.ones(len(pooled)), bins)
    assert total.tolist() == whole.tolist()


def test_a_spread_is_never_so_small_that_the_term_outgrows_a_sum() -> None:
    """A range in kelvin, a spread of millikelvin: the term would be in the thousands."""
    bins = [numbers([250, 300, 350])]
    for centre in (True, False):
        axis = estimate([3, 3], bins, spreads=np.array([1e-3]), centre=centre).axes[0]
        assert axis.largest == pytest.approx(LARGEST_TERM)
        ends = linear_values(np.array([[0.0], [250], [350], [999], [np.nan]]), Grid((axis,)))
        assert np.abs(ends).max() == pytest.approx(LARGEST_TERM)
        check_linear(axis, bins[0])


def test_one_patient_in_all_has_no_spread_and_no_linear_term() -> None:
    bins = [numbers([0, 1, 2])]
    sums = SpreadSums.packing(1).read(sum_spreads(np.array([[0.5]]), np.ones(1), bins))
    spreads = find_spreads(sums, bins)
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
