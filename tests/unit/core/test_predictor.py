"""The linear predictor is the formula of the paper, patient by patient."""

from __future__ import annotations

import numpy as np
import pytest
from tests.random_models import random_model
from tests.reports import draw_patients

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import RULE_SPREAD, encode
from fedrulefit.core.predictor import evaluate_terms, predict
from fedrulefit.model import Model


def write_out(model: Model, patient: Floats) -> float:
    """Return β₀ + Σ β_k·r_k(x) + Σ β*_j·l_j(x_j) of one patient, as the paper writes it."""
    codes = encode(patient[None, :], model.grid)
    total = model.intercept
    for term in model.rule_terms:
        total += term.coefficient * all(
            condition.codes >> int(codes[0, condition.feature]) & 1 for condition in term.rule
        )
    for term in model.linear_terms:
        axis, x = model.grid.axes[term.feature], patient[term.feature]
        inside = np.clip(axis.fill if np.isnan(x) else x, *axis.limits)
        total += term.coefficient * RULE_SPREAD * (inside - axis.centre) / axis.spread
    return float(total)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_formula(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    patients = draw_patients(model, 30, seed=seed)
    rules = [term.rule for term in model.rule_terms]
    linear = [term.feature for term in model.linear_terms]
    coef = np.array(
        [model.intercept, *(term.coefficient for term in (*model.rule_terms, *model.linear_terms))]
    )
    expected = [write_out(model, patient) for patient in patients]
    found = predict(patients, model.grid, rules, linear, coef)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert evaluate_terms(patients, model.grid, rules, linear).n_terms == len(coef)
    alone = predict(patients, model.grid, rules, linear, coef, alone=True)
    np.testing.assert_allclose(alone, expected, atol=len(coef) * 2.0**-41 * 100)
    for k, patient in enumerate(patients):
        (one,) = predict(patient[None, :], model.grid, rules, linear, coef, alone=True)
        assert one == alone[k], "to the last bit, whoever stands beside"
