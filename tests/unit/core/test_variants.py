"""Variants of rules, and what lies between them, by brute force over all rows of codes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import (
    Condition,
    Rule,
    as_interval,
    check_rules,
    conjoin,
    interval,
    twins,
)
from fedrulefit.core.variants import (
    add_variants,
    elect_variants,
    find_between,
    find_ladders,
    find_places,
    index_rules,
    list_asked,
)

GRID = Grid(
    (
        Axis("number", np.arange(7.0), 8, complete=True),
        Axis("number", np.arange(4.0), 5, complete=False),
        Axis("category", np.empty(0), 3, complete=True),
        Axis("yes/no", np.array([0.5]), 2, complete=True),
    )
)
ROWS = np.array(list(product(range(8), [*range(5), MISSING], range(3), range(2))), dtype=np.uint8)


def hits(rule: Rule) -> Any:
    """Return which of all rows of codes satisfy a rule."""
    return np.logical_and.reduce([c.table()[ROWS[:, c.feature]] for c in rule])


def rule_of(*conditions: tuple[int, int]) -> Rule:
    rule = conjoin([Condition(*condition) for condition in conditions], GRID)
    assert rule is not None
    return rule


@st.composite
def rules(draw: Any) -> Rule:
    """Draw a rule of one to four conditions."""
    conditions = []
    for feature in draw(st.sets(st.integers(0, 3), min_size=1)):
        axis = GRID.axes[feature]
        if axis.kind == "category":
            codes = draw(st.integers(1, 2**axis.n_codes - 2))
        else:
            lo = draw(st.integers(0, axis.n_codes - 1))
            hi = draw(st.integers(lo + 1, axis.n_codes))
            codes = interval(lo, hi, missing=not axis.complete and draw(st.booleans()))
        conditions.append(Condition(feature, codes))
    rule = conjoin(conditions, GRID)
    return rule if rule is not None and len(rule) else rule_of((3, 1))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(rules())
def test_a_variant_is_a_rule_that_differs_in_one_condition(rule: Rule) -> None:
    for ladder in find_ladders(rule, GRID):
        check_rules(ladder, GRID)
        for variant in ladder:
            assert variant != rule
            own, other = dict(rule), dict(variant)
            assert sum(own.get(f) != other.get(f) for f in own.keys() | other.keys()) == 1


@settings(max_examples=200, derandomize=True, deadline=None)
@given(rules())
def test_a_ladder_leads_away_step_by_step(rule: Rule) -> None:
    """Each rung implies the next, or is implied by it; so all between two is between all."""
    for ladder in find_ladders(rule, GRID):
        sizes = [int(hits(one).sum()) for one in (rule, *ladder)]
        steps = np.sign(np.diff(sizes))
        assert abs(steps.sum()) == len(steps) > 0
        for one, other in zip((rule, *ladder), ladder, strict=False):
            assert (hits(one) <= hits(other)).all() or (hits(one) >= hits(other)).all()


@settings(max_examples=200, derandomize=True, deadline=None)
@given(rules())
def test_what_lies_between_is_the_difference(rule: Rule) -> None:
    for ladder in find_ladders(rule, GRID):
        for k, one in enumerate((rule, *ladder)):
            for other in ladder[k:]:
                if one != other:
                    parts = find_between(one, other, GRID)
                    check_rules(parts, GRID)
                    total = np.sum([hits(part) for part in parts], axis=0)
                    np.testing.assert_array_equal(total, hits(one) ^ hits(other))


def test_limits_move_by_one_and_two_and_go() -> None:
    """All variants of 2 ≤ code < 5, of 8 codes, by hand."""
    rule = rule_of((0, interval(2, 5)))
    found = [[as_interval(dict(v)[0]) for v in ladder] for ladder in find_ladders(rule, GRID)]
    assert found == [
        [(1, 5)],
        [(3, 5), (4, 5)],
        [(2, 4), (2, 3)],
        [(2, 6), (2, 7)],
        [(0, 5)],
        [(2, 8)],
    ]


def test_conditions_are_left_out_but_never_the_last() -> None:
    category, yes = (2, 0b011), (3, 0b10)
    assert list(find_ladders(rule_of(category), GRID)) == []
    assert set(find_ladders(rule_of(category, yes), GRID)) == {
        (rule_of(yes),),
        (rule_of(category),),
    }


def test_a_missing_value_stays_where_it_was() -> None:
    rule = rule_of((1, interval(0, 2, missing=True)))
    for ladder in find_ladders(rule, GRID):
        assert all(dict(variant)[1] >> MISSING & 1 for variant in ladder)
    (missing,) = rule_of((1, 1 << MISSING))
    assert list(find_ladders(Rule((missing,)), GRID)) == []


# --- elections ------------------------------------------------------------------------------------


def test_a_variant_without_votes_stays_out_and_so_does_one_too_near_to_the_last() -> None:
    rule = rule_of((0, interval(0, 4)))
    nearer, farther = rule_of((0, interval(0, 5))), rule_of((0, interval(0, 6)))
    first, second = rule_of((0, interval(4, 5))), rule_of((0, interval(5, 6)))
    both = rule_of((0, interval(4, 6)))
    shorter = set(list_asked([rule], GRID)) - {nearer, farther, first, second, both}

    def elect(*without: Rule) -> set[Rule]:
        passing = (set(list_asked([rule], GRID)) - shorter) - set(without)
        return set(elect_variants([rule], GRID, passing.__contains__))

    assert elect() == {nearer, farther}
    assert elect(nearer) == {farther}, "what lies between it and the rule is the two slices"
    assert elect(first) == {farther}, "the nearer is a thin slice away"
    assert elect(second) == {nearer}, "the farther is a thin slice from the nearer, which stays"
    assert elect(first, both) == set()


def test_a_variant_of_two_rules_must_be_far_enough_from_both() -> None:
    one, other = rule_of((0, interval(0, 3))), rule_of((0, interval(0, 5)))
    variant, near = rule_of((0, interval(0, 4))), rule_of((0, interval(4, 5)))
    passing = set(list_asked([one, other], GRID))
    assert variant in elect_variants([one, other], GRID, passing.__contains__)
    assert variant in elect_variants([one], GRID, (passing - {near}).__contains__)
    assert variant not in elect_variants([one, other], GRID, (passing - {near}).__contains__)


def test_all_that_an_election_looks_up_was_asked() -> None:
    rule, asked = rule_of((0, interval(2, 5)), (1, interval(1, 3)), (3, 0b10)), set[Rule]()

    def look(one: Rule) -> bool:
        asked.add(one)
        return len(asked) % 3 != 0

    elect_variants([rule], GRID, look)
    assert asked <= set(list_asked([rule], GRID))


def test_what_tells_the_same_is_not_added() -> None:
    """Of a cut-off and its negation one is enough."""
    below = rule_of((0, interval(0, 4)))
    (twin,) = twins(below, GRID)
    other = rule_of((0, interval(0, 5)))
    assert add_variants([twin], [below, other, other], GRID) == (twin, other)


def test_variants_are_found_by_what_tells_the_same() -> None:
    rule = rule_of((0, interval(0, 4)))
    (twin,) = twins(rule_of((0, interval(0, 5))), GRID)
    fitted = [rule, twin, rule_of((2, 0b001))]
    places = index_rules(fitted, GRID)
    assert find_places(rule, places, GRID) == [1]
    assert find_places(fitted[2], places, GRID) == []


@pytest.mark.parametrize("n_rules", [0, 1, 3])
def test_asked_are_distinct_and_in_canonical_order(n_rules: int) -> None:
    some = [rule_of((0, interval(2, 5))), rule_of((0, interval(1, 5))), rule_of((2, 1), (3, 1))]
    asked = list_asked(some[:n_rules], GRID)
    assert list(asked) == sorted(set(asked), key=lambda one: (len(one), one))
    check_rules(asked, GRID)
