"""The parts of a model file, as they stand in it: names, types and bounds.

What they mean is in the documentation (``docs/model-file.md``); that they fit each other is
checked in :mod:`fedrulefit.model.file.building`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from fedrulefit.model.file.part import Numbers, Part
from fedrulefit.model.file.term_parts import CountsPart, LinearPart, RulePart
from fedrulefit.model.wishes import Kind as WishKind

FORMAT: Final = "fedrulefit-model"
VERSION: Final = 3


class AxisPart(Part):
    """How the values of a covariate become codes, and its linear term."""

    covariate: str = Field(description="Name of the covariate.")
    kind: Literal["number", "category", "ordered", "yes/no"] = Field(
        description='`"number"`, `"category"`, `"ordered"` or `"yes/no"`.'
    )
    cutoffs: list[float] = Field(description="Cut-offs, increasing, exact. Empty for a category.")
    codes: int = Field(
        description="How many codes a known value can have: cut-offs + 1, or levels."
    )
    limits: list[float] = Field(
        min_length=2,
        max_length=2,
        description="Winsor limits δ⁻ and δ⁺ of the linear term.",
    )
    spread: float = Field(description="s*; 0 where there is no linear term.")
    centre: float = Field(description="Subtracted from the winsorised value.")
    fill: float = Field(description="What a missing value counts as in the linear term.")
    shares: list[Annotated[float, Field(ge=0, le=2)]] | None = Field(
        default=None,
        description="Share of patients with each code, that of missing values last unless the "
        "covariate is complete, as the released (noisy) histograms tell; rounded as "
        "[counts](#what-a-published-model-still-tells), so they add up to about 1. Of use for "
        "averages, not for predictions. Null where no histogram was released, and in older files.",
    )


class PrivacyPart(Part):
    """What left the sites, and what it cost."""

    mechanism: str = Field(
        description="Noise of the histograms, as the sites named it; `none` without histograms."
    )
    epsilon_per_histogram: float | None = Field(
        description="ε of one histogram; `null` without noise."
    )
    n_histograms: int = Field(
        ge=0,
        description="Histograms that each patient stands in.",
    )
    ranges_from_data: bool = Field(description="Whether ranges were read off the data.")
    exact: list[str] = Field(description="What left the sites without noise, in words.")
    sums: list[str] = Field(
        default=[],
        description="What was summed over sites without noise, in words. Empty in older files, "
        "which tell it under `exact`.",
    )
    sum_of: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="How many sites were in the secure sums; `null` if the coordinator saw each "
        "site's own numbers.",
    )


class CertificatePart(Part):
    """How far the fit is from the optimum."""

    residual: float = Field(
        ge=0,
        description="KKT residual: the largest entry of the least subgradient.",
    )
    gap: Annotated[float, Field(ge=0)] | None = Field(
        description="Duality gap: the objective lies at most so much above its minimum. `null` "
        "where a term other than the intercept has no penalty."
    )


class PathPart(Part):
    """One λ of the cross-validation."""

    penalty: float = Field(
        ge=0,
        description="λ.",
    )
    deviance: float = Field(description="Mean deviance of held-out patients over the folds.")
    error: float = Field(description="Its standard error.")
    terms: int = Field(
        ge=0,
        description="Terms that the fit to all patients keeps at this λ. At the chosen λ a "
        "rounded model may have fewer: those whose coefficients round to 0 leave.",
    )
    rules: int = Field(
        ge=0,
        description="Rules among them.",
    )


class ProvenancePart(Part):
    """What the model rests on."""

    sites: list[str] = Field(description="Names of the sites.")
    patients: float = Field(
        gt=0,
        description="Patients over all sites (with weights).",
    )
    events: Annotated[float, Field(ge=0)] | None = Field(
        description="Those of them with the event; null where too few have it, or have it not."
    )
    candidates: int = Field(
        ge=0,
        description="Rules that the fit could choose from.",
    )
    solver: str = Field(description='Name of the solver: `"exact"` or `"fedda"`.')
    penalty: float = Field(
        ge=0,
        description="λ, as given or as chosen by cross-validation.",
    )
    rounds: int = Field(
        ge=0,
        description="Rounds of the fit, cross-validation included.",
    )
    objective: float = Field(
        description="Penalised mean loss at the end of the fit: in a rounded model, before its "
        "coefficients were rounded."
    )
    certificate: CertificatePart = Field(
        description="How far that is from the optimum of the pooled problem: of a rounded "
        "model, before rounding."
    )
    history: list[float] = Field(
        description="Penalised mean loss of the fit to all patients, round by round; during "
        "cross-validation at the λ of that round. Empty in a rounded model."
    )
    path: list[PathPart] = Field(
        description="The λs of the cross-validation, falling; empty where λ was given."
    )
    software: dict[str, str] = Field(
        description="Versions of fedrulefit and the libraries of the coordinator."
    )
    by_site: list[CountsPart] = Field(
        default=[],
        description="`[patients, events]` of each site, rounded; empty without `per_site`, or "
        "where a site has too few with or without the outcome.",
    )


class RoundingPart(Part):
    """How coarse counts are."""

    multiple: int = Field(
        ge=1,
        description="Counts are multiples of this (times the most that one patient "
        "counts); 1: exact.",
    )
    smallest: int = Field(
        ge=0,
        description="Smaller counts are null, and those whose complement is smaller; 0: all are "
        "told.",
    )


class OverTimePart(Part):
    """How far off risks by each horizon are: Brier scores, by inverse probability of censoring."""

    times: list[float] = Field(description="The horizons.")
    brier: list[float] = Field(description="The Brier score by each.")
    bounds: list[float] = Field(description="The most that counting in bins can shift each.")
    integrated: float | None = Field(
        default=None,
        description="The mean Brier score up to the last horizon; left out where events compete.",
    )
    integrated_bound: float | None = Field(
        default=None, description="The most that counting in bins can shift it."
    )
    observed: list[float] = Field(
        default=[],
        description="Where events compete: the observed risk of the event of interest by each "
        "horizon, by Aalen and Johansen.",
    )
    expected: list[float] = Field(
        default=[], description="Where events compete: the mean predicted risk by each horizon."
    )


class EvaluationPart(Part):
    """How well held-out patients are predicted."""

    overall: Numbers = Field(description="Measures over all sites.")
    groups: list[Numbers] = Field(
        min_length=1,
        description="Calibration and decisions: patients by predicted probability, from 0 to 1. "
        "Neighbours are merged until each holds enough with and without the event, "
        "never fewer than five.",
    )
    sums: dict[str, float | list[float]] = Field(
        default={},
        description="What else measures rest on, by name; not there for a yes/no outcome.",
    )
    sites: dict[str, Numbers] = Field(
        description="Measures of each site, rounded; empty without `per_site`, or where a site "
        "has too few patients."
    )
    within: dict[str, int | float] | None = Field(
        default=None,
        description="How well patients of one and the same site are told apart; null where fewer "
        "than two sites have enough for that, and in older files.",
    )
    judged: RoundingPart | None = Field(
        default=None,
        description="How coarse the model was when it was judged, as in `rounding`. Where that "
        "is finer than the model's own, it was judged before it was rounded.",
    )
    over_time: OverTimePart | None = Field(
        default=None,
        description="Of a time to an event, scores by each horizon; left out where nobody was "
        "followed to the last, or for a while nobody was at risk.",
    )
    own: EvaluationPart | None = Field(
        default=None,
        description="Where sites have baselines of their own: the same patients, each judged with "
        "that of their site; the rest is without, as of new hospitals, but for `sites`. Left out "
        "where all share a baseline, and in older files.",
    )


class ValidationPart(Part):
    """How models of all sites but one predict the patients of that one."""

    sites: dict[str, Numbers] = Field(
        description="Measures of each site by the model of the others, rounded."
    )
    too_few: list[str] = Field(
        description="Sites with too few patients with or without the event to tell theirs."
    )


class WishPart(Part):
    """What became of a wish of the study."""

    kind: WishKind = Field(description="Which sort of wish.")
    text: str = Field(description="The wish: a rule in words, or covariates.")
    fate: str = Field(description="What became of it.")
    price: float | None = Field(
        default=None,
        description="By how much the cross-validated deviance of a patient rises with it, beside "
        "the same fit without; null where nobody asked.",
    )
    error: float | None = Field(
        default=None, ge=0, description="Standard error of that over the folds."
    )


class EditPart(Part):
    """A change that somebody made to a finished model."""

    parent: str = Field(
        pattern="^[0-9a-f]{64}$", description="SHA-256 of the file of the model that was changed."
    )
    dropped: list[str] = Field(description="Terms that were taken out, in words.")
    added: list[str] = Field(description="Rules that were put in, in words.")
    price: float | None = Field(
        default=None,
        description="By how much the cross-validated deviance of a patient rose by it.",
    )
    error: float | None = Field(
        default=None, ge=0, description="Standard error of that over the folds."
    )


class FilePart(Part):
    """The whole file."""

    format: Literal["fedrulefit-model"] = Field(description=f'Always `"{FORMAT}"`.')
    version: int = Field(description=f"Version of this format, now {VERSION}.")
    study: dict[str, Any] = Field(
        description="The study, with every default written out; keys as in the [study "
        "file](howto-consortium.md#the-study-file-key-by-key)."
    )
    grid: list[AxisPart] = Field(description="One entry per covariate, in the study's order.")
    intercept: float = Field(description="β₀.")
    baseline: list[float] = Field(
        default=[],
        description="Where patients have several linear predictors, such as one for each "
        "interval of time: each one's baseline less β₀. Left out where there is one.",
    )
    dispersion: float | None = Field(
        default=None,
        ge=0,
        description="Of negative binomial counts, α = 1/θ: they vary about their mean μ by "
        "μ + αμ²; 0 where no more than Poisson's. Left out of other outcomes.",
    )
    terms: list[Annotated[RulePart | LinearPart, Field(discriminator="kind")]] = Field(
        description="Terms with a coefficient other than 0, most important first."
    )
    wishes: list[WishPart] = Field(
        default=[],
        description="What became of the study's [wishes](wishes.md); left out where it has none.",
    )
    edits: list[EditPart] = Field(
        default=[],
        description="By which changes it was [made of another model](wishes.md#after-the-fit), "
        "the last one last; left out where by none.",
    )
    rounding: RoundingPart | None = Field(
        description="How coarse its [counts](#what-a-published-model-still-tells) are; null in "
        "a file that was made before they were rounded."
    )
    privacy: PrivacyPart = Field(description="The privacy bill.")
    provenance: ProvenancePart = Field(description="What the model rests on.")
    evaluation: EvaluationPart | None = Field(
        description="How well it predicts held-out patients; null where none were held out, or "
        "too few (the study's `holdout` tells which)."
    )
    validation: ValidationPart | None = Field(
        description="How well models of all sites but one predict the patients of that one, site "
        "by site; null where that was not tried. Files of version 2 also added the sites up, "
        "which no longer counts: scores of different models cannot be pooled."
    )
