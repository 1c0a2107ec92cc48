"""Numbers as people spell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.table.spelling import has_grouped_point, is_either, read_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3.5", 3.5),
        (" -1e3 ", -1000.0),
        ("−2.5", -2.5),  # a typeset minus
        ("3,5", 3.5),
        (",5", 0.5),
        ("-3,5", -3.5),
        ("0,125", 0.125),
        ("12,75", 12.75),
        ("1234,567", 1234.567),
        ("1,2345", 1.2345),
        ("1,5e3", 1500.0),
        ("1.234,5", 1234.5),
        ("1.234.567", 1234567.0),
        ("1.234.567,8", 1234567.8),
        ("1,234.5", 1234.5),
        ("1,234,567", 1234567.0),
        ("-1,234,567.25", -1234567.25),
        ("1 234", 1234.0),
        ("1\u00a0234\u00a0567,5", 1234567.5),
        ("1\u202f234,567", 1234.567),
        ("1'234.50", 1234.5),
        ("1.234", 1.234),  # a point is decimal
        ("1,234", None),
        ("-12,345", None),
        ("1 23", None),
        ("1 234'567", None),
        ("1.23.456", None),
        ("1,23,456", None),
        ("12.34,5", None),
        ("1,5,", None),
        ("1_000", None),
        ("3 mg", None),
        ("<0,5", None),
        (",", None),
        ("", None),
        ("2024-01-31", None),
        ("31.12.2024", None),
        ("12:30", None),
        ("٣,٥", None),
    ],
)
def test_spellings(text: str, number: float | None) -> None:
    assert read_number(text) == number


def test_a_comma_before_three_digits_is_either() -> None:
    assert all(map(is_either, ["1,234", " 999,000 ", "-12,345"]))
    assert not any(map(is_either, ["0,234", "1,23", "1,2345", "1,234.5", "1,234,567", "1 234,567"]))
    assert has_grouped_point("-12.345")
    assert not has_grouped_point("0.345")


@given(st.floats(-1e12, 1e12), st.integers(1, 9).filter(lambda n: n != 3))
def test_what_is_written_in_any_country_is_read_back(number: float, decimals: int) -> None:
    english = f"{number:,.{decimals}f}"
    plain = float(f"{number:.{decimals}f}")
    swap = str.maketrans(",.", ".,")
    for text in (
        english,
        english.translate(swap),
        english.replace(",", " ").replace(".", ","),
        english.replace(",", "’"),
        english.replace(",", ""),
    ):
        if not has_grouped_point(text.replace(",", ".")) and not is_either(text):
            assert read_number(text) == plain
