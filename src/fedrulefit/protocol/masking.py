"""A site's side of secure sums: whose keys it believes, among whom it sums, what it opens.

The masks themselves are :mod:`fedrulefit.privacy.masks`. Here is what keeps two sums
from being subtracted:

* Masks are bound to everything that the run has handed out so far (its *transcript*:
  sites, keys, grid, rules) and to the question. A coordinator that tells sites
  different things gets numbers that do not cancel.
* With ``dropouts = "wait"`` all sums over one data set are among one and the same set
  of sites, across runs; and each site signs that its policy says so, since another that
  sums without this one gives this one's sums away.
* With ``dropouts = "continue"`` a site opens at most one attempt of a round: handing
  out a new set of sites makes it forget what it masked and did not open; and it does
  not answer the very same question among two sets that differ by fewer than
  `min_sites` sites.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgpack

from fedrulefit.core.arrays import Ints
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.identity import Identity, Trust
from fedrulefit.privacy.masks import (
    SEED_BYTES,
    Masks,
    RingOverflowError,
    check_ring,
    keystream,
    make_secret,
    public_key,
)
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import (
    backing_parts,
    ballot_claim,
    pack_votes,
    unpack_votes,
)
from fedrulefit.protocol.store import Memory

UNLISTED_SITES: Final = 32
"""Most sites of a masked sum where the kit does not list the consortium's."""


@dataclass(frozen=True)
class Subject:
    """What masks are bound to, and what a question is about.

    Parameters
    ----------
    step : int
    question : bytes
        Hash of what is asked.
    transcript : bytes
        Hash of all that the run has handed out.
    about : bytes
        Hash of grid and rules alone: what the question is about, in any run.
    """

    step: int
    question: bytes
    transcript: bytes
    about: bytes


class Masking:
    """Keys, masks and openings of one site in one run.

    Parameters
    ----------
    name : str
    policy : Policy
    identity, trust : Identity and Trust, optional
        Without them there are no secure sums.
    roster : collection of str, optional
        The consortium's sites; any, if not given.
    memory, shared : Memory
        Of the run, and of the data set across runs.
    charter : bytes
        Hash of the charter that the site accepted; all sites of a sum have the same.
    """

    def __init__(
        self,
        name: str,
        policy: Policy,
        identity: Identity | None,
        trust: Trust | None,
        roster: Collection[str] | None,
        memory: Memory,
        shared: Memory,
        charter: bytes = b"",
    ) -> None:
        self._name = name
        self._policy = policy
        self._identity = identity
        self._trust = trust
        self._roster = roster
        self._memory = memory
        self._shared = shared
        self._charter = charter
        self._sites: tuple[str, ...] = ()
        self._dropouts: Literal["wait", "continue"] = "wait"
        self._masks: Masks | None = None
        self._last: tuple[int, bytes, bytes] | None = None
        self._opened = False
        self._certificates: dict[str, bytes] = {}
        self.secret = b""
        self.drawn = b""

    @property
    def active(self) -> bool:
        """Whether sums are masked."""
        return self._masks is not None

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of the sums; empty without masks."""
        return () if self._masks is None else self._masks.sites

    @property
    def opens(self) -> bool:
        """Whether sums have to be opened."""
        return self._dropouts == "continue"

    @property
    def given_up(self) -> bool:
        """Whether the last sum was given up, because sites were lost."""
        return self.opens and self.active and self._last is None and not self._opened

    # --- Who takes part ---------------------------------------------------------------------

    def check_join(self, request: m.JoinRequest) -> None:
        """Refuse a run whose sums the policy would refuse later."""
        policy, sites = self._policy, request.sites
        if policy.secure_sums and not request.secure:
            raise ProtocolError("the site's policy lets sums out only under masks", "secure-sum")
        if len(set(sites)) < len(sites) or self._name not in sites:
            raise ProtocolError("the run's sites are not one each, this one among them")
        strangers = [] if self._roster is None else sorted(set(sites) - set(self._roster))
        if strangers:
            raise ProtocolError("the run names sites that are not of this consortium", "identity")
        if policy.peers and set(sites) - {self._name, *policy.peers}:
            raise ProtocolError("the site's policy does not name all other sites", "policy")
        if request.dropouts == "continue" and policy.dropouts == "wait":
            raise ProtocolError(
                "the site's policy does not let a run go on without a lost site", "policy"
            )
        if request.secure:
            if self._identity is None or self._trust is None:
                raise ProtocolError(
                    "the site has no identity for secure sums: start it with its kit", "identity"
                )
            self._check_number(sites)
            self._check_set(sites)

    def join(self, request: m.JoinRequest) -> None:
        """Note the run's sites, and whether it may go on without one."""
        self._sites, self._dropouts = request.sites, request.dropouts

    def take_secret(self) -> None:
        """Have the secret of this run that was kept."""
        self.secret = self._memory.get("secret") or b""

    def show_key(self, header: m.Header) -> m.KeyReply:
        """Draw a secret for the run, which is to be kept, and sign its public half."""
        if self._identity is None:
            raise ProtocolError("the site has no identity for secure sums", "identity")
        self.drawn = make_secret()
        public, dropouts = public_key(self.drawn), self._policy.dropouts
        claim = _key_claim(header, self._name, public, dropouts, self._charter)
        signature = self._identity.sign(claim)
        return m.KeyReply(header, public, self._identity.certificate, dropouts, signature)

    def check_peers(self, request: m.PeersRequest) -> None:
        """Refuse keys that are not of this run's sites, signed by them."""
        if self._trust is None or not self.secret:
            raise ProtocolError("keys of other sites came before this site's own", "order")
        publics = {peer.site: peer.public for peer in request.peers}
        if len(publics) != len(request.peers) or publics.get(self._name) != public_key(self.secret):
            raise ProtocolError("the keys handed out are not one per site, this one's included")
        if not set(publics) <= set(self._sites):
            raise ProtocolError("the keys handed out are not of this run's sites", "set-changed")
        if self._masks is None and set(publics) != set(self._sites) and not self.opens:
            raise ProtocolError("the keys handed out are not of all sites", "set-changed")
        if self._masks is not None:
            if not self.opens:
                raise ProtocolError("this run does not go on without a lost site", "set-changed")
            if not set(publics) < set(self._masks.sites):
                raise ProtocolError("sites may leave a run, but not join it late", "set-changed")
        self._check_number(publics)
        self._check_set(publics)
        if self._policy.dropouts == "wait" and any(p.dropouts != "wait" for p in request.peers):
            raise ProtocolError(
                "a site of this run has a policy that would let sums go on without this one",
                "policy",
            )
        for peer in request.peers:
            claim = _key_claim(request.header, peer.site, peer.public, peer.dropouts, self._charter)
            self._trust.verify(peer.site, peer.certificate, claim, peer.signature)
        self._make_masks(request)

    def meet(self, request: m.PeersRequest) -> None:
        """Agree on masks with the sites whose keys were checked."""
        self._masks = self._make_masks(request)
        kept = msgpack.unpackb(self._memory.get("certificates") or b"\x80")
        self._certificates = {**kept, **{peer.site: peer.certificate for peer in request.peers}}
        self.give_up()

    def give_up(self) -> None:
        """Forget the last sum: what was not opened, never will be."""
        self._last = None

    def _make_masks(self, request: m.PeersRequest) -> Masks:
        publics = {peer.site: peer.public for peer in request.peers}
        context = "\0".join([request.header.study, request.header.run]).encode()
        try:
            return Masks(self._name, self.secret, publics, context)
        except ValueError:
            raise ProtocolError("a key handed out is not a key", "identity") from None

    def pack_certificates(self, request: m.PeersRequest) -> bytes:
        """Return the certificates to keep: also of sites that are lost, which signed before."""
        now = {peer.site: peer.certificate for peer in request.peers}
        packed: bytes = msgpack.packb({**self._certificates, **now})
        return packed

    def _check_number(self, sites: Collection[str]) -> None:
        fewest = self._policy.min_sites
        if len(sites) < fewest:
            raise ProtocolError(
                f"a sum over {len(sites)} sites; the site's policy asks for at least {fewest}",
                "too-few-sites",
            )

    def _check_set(self, sites: Iterable[str]) -> None:
        """Refuse another set of sites than earlier sums over the same patients had.

        Sums over different sets can be subtracted, and of the sets that this site is
        not in it knows nothing: so there is one.
        """
        if self._policy.dropouts == "continue":
            return
        if any(set(earlier) != set(sites) for earlier in self._sets("sets")):
            raise ProtocolError(
                "earlier sums over these patients were among other sites, and the difference "
                "could be of one site alone: use the same sites, or change the policy's 'dropouts'",
                "set-changed",
            )

    def most_sites(self, request: m.JoinRequest) -> int:
        """Return how many sites a sum can have: all of the consortium, whoever takes part.

        Without a list of them, a fixed number: no coordinator can move it under masks.

        Raises
        ------
        ProtocolError
            If the run has more sites than that.
        """
        if self._roster is not None:
            return len(self._roster)
        if not request.secure:
            return len(request.sites)
        if len(request.sites) > UNLISTED_SITES:
            raise ProtocolError(
                f"a run of {len(request.sites)} sites: without a list of the consortium's sites a "
                f"sum is over at most {UNLISTED_SITES}",
                "policy",
            )
        return UNLISTED_SITES

    # --- What others say they sent ------------------------------------------------------------

    def sign(self, claim: bytes) -> bytes:
        """Sign what this site says of its own messages; nothing without an identity."""
        return b"" if self._identity is None else self._identity.sign(claim)

    def check_signed(self, site: str, claim: bytes, signature: bytes) -> None:
        """Refuse what a site of this run did not sign."""
        if self._trust is None or site not in self._certificates:
            raise ProtocolError("something handed out is of no site of this run", "identity")
        self._trust.verify(site, self._certificates[site], claim, signature)

    def check_senders(self, names: Iterable[str]) -> None:
        """Refuse a list that is not one per site of the run, those that were lost aside."""
        listed = list(names)
        told, now, run = set(listed), set(self.sites), set(self._certificates)
        if len(told) < len(listed) or not now <= told <= run:
            raise ProtocolError("what is handed out is not of every site of this run", "identity")

    # --- Sums -------------------------------------------------------------------------------

    def mask_sum(self, numbers: Ints, subject: Subject) -> Ints:
        """Mask a sum, shape (n,)."""
        try:
            check_ring(numbers, len(self.sites))
        except RingOverflowError as error:
            raise ProtocolError(f"site {self._name!r}: {error}", "overflow") from None
        return self._mask(numbers, subject)

    def mask_votes(self, reply: m.VoteReply, subject: Subject) -> m.VoteReply:
        """Mask votes, and sign them."""
        header = reply.header
        votes = pack_votes(self._mask_ballot(unpack_votes(reply.votes), subject))
        claim = ballot_claim(header, self._name, votes, subject.question, self._own_seed())
        return m.VoteReply(header, votes, self.sign(claim))

    def check_ballots(
        self, request: m.TermsRequest | m.VariantsRequest, own: bytes, question: bytes
    ) -> None:
        """Refuse votes that are not those of every site, on these rules, signed and opened.

        Parameters
        ----------
        own : bytes
            What this site voted.
        question : bytes
            Hash of the rules that were voted on.
        """
        ballots = {ballot.site: ballot for ballot in request.ballots}
        if len(ballots) < len(request.ballots) or set(ballots) != set(self.sites):
            raise ProtocolError("the votes handed out are not one per site", "votes")
        if ballots[self._name].votes != own:
            raise ProtocolError("the votes handed out are not those that this site sent", "votes")
        for site, ballot in ballots.items():
            opened = len(ballot.seed) == (SEED_BYTES if self.opens else 0)
            if len(ballot.votes) != len(own) or not opened:
                what = "the votes handed out are of other rules, or still masked"
                raise ProtocolError(what, "votes")
            claim = ballot_claim(request.header, site, ballot.votes, question, ballot.seed)
            self.check_signed(site, claim, ballot.signature)
            self._check_backing(ballot)

    def _check_backing(self, ballot: m.Ballot) -> None:
        """Refuse a ballot that backs rules in the sum over all sites but its own group."""
        ring = unpack_votes(ballot.votes)
        if ballot.seed:
            ring = unpack_votes(pack_votes(ring - keystream(ballot.seed, len(ring))))
        parts = backing_parts(len(ring), self.sites)
        if any(ring[part].any() for part, group in parts if ballot.site in group):
            raise ProtocolError("a ballot backs rules where its site has no say", "votes")

    def _mask_ballot(self, ring: Ints, subject: Subject) -> Ints:
        """Mask votes among all sites, and what backs them among those outside each group."""
        parts = backing_parts(len(ring), self.sites)
        masked = ring.copy()
        front = slice(0, parts[0][0].start)
        masked[front] = self._mask(ring[front], subject)
        if self._masks is None or self._last is None:
            raise ProtocolError("there are no masks", "order")
        bound = self._last[1]
        for part, group in parts:
            if self._name not in group:
                others = self._masks.among(set(self.sites) - set(group))
                masked[part] = others.mask(
                    ring[part], step=subject.step, question=bound, self_mask=False
                )
        if self.opens:
            own = keystream(self._own_seed(), len(ring))
            masked[front.stop :] += own[front.stop :]
        return masked

    def _mask(self, ring: Ints, subject: Subject) -> Ints:
        """Mask integers, among the one set of sites and for this question alone."""
        if self._masks is None:
            raise ProtocolError("there are no masks", "order")
        asked = hashlib.sha256(subject.about + subject.question).digest()
        self._check_set(self._masks.sites)
        self._check_question(asked)
        bound = hashlib.sha256(subject.transcript + subject.question).digest()
        step = subject.step
        numbers = self._masks.mask(ring, step=step, question=bound, self_mask=self.opens)
        self._last, self._opened = (step, bound, asked), False
        return numbers

    def _own_seed(self) -> bytes:
        """Return the seed of the own mask on what was masked last; nothing where it has none."""
        if self._masks is None or self._last is None or not self.opens:
            return b""
        step, bound, _ = self._last
        return self._masks.self_seed(step=step, question=bound)

    def open(self, request: m.OpenRequest) -> m.OpenReply:
        """Give away the seed of the own mask: for the last sum, if it still stands."""
        if self._masks is None or not self.opens:
            raise ProtocolError("this run's sums need no opening", "order")
        if self._last is None or self._last[0] != request.answered:
            raise ProtocolError("that sum was given up, or is not the last", "not-open")
        self._check_question(self._last[2])
        return m.OpenReply(request.header, self._own_seed())

    def note(self, *, opening: bool) -> None:
        """Remember, across runs, among which sites a sum can now be read."""
        self._opened = self._opened or opening
        if self._masks is None or self._last is None or self.opens != opening:
            return
        sites = list(self._masks.sites)
        entries: dict[str, bytes | None] = {}
        for key in ("sets", _question_key(self._last[2])):
            earlier = self._sets(key)
            if sites not in earlier:
                entries[key] = msgpack.packb([*earlier, sites])
        if entries:
            self._shared.put(entries)

    @property
    def place(self) -> Any:
        """What a restarted site must know of the last sum: what it was, and whether it is open."""
        return self._last, self._opened

    @place.setter
    def place(self, kept: Any) -> None:
        last, self._opened = kept
        self._last = None if last is None else (last[0], last[1], last[2])

    def _check_question(self, asked: bytes) -> None:
        """Refuse to answer one question among two sets of sites that are too near."""
        mine = set(self.sites)
        for earlier in self._sets(_question_key(asked)):
            if 0 < len(set(earlier) ^ mine) < self._policy.min_sites:
                raise ProtocolError(
                    "the site has answered this very question among other sites; the difference "
                    "of the two sums would tell too much",
                    "same-question",
                )

    def _sets(self, key: str) -> list[list[str]]:
        sets: list[list[str]] = msgpack.unpackb(self._shared.get(key) or b"\x90")
        return sets


def _question_key(asked: bytes) -> str:
    return f"question/{asked.hex()}"


def _key_claim(header: m.Header, site: str, public: bytes, dropouts: str, charter: bytes) -> bytes:
    """What a site signs: this key is mine, for this run, under this policy and charter."""
    parts = ["fedrulefit key 2", header.study, header.run, site, public, dropouts, charter]
    claim: bytes = msgpack.packb(parts)
    return claim
