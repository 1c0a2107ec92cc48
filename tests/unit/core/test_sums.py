"""Declared sums: packing, lengths and units follow from the declaration, and are undone by reading.

The oracle are Python's integers and fractions, field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core.arrays import Floats
from fedrulefit.core.sums import Packing, Sum, quantity

quick = settings(max_examples=60, derandomize=True, deadline=None)


@dataclass(frozen=True, eq=False)
class Toy(Sum):
    """One number, a few, and a table; one field is public."""

    name: str
    total: float = quantity("Σ w")
    few: Floats = quantity("Σ w·x", shape="n_terms", bits=40, scale="b", most="b·w")
    table: Floats = quantity("Σ w·x·z", shape="n_terms·2", bits=30)


def packing(n_terms: int = 3, bounds: Any = None) -> Packing[Toy]:
    scale = np.full(n_terms, 4.0) if bounds is None else bounds
    return Packing(Toy, {"n_terms": n_terms}, {"b": scale}, {"name": "toy"})


def test_lengths_follow_from_the_shapes() -> None:
    assert packing(3).lengths == {"total": 1, "few": 3, "table": 6}
    assert packing(3).size == 10
    assert packing(0).lengths == {"total": 1, "few": 0, "table": 0}


def test_units_are_written_as_people_write_them() -> None:
    told = Toy.quantities()
    assert [q.unit for q in told.values()] == ["2⁻³²", "2⁻⁴⁰·b", "2⁻³⁰"]
    assert [q.most for q in told.values()] == ["w", "b·w", "w"]
    assert list(told) == ["total", "few", "table"], "public fields are none"


units = st.integers(-(2**62), 2**62)


@given(st.integers(0, 4).flatmap(lambda n: st.lists(units, min_size=1 + 3 * n, max_size=1 + 3 * n)))
@quick
def test_splitting_undoes_packing_and_reading_is_exact_to_a_float(numbers: list[int]) -> None:
    n = (len(numbers) - 1) // 3
    bounds = np.linspace(0.5, 7.0, n)
    lies = packing(n, bounds)
    parts = {
        "total": numbers[0],
        "few": np.array(numbers[1 : 1 + n], dtype=np.int64),
        "table": np.array(numbers[1 + n :], dtype=np.int64),
    }
    flat = lies.pack(**parts)
    assert flat.tolist() == numbers
    assert {name: part.tolist() for name, part in lies.split(flat).items()} == {
        "total": [numbers[0]],
        "few": numbers[1 : 1 + n],
        "table": numbers[1 + n :],
    }
    read = lies.read(flat)
    assert (read.name, type(read.total)) == ("toy", float)
    assert read.total == float(numbers[0]) / 2**32
    for value, unit, bound in zip(read.few.tolist(), numbers[1:], bounds.tolist(), strict=False):
        exact = Fraction(unit) * Fraction(bound) / 2**40
        assert abs(Fraction(value) - exact) <= abs(exact) * Fraction(1, 2**51)


@given(st.lists(st.floats(-1e5, 1e5), min_size=3, max_size=3), st.floats(-1e5, 1e5))
@quick
def test_numbers_are_rounded_to_the_nearest_unit(few: list[float], total: float) -> None:
    lies = packing(3)
    flat = lies.round(Toy("toy", total, np.array(few), np.zeros(6)))
    assert flat[0] == round(Fraction(total) * 2**32)
    for unit, value in zip(flat[1:4].tolist(), few, strict=True):
        assert unit == round(Fraction(value) / 4 * 2**40)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**40])
def test_a_number_that_no_unit_holds_is_an_error_that_does_not_tell_it(bad: float) -> None:
    with pytest.raises(OverflowError) as caught:
        packing(3).round(Toy("toy", bad, np.zeros(3), np.zeros(6)))
    assert str(caught.value) == "a number is too large for a sum"


@pytest.mark.parametrize(
    "parts",
    [
        {"total": 1, "few": np.zeros(3, np.int64)},
        {"total": 1, "few": np.zeros(2, np.int64), "table": np.zeros(6, np.int64)},
        {"total": 1.0, "few": np.zeros(3, np.int64), "table": np.zeros(6, np.int64)},
        {"total": 1, "few": np.zeros(3), "table": np.zeros(6, np.int64)},
        {
            "total": 1,
            "few": np.zeros(3, np.int64),
            "table": np.zeros(6, np.int64),
            "more": 1,
        },
    ],
)
def test_what_was_not_declared_is_not_packed(parts: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Toy"):
        packing(3).pack(**parts)


@pytest.mark.parametrize("n", [0, 9, 11])
def test_a_vector_of_another_length_is_not_read(n: int) -> None:
    for read in (packing(3).split, packing(3).read):
        with pytest.raises(ValueError, match="expected 10 numbers"):
            read(np.zeros(n, dtype=np.int64))


def test_sums_of_sites_add_up_as_vectors_and_as_fields() -> None:
    rng = np.random.default_rng(0)
    lies = packing(3)
    flats = [rng.integers(-(2**40), 2**40, lies.size) for _ in range(4)]
    total = lies.read(np.sum(flats, axis=0))
    each = [lies.read(flat) for flat in flats]
    assert total.total == pytest.approx(sum(part.total for part in each))
    np.testing.assert_allclose(total.few, np.sum([part.few for part in each], axis=0))
