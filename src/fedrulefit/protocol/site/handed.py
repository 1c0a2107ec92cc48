"""Whether what a coordinator hands out follows from what the sites sent.

The grid is worked out again from the signed histograms; candidate rules may not be more than the
sites sent; rules of the fit need the votes of enough sites, and folds those of enough sites
that deal. So a coordinator cannot choose cut-offs, rules or folds around one patient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Ints
from fedrulefit.core.rules import Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import (
    Tally,
    count_votes,
    follows_from,
    free_rules,
    histogram_claim,
    is_public,
    sender_claim,
)
from fedrulefit.protocol.masking import Masking
from fedrulefit.protocol.own_rules import elect_own, list_own_asked, name_own
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site.diary import Place
from fedrulefit.protocol.solver_settings import most_rules
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.wire import question_digest
from fedrulefit.study import Study


@dataclass(frozen=True)
class Handed:
    """Checks what is handed out to one site.

    Parameters
    ----------
    name : str
        The site's.
    policy : Policy
    masking : Masking
    memory : Memory
        Of the run: what the site itself sent.
    """

    name: str
    policy: Policy
    masking: Masking
    memory: Memory

    def check(
        self,
        request: m.Request,
        place: Place,
        public: Public,
        *,
        counts: Ints | None,
        candidates: tuple[Rule, ...],
        bases: Ints | None = None,
    ) -> None:
        """Refuse a grid or rules that do not follow from what the sites sent.

        Parameters
        ----------
        counts : (n_cells,) int64 or None
            The summed histograms, as handed out with the grid.
        candidates : tuple of Rule
            What was voted on.
        bases : (n_bases,) int64, optional
            The rules whose variants that was, if it was variants.
        """
        match request:
            case m.RulesRequest():
                self._check_grid(request, public.study, place)
            case m.VoteRequest():
                self._check_candidates(request, public, counts)
            case m.TermsRequest():
                public.check_rules(request.rules)
                if self.masking.active and self.policy.min_votes > 0:
                    self._check_elected(request, public, candidates)
            case m.VariantVoteRequest():
                self._check_masked()
            case m.VariantsRequest():
                if self.masking.active and self.policy.min_votes > 0:
                    self._check_variants(request, candidates, bases)
            case m.ShareDispersionRequest():
                public.check_dispersion(request.dispersion, none=True)
            case m.ShareModelRequest():
                request.check(public)

    def _check_grid(self, request: m.RulesRequest, study: Study, place: Place) -> None:
        """Refuse cut-offs that are not those of all sites' histograms."""
        try:
            study.check_grid(request.grid)
            if self.policy.min_count > 0:
                study.check_public(request.grid)
        except ValueError as error:
            raise ProtocolError(str(error), "grid") from None
        if not self.masking.active or place.turn < m.Turn.GRID:
            return
        self.masking.check_senders(histogram.site for histogram in request.histograms)
        own = self.memory.get("histogram")
        for part in request.histograms:
            claim = histogram_claim(request.header, part.site, part.counts)
            self.masking.check_signed(part.site, claim, part.signature)
            if part.site == self.name and part.counts.astype("<i8").tobytes() != own:
                raise ProtocolError("the histogram handed out is not the one sent", "grid")
        counts = add_histograms(request, study)
        if counts is None or not follows_from(request.grid, study, counts):
            raise ProtocolError("the grid is not that of the sites' histograms", "grid")

    def _check_candidates(
        self, request: m.VoteRequest, public: Public, counts: Ints | None
    ) -> None:
        """Refuse more rules than the sites sent, and those that need no data."""
        self._check_masked()
        public.check_rules(request.rules)
        self.masking.check_senders(sender.site for sender in request.senders)
        for sender in request.senders:
            claim = sender_claim(request.header, sender.site, sender.n_rules)
            self.masking.check_signed(sender.site, claim, sender.signature)
        cap = most_rules(public.settings)
        free = free_rules(public.study, public.grid, counts)
        free |= set(list_own_asked(name_own(public), public.grid))
        most = sum(min(sender.n_rules, cap) for sender in request.senders)
        if (~is_public(request.rules, free, public.grid)).sum() > most:
            raise ProtocolError("more rules are handed out than the sites sent", "votes")

    def _check_elected(
        self, request: m.TermsRequest, public: Public, candidates: tuple[Rule, ...]
    ) -> None:
        """Refuse rules for which too few sites have voted, and folds of too few sites."""
        own = self.memory.get("votes")
        if own is None or not set(request.rules) <= set(candidates):
            raise ProtocolError("rules are handed out that nobody voted on", "votes")
        question = question_digest(m.VoteRequest(request.header, candidates, ()))
        tally = self._count(request, own, question, len(candidates))
        n_sites = len(self.masking.sites)
        elected = dict(zip(candidates, tally.elect(self.policy.min_votes).tolist(), strict=True))
        own_rules = name_own(public)
        passed = elect_own(own_rules, public.grid, lambda rule: elected.get(rule, False))
        if not all(elected[rule] for rule in request.rules) or not set(passed) >= (
            set(own_rules) & set(request.rules)
        ):
            raise ProtocolError(
                "rules are handed out in which too few sites have enough patients: the site's "
                f"policy asks for {self.policy.min_votes}",
                "votes",
            )
        if public.n_folds > 0:
            # What the folds tell together is of those who deal; the rest is of those who do not.
            advice = "deal their patients into folds: lower 'folds', or give 'penalty' a number"
            self._check_dealing(tally.folds, advice)
            self._check_dealing(n_sites - tally.folds, f"do not {advice}")
        if public.settings.holdout > 0:
            advice = "hold patients out: raise 'holdout', or set it to 0"
            self._check_dealing(tally.holdout, advice)

    def _check_variants(
        self, request: m.VariantsRequest, candidates: tuple[Rule, ...], bases: Ints | None
    ) -> None:
        """Refuse variants that nobody voted on, or that fewer votes let in than the policy asks."""
        own = self.memory.get("votes")
        if own is None or bases is None or not np.array_equal(request.bases, bases):
            raise ProtocolError("variants are handed out that nobody voted on", "votes")
        if request.min_votes < self.policy.min_votes:
            raise ProtocolError(
                f"variants are handed out with {request.min_votes} votes: the site's policy asks "
                f"for {self.policy.min_votes}",
                "votes",
            )
        question = question_digest(m.VariantVoteRequest(request.header, bases))
        self._count(request, own, question, len(candidates))

    def _check_masked(self) -> None:
        if not self.masking.active:
            raise ProtocolError("votes leave under masks only", "secure-sum")

    def _count(
        self,
        request: m.TermsRequest | m.VariantsRequest,
        own: bytes,
        question: bytes,
        n_candidates: int,
    ) -> Tally:
        """Return what the ballots add up to, if they are all sites' own."""
        self.masking.check_ballots(request, own, question)
        tally = count_votes(request.ballots, n_candidates)
        if max(tally.rules.tolist(), default=0) > len(self.masking.sites):
            raise ProtocolError("the votes handed out do not add up to votes", "votes")
        return tally

    def _check_dealing(self, n_sites: int, what: str) -> None:
        """Refuse sums over part of the sites that are too few to hide one."""
        if 0 < n_sites < self.policy.min_sites:
            raise ProtocolError(f"only {n_sites} of the sites {what}", "too-few-sites")


def add_histograms(request: m.RulesRequest, study: Study) -> Ints | None:
    """Return the summed histograms that a grid was made from; None if they do not fit."""
    length = sum(bins.n_cells for bins in study.bins)
    counts = [part.counts for part in request.histograms if part.counts.shape == (length,)]
    if not counts or len(counts) < len(request.histograms):
        return None
    total: Ints = np.sum(counts, axis=0)
    return total
