"""Intervals of published calibration groups count with the rounding of what is published.

Regression: of yes/no outcomes they held the true share in .91 to .96 of simulated studies, since
counts of ten are rounded by up to two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.levels_judge import LevelsJudge
from fedrulefit.core.families.number_judge import NumberJudge
from fedrulefit.core.families.yesno_judge import YesNoJudge
from fedrulefit.core.rounding import EXACT, PUBLISHED, round_up_step
from fedrulefit.model.evaluation import Evaluation

N_ROWS = 600
MANY = 99
"""So many groups may there be that each bin is one."""


def publish(judge: Any, prediction: Any, outcome: Any) -> Any:
    sums = judge.count(prediction, outcome, np.ones(len(prediction)))
    made = judge.publish(sums, judge.measure(sums), PUBLISHED, 1.0)
    assert made is not None
    return made[0]


def draw_chance(seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    chance = stats.norm.cdf(rng.normal(-1, 1, N_ROWS))
    return chance, (rng.random(N_ROWS) < chance).astype(float)


def test_a_share_is_of_as_many_patients_fewer() -> None:
    judge = YesNoJudge()
    told = publish(judge, *draw_chance())
    groups = judge.groups(told, MANY, PUBLISHED, 1.0)
    assert len(groups) > 3
    for group in groups:
        p, n = group.observed, group.patients
        noise = 5**2 / 12 * (p**2 + (1 - p) ** 2) / n**2
        near = (p * n + 0.5) / (n + 1)
        fewer = n / (1 + n * noise / (near * (1 - near)))
        expected = proportion_confint(p * fewer, fewer, method="wilson")
        assert (group.low, group.high) == pytest.approx(expected, abs=1e-9)
        assert fewer < n


def test_bins_that_are_put_together_were_rounded_each() -> None:
    judge = YesNoJudge()
    told = publish(judge, *draw_chance())
    (group,) = judge.groups(told, 1, PUBLISHED, 1.0)
    p, n, bins = group.observed, group.patients, len(told.cases)
    error = math.sqrt(p * (1 - p) / n + bins * 25 / 12 * (p**2 + (1 - p) ** 2) / n**2)
    assert group.high - group.low == pytest.approx(2 * 1.96 * error, rel=0.02)


def test_splits_of_levels_are_rounded_as_shares_are() -> None:
    rng = np.random.default_rng(2)
    chance = rng.dirichlet([3, 2, 1], N_ROWS)
    level = np.array([rng.choice(3, p=own) for own in chance]).astype(float)
    judge = LevelsJudge("abc", ordered=True)
    told = publish(judge, chance, level)
    assert_wider(judge, told)


def test_a_mean_has_the_error_of_its_rounding() -> None:
    rng = np.random.default_rng(3)
    prediction = rng.uniform(0, 30, N_ROWS)
    judge = NumberJudge(0.0, 30.0)
    told = publish(judge, prediction, np.clip(prediction + rng.normal(0, 4, N_ROWS), 0, 30))
    without, groups = judge.groups(told, MANY), judge.groups(told, MANY, PUBLISHED, 1.0)
    for before, after in zip(without, groups, strict=True):
        step = 15 * round_up_step(max(2 / after.patients, 1e-3))
        student = stats.t.ppf(0.975, after.patients - 1)
        added = (after.high - after.observed) ** 2 - (before.high - before.observed) ** 2
        assert added == pytest.approx(student**2 * step**2 / 12, rel=1e-6)


def test_events_have_the_error_of_their_rounding() -> None:
    rng = np.random.default_rng(4)
    rate = np.exp(rng.normal(0, 0.6, N_ROWS))
    judge = CountJudge(50.0)
    outcome = np.column_stack([rng.poisson(rate), np.ones(N_ROWS)]).astype(float)
    told = publish(judge, rate, outcome)
    assert_wider(judge, told)
    (before,), (after,) = judge.groups(told, 1), judge.groups(told, 1, PUBLISHED, 1.0)
    more = ((after.high - after.low) / (before.high - before.low)) ** 2
    assert more == pytest.approx(1 + len(told.events) * 25 / 12 / after.events, rel=0.05)


def test_the_curve_of_a_published_evaluation_is_that_of_its_rounding() -> None:
    found = Evaluation.of_predictions(*draw_chance())
    told, merged = found.rounded(PUBLISHED), found.rounded(EXACT)
    assert told is not None
    assert merged is not None
    expected = YesNoJudge().groups(told.overall, 10, PUBLISHED, 1.0)
    frame = told.calibration_frame()
    assert frame["low"].tolist() == [group.low for group in expected]
    plain = YesNoJudge().groups(merged.overall, 10)
    assert merged.calibration_frame()["low"].tolist() == [group.low for group in plain]


def assert_wider(judge: Any, told: Any) -> None:
    without, groups = judge.groups(told, MANY), judge.groups(told, MANY, PUBLISHED, 1.0)
    assert len(groups) > 3
    for before, after in zip(without, groups, strict=True):
        assert after.low < before.low <= before.high < after.high
        assert after.observed == before.observed
