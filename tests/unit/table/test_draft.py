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
        ("plz", ["01067", "10115", "80331"] * 20),
        ("Zip code", [f"{10115 + i % 9}" for i in range(N)]),
        ("code", [f"0{1067 + i % 20}" for i in range(N)]),
        ("enormous", [1e300 + i * 1e290 for i in range(N)]),
        ("comma", ["1,500", "2,25", "3,5"] * 20),
        ("saturation", [f"{80 + i % 20} %" for i in range(N)]),
        ("LOS_days", [i % 17 for i in range(N)]),
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
        (["ja", "nein"], "ja", "nein"),
        (["Non", "Oui"], "Oui", "Non"),
        (["verstorben", "lebend"], "verstorben", "lebend"),
        (["dead", "not dead"], "dead", "not dead"),
        ([2, 1], 1, 2),
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
    with pytest.raises(StudyError, match="3 distinct values here, not two"):
        draft(columns, outcome="injury", kind="yes/no")
    with pytest.raises(StudyError, match="1 distinct values here, not two"):
        draft(make_columns(same=[1] * N), outcome="same")
    columns["status"] = columns.pop("died")
    with pytest.raises(StudyError, match="pass --outcome"):
        draft(columns)
    assert draft(columns, outcome="status").outcome.column == "status"


def test_titles_above_the_names_are_pointed_out(tmp_path: Path) -> None:
    """It was only said to check the spelling of the outcome."""
    path = tmp_path / "t.csv"
    table = pd.DataFrame(make_columns()).to_csv(index=False)
    n_columns = table.splitlines()[0].count(",") + 1
    path.write_text("Export of ward 3" + "," * (n_columns - 1) + "\n" + table)
    words = f"only 1 of {n_columns} columns have a name; the first row must hold the names"
    with pytest.raises(StudyError, match=words):
        draft_study(path, outcome="died", name=None)
    path.write_text("Export of ward 3\n" + table)
    with pytest.raises(DataError, match="take out titles above the column names"):
        draft_study(path, outcome="died", name=None)


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


def told(columns: dict[str, Any]) -> tuple[dict[str, str], dict[str, list[str]], str]:
    """Return what a draft says: why columns are left out, what was guessed, and its text."""
    drafted = draft_study(columns, outcome=None, name=None)
    guesses: dict[str, list[str]] = {}
    for column, words in drafted.guesses:
        guesses.setdefault(column, []).append(words)
    return dict(drafted.left_out), guesses, drafted.text


def test_an_event_without_a_usual_word_is_a_guess() -> None:
    _, guesses, text = told(make_columns(died=["b", "a"] * 30))
    assert guesses["died"] == ['"b" taken as the event: which value is the event?']
    assert 'positive = "b"  # CHECK: a guess: which value is the event?' in text
    assert "died" not in told(make_columns())[1]
    columns = make_columns(survived=["yes", "no"] * 30)
    drafted = draft_study(columns, outcome="survived", name=None)
    assert drafted.guesses[0][1].startswith('"yes" taken as the event: the name speaks of survival')


def test_a_score_has_no_unit() -> None:
    """A rule read "GCS < 6 score"."""
    gcs = draft(make_columns(GCS=list(range(3, 16)) * 4 + [15] * 8)).covariates["GCS"]
    assert isinstance(gcs, Number)
    assert (gcs.range, gcs.unit) == ((3, 15), "")


def test_codes_among_numbers_are_missing_and_do_not_stretch_the_range() -> None:
    gcs = [*list(range(3, 16)) * 4, *[-9] * 6, "unknown", "unknown"]
    _, guesses, text = told(make_columns(GCS=gcs))
    assert guesses["GCS"] == ['-9, "unknown" taken as missing']
    assert 'missing = [-9, "unknown"]  # CHECK: a guess; take out what is a value' in text
    covariate = draft(make_columns(GCS=gcs)).covariates["GCS"]
    assert isinstance(covariate, Number)
    assert covariate.range == (3, 15)


def test_names_of_orders_and_of_codes() -> None:
    columns = make_columns(
        asa=[1, 2, 3, 3, 2, 1] * 10,
        region=[i % 10 for i in range(N)],
        blood_group=[1, 2, 3, 4] * 15,
    )
    study, guesses = draft(columns), told(columns)[1]
    kinds = {name: study.covariates[name].kind for name in ("asa", "region", "blood_group")}
    assert kinds == {"asa": "ordered", "region": "category", "blood_group": "category"}
    assert guesses["asa"] == ["levels put in an order: 1 < 2 < 3"]
    assert guesses["region"] == ["whole numbers, by its name taken for codes without an order"]


def test_columns_that_say_the_same_are_left_out() -> None:
    """They were drafted side by side, and a model shares a coefficient between them."""
    columns = make_columns()
    columns |= {
        "age in months": np.asarray(columns["age"]) * 12,
        "sex": ["f" if cell == "yes" else "m" for cell in columns["female"]],
        "alive": 1 - np.asarray(columns["died"]),
    }
    left_out, _, text = told(columns)
    assert left_out == {
        "age in months": "tells patients apart exactly as 'age' does",
        "sex": "tells patients apart exactly as 'female' does",
        "alive": "tells patients apart exactly as the outcome does",
    }
    assert '# Left out: "sex" tells patients' in text


def test_repeated_rows_are_counted() -> None:
    frame = pd.DataFrame(make_columns())
    assert draft_study(frame, outcome=None, name=None).warnings == ()
    twice = pd.concat([frame, frame.head(9)], ignore_index=True)
    (warning,) = draft_study(twice, outcome=None, name=None).warnings
    assert warning.startswith("9 of 69 rows repeat another row")


def test_a_guessed_encoding_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame = pd.DataFrame(make_columns(größe=np.arange(N) / 4))
    frame.to_csv(path, index=False, sep=";", decimal=",", encoding="latin-1")
    drafted = draft_study(path, outcome=None, name=None)
    (warning,) = drafted.warnings
    assert "Windows-1252" in warning
    study = Study.from_mapping(tomllib.loads(drafted.text))
    assert isinstance(study.covariates["größe"], Number)
    assert load_table(path, study).n_rows == N


def test_no_rare_text_is_told() -> None:
    columns = make_columns(injury=["boat"] * 2 + ["fall", "car"] * 29)
    columns["lab"] = [*columns["lab"][:-1], "call Mr Smith"]
    drafted = draft_study(columns, outcome=None, name=None)
    assert "boat" not in repr(drafted)
    assert "Smith" not in repr(drafted)


def test_a_point_in_a_table_with_decimal_commas_may_separate_thousands(tmp_path: Path) -> None:
    """Platelets of 230.000 were read as 230 beside a lactate of 1,5."""
    columns = make_columns(lactate=["1,5", "2,25", "0,9", "1,1"] * 15, platelets=["230.000"] * N)
    columns["platelets"] = [f"{100 + i % 40}.000" for i in range(N)]
    left_out, _, _ = told(columns)
    assert "platelets" in left_out
    assert "may separate thousands" in left_out["platelets"]
    del columns["lactate"]
    assert told(columns)[0] == {}
    columns["lactate"] = ["1,5", "2.25", "0,9", "1,1"] * 15
    columns["platelets"] = [f"{100 + i % 40}.25" for i in range(N)]
    assert told(columns)[0] == {}


def test_a_column_of_patients_with_several_rows_is_pointed_out() -> None:
    columns = make_columns(patient_id=[i // 2 for i in range(N)])
    left_out, guesses, text = told(columns)
    assert "patient_id" in left_out
    assert guesses["patient_id"] == ["stands in several rows: does it say whose each is?"]
    settled = text.replace("# [patient]", "[patient]").replace("# column =", "column =")
    study = Study.from_mapping(tomllib.loads(settled.replace("# max_rows", "max_rows")))
    assert study.patient is not None
    assert study.patient.column == "patient_id"
    assert load_table(columns, study).patients is not None
    assert "[patient]" not in told(make_columns(patient_id=list(range(N))))[2]


def test_the_age_of_a_patient_is_neither_an_identifier_nor_whose_a_row_is() -> None:
    """A draft left out "patient_age", and proposed it as the column of patients."""
    columns = make_columns(patient_age=[20 + i % 50 for i in range(N)])
    left_out, guesses, text = told(columns)
    assert "patient_age" not in left_out
    assert "patient_age" not in guesses
    assert "[patient]" not in text


def test_a_unit_in_a_name_is_not_asked_for() -> None:
    columns = {
        "Alter (Jahre)": [20 + i % 50 for i in range(N)],
        "CRP [mg/l]": [i % 40 / 2 for i in range(N)],
    }
    text = told(make_columns(**columns))[2]
    study = draft(make_columns(**columns))
    age = study.covariates["Alter (Jahre)"]
    assert isinstance(age, Number)
    assert (age.range, age.unit) == ((0, 110), "")
    assert 'unit = ""  # the name tells it' in text.partition("CRP")[2]
