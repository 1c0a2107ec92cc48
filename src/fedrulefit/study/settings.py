"""The settings of the method, and the presets: named sets of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, model_validator

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.errors import StudyError, explain
from fedrulefit.study.fields import Frozen


class Settings(Frozen):
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
    return check_settings(expand_preset(preset or "default", overrides))


def expand_preset(name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a preset, not yet checked, with `overrides` on top."""
    if name not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        raise StudyError(f"preset {name!r} is not known: choose one of {known}")
    return _override(PRESETS[name], overrides)


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
