"""Rows and columns that repeat others, against chance."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedrulefit.table.repeats import count_repeats, find_twins


def draw(n_rows: int, *n_values: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, n, n_rows) for n in n_values]).astype(float)


def count_equal_rows(values: np.ndarray) -> int:
    rows = [tuple(None if np.isnan(x) else x for x in row) for row in values]
    return sum(any(row == other for other in rows[:i]) for i, row in enumerate(rows))


def test_copied_rows_are_counted() -> None:
    values = draw(200, 80, 13, 60, 2, 2)
    values[::9, 1] = np.nan
    assert count_repeats(values) == count_equal_rows(values) == 0
    copied = np.r_[values, values[:7], values[:3]]
    assert count_repeats(copied) == count_equal_rows(copied) == 10


def test_rows_that_are_equal_by_chance_are_not() -> None:
    few_values = draw(500, 2, 3, 2, 4)
    assert count_equal_rows(few_values) > 400
    assert count_repeats(few_values) == 0
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, 5000)
    related = np.column_stack([age, age > 60, rng.integers(0, 3, 5000), age // 20])
    assert count_equal_rows(related) > 1000
    assert count_repeats(related.astype(float)) == 0


def test_no_rows_and_no_columns() -> None:
    assert count_repeats(np.zeros((0, 3))) == 0
    assert count_repeats(np.zeros((3, 0))) == 0
    assert find_twins(np.zeros((0, 3))) == []


@pytest.mark.parametrize("name", ["trauma", "heart_uci", "ist"])
def test_real_tables_repeat_nothing(data_dir: Path, name: str) -> None:
    frame = pd.read_csv(data_dir / f"{name}.csv")
    values = np.column_stack([pd.factorize(frame[c])[0] for c in frame]).astype(float)
    once = np.unique(values, axis=0)
    assert count_repeats(once) == 0
    assert find_twins(values) == []
    assert count_repeats(np.r_[once, once[:60]]) == 60


def test_columns_that_tell_patients_apart_alike() -> None:
    values = draw(100, 5, 2, 40)
    assert find_twins(values) == []
    again = np.column_stack([values, values[:, 0], 1 - values[:, 1], values[:, 2] * 9 / 5 + 32])
    expected = [
        (i, j)
        for i, j in combinations(range(6), 2)
        if pd.crosstab(again[:, i], again[:, j]).gt(0).sum().max() == 1
        and pd.crosstab(again[:, j], again[:, i]).gt(0).sum().max() == 1
    ]
    assert find_twins(again) == expected == [(0, 3), (1, 4), (2, 5)]


def test_many_values_must_rise_or_fall_together() -> None:
    """Two measures with another value for every patient tell all patients apart, both."""
    rng = np.random.default_rng(0)
    lab, other = rng.normal(size=(2, 100))
    celsius = np.where(rng.random(100) < 0.1, np.nan, lab + 37)
    values = np.column_stack([lab, other, -lab, celsius, celsius * 9 / 5 + 32, 40 - celsius])
    assert find_twins(values) == [(0, 2), (3, 4), (3, 5)]


def test_columns_of_nearly_one_value_are_not_compared() -> None:
    rare = np.zeros((50, 2))
    rare[:4] = 1
    assert find_twins(rare) == []
    rare[:5] = 1
    assert find_twins(rare) == [(0, 1)]
    gaps = np.where(rare == 1, np.nan, 0)
    assert find_twins(gaps) == [(0, 1)], "missing for the same patients, and nothing else"
