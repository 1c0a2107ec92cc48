"""Whoever is behind a carrier keeps one: as a child of its own, or over a Unix socket.

The child gets one end of a socket pair, its part of the kit, and nothing else: no other
open file, no terminal, an environment without paths, its own working folder. What it says
is printed here, line by line and under its name. It is started again when it dies. As
another user or container the carrier comes by itself, to a socket in a folder that only the
two may enter.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import IO, Final

from fedrulefit.errors import FederationError
from fedrulefit.federation.carrier.link import Link
from fedrulefit.federation.kits.kit import Kit

log = logging.getLogger(__name__)

CANNOT_START: Final = 2
"""How a carrier ends when its kit or its port is not usable."""

_KEPT: Final = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ")
"""All that a carrier's environment takes over from ours."""

SHORT_LIFE: Final = 10.0
"""Seconds; a carrier that dies earlier is started again more slowly."""

LONGEST_PAUSE: Final = 30.0

LONGEST_LINE: Final = 2000
"""Bytes of a line that a carrier says; what is longer goes on in the next."""

MOST_LINES: Final = 300
"""Of a carrier in a minute; the others are left out."""


class Keeper(threading.Thread):
    """Starts a carrier, and another whenever one dies.

    The thread must be started before this process gives up the network: what a process
    gives up, its children have not.

    Parameters
    ----------
    kit : Kit
        The carrier's part.
    """

    def __init__(self, kit: Kit) -> None:
        super().__init__(daemon=True, name="fedrulefit keeper")
        self._kit = kit
        self._wanted, self._ending = threading.Event(), threading.Event()
        self._links: Queue[Link | FederationError] = Queue()
        self._process: subprocess.Popen[bytes] | None = None

    def next(self) -> Link:
        """Return the link to the next carrier, once it has been started.

        Raises
        ------
        FederationError
            If the first carrier could not start: its words are in the log.
        """
        self._wanted.set()
        link = self._links.get()
        if isinstance(link, FederationError):
            raise link
        return link

    def end(self) -> None:
        """End the carrier, and start no other."""
        self._ending.set()
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)

    def run(self) -> None:
        """Keep a carrier running (in the thread)."""
        self._wanted.wait()
        pause, tried = 0.1, 0
        while True:
            began = time.monotonic()
            code = self._keep_one()
            tried += 1
            if code == CANNOT_START and tried == 1:
                self._links.put(FederationError("the carrier could not start: see above"))
                return
            pause = 0.1 if time.monotonic() - began > SHORT_LIFE else min(2 * pause, LONGEST_PAUSE)
            if code is not None and not self._ending.is_set():
                log.warning("the carrier ended (%d): starting it again", code)
            if self._ending.wait(pause):
                return

    def _keep_one(self) -> int | None:
        """Start a carrier and wait for its end; return how it ended, None if it never began."""
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                process = start_carrier(self._kit, theirs)
            teller = threading.Thread(target=tell_lines, args=(process.stdout,), daemon=True)
            teller.start()
        except (OSError, RuntimeError) as error:  # no process, thread or file to be had just now
            log.error("cannot start a carrier (%s): trying on", error)
            return None
        self._process = process
        self._links.put(Link(ours))
        code = process.wait()
        teller.join(2.0)  # its last words come before ours
        return code


def start_carrier(kit: Kit, connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a carrier that has one end of a socket and nothing else of ours, nor our terminal."""
    source = str(Path(__file__).resolve().parents[3])
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [
            *(sys.executable, "-P", "-u", "-m", "fedrulefit.federation.carrier"),
            *("--kit", str(kit.folder), "--fd", str(connection.fileno())),
        ],
        env={**environment, "PYTHONPATH": source},
        cwd=kit.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=[connection.fileno()],
    )


def tell_lines(said: IO[bytes]) -> None:
    """Print what a carrier says as lines of its own, until it ends; not more than we can bear."""
    began, told = time.monotonic(), 0
    for line in iter(lambda: said.readline(LONGEST_LINE), b""):
        if time.monotonic() - began > 60.0:
            began, told = time.monotonic(), 0
        told += 1
        if told <= MOST_LINES:
            log.info("carrier: %s", line.decode(errors="replace").rstrip())
        elif told == MOST_LINES + 1:
            log.warning("the carrier says too much: its words of this minute are left out")
    said.close()


def accept_carriers(path: Path, take: Callable[[Link], None]) -> None:
    """Serve carriers of another user over a Unix socket, for ever; the newest takes over."""
    if path.is_socket():
        path.unlink()  # left by a process that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(path))
        except OSError as error:
            raise FederationError(f"cannot make the socket {path}: {error.strerror}") from None
        path.chmod(0o660)
        listener.listen(1)
        link, thread = None, threading.Thread()
        while True:
            connection, _ = listener.accept()
            log.info("a carrier is here%s", _peer(connection))
            if link is not None:
                link.close()  # it may be silent, and keep the others waiting
                thread.join()
            link = Link(connection)
            thread = threading.Thread(target=_take_one, args=(take, link), daemon=True)
            thread.start()


def _take_one(take: Callable[[Link], None], link: Link) -> None:
    take(link)
    log.warning("the carrier is gone")


def _peer(connection: socket.socket) -> str:
    """Say who is at the other end, where the kernel tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return ""
    size = struct.calcsize("3i")
    facts = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, _ = struct.unpack("3i", facts)
    return f" (process {process} of user {user})"
