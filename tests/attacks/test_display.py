"""Names and refusals are shown as text: never as markup, a formula, or a line of the program.

Each test tells an attack. It succeeds against a twin that prints as before, and fails against
the real code.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.errors import MarkupError
from typer.testing import CliRunner, Result

from fedrulefit import Model
from fedrulefit.cli import console as consoles
from fedrulefit.cli import predict, show
from fedrulefit.cli.app import app
from fedrulefit.cli.console import friendly_errors, line, printable, spreadsheet_cell
from fedrulefit.cli.runs import _status_lines
from fedrulefit.errors import FedRuleFitError, FitError, one_line
from fedrulefit.model.display import fold_little
from fedrulefit.model.file import build_model, model_facts
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator, agreeing, asking
from tests.samples import fit_model, make_study

HOSTILE = (
    "lactate [mmol/l]",
    "[/u]",
    "[bold red]x[/bold red]",
    ":skull: 😀",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "\u202egnitset",
    "a\nError: all is well",
    "\x1b[2J\x1b[31mred",
    "$x_{",
    "</script><script>alert(1)</script>",
    "a\"b'c; DROP TABLE patients; --",
    "*/ x /*",
    "שלום",
    "{0} %s {x!r}",
)
FRAGMENTS = (
    *"[]/=+-@$<>&\"'`;:{}%\\|*#\u00e9",
    *("[/", "[b]", "\n", "\t", "\x1b[1m", "\x07", "\u202e", "\u2066", "\u2028", "\u200b", "\x9b"),
    *("😀", "שלום", "عربي", "word", "x", "1", " "),
)
SETTINGS = ("n_trees=5", "penalty=0.01", "epsilon=1.0", "learning_rate=0.1", "holdout=0.3")
runner = CliRunner(env={"COLUMNS": "4000", "NO_COLOR": "1", "TERM": "dumb"})


def run(*arguments: Any, code: int = 0) -> Result:
    """Run a command; whatever it is given, there is no traceback and no control character."""
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert all(c.isprintable() or c == "\n" for c in result.output)
    return result


# --- all commands -------------------------------------------------------------------------------


def write_hostile_table(path: Path, names: list[str], levels: list[str]) -> None:
    """Write patients whose columns and levels are named by an enemy."""
    rng = np.random.default_rng(0)
    n = 90
    columns: dict[str, Any] = {name: rng.normal(size=n).round(2) for name in names}
    columns["levels"] = rng.choice(np.array(levels, dtype=object), n)
    total = sum(columns[name] for name in names) + 2 * (columns["levels"] == levels[0])
    columns["died"] = (rng.random(n) < 1 / (1 + np.exp(-total))).astype(int)
    columns["=id()"] = ["=HYPERLINK(1)", "-7", *(f"p{k}" for k in range(n - 2))]
    pd.DataFrame(columns).to_csv(path, index=False)


def walk_through(folder: Path, names: list[str], levels: list[str]) -> None:
    """Go the whole way of a user: draft, check, fit, rules, explain, predict, report, export."""
    data, study, model = folder / "a.csv", folder / "study.toml", folder / "model.json"
    write_hostile_table(data, names, levels)
    run("study", "draft", data, "--outcome", "died", "-o", study, "--force")
    run("check", data, "--study", study)
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    run("fit", "--study", study, "--site", data, "-o", model, *options)
    loaded = Model.load(model)
    shown = run("rules", model).stdout
    for name in names:
        assert printable(name) in shown, name
    folded = fold_little(loaded.study.family, [loaded.effect(term) for term in loaded.terms])
    for term, little in zip(loaded.terms, folded.tolist(), strict=True):
        assert little or f"{printable(loaded.describe(term))} " in shown
    run("rules", model, "--subgroups")
    assert json.loads(run("rules", model, "--json").stdout)
    run("explain", model, data)
    run("explain", model, "--value", "[/u]", code=2)
    run("predict", model, data, "--id", "=id()", "-o", folder / "risks.csv")
    rows = list(csv.reader(io.StringIO((folder / "risks.csv").read_text())))
    assert rows[0] == ["'=id()", "probability", "log_odds", "flags"]
    assert [row[0] for row in rows[1:4]] == ["'=HYPERLINK(1)", "-7", "p0"]
    run("report", model, "-o", folder / "report.html")
    check_page((folder / "report.html").read_text(encoding="utf-8"))
    check_sql(folder, data, [float(row[1]) for row in rows[1:]])
    run("export", model, "--onnx", "-o", folder / "model.onnx")


def check_page(page: str) -> None:
    """No name became a tag of its own."""
    assert "<script>alert" not in page
    assert page.count("<script") == page.count("</script>")


def check_sql(folder: Path, data: Path, expected: list[float]) -> None:
    """The query runs, whatever the columns are called, and gives the same risks."""
    model = folder / "model.json"
    for dialect in ("duckdb", "sqlite", "postgresql"):
        run("export", model, "--sql", dialect, "-o", folder / f"{dialect}.sql")
    frame = pd.read_csv(data, dtype=str, keep_default_na=False)
    with sqlite3.connect(":memory:") as database:
        names = ", ".join('"' + name.replace('"', '""') + '" TEXT' for name in frame.columns)
        marks = ", ".join("?" * len(frame.columns))
        database.execute(f"CREATE TABLE patients ({names})")
        database.executemany(f"INSERT INTO patients VALUES ({marks})", frame.to_numpy().tolist())  # noqa: S608
        found = database.execute((folder / "sqlite.sql").read_text(encoding="utf-8")).fetchall()
    np.testing.assert_allclose([row[0] for row in found], expected, rtol=1e-9)
    with duckdb.connect() as connection:
        connection.register("patients", frame)
        found = connection.execute((folder / "duckdb.sql").read_text(encoding="utf-8")).fetchall()
    np.testing.assert_allclose([row[0] for row in found], expected, rtol=1e-9)


@pytest.mark.parametrize("part", range(3))
def test_hostile_names_go_all_the_way(tmp_path: Path, part: int) -> None:
    """Names that are markup, formulas, queries, tags or orders to the terminal."""
    names = list(HOSTILE[part::3])
    walk_through(tmp_path, names, ["[/u]", "=1+1", "\u202eb\x1b[0m"])


@given(
    names=st.lists(
        st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=6)
        .map(lambda parts: "".join(["n", *parts]).strip())
        .filter(lambda name: name == name.strip()),
        min_size=3,
        max_size=4,
        unique_by=lambda name: re.sub(r"\W", "", name.casefold()) or name,
    ),
    first=st.sampled_from(FRAGMENTS),
)
@settings(max_examples=5, derandomize=True, deadline=None, database=None)
def test_random_names_go_all_the_way(names: list[str], first: str) -> None:
    """Whatever is made of such parts."""
    with tempfile.TemporaryDirectory() as folder:
        walk_through(Path(folder), [*names, f"{first}|x".strip()], [f"{first}a", "b", "[c]"])


# --- markup -------------------------------------------------------------------------------------


def model_with(name: str) -> Model:
    """Return a model with a covariate of this name."""
    made = model_facts(fit_model(make_study()))
    made["study"]["covariates"] = {
        (name if old == "age" else old): covariate
        for old, covariate in made["study"]["covariates"].items()
    }
    text = json.dumps(made).replace('"covariate": "age"', f'"covariate": {json.dumps(name)}')
    made = json.loads(text)
    for term in made["terms"]:
        if term["kind"] == "rule":
            term["rule"] = term["rule"].replace("age ", f"{name} ")
    return build_model(made)


def shown_by(console: Console, model: Model) -> str:
    with console.capture() as capture:
        console.print(show.rules_table(model, model.rules_frame()))
    return capture.get()


def test_brackets_in_names_are_no_markup() -> None:
    """``lactate [mmol/l] < 2.1`` was shown as ``lactate  < 2.1``, and ``[/u]`` ended ``rules``."""
    before = Console(width=200, highlight=False)  # the twin
    assert "age [years]" not in shown_by(before, model_with("age [years]"))
    with pytest.raises(MarkupError):
        shown_by(before, model_with("[/u]"))
    for name in ("age [years]", "[/u]", ":skull:"):
        assert f"{name} " in shown_by(consoles.stdout(), model_with(name))


def test_no_control_character_reaches_the_terminal() -> None:
    """A name that clears the screen or turns the direction of writing, on any way to print."""
    with (console := consoles.stdout()).capture() as capture:
        console.print("\x1b[2J\u202e\x9b")
        console.print(line("a\nb"))
    assert capture.get() == "\\x1b[2J\\u202e\\x9b\na\\nb\n"


# --- refusals -----------------------------------------------------------------------------------

FORGED = "no\nError: run finished: the model is at http://evil.example\n\x1b[2K" + "x" * 5000


def refuse(reason: str) -> str:
    """Return how the coordinator words a site's refusal."""
    leader = Coordinator(make_study(), ["north", "south"])
    requests = leader.step()
    assert isinstance(requests, dict)
    replies = {
        site: m.Refusal(request.header, "x\ny", reason) for site, request in requests.items()
    }
    with pytest.raises(FitError) as caught:
        leader.step(replies)
    return str(caught.value)


def test_a_refusal_cannot_imitate_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's refusal holds line breaks, and prints an error of the program's own."""
    for module in (agreeing, asking):
        monkeypatch.setattr(module, "one_line", lambda text, *_: text)  # the twin
    assert "\nError: run finished" in refuse(FORGED)
    monkeypatch.undo()
    heading, *lines = refuse(FORGED).split("\n")
    assert heading == "these sites refused:"
    assert len(lines) == 2
    assert all(re.match("  (north|south): no", text) for text in lines)
    assert max(map(len, lines)) < 600


def test_folded_lines_of_a_refusal_stay_indented(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a line break: enough spaces, and the terminal folds the forged line to the left."""
    monkeypatch.setenv("COLUMNS", "60")
    reason = "no" + " " * 60 + "Error: run finished: the model is at http://evil.example"

    def print_error() -> list[str]:
        with pytest.raises(Exception, match="2"), friendly_errors():
            raise FitError(f"these sites refused:\n  north: {one_line(reason)}")
        return capsys.readouterr().err.splitlines()

    first, *rest = print_error()
    assert first == "Error: these sites refused:"
    assert rest
    assert all(text.startswith("  ") for text in rest)
    status = {"state": "failed", "message": f"these sites refused:\n  north: {one_line(reason)}"}
    consoles.stdout().print(_status_lines("run", status))
    head, *rest = capsys.readouterr().out.splitlines()
    assert head == "run  failed"
    assert all(text.startswith("  ") for text in rest)


def test_a_text_of_a_site_does_not_get_into_the_model_as_it_is() -> None:
    """The name of the noise comes from a site, and stands in the model file."""
    assert one_line("discrete Laplace\nNo ε was spent.") == "discrete Laplace\\nNo ε was spent."
    assert len(one_line("x" * 10**6, 100)) == 101


# --- spreadsheets -------------------------------------------------------------------------------


def test_a_name_is_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column called ``=cmd()`` runs when the table is opened in a spreadsheet."""
    found = {"=cmd()": ["=1+1", "+44 7", "-5", "1e3", None], "probability": [0.5] * 5}
    monkeypatch.setattr(predict, "spreadsheet_cell", lambda value: value)  # the twin
    predict._write(before := io.StringIO(), found, as_json=False)
    assert before.getvalue().startswith("=cmd()")
    monkeypatch.undo()
    predict._write(after := io.StringIO(), found, as_json=False)
    cells = [row[0] for row in csv.reader(io.StringIO(after.getvalue()))]
    assert cells == ["'=cmd()", "'=1+1", "'+44 7", "-5", "1e3", ""]


@pytest.mark.parametrize("text", ["=1", "+x", "-x", "@x", "\tx", "\rx", "-1-1", "+1;2", "-", "=-5"])
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-5", "+5.25", "-1e-9", "x=1", "", -5.0, 0, None, "a-b"])
def test_numbers_and_plain_texts_stay_as_they_are(value: Any) -> None:
    assert spreadsheet_cell(value) == value


# --- model files --------------------------------------------------------------------------------


def test_half_a_character_is_no_name() -> None:
    """JSON can hold half of a character, which no terminal, page or file can take."""
    with pytest.raises(ValueError, match="not a valid model"):
        model_with("\ud800")


def test_a_name_of_the_graph_s_own_is_refused_in_words() -> None:
    """A covariate called like a node of the ONNX graph would take its place."""
    with pytest.raises(FedRuleFitError, match="has the name of a result of the graph"):
        model_with("fedrulefit/3").to_onnx()


def test_json_of_a_run_holds_no_turns_of_direction(tmp_path: Path) -> None:
    """A site's words stood as they came in ``federation status --json``, for any terminal."""
    words = "\u202egnitset \u009b2J \u2066 done"
    facts = {"sites": {"a": True}, "updated": "now", "warnings": [words]}
    (tmp_path / "sites.json").write_text(json.dumps(facts))
    shown = run("federation", "status", "--state", tmp_path, "--json").stdout
    assert json.loads(shown)["warnings"] == [words]
    assert shown.isascii()
