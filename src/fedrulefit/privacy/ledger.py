"""The site's own record of everything that left it.

One :class:`Release` per quantity that leaves, appended before it leaves. The
ledger belongs to the site's data set, across runs and studies; the coordinator
never sees it. Kept in memory, and as JSON lines where the site gives a file.

In the file every row carries the hash of the row before it and its own, so that
no row can be changed, moved or taken out unseen; only rows cut off at the end
need the last hash, noted elsewhere, to be missed. (A hospital's process notes it in
its journal, :mod:`fedrulefit.federation.site.kept`.)
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from fedrulefit.errors import LedgerError
from fedrulefit.files import touch_private

EXACT: Final = "exact"
"""Mechanism of a quantity that left without noise: its ε is infinite."""

FIRST: Final = "0" * 64
"""Stands for the row before the first."""


def now() -> str:
    """Return the time, as ledgers write it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Release:
    """One quantity of one message that left the site.

    Parameters
    ----------
    message, quantity : str
        The message's type, or the sum's, and its field.
    shape : tuple of int
        Numbers sent; () for a single one.
    mechanism : str
        Name and version of the noise mechanism, or ``"exact"``.
    epsilon : float or None
        ε of this release; None stands for "no bound" (exact).
    digest : str
        SHA-256 of the message's bytes.
    sensitivity, scale : float or None
        Of the noise: the most that one patient can change, and its scale.
    sum_of : int or None
        Sites of the secure sum inside which it left; None if it left openly.
    study, run : str
        Name of the study, and the run.
    step : int
        Of the run; counts every question.
    round : int or None
        Round of the fit, where there are rounds (the exact solver's are counted
        from the start of the run).
    recipient : str
        Who received it.
    time : str
        When, as the site's clock says; empty without a clock.
    """

    message: str
    quantity: str
    shape: tuple[int, ...]
    mechanism: str
    epsilon: float | None
    digest: str = ""
    sensitivity: float | None = None
    scale: float | None = None
    sum_of: int | None = None
    study: str = ""
    run: str = ""
    step: int = 0
    round: int | None = None
    recipient: str = "coordinator"
    time: str = ""

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Release:
        """Build a release from what :meth:`facts` gave, or a row that holds it."""
        known = {name: facts[name] for name in _FIELDS}
        return cls(**{**known, "shape": tuple(known["shape"])})

    def facts(self) -> dict[str, Any]:
        """Return all that the release says, as plain data."""
        return {**{name: getattr(self, name) for name in _FIELDS}, "shape": list(self.shape)}

    @property
    def protection(self) -> str:
        """How it was protected, in words."""
        if self.epsilon is not None:
            return f"ε = {self.epsilon:g} ({self.mechanism})"
        if self.sum_of is not None:
            return f"exact, inside a secure sum of {self.sum_of} sites"
        return "exact: ε = ∞" if self.mechanism == EXACT else f"ε = ∞ ({self.mechanism})"


_FIELDS: Final = tuple(field.name for field in fields(Release))


@dataclass
class Ledger:
    """Append-only list of releases.

    Parameters
    ----------
    path : Path or None
        JSON-lines file that every release is appended to; rows that it already
        holds are read and checked. One process at a time: others use
        ``read_rows``, which changes nothing.
    clock : callable or None
        Gives the time as text; the protocol itself has no clock.

    Raises
    ------
    LedgerError
        If the file's chain of hashes does not hold.
    """

    path: Path | None = None
    clock: Callable[[], str] | None = None
    releases: list[Release] = field(default_factory=list)
    last_hash: str = FIRST

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            drop_torn_row(self.path)
            for row in read_rows(self.path):
                self.releases.append(Release.from_facts(row))
                self.last_hash = row["hash"]
        # Added one after another, as in the file: `sum` may round otherwise.
        self._spent = 0.0
        for release in self.releases:
            self._spent += release.epsilon or 0.0
        self._digests = Counter(release.digest for release in self.releases)

    def date(self, releases: Iterable[Release]) -> list[Release]:
        """Return the releases with the time, where they have none."""
        listed = list(releases)
        time = self.clock() if self.clock is not None and listed else ""
        return [release if release.time else replace(release, time=time) for release in listed]

    def append(self, *releases: Release) -> None:
        """Record what one message holds, before it leaves: all of it, or nothing."""
        dated = self.date(releases)
        rows = self.next_rows(dated)
        if self.path is not None and rows:
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            _append(self.path, "".join(lines).encode())
        if rows:
            self.last_hash = rows[-1]["hash"]
            self._spent = rows[-1]["epsilon_so_far"]["add_or_remove_one"]
        self.releases.extend(dated)
        self._digests.update(release.digest for release in dated)

    def next_rows(self, releases: Sequence[Release]) -> list[dict[str, Any]]:
        """Return the rows that releases would get, were they appended now."""
        last, spent, rows = self.last_hash, self._spent, []
        for release in releases:
            spent += release.epsilon or 0.0
            rows.append(_row(release, spent, last))
            last = rows[-1]["hash"]
        return rows

    def count(self, digest: str) -> int:
        """Return how many rows tell of a message of these bytes."""
        return self._digests[digest]

    @property
    def epsilon(self) -> float:
        """ε of all noisy releases so far (they add up), for adding or removing a patient."""
        return self._spent

    def spent(self, study: str) -> float:
        """Return the ε of one study's noisy releases."""
        return sum(r.epsilon or 0.0 for r in self.releases if r.study == study)


def _append(path: Path, data: bytes) -> None:
    """Add to a file durably; if that fails, leave it as it was."""
    touch_private(path)
    with path.open("ab") as file:
        before = file.tell()
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                os.ftruncate(file.fileno(), before)
            raise


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a ledger file, each checked against the one before it.

    Raises
    ------
    LedgerError
        Naming the first row that does not hold.
    """
    last, spent = FIRST, 0.0
    try:
        # What stands after the last line's end is being written, or was torn off.
        lines = path.read_bytes().decode().split("\n")[:-1]
    except UnicodeDecodeError:
        raise LedgerError(f"{path} is not a ledger") from None
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            release = Release.from_facts(row)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise LedgerError(f"{path}: row {number} is not a row of a ledger") from None
        spent += release.epsilon or 0.0
        if row != _row(release, spent, last):
            raise LedgerError(
                f"{path}: row {number} was changed, or rows before it were moved or taken out: "
                "keep this file as evidence, and go on with a copy from before"
            )
        last = row["hash"]
        yield row


def _row(release: Release, spent: float, previous: str) -> dict[str, Any]:
    """Return the row of a release: its facts, the running ε, and the chain."""
    facts = {
        **release.facts(),
        "epsilon_so_far": {"add_or_remove_one": spent, "replace_one": 2 * spent},
        "previous": previous,
    }
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return {**facts, "hash": hashlib.sha256(text.encode()).hexdigest()}


def drop_torn_row(path: Path) -> None:
    """Cut off a last row that a power cut left unfinished: what it told of never left."""
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)
