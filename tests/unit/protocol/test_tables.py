"""Tables of earlier runs: how many patients changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.memory import Transient
from fedrulefit.protocol.tables import _count_changes, check_changes, note_table
from fedrulefit.study import Study
from fedrulefit.table import Table
from tests.samples import make_study, make_tables, take

STUDY = make_study()
TABLE = make_tables(STUDY, sizes=(80,))["north"]

marks = st.lists(st.integers(0, 6), max_size=30).map(lambda values: np.array(values, np.uint64))


@given(now=marks, then=marks)
def test_changes_are_counted_as_a_multiset_counts_them(now: Any, then: Any) -> None:
    came = Counter(now.tolist()) - Counter(then.tolist())
    went = Counter(then.tolist()) - Counter(now.tolist())
    assert _count_changes(now, then) == max(came.total(), went.total())


def changed(table: Table, n: int) -> Table:
    values = table.values.copy()
    values[:n, 0] += 0.5
    return Table(values, table.outcome, table.weights)


def test_no_change_and_many_are_fine_and_few_are_not() -> None:
    shared = Transient()
    check_changes(TABLE, STUDY, shared, 10)
    note_table(TABLE, STUDY, shared)
    check_changes(TABLE, STUDY, shared, 10)
    shuffled = take(TABLE, np.random.default_rng(0).permutation(80))
    check_changes(shuffled, STUDY, shared, 10)  # another order of the file is no change
    for n in (1, 9):
        with pytest.raises(ProtocolError, match="fewer than 10 patients") as caught:
            check_changes(changed(TABLE, n), STUDY, shared, 10)
        assert caught.value.code == "few-changes"
        check_changes(changed(TABLE, n), STUDY, shared, n)
        check_changes(changed(TABLE, n), STUDY, shared, 0)
    check_changes(changed(TABLE, 10), STUDY, shared, 10)
    # Every earlier table counts, not only the last.
    note_table(changed(TABLE, 40), STUDY, shared)
    with pytest.raises(ProtocolError):
        check_changes(changed(TABLE, 1), STUDY, shared, 10)
    with pytest.raises(ProtocolError):
        check_changes(changed(TABLE, 39), STUDY, shared, 10)


def test_a_change_of_one_outcome_or_weight_is_one() -> None:
    shared = Transient()
    note_table(TABLE, STUDY, shared)
    assert TABLE.outcome is not None
    outcome, weights = TABLE.outcome.copy(), TABLE.weights.copy()
    outcome[3] = 1 - outcome[3]
    weights[5] = 0.5
    for other in (
        Table(TABLE.values, outcome, TABLE.weights),
        Table(TABLE.values, TABLE.outcome, weights),
    ):
        with pytest.raises(ProtocolError):
            check_changes(other, STUDY, shared, 2)


def test_only_tables_of_the_same_columns_are_compared() -> None:
    shared = Transient()
    note_table(TABLE, STUDY, shared)
    facts = STUDY.model_dump()
    facts["covariates"].pop("sex")
    fewer = Study.model_validate(facts)
    check_changes(
        Table(TABLE.values[1:, :4], TABLE.outcome[1:], TABLE.weights[1:]), fewer, shared, 10
    )  # type: ignore[index]
    # Another setting is the same data.
    with pytest.raises(ProtocolError):
        check_changes(take(TABLE, np.arange(79)), STUDY.with_settings(seed=5), shared, 10)


def test_what_is_kept_tells_no_value() -> None:
    """Keyed hashes: whoever finds the file cannot try values out without the key beside it."""
    one, other = Transient(), Transient()
    note_table(TABLE, STUDY, one)
    note_table(TABLE, STUDY, other)
    (place,) = (key for key in one._entries if key.startswith("tables/"))
    assert one._entries[place] != other._entries[place]
