"""RuleFit without federation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.baselines.rulefit import conventional_rulefit, fit_each_site, sample_share
from fedrulefit.core import boosting


def test_the_paper_names_its_numbers() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    model = conventional_rulefit(80, penalty=0.05).fit(X, X[:, 0] > 0)
    settings = model.study_.settings
    assert (settings.n_trees, settings.mean_leaves, settings.learning_rate) == (333, 4, 0.01)
    assert (settings.solver, settings.noise) == ("exact", False)
    assert conventional_rulefit(80).penalty == "cv"


@pytest.mark.parametrize(
    ("n_rows", "eta"),
    [(20, 10), (200, 100), (456, 228), (457, 228.265), (1000, 289.737), (10_000, 700)],
)
def test_trees_see_friedman_and_popescus_sample(n_rows: int, eta: float) -> None:
    """η = min(N / 2, 100 + 6 √N): half of up to 456 patients."""
    assert n_rows * sample_share(n_rows) == pytest.approx(eta, abs=1e-3)
    assert conventional_rulefit(n_rows).subsample == sample_share(n_rows)
    assert conventional_rulefit(n_rows, subsample=1.0).subsample == 1.0


def test_every_tree_draws_its_own_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree's leaves count the patients that it saw: η of N on average.

    The sum of 200 binomial counts has a standard deviation of 203; the limit is four of them.
    """
    grown: list[Any] = []
    make = boosting._make_booster
    monkeypatch.setattr(
        boosting, "_make_booster", lambda *a, **k: grown.append(make(*a, **k)) or grown[-1]
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    y = (X[:, 0] + rng.normal(size=1000) > 0).astype(int)
    conventional_rulefit(1000, n_trees=200, penalty=0.05, random_state=0).fit(X, y)
    trees = grown[0].dump_model()["tree_info"]
    sizes = [tree["tree_structure"]["internal_count"] for tree in trees]
    assert sum(sizes) == pytest.approx(200 * 1000 * sample_share(1000), abs=4 * 203)
    assert len(set(sizes)) > 20


def test_each_site_learns_from_its_own_patients_only() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    sites = np.repeat(["a", "b"], 60)
    y = np.where(sites == "a", X[:, 0] > 0, X[:, 1] > 0).astype(int)
    quick = partial(conventional_rulefit, n_trees=5, penalty=0.05, random_state=0)
    models = fit_each_site(quick, X, y, sites=sites)
    assert list(models) == ["a", "b"]
    alone = quick(60).fit(X[60:], y[60:])
    np.testing.assert_array_equal(models["b"].predict_proba(X), alone.predict_proba(X))
    assert models["a"].variable_importance_.idxmax() == "x0"
    assert models["b"].variable_importance_.idxmax() == "x1"


def test_each_site_learns_from_a_data_frame() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=120), "sex": rng.choice(["m", "f"], size=120)})
    sites = np.repeat(["a", "b"], 60)
    outcome = (frame["age"] > 0).rename("died")
    quick = partial(conventional_rulefit, n_trees=5, penalty=0.05, random_state=0)
    models = fit_each_site(quick, frame, outcome, sites=sites)
    assert models["a"].study_.names == ("age", "sex")
