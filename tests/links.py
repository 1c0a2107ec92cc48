"""Both ends of a local socket, for tests of carriers and the processes behind them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from fedrulefit.federation.carrier.link import Frame, Link


def pair() -> tuple[Link, Link]:
    ours, theirs = socket.socketpair()
    return Link(ours), Link(theirs)


def pump(read: Link, handle: Callable[[Frame], None]) -> None:
    """Read until the link ends, in the background."""

    def run() -> None:
        while (frame := read.receive()) is not None:
            handle(frame)

    threading.Thread(target=run, daemon=True).start()
