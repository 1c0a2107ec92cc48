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
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.grid import Bins, Grid, check_linear, on_public_edges
from fedrulefit.errors import StudyError, explain
from fedrulefit.toml import check_facts, open_toml

STUDY_FORMAT: Final = 1

MOST_EPSILON: Final = 1.0
"""Most ε that a histogram takes of the study's total: more is not worth its price."""

Level = bool | int | float | str
"""A value as it stands in a table: ``1``, ``"Y"``, ``true``."""


def level_key(value: object) -> str:
    """Return the text under which two spellings of one level meet.

    ``1``, ``1.0``, ``"1"`` and ``"1.0"`` are the same level; so are ``True``
    and ``"true"``.
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    text = str(value).strip()
    if text.isascii() and text.isdecimal():
        # Not through a float: codes such as SNOMED's have more digits than it keeps.
        return text.lstrip("0") or "0"
    try:
        number = float(text)
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text
    if not np.isfinite(number):
        return text
    return str(int(number)) if number == int(number) else repr(number)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Settings(_Frozen):
    """Every number that the method leaves to its user.

    Parameters
    ----------
    noise : bool
        False turns the noise of the histograms off.
    epsilon_total : float
        Most ε of all histograms of a run together. Each covariate gets the same
        share, and none more than 1.
    epsilon : float or None
        ε of one histogram, whatever the number of covariates; None leaves it to
        `epsilon_total`.
    n_bins, n_cutoffs : int
        Bins B of a histogram and quantile levels Q (paper 2.2.1).
    winsor : float
        Share q winsorised at either end of a linear term.
    repair : {"clip", "project"}
        How negative noisy counts are mended after summing: clipped at 0 (the
        paper with erratum 9), or projected onto counts of the same total.
    spreads : {"exact", "histogram"}
        Whether sites send the spread of each number, or it is derived from
        the released histogram.
    centre : bool
        Centre linear terms at the released mean. The model is the same (the
        intercept absorbs it); FedDA then no longer depends on the origin of a
        unit.
    n_trees, mean_leaves, learning_rate : int, float, float
        C, L̄ (mean number of terminal nodes, erratum 6) and v of the boosting.
    subsample : float
        Share of a site's patients that each tree sees.
    min_leaf : float
        Least (weighted) number of patients in a leaf.
    drop_complements : bool
        Keep only one of a rule and its complement.
    linear_terms : bool
        Whether numbers and yes/no covariates enter as linear terms, too.
    single_cutoffs : bool
        Whether every single cut-off is a candidate rule (they need no data).
    linear_factor, interaction_factor : float
        Penalty factors of linear terms, and of rules with two or more
        conditions; rules with one condition have 1.
    solver : {"exact", "fedda"}
        Proximal Newton with a certificate, or the paper's FedDA.
    penalty : float or "cv"
        λ of the ℓ1 penalty, for the mean loss (erratum 2); ``cv`` chooses it by
        federated cross-validation (exact solver only).
    folds, path_length, path_ratio : int, int, float
        Of the cross-validation: folds, number of λs, and the smallest λ as a
        share of the largest.
    selection : {"min", "1se"}
        λ of least held-out deviance, or the largest within one standard error.
    max_rules : int or None
        Cross-validation chooses among the λs that keep at most so many rules.
    tolerance : float
        KKT residual at which the exact solver stops.
    max_rounds, max_active : int
        Most rounds of the exact solver, and most terms in a Hessian.
    rounds, local_steps, server_step, client_step : int, int, float, float
        R, G, η_s and η_c of FedDA.
    weighting : {"patients", "sites"}
        Whether a site counts by its patients or equally (erratum 3).
    holdout : float
        Share of each site's patients that the model is not learnt from, but judged
        on in the end; 0 judges on none.
    per_site : bool
        Whether the model also tells each site's own results: outcome rates inside
        and outside rules, and the evaluation. Every site's policy must allow
        ``site-results``.
    seed : int
        Seed of leaf counts, subsamples, folds and held-out patients. Never of
        privacy noise.
    """

    noise: bool = True
    epsilon_total: float = Field(default=10.0, gt=0)
    epsilon: float | None = Field(default=None, gt=0)
    n_bins: int = Field(default=100, ge=2, le=10_000)
    n_cutoffs: int = Field(default=32, ge=1, le=MAX_CODES - 1)
    winsor: float = Field(default=0.025, ge=0, lt=0.5)
    repair: Literal["clip", "project"] = "project"
    spreads: Literal["exact", "histogram"] = "histogram"
    centre: bool = True
    n_trees: int = Field(default=333, ge=0, le=100_000)
    mean_leaves: float = Field(default=4.0, ge=2)
    learning_rate: float = Field(default=0.01, gt=0, le=1)
    subsample: float = Field(default=1.0, gt=0, le=1)
    min_leaf: float = Field(default=5, ge=1)
    drop_complements: bool = True
    linear_terms: bool = True
    single_cutoffs: bool = True
    linear_factor: float = Field(default=0.2, ge=0)
    interaction_factor: float = Field(default=2.0, ge=0)
    solver: Literal["exact", "fedda"] = "exact"
    penalty: Literal["cv"] | Annotated[float, Field(ge=0)] = "cv"
    folds: int = Field(default=5, ge=2, le=100)
    path_length: int = Field(default=30, ge=2, le=1000)
    path_ratio: float = Field(default=1e-3, gt=0, lt=1)
    selection: Literal["min", "1se"] = "min"
    max_rules: int | None = Field(default=None, ge=0)
    tolerance: float = Field(default=1e-8, gt=0)
    max_rounds: int = Field(default=100, ge=1)
    max_active: int = Field(default=300, ge=1)
    rounds: int = Field(default=300, ge=1, le=1_000_000)
    local_steps: int = Field(default=20, ge=1, le=100_000)
    server_step: float = Field(default=1.0, gt=0)
    client_step: float = Field(default=0.01, gt=0)
    weighting: Literal["patients", "sites"] = "patients"
    holdout: float = Field(default=0.0, ge=0, le=0.9)
    per_site: bool = False
    seed: int = Field(default=0, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _check(self) -> Settings:
        if self.solver == "fedda" and self.penalty == "cv":
            raise ValueError("FedDA needs a number as 'penalty': cross-validation is exact only")
        return self


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "paper": {
        "noise": True,
        "epsilon": 1.0,
        "n_bins": 100,
        "n_cutoffs": 20,
        "winsor": 0.025,
        "repair": "clip",
        "spreads": "exact",
        "centre": False,
        "n_trees": 333,
        "mean_leaves": 4.0,
        "learning_rate": 0.01,
        "subsample": 1.0,
        "min_leaf": 5,
        "drop_complements": False,
        "linear_terms": True,
        "single_cutoffs": False,
        "linear_factor": 1.0,
        "interaction_factor": 1.0,
        "solver": "fedda",
        "penalty": 0.01,
        "rounds": 300,
        "local_steps": 20,
        "server_step": 1.0,
        "client_step": 0.01,
        "weighting": "patients",
        "holdout": 0.0,
        "per_site": False,
    },
}
"""Named settings. ``paper`` states every number, so that a later change of a
default cannot move it."""


def resolve_settings(preset: str | None = None, **overrides: Any) -> Settings:
    """Return the settings of `preset` with `overrides` on top."""
    return check_settings(_override(_preset_facts(preset or "default"), overrides))


def check_settings(facts: Mapping[str, Any]) -> Settings:
    """Check `facts` and build the settings, or say what is wrong with them."""
    try:
        return Settings.model_validate(facts)
    except ValidationError as error:
        raise StudyError(explain(error, "these settings are not valid:")) from None


def override_settings(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return `settings` with `overrides` on top."""
    return check_settings(_override(settings.model_dump(), overrides))


def _override(facts: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Put `overrides` on `facts`; an ε given here beats a total or "no noise" given there."""
    implied: dict[str, Any] = {}
    if overrides.get("epsilon_total") is not None:
        implied = {"noise": True, "epsilon": None}
    if overrides.get("epsilon") is not None:
        implied = {"noise": True}
    return {**facts, **implied, **overrides}


def _preset_facts(name: str) -> Mapping[str, Any]:
    if name not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        raise StudyError(f"preset {name!r} is not known: choose one of {known}")
    return PRESETS[name]


class Outcome(_Frozen):
    """The yes/no outcome and which of its values is the event."""

    column: str = Field(min_length=1)
    positive: Level = 1
    negative: Level = 0
    label: str = ""
    expected_rate: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _check(self) -> Outcome:
        if level_key(self.positive) == level_key(self.negative):
            raise ValueError(
                "'positive' and 'negative' are the same value: give the value of "
                "patients with the event as 'positive' and the other as 'negative'"
            )
        if self.expected_rate is not None:
            low, high = self.expected_rate
            if not 0 <= low < high <= 1:
                raise ValueError("'expected_rate' must be two shares, e.g. [0.05, 0.40]")
        return self


class _Covariate(_Frozen):
    label: str = ""
    note: str = ""
    complete: bool = False
    """Whether a missing value is an error."""


class Number(_Covariate):
    """A measured number with a public range."""

    kind: Literal["number"] = "number"
    range: tuple[float, float]
    unit: str = ""
    spacing: Literal["linear", "log"] = "linear"
    step: float | None = Field(default=None, gt=0)
    cutoffs: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Number:
        low, high = self.range
        if not low < high:
            raise ValueError("'range' must be [lowest, highest] with lowest < highest")
        if self.spacing == "log" and low <= 0:
            raise ValueError("'spacing = \"log\"' needs a range that starts above 0")
        if self.cutoffs is not None:
            cuts = self.cutoffs
            if not 1 <= len(cuts) <= MAX_CODES - 1:
                raise ValueError(f"'cutoffs' must be 1 to {MAX_CODES - 1} numbers")
            if any(a >= b for a, b in pairwise(cuts)):
                raise ValueError("'cutoffs' must increase")
            if cuts[0] <= low or cuts[-1] > high:
                raise ValueError("'cutoffs' must lie inside 'range'")
        return self

    def bins(self, n_bins: int) -> Bins:
        """Return the public histogram bins."""
        low, high = self.range
        spaced = np.geomspace if self.spacing == "log" else np.linspace
        edges = spaced(low, high, n_bins + 1)
        edges[0], edges[-1] = low, high
        fixed = None if self.cutoffs is None else np.asarray(self.cutoffs, np.float64)
        return Bins.numeric(edges, cutoffs=fixed, step=self.step, complete=self.complete)


class Category(_Covariate):
    """One of a few named levels, in no order."""

    kind: Literal["category"] = "category"
    levels: tuple[Level, ...] = Field(min_length=2, max_length=MAX_CODES)
    labels: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Category:
        if len({level_key(level) for level in self.levels}) != len(self.levels):
            raise ValueError("'levels' names one level twice (1, 1.0 and \"1\" are the same)")
        if self.labels is not None and len(self.labels) != len(self.levels):
            raise ValueError("'labels' must have one entry per level")
        return self

    def bins(self, n_bins: int) -> Bins:
        """Return one bin per level."""
        del n_bins
        return Bins.categorical(len(self.levels), complete=self.complete)


class YesNo(_Covariate):
    """Two values; ``yes`` is coded 1."""

    kind: Literal["yes/no"] = "yes/no"
    yes: Level = 1
    no: Level = 0
    labels: tuple[str, str] | None = None
    """Words for (no, yes), such as ``["male", "female"]``."""

    @model_validator(mode="after")
    def _check(self) -> YesNo:
        if level_key(self.yes) == level_key(self.no):
            raise ValueError("'yes' and 'no' are the same value")
        return self

    def bins(self, n_bins: int) -> Bins:
        """Return the two bins around the only cut-off."""
        del n_bins
        return Bins.binary(complete=self.complete)


Covariate = Annotated[Number | Category | YesNo, Field(discriminator="kind")]


class Weight(_Frozen):
    """A column of patient weights and the public bound on one weight."""

    column: str = Field(min_length=1)
    max: float = Field(gt=0)


class Study(_Frozen):
    """All that the sites agree on before any table is opened."""

    format: Literal[1] = STUDY_FORMAT
    name: str = Field(min_length=1)
    description: str = ""
    synthetic: bool = False
    ranges_from_data: bool = False
    """True where ranges were read off the data, as the estimators do: then
    they are a release that no ε covers, and the bill says so."""
    outcome: Outcome
    covariates: dict[str, Covariate] = Field(min_length=1)
    weight: Weight | None = None
    settings: Settings = Settings()

    @field_validator("settings", mode="before")
    @classmethod
    def _expand_preset(cls, value: object) -> object:
        if isinstance(value, Mapping) and "preset" in value:
            overrides = {k: v for k, v in value.items() if k != "preset"}
            return _override(_preset_facts(str(value["preset"])), overrides)
        return value

    @model_validator(mode="after")
    def _check(self) -> Study:
        for name in self.covariates:
            if name != name.strip() or not name:
                raise ValueError(f"covariate {name!r}: a name must not be empty or end in spaces")
        special = [self.outcome.column] + ([self.weight.column] if self.weight else [])
        for column in special:
            if column in self.covariates:
                raise ValueError(f"column {column!r} cannot be a covariate, too")
        if self.weight and self.weight.column == self.outcome.column:
            raise ValueError("outcome and weight name the same column")
        return self

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical form: equal exactly for equal studies."""
        text = json.dumps(self.model_dump(mode="json"), separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def names(self) -> tuple[str, ...]:
        """The covariates in their order."""
        return tuple(self.covariates)

    @property
    def most_weight(self) -> float:
        """The most that one patient can count."""
        return 1.0 if self.weight is None else self.weight.max

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
        return tuple(c.bins(self.settings.n_bins) for c in self.covariates.values())

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
            if axis.has_linear:
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
        """Return the same study with other settings."""
        if preset is None:
            settings = override_settings(self.settings, overrides)
        else:
            settings = resolve_settings(preset, **overrides)
        # Not model_copy: it would copy the cached digest along.
        return Study.model_validate({**self.model_dump(), "settings": settings})

    @classmethod
    def from_mapping(cls, facts: Mapping[str, Any], *, source: str = "study") -> Study:
        """Check `facts` and build the study, or say what is wrong with them."""
        return check_facts(facts, cls, "study", StudyError, source)

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read ``study.toml``."""
        facts = open_toml(path, "study", StudyError, "write one with 'fedrulefit study draft'")
        return cls.from_mapping(facts, source=str(path))
