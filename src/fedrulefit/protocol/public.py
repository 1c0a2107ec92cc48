"""What everybody in a run knows, and what a question may be, on these public grounds alone.

In: the study, and the grid and rules that were agreed on. Out: sizes, bounds and penalty
factors, the same at every site and at the coordinator. A question that goes beyond is refused
before a patient is touched, so a refusal tells nothing of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.dispersion import is_step
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import Bounds, largest_predictor
from fedrulefit.core.grid import Grid, term_bounds
from fedrulefit.core.layout import Layout, Owners
from fedrulefit.core.limits import Limits
from fedrulefit.core.own import scale_spread, with_room
from fedrulefit.core.rules import Rule, check_rules
from fedrulefit.core.signs import Signs
from fedrulefit.errors import ProtocolError
from fedrulefit.model.terms import TermKey
from fedrulefit.protocol.solver_settings import make_factors
from fedrulefit.study import Settings, Study

SITE_WEIGHT: Final = 1024.0
"""What a site counts where all sites count equally; only ratios matter."""

WEIGHT_UNIT: Final = 1024
"""A patient's weight is counted in units of 1/1024, so that noise stays integer."""

MAX_RULES: Final = 100_000
"""Most rules that a design is built from."""


@dataclass(frozen=True, eq=False)
class Public:
    """What is known of a run.

    Parameters
    ----------
    study : Study
    agreed : Grid or None
        The shared cut-offs, once they are handed out.
    rules : tuple of Rule or None
        The rules of the fit, once they are handed out.
    n_sites : int
        Sites with which the run began.
    dispersion : float or None
        How much outcomes vary about their means, once that is learnt and handed out.
    only : frozenset of terms, or None
        What the fit may use beside what the study keeps, if not all: the coordinator's own
        business.
    """

    study: Study
    agreed: Grid | None = None
    rules: tuple[Rule, ...] | None = None
    n_sites: int = 1
    dispersion: float | None = None
    only: frozenset[TermKey] | None = None

    def with_sites(self, n_sites: int) -> Public:
        """Return what is known once a run begins among so many sites."""
        return replace(self, n_sites=n_sites)

    def with_grid(self, grid: Grid) -> Public:
        """Return what is known once cut-offs are shared; rules on others are none."""
        return replace(self, agreed=grid, rules=None)

    def with_rules(self, rules: tuple[Rule, ...]) -> Public:
        """Return what is known once the rules of the fit are shared."""
        return replace(self, rules=rules)

    def with_dispersion(self, dispersion: float) -> Public:
        """Return what is known once a dispersion is shared."""
        return replace(self, dispersion=dispersion)

    @property
    def settings(self) -> Settings:
        """The study's settings."""
        return self.study.settings

    @property
    def grid(self) -> Grid:
        """The shared cut-offs."""
        if self.agreed is None:
            raise ProtocolError("rules came before the grid", "order")
        return self.agreed

    @property
    def fitted_rules(self) -> tuple[Rule, ...]:
        """The rules of the fit."""
        if self.rules is None:
            raise ProtocolError("a fitting round came before the rules", "order")
        return self.rules

    @cached_property
    def family(self) -> Family:
        """What the linear predictor means."""
        family = self.study.family.with_dispersion(self.dispersion)
        return family if self.settings.fit_spread is None else with_room(family)

    @cached_property
    def owners(self) -> Owners | None:
        """Of which of a patient's predictors each term is; None where all share rules."""
        if not self.family.own_terms:
            return None
        at = self.columns
        owners, n_baseline = self.family.n_owners, at.n_baseline
        return Owners.of_each(owners, at.n_rules, at.n_linear, n_baseline=n_baseline)

    @cached_property
    def columns(self) -> Layout:
        """Where baseline, rules and linear terms stand, each once, however many have it."""
        n_linear = len(self.grid.linear) if self.settings.linear_terms else 0
        n_baseline = self.family.n_baseline // self.family.n_owners
        return Layout(n_baseline, len(self.fitted_rules), n_linear)

    @cached_property
    def layout(self) -> Layout:
        """Where baseline, rules and linear terms stand in the coefficient vector."""
        return self.columns if self.owners is None else self.owners.layout

    @property
    def n_terms(self) -> int:
        """All terms of the fit."""
        return self.layout.n_terms

    @property
    def n_folds(self) -> int:
        """Folds of the cross-validation; 0 without one."""
        return self.settings.folds if self.settings.penalty == "cv" else 0

    @property
    def by_patients(self) -> bool:
        """Whether sites count by their patients."""
        return self.settings.weighting == "patients"

    @cached_property
    def bounds(self) -> Bounds:
        """How large the numbers of a patient's row can be: a term, and what the row counts."""
        weight = self.study.most_row if self.by_patients else SITE_WEIGHT
        sizes, unit = self._spread(self.column_bounds), self.family.unit
        spread = self.settings.fit_spread
        own = None if spread is None else scale_spread(self.family, spread)
        return Bounds(sizes, weight, unit, own)

    @cached_property
    def column_bounds(self) -> Floats:
        """The largest size of each column, shape (n_columns,)."""
        return term_bounds(self.grid, self.columns)

    @cached_property
    def factors(self) -> Floats:
        """Penalty factors π, shape (n_terms,)."""
        made = make_factors(self.settings, self.fitted_rules, self.columns, self.grid)
        factors = self._spread(made)
        if self.kept is not None:
            factors[self.kept] = 0.0
        return factors

    @cached_property
    def limits(self) -> Limits | None:
        """What the study's wishes leave of the candidates; None without wishes."""
        if not self.study.wished.any:
            return None
        try:
            return self.study.wished.on_grid(self.grid)
        except ValueError as error:
            raise ProtocolError(str(error), "grid") from None

    @cached_property
    def kept(self) -> Bools | None:
        """Which terms the study keeps unpenalised, shape (n_terms,); None without any."""
        if self.limits is None or not self.limits.keeps:
            return None
        kept = self.limits.find_kept(self.fitted_rules, self.columns)
        return kept if self.owners is None else kept[self.owners.at]

    @cached_property
    def signs(self) -> Signs | None:
        """The signs that coefficients may have; None where they may have any."""
        signs: Signs | None = None
        if self.limits is not None and self.limits.signed:
            found = self.limits.find_signs(self.fitted_rules, self.columns)
            signs = found if self.owners is None else found.take(self.owners.at)
        if self.only is None:
            return signs
        stays = np.ones(self.n_terms, dtype=np.bool_)
        stays[self.layout.effects] = [k in self.only for k in self.keys_of(np.arange(self.n_terms))]
        stays |= False if self.kept is None else self.kept
        return Signs(stays, stays) if signs is None else signs.among(stays)

    def _spread(self, numbers: Floats) -> Floats:
        return numbers if self.owners is None else self.owners.spread(numbers)

    # --- A model's terms, and their columns -----------------------------------------------------

    def columns_of(self, terms: Ints) -> Ints:
        """Return the columns that some terms need, each once, increasing."""
        return terms if self.owners is None else self.owners.take(terms)[1]

    def among(self, terms: Ints) -> Layout:
        """Return where the columns that some terms need stand."""
        return self.columns.among(self.columns_of(terms))

    def places_of(self, terms: Ints) -> Ints:
        """Return the column of each term, as its place among those that these terms need."""
        return np.arange(len(terms)) if self.owners is None else self.owners.take(terms)[0].at

    def bounds_of(self, terms: Ints) -> Floats:
        """Return the largest sizes of the columns that some terms need."""
        return self.column_bounds[self.columns_of(terms)]

    def rules_of(self, terms: Ints) -> list[Rule]:
        """Return the rules that a model's terms need, each once."""
        places = self.columns.rules_among(self.columns_of(terms))
        return [self.fitted_rules[k] for k in places.tolist()]

    def linear_of(self, terms: Ints) -> list[int]:
        """Return the covariates of the linear terms that a model's terms need, each once."""
        places = self.columns.linear_among(self.columns_of(terms))
        return [self.grid.linear[k] for k in places.tolist()]

    def levels_of(self, terms: Ints) -> list[str | None]:
        """Return for which level of the outcome each term counts; None where for all."""
        if self.owners is None:
            return [None] * len(terms)
        return [self.family.names[part] for part in self.owners.parts[terms].tolist()]

    def keys_of(self, terms: Ints) -> list[tuple[Rule | int, str | None]]:
        """Return what tells each term but the baseline from all others.

        Its rule or covariate, and the level of the outcome for which it counts.
        """
        own, columns, places = self.layout.among(terms), self.among(terms), self.places_of(terms)
        things: list[Rule | int] = [*self.rules_of(terms), *self.linear_of(terms)]
        at = (places[own.effects] - columns.effects.start).tolist()
        levels = self.levels_of(terms)[own.effects]
        return [(things[k], level) for k, level in zip(at, levels, strict=True)]

    def terms_of_rules(self, places: Ints) -> Ints:
        """Return all terms of the rules at these places."""
        columns = self.columns.of_rules(places)
        if self.owners is None:
            return columns
        return np.flatnonzero(np.isin(self.owners.at, columns))

    # --- What a question may be ---------------------------------------------------------------

    def check_rules(self, rules: tuple[Rule, ...]) -> None:
        """Refuse rules that are not canonical, or too many."""
        if len(rules) > MAX_RULES:
            raise ProtocolError(f"{len(rules)} rules, of at most {MAX_RULES}")
        grid = self.grid
        try:
            check_rules(rules, grid)
        except ValueError as error:
            raise ProtocolError(str(error)) from None

    def check_terms(self, terms: Ints) -> None:
        """Refuse what are not increasing terms with the whole baseline."""
        if not self.layout.holds(terms):
            raise ProtocolError("terms must be increasing positions that start with 0")

    def check_coefs(self, terms: Ints, coef: Floats) -> None:
        """Refuse what are not one coefficient for each of some terms, of a size to answer."""
        self.check_terms(terms)
        check_length(coef, len(terms), "coefficients")
        self.check_size(terms, coef)

    def check_size(self, terms: Ints, coef: Floats, *, most: float = math.inf) -> None:
        """Refuse coefficients with which a patient's numbers could outgrow a sum."""
        most = min(most, self.family.largest_predictor)
        n_predictors = self.family.n_baseline
        largest = largest_predictor(coef, self.bounds.terms[terms], n_predictors)
        if not largest <= most:
            raise ProtocolError(
                f"the coefficients are too large: Σ |β|·(largest size of the term) must stay "
                f"below {most:g}",
                "overflow",
            )

    def check_dispersion(self, dispersion: float, *, none: bool = False) -> None:
        """Refuse what is no public step of a dispersion that is learnt; `none`: but 0."""
        family = self.study.family
        if not family.disperses:
            raise ProtocolError("the study's outcome has no dispersion that is learnt")
        if not (is_step(dispersion, family.ladder) or (none and dispersion == 0)):
            raise ProtocolError("a dispersion must be a step of the public ladder")


def check_length(array: Floats, expected: int, what: str) -> None:
    """Refuse an array of another length."""
    if array.shape != (expected,):
        raise ProtocolError(f"expected {expected} {what}, got {array.shape}")
