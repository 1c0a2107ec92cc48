"""The first study that is written from a table."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.errors import DataError, StudyError
from fedrulefit.study import Category, Number, Study, YesNo
from fedrulefit.table.check import load_table
from fedrulefit.table.draft import draft_study

N = 60


def make_columns(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "age": rng.integers(18, 90, N),
        "lab": rng.normal(137.0, 3.0, N),
        "injury": ["fall", "car", "other"] * (N // 3),
        "female": ["yes", "no", "no", "yes"] * (N // 4),
        "died": [0, 1] * (N // 2),
    }
    return {**columns, **changes}


def draft(columns: dict[str, Any], **options: Any) -> Study:
    text = draft_study(columns, **{"outcome": None, "name": None, **options}).text
    return Study.from_mapping(tomllib.loads(text))


def test_the_draft_loads_and_its_table_fits(tmp_path: Path) -> None:
    path = tmp_path / "a b.csv"
    pd.DataFrame(make_columns()).to_csv(path, index=False)
    target = tmp_path / "study.toml"
    target.write_text(draft_study(path, outcome="died", name=None).text, encoding="utf-8")
    study = Study.load(target)
    assert study.name == "a b"
    assert load_table(path, study).n_rows == N


def test_kinds() -> None:
    study = draft(make_columns())
    assert study.outcome.column == "died"
    age, lab, injury, female = study.covariates.values()
    assert isinstance(age, Number)
    assert (age.range, age.unit, age.step, age.complete) == ((0, 110), "years", 1, False)
    assert isinstance(lab, Number)
    assert (lab.range, lab.step) == ((100, 200), None)
    assert isinstance(injury, Category)
    assert injury.levels == ("car", "fall", "other")
    assert isinstance(female, YesNo)
    assert (female.yes, female.no) == ("yes", "no")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient_id", list(range(N))),
        ("number", list(range(1000, 1000 + N))),
        ("remark", [f"text {i}" for i in range(N)]),
        ("few remarks", [f"text {i % 20}" for i in range(N)]),
        ("admitted", [f"2020-01-{1 + i % 9:02}" for i in range(N)]),
        ("hospital", ["A", "B"] * 30),
        ("site_country", ["A", "B"] * 30),
        ("y_died_14d", [0, 1] * 30),
        ("same", [1] * N),
        ("empty", [None] * N),
        ("comma", ["1,500", "2,25", "3,5"] * 20),
        ("thousands", ["1.500", "2,25", "3,5"] * 20),
        ("endless", [np.inf, 1.0, 2.0] * 20),
    ],
)
def test_columns_that_are_left_out(name: str, values: list[Any]) -> None:
    text = draft_study(make_columns(**{name: values}), outcome=None, name=None).text
    assert f'# Left out: "{name}"' in text
    assert name not in Study.from_mapping(tomllib.loads(text)).covariates


def test_the_named_site_column_is_left_out() -> None:
    assert "injury" not in draft(make_columns(), site_column="injury").covariates


def test_no_column_is_complete_because_one_hospitals_is() -> None:
    """A draft from one table said complete, and gave 7 or 8 errors at each other hospital."""
    text = draft_study(make_columns(), outcome=None, name=None).text
    study = Study.from_mapping(tomllib.loads(text))
    assert not any(covariate.complete for covariate in study.covariates.values())
    assert "'complete = true'" in text


def test_rare_levels_are_not_shown() -> None:
    """A text that stands for one or two patients is theirs."""
    columns = make_columns(injury=["boat"] * 2 + ["fall", "car"] * 29)
    text = draft_study(columns, outcome=None, name=None).text
    assert "boat" not in text
    assert '"fall"' in text
    assert "levels of fewer than 5 patients here are not shown" in text


def test_two_rare_texts_or_numbers_are_not_a_yes_no() -> None:
    notes: list[str | None] = [None] * 56
    columns = make_columns(
        note=[*notes, "call Mr Smith", "call Mr Smith", "HIV pos", "HIV pos"],
        creatinine=[*notes, "9.84", "9.84", "3.71", "3.71"],
    )
    text = draft_study(columns, outcome=None, name=None).text
    assert "Smith" not in text
    assert "HIV" not in text
    assert "9.84" not in text
    assert "3.71" not in text


def test_a_possible_level_is_pointed_out() -> None:
    columns = make_columns(injury=["NA", "fall", "car", "other"] * 15)
    assert '# CHECK: "NA" is taken as missing' in draft_study(columns, outcome=None, name=None).text


def test_none_is_a_level() -> None:
    columns = make_columns(injury=["none", "fall", "car", "other"] * 15)
    drafted = draft_study(columns, outcome=None, name=None).text
    assert '  "none",\n' in drafted
    assert "taken as missing" not in drafted


@pytest.mark.parametrize(
    "name", ["with space", 'quo"te', "dot.ted", "größe", "back\\slash", "tab\tnew\nline", "a#b\x7f"]
)
def test_any_name_is_a_valid_key(name: str) -> None:
    study = draft(make_columns(**{name: [0, 1, 1] * 20, f"id {name}": range(N)}))
    assert name.strip() in study.covariates


@pytest.mark.parametrize(
    ("values", "positive", "negative"),
    [
        ([0, 1], 1, 0),
        (["alive", "dead"], "dead", "alive"),
        (["yes", "no"], "yes", "no"),
        ([True, False], 1, 0),
        (["b", "a"], "b", "a"),
    ],
)
def test_which_value_is_the_event(values: list[Any], positive: object, negative: object) -> None:
    outcome = draft(make_columns(died=values * 30)).outcome
    assert (outcome.positive, outcome.negative) == (positive, negative)


def test_outcomes_that_cannot_be_used() -> None:
    columns = make_columns()
    with pytest.raises(StudyError, match="did you mean 'died'"):
        draft(columns, outcome="dies")
    with pytest.raises(StudyError, match="3 distinct values"):
        draft(columns, outcome="injury")
    columns["status"] = columns.pop("died")
    with pytest.raises(StudyError, match="pass --outcome"):
        draft(columns)
    assert draft(columns, outcome="status").outcome.column == "status"


def test_tables_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no column can be a covariate"):
        draft({"died": [0, 1] * 5})
    with pytest.raises(StudyError, match="site column 'hospitl'"):
        draft(make_columns(), site_column="hospitl")
    path = tmp_path / "t.csv"
    path.write_text("63,1,145\n64,0,150\n")
    with pytest.raises(DataError, match="does not look like column names") as caught:
        draft_study(path, outcome=None, name=None)
    assert "145" not in str(caught.value)


def test_bounds_are_not_values_of_patients() -> None:
    columns = make_columns(lab=[100.0, 150.0, 200.0, 123.4] * 15)
    lab = draft(columns).covariates["lab"]
    assert isinstance(lab, Number)
    assert not set(lab.range) & {100.0, 150.0, 200.0, 123.4}


@pytest.mark.parametrize(("name", "n_covariates"), [("trauma", 4), ("heart_uci", 13), ("ist", 22)])
def test_real_tables(data_dir: Path, tmp_path: Path, name: str, n_covariates: int) -> None:
    target = tmp_path / "study.toml"
    source = data_dir / f"{name}.csv"
    target.write_text(draft_study(source, outcome=None, name=None).text, encoding="utf-8")
    study = Study.load(target)
    assert study.n_features == n_covariates
    assert load_table(source, study).outcome is not None
