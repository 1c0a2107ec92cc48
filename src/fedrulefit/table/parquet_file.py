"""A Parquet file → raw columns, by DuckDB.

What the columns will take is measured by a pass that keeps nothing, before they are
read. Leaves the site: nothing; DuckDB's own words are dropped.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fedrulefit.table.columns import Columns, first_positions, from_array
from fedrulefit.table.findings import UnreadableError, error
from fedrulefit.table.size_limit import TEXT_CELL, check_memory, open_duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MAX_FOOTER: Final = 2**26
"""Most bytes of what a Parquet file says about itself."""

_NUMBER_CELL: Final = 24

_NUMBERS: Final = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
)  # fmt: skip

_NESTED: Final = ("STRUCT", "MAP", "UNION", "VARIANT")

_LENGTH: Final = (
    "sum(CASE WHEN strlen({0}) = length({0}) THEN strlen({0}) ELSE 4 * length({0}) END)"
)
"""Bytes of texts in Python: up to four per character where one is not ASCII."""

MALFORMED_PARQUET: Final = error(
    "malformed-parquet", "{path} cannot be read as Parquet", "export the table again"
)
NESTED_COLUMN: Final = error(
    "nested-column",
    "its cells in {path} hold lists or records",
    "export one value per patient and column",
)


def read_parquet(path: Path, only: Collection[str] | None, *, as_text: bool = False) -> Columns:
    """Read the columns asked for; as text, digit by digit, if told so."""
    import duckdb

    pattern = {"path": glob.escape(str(path))}
    _check_footer(path)
    try:
        with open_duckdb(path) as connection:
            # DuckDB takes age and Age for the same name and renames one: the file knows better.
            described = connection.execute(
                "DESCRIBE SELECT * FROM read_parquet($path)", pattern
            ).fetchall()
            labels = [row[0] for row in described]
            schema = connection.execute(
                "SELECT name, num_children FROM parquet_schema($path)", pattern
            ).fetchall()
            own = _top_level_names(schema)
            names = tuple(own) if len(own) == len(labels) else tuple(labels)
            positions = first_positions(names, only)
            quoted = ['"' + labels[i].replace('"', '""') + '"' for i in positions.values()]
            found_kinds = {name: described[i][1] for name, i in positions.items()}
            _refuse_nested(path, found_kinds)
            kinds = ["VARCHAR" if as_text else kind for kind in found_kinds.values()]
            check_memory(path, _measure_parquet(connection, pattern, quoted, kinds))
            if as_text:
                quoted = [f"CAST({label} AS VARCHAR)" for label in quoted]
            chosen = ", ".join(f"{label} AS c{i}" for i, label in enumerate(quoted))
            query = f"SELECT {chosen or '1 AS c0'} FROM read_parquet($path)"  # noqa: S608
            found = connection.execute(query, pattern).fetchnumpy()
    except duckdb.Error:
        raise UnreadableError(MALFORMED_PARQUET.of(path=path)) from None
    arrays = {name: from_array(found[f"c{i}"]) for i, name in enumerate(positions)}
    shown = tuple(name for name in names if not name.startswith("__index_level_"))
    return Columns(shown, arrays, len(found["c0"]))


def _check_footer(path: Path) -> None:
    """Refuse a Parquet file whose description of itself would fill the memory."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - 8, 0))
        n_bytes = int.from_bytes(file.read(4), "little")
    if n_bytes > MAX_FOOTER:
        raise UnreadableError(MALFORMED_PARQUET.of(path=path))


def _refuse_nested(path: Path, kinds: Mapping[str, str]) -> None:
    """Refuse columns of lists or records, which unfold as soon as they are looked at."""
    for name, kind in kinds.items():
        if kind.endswith("]") or kind.partition("(")[0] in _NESTED:
            raise UnreadableError(NESTED_COLUMN.of(name, path=path))


def _measure_parquet(
    connection: DuckDBPyConnection,
    pattern: dict[str, str],
    quoted: Sequence[str],
    kinds: Sequence[str],
) -> int:
    """Return the bytes that columns will take, from a pass that keeps nothing."""
    texts = [
        label
        for label, kind in zip(quoted, kinds, strict=True)
        if kind.partition("(")[0] not in _NUMBERS
    ]
    lengths = [_LENGTH.format(f"CAST({label} AS VARCHAR)") for label in texts]
    asked = ", ".join(["count(*)", *lengths])
    query = f"SELECT {asked} FROM read_parquet($path)"  # noqa: S608
    ((n_rows, *characters),) = connection.execute(query, pattern).fetchall()
    n_numbers = len(quoted) - len(texts)
    cells = n_rows * (len(texts) * TEXT_CELL + max(n_numbers, 1) * _NUMBER_CELL)
    return int(cells + sum(length or 0 for length in characters))


def _top_level_names(schema: Sequence[tuple[str, int | None]]) -> list[str]:
    """Return the columns of a Parquet schema, which lists a tree depth first."""
    names: list[str] = []
    open_children = 0
    for name, n_children in schema[1:]:
        if open_children == 0:
            names.append(name)
        else:
            open_children -= 1
        open_children += n_children or 0
    return names
