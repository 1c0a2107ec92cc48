"""The process that has the network, and nothing else.

In: a kit's ``carrier/`` part and one local socket to the process behind it. Out: envelopes,
unread, from one to the other. It has no table, no state folder, no ledger, no policy, no
key that signs, and an environment without paths. Once connected it gives up what it does
not need (:mod:`fedrulefit.engines.sandbox`). So whoever takes it over can do what a
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
import ssl
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from fedrulefit.engines import sandbox
from fedrulefit.engines.consortium import CERTIFICATE, KEY, ROOT, Kit
from fedrulefit.engines.keeper import CANNOT_START, set_up_logging
from fedrulefit.engines.link import Frame, Link, from_payload, to_payload
from fedrulefit.errors import FederationError
from fedrulefit.files import passing_file

log = logging.getLogger("fedrulefit.engines.carrier")  # also as a program

MEMORY: Final = 4 << 30
"""Bytes of address space; envelopes of all sites pass through here."""

FILES: Final = 512
"""Open files, most of them connections."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry envelopes until the process behind is gone (``python -m``)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kit", required=True, type=Path)
    parser.add_argument("--fd", required=True, type=int)
    options = parser.parse_args(arguments)
    set_up_logging()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, and ends the socket
    try:
        carrier = Carrier(Kit.load(options.kit, "carrier"))
    except FederationError as error:
        log.error("the carrier cannot start: %s", error)
        sys.exit(CANNOT_START)
    except Exception:
        log.exception("the carrier cannot start")
        sys.exit(CANNOT_START)
    carrier.attach(Link(socket.socket(fileno=options.fd)))
    os._exit(0)  # FLARE's threads need no farewell


def carry_over(kit: Kit, path: Path) -> None:
    """Carry envelopes over a Unix socket to a process of another user; for ever."""
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
        load_messaging_only()
        from fedrulefit.engines.flare import Wire  # FLARE loads in a carrier only

        self._kit = kit
        self._link: Link | None = None
        self._owed: set[int] = set()
        leads = kit.side == "coordinator"
        listener = open_listener(kit) if leads else None
        self.wire = Wire(
            kit.name,
            kit.sites if leads else (kit.coordinator,),
            make_tls(kit),
            on_bytes=self._from_network,
            on_gone=self._gone,
        )
        self._lanes = {site: ThreadPoolExecutor(1) for site in kit.sites if leads}
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
        """Tell the coordinator that calls of a site that is gone will have no answer."""
        owed, self._owed = self._owed, set()
        for number in owed:
            self.wire.send(self._kit.coordinator, to_payload(Frame("gone", number)))

    def _to_network(self, frame: Frame) -> None:
        """Send a frame on: the coordinator's calls to a site, a site's answers back."""
        if self._kit.side == "site":
            self._owed.discard(frame.number)
            self.wire.send(self._kit.coordinator, to_payload(frame))
        elif frame.name in self._lanes:
            # A lane per site: a slow line holds up its own calls only.
            self._lanes[frame.name].submit(self._send_call, frame)

    def _send_call(self, frame: Frame) -> None:
        if not self.wire.send(frame.name, to_payload(frame)):
            self._to_link(Frame("gone", frame.number, frame.name))

    def _from_network(self, name: str, payload: bytearray) -> None:
        """Hand on a frame from the network: calls to a site, answers to the coordinator."""
        frame = from_payload(payload, name)
        expected = ("call",) if self._kit.side == "site" else ("answer", "gone")
        if frame is None or frame.kind not in expected:
            log.warning("dropped a frame of %s that is not ours", name)
            return
        if frame.kind == "call":
            self._owed.add(frame.number)
        if not self._to_link(frame):
            self._give_up()

    def _gone(self, name: str) -> None:
        if self._kit.side == "coordinator":
            self._to_link(Frame("gone", 0, name))

    def _to_link(self, frame: Frame) -> bool:
        link = self._link
        return link is not None and link.send(frame)


def load_messaging_only() -> None:
    """Let parts of nvflare be imported without the package's own opening.

    That opening loads FLARE's whole application, with shell commands and job runners,
    and what decodes objects by class name. None of it would be used; so it is not there.
    """
    spec = find_spec("nvflare")
    if "nvflare" in sys.modules or spec is None:
        return
    bare = ModuleType("nvflare")
    bare.__spec__, bare.__path__ = spec, list(spec.submodule_search_locations or ())
    sys.modules["nvflare"] = bare


def make_tls(kit: Kit) -> ssl.SSLContext:
    """Return TLS 1.3 with certificates on both sides, of this consortium's root only."""
    leads = kit.side == "coordinator"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if leads else ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.check_hostname = not leads
    if leads:
        tls.num_tickets = 0  # each connection shows its certificate
    tls.load_verify_locations(cadata=kit.files[ROOT].decode("ascii"))
    with passing_file(kit.files[CERTIFICATE] + kit.files[KEY]) as path:
        tls.load_cert_chain(path)
    return tls


def open_listener(kit: Kit) -> socket.socket:
    """Listen on the coordinator's port: all addresses, or this machine's own for localhost."""
    local = kit.coordinator == "localhost"
    both = not local and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            ("127.0.0.1" if local else "", kit.port),
            family=socket.AF_INET6 if both else socket.AF_INET,
            dualstack_ipv6=both,
            backlog=256,
        )
    except OSError as error:
        raise FederationError(f"cannot listen on port {kit.port}: {error.strerror}") from None


def confine(kit: Kit) -> None:
    """Give up all that a carrier does not need."""
    threading.stack_size(1 << 20)
    sandbox.limit(memory=MEMORY, files=FILES)
    ports = [] if kit.side == "coordinator" else [kit.port]
    if not sandbox.confine(read=(*sandbox.python_files(), *sandbox.NAME_FILES), connect=ports):
        log.warning("this kernel has no Landlock: the carrier can read what its user can")


if __name__ == "__main__":
    main()
