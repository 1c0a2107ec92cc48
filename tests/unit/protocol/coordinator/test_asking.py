"""One question to all sites: replies that should not have come, and sums that do not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.arrays import Floats
from fedrulefit.core.sums import Packing, Sum, quantity
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.privacy.masks import add_rings, keystream
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.coordinator.asking import Asker, Progress
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from tests.samples import SOLVERS, make_study, make_tables
from tests.tampered import STUDY, Replies, change, lengthen, make_sites, run


def test_a_refusal_is_told_with_site_and_reason() -> None:
    other = STUDY.with_settings(seed=5)
    sites = {**make_sites(STUDY), "south": make_sites(other)["south"]}
    with pytest.raises(FitError) as caught:
        run(sites=sites)
    first, line = str(caught.value).splitlines()
    assert first == "these sites refused:"
    assert line.startswith("  south: site 'south' holds another study")
    assert line.endswith("[study]")


def test_all_refusals_are_told_at_once() -> None:
    def tamper(replies: Replies) -> Replies:
        return {
            name: m.Refusal(r.header, "policy", f"{name} is shut") for name, r in replies.items()
        }

    with pytest.raises(FitError, match=r"north is shut \[policy\]\n.*south is shut.*\n.*west"):
        run(tamper=tamper)


@pytest.mark.parametrize("kind", [m.JoinReply, m.GridReply, m.RulesReply, m.SumReply])
def test_a_missing_reply_is_named(kind: type) -> None:
    def tamper(replies: Replies) -> Replies:
        return {n: r for n, r in replies.items() if n != "south" or not isinstance(r, kind)}

    with pytest.raises(ProtocolError, match="no reply from south"):
        run(tamper=tamper)


def test_no_replies_at_all() -> None:
    coordinator = Coordinator(STUDY, ["a", "b"])
    coordinator.step()
    with pytest.raises(ProtocolError, match="no reply from a, b"):
        coordinator.step()


def test_a_reply_of_another_type_is_refused() -> None:
    def tamper(replies: Replies) -> Replies:
        south = replies["south"]
        if isinstance(south, m.GridReply):
            return {**replies, "south": m.TermsReply(south.header, 3)}
        return replies

    with pytest.raises(ProtocolError, match="site 'south' answered another question"):
        run(tamper=tamper)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 99},
        {"run": "other"},
        {"site": "north"},
        {"study": "0"},
        {"version": m.PROTOCOL_VERSION + 1},
    ],
)
def test_a_reply_to_another_question_is_refused(changes: dict[str, Any]) -> None:
    def tamper(replies: Replies) -> Replies:
        south = replies["south"]
        header = dataclasses.replace(south.header, **changes)
        return {**replies, "south": dataclasses.replace(south, header=header)}

    with pytest.raises(ProtocolError, match="site 'south' answered another question"):
        run(tamper=tamper)


@pytest.mark.parametrize("kind", m.SUM_REQUESTS)
def test_sums_of_another_length_are_refused(kind: type[m.SumRequest]) -> None:
    names = {m.DualRequest: "fedda", m.RefitRequest: "pruned"}
    solver = SOLVERS[names.get(kind, "exact")]
    outcome = "count, negative binomial" if kind.of_dispersion else "yes/no"
    settings = {**solver, "rounds": 2, "spreads": "exact", "holdout": 0.3, "per_site": True}
    settings["adjusted"] = True
    study = make_study(outcome, **settings)
    tables = make_tables(study, sizes=(200, 150, 150))
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    with pytest.raises(ProtocolError, match=r"site 'west' sent a sum of .* were due"):
        run(study, sites, tamper_sums=lengthen(kind))


def test_a_sum_under_masks_where_none_are_is_refused() -> None:
    with pytest.raises(ProtocolError, match="site 'west' sent a sum under masks"):
        run(tamper=change("west", m.SumReply, masked=True))


# --- the asker by itself: its questions are answered by hand ----------------------------------

SITES = ("north", "south", "west")
DIGEST = STUDY.digest


def make_asker(study: Study = STUDY, **options: Any) -> Asker:
    facts: dict[str, Any] = {"secure": False, "dropouts": "wait", **options}
    return Asker(study, SITES, "run", **facts)


def send(talk: Any, replies: Mapping[str, m.Reply] | None = None) -> Any:
    """Give the replies; return the next requests, or what the talk ended with."""
    try:
        return next(talk) if replies is None else talk.send(replies)
    except StopIteration as ended:
        return ended


def answer(requests: Any, kind: Any, *fields: Any, but: tuple[str, ...] = ()) -> dict[str, m.Reply]:
    return {
        site: kind(request.header, *fields) for site, request in requests.items() if site not in but
    }


def test_every_site_is_asked_the_same_and_answers_are_in_their_order() -> None:
    asker = make_asker()
    asker.steps = 7
    talk = asker.ask(m.TermsReply, partial(m.TermsRequest, rules=()))
    requests = send(talk)
    assert list(requests) == ["north", "south", "west"]
    for site, request in requests.items():
        assert request.header == m.Header(m.PROTOCOL_VERSION, "run", 7, site, DIGEST)
    assert asker.steps == 8
    turned = dict(reversed(answer(requests, m.TermsReply, 3).items()))
    ended = send(talk, turned)
    assert [reply.header.site for reply in ended.value] == ["north", "south", "west"]


def test_what_a_site_cannot_bear_ends_the_run_before_other_refusals() -> None:
    """A fit that diverges is told so, whatever else sites say."""
    talk = make_asker().ask(m.TermsReply, partial(m.TermsRequest, rules=()))
    requests = send(talk)
    replies = answer(requests, m.TermsReply, 3)
    replies["north"] = m.Refusal(requests["north"].header, "policy", "no")
    replies["west"] = m.Refusal(requests["west"].header, "overflow", "too\nlarge")
    with pytest.raises(ProtocolError, match=r"site 'west': too\\nlarge") as caught:
        send(talk, replies)
    assert caught.value.code == "overflow"


# --- lost sites -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "dropouts", "kind", "words"),
    [
        ({}, "wait", m.GridRequest, "can be resumed once they are back"),
        ({"per_site": True}, "continue", m.GridRequest, "results of single sites"),
        ({}, "continue", m.GridRequest, None),
        ({}, "continue", m.OpenRequest, None),
    ],
)
def test_a_run_goes_on_without_a_lost_site_only_where_it_may(
    settings: Any, dropouts: Any, kind: Any, words: str | None
) -> None:
    asker = make_asker(make_study(rounds=2, **settings), dropouts=dropouts)
    question = partial(kind, answered=0) if kind is m.OpenRequest else kind
    talk = asker.ask(m.TermsReply, question)
    requests = send(talk)
    replies = answer(requests, m.TermsReply, 3, but=("south",))
    if words is None:
        ended = send(talk, replies)
        assert [reply.header.site for reply in ended.value] == ["north", "west"]
        assert asker.sites == ("north", "west")
        return
    with pytest.raises(ProtocolError, match=f"no reply from south.*{words}") as caught:
        send(talk, replies)
    assert caught.value.code == "lost"
    assert asker.sites == SITES


LATE = [
    m.Turn.SLOPES, m.Turn.SUMMARY, m.Turn.BETWEEN, m.Turn.MODEL, m.Turn.EVALUATION, m.Turn.ADJUST,
    m.Turn.OFFER, m.Turn.RESULTS,
]  # fmt: skip


@pytest.mark.parametrize("turn", m.Turn)
def test_after_the_fit_the_model_rests_on_every_site(turn: m.Turn) -> None:
    @dataclasses.dataclass(frozen=True, eq=False)
    class Asked(m.Request):
        pass

    Asked.turn = turn
    asker = make_asker(dropouts="continue")
    talk = asker.ask(m.TermsReply, Asked)
    replies = answer(send(talk), m.TermsReply, 3, but=("west",))
    if turn in LATE:
        with pytest.raises(ProtocolError, match="the model rests on their patients"):
            send(talk, replies)
    else:
        send(talk, replies)
        assert asker.sites == ("north", "south")


def test_nobody_left_is_no_run() -> None:
    talk = make_asker(dropouts="continue").ask(m.GridReply, m.GridRequest)
    send(talk)
    with pytest.raises(ProtocolError, match="no reply from north, south, west"):
        send(talk, {})


# --- sums -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Pair(Sum):
    """Two numbers in units of 1/2."""

    numbers: Floats = quantity("Σ w·x", shape="2", bits=1)


@dataclasses.dataclass(frozen=True, eq=False)
class PairRequest(m.OfferRequest):
    """Ask for them."""

    turn = m.Turn.FIT
    sums = (Pair,)

    def packings(self, public: Public) -> Any:
        return (Packing(Pair),)


QUESTION = partial(PairRequest, terms=np.array([0]))
PUBLIC = Public(STUDY)


def numbers(requests: Any, *, masked: bool = False, **own: Any) -> dict[str, m.Reply]:
    return {
        site: m.SumReply(requests[site].header, masked, np.asarray(part, dtype=np.int64))
        for site, part in own.items()
    }


def test_sums_are_added_as_whole_units_and_read_once() -> None:
    talk = make_asker().sum(QUESTION, PUBLIC)
    requests = send(talk)
    ended = send(talk, numbers(requests, north=[1, 2], south=[10, 20], west=[-100, 7]))
    ((sums,),) = (ended.value,)
    assert isinstance(sums, Pair)
    assert sums.numbers.tolist() == [-44.5, 14.5]


@pytest.mark.parametrize(
    ("solver", "error", "words"),
    [("fedda", FitError, "diverges .*site 'south'"), ("exact", ProtocolError, "^site 'south'")],
)
def test_numbers_that_could_wrap_round_name_their_site(
    solver: str, error: type[Exception], words: str
) -> None:
    talk = make_asker(make_study(**SOLVERS[solver])).sum(QUESTION, PUBLIC)
    large = [2**63 // 3 + 2**20, 0]
    replies = numbers(send(talk), north=[0, 0], south=large, west=[0, 0])
    with pytest.raises(error, match=words) as caught:
        send(talk, replies)
    assert str(large[0]) not in str(caught.value)


@pytest.mark.parametrize("secure", [True, False])
def test_a_sum_comes_as_it_was_agreed(secure: bool) -> None:
    asker = make_asker(secure=secure)
    for masked, own, words in (
        (not secure, [1, 2], "without masks" if secure else "under masks"),
        (secure, [1, 2, 3], "sent a sum of 3 numbers, where 2 were due"),
        (secure, [], "sent a sum of 0 numbers"),
    ):
        talk = asker.sum(QUESTION, PUBLIC)
        requests = send(talk)
        replies = numbers(requests, masked=masked, north=own, south=own, west=own)
        with pytest.raises(ProtocolError, match=f"site 'north' .*{words}"):
            send(talk, replies)


def ring(*parts: Any) -> Any:
    return add_rings([np.asarray(part, dtype=np.int64) for part in parts], 2)


SEEDS = {site: bytes([k]) * 32 for k, site in enumerate(SITES)}


def masked_numbers(requests: Any) -> dict[str, m.Reply]:
    """Each site's own numbers (k, 10·k in halves) under its own mask; shared masks are none."""
    return {
        site: m.SumReply(
            request.header, True, ring([2, 20], keystream(SEEDS[site], 2))
        )
        for site, request in requests.items()
    }  # fmt: skip


def open_all(requests: Any) -> dict[str, m.Reply]:
    return {site: m.OpenReply(r.header, SEEDS[site]) for site, r in requests.items()}


def test_where_sites_may_be_lost_a_sum_is_opened_once_all_have_answered() -> None:
    asker = make_asker(secure=True, dropouts="continue")
    asker.steps = 4
    talk = asker.sum(QUESTION, PUBLIC)
    opening = send(talk, masked_numbers(send(talk)))
    assert {(type(r), r.answered, r.header.step) for r in opening.values()} == {
        (m.OpenRequest, 4, 5)
    }  # fmt: skip
    ended = send(talk, open_all(opening))
    assert ended.value[0].numbers.tolist() == [3, 30]


def test_a_round_that_lost_a_site_is_given_up_and_asked_again_among_the_rest() -> None:
    asker = make_asker(secure=True, dropouts="continue")
    keys = asker.exchange_keys()
    requests = send(keys)
    assert {type(request) for request in requests.values()} == {m.KeyRequest}
    handed = send(keys, answer(requests, m.KeyReply, b"k", b"c", "continue", b"s"))
    assert [peer.site for peer in handed["north"].peers] == ["north", "south", "west"]
    send(keys, answer(handed, m.PeersReply, 3))
    talk = asker.sum(QUESTION, PUBLIC)
    first = send(talk)
    replies = masked_numbers(first)
    del replies["south"]
    handed = send(talk, replies)
    assert [peer.site for peer in handed["west"].peers] == ["north", "west"]
    again = send(talk, answer(handed, m.PeersReply, 2))
    assert list(again) == ["north", "west"]
    assert type(again["north"]) is PairRequest
    assert again["north"].header.step == first["north"].header.step + 2
    opening = send(talk, masked_numbers(again))
    assert {r.answered for r in opening.values()} == {again["north"].header.step}
    ended = send(talk, open_all(opening))
    assert ended.value[0].numbers.tolist() == [2, 20], "of the two that are left"


def test_once_a_site_has_opened_its_mask_no_other_is_let_go() -> None:
    asker = make_asker(secure=True, dropouts="continue")
    talk = asker.sum(QUESTION, PUBLIC)
    opening = send(talk, masked_numbers(send(talk)))
    replies = open_all(opening)
    del replies["west"]
    with pytest.raises(ProtocolError, match="no reply from west"):
        send(talk, replies)


@pytest.mark.parametrize("n_bytes", [0, 31, 33])
def test_a_seed_has_its_length(n_bytes: int) -> None:
    talk = make_asker(secure=True, dropouts="continue").sum(QUESTION, PUBLIC)
    opening = send(talk, masked_numbers(send(talk)))
    with pytest.raises(ProtocolError, match="not a seed"):
        send(talk, answer(opening, m.OpenReply, bytes(n_bytes)))


def test_progress_is_done_at_the_end_and_keeps_what_was_reached() -> None:
    asker = make_asker()
    asker.progress = Progress("summary", 3, 3, 0.5)
    asker.finish()
    assert asker.progress == Progress("done", 3, 3, 0.5)
