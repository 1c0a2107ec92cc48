"""The embedded engine: all sites in this process, in parallel threads.

Messages go through their bytes here, too, so that what works embedded works
between hospitals. The model does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from fedrulefit.core.grid import Grid
from fedrulefit.core.rounding import EXACT
from fedrulefit.engines.drive import drive
from fedrulefit.errors import FitError
from fedrulefit.model import Model
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.privacy.policy import MIN_COUNT, OPEN, Policy
from fedrulefit.protocol.coordinator import Coordinator, Progress
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.table.patients import Table


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
    policy: Policy = OPEN,
    secure: bool = False,
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
    policy : Policy
        Of every site; open by default, since all tables lie in this process.
    secure : bool
        Whether sums are masked, as between hospitals; the model is the same.
    make_noise, make_ledger : callable
        Give each site its noise (None: OpenDP's) and its ledger.
    n_threads, on_progress
        As for :func:`run`.
    """
    identities, trust = make_consortium(list(tables)) if secure else ({}, None)
    sites = {
        name: Site(
            name,
            table,
            study,
            policy=policy,
            ledger=make_ledger(name),
            noise=make_noise(name),
            identity=identities.get(name),
            trust=trust,
        )
        for name, table in tables.items()
    }
    coordinator = Coordinator(study, list(sites), grid=grid, secure=secure)
    model = run(coordinator, sites, n_threads=n_threads, on_progress=on_progress)
    return Fitted(model, {name: site.ledger for name, site in sites.items()})


def leave_one_site_out(
    study: Study,
    tables: Mapping[str, Table],
    *,
    make_noise: Callable[[str], Noise | None] = lambda site: None,
    make_ledger: Callable[[str], Ledger] = lambda site: Ledger(),
    n_threads: int = 1,
    on_site: Callable[[str], None] | None = None,
) -> Evaluation | None:
    """Validate internally–externally: learn without each site, and judge on it.

    Each site takes part in the runs of all others: what leaves it there, and what that costs,
    adds up in its ledger. The measures of the site that is left out are not in it.

    Parameters
    ----------
    study, tables, make_noise, make_ledger, n_threads
        As for :func:`fit`; a ledger may be one that a run has already written to.
    on_site : callable, optional
        Told which site is left out next.

    Returns
    -------
    evaluation : Evaluation or None
        Each site's patients as judged by the model of the others, and all together; None
        where these are too few to tell, and only together where a site has fewer than five
        patients with or without the outcome (with weights: less than five times the largest).

    Raises
    ------
    FitError
        With fewer than two sites.
    """
    if len(tables) < 2:
        raise FitError("to leave one site out, two are needed")
    learnt = study.with_settings(holdout=0.0, per_site=False)
    found, judge = {}, study.family.judge
    for site, table in tables.items():
        if on_site is not None:
            on_site(site)
        others = {name: other for name, other in tables.items() if name != site}
        model = fit(
            learnt, others, make_noise=make_noise, make_ledger=make_ledger, n_threads=n_threads
        ).model
        if table.outcome is not None:
            chance = model.predict_proba(table.values)
            found[site] = judge.count(chance, table.outcome, table.weights)
    least = MIN_COUNT * study.most_weight
    own = {}
    if all(min(sums.n_cases, sums.n_others) >= least for sums in found.values()):
        merged = {site: judge.coarsen(sums, least) for site, sums in found.items()}
        own = {site: judge.measure(sums).rounded(least) for site, sums in merged.items() if sums}
    together = Evaluation(judge.add(list(found.values())), own, family=study.family)
    return together.rounded(EXACT, study.most_weight)


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

        def exchange(requests: Mapping[str, bytes]) -> dict[str, bytes]:
            def answer(name: str) -> bytes:
                return sites[name].answer(requests[name])

            answers = (map if pool is None else pool.map)(answer, requests)
            return dict(zip(requests, answers, strict=True))

        return drive(
            coordinator,
            exchange,
            on_status=on_progress and (lambda status: on_progress(status.progress)),
        )
