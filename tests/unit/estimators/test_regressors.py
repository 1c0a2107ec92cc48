"""The regressors, as scikit-learn and its users know them."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.feature_selection import RFE
from sklearn.impute import SimpleImputer
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedrulefit import (
    FederatedRuleFitClassifier,
    FederatedRuleFitRegressor,
    RuleFitClassifier,
    RuleFitRegressor,
)
from fedrulefit.errors import DataError, FedRuleFitError, ReadingWarning
from fedrulefit.estimators.ranges import outward_range, upward
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.study import NumberOutcome, Study
from tests.samples import make_frame, study_facts
from tests.unit.estimators.test_rulefit import impossible

FEW: dict[str, Any] = {
    "n_trees": 10, "learning_rate": 0.1, "penalty": 0.005, "random_state": 0,
}  # fmt: skip


def make_data(n_rows: int = 160, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(2)
    y = 50 + 10 * X[:, 0] + 20 * (X[:, 1] > 0.3) + 3 * rng.normal(size=n_rows)
    return X, y.round(1)


X, Y = make_data()
SITES = np.array(["north", "south"])[np.arange(160) % 2]

BOTH = pytest.mark.parametrize(
    "make",
    [
        lambda **more: RuleFitRegressor(**{**FEW, **more}),
        lambda **more: FederatedRuleFitRegressor(noise=False, **{**FEW, **more}),
    ],
    ids=["pooled", "federated"],
)


@parametrize_with_checks(
    [
        RuleFitRegressor(n_trees=10, penalty="cv", path_length=10, path_ratio=0.05, folds=3),
        FederatedRuleFitRegressor(n_trees=10, penalty=0.005, loss="robust"),
    ],
    expected_failed_checks=impossible,
)
def test_scikit_learn_s_own_checks(
    estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default noise is replaced by seeded noise, or the checks were random."""
    monkeypatch.setattr(
        "fedrulefit.protocol.site.site.OpenDPLaplace", lambda: UnsafeSeededLaplace(0, "test")
    )
    check(estimator)


def test_what_an_estimator_is() -> None:
    assert is_regressor(RuleFitRegressor())
    assert is_regressor(FederatedRuleFitRegressor())
    assert not is_classifier(RuleFitRegressor())
    assert is_classifier(RuleFitClassifier())
    assert is_classifier(FederatedRuleFitClassifier())
    assert not hasattr(RuleFitRegressor(), "decision_function")


@BOTH
def test_attributes(make: Any) -> None:
    fitted = make().fit(pd.DataFrame(X, columns=list("abcd")), Y)
    assert fitted.score(X, Y) == r2_score(Y, fitted.predict(X)) > 0.8
    assert fitted.coef_.shape == (len(fitted.rules_),)
    columns = fitted.transform(X)
    told = columns @ fitted.coef_ + fitted.intercept_
    np.testing.assert_allclose(told, fitted.predict(X), atol=1e-9)
    frame = fitted.predict_frame(pd.DataFrame(X, columns=list("abcd")))
    np.testing.assert_array_equal(frame["prediction"], fitted.predict(X))
    assert set(fitted.variable_importance_.nlargest(2).index) == {"a", "b"}
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert len(fitted.get_feature_names_out()) == len(fitted.coef_)


@BOTH
@pytest.mark.parametrize("loss", ["squared", "robust"])
def test_an_outlier_pulls_less_at_the_robust_loss(make: Any, loss: str) -> None:
    y = Y.copy()
    y[:8] = 500.0
    fitted = make(loss=loss).fit(X, y)
    assert fitted.study_.outcome.robust == (loss == "robust")
    off = np.abs(fitted.predict(X)[8:] - y[8:]).mean()
    assert (off < 10) == (loss == "robust")


def test_federated_is_pooled_without_noise() -> None:
    one = FederatedRuleFitRegressor(noise=False, **FEW).fit(X, Y)
    pooled = RuleFitRegressor(cutoffs="histogram", **FEW).fit(X, Y)
    np.testing.assert_allclose(one.predict(X), pooled.predict(X))
    two = FederatedRuleFitRegressor(noise=False, **FEW).fit(X, Y, sites=SITES)
    assert set(two.ledgers_) == {"north", "south"}
    assert two.score(X, Y) > 0.8


# --- scikit-learn's tools -----------------------------------------------------------------


def test_in_pipelines_searches_and_selectors() -> None:
    holes = X.copy()
    holes[::7, 0] = np.nan
    assert make_pipeline(SimpleImputer(), RuleFitRegressor(**FEW)).fit(holes, Y).score(X, Y) > 0.6
    search = GridSearchCV(RuleFitRegressor(**FEW), {"penalty": [0.005, 10.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"penalty": 0.005}
    kept = RFE(RuleFitRegressor(**FEW), n_features_to_select=2).fit(X, Y).support_
    assert kept.tolist() == [True, True, False, False]


def test_sites_are_routed() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = FederatedRuleFitRegressor(noise=False, **FEW).set_fit_request(sites=True)
        scores = cross_val_score(estimator, X, Y, params={"sites": SITES}, cv=2)
    assert scores.min() > 0.6


@BOTH
def test_clones_pickles_and_another_penalty(make: Any) -> None:
    fitted = make().fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert clone(fitted).get_params() == fitted.get_params()
    sparser = fitted.with_penalty(0.05, X, Y)
    anew = make(penalty=0.05).fit(X, Y)
    np.testing.assert_allclose(sparser.predict(X), anew.predict(X), atol=0.01)
    with pytest.raises(DataError, match="the outcome's facts are not those of the fit"):
        fitted.with_penalty(0.05, X, 2 * Y)
    twice = np.r_[:160, :160]
    with pytest.raises(DataError, match=r"^320 patients are not those of the fit \(160\): give"):
        fitted.with_penalty(0.05, X[twice], Y[twice])


# --- what is public of y ------------------------------------------------------------------


def test_the_range_is_read_off_y_rounded_outward() -> None:
    fitted = RuleFitRegressor(**FEW).fit(X, Y)
    low, high = fitted.study_.outcome.range
    assert low <= Y.min() < low + 5
    assert high - 5 < Y.max() <= high
    assert fitted.study_.ranges_from_data
    assert fitted.study_.outcome.step is None
    assert RuleFitRegressor(**FEW).fit(X, Y.round()).study_.outcome.step == 1
    weights = (Y < 60).astype(float)
    narrow = RuleFitRegressor(**FEW).fit(X, Y, sample_weight=weights).study_.outcome.range
    assert narrow[1] <= 65


@pytest.mark.parametrize(
    ("y", "ends"),
    [
        ([35.2, 41.9], (35.0, 42.0)),
        ([0, 1], (0, 1)),
        ([-3.17e-6, 2e-6], (-3.5e-6, 2e-6)),
        ([1.5e9, 1.7e9], (1.5e9, 1.7e9)),
        ([1e16, 1e16 + 4], (1e16, 1e16 + 4)),
    ],
)
def test_rounding_outward(y: list[float], ends: tuple[float, float]) -> None:
    found = outward_range(np.array(y, dtype=float))
    np.testing.assert_allclose(found, ends, rtol=1e-12)
    assert found[0] <= min(y) < max(y) <= found[1]
    assert upward(max(y)) >= max(y) > 0


def make_study(**outcome: Any) -> Study:
    facts = {"column": "stay", "kind": "number", "range": [0, 60], "unit": "days", **outcome}
    return Study.from_mapping({**study_facts(), "outcome": facts, "settings": {}})


FRAME = make_frame(120).drop(columns="died")
STAY = (0.5 * FRAME["age"].fillna(60) - 20 + np.arange(120) % 3).to_numpy().clip(1)


def test_a_study_says_what_the_outcome_is() -> None:
    given = {"n_trees": 5, "penalty": 0.01, "noise": False}
    study = make_study(robust=True)
    fitted = FederatedRuleFitRegressor(study=study, **given).fit(FRAME, STAY)
    assert isinstance(fitted.study_.outcome, NumberOutcome)
    assert fitted.study_.outcome == study.outcome
    assert not fitted.study_.ranges_from_data
    with pytest.raises(DataError, match="leave loss= out"):
        FederatedRuleFitRegressor(study=study, loss="squared").fit(FRAME, STAY)
    with pytest.raises(DataError, match="does not learn: use RuleFitRegressor"):
        RuleFitClassifier(study=study).fit(FRAME, STAY > 20)
    yes_no = Study.from_mapping(study_facts())
    with pytest.raises(DataError, match="does not learn: use FederatedRuleFitClassifier"):
        FederatedRuleFitRegressor(study=yes_no).fit(FRAME, STAY)
    with pytest.raises(DataError, match=r"which the outcome cannot be"):
        FederatedRuleFitRegressor(study=study, **given).fit(
            FRAME, np.where(np.arange(120) % 9, STAY, -99)
        )


def test_codes_for_a_missing_value_are_pointed_out() -> None:
    y = np.where(np.arange(160) % 9, Y.round(), -999)
    with pytest.warns(ReadingWarning, match="looks like a code for a missing value"):
        RuleFitRegressor(**FEW).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RuleFitRegressor(**FEW).fit(X, Y)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: None, "requires y to be passed"),
        (lambda y: np.where(np.arange(160) == 3, np.nan, y), "contains NaN: 1 of 160 patients"),
        (lambda y: np.where(np.arange(160) == 3, np.inf, y), "contains infinity"),
        (lambda y: np.where(y > 50, "long", "short"), "y must hold numbers"),
        (lambda y: np.full(160, 3.0), "y is the same for all patients"),
        (lambda y: "stay", "y wants one value per patient"),
    ],
)
def test_what_cannot_be_learnt(change: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RuleFitRegressor(**FEW).fit(X, change(Y))


def test_other_losses_and_an_exposure_of_a_number() -> None:
    with pytest.raises(ValueError, match="loss must be one of squared, robust, poisson"):
        RuleFitRegressor(loss="l1").fit(X, Y)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="exposure= is for counts"):
        RuleFitRegressor(**FEW).fit(X, Y, exposure=np.ones(160))
    with pytest.raises(DataError, match="exposure= is for counts"):
        RuleFitRegressor(**FEW).fit(X, Y).score(X, Y, exposure=np.ones(160))


# --- intervals ----------------------------------------------------------------------------


def test_intervals_hold_new_patients() -> None:
    X, y = make_data(1200)
    fitted = RuleFitRegressor(holdout=0.5, **FEW).fit(X, y)
    new, outcomes = make_data(600, seed=1)
    for level in (0.8, 0.95):
        low, high = fitted.predict_interval(new, level).T
        held = ((low <= outcomes) & (outcomes <= high)).mean()
        assert held == pytest.approx(level, abs=0.06)
        np.testing.assert_allclose((low + high) / 2, fitted.predict(new))


def test_intervals_need_patients_that_were_held_out() -> None:
    fitted = RuleFitRegressor(**FEW).fit(X, Y)
    with pytest.raises(FedRuleFitError, match=r"fit with holdout=0\.2"):
        fitted.predict_interval(X)
    with pytest.raises(ValueError, match=r"level must be 0\.8 or 0\.95"):
        fitted.predict_interval(X, level=0.9)
    fitted = RuleFitRegressor(holdout=0.1, **FEW).fit(X, Y)
    with pytest.raises(FedRuleFitError, match="too few patients were held out"):
        fitted.predict_interval(X)
