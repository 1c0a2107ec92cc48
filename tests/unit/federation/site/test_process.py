"""A site answers calls, whatever its carrier sends."""

from __future__ import annotations

import socket
import struct
import threading

from fedrulefit.federation.carrier.link import Frame, Link
from fedrulefit.federation.site import process as site_process
from tests.links import pair


def test_a_broken_frame_does_not_end_a_site() -> None:
    """A carrier that was taken over sends rubbish: its link ends, and the next one is served."""
    for data in (b"rubbish" * 10, struct.pack(">IBQB", 5, 0, 1, 0) + b"ab", b""):
        ours, theirs = socket.socketpair()
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        site_process.answer_calls(Link(theirs), lambda envelope: envelope)
        ours.close()


def test_a_site_answers_calls_only_and_survives_its_own_errors() -> None:
    ours, theirs = pair()
    received: list[bytes] = []

    def receive(envelope: bytes) -> bytes:
        received.append(envelope)
        if envelope == b"bad":
            raise ValueError("a patient's value")
        return envelope[::-1]

    thread = threading.Thread(target=site_process.answer_calls, args=(theirs, receive))
    thread.start()
    for frame in (Frame("answer", 1, "x", b"no"), Frame("gone", 2), Frame("call", 3, "c", b"bad")):
        ours.send(frame)
    assert ours.receive() == Frame("gone", 3, "c")
    ours.send(Frame("call", 4, "c", b"abc"))
    assert ours.receive() == Frame("answer", 4, "c", b"cba")
    ours.close()
    thread.join(10)
    assert received == [b"bad", b"abc"]
