"""What a missing value tells is told by ``x is missing``, not by a cut-off of x."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from fedrulefit import FederatedRuleFitClassifier, Study
from fedrulefit.core.predictor import evaluate_terms

N_ROWS = 900


def simulate(seed: int) -> tuple[pd.DataFrame, pd.Series[int], Study]:
    """Of the laboratory value only whether it was measured counts; a flag is rare."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, N_ROWS),
            "lab": rng.lognormal(5.4, 0.25, N_ROWS),
            "flag": (rng.random(N_ROWS) < 0.05).astype(float),
        }
    )
    # A quarter was not measured.
    table.loc[rng.random(N_ROWS) < 0.25, ["lab", "flag"]] = np.nan
    odds = -0.5 + 1.5 * table["lab"].isna() + 0.03 * (table["age"] - 54)
    y = pd.Series((rng.random(N_ROWS) < expit(odds)).astype(int))
    covariates = {
        "age": {"kind": "number", "range": [18, 90]},
        "lab": {"kind": "number", "range": [50, 900]},
        "flag": {"kind": "yes/no"},
    }
    facts = {"name": "lab", "outcome": {"column": "y"}, "covariates": covariates}
    return table, y, Study.from_mapping(facts)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_no_cutoff_stands_for_missing(seed: int, preset: str) -> None:
    """``lab < 478``, true for 99 % of the known, had an odds ratio of its own."""
    table, y, study = simulate(seed)
    settings = {"noise": False, "n_trees": 30, "single_cutoffs": True, "drop_complements": True}
    model = FederatedRuleFitClassifier(study=study, preset=preset, random_state=0, **settings)
    model.fit(table, y, sites=np.arange(N_ROWS) % 3)
    fitted = model.model_
    rules = [term.rule for term in fitted.rule_terms]
    values = fitted.read_values(table)
    fires = evaluate_terms(values, fitted.grid, rules, []).dense_rules()
    names = [fitted.describe(term) for term in fitted.rule_terms]
    absent = table["lab"].isna()
    alike = [abs(np.corrcoef(column, absent)[0, 1]) > 0.9 for column in fires.T]
    found = {name for name, near in zip(names, alike, strict=True) if near}
    assert found & {"lab is missing", "flag is missing", "lab is not missing"}
    assert all(name.endswith("missing") for name in found), found
