"""Models of several levels: the same probabilities in Python, SQL and ONNX."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedrulefit import Model
from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.errors import FedRuleFitError
from fedrulefit.testing.samples import EXACT, make_frame, make_study, make_tables
from tests.databases import Column

KINDS = {"age": "number", "lactate": "number", "gcs": "whole", "ward": "text", "sex": "text"}


@pytest.fixture(scope="module", params=["ordered", "classes"])
def model(request: pytest.FixtureRequest) -> Model:
    study = make_study(
        request.param, holdout=0.3, n_cutoffs=4, **{**EXACT, "n_trees": 5, "penalty": 0.02}
    )
    return EMBEDDED.fit(study, make_tables(study, (160, 140))).model


def columns_of(frame: Any) -> dict[str, Column]:
    return {
        name: Column(kind, [None if v is None or v != v else v for v in frame[name].tolist()])
        for name, kind in KINDS.items()
    }


def test_one_select_gives_every_level(database: Any, model: Model) -> None:
    frame = make_frame(60, seed=3)
    wanted = model.predict_frame(frame)
    table = {**columns_of(frame), "row number": Column("whole", list(range(60)))}
    query = model.to_sql(database.dialect, key="row number", linear_predictor=True)
    rows = sorted(database.run(query, table), key=lambda row: row["row number"])
    assert set(rows[0]) == {"row number", *wanted.columns}
    for name in wanted.columns.drop("flags"):
        found = [row[name] for row in rows]
        np.testing.assert_allclose(found, wanted[name], rtol=1e-12, atol=1e-12)


def test_a_graph_gives_every_level(model: Model) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    frame = make_frame(60, seed=3)
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    inputs = {
        name: frame[name].to_numpy(float)[:, None] if kind != "text"
        else frame[name].fillna("").to_numpy(object)[:, None]
        for name, kind in KINDS.items()
    }  # fmt: skip
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, inputs), strict=True))
    wanted = model.predict_frame(frame)
    assert set(found) == set(wanted.columns)
    for name in wanted.columns.drop("flags"):
        np.testing.assert_allclose(found[name][:, 0], wanted[name], atol=1e-12)


def test_a_model_without_terms_gives_all_the_same(database: Any, model: Model) -> None:
    bare = dataclasses.replace(model, terms=())
    frame = make_frame(3)
    rows = database.run(bare.to_sql(database.dialect), columns_of(frame))
    wanted = bare.predict_proba(frame)
    names = [f"probability_{name}" for name in model.study.family.names]
    found = np.array([[row[name] for name in names] for row in rows])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.ptp(wanted, axis=0).max() == 0


def test_a_key_may_not_have_the_name_of_a_level(model: Model) -> None:
    name = f"probability_{model.study.family.names[0]}"
    with pytest.raises(FedRuleFitError, match="as one of the results"):
        model.to_sql("duckdb", key=name)
