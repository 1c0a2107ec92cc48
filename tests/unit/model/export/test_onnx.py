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
from fedrulefit.study import Study
from tests.predictors import as_frame, as_inputs, run_graph
from tests.random_models import GOLDEN, expected, over_time, plain_columns, random_model
from tests.samples import make_frame

pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@given(seed=st.integers(0, 2**32 - 1), bad=st.sampled_from([0.0, 0.1]))
@settings(max_examples=60, deadline=None)
def test_any_model_and_any_patients(seed: int, bad: float) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    columns = plain_columns(rng, model, 30, bad=bad)
    inputs = as_inputs(model, columns)
    log_odds, probability, told = run_graph(model, inputs)
    chances, flags = expected(model, columns)
    wanted = np.array(chances, dtype=float)
    np.testing.assert_allclose(probability, wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(1 / (1 + np.exp(-log_odds)), wanted, rtol=0, atol=1e-12)
    assert told == flags


@pytest.mark.parametrize("seed", range(6))
def test_risks_by_every_horizon(seed: int) -> None:
    import onnxruntime

    rng = np.random.default_rng(seed)
    model = over_time(rng, random_model(rng))
    columns = plain_columns(rng, model, 30, bad=0.1)
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    tensors = {name: x.reshape(-1, 1) for name, x in as_inputs(model, columns).items()}
    names = ["log_hazard", "risk", "risk_0_5", "risk_90", "risk_365"]
    assert [output.name for output in session.get_outputs()] == [*names, "flags"]
    wanted = model.predict_frame(as_frame(columns))
    for name, found in zip(names, session.run(names, tensors), strict=True):
        np.testing.assert_allclose(found[:, 0], wanted[name], rtol=1e-12, atol=1e-12)


def test_the_golden_model_scores_a_hospital() -> None:
    model, frame = Model.load(GOLDEN), make_frame(100)
    inputs = {
        name: frame[name].to_numpy(float) if name in ("age", "lactate", "gcs")
        else frame[name].fillna("").to_numpy(object)
        for name in model.study.names
    }  # fmt: skip
    np.testing.assert_allclose(run_graph(model, inputs)[1], model.predict_proba(frame), atol=1e-12)


def test_what_the_study_does_not_foresee() -> None:
    model = Model.load(GOLDEN)
    fine = {"age": 60.0, "lactate": np.nan, "gcs": 9.0, "ward": "icu", "sex": "f"}
    changes: list[tuple[dict[str, Any], str]] = [
        ({}, ""),
        ({"age": np.inf}, "age above the range: counted as 100 years"),
        ({"gcs": np.nan}, "gcs missing: no prediction"),
        ({"ward": "ICU"}, "ward not a level of the study: counted as missing"),
        ({"sex": "x"}, ""),  # no term names it
        ({"ward": "n/a"}, ""),
    ]
    rows = [{**fine, **change} for change, _ in changes]
    kinds = dict.fromkeys(fine, float) | {"ward": object, "sex": object}
    inputs = {
        name: np.array([row[name] for row in rows], dtype=kind) for name, kind in kinds.items()
    }
    _, probability, flags = run_graph(model, inputs)
    assert flags == [flag for _, flag in changes]
    assert np.isnan(probability).tolist() == [flag.endswith("no prediction") for flag in flags]


def test_a_model_without_terms_and_one_with_thousands() -> None:
    rng = np.random.default_rng(0)
    model = random_model(rng, n_rules=3000)
    columns = plain_columns(rng, model, 20)
    inputs = as_inputs(model, columns)
    for one in (model, dataclasses.replace(model, terms=())):
        wanted = np.array(expected(one, columns)[0], dtype=float)
        np.testing.assert_allclose(run_graph(one, inputs)[1], wanted, atol=1e-12)


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
