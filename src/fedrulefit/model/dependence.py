r"""Partial dependence: how F depends on one covariate or two, from the terms alone.

In: a model and the names of one or two covariates S. Out: a data frame. F is the linear
predictor; its column is named by the outcome's family (yes/no: ``log_odds``). No
patient is needed. What a term t adds, averaged over the covariates outside S, is

.. math:: β_t · [t_S(x_S)] · P(\text{rest of } t \mid t_S),

where :math:`t_S` are its conditions on S and the share is 1 for a term that names
nothing else (a linear term is 0 at its centre; the intercept is left out):

* F there is the sum over all terms that name a covariate of S: the partial
  dependence. The share is support / P(t_S), never above 1. The support is in the model;
  P(t_S) is that of the released histograms (:attr:`Model.distribution`): the share of patients
  with a code that satisfies t_S, for two covariates the product. Where the model does not
  tell, all codes count alike, which for a number's cut-offs, its quantiles, is near.
  Where too few patients are inside or outside a rule to tell its support, it counts as 0
  or 1, whichever the product over its conditions is nearer to.
* ``alone`` is the sum over terms that name **only** covariates of S. It is exact.
* ``lowest`` and ``highest`` are ``alone`` plus all negative, or all positive,
  coefficients of the rules that name others too and that the values of S leave open:
  whatever the other covariates are, the sum of all terms that name S lies between them.
  (These are bounds: two rules that exclude each other both count.)

All are piecewise linear. A number's points are the ends of its range, the
winsor limits of its linear term, and at each cut-off that a rule uses both the
cut-off and the last float below it; between two neighbouring points nothing but the
linear term changes. A category's and a yes/no's points are its levels. "missing" is
the last point, unless the study has the covariate complete.

"Relative to average" subtracts the mean over all patients' codes (:func:`list_codes`).

Oracle: predictions of the model itself, over all codes of the other covariates and over
simulated patients of known shares, and a naive loop over points and terms
(``tests/unit/model/test_dependence.py``, ``test_distribution.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.grid import encode, linear_values
from fedrulefit.core.rules import Condition, as_interval
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import LinearTerm, Model, RuleTerm
from fedrulefit.numerals import format_number
from fedrulefit.study import Number

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Dependence:
    """F at some points of S; each of shape (n_points,).

    Parameters
    ----------
    predictor : float64
        The partial dependence.
    interaction : float64
        What of it comes from terms that name all of S.
    alone, lowest, highest : float64
    """

    predictor: Floats
    interaction: Floats
    alone: Floats
    lowest: Floats
    highest: Floats


def describe_dependence(model: Model, features: Sequence[str]) -> pd.DataFrame:
    """Return the frame; see :meth:`fedrulefit.Model.partial_dependence`."""
    import pandas as pd

    chosen = _find(model, features)
    rows = np.array(list(product(*(list_points(model, j) for j in chosen))))
    family = model.study.family
    if not family.own_terms:
        return _describe(model, chosen, rows, None)
    parts = [_describe(model, chosen, rows, level) for level in family.names]
    return pd.concat(parts, ignore_index=True)


def _describe(model: Model, chosen: Sequence[int], rows: Floats, level: str | None) -> pd.DataFrame:
    """Return the frame, or that of one level, where each has terms of its own."""
    import pandas as pd

    found = find_dependence(model, chosen, rows, level)
    columns: dict[str, object] = {} if level is None else {"level": level}
    for k, j in enumerate(chosen):
        suffix = "" if len(chosen) == 1 else f"_{k + 1}"
        columns[f"value{suffix}"] = rows[:, k]
        columns[f"label{suffix}"] = [_label(model, j, value) for value in rows[:, k].tolist()]
    columns[model.study.family.words.predictor_column] = found.predictor
    if len(chosen) == 2:
        columns["interaction"] = found.interaction
    columns |= {"alone": found.alone, "lowest": found.lowest, "highest": found.highest}
    return pd.DataFrame(columns)


def find_dependence(
    model: Model, chosen: Sequence[int], rows: Floats, level: str | None = None
) -> Dependence:
    """Return how F depends on the covariates `chosen`; of a level, where each has its own.

    Parameters
    ----------
    rows : (n_points, n_chosen) float64
        Values of these covariates; NaN for missing.
    """
    grid, at = model.grid.take(chosen), {j: k for k, j in enumerate(chosen)}
    codes, linear = encode(rows, grid), linear_values(rows, grid)
    total, joint, alone, below, above = np.zeros((5, len(rows)))
    for term in model.terms:
        inside = set(term.features) & set(chosen)
        if not inside or term.level != level:
            continue
        share = 1.0
        if isinstance(term, LinearTerm):
            adds: Floats = term.coefficient * linear[:, grid.linear.index(at[term.feature])]
        else:
            given = [condition for condition in term.rule if condition.feature in inside]
            holds = np.ones(len(rows), dtype=np.bool_)
            for condition in given:
                holds &= condition.table()[codes[:, at[condition.feature]]]
            adds = term.coefficient * holds.astype(np.float64)
            if len(given) < len(term.rule):
                share = _share_of_rest(model, term, given)
        total += share * adds
        if len(inside) == len(chosen):
            joint += share * adds
        if len(inside) == len(term.features):
            alone += adds
        else:
            below += np.minimum(adds, 0.0)
            above += np.maximum(adds, 0.0)
    return Dependence(total, joint, alone, alone + below, alone + above)


def strongest_pairs(model: Model, top: int, level: str | None = None) -> Sequence[tuple[int, int]]:
    """Return the pairs of covariates whose shared rules count most.

    Where each level has terms of its own, of those of `level`.
    """
    weight: dict[tuple[int, int], float] = defaultdict(float)
    for term in model.rule_terms:
        if term.level != level:
            continue
        for pair in combinations(sorted(term.features), 2):
            weight[pair] += term.importance
    return sorted(weight, key=lambda pair: (-weight[pair], pair))[:top]


def _share_of_rest(model: Model, term: RuleTerm, given: Sequence[Condition]) -> float:
    """P(the rule holds | its conditions in `given` hold)."""
    support, known = model.support(term), _share_of_codes(model, given)
    if np.isnan(support):
        # Nearly nobody or nearly all: the codes tell which.
        support = float(round(_share_of_codes(model, list(term.rule))))
    return support / max(known, support) if support > 0 else 0.0


def _share_of_codes(model: Model, conditions: Sequence[Condition]) -> float:
    share = 1.0
    for condition in conditions:
        table, n_codes = condition.table(), model.grid.axes[condition.feature].n_codes
        satisfied = np.append(table[:n_codes], table[MISSING])
        shares = model.shares(condition.feature)
        share *= float(shares @ satisfied[: len(shares)])
    return share


def _find(model: Model, features: Sequence[str]) -> list[int]:
    for name in features:
        if name not in model.study.covariates:
            listed = ", ".join(model.study.names)
            raise FedRuleFitError(f"the study has no covariate {name!r}: it has {listed}")
    if len(features) not in (1, 2) or len(set(features)) < len(features):
        raise FedRuleFitError("name one covariate, or two different ones")
    return [model.study.names.index(name) for name in features]


def list_points(model: Model, feature: int) -> list[float]:
    """Return where F can change; NaN, for missing, last."""
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


def list_codes(model: Model, feature: int) -> Floats:
    """Return a value of every code, (n_codes,) or with NaN for missing last: as the shares.

    Of a number the middle of the values that the code holds, winsor limits taken for the ends
    of the range: beyond them its linear term does not change.
    """
    covariate = model.study.covariates[model.study.names[feature]]
    axis = model.grid.axes[feature]
    missing = [] if axis.complete else [np.nan]
    if not isinstance(covariate, Number):
        return np.array([*map(float, range(axis.n_codes)), *missing])
    (low, high), cutoffs = covariate.range, axis.cutoffs.tolist()
    if axis.has_linear and cutoffs:
        low = max(low, axis.limits[0]) if axis.limits[0] < cutoffs[0] else low
        high = min(high, axis.limits[1]) if axis.limits[1] >= cutoffs[-1] else high
    starts, step = np.array([low, *cutoffs]), covariate.step or 0.0
    ends = np.array([*(cutoff - step for cutoff in cutoffs), high])
    return np.array([*(0.5 * (starts + np.maximum(ends, starts))), *missing])


def _label(model: Model, feature: int, value: float) -> str:
    covariate = model.study.covariates[model.study.names[feature]]
    if np.isnan(value):
        return "missing"
    if isinstance(covariate, Number):
        return format_number(value, covariate.step)
    return covariate.words[int(value)]
