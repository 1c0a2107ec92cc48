"""What texts look like, and how they become levels."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.table.texts import Look, find_look, read_texts


@pytest.mark.parametrize(
    ("look", "texts"),
    [
        (Look.WHOLE, ["0", "7", "-3", "+4", "12.0", "1e3"]),
        (Look.DECIMAL, ["0.5", ".5", "-1.25", "1.234", "1e-3", "inf"]),
        (Look.CODE, ["01", "007", "01067"]),
        (Look.SPELLED, ["3,5", "0,125", "1.234,5", "1 234", "1'234", "1.200.000"]),
        (Look.EITHER, ["1,234", "-12,500"]),
        (
            Look.DATE,
            ["2020-01-31", "2020/1/31", "31.12.2020", "1.2.20", "2020-01", "2020-01-31 08:30:00",
             "2020-01-31T08:30", "08:30", "23:59:59.5", "31 Mar 2024"],
        ),
        (Look.MARKED, ["<0.5", "> 100", "5 mg", "3+", "I21.4", "1-2-3-4", "1_000", "12/15"]),
        (Look.WORD, ["none", "unknown", "a", "III", "-", "?", "Mr Smith"]),
    ],
)  # fmt: skip
def test_each_text_has_one_look(look: Look, texts: list[str]) -> None:
    assert {text: find_look(text) for text in texts} == dict.fromkeys(texts, look)


def test_texts_are_counted_without_those_that_are_missing() -> None:
    raw = np.array(["a", " a ", "b", None, "", "NA", "9", "9.0", "c"], dtype=object)
    texts = read_texts(raw, {"9"})
    assert texts.rows == {"a": 2, "b": 1, "c": 1}
    assert texts.n_rows == 4
    assert texts.count(Look.WORD) == 4


def test_levels_are_in_order_and_of_spellings_the_first_stands() -> None:
    raw = np.array(["10", "2", "b", "1.0", "1", "a", "02"], dtype=object)
    assert read_texts(raw).levels == ("1", "02", "10", "a", "b")
