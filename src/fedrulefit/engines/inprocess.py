"""The embedded engine: all sites in this process, in parallel threads.

Messages go through their bytes here, too, so that what works embedded works
between hospitals. The model does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Final

from fedrulefit.engines.base import Engine, Reached, SitePlan


class InProcess(Engine):
    """Calls the sites' own methods."""

    @contextmanager
    def open(self, plan: SitePlan) -> Iterator[Reached]:
        """Make the sites, and as many threads as may work at the same time."""
        sites = plan.make_sites()
        threads = ThreadPoolExecutor(plan.n_threads) if plan.n_threads > 1 else nullcontext()
        with threads as pool:

            def exchange(requests: Mapping[str, bytes]) -> dict[str, bytes]:
                def answer(name: str) -> bytes:
                    return sites[name].answer(requests[name])

                answers = (map if pool is None else pool.map)(answer, requests)
                return dict(zip(requests, answers, strict=True))

            ledgers = {name: site.ledger for name, site in sites.items()}
            yield Reached(exchange, ledgers, sites=sites)


EMBEDDED: Final = InProcess()

fit = EMBEDDED.fit
