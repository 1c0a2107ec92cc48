"""Intervals over hospitals hold as often as they say, in the coverage study's own draws.

Each test fails a correct interval fewer than once in a million times: coverage of at least 92.5 %
is held against the binomial distribution.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from fedrulefit.experiments.coverage.hospitals import (
    AREA,
    Truth,
    draw_scores,
    draw_truth,
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


def test_hospitals_are_as_is_said_of_them() -> None:
    """Regression: a hospital of AUC .4 was drawn with .6, and intervals seemed to miss."""
    rng = np.random.default_rng(3)
    truths = [draw_truth(0.6, rng) for _ in range(2000)]
    assert min(truth.area for truth in truths) > 0
    assert np.mean([truth.area for truth in truths]) == pytest.approx(logit(AREA), abs=0.05)
    worst = Truth(min(truth.area for truth in truths), 1.0, 0.0)
    drawn = [draw_scores(worst, rng, sloped=False) for _ in range(60)]
    area = np.mean([roc_auc_score(outcome, chance) for chance, outcome in drawn])
    assert area == pytest.approx(expit(worst.area), abs=0.03)
