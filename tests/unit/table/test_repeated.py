"""Rows that are the same, by chance or not."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.table.repeated import count_repeats, expect_repeats


@pytest.mark.parametrize("n_again", [0, 10, 15, 16, 100, 300])
def test_repeats_are_counted_from_a_share_of_all_rows_on(n_again: int) -> None:
    cells = np.random.default_rng(0).normal(size=(300, 3))
    cells[:, 2] = np.where(cells[:, 2] > 1, np.nan, cells[:, 2])
    again = np.vstack([cells, cells[:n_again]])
    assert count_repeats(again) == (n_again if n_again > 0.05 * len(again) else 0)


def test_coarse_columns_are_no_surprise() -> None:
    coarse = np.random.default_rng(0).integers(0, 3, (300, 3)).astype(float)
    assert 300 - len(np.unique(coarse, axis=0)) > 200
    assert count_repeats(coarse) == 0
    assert expect_repeats(np.zeros((300, 2))) == pytest.approx(299)
    assert count_repeats(np.empty((0, 2))) == 0


def test_repeats_by_chance_are_those_of_independent_columns() -> None:
    """By simulation, the seed fixed: three standard errors of the mean over 200 tables."""
    rng = np.random.default_rng(1)
    columns = np.column_stack([rng.permutation(np.arange(400) % n) for n in (9, 13, 17)])
    found = []
    for _ in range(200):
        shuffled = np.column_stack([rng.choice(column, 400) for column in columns.T])
        found.append(400 - len(np.unique(shuffled, axis=0)))
    expected = expect_repeats(columns.astype(float))
    assert abs(np.mean(found) - expected) < 3 * np.std(found) / np.sqrt(200)
