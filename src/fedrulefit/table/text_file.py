"""A file of text, packed or in another encoding → the same in UTF-8.

In: a path. Out: a path to plain UTF-8: the file itself, or a copy in memory where it is packed by
gzip, UTF-16 (Excel's "Unicode text"), or neither and then read as Windows-1252, as Excel writes
CSV in Western Europe. That last is a guess, and said.

Leaves the site: nothing.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from fedrulefit.files import passing_file
from fedrulefit.table.findings import Finding, UnreadableError, error, warning
from fedrulefit.table.size_limit import check_memory

_CHUNK: Final = 1 << 22
_GZIP: Final = b"\x1f\x8b"
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

NOT_UTF_8: Final = error(
    "not-utf-8", "{path} is not UTF-8", "save it as UTF-8 (in Excel: 'CSV UTF-8')"
)
GUESSED_ENCODING: Final = warning(
    "guessed-encoding",
    "{path} is not UTF-8 and was read as Windows-1252 (Western European)",
    "check that letters with accents are right in names and levels, or save it as UTF-8 "
    "(in Excel: 'CSV UTF-8')",
)
DAMAGED_GZIP: Final = error(
    "damaged-gzip", "{path} cannot be unpacked: it is damaged or cut off", "copy it again"
)


@dataclass(frozen=True)
class TextFile:
    """A file of plain UTF-8.

    Parameters
    ----------
    path : Path
        Where it can be read, for as long as it is open.
    n_lines, n_bytes : int
        Its lines, and the bytes of its text in Python, or a few more.
    findings : tuple of Finding
        What was guessed to read it.
    """

    path: Path
    n_lines: int
    n_bytes: int
    findings: tuple[Finding, ...] = ()


@contextmanager
def open_text(path: Path) -> Iterator[TextFile]:
    """Give a file as plain UTF-8; what has to be unpacked or recoded is kept in memory only.

    Raises
    ------
    UnreadableError
        If it is no text, damaged, or too large.
    """
    with path.open("rb") as file:
        magic = file.read(2)
    if magic != _GZIP and magic not in _UTF_16:
        sizes = _measure(path)
        if sizes is not None:
            yield TextFile(path, *sizes)
            return
    data, findings = _recode(path, _read_whole(path, packed=magic == _GZIP))
    with passing_file(data) as name:
        sizes = _measure(Path(name))
        if sizes is None:
            raise UnreadableError(NOT_UTF_8.of(path=path))
        yield TextFile(Path(name), *sizes, findings)


def _read_whole(path: Path, *, packed: bool) -> bytes:
    """Return what is in a file; a small one can unpack to more than the memory holds."""
    parts, n_bytes = [], 0
    try:
        with path.open("rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if packed else raw
            while chunk := file.read(_CHUNK):
                n_bytes += len(chunk)
                check_memory(path, 2 * n_bytes)
                parts.append(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UnreadableError(DAMAGED_GZIP.of(path=path)) from None
    return b"".join(parts)


def _recode(path: Path, data: bytes) -> tuple[bytes, tuple[Finding, ...]]:
    """Return text in UTF-8, and what was guessed."""
    try:
        if data[:2] in _UTF_16:
            return data.decode("utf-16").encode(), ()
        if b"\0" in data:
            raise UnreadableError(NOT_UTF_8.of(path=path))
        try:
            data.decode("utf-8")
        except UnicodeError:
            return data.decode("cp1252").encode(), (GUESSED_ENCODING.of(path=path),)
    except UnicodeError:
        raise UnreadableError(NOT_UTF_8.of(path=path)) from None
    return data, ()


def _measure(path: Path) -> tuple[int, int] | None:
    """Return the lines of a file and the bytes of its text, or None if it is not UTF-8.

    Python gives every character of a text as many bytes as the widest one needs.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    n_lines, n_characters, largest = 1, 0, 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                n_characters += len(decoder.decode(chunk))
                text = np.frombuffer(chunk.removeprefix(codecs.BOM_UTF8), np.uint8)
                largest = max(largest, int(text.max(initial=0)))
                n_lines += max(chunk.count(b"\n"), chunk.count(b"\r"))
                if b"\0" in chunk:
                    return None
            decoder.decode(b"", final=True)
    except UnicodeError:
        return None
    # The first byte of a character in UTF-8 tells how wide it is.
    return n_lines, n_characters * (4 if largest >= 0xF0 else 2 if largest >= 0xC4 else 1)
