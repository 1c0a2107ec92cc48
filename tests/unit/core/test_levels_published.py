"""What is published of several levels: coarse, enough in each group, and read as it was written."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from fedrulefit.core.families.levels_judge import LevelsJudge
from fedrulefit.core.rounding import EXACT, PUBLISHED, Rounding

every_kind = pytest.mark.parametrize("ordered", [False, True], ids=["classes", "ordered"])


def draw(seed: int, n_rows: int, *, ordered: bool) -> tuple[LevelsJudge, Any]:
    rng = np.random.default_rng(seed)
    chance = softmax(1.3 * rng.normal(size=(n_rows, 4)) + [1, 0, 0, -0.7], axis=1)
    level = np.array([rng.choice(4, p=p) for p in chance]).astype(float)
    judge = LevelsJudge("abcd", ordered=ordered)
    return judge, judge.count(chance, level, np.ones(n_rows))


@every_kind
@pytest.mark.parametrize("rounding", [EXACT, PUBLISHED, Rounding(1, 20)], ids=str)
def test_groups_hold_enough_and_counts_are_round(ordered: bool, rounding: Rounding) -> None:
    judge, sums = draw(1, 700, ordered=ordered)
    measures = judge.measure(sums)
    told = judge.publish(sums, measures, rounding, 1.0)
    assert told is not None
    published, rounded = told
    least = max(5, rounding.smallest, rounding.multiple)
    for split, before in zip(published.splits, sums.splits, strict=True):
        counts = np.concatenate([split.cases, split.others])
        assert counts.min() >= least
        assert (counts % rounding.multiple == 0).all()
        assert split.n_cases == pytest.approx(before.n_cases, abs=3 * len(split.cases))
        assert split.unmerged is None
    if rounding == EXACT:
        assert rounded is measures
    else:
        assert rounded.auc == round(measures.auc, 3)
        assert rounded.log_loss == float(f"{measures.log_loss:.3g}")
        assert all(count % rounding.multiple == 0 for count in rounded.counts)
        assert published.areas is not None
        assert (np.round(published.areas, 3) == published.areas).all()
    again = judge.measure(published)
    assert again.auc == pytest.approx(measures.auc, abs=1e-3), "areas are of the bins unmerged"
    assert [row.auc for row in judge.levels_of(published)] == pytest.approx(
        [row.auc for row in judge.levels_of(sums)], abs=6e-4
    )


@every_kind
def test_a_level_of_too_few_publishes_nothing(ordered: bool) -> None:
    judge, sums = draw(2, 60, ordered=ordered)
    few = int(sums.held.min())
    assert few < 40
    assert judge.publish(sums, judge.measure(sums), Rounding(1, few + 1), 1.0) is None
    assert judge.publish(sums, judge.measure(sums), EXACT, few / 4.9) is None


@every_kind
@pytest.mark.parametrize("rounding", [EXACT, PUBLISHED], ids=str)
def test_what_is_written_is_read(ordered: bool, rounding: Rounding) -> None:
    judge, sums = draw(3, 500, ordered=ordered)
    told = judge.publish(sums, judge.measure(sums), rounding, 1.0)
    assert told is not None
    published, measures = told
    facts = json.loads(json.dumps(judge.write(published), allow_nan=False))
    assert facts["groups"][0].keys() == judge.file_words["groups"].keys()
    assert facts["sums"].keys() == judge.file_words["sums"].keys()
    read = judge.read(facts, measures)
    for own, other in zip(read.splits, published.splits, strict=True):
        assert own.cases.tolist() == other.cases.tolist()
        assert own.edges.tolist() == other.edges.tolist()
    for own, other in (
        (judge.levels_of(read), judge.levels_of(published)),
        (judge.groups(read, 10), judge.groups(published, 10)),
    ):
        for row, twin in zip(own, other, strict=True):
            assert list(vars(row).values()) == pytest.approx(
                list(vars(twin).values()), abs=1e-9, nan_ok=True
            )
    assert judge.write(read)["groups"] == facts["groups"]
    assert judge.measure(read).brier == pytest.approx(measures.brier, rel=1e-6)


def test_an_unknown_interval_is_not_written() -> None:
    """Where a weight counts little, five of the largest may be one patient."""
    judge, sums = draw(4, 400, ordered=False)
    told = judge.publish(sums, judge.measure(sums), EXACT, 1.0)
    assert told is not None
    assert told[0].areas is not None
    told[0].areas[0, 1:3] = math.nan
    facts = judge.write(told[0])
    assert "auc_low" not in facts["sums"]
    assert np.isnan(judge.read(facts, told[1]).areas[:, 1]).all()


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        (("groups", 0, "above"), 0.1, "gaps|cover 0 to 1"),
        (("groups", 0, "events"), -3.0, "below 0"),
        (("groups", 0, "events"), None, "each has"),
        (("groups", 0, "predicted"), 0.99, "outside of the group"),
        (("groups", 0, "split"), 7.0, "has no group|too many"),
        (("sums", "expected"), [0.5], "for each split"),
        (("sums", "more"), [0.5] * 4, "each has"),
        (("sums", "auc"), [1.5] * 4, "an area lies"),
        (("sums", "auc_low"), [0.999] * 4, "an area lies"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(place: Any, wrong: Any, message: str) -> None:
    judge, sums = draw(5, 400, ordered=False)
    told = judge.publish(sums, judge.measure(sums), PUBLISHED, 1.0)
    assert told is not None
    facts = json.loads(json.dumps(judge.write(told[0])))
    *way, last = place
    part = facts
    for step in way:
        part = part[step]
    part[last] = wrong
    with pytest.raises(ValueError, match=message):
        judge.read(facts, told[1])
