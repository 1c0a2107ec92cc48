"""Any source → raw columns: a CSV, Excel or Parquet file, a data frame, or names → arrays.

Leaves the site: nothing. Messages of the readers underneath quote cells, so
they are dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from fedrulefit.errors import DataError
from fedrulefit.table.columns import Columns
from fedrulefit.table.csv_file import read_csv
from fedrulefit.table.excel_file import read_workbook, split_sheet
from fedrulefit.table.findings import UnreadableError, error
from fedrulefit.table.frames import read_frame, read_mapping
from fedrulefit.table.parquet_file import read_parquet

Source: TypeAlias = str | Path | Mapping[str, Any] | Any
"""A path to CSV, Excel or Parquet, an eager data frame, or names → arrays."""

FILE_NOT_FOUND: Final = error("file-not-found", "the file {path} does not exist", "check the path")
NOT_A_FILE: Final = error("not-a-file", "{path} is a folder", "give the file itself")
FILE_UNREADABLE: Final = error(
    "file-unreadable", "{path} cannot be opened: {reason}", "check its permissions"
)
_WORKBOOKS: Final = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""The first bytes of Excel's newer and older format."""

_FOREIGN: Final = {
    "Stata": (b"<stata_dta>", b"q\x01", b"q\x02", b"r\x01", b"r\x02", b"s\x01", b"s\x02"),
    "SPSS": (b"$FL2", b"$FL3"),
    "SAS": (bytes(12) + b"\xc2\xea\x81\x60", b"HEADER RECORD*******"),
    "R": (b"RDX2\n", b"RDX3\n"),
    "Arrow": (b"ARROW1", b"FEA1"),
    "SQLite": (b"SQLite format 3",),
    "PDF": (b"%PDF",),
    "HTML": (b"<!doctype", b"<html", b"<table"),
    "XML": (b"<?xml",),
    "JSON": (b'{"', b"[{", b"[["),
}
"""The first bytes of files that are tables, but of another program; letters are lower or upper."""

_PACKED: Final = (b"BZh", b"\xfd7zX", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")
"""The first bytes of bzip2, xz, zstd, 7z and rar; gzip is read."""

_MAGIC: Final = 64
"""Bytes that tell what a file is."""

NO_SHEETS: Final = error(
    "no-sheets",
    "a sheet is named after the #, but {path} is no Excel workbook",
    "give the file alone",
)
EMPTY_FILE: Final = error("empty-file", "the file {path} is empty", "export the table again")
FOREIGN_FILE: Final = error(
    "foreign-file",
    "{path} is a file of {format}, which is not read here",
    "save the table as CSV in UTF-8, as Parquet or as an Excel workbook",
)
COMPRESSED_FILE: Final = error(
    "compressed-file", "{path} is compressed", "unpack it first, or use gzip (.csv.gz)"
)


def read_columns(
    source: Source, *, only: Collection[str] | None = None, where: str = "table"
) -> Columns:
    """Read a source into raw columns.

    Parameters
    ----------
    source : path, data frame, or mapping
        See :data:`Source`.
    only : collection of str, optional
        Names to read; the names of all columns are reported all the same.
    where : str
        What errors call a source that has no path.

    Raises
    ------
    UnreadableError
        Where there is no table to be read.
    """
    if isinstance(source, (str, Path)):
        return _read_file(Path(source), only)
    if isinstance(source, Mapping):
        return read_mapping(source, only, where)
    return read_frame(source, only, where)


def read_texts(path: Path, name: str) -> list[str | None]:
    """Return one column of a file as text, digit by digit: for identifiers.

    A number would lose digits beyond the fifteenth.
    """
    columns = _read_file(path, {name}, digits=True)
    if name not in columns.arrays:
        raise DataError(f"{path} has no column {name!r}: check the name")
    texts: list[str | None] = columns.arrays[name].tolist()
    return texts


def _read_file(path: Path, only: Collection[str] | None, *, digits: bool = False) -> Columns:
    """Read a file as what its first bytes say it is; numbers digit by digit, if told so."""
    path, sheet = split_sheet(path)
    magic = _read_magic(path)
    if not magic:
        raise UnreadableError(EMPTY_FILE.of(path=path))
    if magic.startswith(_WORKBOOKS):
        return read_workbook(path, sheet, only, digits=digits)
    if sheet is not None:
        raise UnreadableError(NO_SHEETS.of(path=path))
    if magic.startswith(b"PAR1"):
        return read_parquet(path, only, as_text=digits)
    if magic.startswith(_PACKED):
        raise UnreadableError(COMPRESSED_FILE.of(path=path))
    text = magic.lstrip().lower()
    for name, starts in _FOREIGN.items():
        if magic.startswith(starts) or text.startswith(starts):
            raise UnreadableError(FOREIGN_FILE.of(path=path, format=name))
    return read_csv(path, only)


def _read_magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAGIC)
    except FileNotFoundError:
        found = FILE_NOT_FOUND.of(path=path)
    except IsADirectoryError:
        found = NOT_A_FILE.of(path=path)
    except OSError as failure:
        found = FILE_UNREADABLE.of(path=path, reason=failure.strerror or "unknown reason")
    raise UnreadableError(found)
