"""Counts of distinct patients against a loop over them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import YES_NO

from fedrulefit.core import design as design_module
from fedrulefit.core.design import Design, intercept
from fedrulefit.core.people import (
    People,
    Sensitive,
    count_apart,
    count_cells,
    count_present,
    count_rows_each,
    find_one_sided,
    outweighs,
)


def naive_cells(satisfied: Any, outcome: Any, counted: Any, patients: Any) -> list[list[int]]:
    """Count by the definition: one patient, and one group of rows, after the other."""
    found: list[list[int]] = []
    for side in (True, False):
        rows = [counted & (column == side) for column in satisfied.T]
        groups = [[there & (patients == p) for p in np.unique(patients)] for there in rows]
        ill = [[bool((outcome[g] == 1).any()) for g in group if g.any()] for group in groups]
        found += [[sum(each) for each in ill], [len(each) - sum(each) for each in ill]]
    return found


def make_design(satisfied: Any) -> Design:
    bits = np.packbits(satisfied, axis=0, bitorder="little")
    return Design(intercept(len(satisfied)), bits, np.empty((len(satisfied), 0)))


@st.composite
def rows_of_patients(draw: st.DrawFn) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_rules = draw(st.integers(0, 40)), draw(st.integers(0, 7))
    patients = rng.integers(0, draw(st.integers(1, 20)), n_rows) * 3 + 1
    satisfied = rng.random((n_rows, n_rules)) < rng.random(n_rules)
    outcome = (rng.random(n_rows) < 0.4).astype(float)
    return satisfied, outcome, rng.random(n_rows) < 0.8, patients


@settings(max_examples=200, deadline=None)
@given(rows_of_patients(), st.integers(1, 5))
def test_cells_are_those_of_a_loop_over_patients(rows: Any, block: int) -> None:
    satisfied, outcome, counted, patients = rows
    before = design_module.BLOCK_CELLS
    design_module.BLOCK_CELLS = block  # a few rules at a time
    try:
        cells = count_cells(make_design(satisfied), outcome, counted, patients)
    finally:
        design_module.BLOCK_CELLS = before
    expected = naive_cells(satisfied, outcome, counted, patients)
    parts = cells.with_inside, cells.without_inside, cells.with_outside, cells.without_outside
    assert [part.tolist() for part in parts] == expected
    outside = np.add(expected[2], expected[3])
    assert cells.smallest.tolist() == np.min(expected, axis=0).tolist()
    assert cells.smallest_inside.tolist() == np.min([*expected[:2], outside], axis=0).tolist()


@settings(max_examples=100, deadline=None)
@given(rows_of_patients())
def test_without_patients_every_row_is_one(rows: Any) -> None:
    satisfied, outcome, counted, _ = rows
    fast = count_cells(make_design(satisfied), outcome, counted)
    slow = count_cells(make_design(satisfied), outcome, counted, np.arange(len(outcome)))
    for name, part in vars(fast).items():
        np.testing.assert_array_equal(part, getattr(slow, name))


@settings(max_examples=100, deadline=None)
@given(rows_of_patients(), st.integers(1, 4))
def test_repeated_rows_of_a_patient_add_nobody(rows: Any, times: int) -> None:
    satisfied, outcome, counted, patients = rows
    once = count_cells(make_design(satisfied), outcome, counted, patients)
    more = [np.repeat(part, times, axis=0) for part in (satisfied, outcome, counted, patients)]
    again = count_cells(make_design(more[0]), *more[1:])
    for name, part in vars(once).items():
        np.testing.assert_array_equal(part, getattr(again, name))


@given(rows_of_patients())
def test_people_have_the_outcome_if_any_row_that_counts_has_it(rows: Any) -> None:
    _, outcome, counted, patients = rows
    weights = np.where(counted, 0.5, 0.0)
    people = People.of(outcome, weights, patients)
    names = np.unique(patients)
    assert names[people.place].tolist() == patients.tolist()
    for place, name in enumerate(names):
        own = patients == name
        assert people.weights[place] == weights[own].sum()
        assert people.outcome[place] == outcome[own & counted].max(initial=0.0)
    with_outcome = [p for p in names if (outcome[(patients == p) & counted] == 1).any()]
    without = [p for p in names if p not in with_outcome and counted[patients == p].any()]
    assert people.fewest() == min(len(with_outcome), len(without))


def test_most_rows_of_one_patient() -> None:
    assert count_rows_each(None) == 1
    assert count_rows_each(np.empty(0, np.int64)) == 1
    assert count_rows_each(np.array([4, 9, 4, 4, 9])) == 3


# --- outcomes that are more than with or without ------------------------------------------------


def naive_outweighs(numbers: Any, weights: Any, whose: Any) -> bool:
    middle = np.median(numbers) if len(numbers) else 0.0
    each: dict[int, float] = {}
    for number, weight, who in zip(numbers, weights, whose, strict=True):
        each[who] = each.get(who, 0.0) + weight * abs(number - middle)
    gaps = sorted(each.values())
    return bool(gaps) and gaps[-1] > sum(gaps[:-1]) * (1 + 1e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.booleans())
def test_rules_of_which_one_patient_outweighs_the_rest_are_those_of_the_loop(
    seed: int, n_rows: int, several: bool
) -> None:
    rng = np.random.default_rng(seed)
    hits = rng.random((n_rows, 7)) < rng.uniform(0.05, 0.95, 7)
    design = make_design(hits)
    numbers = rng.standard_t(1.2, (n_rows, 2))
    present = rng.random((n_rows, 3)) < 0.6
    weights = rng.uniform(0.5, 2.0, n_rows)
    whose = rng.integers(0, n_rows, n_rows) if several else np.arange(n_rows)
    own = Sensitive(numbers, present)
    patients = whose if several else None
    found = find_one_sided(design, own, weights, patients)
    fewest = count_present(design, own, np.ones(n_rows, dtype=np.bool_), patients)
    for k, inside in enumerate(hits.T):
        sides = [side for side in (inside, ~inside) if side.any()]
        expected = [
            naive_outweighs(column[side], weights[side], whose[side])
            for side in sides
            for column in numbers.T
        ]
        assert found[k] == any(expected)
        assert fewest[k] == min(
            len(set(whose[side & part])) for side in (inside, ~inside) for part in present.T
        )
    assert own.fewest(patients) == min(len(set(whose[part])) for part in present.T)
    assert own.is_one_sided(weights, patients) == any(
        naive_outweighs(column, weights, whose) for column in numbers.T
    )


def test_exactly_a_half_does_not_outweigh_and_units_do_not_matter() -> None:
    for unit in (1.0, 1e-9, 365.25, 1 / 3):
        visits = unit * np.array([0.0, 0, 0, 0, 0, 1, 2, 3])
        assert not outweighs(visits, np.ones(8))
        assert outweighs(visits + unit * np.eye(8)[7] * 0.001, np.ones(8))
    assert not outweighs(np.zeros(5), np.ones(5)), "all the same: nobody lies apart"
    assert not outweighs(np.empty(0), np.empty(0))
    # Two rows of one patient count as one.
    assert outweighs(np.array([0.0, 0, 0, 0, 0, 3, 2, 1]), np.ones(8), np.array([*range(6), 5, 5]))


def test_outcomes_without_parts_or_numbers_ask_for_nothing() -> None:
    own = Sensitive.of(YES_NO, np.array([0.0, 1.0]))
    assert own.fewest(None) == np.inf
    assert not own.is_one_sided(np.ones(2), None)


@settings(max_examples=100, deadline=None)
@given(rows_of_patients(), st.integers(1, 4))
def test_patients_apart_from_the_median_are_those_of_the_loop(rows: Any, n_values: int) -> None:
    satisfied, _, _, patients = rows
    numbers = np.random.default_rng(n_values).integers(0, n_values, len(patients)).astype(float)
    sensitive = Sensitive(numbers[:, None], np.empty((len(patients), 0), dtype=np.bool_))
    design = make_design(satisfied)
    for whose in (patients, None):
        told = []
        for column in satisfied.T:
            inside = [k for k in range(len(patients)) if column[k]]
            middle = np.median(numbers[inside]) if inside else 0.0
            apart = [k for k in inside if numbers[k] != middle]
            told.append(len({k if whose is None else whose[k] for k in apart}))
        assert count_apart(design, sensitive, whose).tolist() == told
