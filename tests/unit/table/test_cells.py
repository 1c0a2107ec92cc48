"""Cells read as numbers and levels."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.table.cells import match_levels, parse_numbers


def test_words_for_missing_yield_to_declared_levels() -> None:
    raw = np.array(["NA", "na", "", ".", None, "b"], dtype=object)
    plain, unknown = match_levels(raw, ("b", "c"))
    np.testing.assert_array_equal(plain, [np.nan] * 5 + [0.0])
    assert not unknown.any()
    declared, unknown = match_levels(raw, ("b", "NA"))
    np.testing.assert_array_equal(declared, [1.0] + [np.nan] * 4 + [0.0])
    assert unknown.tolist() == [False, True, *[False] * 4], "'na' is not the level 'NA'"


def test_none_is_an_answer() -> None:
    """Smoking none/former/current became yes/no of former and current, and a rule "is missing"."""
    raw = np.array(["none", "None", "no", "0"], dtype=object)
    positions, unknown = match_levels(raw, ("none", "former"))
    np.testing.assert_array_equal(positions, [0.0, *[np.nan] * 3])
    assert unknown.tolist() == [False, True, True, True]
    assert parse_numbers(raw).unreadable.tolist() == [True, True, True, False]


def test_codes_for_missing_are_those_of_the_study() -> None:
    texts = np.array(["-9", "-9.0", "Unknown", "9", None], dtype=object)
    found = parse_numbers(texts, (-9, "unknown"))
    np.testing.assert_array_equal(found.values, [*[np.nan] * 3, 9.0, np.nan])
    assert not found.unreadable.any()
    floats = parse_numbers(np.array([-9.0, 9.0, np.nan]), (-9, "unknown"))
    np.testing.assert_array_equal(floats.values, [np.nan, 9.0, np.nan])
    positions, unknown = match_levels(texts, (9, 1), ("-9", "unknown"))
    np.testing.assert_array_equal(positions, [*[np.nan] * 3, 0.0, np.nan])
    assert not unknown.any()


@given(
    st.lists(
        st.none()
        | st.sampled_from(["", " ", "NA", "3,500", "x", "inf", "1_0", "nan", " 7 ", "1e3"])
        | st.floats(allow_nan=False, allow_infinity=False).map(str)
    )
)
def test_numbers_against_a_naive_loop(texts: list[str | None]) -> None:
    expected, bad = [], 0
    for text in texts:
        if text is None or text.strip().lower() in ("", "na", "nan"):
            expected.append(np.nan)
            continue
        try:
            expected.append(float(text.replace("_", "x")))
        except ValueError:
            expected.append(np.nan)
            bad += 1
    found = parse_numbers(np.array([*texts, None], dtype=object)[:-1])
    np.testing.assert_array_equal(found.values, np.array(expected, float))
    assert found.n_not_number == bad
