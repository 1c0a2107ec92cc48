"""Tables of earlier runs: how many patients changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.tables import _count_changes, check_changes, note_table
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.samples import make_frame, make_study, make_tables, repeat, study_facts, take

STUDY = make_study()
TABLE = make_tables(STUDY, sizes=(80,))["north"]

marks = st.lists(st.integers(0, 6), max_size=30).map(lambda values: np.array(values, np.uint64))


@given(now=marks, then=marks)
def test_changes_are_counted_as_a_multiset_counts_them(now: Any, then: Any) -> None:
    came = Counter(now.tolist()) - Counter(then.tolist())
    went = Counter(then.tolist()) - Counter(now.tolist())
    assert _count_changes(now, then) == max(came.total(), went.total())


NOBODY = take(TABLE, np.zeros(0, dtype=int))


def check(table: Table, study: Study, shared: Transient, fewest: int, held: Table = NOBODY) -> None:
    check_changes(table, held, study, shared, fewest)


def note(table: Table, study: Study, shared: Transient, held: Table = NOBODY) -> None:
    note_table(table, held, study, shared)


def is_near(table: Table, study: Study, shared: Transient, fewest: int = 10, **more: Any) -> bool:
    try:
        check(table, study, shared, fewest, **more)
    except ProtocolError as error:
        assert error.code == "few-changes"
        return True
    return False


def changed(table: Table, n: int, by: float = 20.0) -> Table:
    """Make the first n patients older; the oldest young."""
    values = table.values.copy()
    values[:n, 0] = 18 + (values[:n, 0] - 18 + by) % 82
    return Table(values, table.outcome, table.weights)


def nudged(table: Table, rows: slice) -> Table:
    """Move ages by so little that no public bin sees it."""
    values = table.values.copy()
    values[rows, 0] += 1e-6
    return Table(values, table.outcome, table.weights)


def test_no_change_and_many_are_fine_and_few_are_not() -> None:
    shared = Transient()
    check(TABLE, STUDY, shared, 10)
    note(TABLE, STUDY, shared)
    check(TABLE, STUDY, shared, 10)
    shuffled = take(TABLE, np.random.default_rng(0).permutation(80))
    check(shuffled, STUDY, shared, 10)  # another order of the file is no change
    for n in (1, 9):
        with pytest.raises(ProtocolError, match="fewer than 10 patients"):
            check(changed(TABLE, n), STUDY, shared, 10)
        check(changed(TABLE, n), STUDY, shared, n)
        check(changed(TABLE, n), STUDY, shared, 0)
    check(changed(TABLE, 10), STUDY, shared, 10)
    # Every earlier table counts, not only the last.
    note(changed(TABLE, 40), STUDY, shared)
    assert is_near(changed(TABLE, 1), STUDY, shared)
    assert is_near(changed(TABLE, 39), STUDY, shared)


def test_changes_that_no_cutoff_sees_hide_no_other_change() -> None:
    """Ten ages corrected by a millionth, and one patient more: the sums differ by that patient."""
    shared = Transient()
    note(TABLE, STUDY, shared)
    assert is_near(take(nudged(TABLE, slice(0, 40)), np.arange(79)), STUDY, shared)
    assert not is_near(nudged(TABLE, slice(0, 40)), STUDY, shared)
    # By itself a small change of few is one: linear terms see it, and with them all rules.
    assert is_near(nudged(TABLE, slice(0, 1)), STUDY, shared)


def test_patients_without_weight_hide_nobody() -> None:
    shared = Transient()
    idle = Table(TABLE.values, TABLE.outcome, np.where(np.arange(80) < 20, 0.0, 1.0))
    note(idle, STUDY, shared)
    assert not is_near(take(idle, np.arange(20, 80)), STUDY, shared)
    assert is_near(take(idle, np.arange(21, 80)), STUDY, shared)


MANY = repeat(STUDY, 4)
ROWS = np.repeat(np.arange(80), np.arange(80) % 4 + 1)
OWN = Table(TABLE.values[ROWS], np.arange(200) % 2.0, np.ones(200), ROWS)


def test_several_rows_of_one_patient_are_one_change() -> None:
    """Nine patients changed in all their rows are too few, whatever the number of rows."""
    shared = Transient()
    note(OWN, MANY, shared)
    order = np.random.default_rng(0).permutation(200)
    assert not is_near(take(OWN, order), MANY, shared)
    whose = np.random.default_rng(1).permutation(80)[ROWS]  # numbers for patients mean nothing
    assert not is_near(Table(OWN.values, OWN.outcome, OWN.weights, whose), MANY, shared)
    for n in (1, 9, 10, 30):
        values = OWN.values.copy()
        values[n > ROWS, 0] = 18 + (values[n > ROWS, 0] + 2) % 82
        changed = Table(values, OWN.outcome, OWN.weights, ROWS)
        assert is_near(changed, MANY, shared) == (n < 10), n
        assert is_near(take(OWN, n <= ROWS), MANY, shared) == (n < 10), n
    # One row more, or less, of a patient is a change of that patient.
    assert is_near(take(OWN, np.arange(199)), MANY, shared)
    many = Table(OWN.values, OWN.outcome, np.where(np.arange(200) < 1, 0.0, 1.0), ROWS)
    assert is_near(many, MANY, shared), "without a weight a row is not there"


@pytest.mark.parametrize("says_first", [True, False])
def test_a_study_that_says_whose_rows_are_is_held_against_one_that_does_not(
    says_first: bool,
) -> None:
    """Up to four rows are of one patient: 36 rows may be of nine, 37 are of ten at least."""
    pairs = [(MANY, OWN), (STUDY, Table(OWN.values, OWN.outcome, OWN.weights))]
    (first, earlier), (second, table) = pairs if says_first else reversed(pairs)
    shared = Transient()
    note(earlier, first, shared)
    assert not is_near(table, second, shared)
    assert OWN.outcome is not None
    ill = np.flatnonzero(OWN.outcome == 1)
    for n_rows, near in ((1, True), (36, True), (37, False)):
        fewer = np.delete(np.arange(200), ill[:n_rows])
        assert is_near(take(table, fewer), second, shared) == near, n_rows


def test_what_was_learnt_and_what_was_held_out_are_compared_apart() -> None:
    shared, rows = Transient(), np.arange(80)
    note(take(TABLE, rows[:60]), STUDY, shared, take(TABLE, rows[60:]))
    assert not is_near(take(TABLE, rows[:60]), STUDY, shared, held=take(TABLE, rows[60:]))
    assert is_near(take(TABLE, rows[:61]), STUDY, shared, held=take(TABLE, rows[61:]))
    assert not is_near(take(TABLE, rows[:40]), STUDY, shared, held=take(TABLE, rows[40:]))
    # Together they are all patients, however many changed sides.
    assert is_near(take(TABLE, rows[1:41]), STUDY, shared, held=take(TABLE, rows[41:]))


def load(change: Any, rows: Any = slice(None), **settings: Any) -> tuple[Table, Study]:
    study = Study.from_mapping(change(study_facts(**settings)))
    return load_table(make_frame(80)[rows], study), study


def reordered(facts: Any) -> Any:
    return {**facts, "covariates": dict(reversed(facts["covariates"].items()))}


def recoded(facts: Any) -> Any:
    outcome = {"column": "died", "positive": "no", "negative": "yes"}
    sex = {"kind": "category", "levels": ["m", "f"], "complete": True}
    ward = {"kind": "category", "levels": ["other", "general", "er", "icu"]}
    return {
        **facts,
        "outcome": outcome,
        "covariates": {**facts["covariates"], "sex": sex, "ward": ward},
    }


def without_sex(facts: Any) -> Any:
    covariates = {name: c for name, c in facts["covariates"].items() if name != "sex"}
    return {**facts, "covariates": covariates}


def finer(facts: Any) -> Any:
    return {**facts, "settings": {**facts["settings"], "n_bins": 101}}


@pytest.mark.parametrize("change", [reordered, recoded, without_sex, finer])
def test_a_study_written_otherwise_is_over_the_same_patients(change: Any) -> None:
    """Once any of these, and one patient more, passed as another table."""
    shared = Transient()
    note(*load(lambda facts: facts), shared)
    assert not is_near(*load(change), shared)
    for fewer in (1, 9):
        assert is_near(*load(change, slice(fewer, None)), shared)
    assert not is_near(*load(change, slice(10, None)), shared)


def test_of_other_columns_the_numbers_by_outcome_tell_how_many_changed() -> None:
    shared = Transient()
    note(*load(lambda facts: facts), shared)
    table, study = load(without_sex)
    assert table.outcome is not None
    for n, near in ((1, True), (9, True), (10, False)):
        outcome = table.outcome.copy()
        outcome[np.flatnonzero(outcome == 1)[:n]] = 0
        assert is_near(Table(table.values, outcome, table.weights), study, shared) == near
    # Of another outcome only the number of all patients tells.
    facts = without_sex(study_facts())
    facts["outcome"] = {"column": "sex", "positive": "f", "negative": "m"}
    other = Study.from_mapping(facts)
    for n, near in ((0, False), (1, True), (10, False)):
        assert is_near(load_table(make_frame(80)[n:], other), other, shared) == near


def test_a_change_of_one_outcome_or_weight_is_one() -> None:
    shared = Transient()
    note(TABLE, STUDY, shared)
    assert TABLE.outcome is not None
    outcome, weights = TABLE.outcome.copy(), TABLE.weights.copy()
    outcome[3] = 1 - outcome[3]
    weights[5] = 0.5
    for other in (
        Table(TABLE.values, outcome, TABLE.weights),
        Table(TABLE.values, TABLE.outcome, weights),
    ):
        assert is_near(other, STUDY, shared, 2)


def test_another_setting_is_the_same_data() -> None:
    shared = Transient()
    note(TABLE, STUDY, shared)
    assert is_near(take(TABLE, np.arange(79)), STUDY.with_settings(seed=5), shared)


def test_what_is_kept_tells_no_value() -> None:
    """Keyed hashes: whoever finds the file cannot try values out without the key beside it."""
    one, other = Transient(), Transient()
    note(TABLE, STUDY, one)
    note(TABLE, STUDY, other)
    (place,) = (key for key in one._entries if key.startswith("tables/"))
    assert one._entries[place] != other._entries[place]


# --- outcomes that are no yes/no ----------------------------------------------------------


def other_study(outcome: dict[str, Any]) -> Study:
    return Study.from_mapping({**study_facts(solver="exact"), "outcome": outcome})


def other_table(outcome: Any) -> Table:
    y = np.asarray(outcome, dtype=np.float64)
    return Table(TABLE.values, y, TABLE.weights, None, (np.arange(80) < 40).astype(float))


def nobody(table: Table) -> Table:
    return take(table, np.zeros(0, dtype=int))


def keep(table: Table, study: Study, shared: Transient) -> None:
    note(table, study, shared, held=nobody(table))


def seems_near(table: Table, study: Study, shared: Transient) -> bool:
    return is_near(table, study, shared, held=nobody(table))


DRAWN = np.random.default_rng(5)
ENDS = DRAWN.uniform(1, 40, 80)
OTHERS: dict[str, tuple[dict[str, Any], Any]] = {
    "number": ({"kind": "number", "column": "y", "range": [0, 50]}, ENDS),
    "count": (
        {"kind": "count", "column": "n", "most": 9, "exposure": "e", "max_exposure": 50},
        np.column_stack([np.arange(80) % 9, ENDS]),
    ),
    "time": (
        {"kind": "time", "time": "t", "event": "e", "horizons": [50]},
        np.column_stack([np.zeros(80), ENDS, np.arange(80) % 2]),
    ),
    "classes": (
        {"kind": "classes", "column": "y", "levels": ["a", "b", "c"]},
        np.arange(80) % 3,
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_patients_whose_outcome_changed_are_counted(kind: str) -> None:
    facts, outcome = OTHERS[kind]
    study, shared = other_study(facts), Transient()
    keep(other_table(outcome), study, shared)
    assert not seems_near(other_table(outcome), study, shared)
    for n, near in ((1, True), (9, True), (10, False)):
        changed = np.array(outcome, dtype=np.float64)
        part = changed[:n] if changed.ndim == 1 else changed[:n, -1]
        part[:] = (part + 1) % 3 if kind == "classes" else 1 - part if kind == "time" else part + 5
        assert seems_near(other_table(changed), study, shared) == near
    # One patient fewer shows in the count of rows of any other study, too.
    fewer = take(other_table(outcome), np.arange(79))
    assert seems_near(fewer, study, shared)
    assert seems_near(take(TABLE, np.arange(79)), STUDY, shared)


@pytest.mark.parametrize("kind", ["number", "count", "time"])
def test_small_changes_of_numbers_hide_no_other_change(kind: str) -> None:
    facts, outcome = OTHERS[kind]
    study, shared = other_study(facts), Transient()
    keep(other_table(outcome), study, shared)
    nudged = np.array(outcome, dtype=np.float64)
    column = {"number": ..., "count": (..., 1), "time": (..., 1)}[kind]
    nudged[column] += 1e-9
    assert not seems_near(other_table(nudged), study, shared)
    assert seems_near(take(other_table(nudged), np.arange(79)), study, shared)


def test_another_horizon_changes_only_those_whom_it_moves() -> None:
    """Of two horizons with nobody between them, all marks are the same."""
    facts, outcome = OTHERS["time"]
    long = np.array(outcome)
    long[:30, 1] = 50.0  # cut at the horizon
    shared = Transient()
    keep(other_table(long), other_study(facts), shared)
    further = long.copy()
    further[:30, 1] = 60.0
    study = other_study({**facts, "horizons": [60]})
    assert not seems_near(other_table(further), study, shared)
    assert seems_near(take(other_table(further), np.arange(79)), study, shared)
    moved = further.copy()
    moved[:3, 1] = 55.0
    assert seems_near(other_table(moved), study, shared)
