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
from fedrulefit.model.matrix import find_chances, term_matrix
from fedrulefit.model.terms import RuleTerm

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

    Where each level of the outcome has terms of its own, ``level`` is the most likely one, or the
    event of interest: terms are its own, and the prediction its probability. ``flags`` say what of
    the patient the study does not foresee. Where they leave no prediction, it is NaN, and there are
    no contributions. ``horizons`` are the risks by each horizon of a time with several, and those
    of competing events, under the names of their columns (``risk_90``); ``levels`` the probability
    of each level of an outcome of several.
    """

    baseline: float
    contributions: tuple[Contribution, ...]
    linear_predictor: float
    prediction: float
    flags: tuple[str, ...] = ()
    horizons: Mapping[str, float] = field(default_factory=dict)
    level: str | None = None
    levels: Mapping[str, float] = field(default_factory=dict)


def explain_rows(model: Model, patients: Patients) -> list[Explanation]:
    """Take predictions apart."""
    rows = term_matrix(model, patients)
    return [
        _refuse(model, flags) if refused else _explain(model, row, flags)
        for row, refused, flags in zip(rows, patients.refused, patients.flags, strict=True)
    ]


def _refuse(model: Model, flags: tuple[str, ...]) -> Explanation:
    """Return that there is no prediction."""
    levels = dict.fromkeys(model.study.family.told_levels, math.nan)
    horizons = _tell_horizons(model, math.nan)
    if model.incidence is not None:
        horizons = {own.column: math.nan for own in model.incidence.told[1:]}
    return Explanation(model.intercept, (), math.nan, math.nan, flags, horizons, None, levels)


def _explain(model: Model, row: Floats, flags: tuple[str, ...]) -> Explanation:
    """Take one prediction apart; `row` holds the values of the terms."""
    family = model.study.family
    if not family.own_terms:
        total, parts = _add_up(model, row, model.intercept, None)
        (prediction,) = family.link.inverse(np.array([total])).tolist()
        horizons, levels = _tell_horizons(model, total), _tell_levels(model, total)
        return Explanation(model.intercept, parts, total, prediction, flags, horizons, None, levels)
    starts = family.starts(model.intercept, model.baseline).tolist()
    found = [_add_up(model, row, *own) for own in zip(starts, family.names, strict=True)]
    totals = np.array([[total for total, _ in found]])
    if model.incidence is not None:
        names = [own.column for own in model.incidence.told]
        risks = dict(zip(names, model.incidence.told_risks(totals)[0].tolist(), strict=True))
        prediction, k, levels = risks.pop(names[0]), 0, {}
    else:
        (chances,) = find_chances(model, totals).tolist()
        levels, risks = dict(zip(family.names, chances, strict=True)), {}
        k = int(np.argmax(chances))
        prediction = chances[k]
    total, parts = found[k]
    return Explanation(starts[k], parts, total, prediction, flags, risks, family.names[k], levels)


def _add_up(
    model: Model, row: Floats, start: float, level: str | None
) -> tuple[float, tuple[Contribution, ...]]:
    """Return F, and what each term of a level adds to it, the most first."""
    parts = [
        Contribution(
            term=model.describe(term),
            kind="rule" if isinstance(term, RuleTerm) else "linear",
            value=float(value),
            coefficient=term.coefficient,
            contribution=float(value) * term.coefficient,
        )
        for term, value in zip(model.terms, row, strict=True)
        if value != 0 and term.level == level
    ]
    parts.sort(key=lambda part: -abs(part.contribution))
    return start + sum(part.contribution for part in parts), tuple(parts)


def _tell_levels(model: Model, total: float) -> dict[str, float]:
    """Return the probability of each ordered level of a patient's F."""
    names = model.study.family.names
    if not names:
        return {}
    (chances,) = find_chances(model, np.array([total])).tolist()
    return dict(zip(names, chances, strict=True))


def _tell_horizons(model: Model, total: float) -> dict[str, float]:
    """Return the risk by each horizon of a patient's F."""
    shifted = np.array([total + horizon.shift for horizon in model.further])
    risks = model.study.family.link.inverse(shifted).tolist()
    return {horizon.column: risk for horizon, risk in zip(model.further, risks, strict=True)}
