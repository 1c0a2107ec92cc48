"""Conditions in words: what a clinician reads."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import Axis
from fedrulefit.core.rules import Condition, describe_condition, interval

AGE = Axis("number", np.array([40.0, 57.25, 80.0]), 4, complete=False)
INJURY = Axis("category", np.empty(0), 4, complete=False)
SEX = Axis("yes/no", np.array([0.5]), 2, complete=False)
NAMES = ("fall", "car", "burn", "other")


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (interval(0, 1), "age < 40 years"),
        (interval(0, 3), "age < 80 years"),
        (interval(1, 4), "age ≥ 40 years"),
        (interval(2, 4), "age ≥ 57.25 years"),
        (interval(1, 3), "40 ≤ age < 80 years"),
        (interval(2, 3), "57.25 ≤ age < 80 years"),
        (interval(0, 2, missing=True), "age < 57.25 years (or missing)"),
        (interval(3, 4, missing=True), "age ≥ 80 years (or missing)"),
        (interval(1, 2, missing=True), "40 ≤ age < 57.25 years (or missing)"),
        (1 << MISSING, "age is missing"),
        (interval(0, 4), "age is not missing"),
    ],
)
def test_a_number_is_told_by_its_range(codes: int, words: str) -> None:
    assert describe_condition(Condition(0, codes), AGE, "age", unit="years") == words


SHARES = np.array([0.01, 0.01, 0.56, 0.02, 0.4])
"""Of the known: 1.7 %, 1.7 %, 93.3 %, 3.3 %."""


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (interval(0, 3), "age is not missing (and age < 80)"),  # 96.7 %
        (interval(2, 4), "age is not missing (and age ≥ 57.25)"),
        (interval(2, 3), "57.25 ≤ age < 80"),  # 93.3 %
        (interval(3, 4, missing=True), "age is missing (or age ≥ 80)"),  # 3.3 %
        (interval(0, 1, missing=True), "age is missing (or age < 40)"),
        (interval(1, 3, missing=True), "40 ≤ age < 80 (or missing)"),
        (interval(3, 4), "age ≥ 80"),
        (1 << MISSING, "age is missing"),
        (interval(0, 4), "age is not missing"),
    ],
)
def test_where_nearly_all_known_satisfy_a_condition_it_tells_of_missing_values(
    codes: int, words: str
) -> None:
    """``chol < 507``, true for 99 % of the known, reads as a fact about cholesterol."""
    condition = Condition(0, codes)
    assert describe_condition(condition, AGE, "age", shares=SHARES) == words
    # Where nothing is known of the shares, or nobody is missing, the words stay.
    for nothing in (None, np.array([0.0, 0, 0, 0, 1]), np.array([0.01, 0.01, 0.96, 0.02, 0])):
        plain = describe_condition(condition, AGE, "age", shares=nothing)
        assert plain == describe_condition(condition, AGE, "age")


def test_a_level_that_nearly_all_known_have_tells_of_missing_values() -> None:
    shares = np.array([0.48, 0.02, 0.5])
    told = describe_condition(Condition(0, 0b01), SEX, "fbs", levels="01", shares=shares)
    assert told == "fbs is not missing (and fbs = 0)"
    rare = describe_condition(Condition(0, 0b10), SEX, "fbs", levels="01", shares=shares)
    assert rare == "fbs = 1"


def test_a_number_without_unit_has_no_trailing_space() -> None:
    condition = Condition(0, interval(1, 3))
    assert describe_condition(condition, AGE, "GCS") == "40 ≤ GCS < 80"


@pytest.mark.parametrize(
    ("value", "below", "between", "above"),
    [(39.9, True, False, False), (40.0, False, True, False), (80.0, False, False, True)],
)
def test_the_words_agree_with_the_codes_at_the_cutoffs(
    value: float, below: bool, between: bool, above: bool
) -> None:
    code = int(np.searchsorted(AGE.cutoffs, value, side="right"))
    holds = [
        bool(interval(lo, hi) >> code & 1)
        for lo, hi in ((0, 1), (1, 3), (3, 4))  # age < 40, 40 ≤ age < 80, age ≥ 80
    ]
    assert holds == [below, between, above]


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (0b0001, "injury = fall"),
        (0b1000, "injury = other"),
        (0b1101, "injury ≠ car"),
        (0b0011, "injury is fall or car"),
        (0b1010, "injury is car or other"),
        (0b0001 | 1 << MISSING, "injury = fall (or missing)"),
        (0b1101 | 1 << MISSING, "injury ≠ car (or missing)"),
        (0b0101 | 1 << MISSING, "injury is fall or burn (or missing)"),
        (1 << MISSING, "injury is missing"),
        (0b1111, "injury is not missing"),
    ],
)
def test_a_category_is_told_by_its_levels(codes: int, words: str) -> None:
    assert describe_condition(Condition(1, codes), INJURY, "injury", levels=NAMES) == words


def test_three_of_five_levels_are_listed() -> None:
    axis = Axis("category", np.empty(0), 5, complete=True)
    condition = Condition(0, 0b10101)
    assert describe_condition(condition, axis, "cp", levels="abcde") == "cp is a, c or e"


def test_one_of_two_levels_is_named_not_negated() -> None:
    axis = Axis("category", np.empty(0), 2, complete=True)
    assert describe_condition(Condition(0, 0b10), axis, "ward", levels="AB") == "ward = B"


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (0b01, "sex = male"),
        (0b10, "sex = female"),
        (0b10 | 1 << MISSING, "sex = female (or missing)"),
        (0b01 | 1 << MISSING, "sex = male (or missing)"),
        (1 << MISSING, "sex is missing"),
        (0b11, "sex is not missing"),
    ],
)
def test_yes_no_is_told_by_its_labels(codes: int, words: str) -> None:
    assert describe_condition(Condition(2, codes), SEX, "sex", levels=("male", "female")) == words


def test_a_gap_in_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="interval"):
        describe_condition(Condition(0, 0b101), AGE, "age")


@pytest.mark.parametrize(
    ("cutoffs", "position", "text"),
    [
        ([1.23456, 1.23457, 9.0], 0, "1.23456"),  # the neighbour decides on the digits
        ([1.23456, 1.23457, 9.0], 1, "1.23457"),
        ([1.23456, 1.23457, 9.0], 2, "9"),  # 9 and its neighbour differ soon enough
        ([1.2345, 5.0, 1.2346e1], 0, "1.234"),
        ([0.0, 1.23451, 1.23454], 1, "1.23451"),
        ([0.0, 1.234111, 1.234233], 1, "1.2341"),  # five digits do
        ([0.0, 1.23451, 1.23454], 0, "0"),
        ([1.0, 2.00004, 3.00001, 3.00002], 1, "2"),  # of the nearest only
        ([1.00001, 1.00002, 2.00004, 3.0], 2, "2"),
        ([1.00001, 1.00002, 2.00004, 3.0], 0, "1.00001"),
        ([123456.1, 123456.4, 123460.0], 0, "123456.1"),
        ([1.0, 1.0000000000000002, 2.0], 0, "1.0"),  # neighbouring floats: all their digits
        ([1.0, 1.0000000000000002, 2.0], 1, "1.0000000000000002"),
        ([0.12344, 0.12346, 0.5], 1, "0.1235"),
    ],
)
def test_a_cutoff_has_as_many_digits_as_tell_it_from_its_neighbours(
    cutoffs: list[float], position: int, text: str
) -> None:
    axis = Axis("number", np.array(cutoffs), len(cutoffs) + 1, complete=True)
    below = Condition(0, interval(0, position + 1))
    assert describe_condition(below, axis, "x") == f"x < {text}"
    above = Condition(0, interval(position + 1, len(cutoffs) + 1))
    assert describe_condition(above, axis, "x") == f"x ≥ {text}"


@pytest.mark.parametrize(
    ("step", "cutoff", "text"),
    [
        (0.05, 137.35, "137.35"),
        (0.1, 0.1 * 3, "0.3"),
        (1.0, 12345.0, "12 345"),
        (1.0, 57.26, "57.26"),
    ],
)
def test_a_cutoff_is_written_to_the_step_of_its_values(
    step: float, cutoff: float, text: str
) -> None:
    """Sodium in steps of 0.05 was parted at 137.35, and 137.3 was said."""
    axis = Axis("number", np.array([cutoff]), 2, complete=True)
    words = describe_condition(Condition(0, interval(0, 1)), axis, "x", step=step)
    assert words == f"x < {text}"
