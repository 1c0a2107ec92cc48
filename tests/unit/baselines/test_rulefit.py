"""RuleFit without federation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedrulefit.baselines.rulefit import conventional_rulefit, fit_each_site


def test_the_paper_names_its_numbers() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    model = conventional_rulefit(penalty=0.05).fit(X, X[:, 0] > 0)
    settings = model.study_.settings
    assert (settings.n_trees, settings.mean_leaves, settings.learning_rate) == (333, 4, 0.01)
    assert (settings.solver, settings.noise) == ("exact", False)
    assert conventional_rulefit().penalty == "cv"


def test_each_site_learns_from_its_own_patients_only() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    sites = np.repeat(["a", "b"], 60)
    y = np.where(sites == "a", X[:, 0] > 0, X[:, 1] > 0).astype(int)
    quick = conventional_rulefit(n_trees=5, penalty=0.05, random_state=0)
    models = fit_each_site(quick, X, y, sites=sites)
    assert list(models) == ["a", "b"]
    alone = conventional_rulefit(n_trees=5, penalty=0.05, random_state=0).fit(X[60:], y[60:])
    np.testing.assert_array_equal(models["b"].predict_proba(X), alone.predict_proba(X))
    assert models["a"].variable_importance_.index[0] == "x0"
    assert models["b"].variable_importance_.index[0] == "x1"


def test_each_site_learns_from_a_data_frame() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=120), "sex": rng.choice(["m", "f"], size=120)})
    sites = np.repeat(["a", "b"], 60)
    outcome = (frame["age"] > 0).rename("died")
    quick = conventional_rulefit(n_trees=5, penalty=0.05, random_state=0)
    models = fit_each_site(quick, frame, outcome, sites=sites)
    assert models["a"].study_.names == ("age", "sex")
