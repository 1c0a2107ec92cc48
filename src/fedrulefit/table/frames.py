"""Data frames and mappings → raw columns, and what their types say of each.

===================================================  =========================================
column                                               declared
===================================================  =========================================
numbers of any width, nullable, sparse or decimal    number
booleans, also nullable                              boolean
text: ``str``, ``string``, Arrow's, objects of str   text
pandas' and Arrow's categories                       levels, all of them, in their order if they
                                                     are said to have one
polars' ``Enum``                                     levels, all of them, in no order: it cannot
                                                     say whether it has one
polars' ``Categorical``                              levels, those of its rows
dates, times and durations                           date
objects of several types, arrays of text             nothing
===================================================  =========================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import narwhals as nw
import numpy as np
import pandas as pd

from fedrulefit.study import as_level, first_spellings
from fedrulefit.table.columns import Columns, Declared, Raw, as_text, first_positions, from_array
from fedrulefit.table.findings import UnreadableError, error

UNKNOWN_SOURCE: Final = error(
    "unknown-source",
    "the {where} is a {type}, which is not a table",
    "give a path to CSV or Parquet, an eager data frame (pandas, polars, …), "
    "or a mapping from names to arrays",
    when="in Python",
)
UNEQUAL_LENGTHS: Final = error(
    "unequal-lengths",
    "the columns of the {where} differ in length",
    "give every column one value per patient",
    when="in Python",
)
NOT_A_COLUMN: Final = error(
    "not-a-column",
    "column {name} of the {where} has {number} dimensions",
    "give one value per patient",
    when="in Python",
)
NOT_A_VALUE: Final = error(
    "not-a-value",
    "its cells hold a {type}",
    "give one number or text per patient",
    when="in Python",
)

_Found: TypeAlias = tuple[Raw, Declared | None]

_NO_VALUE: Final = (Iterable, complex, np.complexfloating)
"""What a cell must not be, beside text, which is made of letters."""


def read_mapping(source: Mapping[str, Any], only: Collection[str] | None, where: str) -> Columns:
    """Read the columns asked for from names → arrays."""
    names = tuple(str(name) for name in source)
    values = list(source.values())
    positions = first_positions(names, only)
    found = {name: _from_any(name, values[i], where) for name, i in positions.items()}
    sizes = {raw.size for raw, _ in found.values()}
    if len(sizes) > 1:
        raise UnreadableError(UNEQUAL_LENGTHS.of(where=where))
    return _collect(names, found, sizes.pop() if sizes else 0)


def read_frame(source: Any, only: Collection[str] | None, where: str) -> Columns:
    """Read the columns asked for from an eager data frame."""
    names: tuple[str, ...] | None = None
    if isinstance(source, pd.DataFrame):
        # narwhals refuses duplicated names, which we want to report.
        names = tuple(str(name).strip() for name in source.columns)
        source = source.set_axis([f"c{i}" for i in range(len(names))], axis=1)
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        kind = type(source).__name__
        raise UnreadableError(UNKNOWN_SOURCE.of(where=where, type=kind)) from None
    keys = frame.columns
    names = names or tuple(name.strip() for name in keys)
    positions = first_positions(names, only)
    found = {name: _from_series(name, frame[keys[i]]) for name, i in positions.items()}
    return _collect(names, found, len(frame))


def _collect(names: tuple[str, ...], found: Mapping[str, _Found], n_rows: int) -> Columns:
    arrays = {name: raw for name, (raw, _) in found.items()}
    declared = {name: said for name, (_, said) in found.items() if said is not None}
    return Columns(names, arrays, n_rows, declared)


def _from_any(name: str, values: Any, where: str) -> _Found:
    if not isinstance(values, np.ndarray):
        try:
            series = nw.from_native(values, series_only=True)
        except TypeError:
            # pandas knows lists, categoricals and its own nullable arrays.
            series = nw.from_native(pd.Series(values), series_only=True)
        return _from_series(name, series)
    if values.ndim != 1:
        found = NOT_A_COLUMN.of(name=repr(name), where=where, number=values.ndim)
        raise UnreadableError(found)
    if values.dtype.kind == "O":
        return _from_cells(name, np.ma.filled(values, None))
    said = {"b": "boolean", "M": "date", "m": "date"} | dict.fromkeys("iuf", "number")
    kind: Any = said.get(values.dtype.kind)
    return from_array(values), None if kind is None else Declared(kind)


def _from_series(name: str, series: Any) -> _Found:
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        raw = from_array(series.cast(nw.Float64).to_numpy())
        return raw, Declared("boolean" if series.dtype == nw.Boolean else "number")
    levels = _find_levels(series)
    if levels is not None:
        return as_text(series.to_list()), levels
    return _from_cells(name, np.fromiter(series.to_list(), dtype=object, count=len(series)))


def _find_levels(series: Any) -> Declared | None:
    """Return the levels of a categorical column; those of its rows, where it lists no others."""
    native, dtype = series.to_native(), series.dtype
    if isinstance(native, pd.Series) and isinstance(native.dtype, pd.CategoricalDtype):
        listed, ordered = native.cat.categories.tolist(), bool(native.cat.ordered)
    elif dtype == nw.Enum:
        listed, ordered = list(dtype.categories), False
    elif dtype != nw.Categorical:
        return None
    elif hasattr(native, "unify_dictionaries"):  # Arrow's
        chunks = native.unify_dictionaries()
        listed = chunks.chunk(0).dictionary.to_pylist() if chunks.num_chunks else []
        ordered = bool(native.type.ordered)
    else:
        listed, ordered = sorted(series.drop_nulls().unique().to_list()), False
    return Declared("levels", first_spellings(map(as_level, listed)), ordered)


_KINDS: Final[Mapping[str, Literal["number", "boolean", "text", "date"]]] = {
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("string", "bytes"), "text"),
    "boolean": "boolean",
    **dict.fromkeys(
        ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period"), "date"
    ),
}
"""What pandas says of cells of one type → what it declares."""


def _from_cells(name: str, cells: Raw) -> _Found:
    """Return a column of Python objects; of several types, nothing is declared."""
    told = pd.api.types.infer_dtype(cells, skipna=True)
    kind = _KINDS.get(told)
    if kind in ("number", "boolean"):
        missing = np.asarray(pd.isna(cells), dtype=bool)
        return np.where(missing, np.nan, cells).astype(np.float64), Declared(kind)
    if kind is None:
        for cell_type in {type(cell) for cell in cells}:
            if issubclass(cell_type, _NO_VALUE) and not issubclass(cell_type, (str, bytes)):
                raise UnreadableError(NOT_A_VALUE.of(name, type=cell_type.__name__))
    return as_text(cells), None if kind is None else Declared(kind)
