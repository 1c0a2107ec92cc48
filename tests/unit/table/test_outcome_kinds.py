"""The columns of every kind of outcome against the study."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.table import outcome as outcomes
from fedrulefit.table.check import inspect_table, load_table
from fedrulefit.table.patients import Table
from tests.tables import N, codes, make_columns, make_study

OUTCOMES: dict[str, dict[str, Any]] = {
    "number": {"kind": "number", "column": "y", "range": [0, 100], "unit": "mm", "step": 0.5},
    "count": {
        "kind": "count", "column": "n", "most": 9, "exposure": "days", "max_exposure": 366,
    },
    "time": {
        "kind": "time", "time": "t", "event": "status", "entry": "from", "unit": "days",
        "positive": "dead", "negative": "alive", "horizons": [10, 40],
    },
    "ordered": {"kind": "ordered", "column": "mrs", "levels": [0, 1, 2, 3]},
    "classes": {"kind": "classes", "column": "where", "levels": ["home", "ward", "elsewhere"]},
}  # fmt: skip
STUDIES = {kind: make_study(outcome=facts) for kind, facts in OUTCOMES.items()}
GOOD: dict[str, Any] = {
    "y": [1.5 * (k % 7) for k in range(N)],
    "n": [k % 5 for k in range(N)],
    "days": [100 + k % 7 for k in range(N)],
    "t": [1.0 + 2 * (k * 7 % 20) for k in range(N)],
    "status": ["dead", "alive", "alive", "alive", "dead"] * (N // 5),
    "from": [0.0] * N,
    "mrs": [k * 3 % 4 for k in range(N)],
    "where": ["ward", "home", "elsewhere", "home"] * (N // 4),
}


def columns_of(kind: str, **changes: Any) -> dict[str, Any]:
    facts = OUTCOMES[kind]
    names = [facts[key] for key in ("column", "exposure", "time", "event", "entry") if key in facts]
    return {**make_columns(), **{name: GOOD[name] for name in names}, **changes}


def first(column: str, *cells: Any) -> dict[str, Any]:
    """Return the column with other first cells."""
    return {column: [*cells, *GOOD[column][len(cells) :]]}


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_good_table_has_no_findings(kind: str) -> None:
    ignored = {"extra-column": "warning"}
    assert codes(columns_of(kind), STUDIES[kind]) == ignored


FAULTS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("number", first("y", None), {"outcome-missing": "error"}),
    ("number", first("y", "12 mm"), {"not-a-number": "error"}),
    ("number", first("y", "unknown"), {"unknown-word": "error"}),
    ("number", first("y", "<5"), {"beyond-limit": "error"}),
    ("number", first("y", "2024-01-31"), {"dates": "error"}),
    ("number", first("y", "1,234"), {"decimal-comma": "error"}),
    ("number", first("y", "3,5"), {"read-comma": "warning"}),
    (
        "number",
        first("y", "3,5", "1.234"),
        {"mixed-separators": "error", "outcome-step": "warning"},
    ),
    ("number", first("y", np.inf), {"infinite": "error"}),
    ("number", first("y", -9, -9, -9), {"outcome-code": "error"}),
    ("number", first("y", 99, 99, 99), {"outcome-code-inside": "warning"}),
    ("number", first("y", 150), {"out-of-range": "warning"}),
    ("number", first("y", *[150 + k for k in range(21)]), {"mostly-out-of-range": "error"}),
    ("number", first("y", 0.25), {"outcome-step": "warning"}),
    ("number", {"y": [k % 3 for k in range(N)]}, {"outcome-narrow": "warning"}),
    ("number", {"y": [3.0] * N}, {"one-class": "warning"}),
    ("count", first("n", None), {"outcome-missing": "error"}),
    ("count", first("n", -1), {"count-negative": "error"}),
    ("count", first("n", -9, -9, -9), {"outcome-code": "error"}),
    ("count", first("n", 1.5), {"count-fraction": "error"}),
    ("count", first("n", 12), {"out-of-range": "warning"}),
    ("count", {"n": [12 + k % 3 for k in range(N)]}, {"mostly-out-of-range": "error"}),
    ("count", {"n": [0] * N}, {"one-class": "warning"}),
    ("count", first("days", None), {"exposure-missing": "error"}),
    ("count", first("days", 0), {"exposure-zero": "error"}),
    ("count", first("days", -3), {"exposure-negative": "error"}),
    ("count", first("days", 367), {"exposure-too-large": "error"}),
    ("count", first("days", "3 months"), {"not-a-number": "error"}),
    ("time", first("t", None), {"outcome-missing": "error"}),
    ("time", first("t", "12 mo"), {"not-a-number": "error"}),
    ("time", first("t", "31.01.2024"), {"dates": "error"}),
    ("time", first("t", "3,5"), {"read-comma": "warning"}),
    ("time", first("t", -2), {"time-negative": "error"}),
    ("time", first("t", -9, -9, -9), {"outcome-code": "error"}),
    ("time", first("t", 0), {"time-zero": "warning"}),
    ("time", {"t": [k * 7 % N / 100 for k in range(N)]}, {"time-short": "error"}),
    ("time", first("t", 1, 2001), {"time-long": "warning"}),
    ("time", first("t", 41), {"event-beyond": "warning"}),
    ("time", {"t": [1.0 + k % 30 for k in range(N)]}, {"nobody-at-risk": "warning"}),
    ("time", first("status", None), {"outcome-missing": "error"}),
    ("time", first("status", "Dead"), {"event-unknown": "error"}),
    ("time", {"status": ["alive"] * N}, {"no-events": "warning"}),
    ("time", {"status": ["dead"] * N}, {"all-events": "warning"}),
    ("time", first("from", None), {"entry-missing": "error"}),
    ("time", first("from", -1), {"time-negative": "error"}),
    ("time", first("from", 2), {"entry-late": "error"}),
    ("time", {**first("from", 40), **first("t", 60)}, {"entry-beyond": "error"}),
    ("ordered", first("mrs", None), {"outcome-missing": "error"}),
    ("ordered", first("mrs", 7), {"outcome-level": "error"}),
    ("ordered", {"mrs": [k % 3 for k in range(N)]}, {"rare-level": "warning"}),
    ("ordered", {"mrs": [2] * N}, {"one-class": "warning"}),
    ("classes", first("where", "Home"), {"outcome-level": "error"}),
    ("classes", first("where", "unknown"), {"outcome-level": "error"}),
]


@pytest.mark.parametrize(("kind", "changes", "expected"), FAULTS, ids=str)
def test_one_fault_gives_one_finding(
    kind: str, changes: Mapping[str, Any], expected: dict[str, str]
) -> None:
    columns = columns_of(kind, **changes)
    del columns["died"]
    assert codes(columns, STUDIES[kind]) == expected


def outcome_of(kind: str, **changes: Any) -> Any:
    table = load_table(columns_of(kind, **changes), STUDIES[kind])
    assert table.outcome is not None
    assert table.outcome.dtype == np.float64
    return table.outcome


def test_a_number_is_cut_to_its_range() -> None:
    y = outcome_of("number", **first("y", 150, "-3,5"))
    assert y[:3].tolist() == [100, 0, 3]
    assert y.shape == (N,)


def test_a_count_stands_beside_its_exposure() -> None:
    y = outcome_of("count", **first("n", 12))
    assert y.shape == (N, 2)
    assert y[:2].tolist() == [[9, 100], [1, 101]]
    alone = make_study(outcome={"kind": "count", "column": "n", "most": 9})
    table = load_table(columns_of("count"), alone)
    assert table.outcome is not None
    assert (table.outcome[:, 1] == 1).all()


def test_follow_up_ends_at_the_last_horizon() -> None:
    """Oracle: a loop over patients."""
    rng = np.random.default_rng(3)
    starts = rng.integers(0, 30, N).astype(float)
    ends = starts + rng.integers(0, 60, N)
    ends[0] = starts[0]  # died on the day of entry
    ends[1], starts[1] = 40.0, 0.0
    status = rng.choice(["dead", "alive"], N)
    status[:2] = "dead"
    y = outcome_of("time", t=ends, status=status, **{"from": starts})
    instant = 0.04
    for row, start, end, event in zip(y, starts, ends, status == "dead", strict=True):
        last = max(end, start + instant)
        assert row.tolist() == [start, min(last, 40.0), float(event and last <= 40.0)]
    assert (y[:, 1] > y[:, 0]).all()
    assert y[:2, 2].tolist() == [1, 1]  # at the horizon is by the horizon


def test_levels_are_positions() -> None:
    assert outcome_of("ordered", **first("mrs", "3.0"))[:3].tolist() == [3, 3, 2]
    assert outcome_of("classes")[:4].tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_missing_column_is_named_with_its_role(kind: str) -> None:
    for role, column in STUDIES[kind].outcome.columns.items():
        columns = columns_of(kind)
        del columns[column]
        found = inspect_table(columns, STUDIES[kind]).findings
        (missing,) = (finding for finding in found if finding.code == "missing-column")
        assert missing.column == column
        assert f"the {role} column" in missing.message
        predicted = inspect_table(columns, STUDIES[kind], need_outcome=False)
        assert predicted.table is not None
        assert predicted.table.outcome is None


def test_no_advice_names_a_key_that_an_outcome_has_not() -> None:
    """The advice of a covariate is to name its codes: missing = [...]."""
    for cell in ("unknown", "5 mg", "31.12.2024", "<5", "1,234", -9):
        columns = columns_of("number", **first("y", *[cell] * 3))
        for finding in inspect_table(columns, STUDIES["number"]).findings:
            assert "missing =" not in finding.advice


def test_a_column_called_censored_may_have_a_no_as_event() -> None:
    facts = {"kind": "time", "time": "t", "event": "censored", "horizons": [40]}
    study = make_study(outcome={**facts, "positive": 0, "negative": 1})
    columns = {**make_columns(), "t": GOOD["t"], "censored": [0, 1] * (N // 2)}
    assert "outcome-words" not in codes(columns, study)
    renamed = make_study(outcome={**facts, "event": "status", "positive": 0, "negative": 1})
    columns["status"] = columns.pop("censored")
    assert "outcome-words" in codes(columns, renamed)


def test_a_covariate_that_is_the_event_is_pointed_out() -> None:
    columns = columns_of("time", female=[int(s == "dead") for s in GOOD["status"]])
    (twin,) = (
        finding
        for finding in inspect_table(columns, STUDIES["time"]).findings
        if finding.code == "same-as-outcome"
    )
    assert twin.column == "female"
    assert "'status'" in twin.message


# --- tables -------------------------------------------------------------------------------


def test_the_digest_of_a_yes_no_table_is_that_of_every_version_before() -> None:
    table = load_table(make_columns(), make_study())
    told = [np.ascontiguousarray(part).tobytes() for part in (table.values, table.outcome)]
    told.append(table.weights.tobytes())
    assert table.digest == hashlib.sha256(b"".join(told)).digest()
    assert table.events is table.outcome


class Half:
    """A family of which the first half of the rows count as with the outcome."""

    def events(self, outcome: Any, weights: Any) -> Any:
        assert len(outcome) == len(weights)
        return (np.arange(len(outcome)) < len(outcome) // 2).astype(float)


@pytest.mark.parametrize("kind", ["number", "count", "time"])
def test_a_table_keeps_what_its_family_counts_as_with(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(outcome=OUTCOMES[kind])
    monkeypatch.setattr(type(study.outcome), "family", lambda outcome: Half())
    table = load_table(columns_of(kind), study)
    assert table.events is not None
    assert table.events.sum() == N // 2
    chosen = np.arange(N) % 4 == 0
    part = table.take(chosen)
    assert part.outcome is not None
    assert len(part.outcome) == part.n_rows == N // 4
    assert part.people.outcome.tolist() == table.events[chosen].tolist()
    assert part.digest != table.digest
    moved = table.take(np.ones(N, bool))
    assert moved.digest == table.digest


def test_of_classes_all_but_the_first_are_events() -> None:
    table = load_table(columns_of("classes"), STUDIES["classes"])
    assert table.outcome is not None
    assert table.events is not None
    assert table.events.tolist() == (table.outcome > 0).tolist()
    assert outcomes.find_events(None, np.ones(3), STUDIES["classes"]) is None
    number = Table(np.zeros((3, 1)), np.array([0.5, 1, 2]), np.ones(3))
    assert number.events is None


def test_a_data_frame_is_read_as_a_file_is() -> None:
    frame = pd.DataFrame(columns_of("time"))
    text = frame.astype(str)
    tables = [load_table(source, STUDIES["time"]) for source in (frame, text)]
    np.testing.assert_array_equal(tables[0].outcome, tables[1].outcome)
