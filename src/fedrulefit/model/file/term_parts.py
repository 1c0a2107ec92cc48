"""The parts of a model file that are its terms: names, types and bounds, as in ``parts.py``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from fedrulefit.model.file.part import Part


class ConditionPart(Part):
    """What a rule asks of one covariate."""

    covariate: str = Field(description="Name of the covariate.")
    interval: list[int] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="Number or yes/no: codes `[lo, hi)`. Code c means that c cut-offs are ≤ the "
        "value. `[0, 0]` means that only a missing value satisfies.",
    )
    levels: list[int] | None = Field(
        default=None,
        description="Category: positions of the levels that satisfy, from 0.",
    )
    missing: bool = Field(description="Whether a missing value satisfies the condition.")


CountsPart = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=2)]


def _between() -> Any:
    return Field(
        default=None,
        description="Roughly, the share of its variance that lies between the sites, in a rounded "
        "model in steps of 0.05; null where that is not told (not asked for, one site, too few "
        "inside or outside), and in older files.",
    )


ShareBetween = Annotated[float, Field(ge=0, le=1)] | None


class MomentPart(Part):
    """The observed risk on one side of a rule by a time."""

    time: float = Field(description="The time; one of the public ends of intervals.")
    level: float = Field(ge=0, le=1, description="The risk by then.")
    error: float = Field(ge=0, description="Its standard error, on the scale of `level`'s above.")
    watched: float = Field(ge=0, description="Patients at risk in the interval that ends there.")
    events: float = Field(ge=0, description="Those with the event by then.")


class SidePart(Part):
    """The outcome of held-out patients on one side of a rule."""

    patients: float = Field(ge=0, description="Patients (with weights).")
    level: float = Field(
        description="Of a number their mean outcome, of a count their rate, of a time their risk "
        "by the last horizon, of levels, ordered or not, the share beyond the first."
    )
    error: float = Field(
        ge=0,
        description="Its standard error, what rounding adds included: of a mean itself, of a rate "
        "on the logarithmic scale, of a risk on the scale log(−log(1 − risk)).",
    )
    events: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="Their events, or what was counted; those beyond the first level; null of "
        "a number.",
    )
    curve: list[MomentPart] = Field(
        default=[],
        description="Of a time, the risk by earlier times than the last horizon, as far as enough "
        "patients tell it; left out where there is none.",
    )
    at_levels: list[Annotated[float, Field(ge=0)]] = Field(
        default=[],
        description="Of levels, ordered or not: patients at each. Left out where some level has "
        "too few inside or outside, for outcomes of other kinds, and in older files.",
    )


class SidesPart(Part):
    """The outcome of held-out patients inside and outside a rule."""

    inside: SidePart = Field(description="For whom the rule holds.")
    outside: SidePart = Field(description="For whom it does not.")


class EffectPart(Part):
    """How held-out patients inside a rule differ from those outside, within sites."""

    sites: int = Field(ge=1, description="Sites with enough patients for that.")
    estimate: Annotated[float, Field(ge=-300, le=300)] = Field(
        description="The effect on the scale of the linear predictor: the logarithm of an odds, "
        "rate or hazard ratio; of a number the difference in half ranges."
    )
    error: float = Field(
        gt=0,
        description="Its standard error, what rounding adds included; the 95 % interval is the "
        "estimate ± 1.96 of it.",
    )


class ElsewherePart(Part):
    """How far sites differ in what a rule does, and what a further site may see."""

    sites: int = Field(ge=5, description="Sites with an effect of their own.")
    spread: Annotated[float, Field(ge=0, le=300)] = Field(
        description="τ, the standard deviation of sites' effects beyond chance, on the scale of "
        "the linear predictor."
    )
    low: Annotated[float, Field(ge=-300, le=300)] = Field(
        description="From where the effect at a further site like these may lie, 19 times of 20."
    )
    high: Annotated[float, Field(ge=-300, le=300)] = Field(description="To where.")


def _found_again() -> Any:
    return Field(
        default=None,
        description="In how many folds of the cross-validation the fit without the fold has such "
        "a term ([what counts as such](method.md#found-again)); left out where λ was given, and in "
        "older files.",
    )


FoundAgain = Annotated[int, Field(ge=0)] | None


def _level() -> Any:
    return Field(
        default=None,
        description="Of classes: the class for which alone the term counts. Left out for outcomes "
        "of other kinds, and in older files.",
    )


def _in_halves() -> Any:
    return Field(
        default=None,
        description="In which share of random halves of the patients such a term is found again; "
        "left out where that was not asked for, and in older files.",
    )


InHalves = Annotated[float, Field(ge=0, le=1)] | None


def _adjusted() -> Any:
    return Field(
        default=None,
        description="What the term does given all others, of held-out patients; left "
        "out where that was not asked for, or too few tell it, and in older files.",
    )


class RulePart(Part):
    """A rule, its coefficient, and who satisfies it."""

    kind: Literal["rule"] = Field(description='`"rule"`.')
    level: str | None = _level()
    rule: str = Field(
        description="The rule in words. It must agree with the conditions, or the file is refused."
    )
    conditions: list[ConditionPart] = Field(
        description="All must hold; at most one per covariate, in the study's order."
    )
    coefficient: float = Field(description="β_k on the scale of the linear predictor.")
    importance: float = Field(
        ge=0,
        description="|β_k|·std, see [method](method.md#5-interpretation).",
    )
    between_sites: ShareBetween = _between()
    inside: Annotated[float, Field(ge=0)] | None = Field(
        description="Patients who satisfy the rule, of those it was learnt from, over all sites "
        "(with weights); null where too few do, or do not."
    )
    events_inside: Annotated[float, Field(ge=0)] | None = Field(
        description="Those of them with the event; null where too few inside or outside have "
        "it, or have it not."
    )
    path: list[float] = Field(
        description="Its coefficient at each λ of the path; empty where λ was given, and in a "
        "rounded model."
    )
    by_site: list[CountsPart] = Field(
        default=[],
        description="`[inside, events_inside]` of each site, rounded; empty where the study "
        "does not ask for it (`per_site`), or where a site has too few.",
    )
    held_out: CountsPart | None = Field(
        default=None,
        description="`[inside, events_inside]` of the patients that were held out, over all "
        "sites; null where none were, or where too few are inside or outside, with or without "
        "the event; never fewer than five.",
    )
    held_out_by_site: list[CountsPart] = Field(
        default=[],
        description="The same of each site in `evaluation.sites`, rounded; empty like `by_site`.",
    )
    held_out_sides: SidesPart | None = Field(
        default=None,
        description="Of outcomes other than yes/no: the outcome of the patients that were held "
        "out, over all sites; null where none were, or where too few are on one side.",
    )
    held_out_effect: EffectPart | None = Field(
        default=None,
        description="How the patients that were held out differ inside and outside the rule, "
        "within sites; left out where none were, or too few tell it, of levels, ordered or not, "
        "and in older files.",
    )
    elsewhere: ElsewherePart | None = Field(
        default=None,
        description="How far sites differ in that; left out where fewer than five tell it, and in "
        "older files.",
    )
    found_again: FoundAgain = _found_again()
    in_halves: InHalves = _in_halves()
    adjusted_effect: EffectPart | None = _adjusted()


class LinearPart(Part):
    """A linear term and its coefficient."""

    kind: Literal["linear"] = Field(description='`"linear"`.')
    level: str | None = _level()
    covariate: str = Field(description="Name of the covariate.")
    coefficient: float = Field(description="β*_j, for 0.4·(winsorised value − centre)/spread.")
    importance: float = Field(
        ge=0,
        description="|β*_j|·std.",
    )
    between_sites: ShareBetween = _between()
    found_again: FoundAgain = _found_again()
    in_halves: InHalves = _in_halves()
    adjusted_effect: EffectPart | None = _adjusted()
    path: list[float] = Field(
        description="Its coefficient at each λ of the path; empty where λ was given, and in a "
        "rounded model."
    )
