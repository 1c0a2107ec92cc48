"""The command ``baseline``, and the option of that name."""

from __future__ import annotations

import json
import socket
import stat
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from fedrulefit import Model, demo
from fedrulefit.cli.app import app
from fedrulefit.model.at_hospital import IN_FILE
from fedrulefit.model.own_file import OwnBaseline
from fedrulefit.testing.samples import OUTCOMES, add_outcomes, make_frame
from tests.own_baselines import own_model

runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
LACKS = "No hospital's own baseline was given"


def run(*arguments: Any) -> Result:
    return runner.invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: Any) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return result


def fail(*arguments: Any) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, f"{result.output}\n{result.exception!r}"
    assert "Traceback" not in result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a hospital's table and its baseline; read only."""
    made = tmp_path_factory.mktemp("hospital")
    own_model().save(made / "model.json")
    add_outcomes(make_frame(800, 50), 50).to_csv(made / "hospital.csv", index=False)
    model, data = made / "model.json", made / "hospital.csv"
    succeed("baseline", model, "--data", data, "--name", "St. Mary", "-o", made / "own.toml")
    return made


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_it_writes_what_python_estimates(
    outcome: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was sent")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.chdir(tmp_path)
    model, data = own_model(outcome), folder / "hospital.csv"
    model.save("model.json")
    result = succeed("baseline", "model.json", "--data", data, "--name", "St. Mary")
    own = OwnBaseline.load("baseline.toml")
    assert stat.S_IMODE(Path("baseline.toml").stat().st_mode) == 0o600
    wanted = model.estimate_baseline(data, site="St. Mary")
    assert replace(own, date=wanted.date) == wanted
    told = words(result.stdout)
    family = model.study.family
    assert told.startswith("Own baseline of St. Mary, from 800 patients")
    for name, value, error in zip(own.names, own.values, own.errors, strict=True):
        low, middle, high = (
            family.tell_effect(family.effect(value + k * error), unit=not k)
            for k in (-1.96, 0, 1.96)
        )
        assert f"{name} {middle} ({low} to {high}) {value:.3f} {error:.3f}" in told
    assert "observed without it with it" in told
    assert "nothing was sent" in told


def test_calibration_in_the_large_is_that_of_the_patients(folder: Path) -> None:
    frame = pd.read_csv(folder / "hospital.csv")
    result = succeed(
        "baseline", folder / "model.json", "--data", folder / "hospital.csv",
        "-o", folder / "again.toml",
    )  # fmt: skip
    model, own = Model.load(folder / "model.json"), OwnBaseline.load(folder / "again.toml")
    without, within = (m.predict(frame).mean() for m in (model.at(None), model.at(own)))
    observed = (frame["died"] == "yes").mean()
    row = next(line for line in result.stdout.splitlines() if line.startswith("all patients"))
    told = [float(x) for x in row.removeprefix("all patients").replace("%", "").split()]
    np.testing.assert_allclose(told, [100 * x for x in (observed, without, within)], atol=0.06)


def test_predictions_with_it_are_the_hospital_s(folder: Path) -> None:
    model, data = folder / "model.json", folder / "hospital.csv"
    result = succeed("predict", model, data, "--baseline", folder / "own.toml", "--json")
    found = [row["probability"] for row in json.loads(result.stdout)]
    own = OwnBaseline.load(folder / "own.toml")
    assert own.values[0] != 0
    expected = Model.load(model).at(own).predict(data)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert words(result.stderr) == (
        f"Predictions have the own baseline of St. Mary, of {own.date}: for its patients alone."
    )


def test_everything_says_where_it_lacks(folder: Path, tmp_path: Path) -> None:
    model, data = folder / "model.json", folder / "hospital.csv"
    value = ["--value", "age=70", "--value", "gcs=9"]
    for command in (
        ["predict", model, data],
        ["explain", model, *value],
        ["export", model, "--sql", "sqlite"],
        ["report", model, "-o", tmp_path / "report.html"],
    ):
        assert words(succeed(*command).stderr).count(LACKS) == 1, command
    assert words(succeed("rules", model).stdout).count(LACKS) == 1
    assert LACKS in words((tmp_path / "report.html").read_text().replace("&#39;", "'"))


def test_everything_takes_it(folder: Path, tmp_path: Path) -> None:
    model, own = folder / "model.json", ["--baseline", folder / "own.toml"]
    placed = Model.load(model).at(OwnBaseline.load(folder / "own.toml"))
    values = {"age": 70, "gcs": 9}
    options = [text for key, x in values.items() for text in ("--value", f"{key}={x}")]
    explained = json.loads(succeed("explain", model, *options, *own, "--json").stdout)
    assert explained["baseline"] == placed.intercept
    query = succeed("export", model, "--sql", "sqlite", *own)
    assert query.stdout == placed.to_sql("sqlite")
    assert IN_FILE in words(query.stderr)
    page = succeed("report", model, *own, "-o", tmp_path / "report.html")
    assert IN_FILE in words(page.stderr)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "own baseline of St. Mary" in text
    assert f'"intercept":{placed.intercept!r}' in text


def test_a_graph_takes_it(folder: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    made = tmp_path / "model.onnx"
    succeed("export", folder / "model.json", "--onnx", "-o", made, "--baseline",
            folder / "own.toml")  # fmt: skip
    assert "own baseline of St. Mary" in onnx.load(made).doc_string


def test_errors_are_for_people_and_show_no_value(folder: Path, tmp_path: Path) -> None:
    model, data, out = folder / "model.json", folder / "hospital.csv", tmp_path / "own.toml"
    number = tmp_path / "number.json"
    own_model("number").save(number)
    own = ["--baseline", folder / "own.toml"]
    for command in (["predict", number, data], ["report", number], ["explain", number, data],
                    ["export", number, "--sql", "duckdb"]):  # fmt: skip
        assert "estimated for another model" in fail(*command, *own)
    assert "does not exist: it is written at the hospital" in fail(
        "predict", model, data, "--baseline", out
    )
    frame = pd.read_csv(data)
    secret = 98.7654321
    frame.loc[3, "age"] = secret
    frame.head(150).to_csv(tmp_path / "few.csv", index=False)
    assert "150 patients are too few" in fail(
        "baseline", model, "--data", tmp_path / "few.csv", "-o", out
    )
    frame[frame["died"] == "yes"].to_csv(tmp_path / "dead.csv", index=False)
    assert "fewer than 20" in fail("baseline", model, "--data", tmp_path / "dead.csv", "-o", out)
    frame.drop(columns="died").to_csv(tmp_path / "blind.csv", index=False)
    assert "column 'died'" in fail("baseline", model, "--data", tmp_path / "blind.csv", "-o", out)
    frame.assign(age=frame["age"] + 1000).to_csv(tmp_path / "odd.csv", index=False)
    told = fail("baseline", model, "--data", tmp_path / "odd.csv", "-o", out)
    assert "does not fit the study" in told
    assert "1098" not in told
    assert "cannot write" in fail("baseline", model, "--data", data, "-o", tmp_path / "no" / "o")
    assert not out.exists()
    shared = Model.load(model)
    replace(shared, study=shared.study.with_settings(baseline="shared")).save(tmp_path / "s.json")
    assert "one baseline for all hospitals" in fail(
        "baseline", tmp_path / "s.json", "--data", data, "-o", out
    )
    frame.to_csv(tmp_path / "whole.csv", index=False)
    result = succeed("baseline", model, "--data", tmp_path / "whole.csv", "-o", out)
    assert "98.7" not in result.output + out.read_text(encoding="utf-8")


def test_doubts_are_told(folder: Path, tmp_path: Path) -> None:
    """A hospital where nearly all die: far beyond what a spread of 0.1 foresees."""
    model, frame = Model.load(folder / "model.json"), pd.read_csv(folder / "hospital.csv")
    tight = replace(model, study=model.study.with_settings(baseline_spread=0.1))
    tight.save(tmp_path / "model.json")
    dead = np.flatnonzero(frame["died"] == "yes")
    alive = np.flatnonzero(frame["died"] == "no")[:25]
    frame.iloc[np.sort([*dead, *alive])].to_csv(tmp_path / "h.csv", index=False)
    result = succeed("baseline", tmp_path / "model.json", "--data", tmp_path / "h.csv", "-o",
                     tmp_path / "own.toml")  # fmt: skip
    assert "farther from 0 than 3·τ, with the study's spread τ = 0.1" in words(result.stderr)
    assert "farther from what was observed" not in words(result.stderr)


def test_a_model_whose_terms_are_wrong_here_is_told(folder: Path, tmp_path: Path) -> None:
    """Three times too steep: hazards that fit best are then not right in the mean risk."""
    model, data = own_model("time"), folder / "hospital.csv"
    terms = tuple(replace(term, coefficient=3 * term.coefficient) for term in model.terms)
    replace(model, terms=terms).save(tmp_path / "model.json")
    result = succeed("baseline", tmp_path / "model.json", "--data", data, "-o",
                     tmp_path / "own.toml")  # fmt: skip
    row = next(line for line in result.stdout.splitlines() if line.startswith("all patients"))
    seen, without, within = (
        float(x) for x in row.removeprefix("all patients").replace("%", "").split()
    )
    assert abs(within - seen) > abs(without - seen) + 1
    assert "farther from what was observed" in words(result.stderr)


def test_fit_writes_each_site_s(tmp_path: Path) -> None:
    study = demo.STUDY_TOML
    (tmp_path / "study.toml").write_text(study, encoding="utf-8")
    named = []
    for name, frame in demo.draw_registry().items():
        frame.head(250).to_csv(tmp_path / f"{name}.csv", index=False)
        named += ["--site", tmp_path / f"{name}.csv"]
    command = ["fit", "-s", tmp_path / "study.toml", *named, "-o", tmp_path / "model.json", "-q",
               "--set", "n_trees=10", "--set", "penalty=0.02"]  # fmt: skip
    folder = tmp_path / "deep" / "own"
    assert "share one baseline" in fail(*command, "--baselines", folder)
    succeed(*command, "--set", "baseline=afterwards", "--baselines", folder)
    model = Model.load(tmp_path / "model.json")
    assert {path.name for path in folder.iterdir()} == {
        "academic.toml", "regional.toml", "rural.toml",
    }  # fmt: skip
    for path in folder.iterdir():
        own = OwnBaseline.load(path)
        own.check(model)
        assert own.site == path.stem
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    result = succeed("predict", model_file := tmp_path / "model.json", tmp_path / "rural.csv",
                     "--baseline", folder / "rural.toml")  # fmt: skip
    assert "own baseline of rural" in result.stderr
    assert LACKS in words(succeed("rules", model_file).stdout)
