"""What a model is made of: its terms, and where they come from.

All are frozen facts; what they say of a patient is for :class:`~fedrulefit.model.Model`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from fedrulefit.core.certificate import Certificate
from fedrulefit.core.families.elsewhere import Elsewhere
from fedrulefit.core.families.evidence import Effect
from fedrulefit.core.families.sides import Sides
from fedrulefit.core.rules import Rule

TermKey = tuple[Rule | int, str | None]
"""A rule, or the covariate of a linear term, and the level of the outcome for which it counts."""

Told = tuple[float | None, float | None]
"""Patients, and those of them with the outcome; None where that is not told."""


def rate_of(patients: float | None, events: float | None) -> float:
    """Return the share of patients with the outcome; NaN where that is not told.

    Counts may be rounded, so it is cut to 0 … 1.
    """
    if not patients or events is None:
        return math.nan
    return min(max(events / patients, 0.0), 1.0)


class Counts(NamedTuple):
    """Patients, and those of them with the outcome.

    With their weights. Those of one site are rounded as it told them: to multiples of five, or
    of its policy's smallest count.
    """

    patients: float
    events: float

    @property
    def rate(self) -> float:
        """The share with the outcome."""
        return rate_of(*self)


@dataclass(frozen=True)
class RuleTerm:
    """A rule of the model.

    Parameters
    ----------
    rule : Rule
    coefficient : float
    importance : float
        ``|β|·std`` (paper 2.3), on the scale of F.
    inside, events_inside : float or None
        Patients who satisfy the rule, and those of them with the outcome, among those that
        the rules were learnt from, summed over sites (with their weights). None where that is
        not told: too few are inside or outside, or have, or have not, the outcome there.
    path : tuple of float
        Coefficient at each λ of the path; empty where λ was given, and in a rounded model.
    by_site : tuple of Counts
        Who satisfies the rule at each of ``Provenance.sites``; empty where that is not
        told: the study did not ask for it, or some site has too few.
    held_out : Counts or None
        Who satisfies the rule among all patients that were held out; None where none were, or
        too few are inside or outside, with or without the outcome.
    held_out_by_site : tuple of Counts
        The same at each site; empty where that is not told.
    between_sites : float or None
        Share of its variance that lies between the sites, roughly
        (``fedrulefit.core.between``); None where that is not told: not asked for, one
        site, or too few inside or outside.
    sides : (Side, Side) or None
        What is known of the outcome of held-out patients inside and outside the rule, where
        counts do not say it all: of outcomes other than yes/no.
    level : str or None
        For which level of the outcome it counts, where each has terms of its own.
    within : Effect or None
        How held-out patients inside the rule differ from those outside, within hospitals; None
        where too few tell it, or none were held out.
    elsewhere : Elsewhere or None
        How far hospitals differ in that, and what a further one may see; None where fewer than
        five tell it.
    found_again : int or None
        In how many folds of the cross-validation the fit without the fold's patients has a rule
        that holds for nearly the same patients (``fedrulefit.core.refinding``); None without
        a cross-validation.
    in_halves : float or None
        In which share of random halves of the patients it is found again; None where that was not
        asked for.
    adjusted : Effect or None
        What it does given all other terms, of held-out patients: its coefficient
        in a refit (``fedrulefit.core.adjusting``); None where that was not asked for, or too few
        tell it.
    """

    rule: Rule
    coefficient: float
    importance: float
    inside: float | None
    events_inside: float | None
    path: tuple[float, ...] = ()
    by_site: tuple[Counts, ...] = ()
    held_out: Counts | None = None
    held_out_by_site: tuple[Counts, ...] = ()
    between_sites: float | None = None
    sides: Sides | None = None
    level: str | None = None
    within: Effect | None = None
    elsewhere: Elsewhere | None = None
    found_again: int | None = None
    in_halves: float | None = None
    adjusted: Effect | None = None

    @property
    def key(self) -> TermKey:
        """What tells it from all other terms."""
        return self.rule, self.level

    @property
    def features(self) -> tuple[int, ...]:
        """The covariates that the rule names."""
        return self.rule.features


@dataclass(frozen=True)
class LinearTerm:
    """A linear term of the model; its coefficient is for 0.4·x/s*.

    Its ``level`` is that of the outcome for which it counts, as of a rule; ``found_again`` counts
    folds that have a linear term of the same covariate in the same direction, and ``in_halves`` is
    the share of random halves that do.
    """

    feature: int
    coefficient: float
    importance: float
    path: tuple[float, ...] = ()
    between_sites: float | None = None
    level: str | None = None
    found_again: int | None = None
    in_halves: float | None = None
    adjusted: Effect | None = None

    @property
    def key(self) -> TermKey:
        """What tells it from all other terms."""
        return self.feature, self.level

    @property
    def features(self) -> tuple[int, ...]:
        """The covariate of the term."""
        return (self.feature,)


Term = RuleTerm | LinearTerm


@dataclass(frozen=True)
class PathPoint:
    """One λ of the path.

    Parameters
    ----------
    penalty : float
        λ.
    deviance, error : float
        Mean deviance of the patients left out of each fold, and its standard error.
    terms, rules : int
        Terms and rules that a fit to all patients keeps.
    """

    penalty: float
    deviance: float
    error: float
    terms: int
    rules: int


@dataclass(frozen=True)
class Provenance:
    """What the model rests on.

    Parameters
    ----------
    sites : tuple of str
    patients : float
        Over all sites, with weights.
    events : float or None
        Those of them with the outcome; None where too few have it, or have it not.
    candidates : int
        Rules that entered the fit.
    solver : str
    penalty : float
        λ, as given or as chosen.
    rounds : int
        Rounds of communication of the fit, cross-validation included.
    objective : float
        Penalised mean loss at the end of the fit: in a rounded model, before rounding.
    certificate : Certificate
        How far that is from the optimum of the pooled problem: of a rounded model,
        before rounding.
    history : tuple of float
        Penalised mean loss round by round: where the round starts (FedDA), or
        where it got to (exact). Empty in a rounded model.
    path : tuple of PathPoint
        The path of the cross-validation; empty where λ was given.
    software : tuple of (name, version)
    by_site : tuple of Counts
        Patients of each site; empty without ``per_site``, or where a site has too few
        with or without the outcome.
    """

    sites: tuple[str, ...]
    patients: float
    events: float | None
    candidates: int
    solver: str
    penalty: float
    rounds: int
    objective: float
    certificate: Certificate
    history: tuple[float, ...]
    path: tuple[PathPoint, ...]
    software: tuple[tuple[str, str], ...]
    by_site: tuple[Counts, ...] = ()
