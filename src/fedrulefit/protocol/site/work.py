"""The answers of a site: everything that is computed from its patients.

In: a request that was let in. Out: the reply, not yet masked or recorded. Answers that add up
say themselves how (:class:`~fedrulefit.protocol.messages.SumRequest`); here are the others:
histograms, rules, votes, and the site's own results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedrulefit import __version__
from fedrulefit.core.arrays import Codes, Floats, Ints
from fedrulefit.core.bins import count_histograms
from fedrulefit.core.boosting import extract_rules, grow_trees
from fedrulefit.core.class_design import columns_of
from fedrulefit.core.fixed import from_units
from fedrulefit.core.grid import Grid
from fedrulefit.core.importance import TermSums, sum_terms
from fedrulefit.core.rounding import round_to
from fedrulefit.core.rules import Rule, merge_rules
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.gate import Gated, gate_rules, have_enough
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import (
    count_rules,
    fill_ballot,
    histogram_claim,
    list_variants,
    pack_votes,
    sender_claim,
    with_variants,
)
from fedrulefit.protocol.dealing import site_rng
from fedrulefit.protocol.histograms import Histograms
from fedrulefit.protocol.masking import Masking
from fedrulefit.protocol.messages.results import offer_results
from fedrulefit.protocol.own_rules import name_own
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import WEIGHT_UNIT
from fedrulefit.protocol.site.handed import add_histograms
from fedrulefit.protocol.store import Memory


@dataclass(frozen=True, eq=False)
class Known:
    """What the run has handed out, and what the site made of it.

    Parameters
    ----------
    patients : Patients
        With the grid and the terms, as far as they are known.
    counts : (n_cells,) int64 or None
        The histograms of all sites, summed; known where they were handed out.
    candidates : tuple of Rule
        What was voted on.
    bases : (n_bases,) int64 or None
        The rules whose variants were voted on.
    model : ShareModelRequest or None
        The finished model, where it was handed out.
    """

    patients: Patients
    counts: Ints | None = None
    candidates: tuple[Rule, ...] = ()
    bases: Ints | None = None
    model: m.ShareModelRequest | None = None

    def take_in(self, request: m.Request) -> Known:
        """Return what the site knows once a checked request has been answered."""
        patients = self.patients
        public = patients.public
        match request:
            case m.JoinRequest():
                joined = public.with_sites(len(request.sites))
                return replace(self, patients=replace(patients, public=joined))
            case m.RulesRequest():
                on_grid = patients.on_grid(public.with_grid(request.grid))
                return Known(on_grid, add_histograms(request, public.study))
            case m.VoteRequest():
                return replace(self, candidates=request.rules)
            case m.TermsRequest():
                return replace(self, patients=patients.with_terms(public.with_rules(request.rules)))
            case m.VariantVoteRequest():
                asked = list_variants(public, request.bases)
                return replace(self, candidates=asked, bases=request.bases)
            case m.VariantsRequest():
                return replace(self, patients=patients.with_terms(with_variants(request, public)))
            case m.ShareDispersionRequest():
                shared = public.with_dispersion(request.dispersion)
                return replace(self, patients=replace(patients, public=shared))
            case m.ShareModelRequest():
                return replace(self, model=request)
        return self


class Work:
    """Computes one site's answers in a run.

    Parameters
    ----------
    name : str
    policy : Policy
    masking : Masking
        Signs what other sites must believe.
    noise : Noise
        Of the histograms.
    memory, shared : Memory
        Of the run, and of the data set across runs.
    n_threads : int
        Of the trees.
    """

    def __init__(
        self,
        name: str,
        policy: Policy,
        masking: Masking,
        patients: Patients,
        *,
        noise: Noise,
        memory: Memory,
        shared: Memory,
        n_threads: int,
    ) -> None:
        self._name = name
        self._policy = policy
        self._masking = masking
        self._patients = patients
        self._noise = noise
        self._memory = memory
        self._shared = shared
        self._n_threads = n_threads
        self.gated = Gated(())

    def answer(self, request: m.Request, known: Known) -> m.Reply:
        """Return the reply; sums and votes not yet under masks."""
        patients = known.patients
        match request:
            case m.SumRequest():
                return self._add_up(request, patients)
            case m.JoinRequest(header):
                policy = self._policy
                published = policy.round_counts, policy.min_published
                software = f"fedrulefit {__version__}"
                return m.JoinReply(header, software, policy.min_votes, *published)
            case m.KeyRequest(header):
                return self._masking.show_key(header)
            case m.PeersRequest(header):
                return m.PeersReply(header, len(request.peers))
            case m.OpenRequest():
                return self._masking.open(request)
            case m.GridRequest(header):
                return self._count(header)
            case m.RulesRequest():
                return self._grow(request, patients)
            case m.VoteRequest(header):
                return self._vote(header, request.rules, patients)
            case m.VariantVoteRequest(header):
                return self._vote(header, known.candidates, patients)
            case m.TermsRequest(header) | m.VariantsRequest(header):
                return m.TermsReply(header, patients.design.n_terms)
            case m.ShareDispersionRequest() | m.ShareModelRequest():
                return _take(request)
            case m.ResultsRequest():
                return self._tell_results(request, patients)
        raise ProtocolError(f"no answer to a {type(request).__name__}")

    def _add_up(self, request: m.SumRequest, patients: Patients) -> m.SumReply:
        """Check a question on public grounds, and only then touch the patients."""
        request.check(patients.public)
        try:
            units = request.add_up(patients)
        except OverflowError:
            raise ProtocolError(
                f"site {self._name!r}: a number is too large for a sum", "overflow"
            ) from None
        return m.SumReply(request.header, False, np.concatenate(units))

    # --- Histograms -------------------------------------------------------------------------

    @property
    def private(self) -> bool:
        """Whether the noise of the histograms guarantees their ε."""
        study = self._patients.public.study
        return study.epsilon_per_histogram is not None and self._noise.private

    @cached_property
    def histograms(self) -> Histograms:
        """The histograms that the site releases in this study."""
        study, learnt = self._patients.public.study, self._patients.learnt
        units, most = np.ones(learnt.n_rows, dtype=np.int64), 1
        if study.weight is not None:
            units = np.rint(learnt.weights * WEIGHT_UNIT).astype(np.int64)
            most = int(np.ceil(study.weight.max * WEIGHT_UNIT))
        return Histograms(
            study,
            count_histograms(learnt.values, units, study.bins),
            sensitivity=study.max_rows * most,
            noise=self._noise,
            memory=self._shared,
        )

    def _count(self, header: m.Header) -> m.GridReply:
        """Paper 2.2.1, step 1."""
        counts, mechanism = self.histograms.release(), self.histograms.mechanism
        signature = self._masking.sign(histogram_claim(header, self._name, counts))
        return m.GridReply(header, mechanism, self.private, counts, signature)

    # --- Rules ------------------------------------------------------------------------------

    def _grow(self, request: m.RulesRequest, patients: Patients) -> m.RulesReply:
        """Paper 2.2.2: trees on the site's own patients; what the gate lets out."""
        grid, codes = request.grid, patients.ready_codes
        folds = range(-1, patients.public.n_folds)
        grown = [self._grow_rules(patients, codes, grid, fold=fold) for fold in folds]
        self.gated = gate_rules(
            set().union(*grown),
            codes,
            patients.events,
            grid,
            min_count=self._policy.min_count,
            max_rules_sent=self._policy.max_rules_sent,
            weights=patients.weights,
            patients=patients.learnt.patients,
            sensitive=patients.sensitive,
        )
        passed = set(self.gated.rules)
        sent = [tuple(rule for rule in rules if rule in passed) for rules in grown]
        reply = m.RulesReply(request.header, sent[0], tuple(sent[1:]), b"")
        claim = sender_claim(request.header, self._name, count_rules(reply))
        return replace(reply, signature=self._masking.sign(claim))

    def _grow_rules(
        self, patients: Patients, codes: Codes, grid: Grid, *, fold: int
    ) -> tuple[Rule, ...]:
        """Grow trees without the patients of one fold (-1: with all)."""
        settings = patients.public.settings
        trees = grow_trees(
            patients.public.family,
            codes,
            patients.outcome,
            np.where(patients.folds == fold, 0.0, patients.weights),
            grid,
            n_trees=settings.n_trees,
            mean_leaves=settings.mean_leaves,
            learning_rate=settings.learning_rate,
            subsample=settings.subsample,
            min_leaf=settings.min_leaf * patients.rows_each,
            patients=patients.learnt.patients,
            rng=site_rng(settings.seed, self._name, purpose=fold + 2),
            n_threads=self._n_threads,
            limits=patients.public.limits,
        )
        grown: Iterable[Rule] = extract_rules(trees, grid)
        if patients.public.limits is not None:
            grown = patients.public.limits.sift(grown)
        return merge_rules([grown, self._offer_own(patients)], grid, drop_complements=False)

    def _offer_own(self, patients: Patients) -> tuple[Rule, ...]:
        """Return the study's own rules where the site's gate decides on them, and not votes."""
        own = name_own(patients.public)
        voted = own and self._masking.active and self._policy.min_votes > 0
        return () if voted else own

    def _vote(self, header: m.Header, rules: tuple[Rule, ...], patients: Patients) -> m.VoteReply:
        """Say which rules have enough patients here; not yet under masks."""
        enough = have_enough(
            rules,
            patients.ready_codes,
            patients.events,
            patients.weights,
            min_count=self._policy.min_count,
            patients=patients.learnt.patients,
            sensitive=patients.sensitive,
        )
        deals = [bool((patients.folds >= 0).any()), len(patients.held_out.weights) > 0]
        votes = fill_ballot(enough, deals, self._name, self._masking.sites)
        return m.VoteReply(header, pack_votes(votes), b"")

    # --- The site's own results -----------------------------------------------------------------

    def _tell_results(self, request: m.ResultsRequest, patients: Patients) -> m.ResultsReply:
        """Tell the site's own results: those asked for, if it does not keep them back."""
        public, terms, rules = patients.public, request.terms, request.rules
        request.check(public)
        if self._memory.get("offered") != terms.tobytes():
            raise ProtocolError("results of another model than the one offered for", "order")
        self._check_offered(request, patients)
        base = patients.fewest * public.study.most_weight
        bounds = public.bounds_of(terms)
        own = columns_of(patients.design.take(terms))
        packing = TermSums.packing(own.layout.n_rules, own.layout.n_linear)
        units = packing.split(sum_terms(own, patients.told_events, patients.weights, bounds))
        held, held_events = (part[request.held_out] for part in patients.count_held_out(terms))
        measures = self._judge(request, patients, base)
        known = np.flatnonzero(np.isfinite(measures))
        totals = np.concatenate([units["total"], units["events"]])
        return m.ResultsReply(
            request.header,
            round_to(from_units(totals if request.totals else totals[:0]), base),
            round_to(from_units(units["inside"][rules]), base),
            round_to(from_units(units["events_inside"][rules]), base),
            known,
            measures[known],
            round_to(from_units(held), base),
            round_to(from_units(held_events), base),
        )

    def _check_offered(self, request: m.ResultsRequest, patients: Patients) -> None:
        """Refuse results that rest on too few patients; from then on, all."""
        offer = offer_results(patients, request.terms)
        if (
            self._memory.get("kept-back") is not None
            or offer.rules[request.rules].any()
            or (request.totals and offer.totals)
            or (request.evaluation and offer.evaluation)
            or offer.held_out[request.held_out].any()
        ):
            # That much is told of the patients, and no more: every further request is refused.
            self._memory.put({"kept-back": b"yes"})
            raise ProtocolError("the site keeps these results of its own back", "policy")

    def _judge(self, request: m.ResultsRequest, patients: Patients, base: float) -> Floats:
        """Return the measures of the site's own predictions, rounded; none unless asked for."""
        if not request.evaluation:
            return np.empty(0)
        judge = patients.public.family.judge
        # With its own baseline, where it has one: how far it is off without would tell of that.
        own = patients.find_own(request.terms, request.coef)
        scores = judge.coarsen(patients.count_scores(request.terms, request.coef, own), base)
        if scores is None:
            raise ProtocolError("the site keeps these results of its own back", "policy")
        return np.array(list(vars(judge.measure(scores).rounded(base)).values()))


def _take(request: m.ShareDispersionRequest | m.ShareModelRequest) -> m.Reply:
    """Return that the site has what was handed out."""
    if isinstance(request, m.ShareModelRequest):
        return m.ShareModelReply(request.header, len(request.terms))
    return m.ShareDispersionReply(request.header, request.dispersion)
