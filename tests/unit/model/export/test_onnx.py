"""The ONNX graph gives what ``predict_proba`` gives."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit import Model
from fedrulefit.errors import FedRuleFitError
from fedrulefit.study import Category, Number, Study, level_key
from tests.random_models import GOLDEN, random_model
from tests.samples import make_frame

pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def run(model: Model, inputs: dict[str, Any]) -> tuple[Any, Any]:
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    tensors = {name: np.asarray(cells).reshape(-1, 1) for name, cells in inputs.items()}
    log_odds, probability = session.run(["log_odds", "probability"], tensors)
    return log_odds[:, 0], probability[:, 0]


def random_inputs(
    rng: np.random.Generator, model: Model, n_rows: int
) -> tuple[dict[str, Any], Any]:
    """Return the graph's inputs, and the same patients in the study's coding."""
    inputs: dict[str, Any] = {}
    values = np.empty((n_rows, model.study.n_features))
    for j, (name, covariate) in enumerate(model.study.covariates.items()):
        axis = model.grid.axes[j]
        if isinstance(covariate, Number):
            x = rng.uniform(-90, 260, n_rows)
            at = rng.random(n_rows) < 0.4
            x[at] = rng.choice(axis.cutoffs, at.sum())
        else:
            x = rng.integers(axis.n_codes, size=n_rows).astype(float)
        if not covariate.complete:
            x[rng.random(n_rows) < 0.2] = np.nan
        values[:, j] = inputs[name] = x
        if not isinstance(covariate, Number):
            levels = (
                covariate.levels
                if isinstance(covariate, Category)
                else (covariate.no, covariate.yes)
            )
            spell = str if rng.random() < 0.5 else level_key
            inputs[name] = np.array(
                ["" if np.isnan(v) else spell(levels[int(v)]) for v in x], dtype=object
            )
    return inputs, values


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_any_model_and_any_patients(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    inputs, values = random_inputs(rng, model, 30)
    log_odds, probability = run(model, inputs)
    np.testing.assert_allclose(log_odds, model.decision_function(values), rtol=0, atol=1e-12)
    np.testing.assert_allclose(probability, model.predict_proba(values), rtol=0, atol=1e-12)


def test_the_golden_model_scores_a_hospital() -> None:
    model, frame = Model.load(GOLDEN), make_frame(100)
    inputs = {
        name: frame[name].to_numpy(float) if name in ("age", "lactate", "gcs")
        else frame[name].fillna("").to_numpy(object)
        for name in model.study.names
    }  # fmt: skip
    np.testing.assert_allclose(run(model, inputs)[1], model.predict_proba(frame), atol=1e-12)


def test_what_is_no_value_of_the_study_gives_nan() -> None:
    model = Model.load(GOLDEN)
    fine = {"age": 60.0, "lactate": np.nan, "gcs": 9.0, "ward": "icu", "sex": "f"}
    changes = [{}, {"age": np.inf}, {"gcs": np.nan}, {"ward": "ICU"}, {"sex": ""}, {"ward": ""}]
    rows = [{**fine, **change} for change in changes]
    kinds = dict.fromkeys(fine, float) | {"ward": object, "sex": object}
    inputs = {
        name: np.array([row[name] for row in rows], dtype=kind) for name, kind in kinds.items()
    }
    assert np.isnan(run(model, inputs)[1]).tolist() == [False, True, True, True, True, False]


def test_a_model_without_terms_and_one_with_thousands() -> None:
    rng = np.random.default_rng(0)
    model = random_model(rng, n_rules=3000)
    inputs, values = random_inputs(rng, model, 20)
    np.testing.assert_allclose(run(model, inputs)[1], model.predict_proba(values), atol=1e-12)
    empty = dataclasses.replace(model, terms=())
    np.testing.assert_allclose(run(empty, inputs)[1], empty.predict_proba(values), atol=1e-12)


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.load(GOLDEN)
    facts = model.study.model_dump()
    facts["covariates"] = {
        {"age": "log_odds"}.get(name, name): c for name, c in facts["covariates"].items()
    }
    with pytest.raises(FedRuleFitError, match="name of a result"):
        dataclasses.replace(model, study=Study.from_mapping(facts)).to_onnx()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(FedRuleFitError, match="pip install"):
        model.to_onnx()
