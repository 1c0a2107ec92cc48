"""The coordinator's process: runs, journals and its own key; no network.

All it knows of the world are envelopes that a carrier brings
(:mod:`fedrulefit.federation.carrier`), and each is checked for the sender's signature
before anything else.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedrulefit.errors import FederationError
from fedrulefit.federation.behind import attend, begin, close_kit, give_up_network, kit_certificates
from fedrulefit.federation.carrier.link import Frame, Link
from fedrulefit.federation.coordinator.caller import Caller
from fedrulefit.federation.coordinator.serving import serve
from fedrulefit.federation.expiry import refuse_expired, warn_of_expiry
from fedrulefit.federation.folderlock import lock_folder
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.state import Owner, check_owner, open_state, write_owner

log = logging.getLogger(__name__)


def start_coordinator(
    kit: Kit,
    state: Path,
    socket: Path | None = None,
    tell: Callable[[list[str]], None] = lambda warnings: None,
) -> None:
    """Carry out the runs of a state folder, until the process ends.

    Parameters
    ----------
    kit : Kit
        The ``coordinator`` part.
    state : Path
    socket : Path, optional
        Where a carrier of another user comes; a child process, if not given.
    tell : callable
        Told the warnings that a person should read, before anything is asked.
    """
    keeper = begin(kit, socket)
    give_up_network()
    warnings = open_coordinator(kit, state)
    with lock_folder(state):
        tell(warnings)
        calls = Calls()
        caller = Caller(calls.send, kit.identity, kit.trust(), kit.coordinator)
        stop = threading.Event()
        serving = (state, caller, kit.sites, stop)
        threading.Thread(target=serve, args=serving, daemon=True, name="fedrulefit runs").start()
        try:
            attend(keeper, socket, calls.attend)
        finally:
            stop.set()


def open_coordinator(kit: Kit, state: Path) -> list[str]:
    """Check what a coordinator needs, and bind its state folder; return warnings.

    Raises
    ------
    FederationError
        Saying what is wrong, and what to do.
    """
    os.umask(0o077)
    refuse_expired("coordinator", kit.identity)
    warnings = [*open_state(state), *close_kit(kit)]
    owner = Owner.of("coordinator", kit.name, kit.identity, kit.trust())
    check_owner(state, owner, chartered=False)
    write_owner(state, owner)
    return warnings + warn_of_expiry(kit_certificates(kit))


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
