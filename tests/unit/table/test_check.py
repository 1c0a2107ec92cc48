"""Reading tables and checking them against the study."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.errors import DataError
from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table, load_table
from fedrulefit.table.columns import UnreadableError, match_levels, parse_numbers, read_columns

N = 40


def make_study(**changes: Any) -> Study:
    facts: dict[str, Any] = {
        "name": "test",
        "outcome": {"column": "died"},
        "covariates": {
            "age": {"kind": "number", "range": [0, 110], "unit": "years"},
            "kind of injury": {"kind": "category", "levels": ["fall", "car", "other"]},
            "female": {"kind": "yes/no"},
        },
    }
    return Study.from_mapping({**facts, **changes})


def make_columns(**changes: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "age": [float(20 + i) for i in range(N)],
        "kind of injury": ["fall", "car"] * (N // 2),
        "female": [0, 1] * (N // 2),
        "died": [0, 0, 0, 1] * (N // 4),
    }
    return {**columns, **changes}


def codes(source: Any, study: Study | None = None, **options: Any) -> dict[str, str]:
    """Return code → severity of every finding."""
    inspection = inspect_table(source, study or make_study(), **options)
    assert (inspection.table is None) == bool(inspection.errors)
    return {finding.code: finding.severity for finding in inspection.findings}


def write_csv(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- sources ------------------------------------------------------------------------------


def test_all_sources_give_the_same_table(tmp_path: Path) -> None:
    columns = make_columns()
    columns["age"][0] = None
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "t.csv", index=False)
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    expected = load_table(columns, make_study())
    assert expected.values.dtype == np.float64
    assert expected.values.shape == (N, 3)
    assert expected.n_rows == N
    assert np.isnan(expected.values[0, 0])
    assert expected.values[1].tolist() == [21.0, 1.0, 1.0]
    np.testing.assert_array_equal(expected.weights, np.ones(N))
    sources = [frame, pl.DataFrame(columns), tmp_path / "t.csv", str(tmp_path / "t.parquet")]
    for source in sources:
        found = load_table(source, make_study())
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.outcome, expected.outcome)


@pytest.mark.parametrize(
    "female",
    [
        [True, False] * 20,
        [1.0, 0.0] * 20,
        ["1", "0"] * 20,
        ["1.0", " 0 "] * 20,
        np.array([1, 0] * 20, np.int8),
        pd.array([True, False] * 20, dtype="boolean"),
        pd.array([1, 0] * 20, dtype="Int64"),
        pd.Categorical([1, 0] * 20),
        pl.Series([Decimal(1), Decimal(0)] * 20),
        np.ma.masked_array([1, 0] * 20, [False] * 40),
        ["True", "false"] * 20,
    ],
    ids=lambda value: type(value).__name__ + str(value[0]),
)
def test_every_dtype_of_a_yes_no_column_is_read(female: Any) -> None:
    table = load_table(make_columns(female=female), make_study())
    assert table.values[:, 2].tolist() == [1.0, 0.0] * 20


@pytest.mark.parametrize(
    "age",
    [
        pd.array([30, None] * 20, dtype="Int64"),
        pd.array([30.0, None] * 20, dtype="Float64"),
        [Decimal(30), None] * 20,
        pl.Series([30, None] * 20),
        pl.Series([Decimal(30), None] * 20),
        np.ma.masked_array([30, 99] * 20, [False, True] * 20),
        ["30", "N/A"] * 20,
        [" 30.0", " "] * 20,
        np.array([30, np.nan] * 20, np.float32),
    ],
    ids=lambda value: type(value).__name__ + str(value[0]),
)
def test_every_dtype_of_a_number_keeps_its_missing_values(age: Any) -> None:
    table = load_table(make_columns(age=age), make_study())
    np.testing.assert_array_equal(table.values[:, 0], [30.0, np.nan] * 20)


def test_a_lazy_frame_an_array_and_unequal_columns_are_refused() -> None:
    assert codes(pl.DataFrame(make_columns()).lazy()) == {"unknown-source": "error"}
    assert codes(np.zeros((3, 3))) == {"unknown-source": "error"}
    assert codes(make_columns(age=[1.0])) == {"unequal-lengths": "error"}
    assert codes(make_columns(age=np.zeros((N, 2)))) == {"not-a-column": "error"}


# --- files --------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_csv_dialects(tmp_path: Path, delimiter: str, end: str, bom: str) -> None:
    rows = [["a", "b, c"], ["1", "x"], ["", "y;z|\t"]]
    lines = [delimiter.join(f'"{cell}"' for cell in row) for row in rows]
    columns = read_columns(write_csv(tmp_path / "t[1]*.csv", bom + end.join(lines) + end))
    assert columns.names == ("a", "b, c")
    assert columns.arrays["a"].tolist() == ["1", None]
    assert columns.arrays["b, c"].tolist() == ["x", "y;z|\t"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty-file"),
        (b"\n1,2\n", "no-header"),
        ("age,died\nMüller,1\n".encode("latin-1"), "not-utf-8"),
        ("age,died\n1,2\n".encode("utf-16"), "not-utf-8"),
        ("age,died\n1,2\n".encode("utf-16-le"), "not-utf-8"),
        (b"PK\x03\x04rest", "excel-file"),
        (b"\x1f\x8brest", "compressed-file"),
        (b"PAR1 but not really", "malformed-parquet"),
        (b"age,died\n1,2\n3\n", "ragged-row"),
        (b"age,died\n1,2\n3,4,5\n", "ragged-row"),
        (b'age,died\n1,"x"y"\n2,3\n', "bad-quotes"),
        (b"age,died\r\n1,2\n3,4\r\n", "malformed-csv"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes, code: str) -> None:
    path = write_csv(tmp_path / "t.csv", content)
    with pytest.raises(UnreadableError) as caught:
        read_columns(path)
    assert caught.value.finding.code == code
    assert codes(path) == {code: "error"}


def test_a_ragged_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", 'age,died\n"1\n",0\n2,1\n3\n')
    with pytest.raises(DataError, match=r"line 5 of .* has 1 cells, the header has 2"):
        load_table(path, make_study())


def test_absent_files_and_folders(tmp_path: Path) -> None:
    assert codes(tmp_path / "none.csv") == {"file-not-found": "error"}
    assert codes(tmp_path) == {"not-a-file": "error"}


def test_parquet_names_that_differ_in_case(tmp_path: Path) -> None:
    """DuckDB takes names without case and calls the second one ``age_1``."""
    path = tmp_path / "t.parquet"
    pl.DataFrame({"Age": [1], "list": [[1, 2]], "age": [2]}).write_parquet(path)
    columns = read_columns(path, only={"Age", "age"})  # a nested column that nobody asks for
    assert columns.names == ("Age", "list", "age")
    assert columns.arrays["age"].tolist() == [2.0]


def test_parquet_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql(
        "SELECT 1.5::DECIMAL(5, 2) d, true b, NULL::INT n, DATE '2020-01-01' t, "
        "'x'::ENUM('x') e, 'q'::BLOB o"
    ).write_parquet(str(path))
    arrays = read_columns(path).arrays
    assert arrays["d"].tolist() == [1.5]
    assert arrays["b"].tolist() == [1.0]
    assert np.isnan(arrays["n"]).all()
    assert arrays["t"][0].startswith("2020-01-01")
    assert arrays["e"].tolist() == ["x"]


# --- header -------------------------------------------------------------------------------


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


# --- cells --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"age": ["x", *["30", "40"] * 19, "5"]}, {"not-a-number": "error"}),
        ({"age": ["1_000", *["30"] * 38, "4"]}, {"not-a-number": "error"}),
        ({"age": ["3,5", *["30"] * 39]}, {"decimal-comma": "error"}),
        ({"age": [np.inf, *[30.0, 40.0] * 19, 5.0]}, {"infinite": "error"}),
        ({"age": ["-inf", *["30", "40"] * 19, "5"]}, {"infinite": "error"}),
        ({"age": [200.0, *[30.0, 40.0] * 19, 5.0]}, {"out-of-range": "warning"}),
        ({"age": [200.0, 300.0] * 20}, {"mostly-out-of-range": "error"}),
        ({"age": [30.0] * N}, {"constant": "warning"}),
        ({"age": [None] * N}, {"all-missing": "warning"}),
        ({"age": [1, 2, *[None] * 38]}, {"mostly-missing": "warning"}),
        ({"kind of injury": ["boat", *["car", "fall"] * 19, "car"]}, {"unknown-level": "error"}),
        ({"kind of injury": ["Car", *["car", "fall"] * 19, "car"]}, {"unknown-level": "error"}),
        ({"female": [2, *[0, 1] * 19, 0]}, {"unknown-level": "error"}),
        ({"died": [None, *[0, 1] * 19, 0]}, {"outcome-missing": "error"}),
        ({"died": [2, *[0, 1] * 19, 0]}, {"outcome-unknown": "error"}),
        ({"died": [0] * N}, {"one-class": "warning"}),
    ],
    ids=str,
)
def test_one_fault_gives_one_finding(changes: Mapping[str, Any], expected: dict[str, str]) -> None:
    assert codes(make_columns(**changes)) == expected


def test_all_faults_are_found_in_one_pass() -> None:
    columns = make_columns(age=["x", "1,5", "inf", *["30"] * 37], female=[7] * N, died=[3] * N)
    found = codes(columns)
    assert set(found) == {
        "not-a-number",
        "decimal-comma",
        "infinite",
        "unknown-level",
        "outcome-unknown",
    }
    with pytest.raises(DataError) as caught:
        load_table(columns, make_study(), where="site A")
    lines = str(caught.value).splitlines()
    assert lines[0] == "site A does not fit the study 'test':"
    assert len(lines) == 1 + len(found)


def test_complete_columns_must_be_complete() -> None:
    study = make_study(covariates={"age": {"kind": "number", "range": [0, 9], "complete": True}})
    source = {"age": [None, *[1, 2] * 19, 3], "died": make_columns()["died"]}
    assert codes(source, study) == {"missing-value": "error"}
    assert codes(source, study, need_outcome=False) == {"missing-value": "error"}


def test_values_between_steps_are_pointed_out() -> None:
    study = make_study(covariates={"age": {"kind": "number", "range": [0, 9], "step": 0.5}})
    source = {"age": [1, 2.25, 2.5, 3] * 10, "died": make_columns()["died"]}
    assert codes(source, study) == {"between-steps": "warning"}


def test_words_for_missing_yield_to_declared_levels() -> None:
    raw = np.array(["NA", "na", "none", "", ".", None, "b"], dtype=object)
    plain, n_unknown = match_levels(raw, ("b", "c"))
    np.testing.assert_array_equal(plain, [np.nan] * 6 + [0.0])
    assert n_unknown == 0
    declared, n_unknown = match_levels(raw, ("b", "NA"))
    np.testing.assert_array_equal(declared, [1.0] + [np.nan] * 5 + [0.0])
    assert n_unknown == 1, "'na' is neither the level 'NA' nor a missing value"


def test_few_patients_and_no_patients() -> None:
    few = {name: values[:4] for name, values in make_columns().items()}
    assert codes(few) == {"few-patients": "warning"}
    assert codes({name: [] for name in few}) == {"no-rows": "error"}
    assert codes({name: values[:1] for name, values in few.items()}, need_outcome=False) == {}


# --- outcome and weights ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ([0.2, 0.3], {}),
        ([0.7, 0.8], {"outcome-reversed": "error"}),
        ([0.4, 0.6], {"outcome-rate": "warning"}),
    ],
)
def test_expected_rate(rate: list[float], expected: dict[str, str]) -> None:
    study = make_study(outcome={"column": "died", "expected_rate": rate})
    assert codes(make_columns(), study) == expected


def test_a_study_whose_event_is_called_alive() -> None:
    study = make_study(outcome={"column": "died", "positive": "alive", "negative": "dead"})
    columns = make_columns(died=["alive", "dead"] * 20)
    assert codes(columns, study) == {"outcome-words": "warning"}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0, 2.0] * 20, {}),
        ([None, *[1.0] * 39], {"weight-missing": "error"}),
        (["x", *["1"] * 39], {"not-a-number": "error"}),
        ([-1.0, *[1.0] * 39], {"weight-negative": "error"}),
        ([np.inf, *[1.0] * 39], {"infinite": "error"}),
        ([11.0, *[1.0] * 39], {"weight-too-large": "error"}),
        ([0.0] * 40, {"weight-zero": "error"}),
    ],
)
def test_weights(weights: list[Any], expected: dict[str, str]) -> None:
    study = make_study(weight={"column": "w", "max": 10})
    assert codes(make_columns(w=weights), study) == expected


def test_a_faulty_outcome_does_not_stop_prediction() -> None:
    inspection = inspect_table(make_columns(died=[None] * N), make_study(), need_outcome=False)
    assert [f.severity for f in inspection.findings] == ["warning"]
    assert inspection.table is not None
    assert inspection.table.outcome is None


# --- properties ---------------------------------------------------------------------------

numbers = st.none() | st.floats(-1e300, 1e300)
levels = st.none() | st.sampled_from(["fall", "car", "other"])
flags = st.none() | st.sampled_from([0, 1])


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(numbers, levels, flags, st.sampled_from([0, 1])), min_size=1))
def test_a_frame_and_its_csv_give_the_same_table(
    rows: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = ["age", "kind of injury", "female", "died"]
    frame = pd.DataFrame(rows, columns=names).astype({"female": "Int64"})
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    frame.to_csv(path, index=False)
    study = make_study(
        covariates={
            **make_study().model_dump()["covariates"],
            "age": {"kind": "number", "range": [-1e300, 1e300]},
        }
    )
    one, other = load_table(frame, study), load_table(path, study)
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.outcome, other.outcome)


@given(
    st.lists(
        st.none()
        | st.sampled_from(["", " ", "NA", "3,5", "x", "inf", "1_0", "nan", " 7 ", "1e3"])
        | st.floats(allow_nan=False, allow_infinity=False).map(str)
    )
)
def test_numbers_against_a_naive_loop(texts: list[str | None]) -> None:
    expected, bad = [], 0
    for text in texts:
        if text is None or text.strip().lower() in ("", "na", "nan"):
            expected.append(np.nan)
            continue
        try:
            expected.append(float(text.replace("_", "x")))
        except ValueError:
            expected.append(np.nan)
            bad += 1
    found = parse_numbers(np.array([*texts, None], dtype=object)[:-1])
    np.testing.assert_array_equal(found.values, np.array(expected, float))
    assert found.n_not_number + found.n_decimal_comma == bad


# --- real tables --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "outcome", "n_rows", "rate"),
    [
        ("trauma", "mortality", 371, 0.30),
        ("heart_uci", "outcome", 920, 0.55),
        ("ist", "outcome", 19285, 0.63),
    ],
)
def test_real_tables_fit_their_description(
    data_dir: Path, name: str, outcome: str, n_rows: int, rate: float
) -> None:
    facts = json.loads((data_dir / "variables.json").read_text())[name]
    covariates = {
        column: {"kind": "number", "range": [fact["lo"], fact["hi"]]}
        if fact["kind"] == "numeric"
        else {"kind": "category", "levels": fact["levels"]}
        for column, fact in facts.items()
    }
    study = make_study(outcome={"column": outcome}, covariates=covariates)
    table = load_table(data_dir / f"{name}.csv", study)
    naive = pd.read_csv(data_dir / f"{name}.csv", keep_default_na=False, na_values=[""])
    assert table.n_rows == n_rows
    assert table.outcome is not None
    np.testing.assert_array_equal(table.outcome, naive[outcome])
    assert round(float(table.outcome.mean()), 2) == rate, "as the README of the tables states"
    np.testing.assert_array_equal(
        np.isnan(table.values), naive[list(study.names)].isna().to_numpy()
    )
