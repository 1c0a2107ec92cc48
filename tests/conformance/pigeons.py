"""An engine of somebody else's, in one file: a thread per site, and a queue each way."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import Queue

from fedrulefit.engines.base import Engine, Reached, SitePlan


class Pigeons(Engine):
    @contextmanager
    def open(self, plan: SitePlan) -> Iterator[Reached]:
        sites = plan.make_sites()
        lofts: dict[str, Queue[bytes | None]] = {name: Queue() for name in sites}
        home: Queue[tuple[str, bytes]] = Queue()

        def live(name: str) -> None:
            while (request := lofts[name].get()) is not None:
                home.put((name, sites[name].answer(request)))

        def exchange(requests: Mapping[str, bytes]) -> dict[str, bytes]:
            for name, request in requests.items():
                lofts[name].put(request)
            return dict(home.get(timeout=60) for _ in requests)

        threads = [threading.Thread(target=live, args=(name,)) for name in sites]
        for thread in threads:
            thread.start()
        try:
            yield Reached(exchange, {name: site.ledger for name, site in sites.items()})
        finally:
            for loft in lofts.values():
                loft.put(None)
            for thread in threads:
                thread.join()
