"""A data frame → the covariates of a study, for the estimators.

In: a data frame or named columns without a study, and what the caller says of them. Out:
covariates whose ranges and levels are read off the data, the values in their coding, and a
note wherever that was a guess. That is right for data already in one place; between hospitals
a study declares them instead.

What decides, from the first to the last:

1. the caller: ``ordered=``, ``categorical=``, ``missing=`` (:mod:`fedrulefit.table.asked`);
2. the type of the column (:mod:`fedrulefit.table.frames`): levels as listed, ordered if they are
   said to be; booleans yes/no; numbers a number, of step 1 if all are whole, of 0 and 1 yes/no;
   text a category, of two levels yes/no; dates are refused;
3. the cells, where the type says nothing, or is text and most of it numbers
   (:mod:`fedrulefit.table.infer_text`). That is a guess, and a note says so.

All covariates may be missing at prediction, and a level never seen in training counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.errors import DataError
from fedrulefit.study import (
    Category,
    Covariate,
    Level,
    Number,
    Ordered,
    YesNo,
    as_level,
    level_key,
)
from fedrulefit.table.asked import Asked
from fedrulefit.table.cells import match_levels, parse_numbers
from fedrulefit.table.columns import Declared, Raw
from fedrulefit.table.guess import yes_and_no
from fedrulefit.table.infer_text import guess_text, refuse_many_levels
from fedrulefit.table.notes import MOST_NOTES, Note, note_levels, note_number, note_twins
from fedrulefit.table.reading import read_column
from fedrulefit.table.sources import Source, read_columns
from fedrulefit.table.texts import read_texts

_INFINITY: Final = "column {name} holds infinity: replace it by a number or NaN"
_LARGEST: Final = 1e100
_TOO_LARGE: Final = (
    f"column {{name}} holds numbers beyond {_LARGEST:g}, too large to be squared and added up: "
    "give them in another unit, or name them in missing= if they stand for a missing value"
)
_DATES: Final = (
    "column {name} holds dates or times: give a number instead, such as the age, or the days "
    "since another date, (frame['discharge'] - frame['admission']).dt.days; or drop it"
)


@dataclass(frozen=True, eq=False)
class Inferred:
    """A table as it was read.

    Parameters
    ----------
    covariates : mapping of str to Covariate
    values : (n_rows, n_features) float64
    notes : tuple of Note
        What was guessed, and what deserves a look.
    """

    covariates: Mapping[str, Covariate]
    values: Floats
    notes: tuple[Note, ...]


def infer_covariates(
    source: Source, *, rows: Bools | None = None, asked: Asked | None = None
) -> Inferred:
    """Return the covariates of a table, its values, and what was guessed.

    Ranges and levels are those of `rows` (all by default): a patient of weight
    0 must not stretch them.
    """
    columns = read_columns(source, where="X")
    if columns.duplicates:
        raise DataError(f"X has several columns named {', '.join(columns.duplicates)}")
    if not all(columns.names):
        raise DataError("X has a column without a name: name it, or drop it")
    chosen = slice(None) if rows is None else rows
    values = np.empty((columns.n_rows, len(columns.names)))
    covariates: dict[str, Covariate] = {}
    notes: list[Note] = []
    refused: list[DataError] = []
    for j, name in enumerate(columns.names):
        raw, declared = columns.arrays[name], columns.declared.get(name)
        try:
            covariates[name], said = _infer(name, raw[chosen], declared, asked or Asked())
            values[:, j] = _read_column(name, raw, covariates[name])
            notes += said
        except DataError as refusal:
            refused.append(refusal)
    _refuse(refused)
    notes += note_twins(columns.names, values[chosen])
    return Inferred(covariates, values, tuple(notes))


def _refuse(refused: Sequence[DataError]) -> None:
    """Raise what was refused, all columns at once."""
    if len(refused) == 1:
        raise refused[0]
    if refused:
        rest = len(refused) - MOST_NOTES
        more = [f"and {rest} more"] if rest > 0 else []
        lines = [*map(str, refused[:MOST_NOTES]), *more]
        raise DataError("\n  ".join([f"{len(refused)} columns of X cannot be read:", *lines]))


def _infer(
    name: str, raw: Raw, declared: Declared | None, asked: Asked
) -> tuple[Covariate, Sequence[Note]]:
    codes = asked.codes(name)
    kind = None if declared is None else declared.kind
    if name in asked.ordered:
        return _rank(name, raw, asked.ordered[name], codes), ()
    if declared is not None and kind == "levels":
        return _take_levels(name, declared, codes, asked)
    if name in asked.categorical:
        return _find_levels(name, raw, codes), ()
    if declared is not None and kind == "date":
        raise DataError(_DATES.format(name=repr(name)))
    if kind == "boolean":
        return YesNo(), note_number(name, raw, kinds=False)
    if kind == "number":
        values = parse_numbers(raw, codes).values
        return _take_numbers(name, values, codes), note_number(name, values)
    texts = read_texts(raw, {level_key(code).casefold() for code in codes})
    guess = guess_text(name, texts, is_text=kind == "text", told=name in asked.missing)
    if not guess.is_number:
        return _make_levels(name, _no_first(texts.levels), codes), guess.notes
    values = parse_numbers(raw, codes).values
    number = _take_numbers(name, values, (*codes, *guess.missing))
    return number, (*guess.notes, *note_number(name, values))


def _rank(name: str, raw: Raw, order: Sequence[Level], codes: Sequence[Level]) -> Covariate:
    """Return the covariate of levels whose order the caller gave."""
    levels = _without(order, codes)
    n_unknown = int(match_levels(raw, levels, codes)[1].sum())
    if n_unknown:
        raise DataError(
            f"{n_unknown} of {len(raw)} cells of column {name!r} are none of the levels that "
            f"ordered= lists: add the level, or name it in missing={{{name!r}: [...]}}"
        )
    return Ordered(levels=levels, missing=tuple(codes))


def _take_levels(
    name: str, declared: Declared, codes: Sequence[Level], asked: Asked
) -> tuple[Covariate, Sequence[Note]]:
    """Return the covariate of a column whose type lists its levels."""
    levels = _without(declared.levels, codes)
    if declared.ordered and name not in asked.categorical and len(levels) > 1:
        refuse_many_levels(name, len(levels))
        return Ordered(levels=levels, missing=tuple(codes)), note_levels(name, levels)
    return _make_levels(name, levels, codes), note_levels(name, levels)


def _find_levels(name: str, raw: Raw, codes: Sequence[Level]) -> Covariate:
    """Return the covariate of a column whose values are levels, because the caller said so."""
    if raw.dtype == np.float64:
        known = np.unique(raw[~np.isnan(raw)]).tolist()
        return _make_levels(name, _without(list(map(as_level, known)), codes), codes)
    texts = read_texts(raw, {level_key(code).casefold() for code in codes})
    return _make_levels(name, _no_first(texts.levels), codes)


def _no_first(levels: Sequence[str]) -> Sequence[str]:
    """Return two levels of which one says yes in an order that has it last; others as they are."""
    if len(levels) != 2:
        return levels
    yes, no, _ = yes_and_no(levels)
    return no, yes


def _make_levels(name: str, levels: Sequence[Level], codes: Sequence[Level]) -> Covariate:
    """Return a category, or yes/no of two levels."""
    refuse_many_levels(name, len(levels))
    if len(levels) == 2:
        return YesNo(no=levels[0], yes=levels[1], missing=tuple(codes))
    if len(levels) < 2:
        levels = [*levels, *(["(none)", "(other)"][len(levels) :])]
    return Category(levels=tuple(levels), missing=tuple(codes))


def _take_numbers(name: str, x: Floats, codes: Sequence[Level]) -> Covariate:
    """Return the covariate of a column of numbers."""
    if np.isinf(x).any():
        raise DataError(_INFINITY.format(name=repr(name)))
    known = x[~np.isnan(x)]
    if len(known) and np.abs(known).max() > _LARGEST:
        raise DataError(_TOO_LARGE.format(name=repr(name)))
    binary = len(known) and np.isin(known, (0.0, 1.0)).all()
    if binary and not {"0", "1"} & set(map(level_key, codes)):
        return YesNo(missing=tuple(codes))
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if not low < high:
        high = float(np.nextafter(low, np.inf)) if abs(low) > 1e15 else low + 1
    whole = bool(len(known)) and bool((known == np.rint(known)).all())
    return Number(range=(low, high), step=1 if whole else None, missing=tuple(codes))


def _without(levels: Sequence[Level], codes: Sequence[Level]) -> tuple[Level, ...]:
    """Return the levels that are no code for a missing value."""
    absent = {level_key(code).casefold() for code in codes}
    return tuple(level for level in levels if level_key(level).casefold() not in absent)


def _read_column(name: str, raw: Raw, covariate: Covariate) -> Floats:
    """Return the values of a column; words in a number are missing, as its note says."""
    values = read_column(raw, covariate).values
    if np.isinf(values).any():
        raise DataError(_INFINITY.format(name=repr(name)))
    return values
