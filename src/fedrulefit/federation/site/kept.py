"""A hospital's ledger, with its end kept in the journal.

A chain of hashes does not tell that its last rows were cut off, or that the whole file
is gone. So the journal keeps, in the very transaction that keeps a reply, where the
ledger will end (its *head*: number of rows, last hash, ε so far) and the rows that are
about to be appended. Hence, after a crash at any moment,

* a ledger that lacks (some of) those last rows is completed with them,
* one that differs in any other way was emptied, cut, replaced or lost, and nothing
  leaves until it is back,

and ε is counted by the journal as well: a deleted ledger gives no budget back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgpack

from fedrulefit.errors import LedgerError, ProtocolError
from fedrulefit.federation.journal import Journal, Section
from fedrulefit.privacy.ledger import FIRST, Ledger, Release, drop_torn_row, now, read_rows

log = logging.getLogger(__name__)

_SECTION: Final = "ledger"
_REPLY: Final = "reply/"
"""Key of a reply that a site keeps: what was asked, the bytes, and the ledger's rows."""


@dataclass(frozen=True)
class Head:
    """Where a ledger ends, or will once the rows that are due are written.

    Parameters
    ----------
    rows : int
    hash : str
        Of the last row.
    spent : mapping of str to float
        ε of each study.
    due : tuple of Release
        The last rows: those of the reply that was kept last.
    """

    rows: int = 0
    hash: str = FIRST
    spent: Mapping[str, float] = field(default_factory=dict)
    due: tuple[Release, ...] = ()

    @classmethod
    def read(cls, journal: Journal) -> Head | None:
        """Return the head that a journal keeps, None before the first."""
        kept = journal.get(_SECTION, "head")
        if kept is None:
            return None
        rows, last, spent, due = msgpack.unpackb(kept)
        return cls(rows, last, spent, tuple(map(Release.from_facts, due)))

    def pack(self) -> bytes:
        """Return the head as bytes."""
        due = [release.facts() for release in self.due]
        data: bytes = msgpack.packb([self.rows, self.hash, dict(self.spent), due])
        return data

    @property
    def epsilon(self) -> float:
        """ε of all studies."""
        return sum(self.spent.values())

    def explain(self, path: Path, rows: int, last: str) -> str | None:
        """Say what is wrong with a ledger of so many rows and that last hash; None if nothing.

        A ledger without (some of) the rows that are due is unfinished, not wrong.
        """
        if not path.exists() and self.rows > len(self.due):
            wrong = "is missing"
        elif rows < self.rows - len(self.due):
            wrong = f"was emptied or cut: it has {rows} rows of at least {self.rows}"
        elif rows > self.rows:
            wrong = f"has {rows} rows, but the journal beside it knows of {self.rows}"
        elif rows == self.rows and last != self.hash:
            wrong = "is not the one that was written here"
        else:
            return None
        return (
            f"{path} {wrong}. What has left stays spent, and nothing more leaves. Keep what is "
            "there as evidence, and bring ledger.jsonl and journal.sqlite back together, from "
            "the same backup"
        )


class KeptLedger(Ledger):
    """A ledger file whose head is kept in a journal.

    Parameters
    ----------
    path : Path
    journal : Journal
    clock : callable, optional
        Gives the time as text.

    Raises
    ------
    LedgerError
        If the file is missing, was emptied, cut or replaced, or its chain does not hold.
    """

    def __init__(
        self, path: Path, journal: Journal, clock: Callable[[], str] | None = None
    ) -> None:
        super().__init__(path, clock)
        self._file, self._journal = path, journal
        self._lock = threading.RLock()
        self._due: list[Release] = []
        head = Head.read(journal)
        if head is None:  # a new folder, or one from before heads were kept
            head = Head(len(self.releases), self.last_hash, _spend({}, self.releases))
            journal.put({_SECTION: {"head": head.pack()}})
        self._head = head
        self._complete()
        self._seen = self._look()

    def _complete(self) -> None:
        """Append what a crash left unwritten."""
        head, rows = self._head, len(self.releases)
        wrong = head.explain(self._file, rows, self.last_hash)
        if wrong is not None:
            raise LedgerError(wrong)
        missing = head.due[len(head.due) - (head.rows - rows) :] if rows < head.rows else ()
        if missing and self.next_rows(missing)[-1]["hash"] != head.hash:
            raise LedgerError(head.explain(self._file, head.rows, "") or "")
        super().append(*missing)

    def keep(
        self, releases: Sequence[Release], sections: Mapping[str, Mapping[str, bytes | None]]
    ) -> None:
        """Keep entries of the journal, and with them the rows that are about to be appended."""
        with self._lock:
            if not releases:
                self._journal.put(sections)
                return
            self._check_file()
            due = (*self._due, *releases)
            rows = self.next_rows(due)
            head = Head(
                rows=len(self.releases) + len(due),
                hash=rows[-1]["hash"],
                spent=_spend(self._head.spent, releases),
                due=due,
            )
            self._journal.put({**sections, _SECTION: {"head": head.pack()}})
            self._head, self._due = head, list(due)

    def append(self, *releases: Release) -> None:
        """Record what was kept, in the order in which it was; and anything else after it."""
        with self._lock:
            self.keep([r for r in self.date(releases) if r not in self._due], {})
            super().append(*self._due)
            self._due = []
            self._seen = self._look()

    @property
    def epsilon(self) -> float:
        """ε of all noisy releases so far, by the file or the journal, whichever says more."""
        return max(super().epsilon, self._head.epsilon)

    def spent(self, study: str) -> float:
        """Return the ε of one study's noisy releases, by whichever says more."""
        return max(super().spent(study), self._head.spent.get(study, 0.0))

    def _check_file(self) -> None:
        """Refuse to go on with a file that is not as this process left it."""
        if self._look() == self._seen:
            return
        found, last = 0, FIRST
        try:
            if self._file.exists():
                drop_torn_row(self._file)
                for row in read_rows(self._file):
                    found, last = found + 1, row["hash"]
            whole = (found, last) == (len(self.releases), self.last_hash)
        except (OSError, LedgerError):
            whole = False
        if not whole:
            log.error(
                "%s was changed, cut or taken away while the site ran: nothing leaves until it "
                "is back as it was",
                self._file,
            )
            raise ProtocolError(
                "the site's ledger is missing or was changed: nothing leaves until it is back",
                "ledger",
            )
        self._seen = self._look()

    def _look(self) -> tuple[int, ...] | None:
        """Return what changes whenever somebody touches the file."""
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class RunMemory(Section):
    """A run's part of the journal; a reply is kept together with its rows of the ledger."""

    def __init__(self, journal: Journal, name: str, ledger: KeptLedger) -> None:
        super().__init__(journal, name)
        self._ledger = ledger

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        """Keep all entries, or none of them; None deletes."""
        replies = [
            value for key, value in entries.items() if key.startswith(_REPLY) and value is not None
        ]
        releases = [Release.from_facts(row) for data in replies for row in msgpack.unpackb(data)[2]]
        self._ledger.keep(releases, {self._name: {**entries, "seen": now().encode()}})


def _spend(spent: Mapping[str, float], releases: Sequence[Release]) -> dict[str, float]:
    """Add the ε of releases to that of each study."""
    total = dict(spent)
    for release in releases:
        if release.epsilon:
            total[release.study] = total.get(release.study, 0.0) + release.epsilon
    return total
