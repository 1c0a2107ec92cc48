"""A model at a hospital, against F + b and the outcome's family."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedrulefit.errors import BaselineWarning, ModelFileError
from fedrulefit.model import Model
from fedrulefit.model.at_hospital import FITTED, IN_FILE, LACKING
from fedrulefit.model.file import digest_model, model_text
from fedrulefit.model.matrix import judge_values
from fedrulefit.model.own_estimate import find_predictors
from fedrulefit.report import render_report
from fedrulefit.testing.samples import OUTCOMES
from tests.own_baselines import make_own, own_model
from tests.samples import make_tables

every_outcome = pytest.mark.parametrize("outcome", OUTCOMES)


@every_outcome
def test_predictions_are_those_of_the_family_at_f_plus_b(outcome: str) -> None:
    model = own_model(outcome)
    values = make_tables(model.study)["north"].values
    own, family = make_own(model), model.study.family
    moved = model.at(own)
    wanted = find_predictors(model, values) + own.shift
    np.testing.assert_allclose(find_predictors(moved, values), wanted, rtol=0, atol=1e-12)
    if not family.names:
        joined = [family.join_baseline(row) for row in wanted.reshape(len(values), -1)]
        wanted = np.array(joined)
    np.testing.assert_allclose(judge_values(moved, values), family.judged(wanted), atol=1e-12)
    plain = judge_values(model, values)
    assert np.abs(judge_values(moved, values) - plain).max() > 0.01 * np.abs(plain).max()
    assert moved.terms is model.terms


@every_outcome
def test_a_baseline_of_0_changes_nothing(outcome: str) -> None:
    model = own_model(outcome)
    values = make_tables(model.study)["north"].values
    own = make_own(model)
    none = replace(own, values=(0.0,) * len(own.values))
    np.testing.assert_allclose(
        judge_values(model.at(none), values), judge_values(model, values), rtol=1e-13, atol=1e-13
    )


def test_what_is_refused() -> None:
    model = own_model()
    own = make_own(model)
    with pytest.raises(ModelFileError, match="for another model"):
        replace(model, intercept=model.intercept + 1e-9).at(own)
    with pytest.raises(ModelFileError, match="one baseline for all hospitals"):
        replace(model, study=model.study.with_settings(baseline="shared")).at(own)


def test_from_one_hospital_to_another_nothing_of_the_first_stays() -> None:
    model = own_model()
    first, second = make_own(model), make_own(model, seed=4)
    for begin in (model, model.at(None), model.at(first)):
        moved = begin.at(second)
        assert moved.intercept == model.intercept + second.values[0] != begin.intercept
        assert moved.hospital is not None
        assert moved.hospital.shared is model
        assert begin.at(None).intercept == model.intercept


def test_a_model_at_a_hospital_is_not_saved(tmp_path: Path) -> None:
    """The file of a model goes to everybody: a baseline would leave its hospital with it."""
    model, path = own_model(), tmp_path / "model.json"
    with pytest.raises(ModelFileError, match="a model file does not hold"):
        model.at(make_own(model)).save(path)
    assert not path.exists()
    model.at(None).save(path)
    assert path.read_text(encoding="utf-8") == model_text(model)
    assert Model.load(path).hospital is None
    assert digest_model(model.at(make_own(model))) == digest_model(model)


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "decision_function", "predict_frame",
                                 "explain"])  # fmt: skip
def test_whoever_predicts_without_it_is_warned(ask: str) -> None:
    model = own_model()
    values = make_tables(model.study)["north"].values
    with pytest.warns(BaselineWarning, match="No hospital's own baseline was given") as caught:
        getattr(model, ask)(values)
    assert len(caught) == 1
    shared = replace(model, study=model.study.with_settings(baseline="shared"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for quiet in (model.at(None), model.at(make_own(model)), shared):
            getattr(quiet, ask)(values)


def test_levels_without_it_are_warned_of() -> None:
    model = own_model("classes")
    with pytest.warns(BaselineWarning):
        model.predict_proba(make_tables(model.study)["north"].values)


def test_the_sentence_says_what_is_known() -> None:
    model = own_model()
    own = make_own(model)
    assert model.of_hospital == LACKING.format("") == model.of_hospital_file
    assert model.at(None).of_hospital == model.of_hospital, "a file says so, whoever knows it"
    fitted = replace(model, study=model.study.with_settings(baseline="site"))
    assert fitted.of_hospital == LACKING.format(FITTED)
    shared = replace(model, study=model.study.with_settings(baseline="shared"))
    assert shared.of_hospital == shared.of_hospital_file == ""
    assert not shared.lacks_baseline
    told = model.at(own).of_hospital
    assert told == "Predictions have the own baseline of north, of 2026-03-01: for its patients " \
        "alone."  # fmt: skip
    assert model.at(own).of_hospital_file == f"{told} {IN_FILE}"
    assert "of one hospital" in model.at(replace(own, site="")).of_hospital


def test_queries_graphs_and_pages_say_it() -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    model = own_model()
    hostile = replace(make_own(model), site="north\n; DROP TABLE patients; --</script>")
    for shown in (model, model.at(make_own(model)), model.at(hostile)):
        told = shown.of_hospital_file
        heading = shown.to_sql("duckdb").split("\nWITH", maxsplit=1)[0].splitlines()
        assert all(line.startswith("-- ") for line in heading)
        assert heading[-1] == f"-- {told}".replace("\n", " ")
        graph = shown.to_onnx()
        assert graph.doc_string == told
        assert {p.key: p.value for p in graph.metadata_props}["fedrulefit/baseline"] == told
        page = render_report(shown)
        assert "</script>:" not in page
        assert page.count('id="hospital"') == 1
        assert digest_model(model) in page
    assert "With a hospital's own baseline" in render_report(model.at(make_own(model)))
    assert "With a hospital's own baseline" not in render_report(model)
    shared = replace(model, study=model.study.with_settings(baseline="shared"))
    assert "baseline" not in shared.to_sql("duckdb")
    assert 'id="hospital"' not in render_report(shared)
