"""NVIDIA FLARE as a carrier of bytes: its messaging layer, and nothing above it.

Of FLARE we use the *communicator*: endpoints known by their certificates, reconnection
with growing pauses, heartbeats, and frames of bytes over one TLS connection. FLARE's
client and server applications, which register shell, deployment, job, administration and
network-manager commands, are never started, nor even loaded; nor are its cells, which have
channels and topics, forward for others, and decode objects by class name. So there are no
topics here: a frame goes to an application *number*, and we register one.

What we put around it:

* our own TLS 1.3, with certificates on both sides that say what they are for; the name in
  the certificate must be one of the consortium, and is the only name that counts;
* a frame is judged by its first 16 bytes, before anything is read or decoded: greetings
  and heartbeats of at most a kilobyte, and after a greeting envelopes up to the largest.
  Anything else closes the connection (:func:`is_welcome`);
* an envelope that nobody waits for is passed over, byte by byte, without being kept;
* a door (:class:`Door`) that bounds the connections which have not shown a certificate yet.

This is the only module that imports nvflare (``pip install "fedrulefit[flare]"``), and only
a carrier's process imports this one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import select
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from nvflare.fuel.f3.cellnet.identity import CellIdentityResolver
from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.communicator import Communicator
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo, Mode
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver
from nvflare.fuel.f3.endpoint import Endpoint, EndpointMonitor, EndpointState
from nvflare.fuel.f3.message import Message, MessageReceiver
from nvflare.fuel.f3.sfm.constants import Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from fedrulefit.federation.link import MAX_BODY, PAYLOAD_BYTES

log = logging.getLogger(__name__)

APP: Final = 7102
"""The one application number that is answered."""

MAX_SMALL: Final = 1024
"""Bytes of the largest greeting or heartbeat."""

HANDSHAKE_SECONDS: Final = 5.0
"""Within which a connection must show its certificate."""

STALLED_SECONDS: Final = 30.0
"""Without progress, after which a line is given up."""

SILENT_SECONDS: Final = 180.0
"""Without a word, three heartbeats, after which a line is given up."""

LOST_NAMES: Final = 6
"""Failed look-ups of a name after which a carrier begins afresh."""

MOST_CONNECTIONS: Final = 4
"""Of one certificate at the same time; a new one takes the place of the old."""


# --- What may come in -------------------------------------------------------------------------


def is_welcome(prefix: Prefix, *, listening: bool, greeted: bool) -> bool:
    """Whether a frame that begins so is one of ours; the others are not read."""
    length: int = prefix.length - PREFIX_LEN
    small = 0 <= length <= MAX_SMALL
    match prefix.type:
        case _ if prefix.header_len:
            return False
        case Types.DATA:
            fits = PAYLOAD_BYTES <= length <= PAYLOAD_BYTES + MAX_BODY
            return bool(greeted and prefix.app_id == APP and fits)
        case Types.HELLO:
            return listening and small
        case Types.READY:
            return small and not listening
        case Types.PING | Types.PONG:
            return small
        case _:
            return False


Wants = Callable[[str, bytes, int], bool]
"""Told who sends an envelope, its first bytes and its length; says whether to read it."""


class _Connection(SocketConnection):  # type: ignore[misc]
    """A TLS connection, read and written by different threads under one lock."""

    def __init__(
        self, sock: ssl.SSLSocket, connector: ConnectorInfo, wants: Callable[[bytes, int], bool]
    ) -> None:
        _keep_alive(sock)
        sock.setblocking(False)
        super().__init__(sock, connector, secure=True)
        self._tls = threading.Lock()
        self._wants = wants

    def read_loop(self) -> None:
        """Read until the line breaks; say so where the other end refused us."""
        try:
            self.read_frame_loop()
        except ssl.SSLError as error:
            if not self.closing:
                log.warning("the line was closed: %s", error.reason or "TLS")
        except (CommError, OSError, ValueError) as error:
            log.debug("the line was closed (%s)", type(error).__name__)

    def read_frame(self) -> memoryview:
        """Read the next frame that is wanted; a view, so that FLARE makes no copy of it."""
        while True:
            prefix, head = self._read_head()
            rest = prefix.length - len(head)
            if prefix.type != Types.DATA or self._wants(bytes(head[PREFIX_LEN:]), rest):
                frame = bytearray(prefix.length)
                frame[: len(head)] = head
                self.read_into(frame, len(head), rest)
                return memoryview(frame)
            self._pass_over(rest)

    def _read_head(self) -> tuple[Prefix, bytearray]:
        """Read how a frame begins, and of an envelope what is in front of it; if welcome."""
        head = bytearray(PREFIX_LEN + PAYLOAD_BYTES)
        self.read_into(head, 0, PREFIX_LEN)
        prefix = Prefix.from_bytes(head)
        listening = self.connector.mode == Mode.PASSIVE
        greeted = self.frame_receiver.conn.sfm_endpoint is not None
        if not is_welcome(prefix, listening=listening, greeted=greeted):
            log.warning("closed a connection for a frame that is not ours")
            raise CommError(CommError.BAD_DATA, "not a frame of ours")
        if prefix.type != Types.DATA:
            return prefix, head[:PREFIX_LEN]
        self.read_into(head, PREFIX_LEN, PAYLOAD_BYTES)
        return prefix, head

    def _pass_over(self, length: int) -> None:
        """Read and forget."""
        scrap = bytearray(min(length, 1 << 16))
        while length:
            part = min(length, len(scrap))
            self.read_into(scrap, 0, part)
            length -= part

    def read_into(self, buffer: Any, offset: int, length: int) -> None:
        view = memoryview(buffer)[offset : offset + length]
        while view:
            n = self._do(self.sock.recv_into, view, SILENT_SECONDS)
            if n == 0:
                raise CommError(CommError.CLOSED, "closed by the other end")
            view = view[n:]

    def _send_with_timeout(self, frame: Any, timeout_sec: float) -> None:
        view = memoryview(frame)
        while view:
            sent = self._do(self.sock.send, view, STALLED_SECONDS)
            view = view[sent:]

    def _do(self, operate: Callable[[memoryview], int], view: memoryview, seconds: float) -> int:
        """Read or write what is possible now; wait for it otherwise."""
        end = time.monotonic() + seconds
        while True:
            reads, writes = [self.sock], []
            with self._tls:
                try:
                    return operate(view)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLWantWriteError:
                    reads, writes = [], [self.sock]
            left = end - time.monotonic()
            if left <= 0 or not any(select.select(reads, writes, [], left)):
                raise CommError(CommError.TIMEOUT, "the line is dead")


# --- The door: before a certificate was shown -------------------------------------------------


@dataclass
class Door:
    """Bounds the connections that have not shown a certificate yet.

    Where there are too many the oldest is closed, if it had the time that a hospital far
    away needs; else the newest is refused, so that a flood pushes out nobody who is at it.

    Parameters
    ----------
    most : int
        Connections without a certificate, at the same time.
    most_per_address : int
        Of one address (of one /64 in IPv6).
    seconds : float
        Within which a certificate must be shown.
    grace : float
        Seconds that each one has, however many come after it.
    """

    most: int = 128
    most_per_address: int = 32
    seconds: float = HANDSHAKE_SECONDS
    grace: float = 0.3
    _waiting: OrderedDict[socket.socket, tuple[str, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, sock: socket.socket, address: str) -> bool:
        """Let a connection in, and if need be the oldest out; return whether it is in."""
        near, now = _neighbourhood(address), time.monotonic()
        with self._lock:
            oldest = self._in_the_way(near)
            if oldest is not None:
                if now - self._waiting[oldest][1] < self.grace:
                    return False
                self._drop(oldest)
            self._waiting[sock] = near, now
            return True

    def leave(self, sock: socket.socket) -> None:
        """Count a connection no more."""
        with self._lock:
            self._waiting.pop(sock, None)

    def _in_the_way(self, near: str) -> socket.socket | None:
        """Return who has waited longest, of an address or of all, where there is no room."""
        mine = [other for other, (home, _) in self._waiting.items() if home == near]
        if len(mine) >= self.most_per_address:
            return mine[0]
        return next(iter(self._waiting)) if len(self._waiting) >= self.most else None

    def _drop(self, sock: socket.socket) -> None:
        del self._waiting[sock]
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # under TLS, which another thread reads


def _neighbourhood(address: str) -> str:
    """Return what one party has at its disposal: an IPv4 address, or 2⁶⁴ of IPv6."""
    if address.startswith("::ffff:") or ":" not in address:
        return address
    plain = address.partition("%")[0]
    return str(ipaddress.ip_network((plain, 64), strict=False))


class _Driver(TcpDriver):  # type: ignore[misc]
    """FLARE's TCP driver with our own TLS, checks and bounds."""

    def __init__(self, tls: ssl.SSLContext, names: tuple[str, ...], wants: Wants) -> None:
        super().__init__()
        self._tls, self._names, self._wants = tls, names, wants
        self._failures = 0
        self.listener: socket.socket | None = None
        self.door = Door()

    def listen(self, connector: ConnectorInfo) -> None:
        """Let hospitals in, for ever."""
        self.connector = connector
        if self.listener is None:
            raise CommError(CommError.BAD_CONFIG, "no socket to listen on")
        while True:
            sock, address = self.listener.accept()
            try:
                secured = self._tls.wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False
                )
            except OSError:  # it has gone already
                sock.close()
                continue
            if not self.door.enter(secured, address[0]):
                secured.close()
                continue
            threading.Thread(target=self._welcome, args=(secured, connector), daemon=True).start()

    def connect(self, connector: ConnectorInfo) -> None:
        """Call the coordinator, and read until the line breaks."""
        self.connector = connector
        host = connector.params[DriverParams.HOST.value]
        port = connector.params[DriverParams.PORT.value]
        try:
            sock = socket.create_connection((host, port), timeout=HANDSHAKE_SECONDS)
            secured = self._tls.wrap_socket(sock, server_hostname=host)
        except OSError as error:
            self._failed(error, f"{host}:{port}")
            raise
        self._failures = 0
        self._read(secured, connector)

    def shutdown(self) -> None:
        """Take no more calls, and close all lines."""
        if self.listener is not None:
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
        self.close_all()

    def _failed(self, error: OSError, address: str) -> None:
        """Say why there is no connection, once in a while."""
        self._failures += 1
        if self._failures in (1, 10) or self._failures % 100 == 0:
            log.warning("no connection to %s: %s; trying on", address, _words(error))
        if isinstance(error, socket.gaierror) and self._failures >= LOST_NAMES:
            # The system may have replaced the files that a confined process was left with.
            log.warning("starting afresh, to look the name up anew")
            os._exit(1)

    def _welcome(self, sock: ssl.SSLSocket, connector: ConnectorInfo) -> None:
        """Ask a caller for its certificate, and read what it sends."""
        try:
            sock.settimeout(self.door.seconds)
            sock.do_handshake()
        except (OSError, ValueError):
            sock.close()
            return
        finally:
            self.door.leave(sock)
        self._read(sock, connector)

    def _read(self, sock: ssl.SSLSocket, connector: ConnectorInfo) -> None:
        name = common_name(sock.getpeercert())
        if name not in self._names:
            log.warning("refused a connection: its certificate is of another name")
            sock.close()
            return
        self._make_room(name)
        connection = _Connection(sock, connector, partial(self._wants, name))
        self.add_connection(connection)
        try:
            connection.read_loop()
        finally:
            connection.close()
            self.close_connection(connection)

    def _make_room(self, name: str) -> None:
        """Close the oldest connections of a certificate that has too many."""
        with self.conn_lock:
            mine = [
                connection
                for connection in self.connections.values()
                if connection.conn_props[DriverParams.PEER_CN.value] == name
            ]
        for connection in mine[: max(0, len(mine) - MOST_CONNECTIONS + 1)]:
            log.warning("closed a connection of %s: a newer one took its place", name)
            connection.close()


def common_name(certificate: Any) -> str:
    """Return the one common name of a certificate as Python's ssl tells it, or nothing."""
    parts = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in parts if key == "commonName"]
    return names[0] if len(names) == 1 else ""


def _keep_alive(sock: socket.socket) -> None:
    """Notice a dead line within half a minute."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was refused ({error.verify_message})"
    return error.strerror or type(error).__name__


# --- FLARE's communicator ---------------------------------------------------------------------


class _Names(CellIdentityResolver):  # type: ignore[misc]
    """An endpoint has the name of its certificate, and no other."""

    def require_match(self, fqcn: str, peer_cn: str, peer_desc: str) -> None:
        if not peer_cn or fqcn != _endpoint(peer_cn):
            raise ValueError("an endpoint with a name that is not its certificate's")


def _endpoint(name: str) -> str:
    """Return the name that FLARE knows an endpoint by: it gives dots a meaning, we do not."""
    return name.encode().hex()


class _Bounded(ThreadPoolExecutor):
    """A pool that takes nothing in before it has room: what is not taken stays unread.

    Greetings are handled at once, so that no envelope overtakes them; heartbeats too, so that
    who reads no answer to them holds up its own line and no worker.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, "frames")
        self._room = threading.Semaphore(2 * workers)

    def submit(self, task: Callable[..., Any], /, *facts: Any, **named: Any) -> Future[Any]:
        if Prefix.from_bytes(facts[-1]).type != Types.DATA:
            task(*facts, **named)
            return Future()
        self._room.acquire()
        future = super().submit(task, *facts, **named)
        future.add_done_callback(lambda _: self._room.release())
        return future


class Wire(MessageReceiver, EndpointMonitor):  # type: ignore[misc]
    """One end of the network.

    Parameters
    ----------
    name : str
        This end's name, which is its certificate's.
    names : tuple of str
        The names at the other ends.
    tls : ssl.SSLContext
    wants : Wants
    on_bytes : callable
        Takes a name and what it sent.
    on_gone : callable
        Takes the name of one whose line broke.
    """

    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        tls: ssl.SSLContext,
        *,
        wants: Wants,
        on_bytes: Callable[[str, memoryview], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._names = {_endpoint(other): other for other in names}
        self._on_bytes, self._on_gone = on_bytes, on_gone
        self.driver = _Driver(tls, names, wants)
        me = Endpoint(_endpoint(name), properties={}, conn_props={})
        self.communicator = Communicator(me, _Names(_endpoint(name)))
        self.communicator.conn_manager.frame_mgr_executor = _Bounded(8)
        self.communicator.register_message_receiver(APP, self)
        self.communicator.register_monitor(self)

    def listen(self, listener: socket.socket) -> None:
        """Take calls on a socket."""
        self.driver.listener = listener
        self._start(Mode.PASSIVE, "", listener.getsockname()[1])

    def call(self, host: str, port: int) -> None:
        """Call the coordinator, and again whenever the line breaks."""
        self._start(Mode.ACTIVE, host, port)

    def _start(self, mode: Mode, host: str, port: int) -> None:
        params = {
            DriverParams.SCHEME.value: "stcp",  # by which FLARE knows to check names
            DriverParams.URL.value: f"stcp://{host}:{port}",
            DriverParams.HOST.value: host,
            DriverParams.PORT.value: port,
        }
        self.communicator.add_connector_advanced(self.driver, mode, params, secure=True)
        self.communicator.start()

    def stop(self) -> None:
        """End all lines and threads."""
        self.communicator.stop()

    def send(self, name: str, payload: bytes) -> bool:
        """Send bytes to `name`; return whether they went out."""
        endpoint = self.communicator.find_endpoint(_endpoint(name))
        if endpoint is None or endpoint.state != EndpointState.READY:
            return False
        try:
            self.communicator.send(endpoint, APP, Message(None, payload))
        except CommError:
            return False
        return True

    def process_message(
        self, endpoint: Endpoint, connection: Any, app_id: int, message: Message
    ) -> None:
        """Hand on what came (FLARE calls this)."""
        name = self._names.get(endpoint.name)
        if name is not None and message.payload is not None:
            self._on_bytes(name, message.payload)

    def state_change(self, endpoint: Endpoint) -> None:
        """Tell that a line broke (FLARE calls this)."""
        name = self._names.get(endpoint.name)
        if name is not None:
            log.info("%s is %s", name, "here" if endpoint.state == EndpointState.READY else "gone")
            if endpoint.state != EndpointState.READY:
                self._on_gone(name)
