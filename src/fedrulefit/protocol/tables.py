"""Which tables a data set's runs were over: two that differ by few patients tell of these.

In: the site's patients, those learnt from and those held out. Kept at the site: keyed hashes
of every patient, for each different table that took part in a run, and how many there were.
Nothing leaves but a refusal that fewer patients than the policy's `min_changed` differ from an
earlier run.

A patient's *mark* does not depend on how a study writes its columns: their order, the order
or coding of levels, which outcome is the event. Where a patient has several rows, it is of all of
them together: one row changed, or one more, is one patient changed. Patients are compared twice:
as they are, and as cut-offs on public bins see them. Changes too small to move anybody across a
public edge so neither hide a change that does nor pass by themselves where they are few. An
outcome that is a number is cut in equal bins for that.

Marks of other columns, or other bins, say nothing about each other. There the numbers with
and without the outcome are compared: they tell how many must have changed at least. These are of
rows, since one study may say whose they are and another not; of patients, with at most so many
rows each, as many must have changed as have these rows.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack
import numpy as np
from numpy.typing import NDArray

from fedrulefit.core.arrays import Floats
from fedrulefit.core.bins import public_cells
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.public import WEIGHT_UNIT
from fedrulefit.protocol.store import Memory
from fedrulefit.study import (
    ClassesOutcome,
    CountOutcome,
    Level,
    Number,
    NumberOutcome,
    OrderedOutcome,
    Study,
    TimeOutcome,
    YesNoOutcome,
    level_key,
)
from fedrulefit.table.patients import Table

Marks = NDArray[np.uint64]

_KEY: Final = "table key"
_COUNTS: Final = "table counts"


def check_changes(learnt: Table, held: Table, study: Study, shared: Memory, fewest: int) -> None:
    """Refuse a table that differs from an earlier run's by 1 … `fewest` − 1 patients.

    Parameters
    ----------
    learnt, held : Table
        The patients that sums are over, and those held out.
    study : Study
    shared : Memory
        Of the data set, across runs.
    fewest : int
        Fewest patients that may differ, other than none.

    Raises
    ------
    ProtocolError
        With the code ``few-changes``.
    """
    if fewest <= 1:
        return
    now = _see(learnt, held, study, shared)
    numbers = _count_outcomes(learnt, held, study)
    if any(now.is_near(then, fewest) for then in _earlier(study, shared)) or any(
        0 < _least_changes(numbers, then) / max(study.max_rows, each) <= fewest - 1
        for place, bins, then, each in _counts(shared)
        if (place, bins) != (_place(study), now.bins)
    ):
        raise ProtocolError(
            f"fewer than {fewest} patients of this site have changed since an earlier run, and the "
            "difference of the two would tell of them: run over the earlier table, or wait until "
            f"{fewest} have changed (the policy's 'min_changed')",
            "few-changes",
        )


def note_table(learnt: Table, held: Table, study: Study, shared: Memory) -> None:
    """Remember the table of a run, unless it is known."""
    now, earlier = _see(learnt, held, study, shared), _earlier(study, shared)
    packed = [then.pack() for then in earlier]
    if now.pack() not in packed:
        shared.put({_place(study): msgpack.packb([*packed, now.pack()])})
    counts = [*_counts(shared)]
    here = (_place(study), now.bins, _count_outcomes(learnt, held, study), study.max_rows)
    if here not in counts:
        shared.put({_COUNTS: msgpack.packb([*counts, here])})


def mark_patients(table: Table, study: Study, key: bytes, *, coarse: bool = False) -> Marks:
    """Return a keyed hash of every patient, shape (n_people,), in the order of ``table.people``.

    Of several rows those count that have a weight, in any order. See :func:`mark_rows`.
    """
    rows = mark_rows(table, study, key, coarse=coarse)
    if table.patients is None:
        return rows
    people = table.people
    order = np.lexsort((rows, people.place))
    order = order[table.weights[order] > 0]
    ends = np.searchsorted(people.place[order], np.arange(1, people.n_people))
    told = [part.astype("<u8").tobytes() for part in np.split(rows[order], ends)]
    return _hash_each(told[: people.n_people], key)


def mark_rows(table: Table, study: Study, key: bytes, *, coarse: bool = False) -> Marks:
    """Return a keyed hash of every row, shape (n_rows,).

    Parameters
    ----------
    table : Table
    study : Study
    key : bytes
    coarse : bool
        Whether numbers and weights count as public bins and units see them.
    """
    columns = []
    for name in sorted(study.names):
        j = study.names.index(name)
        values, covariate = table.values[:, j], study.covariates[name]
        if isinstance(covariate, Number):
            cells = public_cells(values, study.bins[j]).astype(np.float64) if coarse else values
            columns.append(_bits(cells))
        else:
            columns.append(_level_bits(values, covariate.coded))
    if table.outcome is not None:
        columns += _outcome_bits(table.outcome, study, coarse=coarse)
    columns.append(_bits(np.rint(table.weights * WEIGHT_UNIT) if coarse else table.weights))
    data = np.column_stack(columns).astype("<u8")
    return _hash_each([row.tobytes() for row in data], key)


def _outcome_bits(outcome: Floats, study: Study, *, coarse: bool) -> list[Marks]:
    """Return the columns of an outcome as bits; who lies at or beyond a public end is beyond it.

    So another range or horizon changes the marks only of those whom it moves.
    """
    told = study.outcome
    if isinstance(told, YesNoOutcome):
        return [_level_bits(outcome, (told.negative, told.positive))]
    if isinstance(told, (OrderedOutcome, ClassesOutcome)):
        return [_level_bits(outcome, told.levels)]
    events = []
    if isinstance(told, TimeOutcome):
        events = [_level_bits(outcome[:, 2], told.values)]
    numbers = np.column_stack([outcome]).T
    cells = [
        _cut(column, low, high, study.settings.n_bins if coarse else None)
        for column, (low, high) in zip(numbers, _ends(told), strict=False)
    ]
    return [*map(_bits, cells), *events]


def _ends(outcome: NumberOutcome | CountOutcome | TimeOutcome) -> list[tuple[float, float]]:
    """Return the public ends of each column of numbers of an outcome."""
    if isinstance(outcome, NumberOutcome):
        return [outcome.range]
    if isinstance(outcome, CountOutcome):
        return [(0.0, outcome.most), (0.0, outcome.max_exposure or np.inf)]
    return [(0.0, outcome.horizons[-1])] * 2


def _cut(numbers: Floats, low: float, high: float, n_bins: int | None) -> Floats:
    """Return numbers as they are, or as so many equal bins see them, and the ends as infinite."""
    cells = numbers
    if n_bins is not None and np.isfinite(high):
        cells = np.floor((numbers - low) / (high - low) * n_bins)
    ended: Floats = np.where(numbers >= high, np.inf, np.where(numbers <= low, -np.inf, cells))
    return ended


def _hash_each(told: Sequence[bytes], key: bytes) -> Marks:
    marks = [hashlib.blake2b(row, digest_size=8, key=key).digest() for row in told]
    return np.frombuffer(b"".join(marks), dtype="<u8").astype(np.uint64)


@dataclass(frozen=True, eq=False)
class _Seen:
    """What is kept of a table that took part in a run; all marks are sorted."""

    bins: bytes
    learnt: Marks
    held: Marks
    coarse: Marks

    def is_near(self, other: _Seen, fewest: int) -> bool:
        """Whether 1 … `fewest` − 1 patients differ in anything that a sum is over."""
        pairs = [
            (self.learnt, other.learnt),
            (self.held, other.held),
            (self.all, other.all),
            *([(self.coarse, other.coarse)] if self.bins == other.bins else []),
        ]
        return any(0 < _count_changes(now, then) < fewest for now, then in pairs)

    @property
    def all(self) -> Marks:
        return np.concatenate([self.learnt, self.held])

    def pack(self) -> list[bytes]:
        marks = (self.learnt, self.held, self.coarse)
        return [self.bins, *(part.astype("<u8").tobytes() for part in marks)]

    @classmethod
    def unpack(cls, kept: Sequence[bytes]) -> _Seen:
        learnt, held, coarse = (
            np.frombuffer(part, dtype="<u8").astype(np.uint64) for part in kept[1:]
        )
        return cls(kept[0], learnt, held, coarse)


def _see(learnt: Table, held: Table, study: Study, shared: Memory) -> _Seen:
    key = shared.get(_KEY)
    if key is None:
        key = secrets.token_bytes(32)
        shared.put({_KEY: key})
    # Who has no weight is in no sum: such rows come and go unseen, and hide nobody.
    tables = [table.take(table.weights > 0) for table in (learnt, held)]
    exact = [np.sort(mark_patients(table, study, key)) for table in tables]
    coarse = [mark_patients(table, study, key, coarse=True) for table in tables]
    return _Seen(_bins_digest(study), exact[0], exact[1], np.sort(np.concatenate(coarse)))


def _count_changes(marks: Marks, earlier: Marks) -> int:
    """Return how many patients came or went, whichever are more."""
    values, where = np.unique(np.concatenate([marks, earlier]), return_inverse=True)
    now = np.bincount(where[: len(marks)], minlength=len(values))
    then = np.bincount(where[len(marks) :], minlength=len(values))
    came, went = np.maximum(now - then, 0).sum(), np.maximum(then - now, 0).sum()
    return int(max(came, went))


def _count_outcomes(learnt: Table, held: Table, study: Study) -> dict[str, int]:
    """Return the number of rows by the outcome's column and value; of numbers, of all rows."""
    told = study.outcome
    outcome = np.concatenate(
        [t.outcome[t.weights > 0] for t in (learnt, held) if t.outcome is not None]
    )
    if isinstance(told, YesNoOutcome):
        levels: Sequence[Level] = (told.negative, told.positive)
    elif isinstance(told, (OrderedOutcome, ClassesOutcome)):
        levels = told.levels
    else:
        return {"\0".join([told.kind, *told.columns.values()]): len(outcome)}
    return {
        "\0".join([told.column, _canonical(level)]): int((outcome == value).sum())
        for value, level in enumerate(levels)
    }


def _least_changes(now: Mapping[str, int], then: Mapping[str, int]) -> int:
    """Return how many rows must have come or gone; of another outcome, only the total tells."""
    if set(now) != set(then):
        return abs(sum(now.values()) - sum(then.values()))
    changes = [now[value] - then[value] for value in now]
    return max(sum(max(n, 0) for n in changes), sum(max(-n, 0) for n in changes))


def _bits(numbers: Floats) -> Marks:
    """Return numbers as bits, one for 0 and one for missing."""
    plain = np.where(np.isnan(numbers), np.nan, numbers + 0.0)
    return np.ascontiguousarray(plain, dtype="<f8").view("<u8").astype(np.uint64)


def _level_bits(positions: Floats, levels: Sequence[Level]) -> Marks:
    """Return levels as bits of their text, or of the number it is; the position says nothing."""
    texts = [_canonical(level) for level in levels]
    words = [hashlib.sha256(text.encode()).digest()[:8] for text in texts]
    bits = [int.from_bytes(word, "little") for word in words]
    for k, text in enumerate(texts):
        try:
            bits[k] = int(_bits(np.array([float(text)]))[0])
        except ValueError:
            continue
    missing = int(_bits(np.array([np.nan]))[0])
    lookup: Marks = np.array([*bits, missing], dtype=np.uint64)
    return lookup[np.where(np.isnan(positions), len(bits), positions).astype(np.int64)]


def _canonical(level: Level) -> str:
    """Return a level's text; true and false may stand for 1 and 0 in a study."""
    text = level_key(level)
    return {"true": "1", "false": "0"}.get(text, text)


def _earlier(study: Study, shared: Memory) -> list[_Seen]:
    return [_Seen.unpack(kept) for kept in msgpack.unpackb(shared.get(_place(study)) or b"\x90")]


def _counts(shared: Memory) -> list[tuple[str, bytes, dict[str, int], int]]:
    kept: list[Any] = msgpack.unpackb(shared.get(_COUNTS) or b"\x90")
    # Kept by a version without a column of patients: every row was one.
    return [(place, bins, numbers, *(most or [1])) for place, bins, numbers, *most in kept]


def _place(study: Study) -> str:
    """Return the name under which tables of the same columns are kept, in any order."""
    outcome: Any = study.outcome.column
    if not isinstance(study.outcome, YesNoOutcome):
        outcome = [study.outcome.kind, *map(list, study.outcome.columns.items())]
    special = [outcome, study.weight and study.weight.column]
    whose = [] if study.patient is None else [{"patient": study.patient.column}]
    columns = ["tables 2", *special, *whose, *sorted(study.names)]
    return f"tables/{hashlib.sha256(msgpack.packb(columns)).hexdigest()}"


def _bins_digest(study: Study) -> bytes:
    """Hash the public cells of numbers: coarse marks are comparable where these are the same."""
    facts: list[list[Any]] = []
    for name, bins in sorted(zip(study.names, study.bins, strict=True), key=lambda pair: pair[0]):
        cutoffs = b"" if bins.cutoffs is None else bins.cutoffs.tobytes()
        facts.append([name, bins.kind == "number", bins.edges.tobytes(), cutoffs, bins.step])
    numbers = [fact for fact in facts if fact[1]]
    if isinstance(study.outcome, (NumberOutcome, CountOutcome, TimeOutcome)):
        numbers.append([study.settings.n_bins, *map(list, _ends(study.outcome))])
    return hashlib.sha256(msgpack.packb(numbers)).digest()
