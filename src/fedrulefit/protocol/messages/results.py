"""How well the finished model predicts, and what single sites tell of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.class_design import columns_of
from fedrulefit.core.design import Design
from fedrulefit.core.families import FAMILIES
from fedrulefit.core.families.elsewhere import ElsewhereSums
from fedrulefit.core.families.evidence import EvidenceSums
from fedrulefit.core.people import count_cells
from fedrulefit.core.subgroups import SubgroupSums
from fedrulefit.core.sums import Packing, Sum, quantity
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.messages.base import Reply, Request, Turn, released
from fedrulefit.protocol.messages.sums import SumRequest
from fedrulefit.protocol.patients import Patients, events_of
from fedrulefit.protocol.public import Public
from fedrulefit.study import Settings, Study
from fedrulefit.table.patients import Table

__all__ = ["EvaluateRequest", "OfferRequest", "OfferSums", "ResultsReply", "ResultsRequest"]

_EVIDENCE: Final = (
    ", and coarsely, how those inside a rule differ from those outside it within sites"
)

MANY_RULES: Final = 10
"""From so many rules on, or with a number's linear term, a model has many different predictions."""

_TWICE: Final = " (once with sites' own baselines, once without)"


@dataclass(frozen=True, eq=False)
class EvaluateRequest(SumRequest):
    """Ask how well the finished model predicts the patients that were held out.

    And how many of them satisfy each of its rules, and their tallies (with the outcome, of yes/no
    ones): the levels that people read. `terms` are the positions of its terms, the intercept
    first, and `coef` their coefficients. Besides the scores of all sites together, patients of
    one and the same site are held against each other, and those inside a rule against those
    outside it: the only sums that depend on who is where, and coarse therefore.
    """

    turn = Turn.EVALUATION
    by_family = True
    release = "evaluation"
    sums = (
        *(
            kind
            for family in FAMILIES.values()
            for kind in (family.judge_type.sums, family.judge_type.within_sums)
        ),
        SubgroupSums,
        EvidenceSums,
        ElsewhereSums,
    )

    terms: Ints
    coef: Floats

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        told, twice = study.family.tells, study.settings.own_spread is not None
        return (
            f"{told.evaluation}{_TWICE * twice}, how well the scores tell apart patients of one "
            "and the same site, over all sites, and "
            f"{told.subgroups}{_EVIDENCE * (study.family.evidence is not None)}"
        )

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study holds patients out."""
        return settings.holdout > 0

    def packings(self, public: Public) -> tuple[Packing[Any], ...]:
        """Return how the numbers lie: as the outcome's family judges, and by rule.

        Where sites have baselines of their own, the judge's sums come twice: without them, as of
        new hospitals, and, last, with them.
        """
        family, n_rules = public.family, public.among(self.terms).n_rules
        judge, twice = family.judge, self._judges_own(public)
        return (
            judge.packing(),
            Packing(judge.within_sums),
            SubgroupSums.packing(n_rules, family),
            EvidenceSums.packing(n_rules, family.evidence),
            ElsewhereSums.packing(n_rules, family.evidence, public.n_sites),
            *([judge.packing()] * twice),
        )

    def _judges_own(self, public: Public) -> bool:
        """Whether patients are judged with their sites' own baselines, too.

        Not by a model that has few different predictions: each site's would stand apart in sums of
        few sites, and tell its baseline.
        """
        numbers = [
            public.grid.axes[feature].kind == "number" for feature in public.linear_of(self.terms)
        ]
        spread = any(numbers) or public.among(self.terms).n_rules >= MANY_RULES
        return public.settings.own_spread is not None and spread

    def check(self, public: Public) -> None:
        """Refuse coefficients that are none of this fit's."""
        public.check_coefs(self.terms, self.coef)

    def add_up(self, patients: Patients) -> tuple[Ints, ...]:
        """Return the site's sums over the patients that it holds out."""
        over_all, within, by_rule, apart, elsewhere, *twice = self.packings(patients.public)
        scores = patients.count_scores(self.terms, self.coef)
        units = patients.count_subgroups(self.terms)
        effects = patients.count_evidence(self.terms, by_rule.read(units), self.header.site)
        return (
            over_all.round(scores),
            within.round(patients.place_within(scores)),
            units,
            apart.round(effects),
            elsewhere.round(patients.count_elsewhere(effects)),
            *(packing.round(self._count_with_own(patients)) for packing in twice),
        )

    def _count_with_own(self, patients: Patients) -> Sum:
        """Return what judges the model with the site's own baseline."""
        own = patients.find_own(self.terms, self.coef)
        return patients.count_scores(self.terms, self.coef, own)


@dataclass(frozen=True, eq=False)
class OfferSums(Sum):
    """How many sites have too few patients to tell results of their own, not which.

    The coordinator then asks for what no site keeps back: with totals known, what one site
    hides the others would tell.
    """

    rules: Floats = quantity(
        "1 where a rule has too few patients inside or outside, with or without the outcome",
        shape="n_rules",
        most="1 per site",
    )
    totals: float = quantity("1 where too few have, or have not, the outcome", most="1 per site")
    evaluation: float = quantity("the same among held-out patients", most="1 per site")
    held_out: Floats = quantity(
        "as of rules, among held-out patients", shape="n_rules", most="1 per site"
    )

    @classmethod
    def packing(cls, n_rules: int) -> Packing[OfferSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_rules": n_rules})


@dataclass(frozen=True, eq=False)
class OfferRequest(SumRequest):
    """Ask how many sites would not tell some of their own results.

    Only in studies with ``per_site``. `terms` are the positions of the final model's
    terms, the intercept first.
    """

    turn = Turn.OFFER
    release = "site-results"
    sums = (OfferSums,)
    wording = (
        "for each rule of the model, and for the totals, whether this site has too few patients "
        "(learnt from, held out) to tell results of its own (1) or enough (0)"
    )

    terms: Ints

    @property
    def noted(self) -> dict[str, bytes]:
        """The model's terms: results are told of no other model."""
        return {"offered": self.terms.tobytes()}

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        del study
        return "how many sites have too few patients to tell results of their own"

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study asks for results of single sites."""
        return settings.per_site

    def packings(self, public: Public) -> tuple[Packing[OfferSums]]:
        """Return how the numbers lie."""
        return (OfferSums.packing(public.among(self.terms).n_rules),)

    def check(self, public: Public) -> None:
        """Refuse what are no terms."""
        public.check_terms(self.terms)

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Say which of the site's own results rest on too few patients."""
        offer = offer_results(patients, self.terms)
        return (OfferSums.packing(len(offer.rules)).round(offer),)


def offer_results(patients: Patients, terms: Ints) -> OfferSums:
    """Return 1 for each result of the site's own that rests on too few patients."""
    learnt, held_out = patients.learnt, patients.held_out
    judged = patients.public.settings.holdout > 0 and patients.has_enough(held_out)
    cells = _smallest_cells(columns_of(patients.design.take(terms)), learnt)
    held = _smallest_cells(patients.held_design(terms), held_out)
    return OfferSums(
        rules=(cells < patients.fewest).astype(np.float64),
        totals=float(not patients.has_enough(learnt)),
        evaluation=float(not judged),
        held_out=(held < patients.fewest).astype(np.float64),
    )


def _smallest_cells(design: Design, table: Table) -> Ints:
    """Return the fewest patients in a cell of the table rule × outcome, shape (n_rules,)."""
    return count_cells(design, events_of(table), table.weights > 0, table.patients).smallest


@dataclass(frozen=True, eq=False)
class ResultsRequest(Request):
    """Ask for a site's own results: those that no site keeps back.

    `terms` and `coef` are the final model; `rules` are positions among its rules, and so is
    `held_out`, of counts among held-out patients.
    """

    turn = Turn.RESULTS
    by_family = True
    release = "site-results"

    terms: Ints
    coef: Floats
    rules: Ints
    totals: bool
    evaluation: bool
    held_out: Ints

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the site's own results tell."""
        told = study.family.tells
        parts = [told.results, told.held_out_results * (study.settings.holdout > 0)]
        return (
            "under the site's name and rounded, where no site has too few: "
            f"{'; '.join(filter(None, parts)) or 'nothing'}"
        )

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study asks for results of single sites."""
        return settings.per_site

    def check(self, public: Public) -> None:
        """Refuse coefficients that are none of this fit's, and what are no rules of it."""
        public.check_coefs(self.terms, self.coef)
        counts = self.totals or len(self.rules) > 0 or len(self.held_out) > 0
        if counts and not public.family.counts_events:
            raise ProtocolError(
                "of an outcome without events a site tells how well it is predicted, and no counts"
            )
        n_rules = public.among(self.terms).n_rules
        for rules in (self.rules, self.held_out):
            places = (rules >= 0) & (rules < n_rules)
            if not (places.all() and (np.diff(rules) > 0).all()):
                raise ProtocolError("rules must be increasing positions among the model's")


@dataclass(frozen=True, eq=False)
class ResultsReply(Reply):
    """A site's own results, rounded; each is empty unless asked for."""

    totals: Floats = released("Σ w and Σ w·y, to multiples of k", shape="2")
    inside: Floats = released("Σ w·r, to multiples of k", shape="rules asked for")
    events_inside: Floats = released("Σ w·y·r, to multiples of k", shape="rules asked for")
    known: Ints = released("which measures of the predictions are defined", shape="≤ 22")
    measures: Floats = released(
        "held-out patients and outcomes, to multiples of k, and measures of the predictions for "
        "them (AUC, Brier score …), to 3 digits",
        shape="≤ 22",
    )
    held_out: Floats = released(
        "Σ w·r of the held-out patients, to multiples of k", shape="rules asked for"
    )
    held_out_events: Floats = released(
        "Σ w·y·r of the held-out patients, to multiples of k", shape="rules asked for"
    )
