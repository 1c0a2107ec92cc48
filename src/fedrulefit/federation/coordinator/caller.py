"""Asks sites by signed envelopes, each in short calls, all at the same time."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fedrulefit.errors import ProtocolError
from fedrulefit.federation.coordinator.presence import Presence
from fedrulefit.federation.envelope import Letter, read_signed, sign_letter
from fedrulefit.federation.expiry import SOON, own_certificates, warn_of_expiry
from fedrulefit.privacy.identity import Identity, Trust, expiry
from fedrulefit.protocol.wire import digest

log = logging.getLogger(__name__)

Send = Callable[[str, bytes, float], bytes | None]
"""Sends a site an envelope; returns its answer, or None if it is out of reach."""

OnSign = Callable[[str, bool, float], None]
"""Told of every call: the site, whether it is there, and seconds without an answer from it."""

CALL_SECONDS: Final = 15.0
"""Longest that one call may take, if little is sent."""

SECONDS_PER_MB: Final = 10.0
"""And so much more for each megabyte sent or expected: slow lines are slow."""

MOST_EXPECTED: Final = 64_000_000
"""Bytes of an answer that a call waits for, at most: eleven minutes."""


class Caller:
    """Asks sites by signed envelopes, each in short calls, all at the same time.

    Parameters
    ----------
    send : Send
    identity, trust : Identity, Trust
    name : str
        The name in the coordinator's own certificate.
    """

    def __init__(self, send: Send, identity: Identity, trust: Trust, name: str) -> None:
        self._send = send
        self._identity = identity
        self._trust = trust
        self._name = name
        self._largest: dict[str, int] = {}
        self._presence = Presence()
        self._troubles: dict[str, str] = {}
        self.expires: dict[str, dt.date] = {}

    def greet(self, sites: tuple[str, ...]) -> dict[str, bool]:
        """Return which sites are there."""
        with ThreadPoolExecutor(len(sites)) as pool:
            found = pool.map(lambda site: self._call(site, Letter("hello")), sites)
            return {site: letter is not None for site, letter in zip(sites, found, strict=True)}

    def warnings(self, sites: Iterable[str], within: int = SOON[0]) -> list[str]:
        """Return what a person should know: of certificates, and of kits used twice."""
        sites = list(sites)
        certificates = own_certificates("coordinator", self._identity, self._trust)
        certificates |= {
            f"the certificate of {site}": self.expires[site]
            for site in sites
            if site in self.expires
        }
        doubled = [
            f"two processes use the kit of {site}: stop one of them"
            for site in sites
            if self._presence.doubled(site)
        ]
        troubles = [self._troubles[site] for site in sites if site in self._troubles]
        return [*doubled, *troubles, *warn_of_expiry(certificates, within=within)]

    def ask(
        self,
        requests: Mapping[str, bytes],
        *,
        wait: float,
        stopped: Callable[[], bool],
        on_sign: OnSign,
        give_up: float | None = None,
        on_letter: Callable[[Letter], None] = lambda letter: None,
    ) -> dict[str, bytes]:
        """Return the answers of all sites that give a sign of life within `wait` seconds.

        With `give_up`, of those that answer within so many seconds, whatever signs they give.
        `on_letter` is told each answer as its site signed it.
        """
        with ThreadPoolExecutor(len(requests)) as pool:

            def ask_one(site: str) -> Letter | None:
                return self._ask_one(site, requests[site], wait, give_up, stopped, on_sign)

            found = dict(zip(requests, pool.map(ask_one, requests), strict=True))
        letters = {site: letter for site, letter in found.items() if letter is not None}
        for letter in letters.values():
            on_letter(letter)
        return {site: letter.body for site, letter in letters.items()}

    def _ask_one(
        self,
        site: str,
        body: bytes,
        wait: float,
        give_up: float | None,
        stopped: Callable[[], bool],
        on_sign: OnSign,
    ) -> Letter | None:
        subject = digest(body)
        call, pause, asked = Letter("ask", subject, body), 0.05, time.monotonic()
        last_sign = asked
        while time.monotonic() - last_sign < wait and not stopped():
            if give_up is not None and time.monotonic() - asked >= give_up:
                return None
            began = time.monotonic()
            reply = self._call(site, call)
            on_sign(site, reply is not None, time.monotonic() - asked)
            if reply is None:
                time.sleep(pause)
                pause = min(2 * pause, 2.0)
                continue
            last_sign = time.monotonic()
            if reply.kind == "done" and reply.subject in (subject, ""):
                on_sign(site, True, 0.0)
                return reply
            # An honest site takes about a second to say that it works; one that does not must
            # not keep the coordinator busy.
            rest = pause - (last_sign - began)
            time.sleep(max(rest, 0.0))
            pause = min(2 * pause, 1.0) if rest > 0 else 0.05
            # A site that was restarted does not know the question any more.
            call = (
                Letter("poll", subject) if reply.kind == "working" else Letter("ask", subject, body)
            )
        return None

    def _call(self, site: str, letter: Letter) -> Letter | None:
        asked = time.monotonic()
        envelope = sign_letter(letter, sender=self._identity, recipient=site)
        # A greeting waits for no long answer, whatever the site sent before.
        size = len(envelope) if letter.kind == "hello" else self._largest.get(site, 0)
        size = max(size, len(envelope))
        answer = self._send(site, envelope, CALL_SECONDS + SECONDS_PER_MB * size / 1e6)
        if answer is None:
            return None
        try:
            reply = read_signed(answer, trust=self._trust, sender=site, recipient=self._name)
        except ProtocolError as error:
            log.warning("site %s: %s", site, error)
            self._troubles[site] = str(error)
            return None  # not from this site: as if nothing had come
        self._troubles.pop(site, None)
        expected = max(self._largest.get(site, 0), len(answer))
        self._largest[site] = min(expected, MOST_EXPECTED)
        if reply.kind == "here":
            self.expires[site] = expiry(reply.signed[0])
        if reply.instance:
            self._presence.note(site, reply.instance, asked)
        return reply
