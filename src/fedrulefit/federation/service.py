"""The processes behind carriers: a hospital's and the coordinator's. They have no network.

A hospital's has table, policy, ledger, journal and the key that signs; the coordinator's
has runs, journals and its own key. All they know of the world are envelopes that a
carrier brings (:mod:`fedrulefit.federation.carrier`), and each envelope is checked for the
sender's signature before anything else.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fedrulefit.errors import FederationError
from fedrulefit.federation import sandbox
from fedrulefit.federation.consortium import Kit
from fedrulefit.federation.host import lock_folder
from fedrulefit.federation.keeper import Keeper, accept_carriers, set_up_logging
from fedrulefit.federation.link import Frame, Link
from fedrulefit.federation.runs import Caller, serve
from fedrulefit.federation.startup import open_host

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Envelopes that a site opens at the same time; more stay unread in the socket."""


# --- A hospital -------------------------------------------------------------------------------


def start_site(kit: Kit, facts: Mapping[str, Any], socket: Path | None = None) -> None:
    """Answer for a hospital, until the process ends.

    Parameters
    ----------
    kit : Kit
        The ``site`` part.
    facts : mapping
        As for :func:`open_host`.
    socket : Path, optional
        Where a carrier of another user comes; a child process, if not given.
    """
    keeper = _begin(kit, socket)
    give_up_network()
    host = open_host(facts)
    log.info("site %s is ready", host.name)
    _attend(keeper, socket, lambda link: answer_calls(link, host.receive))


def answer_calls(link: Link, receive: Callable[[bytes], bytes]) -> None:
    """Answer the calls of one carrier, a few at a time, until it is gone."""
    room = threading.Semaphore(AT_ONCE)

    def answer(frame: Frame) -> None:
        try:
            link.send(Frame("answer", frame.number, frame.name, receive(frame.body)))
        except Exception as error:  # its words could hold a patient's value
            log.error("an envelope could not be answered (%s)", type(error).__name__)
            link.send(Frame("gone", frame.number, frame.name))
        finally:
            room.release()

    with ThreadPoolExecutor(AT_ONCE, "fedrulefit calls") as pool:
        try:
            while (frame := link.receive()) is not None:
                if frame.kind == "call":
                    room.acquire()
                    pool.submit(answer, frame)
        except FederationError as error:
            log.error("%s", error)
        finally:
            link.close()


# --- The coordinator --------------------------------------------------------------------------


def start_coordinator(kit: Kit, state: Path, socket: Path | None = None) -> None:
    """Carry out the runs of a state folder, until the process ends.

    Parameters
    ----------
    kit : Kit
        The ``coordinator`` part.
    state : Path
    socket : Path, optional
        Where a carrier of another user comes; a child process, if not given.
    """
    keeper = _begin(kit, socket)
    give_up_network()
    lock = lock_folder(state)
    calls = Calls()
    caller = Caller(calls.send, kit.identity, kit.trust(), kit.coordinator)
    stop = threading.Event()
    threading.Thread(
        target=serve, args=(state, caller, kit.sites, stop), daemon=True, name="fedrulefit runs"
    ).start()
    try:
        _attend(keeper, socket, calls.attend)
    finally:
        stop.set()
        lock.close()


@dataclass
class _Call:
    """A call under way."""

    site: str
    ended: threading.Event = field(default_factory=threading.Event)
    answer: bytes | None = None

    def end(self, answer: bytes | None) -> None:
        self.answer = answer
        self.ended.set()


class Calls:
    """Calls sites through whatever carrier is there."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._link: Link | None = None
        self._open: dict[int, _Call] = {}
        self._lock = threading.Lock()

    def send(self, site: str, envelope: bytes, seconds: float) -> bytes | None:
        """Send a site an envelope; return its answer, or None if it is out of reach."""
        link = self._link
        if link is None:
            return None
        call = _Call(site)
        with self._lock:
            number = next(self._numbers)
            self._open[number] = call
        try:
            if link.send(Frame("call", number, site, envelope)) and not call.ended.wait(seconds):
                link.send(Frame("gone", number, site))  # too late: the carrier need not keep it
            return call.answer
        finally:
            with self._lock:
                self._open.pop(number, None)

    def attend(self, link: Link) -> None:
        """Take the answers that one carrier brings, until it is gone."""
        self._link = link
        try:
            while (frame := link.receive()) is not None:
                self._take(frame)
        except FederationError as error:
            log.error("%s", error)
        finally:
            self._link = None
            link.close()
            self._end(lambda call: True)

    def _take(self, frame: Frame) -> None:
        if frame.kind == "gone" and not frame.number:
            self._end(lambda call: call.site == frame.name)
        elif frame.kind in ("answer", "gone"):
            with self._lock:
                call = self._open.get(frame.number)
            if call is not None and call.site == frame.name:
                call.end(frame.body if frame.kind == "answer" else None)

    def _end(self, concerned: Callable[[_Call], bool]) -> None:
        """End calls that will have no answer."""
        with self._lock:
            calls = [call for call in self._open.values() if concerned(call)]
        for call in calls:
            call.end(None)


# --- Both -------------------------------------------------------------------------------------


def give_up_network() -> None:
    """Give up TCP for good, in this thread and all that it starts."""
    if not sandbox.forbid_tcp():
        log.warning("this kernel has no Landlock for TCP: this process could open connections")


def _begin(kit: Kit, socket: Path | None) -> Keeper | None:
    """Harden this process, and make ready to start its carrier where it has one of its own."""
    set_up_logging()
    sandbox.harden()
    if socket is not None:
        return None
    keeper = Keeper(kit.carrier())
    keeper.start()

    def end(number: int, _frame: object) -> None:
        """End at once: all that matters is on disk."""
        keeper.end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return keeper


def _attend(keeper: Keeper | None, socket: Path | None, take: Callable[[Link], None]) -> None:
    """Serve one carrier after another."""
    if socket is not None:
        accept_carriers(socket, take)
    while keeper is not None:
        take(keeper.next())
