"""The values of a model's own terms: one column per term, one row per patient.

In: a model and patients as it counts them. Out: rules as 0 or 1, and linear terms as the model
uses them: winsorised, centred, divided by the spread, times 0.4 (paper 2.1). So

    F = intercept + columns · coefficients,

where each level of the outcome has terms of its own, over the terms of that level.

Oracle: the prediction itself (``tests/unit/estimators/test_terms.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.predictor import evaluate_terms
from fedrulefit.core.rules import Rule
from fedrulefit.model.terms import Term

if TYPE_CHECKING:
    from fedrulefit.model.model import Model
    from fedrulefit.model.prediction import Patients


@dataclass(frozen=True)
class Columns:
    """What a model's terms are made of, each once, however many levels of the outcome use it.

    Parameters
    ----------
    rules : tuple of Rule
    linear : tuple of int
        Covariates of linear terms.
    """

    rules: tuple[Rule, ...]
    linear: tuple[int, ...]

    def places(self, terms: Sequence[Term]) -> Ints:
        """Return which of the columns each term has, counted from 0, shape (n_terms,)."""
        place = {thing: k for k, thing in enumerate((*self.rules, *self.linear))}
        return np.array([place[term.key[0]] for term in terms], dtype=np.int64)

    def coefficients(self, model: Model) -> Floats:
        """Return intercept and coefficients, shape (1 + n_columns,).

        Where each level has terms of its own, of all levels: (1 + n_columns, n_levels).
        """
        family, n_columns = model.study.family, len(self.rules) + len(self.linear)
        parts: tuple[str | None, ...] = family.names if family.own_terms else (None,)
        coef = np.zeros((1 + n_columns, len(parts)))
        own = family.own_terms
        coef[0] = family.starts(model.intercept, model.baseline) if own else model.intercept
        at = np.array([parts.index(term.level) for term in model.terms], dtype=np.int64)
        numbers = [term.coefficient for term in model.terms]
        np.add.at(coef, (1 + self.places(model.terms), at), numbers)  # a term may stand there twice
        return coef if family.own_terms else coef[:, 0]


def list_columns(model: Model) -> Columns:
    """Return the rules and covariates of a model's terms."""
    rules = dict.fromkeys(term.rule for term in model.rule_terms)
    return Columns(tuple(rules), tuple(dict.fromkeys(term.feature for term in model.linear_terms)))


def term_matrix(model: Model, patients: Patients) -> Floats:
    """Return the columns of the terms, in the model's order, shape (n_rows, n_terms).

    Parameters
    ----------
    model : Model
    patients : Patients
        NaN for those who get no prediction.
    """
    own = list_columns(model)
    design = evaluate_terms(patients.values, model.grid, own.rules, own.linear)
    columns = np.hstack([design.dense_rules(), design.linear])[:, own.places(model.terms)]
    columns[patients.refused] = np.nan
    return columns


def find_chances(model: Model, predictor: Floats) -> Floats:
    """Return the probability of each level, shape (n_rows, n_levels), from F of the model."""
    family = model.study.family
    return family.predict(family.spread(predictor, model.baseline))


def find_first(model: Model, predictor: Floats) -> Floats:
    """Return the prediction that people read first, from F of the model.

    Of shape (n_rows,); where each level has terms of its own, and people ask for all alike, of
    each.
    """
    family = model.study.family
    if not family.own_terms:
        return family.link.inverse(predictor)
    if model.incidence is not None:
        return model.incidence.told_risks(predictor)[:, 0]
    return find_chances(model, predictor)


def judge_values(model: Model, values: Floats) -> Floats:
    """Return the predictions that the family's judge takes, of values in the study's coding."""
    family, predictor = model.study.family, model.linear_predictor(values)
    if not family.names:
        return family.judged(predictor)
    return family.judged(family.spread(predictor, model.baseline))
