"""Ordered levels from a data frame to rules, SQL, ONNX and explanations: one meaning everywhere."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from fedrulefit import FederatedRuleFitClassifier, Model, RuleFitClassifier
from fedrulefit.study import Ordered
from tests.predictors import run_graph

CLASSES = ("I", "II", "III", "IV")
N = 600
RNG = np.random.default_rng(0)
PLACE = RNG.integers(0, 4, N)
STAGE = RNG.integers(1, 5, N)
Y = (
    RNG.random(N) < 1 / (1 + np.exp(2 - 2.5 * (PLACE >= 2) - 2 * ((STAGE >= 2) & (STAGE < 4))))
) * 1


def make_frame() -> pd.DataFrame:
    nyha = pd.Series(pd.Categorical.from_codes(PLACE, CLASSES, ordered=True))
    nyha[np.arange(N) % 20 == 3] = None
    return pd.DataFrame({"NYHA": nyha, "stage": STAGE, "age": RNG.integers(30, 90, N)})


FRAME = make_frame()
ORDER = {"stage": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def fitted() -> Any:
    model = FederatedRuleFitClassifier(
        noise=False, ordered=ORDER, n_trees=40, penalty=0.01, linear_factor=3.0, random_state=0
    )
    return model.fit(FRAME, Y, sites=np.arange(N) % 3)


def test_rules_are_ranges_of_levels_in_words(fitted: Any) -> None:
    assert fitted.study_.covariates["NYHA"] == Ordered(levels=CLASSES)
    assert fitted.study_.covariates["stage"] == Ordered(levels=(1, 2, 3, 4))
    rules = fitted.rules_["rule"].to_list()
    assert any("NYHA ≥ III" in rule or "NYHA ≤ II" in rule for rule in rules), rules
    assert any("NYHA ≥ III & stage ≤ 3" in rule for rule in rules), rules


def test_a_rule_holds_for_the_levels_that_its_words_say(fitted: Any) -> None:
    """The support of each one-condition rule is the share of patients that its words describe."""
    seen = 0
    for _, row in fitted.rules_.iterrows():
        side, place = row["rule"][:7], row["rule"][7:]
        if row["kind"] == "rule" and side in ("NYHA ≥ ", "NYHA ≤ ") and place in CLASSES:
            level = CLASSES.index(place)
            known = FRAME["NYHA"].cat.codes
            holds = known >= level if side == "NYHA ≥ " else (known <= level) & (known >= 0)
            assert row["support"] == pytest.approx(holds.mean(), abs=1e-12)
            seen += 1
    assert seen


def test_sql_gives_the_same_answers(fitted: Any) -> None:
    connection = duckdb.connect()
    patients = FRAME.assign(NYHA=FRAME["NYHA"].astype(object), row=np.arange(N))
    connection.register("patients", patients)
    query = fitted.model_.to_sql("duckdb", key="row")
    told = connection.execute(query).df().sort_values("row")
    np.testing.assert_allclose(
        told["probability"], fitted.predict_proba(FRAME)[:, 1], rtol=0, atol=1e-12
    )


def test_onnx_gives_the_same_answers(fitted: Any) -> None:
    pytest.importorskip("onnxruntime")
    inputs = {
        "NYHA": FRAME["NYHA"].astype(object).fillna("").to_numpy(object),
        "stage": FRAME["stage"].astype(str).to_numpy(object),
        "age": FRAME["age"].to_numpy(float),
    }
    _, probability, _ = run_graph(fitted.model_, inputs)
    np.testing.assert_allclose(probability, fitted.predict_proba(FRAME)[:, 1], rtol=0, atol=1e-12)


def test_a_saved_model_and_its_explanations_too(fitted: Any, tmp_path: Any) -> None:
    fitted.model_.save(tmp_path / "model.json")
    again = Model.load(tmp_path / "model.json")
    kinds = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))["study"]["covariates"]
    assert kinds["NYHA"]["kind"] == "ordered"
    chances = fitted.predict_proba(FRAME)[:, 1]
    np.testing.assert_array_equal(again.predict_proba(FRAME), chances)
    told = [explanation.prediction for explanation in again.explain(FRAME.head(20))]
    np.testing.assert_allclose(told, chances[:20], rtol=0, atol=1e-12)


def test_the_type_of_a_later_table_does_not_matter(fitted: Any) -> None:
    chances = fitted.predict_proba(FRAME)
    text = FRAME.assign(NYHA=FRAME["NYHA"].astype(object), stage=FRAME["stage"].astype(str))
    turned = FRAME.assign(NYHA=FRAME["NYHA"].cat.reorder_categories(CLASSES[::-1], ordered=True))
    for frame in (text, turned):
        np.testing.assert_array_equal(fitted.predict_proba(frame), chances)


def test_an_order_finds_what_its_numbers_find() -> None:
    """Levels in an order give the trees and rules that their places would give as numbers."""
    places = FRAME.assign(NYHA=FRAME["NYHA"].cat.codes.where(FRAME["NYHA"].notna(), np.nan))
    settings: dict[str, Any] = {"n_trees": 40, "penalty": 0.01, "random_state": 0}
    ranked = RuleFitClassifier(ordered=ORDER, linear_factor=1e6, **settings).fit(FRAME, Y)
    counted = RuleFitClassifier(linear_factor=1e6, **settings).fit(places, Y)
    np.testing.assert_allclose(
        ranked.predict_proba(FRAME), counted.predict_proba(places), rtol=0, atol=1e-6
    )
