"""A hospital's process: table, policy, ledger, journal and the key that signs; no network.

All it knows of the world are envelopes that a carrier brings
(:mod:`fedrulefit.federation.carrier`), and each is checked for the coordinator's signature
before anything else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

from fedrulefit.errors import FederationError
from fedrulefit.federation.behind import attend, begin, give_up_network
from fedrulefit.federation.carrier.link import Frame, Link
from fedrulefit.federation.site.startup import OpenedSite, SiteStart, open_site

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Envelopes that a site opens at the same time; more stay unread in the socket."""


def start_site(
    start: SiteStart,
    socket: Path | None = None,
    tell: Callable[[OpenedSite], None] = lambda opened: None,
) -> None:
    """Answer for a hospital, until the process ends.

    Parameters
    ----------
    start : SiteStart
    socket : Path, optional
        Where a carrier of another user comes; a child process, if not given.
    tell : callable
        Told what was opened, before anything is answered; may refuse it with an error.
    """
    keeper = begin(start.kit, socket)
    give_up_network()
    opened = open_site(start)
    host = opened.host
    with closing(host):
        tell(opened)
        log.info("site %s is ready", host.name)
        attend(keeper, socket, lambda link: answer_calls(link, host.receive))


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
