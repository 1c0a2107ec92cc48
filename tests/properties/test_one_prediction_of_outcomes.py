"""One prediction of any kind of outcome: numbers and flags are the same, whoever is asked.

The twin of yes/no (``tests/random_models.py``) knows what each cell counts as, what is said of it,
and whose predictor is what; only the link differs here, and it has oracles of its own
(``tests/unit/core/test_family_links.py``). The page's calculator is asked in ``tests/browser``.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedrulefit import Model
from fedrulefit.cli.app import app
from fedrulefit.study import Study
from tests import predictors
from tests.databases import Column, InMemory
from tests.random_models import (
    expected,
    over_time,
    plain_columns,
    random_columns,
    random_model,
)

TOLERANCE = 1e-9
N_ROWS = 30
LEVELS = ["a", "b c", "d"]
KINDS: dict[str, dict[str, Any]] = {
    "number": {"kind": "number", "column": "y", "range": [-10, 90], "unit": "mm"},
    "robust": {"kind": "number", "column": "y", "range": [0, 1], "robust": True},
    "count": {
        "kind": "count", "column": "y", "most": 9, "exposure": "days", "max_exposure": 366,
        "per": 100,
    },
    "time": {},
    "ordered": {"kind": "ordered", "column": "y", "levels": LEVELS},
    "classes": {"kind": "classes", "column": "y", "levels": LEVELS},
}  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS)
seeds = given(seed=st.integers(0, 2**32 - 1))
cases = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def with_outcome(rng: np.random.Generator, plain: Model, kind: str) -> Model:
    """Return a model of another outcome, with the covariates and the terms of a yes/no model."""
    if kind == "time":
        return over_time(rng, plain)
    facts = {**plain.study.model_dump(), "outcome": KINDS[kind]}
    model = dataclasses.replace(
        plain, study=Study.from_mapping(facts), evaluation=None, validation=None
    )
    if kind == "ordered":
        return dataclasses.replace(model, baseline=(0.0, -0.5))
    if kind == "classes":
        owned = (dataclasses.replace(t, level=LEVELS[i % 3]) for i, t in enumerate(plain.terms))
        return dataclasses.replace(model, baseline=(0.3, 0.0, -0.3), terms=tuple(owned))
    return model


def check(found: Mapping[str, Any], wanted: pd.DataFrame) -> None:
    assert list(found["flags"]) == wanted["flags"].tolist()
    assert len({*found} & {*wanted}) > len(wanted.columns) / 2, "a query leaves out predictors"
    for name in wanted.columns.drop("flags"):
        if name in found:
            numbers = np.array(found[name], dtype=float)
            np.testing.assert_allclose(numbers, wanted[name], rtol=TOLERANCE, atol=TOLERANCE)


@kinds
@seeds
@cases
def test_a_table_a_row_and_a_file(kind: str, seed: int, tmp_path: Path) -> None:
    """The model says of each cell what it says under yes/no, also alone and on the terminal."""
    rng = np.random.default_rng(seed)
    plain = random_model(rng)
    model, columns = with_outcome(rng, plain, kind), random_columns(rng, plain, N_ROWS, bad=0.1)
    frame = predictors.as_frame(columns)
    wanted = model.predict_frame(frame)
    chances, flags = expected(plain, columns)
    assert wanted["flags"].tolist() == flags
    hidden = [chance is None for chance in chances]
    for name in wanted.columns.drop("flags"):
        assert wanted[name].isna().tolist() == hidden
    if kind != "classes":
        twin = np.array([np.nan if p is None else np.log(p / (1 - p)) for p in chances])
        np.testing.assert_allclose(model.decision_function(frame), twin, atol=1e-7)
    one = int(rng.integers(N_ROWS))
    check(model.predict_frame(frame.iloc[[one]]), wanted.iloc[[one]])
    check(by_command(model, columns, tmp_path), wanted)


@kinds
@seeds
@cases
@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_query(kind: str, dialect: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain = random_model(rng)
    model, columns = with_outcome(rng, plain, kind), random_columns(rng, plain, N_ROWS, bad=0.1)
    table = {**columns, "row number": Column("whole", list(range(N_ROWS)))}
    query = model.to_sql(dialect, key="row number")
    rows = InMemory(dialect).run(query, table)
    rows.sort(key=lambda row: row["row number"])
    found = {name: [row[name] for row in rows] for name in rows[0]}
    check(found, model.predict_frame(predictors.as_frame(columns)))


@kinds
@seeds
@cases
def test_a_graph(kind: str, seed: int) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    rng = np.random.default_rng(seed)
    plain = random_model(rng)
    model, columns = with_outcome(rng, plain, kind), plain_columns(rng, plain, N_ROWS, bad=0.1)
    found = predictors.ask_graph(model, predictors.as_inputs(model, columns))
    check(found, model.predict_frame(predictors.as_frame(columns)))


def by_command(model: Model, columns: Mapping[str, Column], folder: Path) -> dict[str, list[Any]]:
    """Ask ``fedrulefit predict`` about a CSV file."""
    table, file = folder / "patients.csv", folder / "model.json"
    predictors.write_patients(columns, table)
    model.save(file)
    done = CliRunner().invoke(app, ["predict", str(file), str(table)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
    found: dict[str, list[Any]] = {
        name: [row[name] or "nan" for row in rows] for name in rows[0] if name != "flags"
    }
    return {**found, "flags": [row["flags"].removeprefix("'") for row in rows]}
