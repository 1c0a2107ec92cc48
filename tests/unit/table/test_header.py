"""The names in a table against the names in the study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedrulefit.table.check import inspect_table
from fedrulefit.table.draft import draft_study
from tests.tables import N, codes, make_columns, make_study, write_csv


def test_duplicated_names_are_found(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "age,age,kind of injury,female,died\n1,2,fall,0,1\n")
    assert codes(path)["duplicate-column"] == "error"
    frame = pd.DataFrame([[1, 2, 3]], columns=["age", "age", "died"])
    assert codes(frame)["duplicate-column"] == "error"


def test_unnamed_columns_are_no_duplicates(tmp_path: Path) -> None:
    """Excel writes a comma for every column it once saw."""
    text = pd.DataFrame(make_columns()).to_csv(index=False).replace("\n", ",,\n")
    assert codes(write_csv(tmp_path / "t.csv", text)) == {}


def test_a_missing_column_suggests_the_closest_name() -> None:
    columns = make_columns()
    columns["Kind_of_Injury"] = columns.pop("kind of injury")
    inspection = inspect_table(columns, make_study())
    (finding,) = inspection.errors
    assert finding.code == "missing-column"
    assert finding.column == "kind of injury"
    assert "'Kind_of_Injury'" in finding.advice


def test_extra_columns_are_ignored_and_listed() -> None:
    inspection = inspect_table(make_columns(note=["x"] * N), make_study())
    assert inspection.table is not None
    assert [f.code for f in inspection.findings] == ["extra-column"]
    assert "'note'" in inspection.findings[0].message


def test_outcome_and_weight_columns_must_be_there() -> None:
    columns = make_columns()
    del columns["died"]
    study = make_study(weight={"column": "w", "max": 10})
    found = [f.column for f in inspect_table(columns, study).errors]
    assert found == ["died", "w"]
    assert inspect_table(columns, study, need_outcome=False).findings == ()
    study = make_study(patient={"column": "id", "max_rows": 2})
    (found,) = inspect_table(make_columns(ID=["a"] * N), study).errors
    assert (found.column, found.message) == ("id", "the patient column is not in the table")
    assert "rename 'ID'" in found.advice


UNITS = {"age": "years", "kind of injury": "", "female": "0/1", "died": "0/1"}


def put_on_top(row: dict[str, str]) -> pd.DataFrame:
    """Return the good table with a row above all others."""
    frame = pd.DataFrame(make_columns()).astype(object)
    return pd.concat([pd.DataFrame([row]), frame], ignore_index=True)


def test_a_row_of_units_is_named_as_what_it_is(tmp_path: Path) -> None:
    """Each column said "1 of 401 cells are not numbers", and no word told which row that was."""
    frame = put_on_top(UNITS)
    for source in (frame, write_csv(tmp_path / "t.csv", frame.to_csv(index=False))):
        (found,) = [f for f in inspect_table(source, make_study()).findings if f.code == CODE]
        assert found.severity == "warning"
        assert "words in 3 columns" in found.message
        assert any("second row of names" in w for w in draft_study(source, **DRAFT).warnings)


CODE = "second-header"
DRAFT = {"outcome": "died", "name": None}


@pytest.mark.parametrize(
    "row",
    [
        {**UNITS, "age": "42"},
        {**UNITS, "female": "", "died": "1"},
        {"age": "years", "kind of injury": "fall", "female": "", "died": ""},
        {"age": "unknown", "kind of injury": "fall", "female": "n/k", "died": "?"},
    ],
    ids=["a number among them", "an outcome", "one word", "words for unknown"],
)
def test_a_first_patient_is_not_taken_for_units(row: dict[str, str]) -> None:
    assert CODE not in codes(put_on_top(row))


def test_words_in_several_rows_are_no_units() -> None:
    frame = pd.concat([put_on_top(UNITS), pd.DataFrame([UNITS])], ignore_index=True)
    assert CODE not in codes(frame)
