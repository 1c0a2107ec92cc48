"""All that a prediction by hand needs: what the covariates mean, and the model in numbers.

In: a model. Out: rows of text. Coefficients, centres and spreads have six digits, so that a
prediction by hand is right to about 0.001 of a percentage point; the model file has them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fedrulefit.model import LinearTerm, Model
from fedrulefit.numerals import format_number, write_minus
from fedrulefit.study import Covariate, Number

DIGITS: Final = 6
"""Significant digits of a number that people compute with."""

RULE_COLUMNS: Final = ("Rule", "Coefficient")
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
    """Return the whole model in numbers, by title: its rules, then its linear terms."""
    rules = [["Starting point", _number(model.intercept)]]
    rules += [[model.describe(term), _number(term.coefficient)] for term in model.rule_terms]
    linear = [_linear(model, term) for term in model.linear_terms]
    tables = {"Starting point and rules": Numbers(RULE_COLUMNS, rules)}
    tables |= {"Linear terms": Numbers(LINEAR_COLUMNS, linear)} if linear else {}
    return tables | _over_time(model)


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


def _linear(model: Model, term: LinearTerm) -> list[str]:
    name, axis = model.study.names[term.feature], model.grid.axes[term.feature]
    centre, spread, low, high, fill = map(
        _number, (axis.centre, axis.spread, *axis.limits, axis.fill)
    )
    return [name, _number(term.coefficient), centre, spread, f"{low} to {high}", fill]


def _number(value: float) -> str:
    return write_minus(format_number(value, digits=DIGITS))
