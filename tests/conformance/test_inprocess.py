"""The embedded engine conforms."""

from __future__ import annotations

import pytest

from fedrulefit.engines import inprocess
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from tests.conformance.engine_suite import Engine, EngineSuite


class TestInProcess(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        def fit(study, tables, *, n_threads=1, noise_seed=None, on_progress=None):  # type: ignore[no-untyped-def]
            def make_noise(site: str) -> UnsafeSeededLaplace | None:
                return None if noise_seed is None else UnsafeSeededLaplace(noise_seed, site)

            fitted = inprocess.fit(
                study,
                tables,
                make_noise=make_noise,
                n_threads=n_threads,
                on_progress=on_progress,
            )
            return fitted.model, fitted.ledgers

        return fit
