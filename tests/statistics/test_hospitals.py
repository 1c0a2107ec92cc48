"""Intervals over hospitals hold as often as they say, in the coverage study's own draws.

Each test fails a correct interval fewer than once in a million times: coverage of at least 92.5 %
is held against the binomial distribution.
"""

from __future__ import annotations

import pytest
from scipy.stats import binom

from fedrulefit.experiments.coverage.hospitals import hospitals_table, run

DRAWS = 100
LEAST = 0.925


@pytest.mark.parametrize(("hospitals", "spread"), [(3, 0.3), (5, 0.0), (10, 0.6)])
def test_intervals_over_hospitals_cover(hospitals: int, spread: float) -> None:
    found = run(DRAWS, seed=11, hospitals=(hospitals,), spreads=(spread,))
    assert len(found) == 7
    assert (found["too_few"] == 0).all()
    fewest = binom.ppf(1e-6 / (3 * 7), DRAWS, LEAST)
    assert (found["coverage"] * DRAWS >= fewest - 1e-9).all(), found.to_string()
    assert hospitals_table(found).count("\n") == 8


def test_two_hospitals_tell_nothing_of_a_third() -> None:
    found = run(2, hospitals=(2,), spreads=(0.1,)).set_index("interval")
    assert found.loc["AUC of a further hospital", "too_few"] == 1
    assert found.loc["AUC within hospitals", "too_few"] == 0
    assert "nan" in hospitals_table(found.reset_index())
