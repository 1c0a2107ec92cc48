"""The conversation as a whole: sites, steps, and that no order matters."""

from __future__ import annotations

import pytest

from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.model import Model
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from tests.samples import make_study
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
    assert steps == list(range(4 + 2 + 2))  # join, grid, rules, terms; rounds; slopes, summary
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
