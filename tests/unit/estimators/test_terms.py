"""Terms as scikit-learn knows them: columns, coefficients, importances, in the right order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.model import RuleTerm
from fedrulefit.study import Study
from tests.samples import make_frame, study_facts

EXACT: dict[str, Any] = {"n_trees": 15, "learning_rate": 0.1, "penalty": 0.01, "random_state": 0}


def make_data(n_rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return a table of which only the last two of five columns matter, the last one most."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 5)).round(2), columns=list("vwxyz"))
    logit = 1.5 * (X["y"] > 0.3) + 2.5 * X["z"]
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(int)


X, Y = make_data()


@pytest.fixture(scope="module", params=["central", "federated", "fedda", "mixed"])
def fitted(request: pytest.FixtureRequest) -> tuple[Any, pd.DataFrame]:
    match request.param:
        case "central":
            return RuleFitClassifier(**EXACT).fit(X, Y), X
        case "federated":
            sites = np.array(["north", "south"])[np.arange(len(X)) % 2]
            return FederatedRuleFitClassifier(noise=False, **EXACT).fit(X, Y, sites=sites), X
        case "fedda":
            return RuleFitClassifier(solver="fedda", rounds=30, **EXACT).fit(X, Y), X
    frame = make_frame(300, seed=2)
    y = frame.pop("died")
    return RuleFitClassifier(**{**EXACT, "penalty": 0.002}).fit(frame, y), frame


def test_the_columns_times_the_coefficients_are_the_linear_predictor(fitted: Any) -> None:
    model, table = fitted
    columns = model.transform(table)
    n_terms = len(model.model_.terms)
    assert columns.shape == (len(table), n_terms)
    assert model.coef_.shape == (1, n_terms)
    assert model.intercept_.shape == (1,)
    predictor = (columns @ model.coef_.T + model.intercept_)[:, 0]
    np.testing.assert_allclose(predictor, model.decision_function(table), rtol=0, atol=1e-12)
    assert np.ptp(predictor) > 0.1


def test_unusual_rows_are_transformed_as_they_are_predicted() -> None:
    frame = make_frame(300, seed=2)
    y = frame.pop("died")
    model = RuleFitClassifier(**{**EXACT, "penalty": 0.002}).fit(frame, y)
    odd = frame.head(6).copy()
    odd.loc[odd.index[0], "age"] = 1000.0
    odd.loc[odd.index[1], "ward"] = "burns unit"
    odd.loc[odd.index[2], "lactate"] = np.nan
    predictor = model.transform(odd) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(predictor, model.decision_function(odd), rtol=0, atol=1e-12)


def test_who_gets_no_prediction_has_no_columns_either() -> None:
    study = Study.from_mapping({**study_facts(), "unusual": {"beyond": "refuse"}})
    frame = make_frame(200)
    y = frame.pop("died")
    model = RuleFitClassifier(study=study, **EXACT).fit(frame, y)
    odd = frame.head(4).copy()
    odd.loc[odd.index[1], "age"] = 1000.0
    columns = model.transform(odd)
    refused = np.isnan(model.decision_function(odd))
    assert list(refused) == [False, True, False, False]
    np.testing.assert_array_equal(
        np.isnan(columns), np.repeat(refused[:, None], columns.shape[1], 1)
    )


def test_a_rule_s_column_is_1_where_its_words_hold(fitted: Any) -> None:
    """By the words themselves, of rules on one number that is never missing."""
    model, table = fitted
    columns = pd.DataFrame(model.transform(table), columns=model.get_feature_names_out())
    seen = 0
    for term, name in zip(model.model_.terms, columns, strict=True):
        if not isinstance(term, RuleTerm):
            assert name == model.study_.names[term.feature]
            assert columns[name].nunique() > 2 or table[name].nunique() == 2
            continue
        assert set(columns[name]) <= {0.0, 1.0}
        assert columns[name].mean() == pytest.approx(model.model_.support(term))
        words = name.split()
        if len(words) == 3 and words[1] in ("<", "≥") and table[words[0]].notna().all():
            left, limit = table[words[0]].to_numpy(), float(words[2])
            np.testing.assert_array_equal(
                columns[name], left < limit if words[1] == "<" else left >= limit
            )
            seen += 1
    if list(table) == list(X):
        assert seen > 0


def test_names_are_unique_and_worded_as_in_the_table_of_rules(fitted: Any) -> None:
    model, _ = fitted
    names = model.get_feature_names_out()
    assert (names.dtype, len(set(names))) == (object, len(names))
    rules = model.rules_["kind"] == "rule"
    assert list(names[rules]) == list(model.rules_["rule"][rules])
    with pytest.raises(ValueError, match="input_features"):
        model.get_feature_names_out(["one", "two"])


@pytest.mark.parametrize(
    ("container", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
def test_set_output(container: str, kind: type) -> None:
    model = RuleFitClassifier(**EXACT).set_output(transform=container).fit(X, Y)
    columns = model.transform(X)
    assert isinstance(columns, kind)
    assert list(columns.columns) == list(model.get_feature_names_out())
    plain = RuleFitClassifier(**EXACT).fit_transform(X, Y)
    np.testing.assert_array_equal(columns.to_numpy(), plain)


def test_a_model_without_terms_has_no_columns() -> None:
    model = RuleFitClassifier(**{**EXACT, "penalty": 10.0}).fit(X, Y)
    assert model.transform(X).shape == (len(X), 0)
    assert model.coef_.shape == (1, 0)
    assert list(model.feature_importances_) == [0.0] * 5
    np.testing.assert_allclose(model.decision_function(X), model.intercept_[0])


@pytest.mark.parametrize("name", ["coef_", "intercept_", "feature_importances_", "rules_"])
def test_before_the_fit_there_are_none(name: str) -> None:
    assert not hasattr(RuleFitClassifier(), name)
    with pytest.raises(NotFittedError):
        getattr(RuleFitClassifier(), name)
    with pytest.raises(NotFittedError):
        RuleFitClassifier().transform(X)


# --- inside scikit-learn's tools ----------------------------------------------------------


def test_rules_as_features_of_another_model() -> None:
    pipeline = make_pipeline(RuleFitClassifier(**EXACT), LogisticRegression(C=1e6, max_iter=5000))
    pipeline.fit(X, Y)
    assert list(pipeline[:-1].get_feature_names_out()) == list(pipeline[0].get_feature_names_out())
    assert pipeline[-1].coef_.shape == pipeline[0].coef_.shape
    assert pipeline.score(X, Y) > 0.75


def test_in_a_feature_union_and_a_column_transformer() -> None:
    union = FeatureUnion([("rules", RuleFitClassifier(**EXACT)), ("scaled", StandardScaler())])
    columns = union.set_output(transform="pandas").fit_transform(X, Y)
    n_terms = len(union.transformer_list[0][1].model_.terms)
    assert columns.shape == (len(X), n_terms + 5)
    assert columns.columns[0].startswith("rules__")
    some = ColumnTransformer([("rules", RuleFitClassifier(**EXACT), ["y", "z"])])
    np.testing.assert_array_equal(
        some.fit_transform(X, Y),
        RuleFitClassifier(**EXACT).fit(X[["y", "z"]], Y).transform(X[["y", "z"]]),
    )


# --- importances in the order of X --------------------------------------------------------


def test_importances_are_in_the_order_of_the_columns(fitted: Any) -> None:
    """They were sorted by size once, so that selectors kept the wrong columns."""
    model, table = fitted
    importance = model.variable_importance_
    assert list(importance.index) == list(table.columns)
    np.testing.assert_array_equal(importance, model.model_.variable_importance())
    assert model.feature_importances_.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(model.feature_importances_ * importance.sum(), importance)
    if list(table) == list(X):
        assert list(np.argsort(-model.feature_importances_)[:2]) == [4, 3]


@pytest.mark.parametrize(
    "getter", ["auto", "feature_importances_", "variable_importance_"], ids=str
)
@pytest.mark.parametrize("penalty", [0.01, 0.06], ids=["many terms", "fewer terms than columns"])
def test_recursive_elimination_keeps_the_columns_that_matter(getter: str, penalty: float) -> None:
    """By default selectors take coef_, for one number per column: it has one per term."""
    model = RuleFitClassifier(**{**EXACT, "penalty": penalty})
    few = RFE(model, n_features_to_select=2, importance_getter=getter).fit(X, Y)
    assert list(few.get_feature_names_out()) == ["y", "z"]
    one = RFE(model, n_features_to_select=1, importance_getter=getter).fit(X, Y)
    assert list(one.get_feature_names_out()) == ["z"]


@pytest.mark.parametrize("penalty", [0.01, 0.06])
def test_other_selectors_keep_the_columns_that_matter(penalty: float) -> None:
    model = RuleFitClassifier(**{**EXACT, "penalty": penalty})
    kept = SelectFromModel(model, max_features=2, threshold=-np.inf).fit(X, Y)
    assert list(kept.get_feature_names_out()) == ["y", "z"]
    assert kept.transform(X).shape == (len(X), 2)
    ready = SelectFromModel(model.fit(X, Y), prefit=True, max_features=1, threshold=-np.inf)
    assert list(ready.fit(X, Y).get_feature_names_out()) == ["z"]
    step = SequentialFeatureSelector(model, n_features_to_select=1, cv=2).fit(X, Y)
    assert list(step.get_feature_names_out()) == ["z"]
    assert RFECV(model, cv=2).fit(X, Y).support_[-1]


def test_a_selector_that_asks_for_coef_is_told_why_not() -> None:
    selector = RFE(RuleFitClassifier(**EXACT), importance_getter="coef_")
    with pytest.raises(AttributeError, match="one entry per term, not per column"):
        selector.fit(X, Y)


def test_permutation_importance_agrees_on_what_matters() -> None:
    model = RuleFitClassifier(**EXACT).fit(X, Y)
    found = permutation_importance(
        model, X, Y, scoring="neg_log_loss", n_repeats=5, random_state=0
    ).importances_mean
    assert list(np.argsort(-found)[:2]) == list(np.argsort(-model.feature_importances_)[:2])
