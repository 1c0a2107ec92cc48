"""Federated forests: with one site, scikit-learn's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state

from fedrulefit.baselines.forest import FederatedForestClassifier, share_trees


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 4))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def test_one_site_is_a_plain_forest(problem) -> None:
    X, y = problem
    ours = FederatedForestClassifier(n_trees=20, random_state=5).fit(X, y)
    seed = check_random_state(5).randint(2**31 - 1)
    plain = RandomForestClassifier(20, random_state=seed).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), plain.predict_proba(X))


def test_the_forest_is_the_mean_over_all_trees(problem) -> None:
    X, y = problem
    sites = np.repeat(["a", "b"], [150, 50])
    model = FederatedForestClassifier(n_trees=12, random_state=0).fit(X, y, sites=sites)
    trees = [tree for forest in model.forests_.values() for tree in forest.estimators_]
    assert [len(forest.estimators_) for forest in model.forests_.values()] == [9, 3]
    mean = np.mean([tree.predict_proba(X) for tree in trees], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), mean)


def test_sites_may_count_alike(problem) -> None:
    X, y = problem
    model = FederatedForestClassifier(n_trees=10, weighting="sites", random_state=0)
    model.fit(X, y, sites=np.repeat(["a", "b"], [190, 10]))
    assert [forest.n_estimators for forest in model.forests_.values()] == [5, 5]


def test_sites_count_alike_where_trees_cannot_be_shared_evenly(problem) -> None:
    X, y = problem
    sites = np.arange(len(y)) % 3
    model = FederatedForestClassifier(n_trees=10, weighting="sites", random_state=0)
    model.fit(X, y, sites=sites)
    assert sorted(forest.n_estimators for forest in model.forests_.values()) == [3, 3, 4]
    by_site = [forest.predict_proba(X)[:, 1] for forest in model.forests_.values()]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], np.mean(by_site, axis=0))


def test_a_site_may_have_one_class(problem) -> None:
    X, y = problem
    model = FederatedForestClassifier(n_trees=10, random_state=0).fit(X, y, sites=y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], model.forests_["1"].n_estimators / 10)


@given(st.integers(1, 60), st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_trees_are_shared_out_completely(n_trees: int, patients: list[int]) -> None:
    weights = np.array(patients, float)
    counts = share_trees(n_trees, weights)
    assert min(counts) >= 1
    assert sum(counts) == max(n_trees, len(patients))
    ideal = n_trees * weights / weights.sum()
    assert np.all(np.array(counts) < np.maximum(ideal, 1) + 1)


@pytest.mark.parametrize("wrong", [{"weighting": "trees"}, {"n_trees": 0}])
def test_wrong_settings_are_refused(problem, wrong) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FederatedForestClassifier(**wrong).fit(*problem)
