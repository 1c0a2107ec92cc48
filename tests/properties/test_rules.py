"""The algebra of rules, by brute force over all rows of codes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import (
    Condition,
    Rule,
    as_interval,
    check_rules,
    complement,
    conjoin,
    interval,
    level_rules,
    merge_rules,
    mirror,
    twins,
)
from tests.oracles import fires

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200)


@st.composite
def axes(draw: Any) -> Axis:
    n_codes = draw(st.integers(1, 4))
    complete = draw(st.booleans())
    if draw(st.booleans()):
        return Axis("number", np.arange(n_codes - 1.0), n_codes, complete)
    return Axis("category", np.empty(0), n_codes, complete)


grids = st.lists(axes(), min_size=1, max_size=3).map(lambda a: Grid(tuple(a)))
grids_with_rules = grids.filter(lambda grid: any(proper_sets(axis) for axis in grid.axes))


def draw_condition(draw: Any, grid: Grid) -> Condition:
    """Any condition that may be met on the way, also with codes that cannot occur."""
    feature = draw(st.integers(0, len(grid.axes) - 1))
    n_codes = grid.axes[feature].n_codes
    missing = draw(st.booleans())
    if grid.axes[feature].ordered:
        lo = draw(st.integers(0, n_codes))
        codes = interval(lo, draw(st.integers(lo, n_codes + 1)), missing=missing)
    else:
        codes = draw(st.integers(0, (1 << n_codes) - 1)) | missing << MISSING
    return Condition(feature, codes)


def proper_sets(axis: Axis) -> list[int]:
    """All code sets that a canonical condition may have: neither empty nor full."""
    possible = [c for c in range(256) if axis.every_code >> c & 1]
    chosen = product([0, 1], repeat=len(possible))
    sets = [sum(on << c for c, on in zip(possible, bits, strict=True)) for bits in chosen]
    return [
        codes
        for codes in sets[1:-1]
        if not axis.ordered or "01" not in f"{codes % 2**16:b}".rstrip("0")
    ]


def draw_rule(draw: Any, grid: Grid) -> Rule:
    """A rule in canonical form by construction, not by :func:`conjoin`."""
    usable = [j for j, axis in enumerate(grid.axes) if proper_sets(axis)]
    features = draw(st.sets(st.sampled_from(usable), min_size=1))
    return Rule(
        tuple(
            Condition(j, draw(st.sampled_from(proper_sets(grid.axes[j])))) for j in sorted(features)
        )
    )


@st.composite
def grid_and_rules(draw: Any, n_rules: int) -> tuple[Grid, list[Rule]]:
    grid = draw(grids_with_rules)
    return grid, [draw_rule(draw, grid) for _ in range(n_rules)]


@st.composite
def grid_and_conditions(draw: Any) -> tuple[Grid, list[Condition]]:
    grid = draw(grids)
    return grid, [draw_condition(draw, grid) for _ in range(draw(st.integers(0, 5)))]


@st.composite
def grid_and_sites(draw: Any) -> tuple[Grid, list[list[Rule]]]:
    """Rules of one to four sites, out of a common pool so that some are shared."""
    grid = draw(grids_with_rules)
    pool = [draw_rule(draw, grid) for _ in range(draw(st.integers(1, 6)))]
    negated = [n for rule in pool if (n := complement(rule, grid)) is not None]
    pool += [n for n in negated if is_sendable(n, grid)]
    sites = draw(st.lists(st.lists(st.sampled_from(pool), max_size=8), min_size=1, max_size=4))
    return grid, sites


def is_sendable(rule: Rule, grid: Grid) -> bool:
    return all(not grid.axes[c.feature].ordered or as_interval(c.codes) is not None for c in rule)


def all_rows(grid: Grid) -> Any:
    """Every row of codes that can occur."""
    each = [[*range(axis.n_codes), *([] if axis.complete else [MISSING])] for axis in grid.axes]
    return np.array(list(product(*each)), dtype=np.uint8)


def naive_fires(conditions: Any, rows: Any) -> list[bool]:
    return [all(codes >> int(row[feature]) & 1 for feature, codes in conditions) for row in rows]


@REPEATABLE
@given(grid_and_conditions())
def test_the_canonical_form_fires_on_the_same_rows_as_its_conditions(case: Any) -> None:
    grid, conditions = case
    rows = all_rows(grid)
    expected = naive_fires(conditions, rows)
    rule = conjoin(conditions, grid)
    if rule is None:
        assert not any(expected)
    else:
        assert fires(rule, rows).tolist() == expected
        assert any(expected)


@REPEATABLE
@given(grid_and_rules(1))
def test_canonical_form_is_a_fixed_point_whatever_the_order(case: Any) -> None:
    grid, (rule,) = case
    assert conjoin(rule, grid) == rule
    assert conjoin([*reversed(rule.conditions), *rule], grid) == rule


@settings(REPEATABLE, max_examples=500)
@given(grid_and_rules(2))
def test_rules_are_equal_exactly_when_they_fire_on_the_same_rows(case: Any) -> None:
    grid, (one, two) = case
    rows = all_rows(grid)
    same = fires(one, rows).tolist() == fires(two, rows).tolist()
    assert (one == two) == same


@REPEATABLE
@given(grids)
def test_every_product_set_of_a_grid_has_one_canonical_rule(grid: Grid) -> None:
    """All rules there are, not just those drawn: as many as there are sets of rows."""
    assume(np.prod([2.0 ** axis.every_code.bit_count() for axis in grid.axes]) <= 600)
    rows = all_rows(grid)
    found: dict[bytes, Rule] = {}
    subsets = []
    for feature, axis in enumerate(grid.axes):
        codes = [c for c in range(256) if axis.every_code >> c & 1]
        subsets.append(
            [
                Condition(feature, sum(1 << c for c, on in zip(codes, chosen, strict=True) if on))
                for chosen in product([False, True], repeat=len(codes))
            ]
        )
    for conditions in product(*subsets):
        rule = conjoin(conditions, grid)
        if rule is not None:
            assert found.setdefault(fires(rule, rows).tobytes(), rule) == rule
    assert len(set(found.values())) == len(found)


@REPEATABLE
@given(grid_and_rules(2))
def test_conjunction_fires_where_both_rules_do(case: Any) -> None:
    grid, (one, two) = case
    rows = all_rows(grid)
    both = fires(one, rows) & fires(two, rows)
    rule = conjoin([*one, *two], grid)
    assert rule == conjoin([*two, *one], grid)
    assert (
        fires(rule, rows) if rule is not None else np.zeros(len(rows))
    ).tolist() == both.tolist()


@REPEATABLE
@given(grid_and_rules(1))
def test_the_complement_fires_on_exactly_the_other_rows(case: Any) -> None:
    grid, (rule,) = case
    rows = all_rows(grid)
    negated = complement(rule, grid)
    assert (negated is None) == (len(rule) > 1)
    if negated is not None:
        assert (fires(negated, rows) ^ fires(rule, rows)).all()
        assert complement(negated, grid) == rule


@REPEATABLE
@given(grid_and_sites(), st.randoms(use_true_random=False), st.booleans())
def test_merged_rules_depend_on_the_union_alone(case: Any, random: Any, drop: bool) -> None:
    """No trace of who sent a rule, how often, or where it stood."""
    grid, sites = case
    merged = merge_rules(sites, grid, drop_complements=drop)
    assert len(set(merged)) == len(merged)
    pooled = [rule for rules in sites for rule in rules]
    random.shuffle(pooled)
    cut = random.randint(0, len(pooled))
    assert merge_rules([pooled[:cut], pooled[cut:]], grid, drop_complements=drop) == merged
    assert merge_rules([pooled * 2], grid, drop_complements=drop) == merged
    assert merge_rules([merged], grid, drop_complements=drop) == merged
    assert [len(rule) for rule in merged] == sorted(len(rule) for rule in merged)
    if not drop:
        assert set(merged) == set(pooled)


@REPEATABLE
@given(grid_and_sites())
def test_dropping_complements_loses_no_information(case: Any) -> None:
    grid, sites = case
    everything = set(merge_rules(sites, grid, drop_complements=False))
    kept = set(merge_rules(sites, grid, drop_complements=True))
    assert kept <= everything
    for rule in everything - kept:
        assert _says_the_same(rule, kept, grid)
    for rule in kept:
        assert complement(rule, grid) not in kept
        assert mirror(rule, grid) not in kept
        assert twins(rule, grid).isdisjoint(kept)


@REPEATABLE
@given(grid_and_rules(1))
def test_twins_part_the_known_rows_alike(case: Any) -> None:
    """By brute force: all other rules that are the same, or the opposite, among the known."""
    grid, (rule,) = case
    if len(rule) > 1:
        assert twins(rule, grid) == set()
        return
    (feature, codes), axis = rule.conditions[0], grid.axes[rule.features[0]]
    present = (1 << axis.n_codes) - 1
    every = [
        conjoin([Condition(feature, side | missing)], grid)
        for side in range(present + 1)
        for missing in ((0,) if axis.complete else (0, 1 << MISSING))
    ]
    same = {one for one in every if one is not None and len(one) and one != rule}
    if codes & present in (0, present):
        alike = {one for one in same if one.conditions[0].codes & present in (0, present)}
    else:
        halves = (codes & present, present & ~codes)
        alike = {one for one in same if one.conditions[0].codes & present in halves}
    assert twins(rule, grid) == alike


def _says_the_same(rule: Rule, kept: set[Rule], grid: Grid) -> bool:
    """Whether a kept rule splits the known values of the covariate alike."""
    (feature, codes), present = rule.conditions[0], (1 << grid.axes[rule.features[0]].n_codes) - 1
    sides = {codes & present, present & ~codes}
    return any(
        other.features == (feature,) and other.conditions[0].codes & present in sides
        for other in kept
    )


def test_of_a_rule_and_its_complement_the_plainer_one_stays() -> None:
    grid = Grid((Axis("number", np.array([1.0, 2.0]), 3, complete=False),))
    low = Rule((Condition(0, interval(0, 2)),))
    high = Rule((Condition(0, interval(2, 3, missing=True)),))
    assert merge_rules([[high, low]], grid, drop_complements=True) == (low,)
    complete = Grid((Axis("category", np.empty(0), 4, complete=True),))
    this, others = Rule((Condition(0, 0b0100),)), Rule((Condition(0, 0b1011),))
    assert merge_rules([[others], [this]], complete, drop_complements=True) == (this,)


def test_a_rule_without_conditions_is_not_merged() -> None:
    grid = Grid((Axis("category", np.empty(0), 2, complete=True),))
    assert merge_rules([[Rule(())]], grid, drop_complements=False) == ()


@REPEATABLE
@given(grids)
def test_level_rules_name_each_level_of_each_category_alone(grid: Grid) -> None:
    rows = all_rows(grid)
    expected = {
        (rows[:, j] == level).tobytes()
        for j, axis in enumerate(grid.axes)
        if not axis.ordered
        for level in range(axis.n_codes)
        if not (axis.complete and axis.n_codes == 1)
    }
    rules = list(level_rules(grid))
    check_rules(rules, grid)
    assert {fires(rule, rows).tobytes() for rule in rules} == expected


@REPEATABLE
@given(grid_and_rules(3))
def test_canonical_rules_pass_the_check(case: Any) -> None:
    grid, rules = case
    check_rules(rules, grid)


@REPEATABLE
@given(grid_and_rules(1), st.data())
def test_anything_but_canonical_rules_fails_the_check(case: Any, data: Any) -> None:
    grid, (rule,) = case
    feature = rule.conditions[0].feature
    absent = [c for c in range(256) if not grid.axes[feature].every_code >> c & 1]
    code = data.draw(st.sampled_from(absent))
    unknown = Rule((Condition(feature, rule.conditions[0].codes | 1 << code), *rule.conditions[1:]))
    full = next((j for j in range(len(grid.axes)) if j not in rule.features), None)
    wrong = [
        Rule(()),
        Rule((*rule, *rule)),
        Rule((*rule.conditions[:-1], Condition(rule.conditions[-1].feature, 0))),
        Rule((Condition(len(grid.axes), 1),)),
        Rule((Condition(-1, 1),)),
        unknown,
    ]
    if len(rule) > 1:
        wrong.append(Rule(rule.conditions[::-1]))
    if full is not None:
        every = Condition(full, grid.axes[full].every_code)
        wrong.append(Rule(tuple(sorted((*rule, every)))))
    for bad in wrong:
        with pytest.raises(ValueError, match="rule"):
            check_rules([rule, bad], grid)


def test_a_gap_is_refused_in_a_number_and_allowed_in_a_category() -> None:
    gap = Rule((Condition(0, 0b101),))
    check_rules([gap], Grid((Axis("category", np.empty(0), 4, complete=True),)))
    with pytest.raises(ValueError, match="interval"):
        check_rules([gap], Grid((Axis("number", np.arange(3.0), 4, complete=True),)))


@REPEATABLE
@given(st.integers(0, 255), st.integers(0, 255), st.booleans())
def test_intervals_survive_the_way_through_bits(a: int, b: int, missing: bool) -> None:
    lo, hi = sorted((a, b))
    codes = interval(lo, hi, missing=missing)
    assert as_interval(codes) == ((lo, hi) if lo < hi else (0, 0))
    assert [c for c in range(255) if codes >> c & 1] == list(range(lo, hi))
    assert Condition(0, codes).missing == missing
    assert Condition(0, codes).table().tolist() == [bool(codes >> c & 1) for c in range(256)]


@REPEATABLE
@given(st.integers(1, 2**12 - 1))
def test_only_sets_without_a_gap_are_intervals(codes: int) -> None:
    chosen = [c for c in range(12) if codes >> c & 1]
    has_gap = chosen != list(range(chosen[0], chosen[-1] + 1))
    assert (as_interval(codes) is None) == has_gap
