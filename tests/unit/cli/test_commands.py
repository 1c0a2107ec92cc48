"""The commands ``demo``, ``fit``, ``predict``, ``rules`` and ``explain``."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from fedrulefit import Model, demo
from fedrulefit.cli.app import app
from fedrulefit.report import render_report
from fedrulefit.study import Study
from fedrulefit.testing.samples import add_outcomes, make_frame

runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
QUICK = [
    "--preset",
    "paper",
    "--set",
    "n_trees=15",
    "--set",
    "rounds=15",
    "--set",
    "client_step=0.1",
]


def run(*arguments: Any) -> Result:
    return runner.invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: Any) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return result


def fail(*arguments: Any) -> str:
    """Return the error text, after checking that it is meant for a person."""
    result = run(*arguments)
    assert result.exit_code == 2, f"{result.output}\n{result.exception!r}"
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and three small tables; read only."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "study.toml").write_text(demo.STUDY_TOML, encoding="utf-8")
    frames = {name: frame.head(200) for name, frame in demo.draw_registry().items()}
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    together = pd.concat(frames, names=["hospital", None]).reset_index("hospital")
    together.to_csv(folder / "all.csv", index=False)
    together.assign(hospital=together["hospital"].where(together.index > 0)).to_csv(
        folder / "gaps.csv", index=False
    )
    frames["rural"].assign(age="old").to_csv(folder / "bad.csv", index=False)
    frames["rural"].drop(columns="age").to_csv(folder / "few_columns.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file; read only."""
    path = tmp_path_factory.mktemp("model") / "model.json"
    succeed("fit", "-s", tables / "study.toml", *sites(tables), "-o", path, *QUICK, "-q")
    return path


@pytest.fixture
def without_sex(model: Path, tmp_path: Path) -> Path:
    """The model file without terms that name sex, of which noise may keep some."""
    whole, path = Model.load(model), tmp_path / "without_sex.json"
    sex = whole.study.names.index("sex")
    kept = tuple(term for term in whole.terms if sex not in term.features)
    replace(whole, terms=kept).save(path)
    return path


def sites(tables: Path, *names: str) -> list[str]:
    chosen = names or ("academic", "regional", "rural")
    return [part for name in chosen for part in ("--site", str(tables / f"{name}.csv"))]


# --- demo ---------------------------------------------------------------------------------


def test_demo_writes_everything_it_names(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo"
    text = succeed("demo", "--output", folder).stdout
    for name in ("model.json", "model.png", "report.html", "study.toml", "rural.csv"):
        assert (folder / name).stat().st_size > 0
    model = Model.load(folder / "model.json")
    assert model.provenance.patients == 2000, "a fifth of 2,500 is held out"
    assert model.evaluation is not None
    assert model.evaluation.words() in " ".join(text.split())
    assert Study.load(folder / "study.toml") == demo.demo_study()
    assert "synthetic data, no real patient" in text
    assert "The rules we planted" in text
    assert "no finite ε" in " ".join(text.split())
    advised = " ".join(text.split()).partition("Next: fedrulefit ")[2].split()
    assert advised[0] == "explain"


def test_demo_needs_a_place_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot write" in fail("demo", "--output", tmp_path / "file")


@pytest.mark.parametrize("kind", [kind for kind in demo.OUTCOMES if kind != "yes/no"])
def test_demo_learns_any_kind_of_outcome(kind: str, tmp_path: Path) -> None:
    text = succeed("demo", "--outcome", kind, "--output", tmp_path).stdout
    model = Model.load(tmp_path / "model.json")
    assert model.study.outcome == demo.demo_study(kind).outcome
    assert Study.load(tmp_path / "study.toml") == demo.demo_study(kind)
    assert model.evaluation is not None
    assert model.evaluation.words() in " ".join(text.split())
    told = demo.OUTCOMES[kind].tell(demo.draw_registry(kind=kind)["academic"])
    assert f"academic   1500 patients, {told}" in text
    for planted in demo.OUTCOMES[kind].planted:
        name = f"{planted.level}: {planted.words}" if planted.level else planted.words
        assert f"  {name:<20} " in text
    assert (tmp_path / "report.html").stat().st_size > 0


def test_demo_names_its_outcomes() -> None:
    assert "it has yes/no, number, count, time" in fail("demo", "--outcome", "colour")


# --- fit ----------------------------------------------------------------------------------


def test_fit_writes_a_model_and_tells_about_it(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    result = succeed(
        "fit", "-s", tables / "study.toml", *sites(tables), "-o", out, *QUICK, "--top", 2
    )
    loaded = Model.load(out)
    assert loaded.provenance.sites == ("academic", "regional", "rural")
    assert loaded.provenance.rounds == 15
    flat = " ".join(result.stdout.split())
    assert "3 sites, 600 patients" in flat
    assert loaded.describe(loaded.terms[0]) in flat
    assert "Privacy: Histograms: 4 of ε = 1 each, together ε = 4" in flat
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.html", "model.json"]
    (tmp_path / "model.html").unlink()
    succeed("fit", "-s", tables / "study.toml", *sites(tables), "-o", out, *QUICK, "--no-report")
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_fit_writes_a_report_where_asked(tables: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "model.json", tmp_path / "report.html"
    options = ("-s", tables / "study.toml", *sites(tables), "-o", out, *QUICK)
    text = succeed("fit", *options, "--report", page).stdout
    assert page.read_text(encoding="utf-8") == render_report(Model.load(out), file="model.json")
    assert "report.html" in text
    error = fail("fit", *options, "--report", tmp_path / "absent" / "report.html")
    assert "cannot write" in error


def test_a_fit_of_classes_writes_its_report(tmp_path: Path) -> None:
    """It learnt and wrote the model, and then ended with an error: there was no page to write."""
    for k in range(2):
        frame = make_frame(300, seed=k)
        chosen = [*frame.columns.drop("died"), "goes"]
        add_outcomes(frame, seed=k)[chosen].to_csv(tmp_path / f"s{k}.csv", index=False)
    study, out = tmp_path / "study.toml", tmp_path / "model.json"
    succeed("study", "draft", tmp_path / "s0.csv", "--outcome", "goes", "-o", study)
    quick = ("--set", "n_trees=5", "--set", "penalty=0.01")
    options = ("-s", study, *sites(tmp_path, "s0", "s1"), "-o", out, *quick)
    flat = " ".join(succeed("fit", *options).stdout.split())
    assert Model.load(out).terms
    assert "model.json and" in flat
    assert "rehab" in (tmp_path / "model.html").read_text(encoding="utf-8")


def test_fit_as_json(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    result = succeed(
        "fit", "-s", tables / "study.toml", *sites(tables), "-o", out, *QUICK, "--json"
    )
    facts = json.loads(result.stdout)
    loaded = Model.load(out)
    assert facts["model"] == str(out)
    assert facts["sites"] == ["academic", "regional", "rural"]
    assert facts["patients"] == 600
    assert facts["rules"] == len(loaded.rule_terms)
    assert facts["objective"] == loaded.provenance.objective
    assert facts["privacy"] == loaded.privacy.words()


def test_quiet_is_quiet(tables: Path, tmp_path: Path) -> None:
    result = succeed(
        "fit", "-s", tables / "study.toml", *sites(tables), "-o", tmp_path / "m.json", *QUICK, "-q"
    )
    assert result.stdout == ""


def test_sites_can_be_named(tables: Path, tmp_path: Path) -> None:
    named = ["--site", f"north={tables / 'rural.csv'}", "--site", f"south={tables / 'rural.csv'}"]
    out = tmp_path / "model.json"
    succeed("fit", "-s", tables / "study.toml", *named, "-o", out, *QUICK)
    assert Model.load(out).provenance.sites == ("north", "south")


def test_one_file_with_a_site_column(tables: Path, tmp_path: Path) -> None:
    """The same patients, split by a column, give the same model (without noise)."""
    quiet = ["-s", tables / "study.toml", *QUICK, "--set", "noise=false", "-q"]
    split, column = tmp_path / "split.json", tmp_path / "column.json"
    succeed("fit", *sites(tables), "-o", split, *quiet)
    succeed("fit", "--site", tables / "all.csv", "--site-column", "hospital", "-o", column, *quiet)
    assert column.read_text() == split.read_text()
    assert "WITHOUT noise" in Model.load(column).privacy.words()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--site", "all.csv", "--site-column", "clinic"], "has no column 'clinic'"),
        (["--site", "gaps.csv", "--site-column", "hospital"], "some patients have no 'hospital'"),
        (
            ["--site", "all.csv", "--site", "rural.csv", "--site-column", "hospital"],
            "needs exactly one --site",
        ),
        (["--site", "rural.csv", "--site", "rural.csv"], "two tables are named 'rural'"),
        (["--site", "a=rural.csv", "--site", "a=academic.csv"], "two tables are named 'a'"),
        (["--site", "absent.csv"], "does not exist"),
        (["--site", "."], "is a folder"),
        (["--site", "bad.csv", "--site", "rural.csv"], "site bad: column 'age': 200 of 200"),
        (["--site", "rural.csv", "--set", "rounds=none"], "rounds"),
        (["--site", "rural.csv", "--set", "rounds=0"], "rounds"),
        (["--site", "rural.csv", "--set", "rounds"], "--set takes NAME=VALUE, not 'rounds'"),
        (
            ["--site", "rural.csv", "--set", "ronuds=5"],
            "'fedrulefit study settings' lists them all",
        ),
        (["--site", "rural.csv", "--set", "ronuds=5"], "'ronuds': did you mean 'rounds'?"),
        (
            ["--site", "rural.csv", "--set", "n_tree=30"],
            "no setting 'n_tree': did you mean 'n_trees'?",
        ),
        (["--site", "rural.csv", "--set", "rounds=0"], "rounds holds whole number, ≥ 1, ≤ 1 000"),
        (["--site", "rural.csv", "--set", "rounds=0"], "R: rounds of FedDA."),
        (["--site", "rural.csv", "--set", "repair=mend"], "repair"),
        (["--site", "rural.csv", "--preset", "fancy"], "preset 'fancy' is not known"),
        (
            ["--site", "rural.csv", "--preset", "paper", "--set", "client_step=1e9"],
            "FedDA diverges",
        ),
    ],
)
def test_fit_explains_what_is_wrong(
    arguments: list[str],
    words: str,
    tables: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tables)
    out = tmp_path / "model.json"
    error = fail("fit", "-s", "study.toml", "-o", out, *QUICK, *arguments, "-q")
    assert words in error
    assert not out.exists()


def test_all_errors_of_all_sites_are_told_at_once(tables: Path, tmp_path: Path) -> None:
    shutil.copy(tables / "bad.csv", tmp_path / "worse.csv")
    error = fail(
        "fit", "-s", tables / "study.toml", *sites(tables, "bad"),
        "--site", tmp_path / "worse.csv", "-o", tmp_path / "m.json",
    )  # fmt: skip
    assert "site bad: column 'age'" in error
    assert "site worse: column 'age'" in error


def test_a_missing_or_broken_study(tables: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("name = ")
    (tmp_path / "empty.toml").write_text("")
    for name, words in (
        ("absent.toml", "does not exist"),
        ("broken.toml", "is not valid TOML"),
        ("empty.toml", "outcome: Field required"),
    ):
        error = fail("fit", "-s", tmp_path / name, *sites(tables), "-o", tmp_path / "m.json")
        assert words in error


@pytest.mark.parametrize("place", ["absent/model.json", "."])
def test_an_unwritable_model_is_noticed_before_the_fit(
    place: str, tables: Path, tmp_path: Path
) -> None:
    error = fail("fit", "-s", tables / "study.toml", *sites(tables), "-o", tmp_path / place)
    assert "cannot write" in error


def test_a_preset_and_settings_replace_the_study_s(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    succeed(
        "fit", "-s", tables / "study.toml", *sites(tables, "rural"), "-o", out, "-q", *QUICK,
        "--preset", "paper", "--set", "repair=project", "--set", "centre=true",
        "--set", 'weighting="sites"',
    )  # fmt: skip
    settings = Model.load(out).study.settings
    assert (settings.spreads, settings.repair, settings.centre) == ("exact", "project", True)
    assert (settings.weighting, settings.rounds) == ("sites", 15)


def test_ledgers_hold_what_left(tables: Path, tmp_path: Path) -> None:
    ledgers = tmp_path / "deep" / "ledgers"
    command = (
        "fit", "-s", tables / "study.toml", *sites(tables), "-o", tmp_path / "m.json", "-q",
        "--ledgers", ledgers, *QUICK,
    )  # fmt: skip
    succeed(*command)
    assert {path.name for path in ledgers.iterdir()} == {
        "academic.jsonl", "regional.jsonl", "rural.jsonl",
    }  # fmt: skip
    lines = [json.loads(line) for line in (ledgers / "rural.jsonl").read_text().splitlines()]
    assert [line["epsilon"] for line in lines[:4]] == [1.0] * 4
    rounds = [line["round"] for line in lines if line["quantity"] == "increment"]
    assert rounds == list(range(15))
    assert all(line["time"] and len(line["digest"]) == 64 for line in lines)
    succeed(*command)
    again = (ledgers / "rural.jsonl").read_text().splitlines()
    assert len(again) == 2 * len(lines), "a later run is appended"


def test_ledgers_in_a_place_that_is_a_file(tables: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = fail(
        "fit", "-s", tables / "study.toml", *sites(tables, "rural"), "-o", tmp_path / "m.json",
        "-q", "--ledgers", tmp_path / "file", *QUICK,
    )  # fmt: skip
    assert "file" in error


def test_no_two_sites_share_a_ledger(tables: Path, tmp_path: Path) -> None:
    named = ["--site", f"a:b={tables / 'rural.csv'}", "--site", f"a_b={tables / 'academic.csv'}"]
    succeed(
        "fit", "-s", tables / "study.toml", *named, "-o", tmp_path / "m.json", "-q",
        "--ledgers", tmp_path / "ledgers", *QUICK,
    )  # fmt: skip
    assert len(list((tmp_path / "ledgers").iterdir())) == 2


def test_warnings_go_to_stderr(tables: Path, tmp_path: Path) -> None:
    few = pd.read_csv(tables / "rural.csv").head(15)
    few.to_csv(tmp_path / "few.csv", index=False)
    result = succeed(
        "fit", "-s", tables / "study.toml", *sites(tables, "academic"), "--site",
        tmp_path / "few.csv", "-o", tmp_path / "m.json", *QUICK, "--json",
    )  # fmt: skip
    json.loads(result.stdout)
    assert "site few: the number of patients is 15" in " ".join(result.stderr.split())


# --- predict ------------------------------------------------------------------------------


def test_predict_is_the_model_s_own_probability(model: Path, tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "risks.csv"
    result = succeed("predict", model, tables / "rural.csv", "-o", out)
    assert result.stdout == ""
    assert "Wrote 200 probabilities" in result.stderr
    frame = pd.read_csv(out)
    expected = Model.load(model).predict_proba(tables / "rural.csv")
    np.testing.assert_allclose(frame["probability"], expected, rtol=1e-12)
    np.testing.assert_allclose(1 / (1 + np.exp(-frame["log_odds"])), expected, rtol=1e-12)


def test_predict_prints_csv_or_json(model: Path, tables: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(succeed("predict", model, tables / "rural.csv").stdout)))
    objects = json.loads(succeed("predict", model, tables / "rural.csv", "--json").stdout)
    assert len(rows) == len(objects) == 200
    assert [float(row["probability"]) for row in rows] == [o["probability"] for o in objects]


def test_predict_copies_an_identifier(model: Path, tables: Path) -> None:
    text = succeed("predict", model, tables / "all.csv", "--id", "hospital", "--json").stdout
    assert [row["hospital"] for row in json.loads(text)][::200] == ["academic", "regional", "rural"]


def test_predict_needs_no_outcome(model: Path, tables: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(tables / "rural.csv").drop(columns="mortality")
    frame.to_csv(tmp_path / "new.csv", index=False)
    new = succeed("predict", model, tmp_path / "new.csv").stdout
    assert new == succeed("predict", model, tables / "rural.csv").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rural.csv", "--id", "mrn"], "has no column 'mrn'"),
        (["absent.csv"], "does not exist"),
        (["rural.csv", "--id", "flags"], "--id flags is the name of a result"),
        (["few_columns.csv"], "column 'age': the covariate column is not in the table"),
        (["rural.csv", "-o", "absent/risks.csv"], "cannot write"),
        (["rural.csv", "-o", "."], "cannot write"),
    ],
)
def test_predict_explains_what_is_wrong(
    arguments: list[str], words: str, model: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tables)
    assert words in fail("predict", model, *arguments)


def test_predict_tells_what_is_unusual(without_sex: Path, tables: Path, tmp_path: Path) -> None:
    """Each patient's answer is that of the patient alone; files, JSON and Python say the same."""
    model = without_sex
    frame = pd.read_csv(tables / "rural.csv").head(6).astype({"age": object, "sex": object})
    frame.loc[1, "age"], frame.loc[2, "age"], frame.loc[3, "age"] = 250, "old", "-inf"
    frame.loc[4, "sex"], frame.loc[5, "GCS"] = "x", np.nan
    frame.to_csv(tmp_path / "odd.csv", index=False)
    loaded = Model.load(model)
    assert {loaded.study.names[j] for j in loaded.features} == {"age", "ISS", "GCS"}
    wanted = [
        "",
        "age above the range: counted as 100 years",
        "age not a number: no prediction",
        "age below the range: counted as 15 years",
        "",  # no term names sex
        "",
    ]
    result = succeed("predict", model, tmp_path / "odd.csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["flags"] for row in rows] == wanted
    assert [row["probability"] == "" for row in rows] == ["no pred" in flag for flag in wanted]
    said = " ".join(result.stderr.split())
    assert said.startswith("Values that the study does not foresee: 1 of 6 patients: age ")
    assert "old" not in said
    assert "250" not in said
    objects = json.loads(succeed("predict", model, tmp_path / "odd.csv", "--json").stdout)
    assert [o["flags"] for o in objects] == [[flag] if flag else [] for flag in wanted]
    assert [o["log_odds"] is None for o in objects] == ["no pred" in flag for flag in wanted]
    python = loaded.predict_frame(tmp_path / "odd.csv")
    assert python["flags"].tolist() == wanted
    for place, (row, chance) in enumerate(zip(rows, python["probability"], strict=True)):
        assert row["probability"] == "" if np.isnan(chance) else float(row["probability"]) == chance
        facts = json.loads(
            succeed("explain", model, tmp_path / "odd.csv", "--row", place + 1, "--json").stdout
        )
        assert facts["flags"] == objects[place]["flags"]
        assert facts["probability"] == pytest.approx(objects[place]["probability"])
    result = succeed("predict", model, tables / "bad.csv", "-o", tmp_path / "none.csv")
    said = " ".join(result.stderr.split())
    assert said.startswith("Wrote 0 probabilities to")
    assert said.endswith("200 of 200 patients: age not a number: no prediction")


def test_predict_asks_for_the_unit(model: Path, tables: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(tables / "rural.csv")
    frame.assign(age=12 * frame["age"]).to_csv(tmp_path / "months.csv", index=False)
    result = succeed("predict", model, tmp_path / "months.csv", "-o", tmp_path / "risks.csv")
    assert "is the unit another one?" in result.stderr


@pytest.mark.parametrize("command", ["predict", "rules", "explain"])
def test_a_model_file_that_is_none(command: str, tables: Path, tmp_path: Path) -> None:
    more = [] if command == "rules" else [tables / "rural.csv"]
    assert "cannot read model file" in fail(command, tmp_path / "absent.json", *more)
    (tmp_path / "cut.json").write_text('{"format": "fedrulefit-model", "vers')
    assert "damaged or cut off" in fail(command, tmp_path / "cut.json", *more)
    assert "is not complete JSON" in fail(command, tables / "study.toml", *more)


# --- rules --------------------------------------------------------------------------------


def test_rules_are_the_model_s(model: Path) -> None:
    loaded = Model.load(model)
    flat = " ".join(succeed("rules", model, "--top", 3).stdout.split())
    for term in loaded.terms[:3]:
        assert loaded.describe(term) in flat
    assert "Covariates by importance:" in flat


def test_rules_as_json(model: Path) -> None:
    rows = json.loads(succeed("rules", model, "--json").stdout)
    frame = Model.load(model).rules_frame()
    assert [row["rule"] for row in rows] == frame["rule"].tolist()
    supports = [row["support"] for row in rows if row["kind"] == "rule"]
    assert all(0 <= support <= 1 for support in supports)
    few = json.loads(succeed("rules", model, "--json", "--top", 2, "--min-support", 0.3).stdout)
    assert len(few) == 2
    assert min(row["support"] for row in few) > 0.3


def test_rules_that_count_for_little_are_counted(model: Path, tmp_path: Path) -> None:
    """They were listed, each with an odds ratio of 1.00."""
    whole = Model.load(model)
    *main, one, two = whole.terms
    faint = [replace(term, coefficient=1e-3, importance=1e-3) for term in (one, two)]
    replace(whole, terms=(*main, *faint)).save(tmp_path / "faint.json")
    flat = " ".join(succeed("rules", tmp_path / "faint.json").stdout.split())
    assert "and 2 terms with odds ratios of 1.00 when rounded, together" in flat
    assert "1.00 " not in flat.replace("1.00 when", "")
    assert len(json.loads(succeed("rules", tmp_path / "faint.json", "--json").stdout)) == len(
        whole.terms
    )
    assert "when rounded" not in succeed("rules", tmp_path / "faint.json", "--top", 2).stdout


def test_a_model_without_terms_says_so(model: Path, tmp_path: Path) -> None:
    """A table without rows was printed, and 50 covariates of importance 0."""
    replace(Model.load(model), terms=()).save(tmp_path / "empty.json")
    flat = " ".join(succeed("rules", tmp_path / "empty.json").stdout.split())
    assert "gives every patient the same prediction" in flat
    assert "Covariates by importance: 4 of them in no term" in flat


def test_covariates_in_no_term_are_counted(model: Path, tmp_path: Path) -> None:
    whole = Model.load(model)
    one = replace(whole, terms=whole.terms[:1])
    one.save(tmp_path / "one.json")
    n_unused = int((one.variable_importance() == 0).sum())
    flat = " ".join(succeed("rules", tmp_path / "one.json").stdout.split())
    assert n_unused
    assert f"; {n_unused} others in no term" in flat


def test_subgroups(model: Path) -> None:
    rows = json.loads(succeed("rules", model, "--subgroups", "--json").stdout)
    assert all(row["inside"] + row["outside"] == pytest.approx(600) for row in rows)
    assert "outside" in succeed("rules", model, "--subgroups").stdout


def test_no_rule_meets_the_bounds(model: Path) -> None:
    assert "No rule meets these bounds." in succeed("rules", model, "--min-support", 1).stdout
    assert json.loads(succeed("rules", model, "--min-support", 1, "--json").stdout) == []


def test_rules_draw_a_figure(model: Path, tmp_path: Path) -> None:
    succeed("rules", model, "--figure", tmp_path / "model.svg")
    assert "<svg" in (tmp_path / "model.svg").read_text(encoding="utf-8")
    assert "cannot draw" in fail("rules", model, "--figure", tmp_path / "model.xyz")
    assert "cannot draw" in fail("rules", model, "--figure", tmp_path / "absent" / "m.png")


# --- explain ------------------------------------------------------------------------------


def test_explain_adds_up(model: Path, tables: Path) -> None:
    text = succeed("explain", model, tables / "rural.csv", "--row", 7, "--json").stdout
    facts = json.loads(text)
    total = facts["baseline"] + sum(part["contribution"] for part in facts["contributions"])
    assert total == pytest.approx(facts["log_odds"])
    expected = Model.load(model).predict_proba(tables / "rural.csv")[6]
    assert facts["probability"] == pytest.approx(expected)


def test_explain_a_typed_patient(model: Path) -> None:
    typed = ["--value", "age=71", "--value", "sex=male", "--value", "ISS=30"]
    flat = " ".join(succeed("explain", model, *typed).stdout.split())
    assert flat.startswith("Mortality: ")
    assert "baseline" in flat
    facts = json.loads(succeed("explain", model, *typed, "--value", "GCS=4", "--json").stdout)
    frame = {"age": [71], "sex": ["male"], "ISS": [30], "GCS": [4]}
    assert facts["probability"] == pytest.approx(Model.load(model).predict_proba(frame)[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rural.csv", "--row", "0"], "--row must be 1 to 200"),
        (["rural.csv", "--row", "201"], "--row must be 1 to 200"),
        (["absent.csv"], "does not exist"),
        ([], "either a table or --value"),
        (["rural.csv", "--value", "age=71"], "either a table or --value"),
        (["--value", "age"], "--value takes NAME=VALUE, such as --value age=71"),
        (["--value", "Age=71"], "the model has no covariate 'Age'; it has age, sex, ISS, GCS"),
        (["--value", "height=180"], "no covariate 'height'; it has age, sex, ISS, GCS"),
    ],
)
def test_explain_explains_what_is_wrong(
    arguments: list[str], words: str, model: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tables)
    assert words in fail("explain", model, *arguments)


@pytest.mark.parametrize(
    ("typed", "flags"),
    [
        (["age=old", "sex=male", "ISS=3"], ["age not a number: no prediction"]),
        (["GCS=4", "sex=x"], ["age missing: no prediction", "ISS missing: no prediction"]),
        (["age=71", "sex=male", "ISS=3", "GCS=16"], ["GCS above the range: counted as 15"]),
        (["age=71", "sex=male", "ISS=3", "GCS=?"], ["GCS not a number: counted as missing"]),
    ],
)
def test_explain_says_what_is_unusual(
    typed: list[str], flags: list[str], without_sex: Path
) -> None:
    model = without_sex
    values = [word for pair in typed for word in ("--value", pair)]
    facts = json.loads(succeed("explain", model, *values, "--json").stdout)
    assert facts["flags"] == flags
    refused = flags[0].endswith("no prediction")
    assert (facts["probability"] is None) == refused
    text = " ".join(succeed("explain", model, *values).stdout.split())
    assert text.startswith(f"Mortality: no prediction {flags[0]}") == refused
    assert all(flag in text for flag in flags)


# --- the whole ----------------------------------------------------------------------------


def test_version() -> None:
    assert succeed("--version").stdout.startswith("fedrulefit 0.")


def test_a_wrong_option_is_a_usage_error() -> None:
    result = run("fit", "--nonsense")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedrulefit", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == succeed("--version").stdout


def test_halves_tell_which_terms_come_again(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "halved.json"
    options = ["-s", tables / "study.toml", *sites(tables), "-o", out, *QUICK, "--no-report"]
    text = succeed("fit", *options, "--halves", 2).stdout
    assert "% of halves" in " ".join(text.split())
    assert {term.in_halves for term in Model.load(out).terms} <= {0.0, 0.5, 1.0}
    out.unlink()
    assert "halves come in pairs" in " ".join(fail("fit", *options, "--halves", 3).split())
    assert not out.exists()
