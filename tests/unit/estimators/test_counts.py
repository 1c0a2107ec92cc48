"""``loss="poisson"``: counts, and the exposure over which they were counted."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.stats import nbinom
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from fedrulefit import FederatedRuleFitRegressor, RuleFitRegressor
from fedrulefit.errors import DataError, FedRuleFitError
from fedrulefit.study import CountOutcome, Study
from tests.samples import make_frame, study_facts

FEW: dict[str, Any] = {
    "loss": "poisson", "n_trees": 10, "learning_rate": 0.1, "penalty": 0.002, "random_state": 0,
}  # fmt: skip


def make_data(n_rows: int = 200, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).round(2)
    exposure = rng.uniform(10, 87, n_rows).round(1)
    rate = 0.03 * np.exp(0.7 * X[:, 0] + (X[:, 1] > 0.5))
    return X, rng.poisson(rate * exposure), exposure


X, Y, EXPOSURE = make_data()
RATE = 0.03 * np.exp(0.7 * X[:, 0] + (X[:, 1] > 0.5))
SITES = np.array(["north", "south"])[np.arange(200) % 2]

BOTH = pytest.mark.parametrize(
    "make",
    [
        lambda **more: RuleFitRegressor(**{**FEW, **more}),
        lambda **more: FederatedRuleFitRegressor(noise=False, **{**FEW, **more}),
    ],
    ids=["pooled", "federated"],
)


@BOTH
def test_counts_that_vary_more_have_a_dispersion(make: Any) -> None:
    rng = np.random.default_rng(4)
    varied = rng.poisson(RATE * EXPOSURE * rng.gamma(1.0, 1.0, 200))
    fitted = make(loss="negative-binomial").fit(X, varied, exposure=EXPOSURE)
    assert fitted.study_.outcome.dispersion == "negative-binomial"
    assert 0.5 < fitted.model_.theta < 2
    rate = fitted.predict(X)
    assert np.corrcoef(np.log(rate), np.log(RATE))[0, 1] > 0.7
    columns = fitted.transform(X)
    np.testing.assert_allclose(np.exp(columns @ fitted.coef_ + fitted.intercept_), rate)
    assert fitted.score(X, varied, exposure=EXPOSURE) == pytest.approx(
        d2_tweedie_score(varied / EXPOSURE, rate, sample_weight=EXPOSURE, power=1)
    )
    stronger = fitted.with_penalty(0.01, X, varied, exposure=EXPOSURE).model_
    assert len(stronger.terms) <= len(fitted.model_.terms)
    assert 0.3 < stronger.theta < 2
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), rate)
    judged = make(loss="negative-binomial", holdout=0.2).fit(X, varied, exposure=EXPOSURE)
    mean, theta = judged.predict(X) * EXPOSURE, judged.model_.theta
    low, high = judged.predict_interval(X, level=0.8, exposure=EXPOSURE).T
    np.testing.assert_array_equal(low, nbinom.ppf(0.1, theta, theta / (theta + mean)))
    np.testing.assert_array_equal(high, nbinom.ppf(0.9, theta, theta / (theta + mean)))
    plain = make().fit(X, varied, exposure=EXPOSURE)
    assert plain.study_.outcome.dispersion == "poisson"
    assert np.isnan(plain.model_.theta)


@BOTH
def test_it_predicts_the_rate(make: Any) -> None:
    fitted = make().fit(X, Y, exposure=EXPOSURE)
    rate = fitted.predict(X)
    assert np.corrcoef(np.log(rate), np.log(RATE))[0, 1] > 0.9
    assert (rate * EXPOSURE).sum() == pytest.approx(Y.sum(), rel=0.01)
    columns = fitted.transform(X)
    np.testing.assert_allclose(np.exp(columns @ fitted.coef_ + fitted.intercept_), rate)
    outcome = fitted.study_.outcome
    assert isinstance(outcome, CountOutcome)
    assert (outcome.most, outcome.max_exposure) == (Y.max(), np.ceil(EXPOSURE.max()))
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), rate)


def test_counts_without_an_exposure() -> None:
    fitted = RuleFitRegressor(**FEW).fit(X, Y)
    assert fitted.predict(X).mean() == pytest.approx(Y.mean(), rel=0.01)
    assert fitted.score(X, Y) == d2_tweedie_score(Y, fitted.predict(X), power=1)
    ones = RuleFitRegressor(**FEW).fit(X, Y, exposure=np.ones(200))
    np.testing.assert_allclose(ones.predict(X), fitted.predict(X))


def test_the_score_is_the_share_of_deviance_that_is_explained() -> None:
    fitted = RuleFitRegressor(**FEW).fit(X, Y, exposure=EXPOSURE)
    weights = 1.0 + np.arange(200) % 3

    def deviance(rate: Any) -> float:
        mean = rate * EXPOSURE
        logs = np.where(Y > 0, Y * np.log(np.where(Y > 0, Y, 1) / mean), 0.0)
        return float((weights * (logs - Y + mean)).sum())

    same = (weights * Y).sum() / (weights * EXPOSURE).sum()
    expected = 1 - deviance(fitted.predict(X)) / deviance(same)
    found = fitted.score(X, Y, sample_weight=weights, exposure=EXPOSURE)
    assert found == pytest.approx(expected)
    assert found > 0.3


def test_exposures_are_routed() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = FederatedRuleFitRegressor(noise=False, **FEW)
        estimator.set_fit_request(sites=True, exposure=True).set_score_request(exposure=True)
        given = {"sites": SITES, "exposure": EXPOSURE}
        assert cross_val_score(estimator, X, Y, params=given, cv=2).min() > 0.1
        pooled = RuleFitRegressor(**FEW).set_fit_request(exposure=True)
        pooled.set_score_request(exposure=True)
        search = GridSearchCV(pooled, {"penalty": [0.002, 5.0]}, cv=2)
        assert search.fit(X, Y, exposure=EXPOSURE).best_params_ == {"penalty": 0.002}


def test_another_penalty() -> None:
    fitted = RuleFitRegressor(**FEW).fit(X, Y, exposure=EXPOSURE)
    sparser = fitted.with_penalty(0.01, X, Y, exposure=EXPOSURE)
    anew = RuleFitRegressor(**{**FEW, "penalty": 0.01}).fit(X, Y, exposure=EXPOSURE)
    np.testing.assert_allclose(sparser.predict(X), anew.predict(X), rtol=1e-3)


@pytest.mark.parametrize(
    ("y", "exposure", "words"),
    [
        (Y - 1, None, r"values of y are negative, and counts start at 0"),
        (Y + 0.5 * (np.arange(200) == 3), None, r"1 of 200 values of y are no whole numbers"),
        (Y / EXPOSURE, None, r"as exposure= the time over which they were counted"),
        (np.zeros(200), None, r"y is the same for all patients"),
        (Y, np.where(np.arange(200) < 3, 0, 1), r"3 of 200 exposures are 0 or negative"),
        (Y, np.full(200, np.nan), r"Input exposure contains NaN: 200 of 200"),
        (Y, np.ones(199), r"inconsistent numbers of samples"),
        (Y, "days", r"exposure wants one value per patient"),
    ],
)
def test_what_is_no_count(y: Any, exposure: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RuleFitRegressor(**FEW).fit(X, y, exposure=exposure)


def test_an_interval_of_counts_is_over_an_exposure() -> None:
    model = RuleFitRegressor(holdout=0.3, **FEW).fit(X, Y, exposure=EXPOSURE)
    low, high = model.predict_interval(X, level=0.95, exposure=EXPOSURE).T
    assert (low == np.round(low)).all()
    assert (low >= 0).all()
    assert np.mean((low <= Y) & (high >= Y)) > 0.9
    longer = model.predict_interval(X, exposure=100 * EXPOSURE)
    assert (longer[:, 1] > high).all()
    with pytest.raises(FedRuleFitError, match="not known: fit with holdout"):
        RuleFitRegressor(**FEW).fit(X, Y).predict_interval(X)
    with pytest.raises(TypeError, match="exposure is of counts"):
        RuleFitRegressor(holdout=0.3, n_trees=3, penalty=0.01, random_state=9).fit(
            X, X[:, 0]
        ).predict_interval(X, exposure=2)


def test_a_study_says_over_how_much_exposure() -> None:
    """What a study tells rates per changes its own words, and not ``predict``."""
    frame = make_frame(200).drop(columns="died")
    facts = {
        "column": "falls", "kind": "count", "most": 30, "exposure": "days", "max_exposure": 90,
        "per": 100, "exposure_unit": "days",
    }  # fmt: skip
    study = Study.from_mapping({**study_facts(), "outcome": facts, "settings": {}})
    given = {"n_trees": 3, "penalty": 0.01, "noise": False}
    fitted = FederatedRuleFitRegressor(study=study, **given).fit(frame, Y, exposure=EXPOSURE)
    told = fitted.predict_frame(frame)["rate"]
    np.testing.assert_allclose(told, 100 * fitted.predict(frame))
    assert fitted.predict(frame).mean() == pytest.approx(Y.sum() / EXPOSURE.sum(), rel=0.3)
    with pytest.raises(DataError, match=r"has a column of exposure: pass it as exposure="):
        FederatedRuleFitRegressor(study=study, **given).fit(frame, Y)
    alone = {key: facts[key] for key in ("column", "kind", "most")}
    study = Study.from_mapping({**study_facts(), "outcome": alone, "settings": {}})
    with pytest.raises(DataError, match=r"no column of exposure: leave exposure= out"):
        FederatedRuleFitRegressor(study=study, **given).fit(frame, Y, exposure=EXPOSURE)
