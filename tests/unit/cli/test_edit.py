"""Wishes on the command line: ``fit --price-wishes`` and ``edit``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fedrulefit import Model, demo
from fedrulefit.engines.editing import hash_model
from fedrulefit.report import render_report
from tests.unit.cli.test_commands import fail, succeed

SETTINGS = ["--set", "n_trees=5", "--set", "folds=2", "--set", "path_length=8"]
WISHES = """
[wishes]
rules = ["age >= 65 & GCS < 9"]
forbidden_rules = ["GCS < 12"]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study with wishes, two tables and a model; read only."""
    folder = tmp_path_factory.mktemp("wishes")
    text = demo.STUDY_TOML.replace("[covariates.GCS]", '[covariates.GCS]\ndirection = "down"')
    (folder / "study.toml").write_text(text + WISHES, encoding="utf-8")
    (folder / "other.toml").write_text(text.replace("[covariates.ISS]", "[covariates.iss]"))
    for name, frame in demo.draw_registry().items():
        frame.head(300).to_csv(folder / f"{name}.csv", index=False)
    succeed("fit", "-s", folder / "study.toml", *sites(folder), *SETTINGS, "-o", folder / "m.json")
    return folder


def sites(folder: Path) -> list[Any]:
    return ["--site", folder / "academic.csv", "--site", folder / "rural.csv"]


def test_a_fit_tells_what_became_of_each_wish(place: Path, tmp_path: Path) -> None:
    command = ["fit", "-s", place / "study.toml", *sites(place), *SETTINGS]
    plain = succeed(*command, "-o", tmp_path / "plain.json").output
    assert "Wishes" in plain
    assert "fit --price-wishes" in plain
    told = succeed(*command, "--price-wishes", "-o", tmp_path / "m.json").output
    assert "age >= 65 & GCS < 9" in told
    assert "cross-validated deviance" in told
    facts = json.loads(succeed(*command, "--json", "-o", tmp_path / "again.json").stdout)
    assert [wish["kind"] for wish in facts["wishes"]] == ["direction", "rule", "forbidden rule"]
    model = Model.load(tmp_path / "m.json")
    assert all(wish.price is not None for wish in model.wishes)
    page = render_report(model)
    assert "What clinicians wished of the model" in page
    assert "Rule: age &gt;= 65 &amp; GCS &lt; 9" in page
    assert "Wishes" in succeed("rules", tmp_path / "m.json").output


def test_prices_need_a_cross_validation(place: Path, tmp_path: Path) -> None:
    command = ["fit", "-s", place / "study.toml", *sites(place), "--preset", "paper"]
    assert "only the exact solver" in fail(*command, "--price-wishes", "-o", tmp_path / "m.json")


def test_without_wishes_nothing_is_said_of_them(tmp_path: Path, place: Path) -> None:
    (tmp_path / "study.toml").write_text(demo.STUDY_TOML, encoding="utf-8")
    command = ["fit", "-s", tmp_path / "study.toml", *sites(place), *SETTINGS]
    assert "Wish" not in succeed(*command, "-o", tmp_path / "m.json").output
    text = (tmp_path / "m.json").read_text(encoding="utf-8")
    for key in ('"wishes"', '"edits"', '"keep"', '"direction"'):
        assert key not in text


def test_terms_are_dropped_by_number_or_words_and_rules_added(place: Path, tmp_path: Path) -> None:
    model = Model.load(place / "m.json")
    listed = succeed("edit", place / "m.json").output
    words = [model.describe(term) for term in model.terms]
    assert len([line for line in listed.splitlines() if line.strip()[:1].isdigit()]) == len(words)
    command = ["edit", place / "m.json", *sites(place), "-s", place / "study.toml"]
    output = tmp_path / "new.json"
    told = succeed(
        *command, "--drop", 1, "--drop", words[1], "--add", "age >= 80 & ISS >= 25", "-o", output
    ).output
    assert "Edited by hand, without" in told
    edited = Model.load(output)
    (edit,) = edited.edits
    assert edit.dropped == tuple(words[:2])
    assert edit.parent == hash_model(model)
    assert edit.parent == hashlib.sha256((place / "m.json").read_bytes()).hexdigest()
    assert not {*words[:2]} & {edited.describe(term) for term in edited.terms}
    assert "age ≥ 80 years & ISS ≥ 25" in {edited.describe(term) for term in edited.terms}
    assert "After the fit" in render_report(edited)
    facts = json.loads(succeed(*command, "--drop", 1, "--json", "-o", output).stdout)
    assert facts["edits"][0]["dropped"] == [words[0]]


def test_edits_that_cannot_be_made_say_why(place: Path, tmp_path: Path) -> None:
    model, output = place / "m.json", tmp_path / "new.json"
    command = ["edit", model, *sites(place), "-o", output]
    assert "there is no term 999" in fail(*command, "--drop", 999)
    assert "the model has no term 'age > 5'" in fail(*command, "--drop", "age > 5")
    assert "no covariate 'GSC'" in fail(*command, "--add", "GSC < 9")
    assert "'direction'" in fail(*command, "--add", "5 <= GCS < 9")
    assert "needs the tables" in fail("edit", model, "--drop", 1, "-o", output)
    assert "another covariates" in fail(*command, "--drop", 1, "-s", place / "other.toml")
    assert not output.exists()
