"""Smoke runs of the experiments, and what a run promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrulefit.cli.app import app
from fedrulefit.experiments import simulation
from fedrulefit.experiments.cutoffs import figures, repetitions
from fedrulefit.experiments.methods import METHODS, Effort
from fedrulefit.experiments.scenarios import MODELS, SCENARIOS
from fedrulefit.experiments.units import Folder, read_rows, run_units
from fedrulefit.table.sources import read_columns

runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


def run(*arguments: str) -> str:
    result = runner.invoke(app, ["experiment", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_smoke_run_of_the_simulations(tmp_path: Path) -> None:
    """One run, for what is asked of it takes long: two repetitions, made by two jobs."""
    run("simulation", "--quick", "--repetitions", "2", "--seed", "7", "-o", str(tmp_path))
    check_files(tmp_path)
    check_rows(tmp_path)
    units = simulation.make_units(2, seed=7, effort=Effort(quick=True))
    folder = Folder(tmp_path, "simulation", {"seed": 7, "quick": True})
    check_that_order_and_jobs_change_nothing(folder, units)
    check_that_finished_units_are_not_run_again(folder, units)
    result = runner.invoke(app, ["experiment", "simulation", "--seed", "8", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "holds another run" in result.output
    check_that_an_earlier_run_is_gone_on_with(tmp_path)


def test_a_smoke_run_of_the_coverage(tmp_path: Path) -> None:
    told = run("coverage", "--quick", "--repetitions", "2", "--jobs", "1", "-o", str(tmp_path))
    assert "| calibration slope | 100 | 2 | too few |" in told
    assert not (tmp_path / "claims.md").exists()
    for name in ("summary.csv", "tables.md", "run.md", "results.parquet"):
        assert (tmp_path / name).stat().st_size > 50


def test_a_smoke_run_of_the_coverage_over_hospitals(tmp_path: Path) -> None:
    told = run("hospitals", "--quick", "--repetitions", "2", "--jobs", "1", "-o", str(tmp_path))
    assert "| AUC of a further hospital | 3 |" in told
    for name in ("tables.md", "run.md", "results.parquet"):
        assert (tmp_path / name).stat().st_size > 50


def check_files(folder: Path) -> None:
    for name in ("summary.csv", "tables.md", "costs.md", "claims.md", "run.json"):
        assert (folder / name).stat().st_size > 100
    assert len(list(folder.glob("figure2-scenario?.png"))) == 3
    assert len(list(folder.glob("appendix3-*.png"))) == 3
    assert "holds" in (folder / "claims.md").read_text(encoding="utf-8")
    command = (
        "`fedrulefit experiment simulation --repetitions 2 --jobs 2 --seed 7 --quick` took 0 h"
    )
    assert (folder / "run.md").read_text(encoding="utf-8").startswith(command)


def check_rows(folder: Path) -> None:
    columns = read_columns(folder / "results.parquet")
    per_repetition = sum(
        1 if method.pooled else len(SCENARIOS[scenario])
        for method in METHODS.values()
        for scenario in method.scenarios
    )
    assert columns.n_rows == 2 * len(MODELS) * per_repetition
    assert {"scenario", "model", "setting", "repetition", "method", "auc"} <= set(columns.names)


def check_that_order_and_jobs_change_nothing(folder: Folder, units: list[Any]) -> None:
    """Any unit, made alone in this process, gives the rows that two jobs gave."""
    for unit in (units[9], units[2]):
        there = folder.read([unit]).drop(columns="seconds")
        here = pd.DataFrame(unit.run()).drop(columns="seconds")
        pd.testing.assert_frame_equal(there, here, check_dtype=False)


def check_that_finished_units_are_not_run_again(folder: Folder, units: list[Any]) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder.path / "parts").iterdir()}
    assert len(before) == 12
    run_units(units, folder)
    after = {path: path.stat().st_mtime_ns for path in (folder.path / "parts").iterdir()}
    assert after == before


def check_that_an_earlier_run_is_gone_on_with(folder: Path) -> None:
    """Its rows stay as they are; what they lack is added."""
    rows = folder / "results.parquet"
    before = read_rows(rows)
    options = ("--quick", "--repetitions", "3", "--seed", "7", "--jobs", "1")
    more = folder / "more"
    some = ("--methods", "bfi,centralised-fixed", "--earlier", str(rows), "-o", str(more))
    run("simulation", *options, *some)
    after = read_rows(more / "results.parquet")
    pd.testing.assert_frame_equal(after.iloc[: len(before)], before)
    added = after.iloc[len(before) :]
    assert set(added["repetition"]) == {2}
    assert set(added["method"]) == {"bfi", "centralised-fixed"}
    assert len(added) == len(MODELS) * (3 + sum(map(len, SCENARIOS.values())))
    words = "--quick --methods centralised-fixed,bfi --earlier results.parquet` took"
    assert words in (more / "run.md").read_text(encoding="utf-8")
    output = run("simulation", *options, "--methods", "bfi", "-o", str(folder / "some"))
    assert "of some methods only" in output
    unknown = runner.invoke(app, ["experiment", "simulation", "--methods", "lokal"])
    assert "there is no method 'lokal'" in unknown.output


def test_cutoffs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (repetitions, figures):
        monkeypatch.setattr(room, "BINS", (20, 100))
        monkeypatch.setattr(room, "QUANTILES", (5, 20))
    output = run("cutoffs", "--quick", "--jobs", "1", "-o", str(tmp_path))
    assert "its numbers mean nothing" in output
    assert "hold" not in output
    claims = (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert claims.startswith("A quick run")
    assert "substantially fewer" in claims
    assert read_columns(tmp_path / "results.parquet").n_rows == 2 * 2 * 6
    assert (tmp_path / "appendix2.png").exists()
    assert "| none |" in (tmp_path / "tables.md").read_text(encoding="utf-8")


def test_trauma_runs(tmp_path: Path, data_dir: Path) -> None:
    run("trauma", "--quick", "--jobs", "1", "--data", str(data_dir), "-o", str(tmp_path))
    assert "median AUC than BFI" in (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "figure3-federated.png", "figure3-federated-default.png", "figure4.png",
    }  # fmt: skip
    assert (tmp_path / "model-federated.json").exists()
    assert "Table 1" in (tmp_path / "tables.md").read_text(encoding="utf-8")
