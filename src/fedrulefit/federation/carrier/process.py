"""The process that has the network, and nothing else.

In: a kit's ``carrier/`` part and one local socket to the process behind it. Out: envelopes,
unread, from one to the other. It has no table, no state folder, no ledger, no policy, no
key that signs, and an environment without paths. Once connected it gives up what it does
not need (:mod:`~fedrulefit.federation.carrier.sandbox`). So whoever takes it over can do what a
coordinator can: deliver envelopes, which are refused unless the right key signed them.

``fedrulefit site start`` and ``coordinator start`` start this as a child. It ends when the
local socket does.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fedrulefit.errors import FederationError
from fedrulefit.federation.carrier import sandbox
from fedrulefit.federation.carrier.keeper import CANNOT_START
from fedrulefit.federation.carrier.link import Frame, Link, from_payload, to_payload
from fedrulefit.federation.carrier.tls import make_tls, open_listener
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.logs import set_up_logging
from fedrulefit.federation.transport import TRANSPORTS

log = logging.getLogger(__name__)

MEMORY: Final = 4 << 30
"""Bytes of address space; envelopes of all sites pass through here."""

FILES: Final = 512
"""Open files, most of them connections."""

MOST_CALLS: Final = 8
"""To one site, that wait to be sent."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry envelopes until the process behind is gone (``python -m``)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kit", required=True, type=Path)
    parser.add_argument("--fd", required=True, type=int)
    options = parser.parse_args(arguments)
    set_up_logging("%(levelname)s: %(message)s")  # the parent adds time and name
    try:
        carrier = Carrier(Kit.load(options.kit, "carrier"))
    except FederationError as error:
        log.error("the carrier cannot start: %s", error)
        sys.exit(CANNOT_START)
    except Exception:
        log.exception("the carrier cannot start")
        sys.exit(CANNOT_START)
    carrier.attach(Link(socket.socket(fileno=options.fd)))
    os._exit(0)  # a transport's threads need no farewell


def carry_over(kit: Kit, path: Path) -> None:
    """Carry envelopes over a Unix socket to a process of another user; for ever."""
    sandbox.need_posix()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # at once: there is nothing to keep
    carrier = Carrier(kit)
    waiting = False
    while True:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(path))
            except OSError as error:
                if not waiting:
                    log.warning("waiting for %s: %s", path, error.strerror)
                waiting = True
                time.sleep(1.0)
                continue
            waiting = False
            carrier.attach(Link(connection))
            time.sleep(1.0)  # another carrier may have taken over: do not fight over it


class Carrier:
    """Envelopes between the network and a local socket.

    Parameters
    ----------
    kit : Kit
        A ``carrier`` part.

    Raises
    ------
    FederationError
        If the coordinator's port cannot be had.
    """

    def __init__(self, kit: Kit) -> None:
        sandbox.harden()
        self._kit = kit
        self._link: Link | None = None
        self._owed: set[int] = set()
        self._asked: dict[str, set[int]] = {site: set() for site in kit.sites}
        self._asking = threading.Lock()
        leads = kit.side == "coordinator"
        listener = open_listener(kit) if leads else None
        self.wire = TRANSPORTS.load(kit.transport)(
            kit.name,
            kit.sites if leads else (kit.coordinator,),
            make_tls(kit),
            wants=self._wants,
            on_bytes=self._from_network,
            on_gone=self._gone,
        )
        # A lane per site: a slow line holds up its own calls only.
        self._lanes = {site: ThreadPoolExecutor(1) for site in kit.sites if leads}
        self._room = {site: threading.Semaphore(MOST_CALLS) for site in kit.sites}
        confine(kit)
        if listener is not None:
            self.wire.listen(listener)
        else:
            self.wire.call(kit.coordinator, kit.port)

    def attach(self, link: Link) -> None:
        """Carry what comes over the local socket, until it ends."""
        self._link = link
        try:
            while (frame := link.receive()) is not None:
                self._to_network(frame)
        except FederationError as error:
            log.error("%s", error)
        finally:
            self._link = None
            link.close()
            self._give_up()

    def _give_up(self) -> None:
        """Tell the coordinator that calls of a site that is gone will have no answer.

        And, where the coordinator itself is gone, wait for no answer to it.
        """
        for site in self._asked:
            self._close_calls(site)
        owed, self._owed = self._owed, set()
        for number in owed:
            self.wire.send(self._kit.coordinator, to_payload(Frame("gone", number)))

    def _to_network(self, frame: Frame) -> None:
        """Send a frame on: the coordinator's calls to a site, a site's answers back."""
        if self._kit.side == "site":
            self._owed.discard(frame.number)
            self.wire.send(self._kit.coordinator, to_payload(frame))
        elif frame.name in self._lanes and frame.kind == "call":
            self._open_call(frame)
        elif frame.name in self._lanes:
            self._close_call(frame)

    def _open_call(self, frame: Frame) -> None:
        """Send a call, after those before it; not if too many wait already."""
        if not self._room[frame.name].acquire(blocking=False):
            self._to_link(Frame("gone", frame.number, frame.name))
            return
        with self._asking:
            self._asked[frame.name].add(frame.number)
        self._lanes[frame.name].submit(self._send_call, frame)

    def _send_call(self, frame: Frame) -> None:
        try:
            waited_for = frame.number in self._asked[frame.name]
            if waited_for and not self.wire.send(frame.name, to_payload(frame)):
                self._close_call(frame)
                self._to_link(Frame("gone", frame.number, frame.name))
        finally:
            self._room[frame.name].release()

    def _close_call(self, frame: Frame) -> bool:
        """Wait for a call's answer no more; return whether it was waited for."""
        with self._asking:
            asked = frame.number in self._asked[frame.name]
            self._asked[frame.name].discard(frame.number)
        return asked

    def _close_calls(self, name: str) -> None:
        with self._asking:
            self._asked[name].clear()

    def _wants(self, name: str, head: bytes, length: int) -> bool:
        """Whether a frame is worth reading: a call to a site, one answer to a call of ours."""
        frame = from_payload(head, name)
        if frame is None or self._kit.side == "site":
            return frame is not None and frame.kind == "call"
        fits = frame.kind == "answer" or (frame.kind == "gone" and not length)
        return fits and self._close_call(frame)

    def _from_network(self, name: str, payload: memoryview) -> None:
        """Hand on a frame from the network that is wanted."""
        frame = from_payload(payload, name)
        if frame is None:
            return
        if frame.kind == "call":
            self._owed.add(frame.number)
        if not self._to_link(frame):
            self._give_up()

    def _gone(self, name: str) -> None:
        if self._kit.side == "coordinator":
            self._close_calls(name)
            self._to_link(Frame("gone", 0, name))

    def _to_link(self, frame: Frame) -> bool:
        link = self._link
        return link is not None and link.send(frame)


def confine(kit: Kit) -> None:
    """Give up all that a carrier does not need."""
    threading.stack_size(1 << 20)
    sandbox.limit(memory=MEMORY, files=FILES)
    ports = [] if kit.side == "coordinator" else [kit.port]
    files = (*sandbox.python_files(), *sandbox.NAME_FILES)
    left = sandbox.confine(read=files, connect=ports)
    if left:
        log.warning("on this kernel the carrier can still %s", "; ".join(left))
