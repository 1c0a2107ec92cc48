"""How sure a term is: its effect on held-out patients within hospitals, and in how many folds.

In: a model. Out: numbers and words for people. The mathematics is in
:mod:`fedrulefit.core.families.evidence` and :mod:`fedrulefit.core.refinding`. The penalised
coefficient is no such evidence: it is called *weight (shrunk)*, and never has an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fedrulefit.core.families import Family
from fedrulefit.model.terms import LinearTerm, Term

if TYPE_CHECKING:
    from fedrulefit.model.model import Model

WEIGHT: Final = "weight (shrunk)"
"""What the effect of a penalised coefficient is called."""

TOO_FEW: Final = "too few"
"""What stands for a number behind which too few patients stand."""


ELSEWHERE: Final = "in another hospital"
"""The heading of where a rule's effect may lie in a hospital that is none of the model's."""

_ELSEWHERE: Final = (
    " “In another hospital” is where the effect may lie, 19 times of 20, in a hospital like these "
    "that is none of them: so far do these differ from each other."
)


def name_effect(family: Family) -> str:
    """Return the heading of effects on held-out patients."""
    return f"held-out {family.words.effect}"


def tells_effects(model: Model) -> bool:
    """Whether the effect of any rule on held-out patients is told."""
    return any(term.within is not None for term in model.rule_terms)


def tells_folds(model: Model) -> bool:
    """Whether it is told in how many folds terms are found again."""
    return any(term.found_again is not None for term in model.terms)


def tells_again(model: Model) -> bool:
    """Whether it is told in how many folds, or halves, terms are found again."""
    return tells_folds(model) or any(term.in_halves is not None for term in model.terms)


def tells_elsewhere(model: Model) -> bool:
    """Whether it is told of any rule what it may do in a hospital that is none of these."""
    return any(term.elsewhere is not None for term in model.rule_terms)


def find_effect(model: Model, term: Term) -> tuple[float, float, float]:
    """Return a rule's effect on held-out patients and the ends of its interval; NaN if untold."""
    if isinstance(term, LinearTerm) or term.within is None:
        return math.nan, math.nan, math.nan
    found, effect = term.within, model.study.family.effect
    return effect(found.estimate), effect(found.low), effect(found.high)


def tells_adjusted(model: Model) -> bool:
    """Whether it is told of any term what it does given all others."""
    return any(term.adjusted is not None for term in model.terms)


def name_adjusted(family: Family) -> str:
    """Return the heading of adjusted effects."""
    return f"adjusted {family.words.effect}"


def find_adjusted(model: Model, term: Term) -> tuple[float, float, float]:
    """Return a term's effect given all others and the ends of its interval; NaN if untold."""
    if term.adjusted is None:
        return math.nan, math.nan, math.nan
    found = term.adjusted
    low, effect, high = (
        model.effect(replace(term, coefficient=at))
        for at in (found.low, found.estimate, found.high)
    )
    return effect, low, high


def find_elsewhere(model: Model, term: Term) -> tuple[float, float, float]:
    """Return how far a rule's effect differs between hospitals, and its range in a further one.

    The spread is on the scale of F, the range as :func:`find_effect`; all are NaN where untold.
    """
    if isinstance(term, LinearTerm) or term.elsewhere is None:
        return math.nan, math.nan, math.nan
    found, effect = term.elsewhere, model.study.family.effect
    return found.spread, effect(found.low), effect(found.high)


def write_elsewhere(model: Model, term: Term, write: Callable[[str], str] = str) -> str:
    """Return between what a rule's effect may lie in a further hospital, as text."""
    _, low, high = find_elsewhere(model, term)
    return "" if isinstance(term, LinearTerm) else write_range(model, low, high, write)


def write_range(model: Model, low: float, high: float, write: Callable[[str], str] = str) -> str:
    """Return between what an effect lies, as text; "too few" of NaN."""
    if math.isnan(low):
        return TOO_FEW
    tell = model.study.family.tell_effect
    return " to ".join(write(tell(end, unit=False)) for end in (low, high))


def write_effect(model: Model, term: Term, write: Callable[[str], str] = str) -> tuple[str, str]:
    """Return that effect and its interval as texts; `write` is how numbers are spelled."""
    if isinstance(term, LinearTerm):
        return "", ""
    return _write(model, find_effect(model, term), write)


def write_adjusted(model: Model, term: Term, write: Callable[[str], str] = str) -> tuple[str, str]:
    """Return the effect given all other terms and its interval as texts."""
    return _write(model, find_adjusted(model, term), write)


def _write(
    model: Model, found: tuple[float, float, float], write: Callable[[str], str]
) -> tuple[str, str]:
    effect, low, high = found
    if math.isnan(effect):
        return TOO_FEW, ""
    return write(model.study.family.tell_effect(effect)), write_range(model, low, high, write)


def write_found_again(model: Model, term: Term) -> str:
    """Return in how many folds, and which share of halves, a term is found again, as text."""
    folds = math.nan if term.found_again is None else term.found_again
    halves = math.nan if term.in_halves is None else term.in_halves
    return tell_again(folds, halves, model.study.settings.folds)


def tell_again(found: float, halves: float, n_folds: int) -> str:
    """Return the same from numbers, NaN where they are not told."""
    folds = "" if math.isnan(found) else f"{found:.0f} of {n_folds}"
    share = "" if math.isnan(halves) else f"{100 * halves:.0f} % of halves"
    return ", ".join(filter(None, (folds, share)))


def tell_effects(model: Model) -> str:
    """Return what effects on held-out patients are, or why there are none, in a sentence or two."""
    family = model.study.family
    if family.evidence is None:
        return _tell_adjusted(model).strip()
    name = name_effect(family)
    if tells_effects(model):
        return (
            f"The {name} compares patients inside a rule with those outside, within hospitals, on "
            "patients that the rules were not learnt from, and not adjusted for the other terms "
            f"({family.evidence.method}); each 95 % interval is for its own rule."
            f"{_ELSEWHERE * tells_elsewhere(model)}{_tell_adjusted(model)}"
        )
    if model.study.settings.holdout > 0:
        return (
            f"No {name} is told of a rule: too few patients were held out, or the file was made "
            "before there were any."
        )
    return (
        "No patients were held out, so that no interval is told: with holdout = 0.2 in the study "
        f"the next model tells the {name} of each rule."
    )


def _tell_adjusted(model: Model) -> str:
    if not tells_adjusted(model):
        return ""
    return (
        f" The {name_adjusted(model.study.family)} is given all other terms: of a refit to the "
        "same patients, with standard errors as the model has them."
    )


def tell_folds(model: Model) -> str:
    """Return what it means that a term is found again, in a sentence; empty if it is not told."""
    if not tells_again(model):
        return ""
    folds = f"the {model.study.settings.folds} folds of the cross-validation in which a fit without"
    told = [f"{folds} the fold's patients"] * tells_folds(model)
    halves = any(term.in_halves is not None for term in model.terms)
    told += ["the random halves of the patients in which a fit to that half"] * halves
    return (
        f"“Found again” counts {', and '.join(told)} has a rule for nearly the same patients, in "
        "the same direction."
    )
