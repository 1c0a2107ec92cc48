"""Carriers that die at any moment, and what comes over the local socket."""

from __future__ import annotations

import io
import itertools
import json
import logging
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation import keeper, link, runs, service
from fedrulefit.federation.consortium import Kit
from fedrulefit.federation.link import Frame, Link
from fedrulefit.model.file import load_model, model_facts
from fedrulefit.protocol.wire import MAX_BYTES
from fedrulefit.study import Study
from tests.federations import write_study
from tests.loopback import Loopback
from tests.samples import SOLVERS, make_frame, study_facts

SITES = ("north", "south", "west")


def pair() -> tuple[Link, Link]:
    ours, theirs = socket.socketpair()
    return Link(ours), Link(theirs)


def pump(read: Link, handle: Callable[[Frame], None]) -> None:
    """Read until the link ends, in the background."""

    def run() -> None:
        while (frame := read.receive()) is not None:
            handle(frame)

    threading.Thread(target=run, daemon=True).start()


# --- Frames ---------------------------------------------------------------------------------------


def test_frames_arrive_as_they_were_sent() -> None:
    ours, theirs = pair()
    for frame in (
        Frame("call", 1, "north", b"x" * 100_000),
        Frame("answer", 2**64 - 1, "é" * 40, b""),
        Frame("gone"),
    ):
        sent = threading.Thread(target=ours.send, args=(frame,))
        sent.start()
        assert theirs.receive() == frame
        sent.join()
        again = link.from_payload(link.to_payload(frame), frame.name)
        assert again == frame
    ours.close()
    assert theirs.receive() is None
    assert theirs.send(Frame("gone")) is False or theirs.receive() is None


def test_the_largest_envelope_fits() -> None:
    assert link.MAX_BODY >= MAX_BYTES + (1 << 16)


@pytest.mark.parametrize("head", [(link.MAX_BODY + 1, 0, 1, 0), (1, 3, 1, 0), (0, 255, 0, 0)])
def test_what_is_no_frame_ends_the_link(head: tuple[int, int, int, int]) -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(struct.pack(">IBQB", *head) + b"rubbish")
    with pytest.raises(FederationError, match="no frame"):
        Link(theirs).receive()
    ours.close()


@pytest.mark.parametrize("payload", [b"", b"\0" * 8, b"\3" + b"\0" * 8, b"\xff" * 30])
def test_what_is_no_payload_is_none(payload: bytes) -> None:
    assert link.from_payload(payload, "north") is None


# --- Both ends ------------------------------------------------------------------------------------


def test_a_broken_frame_does_not_end_a_site() -> None:
    """A carrier that was taken over sends rubbish: its link ends, and the next one is served."""
    for data in (b"rubbish" * 10, struct.pack(">IBQB", 5, 0, 1, 0) + b"ab", b""):
        ours, theirs = socket.socketpair()
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        service.answer_calls(Link(theirs), lambda envelope: envelope)
        ours.close()


def test_a_site_answers_calls_only_and_survives_its_own_errors() -> None:
    ours, theirs = pair()
    received: list[bytes] = []

    def receive(envelope: bytes) -> bytes:
        received.append(envelope)
        if envelope == b"bad":
            raise ValueError("a patient's value")
        return envelope[::-1]

    thread = threading.Thread(target=service.answer_calls, args=(theirs, receive))
    thread.start()
    for frame in (Frame("answer", 1, "x", b"no"), Frame("gone", 2), Frame("call", 3, "c", b"bad")):
        ours.send(frame)
    assert ours.receive() == Frame("gone", 3, "c")
    ours.send(Frame("call", 4, "c", b"abc"))
    assert ours.receive() == Frame("answer", 4, "c", b"cba")
    ours.close()
    thread.join(10)
    assert received == [b"bad", b"abc"]


class TestCalls:
    def test_an_answer_counts_only_from_the_site_that_was_called(self) -> None:
        """A carrier that mixes up sites, or makes up numbers, ends no call."""
        calls, (ours, theirs) = service.Calls(), pair()
        assert calls.send("north", b"x", 1.0) is None  # no carrier yet

        def answer(frame: Frame) -> None:
            theirs.send(Frame("answer", frame.number, "south", b"false"))
            theirs.send(Frame("answer", frame.number + 1, "north", b"false"))
            theirs.send(Frame("call", frame.number, "north", b"false"))
            theirs.send(Frame("gone", 0, "south"))
            theirs.send(Frame("answer", frame.number, frame.name, b"true"))

        pump(theirs, answer)
        threading.Thread(target=calls.attend, args=(ours,), daemon=True).start()
        while calls._link is None:
            time.sleep(0.001)
        assert calls.send("north", b"x", 5.0) == b"true"
        assert calls._open == {}
        theirs.close()

    @pytest.mark.parametrize("how", ["gone", "line", "carrier", "late"])
    def test_a_call_without_an_answer_ends(self, how: str) -> None:
        calls, (ours, theirs) = service.Calls(), pair()

        def fail(frame: Frame) -> None:
            match how:
                case "gone":
                    theirs.send(Frame("gone", frame.number, frame.name))
                case "line":
                    theirs.send(Frame("gone", 0, frame.name))
                case "carrier":
                    theirs.close()

        pump(theirs, fail)
        threading.Thread(target=calls.attend, args=(ours,), daemon=True).start()
        while calls._link is None:
            time.sleep(0.001)
        began = time.monotonic()
        assert calls.send("north", b"x", 0.3 if how == "late" else 20.0) is None
        assert time.monotonic() - began < 5.0
        assert calls._open == {}
        theirs.close()


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_addresses_of_one_party_count_together(one: str, other: str, near: bool) -> None:
    flare = pytest.importorskip("fedrulefit.federation.flare")
    assert (flare._neighbourhood(one) == flare._neighbourhood(other)) is near


# --- Killed at any moment -------------------------------------------------------------------------


class Mortal:
    """Carriers of three sites and a coordinator, one of which dies at every third frame.

    Phases: ``unsent`` (a call is lost before the site has it), ``unanswered`` (the site
    has answered, the answer is lost) and ``torn`` (half of the answer arrives).
    """

    PHASES = ("unsent", "unanswered", "torn")

    def __init__(self, calls: service.Calls, net: Loopback) -> None:
        self.calls, self.net = calls, net
        self.frames, self.deaths = 0, 0
        self.lock = threading.Lock()
        self.done = threading.Event()

    def live(self) -> None:
        """Be one carrier after another."""
        while not self.done.is_set():
            ours, theirs = socket.socketpair()
            far = Link(theirs)
            pump(far, lambda frame, far=far, raw=theirs: self._carry(frame, far, raw))  # type: ignore[misc]
            self.calls.attend(Link(ours))

    def _carry(self, frame: Frame, far: Link, raw: socket.socket) -> None:
        if frame.kind != "call":
            return None
        with self.lock:
            self.frames += 1
            dies = self.frames % 3 == 0
            phase = self.PHASES[self.deaths % 3] if dies else ""
            self.deaths += dies
        if phase == "unsent":
            return far.close()
        answer = self._ask_site(frame)
        if phase == "torn":
            raw.sendall(struct.pack(">IBQB", len(answer), 1, frame.number, len(frame.name)))
            raw.sendall(frame.name.encode() + answer[: len(answer) // 2])
        if phase:
            return far.close()
        far.send(Frame("answer", frame.number, frame.name, answer))
        return None

    def _ask_site(self, frame: Frame) -> bytes:
        """The site's own carrier: a new link for every call, so that it dies each time, too."""
        ours, theirs = pair()
        host = self.net.hosts[frame.name]
        thread = threading.Thread(target=service.answer_calls, args=(theirs, host.receive))
        thread.start()
        ours.send(Frame("call", 1, "coordinator", frame.body))
        answer = ours.receive()
        ours.close()
        thread.join(10)
        assert answer is not None
        return answer.body


def test_carriers_killed_at_any_moment_change_no_byte_of_the_model(tmp_path: Path) -> None:
    """Every third frame kills the coordinator's carrier, in each phase; sites' after each call."""
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), tmp_path / "study.toml")
    study = Study.load(tmp_path / "study.toml")
    frames = {site: make_frame(90, seed=k) for k, site in enumerate(SITES)}
    models = {}
    for kind in ("whole", "killed"):
        folder = tmp_path / kind
        folder.mkdir()
        net = Loopback(folder, frames, study)
        mortal = None
        if kind == "killed":
            calls = service.Calls()
            mortal = Mortal(calls, net)
            net.caller._send = calls.send
            threading.Thread(target=mortal.live, daemon=True).start()
        with net.serving():
            request = runs.RunRequest("run", SITES, wait=60.0)
            run = runs.submit(net.state, request, tmp_path / "study.toml")
            end = time.monotonic() + 90
            while runs.read_status(run)["state"] in ("waiting", "running"):
                assert time.monotonic() < end
                time.sleep(0.05)
        assert runs.read_status(run)["state"] == "done", runs.read_status(run)
        models[kind] = json.dumps(model_facts(load_model(run / "model.json")))
        if mortal is not None:
            mortal.done.set()
            assert mortal.deaths > 20
        net.close()
    assert models["killed"] == models["whole"]


# --- Keeping a carrier ----------------------------------------------------------------------------


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
    formatter = keeper._OneLine("%(message)s")
    records = [record for record in caplog.records if record.funcName == "tell_lines"]
    lines = [formatter.format(record) for record in records]
    assert lines[:2] == [
        "carrier: 2026 INFO site north is ready",
        "carrier: \ufffd\ufffd[2J\ufffdx",
    ]
    assert all(line.startswith(("carrier: ", "the carrier says too much")) for line in lines)
    assert len(lines) == keeper.MOST_LINES + 1
    assert max(map(len, lines)) < keeper.LONGEST_LINE + 20


@pytest.mark.parametrize("weak", [False, True])
def test_what_others_sent_stays_on_its_line_of_the_log(weak: bool) -> None:
    """A name with a line break in it writes no line of its own into a hospital's log."""
    formatter = logging.Formatter("%(message)s") if weak else keeper._OneLine("%(message)s")
    told = "bad name 'x\n2026 INFO site north is ready'\x1b[2J"
    record = logging.LogRecord("n", logging.ERROR, "f", 1, "%s", (told,), None)
    assert ("\n" in formatter.format(record)) is weak


def test_a_carrier_of_another_user_comes_over_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "link"
    served: list[Link] = []

    def take(one: Link) -> None:
        served.append(one)
        service.answer_calls(one, lambda envelope: envelope)

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
