"""Everything that predicts with a model, asked about the same patients in one way.

Each takes a model and columns as :func:`tests.random_models.random_columns` makes them, and returns
each patient's probability (NaN for none) and flags. The page, which needs a browser, is asked in
``tests/browser/test_report.py``.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from fedrulefit import Model, RuleFitClassifier
from fedrulefit.cli.app import app
from fedrulefit.study import Number
from tests.databases import Column
from tests.random_models import look_at

Found = tuple[Any, list[str]]

_DTYPES = {"text": object, "number": float, "whole": "Int64", "boolean": "boolean"}


def as_frame(columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return a data frame whose columns have the types that people's have."""
    return pd.DataFrame(
        {n: pd.Series(list(c.cells), dtype=_DTYPES[c.kind]) for n, c in columns.items()}
    )


def by_model(model: Model, columns: Mapping[str, Column]) -> Found:
    """Ask the model about a data frame."""
    frame = as_frame(columns)
    found = model.predict_frame(frame)
    np.testing.assert_array_equal(model.predict_proba(frame), found["probability"])
    explained = model.explain(frame)
    assert ["; ".join(e.flags) for e in explained] == found["flags"].tolist()
    np.testing.assert_allclose([e.prediction for e in explained], found["probability"], rtol=1e-9)
    return found["probability"].to_numpy(), found["flags"].tolist()


def by_array(model: Model, columns: Mapping[str, Column]) -> Found:
    """Ask the model about an array in the study's coding, where a cell cannot be unreadable."""
    values = np.empty((len(next(iter(columns.values())).cells), model.study.n_features))
    for j, (name, covariate) in enumerate(model.study.covariates.items()):
        for i, cell in enumerate(columns[name].cells):
            kind, values[i, j] = look_at(cell, covariate)
            assert kind != "unreadable"
            if kind == "unseen":
                values[i, j] = 77
    found = model.predict_frame(values)
    return found["probability"].to_numpy(), found["flags"].tolist()


def by_classifier(model: Model, columns: Mapping[str, Column]) -> Found:
    """Ask an estimator that was fitted to the model."""
    frame = as_frame(columns)
    fitted = RuleFitClassifier(study=model.study)
    fitted.model_, fitted.study_, fitted.classes_ = model, model.study, np.array([0, 1])
    fitted.n_features_in_ = model.study.n_features
    fitted.feature_names_in_ = np.array(model.study.names, dtype=object)
    found = fitted.predict_frame(frame)
    np.testing.assert_array_equal(fitted.predict_proba(frame)[:, 1], found["probability"])
    return found["probability"].to_numpy(), found["flags"].tolist()


def write_patients(columns: Mapping[str, Column], path: Path) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        for row in zip(*(column.cells for column in columns.values()), strict=True):
            writer.writerow(["" if cell is None else cell for cell in row])


def save(model: Model, folder: Path) -> list[str]:
    """Write a model, and its hospital's baseline; return how a command names them."""
    file, own = folder / "model.json", folder / "baseline.toml"
    if model.hospital is None or model.hospital.own is None:
        model.save(file)
        return [str(file)]
    model.hospital.shared.save(file)
    model.hospital.own.save(own)
    return [str(file), "--baseline", str(own)]


def by_command(model: Model, columns: Mapping[str, Column], folder: Path) -> Found:
    """Ask ``fedrulefit predict`` about a CSV file."""
    table = folder / "patients.csv"
    write_patients(columns, table)
    done = CliRunner().invoke(app, ["predict", *save(model, folder), str(table)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
    chances = [float(row["probability"]) if row["probability"] else np.nan for row in rows]
    return chances, [row["flags"].removeprefix("'") for row in rows]


def by_query(model: Model, columns: Mapping[str, Column], database: Any) -> Found:
    """Ask a database."""
    n_rows = len(next(iter(columns.values())).cells)
    table = {**columns, "row number": Column("whole", list(range(n_rows)))}
    query = model.to_sql(database.dialect, key="row number")
    rows = sorted(database.run(query, table), key=lambda row: row["row number"])
    chances = [np.nan if row["probability"] is None else row["probability"] for row in rows]
    return chances, [row["flags"] for row in rows]


def as_inputs(model: Model, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return the inputs of a graph: numbers, and texts as they stand."""
    return {
        name: np.array([np.nan if cell is None else cell for cell in columns[name].cells], float)
        if isinstance(covariate, Number)
        else np.array(
            ["" if cell is None else str(cell) for cell in columns[name].cells], dtype=object
        )
        for name, covariate in model.study.covariates.items()
    }


def run_graph(model: Model, inputs: Mapping[str, Any]) -> tuple[Any, Any, list[str]]:
    """Return log-odds, probabilities and flags of the ONNX graph."""
    found = ask_graph(model, inputs)
    return found["log_odds"], found["probability"], found["flags"]


def ask_graph(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of the ONNX graph by name; flags as their words."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    tensors = {name: cells.reshape(-1, 1) for name, cells in inputs.items()}
    outputs = [output.name for output in session.get_outputs()]
    found = dict(zip(outputs, session.run(outputs, tensors), strict=True))
    words = json.loads(session.get_modelmeta().custom_metadata_map["fedrulefit/flags"])
    names, kinds = model.study.names, found.pop("flags")
    flags = ["; ".join(words[names[j]][str(row[j])] for j in np.flatnonzero(row)) for row in kinds]
    return {**{name: values[:, 0] for name, values in found.items()}, "flags": flags}
