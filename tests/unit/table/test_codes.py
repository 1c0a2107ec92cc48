"""Codes that may stand for a missing value, found in columns whose codes are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrulefit.table.codes import CODES, find_codes, is_unknown_word

RNG = np.random.default_rng(0)
AGE = RNG.integers(18, 91, 300).astype(float)
GCS = RNG.integers(3, 16, 300).astype(float)
PRESSURE = RNG.normal(130, 20, 300).round()
EXCESS = RNG.normal(0, 5, 300).round(1)
YES_NO = np.repeat([0.0, 1.0], 150)


@pytest.mark.parametrize(
    ("column", "codes"),
    [
        (np.r_[GCS, [-9.0] * 78], {-9.0: 78}),
        (np.r_[GCS, [-1.0] * 5], {-1.0: 5}),
        (np.r_[GCS, [99.0] * 5], {99.0: 5}),
        (np.r_[GCS, -9.0], {-9.0: 1}),
        (np.r_[AGE, [-9.0] * 2], {-9.0: 2}),
        (np.r_[AGE, [999.0]], {999.0: 1}),
        (np.r_[AGE[AGE < 80], [99.0] * 80], {99.0: 80}),
        (np.r_[PRESSURE, [999.0] * 3, [-9.0] * 4], {-9.0: 4, 999.0: 3}),
        (np.r_[EXCESS, [-99.0] * 4], {-99.0: 4}),
        (np.r_[EXCESS, [99.9] * 4], {99.9: 4}),
        (np.r_[YES_NO, [9.0] * 12], {9.0: 12}),
        (np.r_[YES_NO, [-1.0] * 12], {-1.0: 12}),
        (np.r_[GCS, [77.0] * 3, [88.0] * 3, [99.0] * 3], {77.0: 3, 88.0: 3, 99.0: 3}),
        (np.r_[RNG.integers(0, 4, 100), [8] * 9, [9] * 5].astype(float), {8.0: 9, 9.0: 5}),
        (np.r_[RNG.integers(1, 6, 100), [9] * 5].astype(float), {9.0: 5}),
        (np.r_[AGE, np.nan, [-8.0] * 3, [-9.0] * 3], {-9.0: 3, -8.0: 3}),
    ],
)
def test_codes_are_found(column: np.ndarray, codes: dict[float, int]) -> None:
    assert find_codes(RNG.permutation(column)) == codes


@pytest.mark.parametrize(
    "column",
    [
        AGE,
        np.r_[AGE, 99.0],
        np.r_[AGE, 98.0, 99.0, 99.0],
        GCS,
        np.r_[RNG.integers(0, 9, 300), 9].astype(float),  # a pain score without a 10
        np.r_[[9.0] * 200, [8.0] * 20, [7.0] * 5, 3.0],  # Apgar scores
        RNG.integers(-2, 3, 300).astype(float),
        np.r_[EXCESS, -9.0, -9.0, -9.0],
        np.r_[YES_NO],
        np.array([7.0, 7.0, 8.0, 8.0, 9.0, 9.0]),
        np.array([5.0, 5.0, 9.0, 9.0, 9.0]),  # which of the two would it be?
        np.array([]),
        np.full(5, np.nan),
        np.full(5, 99.0),
        np.r_[RNG.exponential(5, 300).round(), 77.0],  # days in hospital
        np.r_[RNG.normal(97, 1, 300).round().clip(90, 100), 99.0],
    ],
)
def test_ordinary_columns_are_left_alone(column: np.ndarray) -> None:
    assert find_codes(column) == {}


@given(arrays(np.float64, st.integers(0, 40), elements=st.sampled_from([-99, -9, 0, 1, 2, 9, 999])))
def test_only_listed_values_at_the_ends_with_their_counts(column: np.ndarray) -> None:
    found = find_codes(column)
    rest = column[~np.isin(column, list(found))]
    for code, n in found.items():
        assert code in CODES
        assert n == (column == code).sum()
        assert not rest.min() <= code <= rest.max()


@pytest.mark.parametrize(
    "word", ["unknown", " Unknown ", "?", "N/K", "k.A.", "not recorded", "NSP", "n.b."]
)
def test_words_for_unknown(word: str) -> None:
    assert is_unknown_word(word)


@pytest.mark.parametrize("word", ["none", "no", "0", "never", "negative", "other", "normal", "I"])
def test_words_that_say_something_of_a_patient(word: str) -> None:
    assert not is_unknown_word(word)
