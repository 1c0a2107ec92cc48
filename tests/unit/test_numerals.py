"""Numbers as people read them: to their step or four digits, and never a float's own noise."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.numerals import (
    format_count,
    format_effect,
    format_number,
    name_count,
    write_minus,
)

NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)
STEPS = st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 250.0])


def read(text: str) -> float:
    return float(text.replace(" ", ""))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (57.25, "57.25"),
        (57.2512, "57.25"),
        (57.0, "57"),
        (0.1 + 0.2, "0.3"),
        (3.2199999999999998, "3.22"),
        (-3.5, "-3.5"),
        (0.0, "0"),
        (-0.0, "0"),
        (9999.4, "9999"),
        (9999.49, "9999"),
        (9999.5, "10 000"),
        (9999.6, "10 000"),
        (-9999.5, "-10 000"),
        (12345.6, "12 346"),
        (-1234567.0, "-1 234 567"),
    ],
)
def test_numbers_are_written_as_people_write_them(value: float, text: str) -> None:
    """9999.6 once read "1e+04", and a limit "3.2199999999999998"."""
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (137.35, 0.05, "137.35"),
        (0.1 * 3, 0.1, "0.3"),
        (60.0, 0.1, "60"),
        (12345.5, 0.5, "12 345.5"),
        (-0.0, 0.1, "0"),
        (1_000_000.0, 1.0, "1 000 000"),
        (3.2199999999999998, 1.0, "3.22"),  # a mean or a quantile of whole numbers
        (1e-3, 1e-3, "0.001"),
        (2.5e-7, 2.5e-7, "0.00000025"),
    ],
)
def test_a_multiple_of_a_step_is_written_to_the_step(value: float, step: float, text: str) -> None:
    assert format_number(value, step) == text


@given(places=st.integers(-10_000, 10_000), step=STEPS)
def test_no_multiple_of_a_step_is_told_rounded(places: int, step: float) -> None:
    value = places * step
    assert read(format_number(value, step)) == pytest.approx(value, rel=1e-12, abs=1e-12)


@given(value=NUMBERS, digits=st.integers(4, 9))
def test_a_number_is_right_to_its_digits_and_no_longer(value: float, digits: int) -> None:
    text = format_number(value, digits=digits)
    size = 10.0 ** math.floor(math.log10(abs(value))) if value else 1.0
    assert abs(read(text) - value) <= 0.5000001 * max(size * 10.0 ** (1 - digits), 1e-300)
    assert len(re.sub(r"^[-0.]+|e.*|[ .]", "", text)) <= max(digits, len(f"{abs(value):.0f}"))


def test_counts_effects_and_signs() -> None:
    assert format_count(1234567.0) == "1\u202f234\u202f567"
    assert [format_effect(x) for x in (0.0951, 0.0949, 9.384, 99.49, 123.46)] == [
        "0.10", "0.0949", "9.38", "99.49", "123.5",
    ]  # fmt: skip
    assert write_minus("-3 to -1e-05") == "−3 to −1e−05"


def test_a_noun_agrees_with_its_number() -> None:
    """A rounded model said "at most 1 percentage points"."""
    told = [name_count(number, "point") for number in (0, 1, 1.0, 0.5, 2, 1_000_000)]
    assert told == ["0 points", "1 point", "1 point", "0.5 points", "2 points", "1000000 points"]
