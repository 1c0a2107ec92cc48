"""Bins, cut-offs and grids written out by hand: what a twin of the code is blind to."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.grids import estimate, numbers, ones

from fedrulefit.core.bins import Bins, SpreadSums, count_histograms, find_spreads, public_cells
from fedrulefit.core.cutoffs import exact_grid
from fedrulefit.core.fixed import FINE_BITS
from fedrulefit.core.grid import Axis, Grid, check_linear, encode, on_public_edges
from fedrulefit.core.rules import Condition, describe_condition

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
    units = np.array([round(known * one), one, 5 * one])
    found = find_spreads(SpreadSums.packing(1).read(units), [numbers([-2, 0, 6])])
    assert found[0] == pytest.approx(4 * math.sqrt(variance), rel=1e-9)
