"""The ledger's end in the journal: completed after a crash, noticed after anything else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgpack
import pytest

from fedrulefit.errors import LedgerError, ProtocolError
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.site.kept import Head, KeptLedger, RunMemory
from fedrulefit.privacy.ledger import EXACT, Release, read_rows


def release(k: int, epsilon: float | None = 0.5, study: str = "sepsis") -> Release:
    mechanism = EXACT if epsilon is None else "discrete Laplace"
    return Release("GridReply", f"q{k}", (3,), mechanism, epsilon, f"{k:064}", study=study)


class Folder:
    """A state folder that can be opened again."""

    def __init__(self, path: Path) -> None:
        self.path = path / "ledger.jsonl"
        self.times = iter(range(10_000))
        self.open()

    def open(self) -> KeptLedger:
        if hasattr(self, "journal"):
            self.journal.close()
        self.journal = Journal(self.path.with_name("journal.sqlite"))
        self.ledger = KeptLedger(self.path, self.journal, lambda: f"t{next(self.times)}")
        self.memory = RunMemory(self.journal, "run", self.ledger)
        return self.ledger

    def keep(self, step: int, *releases: Release) -> list[Release]:
        """What a site does when it keeps a reply."""
        dated = self.ledger.date(releases)
        reply = msgpack.packb(["asked", b"bytes", [one.facts() for one in dated]])
        self.memory.put({f"reply/{step}": reply})
        return dated

    def answer(self, step: int, *releases: Release) -> None:
        self.ledger.append(*self.keep(step, *releases))

    def lines(self) -> list[bytes]:
        return self.path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.answer(1, release(1), release(2))
    made.answer(2, release(3, None))
    made.answer(3, release(4, study="other"), release(5, None), release(6))
    return made


def test_an_undisturbed_ledger_is_opened_again(folder: Folder) -> None:
    rows = list(read_rows(folder.path))
    again = folder.open()
    assert (len(again.releases), again.last_hash) == (6, rows[-1]["hash"])
    assert again.epsilon == pytest.approx(2.0)
    assert again.spent("sepsis") == pytest.approx(1.5)
    assert again.spent("other") == pytest.approx(0.5)
    folder.answer(4, release(7))
    assert len(list(read_rows(folder.path))) == 7


@pytest.mark.parametrize("n_rows", [3, 4, 5])
@pytest.mark.parametrize("torn", [False, True])
def test_rows_that_a_crash_left_unwritten_are_completed(
    folder: Folder, n_rows: int, torn: bool
) -> None:
    """Byte for byte what they would have been, the time included."""
    whole = folder.path.read_bytes()
    lines = folder.lines()
    folder.path.write_bytes(b"".join(lines[:n_rows]) + (lines[n_rows][:50] if torn else b""))
    folder.open()
    assert folder.path.read_bytes() == whole


def test_a_process_that_died_before_its_first_row_is_completed(tmp_path: Path) -> None:
    made = Folder(tmp_path)
    made.keep(1, release(1), release(2))
    assert not made.path.exists()
    made.open()
    assert [r.quantity for r in made.ledger.releases] == ["q1", "q2"]
    assert made.ledger.epsilon == 1.0


@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_a_cut_ledger_is_refused(folder: Folder, n_rows: int) -> None:
    folder.path.write_bytes(b"".join(folder.lines()[:n_rows]))
    with pytest.raises(LedgerError, match=r"emptied or cut(.|\n)*evidence"):
        folder.open()


def test_a_missing_ledger_is_refused(folder: Folder) -> None:
    folder.path.unlink()
    with pytest.raises(LedgerError, match="is missing"):
        folder.open()


def test_another_ledger_is_refused(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Folder(tmp_path / "other")
    for k in range(6):
        other.answer(k, release(k))
    for n_rows in (4, 6):
        folder.path.write_bytes(b"".join(other.lines()[:n_rows]))
        with pytest.raises(LedgerError, match="not the one"):
            folder.open()
    other.answer(7, release(7))
    folder.path.write_bytes(other.path.read_bytes())
    with pytest.raises(LedgerError, match="knows of 6"):
        folder.open()


@pytest.mark.parametrize("harm", ["delete", "empty", "cut", "replace"])
def test_harm_while_the_site_runs_stops_the_next_release(folder: Folder, harm: str) -> None:
    whole, lines = folder.path.read_bytes(), folder.lines()
    if harm == "delete":
        folder.path.unlink()
    elif harm == "empty":
        folder.path.write_bytes(b"")
    elif harm == "cut":
        folder.path.write_bytes(b"".join(lines[:-1]))
    else:
        folder.path.write_bytes(whole.replace(b"q1", b"q9"))
        os.utime(folder.path, (0, 0))  # clocks of files may tick slowly
    for _ in range(2):
        with pytest.raises(ProtocolError) as caught:
            folder.keep(9, release(9))
        assert caught.value.code == "ledger"
    assert folder.memory.get("reply/9") is None, "the reply is not kept either"
    assert folder.ledger.epsilon == pytest.approx(2.0)
    folder.memory.put({"other": b"x"})  # what tells nothing of patients goes on
    folder.path.write_bytes(whole)
    folder.answer(9, release(9))
    assert len(list(read_rows(folder.path))) == 7


def test_a_reply_and_the_head_are_kept_together_or_not_at_all(folder: Folder) -> None:
    before = Head.read(folder.journal)
    with pytest.raises((TypeError, Exception)):
        folder.memory.put({"reply/4": _reply(folder, release(8)), "bad": object()})  # type: ignore[dict-item]
    assert Head.read(folder.journal) == before
    folder.answer(4, release(8))
    assert folder.open().epsilon == pytest.approx(2.5)


def _reply(folder: Folder, *releases: Release) -> bytes:
    facts = [one.facts() for one in folder.ledger.date(releases)]
    data: bytes = msgpack.packb(["asked", b"bytes", facts])
    return data


def test_rows_that_could_not_be_written_come_first_later(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk under one run's rows, then another run's: in the order of the journal."""
    full: Any = OSError(28, "No space left on device")

    def fail(*_: Any) -> None:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr("fedrulefit.privacy.ledger._append", fail)
        with pytest.raises(OSError, match="space"):
            folder.answer(4, release(7))
    assert folder.ledger.epsilon == pytest.approx(2.5), "spent, though not yet written"
    folder.answer(5, release(8))
    quantities = [row["quantity"] for row in read_rows(folder.path)]
    assert quantities[-2:] == ["q7", "q8"]
    assert folder.open().epsilon == pytest.approx(3.0)


def test_a_ledger_from_before_is_taken_up(folder: Folder) -> None:
    folder.journal.put({"ledger": {"head": None}})
    assert folder.open().epsilon == pytest.approx(2.0)
    folder.path.unlink()
    with pytest.raises(LedgerError, match="is missing"):
        folder.open()


def test_epsilon_is_what_says_more(folder: Folder) -> None:
    folder.ledger.releases.clear()
    folder.ledger._spent = 0.0
    assert folder.ledger.epsilon == pytest.approx(2.0)
    assert folder.ledger.spent("sepsis") == pytest.approx(1.5)
