"""A data frame → the covariates of a study, for the estimators.

In: a data frame or named columns without a study. Out: covariates whose ranges
and levels are read off the data, and the values in their coding. That is right
for data already in one place; between hospitals a study declares them instead.

A column of text is a category, of two values yes/no, of 0 and 1 yes/no, any
other a number, of step 1 if all its values are whole. All covariates may be
missing at prediction, and a level never
seen in training counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedrulefit.core.arrays import MAX_CODES, Bools, Floats
from fedrulefit.errors import DataError
from fedrulefit.study import Category, Covariate, Number, YesNo, level_key
from fedrulefit.table.cells import MISSING_WORDS, parse_numbers
from fedrulefit.table.columns import Raw
from fedrulefit.table.reading import Cell, read_column
from fedrulefit.table.sources import Source, read_columns


def infer_covariates(
    source: Source, *, rows: Bools | None = None
) -> tuple[dict[str, Covariate], Floats]:
    """Return the covariates and the values, shape (n_rows, n_features).

    Ranges and levels are those of `rows` (all by default): a patient of weight
    0 must not stretch them.
    """
    columns = read_columns(source, where="X")
    if columns.duplicates:
        raise DataError(f"X has several columns named {', '.join(columns.duplicates)}")
    if not all(columns.names):
        raise DataError("X has a column without a name: name it, or drop it")
    chosen = slice(None) if rows is None else rows
    covariates = {name: _infer(name, columns.arrays[name][chosen]) for name in columns.names}
    return covariates, _values(covariates, columns.arrays, columns.n_rows)


def read_values(source: Source, covariates: Mapping[str, Covariate]) -> Floats:
    """Return the values of known covariates, shape (n_rows, n_features)."""
    columns = read_columns(source, only=set(covariates), where="X")
    missing = [name for name in covariates if name not in columns.arrays]
    if missing:
        raise DataError(f"X lacks the column(s) {', '.join(missing)}")
    return _values(covariates, columns.arrays, columns.n_rows)


def _infer(name: str, raw: Raw) -> Covariate:
    if raw.dtype != np.float64:
        numbers = parse_numbers(raw)
        if numbers.n_not_number or np.isnan(numbers.values).all():
            return _infer_levels(name, raw)
        raw = numbers.values
    if np.isinf(raw).any():
        raise DataError(f"column {name!r} holds infinity: replace it by a number or NaN")
    known = raw[~np.isnan(raw)]
    if len(known) and np.isin(known, (0.0, 1.0)).all():
        return YesNo()
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if not low < high:
        high = float(np.nextafter(low, np.inf)) if abs(low) > 1e15 else low + 1
    whole = bool(len(known)) and bool((known == np.rint(known)).all())
    return Number(range=(low, high), step=1 if whole else None)


def _infer_levels(name: str, raw: Raw) -> Covariate:
    texts = sorted({str(v) for v in raw if v is not None and v.casefold() not in MISSING_WORDS})
    # Of spellings that count as one level ("1" and "1.0"), the first stands.
    levels = list({level_key(text): text for text in reversed(texts)}.values())[::-1]
    if len(levels) == 2:
        return YesNo(no=levels[0], yes=levels[1])
    if len(levels) > MAX_CODES:
        raise DataError(
            f"column {name!r} has {len(levels)} different texts, at most {MAX_CODES} can be "
            "levels of a category: drop the column, group its levels, or make it a number"
        )
    if len(levels) < 2:
        levels = [*levels, *(["(none)", "(other)"][len(levels) :])]
    return Category(levels=tuple(levels))


def _values(covariates: Mapping[str, Covariate], arrays: Mapping[str, Raw], n_rows: int) -> Floats:
    values = np.empty((n_rows, len(covariates)))
    for j, (name, covariate) in enumerate(covariates.items()):
        values[:, j] = _read_column(name, arrays[name], covariate)
    return values


def _read_column(name: str, raw: Raw, covariate: Covariate) -> Floats:
    reading = read_column(raw, covariate)
    if reading.count(Cell.UNREADABLE) or np.isinf(reading.values).any():
        raise DataError(f"column {name!r} holds something that is not a finite number")
    return reading.values
