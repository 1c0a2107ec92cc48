"""A table checked against the study in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fedrulefit.errors import DataError
from fedrulefit.table.check import load_table
from tests.tables import N, codes, make_columns, make_study


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"age": ["x", *["30", "40"] * 19, "5"]}, {"not-a-number": "error"}),
        ({"age": ["1_000", *["30"] * 38, "4"]}, {"not-a-number": "error"}),
        ({"age": ["3,500", *["30", "40"] * 19, "5"]}, {"decimal-comma": "error"}),
        ({"age": [np.inf, *[30.0, 40.0] * 19, 5.0]}, {"infinite": "error"}),
        ({"age": ["-inf", *["30", "40"] * 19, "5"]}, {"infinite": "error"}),
        ({"age": [200.0, *[30.0, 40.0] * 19, 5.0]}, {"out-of-range": "warning"}),
        ({"age": [200.0 + i for i in range(N)]}, {"mostly-out-of-range": "error"}),
        ({"age": [30.0] * N}, {"constant": "warning"}),
        ({"age": [None] * N}, {"all-missing": "warning"}),
        ({"age": [1, 2, *[None] * 38]}, {"nearly-all-missing": "warning"}),
        ({"age": [1, 2, 3, *[None] * 37]}, {"mostly-missing": "warning"}),
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
    columns = make_columns(age=["x", "1,500", "inf", *["30"] * 37], female=[7] * N, died=[3] * N)
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


def test_few_patients_and_no_patients() -> None:
    few = {name: values[:4] for name, values in make_columns().items()}
    assert codes(few) == {"few-patients": "warning"}
    assert codes({name: [] for name in few}) == {"no-rows": "error"}
    assert codes({name: values[:1] for name, values in few.items()}, need_outcome=False) == {}
