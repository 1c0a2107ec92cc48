"""Any source → raw columns: reading files and frames, numbers and levels.

In: a CSV or Parquet file, a data frame, or a mapping from names to arrays. Out:
:class:`Columns` of floats or text. What the columns must hold is for
:mod:`fedrulefit.table.check` to check.

A small file can hold a large table: a text of 100 kB, repeated, takes a few bytes
in Parquet. So what a table will take is computed before it is read, from its numbers
of rows and columns and the lengths of its texts, and one over :func:`table_limit`
is refused.

Leaves the site: nothing. Messages of the readers underneath quote cells, so
they are dropped.
"""

from __future__ import annotations

import codecs
import csv
import glob
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.errors import DataError
from fedrulefit.study import Level, level_key

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Source: TypeAlias = str | Path | Mapping[str, Any] | Any
"""A path to CSV or Parquet, an eager data frame, or names → arrays."""

Raw: TypeAlias = npt.NDArray[Any]
"""One column as read, shape (n_rows,): float64 with NaN, or object with str and None."""

MISSING_WORDS: Final = frozenset({"", "na", "nan", "n/a", "null", "none", "."})
"""Texts that stand for a missing value, in lower case, unless they are a declared level."""

DELIMITERS: Final = ",;\t|"

_CSV_OPTIONS: Final = (
    "auto_detect = false, header = true, delim = $delimiter, quote = '\"', escape = '\"', "
    "nullstr = '', strict_mode = true"
)

LIMIT: Final = "FEDRULEFIT_MAX_TABLE_MB"
"""Name of the environment variable that says how much memory a table may take."""

DEFAULT_LIMIT: Final = 4096
MAX_LINE: Final = 2**21
"""Most bytes of a line in a CSV file; DuckDB reads no longer ones."""

MAX_FOOTER: Final = 2**26
"""Most bytes of what a Parquet file says about itself."""

_TEXT_CELL: Final = 64
"""Bytes that a cell of text takes beyond its characters."""

_NUMBER_CELL: Final = 24
_CSV_COLUMN: Final = 10_000
"""Bytes that the reader takes for each column of a CSV file, read or not."""

_NUMBERS: Final = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
)  # fmt: skip

_NESTED: Final = ("STRUCT", "MAP", "UNION", "VARIANT")

_LENGTH: Final = (
    "sum(CASE WHEN strlen({0}) = length({0}) THEN strlen({0}) ELSE 4 * length({0}) END)"
)
"""Bytes of texts in Python: up to four per character where one is not ASCII."""

_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")

_UNKNOWN: Final = -1.0

_Code = TypeVar("_Code")

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing about a table that its owner should know.

    Parameters
    ----------
    severity : {"error", "warning"}
        An error keeps the site from taking part.
    code : str
        Stable name in kebab-case, for programs.
    column : str or None
        The column it is about; None for the table as a whole.
    message : str
        What is wrong, with counts.
    advice : str
        What to do.
    """

    severity: Severity
    code: str
    column: str | None
    message: str
    advice: str

    def __str__(self) -> str:
        """Return the finding on one line."""
        prefix = "" if self.column is None else f"column {self.column!r}: "
        return f"{prefix}{self.message}; {self.advice}"


@dataclass(frozen=True, eq=False)
class Columns:
    """A table as read: names in their order and the columns asked for."""

    names: tuple[str, ...]
    """As they stand in the source, duplicates included."""
    arrays: Mapping[str, Raw]
    """By name; of columns with the same name, the first."""
    n_rows: int

    @property
    def duplicates(self) -> tuple[str, ...]:
        """Names that occur more than once; unnamed columns do not count."""
        return tuple(name for name, n in Counter(self.names).items() if n > 1 and name)


class UnreadableError(DataError):
    """The source cannot be read as a table at all."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def error_finding(code: str, column: str | None, message: str, advice: str) -> Finding:
    """Return a finding that keeps the site from taking part."""
    return Finding("error", code, column, message, advice)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column read as numbers: NaN where missing or not a number."""

    values: Floats
    n_not_number: int
    n_decimal_comma: int

    @property
    def n_infinite(self) -> int:
        """How many values are infinite."""
        return int(np.isinf(self.values).sum())


def parse_numbers(raw: Raw) -> Numbers:
    """Read a column as numbers; nothing is guessed."""
    if raw.dtype == np.float64:
        return Numbers(raw, 0, 0)
    try:
        values = raw.astype(np.float64)
        # Python takes "1_000" for a number.
        clean = not any("_" in text for text in raw if text is not None)
    except ValueError:
        clean = False
    if clean:
        return Numbers(values, 0, 0)
    codes, texts = factorise(raw)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    lookup = np.full(len(texts) + 1, np.nan)
    n_not_number = n_decimal_comma = 0
    for position, text in enumerate(str(text).strip() for text in texts):
        if text.casefold() in MISSING_WORDS:
            continue
        try:
            lookup[position] = float("bad" if "_" in text else text)
        except ValueError:
            n = int(counts[position])
            if _DECIMAL_COMMA.fullmatch(text):
                n_decimal_comma += n
            else:
                n_not_number += n
    return Numbers(lookup[codes], n_not_number, n_decimal_comma)


def match_levels(raw: Raw, levels: Sequence[Level]) -> tuple[Floats, int]:
    """Return each row's position in `levels`, NaN where missing, and how many are unknown.

    Unknown rows are NaN, too.
    """
    keys = {level_key(level): float(i) for i, level in enumerate(levels)}
    keys |= boolean_aliases(keys)
    missing = MISSING_WORDS - {key.casefold() for key in keys}
    codes, uniques = factorise(raw)
    lookup = np.full(len(uniques) + 1, np.nan)
    for position, value in enumerate(uniques):
        key = level_key(value)
        if key in keys:
            lookup[position] = keys[key]
        elif key.casefold() not in missing:
            lookup[position] = _UNKNOWN
    positions = lookup[codes]
    unknown = positions == _UNKNOWN
    positions[unknown] = np.nan
    return positions, int(unknown.sum())


def boolean_aliases(keys: Mapping[str, _Code]) -> dict[str, _Code]:
    """Let true/false stand for 1/0 and back, where the study has only one of the pairs."""
    if set(keys) == {"0", "1"}:
        return {"false": keys["0"], "true": keys["1"]}
    if set(keys) == {"false", "true"}:
        return {"0": keys["false"], "1": keys["true"]}
    return {}


def factorise(raw: Raw) -> tuple[npt.NDArray[np.intp], Raw]:
    """Return codes and distinct values; missing has the code -1, the last of a lookup."""
    codes, uniques = pd.factorize(raw)
    return codes, np.asarray(uniques)


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
        return _read_mapping(source, only, where)
    return _read_frame(source, only, where)


def read_texts(path: Path, name: str) -> list[str | None]:
    """Return one column of a file as text, digit by digit: for identifiers.

    A number would lose digits beyond the fifteenth.
    """
    columns = read_columns(path, only={name}, where=str(path))
    if name not in columns.arrays:
        raise DataError(f"{path} has no column {name!r}: check the name")
    if columns.arrays[name].dtype == np.float64:
        columns = _read_parquet(path, {name}, as_text=True)
    texts: list[str | None] = columns.arrays[name].tolist()
    return texts


def _unreadable(code: str, message: str, advice: str) -> UnreadableError:
    return UnreadableError(error_finding(code, None, message, advice))


def _wanted(names: Sequence[str], only: Collection[str] | None) -> dict[str, int]:
    """Return name → first position, for named columns that are asked for."""
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        if name and (only is None or name in only):
            positions.setdefault(name, position)
    return positions


def table_limit() -> int:
    """Return how many bytes a table may take in memory."""
    text = os.environ.get(LIMIT, str(DEFAULT_LIMIT))
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise DataError(f"the environment variable {LIMIT} must be a number of megabytes")
    return int(text) * 10**6


def _check_memory(path: Path, needed: int) -> None:
    """Refuse a table that would take too much memory, before it is read."""
    if needed > table_limit():
        raise _too_large(path, f"would take about {needed / 1e6:,.0f} MB of memory")


def _too_large(path: Path, how: str) -> UnreadableError:
    return _unreadable(
        "too-large",
        f"{path} {how}, of at most {table_limit() / 1e6:,.0f} MB",
        "leave out columns and texts that the study does not need, or raise the limit by "
        f"setting the environment variable {LIMIT}",
    )


def _read_file(path: Path, only: Collection[str] | None) -> Columns:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise _unreadable(
            "file-not-found", f"the file {path} does not exist", "check the path"
        ) from None
    except IsADirectoryError:
        raise _unreadable("not-a-file", f"{path} is a folder", "give the file itself") from None
    except OSError as error:
        reason = error.strerror or "unknown reason"
        raise _unreadable(
            "file-unreadable", f"{path} cannot be opened: {reason}", "check its permissions"
        ) from None
    if not magic:
        raise _unreadable("empty-file", f"the file {path} is empty", "export the table again")
    if magic == b"PAR1":
        return _read_parquet(path, only)
    if magic in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        raise _unreadable(
            "excel-file", f"{path} looks like an Excel workbook", "save it as 'CSV UTF-8'"
        )
    if magic[:2] == b"\x1f\x8b":
        raise _unreadable("compressed-file", f"{path} is compressed", "unpack it first")
    return _read_csv(path, only)


@contextmanager
def _duckdb() -> Iterator[DuckDBPyConnection]:
    """Open DuckDB in memory: no spill to disk, nothing fetched from the network."""
    import duckdb

    connection = duckdb.connect(
        config={
            "temp_directory": "",
            "memory_limit": f"{max(table_limit() // 10**6, 64)}MB",
            "threads": "2",  # each has buffers of its own
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    try:
        connection.execute("SET enable_progress_bar = false")
        yield connection
    finally:
        connection.close()


def _read_csv(path: Path, only: Collection[str] | None) -> Columns:
    import duckdb

    n_lines, n_bytes = _check_utf8(path)
    delimiter, names = _read_csv_header(path)
    positions = _wanted(names, only)
    if not positions:
        return Columns(names, {}, 0)
    cells = n_lines * len(positions) * _TEXT_CELL + len(names) * _CSV_COLUMN
    _check_memory(path, cells + n_bytes)
    types = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
    chosen = ", ".join(f"c{i}" for i in positions.values())
    # Only positions are pasted in; names and cells never are.
    query = f"SELECT {chosen} FROM read_csv($path, columns = {{{types}}}, {_CSV_OPTIONS})"  # noqa: S608
    try:
        with _duckdb() as connection:
            # Brackets and stars in a file's name are not patterns.
            parameters = {"path": glob.escape(str(path)), "delimiter": delimiter}
            found = connection.execute(query, parameters).fetchnumpy()
    except duckdb.OutOfMemoryException:
        raise _too_large(path, "takes too much memory") from None
    except duckdb.Error:
        # DuckDB quotes the line, so its words stop here.
        raise _explain_csv(path, delimiter, len(names)) from None
    arrays = {name: from_array(found[f"c{i}"]) for name, i in positions.items()}
    return Columns(names, arrays, next(iter(arrays.values())).size)


def _check_utf8(path: Path) -> tuple[int, int]:
    """Refuse a file that is not UTF-8; return its lines and the bytes of its text, or a few more.

    Python gives every character of a text as many bytes as the widest one needs.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    n_lines, n_characters, largest = 1, 0, 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 22):
                n_characters += len(decoder.decode(chunk))
                text = np.frombuffer(chunk.removeprefix(codecs.BOM_UTF8), np.uint8)
                largest = max(largest, int(text.max(initial=0)))
                n_lines += max(chunk.count(b"\n"), chunk.count(b"\r"))
                if b"\0" in chunk:
                    raise UnicodeError
            decoder.decode(b"", final=True)
            # The first byte of a character in UTF-8 tells how wide it is.
            return n_lines, n_characters * (4 if largest >= 0xF0 else 2 if largest >= 0xC4 else 1)
    except UnicodeError:
        raise _unreadable(
            "not-utf-8",
            f"{path} is not UTF-8",
            "save it as UTF-8 (in Excel: 'CSV UTF-8')",
        ) from None


def _read_csv_header(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter that cuts the header into most names, and the names."""
    best: tuple[str, tuple[str, ...]] = (DELIMITERS[0], ())
    for delimiter in DELIMITERS:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = _short_lines(path, file)
            try:
                names = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
            except csv.Error:
                continue
        if len(names) > len(best[1]):
            best = (delimiter, tuple(name.strip() for name in names))
    if not any(best[1]):
        raise _unreadable(
            "no-header",
            f"the first line of {path} holds no column names",
            "the first line must hold the column names",
        )
    return best


def _short_lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, if none is so long that it would fill the memory."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE and not line.endswith(("\n", "\r")):
            raise _unreadable(
                "long-line",
                f"line {number} of {path} has over {MAX_LINE} characters",
                "export the table again, with one line for each patient",
            )
        yield line


def _explain_csv(path: Path, delimiter: str, n_columns: int) -> UnreadableError:
    """Find the line that cannot be read, and name only its number."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_short_lines(path, file), delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                if cells and len(cells) != n_columns:
                    return _unreadable(
                        "ragged-row",
                        f"line {reader.line_num} of {path} has {len(cells)} cells, the header "
                        f"has {n_columns}",
                        f"put cells that contain {delimiter!r} in double quotes, or export again",
                    )
        except UnreadableError as error:
            return error
        except csv.Error:
            return _unreadable(
                "bad-quotes",
                f"line {reader.line_num} of {path} cannot be read: its double quotes do not match",
                'write a double quote inside a cell as "", or export again',
            )
    return _unreadable(
        "malformed-csv",
        f"{path} cannot be read as CSV: its line ends are mixed, or a line is very long",
        "open and save it once more as 'CSV UTF-8'",
    )


def _read_parquet(path: Path, only: Collection[str] | None, *, as_text: bool = False) -> Columns:
    import duckdb

    pattern = {"path": glob.escape(str(path))}
    _check_footer(path)
    try:
        with _duckdb() as connection:
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
            positions = _wanted(names, only)
            quoted = ['"' + labels[i].replace('"', '""') + '"' for i in positions.values()]
            found_kinds = {name: described[i][1] for name, i in positions.items()}
            _refuse_nested(path, found_kinds)
            kinds = ["VARCHAR" if as_text else kind for kind in found_kinds.values()]
            _check_memory(path, _measure_parquet(connection, pattern, quoted, kinds))
            if as_text:
                quoted = [f"CAST({label} AS VARCHAR)" for label in quoted]
            chosen = ", ".join(f"{label} AS c{i}" for i, label in enumerate(quoted))
            query = f"SELECT {chosen or '1 AS c0'} FROM read_parquet($path)"  # noqa: S608
            found = connection.execute(query, pattern).fetchnumpy()
    except duckdb.OutOfMemoryException:
        raise _too_large(path, "takes too much memory") from None
    except duckdb.Error:
        raise _unreadable(
            "malformed-parquet", f"{path} cannot be read as Parquet", "export the table again"
        ) from None
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
        raise _unreadable(
            "malformed-parquet", f"{path} cannot be read as Parquet", "export the table again"
        )


def _refuse_nested(path: Path, kinds: Mapping[str, str]) -> None:
    """Refuse columns of lists or records, which unfold as soon as they are looked at."""
    for name, kind in kinds.items():
        if kind.endswith("]") or kind.partition("(")[0] in _NESTED:
            raise UnreadableError(
                error_finding(
                    "nested-column",
                    name,
                    f"its cells in {path} hold lists or records",
                    "export one value per patient and column",
                )
            )


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
    cells = n_rows * (len(texts) * _TEXT_CELL + max(n_numbers, 1) * _NUMBER_CELL)
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


def _read_mapping(source: Mapping[str, Any], only: Collection[str] | None, where: str) -> Columns:
    names = tuple(str(name) for name in source)
    values = list(source.values())
    positions = _wanted(names, only)
    arrays = {name: _from_any(name, values[i], where) for name, i in positions.items()}
    sizes = {array.size for array in arrays.values()}
    if len(sizes) > 1:
        raise _unreadable(
            "unequal-lengths",
            f"the columns of the {where} differ in length",
            "give every column one value per patient",
        )
    return Columns(names, arrays, sizes.pop() if sizes else 0)


def _read_frame(source: Any, only: Collection[str] | None, where: str) -> Columns:
    names: tuple[str, ...] | None = None
    if isinstance(source, pd.DataFrame):
        # narwhals refuses duplicated names, which we want to report.
        names = tuple(str(name).strip() for name in source.columns)
        source = source.set_axis([f"c{i}" for i in range(len(names))], axis=1)
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        raise _unreadable(
            "unknown-source",
            f"the {where} is a {type(source).__name__}, which is not a table",
            "give a path to CSV or Parquet, an eager data frame (pandas, polars, …), "
            "or a mapping from names to arrays",
        ) from None
    keys = frame.columns
    names = names or tuple(name.strip() for name in keys)
    arrays = {name: _from_series(frame[keys[i]]) for name, i in _wanted(names, only).items()}
    return Columns(names, arrays, len(frame))


def _from_any(name: str, values: Any, where: str) -> Raw:
    if not isinstance(values, np.ndarray):
        try:
            return _from_series(nw.from_native(values, series_only=True))
        except TypeError:
            # pandas knows lists, categoricals and its own nullable arrays.
            return _from_series(nw.from_native(pd.Series(values), series_only=True))
    if values.ndim != 1:
        raise _unreadable(
            "not-a-column",
            f"column {name!r} of the {where} has {values.ndim} dimensions",
            "give one value per patient",
        )
    return from_array(values)


def _from_series(series: Any) -> Raw:
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return from_array(series.cast(nw.Float64).to_numpy())
    return _as_text(series.to_list())


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
    text = _as_text(plain)
    text[hidden] = None
    return text


def _as_text(values: Sequence[Any] | Raw) -> Raw:
    """Return an object array of str, and None where pandas sees a missing value."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    missing = np.asarray(pd.isna(cells), dtype=bool)
    if pd.api.types.infer_dtype(cells[~missing], skipna=False) not in ("string", "empty"):
        cells[:] = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in cells]
    cells[missing] = None
    return cells
