"""What site and coordinator say until rules and terms stand: no sum over patients yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fedrulefit.core.arrays import Ints
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Rule
from fedrulefit.protocol.messages.base import Reply, Request, Turn, released, stated
from fedrulefit.study import Settings, Study

__all__ = [
    "Ballot",
    "GridReply",
    "GridRequest",
    "Histogram",
    "JoinReply",
    "JoinRequest",
    "KeyReply",
    "KeyRequest",
    "Peer",
    "PeersReply",
    "PeersRequest",
    "RulesReply",
    "RulesRequest",
    "Sender",
    "TermsReply",
    "TermsRequest",
    "VariantVoteRequest",
    "VariantsRequest",
    "VoteReply",
    "VoteRequest",
]


@dataclass(frozen=True, eq=False)
class JoinRequest(Request):
    """Ask a site to take part in a run of the study that the header names.

    `sites` are all that take part; `secure` says whether sums are masked, and
    `dropouts` whether the run may go on without a site that is lost.
    """

    turn = Turn.JOIN
    hands_out = True

    sites: tuple[str, ...]
    secure: bool
    dropouts: Literal["wait", "continue"]


@dataclass(frozen=True, eq=False)
class JoinReply(Reply):
    """The site holds the same study and takes part."""

    software: str = stated("version of the site's software")
    min_votes: int = stated(
        "the site's policy: sites that must have enough patients in a rule; 0 for no vote"
    )
    round_counts: int = stated("the site's policy: published counts are multiples of it")
    min_published: int = stated("the site's policy: smallest pooled count that is published")


@dataclass(frozen=True, eq=False)
class KeyRequest(Request):
    """Ask for a key for secure sums."""

    turn = Turn.KEYS
    hands_out = True


@dataclass(frozen=True, eq=False)
class KeyReply(Reply):
    """The site's key for this run, signed by its identity."""

    public: bytes = stated("X25519 key made for this run")
    certificate: bytes = stated("the site's certificate")
    dropouts: Literal["wait", "continue"] = stated(
        "whether the site's policy lets sums go on without a lost site"
    )
    signature: bytes = stated("its signature of key and policy")


@dataclass(frozen=True)
class Peer:
    """A site's key and what it says of its policy, as it sent them."""

    site: str
    public: bytes
    certificate: bytes
    dropouts: Literal["wait", "continue"]
    signature: bytes


@dataclass(frozen=True, eq=False)
class PeersRequest(Request):
    """Hand out the keys of all sites in the sums that follow."""

    turn = Turn.PEERS
    hands_out = True

    peers: tuple[Peer, ...]


@dataclass(frozen=True, eq=False)
class PeersReply(Reply):
    """The keys are verified: sums leave masked from now on."""

    n_sites: int = stated("sites in the sums")


@dataclass(frozen=True, eq=False)
class GridRequest(Request):
    """Ask for histograms over the study's public bins."""

    turn = Turn.GRID
    release = "histograms"

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what is told without noise."""
        del study
        return "the histograms"


@dataclass(frozen=True, eq=False)
class GridReply(Reply):
    """Histograms over the study's public bins."""

    mechanism: str = stated("name of the noise")
    private: bool = stated("whether that noise guarantees the ε")
    counts: Ints = released(
        "patients per bin, plus noise", shape="n_cells", mechanism="discrete Laplace"
    )
    signature: bytes = stated("its signature of the counts, for the other sites")


@dataclass(frozen=True, eq=False)
class Histogram:
    """A site's noisy counts, as it signed them."""

    site: str
    counts: Ints
    signature: bytes


@dataclass(frozen=True, eq=False)
class RulesRequest(Request):
    """Hand out the shared grid; ask for rules grown on it.

    With secure sums, `histograms` are what it was made from: every site makes it again.
    """

    turn = Turn.RULES
    release = "rules"
    hands_out = True

    grid: Grid
    histograms: tuple[Histogram, ...] = ()

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what rules tell."""
        settings = study.settings
        folds = f", and without each of {settings.folds} folds" * (settings.penalty == "cv")
        return f"the rules grown on the site's patients{folds}"

    def without_evidence(self) -> RulesRequest:
        """Return it without the signed histograms."""
        return replace(self, histograms=())


@dataclass(frozen=True, eq=False)
class RulesReply(Reply):
    """The site's distinct rules in canonical order: no values, gains or counts."""

    rules: tuple[Rule, ...] = released(
        "conditions on shared cut-offs, from trees grown on the site's patients", shape="n_rules"
    )
    fold_rules: tuple[tuple[Rule, ...], ...] = released(
        "the same from trees grown without each fold, if λ is chosen by cross-validation",
        shape="n_folds or 0",
    )
    signature: bytes = stated("its signature of how many different rules it sent")


@dataclass(frozen=True)
class Sender:
    """How many different rules a site sent, as it signed that."""

    site: str
    n_rules: int
    signature: bytes


@dataclass(frozen=True, eq=False)
class VoteRequest(Request):
    """Hand out the merged rules; ask whether the site has enough patients in each.

    `senders` say how many rules they sent: there are no more than these, and the single
    cut-offs and levels that need no data.
    """

    turn = Turn.VOTES
    release = "votes"
    hands_out = True
    masked = True

    rules: tuple[Rule, ...]
    senders: tuple[Sender, ...]

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what votes tell."""
        del study
        return "how many sites have enough patients in each candidate rule"

    def without_evidence(self) -> VoteRequest:
        """Return it without what the senders signed."""
        return replace(self, senders=())


@dataclass(frozen=True, eq=False)
class VoteReply(Reply):
    """The site's votes under masks: of all sites together, only how many said yes."""

    votes: bytes = released(
        "1 where the rule passes this site's gate, else 0; 1 if the site deals patients into "
        "folds, 1 if it holds some out; for each group of sites, random numbers in place of the "
        "ones; as 32-bit integers plus masks",
        shape="n_rules·(1 + n_groups) + 2",
    )
    signature: bytes = stated("its signature of the masked votes")


@dataclass(frozen=True)
class Ballot:
    """A site's masked votes, as it signed them; `seed` opens its own mask, where it has one."""

    site: str
    votes: bytes
    signature: bytes
    seed: bytes


@dataclass(frozen=True, eq=False)
class TermsRequest(Request):
    """Hand out the rules of the fit, from which the site builds its design.

    With secure sums, `ballots` show that enough sites voted for each: every site counts again.
    """

    turn = Turn.TERMS
    hands_out = True

    rules: tuple[Rule, ...]
    ballots: tuple[Ballot, ...] = ()

    def without_evidence(self) -> TermsRequest:
        """Return it without the signed ballots."""
        return replace(self, ballots=())


@dataclass(frozen=True, eq=False)
class VariantVoteRequest(Request):
    """Ask whether the site has enough patients in variants of some rules, and between them.

    `bases` are places of rules of the fit. What is voted on follows from them
    (:func:`~fedrulefit.core.variants.list_asked`).
    """

    turn = Turn.VARIANT_VOTES
    release = "votes"
    hands_out = True
    masked = True

    bases: Ints

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what these votes tell."""
        del study
        return "how many sites have enough patients in variants of rules, and between them"

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study's terms are pruned."""
        return settings.prunes


@dataclass(frozen=True, eq=False)
class VariantsRequest(Request):
    """Ask the site to add the variants of some rules to its design.

    With secure sums, only those with `min_votes` by the `ballots`: every site counts.
    """

    turn = Turn.VARIANTS
    hands_out = True

    bases: Ints
    min_votes: int
    ballots: tuple[Ballot, ...] = ()

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study's terms are pruned."""
        return settings.prunes

    def without_evidence(self) -> VariantsRequest:
        """Return it without the signed ballots."""
        return replace(self, ballots=())


@dataclass(frozen=True, eq=False)
class TermsReply(Reply):
    """The design stands."""

    n_terms: int = stated("1 + rules + linear terms")
