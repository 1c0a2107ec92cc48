"""Wishes of the estimators, without a study file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fedrulefit import (
    FederatedRuleFitClassifier,
    RuleFitClassifier,
    RuleFitRegressor,
)
from fedrulefit.errors import DataError, StudyError
from fedrulefit.testing.samples import make_frame, make_study

FRAME = make_frame(400, 1)
X, Y = FRAME.drop(columns="died"), FRAME["died"]
QUICK: dict[str, Any] = {"n_trees": 5, "folds": 2, "path_length": 10, "random_state": 0}
WISHES: dict[str, Any] = {
    "direction": {"lactate": "up", "gcs": "down"},
    "keep": ["sex"],
    "kept_rules": ["age >= 64.3 & gcs < 9"],
    "never": [["age", "lactate"]],
    "forbidden_rules": ["ward = icu"],
}


@pytest.mark.parametrize("kind", [RuleFitClassifier, FederatedRuleFitClassifier])
def test_wishes_are_obeyed(kind: Any) -> None:
    sites = {} if kind is RuleFitClassifier else {"sites": np.arange(400) % 2}
    fitted = clone(kind(**QUICK, wishes=WISHES)).fit(X, Y, **sites)
    words = set(fitted.rules_["rule"])
    assert any("64.3" in each and "gcs < 9" in each for each in words)
    assert any("sex" in each for each in words)
    assert not any("ward = icu" in each and "&" not in each for each in words)
    assert not any("age" in each and "lactate" in each for each in words)
    swept = X.iloc[np.repeat(np.arange(30), 40)].copy()
    swept["lactate"] = np.tile(np.linspace(0.3, 15, 40), 30)
    risks = fitted.predict_proba(swept)[:, 1].reshape(30, 40)
    assert np.diff(risks, axis=1).min() >= -1e-9
    assert {wish.kind for wish in fitted.model_.wishes} >= {"direction", "keep", "kept rule"}


def test_prices_are_told_on_request() -> None:
    plain = RuleFitClassifier(**QUICK, wishes=WISHES).fit(X, Y)
    priced = RuleFitClassifier(**QUICK, wishes=WISHES, price_wishes=True).fit(X, Y)
    assert all(wish.price is None for wish in plain.model_.wishes)
    assert all(wish.price is not None for wish in priced.model_.wishes)
    np.testing.assert_array_equal(plain.predict_proba(X), priced.predict_proba(X))
    again = priced.with_penalty(0.01, X, Y)
    assert all(wish.price is None for wish in again.model_.wishes)
    assert "gcs < 9" in " ".join(again.rules_["rule"])


def test_numbers_take_wishes_too() -> None:
    y = np.arange(400) % 7 + (X["age"] > 60)
    fitted = RuleFitRegressor(**QUICK, wishes={"direction": {"age": "down"}}).fit(X, y)
    assert not any("age" in each for each in fitted.rules_["rule"])


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        ({"direction": {"height": "up"}}, DataError, "a column that X does not have: 'height'"),
        ({"keep": ["sxe"]}, DataError, "did you mean 'sex'"),
        ({"rule": []}, DataError, "did you mean 'rules'"),
        (["sex"], DataError, "wishes= is a mapping"),
        ({"keep": "sex"}, DataError, "as a list of covariates"),
        ({"direction": {"age": "rise"}}, StudyError, "direction"),
        ({"direction": {"ward": "up"}}, StudyError, "direction"),
        ({"rules": ["GSC < 9"]}, StudyError, "no covariate 'GSC'"),
    ],
)
def test_wishes_that_cannot_be_read_are_refused(wishes: Any, error: Any, message: str) -> None:
    with pytest.raises(error) as raised:
        RuleFitClassifier(**QUICK, wishes=wishes).fit(X, Y)
    assert message in str(raised.value)


def test_beside_a_study_wishes_stand_in_the_study() -> None:
    with pytest.raises(DataError, match="leave wishes= out"):
        RuleFitClassifier(study=make_study(solver="exact"), wishes=WISHES).fit(X, Y)
