r"""How much each term and each covariate matters, from sums alone.

Paper 2.3 (interpretation tools) and figure 3 (subgroups).

In: coefficients and, per term, sums that add up over sites. Out: importances,
supports and outcome rates. Leaves the site: the :class:`TermSums`.

================================  ===========================  ===========
paper                             here                         shape
================================  ===========================  ===========
:math:`\varrho_k`                 ``inside / total``           (n_rules,)
:math:`(N_m-1)\,std^2(r_k)`       ``TermSums.squares``         (n_terms,)
:math:`I_k, I_j` (base function)  :func:`term_importance`      (n_terms,)
:math:`I_j(x)` (variable)         :func:`variable_importance`  (n_features,)
================================  ===========================  ===========

Departure: the pooled standard deviation averages *squared* deviations (erratum
5).

Oracle: the formulas written out on dense matrices
(``tests/unit/core/test_importance.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.design import Design


@dataclass(frozen=True, eq=False)
class TermSums:
    """Weighted sums over a site's patients; all add up over sites.

    Parameters
    ----------
    total, events : float
        Patients, and patients with the outcome.
    inside, events_inside : (n_rules,) float64
        The same among those who satisfy each rule.
    squares : (n_terms,) float64
        Sum of squares about the site's own mean; 0 for the intercept.
    freedom : float
        N_m − 1.
    """

    total: float
    events: float
    inside: Floats
    events_inside: Floats
    squares: Floats
    freedom: float


def sum_terms(design: Design, outcome: Floats, weights: Floats) -> TermSums:
    """Return the site's sums for every term of its design."""
    total = float(weights.sum())
    sums = design.transpose_dot(weights)
    rules = slice(1, 1 + design.n_rules)
    squares = np.zeros(design.n_terms)
    # A rule is 0 or 1, so its square is itself.
    squares[rules] = sums[rules] - sums[rules] ** 2 / total
    means = (weights @ design.linear) / total
    squares[1 + design.n_rules :] = weights @ (design.linear - means) ** 2
    return TermSums(
        total=total,
        events=float(weights @ outcome),
        inside=sums[rules],
        events_inside=design.transpose_dot(weights * outcome)[rules],
        squares=squares,
        freedom=total - 1,
    )


def term_importance(coef: Floats, squares: Floats, freedom: float) -> Floats:
    """Return |β|·std_pool for every term, shape (n_terms,); intercept 0."""
    if freedom <= 0:
        return np.zeros_like(coef)
    importance = np.abs(coef) * np.sqrt(np.maximum(squares, 0.0) / freedom)
    importance[0] = 0.0
    return importance


def variable_importance(
    importance: Floats, features: Sequence[tuple[int, ...]], n_features: int
) -> Floats:
    """Share each term's importance equally among its covariates.

    Parameters
    ----------
    importance : (n_terms - 1,) float64
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
