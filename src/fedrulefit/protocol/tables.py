"""Which tables a data set's runs were over: two that differ by few patients tell of these.

In: the site's table. Kept at the site: a keyed hash of every patient, for each different
table that took part in a run. Nothing leaves but a refusal that fewer patients than the
policy's `min_changed` differ from an earlier run.

Tables are compared where studies have the same columns; of others nothing is known.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import msgpack
import numpy as np
from numpy.typing import NDArray

from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.memory import Memory
from fedrulefit.study import Study
from fedrulefit.table import Table

Marks = NDArray[np.uint64]

_KEY: Final = "table key"


def check_changes(table: Table, study: Study, shared: Memory, fewest: int) -> None:
    """Refuse a table that differs from an earlier run's by 1 … `fewest` − 1 patients.

    Raises
    ------
    ProtocolError
        With the code ``few-changes``.
    """
    if fewest <= 1:
        return
    marks = _mark(table, shared)
    if any(0 < _count_changes(marks, earlier) < fewest for earlier in _earlier(study, shared)):
        raise ProtocolError(
            f"fewer than {fewest} patients of this site have changed since an earlier run, and the "
            "difference of the two would tell of them: run over the earlier table, or wait until "
            f"{fewest} have changed (the policy's 'min_changed')",
            "few-changes",
        )


def note_table(table: Table, study: Study, shared: Memory) -> None:
    """Remember the table of a run, unless it is known."""
    marks, earlier = _mark(table, shared), _earlier(study, shared)
    if not any(np.array_equal(marks, other) for other in earlier):
        kept = [other.astype("<u8").tobytes() for other in (*earlier, marks)]
        shared.put({_place(study): msgpack.packb(kept)})


def _count_changes(marks: Marks, earlier: Marks) -> int:
    """Return how many patients came or went, whichever are more."""
    values, where = np.unique(np.concatenate([marks, earlier]), return_inverse=True)
    now = np.bincount(where[: len(marks)], minlength=len(values))
    then = np.bincount(where[len(marks) :], minlength=len(values))
    came, went = np.maximum(now - then, 0).sum(), np.maximum(then - now, 0).sum()
    return int(max(came, went))


def _mark(table: Table, shared: Memory) -> Marks:
    """Return a keyed hash of every patient, sorted: the order of a file does not matter."""
    key = shared.get(_KEY)
    if key is None:
        key = secrets.token_bytes(32)
        shared.put({_KEY: key})
    outcome = np.zeros(len(table.weights)) if table.outcome is None else table.outcome
    rows = np.column_stack([table.values, outcome, table.weights]) + 0.0  # no −0
    rows[np.isnan(rows)] = np.nan  # one NaN
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    marks = [hashlib.blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in data]
    return np.sort(np.frombuffer(b"".join(marks), dtype="<u8").astype(np.uint64))


def _earlier(study: Study, shared: Memory) -> list[Marks]:
    kept = msgpack.unpackb(shared.get(_place(study)) or b"\x90")
    return [np.frombuffer(part, dtype="<u8").astype(np.uint64) for part in kept]


def _place(study: Study) -> str:
    """Return the name under which tables of the same columns are kept."""
    columns = [study.outcome.column, study.weight and study.weight.column, *study.names]
    return f"tables/{hashlib.sha256(msgpack.packb(columns)).hexdigest()}"
