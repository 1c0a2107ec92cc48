"""The site's own record of what left it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.privacy.ledger import EXACT, FIRST, Ledger, Release, read_rows

NOISY = Release(
    "histogram reply",
    "counts",
    (12,),
    "discrete Laplace",
    1.5,
    "ab" * 32,
    sensitivity=1.0,
    scale=2 / 3,
    study="sepsis",
    run="r",
    step=2,
)
PLAIN = Release(
    "dual reply", "increment", (3, 4), EXACT, None, "cd" * 32, sum_of=3, step=9, round=7
)


def n_exact(ledger: Ledger) -> int:
    return sum(release.epsilon is None for release in ledger.releases)


def test_epsilon_adds_up_over_noisy_releases_and_exact_ones_are_counted() -> None:
    ledger = Ledger()
    assert (ledger.epsilon, n_exact(ledger)) == (0, 0)
    for release in (NOISY, PLAIN, NOISY, PLAIN, PLAIN):
        ledger.append(release)
    assert ledger.epsilon == pytest.approx(3.0)
    assert n_exact(ledger) == 3
    assert ledger.releases == [NOISY, PLAIN, NOISY, PLAIN, PLAIN]


def test_an_epsilon_of_zero_is_not_an_exact_release() -> None:
    ledger = Ledger()
    ledger.append(Release("m", "q", (), "constant", 0.0, ""))
    assert (ledger.epsilon, n_exact(ledger)) == (0, 0)


def test_every_release_is_one_json_line_in_the_order_of_leaving(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.append(NOISY)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1
    ledger.append(PLAIN)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {
            "message": "histogram reply",
            "quantity": "counts",
            "shape": [12],
            "mechanism": "discrete Laplace",
            "epsilon": 1.5,
            "digest": "ab" * 32,
            "sensitivity": 1.0,
            "scale": 2 / 3,
            "sum_of": None,
            "study": "sepsis",
            "run": "r",
            "step": 2,
            "round": None,
            "recipient": "coordinator",
            "time": "",
            "epsilon_so_far": {"add_or_remove_one": 1.5, "replace_one": 3.0},
            "previous": FIRST,
            "hash": lines[0]["hash"],
        },
        {
            "message": "dual reply",
            "quantity": "increment",
            "shape": [3, 4],
            "mechanism": "exact",
            "epsilon": None,
            "digest": "cd" * 32,
            "sensitivity": None,
            "scale": None,
            "sum_of": 3,
            "study": "",
            "run": "",
            "step": 9,
            "round": 7,
            "recipient": "coordinator",
            "time": "",
            "epsilon_so_far": {"add_or_remove_one": 1.5, "replace_one": 3.0},
            "previous": lines[0]["hash"],
            "hash": ledger.last_hash,
        },
    ]
    for line in lines:  # anyone can recompute the chain
        facts = {key: value for key, value in line.items() if key != "hash"}
        text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert line["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert list(read_rows(path)) == lines


def test_a_second_run_appends_and_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path).append(NOISY)
    Ledger(path).append(PLAIN)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["quantity"] for line in lines] == ["counts", "increment"]
    assert Ledger(path).releases == [NOISY, PLAIN]
    assert Ledger(path).epsilon == 1.5


def test_a_line_break_in_a_name_stays_one_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path).append(Release("a\nb", "ε", (), EXACT, None, ""))
    (line,) = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert json.loads(line)["message"] == "a\nb"
    assert "ε" in line


def test_the_sites_clock_dates_each_release(tmp_path: Path) -> None:
    times = iter(["Monday", "Tuesday"])
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path, clock=lambda: next(times))
    ledger.append(NOISY)
    ledger.append(PLAIN)
    assert [r.time for r in ledger.releases] == ["Monday", "Tuesday"]
    assert [r.shape for r in ledger.releases] == [(12,), (3, 4)]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["time"] for line in lines] == ["Monday", "Tuesday"]


def test_ledgers_do_not_share_their_releases() -> None:
    one, two = Ledger(), Ledger()
    one.append(NOISY)
    assert two.releases == []


def test_what_one_study_spent_is_that_of_its_noisy_releases() -> None:
    ledger = Ledger()
    assert ledger.spent("sepsis") == 0
    other = replace(NOISY, study="burns", epsilon=0.25)
    ledger.append(NOISY, replace(PLAIN, study="sepsis"), other, NOISY)
    assert ledger.epsilon == 3.25
    ledger.append(other)
    assert ledger.next_rows([NOISY])[0]["epsilon_so_far"]["add_or_remove_one"] == 5.0
    assert ledger.spent("sepsis") == 3.0
    assert ledger.spent("burns") == 0.5
    assert ledger.spent("nobody") == 0


def test_rows_of_a_message_are_counted_by_its_digest() -> None:
    ledger = Ledger()
    ledger.append(NOISY, NOISY, PLAIN)
    assert [ledger.count(x) for x in (NOISY.digest, PLAIN.digest, "")] == [2, 1, 0]
    ledger.append(PLAIN)
    assert ledger.count(PLAIN.digest) == 2


def test_a_ledger_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    before = os.umask(0)
    try:
        Ledger(path).append(NOISY)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_row_that_cannot_be_kept_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full after half a row: nothing leaves, and the next row follows the last."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.append(NOISY)
    before, facts = path.read_bytes(), (ledger.last_hash, ledger.epsilon, len(ledger.releases))

    def fail(_: int) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            ledger.append(PLAIN, NOISY)
    assert path.read_bytes() == before
    assert (ledger.last_hash, ledger.epsilon, len(ledger.releases)) == facts
    ledger.append(PLAIN)
    assert len(list(read_rows(path))) == 2


def test_rows_are_on_the_disk_before_anything_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    seen: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.read_bytes()))
    Ledger(path).append(NOISY)
    assert seen[-1] == path.read_bytes() != b""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "ε = 1.5 (discrete Laplace)"),
        ({"epsilon": 0.0}, "ε = 0 (discrete Laplace)"),
        ({"epsilon": None}, "ε = ∞ (discrete Laplace)"),
        ({"epsilon": None, "mechanism": EXACT}, "exact: ε = ∞"),
        (
            {"epsilon": None, "mechanism": EXACT, "sum_of": 3},
            "exact, inside a secure sum of 3 sites",
        ),
    ],
)
def test_how_a_release_was_protected_in_words(changes: dict[str, Any], words: str) -> None:
    assert replace(NOISY, **changes).protection == words


def test_a_date_that_is_there_stays() -> None:
    ledger = Ledger(clock=lambda: "now")
    dated = ledger.date([NOISY, replace(NOISY, time="then")])
    assert [release.time for release in dated] == ["now", "then"]
    assert Ledger().date([NOISY]) == [NOISY]
    assert ledger.date([]) == []
