"""Internal–external validation: each site is judged by the model of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedrulefit.engines.base import Engine
from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.errors import FitError
from fedrulefit.model.matrix import judge_values
from fedrulefit.model.validation import SiteValidation
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.study import Study
from fedrulefit.table.patients import Table


def leave_one_site_out(
    study: Study,
    tables: Mapping[str, Table],
    *,
    engine: Engine = EMBEDDED,
    make_noise: Callable[[str], Noise | None] = lambda site: None,
    make_ledger: Callable[[str], Ledger] = lambda site: Ledger(),
    n_threads: int = 1,
    on_site: Callable[[str], None] | None = None,
) -> SiteValidation:
    """Validate internally–externally: learn without each site, and judge on it.

    Each site takes part in the runs of all others: what leaves it there, and what that costs,
    adds up in its ledger. The measures of the site that is left out are not in it.

    Parameters
    ----------
    study, tables, make_noise, make_ledger, n_threads
        As for :func:`~fedrulefit.engines.inprocess.fit`; a ledger may be one that a run
        has already written to.
    engine : Engine
    on_site : callable, optional
        Told which site is left out next.

    Returns
    -------
    validation : SiteValidation
        Each site's patients as judged by the model of the others. A site with fewer than five
        patients with or without the outcome (with weights: less than five times the largest)
        is only named. A site's table without outcomes is not judged.

    Raises
    ------
    FitError
        With fewer than two sites.
    """
    if len(tables) < 2:
        raise FitError("to leave one site out, two are needed")
    learnt = study.with_settings(holdout=0.0, per_site=False, between_sites=False)
    found, judge = {}, study.family.judge
    for site, table in tables.items():
        if on_site is not None:
            on_site(site)
        others = {name: other for name, other in tables.items() if name != site}
        model = engine.fit(
            learnt, others, make_noise=make_noise, make_ledger=make_ledger, n_threads=n_threads
        ).model
        if table.outcome is not None:
            prediction = judge_values(model, table.values)
            found[site] = judge.count(prediction, table.outcome, table.weights)
    least = MIN_COUNT * study.most_weight
    few = tuple(s for s, sums in found.items() if judge.coarsen(sums, least, each=True) is None)
    merged = {s: judge.coarsen(sums, least) for s, sums in found.items() if s not in few}
    told = {site: judge.measure(sums).rounded(least) for site, sums in merged.items() if sums}
    return SiteValidation(told, study.family, few)
