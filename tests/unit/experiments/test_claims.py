"""When a claim holds, when it does not, and when the numbers do not say."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.experiments.claims import (
    OUR_CHECK,
    Claim,
    Mean,
    Verdict,
    claims_table,
    count_verdicts,
    judge,
)


def margin(mean: float) -> Mean:
    return Mean(mean, 10.0, 1.0)


def test_a_mean_has_its_error() -> None:
    found = Mean.of(np.array([1.0, 2.0, 3.0, 6.0]))
    assert found.mean == 3.0
    assert found.sd == pytest.approx(np.std([1, 2, 3, 6], ddof=1))
    assert found.error == pytest.approx(found.sd / 2)


@pytest.mark.parametrize(("mean", "room"), [(0.5, 1.5), (-0.5, 1.5), (3.0, -1.0), (-3.0, -1.0)])
def test_room_is_left_on_both_sides(mean: float, room: float) -> None:
    assert margin(mean).room(2.0) == Mean(room, 10.0, 1.0)


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([], None),
        ([1.7], True),  # one-sided 5 %: 1.645 errors
        ([1.6], None),
        ([-1.6], None),
        ([-1.7], False),
        ([5.0, 5.0, 1.7], True),  # all of many: the worst decides
        ([5.0, 5.0, -1.7], None),  # one of many: by chance
        ([5.0, 5.0, -2.2], False),  # 0.05 / 3: 2.13 errors
    ],
)
def test_a_verdict_needs_a_clear_distance(means: list[float], verdict: bool | None) -> None:
    assert judge(margin(mean) for mean in means) is verdict


def test_false_verdicts_are_as_rare_as_stated() -> None:
    """Sixty cells just at their limit: 'does not hold' in at most 5 % of runs.

    4000 runs: 5 % has a standard error of 0.35 %; the limit of 7 % is 5.8 of them away.
    """
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(4000, 60))
    wrong = sum(judge(margin(mean) for mean in run) is False for run in runs)
    assert wrong / len(runs) < 0.07


def test_the_table_has_a_word_for_each_verdict() -> None:
    claims = [
        Claim("a", Verdict(True, "1"), Verdict(False, "2")),
        Claim("b", Verdict(None, "3")),
    ]
    table = claims_table(claims)
    assert "| a | holds: 1 | **does not hold**: 2 |" in table
    assert "| b | **not decided**: 3 | – |" in table


def test_claims_are_counted_but_our_own_checks() -> None:
    claims = [
        Claim("a", Verdict(True, ""), Verdict(False, "")),
        Claim("b", Verdict(True, "")),
        Claim("c", Verdict(None, ""), Verdict(True, "")),
        Claim(f"{OUR_CHECK}d", Verdict(False, ""), Verdict(False, "")),
    ]
    assert claims_table(claims).startswith(
        "3 claims: 2 confirmed, 0 not confirmed, 1 not decided. "
        "With our defaults, of the 2 that concern them: "
        "1 confirmed, 1 not confirmed, 0 not decided."
    )
    assert "defaults" not in count_verdicts(claims[1:2])
