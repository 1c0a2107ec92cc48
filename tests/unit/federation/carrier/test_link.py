"""Frames over the local socket: what arrives, and what is refused."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation.carrier import link
from fedrulefit.federation.carrier.link import Frame, Link
from fedrulefit.protocol.wire import MAX_BYTES
from tests.links import pair


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
