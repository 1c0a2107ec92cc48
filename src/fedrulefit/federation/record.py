"""The record of a run: a file with its questions and its sites' signed replies."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fedrulefit.errors import FederationError
from fedrulefit.federation.coordinator.runs import read_run_request, run_folders
from fedrulefit.model.file import MAX_BYTES

FILES: Final = ("run.json", "study.toml", "journal.sqlite")
"""What a record holds: the run's own files."""

MODEL: Final = "model.json"
"""And this one, if the run is finished."""

MOST_BYTES: Final = {
    "run.json": 2**20,
    "study.toml": 2**20,
    "journal.sqlite": 8 * 2**30,
    "model.json": MAX_BYTES,
}
"""Most bytes of each file of a record."""

MOST_RATIO: Final = 100
"""How often a file may be larger than what it takes in the record, beyond `_SMALL` bytes."""

_SMALL: Final = 2**26
_ZIP_ERRORS: Final = (zipfile.BadZipFile, zlib.error)


def write_record(folder: Path, path: Path) -> None:
    """Write the record of a run, as far as it is.

    Parameters
    ----------
    folder : Path
        The run's, at the coordinator.
    path : Path
        The file to write.

    Raises
    ------
    FederationError
        If there is no such run, or the file cannot be written.
    """
    if not (folder / "run.json").exists():
        known = ", ".join(path.name for path in run_folders(folder.parent.parent)) or "none"
        raise FederationError(f"there is no run {folder.name!r}; there are: {known}")
    if not (folder / "journal.sqlite").exists():
        raise FederationError(f"run {folder.name!r} has not asked anything yet")
    names = (*FILES, MODEL) if (folder / MODEL).exists() else FILES
    try:
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            copy = Path(scratch) / "journal.sqlite"
            _copy_journal(folder / "journal.sqlite", copy)
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as record:
                for name in names:
                    record.write(copy if name == "journal.sqlite" else folder / name, name)
    except OSError as error:
        raise FederationError(f"cannot write {path}: {error.strerror}") from None
    path.chmod(0o600)


def _copy_journal(source: Path, target: Path) -> None:
    """Copy a journal that may be in use."""
    with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()


@contextmanager
def unpacked(record: Path) -> Iterator[Path]:
    """Unpack a record's own files, and nothing else, into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            with zipfile.ZipFile(record) as archive:
                names = (*FILES, MODEL) if MODEL in archive.namelist() else FILES
                for name in names:
                    _check_entry(archive.getinfo(name))
                    with archive.open(name) as source, (folder / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
            read_run_request(folder)
        # Whatever a hostile archive or file can make the readers underneath say.
        except (OSError, LookupError, ValueError, RuntimeError, EOFError, *_ZIP_ERRORS) as error:
            why = f" ({error})" if isinstance(error, _EntryError) else ""
            raise FederationError(
                f"{record} is not the record of a run{why}: 'fedrulefit federation record' writes "
                "them"
            ) from None
        yield folder


class _EntryError(ValueError):
    """A file of a record is not one that we wrote."""


def _check_entry(entry: zipfile.ZipInfo) -> None:
    """Refuse a file that is locked, packed in an odd way, or would fill disk or memory."""
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _EntryError(f"its {entry.filename} is encrypted, or packed in an unknown way")
    most = min(MOST_BYTES[entry.filename], _SMALL + MOST_RATIO * entry.compress_size)
    if entry.file_size > most:
        raise _EntryError(f"its {entry.filename} would take {entry.file_size} bytes")
