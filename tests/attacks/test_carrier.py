"""The process with the network carries envelopes, and can do nothing else.

Real processes on this machine's loopback. A hostile party has a hospital's or the
coordinator's key for TLS, and speaks FLARE's own frames (``frames.py``). Each attack
also runs against a weakened twin, where it succeeds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import psutil
import pytest

from fedrulefit.federation.carrier.tls import make_tls
from fedrulefit.federation.flare import frames as flare_frames
from fedrulefit.federation.flare import wire as wires
from fedrulefit.federation.flare.door import Door

pytest.importorskip("nvflare")

from nvflare.fuel.f3.sfm.constants import Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from fedrulefit.errors import FederationError, ProtocolError
from fedrulefit.federation.carrier import process as carrier
from fedrulefit.federation.carrier import sandbox
from fedrulefit.federation.carrier.link import (
    MAX_BODY,
    PAYLOAD_BYTES,
    Frame,
    Link,
    from_payload,
    to_payload,
)
from fedrulefit.federation.envelope import Letter, read_signed, sign_letter
from fedrulefit.federation.kits import kit as kits
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.kits.provision import _Authority, provision
from fedrulefit.privacy import identity
from tests.attacks import frames
from tests.attacks.frames import Peer
from tests.federations import Federation, free_port, make_consortium, write_frame, write_study
from tests.samples import make_frame, study_facts

ROOT = Path(__file__).resolve().parents[2]


def endpoint(name: str) -> str:
    """The name that our carriers greet with."""
    return name.encode().hex()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A running coordinator; the site north can be started; south and west are hostile."""
    folder = tmp_path_factory.mktemp("attacked")
    study = folder / "study.toml"
    write_study(study_facts(epsilon=1.0), study)
    write_frame(make_frame(60), folder / "north.parquet")
    made = Federation(folder, [study], "", None)
    try:
        made.start("coordinator")
        made.wait_for(lambda: is_open(port_of(made)), "the port")
        yield made
    finally:
        made.stop()


def port_of(made: Federation) -> int:
    return made.consortium.coordinator.port


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def part(made: Federation, name: str, role: Any = "carrier") -> Kit:
    return Kit.load(made.kits[name], role)


@contextlib.contextmanager
def twin(kit: Kit, port: int) -> Iterator[None]:
    """FLARE's own cells in the place of our carrier."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tests.attacks.cells", str(kit.folder), "localhost", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


# --- Attack 1 and 2: commands of FLARE -----------------------------------------------------------


def ask_coordinator(
    tls: ssl.SSLContext, port: int, me: str, to: str, topic: tuple[str, str], body: bytes
) -> list[bytes]:
    """Ask at the coordinator's port, on a connection of its own; return what comes back."""
    peer = Peer.call(tls, port)
    peer.greet(me)
    next(peer.frames(5.0), None)
    with contextlib.suppress(OSError):
        peer.request(me, to, *topic, body)
    found = peer.answers(1.0)
    peer.close()
    return found


def test_no_topic_of_any_channel_is_answered_by_the_coordinator(made: Federation) -> None:
    """A hospital asks the coordinator for everything that FLARE's programs answer.

    Shell, deployment, jobs, statistics of the network, in every channel: nothing comes back.
    """
    topics = frames.all_topics()
    assert {frames.SHELL, frames.DEPLOY, frames.PROCESSES} <= set(topics)
    assert len(topics) > 100
    body = f"cat {made.folder / 'study.toml'}".encode()
    me, to = endpoint("south"), endpoint("localhost")
    tls = frames.make_tls(part(made, "south"))
    answered = [t for t in topics if ask_coordinator(tls, port_of(made), me, to, t, body)]
    assert answered == []


def test_the_twin_at_the_coordinator_answers(made: Federation) -> None:
    port, study = free_port(), made.folder / "study.toml"
    with twin(part(made, "coordinator"), port):
        made.wait_for(lambda: is_open(port), "the twin")
        for name, topic in (("south", frames.SHELL), ("west", frames.PROCESSES)):
            tls, found = frames.make_tls(part(made, name)), []
            for _ in range(10):  # FLARE loses a frame that comes right after a greeting
                found = found or ask_coordinator(
                    tls, port, name, "server", topic, f"cat {study}".encode()
                )
            assert found
            assert topic != frames.SHELL or study.read_bytes() in found[0]


def reach_north(made: Federation, port: int, names: dict[str, str]) -> bool:
    """Whether what south sends, in every way it can, arrives at north."""
    peers = {}
    for name in ("north", "south"):
        peers[name] = Peer.call(frames.make_tls(part(made, name)), port)
        peers[name].greet(names[name])
        next(peers[name].frames(5.0), None)
    time.sleep(0.3)
    for kind in range(3):
        peers["south"].send(Types.DATA, bytes([kind]) + bytes(8) + b"marker", app=flare_frames.APP)
    peers["south"].request(names["south"], names["north"], *frames.SHELL, b"marker")
    found = [body for _, body in peers["north"].frames(2.0)]
    for peer in peers.values():
        peer.close()
    return any(b"marker" in body for body in found)


def test_a_hospital_reaches_no_other_hospital(made: Federation) -> None:
    """With an honest coordinator, a hospital's kit read files of another one through its server."""
    names = {name: endpoint(name) for name in ("north", "south")}
    assert not reach_north(made, port_of(made), names)


def test_the_twin_forwards_between_hospitals(made: Federation) -> None:
    port = free_port()
    with twin(part(made, "coordinator"), port):
        made.wait_for(lambda: is_open(port), "the twin")
        names = {name: name for name in ("north", "south")}
        assert any(reach_north(made, port, names) for _ in range(10))


class FalseCoordinator:
    """Somebody who has the coordinator's key for TLS, and its port."""

    def __init__(self, kit: Kit, port: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", port))
        self.listener.settimeout(60.0)
        self.tls = frames.make_tls(kit, listens=True)

    def answer(self) -> tuple[Peer, dict[str, Any]]:
        """Wait for a hospital's call; return it with the hospital's greeting."""
        sock, _ = self.listener.accept()
        peer = Peer(self.tls.wrap_socket(sock, server_side=True))
        _, greeting = next(peer.frames(5.0))
        return peer, msgpack.unpackb(greeting)

    def ask(self, me: str, to: str, topic: tuple[str, str], body: bytes) -> list[bytes]:
        peer, _ = self.answer()
        peer.greet(me, listens=True)
        time.sleep(0.2)
        peer.request(me, to, *topic, body)
        found = peer.answers(3.0)
        peer.close()
        return found

    def deliver(self, me: str, envelope: bytes) -> list[bytes]:
        """Do what a carrier is for: deliver something, and take the answers."""
        peer, _ = self.answer()
        peer.greet(me, listens=True)
        time.sleep(0.2)
        peer.send(Types.DATA, bytes(8) + b"\x01" + envelope, app=flare_frames.APP)
        found = peer.answers(3.0)
        peer.close()
        return [answer[PAYLOAD_BYTES:] for answer in found]


ATTACKS = [frames.SHELL, frames.DEPLOY, frames.PROCESSES]


def test_a_coordinator_reads_no_file_and_deploys_nothing(tmp_path: Path, made: Federation) -> None:
    """A dishonest coordinator asks an unmodified ``site start`` for `cat`, a job and its processes.

    Before, the table came back, and the ledger had no row. An envelope is answered still.
    """
    table = made.folder / "north.parquet"
    other = Federation(tmp_path, made._studies, "", None, ("north",))
    shutil.copy(table, tmp_path / "north.parquet")
    false = FalseCoordinator(part(other, "coordinator"), port_of(other))
    try:
        other.start("north")
        for topic in ATTACKS:
            me, to = endpoint("localhost"), endpoint("north")
            assert false.ask(me, to, topic, f"cat {table}".encode()) == []
        (answer,) = false.deliver(endpoint("localhost"), b"no envelope")
        letter = read_signed(
            answer, trust=part(other, "north", "site").trust(), sender="north",
            recipient="localhost",
        )  # fmt: skip
        assert "unreadable" in repr(letter.body)
        assert not (tmp_path / "north" / "ledger.jsonl").exists()
    finally:
        false.listener.close()
        other.stop()


def test_the_twin_at_a_site_reads_the_file(made: Federation) -> None:
    table, port = made.folder / "north.parquet", free_port()
    false = FalseCoordinator(part(made, "coordinator"), port)
    with twin(part(made, "north"), port):
        found = false.ask("server", "north", frames.SHELL, f"cat {table}".encode())
        assert table.read_bytes() in found[0]
        assert false.ask("server", "north", frames.PROCESSES, b"")
    false.listener.close()


def test_every_kind_of_frame_but_ours_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All kinds of frames, application numbers, headers and lengths; and one receiver."""

    def welcome(kind: int, app: int, body: int, header: int = 0, greeted: bool = True) -> set[bool]:
        prefix = Prefix(PREFIX_LEN + body, header, kind, 0, 0, app, 0, 0)
        return {
            listens
            for listens in (True, False)
            if flare_frames.is_welcome(prefix, listening=listens, greeted=greeted)
        }

    both = {True, False}
    small = {Types.PING: both, Types.PONG: both, Types.HELLO: {True}, Types.READY: {False}}
    for kind in range(256):
        expected = both if kind == Types.DATA else small.get(kind, set())
        assert welcome(kind, flare_frames.APP, 100) == expected
        assert welcome(kind, flare_frames.APP, 100, header=1) == set()
        ungreeted = set() if kind == Types.DATA else expected
        assert welcome(kind, flare_frames.APP, 100, greeted=False) == ungreeted
        assert welcome(kind, flare_frames.APP, flare_frames.MAX_SMALL + 1) == (
            both if kind == 1 else set()
        )
    apps = [app for app in range(65536) if welcome(Types.DATA, app, 100)]
    assert apps == [flare_frames.APP]
    assert welcome(Types.DATA, flare_frames.APP, PAYLOAD_BYTES + MAX_BODY) == both
    assert welcome(Types.DATA, flare_frames.APP, PAYLOAD_BYTES + MAX_BODY + 1) == set()


def test_only_one_receiver_is_registered(made: Federation) -> None:
    wire = make_wire(part(made, "coordinator"), [], None)
    assert wire.communicator.conn_manager.receivers == {flare_frames.APP: wire}
    assert wire.communicator.conn_manager.monitors == [wire]


@pytest.mark.parametrize("weak", [False, True])
def test_a_carrier_does_not_even_load_what_could_be_commanded(made: Federation, weak: bool) -> None:
    """FLARE's shell, jobs, cells and decoders of objects are not in a carrier's memory."""
    code = (
        f"import sys{'; import nvflare' if weak else ''}\n"
        "import fedrulefit.federation.flare.wire\n"
        "print(*[name for name in sys.modules if name.startswith('nvflare')])"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=True
    )
    loaded = done.stdout.decode().split()
    assert "nvflare.fuel.f3.communicator" in loaded
    words = ("nvflare.private", "shell", ".fobs", "core_cell", "cellnet.cell", "net_agent")
    assert bool([name for name in loaded for word in words if word in name]) is weak


def make_wire(kit: Kit, got: list[Any], wants: Any) -> wires.Wire:
    return wires.Wire(
        kit.name,
        kit.sites,
        make_tls(kit),
        wants=wants,
        on_bytes=lambda name, body: got.append((name, bytes(body))),
        on_gone=lambda name: got.append((name, None)),
    )


@contextlib.contextmanager
def listening(
    kit: Kit, got: list[Any], wants: Any = lambda *facts: True, **door: Any
) -> Iterator[tuple[wires.Wire, int]]:
    """The coordinator's end of the network, in this process."""
    wire = make_wire(kit, got, wants)
    wire.driver.door = Door(**door)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        wire.listen(listener)
        try:
            yield wire, listener.getsockname()[1]
        finally:
            wire.stop()


@pytest.mark.parametrize("weak", [False, True])
def test_a_huge_frame_is_refused_by_its_first_bytes(
    made: Federation, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """A greeting of 200 MB (objects of many times that, once decoded) closes the line at once."""
    if weak:
        monkeypatch.setattr(flare_frames, "is_welcome", lambda prefix, **facts: True)
    with listening(part(made, "coordinator"), []) as (_, port):
        peer = Peer.call(frames.make_tls(part(made, "south")), port)
        peer.send(Types.HELLO, b"\x80", length=200_000_000)
        assert peer.is_closed(1.0) is not weak
        peer.close()


def test_rubbish_of_a_hospital_breaks_nothing(made: Federation) -> None:
    """A hospital sends frames of every kind with random contents, for a while."""
    process = made.carrier("coordinator")
    before = process.memory_info().rss
    rng = random.Random(0)
    tls = frames.make_tls(part(made, "south"))
    greetings = [b"", b"\xc0", b"\x91" * 900, msgpack.packb({"endpoint_name": 7})]
    greetings += [msgpack.packb({"endpoint_name": name}) for name in ("", "x\ny", "a.a", "south")]
    for k in range(60):
        peer = Peer.call(tls, port_of(made))
        with contextlib.suppress(OSError):
            if k % 2:
                peer.send(Types.HELLO, greetings[k % len(greetings)])
            else:
                peer.greet(endpoint("south"))
            for _ in range(rng.randrange(1, 5)):
                kind, app = (
                    rng.choice([1, 2, 4, 5, 6, 7, 200]),
                    rng.choice([0, 1, flare_frames.APP]),
                )
                peer.send(kind, rng.randbytes(rng.randrange(200)), app=app)
        peer.close()
    assert made.carrier("coordinator").pid == process.pid
    assert process.memory_info().rss - before < 60e6
    assert can_connect(part(made, "south"), port_of(made), "south")


class WeakPool(wires._Bounded):
    """How heartbeats were handled before: by the workers."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.busy = 0
        self._counting = threading.Lock()

    def submit(self, task: Any, /, *facts: Any, **named: Any) -> Any:
        if Prefix.from_bytes(facts[-1]).type != Types.PING:
            return super().submit(task, *facts, **named)
        self._room.acquire()
        future = wires.ThreadPoolExecutor.submit(self, self._answer, task, *facts, **named)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def _answer(self, task: Any, /, *facts: Any, **named: Any) -> None:
        with self._counting:
            self.busy += 1
        try:
            task(*facts, **named)
        finally:
            with self._counting:
                self.busy -= 1


class Flood(threading.Thread):
    """Sends heartbeats and reads no answer, until the line breaks."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(daemon=True)
        self.peer, self.sent = peer, 0
        peer.sock.settimeout(flare_frames.STALLED_SECONDS)

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                self.peer.send(Types.PING, b"\xc0" * 1000)
                self.sent += 1


def wait_until(done: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"not in {seconds} s"
        time.sleep(0.02)


def wait_for_rest(count: Callable[[], object]) -> None:
    """Return once a count has not changed for a second."""
    before, since = count(), time.monotonic()
    while time.monotonic() < since + 1.0:
        time.sleep(0.05)
        if (now := count()) != before:
            before, since = now, time.monotonic()


@pytest.mark.parametrize("weak", [False, True])
def test_a_hospital_that_reads_nothing_holds_up_no_other(made: Federation, weak: bool) -> None:
    """South sends heartbeats and reads no answer: all workers waited for it, and nobody's
    envelopes were handled.
    """
    got: list[Any] = []
    pool = WeakPool(8)
    with listening(part(made, "coordinator"), got) as (wire, port):
        if weak:
            wire.communicator.conn_manager.frame_mgr_executor = pool
        wire.driver.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # soon full
        sock = socket.socket()
        # Not a small SO_RCVBUF: the kernel then drops packets, and all stands still at times.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, 4096)
        sock.connect(("127.0.0.1", port))
        south = Peer(frames.make_tls(part(made, "south")).wrap_socket(sock))
        south.greet(endpoint("south"))
        flood = Flood(south)
        flood.start()
        wait_for_rest(lambda: flood.sent)  # until all is full, at both ends
        if weak:
            assert pool.busy == 8, "each worker waits for south"
        north = Peer.call(frames.make_tls(part(made, "north")), port)
        north.greet(endpoint("north"))
        north.send(Types.DATA, b"envelope of north", app=flare_frames.APP)
        if weak:
            time.sleep(1.0)
            assert not got
        else:
            wait_until(lambda: ("north", b"envelope of north") in got)
        assert flood.is_alive(), "south still holds its line"
        north.close()
        south.close()


@pytest.mark.parametrize("weak", [False, True])
def test_no_envelope_comes_before_a_greeting(
    made: Federation, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """A hospital sends an envelope of 250 MB without a greeting: nobody knew whose it was, but
    it was kept in memory first.
    """
    if weak:
        real = flare_frames.is_welcome
        monkeypatch.setattr(
            flare_frames,
            "is_welcome",
            lambda p, listening, greeted: real(p, listening=listening, greeted=True),
        )
    with listening(part(made, "coordinator"), []) as (_, port):
        peer = Peer.call(frames.make_tls(part(made, "south")), port)
        peer.send(Types.DATA, b"x" * 100, app=flare_frames.APP, length=250_000_000)
        assert peer.is_closed(1.0) is not weak
        peer.close()


@pytest.mark.parametrize("weak", [False, True])
def test_an_answer_that_nobody_waits_for_costs_no_memory(made: Federation, weak: bool) -> None:
    """A hospital sends answers of many megabytes to calls that nobody made."""
    size, got = 30_000_000, []
    wants = lambda name, head, length: weak or head[:1] == b"1"  # noqa: E731
    with listening(part(made, "coordinator"), got, wants) as (_, port):
        peer = Peer.call(frames.make_tls(part(made, "south")), port)
        peer.greet(endpoint("south"))
        tracemalloc.start()
        try:
            peer.send(Types.DATA, app=flare_frames.APP, length=PREFIX_LEN + size)
            for _ in range(size // 100_000):
                peer.sock.sendall(bytes(100_000))
            peer.send(Types.DATA, b"1" * 20, app=flare_frames.APP)
            made.wait_for(lambda: ("south", b"1" * 20) in got, "the wanted one", 10)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (peak > size) is weak
        peer.close()


class Line:
    """A wire on which a site reads nothing until it is told to."""

    def __init__(self, *facts: Any, wants: Any, **named: Any) -> None:
        self.wants, self.sent, self.reads = wants, [], threading.Event()

    def listen(self, listener: Any) -> None: ...

    def send(self, name: str, payload: bytes) -> bool:
        self.reads.wait(20)
        self.sent.append((name, payload))
        return True


@pytest.fixture
def carried(made: Federation, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Link]]:
    """The coordinator's carrier in this process, on a false line; and the link behind it."""
    monkeypatch.setattr(wires, "Wire", Line)
    monkeypatch.setattr(sandbox, "harden", lambda: None)
    monkeypatch.setattr(carrier, "confine", lambda kit: None)
    monkeypatch.setattr(carrier, "open_listener", lambda kit: "a listener")
    one = carrier.Carrier(part(made, "coordinator"))
    ours, theirs = socket.socketpair()
    threading.Thread(target=one.attach, args=(Link(theirs),), daemon=True).start()
    yield one, Link(ours)
    one.wire.reads.set()
    ours.close()


@pytest.mark.parametrize("weak", [False, True])
def test_a_lane_is_bounded(
    carried: tuple[Any, Link], monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """A hospital reads nothing while its calls are repeated: they piled up in the carrier."""
    one, link = carried
    if weak:
        one._room = {site: threading.Semaphore(999) for site in one._room}
    for number in range(1, 21):
        link.send(Frame("call", number, "south", b"x"))
    if weak:
        time.sleep(0.5)
        assert len(one._asked["south"]) == 20
        return
    refused = [link.receive() for _ in range(20 - carrier.MOST_CALLS)]
    assert refused == [Frame("gone", n, "south") for n in range(carrier.MOST_CALLS + 1, 21)]
    link.send(Frame("gone", 3, "south"))  # nobody waits for this one any more
    link.send(Frame("call", 21, "south", b"x"))
    assert link.receive() == Frame("gone", 21, "south")
    one.wire.reads.set()
    link.send(Frame("call", 22, "west", b"x"))
    end = time.monotonic() + 10
    while len(one.wire.sent) < carrier.MOST_CALLS and time.monotonic() < end:
        time.sleep(0.01)
    numbers = [from_payload(payload, name).number for name, payload in one.wire.sent]  # type: ignore[union-attr]
    assert sorted(numbers) == [1, 2, *range(4, carrier.MOST_CALLS + 1), 22]


def test_only_one_answer_to_a_call_is_wanted(carried: tuple[Any, Link]) -> None:
    """Answers to no call, of another site, a second one, and what is no answer."""
    one, link = carried
    link.send(Frame("call", 7, "south", b"x"))
    end = time.monotonic() + 10
    while not one._asked["south"] and time.monotonic() < end:
        time.sleep(0.01)

    def wanted(frame: Frame, length: int = 100) -> bool:
        return bool(one._wants(frame.name, to_payload(frame), length))

    assert not wanted(Frame("answer", 8, "south"))
    assert not wanted(Frame("answer", 7, "west"))
    assert not wanted(Frame("call", 7, "south"))
    assert not wanted(Frame("gone", 7, "south"))  # one with a body
    assert not one._wants("south", b"\xff" * PAYLOAD_BYTES, 0)
    assert wanted(Frame("answer", 7, "south"))
    assert not wanted(Frame("answer", 7, "south"))
    one._asked["south"].add(9)
    assert wanted(Frame("gone", 9, "south"), 0)
    one._asked["south"].add(10)
    one._gone("south")
    assert not wanted(Frame("answer", 10, "south"))


# --- Names and keys -------------------------------------------------------------------------------


@pytest.mark.parametrize("weak", [False, True])
def test_a_hospital_cannot_take_another_ones_name(
    made: Federation, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """South greets as north, to get north's envelopes: its certificate says otherwise."""
    if weak:
        monkeypatch.setattr(wires._Names, "require_match", lambda *facts: None)
    with listening(part(made, "coordinator"), []) as (wire, port):
        peer = Peer.call(frames.make_tls(part(made, "south")), port)
        peer.greet(endpoint("north"))
        assert peer.is_closed(1.0) is not weak
        assert wire.send("north", b"\0" * 20) is weak
        peer.close()


def forge(made: Federation, name: str, folder: Path, side: str = "site") -> Any:
    """A certificate that the holder of the authority folder makes for anybody."""
    authority = _Authority.open(made.folder / "kits" / "authority", "x")
    certificate, key = authority.issue(name, "carrier", side)
    folder.mkdir()
    (folder / "certificate.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key)
    return type("Forged", (), {"folder": folder})


@pytest.mark.parametrize("weak", [False, True])
def test_a_forged_administrator_is_nobody(made: Federation, tmp_path: Path, weak: bool) -> None:
    """With the authority's root anybody gets a certificate, but only hospitals are let in.

    And there is nothing to administer: no command, no job, no deployment.
    """
    forged = forge(made, "admin@fedrulefit.invalid", tmp_path / "admin")
    with listening(part(made, "coordinator"), []) as (wire, port):
        if weak:
            wire.driver._names = (*wire.driver._names, "admin@fedrulefit.invalid")
        peer = Peer.call(frames.make_tls(forged), port)
        with contextlib.suppress(OSError):
            peer.greet(endpoint("admin@fedrulefit.invalid"))
        assert peer.is_closed(1.0) is not weak
        peer.close()


@pytest.mark.parametrize("weak", [False, True])
def test_the_key_for_tls_signs_no_envelope(
    made: Federation, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """Whoever takes the coordinator's carrier over has its key for TLS, and tries to sign."""
    if weak:
        monkeypatch.setattr(identity, "is_for_signing", lambda certificate: True)
    stolen = part(made, "coordinator").identity
    envelope = sign_letter(Letter("ask", "x", b"request"), sender=stolen, recipient="north")
    believe = part(made, "north", "site").trust()
    if weak:
        assert read_signed(envelope, trust=believe, sender="localhost", recipient="north").body
    else:
        with pytest.raises(ProtocolError, match="not one for signing"):
            read_signed(envelope, trust=believe, sender="localhost", recipient="north")


@pytest.mark.parametrize(
    ("role", "owner", "let_in"),
    [("carrier", "south", True), ("site", "south", False), ("carrier", "coordinator", False)],
)
def test_only_a_hospitals_key_for_tls_connects(
    made: Federation, role: str, owner: str, let_in: bool
) -> None:
    """A key that signs, or the coordinator's own, opens no connection to the coordinator."""
    kit = part(made, owner, role)
    peer = None
    try:
        peer = Peer.call(frames.make_tls(kit), port_of(made))
        peer.greet(endpoint("south"))
        greeted = next(peer.frames(3.0), None)
    except OSError:
        greeted = None
    assert (greeted is not None) is let_in
    if peer is not None:
        peer.close()


@pytest.mark.parametrize(("side", "let_in"), [("coordinator", True), ("site", False)])
def test_a_hospital_calls_nobody_but_the_coordinator(
    made: Federation, tmp_path: Path, side: str, let_in: bool
) -> None:
    """Another hospital's certificate, made for the coordinator's name, does not serve."""
    forged = forge(made, "localhost", tmp_path / "false", side)
    client = make_tls(part(made, "north"))
    ours, theirs = socket.socketpair()
    theirs.settimeout(5.0)
    server = frames.make_tls(forged, listens=True)

    def serve() -> None:
        with contextlib.suppress(OSError):
            server.wrap_socket(theirs, server_side=True)

    thread = threading.Thread(target=serve)
    thread.start()
    ours.settimeout(5.0)
    try:
        client.wrap_socket(ours, server_hostname="localhost").close()
        connected = True
    except ssl.SSLError:
        connected = False
    ours.close()
    thread.join(10)
    assert connected is let_in


# --- Attack 11: links in a kit --------------------------------------------------------------------


def weak_files(folder: Path) -> dict[str, bytes]:
    """How kits were read before: links are followed, linked folders skipped."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("how", ["folder", "file", "hard", "pipe", "part"])
def test_a_link_in_a_sealed_kit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, weak: bool
) -> None:
    """A link added to a sealed kit led to code of somebody else, while the seal held."""
    kit = provision(make_consortium(("north",)), tmp_path / "kits")["north"]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "sitecustomize.py").write_text("print('mine')")
    site = kit / "site"
    match how:
        case "folder":
            (site / "custom").symlink_to(outside)
        case "file":
            shutil.copy(site / "readme.txt", outside / "readme.txt")
            (site / "readme.txt").unlink()
            (site / "readme.txt").symlink_to(outside / "readme.txt")
        case "hard":
            os.link(site / "key.pem", outside / "key.pem")
        case "pipe":
            os.mkfifo(site / "pipe")
        case "part":
            shutil.move(site, outside / "site")
            site.symlink_to(outside / "site")
    if weak:
        monkeypatch.setattr(kits, "_read_files", weak_files)
        monkeypatch.setattr(kits, "_find_part", lambda folder, role: folder / role)
        assert Kit.load(kit, "site").name == "north"
    else:
        with pytest.raises(FederationError, match="link"):
            Kit.load(kit, "site")


# --- Attack 16: half-open connections -------------------------------------------------------------


def open_halves(port: int, number: int) -> list[socket.socket]:
    """Open connections that never show a certificate."""
    halves = []
    for _ in range(number):
        sock = socket.socket()
        sock.settimeout(2.0)
        sock.connect(("127.0.0.1", port))
        halves.append(sock)
    return halves


def can_connect(kit: Kit, port: int, name: str) -> bool:
    try:
        peer = Peer.call(frames.make_tls(kit), port)
        peer.greet(endpoint(name))
        found = next(peer.frames(3.0), None)
        peer.close()
    except OSError:
        return False
    return found is not None


def count_files(process: psutil.Process) -> int:
    """Open files, where we may look: a hardened process shows them to root only."""
    try:
        return process.num_fds()
    except psutil.AccessDenied:
        return 0


def test_half_open_connections_neither_fill_nor_lock_the_coordinator(made: Federation) -> None:
    """Anybody opens 400 connections and shows no certificate; a hospital still gets in."""
    process = made.carrier("coordinator")
    before, files = process.memory_info().rss, count_files(process)
    halves = open_halves(port_of(made), 400)
    try:
        south = part(made, "south")
        made.wait_for(lambda: can_connect(south, port_of(made), "south"), "south", 5)
        assert count_files(process) - files <= 64
        assert process.memory_info().rss - before < 60e6
    finally:
        for sock in halves:
            sock.close()


@pytest.mark.parametrize(
    ("door", "bounded"),
    [
        ({"most": 16, "most_per_address": 4}, True),
        ({"most": 12, "most_per_address": 999}, True),
        ({"most": 9999, "most_per_address": 9999}, False),
    ],
    ids=["by address", "in all", "weak"],
)
def test_the_door_is_bounded(made: Federation, door: dict[str, int], bounded: bool) -> None:
    """After a grace the oldest go and the newest come in; all must show a certificate in time."""
    with listening(part(made, "coordinator"), [], seconds=2.0, **door) as (wire, port):
        halves = open_halves(port, 200)
        time.sleep(0.5)
        waiting = len(wire.driver.door._waiting)
        assert (waiting <= 12) is bounded, waiting
        assert can_connect(part(made, "south"), port, "south")
        time.sleep(2.5)
        assert not wire.driver.door._waiting
        for sock in halves:
            sock.close()


@pytest.mark.parametrize("weak", [False, True])
def test_a_flood_pushes_out_nobody_who_is_at_it(weak: bool) -> None:
    """Half-open connections from a hospital's own address closed it in mid-handshake."""
    door = Door(most=8, most_per_address=4, grace=0.0 if weak else 0.3)
    hospital, *flood = [socket.socket() for _ in range(12)]
    assert door.enter(hospital, "192.0.2.1")
    let_in = [door.enter(sock, "192.0.2.1") for sock in flood]
    assert (hospital in door._waiting) is not weak
    assert weak or let_in == [True] * 3 + [False] * 8
    for k in range(4):
        door.enter(socket.socket(), f"192.0.2.{k + 10}")
    assert len(door._waiting) == 8
    assert weak or not door.enter(flood[-1], "192.0.2.99")
    time.sleep(0.35)
    assert door.enter(flood[-1], "192.0.2.1")  # the oldest had its time
    assert hospital not in door._waiting


def test_slow_handshakes_do_not_stretch_the_time(made: Federation) -> None:
    """A byte now and then does not keep the door open."""
    with listening(part(made, "coordinator"), [], seconds=1.0) as (wire, port):
        (half,) = open_halves(port, 1)
        for byte in b"\x16\x03\x01\x02":
            with contextlib.suppress(OSError):
                half.sendall(bytes([byte]))
            time.sleep(0.4)
        assert not wire.driver.door._waiting
        half.close()


# --- What a carrier has, and can reach ------------------------------------------------------------


def test_a_carrier_has_nothing_of_the_site(made: Federation) -> None:
    """Environment, open files, working folder and memory of a running site's carrier."""
    os.environ["FEDRULEFIT_SITE_STATE"] = "/secret/state"
    try:
        made.start("north")
    finally:
        del os.environ["FEDRULEFIT_SITE_STATE"]
    try:
        process = made.carrier("north")
        kit, log = part(made, "north"), made.folder / "north.log"
        made.wait_for(lambda: "localhost is here" in log.read_text(), "the connection")
        try:
            environment = process.environ()
        except psutil.AccessDenied:
            pytest.skip("only root may look into a hardened process")
        allowed = {"LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ", "PYTHONPATH"}
        assert set(environment) <= allowed
        assert Path(process.cwd()) == kit.folder
        assert process.open_files() == []
        assert os.getsid(process.pid) == process.pid  # no terminal of the site's
        assert (
            "INFO fedrulefit.federation.carrier.keeper: carrier: INFO: localhost is here"
            in log.read_text()
        )
        assert [c.raddr.port for c in process.net_connections("tcp")] == [port_of(made)]
        words = " ".join(process.cmdline())
        assert not [word for word in ("parquet", "policy", "study", "state") if word in words]
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        site = psutil.Process(made.processes["north"].pid)
        assert not site.net_connections("tcp")
        assert not [m for m in site.memory_maps() if "grpc" in m.path]
    finally:
        made.processes["north"].terminate()
        made.processes.pop("north").wait(10)


PROBE = """
import json, os, socket, subprocess, sys
from pathlib import Path
from fedrulefit.federation.carrier import process as carrier
from fedrulefit.federation.kits.kit import Kit
facts = json.loads(sys.argv[1])
def attempt(what):
    try:
        what()
    except (OSError, PermissionError) as error:
        return False
    return True
kit = Kit.load(facts["kit"], "carrier")
if facts["confined"]:
    carrier.confine(kit)
import ipaddress, email.utils  # Python's own files stay readable
print(json.dumps({
    "table": attempt(lambda: open(facts["table"], "rb")),
    "signing key": attempt(lambda: open(facts["key"], "rb")),
    "state folder": attempt(lambda: os.listdir(facts["state"])),
    "its own key": attempt(lambda: open(kit.folder / "key.pem", "rb")),
    "a write": attempt(lambda: open(facts["state"] + "/new", "wb")),
    "a program": attempt(lambda: subprocess.run(["/bin/true"], check=True)),
    "another port": attempt(lambda: socket.create_connection(("127.0.0.1", facts["port"]), 2)),
    "a port of its own": attempt(lambda: socket.create_server(("127.0.0.1", 0))),
    "a signal": attempt(lambda: os.kill(os.getppid(), 0)),
    "names": attempt(lambda: socket.getaddrinfo("localhost", 80)),
}))
"""


@pytest.mark.skipif(sandbox.landlock_abi() < 6, reason="this kernel has no Landlock of version 6")
@pytest.mark.parametrize("confined", [True, False])
def test_a_carrier_that_was_taken_over_reaches_nothing(
    made: Federation, confined: bool, tmp_path: Path
) -> None:
    """Code that runs in a carrier reads no table, no key, starts nothing and calls nobody."""
    state = tmp_path / "state"
    state.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        facts = {
            "kit": str(made.kits["north"]),
            "table": str(made.folder / "north.parquet"),
            "key": str(made.kits["north"] / "site" / "key.pem"),
            "state": str(state),
            "port": other.getsockname()[1],
            "confined": confined,
        }
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", PROBE, json.dumps(facts)],
            capture_output=True,
            timeout=60,
            check=True,
            cwd="/",
        )
    found = json.loads(done.stdout)
    assert found.pop("names") is True
    assert set(found.values()) == {not confined}, found


@pytest.mark.skipif(sandbox.landlock_abi() < 6, reason="this kernel has no Landlock of version 6")
@pytest.mark.parametrize("abi", [0, 1, 2, 3, 4, 5, 6])
def test_an_older_kernel_is_told_of(abi: int, tmp_path: Path) -> None:
    """On a kernel whose Landlock lacks something, the carrier says what it can do still."""
    attempts = {
        "start programs": "open(sys.argv[1]).read()",
        "empty its user's files": "os.truncate(sys.argv[1], 0)",
        "TCP": "socket.create_server(('127.0.0.1', 0))",
        "signals": "os.kill(os.getppid(), 0)",
    }
    code = "import os, socket, sys\nfrom fedrulefit.federation.carrier import sandbox\n"
    code += f"sandbox.landlock_abi = lambda: {abi}\n"
    code += "print(*sandbox.confine(read=sandbox.python_files()))\n"
    for words, attempt in attempts.items():
        code += f"try:\n    {attempt}\n    print({('CAN ' + words)!r})\nexcept OSError: pass\n"
    (tmp_path / "file").write_text("rows")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, str(tmp_path / "file")],
        capture_output=True,
        timeout=60,
        check=True,
        cwd="/",
    )
    said, *can = done.stdout.decode().splitlines()
    assert bool(said) is (abi < 6)
    for words in attempts:
        assert (words in said) is (f"CAN {words}" in can), words


@pytest.mark.parametrize("how", ["-m", "script", "PYTHONPATH"])
def test_the_working_folder_is_none_of_pythons(how: str, tmp_path: Path) -> None:
    """``python -m`` puts the working folder, where a table may lie, among Python's own."""
    (tmp_path / "program.py").write_text(
        "from fedrulefit.federation.carrier import sandbox\n"
        "print(*sandbox.python_files(), sep='\\n')"
    )
    source = str(Path(sandbox.__file__).parents[3])
    paths = [str(tmp_path), source] if how == "PYTHONPATH" else [source]
    options = {"-m": ["-m", "program"], "script": ["program.py"]}
    done = subprocess.run(  # noqa: S603
        [sys.executable, *options.get(how, ["-P", "-m", "program"])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        timeout=60,
        check=True,
        cwd=tmp_path,
    )
    found = done.stdout.decode().splitlines()
    assert source in found
    assert str(tmp_path) not in found


@pytest.mark.skipif(sandbox.landlock_abi() < 4, reason="this kernel has no Landlock of version 4")
@pytest.mark.parametrize("weak", [False, True])
def test_the_process_with_the_table_cannot_connect(weak: bool) -> None:
    """Even code that runs beside the table opens no connection; its carrier's thread may."""
    code = (
        "import socket, sys; from fedrulefit.federation import behind\n"
        f"{'' if weak else 'behind.give_up_network()'}\n"
        "socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)"
    )
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code, port], capture_output=True, timeout=60, check=False
        )
    assert (done.returncode == 0) is weak
    assert weak or b"PermissionError" in done.stderr
