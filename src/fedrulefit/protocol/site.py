"""A hospital: holds its patients, answers requests, keeps its ledger.

In: a request. Out: a reply, already written into the site's ledger. A request
of another study, another run, at the wrong time or against the site's policy
gets a :class:`Refusal`.

Every request goes the same way (:meth:`Site.respond`):

1. Is it for this site, study and run? Was it answered before (then the very same
   bytes leave again), and is it its turn?
2. Does the policy allow this kind of release, the budget pay for it?
3. Compute the answer; in review mode, a person accepts it.
4. Sums are masked. The answer is kept, so that it can be repeated after a crash,
   entered in the ledger, and only then leaves.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, cast, get_args

import msgpack
import numpy as np
from scipy.special import expit

from fedrulefit import __version__
from fedrulefit.core.arrays import Codes, Floats, Ints
from fedrulefit.core.boosting import extract_rules, grow_trees
from fedrulefit.core.certificate import sum_conjugate, sum_slopes
from fedrulefit.core.design import Design, build_design
from fedrulefit.core.fedda import client_update, soft_threshold
from fedrulefit.core.fixed import (
    LARGEST_MEAN,
    LARGEST_PREDICTOR,
    LARGEST_WEIGHT,
    LOSS_BITS,
    Bounds,
    add_units,
    capacity,
    from_units,
    largest_predictor,
)
from fedrulefit.core.grid import (
    Grid,
    count_histograms,
    encode,
    linear_values,
    sum_spreads,
    term_bounds,
)
from fedrulefit.core.importance import sum_terms
from fedrulefit.core.losses import patient_losses
from fedrulefit.core.newton import active_room, sum_curvature
from fedrulefit.core.rules import Rule, check_rules, merge_rules
from fedrulefit.core.scores import Measures, ScoreSums, coarsen, count_scores, measure, round_to
from fedrulefit.errors import DataError, ProtocolError
from fedrulefit.model import describe_rule
from fedrulefit.privacy.gate import Gated, gate_rules, have_enough
from fedrulefit.privacy.identity import Identity, Trust
from fedrulefit.privacy.ledger import EXACT, Ledger, Release
from fedrulefit.privacy.mechanisms import Noise, OpenDPLaplace
from fedrulefit.privacy.policy import KINDS, MIN_COUNT, OPEN, Policy, ReleaseKind
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import (
    VOTE_BYTES,
    WEIGHT_UNIT,
    count_rules,
    count_votes,
    fill_ballot,
    follows_from,
    free_rules,
    histogram_claim,
    is_public,
    pack_votes,
    sender_claim,
)
from fedrulefit.protocol.dealing import Dealer, site_rng
from fedrulefit.protocol.histograms import Histograms
from fedrulefit.protocol.seals import Seals
from fedrulefit.protocol.solver_settings import make_factors, make_schedule, most_rules
from fedrulefit.protocol.store import Memory, Transient
from fedrulefit.protocol.sums import curvature_lengths, question_digest, size
from fedrulefit.protocol.tables import check_changes, note_table
from fedrulefit.protocol.wire import MAX_BYTES, digest, from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

log = logging.getLogger(__name__)

SITE_WEIGHT: Final = 1024.0
"""What a site counts where all sites count equally; only ratios matter."""

Approver = Callable[[str, Sequence[str]], bool | None]
"""Told a kind of release and what is about to leave, in words; None: not decided yet."""

_ORDER: Final[dict[type, int]] = {
    m.JoinRequest: 0,
    m.KeyRequest: 1,
    m.PeersRequest: 2,
    m.GridRequest: 3,
    m.SpreadsRequest: 4,
    m.RulesRequest: 5,
    m.VoteRequest: 6,
    m.TermsRequest: 7,
    m.DualRequest: 8,
    m.CurvatureRequest: 8,
    m.SlopesRequest: 9,
    m.SummaryRequest: 10,
    m.EvaluateRequest: 11,
    m.OfferRequest: 12,
    m.ResultsRequest: 13,
}
"""Requests come in this order; only fitting rounds repeat."""

_FITTING: Final = _ORDER[m.DualRequest]

_STAGES: Final = (
    m.JoinRequest,
    m.KeyRequest,
    m.PeersRequest,
    m.RulesRequest,
    m.VoteRequest,
    m.TermsRequest,
)
"""Requests that change what the site knows; a restarted site reads them again."""

_SUMS: Final = (*get_args(m.SumRequest), m.VoteRequest)
"""What is answered under masks, where there are some."""

RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""What a run may be called."""

MAX_RULES: Final = 100_000
"""Most rules that a site builds its design from."""

RECENT: Final = 4
"""Replies to sums that are kept, to be repeated."""

_KINDS: Final[dict[type, ReleaseKind]] = {
    m.GridRequest: "histograms",
    m.SpreadsRequest: "spreads",
    m.RulesRequest: "rules",
    m.VoteRequest: "votes",
    m.DualRequest: "dual",
    m.CurvatureRequest: "curvature",
    m.SlopesRequest: "slopes",
    m.SummaryRequest: "summary",
    m.EvaluateRequest: "evaluation",
    m.OfferRequest: "site-results",
    m.ResultsRequest: "site-results",
}


@dataclasses.dataclass(frozen=True, eq=False)
class _Known:
    """What the run has handed out, and what the site made of it.

    Parameters
    ----------
    grid : Grid or None
    codes : (n_rows, n_features) uint8 or None
        The site's patients on the grid.
    counts : (n_cells,) int64 or None
        The histograms of all sites, summed; known where they were handed out.
    candidates : tuple of Rule
        What was voted on.
    rules, design, factors
        Of the fit.
    """

    grid: Grid | None = None
    codes: Codes | None = None
    counts: Ints | None = None
    candidates: tuple[Rule, ...] = ()
    rules: tuple[Rule, ...] = ()
    design: Design | None = None
    factors: Floats = dataclasses.field(default_factory=lambda: np.empty(0))


@dataclasses.dataclass(frozen=True, eq=False)
class _Draft:
    """An answer that has not left: nothing of the question has taken effect yet."""

    asked: str
    reply: m.Reply
    known: _Known


class Site:
    """One hospital in one run of a study.

    Parameters
    ----------
    name : str
    table : Table
        The site's patients, checked against the study.
    study : Study
    policy : Policy
        What may leave; :data:`~fedrulefit.privacy.policy.OPEN` by default.
    ledger : Ledger, optional
        Where releases are recorded; in memory by default.
    noise : Noise, optional
        Adds noise to histograms; OpenDP's discrete Laplace by default.
    identity, trust : Identity and Trust, optional
        Who the site is and whom it believes; secure sums need both.
    roster : collection of str, optional
        The consortium's sites; any may take part, if not given.
    approver : callable, optional
        Asks a person, where the policy wants a review.
    memory, shared : Memory, optional
        What a restarted site must remember of the run, and of the data set across
        runs; both forget by default.
    charter : bytes
        Hash of the charter that the site accepted: secure sums are only among sites
        that accepted the same.
    dealing : bytes, optional
        The site's secret, by which patients are dealt into folds and held out; without
        it, they are dealt by the study's seed, which everybody knows.
    n_threads : int
        Threads for growing trees; the result does not depend on it.
    """

    def __init__(
        self,
        name: str,
        table: Table,
        study: Study,
        *,
        policy: Policy = OPEN,
        ledger: Ledger | None = None,
        noise: Noise | None = None,
        identity: Identity | None = None,
        trust: Trust | None = None,
        roster: Collection[str] | None = None,
        approver: Approver | None = None,
        memory: Memory | None = None,
        shared: Memory | None = None,
        charter: bytes = b"",
        dealing: bytes | None = None,
        n_threads: int = 1,
    ) -> None:
        if table.outcome is None:
            raise DataError(f"site {name!r}: a site needs the outcome of its patients")
        if not table.weights.sum() > 0:
            raise DataError(f"site {name!r}: no patient with a weight above 0")
        self.name = name
        self.study = study
        self.policy = policy
        self.ledger = ledger if ledger is not None else Ledger()
        self._table = table
        dealer = Dealer(study, name, dealing, policy.min_count)
        held = dealer.hold_out(table)
        self._held_out = table.take(held)
        learnt = table.take(~held)
        if learnt.outcome is None or not learnt.weights.sum() > 0:
            raise DataError(f"site {name!r}: too few patients to hold some out: lower 'holdout'")
        self._learnt = learnt
        self._values: Floats = learnt.values
        self._outcome: Floats = learnt.outcome
        self._weights: Floats = learnt.weights
        self._noise = noise
        self._approver = approver
        self._memory = memory if memory is not None else Transient()
        self._shared = shared if shared is not None else Transient()
        self._outlived = shared is not None
        self._n_threads = n_threads
        self._lock = threading.Lock()
        self._run: str | None = None
        self._step, self._order, self._n_sums = -1, -1, 0
        self._recent: list[int] = []
        self._draft: _Draft | None = None
        self._seals = Seals(
            name, policy, identity, trust, roster, self._memory, self._shared, charter
        )
        self._handed = (b"", b"")  # hashes: all that was handed out; grid and rules alone
        self._gated: Gated | None = None
        self._known = _Known()
        self._folds = dealer.deal_folds(learnt)
        self._changed = False
        self._remember()

    def handle(self, request: m.Request) -> m.Reply:
        """Answer a request, and record what leaves."""
        return cast(m.Reply, from_bytes(self.answer(to_bytes(request))))

    def answer(self, data: bytes) -> bytes:
        """Answer the bytes of a request; whatever they are, this returns a reply's."""
        try:
            request = read_request(data)
        except ProtocolError as error:
            return to_bytes(m.Refusal(blank_header(self.name), error.code, str(error)))
        return self.respond(request, data)

    def respond(self, request: m.Request, data: bytes) -> bytes:
        """Answer a request that was read from `data`."""
        with self._lock:
            try:
                return self._respond(request, data)
            except ProtocolError as error:
                refusal = m.Refusal(request.header, error.code, str(error))
            except Exception as error:  # whatever it says could hold a patient's value
                kind = type(error).__name__
                log.error("%s failed with %s at %s", type(request).__name__, kind, _where(error))
                reason = f"site {self.name!r} failed with {kind}: see its log"
                refusal = m.Refusal(request.header, "internal", reason)
            if refusal.code != "pending":  # asked again every few seconds
                log.info("refused %s: %s", type(request).__name__, refusal.code)
            return to_bytes(refusal)

    def _respond(self, request: m.Request, received: bytes) -> bytes:
        asked = digest(received)
        self._check_header(request.header)
        repeated = self._recall(request.header.step, asked)
        if repeated is not None:
            return repeated
        self._check_turn(request)
        self._check_policy(request)
        if self._draft is None or self._draft.asked != asked:
            self._check_handed(request)
            self._draft = self._prepare(request, asked)
        draft = self._draft
        self._check_approval(request, draft)
        data = to_bytes(self._seal(request, draft.reply))
        releases = self.ledger.date(self._releases(request, draft.reply, digest(data)))
        self._keep(request, received, asked, data, releases)
        self._known, self._draft = draft.known, None
        self._enter(request)
        if releases:
            self.ledger.append(*releases)
        return data

    def _prepare(self, request: m.Request, asked: str) -> _Draft:
        known = self._take_in(request)
        return _Draft(asked, self._answer(request, known), known)

    def _seal(self, request: m.Request, reply: m.Reply) -> m.Reply:
        """Mask a sum or votes, where the run has secure sums."""
        if self._seals.active and isinstance(reply, m.Sum | m.VoteReply):
            question = question_digest(_without_evidence(request))
            return self._seals.seal(reply, question, *self._handed)
        return reply

    # --- 1. Is it for us, and its turn? ---------------------------------------------------

    def _check_header(self, header: m.Header) -> None:
        if header.site != self.name:
            raise ProtocolError(f"a message for another site reached {self.name!r}", "site")
        if header.study != self.study.digest:
            raise ProtocolError(
                f"site {self.name!r} holds another study: all sites need the same study file",
                "study",
            )
        if self._run is not None and header.run != self._run:
            raise ProtocolError(f"site {self.name!r} takes part in another run", "run")
        if not RUN_NAME.fullmatch(header.run):
            raise ProtocolError("a run's name has up to 100 letters, digits, '-', '_', '.'", "run")
        if self._changed:
            raise ProtocolError(
                "the site's data changed during the run: bring the same file back, or start anew",
                "data-changed",
            )

    def _recall(self, step: int, asked: str) -> bytes | None:
        """Return the reply to a request that was answered before.

        A step is answered once: the same request gets the same bytes, another one
        under the same number is refused.
        """
        if step > self._step:
            return None
        kept = self._memory.get(f"reply/{step}")
        if kept is None:
            raise ProtocolError(f"step {step} is over, the run is at {self._step}", "stale")
        was, reply, rows = msgpack.unpackb(kept)
        if was != asked:
            raise ProtocolError(f"step {step} was answered to another question", "conflict")
        if rows:
            # The process may have died after keeping the reply and before recording all of it.
            missing = rows[self.ledger.count(rows[0]["digest"]) :]
            self.ledger.append(*map(Release.from_facts, missing))
        return cast(bytes, reply)

    def _check_turn(self, request: m.Request) -> None:
        if self._run is None and not isinstance(request, m.JoinRequest):
            raise ProtocolError(f"site {self.name!r} has not joined a run yet", "order")
        if isinstance(request, m.OpenRequest):
            return
        order = _ORDER[type(request)]
        fitting = order == self._order == _FITTING
        leaving = isinstance(request, m.PeersRequest) and self._seals.active
        given_up = isinstance(request, _SUMS) and order == self._order and self._seals.given_up
        if not (order > self._order or fitting or leaving or given_up):
            raise ProtocolError(f"{type(request).__name__} came out of turn", "order")

    # --- 2. Does the policy allow it? ---------------------------------------------------

    def _check_policy(self, request: m.Request) -> None:
        if isinstance(request, m.JoinRequest):
            self._check_join(request)
        if isinstance(request, m.PeersRequest):
            self._seals.check_peers(request)
            if self._seals.active and self.study.settings.per_site:
                raise ProtocolError(
                    "a study that tells results of single sites goes on without none of them",
                    "set-changed",
                )
        other = m.CurvatureRequest if self.study.settings.solver == "fedda" else m.DualRequest
        if isinstance(request, other):
            raise ProtocolError("a round of a solver that is not the study's", "order")
        if isinstance(request, m.SpreadsRequest) and self.study.settings.spreads != "exact":
            raise ProtocolError("the study asks for no exact spreads", "order")
        kind = self._kind(type(request))
        if kind is None:
            return
        self._check_allowed(kind)
        if isinstance(request, m.GridRequest):
            self._check_budget()
        early = self._order < _ORDER[m.GridRequest]
        if isinstance(request, m.RulesRequest) and early and self.policy.min_count > 0:
            raise ProtocolError("rules are asked for before the histograms", "order")
        if isinstance(request, _SUMS):
            if self.policy.secure_sums and not self._seals.active:
                raise ProtocolError(
                    "the site's policy lets sums out only under masks", "secure-sum"
                )
            if self._n_sums >= self.policy.max_sums:
                most = self.policy.max_sums
                raise ProtocolError(f"the site's policy allows {most} sums in a run", "policy")

    def _check_handed(self, request: m.Request) -> None:
        """Refuse a grid or rules that do not follow from what the sites sent."""
        match request:
            case m.RulesRequest():
                self._check_grid(request)
            case m.VoteRequest():
                self._check_candidates(request)
            case m.TermsRequest():
                self._check_elected(request)

    def _check_grid(self, request: m.RulesRequest) -> None:
        """Refuse cut-offs that are not those of all sites' histograms."""
        try:
            self.study.check_grid(request.grid)
            if self.policy.min_count > 0:
                self.study.check_public(request.grid)
        except ValueError as error:
            raise ProtocolError(str(error), "grid") from None
        if not self._seals.active or self._order < _ORDER[m.GridRequest]:
            return
        self._seals.check_senders(histogram.site for histogram in request.histograms)
        own = self._memory.get("histogram")
        for part in request.histograms:
            claim = histogram_claim(request.header, part.site, part.counts)
            self._seals.check_signed(part.site, claim, part.signature)
            if part.site == self.name and part.counts.astype("<i8").tobytes() != own:
                raise ProtocolError("the histogram handed out is not the one sent", "grid")
        counts = _add_histograms(request, self.study)
        if counts is None or not follows_from(request.grid, self.study, counts):
            raise ProtocolError("the grid is not that of the sites' histograms", "grid")

    def _check_candidates(self, request: m.VoteRequest) -> None:
        """Refuse more rules than the sites sent, and those that need no data."""
        if not self._seals.active:
            raise ProtocolError("votes leave under masks only", "secure-sum")
        self._check_rules(request.rules)
        self._seals.check_senders(sender.site for sender in request.senders)
        for sender in request.senders:
            claim = sender_claim(request.header, sender.site, sender.n_rules)
            self._seals.check_signed(sender.site, claim, sender.signature)
        grid, cap = self._ready_grid(), most_rules(self.study.settings)
        free = free_rules(self.study, grid, self._known.counts)
        most = sum(min(sender.n_rules, cap) for sender in request.senders)
        if (~is_public(request.rules, free, grid)).sum() > most:
            raise ProtocolError("more rules are handed out than the sites sent", "votes")

    def _check_elected(self, request: m.TermsRequest) -> None:
        """Refuse rules for which too few sites have voted, and folds of too few sites."""
        self._check_rules(request.rules)
        if not self._votes_count:
            return
        candidates, own = self._known.candidates, self._memory.get("votes")
        if own is None or not set(request.rules) <= set(candidates):
            raise ProtocolError("rules are handed out that nobody voted on", "votes")
        question = question_digest(m.VoteRequest(request.header, candidates, ()))
        self._seals.check_ballots(request, own, question)
        tally = count_votes(request.ballots, len(candidates))
        if max(tally.rules.tolist(), default=0) > len(self._seals.sites):
            raise ProtocolError("the votes handed out do not add up to votes", "votes")
        elected = dict(zip(candidates, tally.elect(self.policy.min_votes).tolist(), strict=True))
        if not all(elected[rule] for rule in request.rules):
            raise ProtocolError(
                "rules are handed out in which too few sites have enough patients: the site's "
                f"policy asks for {self.policy.min_votes}",
                "votes",
            )
        settings = self.study.settings
        if settings.penalty == "cv":
            # What the folds tell together is of those who deal; the rest is of those who do not.
            advice = "deal their patients into folds: lower 'folds', or give 'penalty' a number"
            self._check_dealing(tally.folds, advice)
            self._check_dealing(len(self._seals.sites) - tally.folds, f"do not {advice}")
        if settings.holdout > 0:
            advice = "hold patients out: raise 'holdout', or set it to 0"
            self._check_dealing(tally.holdout, advice)

    def _check_dealing(self, n_sites: int, what: str) -> None:
        """Refuse sums over part of the sites that are too few to hide one."""
        if 0 < n_sites < self.policy.min_sites:
            raise ProtocolError(f"only {n_sites} of the sites {what}", "too-few-sites")

    @property
    def _votes_count(self) -> bool:
        """Whether rules need votes."""
        return self._seals.active and self.policy.min_votes > 0

    def _check_rules(self, rules: tuple[Rule, ...]) -> None:
        grid = self._ready_grid()
        if len(rules) > MAX_RULES:
            raise ProtocolError(f"{len(rules)} rules, of at most {MAX_RULES}")
        try:
            check_rules(rules, grid)
        except ValueError as error:
            raise ProtocolError(str(error)) from None

    def _ready_grid(self) -> Grid:
        if self._known.grid is None:
            raise ProtocolError("rules came before the grid", "order")
        return self._known.grid

    def _check_join(self, request: m.JoinRequest) -> None:
        """Refuse at once a run that the policy would end later."""
        settings = self.study.settings
        self._seals.check_join(request)
        self._check_runs(request.header.run)
        self._check_capacity(request)
        self._check_folds()
        check_changes(
            self._learnt, self._held_out, self.study, self._shared, self.policy.min_changed
        )
        rounds = m.DualRequest if settings.solver == "fedda" else m.CurvatureRequest
        needed = [m.GridRequest, m.RulesRequest, rounds, m.SlopesRequest, m.SummaryRequest]
        if settings.spreads == "exact":
            needed.append(m.SpreadsRequest)
        if settings.holdout > 0:
            needed.append(m.EvaluateRequest)
        if settings.per_site:
            needed.append(m.ResultsRequest)
        if request.secure and self.policy.min_votes > 0:
            needed.append(m.VoteRequest)
        others = 5 + settings.per_site  # spreads, vote, slopes, summary, evaluation, offer
        if settings.solver == "fedda" and settings.rounds + others > self.policy.max_sums:
            most = self.policy.max_sums
            raise ProtocolError(f"the site's policy allows {most} sums in a run", "policy")
        for step in needed:
            kind = self._kind(step)
            if kind is not None:
                self._check_allowed(kind)
        self._check_budget()

    def _check_folds(self) -> None:
        settings, most = self.study.settings, self.policy.max_folds
        if settings.folds > most:
            raise ProtocolError(
                f"the study has {settings.folds} folds; the site's policy allows {most}", "policy"
            )

    def _check_capacity(self, request: m.JoinRequest) -> None:
        """Refuse sums that this table could outgrow, or that could be taken apart."""
        if request.secure and not self._by_patients:
            raise ProtocolError(
                "weighting = 'sites' divides each site's sums by its own size, from which masked "
                "totals can be taken apart: use weighting = 'patients'",
                "policy",
            )
        n_sites = self._seals.most_sites(request)
        most = capacity(n_sites)
        if max(self._table.n_rows, self._table.weights.sum()) > most:
            raise ProtocolError(
                f"too many patients for a sum over {n_sites} sites: each may have {most:,.0f}, or "
                "weights that add up to so much",
                "policy",
            )
        if self.study.most_weight > LARGEST_WEIGHT:
            raise ProtocolError(
                f"a patient's weight may be up to {LARGEST_WEIGHT:,.0f}: scale the weights down",
                "policy",
            )

    def _check_runs(self, run: str) -> None:
        """Count the runs over this data set."""
        most = self.policy.max_runs
        earlier = msgpack.unpackb(self._shared.get("runs") or b"\x90")
        if [self.study.digest, run] not in earlier and len(earlier) >= most:
            raise ProtocolError(
                f"the site's policy allows {most} runs over its data set, and they are used up",
                "policy",
            )

    def _check_allowed(self, kind: ReleaseKind) -> None:
        if kind not in self.policy.allow:
            raise ProtocolError(f"the site's policy does not let out {KINDS[kind]}", "policy")

    def _kind(self, request: type[m.Request]) -> ReleaseKind | None:
        """Which kind of release a request asks for; None if nothing of patients."""
        kind = _KINDS.get(request)
        if kind == "histograms" and not self._noise_is_private:
            return "exact-histograms"
        return kind

    @property
    def _noise_is_private(self) -> bool:
        private = self._noise is None or self._noise.private
        return self.study.epsilon_per_histogram is not None and private

    def _check_budget(self) -> None:
        """Refuse histograms that the site's budget does not pay for."""
        cost = self._histograms.cost(self.ledger) if self._noise_is_private else 0.0
        if cost == 0:
            return  # no bound to keep, or the same noise as in an earlier run
        for cap, spent, what in (
            (self.policy.epsilon_study, self.ledger.spent(self.study.name), "this study"),
            (self.policy.epsilon_dataset, self.ledger.epsilon, "the data set"),
        ):
            if cap is not None and spent + cost > cap * (1 + 1e-9):
                raise ProtocolError(
                    f"the site's privacy budget for {what} is ε = {cap:g}; {spent:g} of it is "
                    f"spent, and these histograms cost {cost:g}",
                    "budget",
                )

    # --- 3. The answer --------------------------------------------------------------------

    def _enter(self, request: m.Request) -> None:
        """Take part, once the answer is kept: nothing of patients leaves in answer to these."""
        match request:
            case m.JoinRequest():
                self._run = request.header.run
                self._seals.join(request)
            case m.KeyRequest():
                self._seals.take_secret()
            case m.PeersRequest():
                self._seals.meet(request)

    def _take_in(self, request: m.Request) -> _Known:
        """Return what the site knows once a checked request has been answered."""
        match request:
            case m.RulesRequest():
                counts = _add_histograms(request, self.study)
                return _Known(request.grid, encode(self._values, request.grid), counts)
            case m.VoteRequest():
                return dataclasses.replace(self._known, candidates=request.rules)
            case m.TermsRequest():
                return self._build(request.rules)
        return self._known

    def _build(self, rules: tuple[Rule, ...]) -> _Known:
        """Build the design of the fit."""
        grid, codes = self._ready_grid(), self._known.codes
        if codes is None:
            raise ProtocolError("rules came before the grid", "order")
        n_linear = len(grid.linear) if self.study.settings.linear_terms else 0
        linear = linear_values(self._values, grid)[:, :n_linear]
        design = build_design(codes, rules, linear)
        factors = make_factors(self.study.settings, rules, design.n_terms)
        return dataclasses.replace(self._known, rules=rules, design=design, factors=factors)

    def _answer(self, request: m.Request, known: _Known) -> m.Reply:
        match request:
            case m.JoinRequest(header):
                policy = self.policy
                published = policy.round_counts, policy.min_published
                software = f"fedrulefit {__version__}"
                return m.JoinReply(header, software, policy.min_votes, *published)
            case m.KeyRequest():
                return self._seals.show_key(request.header)
            case m.PeersRequest(header):
                return m.PeersReply(header, len(request.peers))
            case m.OpenRequest():
                return self._seals.open(request)
            case m.GridRequest():
                return self._count(request)
            case m.RulesRequest():
                return self._grow(request, known)
            case m.VoteRequest():
                return self._vote(request, known)
            case m.TermsRequest(header):
                return m.TermsReply(header, 0 if known.design is None else known.design.n_terms)
            case m.ResultsRequest():
                return self._tell_results(request)
            case _:
                return self._add_up(request)

    def _add_up(self, request: m.SumRequest) -> m.Sum:
        match request:
            case m.SpreadsRequest(header):
                sums = sum_spreads(self._values, self._weights, self.study.bins)
                return m.SpreadsReply(header, sums.known, sums.sums, sums.squares)
            case m.DualRequest():
                return self._descend(request)
            case m.CurvatureRequest():
                return self._curve(request)
            case m.SlopesRequest():
                return self._slope(request)
            case m.SummaryRequest():
                return self._summarise(request)
            case m.EvaluateRequest():
                return self._evaluate(request)
            case m.OfferRequest():
                return self._offer(request)

    def _count(self, request: m.GridRequest) -> m.GridReply:
        """Paper 2.2.1, step 1."""
        counts, mechanism = self._histograms.release(), self._histograms.mechanism
        signature = self._seals.sign(histogram_claim(request.header, self.name, counts))
        return m.GridReply(request.header, mechanism, self._noise_is_private, counts, signature)

    @cached_property
    def _histograms(self) -> Histograms:
        units, most = self._units()
        return Histograms(
            self.study,
            count_histograms(self._values, units, self.study.bins),
            sensitivity=most,
            noise=self._noise if self._noise is not None else OpenDPLaplace(),
            memory=self._shared,
        )

    def _units(self) -> tuple[Ints, int]:
        """What each patient counts, and the most that one patient can count."""
        weight = self.study.weight
        if weight is None:
            return np.ones(len(self._weights), dtype=np.int64), 1
        units = np.rint(self._weights * WEIGHT_UNIT).astype(np.int64)
        return units, int(np.ceil(weight.max * WEIGHT_UNIT))

    def _grow(self, request: m.RulesRequest, known: _Known) -> m.RulesReply:
        """Paper 2.2.2: trees on the site's own patients; what the gate lets out."""
        settings, grid, codes = self.study.settings, request.grid, known.codes
        if codes is None:
            raise ProtocolError("rules came before the grid", "order")
        folds = range(-1, settings.folds if settings.penalty == "cv" else 0)
        grown = [self._grow_rules(codes, grid, fold=fold) for fold in folds]
        self._gated = gate_rules(
            set().union(*grown),
            codes,
            self._outcome,
            grid,
            min_count=self.policy.min_count,
            max_rules_sent=self.policy.max_rules_sent,
            weights=self._weights,
        )
        passed = set(self._gated.rules)
        sent = [tuple(rule for rule in rules if rule in passed) for rules in grown]
        reply = m.RulesReply(request.header, sent[0], tuple(sent[1:]), b"")
        claim = sender_claim(request.header, self.name, count_rules(reply))
        return dataclasses.replace(reply, signature=self._seals.sign(claim))

    def _vote(self, request: m.VoteRequest, known: _Known) -> m.VoteReply:
        """Say which rules have enough patients here; not yet under masks."""
        if known.codes is None:
            raise ProtocolError("rules came before the grid", "order")
        enough = have_enough(
            request.rules,
            known.codes,
            self._outcome,
            self._weights,
            min_count=self.policy.min_count,
        )
        deals = [bool((self._folds >= 0).any()), len(self._held_out.weights) > 0]
        votes = fill_ballot(enough, deals, self.name, self._seals.sites)
        return m.VoteReply(request.header, pack_votes(votes), b"")

    def _grow_rules(self, codes: Codes, grid: Grid, *, fold: int) -> tuple[Rule, ...]:
        """Grow trees without the patients of one fold (-1: with all)."""
        settings = self.study.settings
        trees = grow_trees(
            codes,
            self._outcome,
            np.where(self._folds == fold, 0.0, self._weights),
            grid,
            n_trees=settings.n_trees,
            mean_leaves=settings.mean_leaves,
            learning_rate=settings.learning_rate,
            subsample=settings.subsample,
            min_leaf=settings.min_leaf,
            rng=site_rng(settings.seed, self.name, purpose=fold + 2),
            n_threads=self._n_threads,
        )
        return merge_rules([extract_rules(trees, grid)], grid, drop_complements=False)

    def _descend(self, request: m.DualRequest) -> m.DualReply:
        """Paper 2.2.3, algorithm 3."""
        design = self._ready_design()
        _check_length(request.dual, design.n_terms, "dual variables")
        schedule = make_schedule(self.study.settings)
        if not 0 <= request.round < schedule.rounds:
            raise ProtocolError(f"round {request.round} of {schedule.rounds}")
        start = soft_threshold(request.dual, schedule.threshold(request.round, 0), self._factors)
        self._check_size(np.arange(design.n_terms), start, most=LARGEST_MEAN)
        # A local step moves no dual variable further than η_c times the term's size.
        reach = schedule.client_step * schedule.local_steps * float(self._bounds.max())
        if not reach <= LARGEST_MEAN:
            raise ProtocolError("a round could lead further than a sum can bear", "overflow")
        local = client_update(
            design,
            self._outcome,
            self._weights,
            self._factors,
            request.dual,
            request.round,
            schedule,
        )
        weight = float(self._weights.sum()) if self._by_patients else SITE_WEIGHT
        return m.DualReply(request.header, weight * local.increment, weight * local.loss, weight)

    def _curve(self, request: m.CurvatureRequest) -> m.CurvatureReply:
        """A round of the exact solver, for every fold asked for."""
        design, settings = self._ready_design(), self.study.settings
        n_folds = settings.folds if settings.penalty == "cv" else 0
        if not 1 <= len(request.queries) <= n_folds + 1:
            raise ProtocolError(f"expected 1 to {n_folds + 1} points")
        if len({query.fold for query in request.queries}) < len(request.queries):
            raise ProtocolError("two points of one fold")
        if 8 * size(curvature_lengths(request.queries, design.n_terms)) > MAX_BYTES:
            raise ProtocolError("the answer would be over the limit: ask for fewer terms at once")
        unpenalised = design.n_terms if settings.penalty == 0 else int((self._factors == 0).sum())
        found = []
        for query in request.queries:
            _check_terms(query.active, design.n_terms)
            must = len(query.terms) + unpenalised
            most = active_room(must, settings.max_active)
            if len(query.active) > most:
                raise ProtocolError(f"more active terms than the study allows, which is {most}")
            _check_coefs(query.terms, query.start, design.n_terms)
            _check_length(query.end, len(query.terms), "coefficients")
            if not -1 <= query.fold < n_folds:
                raise ProtocolError(f"there is no fold {query.fold}")
            self._check_size(query.terms, query.start)
            self._check_size(query.terms, query.end)
        bounds = Bounds(self._bounds, self._largest_weight)
        for query in request.queries:
            found.append(
                sum_curvature(
                    design, self._outcome, self._scaled_weights, self._folds, query, bounds
                )
            )
        return m.CurvatureReply(
            request.header,
            weights=np.array([sums.weight for sums in found]),
            held_weights=np.array([sums.held_weight for sums in found]),
            losses=np.concatenate([sums.losses for sums in found]),
            held_losses=np.array([sums.held_loss for sums in found]),
            gradients=np.concatenate([sums.gradient for sums in found]),
            hessians=np.concatenate([sums.hessian for sums in found]),
        )

    def _slope(self, request: m.SlopesRequest) -> m.SlopesReply:
        design, terms = self._ready_design(), request.terms
        _check_coefs(terms, request.coef, design.n_terms)
        self._check_size(terms, request.coef)
        predictor = design.take(terms).predictor(request.coef)
        weights, bounds = self._scaled_weights, self._bounds
        slopes = sum_slopes(design, self._outcome, weights, predictor, bounds)
        return m.SlopesReply(request.header, slopes.cases, slopes.others)

    def _summarise(self, request: m.SummaryRequest) -> m.SummaryReply:
        """Paper 2.3, for the terms of the final model only."""
        design, terms = self._ready_design(), request.terms
        _check_coefs(terms, request.coef, design.n_terms)
        _check_length(request.scales, 2, "scales")
        if not ((request.scales >= 0) & (request.scales <= 1)).all():
            raise ProtocolError("the scales of the certificate must lie in [0, 1]")
        self._check_size(terms, request.coef)
        final = design.take(terms)
        sums = sum_terms(final, self._outcome, self._weights, self._bounds[terms])
        predictor, weights = final.predictor(request.coef), self._scaled_weights
        cases, others = request.scales.tolist()
        return m.SummaryReply(
            request.header,
            total=sums.total,
            events=sums.events,
            inside=sums.inside,
            events_inside=sums.events_inside,
            sums=sums.sums,
            squares=sums.squares,
            loss=add_units(patient_losses(predictor, self._outcome, weights), LOSS_BITS),
            conjugate=sum_conjugate(self._outcome, weights, predictor, (cases, others)),
        )

    def _evaluate(self, request: m.EvaluateRequest) -> m.EvaluateReply:
        """Judge the finished model on the patients that were held out."""
        sums = self._count_scores(request.terms, request.coef)
        return m.EvaluateReply(
            request.header, sums.cases, sums.others, sums.chances, sums.squares, sums.loss
        )

    def _count_scores(self, terms: Ints, coef: Floats) -> ScoreSums:
        """Return the score sums of a model over the patients that were held out."""
        n_terms, test = self._ready_design().n_terms, self._held_out
        _check_coefs(terms, coef, n_terms)
        self._check_size(terms, coef)
        if self._grid is None or test.outcome is None or self.study.settings.holdout == 0:
            raise ProtocolError("the study holds no patients out", "order")
        n_rules = len(self._rules)
        linear = linear_values(test.values, self._grid)[:, terms[terms > n_rules] - n_rules - 1]
        design = build_design(encode(test.values, self._grid), self._rules_of(terms), linear)
        # In units, so that the sums are exact: they do not depend on how sites share patients.
        weights = np.rint(test.weights * WEIGHT_UNIT) / WEIGHT_UNIT
        return count_scores(expit(design.predictor(coef)), test.outcome, weights)

    def _rules_of(self, terms: Ints) -> list[Rule]:
        """Return the rules among a model's terms."""
        return [self._rules[k - 1] for k in terms.tolist() if 1 <= k <= len(self._rules)]

    def _offer(self, request: m.OfferRequest) -> m.OfferReply:
        """Say which of the site's own results rest on too few patients."""
        design, settings = self._ready_design(), self.study.settings
        _check_terms(request.terms, design.n_terms)
        if not settings.per_site:
            raise ProtocolError("the study asks for no results of single sites", "order")
        rules = design.take(request.terms[request.terms <= len(self._rules)])
        counted = (self._weights > 0).astype(np.float64)
        patients = rules.transpose_dot(counted)
        cases = rules.transpose_dot(counted * self._outcome)
        # Every cell of the table rule × outcome.
        inside, outside = patients[1:], patients[0] - patients[1:]
        sick, healthy = cases[1:], inside - cases[1:]
        missed, well = cases[0] - cases[1:], outside - (cases[0] - cases[1:])
        smallest = np.minimum.reduce([sick, healthy, missed, well])
        test = self._held_out
        return m.OfferReply(
            request.header,
            (smallest < self._min_count).astype(np.float64),
            float(not self._has_enough(self._outcome, self._weights)),
            float(settings.holdout == 0 or not self._has_enough(test.outcome, test.weights)),
        )

    @property
    def _min_count(self) -> int:
        """Smallest count behind the site's own results, which stand in the model file."""
        return max(self.policy.min_count, MIN_COUNT)

    def _has_enough(self, outcome: Floats | None, weights: Floats) -> bool:
        """Whether there are k patients with and k without the outcome, who count as k."""
        if outcome is None or weights.sum() < self._min_count * self.study.most_weight:
            return False
        known = outcome[weights > 0]
        return bool(min((known == 1).sum(), (known == 0).sum()) >= self._min_count)

    def _tell_results(self, request: m.ResultsRequest) -> m.ResultsReply:
        """Tell the site's own results: those asked for, if it does not keep them back."""
        terms, rules, base = request.terms, request.rules, self._min_count * self.study.most_weight
        _check_coefs(terms, request.coef, self._ready_design().n_terms)
        if self._memory.get("offered") != terms.tobytes():
            raise ProtocolError("results of another model than the one offered for", "order")
        offer = self._offer(m.OfferRequest(request.header, terms))
        places = (rules >= 0) & (rules < len(offer.rules))
        if not (places.all() and (np.diff(rules) > 0).all()):
            raise ProtocolError("rules must be increasing positions among the model's")
        kept_back = (
            self._memory.get("kept-back") is not None
            or offer.rules[rules].any()
            or (request.totals and offer.totals)
            or (request.evaluation and offer.evaluation)
        )
        if kept_back:
            # That much is told of the patients, and no more: every further request is refused.
            self._memory.put({"kept-back": b"yes"})
            raise ProtocolError("the site keeps these results of its own back", "policy")
        own = self._ready_design().take(terms)
        sums = sum_terms(own, self._outcome, self._weights, self._bounds[terms])
        measures: Floats = np.empty(0)
        if request.evaluation:
            scores = coarsen(self._count_scores(terms, request.coef), base)
            if scores is None:
                raise ProtocolError("the site keeps these results of its own back", "policy")
            measures = np.array(list(vars(measure(scores).rounded(base)).values()))
        known = np.flatnonzero(np.isfinite(measures))
        totals = [sums.total, sums.events] if request.totals else []
        return m.ResultsReply(
            request.header,
            round_to(from_units(np.array(totals, dtype=np.int64)), base),
            round_to(from_units(sums.inside[rules]), base),
            round_to(from_units(sums.events_inside[rules]), base),
            known,
            measures[known],
        )

    @property
    def finished(self) -> bool:
        """Whether the run has asked for everything that it can."""
        settings = self.study.settings
        last = m.EvaluateRequest if settings.holdout > 0 else m.SummaryRequest
        return self._order == _ORDER[m.ResultsRequest if settings.per_site else last]

    @property
    def _by_patients(self) -> bool:
        return self.study.settings.weighting == "patients"

    @property
    def _scaled_weights(self) -> Floats:
        """Patients' weights in the objective: all equal, or all sites equal."""
        if self._by_patients:
            return self._weights
        equal: Floats = SITE_WEIGHT * self._weights / self._weights.sum()
        return equal

    @property
    def _largest_weight(self) -> float:
        """Most that a patient counts in the objective, on public grounds."""
        return self.study.most_weight if self._by_patients else SITE_WEIGHT

    @property
    def _bounds(self) -> Floats:
        """The largest size of each term, on public grounds, shape (n_terms,)."""
        if self._grid is None:
            raise ProtocolError("a fitting round came before the grid", "order")
        return term_bounds(self._grid, len(self._rules), self._ready_design().n_terms)

    def _check_size(self, terms: Ints, coef: Floats, *, most: float = LARGEST_PREDICTOR) -> None:
        """Refuse coefficients with which a patient's numbers could outgrow a sum."""
        largest = largest_predictor(coef, self._bounds[terms])
        if not largest <= most:
            raise ProtocolError(
                f"the coefficients are too large: Σ |β|·(largest size of the term) must stay "
                f"below {most:g}",
                "overflow",
            )

    @property
    def _grid(self) -> Grid | None:
        return self._known.grid

    @property
    def _rules(self) -> tuple[Rule, ...]:
        return self._known.rules

    @property
    def _factors(self) -> Floats:
        return self._known.factors

    def _ready_design(self) -> Design:
        if self._known.design is None:
            raise ProtocolError("a fitting round came before the rules", "order")
        return self._known.design

    def _check_approval(self, request: m.Request, draft: _Draft) -> None:
        """In review mode, ask a person once for each wording of a release in the run."""
        kind = self._kind(type(request))
        if self.policy.approval == "auto" or kind is None:
            return
        words = self._review(kind, draft)
        seen = f"approved/{hashlib.sha256(chr(0).join(words).encode()).hexdigest()}"
        if self._memory.get(seen) is not None:
            return
        decision = self._approver(kind, words) if self._approver else False
        if decision is None:
            raise ProtocolError("a person has not decided yet whether this may leave", "pending")
        if not decision:
            raise ProtocolError("a person declined this release", "declined")
        self._memory.put({seen: b"yes"})

    def _review(self, kind: ReleaseKind, draft: _Draft) -> list[str]:
        """Say in words what is about to leave."""
        what, reply = KINDS[kind], draft.reply
        if isinstance(reply, m.OfferReply):
            what = "for each rule of the model, and for the totals, whether this site has too few "
            what += "patients to tell results of its own (1) or enough (0)"
        lines = [f"Study {self.study.name!r}, run {self._run}.", f"About to leave: {what}."]
        match reply:
            case m.GridReply():
                names = ", ".join(self.study.names)
                lines.append(f"{len(reply.counts)} noisy counts ({reply.mechanism}) of: {names}.")
                if reply.private:
                    lines.append(self._histograms.words(self.ledger))
            case m.RulesReply():
                lines += self._review_rules(reply, draft.known.grid)
            case m.ResultsReply():
                lines += self._review_results(reply)
            case _:
                under = "without masks: the coordinator sees this site's own numbers"
                if self._seals.active and isinstance(reply, m.Sum | m.VoteReply):
                    under = f"inside secure sums over {', '.join(self._seals.sites)}"
                lines.append(f"They leave {under}.")
                if kind in ("dual", "curvature"):
                    lines.append(f"Up to {self.policy.max_sums} rounds.")
                    lines.append(f"They are of {len(self._rules)} rules.")
                if isinstance(reply, m.VoteReply):
                    lines.append(f"There are {len(draft.known.candidates)} candidate rules.")
        return lines

    def _review_rules(self, reply: m.RulesReply, grid: Grid | None) -> list[str]:
        rules = sorted(set(reply.rules).union(*reply.fold_rules), key=lambda r: (len(r), r))
        gated = self._gated or Gated(())
        return [
            f"{len(rules)} rules; kept back: {gated.too_few} with too few patients, "
            f"{gated.too_near} too near to another, {gated.too_many} over the limit.",
            *(f"  {describe_rule(rule, grid, self.study)}" for rule in rules if grid),
        ]

    def _review_results(self, reply: m.ResultsReply) -> list[str]:
        told = [f"patients, and with the outcome: {_list(reply.totals)}"] * (len(reply.totals) > 0)
        if len(reply.inside):
            told.append(f"inside {len(reply.inside)} rules: {_list(reply.inside)}")
            told.append(f"with the outcome inside them: {_list(reply.events_inside)}")
        if len(reply.measures):
            names = [field.name for field in dataclasses.fields(Measures)]
            pairs = zip(reply.known.tolist(), reply.measures.tolist(), strict=True)
            told.append("predictions: " + ", ".join(f"{names[k]} = {x:g}" for k, x in pairs))
        return [
            f"They leave without masks, and stand under the name {self.name!r} in the model file "
            "and the report.",
            *(f"  {line}" for line in told or ["nothing: some site has too few patients"]),
        ]

    # --- 4. Masked, kept, recorded --------------------------------------------------------

    def _keep(
        self,
        request: m.Request,
        received: bytes,
        asked: str,
        data: bytes,
        releases: list[Release],
    ) -> None:
        """Keep the reply, and what a restarted site must know."""
        step = request.header.step
        reply = [asked, data, [release.facts() for release in releases]]
        entries: dict[str, bytes | None] = {
            f"reply/{step}": msgpack.packb(reply),
            f"asked/{step}": asked.encode(),
        }
        if isinstance(request, _STAGES):
            entries[f"stage/{type(request).__name__}"] = received
        if isinstance(request, m.JoinRequest):
            entries["data"] = self._data_digest()
            self._note_run(request.header.run)
            if self._outlived:  # else no later run reads it, and marking patients takes time
                note_table(self._learnt, self._held_out, self.study, self._shared)
        if isinstance(request, m.KeyRequest):
            entries["secret"] = self._seals.drawn
        if isinstance(request, m.PeersRequest):
            entries["certificates"] = self._seals.pack_certificates(request)
        if isinstance(request, m.OfferRequest):
            entries["offered"] = request.terms.tobytes()
        if isinstance(request, m.GridRequest | m.VoteRequest):
            entries |= _own(from_bytes(data))
        order = max(self._order, _ORDER.get(type(request), -1))
        n_sums, recent = self._n_sums, self._recent
        hashes = self._hashes(request) if isinstance(request, _STAGES) else self._handed
        if isinstance(request, (*_SUMS, m.OpenRequest)):
            n_sums += isinstance(request, _SUMS)
            self._seals.note(opening=isinstance(request, m.OpenRequest))
            # Sums are many and large: only the last few can still be asked for again.
            recent = [*recent, step]
            entries |= {f"reply/{old}": None for old in recent[:-RECENT]}
            recent = recent[-RECENT:]
        place = msgpack.packb((step, order, n_sums, recent, hashes, self._seals.place))
        self._memory.put({**entries, "place": place})
        # Only now: had the disk been full, the site would still be where it was.
        self._step, self._order, self._n_sums, self._recent = step, order, n_sums, recent
        self._handed = hashes

    def _hashes(self, request: m.Request) -> tuple[bytes, bytes]:
        """Add what is handed out to the transcript, and to the subject of questions."""
        transcript, subject = self._handed
        transcript = hashlib.sha256(transcript + question_digest(request)).digest()
        if isinstance(request, (m.RulesRequest, m.TermsRequest)):
            about = question_digest(_without_evidence(request))
            subject = hashlib.sha256(subject + about).digest()
        return transcript, subject

    def _note_run(self, run: str) -> None:
        earlier = msgpack.unpackb(self._shared.get("runs") or b"\x90")
        this = [self.study.digest, run]  # one name may stand for runs of several studies
        if this not in earlier:
            self._shared.put({"runs": msgpack.packb([*earlier, this])})

    def _remember(self) -> None:
        """Be again where the run was when the process died."""
        place = self._memory.get("place")
        if place is None:
            return
        for stage in _STAGES:
            kept = self._memory.get(f"stage/{stage.__name__}")
            if kept is not None:
                request = read_request(kept)
                self._enter(request)
                self._known = self._take_in(request)
        self._step, self._order, self._n_sums, self._recent, handed, sealed = msgpack.unpackb(place)
        self._handed = (handed[0], handed[1])
        self._seals.place = sealed
        peers = self._memory.get("stage/PeersRequest")
        if peers is not None and read_request(peers).header.step == self._step:
            self._seals.give_up()  # the place was kept before the new set took effect
        self._changed = self._memory.get("data") != self._data_digest()

    def _data_digest(self) -> bytes:
        """Hash the patients, to notice a table that changed during a run."""
        return self._table.digest

    def _releases(self, request: m.Request, reply: m.Reply, bytes_digest: str) -> Iterator[Release]:
        """Every patient-derived field of a reply, as the ledger tells it."""
        common: dict[str, Any] = {
            "message": type(reply).__name__,
            "digest": bytes_digest,
            "study": self.study.name,
            "run": request.header.run,
            "step": request.header.step,
            "round": _round_of(request),
        }
        if isinstance(reply, m.GridReply):
            run = request.header.run
            for row in self._histograms.book(self.ledger, bytes_digest, run):
                yield Release(**common, **row)
            return
        masked = isinstance(reply, m.Sum | m.VoteReply) and self._seals.active
        sum_of = len(self._seals.sites) if masked else None
        for field in dataclasses.fields(reply):
            if field.metadata.get("mechanism", "no patient data") == "no patient data":
                continue
            value = getattr(reply, field.name)
            if field.name == "fold_rules":
                value = sum(value, ())
            shape: tuple[int, ...] = (len(value),) if isinstance(value, (np.ndarray, tuple)) else ()
            if isinstance(value, bytes):
                shape = (len(value) // VOTE_BYTES,)
            if shape != (0,):
                yield Release(
                    **common,
                    quantity=field.name,
                    shape=shape,
                    mechanism=EXACT,
                    epsilon=None,
                    sum_of=sum_of,
                )


def read_request(data: bytes) -> m.Request:
    """Read the bytes of a request.

    Raises
    ------
    ProtocolError
        With the code ``unreadable``, or ``version`` for another version's.
    """
    message = from_bytes(data)
    if not isinstance(message, m.Request):
        raise ProtocolError("a reply came where a request was due")
    return message


def blank_header(site: str) -> m.Header:
    """Return the header of an answer to something that had none."""
    return m.Header(m.PROTOCOL_VERSION, "", 0, site, "")


def _where(error: BaseException) -> str:
    """Return file and line of an error, without its words."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"


def _add_histograms(request: m.RulesRequest, study: Study) -> Ints | None:
    """Return the summed histograms that a grid was made from; None if they do not fit."""
    length = sum(bins.n_cells for bins in study.bins)
    counts = [part.counts for part in request.histograms if part.counts.shape == (length,)]
    if not counts or len(counts) < len(request.histograms):
        return None
    total: Ints = np.sum(counts, axis=0)
    return total


def _without_evidence(request: m.Request) -> m.Request:
    """Return a request without what sites signed for this run: what it asks, in any run."""
    match request:
        case m.RulesRequest():
            return dataclasses.replace(request, histograms=())
        case m.VoteRequest():
            return dataclasses.replace(request, senders=())
        case m.TermsRequest():
            return dataclasses.replace(request, ballots=())
    return request


def _own(reply: m.Message) -> dict[str, bytes]:
    """Return what the site must know again when its own words are handed out."""
    match reply:
        case m.GridReply():
            return {"histogram": reply.counts.astype("<i8").tobytes()}
        case m.VoteReply():
            return {"votes": reply.votes}
    return {}


def _list(numbers: Floats) -> str:
    return ", ".join(f"{number:g}" for number in numbers.tolist())


def _round_of(request: m.Request) -> int | None:
    """The round that the ledger names; the exact solver's are the steps of the run."""
    match request:
        case m.DualRequest():
            return request.round
        case m.CurvatureRequest():
            return request.header.step
    return None


def _check_coefs(terms: Ints, coef: Floats, n_terms: int) -> None:
    _check_terms(terms, n_terms)
    _check_length(coef, len(terms), "coefficients")


def _check_terms(terms: Ints, n_terms: int) -> None:
    inside = (terms >= 0) & (terms < n_terms)
    if not (len(terms) and terms[0] == 0 and inside.all() and (np.diff(terms) > 0).all()):
        raise ProtocolError("terms must be increasing positions that start with 0")


def _check_length(array: Floats, expected: int, what: str) -> None:
    if array.shape != (expected,):
        raise ProtocolError(f"expected {expected} {what}, got {array.shape}")
