"""Raw columns: a table as read, before anything is known of a study.

What the cells say is for :mod:`fedrulefit.table.cells` to read, what the columns must
hold for :mod:`fedrulefit.table.check` to check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedrulefit.core.arrays import Bools
from fedrulefit.study import Level
from fedrulefit.table.findings import Finding

Raw: TypeAlias = npt.NDArray[Any]
"""One column as read, shape (n_rows,): float64 with NaN, or object with str and None."""


@dataclass(frozen=True)
class Declared:
    """What a source itself says of a column, by its type.

    Parameters
    ----------
    kind : {"number", "boolean", "text", "levels", "date"}
        ``date`` is any time, date or duration.
    levels : tuple of Level
        Of ``levels``: all of them, those that no row has included.
    ordered : bool
        Whether these have an order, the lowest first.
    """

    kind: Literal["number", "boolean", "text", "levels", "date"]
    levels: tuple[Level, ...] = ()
    ordered: bool = False


@dataclass(frozen=True, eq=False)
class Columns:
    """A table as read: names in their order and the columns asked for."""

    names: tuple[str, ...]
    """As they stand in the source, duplicates included."""
    arrays: Mapping[str, Raw]
    """By name; of columns with the same name, the first."""
    n_rows: int
    declared: Mapping[str, Declared] = field(default_factory=dict)
    """By name, what the source says of a column; nothing of one that is not here (CSV)."""
    findings: tuple[Finding, ...] = ()
    """What was guessed to read the source."""

    @property
    def duplicates(self) -> tuple[str, ...]:
        """Names that occur more than once; unnamed columns do not count."""
        return tuple(name for name, n in Counter(self.names).items() if n > 1 and name)


def first_positions(names: Sequence[str], only: Collection[str] | None) -> dict[str, int]:
    """Return name → first position, for named columns that are asked for."""
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        if name and (only is None or name in only):
            positions.setdefault(name, position)
    return positions


def from_array(values: Any) -> Raw:
    """Return float64 with NaN, or object with str and None, of a one-dimensional array."""
    if isinstance(values, pd.Categorical):
        values = np.asarray(values, dtype=object)
    plain: Raw = np.ma.getdata(values)
    hidden: Bools = np.ma.getmaskarray(values)
    if plain.dtype.kind in "biuf":
        out = plain.astype(np.float64)
        out[hidden] = np.nan
        return out
    if plain.dtype.kind in "Mm":
        hidden = hidden | np.isnat(plain)
        plain = plain.astype(str)
    text = as_text(plain)
    text[hidden] = None
    return text


def as_text(values: Sequence[Any] | Raw) -> Raw:
    """Return an object array of str, and None where pandas sees a missing value."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    missing = np.asarray(pd.isna(cells), dtype=bool)
    if pd.api.types.infer_dtype(cells[~missing], skipna=False) not in ("string", "empty"):
        cells[:] = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in cells]
    cells[missing] = None
    return cells
