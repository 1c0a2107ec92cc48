"""The rules that need no data, listed by hand on a small grid.

``tests/properties/test_rules.py`` compares with brute force over the same grid; a cut-off
that all of it leaves out would be missed there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core import rules as rules_module
from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import (
    Condition,
    Rule,
    as_interval,
    check_rules,
    complement,
    cutoff_rules,
    interval,
    level_rules,
    merge_rules,
    mirror,
    plausible_rules,
    tells_missing,
)

NONE = 1 << MISSING
AGE = Axis("number", np.array([40.0, 57.0, 80.0]), 4, complete=False)
GCS = Axis("number", np.array([9.0, 15.0]), 3, complete=True)
WARD = Axis("category", np.empty(0), 3, complete=False)
SEX = Axis("yes/no", np.array([0.5]), 2, complete=True)
PAIR = Axis("category", np.empty(0), 2, complete=True)
GRID = Grid((AGE, GCS, WARD, SEX, PAIR))


def rule(*conditions: tuple[int, int]) -> Rule:
    return Rule(tuple(Condition(*condition) for condition in conditions))


def test_every_cutoff_has_its_rule_the_lowest_and_the_highest_too() -> None:
    assert list(cutoff_rules(GRID)) == [
        rule((0, 0b0001)),  # age < 40
        rule((0, 0b0011)),  # age < 57
        rule((0, 0b1000)),  # age ≥ 80: where age may be missing, the smaller side
        rule((0, NONE)),  # age is missing
        rule((1, 0b001)),  # GCS < 9
        rule((1, 0b011)),  # GCS < 15
        rule((2, NONE)),  # ward is missing
        rule((3, 0b01)),  # no
    ]


def test_every_level_has_its_rule() -> None:
    assert list(level_rules(GRID)) == [
        rule((2, 0b001)),
        rule((2, 0b010)),
        rule((2, 0b100)),
        rule((4, 0b01)),
        rule((4, 0b10)),
    ]


def test_a_covariate_with_one_code_has_no_rule() -> None:
    """``age < nothing``, or the only level of a category: all patients satisfy it."""
    only = Grid((Axis("number", np.empty(0), 1, True), Axis("category", np.empty(0), 1, True)))
    assert list(cutoff_rules(only)) == list(level_rules(only)) == []


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (interval(0, 1), 0b1),
        (interval(1, 3), 0b110),
        (interval(2, 2), 0),
        (interval(0, 2, missing=True), 0b11 | NONE),
        (interval(0, 255), NONE - 1),
    ],
)
def test_intervals_as_bits(bits: int, words: int) -> None:
    assert bits == words


def test_bits_as_intervals() -> None:
    assert as_interval(0b110) == (1, 3)
    assert as_interval(0b1 | NONE) == (0, 1)
    assert as_interval(NONE) == as_interval(0) == (0, 0)
    assert as_interval(0b101) is None


def test_negations_by_hand() -> None:
    young = rule((0, 0b0001))
    assert complement(young, GRID) == rule((0, 0b1110 | NONE))
    assert mirror(young, GRID) == rule((0, 0b1110))
    assert complement(rule((1, 0b001)), GRID) == mirror(rule((1, 0b001)), GRID) == rule((1, 0b110))
    assert complement(rule((0, 1), (1, 1)), GRID) is mirror(rule((0, 1), (1, 1)), GRID) is None
    assert mirror(rule((0, 0b0001 | NONE)), GRID) is None


def test_of_negations_the_one_stays_that_names_fewer_codes_and_not_the_missing() -> None:
    young, old, rest = rule((0, 0b0001)), rule((0, 0b1110)), rule((0, 0b1110 | NONE))
    assert merge_rules([[young], [old, rest]], GRID, drop_complements=True) == (young,)
    assert merge_rules([[rest, young, old]], GRID, drop_complements=False) == (young, old, rest)
    # As many codes: the lower ones.
    below, above = rule((0, 0b0011)), rule((0, 0b1100))
    assert merge_rules([[above], [below]], GRID, drop_complements=True) == (below,)
    both = rule((0, 1), (1, 1))
    assert merge_rules([[both, young]], GRID, drop_complements=True) == (young, both)


def test_where_values_may_be_missing_a_cutoff_names_the_side_of_fewer_patients() -> None:
    """``chol < 507``, of 99 % of the known, said with an odds ratio that chol was measured."""
    by_code = [np.array(n, float) for n in ([1, 2, 9, 3, 50], [1, 2, 97], [1, 1, 1, 1], [9, 1])]
    found = list(cutoff_rules(GRID, [*by_code, np.array([1.0, 9.0])]))
    # age < 40 (1 of 15), < 57 (3 of 15), ≥ 80 (3 of 15); all others as ever.
    assert found[:4] == [rule((0, c)) for c in (0b0001, 0b0011, 0b1000, NONE)]
    assert found[4:] == list(cutoff_rules(GRID))[4:]
    fbs = Grid((Axis("yes/no", np.array([0.5]), 2, complete=False),))
    no, yes = rule((0, 0b01)), rule((0, 0b10))
    for counts, rarer in (([95.0, 5, 40], yes), ([5.0, 95, 40], no)):
        assert next(cutoff_rules(fbs, [np.array(counts)])) == rarer
        merged = merge_rules([[no], [yes]], fbs, drop_complements=True, by_code=[np.array(counts)])
        assert merged == (rarer,)


def test_rules_that_hold_too_few_known_patients_either_way_are_left_out() -> None:
    """By hand: age has 3, 4, 2 and 1 patients in its ranges and 5 missing; ward 9, 0, 4 and 2."""
    grid = Grid((AGE, WARD))
    by_code = [np.array([3.0, 4, 2, 1, 5]), np.array([9.0, 0, 4, 2])]
    rules = [*cutoff_rules(grid), rule((1, 0b001)), rule((1, 0b010)), rule((1, 0b100))]

    def kept(fewest: float) -> list[Rule]:
        return sorted(plausible_rules(rules, by_code, grid, fewest=fewest))

    # Inside and outside: age < 40: 3 and 7; < 57: 7 and 3; ≥ 80: 1 and 9; missing: 5 and 10.
    # Ward: 9 and 4; 0 and 13; 4 and 9; missing: 2 and 13.
    ages, wards = [0b0001, 0b0011, 0b1000, NONE], [0b001, 0b010, 0b100, NONE]
    held = {(0, c): n for c, n in zip(ages, (3, 3, 1, 5), strict=True)}
    held |= {(1, c): n for c, n in zip(wards, (4, 0, 4, 2), strict=True)}
    for fewest in range(9):
        assert kept(fewest) == sorted(rule(at) for at, n in held.items() if n >= fewest)


def test_a_complete_covariate_has_no_cell_for_missing() -> None:
    grid, by_code = Grid((SEX, PAIR)), [np.array([7.0, 2]), np.array([1.0, 8])]
    rules = [*cutoff_rules(grid), *level_rules(grid)]
    assert plausible_rules(rules, by_code, grid, fewest=2) == {rule((0, 0b01))}
    assert plausible_rules(rules, by_code, grid, fewest=1) == set(rules)


def test_which_rules_tell_of_missing_values_alone() -> None:
    assert tells_missing(rule((0, NONE)), GRID)
    assert tells_missing(rule((0, 0b1111)), GRID)
    for other in ((0, 0b0011), (0, 0b0011 | NONE), (1, 0b011)):
        assert not tells_missing(rule(other), GRID)
    assert not tells_missing(rule((0, NONE), (1, 0b011)), GRID)


# --- the check of rules that others sent --------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (rule((5, 1)), "names covariate 5, of 5"),
        (rule((-1, 1)), "names covariate -1"),
        (rule((0, 0b10000)), "a code that its covariate does not have"),
        (rule((1, 0b1 | NONE)), "a code that its covariate does not have"),
        (rule((0, 0b101)), "must be an interval"),
        (rule((0, 0)), "not in canonical form"),
        (rule((0, 0b1111 | NONE)), "not in canonical form"),
        (rule(), "not in canonical form"),
        (rule((1, 1), (0, 1)), "not in canonical form"),
        (rule((0, 1), (0, 3)), "not in canonical form"),
    ],
)
def test_rules_that_are_refused(bad: Rule, why: str) -> None:
    check_rules([rule((4, 0b01)), rule((0, 0b1000), (2, 0b101 | NONE))], GRID)
    with pytest.raises(ValueError, match=why):
        check_rules([rule((4, 0b01)), bad], GRID)


def test_a_rule_may_not_be_repeated_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_module, "MAX_ALIKE", 3)
    one = rule((0, 1))
    check_rules([one] * 3, GRID)
    with pytest.raises(ValueError, match="repeated, or made to collide"):
        check_rules([one] * 4, GRID)
    check_rules([], GRID)
    monkeypatch.undo()
    assert rules_module.MAX_ALIKE == 256


def test_conditions_made_to_collide_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of integers repeat after 2⁶¹ − 1: sets of such conditions would take very long."""
    prime = 2**61 - 1
    big = Grid((Axis("category", np.empty(0), 255, complete=True),))
    alike = [1 + k * prime for k in range(1, 6)]
    assert len({hash(Condition(0, codes)) for codes in alike}) == 1
    rules: list[Any] = [rule((0, codes)) for codes in alike]
    check_rules(rules, big)
    monkeypatch.setattr(rules_module, "MAX_ALIKE", 4)
    check_rules(rules[:4], big)
    with pytest.raises(ValueError, match="made to collide"):
        check_rules(rules, big)
    # The same conditions inside of rules whose own hashes differ.
    many = Grid((*big.axes, AGE, WARD))
    others = [(1, 1 << k) for k in range(3)] + [(2, 1 << k) for k in range(3)]
    longer = [rule((0, codes), other) for codes, other in zip(alike, others, strict=False)]
    assert len({hash(each) for each in longer}) == 5
    check_rules(longer[:4], many)
    with pytest.raises(ValueError, match="made to collide"):
        check_rules(longer, many)
    # A condition that several rules share is one condition.
    check_rules([rule((0, 1), other) for other in others], many)
