"""All that a prediction by hand needs: what the covariates mean, and the model in numbers.

In: a model. Out: rows of text. Coefficients, centres and spreads have six digits, so that a
prediction by hand is right to about 0.001 of a percentage point; the model file has them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from fedrulefit.model import LinearTerm, Model
from fedrulefit.numerals import format_number, write_minus
from fedrulefit.study import Covariate, Number

DIGITS: Final = 6
"""Significant digits of a number that people compute with."""

RULE_COLUMNS: Final = ("Rule", "Coefficient")
RULES: Final = "Starting point and rules"
LINEAR: Final = "Linear terms"
STEPS: Final = "Starting points of the steps"
SHARES: Final = "Over time: which share of each event's hazard comes before a time"
OVER_TIME: Final = "Over time: for the risk by another time, add the logarithm"
LINEAR_COLUMNS: Final = ("Variable", "Coefficient", "Centre", "Spread", "Limits", "Fill")


class CovariateRow(NamedTuple):
    """A covariate as the study defines it."""

    name: str
    label: str
    values: str
    missing: str


class Numbers(NamedTuple):
    """A table of the model in numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def list_covariates(model: Model) -> list[CovariateRow]:
    """Return what each covariate means, in the study's order."""
    return [
        CovariateRow(
            name,
            ". ".join(text for text in (covariate.label, covariate.note) if text),
            _tell_values(covariate),
            "never" if covariate.complete else "may be",
        )
        for name, covariate in model.study.covariates.items()
    ]


def _tell_values(covariate: Covariate) -> str:
    if isinstance(covariate, Number):
        low, high = (write_minus(format_number(end, covariate.step)) for end in covariate.range)
        return f"{low} to {high} {covariate.unit}".rstrip()
    between = " < " if covariate.kind == "ordered" else ", "
    return between.join(covariate.words)


def list_specification(model: Model) -> Mapping[str, Numbers]:
    """Return the whole model in numbers, by title: its rules, then its linear terms.

    Of classes those of each; of ordered levels with the starting points of all steps.
    """
    family = model.study.family
    if family.own_terms:
        starts = family.starts(model.intercept, model.baseline).tolist()
        own = zip(family.names, starts, strict=True)
        parts = [*(_list_part(model, *part) for part in own), _list_incidence(model)]
        return {title: numbers for part in parts for title, numbers in part.items()}
    return _list_part(model, None, model.intercept) | _steps(model) | _over_time(model)


def _list_part(model: Model, level: str | None, start: float) -> dict[str, Numbers]:
    """Return the terms of one class, or of all there is, by title."""
    rules = [["Starting point", _number(start)]]
    rules += [
        [model.describe(replace(term, level=None)), _number(term.coefficient)]
        for term in model.rule_terms
        if term.level == level
    ]
    linear = [_linear(model, term) for term in model.linear_terms if term.level == level]
    of = "" if level is None else f": {level}"
    tables = {f"{RULES}{of}": Numbers(RULE_COLUMNS, rules)}
    return tables | ({f"{LINEAR}{of}": Numbers(LINEAR_COLUMNS, linear)} if linear else {})


def _steps(model: Model) -> dict[str, Numbers]:
    """Return the starting point of each step of an ordered scale."""
    names = model.study.family.names
    rows = [
        [f"from {low} to {high}", _number(model.intercept + shift)]
        for low, high, shift in zip(names, names[1:], model.baseline, strict=False)
    ]
    return {STEPS: Numbers(("Step", "Starting point"), rows)} if rows else {}


def _over_time(model: Model) -> dict[str, Numbers]:
    """Return what is added to F for the risk by a time, where the outcome is a time to an event.

    Between two of these times the share of the hazard grows evenly.
    """
    if model.timeline is None:
        return {}
    ends, shares = model.timeline.ends[1:].tolist(), model.timeline.shares[1:].tolist()
    rows = [
        [_number(end), _number(share), _number(math.log(share))]
        for end, share in zip(ends, shares, strict=True)
    ]
    unit = f" ({model.timeline.unit})" if model.timeline.unit else ""
    columns = (f"Time{unit}", "Share of the hazard before it", "Its logarithm")
    return {OVER_TIME: Numbers(columns, rows)}


def _list_incidence(model: Model) -> dict[str, Numbers]:
    """Return which share of each event's hazard comes before a time, where events compete."""
    told = model.incidence
    if told is None:
        return {}
    rows = [
        [_number(end), *map(_number, shares)]
        for end, shares in zip(told.ends[1:].tolist(), told.shares.T[1:].tolist(), strict=True)
    ]
    unit = f" ({told.unit})" if told.unit else ""
    return {SHARES: Numbers((f"Time{unit}", *told.causes), rows)}


def _linear(model: Model, term: LinearTerm) -> list[str]:
    name, axis = model.study.names[term.feature], model.grid.axes[term.feature]
    centre, spread, low, high, fill = map(
        _number, (axis.centre, axis.spread, *axis.limits, axis.fill)
    )
    return [name, _number(term.coefficient), centre, spread, f"{low} to {high}", fill]


def _number(value: float) -> str:
    return write_minus(format_number(value, digits=DIGITS))
