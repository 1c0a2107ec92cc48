"""The answers that are no sums: histograms, rules, and a site's own results."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from fedrulefit.privacy.gate import implies
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests import hospitals
from tests.alone import COEF, OWN, TERMS, ask_results, head, join, make_site, own_site, refusal
from tests.samples import make_study, make_tables, study_facts, sums_of


def test_noise_is_drawn_once() -> None:
    """Otherwise the coordinator asks again and averages the noise away."""
    study = make_study(epsilon=0.1)
    site = make_site(study)
    site.handle(join(study))
    request = m.GridRequest(head(study))
    data = site.answer(to_bytes(request))
    assert site.answer(to_bytes(request)) == data
    assert "came out of turn" in refusal(site, m.GridRequest(head(study)), "order")
    first = from_bytes(data)
    assert isinstance(first, m.GridReply)
    exact = make_site()
    exact.handle(join())
    truth = exact.handle(m.GridRequest(head()))
    assert isinstance(truth, m.GridReply)
    assert (first.counts != truth.counts).mean() > 0.3, "ε = 0.1 must move most cells"


def test_two_sites_draw_different_noise() -> None:
    study = make_study(epsilon=0.1)
    counts = []
    for _ in range(2):
        site = make_site(study)
        site.handle(join(study))
        reply = site.handle(m.GridRequest(head(study)))
        assert isinstance(reply, m.GridReply)
        counts.append(reply.counts)
    assert (counts[0] != counts[1]).any()


def test_weights_are_counted_in_whole_units_with_their_bound() -> None:
    """The noise must be scaled to the largest weight that the study allows."""

    class Spy(UnsafeSeededLaplace):
        asked: list[int] = []  # noqa: RUF012

        def add(self, counts: Any, *, sensitivity: int, epsilon: float) -> Any:
            self.asked.append(sensitivity)
            return super().add(counts, sensitivity=sensitivity, epsilon=epsilon)

    study = Study.from_mapping({**study_facts(epsilon=1.0), "weight": {"column": "w", "max": 2.5}})
    table = make_tables(make_study())["north"]
    weights = np.linspace(0.5, 2.5, table.n_rows)
    site = Site("north", Table(table.values, table.outcome, weights), study, noise=Spy(0, "north"))
    site.handle(join(study))
    site.handle(m.GridRequest(head(study)))
    assert Spy.asked == [2560] * 5


def test_a_site_offers_only_results_on_enough_patients() -> None:
    site = own_site(OWN, offered=False)
    (offer,) = sums_of(site, m.OfferRequest(head(OWN), TERMS))
    assert offer.rules.tolist() == [0, 1 << 32], "the other rule holds for too few"
    assert (offer.totals, offer.evaluation) == (0, 0)
    policy = Policy.model_validate({**OPEN.model_dump(), "min_count": 60})
    careful = own_site(OWN, offered=False, policy=policy)
    (offer,) = sums_of(careful, m.OfferRequest(head(OWN), TERMS))
    assert offer.rules.tolist() == [1 << 32] * 2, "the policy's own count"
    assert offer.evaluation == 1 << 32


def test_a_site_tells_its_own_results_and_only_those_asked_for() -> None:
    site = own_site(OWN)
    reply = site.handle(ask_results())
    assert isinstance(reply, m.ResultsReply)
    assert reply.totals[0] == 140
    assert 0 < reply.events_inside[0] < reply.inside[0] < 140
    counts = np.concatenate([reply.totals, reply.inside, reply.events_inside, reply.measures[:2]])
    assert (counts % 5 == 0).all(), "rounded"
    assert reply.known.tolist() == list(range(16))
    assert reply.measures[0] == 60
    np.testing.assert_array_equal(reply.measures, reply.measures.round(3))
    nothing = own_site(OWN).handle(
        ask_results(rules=np.empty(0, np.int64), totals=False, evaluation=False)
    )
    assert isinstance(nothing, m.ResultsReply)
    for name in ("totals", "inside", "events_inside", "known", "measures"):
        assert len(getattr(nothing, name)) == 0


@pytest.mark.parametrize(
    "changes",
    [{"rules": np.array([1])}, {"rules": np.array([0, 1])}, {"rules": np.array([0, 0])},
     {"rules": np.array([-1])}, {"rules": np.array([7])}],
)  # fmt: skip
def test_what_a_site_keeps_back_it_does_not_tell(changes: Any) -> None:
    code = "policy" if 1 in changes["rules"] else "bad-request"
    reason = refusal(own_site(OWN), ask_results(**changes), code)
    assert "keeps these results" in reason or "increasing positions" in reason


def test_a_site_tells_once_at_most_that_it_keeps_something_back() -> None:
    """Refusals would else tell, rule by rule, which hold for few."""
    site = own_site(OWN)
    assert "keeps these results" in refusal(site, ask_results(rules=np.array([1])), "policy")
    assert "keeps these results" in refusal(site, ask_results(rules=np.array([0])), "policy")
    empty = ask_results(rules=np.empty(0, np.int64), totals=False, evaluation=False)
    assert "keeps these results" in refusal(site, empty, "policy")


def test_results_are_of_the_model_that_the_offer_was_for() -> None:
    early = own_site(OWN, offered=False)
    assert "another model" in refusal(early, ask_results(), "order")
    request = dataclasses.replace(ask_results(), terms=TERMS[:2], coef=COEF[:2])
    late = own_site(OWN)
    request = dataclasses.replace(request, header=head(OWN))
    assert "another model" in refusal(late, request, "order")


def test_sites_send_only_rules_with_enough_patients_and_not_too_many() -> None:
    site = hospitals.make_site(policy=hospitals.FREE)
    sent = hospitals.granted(
        hospitals.ready_for_rules(site).ask(m.RulesRequest, grid=hospitals.GRID), m.RulesReply
    )
    every = hospitals.granted(
        hospitals.ready_for_rules(hospitals.make_site(policy=OPEN)).ask(
            m.RulesRequest, grid=hospitals.GRID
        ),
        m.RulesReply,
    )
    assert 0 < len(sent.rules) < len(every.rules)
    assert set(sent.rules) <= set(every.rules)
    few = hospitals.make_site(policy=hospitals.change(hospitals.FREE, max_rules_sent=2))
    reply = hospitals.granted(
        hospitals.ready_for_rules(few).ask(m.RulesRequest, grid=hospitals.GRID), m.RulesReply
    )
    assert len(reply.rules) == 2
    assert set(reply.rules) <= set(sent.rules)
    none = hospitals.make_site(policy=hospitals.change(hospitals.FREE, min_count=1000))
    reply = hospitals.granted(
        hospitals.ready_for_rules(none).ask(m.RulesRequest, grid=hospitals.GRID), m.RulesReply
    )
    assert reply.rules == ()
    assert any(implies(a, b) for a, b in combinations(every.rules, 2))
