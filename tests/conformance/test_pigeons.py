"""A new engine is one file: made known by name, it conforms, and the command line takes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedrulefit.cli.app import app
from fedrulefit.engines import ENGINES
from fedrulefit.engines.base import Engine
from fedrulefit.registry import Choice
from fedrulefit.testing.engines import EngineSuite
from tests.federations import write_study
from tests.samples import make_frame, study_facts


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    ENGINES.add("pigeons", Choice("tests.conformance.pigeons:Pigeons"))
    yield
    ENGINES.remove("pigeons")


class TestPigeons(EngineSuite):
    @pytest.fixture
    def engine(self) -> Engine:
        return ENGINES.load("pigeons")()


def test_the_command_line_takes_it(tmp_path: Path) -> None:
    write_study(study_facts(), tmp_path / "study.toml")
    for k, site in enumerate("ab"):
        make_frame(80, seed=k).to_csv(tmp_path / f"{site}.csv", index=False)
    command = ["fit", "--study", str(tmp_path / "study.toml"), "--no-report", "--quiet"]
    command += [part for site in "ab" for part in ("--site", str(tmp_path / f"{site}.csv"))]
    for engine in ("pigeons", "inprocess"):
        model = str(tmp_path / f"{engine}.json")
        done = CliRunner().invoke(app, [*command, "--engine", engine, "-o", model])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "pigeons.json").read_bytes() == (tmp_path / "inprocess.json").read_bytes()
    done = CliRunner().invoke(app, [*command, "--engine", "doves", "-o", model])
    assert done.exit_code == 2
    known = ", ".join(ENGINES.names())
    assert f"there is no engine 'doves'; there are: {known}" in " ".join(done.output.split())
