"""Which columns are the outcome, and of which kind: asked for, or guessed from names and values.

In: a table, and what the user says. Out: a :class:`Chosen` kind with its columns, from which
:mod:`fedrulefit.table.draft_outcome` writes the study's ``[outcome]``. What is guessed is said
there.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.errors import StudyError
from fedrulefit.study.outcome_base import KINDS
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.guess import Seen, count_values, look_at
from fedrulefit.table.header import fold
from fedrulefit.table.measures import KNOWN
from fedrulefit.table.names import (
    OUTCOME_NAMES,
    fold_name,
    names_count,
    names_entry,
    names_event,
    names_exposure,
    names_follow_up,
    names_order,
    names_time,
)
from fedrulefit.table.words import find_order

MOST_LEVELS: Final = 10
"""A column of more levels is no outcome of levels."""

MOST_RIVALS: Final = 4
"""More codes of events are no causes that compete."""

MANY_TIMES: Final = 8
"""A follow-up has more different times than this."""


@dataclass(frozen=True)
class Asked:
    """What the user says of the outcome; None where it is to be guessed.

    Parameters
    ----------
    outcome : str or None
        A column; ``"time,event"`` for a pair of them.
    kind : str or None
    time, event : str or None
        The columns of a time to an event.
    """

    outcome: str | None = None
    kind: str | None = None
    time: str | None = None
    event: str | None = None


@dataclass(frozen=True)
class Chosen:
    """The outcome as far as it is known.

    Parameters
    ----------
    kind : str
    columns : mapping of role to column
    guessed : bool
        Whether the kind is a guess.
    others : tuple of str
        Columns that look like the time to an event, but are no part of the outcome.
    """

    kind: str
    columns: Mapping[str, str]
    guessed: bool = False
    others: tuple[str, ...] = ()


def choose_outcome(columns: Columns, asked: Asked) -> Chosen:
    """Return the kind of the outcome and its columns.

    Raises
    ------
    StudyError
        Where there is none, or it cannot be of the kind that is asked for.
    """
    if asked.kind is not None and asked.kind not in KINDS:
        raise StudyError(f"kind {asked.kind!r} is not known: choose one of {', '.join(KINDS)}")
    time, event = asked.time, asked.event
    if asked.outcome is not None and asked.outcome not in columns.arrays and "," in asked.outcome:
        time, event = (part.strip() for part in asked.outcome.split(",", 1))
    for role, column in (("outcome", asked.outcome), ("time", time), ("event", event)):
        if column is not None and column not in columns.arrays and not (role == "outcome" and time):
            raise StudyError(f"{role} {column!r} {not_there(column, columns)}")
    if time is not None or event is not None or asked.kind == "time":
        return _choose_time(columns, asked, time, event)
    if asked.outcome is None:
        return _find(columns, asked.kind)
    return _choose_named(columns, asked.outcome, asked.kind)


def not_there(name: str, columns: Columns) -> str:
    """Return that a column is not in the table, and which may be meant."""
    close = difflib.get_close_matches(name, columns.names, n=1)
    if close:
        return f"is not in the table: did you mean {close[0]!r}?"
    n_named, n_columns = sum(map(bool, columns.names)), len(columns.names)
    title = "the first row must hold the names of the columns, with no titles above them"
    if 2 * n_named < n_columns:
        return f"is not in the table: only {n_named} of {n_columns} columns have a name; {title}"
    return f"is not in the table: check its spelling; {title}"


# --- found by name ------------------------------------------------------------------------


def _find(columns: Columns, kind: str | None) -> Chosen:
    """Return an outcome with a usual name; a time and its event, or two values."""
    folded: dict[str, str] = {}
    for name in columns.arrays:
        folded.setdefault(fold_name(name), name)
    usual = (folded[name] for name in OUTCOME_NAMES if name in folded)
    if kind not in (None, "yes/no"):
        column = next(usual, None)
        if column is not None:
            return _choose_named(columns, column, kind)
        raise StudyError("which column is the outcome? pass --outcome COLUMN (in Python: outcome=)")
    found = next((c for c in usual if len(count_values(columns.arrays[c])) == 2), None)
    times = tuple(_find_times(columns, found))
    if kind is None and times and (found is None or names_event(found)):
        event = found or _find_event(columns, times[0])
        if event is not None:
            return _chosen(columns, "time", _time_columns(columns, times[0], event), guessed=True)
    if found is not None:
        return _chosen(columns, "yes/no", {"outcome": found})
    raise StudyError(
        "which column is the outcome? none has two values and a usual name "
        f"(such as {', '.join(OUTCOME_NAMES[:4])}): pass --outcome COLUMN (in Python: outcome=), "
        "or --time COLUMN --event COLUMN for a time to an event"
    )


def _find_times(columns: Columns, outcome: str | None) -> Iterator[str]:
    """Yield columns that by name and values are the time to an event."""
    for column, raw in columns.arrays.items():
        if column != outcome and names_follow_up(column) and _is_time(raw):
            yield column


def _is_time(raw: Raw) -> bool:
    """Whether a column holds many different numbers from 0."""
    seen = look_at("", raw)
    return not seen.strays and len(seen.counts) > MANY_TIMES and bool((seen.x >= 0).all())


def _find_event(columns: Columns, time: str) -> str | None:
    """Return a column that by name and values is the event; first of the time's own word."""
    word = re.split(r"[\W_]", time.casefold())[0]
    found = [
        column
        for column, raw in columns.arrays.items()
        if column != time and names_event(column) and _ends_follow_up(raw)
    ]
    own = [c for c in found if word and re.split(r"[\W_]", c.casefold())[0] == word]
    return next(iter([*own, *found]), None)


# --- named by the user --------------------------------------------------------------------


def _choose_time(columns: Columns, asked: Asked, time: str | None, event: str | None) -> Chosen:
    """Return a time and its event; what the user does not name is found by its name."""
    if asked.kind not in (None, "time"):
        raise StudyError(f'a time and an event are of the kind "time", not {asked.kind!r}')
    named = asked.outcome if asked.outcome in columns.arrays else None
    if named is not None and time is None and event is None:
        time, event = (None, named) if _ends_follow_up(columns.arrays[named]) else (named, None)
    if time is None:
        weak = (c for c, raw in columns.arrays.items() if names_time(c) and _is_time(raw))
        time = next(iter([*_find_times(columns, event), *weak]), None)
    if event is None and time is not None:
        event = _find_event(columns, time)
    if time is None or event is None:
        told = "time to the event" if time is None else "event"
        raise StudyError(
            f"which column is the {told}? none has a usual name: pass --time COLUMN --event COLUMN "
            "(in Python: time=, event=)"
        )
    if not _ends_follow_up(columns.arrays[event]):
        n_values = len(count_values(columns.arrays[event]))
        raise StudyError(
            f"event {event!r} has {n_values} distinct values here, not two: recode it to whether "
            "the event came; or to 0 for none, 1 for that of interest, and 2 and so on for events "
            "that compete with it"
        )
    if not _has_numbers(columns.arrays[time]):
        raise StudyError(
            f"time {time!r} holds no numbers: give the days (or months, or years) from the start "
            "of follow-up; dates are subtracted first"
        )
    return _chosen(columns, "time", _time_columns(columns, time, event))


def find_rivals(raw: Raw) -> int:
    """Return how many events compete with the first, by codes from 0 on without a gap; 0 for none.

    As tables of competing risks have them: 0 for the end of follow-up, 1, 2 and so on.
    """
    codes = set(count_values(raw))
    n_rivals = len(codes) - 2
    wanted = {str(code) for code in range(len(codes))}
    return n_rivals if 0 < n_rivals <= MOST_RIVALS and codes == wanted else 0


def _ends_follow_up(raw: Raw) -> bool:
    """Whether a column can say which event came, if any."""
    return len(count_values(raw)) == 2 or find_rivals(raw) > 0


def _time_columns(columns: Columns, time: str, event: str) -> dict[str, str]:
    """Return the columns by role; with the time of entry, where one is named so and fits."""
    roles, last = {"outcome": time, "event": event}, look_at("", columns.arrays[time]).x
    for column, raw in columns.arrays.items():
        if column in roles.values() or not names_entry(column):
            continue
        seen = look_at("", raw)
        if seen.x.size and not seen.strays and seen.x.min() >= 0 and seen.x.max() < last.max():
            return {**roles, "entry": column}
    return roles


def _has_numbers(raw: Raw) -> bool:
    seen = look_at("", raw)
    return len(seen.x) > 0 and sum(seen.strays.values()) * 2 < sum(seen.counts.values())


def _choose_named(columns: Columns, column: str, kind: str | None) -> Chosen:
    """Return the outcome that the user names, of the kind that is asked for or looks right."""
    seen = look_at(column, columns.arrays[column])
    n_values = len(seen.counts)
    guess = kind or _guess_kind(columns, seen)
    if guess == "yes/no" and len(count_values(columns.arrays[column])) != 2:
        raise StudyError(
            f"outcome {column!r} has {n_values} distinct values here, not two: choose a "
            "yes/no column, or draft from a table with patients of both outcomes"
        )
    if guess in ("ordered", "classes") and n_values > MOST_LEVELS:
        raise StudyError(
            f"outcome {column!r} has {n_values} distinct values here: group them into "
            f"{MOST_LEVELS} levels or fewer, or choose another column or kind"
        )
    if guess in ("number", "count") and not _has_numbers(seen.raw):
        raise StudyError(f"outcome {column!r} holds no numbers: choose another column or kind")
    if guess == "time":
        event = _find_event(columns, column)
        roles = _time_columns(columns, column, str(event))
        return _chosen(columns, "time", roles, guessed=True)
    roles = {"outcome": column}
    if guess == "count":
        exposure = _find_exposure(columns, column)
        roles |= {} if exposure is None else {"exposure": exposure}
    return _chosen(columns, guess, roles, guessed=kind is None and guess != "yes/no")


def _chosen(
    columns: Columns, kind: str, roles: Mapping[str, str], *, guessed: bool = False
) -> Chosen:
    times = _find_times(columns, None)
    return Chosen(kind, roles, guessed, tuple(t for t in times if t not in roles.values()))


def _guess_kind(columns: Columns, seen: Seen) -> str:
    n_values = len(seen.counts)
    if len(count_values(seen.raw)) == 2 or n_values < 2:
        return "yes/no"
    if 2 * sum(seen.strays.values()) > sum(seen.counts.values()):
        return "ordered" if find_order(seen.counts) is not None else "classes"
    if names_time(seen.name) and _is_time(seen.raw) and _find_event(columns, seen.name):
        return "time"
    if seen.is_whole and names_order(seen.name) and n_values <= MOST_LEVELS:
        return "ordered"
    return "count" if _looks_like_count(seen) else "number"


def _looks_like_count(seen: Seen) -> bool:
    """Whether whole numbers from 0 are mostly small, or by their name counts."""
    if not seen.is_whole or fold(seen.name) in KNOWN or (seen.x < 0).any():
        return False
    small = bool(seen.x.min() == 0) and float(np.mean(seen.x <= seen.x.max() / 3)) > 0.5
    return small or (names_count(seen.name) and bool(seen.x.min() <= 1))


def _find_exposure(columns: Columns, outcome: str) -> str | None:
    """Return the column of the time over which was counted, by its name."""
    for column, raw in columns.arrays.items():
        if column != outcome and names_exposure(column) and _has_numbers(raw):
            return column
    return None
