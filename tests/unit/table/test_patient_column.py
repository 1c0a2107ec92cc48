"""The column that says whose a row is, against the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fedrulefit.table.check import inspect_table, load_table
from fedrulefit.table.patients import Table
from tests.tables import N, codes, make_columns, make_study

STUDY = make_study(patient={"column": "id", "max_rows": 2})
PAIRS = [f"p{k // 2}" for k in range(N)]


@pytest.mark.parametrize(
    ("identifiers", "expected"),
    [
        (PAIRS, {}),
        (list(range(N)), {}),
        ([None, *PAIRS[1:]], {"patient-missing": "error"}),
        (["  ", *PAIRS[1:]], {"patient-missing": "error"}),
        (["n/a", "NaN", *PAIRS[2:]], {"patient-missing": "error"}),
        ([float("nan"), *range(1, N)], {"patient-missing": "error"}),
        (["p1", *PAIRS[1:]], {"patient-rows": "error"}),
        ([" p1 ", *PAIRS[1:]], {"patient-rows": "error"}),
        (["one"] * N, {"patient-rows": "error", "few-patients": "warning"}),
        (["none", *PAIRS[1:]], {}),
        ([2**60 + k for k in range(N)], {"patient-inexact": "error", "patient-rows": "error"}),
        ([str(2**60 + k) for k in range(N)], {}),
    ],
)
def test_identifiers(identifiers: list[Any], expected: dict[str, str]) -> None:
    found = codes(make_columns(id=identifiers), STUDY)
    if "patient-inexact" in expected:
        found.pop("few-patients", None)  # as floats they are one patient
    assert found == expected


def test_findings_count_patients_and_name_nobody() -> None:
    identifiers = ["anna"] * 3 + ["ben"] * 4 + [f"p{k}" for k in range(N - 7)]
    (found,) = inspect_table(make_columns(id=identifiers), STUDY).findings
    assert found.message == "2 of 35 patients have more rows than the study's bound 2"
    assert "larger 'max_rows' with all sites" in found.advice
    identifiers[3:7] = [None, "", "ben", "ben"]
    missing, many = inspect_table(make_columns(id=identifiers), STUDY).findings
    assert missing.message == "2 of 40 rows do not say whose they are"
    assert many.message.startswith("1 of 35 patients")
    numbers = [2**53 - 1, *[2**53 + 2 * k for k in range(N - 1)]]
    (found,) = inspect_table(make_columns(id=numbers), STUDY).findings
    assert found.message.startswith("39 of 40 identifiers are numbers so long")
    assert "anna" not in repr((missing, many, found))


def test_few_patients_are_not_many_rows() -> None:
    columns = {name: values[:30] for name, values in make_columns(id=PAIRS).items()}
    (found,) = inspect_table(columns, STUDY).findings
    assert found.message == "the number of patients is 15, below 20"


def test_a_table_holds_numbers_in_order_of_appearance(tmp_path: Path) -> None:
    """From any source; of the identifiers nothing is left."""
    identifiers = [f"p{k}" for k in np.random.default_rng(0).permutation(np.arange(N) // 2)]
    columns = make_columns(id=identifiers)
    expected = list(pd.factorize(np.array(identifiers))[0])
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "t.csv", index=False)
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    sources = [columns, frame, pl.DataFrame(columns), tmp_path / "t.csv", tmp_path / "t.parquet"]
    sources.append(frame.astype({"id": "category"}))
    for source in sources:
        table = load_table(source, STUDY)
        assert table.patients is not None
        assert table.patients.dtype == np.int64
        assert table.patients.tolist() == expected
        assert (table.n_rows, table.n_patients) == (N, N // 2)
        assert "p1" not in repr(table)


def test_a_study_without_the_column_ignores_it_and_predictions_need_none() -> None:
    plain = load_table(make_columns(id=PAIRS), make_study())
    assert plain.patients is None
    assert (plain.n_rows, plain.n_patients) == (N, N)
    found = inspect_table(make_columns(), STUDY, need_outcome=False)
    assert found.findings == ()
    assert found.table is not None
    assert found.table.patients is None
    faulty = inspect_table(make_columns(id=["one"] * N), STUDY, need_outcome=False)
    assert [(f.code, f.severity) for f in faulty.findings] == [("patient-rows", "warning")]
    assert faulty.table is not None
    assert faulty.table.patients is None


def test_a_table_without_patients_has_the_digest_it_had() -> None:
    """A site that was started before must know its table again."""
    plain = load_table(make_columns(id=PAIRS), make_study())
    own = load_table(make_columns(id=PAIRS), STUDY)
    assert own.digest != plain.digest
    assert Table(own.values, own.outcome, own.weights).digest == plain.digest
    turned = load_table(make_columns(id=PAIRS[::-1]), STUDY)
    assert turned.digest == own.digest, "the same rows are of the same patients, whoever they are"
    some = own.take(np.arange(N) < 7)
    assert (some.n_rows, some.n_patients) == (7, 4)
