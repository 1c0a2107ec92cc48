"""The commands ``site accept``, ``site status`` and the checks of ``site start``."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.federation.journal import Journal
from fedrulefit.federation.kits.charter import Charter, read_acceptance
from fedrulefit.federation.kits.consortium import EXAMPLE as CONSORTIUM
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.site import approvals
from fedrulefit.federation.site.kept import KeptLedger
from fedrulefit.federation.state import read_owner
from fedrulefit.privacy.identity import Identity
from fedrulefit.privacy.ledger import Release
from tests.federations import write_frame, write_study
from tests.samples import make_frame, study_facts
from tests.unit.cli.test_federation import fail, run, runner, start, succeed

pytest.importorskip("nvflare")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits, renewed kits of the same root, and kits of another root."""
    folder = tmp_path_factory.mktemp("kits")
    (folder / "consortium.toml").write_text(CONSORTIUM)
    for name in ("kits", "other"):
        succeed("federation", "init", folder / "consortium.toml", "-o", folder / name)
    shutil.copytree(folder / "kits", folder / "renewed")
    succeed("federation", "init", folder / "consortium.toml", "-o", folder / "renewed", "--renew")
    return folder


@pytest.fixture
def kits(made: Path) -> Path:
    return made / "kits"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    write_study(study_facts(epsilon=1.0), tmp_path / "study.toml")
    write_frame(make_frame(60), tmp_path / "north.parquet")
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


def accept(kits: Path, state: Path, *options: Any, site: str = "north") -> list[Any]:
    charter = ["site", "accept", kits / "charter.toml", "--kit", kits / site]
    return [*charter, "--state", state, *options]


# --- accept -------------------------------------------------------------------------------------


def test_a_person_sees_all_and_decides(kits: Path, files: Path) -> None:
    state = files / "state"
    command = [str(part) for part in accept(kits, state)]
    from fedrulefit.cli.app import app

    declined = runner.invoke(app, command, input="n\n")
    assert declined.exit_code == 2
    assert read_acceptance(state) is None
    shown = runner.invoke(app, command, input="y\n")
    assert shown.exit_code == 0, shown.output
    charter = Charter.load(kits / "charter.toml")
    digits = "".join(shown.stdout.split())
    for name in ("north", "south", "west"):
        assert Kit.load(kits / name, "site").identity.fingerprint in digits
        assert name in shown.stdout
    assert charter.root in digits
    assert charter.hash in digits
    assert "You accept as 'north', for the data set 'patients'" in shown.stdout
    kept = read_acceptance(state)
    assert kept is not None
    assert (kept.charter, kept.site) == (charter, "north")
    assert stat.S_IMODE((state / "charter.json").stat().st_mode) == 0o600


def test_a_charter_of_other_kits_is_refused(made: Path, files: Path) -> None:
    command = ["site", "accept", made / "kits" / "charter.toml", "--state", files / "s", "--yes"]
    words = fail(*command, "--kit", made / "renewed" / "north")
    assert "another certificate for 'north'" in words
    words = fail(*command, "--kit", made / "other" / "north")
    assert "root certificate is not the charter's" in words
    (files / "policy.toml").write_text(f'[peers]\nsouth = "{"0" * 64}"\n')
    words = fail(*command, "--kit", made / "kits" / "north", "--policy", files / "policy.toml")
    assert "names another certificate" in words


def test_what_changed_is_said_before_it_is_accepted(made: Path, files: Path) -> None:
    state = files / "state"
    assert "No charter was accepted here before" in succeed(*accept(made / "kits", state, "--yes"))
    assert "says the same" in succeed(*accept(made / "kits", state, "--yes"))
    out = succeed(*accept(made / "renewed", state, "--yes"))
    for name in ("north", "south", "west", "The coordinator fed.example.org"):
        assert f"{name} has a NEW certificate." in out
    words = fail(*accept(made / "other", state, "--yes"))
    assert "--new-root" in words
    out = succeed(*accept(made / "other", state, "--yes", "--new-root"))
    assert "The root CHANGED" in " ".join(out.split())
    assert "swapped" in fail(*accept(made / "other", state, "--yes", site="south"))


# --- start --------------------------------------------------------------------------------------


def test_without_a_charter_a_site_starts_only_when_told_what_it_gives_up(
    kits: Path, files: Path, started: list[Any]
) -> None:
    words = fail(*start(files, kits / "north"))
    assert "no charter was accepted" in words
    assert "fedrulefit site accept" in words
    assert not started
    result = run(*start(files, kits / "north"), "--without-charter")
    assert result.exit_code == 0, result.output
    assert "a sum of three, two of them invented" in " ".join(result.stderr.split())
    assert started[0][1]._charter is None


def test_a_charter_pins_everybody_and_is_the_roster(
    kits: Path, files: Path, started: list[Any]
) -> None:
    succeed(*accept(kits, files / "state", "--yes"))
    succeed(*start(files, kits / "north"))
    ((_, opened),) = started
    charter = Charter.load(kits / "charter.toml")
    assert opened._trust.pinned == charter.pins
    assert set(opened._roster) == {"north", "south", "west"}
    assert opened._charter == charter
    owner = read_owner(files / "state")
    assert owner is not None
    assert (owner.role, owner.name, owner.root) == ("site", "north", charter.root)


def test_swapped_kits_and_foreign_folders_are_refused(
    made: Path, files: Path, started: list[Any]
) -> None:
    kits, state = made / "kits", files / "state"
    succeed(*accept(kits, state, "--yes"))
    succeed(*start(files, kits / "north"))
    assert "are kits swapped" in fail(*start(files, kits / "south"))
    assert "swapped" in fail(*start(files, kits / "south"), "--without-charter")
    assert "another root" in fail(*start(files, made / "other" / "north"), "--without-charter")
    words = fail(*start(files, made / "renewed" / "north"), "--without-charter")
    assert "accept the new charter" in words
    assert "do not belong together" in fail(*start(files, made / "renewed" / "north"))
    assert len(started) == 1


def test_a_renewed_kit_goes_on_under_a_new_charter(
    made: Path, files: Path, started: list[Any]
) -> None:
    state = files / "state"
    succeed(*accept(made / "kits", state, "--yes"))
    succeed(*start(files, made / "kits" / "north"))
    succeed(*accept(made / "renewed", state, "--yes"))
    succeed(*start(files, made / "renewed" / "north"))
    succeed(*accept(made / "other", state, "--yes", "--new-root"))
    succeed(*start(files, made / "other" / "north"))
    assert len(started) == 3


def test_the_policy_s_data_set_is_the_accepted_one(
    kits: Path, files: Path, started: list[Any]
) -> None:
    (files / "policy.toml").write_text('dataset = "icu"\n')
    succeed(*accept(kits, files / "state", "--yes"))
    words = fail(*start(files, kits / "north", **{"--policy": files / "policy.toml"}))
    assert "accepted for the data set 'patients'" in words


def test_a_table_that_is_not_the_last_start_s_is_told(
    kits: Path, files: Path, started: list[Any]
) -> None:
    succeed(*accept(kits, files / "state", "--yes"))
    first = succeed(*start(files, kits / "north"))
    assert "60 patients, hash " in first
    assert "Warning" not in run(*start(files, kits / "north")).stderr
    write_frame(make_frame(61), files / "north.parquet")
    result = run(*start(files, kits / "north"))
    assert result.exit_code == 0
    assert "not that of the last start: 60 patients" in " ".join(result.stderr.split())


@pytest.mark.parametrize("days", [59, 29, 6, -1])
def test_the_end_of_a_certificate_is_said_at_the_start(
    kits: Path, files: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    succeed(*accept(kits, files / "state", "--yes"))
    succeed(*start(files, kits / "north"))
    end = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=days)
    monkeypatch.setattr(Identity, "expires", property(lambda self: end))
    lead = ["coordinator", "start", "--kit", kits / "coordinator", "--state", files / "c"]
    if days < 0:
        assert f"this site expired on {end}" in fail(*start(files, kits / "north"))
        assert f"this coordinator expired on {end}" in fail(*lead)
        return
    for command in (start(files, kits / "north"), lead):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert f"in {days} days, on {end}" in " ".join(result.stderr.split())


def test_a_harmed_ledger_is_refused_before_anything_starts(
    kits: Path, files: Path, started: list[Any]
) -> None:
    state = files / "state"
    succeed(*accept(kits, state, "--yes"))
    succeed(*start(files, kits / "north"))
    (state / "journal.sqlite").rename(files / "away")
    assert "Bring it back" in fail(*start(files, kits / "north"))
    (files / "away").rename(state / "journal.sqlite")
    succeed(*start(files, kits / "north"))


def test_open_folders_are_closed_with_a_warning(
    made: Path, files: Path, started: list[Any]
) -> None:
    kit, state = Path(shutil.copytree(made / "kits" / "north", files / "kit")), files / "state"
    succeed(*accept(made / "kits", state, "--yes"))
    for folder in (kit, state):
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
    result = run(*start(files, kit))
    assert result.exit_code == 0, result.output
    assert result.stderr.count("other users of this machine could reach") == 2
    assert not [p for p in (*kit.rglob("*"), *state.rglob("*")) if p.stat().st_mode & 0o077]


def test_init_closes_every_file_of_every_kit(kits: Path) -> None:
    assert [p for p in (kits, *kits.rglob("*")) if p.stat().st_mode & 0o077] == []


def test_a_coordinator_s_folder_is_its_own(made: Path, files: Path, started: list[Any]) -> None:
    def lead(kits: str) -> list[Any]:
        return [
            "coordinator",
            "start",
            "--kit",
            made / kits / "coordinator",
            "--state",
            files / "c",
        ]

    succeed(*lead("kits"))
    succeed(*lead("renewed"))
    assert "another root" in fail(*lead("other"))
    words = fail(*start(files, made / "kits" / "north", **{"--state": files / "c"}),
                 "--without-charter")  # fmt: skip
    assert "is of the coordinator" in words


# --- status -------------------------------------------------------------------------------------


def test_status_before_and_after_a_start(kits: Path, files: Path, started: list[Any]) -> None:
    state = files / "state"
    assert "no site has run" in fail("site", "status", "--state", state)
    succeed(*accept(kits, state, "--yes"))
    assert "north" in succeed("site", "status", "--state", state)
    succeed(*start(files, kits / "north"))
    approvals.ask_person(state, "run-1", "rules", ["words"])
    out = succeed("site", "status", "--state", state)
    assert "Site north" in out
    assert "with north, south, west" in out
    assert "60 patients, hash " in out
    assert "The certificate of this site: valid until 20" in out
    assert "ε = 0 spent" in out
    assert "Waits for a decision ('site review'): rules-" in out
    facts = json.loads(succeed("site", "status", "--state", state, "--json"))
    assert facts["charter"]["hash"] == Charter.load(kits / "charter.toml").hash
    assert facts["warnings"] == []
    assert facts["runs"] == []


# --- ledger verify ------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [True, False])
def test_a_ledger_cut_at_its_end_is_found_by_the_journal_beside_it(
    tmp_path: Path, beside: bool
) -> None:
    path = tmp_path / "ledger.jsonl"
    journal = Journal(tmp_path / "journal.sqlite")
    ledger = KeptLedger(path, journal)
    for k in range(3):
        ledger.append(Release("GridReply", "q", (3,), "noise", 1.0, f"{k}" * 64))
    journal.close()
    assert "3 rows, the chain" in " ".join(succeed("ledger", "verify", path).split())
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))
    if beside:
        assert "was emptied or cut" in fail("ledger", "verify", path)
        return
    (tmp_path / "journal.sqlite").unlink()
    assert "1 rows, the chain" in " ".join(succeed("ledger", "verify", path).split())
