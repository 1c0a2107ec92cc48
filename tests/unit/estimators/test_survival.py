"""Times to an event, as scikit-survival's users know estimators of them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks

from fedrulefit import FederatedRuleFitSurvival, RuleFitSurvival
from fedrulefit.errors import DataError
from fedrulefit.estimators.concordance import concordance
from fedrulefit.estimators.curves import TimeFunction
from fedrulefit.study import Study
from tests.samples import make_frame, study_facts

FEW: dict[str, Any] = {
    "horizons": [90, 180], "n_trees": 10, "learning_rate": 0.1, "penalty": 0.01,
    "random_state": 0,
}  # fmt: skip


def surv(event: Any, time: Any) -> Any:
    """Return what ``sksurv.util.Surv.from_arrays`` makes."""
    y = np.empty(len(time), dtype=[("event", "?"), ("time", "f8")])
    y["event"], y["time"] = event, time
    return y


def make_data(n_rows: int = 240, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).round(2)
    time = rng.exponential(120 * np.exp(-X[:, 0] - (X[:, 1] > 0.5)))
    end = rng.uniform(50, 300, n_rows)
    return X, surv(time <= end, np.minimum(time, end).round(1) + 0.1)


X, Y = make_data()
SITES = np.array(["north", "south"])[np.arange(240) % 2]

BOTH = pytest.mark.parametrize(
    "make",
    [
        lambda **more: RuleFitSurvival(**{**FEW, **more}),
        lambda **more: FederatedRuleFitSurvival(noise=False, **{**FEW, **more}),
    ],
    ids=["pooled", "federated"],
)


@pytest.mark.parametrize("name", ["RuleFitSurvival", "FederatedRuleFitSurvival"])
@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable", "check_estimator_tags_renamed", "check_estimator_repr",
        "check_no_attributes_set_in_init", "check_get_params_invariance", "check_set_params",
        "check_parameters_default_constructible", "check_valid_tag_types",
        "check_mixin_order",
    ],
)  # fmt: skip
def test_scikit_learn_s_checks_that_need_no_y(name: str, check: str) -> None:
    """Those with a y give one column, which says nothing of events."""
    made = {
        "RuleFitSurvival": RuleFitSurvival,
        "FederatedRuleFitSurvival": FederatedRuleFitSurvival,
    }
    getattr(estimator_checks, check)(name, made[name]())


@BOTH
def test_attributes(make: Any) -> None:
    fitted = make(unit="days").fit(pd.DataFrame(X, columns=list("abc")), Y)
    assert not is_classifier(fitted)
    assert not is_regressor(fitted)
    scores = fitted.predict(X)
    told = fitted.transform(X) @ fitted.coef_ + fitted.intercept_
    np.testing.assert_allclose(told, scores, atol=1e-9)
    assert fitted.score(X, Y) == concordance(Y["event"], Y["time"], scores) > 0.65
    outcome = fitted.study_.outcome
    assert (outcome.horizons, outcome.unit) == ((90.0, 180.0), "days")
    assert set(fitted.variable_importance_.nlargest(2).index) == {"a", "b"}


@BOTH
def test_curves(make: Any) -> None:
    fitted = make().fit(X, Y)
    times = fitted.unique_times_
    assert (np.diff(times) > 0).all()
    assert {90.0, 180.0} <= set(times)
    alive = fitted.predict_survival_function(X, return_array=True)
    hazard = fitted.predict_cumulative_hazard_function(X, return_array=True)
    assert alive.shape == (240, len(times))
    np.testing.assert_allclose(alive, np.exp(-hazard))
    np.testing.assert_allclose(1 - alive[:, -1], fitted.predict_frame(X)["risk"])
    curves = fitted.predict_survival_function(X[:5])
    assert curves.shape == (5,)
    np.testing.assert_allclose(np.vstack([curve(times) for curve in curves]), alive[:5])
    np.testing.assert_array_equal(curves[0].x, times)
    np.testing.assert_allclose(curves[0].y, alive[0])
    rising = fitted.predict_cumulative_hazard_function(X[:1])[0]
    assert rising(47.11) == pytest.approx(-np.log(curves[0](47.11)))


def test_curves_are_the_model_s_own_at_any_time() -> None:
    fitted = RuleFitSurvival(**FEW).fit(X, Y)
    curves = fitted.predict_survival_function(X[:4])
    frame = fitted.predict_frame(X[:4])
    for time in (0.0, 1.3, 61.7, 90.0, 133.3, 180.0):
        alive = fitted.model_.predict_survival(X[:4], [time])[:, 0]
        np.testing.assert_allclose([curve(time) for curve in curves], alive, atol=1e-12)
        if time >= 90:
            name = f"risk_{time:.0f}"
            assert name not in frame or np.allclose(1 - alive, frame[name])


def test_a_function_of_time_is_called_like_scikit_survival_s() -> None:
    curve = TimeFunction(np.array([10.0, 20.0]), np.array([0.1, 0.4]), survives=False)
    assert curve.domain == (0.0, 20.0)
    assert curve(10) == 0.1
    assert curve(np.array([0.0, 15.0])).tolist() == [0.0, 0.25]
    for wrong, words in ((20.1, r"within \[0\.0+; 20\.0+\]"), (-1, "within"), (np.nan, "finite")):
        with pytest.raises(ValueError, match=words):
            curve([1.0, wrong])


# --- scikit-learn's tools -----------------------------------------------------------------


def test_pipelines_and_searches() -> None:
    assert make_pipeline(StandardScaler(), RuleFitSurvival(**FEW)).fit(X, Y).score(X, Y) > 0.65
    search = GridSearchCV(RuleFitSurvival(**FEW), {"penalty": [0.01, 10.0]}, cv=KFold(2)).fit(X, Y)
    assert search.best_params_ == {"penalty": 0.01}
    assert search.best_score_ > 0.6


def test_sites_are_routed() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = FederatedRuleFitSurvival(noise=False, **FEW).set_fit_request(sites=True)
        assert cross_val_score(estimator, X, Y, params={"sites": SITES}, cv=2).min() > 0.6


@BOTH
def test_clones_pickles_and_another_penalty(make: Any) -> None:
    fitted = make().fit(X, Y)
    assert clone(fitted).get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    sparser, anew = fitted.with_penalty(0.05, X, Y), make(penalty=0.05).fit(X, Y)
    np.testing.assert_allclose(sparser.predict(X), anew.predict(X), atol=0.01)
    with pytest.raises(DataError, match="with the event, are not those of the fit"):
        fitted.with_penalty(0.05, X, surv(np.arange(240) % 2 == 0, Y["time"]))


# --- y ------------------------------------------------------------------------------------


def test_what_y_can_be() -> None:
    expected = RuleFitSurvival(**FEW).fit(X, Y).predict(X)
    event, time = Y["event"], Y["time"]
    other = np.array(list(zip(event, time, strict=True)), dtype=[("dead", "i4"), ("days", "f4")])
    for y in (
        pd.DataFrame({"event": event, "time": time}),
        pl.DataFrame({"time": time, "event": event}),
        other.astype([("dead", "?"), ("days", "f8")]),
        surv(event.astype(int), time),
    ):
        found = RuleFitSurvival(**FEW).fit(X, y)
        np.testing.assert_allclose(found.predict(X), expected, atol=1e-4)
        assert found.score(X, y) > 0.65


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (None, "requires y to be passed"),
        (Y["time"], "y wants a structured array of"),
        (pd.DataFrame({"dead": Y["event"], "time": Y["time"]}), "it has the columns dead, time"),
        (np.zeros(240, dtype=[("a", "f8"), ("b", "f8"), ("c", "f8")]), "y wants a structured"),
        (pd.DataFrame({"event": 2, "time": Y["time"]}), "events are true or false"),
        (surv(Y["event"], np.where(np.arange(240) == 1, np.nan, Y["time"])), "contains NaN: 1 of"),
        (surv(Y["event"], Y["time"] - 50), "times are negative"),
        (surv(False, Y["time"]), "nothing to learn"),
    ],
)
def test_what_y_cannot_be(y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RuleFitSurvival(**{**FEW, "horizons": None}).fit(X, y)


def test_without_horizons_it_is_the_last_event() -> None:
    found = RuleFitSurvival(**{**FEW, "horizons": None}).fit(X, Y).study_
    (horizon,) = found.outcome.horizons
    last = Y["time"][Y["event"]].max()
    assert last <= horizon < last + 10
    assert found.ranges_from_data
    single = RuleFitSurvival(**{**FEW, "horizons": 100}).fit(X, Y)
    assert single.study_.outcome.horizons == (100.0,)
    assert single.unique_times_[-1] == 100
    for wrong in ([180, 90], [0, 90], [90, 90], [np.inf]):
        with pytest.raises(ValueError, match="times above 0, the earliest first"):
            RuleFitSurvival(**{**FEW, "horizons": wrong}).fit(X, Y)


def test_late_entry() -> None:
    entry = 0.5 * Y["time"]
    late = RuleFitSurvival(**FEW).fit(X, Y, entry=entry)
    assert late.study_.outcome.entry == "entry"
    assert late.predict(X).mean() > RuleFitSurvival(**FEW).fit(X, Y).predict(X).mean()
    with pytest.raises(DataError, match="enter after the end of their follow-up"):
        RuleFitSurvival(**FEW).fit(X, Y, entry=Y["time"] + 1)


def test_a_study_says_what_the_outcome_is() -> None:
    frame = make_frame(240).drop(columns="died")
    facts = {
        "kind": "time", "time": "days", "event": "status", "positive": "dead",
        "negative": "alive", "horizons": [90], "unit": "days",
    }  # fmt: skip
    study = Study.from_mapping({**study_facts(), "outcome": facts, "settings": {}})
    given = {"n_trees": 3, "penalty": 0.01, "noise": False}
    fitted = FederatedRuleFitSurvival(study=study, **given).fit(frame, Y, sites=SITES)
    assert fitted.study_.outcome == study.outcome
    events = (Y["event"] & (Y["time"] <= 90)).sum()
    assert fitted.model_.provenance.events == events
    with pytest.raises(DataError, match="leave horizons= out"):
        RuleFitSurvival(study=study, horizons=90).fit(frame, Y)
    with pytest.raises(DataError, match="use RuleFitClassifier"):
        RuleFitSurvival(study=Study.from_mapping(study_facts())).fit(frame, Y)


# --- Harrell's C --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_concordance_is_that_of_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 40))
    event, time = rng.random(n) < 0.6, rng.integers(0, 12, n).astype(float)
    risks = rng.integers(0, 6, n) / 3
    event[0], time[0], time[1] = True, 0.0, 5.0
    won = pairs = 0.0
    for i in range(n):
        for j in range(n):
            if event[i] and (time[j] > time[i] or (time[j] == time[i] and not event[j])):
                pairs += 1
                won += 1.0 * (risks[i] > risks[j]) + 0.5 * (risks[i] == risks[j])
    assert concordance(event, time, risks) == pytest.approx(won / pairs)


def test_no_pair_to_compare() -> None:
    with pytest.raises(ValueError, match="no two patients can be compared"):
        concordance(np.array([False, False]), np.array([1.0, 2.0]), np.zeros(2))


# --- events that compete ------------------------------------------------------------------------


def of_events(event: Any, time: Any) -> Any:
    """Return y whose events are numbers."""
    y = np.empty(len(time), dtype=[("event", "i4"), ("time", "f8")])
    y["event"], y["time"] = event, time
    return y


def rivals() -> Any:
    """Return patients, and which of two events came first."""
    rng = np.random.default_rng(3)
    patients = rng.normal(size=(500, 3))
    first = rng.exponential(150 * np.exp(-patients[:, 0]))
    second = rng.exponential(200 * np.exp(-patients[:, 1]))
    time = np.minimum.reduce([first, second, rng.uniform(30, 300, 500)])
    event = np.select([first == time, second == time], [1, 2], 0)
    return patients, np.array(list(zip(event, time, strict=True)), dtype=[("e", "i4"), ("t", "f8")])


@BOTH
def test_numbers_of_events_compete(make: Any) -> None:
    patients, y = rivals()
    fitted = make().fit(patients, y)
    assert fitted.causes_ == ("event 1", "event 2")
    assert fitted.study_.outcome.competing == {"event 2": 2}
    assert fitted.coef_.shape == (2, len(fitted.model_.terms))
    assert fitted.intercept_.shape == (2,)
    risks = fitted.predict_cumulative_incidence(patients)
    assert risks.shape == (500, 2, len(fitted.unique_times_))
    alive = fitted.predict_survival_function(patients, return_array=True)
    np.testing.assert_allclose(risks.sum(axis=1) + alive, 1, atol=1e-12)
    np.testing.assert_allclose(risks[:, 0, -1], fitted.predict_frame(patients)["risk"])
    assert (np.argsort(fitted.predict(patients)) == np.argsort(risks[:, 0, -1])).all()
    own = {*fitted.rules_.loc[fitted.rules_["level"] == "event 1", "rule"]}
    assert any("x0" in rule for rule in own)


@BOTH
def test_the_other_event_can_be_of_interest(make: Any) -> None:
    patients, y = rivals()
    first, second = make().fit(patients, y), make(cause=2).fit(patients, y)
    assert second.causes_ == ("event 2", "event 1")
    events = (y["e"] == 2) & (y["t"] <= 180)
    assert second.model_.provenance.events == events.sum()
    # Trees differ, so rules do; what both say of the first event is nearly the same.
    both = [fitted.predict_cumulative_incidence(patients)[:, :, -1] for fitted in (first, second)]
    assert np.corrcoef(both[0][:, 0], both[1][:, 1])[0, 1] > 0.9
    assert second.score(patients, y) > 0.6


def test_the_score_is_wolbers() -> None:
    patients, y = rivals()
    fitted = RuleFitSurvival(**FEW).fit(patients, y)
    risk = fitted.predict(patients)
    won = pairs = 0.0
    for i in np.flatnonzero(y["e"] == 1):
        later = (y["t"] > y["t"][i]) | (y["e"] == 2)
        pairs += later.sum()
        won += (risk[later] < risk[i]).sum() + 0.5 * (np.abs(risk[later] - risk[i]) <= 1e-8).sum()
    assert fitted.score(patients, y) == pytest.approx(won / pairs, abs=1e-3)


def test_events_that_cannot_compete() -> None:
    patients, y = rivals()
    for codes in (np.where(y["e"] == 2, 3, y["e"]), np.maximum(y["e"], 1), -y["e"]):
        with pytest.raises(ValueError, match="0 for none, and 1, 2 and so on"):
            RuleFitSurvival(**FEW).fit(patients, of_events(codes, y["t"]))
    with pytest.raises(DataError, match="nobody in y has the event 3"):
        RuleFitSurvival(**FEW, cause=3).fit(patients, y)


def test_a_study_names_competing_events() -> None:
    frame = make_frame(240).drop(columns="died")
    facts = {
        "kind": "time", "time": "days", "event": "status", "positive": "dead",
        "negative": "alive", "competing": {"moved": "m"}, "horizons": [90], "label": "death",
    }  # fmt: skip
    study = Study.from_mapping({**study_facts(), "outcome": facts, "settings": {}})
    codes = np.where(np.arange(240) % 5 == 0, 2, Y["event"].astype(int))
    given = {"n_trees": 3, "penalty": 0.01, "noise": False}
    fitted = FederatedRuleFitSurvival(study=study, **given).fit(
        frame, of_events(codes, Y["time"]), sites=SITES
    )
    assert fitted.causes_ == ("death", "moved")
    plain = Study.from_mapping(
        {
            **study_facts(),
            "outcome": {k: v for k, v in facts.items() if k != "competing"},
            "settings": {},
        }
    )
    with pytest.raises(DataError, match="an event 2, which the study does not name"):
        RuleFitSurvival(study=plain).fit(frame, of_events(codes, Y["time"]))
