"""What a caller says of columns, by name or by position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.errors import DataError
from fedrulefit.table.asked import Asked, resolve_asked

NAMES = ["age", "nyha", "blood"]


def test_names_and_positions_mean_the_same() -> None:
    by_name = resolve_asked(
        NAMES, categorical=["blood"], ordered={"nyha": ["I", "II"]}, missing={"age": [-9]}
    )
    by_place = resolve_asked(
        NAMES, categorical=[2], ordered={1: ("I", "II")}, missing={np.int64(0): np.array([-9.0])}
    )
    assert by_name == by_place
    assert by_name.categorical == {"blood"}
    assert by_name.codes("age") == (-9,)
    assert by_name.codes("nyha") == ()


def test_a_list_is_of_all_columns_and_nothing_is_nothing() -> None:
    asked = resolve_asked(NAMES, missing=[-9, "unknown", -9.0])
    assert asked.codes("age") == asked.codes("blood") == (-9, "unknown")
    assert resolve_asked(NAMES) == Asked()


def test_categories_of_a_frame_can_be_given_as_they_are() -> None:
    levels = pd.Categorical(["I"], categories=["I", "II", "III"]).categories
    assert resolve_asked(NAMES, ordered={"nyha": levels}).ordered == {"nyha": ("I", "II", "III")}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"categorical": ["bloood"]}, "'bloood': did you mean 'blood'?"),
        ({"missing": {"Age": [-9]}}, "missing= names a column that X does not have: 'Age': did"),
        ({"ordered": {"NYHA class": ["I", "II"]}}, "ordered= names a column that X does not have"),
        ({"categorical": [3]}, "categorical= names column 3; X has columns 0 to 2"),
        ({"categorical": [-1]}, "X has columns 0 to 2"),
        ({"categorical": [True]}, "names a column that X does not have: 'True'"),
        ({"categorical": "blood"}, "categorical= wants a list: categorical=['ward']"),
        ({"missing": "unknown"}, "missing= wants a list"),
        ({"missing": -9}, "missing= wants a list"),
        ({"missing": {"age": "unknown"}}, "missing= wants a list"),
        ({"ordered": ["nyha"]}, "ordered= must say what it is of which column: ordered={'nyha'"),
        ({"ordered": {"nyha": "I < II"}}, "ordered= wants a list"),
        ({"ordered": {"nyha": ["I"]}}, "two levels or more, each once"),
        ({"ordered": {"nyha": ["I", "II", "I"]}}, "two levels or more, each once"),
        ({"ordered": {"nyha": ["I", "II"]}, "categorical": [1]}, "in categorical= and in ordered="),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError) as refusal:
        resolve_asked(NAMES, **given)
    assert words in str(refusal.value)
