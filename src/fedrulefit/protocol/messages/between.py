"""Which share of the terms' variance lies between the sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.between import BetweenSums, Moments, count_levels, find_tellable
from fedrulefit.core.class_design import columns_of
from fedrulefit.core.importance import TermSums, sum_terms
from fedrulefit.core.sums import Packing
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.messages.base import Turn
from fedrulefit.protocol.messages.sums import SumRequest
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public, check_length
from fedrulefit.study import Settings, Study

__all__ = ["BetweenRequest"]


@dataclass(frozen=True, eq=False)
class BetweenRequest(SumRequest):
    """Ask how far sites' means of the final model's terms lie from the mean of all, coarsely.

    `n_sites` are in the sum. `terms` are the positions of those that vary enough, the intercept
    first. `total` are all
    patients, `means` and `squares` the terms' means and the linear terms' mean squares over
    them (of linear terms divided by their largest size), as the summary told them.
    """

    turn = Turn.BETWEEN
    release = "between-sites"
    least_sites = 2
    sums = (BetweenSums,)

    n_sites: int
    terms: Ints
    total: float
    means: Floats
    squares: Floats

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        del study
        return "roughly, which share of each term's variance lies between the sites"

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study wants to know it."""
        return settings.between_sites

    @property
    def pooled(self) -> Moments:
        """What is said of all patients."""
        return Moments(self.total, self.means, self.squares)

    def packings(self, public: Public) -> tuple[Packing[BetweenSums]]:
        """Return how the numbers lie: of rules, then of linear terms."""
        own = public.among(self.terms)
        return (BetweenSums.packing(own.n_rules + own.n_linear),)

    def check(self, public: Public) -> None:
        """Refuse means of no patients, and terms that vary too little to hide a hospital."""
        if not self.least_sites <= self.n_sites <= public.n_sites:
            raise ProtocolError(f"not 2 to {public.n_sites} sites, between which something lies")
        public.check_terms(self.terms)
        own = public.among(self.terms)
        check_length(self.means, own.n_rules + own.n_linear, "means")
        check_length(self.squares, own.n_linear, "mean squares")
        if not 0 < self.total < np.inf:
            raise ProtocolError("there must be patients")
        size = np.concatenate([np.abs(self.means), self.squares])
        lowest = np.concatenate([self.means[: own.n_rules], self.squares])
        if not ((size <= 1) & np.isfinite(size)).all() or not (lowest >= 0).all():
            raise ProtocolError("means and mean squares must lie within the terms' bounds")
        bounds, heaviest = public.bounds_of(self.terms), public.study.most_weight
        if not find_tellable(own, self.pooled, bounds, heaviest).all():
            raise ProtocolError("a term varies too little to tell how sites differ in it")

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Return the site's part, in whole steps."""
        public, final = patients.public, columns_of(patients.design.take(self.terms))
        own, bounds = final.layout, public.bounds_of(self.terms)
        units = sum_terms(final, patients.told_events, patients.weights, bounds)
        sums = TermSums.packing(own.n_rules, own.n_linear).read(units)
        (packing,) = self.packings(public)
        levels = count_levels(own, sums, self.pooled, self.n_sites)
        return (packing.round(BetweenSums(levels)),)
