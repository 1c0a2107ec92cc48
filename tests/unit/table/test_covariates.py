"""Covariates against what the study says of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table
from tests.tables import N, codes, make_columns, make_study


def test_complete_columns_must_be_complete() -> None:
    study = make_study(covariates={"age": {"kind": "number", "range": [0, 9], "complete": True}})
    source = {"age": [None, *[1, 2] * 19, 3], "died": make_columns()["died"]}
    assert codes(source, study) == {"missing-value": "error"}
    assert codes(source, study, need_outcome=False) == {"missing-value": "error"}


def test_values_between_steps_are_pointed_out() -> None:
    study = make_study(covariates={"age": {"kind": "number", "range": [0, 9], "step": 0.5}})
    source = {"age": [1, 2.25, 2.5, 3] * 10, "died": make_columns()["died"]}
    assert codes(source, study) == {"between-steps": "warning"}


def check(column: str, cells: list[Any], **covariate: Any) -> dict[str, str]:
    """Return code → words of what is found in one covariate."""
    study = make_study(covariates={column: covariate, "lab": {"kind": "number", "range": [-9, 9]}})
    rng = np.random.default_rng(0)
    died = rng.integers(0, 2, len(cells))
    source = {column: cells, "lab": rng.normal(size=len(cells)), "died": died}
    return {f.code: str(f) for f in inspect_table(source, study).findings}


def test_a_code_outside_the_range_is_no_value_at_its_nearer_end() -> None:
    """-9 in a coma score counted as 3, deep coma, and check said OK."""
    gcs = list(range(3, 16)) * 4
    found = check("gcs", gcs + [-9] * 8, kind="number", range=[3, 15])
    assert list(found) == ["missing-code-outside"]
    assert "8 of 60 values are -9, outside the study's range" in found["missing-code-outside"]
    assert "add missing = [-9] to the column" in found["missing-code-outside"]
    found = check("gcs", [*gcs, *[-9] * 8, 21], kind="number", range=[3, 15])
    assert list(found) == ["missing-code-outside", "out-of-range"]
    assert "1 of 53 values" in found["out-of-range"]
    assert check("gcs", gcs + [-9] * 8, kind="number", range=[3, 15], missing=[-9]) == {}


def test_a_code_inside_the_range_is_a_question() -> None:
    age = list(range(20, 80)) + [999] * 6
    found = check("age", age, kind="number", range=[0, 1000])
    assert list(found) == ["missing-code"]
    assert "6 of 66 values are 999" in found["missing-code"]


def test_a_code_among_levels_names_the_cure() -> None:
    levels: list[Any] = ["fall", "car"] * 20
    found = check("injury", [*levels, "Unknown", "-9"], kind="category", levels=["fall", "car"])
    assert found["unknown-level"].endswith(
        '; if "unknown", -9 means missing, add missing = ["unknown", -9] to it instead'
    ) or found["unknown-level"].endswith(
        '; if -9, "unknown" means missing, add missing = [-9, "unknown"] to it instead'
    )
    found = check("injury", [*levels, "boat"], kind="category", levels=["fall", "car"])
    assert "missing" not in found["unknown-level"]


@pytest.mark.parametrize(
    ("cells", "code", "words"),
    [
        (["unknown", "Unknown", "n.d."], "unknown-word", 'add missing = ["n.d.", "unknown"]'),
        (["31.12.2024", "2024-12-31", "1 May 2024"], "dates", "an age in years"),
        (["<0.5", ">= 200", "≤3"], "beyond-limit", "0.5 for <0.5"),
        (["1,234", "12,345", "-1,000"], "decimal-comma", "not 1,234"),
        (["5 mg", "ca. 5", "x"], "not-a-number", "take out units and remarks"),
    ],
)
def test_cells_that_are_no_numbers_are_told_apart(cells: list[str], code: str, words: str) -> None:
    found = check("lab value", [*map(str, range(40)), *cells], kind="number", range=[0, 99])
    assert list(found) == [code]
    assert "3 of 43 cells" in found[code]
    assert words in found[code]


def test_numbers_with_a_comma_are_read_and_said() -> None:
    cells = ["3,5", "1 234", *map(str, range(40))]
    found = check("lab value", cells, kind="number", range=[0, 2000])
    assert list(found) == ["read-comma"]
    assert "read as such in: 'lab value'" in found["read-comma"]
    found = check("lab value", [*cells, "1.234"], kind="number", range=[0, 2000])
    assert list(found) == ["mixed-separators"]


def test_a_comma_in_one_column_puts_points_of_another_in_doubt() -> None:
    study = make_study(
        covariates={
            name: {"kind": "number", "range": [0, 999]} for name in ("lactate", "platelets")
        }
    )
    rng = np.random.default_rng(0)
    source = {
        "lactate": [f"{x:.2f}".replace(".", ",") for x in rng.random(N) * 9],
        "platelets": [f"{x}.000" for x in rng.integers(100, 400, N)],
        "died": rng.integers(0, 2, N),
    }
    assert codes(source, study) == {"read-comma": "warning", "mixed-separators": "error"}
    source["platelets"][0] = "230.5"
    assert codes(source, study) == {"read-comma": "warning"}
    del source["platelets"], study.covariates["platelets"]
    source["lactate"] = [cell.replace(",", ".") for cell in source["lactate"]]
    assert codes(source, study) == {}


def test_twins_and_repeats_are_questions() -> None:
    rng = np.random.default_rng(0)
    age = rng.permutation(100)[:N].astype(float)
    study = make_study(
        covariates={
            "age": {"kind": "number", "range": [0, 110]},
            "months": {"kind": "number", "range": [0, 1400]},
            "alive": {"kind": "yes/no"},
        }
    )
    died = rng.integers(0, 2, N)
    source = {"age": age, "months": age * 12, "alive": 1 - died, "died": died}
    assert codes(source, study) == {"same-columns": "warning", "same-as-outcome": "warning"}
    assert codes(source, study, need_outcome=False) == {}
    apart = {**source, "alive": rng.integers(0, 2, N), "months": rng.permutation(100)[:N]}
    twice = {name: np.r_[x, x[:5]] for name, x in apart.items()}
    assert codes(apart, study) == {}
    assert codes(twice, study) == {"repeated-rows": "warning"}
    told = Study.model_validate({**study.model_dump(), "patient": {"column": "id", "max_rows": 2}})
    assert codes({**twice, "id": np.r_[:N, :5]}, told) == {}
