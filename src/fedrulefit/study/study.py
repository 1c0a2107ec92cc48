"""The study protocol that all sites sign: ``study.toml``.

In: a TOML file (or the same facts from Python). Out: a frozen :class:`Study`.
Nothing here is read off patients' data: ranges and levels are public facts
agreed on before any table is opened (paper 2.2.1, erratum 8).

A study names the outcome, the covariates and the settings of the method. Its
:attr:`Study.digest` travels in the header of every message, so that a site
never answers a question about another study.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from fedrulefit.core.bins import Bins
from fedrulefit.core.fixed import MOST_OFFSET
from fedrulefit.core.grid import Grid, check_linear, on_public_edges
from fedrulefit.core.plan import Plan, plan_candidates
from fedrulefit.errors import StudyError, explain
from fedrulefit.privacy.blur import Blur
from fedrulefit.study.covariates import Category, Covariate, Number, Patient, Unusual, Weight
from fedrulefit.study.fields import Lasting
from fedrulefit.study.outcomes import AnyOutcome
from fedrulefit.study.presets import expand_preset, override_settings, resolve_settings
from fedrulefit.study.settings import LATER, Settings
from fedrulefit.study.wishes import Wished, Wishes
from fedrulefit.toml import check_facts, open_toml

if TYPE_CHECKING:
    from fedrulefit.core.families import Family

STUDY_FORMAT: Final = 1

MOST_EPSILON: Final = 1.0
"""Most ε that a histogram takes of the study's total: more is not worth its price."""


class Study(Lasting):
    """All that the sites agree on before any table is opened."""

    later: ClassVar[tuple[str, ...]] = ("wishes",)

    format: Literal[1] = Field(
        default=STUDY_FORMAT, description="Version of the study file's format."
    )
    name: str = Field(min_length=1, description="Name of the study, shown with every result.")
    description: str = Field(default="", description="For people.")
    synthetic: bool = Field(
        default=False,
        description="True for made-up patients; results are then marked as such.",
    )
    ranges_from_data: bool = Field(
        default=False,
        description="True where ranges were read off the data, as the estimators do without a "
        "study: a release that no ε covers, and the privacy bill says so. Leave it out of a study "
        "between hospitals.",
    )
    outcome: AnyOutcome = Field(description="The outcome, see below.")
    covariates: dict[str, Covariate] = Field(
        min_length=1,
        description="One table per covariate, see below. The name of the table is the name of "
        "the column; their order counts.",
    )
    weight: Weight | None = Field(
        default=None,
        description="A column of patient weights, see below. Leave it out where every row is one "
        "patient.",
    )
    patient: Patient | None = Field(
        default=None,
        description="A column that says whose a row is, see below. Leave it out only where no "
        "patient has several rows.",
    )
    wishes: Wishes = Field(
        default=Wishes(),
        description="Vetoes, and rules of your own, see below.",
    )
    unusual: Unusual = Field(
        default=Unusual(),
        description="What a prediction makes of values that the study does not foresee, see below.",
    )
    settings: Settings = Field(
        default=Settings(),
        validate_default=True,
        description="Numbers of the method, see below. `preset` names a set of them "
        '(`"default"` where it is left out); keys beside it override.',
    )

    @field_validator("settings", mode="before")
    @classmethod
    def _expand_preset(cls, value: object) -> object:
        if isinstance(value, Mapping) and "preset" in value:
            overrides = {k: v for k, v in value.items() if k != "preset"}
            return expand_preset(str(value["preset"]), overrides)
        return value

    @field_validator("settings")
    @classmethod
    def _keep_lasso(cls, settings: Settings, info: ValidationInfo) -> Settings:
        """Leave counts whose terms cannot be pruned to the lasso, where nothing else is asked."""
        asked = "selection" in settings.model_fields_set
        if asked or not settings.prunes or not _learns_dispersion(info.data.get("outcome")):
            return settings
        return settings.model_copy(update={"selection": "min"})

    @model_validator(mode="after")
    def _check(self) -> Study:
        for name in self.covariates:
            if name != name.strip() or not name:
                raise ValueError(f"covariate {name!r}: a name must not be empty or end in spaces")
        roles: dict[str, str] = {}
        for role, column in self.special.items():
            if column in self.covariates:
                raise ValueError(f"column {column!r} cannot be a covariate, too")
            if column in roles:
                raise ValueError(f"{roles[column]} and {role} name the same column")
            roles[column] = role
        self._check_wishes()
        if self.settings.solver == "fedda" and not self.outcome.averages:
            raise ValueError(
                f"the paper's solver, Federated Dual Averaging, cannot learn an outcome of the "
                f'kind {self.outcome.kind!r}, whose slopes have no bound: choose solver = "exact"'
            )
        if self.settings.prunes and _learns_dispersion(self.outcome):
            raise ValueError(
                "terms of negative binomial counts cannot be pruned yet, since their dispersion is "
                "learnt in turns with the coefficients: choose another 'selection'"
            )
        if self.settings.fits_own:
            self._check_own()
        if self.settings.per_site and not (self.outcome.counts_events or self.settings.holdout):
            raise ValueError(
                f"of an outcome of the kind {self.outcome.kind!r} a site tells how well it is "
                "predicted, and no counts: per_site = true needs holdout above 0"
            )
        return self

    def _check_wishes(self) -> None:
        """Refuse wishes that contradict each other, or that the outcome or the solver cannot."""
        self.wished.check()
        directed = [n for n, c in self.covariates.items() if getattr(c, "direction", None)]
        if directed and not self.outcome.has_direction:
            raise ValueError(
                f"'direction' of {directed[0]!r}: of classes without an order, and of competing "
                "events, no prediction stands for all, since what raises one lowers others; leave "
                "'direction' out"
            )
        self._check_offsets()
        kept = [name for name, covariate in self.covariates.items() if covariate.keep]
        for name in kept:
            if self.covariates[name].kind != "category" and not self.settings.linear_terms:
                raise ValueError(
                    f"'keep' of {name!r} is of its linear term: 'linear_terms' must not be false"
                )
        rules = [c for n in kept if isinstance(c := self.covariates[n], Category)]
        n_rules = sum(len(c.levels) - 1 for c in rules) + len(self.wishes.kept_rules)
        n_terms = n_rules + len(kept) - len(rules)
        for key, needed in (("max_rules", n_rules), ("max_terms", n_terms)):
            most = getattr(self.settings, key)
            if most is not None and needed > most:
                raise ValueError(f"{needed} are kept in the model, of at most {most} ({key!r})")

    def _check_offsets(self) -> None:
        """Refuse offsets that the outcome or the settings have no use for."""
        for name in (self.names[j] for j in sorted(self.wished.offsets)):
            if not self.outcome.has_direction:
                raise ValueError(
                    f"'offset' of {name!r}: classes without an order, and competing events, have a "
                    "linear predictor each, and it is not said to which it would be added; leave "
                    "'offset' out"
                )
            if not self.settings.linear_terms:
                raise ValueError(
                    f"'offset' of {name!r} is a linear term: 'linear_terms' must not be false"
                )
            covariate = self.covariates[name]
            reach = MOST_OFFSET * self.family.offset_unit
            if isinstance(covariate, Number) and max(map(abs, covariate.range)) > reach:
                raise ValueError(
                    f"'offset' of {name!r}: its range must lie between {-reach:g} and {reach:g}, "
                    f"since it is added to the {self.family.words.predictor} as it is; bring "
                    "the score to that scale first"
                )

    @cached_property
    def wished(self) -> Wished:
        """What clinicians wish, read."""
        return Wished(self.covariates, self.wishes, self.settings.max_conditions)

    def _check_own(self) -> None:
        """Refuse what does not go with baselines of sites' own."""
        if self.settings.solver == "fedda":
            raise ValueError(
                "baseline = 'site' needs solver = 'exact': in FedDA's local steps a site cannot "
                "find a baseline of its own"
            )
        if self.settings.weighting == "sites":
            raise ValueError(
                "baseline = 'site' needs weighting = 'patients': how far a site's own baseline may "
                "go is weighed against its patients"
            )
        if _learns_dispersion(self.outcome):
            raise ValueError(
                "negative binomial counts cannot have baselines of sites' own yet, since their "
                "dispersion is learnt in turns with the coefficients: choose baseline = 'shared', "
                "or Poisson counts"
            )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical form: equal exactly for equal studies."""
        facts = self.model_dump(mode="json")
        for name in LATER:
            if facts["settings"][name] == Settings.model_fields[name].default:
                del facts["settings"][name]
        text = json.dumps(facts, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def family(self) -> Family:
        """What the model's linear predictor means for this outcome."""
        return self.outcome.family()

    @property
    def names(self) -> tuple[str, ...]:
        """The covariates in their order."""
        return tuple(self.covariates)

    @property
    def special(self) -> dict[str, str]:
        """The columns that are no covariates, by their role."""
        roles = {"weight": self.weight, "patient": self.patient}
        others = {role: named.column for role, named in roles.items() if named is not None}
        return {**self.outcome.columns, **others}

    @property
    def max_rows(self) -> int:
        """The most rows that one patient can have."""
        return 1 if self.patient is None else self.patient.max_rows

    @property
    def most_row(self) -> float:
        """The most that one row can count."""
        return 1.0 if self.weight is None else self.weight.max

    @property
    def most_weight(self) -> float:
        """The most that one patient can count, with all rows."""
        return self.max_rows * self.most_row

    @property
    def n_features(self) -> int:
        """The number of covariates."""
        return len(self.covariates)

    @property
    def epsilon_per_histogram(self) -> float | None:
        """ε of one covariate's histogram; None without noise."""
        if not self.settings.noise:
            return None
        share = min(self.settings.epsilon_total / self.n_features, MOST_EPSILON)
        return share if self.settings.epsilon is None else self.settings.epsilon

    @property
    def epsilon_run(self) -> float | None:
        """ε of all histograms of a run; None without noise."""
        each = self.epsilon_per_histogram
        return None if each is None else each * self.n_features

    @cached_property
    def bins(self) -> tuple[Bins, ...]:
        """The public histogram bins of every covariate."""
        n_bins, style = self.settings.n_bins, self.settings.cutoff_style
        made = [c.bins(n_bins, style) for c in self.covariates.values()]
        for j in self.wished.offsets:
            made[j] = made[j].as_offset(self.family.offset_unit)
        return tuple(self.wished.add_cutoffs(bins, j) for j, bins in enumerate(made))

    @property
    def blur(self) -> Blur:
        """How far the noise of the histograms moves cut-offs."""
        estimated = [b.n_bins for b in self.bins if b.kind == "number" and b.cutoffs is None]
        epsilon = self.epsilon_per_histogram if estimated else None
        return Blur(epsilon, max(estimated, default=self.settings.n_bins), self.most_weight)

    @cached_property
    def plan(self) -> Plan:
        """How many candidate rules need no data."""
        return plan_candidates(
            self.bins,
            n_cutoffs=self.settings.n_cutoffs,
            single=self.settings.single_cutoffs,
            most=self.settings.max_candidates,
        )

    def check_grid(self, grid: Grid) -> None:
        """Refuse a grid that is not of this study's covariates.

        Raises
        ------
        ValueError
            If kinds, levels or the cut-offs that the study fixes differ, or a linear term
            leaves the public range.
        """
        expected = [(b.kind, b.complete) for b in self.bins]
        if [(a.kind, a.complete) for a in grid.axes] != expected:
            raise ValueError("the grid does not fit the study's covariates")
        for axis, bins in zip(grid.axes, self.bins, strict=True):
            if axis.kind == "category" and axis.n_codes != bins.n_bins:
                raise ValueError("the grid does not fit a category's levels")
            if bins.cutoffs is not None and not np.array_equal(axis.cutoffs, bins.cutoffs):
                raise ValueError("the grid does not have the cut-offs that the study fixes")
            if not set(bins.added) <= set(axis.cutoffs.tolist()):
                raise ValueError("the grid lacks a cut-off of the study's own rules")
            if axis.has_linear or bins.offset is not None:
                check_linear(axis, bins)

    def check_public(self, grid: Grid) -> None:
        """Refuse cut-offs and limits that are not on the study's public bins.

        Raises
        ------
        ValueError
            If one is not: it could be a patient's value, or single one out.
        """
        for axis, bins in zip(grid.axes, self.bins, strict=True):
            if axis.ordered and not on_public_edges(axis, bins):
                raise ValueError("the grid has a cut-off or limit off the study's public bins")

    def with_settings(self, preset: str | None = None, **overrides: Any) -> Study:
        """Return the same study with other settings, or say which do not fit it."""
        if preset is None:
            settings = override_settings(self.settings, overrides)
        else:
            settings = resolve_settings(preset, **overrides)
        # Not model_copy: it would copy the cached digest along.
        try:
            return Study.model_validate({**self.model_dump(), "settings": settings})
        except ValidationError as error:
            heading = "these settings do not fit the study:"
            raise StudyError(explain(error, heading, "settings")) from None

    @classmethod
    def from_mapping(cls, facts: Mapping[str, Any], *, source: str = "study") -> Study:
        """Check `facts` and build the study, or say what is wrong with them."""
        return check_facts(facts, cls, "study", StudyError, source)

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read ``study.toml``."""
        facts = open_toml(path, "study", StudyError, "write one with 'fedrulefit study draft'")
        return cls.from_mapping(facts, source=str(path))


def _learns_dispersion(outcome: object) -> bool:
    """Whether the dispersion of an outcome is learnt in turns with the coefficients."""
    return getattr(outcome, "dispersion", "poisson") == "negative-binomial"
