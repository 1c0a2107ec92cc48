"""One prediction, everywhere the same: number and flags, row by row, whatever the cells hold.

The page, which needs a browser, is compared with the same oracle in ``tests/browser``; other
random models and spellings of each export in ``tests/unit/model/export``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import predictors
from tests.databases import Column, InMemory, start_postgresql, why_no_postgresql
from tests.random_models import (
    expected,
    look_at,
    plain_columns,
    random_columns,
    random_model,
)

TOLERANCE = 1e-9
SEEDS = st.integers(0, 2**32 - 1)
CASES = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Any:
    if request.param != "postgresql":
        yield InMemory(request.param)
        return
    reason = why_no_postgresql()
    if reason is not None:
        pytest.skip(reason)
    with start_postgresql() as server:
        yield server


def check(found: tuple[Any, list[str]], wanted: tuple[list[float | None], list[str]]) -> None:
    (chances, flags), (right, told) = found, wanted
    assert flags == told
    np.testing.assert_allclose(chances, np.array(right, dtype=float), rtol=0, atol=TOLERANCE)


def draw(seed: int) -> tuple[Any, dict[str, Column]]:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    return model, random_columns(rng, model, 30, bad=0.1)


@given(seed=SEEDS)
@CASES
def test_model_classifier_and_command_line(seed: int, tmp_path_factory: Any) -> None:
    model, columns = draw(seed)
    wanted = expected(model, columns)
    for ask in (predictors.by_model, predictors.by_classifier):
        check(ask(model, columns), wanted)
    check(predictors.by_command(model, columns, tmp_path_factory.mktemp("cli")), wanted)


@given(seed=SEEDS)
@CASES
def test_queries(seed: int, database: Any) -> None:
    model, columns = draw(seed)
    check(predictors.by_query(model, columns, database), expected(model, columns))


@given(seed=SEEDS)
@CASES
def test_the_graph(seed: int) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    columns = plain_columns(rng, model, 30, bad=0.1)
    _, chances, flags = predictors.run_graph(model, predictors.as_inputs(model, columns))
    check((chances, flags), expected(model, columns))
    for ask in (predictors.by_model, predictors.by_array):
        check(ask(model, columns), expected(model, columns))


@given(seed=SEEDS, chosen=SEEDS)
@CASES
def test_a_patient_s_answer_depends_on_no_other_row(seed: int, chosen: int) -> None:
    """Among any others and alone, from a file or a frame."""
    model, columns = draw(seed)
    rng = np.random.default_rng(chosen)
    rows = rng.choice(30, int(rng.integers(1, 4)), replace=False)
    chances, flags = predictors.by_model(model, columns)
    few = {
        name: Column(column.kind, [column.cells[int(i)] for i in rows])
        for name, column in columns.items()
    }
    check(
        predictors.by_model(model, few),
        (chances[rows].tolist(), [flags[int(i)] for i in rows]),
    )


def test_the_drawn_patients_have_every_kind_of_cell_under_every_policy() -> None:
    """Or the properties above would hold of nothing."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(60):
        model, columns = draw(seed)
        for j in model.features:
            name = model.study.names[j]
            covariate = model.study.covariates[name]
            for cell in columns[name].cells:
                kind, _ = look_at(cell, covariate)
                policy = model.study.unusual
                fate = policy.beyond if kind in ("below", "above") else policy.unseen
                seen[kind, "complete" if covariate.complete else fate] += 1
    for kind, fates in {
        "below": ("clip", "missing", "refuse", "complete"),
        "above": ("clip", "missing", "refuse", "complete"),
        "unseen": ("missing", "refuse", "complete"),
        "unreadable": ("missing", "refuse", "complete"),
        "missing": ("missing", "refuse", "complete"),
    }.items():
        for fate in fates:
            assert seen[kind, fate] > 10, (kind, fate)
