"""The gate on rules against brute force over all pairs of rules and all patients."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import fires

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.people import Sensitive
from fedrulefit.core.rules import Condition, Rule, complement, conjoin
from fedrulefit.privacy.gate import Gated, gate_rules, have_enough, implies

MISSING = 255


def make_axis(kind: Any, n_codes: int, complete: bool) -> Axis:
    cutoffs = np.arange(1.0, n_codes) if kind != "category" else np.empty(0)
    return Axis(kind, cutoffs, n_codes, complete)


def all_rows(grid: Grid) -> Any:
    """Every row of codes there can be."""
    columns = [[*range(axis.n_codes), *([] if axis.complete else [MISSING])] for axis in grid.axes]
    return np.array(list(product(*columns)), dtype=np.uint8)


def people_inside(rows: Any, outcome: Any, patients: Any) -> tuple[int, int]:
    """Patients with some of these rows, and those of them of whom one of these has the outcome."""
    return len(set(patients[rows])), len(set(patients[rows & (outcome == 1)]))


def oracle_of_people(
    rules: Any, codes: Any, outcome: Any, grid: Grid, k: int, patients: Any
) -> Gated:
    """The definition for patients with several rows: each group of rows has k distinct ones."""

    def few(rule: Rule) -> bool:
        rows = fires(rule, codes)
        inside, cases = people_inside(rows, outcome, patients)
        outside, _ = people_inside(~rows, outcome, patients)
        return min(inside, outside, cases, inside - cases) < k

    def near(one: Rule, other: Rule) -> bool:
        every = all_rows(grid)
        for a, b in product(sides(one, grid), sides(other, grid)):
            for x, y in ((a, b), (b, a)):
                if (fires(x, every) <= fires(y, every)).all():
                    between = fires(y, codes) & ~fires(x, codes)
                    if 0 < len(set(patients[between])) < k:
                        return True
        return False

    distinct = sorted(set(rules), key=lambda rule: (len(rule), rule))
    enough = [rule for rule in distinct if not (k > 0 and few(rule))]
    kept: list[Rule] = []
    for rule in enough:
        if not any(near(rule, other) for other in kept):
            kept.append(rule)
    return Gated(tuple(kept), len(distinct) - len(enough), len(enough) - len(kept))


def count(rule: Rule, codes: Any, outcome: Any) -> tuple[int, int]:
    inside = fires(rule, codes)
    return int(inside.sum()), int(outcome[inside].sum())


def few(rule: Rule, codes: Any, outcome: Any, k: int) -> bool:
    inside, cases = count(rule, codes, outcome)
    return min(inside, len(codes) - inside, cases, inside - cases) < k


def near(one: Rule, other: Rule, codes: Any, grid: Grid, k: int) -> bool:
    """Whether a nested difference of the two, or a complement, holds 1 … k − 1 patients.

    Nested is judged on all rows that there can be: a fact without patients.
    """
    rows = all_rows(grid)
    for a, b in product(sides(one, grid), sides(other, grid)):
        there = fires(a, rows), fires(b, rows)
        for small, large, x, y in ((*there, a, b), (*there[::-1], b, a)):
            if (small <= large).all():
                between = int((fires(y, codes) & ~fires(x, codes)).sum())
                if 0 < between < k:
                    return True
    return False


def sides(rule: Rule, grid: Grid) -> list[Rule]:
    other = complement(rule, grid)
    return [rule] if other is None else [rule, other]


def oracle(rules: Any, codes: Any, outcome: Any, grid: Grid, k: int) -> Gated:
    """The definition: shortest first, each unless too few or too near to one that stays."""
    distinct = sorted(set(rules), key=lambda rule: (len(rule), rule))
    enough = [rule for rule in distinct if not (k > 0 and few(rule, codes, outcome, k))]
    kept: list[Rule] = []
    for rule in enough:
        if not any(near(rule, other, codes, grid, k) for other in kept):
            kept.append(rule)
    return Gated(tuple(kept), len(distinct) - len(enough), len(enough) - len(kept))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Grid, Any, Any, list[Rule], int]:
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["number", "category", "yes/no"]))
        n_codes = 2 if kind == "yes/no" else draw(st.integers(2, 4))
        axes.append(make_axis(kind, n_codes, draw(st.booleans())))
    grid = Grid(tuple(axes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows = draw(st.integers(1, 60))
    rows = all_rows(grid)
    codes = rows[rng.integers(len(rows), size=n_rows)]
    outcome = (rng.random(n_rows) < 0.5).astype(float)
    rules: list[Rule] = []
    for _ in range(draw(st.integers(0, 14))):
        conditions = []
        for feature in rng.permutation(len(axes))[: rng.integers(1, len(axes) + 1)].tolist():
            axis = axes[feature]
            if axis.kind == "category":
                bits = int(rng.integers(1, 1 << axis.n_codes))
            else:
                lo, hi = sorted(rng.choice(axis.n_codes + 1, 2, replace=False).tolist())
                bits = (1 << hi) - (1 << lo)
            if not axis.complete and rng.random() < 0.5:
                bits |= 1 << MISSING
            conditions.append(Condition(feature, bits))
        rule = conjoin(conditions, grid)
        if rule is not None and len(rule):
            rules.append(rule)
    return grid, codes, outcome, rules, draw(st.integers(0, 6))


@settings(max_examples=400, deadline=None)
@given(problems())
def test_the_gate_is_the_brute_force_one(problem: Any) -> None:
    grid, codes, outcome, rules, k = problem
    found = gate_rules(rules, codes, outcome, grid, min_count=k, max_rules_sent=10**9)
    assert found == oracle(rules, codes, outcome, grid, k)


@settings(max_examples=400, deadline=None)
@given(problems(), st.integers(1, 30), st.integers(0, 2**32))
def test_the_gate_counts_distinct_patients(problem: Any, n_people: int, seed: int) -> None:
    grid, codes, outcome, rules, k = problem
    patients = np.random.default_rng(seed).integers(0, n_people, len(codes))
    facts: dict[str, Any] = {"min_count": k, "patients": patients}
    found = gate_rules(rules, codes, outcome, grid, max_rules_sent=10**9, **facts)
    expected = oracle_of_people(rules, codes, outcome, grid, k, patients)
    assert found == expected
    alone = sorted(set(rules), key=lambda rule: (len(rule), rule))
    votes = have_enough(alone, codes, outcome, np.ones(len(codes)), **facts)
    if k > 0:
        assert len(alone) - votes.sum() == expected.too_few


@settings(max_examples=200, deadline=None)
@given(problems(), st.integers(1, 4), st.integers(0, 2**32))
def test_repeated_rows_are_refused_like_the_patients_they_are_of(
    problem: Any, times: int, seed: int
) -> None:
    """The same rows once more add nobody; taken for patients of their own, they hide the few."""
    grid, codes, outcome, rules, k = problem
    facts: dict[str, Any] = {"min_count": k, "max_rules_sent": 10**9}
    once = gate_rules(rules, codes, outcome, grid, **facts)
    rows = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(codes)), times))
    again = gate_rules(rules, codes[rows], outcome[rows], grid, patients=rows, **facts)
    assert again == once
    blind = gate_rules(rules, codes[rows], outcome[rows], grid, **facts)
    assert blind.too_few <= once.too_few


@settings(max_examples=200, deadline=None)
@given(problems())
def test_what_leaves_holds_enough_on_every_side(problem: Any) -> None:
    """The promise of the policy, stated without the order of the search."""
    grid, codes, outcome, rules, k = problem
    sent = gate_rules(rules, codes, outcome, grid, min_count=k, max_rules_sent=10**9).rules
    for rule in sent:
        inside, cases = count(rule, codes, outcome)
        assert inside >= k
        assert len(codes) - inside >= k
        assert cases >= k
        assert inside - cases >= k
    for one, other in combinations(sent, 2):
        assert not near(one, other, codes, grid, k)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_implies_is_inclusion_on_all_rows(problem: Any) -> None:
    grid, _, _, rules, _ = problem
    rows = all_rows(grid)
    for one, other in product(rules, rules):
        assert implies(one, other) == (fires(one, rows) <= fires(other, rows)).all()


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(1, 5), st.integers(0, 2**32))
def test_the_most_rules_are_chosen_without_looking_at_patients(
    problem: Any, most: int, seed: int
) -> None:
    """Of the rules that pass, which are sent depends on the rules alone."""
    grid, codes, outcome, rules, k = problem
    passed = gate_rules(rules, codes, outcome, grid, min_count=k, max_rules_sent=10**9)
    sent = gate_rules(rules, codes, outcome, grid, min_count=k, max_rules_sent=most)
    assert len(sent.rules) == min(most, len(passed.rules))
    assert set(sent.rules) <= set(passed.rules)
    assert sent.too_many == len(passed.rules) - len(sent.rules)
    assert (sent.too_few, sent.too_near) == (passed.too_few, passed.too_near)
    # Other patients (and none at all), the same rules that pass: the same choice.
    rng = np.random.default_rng(seed)
    for others in (codes[rng.integers(len(codes), size=37)], codes[:0]):
        again = gate_rules(
            passed.rules, others, np.zeros(len(others)), grid, min_count=0, max_rules_sent=most
        )
        assert again.rules == sent.rules
    assert sent.rules == tuple(sorted(sent.rules, key=lambda rule: (len(rule), rule)))
    # Shorter rules first.
    left = set(passed.rules) - set(sent.rules)
    if left:
        assert max(map(len, sent.rules)) <= min(map(len, left))


@settings(max_examples=60, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_and_number_of_times_a_rule_comes_say_nothing(problem: Any, rng: Any) -> None:
    grid, codes, outcome, rules, k = problem
    expected = gate_rules(rules, codes, outcome, grid, min_count=k, max_rules_sent=3)
    shuffled = [*rules, *rules[: len(rules) // 2]]
    rng.shuffle(shuffled)
    assert gate_rules(shuffled, codes, outcome, grid, min_count=k, max_rules_sent=3) == expected
    # Nor does the order of the patients.
    order = np.random.default_rng(0).permutation(len(codes))
    again = gate_rules(rules, codes[order], outcome[order], grid, min_count=k, max_rules_sent=3)
    assert again == expected


# --- small cases, by hand ------------------------------------------------------------------

AXES = Grid((make_axis("number", 4, True), make_axis("number", 4, True)))


def below(feature: int, code: int) -> Condition:
    return Condition(feature, (1 << code) - 1)


def from_(feature: int, code: int) -> Condition:
    return Condition(feature, 0b1111 & ~((1 << code) - 1))


def rule(*conditions: Condition) -> Rule:
    made = conjoin(conditions, AXES)
    assert made is not None
    return made


def table(*cells: tuple[int, int, int]) -> tuple[Any, Any]:
    """Patients as (code of x, code of y, how many of each outcome)."""
    rows = [(x, y, died) for x, y, n in cells for died in (0, 1) for _ in range(n)]
    array = np.array(rows)
    return array[:, :2].astype(np.uint8), array[:, 2].astype(float)


def gate(rules: list[Rule], data: tuple[Any, Any], k: int = 5) -> Gated:
    return gate_rules(rules, *data, AXES, min_count=k, max_rules_sent=100)


def test_a_long_rule_next_to_the_complement_of_a_short_one_is_kept_back() -> None:
    """N − n(x < 2) − n(x ≥ 2, y < 3) are the two patients between them."""
    data = table((0, 0, 20), (2, 0, 20), (2, 3, 1))
    short, long = rule(below(0, 2)), rule(from_(0, 2), below(1, 3))
    assert gate([short, long], data) == Gated((short,), too_near=1)
    # Neither is too near on its own.
    assert gate([short], data).rules == (short,)
    assert gate([long], data).rules == (long,)


def test_a_nested_pair_is_told_apart_by_what_lies_between() -> None:
    short, long = rule(below(0, 2)), rule(below(0, 2), below(1, 3))
    for between, expected in ((0, 0), (1, 1), (2, 1), (3, 0)):
        data = table((0, 0, 20), (0, 3, between), (2, 0, 20))
        assert gate([short, long], data).too_near == expected, between
    # Not nested: nothing lies between them.
    other = rule(from_(0, 1), below(1, 3))
    data = table((0, 0, 6), (1, 0, 20), (1, 3, 5), (2, 0, 20))
    assert gate([short, other], data).too_near == 0


def test_weights_do_not_stand_for_patients_and_zero_lets_all_pass() -> None:
    data = table((0, 0, 2), (2, 0, 20))
    small = rule(below(0, 2))
    assert gate([small], data) == Gated((), too_few=1)
    assert gate([small], data, k=2) == Gated((small,))
    empty = (np.empty((0, 2), np.uint8), np.empty(0))
    assert gate([small], empty, k=0) == Gated((small,))
    assert gate([small], empty, k=1) == Gated((), too_few=1)
    assert gate([], data) == Gated(())


@pytest.mark.parametrize("died", [0.0, 1.0])
def test_a_rule_of_one_outcome_only_is_kept_back(died: float) -> None:
    codes, outcome = table((0, 0, 20), (2, 0, 20))
    outcome[fires(rule(below(0, 2)), codes)] = died
    assert gate([rule(below(0, 2))], (codes, outcome)).too_few == 1


def test_patients_of_weight_zero_hide_nobody() -> None:
    """They are in no sum: five patients of whom one counts are one."""
    codes, outcome = table((0, 0, 5), (2, 0, 20))
    small = rule(below(0, 2))
    weights = np.full(len(codes), 0.5)
    facts: dict[str, Any] = {"min_count": 5, "max_rules_sent": 100, "weights": weights}
    assert gate_rules([small], codes, outcome, AXES, **facts).rules == (small,)
    assert have_enough([small], codes, outcome, weights, min_count=5).tolist() == [True]
    weights[np.flatnonzero(fires(small, codes) & (outcome == 1))[0]] = 0.0
    assert gate_rules([small], codes, outcome, AXES, **facts) == Gated((), too_few=1)
    assert have_enough([small], codes, outcome, weights, min_count=5).tolist() == [False]
    assert have_enough([small], codes, outcome, weights, min_count=4).tolist() == [True]


def test_five_rows_of_one_patient_are_one() -> None:
    codes, outcome = table((0, 0, 5), (2, 0, 20))
    small = rule(below(0, 2))
    own, weights = np.arange(len(codes)), np.ones(len(codes))
    facts: dict[str, Any] = {"min_count": 5, "max_rules_sent": 100, "weights": weights}
    for ill in (0.0, 1.0):  # five patients of either outcome, then two of them the same
        rows = np.flatnonzero(fires(small, codes) & (outcome == ill))
        whose = own.copy()
        whose[rows[:2]] = rows[0]
        for patients, passed in ((own, True), (whose, False)):
            found = gate_rules([small], codes, outcome, AXES, patients=patients, **facts)
            assert found.rules == ((small,) if passed else ())
            votes = have_enough([small], codes, outcome, weights, min_count=5, patients=patients)
            assert votes.tolist() == [passed]
    # One patient with both kinds of rows is one with the outcome: four are left without.
    whose = own.copy()
    inside = fires(small, codes)
    whose[np.flatnonzero(inside & (outcome == 0))[0]] = np.flatnonzero(inside & (outcome == 1))[0]
    assert gate_rules([small], codes, outcome, AXES, patients=whose, **facts).too_few == 1


def test_rows_between_nested_rules_are_of_enough_patients() -> None:
    """Ten rows between two rules, of two patients: who knew both counts would know theirs."""
    short, long = rule(below(0, 2)), rule(below(0, 2), below(1, 3))
    codes, outcome = table((0, 0, 20), (0, 3, 5), (2, 0, 20))
    facts: dict[str, Any] = {"min_count": 5, "max_rules_sent": 100}
    between = np.flatnonzero((codes[:, 0] == 0) & (codes[:, 1] == 3))
    for n_people, expected in ((1, 1), (2, 1), (4, 1), (5, 0), (10, 0)):
        patients = np.arange(len(codes))
        patients[between] = between[np.arange(10) % n_people]
        found = gate_rules([short, long], codes, outcome, AXES, patients=patients, **facts)
        assert found.too_near == expected, n_people


def test_votes_are_of_the_smallest_of_four_groups() -> None:
    """By hand: 30 patients, 7 inside of whom 3 died, 23 outside."""
    codes = np.repeat([[0, 0], [2, 0]], [7, 23], axis=0).astype(np.uint8)
    outcome = np.zeros(30)
    outcome[:3] = outcome[7:20] = 1
    inside, most = rule(below(0, 2)), rule(from_(0, 2))
    for k, expected in ((3, [True, True]), (4, [False, True]), (8, [False, False])):
        found = have_enough([inside, most], codes, outcome, np.ones(30), min_count=k)
        assert found.tolist() == expected, k
    assert have_enough([most], codes, outcome, np.ones(30), min_count=7).tolist() == [True]


def test_a_count_of_one_asks_for_no_distance() -> None:
    """Between nested rules lie 1 to k − 1 patients: with k = 1 there is no such number."""
    short, long = rule(below(0, 2)), rule(below(0, 2), below(1, 3))
    data = table((0, 0, 20), (0, 3, 1), (2, 0, 20))
    assert gate([short, long], data, k=1).rules == (short, long)
    assert gate([short, long], data, k=2).rules == (short, long)  # two patients: one of each
    assert gate([short, long], data, k=3).rules == (short,)


def test_a_strong_rule_of_numbers_passes_and_one_of_equal_numbers_does_not() -> None:
    """Inside, all lie above the site's median: what counts is that they differ."""
    codes = np.repeat([[0], [1]], 20, axis=0).astype(np.uint8)
    grid = Grid((Axis("number", np.array([0.5]), 2, True),))
    rule = Rule((Condition(0, 0b10),))
    rng = np.random.default_rng(0)
    for spread, passes in ((0.2, True), (0.0, False)):
        y = np.concatenate([rng.normal(0, 0.2, 20), 5 + spread * rng.normal(size=20)])
        sensitive = Sensitive(y[:, None], np.empty((40, 0), dtype=np.bool_))
        above = (y > np.median(y)).astype(float)
        gated = gate_rules(
            {rule}, codes, above, grid, min_count=5, max_rules_sent=9, sensitive=sensitive
        )
        assert (rule in gated.rules) is passes
        enough = have_enough([rule], codes, above, np.ones(40), min_count=5, sensitive=sensitive)
        assert enough.tolist() == [passes]
        assert gate_rules({rule}, codes, above, grid, min_count=5, max_rules_sent=9).rules == ()
