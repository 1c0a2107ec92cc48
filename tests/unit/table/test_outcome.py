"""The outcome against the study."""

from __future__ import annotations

import pytest

from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table
from tests.samples import make_frame, study_facts
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


def test_competing_events_are_told_by_their_place() -> None:
    facts = {
        "kind": "time", "time": "t", "event": "end", "positive": "died", "negative": "alive",
        "competing": {"moved": "m", "cured": 7}, "horizons": [10, 40],
    }  # fmt: skip
    study = Study.from_mapping({**study_facts(solver="exact"), "outcome": facts})
    frame = make_frame(60).drop(columns="died")
    frame["t"] = [5, 10, 30, 50, 60, 0] * 10
    frame["end"] = ["died", "m", "7", "m", "alive", "7.0"] * 10
    table = inspect_table(frame, study).table
    assert table is not None
    assert table.outcome is not None
    assert table.outcome[:6, 2].tolist() == [1, 2, 3, 0, 0, 3], "after the last horizon is none"
    assert table.outcome[:6, 1].tolist() == [5, 10, 30, 40, 40, pytest.approx(0.04)]
    assert table.events is not None
    assert table.events[:6].tolist() == [1, 0, 0, 0, 0, 0]
    codes = {finding.code for finding in inspect_table(frame, study).findings}
    assert "event-beyond" in codes
    assert not {"cause-unseen", "cause-unknown"} & codes
    frame.loc[0, "end"], frame["t"] = "9", frame["t"].where(frame["end"] != "m", 99)
    found = {finding.code: finding for finding in inspect_table(frame, study).findings}
    assert "none of the study's 'alive', 'died', 'm', 7" in found["cause-unknown"].message
    frame.loc[0, "end"] = "died"
    found = {finding.code: finding for finding in inspect_table(frame, study).findings}
    assert "the competing event 'moved'" in found["cause-unseen"].message
