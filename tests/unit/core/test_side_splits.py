"""How many patients are at each level inside and outside rules, and when that is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.families.classes import Classes
from fedrulefit.core.families.ordered import Ordered
from fedrulefit.core.families.side_splits import SplitLevels
from fedrulefit.core.families.sides import Side
from fedrulefit.core.rounding import EXACT, PUBLISHED

NAMES = ("none", "mild", "severe", "dead")
BOTH = pytest.mark.parametrize("family", [Ordered(NAMES), Classes(NAMES)], ids=lambda f: f.kind)


def find(family: Any, outcome: Any, weights: Any = None) -> Side:
    weights = np.ones(len(outcome)) if weights is None else weights
    levels = family.levels
    assert isinstance(levels, SplitLevels)
    sums = (weights[:, None] * family.tallies(outcome)).sum(axis=0)
    return levels.find(float(weights.sum()), sums)


def draw(counts: Any) -> Any:
    return np.repeat(np.arange(4.0), counts)


@BOTH
def test_patients_are_counted_at_each_level(family: Any) -> None:
    rng = np.random.default_rng(1)
    outcome, weights = rng.integers(0, 4, 300).astype(float), rng.uniform(0.2, 2, 300)
    side = find(family, outcome, weights)
    wanted = [weights[outcome == k].sum() for k in range(4)]
    np.testing.assert_allclose(side.at_levels, wanted, rtol=1e-12)
    shares = family.levels.split(side)
    np.testing.assert_allclose(shares, np.divide(wanted, weights.sum()), rtol=1e-12)
    assert 1 - shares[0] == pytest.approx(side.level)


@BOTH
@pytest.mark.parametrize("rounding", [EXACT, PUBLISHED])
def test_of_a_rare_level_nothing_is_told_not_even_by_the_others(family: Any, rounding: Any) -> None:
    """Were only its own number hidden, that of all patients less the others' would tell it."""
    levels = family.levels
    many, rare = find(family, draw([40, 40, 40, 40])), find(family, draw([40, 40, 40, 3]))
    for sides in ((many, rare), (rare, many)):
        told = levels.publish(sides, rounding, 1.0)
        assert told is not None, "the share beyond the first level is of enough patients"
        assert [side.at_levels for side in told] == [(), ()]
        assert levels.split(told[0]) == ()
    told = levels.publish((many, many), rounding, 1.0)
    assert told is not None
    assert all(len(side.at_levels) == 4 for side in told)


@BOTH
def test_published_numbers_are_rounded_as_all_counts_are(family: Any) -> None:
    first, second = find(family, draw([43, 38, 27, 51])), find(family, draw([21, 22, 23, 24]))
    told = family.levels.publish((first, second), PUBLISHED, 1.0)
    assert told is not None
    for side in told:
        assert all(x % PUBLISHED.multiple == 0 for x in side.at_levels)
        assert sum(family.levels.split(side)) == pytest.approx(1)
    exact = family.levels.publish((first, second), EXACT, 1.0)
    assert exact is not None
    assert exact[0].at_levels == (43, 38, 27, 51)


@BOTH
def test_nobody_is_at_no_level(family: Any) -> None:
    nobody = family.levels.find(0.0, np.zeros(3))
    assert nobody.at_levels == ()
    assert family.levels.publish((nobody, find(family, draw([9, 9, 9, 9]))), EXACT, 1.0) is None
