"""The file of a hospital's own baseline: written, read back, and refused where it does not fit."""

from __future__ import annotations

import datetime
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedrulefit.core.own import Estimate, count_own
from fedrulefit.errors import ModelFileError
from fedrulefit.model import Model
from fedrulefit.model.own_file import OwnBaseline, fingerprint, name_own
from tests.families import EXAMPLES
from tests.samples import SOLVERS, fit_model, make_study

DAY = datetime.date(2026, 3, 1)


@pytest.fixture(scope="module")
def model() -> Model:
    made = fit_model(make_study(**SOLVERS["exact"]))
    return replace(made, study=made.study.with_settings(baseline="site"))


def make_own(model: Model) -> OwnBaseline:
    found = Estimate(np.array([0.1 + 0.2]), np.array([0.07]), 812.5)
    return OwnBaseline.of(model.study.family, fingerprint(model), found, DAY)


def test_a_file_reads_back_the_same(model: Model, tmp_path: Path) -> None:
    own, path = make_own(model), tmp_path / "baseline.toml"
    own.save(path)
    assert OwnBaseline.load(path) == own
    assert own.shift.tolist() == [0.1 + 0.2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "for its owner alone"
    own.check(model)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_number_has_a_name(kind: str) -> None:
    family = EXAMPLES[kind]
    names = name_own(family)
    assert len(set(names)) == len(names) == count_own(family)


def test_of_a_time_numbers_are_named_by_their_intervals() -> None:
    spans = ("0 to 30 days", "30 to 120 days", "120 to 365 days")
    assert name_own(EXAMPLES["time"]) == spans
    both = [f"{cause}, {span}" for cause in ("death", "transplant") for span in spans]
    assert name_own(EXAMPLES["competing"]) == tuple(both)


def test_the_fingerprint_is_of_what_predicts_alone(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model.json")
    assert fingerprint(Model.load(tmp_path / "model.json")) == fingerprint(model)
    origin = replace(model.provenance, rounds=99)
    assert fingerprint(replace(model, provenance=origin)) == fingerprint(model)
    (first, *others) = model.terms
    moved = replace(first, coefficient=np.nextafter(first.coefficient, 9.0))
    for other in (
        replace(model, intercept=model.intercept + 1e-9),
        replace(model, terms=(moved, *others)),
        replace(model, terms=tuple(others)),
        replace(model, study=model.study.with_settings(baseline_spread=0.6)),
    ):
        assert fingerprint(other) != fingerprint(model)


def test_a_baseline_of_another_model_is_refused(model: Model) -> None:
    own = make_own(model)
    with pytest.raises(ModelFileError, match="for another model"):
        own.check(replace(model, intercept=0.5))
    shared = replace(model, study=model.study.with_settings(baseline="shared"))
    assert shared.own_baselines is None
    assert model.own_baselines == 0.5
    with pytest.raises(ModelFileError, match="one baseline for all hospitals"):
        own.check(shared)
    with pytest.raises(ModelFileError, match="the numbers that the model adds"):
        replace(own, names=("log-odds", "another")).check(model)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("patients = 812.5", "patients = -1", "patients"),
        ("patients = 812.5", "", "patients"),
        ("errors = [0.07]", "errors = []", "as many each"),
        ("errors = [0.07]", "errors = [-0.07]", "must not be below 0"),
        ("values = [", "values = [nan, ", "values"),
        ("format = 1", "format = 2", "format"),
        ("format = 1", "format = 1\nmore = 2", "more"),
        ("date = 2026-03-01", "date = 2026-13-01", "not valid TOML"),
    ],
)
def test_a_broken_file_says_what_is_wrong(
    model: Model, tmp_path: Path, old: str, new: str, why: str
) -> None:
    text, path = make_own(model).text(), tmp_path / "baseline.toml"
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ModelFileError, match=why) as caught:
        OwnBaseline.load(path)
    assert "0.3000" not in str(caught.value), "the hospital's own number is not told"


def test_a_missing_file_says_where_it_comes_from(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="written at the hospital"):
        OwnBaseline.load(tmp_path / "baseline.toml")


def test_a_folder_that_is_not_there_is_told(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot write"):
        make_own(model).save(tmp_path / "none" / "baseline.toml")
