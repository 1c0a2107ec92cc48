"""Data frames and mappings: every dtype, and what is no table."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fedrulefit.table.check import load_table
from tests.tables import N, codes, make_columns, make_study


@pytest.mark.parametrize(
    "female",
    [
        [True, False] * 20,
        [1.0, 0.0] * 20,
        ["1", "0"] * 20,
        ["1.0", " 0 "] * 20,
        np.array([1, 0] * 20, np.int8),
        pd.array([True, False] * 20, dtype="boolean"),
        pd.array([1, 0] * 20, dtype="Int64"),
        pd.Categorical([1, 0] * 20),
        pl.Series([Decimal(1), Decimal(0)] * 20),
        np.ma.masked_array([1, 0] * 20, [False] * 40),
        ["True", "false"] * 20,
    ],
    ids=lambda value: type(value).__name__ + str(value[0]),
)
def test_every_dtype_of_a_yes_no_column_is_read(female: Any) -> None:
    table = load_table(make_columns(female=female), make_study())
    assert table.values[:, 2].tolist() == [1.0, 0.0] * 20


@pytest.mark.parametrize(
    "age",
    [
        pd.array([30, None] * 20, dtype="Int64"),
        pd.array([30.0, None] * 20, dtype="Float64"),
        [Decimal(30), None] * 20,
        pl.Series([30, None] * 20),
        pl.Series([Decimal(30), None] * 20),
        np.ma.masked_array([30, 99] * 20, [False, True] * 20),
        ["30", "N/A"] * 20,
        [" 30.0", " "] * 20,
        np.array([30, np.nan] * 20, np.float32),
    ],
    ids=lambda value: type(value).__name__ + str(value[0]),
)
def test_every_dtype_of_a_number_keeps_its_missing_values(age: Any) -> None:
    table = load_table(make_columns(age=age), make_study())
    np.testing.assert_array_equal(table.values[:, 0], [30.0, np.nan] * 20)


def test_a_lazy_frame_an_array_and_unequal_columns_are_refused() -> None:
    assert codes(pl.DataFrame(make_columns()).lazy()) == {"unknown-source": "error"}
    assert codes(np.zeros((3, 3))) == {"unknown-source": "error"}
    assert codes(make_columns(age=[1.0])) == {"unequal-lengths": "error"}
    assert codes(make_columns(age=np.zeros((N, 2)))) == {"not-a-column": "error"}
