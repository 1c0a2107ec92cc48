"""Words of several languages: yes and no, and levels in an order."""

from __future__ import annotations

import random

import pytest

from fedrulefit.table.words import NO_WORDS, YES_WORDS, find_order, says_no, says_yes


def test_no_word_says_both() -> None:
    assert not YES_WORDS & NO_WORDS


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("ja", "nein"),
        ("Oui", "Non"),
        ("sí", "no"),
        ("verstorben", "lebend"),
        ("1", "0"),
        ("positiv", "negativ"),
    ],
)
def test_yes_and_no(yes: str, no: str) -> None:
    assert says_yes(yes)
    assert not says_no(yes)
    assert says_no(no)
    assert not says_yes(no)


@pytest.mark.parametrize("text", ["not dead", "no infection", "Keine Infektion", "non-smoker"])
def test_a_text_that_denies(text: str) -> None:
    assert says_no(text)


@pytest.mark.parametrize("text", ["north", "noon", "nonane", "keiner"])
def test_a_text_that_only_begins_so(text: str) -> None:
    assert not says_no(text)


@pytest.mark.parametrize(
    "order",
    [
        ["none", "mild", "moderate", "severe"],
        ["Low", "Medium", "High"],
        ["very low", "normal", "very-high"],
        ["keine", "leicht", "mittel", "schwer"],
        ["aucun", "léger", "modéré", "sévère"],
        ["I", "II", "III", "IV"],
        ["NYHA I", "NYHA II", "NYHA III", "NYHA IV"],
        ["stage 1", "stage 2", "stage 10"],
        ["T1", "T2a", "T2b", "T3"],
        ["never", "former", "current"],
        ["low", "high"],
    ],
)
def test_orders(order: list[str]) -> None:
    levels = order.copy()
    random.Random(0).shuffle(levels)
    assert find_order(levels) == order


@pytest.mark.parametrize(
    "levels",
    [
        ["yes", "no"],
        ["old", "severe"],
        ["low", "high", "blue"],
        ["A1", "B2", "C3"],
        ["1", "2", "3"],
        ["fall", "car", "other"],
        ["mild", "Mild", "severe"],
        ["I", "II", "x y"],
        ["A", "B", "AB", "0"],
    ],
)
def test_no_order(levels: list[str]) -> None:
    assert find_order(levels) is None
