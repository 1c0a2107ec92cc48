"""What is published of yes/no predictions, as a model file holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from fedrulefit.core.families.yesno_judge import YesNoJudge
from fedrulefit.core.rounding import EXACT, FEWEST, PUBLISHED, Rounding
from fedrulefit.privacy.policy import MIN_COUNT

JUDGE = YesNoJudge()


def make_sums(n_rows: int = 400) -> Any:
    rng = np.random.default_rng(1)
    chance = expit(rng.normal(-0.5, 1, n_rows))
    outcome = (rng.random(n_rows) < chance).astype(float)
    return JUDGE.count(chance, outcome, np.ones(n_rows))


def test_no_smaller_group_is_published_than_a_policy_asks_for() -> None:
    assert FEWEST == MIN_COUNT == EXACT.least()
    assert Rounding(3, 11).least(2.0) == 22


@pytest.mark.parametrize("rounding", [EXACT, PUBLISHED])
def test_what_is_written_is_read_again(rounding: Rounding) -> None:
    sums = make_sums()
    published = JUDGE.publish(sums, JUDGE.measure(sums), rounding, 1.0)
    assert published is not None
    told, measures = published
    again = JUDGE.read(JUDGE.write(told), measures)
    for name in (*told.quantities(), "edges", "means"):
        np.testing.assert_array_equal(getattr(again, name), getattr(told, name))
    assert min(told.cases.min(), told.others.min()) >= rounding.least()


def test_too_few_are_not_published() -> None:
    sums = make_sums(20)
    assert JUDGE.publish(sums, JUDGE.measure(sums), Rounding(5, 15), 1.0) is None


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda rows: rows[0].pop("events"), "each has above"),
        (lambda rows: rows[0].update(more=1.0), "each has above"),
        (lambda rows: rows[0].update(others=None), "missing"),
        (lambda rows: rows[0].update(events=-1.0), "below 0"),
        (lambda rows: rows[0].update(below=0.5001), "without gaps"),
        (lambda rows: rows[0].update(predicted=0.9), "outside"),
    ],
)
def test_rows_that_contradict_themselves_are_refused(
    edit: Callable[[Any], None], words: str
) -> None:
    sums = make_sums()
    published = JUDGE.publish(sums, JUDGE.measure(sums), PUBLISHED, 1.0)
    assert published is not None
    facts: Any = JUDGE.write(published[0])
    edit(facts["groups"])
    with pytest.raises(ValueError, match=words):
        JUDGE.read(facts, published[1])
