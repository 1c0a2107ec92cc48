"""Queries and graphs of outcomes other than yes/no give what the model predicts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.reports import outcome_model
from tests.samples import make_frame

KINDS = ("number", "count", "time")


def make_patients() -> pd.DataFrame:
    """Return patients with missing values and values beyond their range, in a fixed order."""
    frame = make_frame(400, seed=9)
    frame.loc[::17, "age"] = np.nan
    frame.loc[::23, "age"] = 150.0
    return frame.drop(columns="died").assign(place=range(400))


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_gives_what_the_model_predicts(kind: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    model, frame = outcome_model(kind), make_patients()
    connection = duckdb.connect()
    connection.register("patients", frame)
    column = model.study.family.words.prediction_column
    found = connection.execute(model.to_sql("duckdb", key="place")).df().sort_values("place")
    np.testing.assert_allclose(found[column], model.predict(frame), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_gives_what_the_model_predicts(kind: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, frame = outcome_model(kind), make_patients()
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    fed = {
        port.name: (
            frame[port.name].to_numpy(dtype=np.float64)
            if "double" in port.type
            else frame[port.name].fillna("").to_numpy(dtype=object)
        ).reshape(-1, 1)
        for port in session.get_inputs()
    }
    column = model.study.family.words.prediction_column
    (found,) = session.run([column], fed)
    np.testing.assert_allclose(found.ravel(), model.predict(frame), rtol=1e-12, atol=1e-9)
