"""A new transport is one class: a consortium's file names it, and its carriers send with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation.carrier import process, sandbox
from fedrulefit.federation.carrier.link import PAYLOAD_BYTES, Frame, Link
from fedrulefit.federation.kits.consortium import Consortium, CoordinatorPart, SitePart
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.kits.provision import provision
from fedrulefit.federation.transport import DEFAULT, TRANSPORTS, Transport
from fedrulefit.registry import Choice


class Notes(Transport):
    """Passes notes inside one process."""

    ends: ClassVar[dict[str, Notes]] = {}

    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        tls: Any,
        *,
        wants: Any,
        on_bytes: Any,
        on_gone: Any,
    ) -> None:
        self.name, self.names, self.wants, self.on_bytes = name, names, wants, on_bytes

    def listen(self, listener: socket.socket) -> None:
        self.ends[self.name] = self

    def call(self, host: str, port: int) -> None:
        self.ends[self.name] = self

    def send(self, name: str, payload: bytes) -> bool:
        end = self.ends.get(name)
        if end is None or self.name not in end.names:
            return False
        if end.wants(self.name, payload[:PAYLOAD_BYTES], len(payload) - PAYLOAD_BYTES):
            end.on_bytes(self.name, memoryview(payload))
        return True

    def stop(self) -> None:
        del self.ends[self.name]


@pytest.fixture
def kits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    monkeypatch.setattr(sandbox, "harden", lambda: None)
    monkeypatch.setattr(process, "confine", lambda kit: None)
    monkeypatch.setattr(process, "open_listener", lambda kit: "a listener")
    TRANSPORTS.add("notes", Choice(f"{__name__}:Notes"))
    consortium = Consortium(
        name="c",
        coordinator=CoordinatorPart(host="localhost", port=1),
        sites=(SitePart(name="north"), SitePart(name="south")),
        transport="notes",
    )
    yield provision(consortium, tmp_path)
    TRANSPORTS.remove("notes")


def open_carrier(kit: Path) -> Link:
    """Start a carrier; return the link behind it."""
    carrier = process.Carrier(Kit.load(kit, "carrier"))
    assert isinstance(carrier.wire, Notes)
    ours, theirs = socket.socketpair()
    threading.Thread(target=carrier.attach, args=(Link(theirs),), daemon=True).start()
    return Link(ours)


def test_carriers_send_with_the_transport_that_the_kits_name(kits: dict[str, Path]) -> None:
    coordinator, north = open_carrier(kits["coordinator"]), open_carrier(kits["north"])
    coordinator.send(Frame("call", 1, "south", b"nobody is there"))
    assert coordinator.receive() == Frame("gone", 1, "south")
    coordinator.send(Frame("call", 2, "north", b"question"))
    assert north.receive() == Frame("call", 2, "localhost", b"question")
    north.send(Frame("answer", 2, "localhost", b"reply"))
    assert coordinator.receive() == Frame("answer", 2, "north", b"reply")
    coordinator.close()
    north.close()


def test_a_transport_that_nobody_knows_is_refused() -> None:
    with pytest.raises(FederationError, match=r"no transport 'doves'; there are: .*flare"):
        TRANSPORTS.check("doves")


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedrulefit.registry.find_spec", lambda name: None)
    with pytest.raises(FederationError, match=r'nvflare is not installed: .*"\.\[flare\]"'):
        TRANSPORTS.load(DEFAULT)
