"""Rules and linear terms in the study's own names, levels and units.

In: a term, the grid, the study. Out: text. Words that depend on the kind of the outcome are
its family's (:class:`~fedrulefit.core.families.base.Words`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule, describe_condition
from fedrulefit.model.terms import LinearTerm, RuleTerm, Term
from fedrulefit.numerals import format_number
from fedrulefit.study import Number, Study, YesNo

Distribution: TypeAlias = Sequence[Floats] | None
"""The share of patients with each code, of every covariate; None where that is not known."""

STANDS_FOR_SITE: Final = "stands for the hospital"
"""What is said of a term whose variance lies mostly between sites."""


def tell_stand_ins(terms: Sequence[str]) -> str:
    """Return what terms that stand for the hospital mean for a reader; nothing for none."""
    if not terms:
        return ""
    if len(terms) == 1:
        return (
            f"{terms[0]} {STANDS_FOR_SITE}: more than half of its variance lies between the sites, "
            "so it tells hospitals apart more than patients of one hospital."
        )
    named = f"{', '.join(terms[:-1])} and {terms[-1]}"
    return (
        f"{named} stand for the hospital: more than half of the variance of each lies between the "
        "sites, so they tell hospitals apart more than patients of one hospital."
    )


def tell_rows(study: Study) -> str:
    """Return what it means for numbers that a patient may have several rows; else nothing."""
    if study.max_rows == 1:
        return ""
    return (
        f"“Patients” are counted in rows, of which one patient has up to {study.max_rows}. Rows of "
        "one patient are not independent, as 95 % intervals take them to be: these are too narrow."
    )


def name_rows(study: Study) -> str:
    """Return what counts are of: patients, or rows where a patient may have several."""
    return "patients" if study.max_rows == 1 else "rows"


def describe_term(term: Term, grid: Grid, study: Study, distribution: Distribution = None) -> str:
    """Return a term in the study's own words, behind the level for which alone it counts."""
    if isinstance(term, RuleTerm):
        words = describe_rule(term.rule, grid, study, distribution)
    else:
        words = _describe_linear(term, grid, study)
    return words if term.level is None else f"{term.level}: {words}"


def _describe_linear(term: LinearTerm, grid: Grid, study: Study) -> str:
    name = study.names[term.feature]
    covariate, axis = study.covariates[name], grid.axes[term.feature]
    if isinstance(covariate, Number):
        unit = f" {covariate.unit}" if covariate.unit else ""
        if covariate.offset:
            return f"{name}, added as it is (offset), per {format_number(unit_change(axis))}{unit}"
        return f"{name}, per {format_number(unit_change(axis))}{unit}"
    if isinstance(covariate, YesNo):
        no, yes = covariate.words
        return f"{name}, {yes} against {no}"
    return f"{name}, per level"


def unit_change(axis: Axis) -> float:
    """Return the change of x for which a linear term's effect is told.

    For a number 1, 2 or 5 times a power of ten, the nearest to its spread s*; for
    yes/no the whole way from no to yes, for ordered levels one level.
    """
    if axis.kind != "number":
        return 1.0
    power = 10.0 ** math.floor(math.log10(axis.spread))
    steps = [step * power for step in (1, 2, 5, 10)]
    return float(min(steps, key=lambda step: abs(math.log(step / axis.spread))))


def describe_rule(rule: Rule, grid: Grid, study: Study, distribution: Distribution = None) -> str:
    """Return a rule in the study's names and units; see :func:`describe_condition`."""
    return " & ".join(_describe(condition, grid, study, distribution) for condition in rule)


def tell_missing(terms: Sequence[Term], grid: Grid) -> str:
    """Return what terms make of a missing value, in sentences; empty where none can be."""
    open_to = [any(not grid.axes[j].complete for j in term.features) for term in terms]
    rules = [
        maybe and isinstance(term, RuleTerm) for term, maybe in zip(terms, open_to, strict=True)
    ]
    sentences = []
    if any(rules):
        sentences.append(
            "A condition on a value does not hold where the value is missing, unless it says "
            "“or missing”."
        )
    if sum(open_to) > sum(rules):
        sentences.append("In a linear term a missing value counts as the mean.")
    return " ".join(sentences)


def _describe(condition: Condition, grid: Grid, study: Study, distribution: Distribution) -> str:
    name = study.names[condition.feature]
    covariate, axis = study.covariates[name], grid.axes[condition.feature]
    shares = None if distribution is None else distribution[condition.feature]
    if isinstance(covariate, Number):
        unit, step = covariate.unit, covariate.step
        return describe_condition(condition, axis, name, unit=unit, step=step, shares=shares)
    return describe_condition(condition, axis, name, levels=covariate.words, shares=shares)
