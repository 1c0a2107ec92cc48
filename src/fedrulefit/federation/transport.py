"""What a carrier sends with: an interface, and those who keep to it, by name.

A transport moves bytes between the coordinator's carrier and the hospitals'. It is given
sockets' TLS ready made, and trusts nothing else: a peer's name is the one in its certificate.
All ends of a consortium use the same; ``transport`` in ``consortium.toml`` names it, and the
kits say it on. A new one is one file with a subclass of :class:`Transport`, made known to
:data:`TRANSPORTS`.
"""

from __future__ import annotations

import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from fedrulefit.errors import FederationError, get_extra
from fedrulefit.registry import Choice, Registry

Wants = Callable[[str, bytes, int], bool]
"""Told who sends an envelope, its first bytes and how many follow; says whether to read it."""

OnBytes = Callable[[str, memoryview], None]
"""Takes the name of a peer, and what it sent."""

OnGone = Callable[[str], None]
"""Takes the name of a peer whose line broke."""


class Transport(ABC):
    """One end of the network, in a carrier's process.

    Parameters
    ----------
    name : str
        This end's name, which is its certificate's.
    names : tuple of str
        The names at the other ends; nobody else is let in.
    tls : ssl.SSLContext
        Shows our certificate, and demands one of the consortium.
    wants : Wants
        Asked before an envelope is read. It sees the first
        :data:`~fedrulefit.federation.carrier.link.PAYLOAD_BYTES`.
    on_bytes : OnBytes
    on_gone : OnGone
    """

    @abstractmethod
    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        tls: ssl.SSLContext,
        *,
        wants: Wants,
        on_bytes: OnBytes,
        on_gone: OnGone,
    ) -> None:
        """Load all that will be needed: afterwards the process gives up reading files."""

    @abstractmethod
    def listen(self, listener: socket.socket) -> None:
        """Begin to take calls on a socket, in the background."""

    @abstractmethod
    def call(self, host: str, port: int) -> None:
        """Begin to call the coordinator, in the background; again whenever the line breaks."""

    @abstractmethod
    def send(self, name: str, payload: bytes) -> bool:
        """Send bytes to a peer; return whether they went out."""

    @abstractmethod
    def stop(self) -> None:
        """End all lines and threads."""


DEFAULT: Final = "flare"

TRANSPORTS: Final[Registry[Transport]] = Registry(
    "transport",
    "fedrulefit.transports",
    FederationError,
    {
        DEFAULT: Choice(
            "fedrulefit.federation.flare.wire:Wire",
            needs="nvflare",
            advice=f"federations need NVIDIA FLARE; {get_extra('flare')}",
        )
    },
)
"""All transports, by name."""
