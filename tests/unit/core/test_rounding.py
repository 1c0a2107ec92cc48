"""Numbers are rounded to what may be told, without float dust."""

from __future__ import annotations

import pytest

from fedrulefit.core.rounding import EXACT, Rounding, round_digits, round_place, round_step


@pytest.mark.parametrize(
    ("rounding", "value", "told"),
    [
        (EXACT, 13.0, 13.0),
        (Rounding(5, 0), 12.0, 10.0),
        (Rounding(5, 0), 13.0, 15.0),
        (Rounding(5, 10), 11.0, 10.0),
        (Rounding(5, 11), 12.0, 15.0),
        (Rounding(1, 11), 12.0, 12.0),
    ],
)
def test_counts_are_multiples_and_never_below_the_smallest(
    rounding: Rounding, value: float, told: float
) -> None:
    assert rounding.count(value) == told
    assert rounding.count(2.5 * value, 2.5) == 2.5 * told


def test_the_coarser_of_two_roundings_holds() -> None:
    assert Rounding(5, 11).join(Rounding(10, 3)) == Rounding(10, 11)
    for wrong in ((0, 0), (1, -1)):
        with pytest.raises(ValueError, match="multiples of 1 or more"):
            Rounding(*wrong)
    assert "multiples of 5; fewer than 10 are not told" in Rounding(5, 10).words()
    assert EXACT.words() == "exact"


def test_numbers_are_rounded_without_dust() -> None:
    assert round_digits(0.123456, 3) == 0.123
    assert round_digits(0.0, 3) == 0.0
    assert round_place(0.5786, -2) == 0.58
    assert round_place(1234.0, 2) == 1200.0
    assert round_step(0.7123, 0.05) == 0.7
    assert round_step(-0.131, 0.02) == -0.14
