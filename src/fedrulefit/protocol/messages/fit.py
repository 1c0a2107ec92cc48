"""The sums of the fit: spreads, rounds of both solvers, slopes, the final summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.bins import SpreadSums, sum_spreads
from fedrulefit.core.certificate import GapSums, SlopeSums, sum_gap, sum_slopes
from fedrulefit.core.class_design import columns_of
from fedrulefit.core.curvature import CurvatureSums, Query, sum_curvature
from fedrulefit.core.fedda import RoundSums, client_update, soft_threshold
from fedrulefit.core.fixed import LARGEST_MEAN
from fedrulefit.core.importance import TermSums, sum_terms
from fedrulefit.core.newton import active_room
from fedrulefit.core.pruning import MOST_VARIANTS, STARTS
from fedrulefit.core.refit import RefitQuery, RefitSums, sum_refit
from fedrulefit.core.sums import Packing
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.messages.base import Turn
from fedrulefit.protocol.messages.sums import SumRequest
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public, check_length
from fedrulefit.protocol.solver_settings import make_schedule
from fedrulefit.study import Settings, Study

__all__ = [
    "CurvatureRequest",
    "DualRequest",
    "RefitRequest",
    "SlopesRequest",
    "SpreadsRequest",
    "SummaryRequest",
]

MAX_NUMBERS = 2**25
"""Most numbers of one answer: 256 MB."""


def _tell_own(study: Study) -> str:
    """Return of what sums are told besides, where they are taken at sites' own baselines."""
    told = ", at each site's own best baseline: of few sites these can be worked out from it"
    return told * study.settings.fits_own


@dataclass(frozen=True, eq=False)
class SpreadsRequest(SumRequest):
    """Ask for exact spreads, where the study wants them."""

    turn = Turn.SPREADS
    release = "spreads"
    sums = (SpreadSums,)

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        del study
        return "the spread and number of known values of each covariate"

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study wants exact spreads."""
        return settings.spreads == "exact"

    def packings(self, public: Public) -> tuple[Packing[SpreadSums]]:
        """Return how the numbers lie: one of each per covariate."""
        return (SpreadSums.packing(public.study.n_features),)

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Return the site's spreads."""
        values, bins = patients.learnt.values, patients.public.study.bins
        return (sum_spreads(values, patients.weights, bins),)


@dataclass(frozen=True, eq=False)
class DualRequest(SumRequest):
    """Start a round of FedDA from the shared dual variables (paper 2.2.3, algorithm 3)."""

    turn = Turn.FIT
    release = "dual"
    in_rounds = True
    sums = (RoundSums,)

    round: int
    dual: Floats

    @property
    def ledger_round(self) -> int:
        """The round of FedDA."""
        return self.round

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        del study
        return "a gradient sum, a loss and the number of patients"

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study's solver is FedDA."""
        return settings.solver == "fedda"

    def packings(self, public: Public) -> tuple[Packing[RoundSums]]:
        """Return how the numbers lie."""
        return (RoundSums.packing(public.n_terms),)

    def check(self, public: Public) -> None:
        """Refuse a round that is none, or that could lead too far."""
        check_length(self.dual, public.n_terms, "dual variables")
        schedule = make_schedule(public.settings)
        if not 0 <= self.round < schedule.rounds:
            raise ProtocolError(f"round {self.round} of {schedule.rounds}")
        threshold = schedule.threshold(self.round, 0)
        start = soft_threshold(self.dual, threshold, public.factors, public.signs)
        public.check_size(np.arange(public.n_terms), start, most=LARGEST_MEAN)
        # A local step moves no dual variable further than η_c times the term's size.
        steepest = public.family.most_slope * float(public.bounds.terms.max())
        reach = schedule.client_step * schedule.local_steps * steepest
        if not reach <= LARGEST_MEAN:
            raise ProtocolError("a round could lead further than a sum can bear", "overflow")

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Return the site's round, multiplied by what the site counts."""
        found = client_update(
            patients.public.family,
            columns_of(patients.design),  # FedDA learns no outcome whose classes have their own
            patients.outcome,
            patients.weights,
            patients.public.factors,
            self.dual,
            self.round,
            make_schedule(patients.public.settings),
            counts=patients.counts,
            signs=patients.public.signs,
        )
        return (RoundSums.packing(patients.public.n_terms).round(found),)


@dataclass(frozen=True, eq=False)
class CurvatureRequest(SumRequest):
    """A round of the exact solver: points to evaluate, one per fold on its way."""

    turn = Turn.FIT
    release = "curvature"
    in_rounds = True
    by_family = True
    sums = (CurvatureSums,)

    queries: tuple[Query, ...]

    @property
    def ledger_round(self) -> int:
        """The step of the run: the solver's rounds have no number of their own."""
        return self.header.step

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        return (
            "gradients, second derivatives, losses and the number of patients (from which "
            f"{study.family.tells.inside} inside candidate rules follow){_tell_own(study)}"
        )

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study's solver is the exact one."""
        return settings.solver == "exact"

    def packings(self, public: Public) -> tuple[Packing[CurvatureSums], ...]:
        """Return how the numbers lie: one point after another."""
        return tuple(CurvatureSums.packing(query, public.bounds) for query in self.queries)

    def check(self, public: Public) -> None:
        """Refuse points that the study's solver does not ask for."""
        n_folds = public.n_folds
        if not 1 <= len(self.queries) <= n_folds + 1:
            raise ProtocolError(f"expected 1 to {n_folds + 1} points")
        if len({query.fold for query in self.queries}) < len(self.queries):
            raise ProtocolError("two points of one fold")
        for query in self.queries:
            self._check_point(query, public)
        if self.size(public) > MAX_NUMBERS:
            raise ProtocolError("the answer would be over the limit: ask for fewer terms at once")

    def _check_point(self, query: Query, public: Public) -> None:
        settings, factors = public.settings, public.factors
        public.check_terms(query.active)
        unpenalised = len(factors) if settings.penalty == 0 else int((factors == 0).sum())
        most = active_room(len(query.terms) + unpenalised, settings.max_active)
        if len(query.active) > most:
            raise ProtocolError(f"more active terms than the study allows, which is {most}")
        public.check_coefs(query.terms, query.start)
        public.check_coefs(query.terms, query.end)
        if not -1 <= query.fold < public.n_folds:
            raise ProtocolError(f"there is no fold {query.fold}")

    def add_up(self, patients: Patients) -> list[Ints]:
        """Return the site's sums at every point."""
        return [
            sum_curvature(
                patients.public.family,
                patients.design,
                patients.outcome,
                patients.scaled_weights,
                patients.folds,
                query,
                patients.public.bounds,
            )
            for query in self.queries
        ]


@dataclass(frozen=True, eq=False)
class RefitRequest(SumRequest):
    """A round of the selection: points of refits to few terms, some per fold."""

    turn = Turn.REFIT
    release = "curvature"
    by_family = True
    in_rounds = True
    sums = (RefitSums,)

    queries: tuple[RefitQuery, ...]

    @property
    def ledger_round(self) -> int:
        """The step of the run."""
        return self.header.step

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        return (
            "gradients, second derivatives and losses of few terms and of their variants (from "
            f"which {study.family.tells.inside} inside these follow){_tell_own(study)}"
        )

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study's terms are pruned."""
        return settings.prunes

    def packings(self, public: Public) -> tuple[Packing[RefitSums], ...]:
        """Return how the numbers lie: one point after another."""
        return tuple(RefitSums.packing(query, public.bounds) for query in self.queries)

    def check(self, public: Public) -> None:
        """Refuse points that the selection does not ask for."""
        most = len(STARTS) * (public.n_folds + 1)
        if not 1 <= len(self.queries) <= most:
            raise ProtocolError(f"expected 1 to {most} points")
        for query in self.queries:
            if not -1 <= query.fold < public.n_folds:
                raise ProtocolError(f"there is no fold {query.fold}")
            public.check_coefs(query.terms, query.start)
            public.check_coefs(query.terms, query.end)
            self._check_variants(query, public)
        if self.size(public) > MAX_NUMBERS:
            raise ProtocolError("the answer would be over the limit: ask for fewer terms at once")

    @staticmethod
    def _check_variants(query: RefitQuery, public: Public) -> None:
        terms = query.variants
        if len(terms) > MOST_VARIANTS:
            raise ProtocolError(f"more variants than {MOST_VARIANTS}")
        rules = public.layout.are_rules(terms)
        if not rules.all() or (np.diff(terms) <= 0).any() or np.isin(terms, query.terms).any():
            raise ProtocolError("variants must be increasing rules beside the terms")

    def add_up(self, patients: Patients) -> list[Ints]:
        """Return the site's sums at every point."""
        return [
            sum_refit(
                patients.public.family,
                patients.design,
                patients.outcome,
                patients.scaled_weights,
                patients.folds,
                query,
                patients.public.bounds,
            )
            for query in self.queries
        ]


@dataclass(frozen=True, eq=False)
class SlopesRequest(SumRequest):
    """Ask for the gradient at the final coefficients, for the certificate."""

    turn = Turn.SLOPES
    release = "slopes"
    by_family = True
    sums = (SlopeSums,)

    terms: Ints
    coef: Floats

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        return f"the gradient at the final coefficients, {study.family.tells.slopes}"

    def packings(self, public: Public) -> tuple[Packing[SlopeSums]]:
        """Return how the numbers lie."""
        return (SlopeSums.packing(public.bounds),)

    def check(self, public: Public) -> None:
        """Refuse coefficients that are none of this fit's."""
        public.check_coefs(self.terms, self.coef)

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Return the site's gradients."""
        public, design = patients.public, patients.design
        predictor = design.take(self.terms).predictor(self.coef)
        return (
            sum_slopes(
                public.family,
                design,
                patients.outcome,
                patients.scaled_weights,
                predictor,
                public.bounds,
            ),
        )


@dataclass(frozen=True, eq=False)
class SummaryRequest(SumRequest):
    """Ask for the sums behind support, importance, subgroups and the certificate (paper 2.3).

    Only terms of the final model are asked for: `terms` are their positions,
    the intercept first, and `coef` their coefficients. `scales` name the dual
    point of the certificate (for falling and rising slopes).
    """

    turn = Turn.SUMMARY
    release = "summary"
    by_family = True
    sums = (TermSums, GapSums)

    terms: Ints
    coef: Floats
    scales: Floats

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        return (
            f"{study.family.tells.summary} in all and inside each rule of the final model, the "
            "spread of its terms, and its loss"
        )

    def packings(self, public: Public) -> tuple[Packing[Any], ...]:
        """Return how the numbers lie: of the model's own terms, then of its loss."""
        own = public.among(self.terms)
        return TermSums.packing(own.n_rules, own.n_linear), GapSums.packing(public.bounds)

    def check(self, public: Public) -> None:
        """Refuse coefficients that are none of this fit's, and scales beyond 1."""
        public.check_coefs(self.terms, self.coef)
        check_length(self.scales, 2, "scales")
        if not ((self.scales >= 0) & (self.scales <= 1)).all():
            raise ProtocolError("the scales of the certificate must lie in [0, 1]")
        if public.layout.n_baseline > 1 and self.scales[0] != self.scales[1]:
            raise ProtocolError("of several baselines the certificate has one scale")

    def add_up(self, patients: Patients) -> tuple[Ints, ...]:
        """Return the site's sums for the terms of the final model only."""
        final = patients.design.take(self.terms)
        bounds = patients.public.bounds_of(self.terms)
        counted = sum_terms(columns_of(final), patients.told_events, patients.weights, bounds)
        return counted, self._measure_gap(patients, final.predictor(self.coef))

    def _measure_gap(self, patients: Patients, predictor: Floats) -> Ints:
        """Return the site's part of the duality gap."""
        falling, rising = self.scales.tolist()
        return sum_gap(
            patients.public.family,
            patients.outcome,
            patients.scaled_weights,
            predictor,
            (falling, rising),
            patients.public.bounds,
        )
