r"""How much each term and each covariate matters, from sums alone.

Paper 2.3 (interpretation tools) and figure 3 (subgroups).

In: coefficients and, per term, sums that add up over sites. Out: importances,
supports and outcome rates. Leaves the site: the :class:`TermSums`.

================================  ===========================  ===========
paper                             here                         shape
================================  ===========================  ===========
:math:`\varrho_k`                 ``inside / total``           (n_rules,)
:math:`(N-1)\,std^2(r_k)`         :func:`squares_of`           (n_terms,)
:math:`I_k, I_j` (base function)  :func:`term_importance`      (n_terms,)
:math:`I_j(x)` (variable)         :func:`variable_importance`  (n_features,)
================================  ===========================  ===========

Departures: the pooled standard deviation averages *squared* deviations (erratum
5), and these are about the mean of *all* patients. The paper's are about each site's
own mean: such squares, Σ(n_m − n_m²/N_m) for a rule, give away every site's counts.
A rule's follow from the totals n and N that are told anyway.

Oracle: the formulas written out on dense matrices
(``tests/unit/core/test_importance.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.design import Design
from fedrulefit.core.fixed import round_units
from fedrulefit.core.layout import Layout
from fedrulefit.core.sums import Packing, Sum, quantity


@dataclass(frozen=True, eq=False)
class TermSums(Sum):
    """Weighted sums over patients for the terms of a model.

    Parameters
    ----------
    total, events : float
        Patients, and patients with the outcome.
    inside, events_inside : (n_rules,) float64
        The same among those who satisfy each rule.
    sums, squares : (n_linear,) float64
        Of each linear term, divided by its bound.
    """

    total: float = quantity("Σ w")
    events: float = quantity("Σ w·y")
    inside: Floats = quantity("Σ w·r_k", shape="n_rules")
    events_inside: Floats = quantity("Σ w·y·r_k", shape="n_rules")
    sums: Floats = quantity("Σ w·x_j/b_j of the linear terms", shape="n_linear")
    squares: Floats = quantity("Σ w·(x_j/b_j)² of the linear terms", shape="n_linear")

    @classmethod
    def packing(cls, n_rules: int, n_linear: int) -> Packing[TermSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_rules": n_rules, "n_linear": n_linear})


def sum_terms(design: Design, outcome: Floats, weights: Floats, bounds: Floats) -> Ints:
    """Return the site's :class:`TermSums` for every term of its design, in whole units.

    `bounds` are the largest sizes of the terms, shape (n_terms,).
    """
    at, units = design.layout, round_units(weights)
    own = units * outcome
    counts, events = (design.sum_columns(part, bounds) for part in (units, own))
    scaled = design.linear / bounds[at.linear]
    return TermSums.packing(at.n_rules, at.n_linear).pack(
        total=int(units.astype(np.int64).sum()),
        events=int(own.astype(np.int64).sum()),
        inside=counts[at.rules],
        events_inside=events[at.rules],
        sums=counts[at.linear],
        squares=round_units(weights[:, None] * scaled**2).astype(np.int64).sum(axis=0),
    )


def squares_of(layout: Layout, sums: TermSums, bounds: Floats) -> Floats:
    """Return each term's sum of squares about its mean, shape (n_terms,); baseline 0."""
    total, inside = sums.total, sums.inside
    linear = sums.squares - sums.sums**2 / total
    # A rule is 0 or 1, so its square is itself.
    return layout.join(
        np.zeros(layout.n_baseline),
        inside - inside**2 / total,
        linear * bounds[layout.linear] ** 2,
    )


def term_importance(layout: Layout, coef: Floats, squares: Floats, freedom: float) -> Floats:
    """Return |β|·std for every term, shape (n_terms,); baseline 0."""
    if freedom <= 0:
        return np.zeros_like(coef)
    importance = np.abs(coef) * np.sqrt(np.maximum(squares, 0.0) / freedom)
    importance[layout.baseline] = 0.0
    return importance


def variable_importance(
    importance: Floats, features: Sequence[tuple[int, ...]], n_features: int
) -> Floats:
    """Share each term's importance equally among its covariates.

    Parameters
    ----------
    importance : (n_terms - n_baseline,) float64
        Of rules and linear terms.
    features : the covariates that each of these terms names

    Returns
    -------
    variable : (n_features,) float64
    """
    variable = np.zeros(n_features)
    for value, named in zip(importance, features, strict=True):
        for feature in named:
            variable[feature] += value / len(named)
    return variable
