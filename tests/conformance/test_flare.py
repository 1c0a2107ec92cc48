"""NVIDIA FLARE conforms: the same model as the embedded engine, bit for bit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from fedrulefit.cli.app import app
from fedrulefit.engines import inprocess
from fedrulefit.federation.coordinator import runs
from fedrulefit.federation.journal import Journal
from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.privacy.ledger import Ledger, Release
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.table.check import load_table
from tests.federations import SITES, Federation, federation, write_study
from tests.samples import SOLVERS, make_frame, study_facts

pytest.importorskip("nvflare")

SEED = 3
SIZES = dict(zip(SITES, (160, 140, 130), strict=True))
FRAMES = {site: make_frame(n, seed=k) for k, (site, n) in enumerate(SIZES.items())}
POLICY = f"allow = {json.dumps(OPEN.allow)}\n"
"""The default policy, but for the seeded noise that makes runs comparable."""


def settings(solver: str) -> dict[str, Any]:
    return study_facts(epsilon=1.0, spreads="exact", **SOLVERS[solver])


def write_studies(folder: Path) -> dict[str, Path]:
    paths = {solver: folder / f"{solver}.toml" for solver in SOLVERS}
    for solver, path in paths.items():
        write_study(settings(solver), path)
    return paths


def embedded(solver: str, folder: Path) -> tuple[str, dict[str, Ledger]]:
    """Return the model file of the embedded engine, and the ledgers."""
    study = write_study(settings(solver), folder / "embedded.toml")
    fitted = inprocess.fit(
        study,
        {site: load_table(frame, study) for site, frame in FRAMES.items()},
        policy=Policy(allow=OPEN.allow),
        secure=True,
        make_noise=lambda site: UnsafeSeededLaplace(SEED, site),
    )
    return json.dumps(model_facts(fitted.model)), dict(fitted.ledgers)


def invoke(*arguments: Any, code: int = 0) -> str:
    """Run a command; return all that it said."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def facts(release: Release) -> tuple[Any, ...]:
    return release.message, release.quantity, release.shape, release.sum_of, release.round


def model_bytes(folder: Path) -> str:
    return json.dumps(model_facts(Model.load(folder / "model.json")))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Federation, dict[str, Path]]]:
    folder = tmp_path_factory.mktemp("federation")
    studies = write_studies(folder)
    with federation(folder, FRAMES, list(studies.values()), policy=POLICY, seed=SEED) as made:
        yield made, studies
        children = [p for process in made.processes.values() for p in _family(process.pid)]
    assert not [child for child in children if child.is_running()], "a process was left behind"


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


@pytest.mark.xdist_group("flare")
class TestRealProcesses:
    @pytest.mark.parametrize("solver", SOLVERS)
    def test_the_model_is_that_of_the_embedded_engine(
        self, real: tuple[Federation, dict[str, Path]], solver: str, tmp_path: Path
    ) -> None:
        made, studies = real
        status, folder = made.fit(f"plain-{solver}", studies[solver])
        assert status["state"] == "done", status
        expected, ledgers = embedded(solver, tmp_path)
        assert model_bytes(folder) == expected
        for site in SITES:
            written = Ledger(made.folder / site / "ledger.jsonl").releases
            mine = [r for r in written if r.run == f"plain-{solver}"]
            assert list(map(facts, mine)) == list(map(facts, ledgers[site].releases))

    @pytest.mark.parametrize("victim", ["south", "coordinator"])
    def test_a_killed_carrier_is_started_again_and_the_model_is_the_same(
        self, real: tuple[Federation, dict[str, Path]], victim: str, tmp_path: Path
    ) -> None:
        made, studies = real
        run = f"uncarried-{victim}"
        folder = runs.submit(made.state, runs.RunRequest(run, SITES, wait=60.0), studies["cv"])
        made.wait_for(
            lambda: runs.read_status(folder).get("progress", {}).get("step") in ("path", "fit"),
            "the fit",
        )
        first = made.carrier(victim)
        first.kill()
        status = made.wait_for_run(run)
        assert status["state"] == "done", status
        assert made.carrier(victim).pid != first.pid
        assert model_bytes(folder) == embedded("cv", tmp_path)[0]

    def test_carriers_killed_again_and_again_change_nothing(
        self, real: tuple[Federation, dict[str, Path]], tmp_path: Path
    ) -> None:
        made, studies = real
        folder = runs.submit(made.state, runs.RunRequest("storm", SITES, wait=60.0), studies["cv"])
        for victim in ("north", "coordinator", "west", "south", "north"):
            time.sleep(0.6)
            made.carrier(victim).kill()
        status = made.wait_for_run("storm")
        assert status["state"] == "done", status
        assert model_bytes(folder) == embedded("cv", tmp_path)[0]

    @pytest.mark.parametrize("victim", ["south", "coordinator"])
    def test_a_killed_process_comes_back_and_the_model_is_the_same(
        self, real: tuple[Federation, dict[str, Path]], victim: str, tmp_path: Path
    ) -> None:
        made, studies = real
        run = f"killed-{victim}"
        request = runs.RunRequest(run, SITES, wait=60.0)
        folder = runs.submit(made.state, request, studies["cv"])
        made.wait_for(
            lambda: runs.read_status(folder).get("progress", {}).get("step") in ("path", "fit"),
            "the fit",
        )
        made.kill(victim)
        made.start(victim)
        status = made.wait_for_run(run)
        assert status["state"] == "done", status
        assert model_bytes(folder) == embedded("cv", tmp_path)[0]

    def test_two_users_over_a_socket_give_the_same_model(
        self, real: tuple[Federation, dict[str, Path]], tmp_path: Path
    ) -> None:
        """Site and carrier as two commands; either may be killed and started again."""
        made, studies = real
        made.kill("west")
        made.start("west", split=True)
        folder = runs.submit(made.state, runs.RunRequest("split", SITES, wait=60), studies["cv"])
        made.wait_for(
            lambda: runs.read_status(folder).get("progress", {}).get("step") in ("path", "fit"),
            "the fit",
        )
        made.kill("west")
        made.start("west", split=True)  # its carrier is there still
        status = made.wait_for_run("split")
        assert status["state"] == "done", status
        assert model_bytes(folder) == embedded("cv", tmp_path)[0]
        for name in ("west-carrier", "west"):
            made.kill(name)
        made.start("west")

    def test_a_refusal_is_told_and_nothing_hangs(
        self, real: tuple[Federation, dict[str, Path]]
    ) -> None:
        made, studies = real
        status, _ = made.fit("unmasked", studies["exact"], secure=False)
        assert status["state"] == "failed"
        assert "only under masks [secure-sum]" in status["message"]

    def test_a_study_that_the_sites_do_not_hold_is_refused(
        self, real: tuple[Federation, dict[str, Path]], tmp_path: Path
    ) -> None:
        made, _ = real
        write_study(study_facts(epsilon=0.5), tmp_path / "other.toml")
        status, _ = made.fit("stranger", tmp_path / "other.toml")
        assert status["state"] == "failed"
        assert "[study]" in status["message"]

    def test_a_stopped_run_is_resumed(
        self, real: tuple[Federation, dict[str, Path]], tmp_path: Path
    ) -> None:
        made, studies = real
        request = runs.RunRequest("stopped", SITES, wait=30.0)
        folder = runs.submit(made.state, request, studies["exact"])
        runs.stop(made.state, "stopped")
        status = made.wait_for_run("stopped")
        assert status["state"] in ("stopped", "done")
        runs.resume(made.state, "stopped")
        assert made.wait_for_run("stopped")["state"] == "done"
        assert model_bytes(folder) == embedded("exact", tmp_path)[0]

    def test_a_hospital_rechecks_a_finished_run(
        self, real: tuple[Federation, dict[str, Path]], tmp_path: Path
    ) -> None:
        made, studies = real
        status, folder = made.fit("audited", studies["exact"])
        assert status["state"] == "done", status
        record = tmp_path / "record.zip"
        invoke("federation", "record", "audited", "--state", made.state, "-o", record)
        for site in SITES:
            audit = ["federation", "audit", record, "--kit", made.kits[site]]
            audit += ["--model", folder / "model.json"]
            said = invoke(*audit, "--state", made.folder / site)
            assert "questions to this hospital follow from the study" in " ".join(said.split())
            said = invoke("site", "status", "--state", made.folder / site)
            assert "sums answered, audited" in " ".join(said.split())
        wrong = invoke(*audit, "--state", made.folder / SITES[0], code=2)
        assert f"state folder of {SITES[0]}, not of {SITES[-1]}" in " ".join(wrong.split())
        facts = json.loads((folder / "model.json").read_text())
        facts["intercept"] += 1
        (tmp_path / "other.json").write_text(json.dumps(facts))
        audit[-1] = tmp_path / "other.json"
        said = invoke(*audit, "--state", made.folder / SITES[-1], code=1)
        assert "the model is not the one that the replies lead to" in " ".join(said.split())

    def test_the_journal_holds_every_step(self, real: tuple[Federation, dict[str, Path]]) -> None:
        made, studies = real
        _, folder = made.fit("journaled", studies["exact"])
        section = Journal(folder / "journal.sqlite").section("run")
        assert section.get("step/0") is not None
