"""What a run must not forget, in one SQLite file.

Every :meth:`~fedrulefit.protocol.store.Memory.put` is one transaction, on disk
before it returns: a process killed at any moment finds it whole, or not at all.
The file holds keys of secure sums: only its owner may read it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fedrulefit.errors import FederationError
from fedrulefit.files import make_private_folder, touch_private

_TABLE: Final = (
    "CREATE TABLE entries ("
    "section TEXT, key TEXT, value BLOB, PRIMARY KEY (section, key)) WITHOUT ROWID"
)


class Journal:
    """Sections of durable memory in one file.

    Parameters
    ----------
    path : Path
        Made, with its folder, if it is not there.
    read_only : bool
        Look into the journal of another process, or of somebody else's record, and change
        nothing. A file that holds more than a journal's own table is refused: a view, a
        trigger or a computed column would be a program of whoever made it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._lock = threading.Lock()
        try:
            if not read_only:
                make_private_folder(path.parent)
                touch_private(path)
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rw'}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            if read_only:
                self._check_schema(path)
                return
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.execute(_TABLE.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        except (OSError, sqlite3.Error) as error:
            raise FederationError(f"cannot use the journal {path}: {error}") from None

    def _check_schema(self, path: Path) -> None:
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA cell_size_check = ON")
        found = self._connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT 2")
        if found.fetchall() != [("table", "entries", _TABLE)]:
            self._connection.close()
            raise FederationError(f"{path} is not a journal of fedrulefit")

    def section(self, name: str) -> Section:
        """Return one part of the journal, as a memory."""
        return Section(self, name)

    def get(self, section: str, key: str) -> bytes | None:
        """Return what was put under `key` of a section."""
        try:
            with self._lock:
                row = self._connection.execute(
                    "SELECT value FROM entries WHERE section = ? AND key = ?", (section, key)
                ).fetchone()
        except sqlite3.Error as error:
            raise FederationError(f"the journal cannot be read: {error}") from None
        if row is None:
            return None
        if not isinstance(row[0], bytes):
            raise FederationError(f"the journal's entry {key!r} is not one of fedrulefit's")
        return row[0]

    def put(self, sections: Mapping[str, Mapping[str, bytes | None]]) -> None:
        """Keep all entries of all sections, or none; None deletes."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for section, entries in sections.items():
                    for key, value in entries.items():
                        self._put_one(section, key, value)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _put_one(self, section: str, key: str, value: bytes | None) -> None:
        if value is None:
            self._connection.execute(
                "DELETE FROM entries WHERE section = ? AND key = ?", (section, key)
            )
        else:
            self._connection.execute(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (section, key, value)
            )

    def names(self, prefix: str) -> list[str]:
        """Return the names of all sections that begin with `prefix`."""
        with self._lock:
            rows = self._connection.execute("SELECT DISTINCT section FROM entries").fetchall()
        return sorted(name for (name,) in rows if name.startswith(prefix))

    def scrub(self) -> None:
        """Empty the write-ahead log: what was deleted is then in no file."""
        with self._lock:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


class Section:
    """One part of a :class:`Journal`: a :class:`~fedrulefit.protocol.store.Memory`."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`."""
        return self._journal.get(self._name, key)

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        """Keep all entries, or none of them; None deletes."""
        self._journal.put({self._name: entries})
