"""No finding, error or command output contains a patient's value."""

from __future__ import annotations

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
from fedrulefit.table import inspect_table, load_table

SECRET = "Zyxwvut"
SECRET_NUMBER = "98765.4321"
SECRETS = (SECRET, SECRET.lower(), SECRET_NUMBER, "98765", "4321")
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
    "number out of range": make_csv("age", SECRET_NUMBER).encode(),
    "most numbers out of range": make_csv("age", *[SECRET_NUMBER] * 20).encode(),
    "text in a number": make_csv("age", SECRET).encode(),
    "decimal comma": make_csv("age", SECRET_NUMBER.replace(".", ",")).encode(),
    "constant": make_csv("age", *[SECRET_NUMBER] * N).encode(),
    "unknown level": make_csv("injury", SECRET).encode(),
    "unknown level, a number": make_csv("injury", SECRET_NUMBER).encode(),
    "unknown yes/no": make_csv("female", SECRET).encode(),
    "unknown outcome": make_csv("died", SECRET).encode(),
    "unknown outcome, a number": make_csv("died", SECRET_NUMBER).encode(),
    "text in a weight": make_csv("w", SECRET).encode(),
    "large weight": make_csv("w", SECRET_NUMBER).encode(),
    "negative weight": make_csv("w", "-" + SECRET_NUMBER).encode(),
    "wrong encoding": make_csv("injury", SECRET + "é").encode("latin-1"),
    "utf-16": make_csv("injury", SECRET).encode("utf-16"),
    "long row": (make_csv() + f"{SECRET},{SECRET_NUMBER},1,1,1,{SECRET}\n").encode(),
    "short row": (make_csv() + f"{SECRET},{SECRET_NUMBER}\n").encode(),
    "open quote": (make_csv() + f'"{SECRET},{SECRET_NUMBER},1,1,1\n').encode(),
    "quote inside": (make_csv() + f'"{SECRET}"{SECRET_NUMBER}",1,1,1,1\n').encode(),
    "mixed line ends": (make_csv().replace("\n", "\r\n", 1) + f"{SECRET},a,1,1,1\n").encode(),
    "no header": f"{SECRET_NUMBER},{SECRET},1,1,1\n30,fall,0,0,1\n".encode(),
    "no header, twice the same": f"{SECRET},{SECRET},1,1,1\n30,fall,0,0,1\n".encode(),
    "damaged parquet": b"PAR1" + SECRET.encode() + b"PAR1",
    "very long cell": (make_csv() + SECRET * 500_000 + ",fall,1,1,1\n").encode(),
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
    try:
        load_table(path, study, need_outcome=need_outcome)
    except FedRuleFitError as error:
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
@pytest.mark.parametrize("secret", [SECRET, float(SECRET_NUMBER)])
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
        first = make_frame(column, SECRET)
        last = first.iloc[::-1].reset_index(drop=True)
        assert inspect_table(first, study).findings == inspect_table(last, study).findings


@pytest.mark.parametrize("values", [[SECRET_NUMBER, "1.5", "2.5"], [SECRET_NUMBER, "7", "8"]])
def test_a_drafted_range_is_no_patients_value(values: list[str], tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    frame = make_frame().assign(lab=values * (N // 3), note=[f"{SECRET}{i}" for i in range(N)])
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


def _assert_clean(text: str) -> None:
    for secret in SECRETS:
        assert secret not in text.replace("\n", ""), "a patient's value is shown"
