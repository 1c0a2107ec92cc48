"""Parquet files: names and types."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from fedrulefit.table.sources import read_columns


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
