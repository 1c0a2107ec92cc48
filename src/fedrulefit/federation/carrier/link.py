"""Frames over a local socket, between a carrier and the process behind it.

A carrier has the network and nothing else; the process behind it has the patients (or
the runs) and no network. Between them go frames of a fixed shape, which hold sealed
envelopes that neither end of the socket opens here:

==========  ======================================================================
``call``    take this envelope to (or: from) ``name``, and answer under this number
``answer``  the answer to the call of this number
``gone``    there will be no answer, or none is waited for; without a number: nobody is
            there any more
==========  ======================================================================

What comes out of the socket is not trusted: lengths are checked before anything is
allocated, and a frame of another shape ends the link.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Final, Literal

from fedrulefit.errors import FederationError

Kind = Literal["call", "answer", "gone"]

MAX_BODY: Final = (256 << 20) + (1 << 16)
"""Bytes of the largest envelope."""

_KINDS: Final[tuple[Kind, ...]] = ("call", "answer", "gone")
_HEAD: Final = struct.Struct(">IBQB")
_PAYLOAD: Final = struct.Struct(">BQ")
PAYLOAD_BYTES: Final = _PAYLOAD.size
"""What :func:`to_payload` puts in front of an envelope."""


@dataclass(frozen=True)
class Frame:
    """One frame.

    Parameters
    ----------
    kind : {"call", "answer", "gone"}
    number : int
        Which call it is about; 0 for none.
    name : str
        The site at the other end of the network.
    body : bytes
        An envelope, unread.
    """

    kind: Kind
    number: int = 0
    name: str = ""
    body: bytes = b""


class Link:
    """One end of the local socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, frame: Frame) -> bool:
        """Send a frame; return whether the other end is still there."""
        name = frame.name.encode()
        head = _HEAD.pack(len(frame.body), _KINDS.index(frame.kind), frame.number, len(name))
        try:
            with self._sending:
                self._connection.sendall(head + name)
                self._connection.sendall(frame.body)
        except OSError:
            return False
        return True

    def receive(self) -> Frame | None:
        """Return the next frame, or None where the other end is gone.

        Raises
        ------
        FederationError
            If what came is no frame.
        """
        head = self._read(_HEAD.size)
        if head is None:
            return None
        length, kind, number, n_name = _HEAD.unpack(head)
        if length > MAX_BODY or kind >= len(_KINDS):
            raise FederationError("what came over the local socket is no frame")
        name, body = self._read(n_name), self._read(length)
        if name is None or body is None:
            return None
        return Frame(_KINDS[kind], number, name.decode(errors="replace"), body)

    def close(self) -> None:
        """Close this end; a read of the other ends."""
        with contextlib.suppress(OSError):  # the other end may be faster
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _read(self, length: int) -> bytes | None:
        data = bytearray()
        while len(data) < length:
            try:
                part = self._connection.recv(min(length - len(data), 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)


def to_payload(frame: Frame) -> bytes:
    """Return a frame as it goes over the network, where the name is the certificate's."""
    return _PAYLOAD.pack(_KINDS.index(frame.kind), frame.number) + frame.body


def from_payload(payload: bytes | memoryview, name: str) -> Frame | None:
    """Return the frame that `name` sent, or None if it is none."""
    if not PAYLOAD_BYTES <= len(payload) <= PAYLOAD_BYTES + MAX_BODY:
        return None
    kind, number = _PAYLOAD.unpack_from(payload)
    if kind >= len(_KINDS):
        return None
    return Frame(_KINDS[kind], number, name, bytes(memoryview(payload)[PAYLOAD_BYTES:]))
