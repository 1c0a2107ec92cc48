"""The journal: whole or not at all, and nobody else's to read."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation.journal import Journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


def test_what_was_put_is_there_after_a_restart(path: Path) -> None:
    journal = Journal(path)
    memory = journal.section("run 1")
    memory.put({"a": b"1", "b": b"\0\xff", "empty": b""})
    memory.put({"a": b"2", "b": None, "never": None})
    journal.close()
    again = Journal(path).section("run 1")
    assert again.get("a") == b"2"
    assert again.get("b") is None
    assert again.get("empty") == b""
    assert again.get("never") is None


def test_sections_do_not_see_each_other(path: Path) -> None:
    journal = Journal(path)
    names = ["north/run", "north/run 2", "north", "ünïcödé", "'; DROP TABLE entries; --"]
    for name in names:
        journal.section(name).put({"key": name.encode()})
    for name in names:
        assert journal.section(name).get("key") == name.encode()
    assert journal.section("other").get("key") is None


def test_only_its_owner_can_read_it(path: Path) -> None:
    """It holds keys of secure sums; so do the files that SQLite puts beside it."""
    before = os.umask(0)
    try:
        journal = Journal(path)
        journal.section("s").put({"secret": b"x" * 5000})
        files = {file: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert path in files
    assert len(files) > 1  # the write-ahead log
    assert set(files.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("bad", [{("no", "key"): b"x"}, {"c": object()}, {"c": {}}])
def test_a_put_that_fails_in_the_middle_leaves_nothing(path: Path, bad: Any) -> None:
    journal = Journal(path)
    memory = journal.section("s")
    memory.put({"a": b"old", "gone": b"here"})
    with pytest.raises((sqlite3.Error, TypeError)):
        memory.put({"a": b"new", "gone": None, "b": b"new", **bad})
    assert (memory.get("a"), memory.get("gone"), memory.get("b")) == (b"old", b"here", None)
    memory.put({"a": b"next"})  # and the journal still works
    assert Journal(path).section("s").get("a") == b"next"


def test_every_put_is_synchronised(path: Path) -> None:
    journal = Journal(path)
    pragmas = {
        name: journal._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "secure_delete")
    }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}


def test_threads_may_share_it(path: Path) -> None:
    journal = Journal(path)

    def work(n: int) -> None:
        memory = journal.section(f"site {n}")
        for k in range(25):
            memory.put({f"{k}": b"%d" % k, f"{k - 1}": None})

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(4):
        memory = journal.section(f"site {n}")
        assert [memory.get(str(k)) for k in range(25)] == [None] * 24 + [b"24"]


@pytest.mark.parametrize("content", [b"not a database, but long enough to be one" * 50, None])
def test_a_file_that_is_no_journal_is_refused_in_words(path: Path, content: bytes | None) -> None:
    path.parent.mkdir()
    if content is None:
        path.mkdir()
        path.chmod(0o700)
    else:
        path.write_bytes(content)
    with pytest.raises(FederationError) as caught:
        Journal(path)
    assert str(path) in str(caught.value)
