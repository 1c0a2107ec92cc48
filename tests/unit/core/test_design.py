"""Each product of a design, over many blocks, against Python's integers and the dense matrix.

Random shapes are in ``tests/properties/test_design.py``. Here the patients of every block
differ in weight, so that no block can stand in for another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracles import dense, make_design

from fedrulefit.core import design as design_module
from fedrulefit.core.arrays import MISSING
from fedrulefit.core.design import Design, build_design
from fedrulefit.core.fixed import EXACT, LARGEST_WEIGHT
from fedrulefit.core.rules import Condition, Rule

ROWS = 45  # six bytes, of which the last holds five patients
BOUNDS = np.array([1.0, 1.0, 1.0, 1.0, 2.5, 4.0])


@pytest.fixture
def site() -> Design:
    """Three rules and two linear terms of 45 patients."""
    rng = np.random.default_rng(11)
    hits = rng.random((ROWS, 3)) < [0.3, 0.5, 0.8]
    return make_design(hits, rng.uniform(-1, 1, (ROWS, 2)) * BOUNDS[4:])


def set_blocks(monkeypatch: pytest.MonkeyPatch, n_bytes: int, n_columns: int) -> None:
    """Let a block hold so many bytes of patients."""
    monkeypatch.setattr(design_module, "BLOCK_CELLS", n_bytes * 8 * n_columns)
    monkeypatch.setattr(design_module, "_TABLES", n_bytes)


def exact_columns(X: Any, units: Any, n_rules: int) -> list[int]:
    """Xᵀv in Python's integers: linear terms are rounded patient by patient."""
    total = []
    for j, column in enumerate(X.T):
        if j <= n_rules:
            total.append(sum(int(u) * int(x) for u, x in zip(units, column, strict=True)))
        else:
            scaled = column / BOUNDS[j]
            total.append(sum(round(u * x) for u, x in zip(units.tolist(), scaled, strict=True)))
    return total


def exact_squares(X: Any, roots: Any) -> list[list[int]]:
    """BᵀB in Python's integers, with B = [2²⁰·root·x/bound]."""
    B = [
        [round(2**20 * root * (x / b)) for x, b in zip(row, BOUNDS[: len(row)], strict=True)]
        for row, root in zip(X.tolist(), roots.tolist(), strict=True)
    ]
    n = X.shape[1]
    return [[sum(row[i] * row[j] for row in B) for j in range(n)] for i in range(n)]


@pytest.mark.parametrize("n_bytes", [1, 2, 4, 5, 6, 100])
def test_squares_are_exact_whatever_the_blocks(
    site: Design, monkeypatch: pytest.MonkeyPatch, n_bytes: int
) -> None:
    """The weights of one block once could stand for those of every block, unseen."""
    set_blocks(monkeypatch, n_bytes, site.n_terms)
    by_byte = np.repeat([0.5, 0.03, 0.31, 0.0004, 0.2, 0.07], 8)[:ROWS]
    roots = by_byte * np.random.default_rng(3).uniform(0.5, 1, ROWS)
    found = site.sum_squares(roots, BOUNDS)
    assert found.dtype == np.int64
    assert found.tolist() == exact_squares(dense(site), roots)


def test_a_block_too_small_for_one_byte_holds_one(
    site: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(design_module, "BLOCK_CELLS", 1)
    roots, coef = np.linspace(0.1, 0.5, ROWS), np.arange(6.0)
    assert site.sum_squares(roots, BOUNDS).tolist() == exact_squares(dense(site), roots)
    np.testing.assert_allclose(site.dot(coef), dense(site) @ coef, rtol=1e-14, atol=1e-14)


def test_squares_of_many_patients_stay_exact() -> None:
    """The sum of 12,001 odd squares near 2⁴⁰ is odd and above 2⁵³: no float holds it."""
    n_rows = 12_001
    site = make_design(np.ones((n_rows, 1), dtype=bool), np.full((n_rows, 1), 2.5))
    root = (2**20 - 1) / 2**20
    found = site.sum_squares(np.full(n_rows, root), np.array([1.0, 1.0, 2.5]))
    expected = n_rows * (2**20 - 1) ** 2
    assert expected > EXACT
    assert expected % 2 == 1
    assert found.tolist() == [[expected] * 3] * 3


def test_the_rows_of_an_exact_sum_depend_on_the_largest_of_any_column() -> None:
    """A linear term at its bound counts as much as a rule; one beyond it (rounding) more."""
    n_rows = 4_001
    site = make_design(np.ones((n_rows, 1), dtype=bool), np.full((n_rows, 1), 3.0))
    root = (2**20 - 1) / 2**20
    found = site.sum_squares(np.full(n_rows, root), np.ones(3))
    largest = 3 * (2**20 - 1)
    assert n_rows * largest**2 > EXACT
    assert found[2, 2] == n_rows * largest**2
    assert found[0, 2] == n_rows * largest * (2**20 - 1)


@pytest.mark.parametrize("n_bytes", [1, 2, 4, 5, 6, 100])
def test_columns_are_summed_exactly_whatever_the_blocks(
    site: Design, monkeypatch: pytest.MonkeyPatch, n_bytes: int
) -> None:
    set_blocks(monkeypatch, n_bytes, site.n_terms)
    units = np.random.default_rng(4).integers(-(2**40), 2**40, ROWS).astype(float)
    found = site.sum_columns(units, BOUNDS)
    assert found.dtype == np.int64
    assert found.tolist() == exact_columns(dense(site), units, 3)


def test_columns_of_the_largest_weight_are_summed_exactly(site: Design) -> None:
    """Slopes in units of 2⁻⁴⁰ of patients that count 2¹⁰: eight of them just fit a float."""
    largest = int(LARGEST_WEIGHT) * 2**40
    units = np.array([float(largest - 1 - 2 * k) for k in range(ROWS)])
    assert 8 * units[0] <= EXACT
    assert site.sum_columns(units, BOUNDS)[:4].tolist() == exact_columns(dense(site), units, 3)[:4]
    assert site.sum_columns(-units, BOUNDS)[:4].tolist() == [
        -total for total in exact_columns(dense(site), units, 3)[:4]
    ]


@pytest.mark.parametrize("n_bytes", [1, 4, 100])
def test_predictors_whatever_the_blocks(
    site: Design, monkeypatch: pytest.MonkeyPatch, n_bytes: int
) -> None:
    """Blocks are of the columns that have a coefficient: here of two."""
    set_blocks(monkeypatch, n_bytes, 2)
    coef = np.array([0.5, -2.25, 0.0, 1.125, 0.0625, -0.5])
    X = dense(site)
    np.testing.assert_allclose(site.dot(coef), X @ coef, rtol=0, atol=1e-14)
    by_hand = []
    for row in X:
        total = coef[0] + sum(c for c, hit in zip(coef[1:4], row[1:4], strict=True) if hit)
        by_hand.append(total + coef[4] * row[4] + coef[5] * row[5])
    assert site.predictor(coef).tolist() == by_hand


def test_a_predictor_is_of_coefficients_in_whole_units() -> None:
    site = make_design(np.ones((1, 2), dtype=bool), np.empty((1, 0)))
    unit = 2.0**-41
    assert site.predictor(np.array([0.4 * unit, 0.6 * unit, 3.3 * unit])).tolist() == [4 * unit]


@pytest.mark.parametrize("n_bytes", [1, 4, 100])
def test_gradients_whatever_the_blocks(
    site: Design, monkeypatch: pytest.MonkeyPatch, n_bytes: int
) -> None:
    set_blocks(monkeypatch, n_bytes, site.n_terms)
    vector = np.repeat([1e3, 1.0, 1e-3, 7.0, 50.0, 0.2], 8)[:ROWS]
    found = site.transpose_dot(vector)
    np.testing.assert_allclose(found, dense(site).T @ vector, rtol=1e-13)
    np.testing.assert_allclose(site.unpacked().transpose_dot(vector), found, rtol=1e-13)


def test_unpacked_is_the_plain_matrix_up_to_its_largest_size(
    site: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = site.unpacked()
    assert unpacked.matrix is not None
    assert unpacked.matrix.tolist() == dense(site).tolist()
    assert (unpacked.n_rows, unpacked.layout.n_rules, unpacked.n_terms) == (ROWS, 3, 6)
    # It has the other products still.
    roots = np.full(ROWS, 0.5)
    assert (unpacked.sum_squares(roots, BOUNDS) == site.sum_squares(roots, BOUNDS)).all()
    monkeypatch.setattr(design_module, "MATRIX_CELLS", ROWS * 6 - 1)
    assert site.unpacked() is site
    monkeypatch.setattr(design_module, "MATRIX_CELLS", ROWS * 6)
    assert site.unpacked().matrix is not None


def test_taking_terms_by_hand(site: Design) -> None:
    few = site.take(np.array([0, 3, 4]))
    assert (few.layout.n_rules, few.n_terms) == (1, 3)
    assert dense(few).tolist() == dense(site)[:, [0, 3, 4]].tolist()
    alone = site.take(np.array([0]))
    assert dense(alone).tolist() == [[1.0]] * ROWS


def test_bits_by_hand() -> None:
    """Ten patients: bit i of byte g is patient 8·g + i; a missing value is code 255."""
    codes = np.array([[0], [1], [2], [0], [MISSING], [1], [1], [2], [2], [MISSING]], np.uint8)
    low, missing = Rule((Condition(0, 0b011),)), Rule((Condition(0, 1 << MISSING),))
    site = build_design(codes, [low, missing], np.empty((10, 0)))
    assert site.n_rows == 10
    assert site.bits.tolist() == [[0b01101011, 0b00010000], [0b00, 0b10]]
    assert site.dense_rules()[:, 0].tolist() == [1, 1, 0, 1, 0, 1, 1, 0, 0, 0]
    assert site.largest.tolist() == [1, 1, 1]
    assert site.transpose_dot(np.arange(10.0)).tolist() == [45, 15, 13]


def test_how_large_blocks_are() -> None:
    """Memory that the documents promise: 8 MB of floats at a time, 2 MB of tables, 32 MB."""
    assert 8 * design_module.BLOCK_CELLS == 8 << 20
    assert 8 * 256 * design_module._TABLES == 2 << 20
    assert 8 * design_module.MATRIX_CELLS == 32 << 20
