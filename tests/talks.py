"""The coordinator's talks, answered by hand or from patients, without a site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedrulefit.core.bins import count_histograms
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import make_grid
from fedrulefit.protocol.coordinator.agreeing import Candidates
from fedrulefit.protocol.coordinator.asking import Asker
from fedrulefit.protocol.dealing import Dealer
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.samples import make_tables

SITES = ("north", "south", "west")
RULES = (
    Rule((Condition(3, 0b0001),)),
    Rule((Condition(3, 0b0010), Condition(4, 0b10))),
    Rule((Condition(4, 0b01),)),
)

Answer = Callable[[str, m.Request], m.Reply]


def make_asker(study: Study, **options: Any) -> Asker:
    facts: dict[str, Any] = {"secure": False, "dropouts": "wait", **options}
    return Asker(study, SITES, "run", **facts)


def play(talk: Any, answer: Answer) -> tuple[Any, list[m.Request]]:
    """Answer until the talk ends; return what it ended with, and one of each round's requests."""
    asked: list[m.Request] = []
    replies: dict[str, m.Reply] | None = None
    while True:
        try:
            requests = next(talk) if replies is None else talk.send(replies)
        except StopIteration as ended:
            return ended.value, asked
        asked.append(next(iter(requests.values())))
        replies = {site: answer(site, request) for site, request in requests.items()}


def add_up(patients: Mapping[str, Patients]) -> Answer:
    """Answer sums from these patients."""

    def answer(site: str, request: m.Request) -> m.Reply:
        assert isinstance(request, m.SumRequest), request
        request.check(patients[site].public)
        units = request.add_up(patients[site])
        return m.SumReply(request.header, False, np.concatenate(units))

    return answer


def make_public(study: Study) -> Public:
    """Return what a run has agreed on before the fit: a grid of its sample tables, three rules."""
    return Public(study, n_sites=len(SITES)).with_grid(grid_of(study)).with_rules(RULES)


def grid_of(study: Study) -> Grid:
    return make_grid(study, sum(counts_of(study).values()), None)


def counts_of(study: Study) -> dict[str, Any]:
    """Return the exact histograms of each site."""
    return {
        site: count_histograms(table.values, np.ones(table.n_rows, dtype=np.int64), study.bins)
        for site, table in make_tables(study).items()
    }


def make_patients(study: Study, public: Public | None = None) -> dict[str, Patients]:
    """Return the sample sites' patients, ready for rounds of the fit."""
    public = make_public(study) if public is None else public
    made = {}
    for site, table in make_tables(study).items():
        dealer = Dealer(study, site, None, 2)
        held = dealer.hold_out(table)
        learnt: Table = table.take(~held)
        patients = Patients(public, learnt, table.take(held), dealer.deal_folds(learnt), 2)
        made[site] = patients.on_grid(public).with_terms(public)
    return made


def make_candidates(public: Public) -> Candidates:
    """Return all rules as candidates, in all folds, too."""
    return Candidates(public, [public.factors] * (1 + public.n_folds))
