"""What the user should know of how a column was read: a note per column or group of columns.

A note names columns, counts and codes that anybody writes (:mod:`fedrulefit.table.codes`), or that
stand in :data:`~fedrulefit.privacy.policy.MIN_COUNT` rows, never another value of a patient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.study import Level, level_key
from fedrulefit.table.cells import MISSING_WORDS
from fedrulefit.table.codes import find_codes, find_nominal, looks_like_identifiers
from fedrulefit.table.findings import list_levels, list_names
from fedrulefit.table.names import names_patient, names_person, names_postcodes
from fedrulefit.table.texts import NUMBERS, Texts

FEW_LEVELS: Final = 12
"""Text of at most so many different whole numbers is levels; of more, a number."""

MOST_NOTES: Final = 20
"""Most notes that are shown; the rest are counted."""


@dataclass(frozen=True)
class Note:
    """Something to know about how columns were read.

    Parameters
    ----------
    columns : tuple of str
    message : str
        How they were read.
    advice : str
        How to have it otherwise.
    """

    columns: tuple[str, ...]
    message: str
    advice: str

    def __str__(self) -> str:
        """Return the note on one line."""
        plural = "s" if len(self.columns) > 1 else ""
        return f"column{plural} {list_names(self.columns)}: {self.message}; {self.advice}"


def note_text(name: str, texts: Texts, *, is_text: bool) -> tuple[Note, ...]:
    """Return notes on a column read as levels; `is_text`: no cell is a number by its type."""
    n_levels, n_rows = texts.n_levels, texts.n_rows
    if n_levels == 0:
        return (Note((name,), "has no value in any row", "drop it"),)
    if n_levels > FEW_LEVELS and 2 * n_levels > n_rows:
        message = f"has {n_levels} different texts in {n_rows} rows: an identifier, or free text?"
        return (Note((name,), message, "drop it, or group them into a few levels"),)
    if n_levels == 1:
        return (_constant(name),)
    if not is_text and texts.of(*NUMBERS):
        message = f"is of several types, and not all of it is numbers: read as {n_levels} levels"
        return (Note((name,), message, f"to have no doubt, categorical=[{name!r}]"),)
    return _note_spellings(name, texts.levels)


def _note_spellings(name: str, levels: Sequence[Level]) -> tuple[Note, ...]:
    n_alike = len(levels) - len({" ".join(str(level).casefold().split()) for level in levels})
    if not n_alike:
        return ()
    message = f"has {len(levels)} levels, {n_alike} of which repeat another in other letters"
    advice = f"they are kept apart: if they mean the same, frame[{name!r}].str.lower()"
    return (Note((name,), f"{message} (capitals, blanks)", advice),)


def note_levels(name: str, levels: Sequence[Level]) -> tuple[Note, ...]:
    """Return notes on levels that the column's type lists."""
    absent = [level for level in levels if level_key(level).casefold() in MISSING_WORDS]
    if not absent:
        return _note_spellings(name, levels)
    shown = list_levels(absent)
    advice = f"if it says that nothing is known, missing={{{name!r}: [{shown}]}}"
    return (Note((name,), f"lists {shown} as a level", advice),)


def note_number(name: str, x: Floats, *, kinds: bool = True) -> tuple[Note, ...]:
    """Return notes on a column of numbers; `kinds` asks whether they may name kinds."""
    known = x[np.isfinite(x)]
    if not known.size:
        return (Note((name,), "has no value in any row", "drop it"),)
    if _is_constant(x):
        return (_constant(name),)
    notes = []
    codes = find_codes(x)
    if codes:
        listed = ", ".join(f"{code:g} ({n} rows)" for code, n in codes.items())
        cure = f"missing={{{name!r}: [{', '.join(f'{code:g}' for code in codes)}]}}"
        counts = "counts as a number" if len(codes) == 1 else "count as numbers"
        message = f"{listed} may stand for a missing value, and {counts}"
        notes.append(Note((name,), message, f"if so, {cure}"))
    rest = x[~np.isin(x, list(codes))]
    nominal = find_nominal(name, rest) if kinds else ()
    if nominal:
        notes.append(_note_nominal(name, nominal))
    if looks_like_identifiers(x):
        message = "has another whole number in every row: an identifier?"
        notes.append(Note((name,), message, "drop it, if it says nothing of the patient"))
    elif kinds and np.unique(known).size > 2:
        notes += _note_name(name)
    return tuple(notes)


def _note_name(name: str) -> tuple[Note, ...]:
    """Return a note on a column of numbers whose name says that they measure nothing."""
    if names_postcodes(name):
        cure = f"drop it, or, if a few of them are kinds, categorical=[{name!r}]"
        return (Note((name,), "holds postcodes by its name, read as a number", cure),)
    if names_person(name):
        whose = f"; if it says whose a row is, patients=frame[{name!r}]" * names_patient(name)
        return (Note((name,), "an identifier by its name, read as a number", f"drop it{whose}"),)
    return ()


def _note_nominal(name: str, nominal: Sequence[int]) -> Note:
    advice = f"if these name kinds, categorical=[{name!r}]"
    if nominal[-1] != len(nominal):
        message = (
            f"holds {len(nominal)} different whole numbers, codes by its name, read as a number"
        )
        return Note((name,), message, advice)
    order = f"if they have an order, ordered={{{name!r}: {list(nominal)}}}"
    return Note((name,), f"holds 1 to {nominal[-1]}, read as a number", f"{advice}; {order}")


def note_twins(names: Sequence[str], values: Floats) -> tuple[Note, ...]:
    """Return notes on columns that hold the same values, shape (n_rows, n_features)."""
    alike: dict[bytes, list[int]] = {}
    for j, x in enumerate(values.T):
        # -0.0 is 0.0, and one NaN is like another.
        plain = np.where(np.isnan(x), np.nan, x + 0.0)
        alike.setdefault(blake2b(plain.tobytes()).digest(), []).append(j)
    return tuple(
        Note(tuple(names[j] for j in same), "hold the same in every row", "keep one of them")
        for same in alike.values()
        if len(same) > 1 and not _is_constant(values[:, same[0]])
    )


def tell_notes(notes: Iterable[Note]) -> str:
    """Return notes as the text of one warning, columns with the same note on one line."""
    together: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        together.setdefault((note.message, note.advice), []).extend(note.columns)
    lines = [str(Note(tuple(columns), *said)) for said, columns in together.items()]
    more = [f"and {len(lines) - MOST_NOTES} more"] if len(lines) > MOST_NOTES else []
    return "\n  ".join(["how X was read deserves a look:", *lines[:MOST_NOTES], *more])


def _is_constant(x: Floats) -> bool:
    known = x[~np.isnan(x)]
    return not known.size or bool((known == known[0]).all())


def _constant(name: str) -> Note:
    return Note((name,), "has the same value in every row that has one", "drop it")
