"""Joining a run: what would be refused later, or tell too much, is refused at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.fixed import capacity
from fedrulefit.privacy.policy import OPEN
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Transient
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.hospitals import (
    ALL,
    TABLES,
    THREE,
    change,
    granted,
    make_site,
    named,
    refused,
)
from tests.oracles import YES_NO
from tests.samples import (
    SOLVERS,
    Talk,
    make_study,
)


def test_sites_that_count_equally_are_refused_under_masks() -> None:
    """Sums divided by a site's own size are partial fractions, which tell of each site."""
    study = make_study(**SOLVERS["exact"], weighting="sites")
    reply = refused(Talk(make_site(study=study)).join(THREE), "policy")
    assert "taken apart" in reply.reason
    open_ = make_site(study=study, policy=OPEN)
    granted(Talk(open_).join(THREE, secure=False), m.JoinReply)


def test_a_table_that_sums_cannot_bear_does_not_join() -> None:
    """The threshold is public: a coordinator cannot move it to learn the table's size."""
    study = Study.model_validate(
        {**make_study(**SOLVERS["exact"]).model_dump(), "weight": {"column": "w", "max": 1000}}
    )
    rows = np.resize(np.arange(60), 2000)
    values, outcome = TABLES["north"].values[rows], TABLES["north"].outcome[rows]
    for n_sites in (3, 30):
        sites = (*(f"site {k}" for k in range(n_sites - 1)), "north")
        for share in (0.999, 1.001):
            table = Table(values, outcome, np.full(2000, share * capacity(YES_NO, n_sites) / 2000))
            # The kit's list counts, not the sites that a coordinator names.
            site = Site("north", table, study, policy=OPEN, roster=sites)
            reply = Talk(site).join(("north",), secure=False)
            if share < 1:
                granted(reply, m.JoinReply)
            else:
                why = refused(reply, "policy").reason
                assert f"too many patients for a sum over {n_sites} sites" in why


def test_a_weight_that_sums_cannot_bear_does_not_join() -> None:
    facts = make_study(**SOLVERS["exact"]).model_dump()
    study = Study.model_validate({**facts, "weight": {"column": "w", "max": 2000}})
    assert "weight" in refused(Talk(make_site(study=study)).join(THREE), "policy").reason


@pytest.mark.parametrize(
    ("options", "join", "code"),
    [
        ({}, {"secure": False}, "secure-sum"),
        ({"identity": None}, {}, "identity"),
        ({"trust": None}, {}, "identity"),
        ({}, {"sites": ("north", "south")}, "too-few-sites"),
        ({}, {"sites": ("north", "south", "south")}, "bad-request"),
        ({}, {"sites": ("south", "west", "east")}, "bad-request"),
        ({"roster": ("north", "south", "east")}, {}, "identity"),
        ({"policy": change(ALL, peers={"south": "ab" * 32})}, {}, "policy"),
        ({"policy": change(ALL, min_sites=4)}, {}, "too-few-sites"),
        ({}, {"dropouts": "continue"}, "policy"),
    ],
)
def test_a_run_that_the_policy_would_end_later_is_refused_at_join(
    options: dict[str, Any], join: dict[str, Any], code: str
) -> None:
    site = make_site(**options)
    facts = {"sites": THREE, "secure": True, "dropouts": "wait", **join}
    talk = Talk(site)
    refused(talk.ask(m.JoinRequest, **facts), code)
    # Nothing was entered: the site can still join another run.
    assert site.ledger.releases == []
    refused(talk.ask(m.GridRequest), "order")
    if not options:
        other = Talk(site, run="another")
        granted(other.join(THREE), m.JoinReply)


def test_runs_over_a_data_set_are_counted() -> None:
    shared, policy = Transient(), change(ALL, max_runs=2)

    def join(run: str) -> Any:
        return Talk(make_site(policy=policy, shared=shared), run=run).join(THREE)

    for run in ("one", "two", "one", "two"):  # a run that is resumed is the same run
        granted(join(run), m.JoinReply)
    assert "2 runs" in refused(join("three"), "policy").reason
    # One name for runs of two studies: two runs.
    shared, other = Transient(), named("other")
    for study in (named("one"), other):
        site = make_site(study=study, policy=policy, shared=shared)
        granted(Talk(site, run="same").join(THREE), m.JoinReply)
    site = make_site(study=named("third"), policy=policy, shared=shared)
    refused(Talk(site, run="same").join(THREE), "policy")
    # A run that is refused is not counted.
    free = Transient()
    site = make_site(policy=change(policy, min_sites=4), shared=free)
    refused(Talk(site, run="none").join(THREE), "too-few-sites")
    assert free.get("runs") is None
