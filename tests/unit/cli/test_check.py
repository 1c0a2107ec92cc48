"""The commands ``study draft`` and ``check``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from fedrulefit.cli.check import EPILOG, check
from fedrulefit.cli.study import app as study_app
from fedrulefit.study import Study

app = typer.Typer()
app.command(epilog=EPILOG)(check)
app.add_typer(study_app)
runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = pd.DataFrame(
        {"age": range(20, 60), "female": [0, 1] * 20, "mortality": [0, 1, 1, 0] * 10}
    )
    frame.to_csv(tmp_path / "good.csv", index=False)
    frame.assign(female=7, age="old").to_csv(tmp_path / "bad.csv", index=False)
    draft = ["study", "draft", str(tmp_path / "good.csv"), "-o", str(tmp_path / "study.toml")]
    assert runner.invoke(app, draft).exit_code == 0
    return tmp_path


def run(folder: Path, *arguments: str, study: str = "study.toml") -> tuple[int, str, str]:
    paths = [str(folder / a) if a.endswith(".csv") else a for a in arguments]
    result = runner.invoke(app, ["check", *paths, "--study", str(folder / study)])
    return result.exit_code, result.stdout, result.stderr


def test_a_good_table(folder: Path) -> None:
    code, out, _ = run(folder, "good.csv")
    assert code == 0
    assert "OK: ready to take part" in out


def test_a_bad_table_says_all_of_it_in_80_columns(folder: Path) -> None:
    code, out, _ = run(folder, "bad.csv")
    assert code == 1
    assert max(len(line) for line in out.splitlines()) <= 80
    flat = " ".join(out.split())
    assert "40 of 40 cells are not numbers" in flat
    assert "or add the level to the study with all sites" in flat
    assert "2 errors" in out
    assert "…" not in out


def test_several_tables(folder: Path) -> None:
    code, out, _ = run(folder, "good.csv", "bad.csv", "absent.csv")
    assert code == 1
    assert "1 of 3 tables are ready" in out


def test_json(folder: Path) -> None:
    code, out, _ = run(folder, "bad.csv", "--json")
    assert code == 1
    report = json.loads(out)
    assert (report["ok"], report["errors"], report["warnings"]) == (False, 2, 0)
    assert report["study"]["digest"] == Study.load(folder / "study.toml").digest
    (table,) = report["tables"]
    assert {f["code"] for f in table["findings"]} == {"not-a-number", "unknown-level"}


def test_prediction_needs_no_outcome(folder: Path) -> None:
    frame = pd.read_csv(folder / "good.csv").drop(columns="mortality")
    frame.to_csv(folder / "new.csv", index=False)
    assert run(folder, "new.csv")[0] == 1
    assert run(folder, "new.csv", "--no-outcome")[0] == 0


def test_an_absent_study_is_a_message_and_no_traceback(folder: Path) -> None:
    code, _, err = run(folder, "good.csv", study="nowhere.toml")
    assert code == 2
    assert err.startswith("Error: ")
    assert "does not exist" in " ".join(err.split())
    assert "Traceback" not in err


def test_markup_and_control_characters_in_names_are_harmless(folder: Path) -> None:
    frame = pd.read_csv(folder / "good.csv")
    frame["[bold]\x1b[31m"] = 1
    frame.to_csv(folder / "odd.csv", index=False)
    _, out, _ = run(folder, "odd.csv")
    assert "[bold]" in out
    assert "\x1b" not in out


def test_draft_does_not_overwrite(folder: Path) -> None:
    arguments = ["study", "draft", str(folder / "good.csv"), "-o", str(folder / "study.toml")]
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert runner.invoke(app, [*arguments, "--force", "--name", "new"]).exit_code == 0
    assert Study.load(folder / "study.toml").name == "new"


def test_draft_prints_to_stdout(folder: Path) -> None:
    result = runner.invoke(app, ["study", "draft", str(folder / "good.csv"), "-o", "-"])
    assert result.exit_code == 0
    assert result.stdout.startswith("# A first draft")


@pytest.mark.parametrize("command", [["check"], ["study", "draft"]])
def test_help_has_an_example(command: list[str]) -> None:
    result = runner.invoke(app, [*command, "--help"])
    assert result.stdout.count("Example: fedrulefit") == 1


def with_columns(folder: Path, n: int) -> Path:
    """A table of n numbers, and its drafted study."""
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.permutation(40) / 10 for j in range(n)}
    pd.DataFrame({**columns, "mortality": [0, 1] * 20}).to_csv(folder / "wide.csv", index=False)
    path = folder / "wide.toml"
    result = runner.invoke(app, ["study", "draft", str(folder / "wide.csv"), "-o", str(path)])
    assert result.exit_code == 0
    assert f"({n} covariates × {10 / n:g})" in " ".join(result.stdout.split())
    return path


def test_a_draft_and_a_check_say_what_a_run_costs(folder: Path) -> None:
    with_columns(folder, 40)
    code, out, _ = run(folder, "wide.csv", study="wide.toml")
    flat = " ".join(out.split())
    assert code == 0
    assert "A run costs ε = 10 (40 covariates × 0.25)" in flat
    assert "The default policy pays for 2 runs of this study over changed patients" in flat
    assert "A run costs" not in run(folder, "wide.csv", "--no-outcome", study="wide.toml")[1]


def test_a_study_that_the_policy_does_not_pay_for(folder: Path) -> None:
    """A warning with the default policy, an error with the hospital's own."""
    path = with_columns(folder, 21)
    path.write_text(path.read_text() + "epsilon = 1.0\n")
    code, out, _ = run(folder, "wide.csv", study="wide.toml")
    assert code == 0
    cost = "a run costs ε = 21 (21 covariates × 1), but the"
    assert f"Warning: {cost} default policy allows ε = 20 for one study" in " ".join(out.split())
    policy = folder / "policy.toml"
    policy.write_text("epsilon_study = 20.0\n")
    code, out, _ = run(folder, "wide.csv", "--policy", str(policy), study="wide.toml")
    assert code == 1
    assert f"Error: {cost} policy allows ε = 20 for one study" in " ".join(out.split())
    code, out, _ = run(folder, "wide.csv", "--json", "--policy", str(policy), study="wide.toml")
    assert code == 1
    report = json.loads(out)
    assert report["budget"]["epsilon_run"] == 21
    assert (report["ok"], report["errors"], report["budget"]["runs"]) == (False, 0, 0)
    policy.write_text('epsilon_study = "none"\nepsilon_dataset = "none"\n')
    code, out, _ = run(folder, "wide.csv", "--policy", str(policy), study="wide.toml")
    assert code == 0
    assert "The policy sets no limit" in out


def test_a_draft_and_a_check_say_what_is_planned(folder: Path) -> None:
    path = with_columns(folder, 30)
    text = path.read_text(encoding="utf-8")
    code, told, _ = run(folder, "wide.csv", study=path.name)
    assert code == 0
    assert "planned" not in told
    (folder / "few.toml").write_text(f"{text}max_candidates = 100\n", "utf-8")
    code, told, _ = run(folder, "wide.csv", study="few.toml")
    assert "covariates could give" in told
    assert "planned: at most" in " ".join(told.split())
    facts = json.loads(run(folder, "wide.csv", "--json", study="few.toml")[1])["candidates"]
    assert facts["planned"] <= 100
    assert facts["left_out"] > 0
    assert facts["problem"] == ""


def test_a_check_says_where_noise_leaves_nothing_of_cut_offs(folder: Path) -> None:
    path = with_columns(folder, 30)
    text = path.read_text(encoding="utf-8")
    (folder / "low.toml").write_text(f"{text}epsilon_total = 0.1\n", "utf-8")
    code, told, _ = run(folder, "wide.csv", study="low.toml")
    assert code == 0, "a warning"
    assert "its noise moves a median by about" in " ".join(told.split())
    assert "noise moves" not in run(folder, "wide.csv", "--no-outcome", study="low.toml")[1]
