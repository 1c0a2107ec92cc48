"""The conversation as a whole: sites, steps, and that no order matters."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fedrulefit.core.rounding import Rounding
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.model import Model
from fedrulefit.privacy.policy import KINDS, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.coordinator.coordinator import _coarsest, _most_votes
from tests import samples
from tests.samples import make_study, make_tables, record
from tests.talks import SITES
from tests.tampered import STUDY, Replies, facts, make_sites, run


def test_a_run_needs_sites_with_names_of_their_own() -> None:
    with pytest.raises(FitError, match="at least one site"):
        Coordinator(STUDY, [])
    with pytest.raises(FitError, match="two sites have the same name"):
        Coordinator(STUDY, ["north", "south", "north"])


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 2, 0]])
def test_the_order_of_replies_does_not_matter(order: list[int]) -> None:
    def shuffled(replies: Replies) -> Replies:
        items = list(replies.items())
        return dict(items[k] for k in order)

    assert facts(run(tamper=shuffled)) == facts(run())


def test_the_order_of_sites_does_not_matter() -> None:
    sites = make_sites(STUDY)
    backwards = dict(reversed(make_sites(STUDY).items()))
    assert facts(run(sites=sites)) == facts(run(sites=backwards))


def test_replies_of_strangers_are_not_used() -> None:
    def tamper(replies: Replies) -> Replies:
        return {**replies, "stranger": replies["north"]}

    assert facts(run(tamper=tamper)) == facts(run())


def test_steps_count_up_and_runs_have_a_name() -> None:
    sites = make_sites(STUDY)
    coordinator = Coordinator(STUDY, list(sites))
    steps = []
    requests = coordinator.step()
    while not isinstance(requests, Model):
        headers = {request.header for request in requests.values()}
        assert {h.run for h in headers} == {coordinator.run}
        steps += sorted({h.step for h in headers})
        requests = coordinator.step({n: sites[n].handle(r) for n, r in requests.items()})
    assert steps == list(
        range(4 + 2 + 3)
    )  # join, grid, rules, terms; rounds; slopes, summary, between
    assert Coordinator(STUDY, ["a", "b"]).run == Coordinator(STUDY, ["b", "a"]).run
    assert Coordinator(STUDY, ["a", "b"]).run != Coordinator(STUDY, ["a", "c"]).run
    assert Coordinator(STUDY, ["a"], run="mine").run == "mine"


@pytest.mark.parametrize("votes", [-1, 4])
def test_a_site_that_asks_for_votes_that_nobody_can_give_is_named(votes: int) -> None:
    coordinator = Coordinator(make_study(), ["north", "south", "west"], secure=True)
    requests = coordinator.step()
    assert not isinstance(requests, Model)
    replies = {
        name: m.JoinReply(request.header, "x", votes if name == "south" else 2, 1, 0)
        for name, request in requests.items()
    }
    with pytest.raises(ProtocolError, match=f"'south' asks for {votes} votes of 3"):
        coordinator.step(replies)


# --- by hand ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "secure", "dropouts", "expected"),
    [
        ({}, False, "wait", "Join Grid Rules Terms Dual Dual Slopes Summary Between"),
        (
            {"between_sites": False}, False, "wait",
            "Join Grid Rules Terms Dual Dual Slopes Summary",
        ),
        (
            {"spreads": "exact", "holdout": 0.3, "per_site": True}, False, "wait",
            "Join Grid Spreads Rules Terms Dual Dual Slopes Summary Between Evaluate Offer Results",
        ),
        (
            {}, True, "wait",
            "Join Key Peers Grid Rules Vote Terms Dual Dual Slopes Summary Between",
        ),
        (
            {"spreads": "exact"}, True, "continue",
            "Join Key Peers Grid Spreads Open Rules Vote Open Terms Dual Open Dual Open Slopes "
            "Open Summary Open Between Open",
        ),
    ],
)  # fmt: skip
def test_the_conversation_reads_from_top_to_bottom(
    settings: Any, secure: bool, dropouts: Any, expected: str
) -> None:
    study = make_study(rounds=2, **settings)
    tables = make_tables(study, sizes=(200, 150, 150))
    policy = Policy(allow=tuple(KINDS), secure_sums=secure, dropouts=dropouts, min_changed=0)
    sites = samples.make_sites(study, tables, policy=policy)
    coordinator = Coordinator(study, list(sites), secure=secure, dropouts=dropouts)
    _, seen = record(coordinator, sites)
    asked = [type(request).__name__ for site, request, _ in seen if site == "north"]
    assert asked == [f"{name}Request" for name in expected.split()]
    assert coordinator.progress.step == "done"


def test_cut_offs_that_are_known_need_no_histograms() -> None:
    _, seen = record(Coordinator(STUDY, list(SITES)), make_sites(STUDY))
    (grid,) = {id(r.grid): r.grid for _, r, _ in seen if isinstance(r, m.RulesRequest)}.values()
    model, seen = record(Coordinator(STUDY, list(SITES), grid=grid), make_sites(STUDY))
    assert not any(isinstance(request, m.GridRequest) for _, request, _ in seen)
    assert model.privacy.n_histograms == 0


def joined(*told: tuple[int, int, int]) -> list[m.JoinReply]:
    header = m.Header(m.PROTOCOL_VERSION, "run", 0, "north", "study")
    return [
        m.JoinReply(dataclasses.replace(header, site=site), "x", *facts)
        for site, facts in zip(SITES, told, strict=True)
    ]


def test_the_coarsest_policy_decides_how_the_model_is_rounded() -> None:
    assert _coarsest(joined((0, 1, 0), (0, 5, 10), (0, 3, 11))) == Rounding(5, 11)
    assert _coarsest(joined((0, 1, 0), (0, 1, 0), (0, 1, 0))) == Rounding(1, 0)
    for bad in ((0, 0, 0), (0, 1, -1)):
        with pytest.raises(ProtocolError, match="site 'south': "):
            _coarsest(joined((0, 1, 0), bad, (0, 1, 0)))


def test_the_policy_that_asks_for_most_votes_decides() -> None:
    assert _most_votes(joined((0, 1, 0), (3, 1, 0), (2, 1, 0))) == 3
    assert _most_votes(joined((0, 1, 0), (0, 1, 0), (0, 1, 0))) == 0
    for n in (-1, 4):
        with pytest.raises(ProtocolError, match=f"'west' asks for {n} votes of 3"):
            _most_votes(joined((0, 1, 0), (3, 1, 0), (n, 1, 0)))
