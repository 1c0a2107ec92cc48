"""Requests come in their turn, to this site, in this run."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrulefit.core.grid import Grid
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from tests.alone import (
    OWN,
    STUDY,
    TERMS,
    ask_results,
    head,
    join,
    make_site,
    own_site,
    refusal,
    summary,
)


def test_another_study_is_refused() -> None:
    other = STUDY.with_settings(rounds=4)
    assert "holds another study" in refusal(make_site(), join(other), "study")


def test_a_message_for_another_site_is_refused() -> None:
    reason = refusal(make_site(), join(site="south"), "site")
    assert "for another site reached 'north'" in reason


def test_another_run_is_refused(joined: Site) -> None:
    assert "another run" in refusal(joined, m.GridRequest(head(run="run-2")), "run")
    assert "another run" in refusal(joined, join(run="run-2"), "run")
    assert isinstance(joined.handle(m.GridRequest(head())), m.GridReply)


def test_nothing_is_answered_before_joining(grid: Grid) -> None:
    """A site once answered a request for histograms of a run that it had not joined."""
    empty: Any = np.empty(0)
    requests: tuple[m.Request, ...] = (
        m.KeyRequest(head()),
        m.PeersRequest(head(), ()),
        m.OpenRequest(head(), 0),
        m.GridRequest(head()),
        m.SpreadsRequest(head()),
        m.RulesRequest(head(), grid),
        m.VoteRequest(head(), (), ()),
        m.TermsRequest(head(), ()),
        m.VariantVoteRequest(head(), empty.astype(np.int64)),
        m.VariantsRequest(head(), empty.astype(np.int64), 0),
        m.RefitRequest(head(), ()),
        m.DualRequest(head(), 0, empty),
        m.BetweenRequest(head(), 3, empty.astype(int), 1.0, empty, empty),
        m.CurvatureRequest(head(), ()),
        m.DispersionRequest(head(), empty.astype(np.int64), empty, 0.5),
        m.ShareDispersionRequest(head(), 0.5),
        m.ShareModelRequest(head(), empty.astype(np.int64), empty),
        m.SlopesRequest(head(), empty.astype(np.int64), empty),
        m.SummaryRequest(head(), empty.astype(np.int64), empty, empty),
        m.EvaluateRequest(head(), empty.astype(np.int64), empty),
        m.AdjustRequest(head(), empty.astype(np.int64), empty, empty),
        m.OfferRequest(head(), empty.astype(np.int64)),
        m.ResultsRequest(
            head(),
            empty.astype(np.int64),
            empty,
            empty.astype(np.int64),
            False,
            False,
            empty.astype(np.int64),
        ),
    )
    assert {type(request) for request in requests} == {*m.REQUESTS} - {m.JoinRequest}
    for request in requests:
        assert "has not joined" in refusal(make_site(), request, "order")


def test_requests_out_of_order_are_refused(joined: Site, grid: Grid) -> None:
    assert "rules came before the grid" in refusal(joined, m.TermsRequest(head(), ()), "order")
    joined.handle(m.RulesRequest(head(), grid))
    terms = np.zeros(1, dtype=np.int64)
    for request in (
        m.DualRequest(head(), 0, np.zeros(6)),
        summary(terms, np.zeros(1)),
        m.SlopesRequest(head(), terms, np.zeros(1)),
    ):
        assert "before the rules" in refusal(joined, request, "order")


def test_no_request_goes_back(ready: Site, grid: Grid) -> None:
    """Else the coordinator could hand out another grid or other rules, and ask again."""
    for request in (
        join(),
        m.GridRequest(head()),
        m.SpreadsRequest(head()),
        m.RulesRequest(head(), grid),
        m.TermsRequest(head(), ()),
    ):
        assert "came out of turn" in refusal(ready, request, "order")
    assert isinstance(ready.handle(m.DualRequest(head(), 0, np.zeros(6))), m.SumReply)
    ready.handle(m.SlopesRequest(head(), np.array([0]), np.zeros(1)))
    again = m.DualRequest(head(), 1, np.zeros(6))
    assert "came out of turn" in refusal(ready, again, "order")


def test_results_are_asked_for_once_and_only_where_the_study_says_so() -> None:
    site = own_site(OWN)
    assert not site.finished
    site.handle(ask_results())
    assert site.finished
    assert "out of turn" in refusal(site, ask_results(rules=np.empty(0, np.int64)), "order")
    silent = OWN.with_settings(per_site=False)
    other = own_site(silent, offered=False)
    request = m.OfferRequest(head(silent), TERMS)
    assert "not the study's" in refusal(other, request, "order")
