"""The coordinator's calls end, whatever its carrier does."""

from __future__ import annotations

import threading
import time

import pytest

from fedrulefit.federation.carrier.link import Frame
from fedrulefit.federation.coordinator import process as coordinator_process
from tests.links import pair, pump


class TestCalls:
    def test_an_answer_counts_only_from_the_site_that_was_called(self) -> None:
        """A carrier that mixes up sites, or makes up numbers, ends no call."""
        calls, (ours, theirs) = coordinator_process.Calls(), pair()
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
        calls, (ours, theirs) = coordinator_process.Calls(), pair()

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
