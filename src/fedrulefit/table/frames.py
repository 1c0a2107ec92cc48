"""Data frames and mappings → raw columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import narwhals as nw
import numpy as np
import pandas as pd

from fedrulefit.table.columns import Columns, Raw, as_text, first_positions, from_array
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


def read_mapping(source: Mapping[str, Any], only: Collection[str] | None, where: str) -> Columns:
    """Read the columns asked for from names → arrays."""
    names = tuple(str(name) for name in source)
    values = list(source.values())
    positions = first_positions(names, only)
    arrays = {name: _from_any(name, values[i], where) for name, i in positions.items()}
    sizes = {array.size for array in arrays.values()}
    if len(sizes) > 1:
        raise UnreadableError(UNEQUAL_LENGTHS.of(where=where))
    return Columns(names, arrays, sizes.pop() if sizes else 0)


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
    arrays = {name: _from_series(frame[keys[i]]) for name, i in positions.items()}
    return Columns(names, arrays, len(frame))


def _from_any(name: str, values: Any, where: str) -> Raw:
    if not isinstance(values, np.ndarray):
        try:
            return _from_series(nw.from_native(values, series_only=True))
        except TypeError:
            # pandas knows lists, categoricals and its own nullable arrays.
            return _from_series(nw.from_native(pd.Series(values), series_only=True))
    if values.ndim != 1:
        found = NOT_A_COLUMN.of(name=repr(name), where=where, number=values.ndim)
        raise UnreadableError(found)
    return from_array(values)


def _from_series(series: Any) -> Raw:
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return from_array(series.cast(nw.Float64).to_numpy())
    return as_text(series.to_list())
