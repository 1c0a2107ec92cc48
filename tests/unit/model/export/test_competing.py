"""Models of events that compete: the same risks in Python, SQL and ONNX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit import Model
from tests.databases import Column
from tests.reports import competing_model
from tests.samples import make_frame

KINDS = {"age": "number", "lactate": "number", "gcs": "whole", "ward": "text", "sex": "text"}


@pytest.fixture(scope="module")
def model() -> Model:
    return competing_model()


@pytest.fixture(scope="module")
def frame() -> Any:
    return make_frame(40, seed=4)


def columns_of(frame: Any) -> dict[str, Column]:
    return {
        name: Column(kind, [None if v is None or v != v else v for v in frame[name].tolist()])
        for name, kind in KINDS.items()
    }


@pytest.mark.parametrize("bare", [False, True])
def test_one_select_gives_every_risk(database: Any, model: Model, frame: Any, bare: bool) -> None:
    own = replace(model, terms=()) if bare else model
    wanted = own.predict_frame(frame)
    table = {**columns_of(frame), "row number": Column("whole", list(range(40)))}
    query = own.to_sql(database.dialect, key="row number", linear_predictor=True)
    rows = sorted(database.run(query, table), key=lambda row: row["row number"])
    assert set(rows[0]) == {"row number", *wanted.columns}
    for name in wanted.columns.drop("flags"):
        np.testing.assert_allclose([row[name] for row in rows], wanted[name], atol=1e-12)


def test_a_graph_gives_every_risk(model: Model, frame: Any) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
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
