"""Histograms and spread sums against naive loops and closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.grids import numbers, ones

from fedrulefit.core.bins import (
    Bins,
    SpreadSums,
    count_histograms,
    find_spreads,
    split_cells,
    sum_spreads,
)
from fedrulefit.core.fixed import FINE_BITS, from_units

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


# --- spread sums ------------------------------------------------------------------------


def test_spread_sums_treat_weights_as_repeated_patients() -> None:
    rng = np.random.default_rng(8)
    x, weights = rng.normal(size=(12, 1)), rng.integers(0, 4, 12)
    bins = [numbers([-9, 0, 9])]
    packing = SpreadSums.packing(1)
    weighted = packing.split(sum_spreads(x, weights.astype(float), bins))
    copies = np.repeat(x, weights, axis=0)
    repeated = packing.split(sum_spreads(copies, np.ones(weights.sum()), bins))
    assert weighted["known"].tolist() == repeated["known"].tolist()
    # In units: a patient is rounded once, its copies each.
    for name in ("sums", "squares"):
        assert weighted[name] == pytest.approx(repeated[name], abs=float(weights.sum()))


def test_spread_sums_see_a_value_outside_as_the_end_of_the_range() -> None:
    bins = [numbers([0, 1, 2])]
    outside = sum_spreads(np.array([[-50.0], [1.0], [99.0]]), np.ones(3), bins)
    at_ends = sum_spreads(np.array([[0.0], [1.0], [2.0]]), np.ones(3), bins)
    for sums in (outside, at_ends):
        assert from_units(sums, FINE_BITS).tolist() == [3, 0, 2]


def test_a_category_and_an_unknown_covariate_send_no_spread() -> None:
    bins = [Bins.categorical(3, complete=True), numbers([0, 1], complete=False)]
    sums = sum_spreads(np.array([[0, np.nan], [2, np.nan]]), np.ones(2), bins)
    assert sums.tolist() == [0] * 6
    assert find_spreads(SpreadSums.packing(2).read(sums), bins).tolist() == [0, 0]
