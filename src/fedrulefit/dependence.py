r"""How the log-odds depend on one covariate or two, from the terms alone.

In: a model and the names of one or two covariates S. Out: a data frame. No
patient is needed, so nothing is averaged over patients either:

* ``log_odds`` is what the terms that name **only** covariates of S add to the
  log-odds, :math:`f_S(x_S) = \sum_{t: features(t) ⊆ S} β_t t(x_S)`. The
  intercept is left out; a linear term is 0 at its centre.
* Rules that name a covariate of S *and* others add their coefficient only where
  the others say so. ``lowest`` and ``highest`` are ``log_odds`` plus all negative,
  or all positive, coefficients of those that the values of S leave open: whatever
  the other covariates are, the sum of all terms that name S lies between them. (These
  are bounds: two rules that exclude each other both count.)

:math:`f_S` is piecewise linear. A number's points are the ends of its range, the
winsor limits of its linear term, and at each cut-off that a rule uses both the
cut-off and the last float below it; between two neighbouring points nothing but the
linear term changes. A category's and a yes/no's points are its levels. "missing" is
the last point, unless the study has the covariate complete.

Oracle: predictions of the model itself, over all codes of the other covariates
(``tests/unit/test_dependence.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import encode, linear_values
from fedrulefit.core.rules import as_interval, format_number
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import LinearTerm, Model, RuleTerm, level_words
from fedrulefit.study import Number

if TYPE_CHECKING:
    import pandas as pd


def describe_dependence(model: Model, features: Sequence[str]) -> pd.DataFrame:
    """Return the frame; see :meth:`fedrulefit.Model.partial_dependence`."""
    import pandas as pd

    chosen = _find(model, features)
    points = [_points(model, j) for j in chosen]
    rows = np.array(list(product(*points)))
    total, joint, lowest, highest = _add_up(model, chosen, rows)
    columns: dict[str, object] = {}
    for k, j in enumerate(chosen):
        suffix = "" if len(chosen) == 1 else f"_{k + 1}"
        columns[f"value{suffix}"] = rows[:, k]
        columns[f"label{suffix}"] = [_label(model, j, value) for value in rows[:, k].tolist()]
    columns["log_odds"] = total
    if len(chosen) == 2:
        columns["interaction"] = joint
    return pd.DataFrame({**columns, "lowest": lowest, "highest": highest})


def _find(model: Model, features: Sequence[str]) -> list[int]:
    for name in features:
        if name not in model.study.covariates:
            listed = ", ".join(model.study.names)
            raise FedRuleFitError(f"the study has no covariate {name!r}: it has {listed}")
    if len(features) not in (1, 2) or len(set(features)) < len(features):
        raise FedRuleFitError("name one covariate, or two different ones")
    return [model.study.names.index(name) for name in features]


def _points(model: Model, feature: int) -> list[float]:
    """Return where the log-odds can change; NaN, for missing, last."""
    covariate = model.study.covariates[model.study.names[feature]]
    axis = model.grid.axes[feature]
    missing = [] if axis.complete else [np.nan]
    if not isinstance(covariate, Number):
        return [*map(float, range(axis.n_codes)), *missing]
    found = {*covariate.range}
    for term in model.terms:
        if isinstance(term, LinearTerm) and term.feature == feature:
            found |= {*axis.limits}
        if isinstance(term, RuleTerm):
            for condition in term.rule:
                bounds = as_interval(condition.codes) if condition.feature == feature else None
                for code in bounds or ():
                    if 0 < code < axis.n_codes:
                        cutoff = float(axis.cutoffs[code - 1])
                        found |= {float(np.nextafter(cutoff, -np.inf)), cutoff}
    low, high = covariate.range
    return [*sorted(x for x in found if low <= x <= high), *missing]


def _add_up(
    model: Model, chosen: Sequence[int], rows: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return f_S, what of it comes from terms that name all of S, and its bounds."""
    values = np.full((len(rows), model.study.n_features), np.nan)
    values[:, chosen] = rows
    codes, linear = encode(values, model.grid), linear_values(values, model.grid)
    total, joint, below, above = np.zeros((4, len(rows)))
    for term in model.terms:
        inside = set(term.features) & set(chosen)
        if not inside:
            continue
        if isinstance(term, LinearTerm):
            adds: Floats = term.coefficient * linear[:, model.grid.linear.index(term.feature)]
        else:
            holds = np.ones(len(rows), dtype=np.bool_)
            for condition in term.rule:
                if condition.feature in inside:
                    holds &= condition.table()[codes[:, condition.feature]]
            adds = term.coefficient * holds.astype(np.float64)
        if len(inside) == len(term.features):
            total += adds
            if len(inside) == len(chosen):
                joint += adds
        else:
            below += np.minimum(adds, 0.0)
            above += np.maximum(adds, 0.0)
    return total, joint, total + below, total + above


def _label(model: Model, feature: int, value: float) -> str:
    covariate = model.study.covariates[model.study.names[feature]]
    if np.isnan(value):
        return "missing"
    if isinstance(covariate, Number):
        return format_number(value)
    return level_words(covariate)[int(value)]
