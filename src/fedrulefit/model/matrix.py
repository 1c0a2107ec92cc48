"""The values of a model's own terms: one column per term, one row per patient.

In: a model and patients as it counts them. Out: rules as 0 or 1, and linear terms as the model
uses them: winsorised, centred, divided by the spread, times 0.4 (paper 2.1). So

    F = intercept + columns · coefficients.

Oracle: the prediction itself (``tests/unit/estimators/test_terms.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.predictor import evaluate_terms
from fedrulefit.model.terms import RuleTerm

if TYPE_CHECKING:
    from fedrulefit.model.model import Model
    from fedrulefit.model.prediction import Patients


def term_matrix(model: Model, patients: Patients) -> Floats:
    """Return the columns of the terms, in the model's order, shape (n_rows, n_terms).

    Parameters
    ----------
    model : Model
    patients : Patients
        NaN for those who get no prediction.
    """
    rules = [term.rule for term in model.rule_terms]
    linear = [term.feature for term in model.linear_terms]
    design = evaluate_terms(patients.values, model.grid, rules, linear)
    are_rules = np.array([isinstance(term, RuleTerm) for term in model.terms], dtype=np.bool_)
    columns = np.empty((len(patients.values), len(model.terms)))
    columns[:, are_rules] = design.dense_rules()
    columns[:, ~are_rules] = design.linear
    columns[patients.refused] = np.nan
    return columns
