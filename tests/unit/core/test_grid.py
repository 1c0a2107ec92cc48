"""Codes and linear terms against naive loops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.grids import estimate, numbers, ones

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.bins import Bins, count_histograms
from fedrulefit.core.cutoffs import exact_grid
from fedrulefit.core.grid import (
    Axis,
    Grid,
    check_linear,
    count_codes,
    encode,
    linear_values,
    term_bounds,
)
from fedrulefit.core.layout import Layout

# --- what an axis and its linear term may be ---------------------------------------------


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
    bounds = term_bounds(grid, Layout(1, 3, 2))
    assert bounds[:4].tolist() == [1, 1, 1, 1]
    assert (np.abs(linear_values(values, grid)) <= bounds[4:] * (1 + 1e-12)).all()


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


# --- codes from histograms ------------------------------------------------------------------


@pytest.mark.parametrize("complete", [True, False])
def test_counts_by_code_are_those_of_the_patients(complete: bool) -> None:
    """A score of 5 lies below the middle of its bin, and was counted as lower than its cut-off."""
    rng = np.random.default_rng(9)
    gcs = numbers(np.linspace(3, 15, 101), step=1, complete=complete)
    age = numbers(np.linspace(18, 100, 41), complete=complete)
    every = [gcs, age, Bins.binary(complete=complete), Bins.categorical(4, complete=complete)]
    values = np.column_stack(
        [
            rng.integers(3, 16, 900),
            rng.normal(60, 30, 900),
            rng.integers(0, 2, 900),
            rng.integers(0, 3, 900),
        ]
    ).astype(float)
    if not complete:
        values[rng.random(values.shape) < 0.2] = np.nan
    counts = count_histograms(values, ones(900), every)
    grid = estimate(counts, every, n_cutoffs=12)
    codes = encode(values, grid)
    for j, (found, axis) in enumerate(
        zip(count_codes(counts, every, grid), grid.axes, strict=True)
    ):
        expected = [int((codes[:, j] == code).sum()) for code in range(axis.n_codes)]
        if not complete:
            expected.append(int((codes[:, j] == MISSING).sum()))
        assert found.tolist() == expected
