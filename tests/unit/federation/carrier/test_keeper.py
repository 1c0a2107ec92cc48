"""Keeping a carrier: as a child that is started again, or over a socket."""

from __future__ import annotations

import io
import itertools
import logging
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation.carrier import keeper
from fedrulefit.federation.carrier.link import Frame, Link
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.logs import OneLine
from fedrulefit.federation.site import process as site_process


class Child:
    """A process that never was."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.stdout = io.BytesIO()

    def wait(self, timeout: float | None = None) -> int:
        return self.code

    def terminate(self) -> None: ...


def test_a_carrier_that_cannot_start_is_told_and_one_that_dies_is_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kit = Kit(tmp_path, "north", "carrier", "site", "c", "localhost", 1, ("north",))
    codes = iter([1, -9, 2, 0])
    monkeypatch.setattr(keeper, "start_carrier", lambda kit, connection: Child(next(codes)))
    kept = keeper.Keeper(kit)
    kept.start()
    for _ in range(3):
        assert kept.next().receive() is None
    kept.end()
    monkeypatch.setattr(keeper, "start_carrier", lambda kit, connection: Child(2))
    first = keeper.Keeper(kit)
    first.start()
    assert first.next().receive() is None
    with pytest.raises(FederationError, match="could not start"):
        first.next()


def test_a_carrier_is_given_its_kit_and_one_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No path, no setting and no open file of the site; nor its working folder."""
    monkeypatch.setenv("FEDRULEFIT_SITE_STATE", "/secret/state")
    monkeypatch.setenv("PGPASSWORD", "secret")
    seen: dict[str, Any] = {}
    monkeypatch.setattr(keeper.subprocess, "Popen", lambda command, **how: seen.update(how))
    kit = Kit(tmp_path, "north", "carrier", "site", "c", "localhost", 1, ("north",))
    ours, theirs = socket.socketpair()
    keeper.start_carrier(kit, theirs)
    assert set(seen["env"]) <= {*keeper._KEPT, "PYTHONPATH"}
    assert (Path(seen["env"]["PYTHONPATH"]) / "fedrulefit" / "federation").is_dir()
    assert seen["pass_fds"] == [theirs.fileno()]
    assert seen["cwd"] == tmp_path
    assert "close_fds" not in seen  # Python closes all others
    assert seen["start_new_session"]
    assert seen["stdin"] == subprocess.DEVNULL
    assert (seen["stdout"], seen["stderr"]) == (subprocess.PIPE, subprocess.STDOUT)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("problem", [BlockingIOError(11, "no process"), RuntimeError("no thread")])
def test_a_keeper_tries_on_where_no_process_is_to_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, problem: Exception
) -> None:
    """A fork that fails for a moment left a hospital without a carrier until its restart."""
    kit = Kit(tmp_path, "north", "carrier", "site", "c", "localhost", 1, ("north",))
    first: list[Child | Exception] = [Child(1), problem, problem]
    children = itertools.chain(first, (Child(0) for _ in itertools.count()))

    def start(kit: Kit, connection: socket.socket) -> Child:
        child = next(children)
        if isinstance(child, Exception):
            raise child
        return child

    monkeypatch.setattr(keeper, "start_carrier", start)
    kept = keeper.Keeper(kit)
    kept.start()
    found: list[Link] = []
    thread = threading.Thread(target=lambda: found.extend([kept.next(), kept.next()]), daemon=True)
    thread.start()
    thread.join(10)
    kept.end()
    assert len(found) == 2


def test_what_a_carrier_says_is_told_under_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """Many lines, long lines and bytes that are no text: bounded, and none imitates ours."""
    caplog.set_level(logging.INFO, "fedrulefit")
    said = b"2026 INFO site north is ready\n\xff\x1b[2J\rx\n" + b"y" * (3 * keeper.LONGEST_LINE)
    keeper.tell_lines(io.BytesIO(said + b"\n" * 10_000))
    formatter = OneLine("%(message)s")
    records = [record for record in caplog.records if record.funcName == "tell_lines"]
    lines = [formatter.format(record) for record in records]
    assert lines[:2] == [
        "carrier: 2026 INFO site north is ready",
        "carrier: \ufffd\ufffd[2J\ufffdx",
    ]
    assert all(line.startswith(("carrier: ", "the carrier says too much")) for line in lines)
    assert len(lines) == keeper.MOST_LINES + 1
    assert max(map(len, lines)) < keeper.LONGEST_LINE + 20


def test_a_carrier_of_another_user_comes_over_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "link"
    served: list[Link] = []

    def take(one: Link) -> None:
        served.append(one)
        site_process.answer_calls(one, lambda envelope: envelope)

    threading.Thread(target=keeper.accept_carriers, args=(path, take), daemon=True).start()
    for number in (1, 2):
        with socket.socket(socket.AF_UNIX) as sock:
            end = time.monotonic() + 10
            while sock.connect_ex(str(path)) and time.monotonic() < end:
                time.sleep(0.01)
            mine = Link(sock)
            mine.send(Frame("call", number, "c", b"envelope"))
            assert mine.receive() == Frame("answer", number, "c", b"envelope")
    assert len(served) == 2
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as sock:
        silent.connect(str(path))
        silent.sendall(b"\0\0")  # half a frame, and then nothing
        sock.connect(str(path))
        sock.settimeout(10.0)
        mine = Link(sock)
        mine.send(Frame("call", 3, "c", b"envelope"))
        assert mine.receive() == Frame("answer", 3, "c", b"envelope")
    assert path.stat().st_mode & 0o777 == 0o660
    with pytest.raises(FederationError, match="cannot make the socket"):
        keeper.accept_carriers(tmp_path / "none" / "link", take)
