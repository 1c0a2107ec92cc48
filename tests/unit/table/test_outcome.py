"""The outcome against the study."""

from __future__ import annotations

import pytest

from fedrulefit.table.check import inspect_table
from tests.tables import N, codes, make_columns, make_study


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
    columns = make_columns(died=["alive", "dead", "dead", "dead"] * 10)
    assert codes(columns, study) == {"outcome-words": "warning"}


def test_a_faulty_outcome_does_not_stop_prediction() -> None:
    inspection = inspect_table(make_columns(died=[None] * N), make_study(), need_outcome=False)
    assert [f.severity for f in inspection.findings] == ["warning"]
    assert inspection.table is not None
    assert inspection.table.outcome is None
