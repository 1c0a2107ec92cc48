"""Secure sums, asked of whole sites: whose keys they believe, and what they open when."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.fixed import from_units
from fedrulefit.errors import FitError
from fedrulefit.model import Model
from fedrulefit.privacy.identity import Identity, Trust, make_consortium
from fedrulefit.privacy.masks import add_rings, keystream, make_secret, public_key
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import free_rules
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Transient
from tests.hospitals import (
    ALL,
    GRID,
    IDENTITIES,
    KEY,
    SIX,
    SMALL,
    STUDY,
    TABLES,
    THREE,
    TOTAL,
    TRUST,
    change,
    granted,
    hand_out_grid,
    make_site,
    meet,
    peers_of,
    refused,
)
from tests.samples import Talk, make_sites, make_study, make_tables


def with_peer(site: Site, **changes: Any) -> Any:
    """Hand out keys of which the one of "south" is changed."""
    talk = Talk(site)
    granted(talk.join(THREE), m.JoinReply)
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    peers = [
        dataclasses.replace(peer, **changes) if peer.site == "south" else peer
        for peer in peers_of(THREE, "run", own)
    ]
    reply = talk.ask(m.PeersRequest, peers=tuple(peers))
    if isinstance(reply, m.Refusal):
        # No masks: no sum leaves.
        refused(talk.ask(m.SpreadsRequest), "secure-sum")
        assert site.ledger.releases == []
    return reply


def test_a_key_that_the_coordinator_put_in_is_refused() -> None:
    """It knows its own key's secret, and so would take the masks off."""
    mine = public_key(make_secret())
    refused(with_peer(make_site(), public=mine), "identity")
    # Signed by an identity that it made itself, under the right name.
    forged, _ = make_consortium(["south"])
    fake = forged["south"]
    refused(
        with_peer(
            make_site(), public=mine, certificate=fake.certificate, signature=fake.sign(mine)
        ),
        "identity",
    )
    # With the certificate of a site of the consortium that works with it.
    west = peers_of(THREE, "run")[2]
    refused(
        with_peer(
            make_site(),
            public=west.public,
            certificate=west.certificate,
            signature=west.signature,
        ),
        "identity",
    )
    granted(with_peer(make_site()), m.PeersReply)


def test_a_site_that_waits_sums_only_with_sites_that_wait() -> None:
    """Another that sums without this one gives this one's sums away."""
    careless = Talk(make_site("south", policy=change(ALL, dropouts="continue")), run="run")
    granted(careless.join(THREE), m.JoinReply)
    reply = granted(careless.ask(m.KeyRequest), m.KeyReply)
    assert reply.dropouts == "continue"
    told = {key: getattr(reply, key) for key in KEY}
    assert "without this one" in refused(with_peer(make_site(), **told), "policy").reason
    refused(with_peer(make_site(), **{**told, "dropouts": "wait"}), "identity")


def test_a_key_of_another_run_or_without_a_signature_is_refused() -> None:
    south = peers_of(THREE, "another-run")[1]
    refused(with_peer(make_site(), public=south.public, signature=south.signature), "identity")
    refused(with_peer(make_site(), signature=b""), "identity")
    refused(with_peer(make_site(), certificate=b"garbage"), "identity")
    refused(with_peer(make_site(), public=b"short"), "identity")


def test_expired_and_unpinned_certificates_are_refused() -> None:
    late = Trust(TRUST.root, clock=lambda: dt.datetime.now(dt.UTC) + dt.timedelta(days=1000))
    assert "expired" in refused(with_peer(make_site(trust=late)), "identity").reason
    prints = {name: IDENTITIES[name].fingerprint for name in THREE}
    granted(with_peer(make_site(trust=Trust(TRUST.root, prints))), m.PeersReply)
    wrong = Trust(TRUST.root, {**prints, "south": "00" * 32})
    assert "pinned" in refused(with_peer(make_site(trust=wrong)), "identity").reason


def test_a_key_that_is_no_point_of_the_curve_is_refused() -> None:
    """All-zero keys give everyone the same secret, whoever signed them."""
    site = make_site()
    talk = Talk(site)
    talk.join(THREE)
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    zero = bytes(32)
    signer = SigningSite(IDENTITIES["south"])
    peers = [
        m.Peer("south", zero, IDENTITIES["south"].certificate, "wait", signer.sign_key(zero))
        if peer.site == "south"
        else peer
        for peer in peers_of(THREE, "run", own)
    ]
    refused(talk.ask(m.PeersRequest, peers=tuple(peers)), "identity")


class SigningSite:
    """A site of the consortium that signs whatever key it likes."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def sign_key(self, public: bytes) -> bytes:
        from fedrulefit.protocol.masking import _key_claim

        header = m.Header(m.PROTOCOL_VERSION, "run", 1, "south", STUDY.digest)
        return self.identity.sign(_key_claim(header, "south", public, "wait", b""))


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("north", "south"), "set-changed"),
        (("south", "west", "east"), "bad-request"),
        (("north", "south", "west", "east"), "set-changed"),
        (("north", "south", "west", "west"), "bad-request"),
        (("north", "east", "centre"), "set-changed"),
        ((), "bad-request"),
    ],
)
def test_keys_must_be_of_the_run_s_sites(names: Sequence[str], code: str) -> None:
    site = make_site()
    talk = Talk(site)
    talk.join(THREE)
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    known = {peer.site: peer for peer in peers_of(SIX[:5], "run", own)}
    refused(talk.ask(m.PeersRequest, peers=tuple(known[n] for n in names)), code)


def test_another_key_under_this_site_s_name_is_refused() -> None:
    site = make_site()
    talk = Talk(site)
    talk.join(THREE)
    granted(talk.ask(m.KeyRequest), m.KeyReply)
    refused(talk.ask(m.PeersRequest, peers=peers_of(THREE, "run")), "bad-request")


CUT = make_study(**SMALL, single_cutoffs=True)
UNVOTED = change(ALL, min_votes=0)
"""Asks for no votes: what is tested here is masks."""


def play_round(told: Mapping[str, tuple[Any, ...]], *, disguised: bool = False) -> tuple[Any, Any]:
    """A first round among three sites; `told` are the rules that each is handed."""
    sites = {name: make_site(name, study=CUT, policy=UNVOTED) for name in THREE}
    talks = {name: Talk(site, disguised=disguised) for name, site in sites.items()}
    for talk in talks.values():
        granted(talk.join(THREE), m.JoinReply)
    keys = {name: granted(talk.ask(m.KeyRequest), m.KeyReply) for name, talk in talks.items()}
    peers = tuple(m.Peer(name, *(getattr(keys[name], f) for f in KEY)) for name in sorted(THREE))
    for talk in talks.values():
        granted(talk.ask(m.PeersRequest, peers=peers), m.PeersReply)
    counted = {name: granted(talk.ask(m.GridRequest), m.GridReply) for name, talk in talks.items()}
    signed = tuple(m.Histogram(n, reply.counts, reply.signature) for n, reply in counted.items())
    replies = []
    for name, talk in talks.items():
        granted(talk.ask(m.RulesRequest, grid=GRID, histograms=signed), m.RulesReply)
        n_terms = granted(talk.ask(m.TermsRequest, rules=told[name]), m.TermsReply).n_terms
        replies.append(
            granted(talk.ask(m.DualRequest, round=0, dual=np.zeros(n_terms)), m.SumReply)
        )
    numbers = from_units(add_rings([r.numbers for r in replies], len(replies[0].numbers)))
    return numbers, sum(TABLES[name].n_rows for name in THREE)


@pytest.mark.parametrize("disguised", [False, True])
def test_a_coordinator_that_tells_sites_different_things_reads_nothing(disguised: bool) -> None:
    """One site alone is asked about a rule: the masks do not cancel, whatever bytes carry it."""
    rules = sorted(free_rules(CUT, GRID, TOTAL))
    same = dict.fromkeys(THREE, tuple(rules[:2]))
    numbers, n_patients = play_round(same, disguised=disguised)
    assert numbers[-1] == n_patients  # FedDA's weight: the sum is right
    numbers, n_patients = play_round({**same, "north": tuple(rules[2:4])}, disguised=disguised)
    # By chance, one of the numbers is below a million with probability 2^-10.
    assert np.abs(numbers).min() > 1
    assert numbers[-1] != n_patients


def sum_among(shared: Transient, names: Sequence[str], run: str, **options: Any) -> Any:
    """Go through a run's first sum among `names`, with the memory of earlier runs."""
    talk, reply = meet(make_site(shared=shared, **options), names, run=run)
    return reply if isinstance(reply, m.Refusal) else talk.ask(m.SpreadsRequest)


def test_all_sums_over_a_data_set_are_among_the_same_sites() -> None:
    """The default: no two sums, of whatever runs, can be subtracted."""
    first = frozenset(SIX[:4])
    others = [frozenset(["north", *rest]) for n in range(2, 6) for rest in combinations(SIX[1:], n)]
    assert len(others) == 26
    for other in others:
        shared = Transient()
        granted(sum_among(shared, sorted(first), "first"), m.SumReply)
        reply = sum_among(shared, sorted(other), "second")
        if first == other:
            granted(reply, m.SumReply)
        else:
            refused(reply, "set-changed")
    # Another data set remembers nothing of it.
    granted(sum_among(Transient(), SIX[:5], "third"), m.SumReply)


def test_a_refused_set_leaves_no_trace() -> None:
    shared = Transient()
    talk, _ = meet(make_site(shared=shared), SIX[:4], run="keys-only")
    del talk  # no sum left: there is nothing to subtract from
    granted(sum_among(shared, THREE, "sum"), m.SumReply)
    refused(sum_among(shared, SIX[:4], "again"), "set-changed")
    granted(sum_among(shared, THREE, "sum-again"), m.SumReply)


def test_two_runs_side_by_side_cannot_go_round_the_rule() -> None:
    """Both have exchanged keys before either sums: the second sum is refused."""
    shared = Transient()
    one, first = meet(make_site(shared=shared), SIX[:4], run="one")
    two, second = meet(make_site(shared=shared), THREE, run="two")
    granted(first, m.PeersReply)
    granted(second, m.PeersReply)
    granted(one.ask(m.SpreadsRequest), m.SumReply)
    refused(two.ask(m.SpreadsRequest), "set-changed")


def test_no_combination_of_sums_tells_of_one_site() -> None:
    """½·(third + fourth − first − second) would be coast alone, though no two are near."""
    sets = [
        ("north", "south", "west"),
        ("centre", "east", "north"),
        ("coast", "east", "north", "south"),
        ("centre", "coast", "north", "west"),
    ]
    assert all(len(set(one) ^ set(other)) >= 3 for one, other in combinations(sets, 2))
    shared = Transient()
    replies = [sum_among(shared, names, str(run)) for run, names in enumerate(sets)]
    assert any(isinstance(reply, m.Refusal) for reply in replies)


GO_ON = change(ALL, dropouts="continue", min_sites=2, min_votes=0)


def fitted_site(
    names: Sequence[str] = SIX[:4], *, run: str = "run", policy: Policy = GO_ON, **options: Any
) -> tuple[Talk, tuple[m.Peer, ...]]:
    """A site with its design, ready for rounds; and all keys."""
    site = make_site(policy=policy, **options)
    talk = Talk(site, run=run)
    granted(talk.join(sorted(names), dropouts="continue"), m.JoinReply)
    peers = peers_of(names, run, granted(talk.ask(m.KeyRequest), m.KeyReply))
    granted(talk.ask(m.PeersRequest, peers=peers), m.PeersReply)
    granted(talk.ask(m.RulesRequest, **hand_out_grid(talk, names)), m.RulesReply)
    granted(talk.ask(m.TermsRequest, rules=()), m.TermsReply)
    return talk, peers


def n_terms_of(talk: Talk) -> int:
    return 1 + len(GRID.linear) if talk.site.study.settings.linear_terms else 1


def ask_round(talk: Talk, value: float = 0.0) -> Any:
    return talk.ask(m.DualRequest, round=0, dual=np.full(n_terms_of(talk), value))


def keys_of(peers: Sequence[m.Peer], names: Sequence[str]) -> dict[str, Any]:
    return {"peers": tuple(peer for peer in peers if peer.site in names)}


def test_the_run_waits_unless_it_was_said_to_go_on() -> None:
    talk, reply = meet(make_site(policy=GO_ON), THREE)
    granted(reply, m.PeersReply)
    sealed = granted(talk.ask(m.SpreadsRequest), m.SumReply)
    refused(talk.ask(m.OpenRequest, answered=sealed.header.step), "order")


def test_sites_may_leave_but_not_come_back() -> None:
    talk, peers = fitted_site()
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    for names in (SIX[:4], THREE, ("north", "south", "east"), ("south", "west")):
        reply = talk.ask(m.PeersRequest, **keys_of(peers, names))
        assert isinstance(reply, m.Refusal)
        assert reply.code in ("set-changed", "bad-request")
    refused(talk.ask(m.PeersRequest, **keys_of(peers, ("north",))), "too-few-sites")
    granted(talk.ask(m.PeersRequest, **keys_of(peers, ("north", "west"))), m.PeersReply)


def test_a_refused_departure_changes_nothing() -> None:
    talk, peers = fitted_site()
    sealed = granted(ask_round(talk), m.SumReply)
    bad = [dataclasses.replace(p, signature=b"") for p in peers if p.site != "east"]
    refused(talk.ask(m.PeersRequest, peers=tuple(bad)), "identity")
    granted(talk.ask(m.OpenRequest, answered=sealed.header.step), m.OpenReply)


def test_a_sum_is_opened_only_while_it_stands() -> None:
    talk, peers = fitted_site()
    refused(talk.ask(m.OpenRequest, answered=3), "not-open")
    first = granted(ask_round(talk), m.SumReply)
    again = granted(ask_round(talk), m.SumReply)
    refused(talk.ask(m.OpenRequest, answered=first.header.step), "not-open")
    one = granted(talk.ask(m.OpenRequest, answered=again.header.step), m.OpenReply)
    two = granted(talk.ask(m.OpenRequest, answered=again.header.step), m.OpenReply)
    assert one.seed == two.seed
    # The seed takes off the site's own mask, not those that it shares.
    bare = again.numbers - keystream(one.seed, len(again.numbers))
    other = first.numbers - keystream(one.seed, len(first.numbers))
    assert not np.array_equal(bare, other)
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    refused(talk.ask(m.OpenRequest, answered=again.header.step), "not-open")


def test_the_same_question_among_a_near_set_is_refused() -> None:
    talk, peers = fitted_site()
    sealed = granted(ask_round(talk), m.SumReply)
    granted(talk.ask(m.OpenRequest, answered=sealed.header.step), m.OpenReply)
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    refused(ask_round(talk), "same-question")
    # The next round's question is another one.
    granted(ask_round(talk, 0.5), m.SumReply)


def test_what_was_not_opened_may_be_asked_again_among_the_rest() -> None:
    talk, peers = fitted_site()
    given_up = granted(ask_round(talk), m.SumReply)
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    repeated = granted(ask_round(talk), m.SumReply)
    assert repeated.header.step > given_up.header.step
    assert not (repeated.numbers == given_up.numbers).any()
    refused(talk.ask(m.OpenRequest, answered=given_up.header.step), "not-open")
    granted(talk.ask(m.OpenRequest, answered=repeated.header.step), m.OpenReply)
    refused(talk.ask(m.OpenRequest, answered=given_up.header.step), "not-open")


Actions = tuple[str, ...]


class Curious:
    """Tries every order of messages on one site, and notes which sums it opens.

    States are copied by the site's own memory, which tests restarts on the way.
    """

    NAMES = SIX[:4]
    SETS: Mapping[str, tuple[str, ...]] = {
        "leave east": ("north", "south", "west"),
        "leave west": ("east", "north", "south"),
        "leave both": ("north", "south"),
    }

    def __init__(self) -> None:
        self.memory, self.shared = Transient(), Transient()
        talk, self.peers = fitted_site(self.NAMES, memory=self.memory, shared=self.shared)
        self.first_step = talk.step
        self.paths = 0
        self.opened: set[frozenset[tuple[str, tuple[str, ...]]]] = set()

    def search(self, depth: int) -> None:
        self._visit(self.memory, self.shared, self.first_step, self.NAMES, {}, frozenset(), depth)

    def _visit(
        self,
        memory: Transient,
        shared: Transient,
        step: int,
        names: tuple[str, ...],
        sealed: dict[int, tuple[str, tuple[str, ...]]],
        opened: frozenset[tuple[str, tuple[str, ...]]],
        depth: int,
    ) -> None:
        self.paths += 1
        self.opened.add(opened)
        if depth == 0:
            return
        actions = ["ask 0", "ask 1", *self.SETS, *(f"open {s}" for s in sealed)]
        for action in actions:
            copied = [Transient(), Transient()]
            for new, old in zip(copied, (memory, shared), strict=True):
                new.put(dict(old._entries))
            site = make_site(policy=GO_ON, memory=copied[0], shared=copied[1])
            talk = Talk(site, step=step)
            kind, _, what = action.partition(" ")
            now, left, known = names, dict(sealed), opened
            if kind == "ask":
                reply = ask_round(talk, float(what))
                left[step] = (what, names)
            elif kind == "leave":
                now = self.SETS[action]
                reply = talk.ask(m.PeersRequest, **keys_of(self.peers, now))
            else:
                reply = talk.ask(m.OpenRequest, answered=int(what))
                known = opened | {sealed[int(what)]}
            if not isinstance(reply, m.Refusal):  # else all is as before
                self._visit(*copied, talk.step, now, left, known, depth - 1)


def test_no_order_of_messages_opens_one_round_among_two_sets() -> None:
    """All orders of up to five messages: ask, ask another, let sites go, open any sum."""
    curious = Curious()
    curious.search(depth=5)
    assert curious.paths > 500
    for opened in curious.opened:
        for (question, one), (again, other) in combinations(opened, 2):
            # Of one question, no two sums whose difference is over fewer than two sites.
            assert question != again or len(set(one) ^ set(other)) >= GO_ON.min_sites, opened
    # The search reached what it looks for: rounds among different sets, both opened.
    assert any(len({names for _, names in opened}) == 2 for opened in curious.opened)
    assert any(len({question for question, _ in opened}) == 2 for opened in curious.opened)


def test_a_question_is_remembered_across_runs_among_every_set_it_had() -> None:
    """North answers among six, then among others far from both; never next to the first."""
    policy = change(GO_ON, min_sites=3)
    shared = Transient()

    def round_among(names: Sequence[str], run: str) -> Any:
        talk, _ = fitted_site(names, run=run, policy=policy, shared=shared)
        reply = ask_round(talk)
        if isinstance(reply, m.Refusal):
            return reply
        return talk.ask(m.OpenRequest, answered=reply.header.step)

    granted(round_among(SIX, "1"), m.OpenReply)
    refused(round_among(SIX[:5], "2"), "same-question")
    granted(round_among(("north", "centre", "coast"), "3"), m.OpenReply)
    refused(round_among(SIX[:5], "4"), "same-question")


def test_a_waiting_run_is_remembered_by_a_run_that_goes_on() -> None:
    """The same question, once in a run that waits and once in one that does not."""
    policy = change(GO_ON, min_sites=3)
    shared = Transient()
    for run, names, expected in (("1", SIX[:4], None), ("2", THREE, "same-question")):
        site = make_site(policy=policy, shared=shared)
        talk, reply = meet(site, names, run=run, dropouts="wait")
        granted(reply, m.PeersReply)
        granted(talk.ask(m.RulesRequest, **hand_out_grid(talk, names)), m.RulesReply)
        granted(talk.ask(m.TermsRequest, rules=()), m.TermsReply)
        reply = ask_round(talk)
        if expected is None:
            granted(reply, m.SumReply)
        else:
            refused(reply, expected)


@pytest.mark.parametrize("lost", [("west",), ("west", "east")])
def test_a_run_never_goes_on_below_the_smallest_number_of_sites(lost: Sequence[str]) -> None:
    """The coordinator loses sites; the rest refuse what would be too few."""
    tables = make_tables(STUDY, sizes=(50,) * 4)
    sites = make_sites(STUDY, tables, policy=change(GO_ON, min_sites=3))
    coordinator = Coordinator(STUDY, list(sites), secure=True, dropouts="continue")
    kinds: list[type] = []

    def play() -> Model:
        outcome = coordinator.step()
        while not isinstance(outcome, Model):
            kinds.append(type(next(iter(outcome.values()))))
            gone = lost if m.DualRequest in kinds else ()
            asked = {name: request for name, request in outcome.items() if name not in gone}
            outcome = coordinator.step({name: sites[name].handle(r) for name, r in asked.items()})
        return outcome

    if len(lost) > 1:
        with pytest.raises(FitError, match="too-few-sites"):
            play()
        return
    assert set(play().provenance.sites) == set(sites) - set(lost)
    first = kinds.index(m.DualRequest)
    repeated = [m.DualRequest, m.PeersRequest, m.DualRequest, m.OpenRequest]
    assert kinds[first : first + 4] == repeated
