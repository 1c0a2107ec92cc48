"""The command ``study draft``, with files as hospitals have them, and Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner, Result

from fedrulefit.cli.app import app
from fedrulefit.study import Study
from tests.workbooks import write_workbook

runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
N = 80


def run(*arguments: Any) -> Result:
    return runner.invoke(app, [str(argument) for argument in arguments])


def make_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "pat_id": np.arange(N),
            "Alter": rng.integers(18, 90, N),
            "GCS": np.where(np.arange(N) % 9, rng.integers(3, 16, N), -9),
            "Laktat": rng.normal(2, 0.5, N).round(2),
            "Schweregrad": rng.choice(["leicht", "mittel", "schwer"], N),
            "Aufnahme": [str(date(2024, 1, 1) + timedelta(days=i)) for i in range(N)],
            "PLZ": [f"0{1067 + i}" for i in range(N)],
            "verstorben": rng.choice(["ja", "nein"], N),
        }
    )


def test_a_draft_tells_what_it_left_out_and_guessed(tmp_path: Path) -> None:
    """It stood in comments of the file only, and check said that there was no need to act."""
    path, study = tmp_path / "klinik.csv", tmp_path / "study.toml"
    make_frame().to_csv(path, index=False, sep=";", decimal=",", encoding="latin-1")
    drafted = run("study", "draft", path, "-o", study)
    assert drafted.exit_code == 0, drafted.output
    told = " ".join(drafted.stdout.split())
    for words in (
        "Left out, and why: pat_id: looks like an identifier or a name Aufnahme: looks like dates "
        "or times: use an age in years, or the time from another, instead "
        "PLZ: looks like postcodes",
        "Guessed, and marked CHECK: GCS: -9 taken as missing",
        "Schweregrad: levels put in an order: leicht < mittel < schwer",
        "with 4 covariates.",
    ):
        assert words in told
    assert "verstorben:" not in told, "ja is the event, by its word"
    checked = run("check", path, "--study", study)
    assert checked.exit_code == 0, checked.output
    words = " ".join(checked.stdout.split())
    assert "not in the study, and ignored: 'pat_id', 'Aufnahme', 'PLZ'" in words
    assert "the draft of a study says why it leaves a column out" in words
    assert "OK: ready to take part" in words


def test_a_draft_that_is_printed_tells_it_beside(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    make_frame().to_csv(path, index=False)
    drafted = run("study", "draft", path, "-o", "-")
    assert "Left out, and why:" in drafted.stderr
    assert drafted.stdout.startswith("# A first draft")
    assert "Left out, and why:" not in drafted.stdout


def test_a_sheet_of_a_workbook_through_all_commands(tmp_path: Path) -> None:
    frame = make_frame().astype(object)
    rows = [list(frame.columns), *frame.to_numpy().tolist()]
    book = write_workbook(tmp_path / "klinik.xlsx", {"Daten": rows, "Legende": [["x"], ["y"]]})
    study, model = tmp_path / "study.toml", tmp_path / "model.json"
    refused = run("study", "draft", book, "-o", study)
    assert refused.exit_code == 2
    assert "name the one with the patients after a #, as in 'klinik.xlsx#Daten'" in " ".join(
        refused.stderr.split()
    )
    sheet = f"{book}#Daten"
    assert run("study", "draft", sheet, "-o", study).exit_code == 0
    assert Study.load(study).name == "klinik"
    assert run("check", sheet, "--study", study).exit_code == 0
    quick = ["--set", "n_trees=5", "--set", "penalty=0.05", "--no-report"]
    fitted = run("fit", "-s", study, "--site", sheet, "--site", f"b={sheet}", "-o", model, *quick)
    assert fitted.exit_code == 0, fitted.output
    predicted = run("predict", model, sheet, "--id", "pat_id")
    assert predicted.exit_code == 0, predicted.output
    assert [line.split(",")[0] for line in predicted.stdout.splitlines()[:3]] == [
        "pat_id",
        "0",
        "1",
    ]


STOPPED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from fedrulefit.cli import main
main()
"""


def test_ctrl_c_while_it_loads_leaves_no_traceback() -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", STOPPED], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_fit_names_sites_after_files_and_says_a_warning_once(tmp_path: Path) -> None:
    frame = make_frame().drop(columns=["Aufnahme", "PLZ"])
    for site in ("nord.csv.gz", "süd.v2.csv"):
        frame.to_csv(tmp_path / site, index=False)
    study, model = tmp_path / "study.toml", tmp_path / "model.json"
    assert run("study", "draft", tmp_path / "nord.csv.gz", "-o", study).exit_code == 0
    sites = ["--site", tmp_path / "nord.csv.gz", "--site", tmp_path / "süd.v2.csv"]
    quick = ["--set", "n_trees=5", "--set", "penalty=0.05", "--no-report"]
    fitted = run("fit", "-s", study, *sites, "-o", model, *quick)
    assert fitted.exit_code == 0, fitted.output
    told = " ".join(fitted.stderr.split())
    assert "Warning: sites nord, süd.v2: not in the study, and ignored: 'pat_id'" in told
    assert told.count("not in the study") == 1
