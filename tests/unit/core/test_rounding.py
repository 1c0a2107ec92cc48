"""Numbers are rounded to what may be told, without float dust."""

from __future__ import annotations

import pytest

from fedrulefit.core.rounding import (
    EXACT,
    Rounding,
    round_digits,
    round_place,
    round_step,
    round_up_step,
)


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


@pytest.mark.parametrize(
    ("finest", "step"),
    [
        (1.0, 1.0), (1.0001, 2.0), (2.0, 2.0), (2.1, 5.0), (5.0, 5.0), (5.01, 10.0), (9.99, 10.0),
        (10.0, 10.0), (0.3, 0.5), (0.05, 0.05), (0.06, 0.1), (0.011, 0.02), (130.0, 200.0),
        (1 + 1e-12, 1.0),
    ],
)  # fmt: skip
def test_a_step_is_rounded_up_to_1_2_or_5(finest: float, step: float) -> None:
    assert round_up_step(finest) == pytest.approx(step, rel=1e-12)


def test_places_and_digits_by_hand() -> None:
    assert round_place(0.5786, 0) == 1.0
    assert round_place(1250.0, 1) == 1250.0
    assert round_place(-0.126, -2) == -0.13
    assert round_digits(1234.5, 2) == 1200.0
    assert round_digits(-0.00098765, 1) == -0.001
    assert round_step(0.30000000000000004, 0.1) == 0.3
    assert round_step(7.0, 5.0) == 5.0


@pytest.mark.parametrize(
    ("rounding", "words"),
    [
        (Rounding(5, 0), "rounded to multiples of 5"),
        (Rounding(5, 1), "rounded to multiples of 5"),  # nothing is below one patient but none
        (Rounding(5, 2), "rounded to multiples of 5; fewer than 2 are not told"),
        (Rounding(1, 11), "rounded to multiples of 1; fewer than 11 are not told"),
        (Rounding(1, 0), "exact"),
    ],
)
def test_a_rounding_in_words(rounding: Rounding, words: str) -> None:
    assert rounding.words() == words


def test_the_weakest_rounding_is_none() -> None:
    assert Rounding(1, 0) == EXACT == Rounding()
    assert EXACT.count(13.37) == 13.37
    assert Rounding(1, 1).count(0.2) == 1.0
