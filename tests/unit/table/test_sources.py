"""Any source gives the same table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.table.check import load_table
from fedrulefit.table.findings import UnreadableError
from fedrulefit.table.sources import read_columns
from tests.tables import N, codes, make_columns, make_study

numbers = st.none() | st.floats(-1e300, 1e300)
levels = st.none() | st.sampled_from(["fall", "car", "other"])
flags = st.none() | st.sampled_from([0, 1])


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


def test_absent_files_and_folders(tmp_path: Path) -> None:
    assert codes(tmp_path / "none.csv") == {"file-not-found": "error"}
    assert codes(tmp_path) == {"not-a-file": "error"}


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


@pytest.mark.parametrize(
    ("start", "program"),
    [
        (b"<stata_dta><header>", "Stata"),
        (b"s\x02\x01\x00", "Stata"),
        (b"$FL2@(#) SPSS", "SPSS"),
        (bytes(12) + b"\xc2\xea\x81\x60", "SAS"),
        (b"\n <TABLE border=1>", "HTML"),
        (b"<!DOCTYPE html>", "HTML"),
        (b'[{"age": 3}]', "JSON"),
        (b"%PDF-1.7", "PDF"),
    ],
)
def test_files_of_other_programs_are_named(tmp_path: Path, start: bytes, program: str) -> None:
    """Of a file of Stata it was said that it is not UTF-8; a page called .xls had no patients."""
    path = tmp_path / "t.xls"
    path.write_bytes(start + b"\nage,died\n30,1\n")
    with pytest.raises(UnreadableError, match=f"is a file of {program}, which"):
        read_columns(path)


def test_names_that_begin_like_a_file_are_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for name in ("s", "rdx2", "[mg]", "q1", "json"):
        path.write_text(f"{name},died\n30,1\n")
        assert read_columns(path).names == (name, "died")
