"""Counts of distinct patients against a loop over them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core import design as design_module
from fedrulefit.core.design import Design, intercept
from fedrulefit.core.people import People, count_cells, count_rows_each


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
