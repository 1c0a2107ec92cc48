"""A model of events that compete: one formula for their risks, whoever asks."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fedrulefit import Model, RuleFitSurvival, plot
from fedrulefit.cli.app import app
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.errors import FedRuleFitError, ModelFileError
from fedrulefit.model.file import model_text
from fedrulefit.model.file.writing import model_facts
from fedrulefit.model.publish import bound_move, round_model
from fedrulefit.testing.samples import add_outcomes
from tests.reports import competing_model, sample_model, time_model
from tests.samples import make_frame

CAUSES = ("Death", "discharge", "transfer")
COLUMNS = [
    "risk", "risk_90", "risk_365",
    "risk_discharge", "risk_discharge_90", "risk_discharge_365",
    "risk_transfer", "risk_transfer_90", "risk_transfer_365",
]  # fmt: skip
PREDICTORS = [f"log_hazard_{cause}" for cause in CAUSES]


@pytest.fixture(scope="module")
def model() -> Model:
    return competing_model()


@pytest.fixture(scope="module")
def frame() -> Any:
    return make_frame(40, seed=4)


def naive_risks(model: Model, predictor: Any, time: float) -> Any:
    """Add hazards up in small steps, cause by cause: (n_causes,) of one patient."""
    outcome = model.study.outcome
    ends = np.array([0.0, *outcome.inner_cuts, outcome.horizons[-1]])  # type: ignore[union-attr]
    parts = np.exp(np.array(model.baseline).reshape(3, -1))
    rates = np.exp(predictor)[:, None] * parts / parts.sum(axis=1, keepdims=True) / np.diff(ends)
    steps = np.linspace(0, time, 40_001)
    middle = (steps[1:] + steps[:-1]) / 2
    hazard = rates[:, np.searchsorted(ends, middle) - 1]
    gone = np.concatenate([[0.0], np.cumsum(hazard.sum(axis=0) * np.diff(steps))])
    alive = np.exp(-(gone[1:] + gone[:-1]) / 2)
    return (hazard * alive * np.diff(steps)).sum(axis=1)


def test_risks_are_hazards_added_up(model: Model, frame: Any) -> None:
    found = model.predict_cumulative_incidence(frame, [0.0, 20.0, 90.0, 365.0])
    assert found.shape == (40, 3, 4)
    predictor = model.decision_function(frame)
    assert predictor.shape == (40, 3)
    for row in (0, 7, 23):
        for k, time in ((1, 20.0), (2, 90.0), (3, 365.0)):
            wanted = naive_risks(model, predictor[row], time)
            np.testing.assert_allclose(found[row, :, k], wanted, atol=2e-5)
    alive = model.predict_survival(frame, [0.0, 20.0, 90.0, 365.0])
    np.testing.assert_allclose(found.sum(axis=1) + alive, 1, atol=1e-12)
    by_default = model.predict_cumulative_incidence(frame)
    np.testing.assert_allclose(by_default[:, :, -1], found[:, :, -1], atol=1e-14)


def test_all_who_predict_agree(model: Model, frame: Any, tmp_path: Path) -> None:
    told = model.predict_frame(frame)
    assert list(told) == [*COLUMNS, *PREDICTORS, "flags"]
    np.testing.assert_array_equal(told[PREDICTORS], model.decision_function(frame))
    np.testing.assert_array_equal(told["risk"], model.predict(frame))
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict(frame))
    np.testing.assert_array_equal(told[COLUMNS[1:3]], model.predict_risks(frame))
    wanted = model.predict_risks(frame, cause="transfer")
    np.testing.assert_array_equal(told[COLUMNS[7:]], wanted)
    for row, one in zip(told.to_dict("records"), model.explain(frame), strict=True):
        assert (one.level, one.prediction) == ("Death", pytest.approx(row["risk"]))
        assert [*one.horizons] == COLUMNS[1:]
        assert [*one.horizons.values()] == pytest.approx([row[name] for name in COLUMNS[1:]])
        total = one.baseline + sum(part.contribution for part in one.contributions)
        assert total == pytest.approx(one.linear_predictor)
        assert one.linear_predictor == pytest.approx(row["log_hazard_Death"])
    model.save(tmp_path / "model.json")
    frame.to_parquet(tmp_path / "p.parquet")
    files = [str(tmp_path / "model.json"), str(tmp_path / "p.parquet")]
    done = CliRunner().invoke(app, ["predict", *files])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(done.stdout, newline="")))
    found = [[float(row[name]) for name in COLUMNS] for row in rows]
    np.testing.assert_allclose(found, told[COLUMNS], rtol=1e-12)


def test_who_has_no_prediction_has_none_of_any_cause(model: Model, frame: Any) -> None:
    hidden = frame.assign(gcs=frame["gcs"].where(frame.index != 3))
    told = model.predict_frame(hidden)
    assert told.loc[3, [*COLUMNS, *PREDICTORS]].isna().all()
    assert not told.drop(index=3)[COLUMNS].isna().any(axis=None)
    assert np.isnan(model.predict_cumulative_incidence(hidden)[3]).all()
    assert np.isnan(model.predict_risks(hidden)[3]).all()
    one = model.explain(hidden)[3]
    assert np.isnan([one.prediction, *one.horizons.values()]).all()
    assert [*one.horizons] == COLUMNS[1:]


def test_what_a_model_without_competing_events_says(frame: Any) -> None:
    plain = time_model()
    risks = plain.predict_cumulative_incidence(frame, [90, 365])
    np.testing.assert_array_equal(risks[:, 0], 1 - plain.predict_survival(frame, [90, 365]))
    assert plain.incidence is None
    with pytest.raises(FedRuleFitError, match="this has none"):
        plain.predict_risks(frame, cause="death")


def test_what_is_asked_wrongly(model: Model, frame: Any) -> None:
    assert model.timeline is None
    with pytest.raises(FedRuleFitError, match="no cause 'relapse': the causes are Death, disch"):
        model.predict_risks(frame, cause="relapse")
    with pytest.raises(FedRuleFitError, match="0 to the last horizon, 365 days"):
        model.predict_cumulative_incidence(frame, [400])
    with pytest.raises(FedRuleFitError, match="0 to the last horizon"):
        model.predict_survival(frame, [-1])
    with pytest.raises(FedRuleFitError, match="events compete here"):
        plot.survival(model, frame)


def test_explain_tells_every_event(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model.save(path)
    typed = ["explain", str(path), "--value", "age=71", "--value", "gcs=8", "--value", "sex=f"]
    facts = json.loads(CliRunner().invoke(app, [*typed, "--json"]).stdout)
    assert facts["level"] == "Death"
    assert facts["risk_365"] == facts["risk"]
    assert facts["risk"] + facts["risk_discharge"] + facts["risk_transfer"] < 1
    told = CliRunner().invoke(app, typed).stdout
    assert told.startswith(f"Death by 365 days: {100 * facts['risk']:.1f} %")
    assert f"discharge by 90 days: {100 * facts['risk_discharge_90']:.1f} %" in told
    assert told.count("by 365 days") == 3


# --- the file, and what is published ------------------------------------------------------------


def test_a_file_keeps_everything(model: Model, frame: Any, tmp_path: Path) -> None:
    for own in (model, round_model(model, PUBLISHED)):
        own.save(tmp_path / "model.json")
        again = Model.load(tmp_path / "model.json")
        assert model_text(again) == model_text(own)
        np.testing.assert_array_equal(
            again.predict_frame(frame)[COLUMNS], own.predict_frame(frame)[COLUMNS]
        )
        assert again.evaluation is not None
        assert own.evaluation is not None
        assert again.evaluation.over_time == own.evaluation.over_time
        assert again.subgroup_curves_frame().equals(own.subgroup_curves_frame())
        assert again.study.digest == own.study.digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda facts: facts["baseline"].pop(), "a baseline of 14 numbers, where 15 belong"),
        (lambda facts: facts["terms"][0].update(level="cure"), "level that the outcome does not"),
        (
            lambda facts: facts["evaluation"]["over_time"].update(observed=[0.1]),
            "lacks its risks",
        ),
    ],
)
def test_a_broken_file_is_refused(model: Model, change: Any, words: str, tmp_path: Path) -> None:
    facts = json.loads(json.dumps(model_facts(model)))
    change(facts)
    (tmp_path / "m.json").write_text(json.dumps(facts))
    with pytest.raises(ModelFileError, match=words):
        Model.load(tmp_path / "m.json")


def test_rounding_moves_risks_by_little(model: Model, frame: Any) -> None:
    rounded = round_model(model, PUBLISHED)
    assert rounded.is_rounded
    move = bound_move(model, rounded)
    gap = np.abs(rounded.decision_function(frame) - model.decision_function(frame))
    assert 0 < gap.max() <= move + 1e-9
    risks = np.abs(rounded.predict_frame(frame)[COLUMNS] - model.predict_frame(frame)[COLUMNS])
    assert risks.max(axis=None) <= np.expm1(2 * move)
    assert all(round(b, 6) == b for b in rounded.baseline)
    judged = rounded.evaluation
    assert judged is not None
    assert judged.total.competing % 5 == 0
    assert "with a competing one" in judged.words()
    assert "% observed and" in judged.words()


def test_curves_inside_and_outside_rules(model: Model) -> None:
    told = round_model(model, PUBLISHED).subgroup_curves_frame(top=8)
    assert set(told["side"]) == {"inside", "outside"}
    assert set(told.loc[told["watched"].isna(), "time"]) == {365.0}
    for _, own in told.groupby(["rule", "side"]):
        assert own["risk"].is_monotonic_increasing
        assert ((own["low"] <= own["risk"]) & (own["risk"] <= own["high"])).all()
    last = told[told["time"] == 365.0].set_index(["rule", "side"])["risk"]
    rows = round_model(model, PUBLISHED).subgroups_frame(top=8).set_index("rule")
    for name in last.index.get_level_values(0):
        assert last[name, "inside"] == rows.loc[name, "risk_inside"]
    with pytest.raises(FedRuleFitError, match="only of a time to an event"):
        sample_model().subgroup_curves_frame()


# --- estimators and figures ---------------------------------------------------------------------


def test_an_estimator_that_was_fitted_to_the_model(model: Model, frame: Any) -> None:
    fitted = RuleFitSurvival(study=model.study)
    fitted.model_, fitted.study_ = model, model.study
    fitted.n_features_in_ = model.study.n_features
    fitted.feature_names_in_ = np.array(model.study.names, dtype=object)
    patients = frame[list(model.study.names)]
    assert fitted.causes_ == CAUSES
    risks = fitted.predict_cumulative_incidence(patients, [90, 365])
    np.testing.assert_array_equal(risks, model.predict_cumulative_incidence(frame, [90, 365]))
    told = model.predict(frame)
    np.testing.assert_allclose(fitted.predict(patients), np.log(-np.log1p(-told)), rtol=1e-12)
    curve = fitted.predict_survival_function(patients.head(1))[0]
    assert curve(77.7) == pytest.approx(model.predict_survival(frame.head(1), [77.7])[0, 0])
    shown = fitted.transform(patients) @ fitted.coef_.T + fitted.intercept_
    np.testing.assert_allclose(shown, model.decision_function(frame), atol=1e-9)
    y = add_outcomes(make_frame(300, 77), 77)
    x = y[list(model.study.names)]
    codes = y["ended"].map({"stays": 0, "died": 1, "home": 2, "moved": 3}).to_numpy()
    target = np.array(list(zip(codes, y["stays"], strict=True)), dtype=[("e", "i4"), ("t", "f8")])
    assert fitted.score(x, target) > 0.6


def test_figures(model: Model, frame: Any) -> None:
    lines = plot.incidence(model, frame.head(3), cause="transfer").lines
    times, shown = (np.asarray(part) for part in lines[0].get_data())
    wanted = model.predict_cumulative_incidence(frame.head(1), times)[0, 2]
    np.testing.assert_allclose(shown, 100 * wanted)
    assert "transfer" in plot.incidence(model, frame, cause="transfer").get_ylabel()
    plain = plot.incidence(time_model(), frame.head(1)).lines[0]
    at, risk = (np.asarray(part) for part in plain.get_data())
    np.testing.assert_allclose(
        risk, 100 - 100 * time_model().predict_survival(frame.head(1), at)[0]
    )
    with pytest.raises(ValueError, match="events that compete"):
        plot.incidence(time_model(), frame, cause="death")
    for own in (model, time_model()):
        told, ax = own.subgroup_curves_frame(), plot.subgroup_curves(own)
        first = told[(told["rule"] == told["rule"].iloc[0]) & (told["side"] == "inside")]
        drawn = np.asarray(ax.lines[0].get_ydata())
        np.testing.assert_allclose(drawn, [0.0, *100 * first["risk"]])
        n_rules = told["rule"].nunique()
        plot.subgroup_curves(own, rule=n_rules - 1)
        with pytest.raises(ValueError, match=f"0 to {n_rules - 1}"):
            plot.subgroup_curves(own, rule=n_rules)
    none = plot.subgroup_curves(replace(model, terms=()))
    assert [text.get_text() for text in none.texts] == ["Of no rule is the risk over time told"]
