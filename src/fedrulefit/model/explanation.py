"""One prediction taken apart: what each term adds to a patient's linear predictor.

In: a model and patients as it counts them. Out: an :class:`Explanation` each. Nothing else
is needed: a prediction is a sum over terms.

Oracle: the prediction itself (``tests/unit/model/test_model.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.predictor import evaluate_terms
from fedrulefit.model.terms import RuleTerm, Term

if TYPE_CHECKING:
    from fedrulefit.model.model import Model
    from fedrulefit.model.prediction import Patients


@dataclass(frozen=True)
class Contribution:
    """What one term adds to one patient's linear predictor."""

    term: str
    kind: Literal["rule", "linear"]
    value: float
    coefficient: float
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """One prediction taken apart: baseline + contributions = linear predictor.

    ``flags`` say what of the patient the study does not foresee. Where they leave no
    prediction, it is NaN, and there are no contributions. ``horizons`` are the risks by each
    horizon of a time with several, under the names of their columns (``risk_90``).
    """

    baseline: float
    contributions: tuple[Contribution, ...]
    linear_predictor: float
    prediction: float
    flags: tuple[str, ...] = ()
    horizons: Mapping[str, float] = field(default_factory=dict)


def explain_rows(model: Model, patients: Patients) -> list[Explanation]:
    """Take predictions apart."""
    rules = [term.rule for term in model.rule_terms]
    linear = [term.feature for term in model.linear_terms]
    design = evaluate_terms(patients.values, model.grid, rules, linear)
    rows = np.hstack([design.dense_rules(), design.linear])
    return [
        Explanation(model.intercept, (), math.nan, math.nan, flags, _tell_horizons(model, math.nan))
        if refused
        else _explain(model, row, flags)
        for row, refused, flags in zip(rows, patients.refused, patients.flags, strict=True)
    ]


def _explain(model: Model, row: Floats, flags: tuple[str, ...]) -> Explanation:
    """Take one prediction apart; `row` holds the values of rules, then of linear terms."""
    terms: list[Term] = [*model.rule_terms, *model.linear_terms]
    parts = [
        Contribution(
            term=model.describe(term),
            kind="rule" if isinstance(term, RuleTerm) else "linear",
            value=float(value),
            coefficient=term.coefficient,
            contribution=float(value) * term.coefficient,
        )
        for term, value in zip(terms, row, strict=True)
        if value != 0
    ]
    parts.sort(key=lambda part: -abs(part.contribution))
    total = model.intercept + sum(part.contribution for part in parts)
    (prediction,) = model.study.family.link.inverse(np.array([total])).tolist()
    horizons = _tell_horizons(model, total)
    return Explanation(model.intercept, tuple(parts), total, prediction, flags, horizons)


def _tell_horizons(model: Model, total: float) -> dict[str, float]:
    """Return the risk by each horizon of a patient's F."""
    shifted = np.array([total + horizon.shift for horizon in model.further])
    risks = model.study.family.link.inverse(shifted).tolist()
    return {horizon.column: risk for horizon, risk in zip(model.further, risks, strict=True)}
