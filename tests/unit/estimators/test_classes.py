"""Classifiers of more than two classes, with an order and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.errors import DataError, FitError
from fedrulefit.study import Study

Make = Callable[..., Any]
FEW: dict[str, Any] = {"n_trees": 10, "penalty": 0.01, "random_state": 0}
BOTH = pytest.mark.parametrize(
    "make",
    [
        lambda **more: RuleFitClassifier(**{**FEW, **more}),
        lambda **more: FederatedRuleFitClassifier(noise=False, **{**FEW, **more}),
    ],
    ids=["central", "federated"],
)
IRIS, SPECIES = load_iris(return_X_y=True, as_frame=True)
NAMES = load_iris().target_names[SPECIES]


@BOTH
def test_each_class_has_a_probability(make: Make) -> None:
    fitted = make().fit(IRIS, NAMES)
    assert fitted.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    chances = fitted.predict_proba(IRIS)
    assert chances.shape == (150, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (fitted.predict(IRIS) == fitted.classes_[chances.argmax(axis=1)]).all()
    assert fitted.score(IRIS, NAMES) > 0.95


def test_columns_times_coefficients_are_the_predictors() -> None:
    fitted = RuleFitClassifier(**FEW).fit(IRIS, NAMES)
    assert fitted.coef_.shape == (3, len(fitted.rules_))
    assert fitted.intercept_.shape == (3,)
    assert fitted.intercept_.sum() == pytest.approx(0, abs=1e-9)
    assert ((fitted.coef_ != 0).sum(axis=0) == 1).all()
    found = fitted.transform(IRIS) @ fitted.coef_.T + fitted.intercept_
    np.testing.assert_allclose(found, fitted.decision_function(IRIS), atol=1e-9)
    names = fitted.get_feature_names_out().tolist()
    assert len(set(names)) == len(names)
    assert {name.split(": ")[0] for name in names} <= {*fitted.classes_}


def test_as_good_as_sites_as_pooled() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    sites = np.resize(["north", "south", "west"], len(y))
    model = FederatedRuleFitClassifier(noise=False, **FEW)
    assert cross_val_score(model, X, y, cv=3, params={"sites": sites}).mean() > 0.85
    fitted = model.fit(X, y, sites=sites)
    auc = roc_auc_score(y, fitted.predict_proba(X), multi_class="ovr")
    assert auc > 0.98


def test_balanced_classes_count_alike() -> None:
    keep = np.r_[0:50, 50:70, 100:120]
    fitted = RuleFitClassifier(class_weight="balanced", **FEW).fit(
        IRIS.iloc[keep], SPECIES.iloc[keep]
    )
    assert fitted.predict_proba(IRIS.iloc[keep]).shape == (90, 3)
    assert fitted.model_.provenance.patients == pytest.approx(90)


ORDER = ["setosa", "versicolor", "virginica"]


@pytest.mark.parametrize("kind", ["classes", "ordered"])
def test_searches_and_scores_take_several_classes(kind: str) -> None:
    study = Study.from_mapping(facts(kind, ORDER))
    model = RuleFitClassifier(study=study)
    scores = cross_val_score(model, IRIS, NAMES, cv=3, scoring="roc_auc_ovr")
    assert scores.min() > 0.9
    search = GridSearchCV(model, {"penalty": [0.01, 1.0]}, cv=2, scoring="neg_log_loss")
    search.fit(IRIS, NAMES)
    assert search.best_params_ == {"penalty": 0.01}
    assert search.best_estimator_.classes_.tolist() == ORDER


@pytest.mark.parametrize("kind", ["classes", "ordered"])
def test_the_decision_ranks_as_the_probabilities_do(kind: str) -> None:
    """Its softmax is the probabilities: of classes it is the predictors, of ordered ones logs."""
    fitted = RuleFitClassifier(study=Study.from_mapping(facts(kind, ORDER[::-1]))).fit(IRIS, NAMES)
    decision = fitted.decision_function(IRIS)
    assert decision.shape == (150, 3)
    np.testing.assert_allclose(softmax(decision, axis=1), fitted.predict_proba(IRIS), atol=1e-12)
    assert (fitted.classes_[decision.argmax(axis=1)] == fitted.predict(IRIS)).all()


def test_ordered_classes_share_their_columns() -> None:
    fitted = RuleFitClassifier(study=Study.from_mapping(facts("ordered", ORDER))).fit(IRIS, NAMES)
    n_terms = len(fitted.rules_)
    assert fitted.coef_.shape == (1, n_terms)
    assert fitted.intercept_.shape == (1,)
    assert fitted.transform(IRIS).shape == (150, n_terms)
    first = fitted.transform(IRIS) @ fitted.coef_[0] + fitted.intercept_[0]
    beyond = 1 - fitted.predict_proba(IRIS)[:, 0]
    np.testing.assert_allclose(expit(first), beyond, atol=1e-9)


@pytest.mark.parametrize("kind", ["classes", "ordered"])
def test_class_weights_are_sample_weights(kind: str) -> None:
    study = Study.from_mapping(facts(kind, ORDER))
    weights = {"setosa": 1.0, "versicolor": 3.0, "virginica": 0.5}
    by_class = RuleFitClassifier(study=study, class_weight=weights).fit(IRIS, NAMES)
    own = np.array([weights[name] for name in NAMES])
    by_sample = RuleFitClassifier(study=study).fit(IRIS, NAMES, sample_weight=own)
    np.testing.assert_allclose(by_class.predict_proba(IRIS), by_sample.predict_proba(IRIS))
    plain = RuleFitClassifier(study=study).fit(IRIS, NAMES).predict_proba(IRIS).mean(axis=0)
    assert by_class.predict_proba(IRIS).mean(axis=0)[1] > plain[1] + 0.05


def facts(kind: str, levels: list[Any]) -> dict[str, Any]:
    spread = {"kind": "number", "range": [0, 10]}
    return {
        "name": "iris",
        "outcome": {"kind": kind, "column": "species", "levels": levels},
        "covariates": dict.fromkeys(IRIS.columns, spread),
        "settings": {"n_trees": 10, "penalty": 0.01},
    }


@pytest.mark.parametrize("kind", ["classes", "ordered"])
def test_a_study_may_name_the_levels_in_its_own_order(kind: str) -> None:
    """classes_ are sorted, as scikit-learn's measures take them; the model's levels are not."""
    levels = ["virginica", "versicolor", "setosa"]
    study = Study.from_mapping(facts(kind, levels))
    fitted = RuleFitClassifier(study=study).fit(IRIS, NAMES)
    assert fitted.classes_.tolist() == levels[::-1]
    assert fitted.model_.study.family.names == tuple(levels)
    assert fitted.score(IRIS, NAMES) > 0.9
    np.testing.assert_allclose(fitted.predict_proba(IRIS).sum(axis=1), 1)
    frame = fitted.predict_frame(IRIS)
    np.testing.assert_allclose(frame["probability_setosa"], fitted.predict_proba(IRIS)[:, 0])


def test_y_must_have_the_levels_of_the_study() -> None:
    study = Study.from_mapping(facts("classes", ["setosa", "versicolor", "other"]))
    with pytest.raises(DataError, match="y must have all levels of the study's outcome"):
        RuleFitClassifier(study=study).fit(IRIS, NAMES)
    two = {**facts("classes", []), "outcome": {"column": "species"}}
    with pytest.raises(DataError, match="is yes/no, and y has more classes"):
        RuleFitClassifier(study=Study.from_mapping(two)).fit(IRIS, NAMES)


def test_it_goes_on_with_another_penalty_and_in_a_pipeline() -> None:
    fitted = RuleFitClassifier(**FEW).fit(IRIS, NAMES)
    again = fitted.with_penalty(0.05, IRIS, NAMES)
    assert len(again.rules_) < len(fitted.rules_)
    piped = make_pipeline("passthrough", RuleFitClassifier(**FEW)).fit(IRIS, NAMES)
    np.testing.assert_array_equal(piped.predict(IRIS), fitted.predict(IRIS))


def test_a_class_without_weight_is_named() -> None:
    with pytest.raises(FitError, match="no patient of any site has the level '2'"):
        RuleFitClassifier(**FEW).fit(IRIS, SPECIES, sample_weight=(SPECIES < 2).astype(float))
