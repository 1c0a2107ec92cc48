"""No finding, error or command output contains a patient's value."""

from __future__ import annotations

import bz2
import gzip
import io
import sys
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from fedrulefit.cli.check import check
from fedrulefit.cli.study import app as study_app
from fedrulefit.errors import FedRuleFitError
from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table, load_table
from fedrulefit.table.draft import draft_study
from fedrulefit.table.findings import UnreadableError
from fedrulefit.table.size_limit import LIMIT
from fedrulefit.table.sources import read_columns
from tests.tables import find_kinds
from tests.workbooks import write_workbook

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

WHOSE = STUDY.replace("[outcome]", '[patient]\ncolumn = "id"\nmax_rows = 2\n[outcome]', 1)
COMPLETE = STUDY.replace("step = 1", "complete = true")
ALIVE = STUDY.replace('"died"', '"died"\npositive = "alive"\nnegative = "dead"')
OFTEN = STUDY.replace('"died"', '"died"\nexpected_rate = [0.7, 0.9]')

WIDE = STUDY.replace("110", "99999")


def with_outcome(lines: str) -> str:
    return STUDY.replace('column = "died"', lines)


NUMBER = with_outcome('kind = "number"\ncolumn = "y"\nrange = [0, 100]\nstep = 1')
COUNT = with_outcome(
    'kind = "count"\ncolumn = "n"\nmost = 9\nexposure = "days"\nmax_exposure = 366'
)
TIME = with_outcome(
    'kind = "time"\ntime = "t"\nevent = "died"\nentry = "from"\nhorizons = [10, 40]'
)
RIVALS = with_outcome(
    'kind = "time"\ntime = "t"\nevent = "died"\nhorizons = [10, 40]\ncompeting = { moved = 7 }'
)
LEVELS = with_outcome('kind = "classes"\ncolumn = "where"\nlevels = ["home", "ward", "elsewhere"]')

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
    if column == "id":
        columns["id"] = [f"{PLANTED}{k}" for k in range(N)]
    columns[column][: len(cells)] = cells
    return pd.DataFrame(columns)


def make_other(column: str = "age", *cells: Any) -> str:
    """Return a table that has the columns of the other kinds of outcome, too."""
    frame = make_frame().assign(
        y=[str(k) for k in range(N)],
        n=[str(k % 5) for k in range(N)],
        days=["100"] * N,
        t=[str(2 * k + 1) for k in range(N)],
        where=["home", "ward", "elsewhere"] * (N // 3),
    )
    frame["from"] = "0"
    frame.loc[: len(cells) - 1, column] = list(cells)
    return frame.to_csv(index=False)


def make_died(*times: str) -> str:
    """Return a table in which all have died at these times."""
    frame = pd.read_csv(io.StringIO(make_other("t", *times)), dtype=str)
    return frame.assign(died="1").to_csv(index=False)


def make_zip(**files: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return target.getvalue()


def make_csv(*arguments: Any) -> str:
    return make_frame(*arguments).to_csv(index=False)


@dataclass(frozen=True)
class Case:
    """A table with a planted value, and the finding that it leads to."""

    code: str
    content: str | bytes
    study: str = STUDY

    @property
    def bytes(self) -> bytes:
        return self.content.encode() if isinstance(self.content, str) else self.content


COMMA = PLANTED_NUMBER.replace(".", ",")
CASES: dict[str, Case] = {
    "number out of range": Case("out-of-range", make_csv("age", PLANTED_NUMBER)),
    "most out of range": Case("mostly-out-of-range", make_csv("age", *[PLANTED_NUMBER] * 20)),
    "number between steps": Case("between-steps", make_csv("age", PLANTED_NUMBER)),
    "text in a number": Case("not-a-number", make_csv("age", PLANTED)),
    "decimal comma": Case("read-comma", make_csv("age", COMMA)),
    "either comma": Case("decimal-comma", make_csv("age", COMMA, "1,234")),
    "commas and points": Case("mixed-separators", make_csv("age", COMMA, "1.234")),
    "a date": Case("dates", make_csv("age", "31.12.2024", PLANTED)),
    "a limit": Case("beyond-limit", make_csv("age", f"<{PLANTED_NUMBER}")),
    "a word for unknown": Case("unknown-word", make_csv("age", "Unknown", PLANTED)),
    "a code outside": Case("missing-code-outside", make_csv("age", *["999"] * 5, PLANTED)),
    "a code inside": Case("missing-code", make_csv("age", *["999"] * 5, PLANTED), WIDE),
    "a code among levels": Case("unknown-level", make_csv("injury", "-9", PLANTED)),
    "rows twice": Case("repeated-rows", make_csv("age", PLANTED_NUMBER)),
    "columns twice": Case(
        "same-columns", make_csv("died", "1").replace("\n30,", f"\n{PLANTED_NUMBER},", 1)
    ),
    "the outcome twice": Case("same-as-outcome", make_csv("age", PLANTED_NUMBER)),
    "infinite": Case("infinite", make_csv("age", "inf", PLANTED_NUMBER)),
    "constant": Case("constant", make_csv("age", *[PLANTED_NUMBER] * N)),
    "few values": Case("mostly-missing", make_csv("age", *[""] * (N - 8), PLANTED_NUMBER)),
    "hardly any value": Case(
        "nearly-all-missing", make_csv("age", *[""] * (N - 1), PLANTED_NUMBER)
    ),
    "no value": Case("all-missing", make_csv("age", *[""] * N)),
    "incomplete": Case("missing-value", make_csv("age", "", PLANTED_NUMBER), COMPLETE),
    "unknown level": Case("unknown-level", make_csv("injury", PLANTED)),
    "unknown level, a number": Case("unknown-level", make_csv("injury", PLANTED_NUMBER)),
    "unknown yes/no": Case("unknown-level", make_csv("female", PLANTED)),
    "no outcome": Case("outcome-missing", make_csv("died", "", PLANTED)),
    "unknown outcome": Case("outcome-unknown", make_csv("died", PLANTED)),
    "unknown outcome, a number": Case("outcome-unknown", make_csv("died", PLANTED_NUMBER)),
    "one outcome": Case("one-class", make_csv("died", *["0"] * N)),
    "alive is the event": Case("outcome-words", make_csv("died", PLANTED), ALIVE),
    "rare outcome": Case("outcome-rate", make_csv("age", PLANTED_NUMBER), OFTEN),
    "reversed outcome": Case("outcome-reversed", make_csv("died", *["0"] * 12), OFTEN),
    "a code for an outcome": Case(
        "outcome-code", make_other("y", *["-9"] * 5, PLANTED_NUMBER), NUMBER
    ),
    "a code that can be an outcome": Case(
        "outcome-code-inside",
        make_other("y", *["999"] * 5, PLANTED),
        NUMBER.replace("[0, 100]", "[0, 99999]"),
    ),
    "an outcome between steps": Case("outcome-step", make_other("y", PLANTED_NUMBER), NUMBER),
    "an outcome out of range": Case("out-of-range", make_other("y", PLANTED_NUMBER), NUMBER),
    "outcomes out of range": Case(
        "mostly-out-of-range", make_other("y", *[PLANTED_NUMBER] * 20), NUMBER
    ),
    "text in an outcome": Case("not-a-number", make_other("y", PLANTED), NUMBER),
    "a date in an outcome": Case("dates", make_other("t", "31.12.2024", PLANTED), TIME),
    "no number": Case("outcome-missing", make_other("y", "", PLANTED_NUMBER), NUMBER),
    "small numbers": Case("outcome-narrow", make_other("y", "0.4321", *["1"] * (N - 1)), NUMBER),
    "the same number": Case("one-class", make_other("y", *[PLANTED_NUMBER] * N), NUMBER),
    "a decimal comma in an outcome": Case("read-comma", make_other("y", COMMA), NUMBER),
    "negative count": Case("count-negative", make_other("n", "-" + PLANTED_NUMBER), COUNT),
    "half a count": Case("count-fraction", make_other("n", PLANTED_NUMBER), COUNT),
    "large count": Case("out-of-range", make_other("n", "98765"), COUNT),
    "no exposure": Case("exposure-missing", make_other("days", "", PLANTED_NUMBER), COUNT),
    "negative exposure": Case("exposure-negative", make_other("days", "-" + PLANTED_NUMBER), COUNT),
    "zero exposure": Case("exposure-zero", make_other("days", "0", PLANTED_NUMBER), COUNT),
    "large exposure": Case("exposure-too-large", make_other("days", PLANTED_NUMBER), COUNT),
    "negative time": Case("time-negative", make_other("t", "-" + PLANTED_NUMBER), TIME),
    "no time at all": Case("time-zero", make_other("t", "0", PLANTED_NUMBER), TIME),
    "short times": Case("time-short", make_other("t", *["0.4321"] * N), TIME),
    "a long time": Case("time-long", make_other("t", PLANTED_NUMBER), TIME),
    "no entry": Case("entry-missing", make_other("from", "", PLANTED_NUMBER), TIME),
    "a late entry": Case("entry-late", make_other("from", PLANTED_NUMBER), TIME),
    "an entry beyond": Case("entry-beyond", make_other("from", PLANTED_NUMBER), TIME),
    "another event": Case("event-unknown", make_other("died", PLANTED), TIME),
    "an unknown cause": Case("cause-unknown", make_other("died", PLANTED), RIVALS),
    "a cause that nobody has": Case("cause-unseen", make_other("t", PLANTED_NUMBER), RIVALS),
    "a late event": Case("event-beyond", make_other("t", "5", PLANTED_NUMBER), TIME),
    "no events": Case(
        "no-events", make_other("died", *["0"] * N).replace(",1,0", f",{PLANTED_NUMBER},0", 1), TIME
    ),
    "events only": Case("all-events", make_died(*["8.4321"] * N), TIME),
    "nobody at risk": Case("nobody-at-risk", make_other("t", *["8.4321"] * N), TIME),
    "another outcome": Case("outcome-level", make_other("where", PLANTED), LEVELS),
    "a rare level": Case(
        "rare-level",
        make_other("where", *["home", "ward"] * 14).replace("\n30,", f"\n{PLANTED_NUMBER},", 1),
        LEVELS,
    ),
    "one level": Case(
        "one-class",
        make_other("where", *["home"] * N).replace("\n30,", f"\n{PLANTED_NUMBER},", 1),
        LEVELS,
    ),
    "text in a weight": Case("not-a-number", make_csv("w", PLANTED)),
    "no weight": Case("weight-missing", make_csv("w", "", PLANTED_NUMBER)),
    "large weight": Case("weight-too-large", make_csv("w", PLANTED_NUMBER)),
    "negative weight": Case("weight-negative", make_csv("w", "-" + PLANTED_NUMBER)),
    "zero weights": Case("weight-zero", make_csv("w", *["0"] * N)),
    "rows of nobody": Case("patient-missing", make_csv("id", "", PLANTED), WHOSE),
    "a patient of many rows": Case("patient-rows", make_csv("id", *[PLANTED] * 3), WHOSE),
    "few patients": Case("few-patients", "".join(make_csv("age", "30").splitlines(True)[:5])),
    "no patients": Case("no-rows", make_csv().splitlines(True)[0]),
    "a column too many": Case("extra-column", make_csv("age", PLANTED).replace("w", "v", 1)),
    "a row of units": Case(
        "second-header", make_csv("age", PLANTED).replace("fall,0,0,1", f"{PLANTED},no,0/1,kg", 1)
    ),
    "a column too few": Case("missing-column", make_csv("age", PLANTED).replace("female", "f", 1)),
    "a column twice": Case("duplicate-column", make_csv("age", PLANTED).replace("w", "age", 1)),
    "nothing at all": Case("empty-file", b""),
    "a broken workbook": Case("damaged-workbook", b"PK\x03\x04" + PLANTED.encode()),
    "a zip file": Case("not-a-workbook", make_zip(**{"t.csv": make_csv("age", PLANTED)})),
    "compressed": Case("compressed-file", bz2.compress(make_csv("age", PLANTED).encode())),
    "a file of SPSS": Case("foreign-file", b"$FL2" + PLANTED.encode()),
    "half a gzip": Case("damaged-gzip", gzip.compress(make_csv("age", PLANTED).encode())[:-20]),
    "guessed encoding": Case(
        "guessed-encoding", make_csv("injury", PLANTED + "é").encode("latin-1")
    ),
    "wrong encoding": Case("not-utf-8", make_csv("injury", PLANTED).encode() + b"\x81"),
    "utf-16": Case("not-utf-8", make_csv("injury", PLANTED).encode("utf-16-le")),
    "empty first line": Case("no-header", "\n" + make_csv("age", PLANTED)),
    "long row": Case("ragged-row", make_csv() + f"{PLANTED},{PLANTED_NUMBER},1,1,1,{PLANTED}\n"),
    "short row": Case("ragged-row", make_csv() + f"{PLANTED},{PLANTED_NUMBER}\n"),
    "open quote": Case("bad-quotes", make_csv() + f'"{PLANTED},{PLANTED_NUMBER},1,1,1\n'),
    "quote inside": Case("bad-quotes", make_csv() + f'"{PLANTED}"{PLANTED_NUMBER}",1,1,1,1\n'),
    "mixed line ends": Case(
        "malformed-csv", make_csv().replace("\n", "\r\n", 1) + f"{PLANTED},a,1,1,1\n"
    ),
    "no header": Case("no-study-columns", f"{PLANTED_NUMBER},{PLANTED},1,1,1\n30,fall,0,0,1\n"),
    "no header, twice the same": Case(
        "no-study-columns", f"{PLANTED},{PLANTED},1,1,1\n30,fall,0,0,1\n"
    ),
    "a locked workbook": Case(
        "locked-workbook",
        b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le") + PLANTED.encode(),
    ),
    "damaged parquet": Case("malformed-parquet", b"PAR1" + PLANTED.encode() + b"PAR1"),
    "very long cell": Case("long-line", make_csv() + PLANTED * 500_000 + ",fall,1,1,1\n"),
}

FOR_LEARNING = {
    "all-missing",
    "mostly-missing",
    "nearly-all-missing",
    "constant",
    "few-patients",
    "one-class",
    "outcome-words",
    "outcome-rate",
    "read-comma",
    "mixed-separators",
    "missing-code",
    "missing-code-outside",
    "repeated-rows",
    "same-columns",
    "same-as-outcome",
    "outcome-code-inside",
    "outcome-step",
    "outcome-narrow",
    "time-zero",
    "time-long",
    "event-beyond",
    "no-events",
    "all-events",
    "cause-unseen",
    "nobody-at-risk",
    "rare-level",
}
"""Findings that are not made for prediction."""

OF_AN_OUTCOME = {"an outcome out of range", "large count"}
"""Cases that are: a covariate's finding is, an outcome's is not."""

# --- sources that are no bytes of a file, or need more than a study ---


def write_nested(folder: Path) -> Path:
    pl.DataFrame({"age": [[PLANTED]], "died": [1]}).write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def write_large(folder: Path) -> Path:
    (folder / "t.csv").write_text("age,died\n" + f"{PLANTED},1\n" * 100_000)
    return folder / "t.csv"


def write_sheets(folder: Path, rows: list[list[Any]], n: int = 2, sheet: str = "") -> Path:
    path = write_workbook(folder / "t.xlsx", {f"Sheet{i}": rows for i in range(n)})
    return Path(f"{path}{sheet}")


ROWS = [["age"], [PLANTED]]

SOURCES: dict[str, Callable[[Path], Any]] = {
    "excel-file": lambda folder: write_sheets(folder, ROWS, n=1),
    "which-sheet": lambda folder: write_sheets(folder, ROWS),
    "no-such-sheet": lambda folder: write_sheets(folder, ROWS, sheet="#B"),
    "empty-workbook": lambda folder: write_sheets(folder, []),
    "no-sheets": lambda folder: Path(f"{write_large(folder)}#A"),
    "file-not-found": lambda folder: folder / "none.csv",
    "not-a-file": lambda folder: folder,
    "file-unreadable": lambda folder: folder / ("x" * 300),
    "nested-column": write_nested,
    "too-large": write_large,
    "unknown-source": lambda _: [PLANTED],
    "unequal-lengths": lambda _: {"age": [PLANTED], "died": [1, 0]},
    "not-a-column": lambda _: {"age": np.full((2, 2), PLANTED), "died": [1, 0]},
    "not-a-value": lambda _: {"age": [[PLANTED], [PLANTED]], "died": [1, 0]},
}

INEXACT = {"patient-inexact"}
"""Found in numbers only, which a CSV file has none of: tests/unit/table/test_patient_column.py."""


def test_every_finding_has_a_case() -> None:
    """Whoever adds a finding plants a patient's value that it might show."""
    planted = {case.code for case in CASES.values()} | set(SOURCES) | INEXACT
    assert planted == {k.code for k in find_kinds()}


def load_study(case: str, folder: Path) -> Study:
    (folder / "study.toml").write_text(CASES[case].study)
    return Study.load(folder / "study.toml")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("need_outcome", [True, False])
def test_nothing_shown_holds_a_secret(case: str, need_outcome: bool, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(CASES[case].bytes)
    study = load_study(case, tmp_path)
    inspection = inspect_table(path, study, need_outcome=need_outcome)
    found = CASES[case].code in {finding.code for finding in inspection.findings}
    for_learning = CASES[case].code in FOR_LEARNING or case in OF_AN_OUTCOME
    assert found == (need_outcome or not for_learning)
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


@pytest.mark.parametrize("code", SOURCES)
def test_a_source_that_is_refused_keeps_its_secrets(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT, "1")
    if code == "excel-file":
        monkeypatch.setitem(sys.modules, "python_calamine", None)
    study = load_study("constant", tmp_path)
    with pytest.raises(UnreadableError) as caught:
        read_columns(SOURCES[code](tmp_path))
    assert caught.value.finding.code == code
    inspection = inspect_table(SOURCES[code](tmp_path), study)
    assert inspection.findings == (caught.value.finding,)
    _assert_clean("".join(traceback.format_exception(caught.value)) + repr(inspection.findings))


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


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (NUMBER, ["y"]),
        (COUNT, ["n", "days"]),
        (TIME, ["t", "died", "from"]),
        (LEVELS, ["where"]),
    ],
)
def test_findings_of_an_outcome_do_not_say_which_patient(
    text: str, columns: list[str], tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(text)
    study = Study.load(tmp_path / "study.toml")
    for column in columns:
        for cell in (PLANTED, PLANTED_NUMBER, "-" + PLANTED_NUMBER):
            first = pd.read_csv(io.StringIO(make_other(column, cell)), dtype=str)
            last = first.iloc[::-1].reset_index(drop=True)
            found = inspect_table(first, study).findings
            assert found
            assert found == inspect_table(last, study).findings
            _assert_clean(repr(found))


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
    path.write_bytes(CASES[case].bytes)
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
    path.write_bytes(CASES[case].bytes)
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
