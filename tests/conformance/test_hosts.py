"""Hosts, signed envelopes and journals conform, whatever carries the envelopes."""

from __future__ import annotations

from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from fedrulefit.engines.drive import drive
from fedrulefit.federation.host import SiteHost
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.runs import Caller
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN
from fedrulefit.protocol.coordinator import Coordinator
from tests.conformance.engine_suite import Engine, EngineSuite


class TestHosts(EngineSuite):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        runs = iter(range(1000))

        def fit(study, tables, *, n_threads=1, noise_seed=None, on_progress=None):  # type: ignore[no-untyped-def]
            coordinator = Coordinator(study, list(tables), run=f"run-{next(runs)}")
            folder = tmp_path / coordinator.run
            identities, trust = make_consortium(["lead", *tables])

            def make_noise(site: str) -> UnsafeSeededLaplace | None:
                return None if noise_seed is None else UnsafeSeededLaplace(noise_seed, site)

            hosts = {
                site: SiteHost(
                    site,
                    [(study, table)],
                    OPEN,
                    state=folder / site,
                    identity=identities[site],
                    trust=trust,
                    coordinator="lead",
                    roster=list(tables),
                    make_noise=lambda site=site: make_noise(site),  # type: ignore[misc]
                    secret_folds=False,
                    n_threads=n_threads,
                )
                for site, table in tables.items()
            }
            caller = Caller(
                lambda site, envelope, seconds: hosts[site].receive(envelope),
                identities["lead"],
                trust,
                "lead",
            )
            with threadpool_limits(1, "blas"):
                model = drive(
                    coordinator,
                    lambda requests: caller.ask(
                        requests,
                        wait=30.0,
                        stopped=lambda: False,
                        on_sign=lambda site, here, waited: None,
                    ),
                    journal=Journal(folder / "journal.sqlite").section("run"),
                    on_status=on_progress and (lambda status: on_progress(status.progress)),
                )
            ledgers = {site: host.ledger for site, host in hosts.items()}
            for host in hosts.values():
                host.close()
            return model, ledgers

        return fit
