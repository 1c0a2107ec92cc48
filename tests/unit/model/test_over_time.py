"""Risks by every horizon, and survival at any time: one formula, whoever asks."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrulefit import Model, RuleFitSurvival
from fedrulefit.cli.app import app
from fedrulefit.errors import FedRuleFitError
from tests.predictors import as_frame
from tests.random_models import GOLDEN, over_time, plain_columns, random_model
from tests.reports import time_model
from tests.samples import fit_model, make_frame, make_study, make_tables

COLUMNS = ["risk_0_5", "risk_90", "risk_365"]


@pytest.fixture(scope="module")
def model() -> Model:
    study = make_study("time", solver="exact", penalty=0.01)
    return fit_model(study, make_tables(study))


def naive_survival(model: Model, predictor: float, time: float) -> float:
    """Add the hazard up, interval by interval."""
    outcome = model.study.outcome
    ends = [0.0, *outcome.inner_cuts, outcome.horizons[-1]]  # type: ignore[union-attr]
    whole = sum(math.exp(b) for b in model.baseline)
    hazard = 0.0
    for b, start, end in zip(model.baseline, ends, ends[1:], strict=False):
        at_risk = min(max(time - start, 0.0), end - start) / (end - start)
        hazard += math.exp(predictor) * math.exp(b) / whole * at_risk
    return math.exp(-hazard)


def test_survival_is_the_hazard_added_up(model: Model) -> None:
    frame, times = make_frame(20, seed=4), [0.0, 3.5, 90.0, 200.1, 365.0]
    predictor = model.decision_function(frame)
    found = model.predict_survival(frame, times)
    assert found.shape == (20, 5)
    wanted = [[naive_survival(model, f, time) for time in times] for f in predictor.tolist()]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    by_default = model.predict_survival(frame)
    assert by_default.shape == (20, len(model.baseline))
    np.testing.assert_allclose(by_default[:, -1], found[:, -1], atol=1e-15)
    assert (np.diff(found, axis=1) <= 0).all()


def test_the_last_horizon_is_the_prediction(model: Model) -> None:
    frame = make_frame(20, seed=4)
    risks = model.predict_risks(frame)
    np.testing.assert_allclose(risks, 1 - model.predict_survival(frame, [90, 365]), atol=1e-12)
    np.testing.assert_array_equal(risks[:, 1], model.predict(frame))
    told = model.predict_frame(frame)
    assert list(told) == ["risk", "log_hazard", "risk_90", "risk_365", "flags"]
    np.testing.assert_array_equal(told[["risk_90", "risk_365"]], risks)
    np.testing.assert_array_equal(told["risk"], told["risk_365"])


@pytest.mark.parametrize("seed", range(8))
def test_all_who_predict_agree(seed: int, tmp_path: Path) -> None:
    """Model, frame, explanation, estimator and command; queries and graphs in ``export``."""
    rng = np.random.default_rng(seed)
    model = over_time(rng, random_model(rng))
    frame = as_frame(plain_columns(rng, model, 30, bad=0.1))
    wanted = model.predict_risks(frame)
    np.testing.assert_array_equal(model.predict_frame(frame)[COLUMNS], wanted)
    explained = model.explain(frame)
    assert all([*one.horizons] == COLUMNS for one in explained)
    told = [[*one.horizons.values()] for one in explained]
    np.testing.assert_allclose(told, wanted, rtol=1e-9)
    np.testing.assert_allclose([one.prediction for one in explained], wanted[:, -1], rtol=1e-9)
    survival = fitted_to(model).predict_survival_function(frame, return_array=True)
    np.testing.assert_allclose(1 - survival[:, -1], wanted[:, -1], atol=1e-12)
    by_command = run_command(model, frame, tmp_path)
    np.testing.assert_allclose(by_command, wanted, rtol=1e-12)


def fitted_to(model: Model) -> RuleFitSurvival:
    """Return an estimator that was fitted to the model."""
    fitted = RuleFitSurvival(study=model.study)
    fitted.model_, fitted.study_ = model, model.study
    fitted.n_features_in_ = model.study.n_features
    fitted.feature_names_in_ = np.array(model.study.names, dtype=object)
    return fitted


def run_command(model: Model, frame: pd.DataFrame, folder: Path) -> Any:
    model.save(folder / "model.json")
    frame.to_parquet(folder / "patients.parquet")
    files = [str(folder / "model.json"), str(folder / "patients.parquet")]
    told = folder / "risks.csv"  # not what is printed: older versions of click mix it with notes
    done = CliRunner().invoke(app, ["predict", *files, "-o", str(told)])
    assert done.exit_code == 0, done.output
    with told.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [[float(row[name] or "nan") for name in COLUMNS] for row in rows]


def test_explain_tells_every_horizon(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model.save(path)
    typed = ["explain", str(path), "--value", "age=71", "--value", "gcs=8", "--value", "sex=f"]
    done = CliRunner().invoke(app, [*typed, "--json"])
    facts = json.loads(done.stdout)
    assert 0 < facts["risk_90"] < facts["risk_365"] == pytest.approx(facts["risk"])
    told = CliRunner().invoke(app, typed).stdout
    assert f"days by 90 days: {100 * facts['risk_90']:.1f} %" in told
    assert told.count("days by 365 days") == 1
    missing = CliRunner().invoke(app, [*typed[:4], *typed[6:], "--json"])
    assert json.loads(missing.stdout)["risk_90"] is None


def test_one_horizon_says_all() -> None:
    rng = np.random.default_rng(3)
    model = over_time(rng, random_model(rng), horizons=[365])
    frame = as_frame(plain_columns(rng, model, 5))
    assert list(model.predict_frame(frame)) == ["risk", "log_hazard", "flags"]
    np.testing.assert_array_equal(model.predict_risks(frame)[:, 0], model.predict(frame))
    assert model.explain(frame)[0].horizons == {}


def test_one_interval_has_one_rate() -> None:
    rng = np.random.default_rng(3)
    several = over_time(rng, random_model(rng), horizons=[365])
    outcome = several.study.outcome.model_copy(update={"intervals": 1})
    study = several.study.model_copy(update={"outcome": outcome})
    model = replace(several, study=study, baseline=())
    frame = as_frame(plain_columns(rng, model, 5))
    alive = model.predict_survival(frame, [73, 365])
    np.testing.assert_allclose(alive[:, 0] ** 5, alive[:, 1])


def test_what_is_refused(model: Model) -> None:
    frame = make_frame(3)
    for outside in ([366], [-1.0], [10, math.nan]):
        with pytest.raises(FedRuleFitError, match="from 0 to the last horizon, 365 days"):
            model.predict_survival(frame, outside)
    other = Model.load(GOLDEN)
    assert other.timeline is None
    for ask in (other.predict_risks, other.predict_survival):
        with pytest.raises(FedRuleFitError, match="'yes/no' has no horizons"):
            ask(frame)


# --- how far off they are -----------------------------------------------------------------


def test_the_evaluation_scores_every_horizon(tmp_path: Path) -> None:
    model = time_model()
    judged = model.evaluation
    assert judged is not None
    scores = judged.over_time
    assert scores is not None
    assert scores.times == (90, 365)
    assert scores.brier[-1] == pytest.approx(judged.total.brier, abs=1e-3)
    assert all(0.1 < score < 0.2 for score in (*scores.brier, scores.integrated))
    told = f"{scores.brier[0]:.3f} by 90 days, {scores.brier[1]:.3f} by 365 days"
    assert f"Brier score over time: {told}, " in judged.words()
    path = tmp_path / "model.json"
    rounded = model.rounded()
    for one in (model, rounded):
        one.save(path)
        again = Model.load(path).evaluation
        assert again is not None
        assert again.over_time == (one.evaluation and one.evaluation.over_time)
    assert rounded.evaluation is not None
    assert rounded.evaluation.over_time == scores.rounded()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"times": [30, 365]}, "not the study's horizons"),
        ({"brier": [0.1]}, "lacks its score"),
        ({"integrated": -0.1}, "below 0"),
    ],
)
def test_scores_that_do_not_fit_are_refused(change: Any, why: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    time_model().save(path)
    facts = json.loads(path.read_text())
    facts["evaluation"]["over_time"] |= change
    path.write_text(json.dumps(facts))
    with pytest.raises(FedRuleFitError, match=why):
        Model.load(path)
