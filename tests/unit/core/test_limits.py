"""What wishes leave of candidate terms, by the definitions, rule by rule."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.oracles import YES_NO, fires

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.boosting import extract_rules, group_apart, grow_trees
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.limits import Limits
from fedrulefit.core.rules import Condition, conjoin, interval, merge_rules

AXES = (
    Axis("number", np.array([1.0, 2.0, 3.0]), 4, False, (0.0, 4.0), 1.0, 2.0, 2.0),
    Axis("number", np.array([1.0, 2.0]), 3, True, (0.0, 3.0), 1.0, 1.0, 1.0),
    Axis("yes/no", np.array([0.5]), 2, True, (0.0, 1.0), 0.5, 0.5, 0.5),
    Axis("category", np.empty(0), 3, False),
)
GRID = Grid(AXES)
FREE = (0, 0, 0, 0)


def rule(*conditions: tuple[int, int]) -> Any:
    made = conjoin([Condition(j, codes) for j, codes in conditions], GRID)
    assert made is not None
    return made


HIGH, LOW, MIDDLE = interval(2, 4), interval(0, 2), interval(1, 3)
YES = interval(1, 2)


def every_rule() -> list[Any]:
    """Return all rules on numbers, with and without missing values."""
    codes = []
    for axis in AXES[:3]:
        n = axis.n_codes
        known = [interval(a, b) for a in range(n) for b in range(a + 1, n + 1)]
        codes.append([*known, *([] if axis.complete else [k | 1 << MISSING for k in known])])
    found = {
        conjoin([Condition(j, c) for j, c in enumerate(each)], GRID) for each in product(*codes)
    }
    return [one for one in found if one is not None and len(one)]


EVERY = every_rule()
ROWS = np.array(list(product(range(4), range(3), range(2), range(3))), dtype=np.uint8)


def test_forbidden_are_rules_of_the_same_known_values() -> None:
    for forbidden in (rule((0, HIGH)), rule((0, HIGH), (1, 1)), rule((2, YES)), rule((0, MIDDLE))):
        limits = Limits(GRID, FREE, forbidden=(forbidden,))
        own = fires(forbidden, ROWS)
        refused = 0
        for one in EVERY:
            hits = fires(one, ROWS)
            told = np.array_equal(hits, own)
            told |= len(forbidden) == 1 and np.array_equal(hits, ~own)
            assert limits.permits(one) != told
            refused += told
        assert refused >= 1 + (forbidden.features[0] == 0)


def test_what_is_not_used_alone_or_together() -> None:
    limits = Limits(GRID, FREE, unused=frozenset([0]))
    assert {one for one in EVERY if limits.permits(one)} == {
        one for one in EVERY if 0 not in one.features
    }
    limits = Limits(GRID, FREE, apart=(frozenset([0, 1]), frozenset([0, 2])))
    assert set(limits.sift(EVERY)) == {
        one for one in EVERY if 0 not in one.features or len(one) == 1
    }
    for most in (1, 2):
        limits = Limits(GRID, FREE, longest=most)
        assert set(limits.sift(EVERY)) == {one for one in EVERY if len(one) <= most}


def test_signs_of_rules_and_linear_terms() -> None:
    rules = [rule((0, HIGH)), rule((1, 1)), rule((2, YES)), rule((0, LOW | 1 << MISSING))]
    layout = Layout(1, 4, 3)
    limits = Limits(GRID, (1, -1, 0, 0), unused=frozenset(), forbidden=(rule((2, YES)),))
    assert limits.signed
    signs = limits.find_signs(rules, layout)
    assert signs.up.tolist() == [True, True, True, False, False, True, False, False]
    assert signs.down.tolist() == [True, False, False, False, True, False, True, False]
    limits = Limits(GRID, FREE, unused=frozenset([1]))
    signs = limits.find_signs(rules, layout)
    assert signs.bound.tolist() == [False, False, True, False, False, False, True, False]
    assert not Limits(GRID, FREE, kept=frozenset([1]), longest=2).signed


def test_kept_terms() -> None:
    levels = [rule((3, 1 << k)) for k in range(3)]
    rules = [rule((0, LOW)), *levels, rule((0, HIGH), (1, 1))]
    own = rule((0, HIGH))
    limits = Limits(
        GRID, FREE, own=(own,), fixed=frozenset([own, rules[-1]]), kept=frozenset([1, 3])
    )
    kept = limits.find_kept(rules, Layout(1, 5, 3))
    # The complement x < 2 tells the same as the kept x ≥ 2; a category's first level is free.
    assert kept.tolist() == [False, True, False, True, True, True, False, True, False]
    assert Limits(GRID, FREE, kept=frozenset([1])).find_kept(rules, Layout(1, 5, 0)).sum() == 0


def test_own_rules_stay_as_they_are_written() -> None:
    own, twin = rule((1, interval(1, 3))), rule((1, interval(0, 1)))
    assert merge_rules([[own, twin]], GRID, drop_complements=True) == (twin,)
    assert merge_rules([[own, twin]], GRID, drop_complements=True, preferred=[own]) == (own,)
    both = merge_rules([[own, twin]], GRID, drop_complements=True, preferred=[own, twin])
    assert set(both) == {own, twin}


def test_groups_that_may_meet() -> None:
    pair, three = frozenset([0, 1]), frozenset([1, 2, 3])
    assert group_apart(range(4), []) == [frozenset(range(4))]
    found = group_apart(range(4), [pair, three])
    assert not any(pair <= group or three <= group for group in found)
    for size in product([False, True], repeat=4):
        chosen = frozenset(np.flatnonzero(size).tolist())
        fits = not (pair <= chosen or three <= chosen)
        assert any(chosen <= group for group in found) == fits
    many = [frozenset([k, k + 1]) for k in range(0, 40, 2)]
    assert len(group_apart(range(40), many)) <= 64


@pytest.mark.parametrize("seed", range(4))
def test_trees_keep_to_the_wishes_and_grow_elsewhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, axis.n_codes, 400) for axis in AXES]).astype(np.uint8)
    codes[rng.random(400) < 0.1, 0] = MISSING
    hit = (codes[:, 0] >= 2) & (codes[:, 0] < 9) & (codes[:, 1] == 0)
    y = (rng.random(400) < 0.1 + 0.8 * hit).astype(float)
    options: dict[str, Any] = {
        "n_trees": 40, "mean_leaves": 5, "learning_rate": 0.1, "subsample": 1.0, "min_leaf": 5,
    }  # fmt: skip

    def grow(limits: Limits | None) -> set[Any]:
        trees = grow_trees(
            YES_NO, codes, y, np.ones(400), GRID, rng=np.random.default_rng(1), limits=limits,
            **options,
        )  # fmt: skip
        return extract_rules(trees, GRID)

    plain = grow(None)
    assert plain == grow(Limits(GRID, FREE, longest=1))
    assert any({0, 1} <= set(one.features) for one in plain)
    apart = grow(Limits(GRID, FREE, apart=(frozenset([0, 1]),)))
    assert apart
    assert not any({0, 1} <= set(one.features) for one in apart)
    unused = grow(Limits(GRID, FREE, unused=frozenset([0])))
    assert unused
    assert not any(0 in one.features for one in unused)


def test_trees_do_not_split_against_a_direction() -> None:
    codes = np.column_stack([np.arange(400) % axis.n_codes for axis in AXES]).astype(np.uint8)
    y = (codes[:, 0] >= 2).astype(float)

    def grow(direction: int) -> set[int]:
        trees = grow_trees(
            YES_NO, codes, y, np.ones(400), GRID, n_trees=20, mean_leaves=2, learning_rate=0.1,
            subsample=1.0, min_leaf=5, rng=np.random.default_rng(1),
            limits=Limits(GRID, (direction, 0, 0, 0)),
        )  # fmt: skip
        return {j for one in extract_rules(trees, GRID) for j in one.features}

    assert 0 in grow(1)
    assert 0 in grow(0)
    assert 0 not in grow(-1)
