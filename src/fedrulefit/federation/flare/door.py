"""The door: what a connection may do before it has shown a certificate."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

HANDSHAKE_SECONDS: Final = 5.0
"""Within which a connection must show its certificate."""


@dataclass
class Door:
    """Bounds the connections that have not shown a certificate yet.

    Where there are too many the oldest is closed, if it had the time that a hospital far
    away needs; else the newest is refused, so that a flood pushes out nobody who is at it.

    Parameters
    ----------
    most : int
        Connections without a certificate, at the same time.
    most_per_address : int
        Of one address (of one /64 in IPv6).
    seconds : float
        Within which a certificate must be shown.
    grace : float
        Seconds that each one has, however many come after it.
    """

    most: int = 128
    most_per_address: int = 32
    seconds: float = HANDSHAKE_SECONDS
    grace: float = 0.3
    _waiting: OrderedDict[socket.socket, tuple[str, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, sock: socket.socket, address: str) -> bool:
        """Let a connection in, and if need be the oldest out; return whether it is in."""
        near, now = _neighbourhood(address), time.monotonic()
        with self._lock:
            oldest = self._in_the_way(near)
            if oldest is not None:
                if now - self._waiting[oldest][1] < self.grace:
                    return False
                self._drop(oldest)
            self._waiting[sock] = near, now
            return True

    def leave(self, sock: socket.socket) -> None:
        """Count a connection no more."""
        with self._lock:
            self._waiting.pop(sock, None)

    def _in_the_way(self, near: str) -> socket.socket | None:
        """Return who has waited longest, of an address or of all, where there is no room."""
        mine = [other for other, (home, _) in self._waiting.items() if home == near]
        if len(mine) >= self.most_per_address:
            return mine[0]
        return next(iter(self._waiting)) if len(self._waiting) >= self.most else None

    def _drop(self, sock: socket.socket) -> None:
        del self._waiting[sock]
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # under TLS, which another thread reads


def _neighbourhood(address: str) -> str:
    """Return what one party has at its disposal: an IPv4 address, or 2⁶⁴ of IPv6."""
    if address.startswith("::ffff:") or ":" not in address:
        return address
    plain = address.partition("%")[0]
    return str(ipaddress.ip_network((plain, 64), strict=False))
