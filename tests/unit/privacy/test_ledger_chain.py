"""The ledger's chain of hashes: whatever is done to the file is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.errors import LedgerError
from fedrulefit.privacy.ledger import EXACT, FIRST, Ledger, Release, read_rows

NOISY = Release(
    "GridReply", "histogram of age", (12,), "discrete Laplace", 0.1, "ab" * 32,
    sensitivity=1.0, scale=10.0, study="sepsis", run="r1", step=3,
)  # fmt: skip
PLAIN = Release("RoundSums", "increment", (3,), EXACT, None, "cd" * 32, sum_of=3, round=7)
OPEN = Release("RulesReply", "rules", (4,), EXACT, None, "ef" * 32, study="Käse", run="r1")
ROWS = (NOISY, PLAIN, OPEN, NOISY, NOISY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, clock=lambda: "2030-01-01T00:00:00Z")
    ledger.append(*ROWS[:2])
    ledger.append(*ROWS[2:])
    return path


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


def check_found(path: Path, data: str | bytes, row: int | None = None) -> None:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(LedgerError) as caught:
        list(read_rows(path))
    if row is not None:
        assert f"row {row} " in str(caught.value)
    with pytest.raises(LedgerError):
        Ledger(path)


def test_the_chain_starts_at_the_first_row_and_holds(path: Path) -> None:
    rows = list(read_rows(path))
    assert [row["previous"] for row in rows] == [FIRST, *(row["hash"] for row in rows[:-1])]
    assert len({row["hash"] for row in rows}) == len(ROWS)
    assert Ledger(path).last_hash == rows[-1]["hash"]
    assert Ledger().last_hash == FIRST


def test_running_epsilon_is_told_under_both_relations(path: Path) -> None:
    spent, expected = 0.0, []
    for release in ROWS:
        spent += release.epsilon or 0.0
        expected.append({"add_or_remove_one": spent, "replace_one": 2 * spent})
    assert [row["epsilon_so_far"] for row in read_rows(path)] == expected
    assert Ledger(path).epsilon == spent
    assert Ledger(path).spent("sepsis") == pytest.approx(0.3)
    assert Ledger(path).spent("other") == 0


def test_a_reloaded_ledger_goes_on(path: Path) -> None:
    """Bit for bit as if it had never been closed."""
    whole = path.with_name("whole.jsonl")
    ledger = Ledger(whole)
    for release in (*ROWS, *ROWS):
        ledger.append(release)
    parts = path.with_name("parts.jsonl")
    for release in (*ROWS, *ROWS):
        again = Ledger(parts)
        again.append(release)
    assert parts.read_bytes() == whole.read_bytes()
    assert Ledger(parts).releases == ledger.releases
    assert Ledger(parts).epsilon == ledger.epsilon
    counts = [Ledger(parts).count(part * 32) for part in ("ab", "cd", "ef", "00")]
    assert counts == [6, 2, 2, 0]


def test_any_changed_byte_is_found_unless_it_says_the_same(path: Path) -> None:
    data = path.read_bytes()
    rows = [json.loads(line) for line in data.splitlines()]
    missed = 0
    for place in range(len(data) - 1):  # without the last line end the row is unfinished
        bad = bytearray(data)
        bad[place] ^= 1 << (0, 2, 5, 7)[place % 4]
        path.write_bytes(bad)
        try:
            found = list(read_rows(path))
        except LedgerError:
            continue
        # A space turned into a line end or the like: the rows say the same as before.
        missed += 1
        assert found == rows
    assert missed < len(data) // 10


def test_bytes_that_are_no_text_are_a_fault_of_the_ledger(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[20] = 0xFF
    check_found(path, bytes(data))


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_every_changed_field_is_found_even_with_its_hash_made_anew(path: Path, row: int) -> None:
    """Who changes a row and its own hash must change all rows after it."""
    lines = lines_of(path)
    facts = json.loads(lines[row])
    changes: dict[str, Any] = {
        "epsilon": 0.01, "study": "other", "quantity": "nothing", "shape": [1], "time": "",
        "mechanism": "x", "sum_of": 9, "previous": FIRST[:-1] + "1", "hash": "0" * 64,
        "epsilon_so_far": {"add_or_remove_one": 0.0, "replace_one": 0.0}, "step": 3.0,
        "recipient": "nobody", "digest": "",
    }  # fmt: skip
    for key, value in changes.items():
        if facts[key] == value and type(facts[key]) is type(value):
            continue
        bad = json.dumps({**facts, key: value}, ensure_ascii=False) + "\n"
        check_found(path, "".join([*lines[:row], bad, *lines[row + 1 :]]), row + 1)
    without = {key: value for key, value in facts.items() if key != "round"}
    for other in (without, {**facts, "more": 1}, [], 3, None, "row"):
        bad = json.dumps(other) + "\n"
        check_found(path, "".join([*lines[:row], bad, *lines[row + 1 :]]), row + 1)


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_deleted_moved_and_doubled_rows_are_found(path: Path, row: int) -> None:
    lines = lines_of(path)
    if row < len(lines) - 1:
        check_found(path, "".join(lines[:row] + lines[row + 1 :]), row + 1)
        swapped = [*lines[:row], lines[row + 1], lines[row], *lines[row + 2 :]]
        check_found(path, "".join(swapped), row + 1)
    check_found(path, "".join([*lines[: row + 1], lines[row], *lines[row + 1 :]]), row + 2)
    check_found(path, "".join([*lines[:row], "\n", *lines[row:]]), row + 1)


def test_rows_cut_off_at_the_end_need_the_last_hash(path: Path) -> None:
    """What the chain cannot tell on its own, and how it is told."""
    last = Ledger(path).last_hash
    path.write_text("".join(lines_of(path)[:-1]), encoding="utf-8")
    assert Ledger(path).last_hash != last


def test_a_row_that_a_power_cut_left_unfinished_is_cut_off(path: Path) -> None:
    data = path.read_bytes()
    end = data[:-1].rfind(b"\n") + 1
    for length in range(end + 1, len(data)):
        path.write_bytes(data[:length])
        ledger = Ledger(path)
        assert len(ledger.releases) == len(ROWS) - 1
        assert path.read_bytes() == data[:end]
    ledger.append(PLAIN)
    assert len(list(read_rows(path))) == len(ROWS)
    # With nothing but an unfinished row, the ledger is empty.
    path.write_bytes(data[:10])
    assert Ledger(path).releases == []
    assert path.read_bytes() == b""


def test_an_unfinished_row_in_the_middle_is_no_power_cut(path: Path) -> None:
    lines = lines_of(path)
    check_found(path, "".join([lines[0], lines[1][:30] + "\n", *lines[2:]]), 2)
    check_found(path, lines[0] + lines[1][:-1] + "".join(lines[2:]), 2)


@pytest.mark.parametrize("row", ["[" * 100_000, "1", "[]", "9" * 10_000])
def test_a_row_that_is_none_is_refused_in_words(path: Path, row: str) -> None:
    path.write_text(f"{row}\n", encoding="utf-8")
    with pytest.raises(LedgerError, match="row 1 is not a row of a ledger"):
        Ledger(path)


@pytest.mark.parametrize("text", ["\u2028", "\x85", "\u2029", "\x1c", "\x0b", "\r", "\n", '"'])
def test_a_name_with_a_line_end_of_any_script_is_one_row(path: Path, text: str) -> None:
    """A study may be called anything; `str.splitlines` knows ten kinds of line end."""
    named = Release("m", "q", (), EXACT, None, "", study=f"one{text}two")
    Ledger(path).append(named)
    assert Ledger(path).releases[-1].study == f"one{text}two"
    assert len(list(read_rows(path))) == len(ROWS) + 1


def test_protection_is_told_in_words() -> None:
    assert NOISY.protection == "ε = 0.1 (discrete Laplace)"
    assert PLAIN.protection == "exact, inside a secure sum of 3 sites"
    assert OPEN.protection == "exact: ε = ∞"
    assert "∞" in Release("m", "q", (), "UNSAFE", None).protection


def test_what_cannot_be_written_is_not_recorded(path: Path) -> None:
    ledger = Ledger(path)
    before = ledger.epsilon, ledger.last_hash, len(ledger.releases)
    path.chmod(0o400)
    ledger.path = path / "no folder" / "ledger.jsonl"
    with pytest.raises(OSError):  # noqa: PT011
        ledger.append(NOISY)
    assert (ledger.epsilon, ledger.last_hash, len(ledger.releases)) == before
