"""A site's side of secure sums: whose keys it believes, among whom it sums, what it opens."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
import pytest

from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.masks import add_rings
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import backing_parts, fill_ballot, pack_votes
from fedrulefit.protocol.masking import Masking, Subject
from fedrulefit.protocol.store import Transient
from tests.hospitals import ALL, IDENTITIES, SIX, THREE, TRUST, change

UNVOTED = change(ALL, min_votes=0)
"""Asks for no votes: what is tested here is masks."""

HEAD = m.Header(m.PROTOCOL_VERSION, "run", 1, "north", "study")


def make_masking(name: str = "north", policy: Policy = ALL, **changes: Any) -> Masking:
    facts: dict[str, Any] = {
        "identity": IDENTITIES[name],
        "trust": TRUST,
        "roster": None,
        "memory": Transient(),
        "shared": Transient(),
        **changes,
    }
    return Masking(name, policy, **facts)


def exchange(
    policy: Policy = UNVOTED, names: Sequence[str] = THREE, *, dropouts: Any = "wait"
) -> dict[str, Masking]:
    """Return the masks of sites that have met."""
    met = {name: make_masking(name, policy) for name in names}
    join = m.JoinRequest(HEAD, tuple(names), True, dropouts)
    peers = []
    for name, masking in met.items():
        masking.join(join)
        key = masking.show_key(HEAD)
        masking.secret = masking.drawn
        told = (key.public, key.certificate, key.dropouts, key.signature)
        peers.append(m.Peer(name, *told))
    for masking in met.values():
        enter(masking, peers)
    return met


def enter(masking: Masking, peers: Sequence[m.Peer]) -> None:
    """Check keys, keep what a site keeps, and agree on masks."""
    request = m.PeersRequest(HEAD, tuple(peers))
    masking.check_peers(request)
    masking._memory.put({"certificates": masking.pack_certificates(request)})
    masking.meet(request)


def about(step: int = 5, **changes: bytes) -> Subject:
    facts = {"question": b"q", "transcript": b"t", "about": b"a", **changes}
    return Subject(step, **facts)


def code_of(check: Any, *args: Any, **options: Any) -> str | None:
    try:
        check(*args, **options)
    except ProtocolError as error:
        return error.code
    return None


OWN = {name: np.array([k, 10 * k, -k], dtype=np.int64) for k, name in enumerate(THREE, start=1)}


def test_masks_cancel_only_among_all_for_one_question_of_one_run() -> None:
    met = exchange()
    sums = [met[name].mask_sum(OWN[name], about()) for name in THREE]
    np.testing.assert_array_equal(add_rings(sums, 3), [6, 60, -6])
    assert not np.array_equal(add_rings(sums[:2], 3), [3, 30, -3])
    for other in ({"transcript": b"T"}, {"question": b"Q"}, {"step": 6}):
        odd = met["north"].mask_sum(OWN["north"], about(**other))  # type: ignore[arg-type]
        assert np.abs(add_rings([odd, *sums[1:]], 3)).min() > 100
    same = met["north"].mask_sum(OWN["north"], about(about=b"A"))
    np.testing.assert_array_equal(same, sums[0])


def test_without_keys_nothing_is_masked() -> None:
    bare = make_masking()
    assert (bare.active, bare.sites, bare.given_up) == (False, (), False)
    assert code_of(bare._mask, OWN["north"], about()) == "order"
    assert code_of(bare.open, m.OpenRequest(HEAD, 5)) == "order"
    nobody = make_masking(identity=None)
    assert code_of(nobody.show_key, HEAD) == "identity"
    assert nobody.sign(b"claim") == b""
    assert code_of(bare.check_peers, m.PeersRequest(HEAD, ())) == "order"


def test_a_number_that_could_wrap_round_is_an_error_and_is_not_told() -> None:
    masking = exchange()["north"]
    for units, code in ((2**63 // 3 - 10**4, None), (2**63 // 3 + 10**4, "overflow")):
        assert code_of(masking.mask_sum, np.array([units]), about()) == code
    with pytest.raises(ProtocolError) as caught:
        masking.mask_sum(np.array([2**62]), about())
    assert str(2**62) not in str(caught.value)


@pytest.mark.parametrize(
    ("roster", "n_sites", "secure", "most"),
    [
        (("north", "south", "west", "east"), 3, True, 4),  # the kit's, whoever takes part
        (("north", "south", "west", "east"), 3, False, 4),
        (None, 3, False, 3),
        (None, 3, True, 32),  # a fixed number: no coordinator can move it
        (None, 32, True, 32),
        (None, 33, True, None),
    ],
)
def test_a_sum_has_no_more_sites_than_the_kit_names(
    roster: Any, n_sites: int, secure: bool, most: int | None
) -> None:
    request = m.JoinRequest(HEAD, tuple(f"s{k}" for k in range(n_sites)), secure, "wait")
    masking = make_masking(roster=roster)
    if most is None:
        assert code_of(masking.most_sites, request) == "policy"
    else:
        assert masking.most_sites(request) == most


def test_a_restarted_site_knows_its_last_sum() -> None:
    """Else a set of sites could be asked anew about a sum that may still be opened."""
    policy = change(UNVOTED, dropouts="continue")
    masking = exchange(policy, dropouts="continue")["north"]
    assert masking.given_up, "nothing was masked yet"
    masking.mask_sum(OWN["north"], about(5))
    assert (masking.given_up, masking.opens) == (False, True)
    seed = masking.open(m.OpenRequest(HEAD, 5)).seed
    masking.note(opening=True)
    kept = masking.place
    masking.give_up()
    assert not masking.given_up, "it was opened: nothing is to be asked again"
    assert code_of(masking.open, m.OpenRequest(HEAD, 5)) == "not-open"
    masking.place = [list(kept[0]), kept[1]]  # as MessagePack gives it back
    assert masking.open(m.OpenRequest(HEAD, 5)).seed == seed
    assert masking.place == kept


@pytest.mark.parametrize("dropouts", ["wait", "continue"])
def test_among_whom_a_sum_can_be_read_is_noted_once_it_can(dropouts: Any) -> None:
    """At once where it needs no opening, else when it is opened."""
    shared = Transient()
    policy = change(UNVOTED, dropouts=dropouts)
    masking = exchange(policy, dropouts=dropouts)["north"]
    masking._shared = shared
    masking.note(opening=False)
    assert shared.get("sets") is None, "nothing was masked"
    masking.mask_sum(OWN["north"], about())
    masking.note(opening=False)
    assert (shared.get("sets") is not None) == (dropouts == "wait")
    masking.note(opening=True)
    question = hashlib.sha256(b"a" + b"q").hexdigest()
    for key in ("sets", f"question/{question}"):
        assert msgpack.unpackb(shared.get(key) or b"") == [sorted(THREE)]


def test_what_is_handed_out_names_every_site_once_and_lost_ones_if_they_signed() -> None:
    policy = change(UNVOTED, dropouts="continue", min_sites=2)
    masking = make_masking(policy=policy)
    masking.join(m.JoinRequest(HEAD, SIX[:4], True, "continue"))
    peers = []
    for name in THREE:
        other = make_masking(name, policy) if name != "north" else masking
        key = other.show_key(HEAD)
        peers.append(m.Peer(name, key.public, key.certificate, key.dropouts, key.signature))
    masking.secret = masking.drawn
    enter(masking, peers)
    assert code_of(masking.check_senders, THREE) is None
    assert code_of(masking.check_senders, THREE[:2]) == "identity"
    enter(masking, [peer for peer in peers if peer.site != "west"])
    for names, code in (
        (THREE, None),  # west signed before it was lost
        (("north", "south"), None),
        (("north", "west"), "identity"),
        (("north", "south", "south"), "identity"),
        (("north", "south", "east"), "identity"),
    ):
        assert code_of(masking.check_senders, names) == code


# --- ballots --------------------------------------------------------------------------------


def cast_votes(
    met: Mapping[str, Masking], *, cheat: bool = False
) -> tuple[tuple[m.Ballot, ...], bytes]:
    """Return the signed ballots of three sites on two rules, and what north sent."""
    ballots = []
    for name, masking in met.items():
        filled = fill_ballot(np.array([True, False]), [True, True], name, THREE)
        if cheat and name == "west":  # backs a rule outside its own group, too
            part = next(part for part, group in backing_parts(len(filled), THREE) if name in group)
            filled[part] = 1
        header = dataclasses.replace(HEAD, site=name)
        reply = masking.mask_votes(m.VoteReply(header, pack_votes(filled), b""), about())
        ballots.append(m.Ballot(name, reply.votes, reply.signature, masking._own_seed()))
    return tuple(ballots), ballots[0].votes


@pytest.mark.parametrize("dropouts", ["wait", "continue"])
def test_ballots_are_signed_whole_and_back_nothing_of_their_own(dropouts: Any) -> None:
    met = exchange(change(UNVOTED, dropouts=dropouts), dropouts=dropouts)
    ballots, own = cast_votes(met)
    first, *rest = ballots
    assert (len(first.seed) == 32) == (dropouts == "continue")

    def check(*told: m.Ballot, sent: bytes = own, question: bytes = b"q") -> str | None:
        request = m.TermsRequest(HEAD, (), told)
        return code_of(met["north"].check_ballots, request, sent, question)

    assert check(*ballots) is None
    assert check(*rest) == "votes"
    assert check(first, *rest, rest[0]) == "votes"
    assert check(*ballots, sent=b"others") == "votes"
    assert check(*ballots, question=b"other rules") == "identity"
    short = dataclasses.replace(rest[0], votes=rest[0].votes[:-4])
    assert check(first, short, *rest[1:]) == "votes"
    opened = dataclasses.replace(rest[0], seed=b"" if rest[0].seed else bytes(32))
    assert check(first, opened, *rest[1:]) == "votes"
    forged = dataclasses.replace(rest[0], signature=rest[1].signature)
    assert check(first, forged, *rest[1:]) == "identity"


def test_a_site_that_backs_its_own_rule_is_caught() -> None:
    """One site alone could else bring a rule through."""
    met = exchange()
    ballots, own = cast_votes(met, cheat=True)
    request = m.TermsRequest(HEAD, (), ballots)
    with pytest.raises(ProtocolError, match="no say"):
        met["north"].check_ballots(request, own, b"q")
