"""A coordinator and hosts in one process, with everything but a network."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from fedrulefit.federation.coordinator.caller import Caller
from fedrulefit.federation.coordinator.serving import serve
from fedrulefit.federation.kits.charter import Charter, Party
from fedrulefit.federation.site.host import SiteHost
from fedrulefit.privacy.identity import Identity, Trust, make_consortium
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.study import Study
from fedrulefit.table.check import load_table

COORDINATOR = "coordinator.example.org"
POLICY = Policy(allow=OPEN.allow)


def charter_of(identities: Mapping[str, Identity], trust: Trust) -> Charter:
    """A charter of these identities, the coordinator's among them."""

    def party(name: str) -> Party:
        identity = identities[name]
        return Party(name=name, fingerprint=identity.fingerprint, expires=identity.expires)

    return Charter(
        consortium="loopback",
        root=hashlib.sha256(trust.root).hexdigest(),
        coordinator=party(COORDINATOR),
        sites=tuple(party(name) for name in identities if name != COORDINATOR),
    )


class Loopback:
    """Hosts by name, and a caller that reaches those in :attr:`reachable`."""

    def __init__(
        self,
        folder: Path,
        frames: Mapping[str, pd.DataFrame],
        study: Study,
        policy: Policy = POLICY,
    ) -> None:
        self.sites = tuple(sorted(frames))
        self.state = folder / "coordinator"
        self.state.mkdir()
        self._identities, self._trust = make_consortium([COORDINATOR, *frames])
        self._folder, self._frames, self._study, self._policy = folder, frames, study, policy
        self.hosts = {site: self._open(site) for site in frames}
        self.reachable = set(self.sites)
        self.calls: list[str] = []
        self.caller = Caller(self._send, self._identities[COORDINATOR], self._trust, COORDINATOR)

    def _open(self, site: str) -> SiteHost:
        return SiteHost(
            site,
            [(self._study, load_table(self._frames[site], self._study))],
            self._policy,
            state=self._folder / site,
            identity=self._identities[site],
            trust=self._trust,
            coordinator=COORDINATOR,
            make_noise=lambda: UnsafeSeededLaplace(3, site),
            secret_folds=False,
        )

    def _send(self, site: str, envelope: bytes, seconds: float) -> bytes | None:
        self.calls.append(site)
        return self.hosts[site].receive(envelope) if site in self.reachable else None

    def restart(self, site: str) -> None:
        """Begin anew with what is on disk."""
        self.hosts[site].close()
        self.hosts[site] = self._open(site)

    def identity(self, name: str) -> Any:
        return self._identities[name]

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Carry out runs in the background, as the coordinator's process does."""
        stop = threading.Event()
        thread = threading.Thread(target=serve, args=(self.state, self.caller, self.sites, stop))
        thread.start()
        while not (self.state / "sites.json").exists():
            time.sleep(0.01)
        try:
            yield
        finally:
            stop.set()
            thread.join(60)
