"""What may come in: frames judged by how they begin, on a TLS connection of our own."""

from __future__ import annotations

import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo, Mode
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.sfm.constants import Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from fedrulefit.federation.carrier.link import MAX_BODY, PAYLOAD_BYTES

log = logging.getLogger(__name__)

APP: Final = 7102
"""The one application number that is answered."""

MAX_SMALL: Final = 1024
"""Bytes of the largest greeting or heartbeat."""

STALLED_SECONDS: Final = 30.0
"""Without progress, after which a line is given up."""

SILENT_SECONDS: Final = 180.0
"""Without a word, three heartbeats, after which a line is given up."""


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


class Connection(SocketConnection):  # type: ignore[misc]
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
        """Read so many bytes, as they come."""
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


def _keep_alive(sock: socket.socket) -> None:
    """Notice a dead line within half a minute."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
