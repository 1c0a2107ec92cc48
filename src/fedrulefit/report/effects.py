r"""Partial dependence of one covariate or two, from the terms of a model alone.

In: a model. Out: what a covariate adds to the log-odds at each of its codes.
No patient is needed.

A term that names only :math:`x_j` adds :math:`β_k r_k(x_j)`, exactly. A rule that
names others, too, adds :math:`β_k` where :math:`x_j ∈ S_{jk}` *and* the rest holds,
and the rest holds for a share

.. math:: P(\text{rest} \mid x_j ∈ S_{jk}) = \text{support}_k / P(x_j ∈ S_{jk}).

The support is in the model. :math:`P(x_j ∈ S_{jk})` is taken as the share of the
covariate's codes in :math:`S_{jk}`: cut-offs are quantiles, so each code holds about
as many patients as the next. It is never taken to be less than the support.

Oracle: a naive loop over codes and terms (``tests/unit/report/test_effects.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.grid import Axis
from fedrulefit.core.rules import Condition
from fedrulefit.model import LinearTerm, Model, RuleTerm


@dataclass(frozen=True, eq=False)
class Effect:
    """What one covariate adds to the log-odds, by code; each of shape (256,).

    Parameters
    ----------
    main : float64
        From rules that name this covariate only; the linear term is apart.
    shared : float64
        From rules that name others, too, times the share for whom the rest holds.
    slope : float
        Coefficient of the linear term; 0 if there is none.
    """

    main: Floats
    shared: Floats
    slope: float


def find_effect(model: Model, feature: int) -> Effect:
    """Return what `feature` adds to the log-odds."""
    main, shared = np.zeros((2, MISSING + 1))
    slope = 0.0
    for term in model.terms:
        if isinstance(term, LinearTerm):
            slope += term.coefficient if term.feature == feature else 0.0
            continue
        condition = next((c for c in term.rule if c.feature == feature), None)
        if condition is None:
            continue
        hit = condition.table()
        if len(term.rule) == 1:
            main += term.coefficient * hit
        else:
            shared += term.coefficient * _rest(model, term, [condition]) * hit
    return Effect(main, shared, slope)


def joint_effect(model: Model, pair: tuple[int, int]) -> Floats:
    """Return what the rules that name both of `pair` add, shape (256, 256).

    The rest of such a rule, where it names more, holds for a share as above.
    """
    joint = np.zeros((MISSING + 1, MISSING + 1))
    for term in model.rule_terms:
        both = [c for f in pair for c in term.rule if c.feature == f]
        if len(both) == 2:
            share = 1.0 if len(term.rule) == 2 else _rest(model, term, both)
            joint += term.coefficient * share * np.outer(both[0].table(), both[1].table())
    return joint


def strongest_pairs(model: Model, top: int) -> Sequence[tuple[int, int]]:
    """Return the pairs of covariates whose shared rules count most."""
    weight: dict[tuple[int, int], float] = defaultdict(float)
    for term in model.rule_terms:
        for pair in combinations(sorted(term.features), 2):
            weight[pair] += term.importance
    return sorted(weight, key=lambda pair: (-weight[pair], pair))[:top]


def _rest(model: Model, term: RuleTerm, given: Sequence[Condition]) -> float:
    """P(the rule holds | the conditions in `given` hold)."""
    known = float(np.prod([_share(c, model.grid.axes[c.feature]) for c in given]))
    support = model.support(term)
    return support / max(known, support) if support > 0 else 0.0


def _share(condition: Condition, axis: Axis) -> float:
    """The share of an axis's codes that satisfy a condition.

    "Missing" counts as one code more.
    """
    return condition.codes.bit_count() / axis.every_code.bit_count()
