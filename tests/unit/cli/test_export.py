"""The command ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fedrulefit import Model
from fedrulefit.cli.app import app
from tests.random_models import GOLDEN

runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})


def run(*arguments: Any) -> Result:
    return runner.invoke(app, ["export", str(GOLDEN), *map(str, arguments)])


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgresql"])
def test_a_query_to_a_file_and_to_the_terminal(dialect: str, tmp_path: Path) -> None:
    wanted = Model.load(GOLDEN).to_sql(
        dialect,
        table=("clinic", "stays"),
        key=["id", "visit"],
        columns={"age": "a=b"},
        linear_predictor=True,
    )
    options = ["--sql", dialect, "--schema", "clinic", "--table", "stays", "--linear-predictor"]
    options += ["--key", "id", "--key", "visit", "--column", "age=a=b"]
    assert run(*options).stdout == wanted
    result = run(*options, "-o", tmp_path / "score.sql")
    assert result.exit_code == 0
    assert (tmp_path / "score.sql").read_text(encoding="utf-8") == wanted


def test_a_graph(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    assert run("--onnx", "-o", tmp_path / "model.onnx").exit_code == 0
    loaded = onnx.load(tmp_path / "model.onnx")
    assert [entry.name for entry in loaded.graph.output] == ["log_odds", "probability", "flags"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "either --sql DATABASE or --onnx"),
        (["--sql", "duckdb", "--onnx"], "either --sql DATABASE or --onnx"),
        (["--onnx"], "name a file with -o"),
        (["--sql", "duckdb", "--column", "age"], "write STUDY=TABLE"),
        (["--sql", "duckdb", "--column", "agee=x"], "no covariate 'agee'"),
        (["--sql", "duckdb", "-o", "/nowhere/score.sql"], "cannot write"),
    ],
)
def test_what_is_refused(options: list[str], words: str) -> None:
    result = run(*options)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
