"""A site's patients, as the questions of a run see them.

In: the site's table and what the run has agreed on. Out: what sums are made of. Nothing here
leaves the site.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedrulefit.core.arrays import Bools, Codes, Floats, Ints
from fedrulefit.core.class_design import AnyDesign, ClassDesign
from fedrulefit.core.design import Design, build_design
from fedrulefit.core.families.elsewhere import FEWEST, NOWHERE, ElsewhereSums, add_own_effects
from fedrulefit.core.families.evidence import NOTHING, EvidenceSums, add_stratum, find_grain
from fedrulefit.core.fixed import round_units
from fedrulefit.core.grid import encode, linear_values
from fedrulefit.core.own import Estimate, estimate
from fedrulefit.core.people import Sensitive, count_cells, find_one_sided
from fedrulefit.core.predictor import evaluate_terms, predict
from fedrulefit.core.subgroups import SubgroupSums, count_inside, sum_subgroups
from fedrulefit.core.sums import Sum
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.protocol.dealing import draw_starts
from fedrulefit.protocol.public import SITE_WEIGHT, WEIGHT_UNIT, Public
from fedrulefit.table.patients import Table


@dataclass(frozen=True, eq=False)
class Patients:
    """One site's patients in a run.

    Parameters
    ----------
    public : Public
        What the run has agreed on.
    learnt, held_out : Table
        Who is learnt from, and who is held out to judge the model.
    folds : (n_learnt,) int64
    least : int
        The policy's k: fewest patients behind a rule that leaves.
    codes : (n_learnt, n_features) uint8 or None
        The patients on the grid, once there is one.
    built : Design or ClassDesign, or None
        Rules and linear terms of the fit, once they are known.
    """

    public: Public
    learnt: Table
    held_out: Table
    folds: Ints
    least: int
    codes: Codes | None = None
    built: AnyDesign | None = None

    def on_grid(self, public: Public) -> Patients:
        """Return the patients on the shared cut-offs."""
        codes = encode(self.learnt.values, public.grid)
        return replace(self, public=public, codes=codes, built=None)

    def with_terms(self, public: Public) -> Patients:
        """Return the patients with the design of the fit."""
        linear = linear_values(self.learnt.values, public.grid)[:, : public.columns.n_linear]
        parts = public.columns.n_baseline
        design = build_design(self.ready_codes, public.fitted_rules, linear, parts=parts)
        if public.owners is None:
            return replace(self, public=public, built=design)
        return replace(self, public=public, built=ClassDesign(design, public.owners))

    @property
    def ready_codes(self) -> Codes:
        """The patients on the grid."""
        if self.codes is None:
            raise ProtocolError("rules came before the grid", "order")
        return self.codes

    @property
    def design(self) -> AnyDesign:
        """Rules and linear terms of the fit."""
        if self.built is None:
            raise ProtocolError("a fitting round came before the rules", "order")
        return self.built

    @property
    def outcome(self) -> Floats:
        """The outcome of those who are learnt from, (n_learnt,) or (n_learnt, n_parts)."""
        return outcome_of(self.learnt)

    @property
    def events(self) -> Floats:
        """Who of them counts as with the outcome, where few are protected, (n_learnt,)."""
        return events_of(self.learnt)

    @property
    def sensitive(self) -> Sensitive:
        """What of their outcomes a sum could tell although it is over enough patients."""
        return Sensitive.of(self.public.family, self.outcome)

    @property
    def told_events(self) -> Floats:
        """The events that are told; none where the outcome has none, (n_learnt,)."""
        return self._told(self.learnt)

    @property
    def weights(self) -> Floats:
        """What they count, shape (n_learnt,)."""
        return self.learnt.weights

    @property
    def scaled_weights(self) -> Floats:
        """What they count in the objective: all patients equal, or all sites equal."""
        if self.public.by_patients:
            return self.weights
        equal: Floats = SITE_WEIGHT * self.weights / self.weights.sum()
        return equal

    @property
    def counts(self) -> float:
        """What the site counts among the sites."""
        return float(self.weights.sum()) if self.public.by_patients else SITE_WEIGHT

    @property
    def fewest(self) -> int:
        """Smallest count behind the site's own results, which stand in the model file."""
        return max(self.least, MIN_COUNT)

    @property
    def rows_each(self) -> float:
        """Rows of a patient in the mean, of those who are learnt from and count."""
        counted = self.learnt.take(self.weights > 0)
        return counted.n_rows / max(counted.n_patients, 1)

    def has_enough(self, table: Table) -> bool:
        """Whether there are k patients with and k without the outcome, who count as k.

        And none who outweighs all others.
        """
        if table.weights.sum() < self.fewest * self.public.study.most_weight:
            return False
        people, counted = table.people, table.weights > 0
        sensitive = Sensitive.of(self.public.family, outcome_of(table)).take(counted)
        alone = sensitive.is_one_sided(table.weights[counted], people.place[counted])
        return people.fewest() >= self.fewest and not alone

    @property
    def hides_spread(self) -> bool:
        """Whether sums of squares over those learnt from are of no single patient, as of folds."""
        return self.least == 0 or self.has_enough(self.learnt)

    def estimate_own(self, terms: Ints, coef: Floats, spread: float) -> Estimate:
        """Return the site's own baseline of a model: it never leaves the site."""
        predictor = self.design.take(terms).predictor(coef)
        return estimate(self.public.family, predictor, self.outcome, self.weights, spread)

    def find_own(self, terms: Ints, coef: Floats) -> Floats | None:
        """Return what the site adds to a model's predictors; None where all share a baseline."""
        spread = self.public.settings.own_spread
        return None if spread is None else self.estimate_own(terms, coef, spread).values

    def count_scores(self, terms: Ints, coef: Floats, own: Floats | None = None) -> Sum:
        """Return what judges a model, summed over the patients that were held out.

        With the site's `own` baseline, if that is given: it is of those who are learnt from.
        """
        public, test = self.public, self.held_out
        family, n_baseline = public.family, public.layout.n_baseline
        if own is not None:
            coef = np.array([*(coef[:n_baseline] + own), *coef[n_baseline:]])
        if family.names:
            predictor = self.held_terms(terms).predictor(coef)
        else:
            rules, linear = public.rules_of(terms), public.linear_of(terms)
            joined = np.array([family.join_baseline(coef[:n_baseline]), *coef[n_baseline:]])
            predictor = predict(test.values, public.grid, rules, linear, joined, alone=True)
        prediction, outcome = family.judged(predictor), outcome_of(test)
        counted: Sum = family.judge.count(prediction, outcome, self._held_weights)
        return counted

    def count_subgroups(self, terms: Ints) -> Ints:
        """Return what of the patients that were held out satisfies a model's rules: whole units."""
        outcome, family = outcome_of(self.held_out), self.public.family
        return sum_subgroups(self.held_design(terms), outcome, self._held_weights, family)

    def count_held_out(self, terms: Ints) -> tuple[Ints, Ints]:
        """Return who of them is inside each rule, and those with the outcome: whole units."""
        design, units = self.held_design(terms), round_units(self._held_weights)
        told = units * self._told(self.held_out)
        return count_inside(design, units), count_inside(design, told)

    def _told(self, table: Table) -> Floats:
        events = events_of(table)
        return events if self.public.family.counts_events else np.zeros_like(events)

    def held_design(self, terms: Ints) -> Design:
        """Return a model's rules for the patients that were held out."""
        rules = self.public.rules_of(terms)
        return evaluate_terms(self.held_out.values, self.public.grid, rules, ())

    def held_terms(self, terms: Ints) -> AnyDesign:
        """Return a model's terms for the patients that were held out."""
        public, values = self.public, self.held_out.values
        rules, linear = public.rules_of(terms), public.linear_of(terms)
        parts = public.columns.n_baseline
        columns = evaluate_terms(values, public.grid, rules, linear, parts=parts)
        owners = public.owners and public.owners.take(terms)[0]
        return ClassDesign(columns, owners) if owners else columns

    @property
    def _held_weights(self) -> Floats:
        """What those who are held out count.

        In units, so that sums are exact: they do not depend on how sites share patients.
        """
        weights: Floats = np.rint(self.held_out.weights * WEIGHT_UNIT) / WEIGHT_UNIT
        return weights

    def place_within(self, scores: Sum) -> Sum:
        """Return what the held-out patients, held against each other, add; of too few, zeros."""
        enough = self.has_enough(self.held_out)
        least = self.fewest * self.public.study.most_weight if enough else math.inf
        placed: Sum = self.public.family.judge.place_within(scores, least)
        return placed

    def count_evidence(self, terms: Ints, inside: SubgroupSums, site: str) -> EvidenceSums:
        """Return what a model's rules do within the site named so, for a sum over sites.

        `inside` is what the site's own patients satisfy; of rules with too few of them, zeros.
        """
        family = self.public.family
        if family.evidence is None:
            return NOTHING
        tallies = family.tallies(outcome_of(self.held_out))
        weights = self._held_weights
        whole = np.array([weights.sum(), *(weights @ tallies)])
        with np.errstate(divide="ignore", invalid="ignore"):  # where nobody is, nothing is told
            stratum = family.evidence.summarise(inside.stack_inside(family.n_tallies), whole)
        least = self.fewest * self.public.study.most_weight * find_grain(self.public.n_sites)
        starts = draw_starts(self.public.settings.seed, site)
        return add_stratum(family.evidence, stratum, self._have_enough(terms), least, starts)

    def count_elsewhere(self, effects: EvidenceSums) -> ElsewhereSums:
        """Return what tells how hospitals differ, from what the site adds to effects."""
        evidence = self.public.family.evidence
        if evidence is None or self.public.n_sites < FEWEST:
            return NOWHERE
        return add_own_effects(evidence, effects)

    def _have_enough(self, terms: Ints) -> Bools:
        """Return of which rules enough held-out patients are inside and outside, (n_rules,).

        Of the site's margins alone: how they go together would say something of the effect.
        """
        held, rules = self.held_out.take(self.held_out.weights > 0), self.public.rules_of(terms)
        if not self.has_enough(held):
            return np.zeros(len(rules), dtype=np.bool_)
        design = evaluate_terms(held.values, self.public.grid, rules, ())
        counted = np.ones(held.n_rows, dtype=np.bool_)
        cells = count_cells(design, events_of(held), counted, held.patients)
        sensitive = Sensitive.of(self.public.family, outcome_of(held))
        alone = find_one_sided(design, sensitive, held.weights, held.patients)
        enough: Bools = (cells.smallest_side >= self.fewest) & ~alone
        return enough


def outcome_of(table: Table) -> Floats:
    """Return the outcome of a table that has one."""
    if table.outcome is None:
        raise ProtocolError("the site has no outcomes", "internal")
    return table.outcome


def events_of(table: Table) -> Floats:
    """Return who counts as with the outcome, of a table that has one."""
    if table.events is None:
        raise ProtocolError("the site has no outcomes", "internal")
    return table.events
