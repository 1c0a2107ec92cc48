"""Everything that can leave a hospital, and everything it can be asked.

One frozen class per arrow, in two closed unions, :data:`Request` and
:data:`Reply`. Each field of a reply states in its metadata what it is (a
formula) and how it is protected; the table in ``docs/protocol.md`` is made from
these classes, and a test keeps it true.

The replies in :data:`Sum` add up over sites: the coordinator needs only their
total. In a run with secure sums they leave as :class:`SealedReply`, from which
nothing but that total can be learnt. Whole numbers among their fields are counted in
units (:mod:`fedrulefit.core.fixed`): each is a sum over patients of a number that
depends on the patient, the question and public facts alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.curvature import Query
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Rule

PROTOCOL_VERSION: Final = 4


def _released(formula: str, *, shape: str = "", mechanism: str = "exact") -> Any:
    """Declare a field that leaves the site."""
    return field(metadata={"formula": formula, "shape": shape, "mechanism": mechanism})


def _summed(formula: str, *, shape: str = "", unit: str = "2⁻³²", most: str = "w") -> Any:
    """Declare a sum over patients in whole units; `most` is the largest of one patient."""
    return field(
        metadata={
            "formula": formula,
            "shape": shape,
            "mechanism": "exact",
            "unit": unit,
            "most": most,
        }
    )


@dataclass(frozen=True)
class Header:
    """On every message: which version, run, step, site and study it belongs to."""

    version: int
    run: str
    step: int
    site: str
    study: str


@dataclass(frozen=True, eq=False)
class JoinRequest:
    """Ask a site to take part in a run of the study that the header names.

    `sites` are all that take part; `secure` says whether sums are masked, and
    `dropouts` whether the run may go on without a site that is lost.
    """

    header: Header
    sites: tuple[str, ...]
    secure: bool
    dropouts: Literal["wait", "continue"]


@dataclass(frozen=True, eq=False)
class JoinReply:
    """The site holds the same study and takes part."""

    header: Header
    software: str = _released("version of the site's software", mechanism="no patient data")
    min_votes: int = _released(
        "the site's policy: sites that must have enough patients in a rule; 0 for no vote",
        mechanism="no patient data",
    )
    round_counts: int = _released(
        "the site's policy: published counts are multiples of it", mechanism="no patient data"
    )
    min_published: int = _released(
        "the site's policy: smallest pooled count that is published", mechanism="no patient data"
    )


@dataclass(frozen=True, eq=False)
class KeyRequest:
    """Ask for a key for secure sums."""

    header: Header


@dataclass(frozen=True, eq=False)
class KeyReply:
    """The site's key for this run, signed by its identity."""

    header: Header
    public: bytes = _released("X25519 key made for this run", mechanism="no patient data")
    certificate: bytes = _released("the site's certificate", mechanism="no patient data")
    dropouts: Literal["wait", "continue"] = _released(
        "whether the site's policy lets sums go on without a lost site",
        mechanism="no patient data",
    )
    signature: bytes = _released("its signature of key and policy", mechanism="no patient data")


@dataclass(frozen=True)
class Peer:
    """A site's key and what it says of its policy, as it sent them."""

    site: str
    public: bytes
    certificate: bytes
    dropouts: Literal["wait", "continue"]
    signature: bytes


@dataclass(frozen=True, eq=False)
class PeersRequest:
    """Hand out the keys of all sites in the sums that follow."""

    header: Header
    peers: tuple[Peer, ...]


@dataclass(frozen=True, eq=False)
class PeersReply:
    """The keys are verified: sums leave masked from now on."""

    header: Header
    n_sites: int = _released("sites in the sums", mechanism="no patient data")


@dataclass(frozen=True, eq=False)
class SealedReply:
    """A sum under masks: random numbers, until all sites' are added up."""

    header: Header
    numbers: Ints = _released(
        "the numbers of the sum in fixed point, plus masks", shape="n", mechanism="secure sum"
    )


@dataclass(frozen=True, eq=False)
class OpenRequest:
    """Ask for the seed of the site's own mask, now that all sites have answered."""

    header: Header
    sealed: int


@dataclass(frozen=True, eq=False)
class OpenReply:
    """The seed of the site's own mask at one step."""

    header: Header
    seed: bytes = _released("seed of the site's own mask", mechanism="no patient data")


@dataclass(frozen=True, eq=False)
class GridRequest:
    """Ask for histograms over the study's public bins."""

    header: Header


@dataclass(frozen=True, eq=False)
class GridReply:
    """Histograms over the study's public bins."""

    header: Header
    mechanism: str = _released("name of the noise", mechanism="no patient data")
    private: bool = _released("whether that noise guarantees the ε", mechanism="no patient data")
    counts: Ints = _released(
        "patients per bin, plus noise", shape="n_cells", mechanism="discrete Laplace"
    )
    signature: bytes = _released(
        "its signature of the counts, for the other sites", mechanism="no patient data"
    )


@dataclass(frozen=True, eq=False)
class Histogram:
    """A site's noisy counts, as it signed them."""

    site: str
    counts: Ints
    signature: bytes


@dataclass(frozen=True, eq=False)
class SpreadsRequest:
    """Ask for exact spreads, where the study wants them."""

    header: Header


@dataclass(frozen=True, eq=False)
class SpreadsReply:
    """What the spread of each covariate is made of: z = (x − c)/h in the public range c ± h."""

    header: Header
    known: Ints = _summed("Σ w over known values", shape="n_features", unit="2⁻⁴⁰")
    sums: Ints = _summed("Σ w·z", shape="n_features", unit="2⁻⁴⁰")
    squares: Ints = _summed("Σ w·z²", shape="n_features", unit="2⁻⁴⁰")


@dataclass(frozen=True, eq=False)
class RulesRequest:
    """Hand out the shared grid; ask for rules grown on it.

    With secure sums, `histograms` are what it was made from: every site makes it again.
    """

    header: Header
    grid: Grid
    histograms: tuple[Histogram, ...] = ()


@dataclass(frozen=True, eq=False)
class RulesReply:
    """The site's distinct rules in canonical order: no values, gains or counts."""

    header: Header
    rules: tuple[Rule, ...] = _released(
        "conditions on shared cut-offs, from trees grown on the site's patients", shape="n_rules"
    )
    fold_rules: tuple[tuple[Rule, ...], ...] = _released(
        "the same from trees grown without each fold, if λ is chosen by cross-validation",
        shape="n_folds or 0",
    )
    signature: bytes = _released(
        "its signature of how many different rules it sent", mechanism="no patient data"
    )


@dataclass(frozen=True)
class Sender:
    """How many different rules a site sent, as it signed that."""

    site: str
    n_rules: int
    signature: bytes


@dataclass(frozen=True, eq=False)
class VoteRequest:
    """Hand out the merged rules; ask whether the site has enough patients in each.

    `senders` say how many rules they sent: there are no more than these, and the single
    cut-offs and levels that need no data.
    """

    header: Header
    rules: tuple[Rule, ...]
    senders: tuple[Sender, ...]


@dataclass(frozen=True, eq=False)
class VoteReply:
    """The site's votes under masks: of all sites together, only how many said yes."""

    header: Header
    votes: bytes = _released(
        "1 where the rule passes this site's gate, else 0; 1 if the site deals patients into "
        "folds, 1 if it holds some out; for each group of sites, random numbers in place of the "
        "ones; as 32-bit integers plus masks",
        shape="n_rules·(1 + n_groups) + 2",
    )
    signature: bytes = _released("its signature of the masked votes", mechanism="no patient data")


@dataclass(frozen=True)
class Ballot:
    """A site's masked votes, as it signed them; `seed` opens its own mask, where it has one."""

    site: str
    votes: bytes
    signature: bytes
    seed: bytes


@dataclass(frozen=True, eq=False)
class TermsRequest:
    """Hand out the rules of the fit, from which the site builds its design.

    With secure sums, `ballots` show that enough sites voted for each: every site counts again.
    """

    header: Header
    rules: tuple[Rule, ...]
    ballots: tuple[Ballot, ...] = ()


@dataclass(frozen=True, eq=False)
class TermsReply:
    """The design stands."""

    header: Header
    n_terms: int = _released("1 + rules + linear terms", mechanism="no patient data")


@dataclass(frozen=True, eq=False)
class DualRequest:
    """Start a round of FedDA from the shared dual variables."""

    header: Header
    round: int
    dual: Floats


@dataclass(frozen=True, eq=False)
class DualReply:
    """The site's round of FedDA; every field is multiplied by its weight."""

    header: Header
    increment: Floats = _released("v_m·(z_G − z_0)", shape="n_terms")
    loss: float = _released("v_m·mean loss at the round's start")
    weight: float = _released("v_m: N_m (sum of patient weights), or 1024 if sites count equally")


@dataclass(frozen=True, eq=False)
class CurvatureRequest:
    """A round of the exact solver: points to evaluate, one per fold on its way."""

    header: Header
    queries: tuple[Query, ...]


@dataclass(frozen=True, eq=False)
class CurvatureReply:
    """Sums at the points asked for, one point after another."""

    header: Header
    weights: Ints = _summed("Σ w of the patients in training", shape="n_queries")
    held_weights: Ints = _summed("Σ w of the held-out patients", shape="n_queries")
    losses: Ints = _summed(
        "Σ w·loss along the way to the point", shape="n_queries·n_steps", unit="2⁻³⁰", most="2049·w"
    )
    held_losses: Ints = _summed(
        "Σ w·loss of the held-out patients", shape="n_queries", unit="2⁻³⁰", most="2049·w"
    )
    gradients: Ints = _summed("Σ w·x·(σ − y)", shape="n_queries·n_terms", unit="2⁻⁴⁰·b", most="b·w")
    hessians: Ints = _summed(
        "Σ w·σ(1 − σ)·x·xᵀ of the active terms, upper triangle",
        shape="Σ n_active·(n_active + 1)/2",
        unit="2⁻⁴⁰·w_max·b_j·b_k",
        most="w·b_j·b_k/4",
    )


@dataclass(frozen=True, eq=False)
class SlopesRequest:
    """Ask for the gradient at the final coefficients, for the certificate."""

    header: Header
    terms: Ints
    coef: Floats


@dataclass(frozen=True, eq=False)
class SlopesReply:
    """Gradients of patients with and without the outcome."""

    header: Header
    cases: Ints = _summed(
        "Σ w·x·(σ − 1) over patients with the outcome", shape="n_terms", unit="2⁻⁴⁰·b", most="b·w"
    )
    others: Ints = _summed(
        "Σ w·x·σ over patients without it", shape="n_terms", unit="2⁻⁴⁰·b", most="b·w"
    )


@dataclass(frozen=True, eq=False)
class SummaryRequest:
    """Ask for the sums behind support, importance, subgroups and the certificate.

    Only terms of the final model are asked for: `terms` are their positions,
    the intercept first, and `coef` their coefficients. `scales` name the dual
    point of the certificate (for cases and others).
    """

    header: Header
    terms: Ints
    coef: Floats
    scales: Floats


@dataclass(frozen=True, eq=False)
class SummaryReply:
    """Sums over the site's patients for the terms of the final model."""

    header: Header
    total: int = _summed("Σ w")
    events: int = _summed("Σ w·y")
    inside: Ints = _summed("Σ w·r_k", shape="n_rules")
    events_inside: Ints = _summed("Σ w·y·r_k", shape="n_rules")
    sums: Ints = _summed("Σ w·x_j/b_j of the linear terms", shape="n_linear")
    squares: Ints = _summed("Σ w·(x_j/b_j)² of the linear terms", shape="n_linear")
    loss: int = _summed("Σ w·loss at the final coefficients", unit="2⁻³⁰", most="2049·w")
    conjugate: int = _summed("Σ w·f* at the dual point of the certificate")


@dataclass(frozen=True, eq=False)
class EvaluateRequest:
    """Ask how well the finished model predicts the patients that were held out.

    `terms` are the positions of its terms, the intercept first, and `coef` their
    coefficients.
    """

    header: Header
    terms: Ints
    coef: Floats


@dataclass(frozen=True, eq=False)
class EvaluateReply:
    """Histograms of the held-out patients' predicted probabilities."""

    header: Header
    cases: Floats = _released("Σ w·y per public bin of the probability", shape="25")
    others: Floats = _released("Σ w·(1 − y) per public bin of the probability", shape="25")
    chances: float = _released("Σ w·p, each p to 1/1024")
    squares: float = _released("Σ w·(p − y)², each square to 1/1024")
    loss: float = _released("Σ w·log-loss, each to 1/1024, p at least 1/1024 from 0 and 1")


@dataclass(frozen=True, eq=False)
class OfferRequest:
    """Ask how many sites would not tell some of their own results.

    Only in studies with ``per_site``. `terms` are the positions of the final model's
    terms, the intercept first.
    """

    header: Header
    terms: Ints


@dataclass(frozen=True, eq=False)
class OfferReply:
    """What the site has too few patients for: 1, and 0 where it has enough.

    Their sum counts the sites that keep something back, not which. The coordinator then asks
    for what no site keeps back: with totals known, what one site hides the others would tell.
    """

    header: Header
    rules: Floats = _released(
        "1 where a rule has too few patients inside or outside, with or without the outcome",
        shape="rules in the model",
    )
    totals: float = _released("1 where too few have, or have not, the outcome")
    evaluation: float = _released("the same among held-out patients")


@dataclass(frozen=True, eq=False)
class ResultsRequest:
    """Ask for a site's own results: those that no site keeps back.

    `terms` and `coef` are the final model; `rules` are positions among its rules.
    """

    header: Header
    terms: Ints
    coef: Floats
    rules: Ints
    totals: bool
    evaluation: bool


@dataclass(frozen=True, eq=False)
class ResultsReply:
    """A site's own results, rounded; each is empty unless asked for."""

    header: Header
    totals: Floats = _released("Σ w and Σ w·y, to multiples of k", shape="2")
    inside: Floats = _released("Σ w·r, to multiples of k", shape="rules asked for")
    events_inside: Floats = _released("Σ w·y·r, to multiples of k", shape="rules asked for")
    known: Ints = _released("which measures of the predictions are defined", shape="≤ 16")
    measures: Floats = _released(
        "held-out patients and outcomes, to multiples of k, and measures of the predictions for "
        "them (AUC, Brier score …), to 3 decimals",
        shape="≤ 16",
    )


@dataclass(frozen=True, eq=False)
class Refusal:
    """The site does not answer; `code` is for machines, `reason` for people."""

    header: Header
    code: str = _released("why not, as a code", mechanism="no patient data")
    reason: str = _released("why not, in words", mechanism="no patient data")


SumRequest = (
    SpreadsRequest
    | DualRequest
    | CurvatureRequest
    | SlopesRequest
    | SummaryRequest
    | EvaluateRequest
    | OfferRequest
)
Request = (
    JoinRequest
    | KeyRequest
    | PeersRequest
    | OpenRequest
    | GridRequest
    | RulesRequest
    | VoteRequest
    | TermsRequest
    | ResultsRequest
    | SumRequest
)
Sum = (
    SpreadsReply
    | DualReply
    | CurvatureReply
    | SlopesReply
    | SummaryReply
    | EvaluateReply
    | OfferReply
)
Reply = (
    JoinReply
    | KeyReply
    | PeersReply
    | SealedReply
    | OpenReply
    | GridReply
    | RulesReply
    | VoteReply
    | TermsReply
    | ResultsReply
    | Sum
    | Refusal
)
Message = Request | Reply
