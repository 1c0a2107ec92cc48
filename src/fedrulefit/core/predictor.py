r"""The linear predictor of a model, for patients that it was learnt from or not (paper 2.1).

.. math:: F(x) = β_0 + \sum_k β_k r_k(x) + \sum_j β^*_j l_j(x_j)

In: values of patients, the grid, and the model's terms. Out: one F per patient. Nothing here
leaves the site. What F means is the business of the outcome's family
(:mod:`fedrulefit.core.families`).

There is one twin, for a page that has no Python: ``report/page.js``. It gets cut-offs, limits,
spreads and coefficients from the model, and is tested against this one in a browser.

Oracle: the formula written out, patient by patient (``tests/unit/core/test_predictor.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.design import Design, build_design
from fedrulefit.core.grid import Grid, encode, linear_values
from fedrulefit.core.rules import Rule


def evaluate_terms(
    values: Floats,
    grid: Grid,
    rules: Sequence[Rule],
    linear: Sequence[int],
    *,
    parts: int = 1,
) -> Design:
    """Return the design of a model's own terms.

    Parameters
    ----------
    values : (n_rows, n_features) float64
        In the study's coding; NaN is missing.
    rules : sequence of Rule
    linear : sequence of int
        Covariates of the linear terms.
    parts : int
        Predictors of a patient that share these terms.
    """
    places = [grid.linear.index(feature) for feature in linear]
    columns = linear_values(values, grid)[:, places]
    return build_design(encode(values, grid), rules, columns, parts=parts)


def predict(
    values: Floats,
    grid: Grid,
    rules: Sequence[Rule],
    linear: Sequence[int],
    coef: Floats,
    *,
    alone: bool = False,
) -> Floats:
    """Return F of every patient, shape (n_rows,) or (n_rows, n_parts).

    Parameters
    ----------
    values, grid, rules, linear
        As for :func:`evaluate_terms`.
    coef : (1 + n_rules + n_linear,) or (1 + n_rules + n_linear, n_parts) float64
        Intercept, rules, linear terms; a column for each predictor, where patients have several
        with terms of their own.
    alone : bool
        Whether a patient's F may not even in its last digit depend on who stands beside: for
        sums that any split into sites must leave the same (:meth:`Design.predictor`).
        Coefficients are then rounded to 2⁻⁴¹.
    """
    design = evaluate_terms(values, grid, rules, linear)
    if coef.ndim > 1:
        return np.stack([design.dot(np.ascontiguousarray(own)) for own in coef.T], axis=1)
    return design.predictor(coef) if alone else design.dot(coef)
