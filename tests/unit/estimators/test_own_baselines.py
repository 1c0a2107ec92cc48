"""Estimators with hospitals' own baselines: as a new hospital by default, at a site if asked."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from fedrulefit import (
    FederatedRuleFitClassifier,
    FederatedRuleFitRegressor,
    RuleFitClassifier,
)
from fedrulefit.errors import DataError
from fedrulefit.model.own_file import fingerprint
from fedrulefit.testing.samples import add_outcomes, make_frame

NAMES = ["age", "lactate", "gcs", "ward", "sex"]
QUICK: dict[str, Any] = {
    "n_trees": 15, "penalty": 0.01, "noise": False, "random_state": 0, "baseline": "afterwards",
}  # fmt: skip


def draw() -> tuple[pd.DataFrame, pd.Series, np.ndarray[Any, Any]]:
    """Return patients of two hospitals; in the second half of the deaths do not happen."""
    frames = [make_frame(500, seed) for seed in (1, 2)]
    frame = pd.concat([add_outcomes(part, k) for k, part in enumerate(frames)], ignore_index=True)
    sites = np.repeat(["east", "west"], 500)
    spared = (sites == "west") & (np.random.default_rng(3).random(1000) < 0.5)
    frame.loc[spared, "died"] = "no"
    return frame[NAMES], frame["died"], sites


@pytest.fixture(scope="module")
def fitted() -> Any:
    X, y, sites = draw()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FederatedRuleFitClassifier(**QUICK).fit(X, y, sites=sites)


def test_predictions_are_for_a_new_hospital_and_nobody_is_warned(fitted: Any) -> None:
    X, _, _ = draw()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fitted.predict_proba(X)[:, 1]
        np.testing.assert_array_equal(found, fitted.predict_frame(X)["probability"])
        np.testing.assert_array_equal(found, fitted.model_.at(None).predict(X))
        fitted.decision_function(X)


def test_at_a_site_they_are_that_site_s(fitted: Any) -> None:
    X, y, sites = draw()
    assert set(fitted.baselines_) == {"east", "west"}
    loss = {}
    for site, own in fitted.baselines_.items():
        assert own.model == fingerprint(fitted.model_)
        placed = fitted.at(site)
        assert placed is not fitted
        assert fitted.model_.hospital is None, "the estimator stays as it was"
        moved = placed.decision_function(X) - fitted.decision_function(X)
        np.testing.assert_allclose(moved, own.values[0], atol=1e-12)
        assert placed.intercept_[0] == pytest.approx(fitted.intercept_[0] + own.values[0])
        here = sites == site
        rate = (y[here] == "yes").mean()
        means = [e.predict_proba(X[here])[:, 1].mean() for e in (fitted, placed)]
        loss[site] = [abs(mean - rate) for mean in means]
    assert fitted.baselines_["west"].values[0] < -0.3 < 0.1 < fitted.baselines_["east"].values[0]
    assert all(after < before / 3 for before, after in loss.values())


def test_another_hospital_brings_its_own(fitted: Any) -> None:
    X, y, _ = draw()
    table = X.assign(**{fitted.study_.outcome.column: y})
    own = fitted.model_.estimate_baseline(table, site="south")
    moved = fitted.at(own).decision_function(X) - fitted.decision_function(X)
    np.testing.assert_allclose(moved, own.values[0], atol=1e-12)


def test_what_is_refused(fitted: Any) -> None:
    X, y, sites = draw()
    with pytest.raises(DataError, match="no own baseline of a site 'north'; there are: east, west"):
        fitted.at("north")
    onward = fitted.at("east").at("west")
    assert onward.intercept_ == fitted.at("west").intercept_
    with pytest.raises(NotFittedError):
        FederatedRuleFitClassifier(**QUICK).at("east")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shared = FederatedRuleFitClassifier(**{**QUICK, "baseline": "shared"})
        shared.fit(X, y, sites=sites)
    assert shared.baselines_ == {}
    with pytest.raises(DataError, match="fit with baseline='afterwards'"):
        shared.at("east")


def test_at_another_penalty_baselines_are_found_anew(fitted: Any) -> None:
    X, y, sites = draw()
    again = fitted.with_penalty(0.03, X, y, sites=sites)
    fresh = FederatedRuleFitClassifier(**{**QUICK, "penalty": 0.03})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh.fit(X, y, sites=sites)
    for site, own in fresh.baselines_.items():
        found = again.baselines_[site]
        assert found.model == fingerprint(again.model_)
        assert found.values[0] == pytest.approx(own.values[0], abs=1e-9)
        assert found.values != fitted.baselines_[site].values
        again.at(site).predict_proba(X)


def test_of_a_number_too() -> None:
    X, _, sites = draw()
    rng = np.random.default_rng(0)
    y = X["age"].to_numpy() / 10 + 3 * (sites == "west") + rng.normal(size=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = FederatedRuleFitRegressor(**QUICK).fit(X, y, sites=sites)
        means = {
            site: (made.at(site).predict(X[sites == site]) - y[sites == site]).mean()
            for site in ("east", "west")
        }
        plain = (made.predict(X[sites == "west"]) - y[sites == "west"]).mean()
    assert abs(plain) > 0.5 > 0.1 > max(map(abs, means.values()))


def test_pooled_patients_are_one_site() -> None:
    X, y, _ = draw()
    facts = {key: value for key, value in QUICK.items() if key != "noise"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = RuleFitClassifier(**facts).fit(X, y)
    (own,) = made.baselines_.values()
    assert abs(own.values[0]) < 0.05, "all are at the baseline that they share"
