"""An Excel workbook → raw columns, by calamine (the extra ``excel``).

A sheet's first row that is not empty holds the column names. Of a workbook with several filled
sheets one must be named: ``patients.xlsx#Sheet1``. Formulas count by the value that Excel saved,
and those in error as missing; dates become texts.

Leaves the site: nothing; calamine's own words are dropped.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.table.columns import Columns, Raw, as_text, first_positions
from fedrulefit.table.csv_file import NO_HEADER
from fedrulefit.table.findings import UnreadableError, error, list_names
from fedrulefit.table.size_limit import TEXT_CELL, check_memory

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

_CELL: Final = re.compile(rb'<c r="([A-Z]{1,3})([0-9]{1,7})"')
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
"""What stands in a workbook with a password, in the list of its parts."""

_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)
"""What is raised by a zip file that is damaged, locked, or packed in a way that Python cannot."""

_CHUNK: Final = 1 << 20

EXCEL_FILE: Final = error(
    "excel-file",
    "{path} is an Excel workbook, and what reads them is not installed",
    "install python-calamine (the extra 'excel' of fedrulefit), or save the sheet as 'CSV UTF-8'",
)
NOT_A_WORKBOOK: Final = error(
    "not-a-workbook",
    "{path} is a zip file, but no Excel workbook",
    "unpack it, and give the table that is in it",
)
DAMAGED_WORKBOOK: Final = error(
    "damaged-workbook",
    "{path} cannot be read as an Excel workbook",
    "open and save it once more as .xlsx, or save the sheet as 'CSV UTF-8'",
)
LOCKED_WORKBOOK: Final = error(
    "locked-workbook",
    "{path} is protected by a password",
    "save a copy without a password, or save the sheet as 'CSV UTF-8'",
)
WHICH_SHEET: Final = error(
    "which-sheet",
    "{path} has several sheets: {names}",
    "name the one with the patients after a #, as in {example}",
)
NO_SUCH_SHEET: Final = error(
    "no-such-sheet", "{path} has no sheet {name}", "give one of its sheets: {names}"
)
EMPTY_WORKBOOK: Final = error(
    "empty-workbook", "the sheets of {path} are empty", "export the table again"
)


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """Return a workbook and the sheet that is named after a ``#``, if any."""
    file, separator, sheet = path.name.rpartition("#")
    if not separator or path.exists():
        return path, None
    return path.with_name(file), sheet


def read_workbook(
    path: Path, sheet: str | None, only: Collection[str] | None, *, digits: bool = False
) -> Columns:
    """Read the columns asked for from one sheet; all as text, digit by digit, if told so."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ImportError:
        raise UnreadableError(EXCEL_FILE.of(path=path)) from None
    try:
        _check_parts(path)
        with CalamineWorkbook.from_path(path) as book:
            rows = _read_rows(path, book, sheet)
    except PasswordError:
        raise UnreadableError(LOCKED_WORKBOOK.of(path=path)) from None
    except (CalamineError, *_DAMAGED):
        raise UnreadableError(DAMAGED_WORKBOOK.of(path=path)) from None
    names = tuple(_plain(cell).strip() for cell in rows[0])
    if not any(names):
        raise UnreadableError(NO_HEADER.of(path=path))
    filled = [row for row in rows[1:] if any(cell != "" for cell in row)]
    arrays = {
        name: _column([row[i] for row in filled], digits=digits)
        for name, i in first_positions(names, only).items()
    }
    return Columns(names, arrays, len(filled))


def _check_parts(path: Path) -> None:
    """Refuse a zip file that is no workbook, and sheets too large to be unfolded.

    The reader makes room for every cell up to the farthest one.
    """
    if not zipfile.is_zipfile(path):
        check_memory(path, path.stat().st_size)
        if _ENCRYPTED in path.read_bytes():
            raise UnreadableError(LOCKED_WORKBOOK.of(path=path))
        return  # the older format, of at most 65,536 rows and 256 columns
    with zipfile.ZipFile(path) as parts:
        if "xl/workbook.xml" not in parts.namelist():
            raise UnreadableError(NOT_A_WORKBOOK.of(path=path))
        unpacked = sum(part.file_size for part in parts.infolist())
        check_memory(path, 2 * unpacked)
        for part in parts.infolist():
            if part.filename.startswith("xl/worksheets/"):
                check_memory(path, unpacked + _count_cells(parts, part) * TEXT_CELL)


def _count_cells(parts: zipfile.ZipFile, part: zipfile.ZipInfo) -> int:
    """Return the cells of the rectangle that a sheet spans, from the names of its cells."""
    width, height, rest = 0, 0, b""
    with parts.open(part) as file:
        while chunk := file.read(_CHUNK):
            for letters, number in set(_CELL.findall(rest + chunk)):
                column = 0
                for letter in letters:
                    column = column * 26 + letter - 64
                width, height = max(width, column), max(height, int(number))
            rest = chunk[-32:]
    return width * height


def _read_rows(path: Path, book: CalamineWorkbook, sheet: str | None) -> list[list[Any]]:
    names: Sequence[str] = book.sheet_names
    if sheet is not None:
        if sheet not in names:
            hint = list_names(names)
            raise UnreadableError(NO_SUCH_SHEET.of(path=path, name=repr(sheet), names=hint))
        names = [sheet]
    filled = {name: rows for name in names if (rows := book.get_sheet_by_name(name).to_python())}
    if not filled:
        raise UnreadableError(EMPTY_WORKBOOK.of(path=path))
    if len(filled) > 1:
        example = f"{path.name}#{next(iter(filled))}"
        raise UnreadableError(
            WHICH_SHEET.of(path=path, names=list_names(list(filled)), example=repr(example))
        )
    return next(iter(filled.values()))


def _column(cells: list[Any], *, digits: bool) -> Raw:
    """Return numbers where all cells are, else texts."""
    known = [cell for cell in cells if cell != ""]
    if not digits and all(isinstance(cell, (bool, int, float)) for cell in known):
        return np.array([np.nan if cell == "" else float(cell) for cell in cells], np.float64)
    return as_text([None if cell == "" else _plain(cell) for cell in cells])


def _plain(cell: Any) -> str:
    """Return a cell as Excel shows it: whole numbers without a point, dates as ISO 8601."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat(" ") if hasattr(cell, "hour") and hasattr(cell, "day") else str(cell)
