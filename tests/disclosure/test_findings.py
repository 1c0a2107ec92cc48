"""No finding, error or command output contains a patient's value."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from fedrulefit.cli.check import check
from fedrulefit.cli.study import app as study_app
from fedrulefit.errors import FedRuleFitError
from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table, load_table
from fedrulefit.table.columns import read_columns
from fedrulefit.table.draft import draft_study

PLANTED = "Zyxwvut"
PLANTED_NUMBER = "98765.4321"
ALL_PLANTED = (PLANTED, PLANTED.lower(), PLANTED_NUMBER, "98765", "4321")
N = 30

STUDY = """
name = "test"
weight = { column = "w", max = 10 }
[outcome]
column = "died"
[covariates.age]
kind = "number"
range = [0, 110]
step = 1
[covariates.injury]
kind = "category"
levels = ["fall", "car"]
[covariates.female]
kind = "yes/no"
"""

app = typer.Typer()
app.command()(check)
app.add_typer(study_app)
runner = CliRunner(env={"COLUMNS": "80"})


def make_frame(column: str = "age", *cells: Any) -> pd.DataFrame:
    columns = {
        "age": ["30", "40"] * (N // 2),
        "injury": ["fall", "car"] * (N // 2),
        "female": ["0", "1"] * (N // 2),
        "died": ["0", "1"] * (N // 2),
        "w": ["1", "2"] * (N // 2),
    }
    columns[column][: len(cells)] = cells
    return pd.DataFrame(columns)


def make_csv(*arguments: Any) -> str:
    return make_frame(*arguments).to_csv(index=False)


CASES: dict[str, bytes] = {
    "number out of range": make_csv("age", PLANTED_NUMBER).encode(),
    "most numbers out of range": make_csv("age", *[PLANTED_NUMBER] * 20).encode(),
    "text in a number": make_csv("age", PLANTED).encode(),
    "decimal comma": make_csv("age", PLANTED_NUMBER.replace(".", ",")).encode(),
    "constant": make_csv("age", *[PLANTED_NUMBER] * N).encode(),
    "unknown level": make_csv("injury", PLANTED).encode(),
    "unknown level, a number": make_csv("injury", PLANTED_NUMBER).encode(),
    "unknown yes/no": make_csv("female", PLANTED).encode(),
    "unknown outcome": make_csv("died", PLANTED).encode(),
    "unknown outcome, a number": make_csv("died", PLANTED_NUMBER).encode(),
    "text in a weight": make_csv("w", PLANTED).encode(),
    "large weight": make_csv("w", PLANTED_NUMBER).encode(),
    "negative weight": make_csv("w", "-" + PLANTED_NUMBER).encode(),
    "wrong encoding": make_csv("injury", PLANTED + "é").encode("latin-1"),
    "utf-16": make_csv("injury", PLANTED).encode("utf-16"),
    "long row": (make_csv() + f"{PLANTED},{PLANTED_NUMBER},1,1,1,{PLANTED}\n").encode(),
    "short row": (make_csv() + f"{PLANTED},{PLANTED_NUMBER}\n").encode(),
    "open quote": (make_csv() + f'"{PLANTED},{PLANTED_NUMBER},1,1,1\n').encode(),
    "quote inside": (make_csv() + f'"{PLANTED}"{PLANTED_NUMBER}",1,1,1,1\n').encode(),
    "mixed line ends": (make_csv().replace("\n", "\r\n", 1) + f"{PLANTED},a,1,1,1\n").encode(),
    "no header": f"{PLANTED_NUMBER},{PLANTED},1,1,1\n30,fall,0,0,1\n".encode(),
    "no header, twice the same": f"{PLANTED},{PLANTED},1,1,1\n30,fall,0,0,1\n".encode(),
    "damaged parquet": b"PAR1" + PLANTED.encode() + b"PAR1",
    "very long cell": (make_csv() + PLANTED * 500_000 + ",fall,1,1,1\n").encode(),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("need_outcome", [True, False])
def test_nothing_shown_holds_a_secret(case: str, need_outcome: bool, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(CASES[case])
    (tmp_path / "study.toml").write_text(STUDY)
    study = Study.load(tmp_path / "study.toml")
    inspection = inspect_table(path, study, need_outcome=need_outcome)
    assert inspection.findings, "the planted fault must be found"
    shown = [repr(inspection.findings), *map(str, inspection.findings)]
    error = _raised_by(path, study, need_outcome)
    if error is not None:
        # The chain would be printed by a traceback.
        assert error.__cause__ is None
        assert error.__context__ is None or error.__suppress_context__
        shown.append(repr(error))
    for flag in ([], ["--json"]):
        command = ["check", str(path), "--study", str(tmp_path / "study.toml"), *flag]
        result = runner.invoke(app, command + ([] if need_outcome else ["--no-outcome"]))
        assert result.exit_code in (0, 1)
        shown.append(result.output)
    _assert_clean("\n".join(shown))


@pytest.mark.parametrize("column", ["age", "injury", "female", "died", "w"])
@pytest.mark.parametrize("secret", [PLANTED, float(PLANTED_NUMBER)])
def test_data_frames_keep_their_secrets(column: str, secret: Any, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    study = Study.load(tmp_path / "study.toml")
    frame = make_frame(column, secret)
    inspection = inspect_table(frame, study)
    assert inspection.findings
    _assert_clean(repr(inspection.findings))
    if inspection.errors:
        with pytest.raises(FedRuleFitError) as caught:
            load_table(frame, study)
        _assert_clean(repr(caught.value))


def test_findings_do_not_say_which_patient(tmp_path: Path) -> None:
    """The same fault in another row reads the same."""
    (tmp_path / "study.toml").write_text(STUDY)
    study = Study.load(tmp_path / "study.toml")
    for column in ("age", "injury", "female", "died", "w"):
        first = make_frame(column, PLANTED)
        last = first.iloc[::-1].reset_index(drop=True)
        assert inspect_table(first, study).findings == inspect_table(last, study).findings


@pytest.mark.parametrize("values", [[PLANTED_NUMBER, "1.5", "2.5"], [PLANTED_NUMBER, "7", "8"]])
def test_a_drafted_range_is_no_patients_value(values: list[str], tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    frame = make_frame().assign(lab=values * (N // 3), note=[f"{PLANTED}{i}" for i in range(N)])
    frame.to_csv(path, index=False)
    result = runner.invoke(app, ["study", "draft", str(path), "-o", "-", "--outcome", "died"])
    assert result.exit_code == 0
    _assert_clean(result.output)


@pytest.mark.parametrize("case", CASES)
def test_a_draft_that_fails_tells_no_secret(case: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(CASES[case])
    result = runner.invoke(app, ["study", "draft", str(path), "-o", "-"])
    if result.exit_code:
        assert result.exit_code == 2
        _assert_clean(result.output)


def _draft(path: Path) -> str:
    return draft_study(path, outcome="died", name=None)


UNREADABLE = (
    "wrong encoding",
    "utf-16",
    "long row",
    "short row",
    "open quote",
    "quote inside",
    "mixed line ends",
    "damaged parquet",
    "very long cell",
)


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("read", [read_columns, _draft])
def test_a_traceback_does_not_quote_the_reader(
    case: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    """DuckDB quotes the line it cannot read; a chained exception would print it."""
    path = tmp_path / "table.csv"
    path.write_bytes(CASES[case])
    with pytest.raises(FedRuleFitError) as caught:
        read(path)
    _assert_clean("".join(traceback.format_exception(caught.value)))


def _assert_clean(text: str) -> None:
    flat = "".join(text.split())  # a terminal may break a value over two lines
    for planted in ALL_PLANTED:
        assert planted not in flat, "a patient's value is shown"


def _raised_by(path: Path, study: Study, need_outcome: bool) -> FedRuleFitError | None:
    try:
        load_table(path, study, need_outcome=need_outcome)
    except FedRuleFitError as error:
        return error
    return None
