"""One site that is asked without masks, question by question."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule, conjoin
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from tests.samples import make_study, make_tables, record

STUDY = make_study(rounds=3)
STEPS = itertools.count()


def make_site(study: Study = STUDY, **options: Any) -> Site:
    return Site("north", make_tables(study)["north"], study, **options)


def head(study: Study = STUDY, **changes: Any) -> m.Header:
    """Return a header; every question has a step of its own, as a coordinator counts them."""
    header = m.Header(m.PROTOCOL_VERSION, "run-1", next(STEPS), "north", study.digest)
    return dataclasses.replace(header, **changes)


def join(study: Study = STUDY, **changes: Any) -> m.JoinRequest:
    header = head(study, **changes)
    return m.JoinRequest(header, sites=(header.site,), secure=False, dropouts="wait")


def summary(terms: Any, coef: Any, scales: Any = (0.0, 0.0)) -> m.SummaryRequest:
    return m.SummaryRequest(head(), terms, coef, np.array(scales))


def refusal(site: Site, request: m.Request, code: str = "bad-request") -> str:
    """Return why `site` refuses; nothing may have been written down as released."""
    before = len(site.ledger.releases)
    reply = site.handle(request)
    assert isinstance(reply, m.Refusal), reply
    assert reply.code == code
    assert reply.header == request.header
    assert len(site.ledger.releases) == before
    return reply.reason


def shared_grid(study: Study = STUDY) -> Grid:
    """Return the grid that the coordinator would hand out."""
    sites = {"north": make_site(study)}
    _, seen = record(Coordinator(study, ["north"]), sites)
    (grid,) = (request.grid for _, request, _ in seen if isinstance(request, m.RulesRequest))
    return grid


OWN = make_study(rounds=3, per_site=True, holdout=0.3)
TERMS, COEF = np.array([0, 1, 2]), np.array([0.1, 0.5, -0.2])


def own_site(study: Study, *, offered: bool = True, **options: Any) -> Site:
    """Return a site that holds two rules: one on many patients, one on hardly any."""
    site = Site("north", make_tables(study, sizes=(200,))["north"], study, **options)
    grid = shared_grid(study)
    rare = conjoin([Condition(0, 0b1), Condition(2, 0b1), Condition(3, 0b1000)], grid)
    assert rare is not None
    rules = (Rule((Condition(3, 0b11),)), rare)
    for request in (
        join(study),
        m.GridRequest(head(study)),
        m.RulesRequest(head(study), grid),
        m.TermsRequest(head(study), rules),
        *([m.OfferRequest(head(study), TERMS)] if offered else []),
    ):
        assert not isinstance(site.handle(request), m.Refusal)
    return site


def ask_results(**changes: Any) -> m.ResultsRequest:
    facts: dict[str, Any] = {
        "rules": np.array([0]),
        "totals": True,
        "evaluation": True,
        "held_out": np.array([0]),
        **changes,
    }
    return m.ResultsRequest(head(OWN), TERMS, COEF, **facts)
