"""Cells read as numbers and levels."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.table.cells import match_levels, parse_numbers


def test_words_for_missing_yield_to_declared_levels() -> None:
    raw = np.array(["NA", "na", "none", "", ".", None, "b"], dtype=object)
    plain, n_unknown = match_levels(raw, ("b", "c"))
    np.testing.assert_array_equal(plain, [np.nan] * 6 + [0.0])
    assert n_unknown == 0
    declared, n_unknown = match_levels(raw, ("b", "NA"))
    np.testing.assert_array_equal(declared, [1.0] + [np.nan] * 5 + [0.0])
    assert n_unknown == 1, "'na' is neither the level 'NA' nor a missing value"


@given(
    st.lists(
        st.none()
        | st.sampled_from(["", " ", "NA", "3,5", "x", "inf", "1_0", "nan", " 7 ", "1e3"])
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
    assert found.n_not_number + found.n_decimal_comma == bad
