"""The embedded engine: all sites in this process, in parallel threads.

Messages go through their bytes here, too, so that what works embedded works
between hospitals. The model does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import cast

from threadpoolctl import threadpool_limits

from fedrulefit.core.grid import Grid
from fedrulefit.model import Model
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator, Progress
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table import Table


@dataclass(frozen=True, eq=False)
class Fitted:
    """A finished run: the model, and what each site recorded as having left it."""

    model: Model
    ledgers: Mapping[str, Ledger]


def fit(
    study: Study,
    tables: Mapping[str, Table],
    *,
    grid: Grid | None = None,
    make_noise: Callable[[str], Noise | None] = lambda site: None,
    make_ledger: Callable[[str], Ledger] = lambda site: Ledger(),
    n_threads: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> Fitted:
    """Fit the study's model with one site per table.

    Parameters
    ----------
    study : Study
    tables : mapping of site name to Table
    grid : Grid, optional
        Known cut-offs: then no histogram is asked for.
    make_noise, make_ledger : callable
        Give each site its noise (None: OpenDP's) and its ledger.
    n_threads, on_progress
        As for :func:`run`.
    """
    sites = {
        name: Site(name, table, study, ledger=make_ledger(name), noise=make_noise(name))
        for name, table in tables.items()
    }
    coordinator = Coordinator(study, list(sites), grid=grid)
    model = run(coordinator, sites, n_threads=n_threads, on_progress=on_progress)
    return Fitted(model, {name: site.ledger for name, site in sites.items()})


def run(
    coordinator: Coordinator,
    sites: Mapping[str, Site],
    *,
    n_threads: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> Model:
    """Carry a run from the first request to the model.

    Parameters
    ----------
    coordinator : Coordinator
    sites : mapping of str to Site
    n_threads : int
        Sites that work at the same time.
    on_progress : callable, optional
        Told where the run is, before every step.
    """
    threads = ThreadPoolExecutor(n_threads) if n_threads > 1 else nullcontext()
    # One thread of BLAS per site: more would fight over the cores, and could
    # change the order of sums.
    with threadpool_limits(1, "blas"), threads as pool:
        outcome = coordinator.step()
        while not isinstance(outcome, Model):
            if on_progress is not None:
                on_progress(coordinator.progress)
            outcome = coordinator.step(_exchange(outcome, sites, pool))
    if on_progress is not None:
        on_progress(coordinator.progress)
    return outcome


def _exchange(
    requests: Mapping[str, m.Request], sites: Mapping[str, Site], pool: Executor | None
) -> dict[str, m.Reply]:
    def answer(name: str) -> m.Reply:
        request = cast(m.Request, from_bytes(to_bytes(requests[name])))
        return cast(m.Reply, from_bytes(to_bytes(sites[name].handle(request))))

    names = list(requests)
    replies = map(answer, names) if pool is None else pool.map(answer, names)
    return dict(zip(names, replies, strict=True))
