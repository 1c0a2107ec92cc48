"""Hosts, signed envelopes and journals conform, whatever carries the envelopes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from fedrulefit.engines.base import Engine, Reached, SitePlan
from fedrulefit.federation.coordinator.caller import Caller
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.site.host import SiteHost
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.testing.engines import EngineSuite


class Hosts(Engine):
    """Each run's hosts and journals, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folders = (folder / str(number) for number in itertools.count())

    @contextmanager
    def open(self, plan: SitePlan) -> Iterator[Reached]:
        folder = next(self._folders)
        identities, trust = make_consortium(["lead", *plan.tables])
        with ExitStack() as stack:
            hosts = {
                site: stack.enter_context(
                    closing(
                        SiteHost(
                            site,
                            [(plan.study, table)],
                            plan.policy,
                            state=folder / site,
                            identity=identities[site],
                            trust=trust,
                            coordinator="lead",
                            roster=list(plan.tables),
                            make_noise=lambda site=site: plan.make_noise(site),  # type: ignore[misc]
                            secret_folds=False,
                            n_threads=plan.n_threads,
                        )
                    )
                )
                for site, table in plan.tables.items()
            }
            caller = Caller(
                lambda site, envelope, seconds: hosts[site].receive(envelope),
                identities["lead"],
                trust,
                "lead",
            )
            journal = stack.enter_context(closing(Journal(folder / "journal.sqlite")))
            yield Reached(
                lambda requests: caller.ask(
                    requests,
                    wait=30.0,
                    stopped=lambda: False,
                    on_sign=lambda site, here, waited: None,
                ),
                {site: host.ledger for site, host in hosts.items()},
                journal.section("run"),
            )


class TestHosts(EngineSuite):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return Hosts(tmp_path)
