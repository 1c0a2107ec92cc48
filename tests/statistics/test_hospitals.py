"""Intervals over hospitals hold as often as they say, in the coverage study's own draws.

Each test fails a correct interval fewer than once in a million times: coverage of at least 92.5 %
is held against the binomial distribution.
"""

from __future__ import annotations

import pandas as pd
import pytest
from scipy.stats import binom

from fedrulefit.experiments.coverage.hospitals import (
    hospitals_table,
    make_units,
    summarise_hospitals,
)
from fedrulefit.experiments.methods import Effort

DRAWS = 100
LEAST = 0.925


def count(draws: int, hospitals: int, spread: float) -> pd.DataFrame:
    units = make_units(draws, seed=11, effort=Effort(), hospitals=(hospitals,), spreads=(spread,))
    return summarise_hospitals(pd.DataFrame([row for unit in units for row in unit.run()]))


@pytest.mark.parametrize(("hospitals", "spread"), [(3, 0.3), (5, 0.0), (10, 0.6)])
def test_intervals_over_hospitals_cover(hospitals: int, spread: float) -> None:
    found = count(DRAWS, hospitals, spread)
    assert len(found) == 7
    assert (found["too_few"] == 0).all()
    fewest = binom.ppf(1e-6 / (3 * 7), DRAWS, LEAST)
    assert (found["coverage"] * DRAWS >= fewest - 1e-9).all(), found.to_string()
    assert hospitals_table(found).count("\n") == 8


def test_two_hospitals_tell_nothing_of_a_third() -> None:
    found = count(2, 2, 0.1).set_index("interval")
    assert found.loc["AUC of a further hospital", "too_few"] == 1
    assert found.loc["AUC within hospitals", "too_few"] == 0
    assert "too few" in hospitals_table(found.reset_index())
