"""One prediction with a hospital's own baseline: the same, whoever is asked.

Of every kind of outcome, from fitted models; of yes/no from random ones with odd cells, whose twin
(``tests/random_models.py``) starts from the intercept + b. The page is asked in ``tests/browser``,
and what F + b means in ``tests/unit/model/test_at_hospital.py``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import replace
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
from fedrulefit.testing.samples import OUTCOMES
from tests import predictors
from tests.databases import Column, InMemory
from tests.own_baselines import expecting, make_own, own_model
from tests.random_models import expected, plain_columns, random_columns, random_model
from tests.samples import make_frame

TOLERANCE = 1e-9
N_ROWS = 30
SEEDS = st.integers(0, 2**32 - 1)
CASES = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
every_outcome = pytest.mark.parametrize("outcome", OUTCOMES)


def draw(outcome: str, seed: int) -> tuple[Model, dict[str, Column]]:
    """Return a model at some hospital, and patients."""
    model = own_model(outcome)
    frame = make_frame(N_ROWS, seed)[list(model.study.names)]
    columns = {}
    for name, cells in frame.items():
        kind = "number" if pd.api.types.is_numeric_dtype(cells) else "text"
        known = [None if pd.isna(cell) else cell for cell in cells.tolist()]
        columns[str(name)] = Column(kind, known)
    return model.at(make_own(model, seed)), columns


def check(found: Mapping[str, Any], wanted: pd.DataFrame) -> None:
    assert list(found["flags"]) == wanted["flags"].tolist()
    assert len({*found} & {*wanted}) > len(wanted.columns) / 2, "a query leaves out predictors"
    for name in wanted.columns.drop("flags"):
        if name in found:
            numbers = np.array(found[name], dtype=float)
            np.testing.assert_allclose(numbers, wanted[name], rtol=TOLERANCE, atol=TOLERANCE)


@every_outcome
@given(seed=SEEDS)
@CASES
def test_a_table_a_row_and_a_file(outcome: str, seed: int, tmp_path: Path) -> None:
    model, columns = draw(outcome, seed)
    frame = predictors.as_frame(columns)
    wanted = model.predict_frame(frame)
    one = int(np.random.default_rng(seed).integers(N_ROWS))
    check(model.predict_frame(frame.iloc[[one]]), wanted.iloc[[one]])
    assert model.hospital is not None
    plain = model.hospital.shared.at(None).predict_frame(frame)
    first = wanted.columns[0]
    assert np.abs(wanted[first] - plain[first]).max() > 0, "or nothing was added"
    if len(make_own(model.hospital.shared).values) == 1:
        explained = [e.linear_predictor for e in model.explain(frame)]
        np.testing.assert_allclose(explained, model.decision_function(frame), atol=TOLERANCE)
    check(by_command(model, columns, tmp_path), wanted)


@every_outcome
@given(seed=SEEDS)
@CASES
@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_query(outcome: str, dialect: str, seed: int) -> None:
    model, columns = draw(outcome, seed)
    table = {**columns, "row number": Column("whole", list(range(N_ROWS)))}
    rows = InMemory(dialect).run(model.to_sql(dialect, key="row number"), table)
    rows.sort(key=lambda row: row["row number"])
    found = {name: [row[name] for row in rows] for name in rows[0]}
    check(found, model.predict_frame(predictors.as_frame(columns)))


@every_outcome
@given(seed=SEEDS)
@CASES
def test_a_graph(outcome: str, seed: int) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model, columns = draw(outcome, seed)
    found = predictors.ask_graph(model, predictors.as_inputs(model, columns))
    check(found, model.predict_frame(predictors.as_frame(columns)))


@given(seed=SEEDS)
@settings(CASES, max_examples=25)
def test_any_cells(seed: int, tmp_path: Path) -> None:
    """The naive twin of yes/no, from the intercept + b: number and flags."""
    rng = np.random.default_rng(seed)
    shared = expecting(random_model(rng))
    own = make_own(shared, seed)
    model = shared.at(own)
    twin = replace(shared, intercept=shared.intercept + own.values[0])
    columns = random_columns(rng, shared, N_ROWS, bad=0.1)
    plain = plain_columns(rng, shared, N_ROWS, bad=0.1)
    wanted = expected(twin, columns)
    told = [
        predictors.by_model(model, columns),
        predictors.by_classifier(model, columns),
        predictors.by_command(model, columns, tmp_path),
        *(predictors.by_query(model, columns, InMemory(d)) for d in ("duckdb", "sqlite")),
    ]
    for chances, flags in told:
        assert flags == wanted[1]
        np.testing.assert_allclose(chances, np.array(wanted[0], dtype=float), atol=TOLERANCE)
    _, chances, flags = predictors.run_graph(model, predictors.as_inputs(model, plain))
    wanted = expected(twin, plain)
    assert flags == wanted[1]
    np.testing.assert_allclose(chances, np.array(wanted[0], dtype=float), atol=TOLERANCE)


def by_command(model: Model, columns: Mapping[str, Column], folder: Path) -> dict[str, list[Any]]:
    """Ask ``fedrulefit predict --baseline`` about a CSV file."""
    table = folder / "patients.csv"
    predictors.write_patients(columns, table)
    done = CliRunner().invoke(app, ["predict", *predictors.save(model, folder), str(table)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
    found: dict[str, list[Any]] = {
        name: [row[name] or "nan" for row in rows] for name in rows[0] if name != "flags"
    }
    return {**found, "flags": [row["flags"].removeprefix("'") for row in rows]}
