"""More covariates than patients: planned, said, and fitted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.errors import FitError

N_ROWS, N_FEATURES = 60, 800
FAST: dict[str, Any] = {"n_trees": 10, "folds": 2, "path_length": 8, "random_state": 0}


@pytest.fixture(scope="module")
def wide() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    return X, (X[:, 3] + 0.3 * rng.normal(size=N_ROWS) > 0).astype(int)


@pytest.mark.parametrize("most", [3000, 900])
def test_single_cut_offs_are_shared_out(wide: tuple[Any, Any], most: int) -> None:
    """300 patients with 2,000 covariates once failed after minutes, with half a million rules."""
    X, y = wide
    model = RuleFitClassifier(max_candidates=most, **FAST)
    with pytest.warns(UserWarning, match="800 covariates could give 38,400 single cut-offs"):
        model.fit(X, y)
    plan = model.study_.plan
    assert plan.n_candidates <= most
    assert plan.share == (most - N_FEATURES) // N_FEATURES, "“x is missing” comes first"
    # Trees add few: they find the same covariate again and again.
    assert 0 <= model.model_.provenance.candidates - plan.n_candidates < 200
    assert model.variable_importance_.idxmax() == "x3"
    assert model.score(X, y) > 0.8


def test_another_penalty_keeps_the_plan(wide: tuple[Any, Any]) -> None:
    X, y = wide
    model = RuleFitClassifier(max_candidates=3000, **FAST)
    with pytest.warns(UserWarning, match="single cut-offs"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said before
        again = model.with_penalty(0.2, X, y)
    assert again.candidates_ == model.candidates_
    assert again.study_ == model.study_.with_settings(penalty=0.2)
    fresh = RuleFitClassifier(max_candidates=3000, **{**FAST, "penalty": 0.2})
    with pytest.warns(UserWarning, match="single cut-offs"):
        fresh.fit(X, y)
    np.testing.assert_allclose(
        again.decision_function(X), fresh.decision_function(X), rtol=0, atol=1e-7
    )
    assert 0 < len(again.rules_) < len(model.rules_)


def test_sites_plan_the_same_and_noise_is_warned_of(wide: tuple[Any, Any]) -> None:
    X, y = wide
    sites = np.arange(N_ROWS) % 3
    model = FederatedRuleFitClassifier(unsafe_noise_seed=1, **FAST)
    with pytest.warns(UserWarning, match="planned") as told:
        model.fit(X, y, sites=sites)
    words = [str(warning.message) for warning in told]
    assert any("planned: at most 11 of each covariate" in each for each in words)
    assert any("ε of each histogram is 0.013: its noise moves a median" in each for each in words)
    assert model.model_.provenance.candidates <= 10_000 + 500


def test_pooled_cut_offs_are_at_least_as_many_as_between_hospitals(wide: tuple[Any, Any]) -> None:
    """254 of each of 800 covariates were 200,000 candidates, and most of the time of the trees."""
    X, y = wide
    narrow = RuleFitClassifier(**FAST).fit(X[:, :39], y)
    assert narrow.study_.settings.n_cutoffs == 254
    between = RuleFitClassifier(**FAST).fit(X[:, :100], y)
    assert between.study_.settings.n_cutoffs == 99
    with pytest.warns(UserWarning, match="planned"):
        many = RuleFitClassifier(**FAST).fit(X, y)
    assert many.study_.settings.n_cutoffs == 48
    given = RuleFitClassifier(n_cutoffs=100, single_cutoffs=False, **FAST).fit(X, y)
    assert given.study_.settings.n_cutoffs == 100


@pytest.mark.filterwarnings("error")
def test_a_plan_that_cannot_be_kept_stops_at_once(wide: tuple[Any, Any]) -> None:
    X, y = wide
    words = "800 times “x is missing” are 800 candidate rules, of at most 500"
    with pytest.raises(FitError, match=words):
        RuleFitClassifier(max_candidates=500).fit(X, y)


@pytest.mark.filterwarnings("error")
def test_narrow_data_are_told_nothing(wide: tuple[Any, Any]) -> None:
    X, y = wide
    RuleFitClassifier(**FAST).fit(X[:, :10], y)
    FederatedRuleFitClassifier(noise=False, **FAST).fit(X[:, :10], y)
