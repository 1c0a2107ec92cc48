"""Each cell as its covariate reads it, whatever stands in the other cells."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.study import Category, Covariate, Number, Ordered, YesNo
from fedrulefit.table.reading import Cell, read_column

NUMBER = Number(range=(0, 10), missing=(-9, "unknown"))
COVARIATES: list[Covariate] = [
    NUMBER,
    Category(levels=("none", 1, "b"), missing=(99,)),
    Ordered(levels=("I", "II", "III"), missing=("?",)),
    YesNo(),
]
CELLS = [None, "", "NA", "none", "None", "1", "1.0", "-9", "99", "b", "II", "?", "11", "-1", "inf"]
CELLS += ["-inf", "nan", "3,5", "x", "true", "0", "unknown"]


@pytest.mark.parametrize("covariate", COVARIATES, ids=lambda c: c.kind)
def test_a_cell_is_read_by_itself(covariate: Covariate) -> None:
    """A table's answer for one patient used to depend on the others."""
    whole = read_column(np.array(CELLS, dtype=object), covariate)
    for k, cell in enumerate(CELLS):
        alone = read_column(np.array([cell], dtype=object), covariate)
        np.testing.assert_array_equal(alone.values, whole.values[k : k + 1])
        assert alone.states[0] == whole.states[k]


@pytest.mark.parametrize(
    ("cell", "value", "state"),
    [
        ("3.5", 3.5, Cell.KNOWN),
        ("11", 11.0, Cell.ABOVE),
        ("-1", -1.0, Cell.BELOW),
        ("inf", np.inf, Cell.ABOVE),
        ("-inf", -np.inf, Cell.BELOW),
        ("-9", np.nan, Cell.MISSING),
        ("unknown", np.nan, Cell.MISSING),
        (None, np.nan, Cell.MISSING),
        ("none", np.nan, Cell.UNREADABLE),
        ("3 mg", np.nan, Cell.UNREADABLE),
    ],
)
def test_numbers(cell: str | None, value: float, state: Cell) -> None:
    found = read_column(np.array([cell], dtype=object), NUMBER)
    np.testing.assert_array_equal(found.values, [value])
    assert found.states[0] == state


def test_levels_have_their_places_and_others_are_unseen() -> None:
    raw = np.array(["III", "I", "IV", "?", None], dtype=object)
    found = read_column(raw, COVARIATES[2])
    np.testing.assert_array_equal(found.values, [2.0, 0.0, np.nan, np.nan, np.nan])
    assert found.states.tolist() == [0, 0, Cell.UNSEEN, Cell.MISSING, Cell.MISSING]
    assert found.count(Cell.UNSEEN, Cell.MISSING) == 3


def test_a_code_beside_0_and_1_is_no_yes() -> None:
    """A 0/1 column that held 2, -9 or 99 was clipped: unknown became yes."""
    found = read_column(np.array([0.0, 1.0, 2.0, -9.0, 99.0, np.nan]), YesNo())
    assert found.states.tolist() == [0, 0, *[Cell.UNSEEN] * 3, Cell.MISSING]
