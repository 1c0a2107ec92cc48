"""A CSV file → raw columns of text, by DuckDB.

:mod:`fedrulefit.table.text_file` unpacks and recodes it before.

Leaves the site: nothing. DuckDB quotes the line that it cannot read, so its words are
dropped, and the line is looked for again and named by its number.
"""

from __future__ import annotations

import csv
import glob
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, TextIO

from fedrulefit.table.columns import Columns, Raw, first_positions, from_array
from fedrulefit.table.findings import UnreadableError, error
from fedrulefit.table.size_limit import TEXT_CELL, check_memory, open_duckdb
from fedrulefit.table.spelling import is_either
from fedrulefit.table.text_file import TextFile, open_text

DELIMITERS: Final = ",;\t|"

MAX_LINE: Final = 2**21
"""Most bytes of a line in a CSV file; DuckDB reads no longer ones."""

_COLUMN: Final = 10_000
"""Bytes that the reader takes for each column of a CSV file, read or not."""

_OPTIONS: Final = (
    "auto_detect = false, header = true, delim = $delimiter, quote = '\"', escape = '\"', "
    "nullstr = '', strict_mode = true, compression = 'none'"
)

NO_HEADER: Final = error(
    "no-header",
    "the first line of {path} holds no column names",
    "the first line must hold the column names",
)
RAGGED_ROW: Final = error(
    "ragged-row",
    "line {line} of {path} has {found} cells, the header has {columns}",
    "put cells that contain {delimiter} in double quotes, take out titles above the column names, "
    "or export again",
)
BAD_QUOTES: Final = error(
    "bad-quotes",
    "line {line} of {path} cannot be read: its double quotes do not match",
    'write a double quote inside a cell as "", or export again',
)
LONG_LINE: Final = error(
    "long-line",
    f"line {{line}} of {{path}} has over {MAX_LINE} characters",
    "export the table again, with one line for each patient",
)
MALFORMED_CSV: Final = error(
    "malformed-csv",
    "{path} cannot be read as CSV: its line ends are mixed, or a line is very long",
    "open and save it once more as 'CSV UTF-8'",
)


def read_csv(path: Path, only: Collection[str] | None) -> Columns:
    """Read the columns asked for, all of them as text."""
    with open_text(path) as text:
        return _read_text(path, text, only)


def _read_text(path: Path, text: TextFile, only: Collection[str] | None) -> Columns:
    """Read columns of plain UTF-8; `path` is what the file is called."""
    import duckdb

    delimiter, names = _read_header(path, text.path)
    positions = first_positions(names, only)
    if not positions:
        return Columns(names, {}, 0, findings=text.findings)
    cells = text.n_lines * len(positions) * TEXT_CELL + len(names) * _COLUMN
    check_memory(path, cells + text.n_bytes)
    types = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
    chosen = ", ".join(f"c{i}" for i in positions.values())
    # Only positions are pasted in; names and cells never are.
    query = f"SELECT {chosen} FROM read_csv($path, columns = {{{types}}}, {_OPTIONS})"  # noqa: S608
    try:
        with open_duckdb(path) as connection:
            # Brackets and stars in a file's name are not patterns.
            parameters = {"path": glob.escape(str(text.path)), "delimiter": delimiter}
            found = connection.execute(query, parameters).fetchnumpy()
    except duckdb.Error:
        # DuckDB quotes the line, so its words stop here.
        raise _explain(path, text.path, delimiter, len(names)) from None
    arrays = {name: from_array(found[f"c{i}"]) for name, i in positions.items()}
    if delimiter == ";":
        arrays = {name: _settle_commas(array) for name, array in arrays.items()}
    n_rows = next(iter(arrays.values())).size
    return Columns(names, arrays, n_rows, findings=text.findings)


def _settle_commas(raw: Raw) -> Raw:
    """Spell ``1,234`` as a decimal: where a semicolon separates cells, a comma is decimal."""
    settled: Raw = raw.copy()
    settled[:] = [text if text is None or not is_either(text) else f"{text}0" for text in raw]
    return settled


def _read_header(path: Path, text: Path) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter that cuts the header into most names, and the names."""
    best: tuple[str, tuple[str, ...]] = (DELIMITERS[0], ())
    for delimiter in DELIMITERS:
        with text.open(encoding="utf-8-sig", newline="") as file:
            lines = _short_lines(path, file)
            try:
                names = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
            except csv.Error:
                continue
        if len(names) > len(best[1]):
            best = (delimiter, tuple(name.strip() for name in names))
    if not any(best[1]):
        raise UnreadableError(NO_HEADER.of(path=path))
    return best


def _short_lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, if none is so long that it would fill the memory."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE and not line.endswith(("\n", "\r")):
            raise UnreadableError(LONG_LINE.of(path=path, line=number))
        yield line


def _explain(path: Path, text: Path, delimiter: str, n_columns: int) -> UnreadableError:
    """Find the line that cannot be read, and name only its number."""
    with text.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_short_lines(path, file), delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                if cells and len(cells) != n_columns:
                    facts = {
                        "found": len(cells),
                        "columns": n_columns,
                        "delimiter": repr(delimiter),
                    }
                    return UnreadableError(RAGGED_ROW.of(path=path, line=reader.line_num, **facts))
        except UnreadableError as unreadable:
            return unreadable
        except csv.Error:
            return UnreadableError(BAD_QUOTES.of(path=path, line=reader.line_num))
    return UnreadableError(MALFORMED_CSV.of(path=path))
