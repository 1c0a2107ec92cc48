"""The commands ``federation``, ``coordinator``, ``site`` and ``ledger``."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner, Result

from fedrulefit import Model
from fedrulefit.cli.app import app
from fedrulefit.errors import FederationError
from fedrulefit.federation import folderlock
from fedrulefit.federation.coordinator import runs
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.kits.charter import Charter
from fedrulefit.federation.kits.consortium import EXAMPLE as CONSORTIUM
from fedrulefit.federation.kits.consortium import Consortium
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.site import approvals
from fedrulefit.federation.site.kept import KeptLedger
from fedrulefit.files import write_json
from fedrulefit.privacy.ledger import Release, now
from fedrulefit.privacy.policy import EXAMPLE, Policy
from fedrulefit.study import Study
from tests.federations import write_frame, write_study
from tests.loopback import Loopback
from tests.samples import SOLVERS, make_frame, study_facts

pytest.importorskip("nvflare")

runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})


def run(*arguments: Any) -> Result:
    return runner.invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: Any) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, f"{result.output}\n{result.exception!r}"
    return result.stdout


def fail(*arguments: Any) -> str:
    """Return the error text, after checking that it is meant for a person."""
    result = run(*arguments)
    assert result.exit_code == 2, f"{result.output}\n{result.exception!r}"
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.stderr.startswith("Error: ")
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kits; read only."""
    folder = tmp_path_factory.mktemp("kits")
    (folder / "consortium.toml").write_text(CONSORTIUM)
    succeed("federation", "init", folder / "consortium.toml", "-o", folder / "kits")
    return folder / "kits"


@pytest.fixture
def files(tmp_path: Path, kits: Path) -> Path:
    """A folder with a study, a table that fits it, and a state with an accepted charter."""
    write_study(study_facts(epsilon=1.0), tmp_path / "study.toml")
    write_frame(make_frame(60), tmp_path / "north.parquet")
    accept(kits, tmp_path / "state", "--yes")
    return tmp_path


def accept(kits: Path, state: Path, *options: Any, site: str = "north") -> str:
    charter = ["site", "accept", kits / "charter.toml", "--kit", kits / site]
    return succeed(*charter, "--state", state, *options)


# --- federation init ----------------------------------------------------------------------------


def test_init_makes_a_sealed_kit_for_everybody(kits: Path) -> None:
    names = {path.name for path in kits.iterdir()}
    assert names == {"authority", "charter.toml", "coordinator", "north", "south", "west"}
    kit = Kit.load(kits / "north", "site")
    assert (kit.name, kit.coordinator) == ("north", "fed.example.org")
    assert kit.sites == ("north", "south", "west")
    coordinator = Kit.load(kits / "coordinator", "coordinator")
    assert coordinator.root_fingerprint == kit.root_fingerprint
    assert stat.S_IMODE((kits / "authority").stat().st_mode) == 0o700
    assert stat.S_IMODE((kits / "authority" / "root.json").stat().st_mode) == 0o600
    for path in (*kits.glob("*/*"), *kits.glob("*")):
        if path.is_dir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in kits.glob("*/*/key.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_each_part_has_a_key_of_its_own_and_is_complete(kits: Path, tmp_path: Path) -> None:
    keys = [path.read_text() for path in kits.glob("*/*/key.pem")]
    assert len(keys) == len(set(keys)) == 8
    for role in ("carrier", "site"):
        alone = tmp_path / role / "alone"
        shutil.copytree(kits / "north" / role, alone)
        part = Kit.load(alone, role)  # type: ignore[arg-type]
        assert (part.name, part.role, part.side, part.port) == ("north", role, "site", 8102)
    with pytest.raises(FederationError, match="carrier start"):
        Kit.load(tmp_path / "site" / "alone", "site").carrier()


def test_the_authority_forgets_the_hospitals_keys(kits: Path) -> None:
    assert set(json.loads((kits / "authority" / "root.json").read_text())) == {
        "root_cert",
        "root_pri_key",
    }
    for key in kits.glob("*/*/key.pem"):
        secret = key.read_text().splitlines()[1]
        others = [p for p in kits.rglob("*") if p.is_file() and p != key]
        assert not [path for path in others if secret in path.read_text(errors="replace")]


def test_renewing_keeps_the_root_and_changes_the_certificates(tmp_path: Path) -> None:
    path = tmp_path / "consortium.toml"
    path.write_text(CONSORTIUM)
    out = tmp_path / "kits"
    first = succeed("federation", "init", path, "-o", out)
    assert "is not empty" in fail("federation", "init", path, "-o", out)
    before = Kit.load(out / "north", "site")
    fingerprint, root = before.identity.fingerprint, before.root_fingerprint
    assert fingerprint in first
    assert root in first
    succeed("federation", "init", path, "-o", out, "--renew")
    after = Kit.load(out / "north", "site")
    assert after.root_fingerprint == root
    assert after.identity.fingerprint != fingerprint


def test_a_root_of_an_older_version_is_kept(tmp_path: Path) -> None:
    """FLARE made RSA roots; a consortium that has one renews its kits under it."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "t")])
    now = dt.datetime.now(dt.UTC)
    root = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=9))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (tmp_path / "kits" / "authority").mkdir(parents=True)
    facts = {"root_cert": root.public_bytes(Encoding.PEM).decode(), "root_pri_key": pem.decode()}
    (tmp_path / "kits" / "authority" / "root.json").write_text(json.dumps(facts))
    (tmp_path / "consortium.toml").write_text(CONSORTIUM)
    init = ["federation", "init", tmp_path / "consortium.toml", "-o", tmp_path / "kits"]
    succeed(*init, "--renew")
    kit = Kit.load(tmp_path / "kits" / "north", "site")
    der = root.public_bytes(Encoding.DER)
    assert kit.root_fingerprint == hashlib.sha256(der).hexdigest()
    signed = kit.identity.sign(b"words")
    kit.trust().verify("north", kit.identity.certificate, b"words", signed)


def test_a_consortium_file_to_start_from(tmp_path: Path) -> None:
    path = tmp_path / "consortium.toml"
    assert "federation draft" in fail("federation", "init", path)
    succeed("federation", "draft", "-o", path)
    assert Consortium.load(path).site_names == ("north", "south", "west")
    assert succeed("federation", "draft") == path.read_text()
    assert "is there already" in fail("federation", "draft", "-o", path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 3", "name"),
        ("not toml", "is not valid TOML"),
        (CONSORTIUM.replace('"south"', '"north"'), "two sites have the same name"),
        (CONSORTIUM.replace('"south"', '"../south"'), "a name has letters"),
        (CONSORTIUM.replace("8102", "99999999"), "port"),
        (CONSORTIUM + "\nextra = 1\n", "sites.2.extra"),
        (CONSORTIUM.replace('"south"', '"fed.example.org"'), "name of the coordinator's host"),
    ],
)
def test_a_bad_consortium_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "consortium.toml"
    path.write_text(text)
    assert words in fail("federation", "init", path, "-o", tmp_path / "kits")
    with pytest.raises(FederationError):
        Consortium.load(path)


# --- Kits are checked before anything starts ------------------------------------------------------


def copy_kit(kits: Path, to: Path) -> Path:
    return Path(shutil.copytree(kits / "north", to / "kit"))


def start(files: Path, kit: Path, **changes: Any) -> list[Any]:
    options = {
        "--kit": kit,
        "--study": files / "study.toml",
        "--data": files / "north.parquet",
        "--state": files / "state",
        **changes,
    }
    return ["site", "start", *(part for pair in options.items() for part in pair)]


@pytest.mark.parametrize("part", ["site", "carrier"])
@pytest.mark.parametrize("change", ["changed", "added", "removed", "seal"])
def test_a_kit_that_was_changed_is_not_started(
    kits: Path, files: Path, change: str, part: str
) -> None:
    folder = copy_kit(kits, files) / part
    if change == "changed":
        (folder / "readme.txt").write_text("run this: ")
    elif change == "added":
        (folder / "sitecustomize.py").write_text("")
    elif change == "removed":
        (folder / "readme.txt").unlink()
    else:
        seal = folder / "seal.json"
        seal.write_text(seal.read_text().replace("north", "south"))
    assert "ask for a new kit" in fail(*start(files, folder.parent))


def test_the_carrier_of_another_hospital_is_refused(kits: Path, files: Path) -> None:
    kit = copy_kit(kits, files)
    shutil.rmtree(kit / "carrier")
    assert "carrier start" in fail(*start(files, kit))
    shutil.copytree(kits / "south" / "carrier", kit / "carrier")
    assert "the carrier of another kit" in fail(*start(files, kit))


def test_the_kit_of_another_role_is_refused(kits: Path, files: Path) -> None:
    assert "not of a site" in fail(*start(files, kits / "coordinator"))
    words = fail("coordinator", "start", "--kit", kits / "north", "--state", files / "c")
    assert "not of a coordinator" in words
    assert "is not a start-up kit" in fail(*start(files, files))


def test_a_site_starts_with_its_facts(kits: Path, files: Path, started: list[Any]) -> None:
    out = succeed(*start(files, kits / "north"))
    ((given, opened),) = started
    assert given.kit.name == opened.name == "north"
    assert given.data == files / "north.parquet"
    assert list(given.studies) == [files / "study.toml"]
    assert given.kit.root_fingerprint in out
    assert "Sums leave only masked, among at least 3 sites." in out
    assert "Spent so far on this data set: ε = 0." in out
    flat = " ".join(out.split())
    assert "A run costs ε = 5 (5 covariates × 1)" in flat
    assert "The policy pays for 4 runs of this study over changed patients" in flat
    assert "ε = 0" in out
    assert "Table for sepsis: 60 patients, hash " in out
    assert f"Charter {Charter.load(kits / 'charter.toml').hash}, with south, west" in out


def test_a_site_checks_everything_first(kits: Path, files: Path, started: list[Any]) -> None:
    kit = kits / "north"
    write_frame(make_frame(60).drop(columns="age"), files / "bad.parquet")
    words = fail(*start(files, kit, **{"--data": files / "bad.parquet"}))
    assert "does not fit" in words
    assert "age" in words
    (files / "policy.toml").write_text("min_count = -1\nfoo = 2")
    words = fail(*start(files, kit, **{"--policy": files / "policy.toml"}))
    assert "min_count" in words
    assert "foo" in words
    (files / "state").mkdir(exist_ok=True)
    (files / "state" / "ledger.jsonl").write_text("{}\n")
    assert "row 1 is not a row of a ledger" in fail(*start(files, kit))
    (files / "state" / "ledger.jsonl").unlink()
    with folderlock.lock_folder(files / "state"):
        assert "another process uses" in fail(*start(files, kit))
    assert not started


def test_a_site_does_not_start_a_study_that_its_budget_never_pays(
    kits: Path, files: Path, started: list[Any]
) -> None:
    """Spent once, it may start: a run over unchanged patients costs nothing."""
    (files / "policy.toml").write_text("epsilon_study = 4.5")
    policy = {"--policy": files / "policy.toml"}
    words = " ".join(fail(*start(files, kits / "north", **policy)).split())
    assert "a run costs ε = 5 (5 covariates × 1), but the policy allows ε = 4.5 for one" in words
    assert not started
    paid = Release("GridReply", "histogram of age", (5,), "noise", 4.0, study="sepsis")
    journal = Journal(files / "state" / "journal.sqlite")
    KeptLedger(files / "state" / "ledger.jsonl", journal, clock=now).append(paid)
    journal.close()
    flat = " ".join(succeed(*start(files, kits / "north", **policy)).split())
    assert "Only runs over unchanged patients: a run costs ε = 5" in flat
    assert "of which 4 is spent" in flat


def test_the_coordinator_starts_with_its_facts(
    kits: Path, tmp_path: Path, started: list[Any]
) -> None:
    succeed("coordinator", "start", "--kit", kits / "coordinator", "--state", tmp_path / "c")
    ((kit, state, socket),) = started
    assert kit.role == "coordinator"
    assert (state, socket) == (tmp_path / "c", None)


def test_without_flare_the_command_says_how_to_get_it(
    kits: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nvflare", None)
    assert 'pip install -e ".[flare]"' in fail(*start(files, kits / "north"))


# --- Policy and review --------------------------------------------------------------------------


def test_the_example_policy_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    succeed("site", "policy", "-o", path)
    assert path.read_text() == EXAMPLE
    assert Policy.load(path) == Policy()
    assert "is there already" in fail("site", "policy", "-o", path)
    assert succeed("site", "policy") == EXAMPLE
    assert "at least 5 patients inside" in succeed("site", "policy", "--show", path)


def test_a_person_reviews_at_the_keyboard(tmp_path: Path) -> None:
    assert "Nothing waits" in succeed("site", "review", "--state", tmp_path)
    for kind in ("histograms", "rules"):
        assert (
            approvals.ask_person(tmp_path, "run-1", kind, ["About to leave:", "  age ≥ 60"]) is None
        )
    result = runner.invoke(app, ["site", "review", "--state", str(tmp_path)], input="y\nn\n")
    assert result.exit_code == 0, result.output
    assert "age ≥ 60" in result.stdout
    decisions = {
        facts["kind"]: facts["decision"] for facts in approvals.read_approvals(tmp_path).values()
    }
    assert decisions == {"histograms": "accepted", "rules": "declined"}
    words = ["About to leave:", "  age ≥ 60"]
    assert approvals.ask_person(tmp_path, "run-1", "histograms", words) is True
    assert approvals.ask_person(tmp_path, "run-1", "rules", words) is False
    assert approvals.ask_person(tmp_path, "run-1", "histograms", [*words, "more"]) is None
    assert approvals.ask_person(tmp_path, "run-2", "histograms", words) is None


def test_a_decision_can_be_given_by_name(tmp_path: Path) -> None:
    approvals.ask_person(tmp_path, "run-1", "rules", ["words"])
    (name,) = approvals.read_approvals(tmp_path)
    assert "accepted" in succeed("site", "review", "--state", tmp_path, "--accept", name)
    assert "already" in fail("site", "review", "--state", tmp_path, "--decline", name)


# --- federation run, status, stop; ledger -------------------------------------------------------


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Loopback, Path]]:
    folder = tmp_path_factory.mktemp("net")
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), folder / "study.toml")
    frames = {site: make_frame(120, seed=k) for k, site in enumerate("abc")}
    made = Loopback(folder, frames, Study.load(folder / "study.toml"))
    lock = folderlock.lock_folder(made.state)
    with made.serving():
        yield made, folder
    lock.close()
    made.close()


def test_a_run_from_the_command_line(net: tuple[Loopback, Path]) -> None:
    made, folder = net
    output = folder / "model.json"
    out = succeed(
        "federation", "run", "--state", made.state, "-s", folder / "study.toml", "-o", output,
        "--run", "first", "--report", folder / "report.html",
    )  # fmt: skip
    assert "Only as sums over 3 sites" in (folder / "report.html").read_text(encoding="utf-8")
    assert "sums over 3 sites" in " ".join(out.split())
    assert "(run first)" in out
    assert Model.load(output).provenance.sites == ("a", "b", "c")
    status = succeed("federation", "status", "--state", made.state)
    assert "a online" in status
    assert "first" in status
    assert "done" in status
    facts = json.loads(succeed("federation", "status", "--state", made.state, "--json"))
    assert facts["runs"]["first"]["state"] == "done"
    ledger = folder / "a" / "ledger.jsonl"
    shown = " ".join(succeed("ledger", "show", ledger).split())
    assert "Run first of sepsis, to the coordinator" in shown
    assert "inside a secure sum" in shown
    assert "ε so far: 0 for adding" in shown, "the seeded noise guarantees nothing"
    assert "the chain holds" in succeed("ledger", "verify", ledger)
    facts = json.loads(succeed("ledger", "show", ledger, "--json", "--run", "first"))
    assert facts["releases"]
    last = facts["last_hash"]
    assert last in succeed("ledger", "verify", ledger, "--expect", last)
    assert "rows were taken out" in fail("ledger", "verify", ledger, "--expect", "0" * 64)
    assert json.loads(succeed("ledger", "show", ledger, "--json", "--run", "x"))["releases"] == []


def test_a_failed_run_says_why_and_how_to_go_on(net: tuple[Loopback, Path]) -> None:
    made, folder = net
    options = ["--state", made.state, "-o", folder / "x.json"]
    words = fail(
        "federation", "run", *options, "-s", folder / "study.toml", "--run", "open", "--plain-sums"
    )
    assert "only under masks [secure-sum]" in words
    assert "--resume open" in words
    assert "give --study" in fail("federation", "run", *options)
    words = fail(
        "federation", "run", *options, "-s", folder / "study.toml", "--site", "a", "--site", "zz"
    )
    assert "zz: not of this consortium (a, b, c)" in words
    assert "'wait' or 'continue'" in fail("federation", "run", *options, "--dropouts", "perhaps")
    assert "there is no run" in fail("federation", "run", *options, "--resume", "none")
    assert "no run 'none'" in fail("federation", "stop", "none", "--state", made.state)
    assert "it is failed" in fail("federation", "stop", "open", "--state", made.state)


def test_without_a_coordinator_the_commands_say_so(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = fail("federation", "status", "--state", tmp_path / "none")
    assert "start one with 'fedrulefit coordinator start'" in words
    state = tmp_path / "dead"
    state.mkdir()
    write_json(state / "sites.json", {"sites": {"a": False}, "updated": "before"})
    monkeypatch.setattr("fedrulefit.cli.runs.ABSENT", 0.3)
    options = ["--state", state, "-o", tmp_path / "m.json", "-s", files / "study.toml"]
    assert "is not running" in fail("federation", "run", *options, "--run", "r")
    assert runs.read_status(runs.run_folder(state, "r"))["state"] == "waiting"
    assert "not running" in succeed("federation", "status", "--state", state)
    assert "will stop" in succeed("federation", "stop", "r", "--state", state)


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_ledger_that_is_none_is_refused(tmp_path: Path, command: str) -> None:
    assert "there is no ledger" in fail("ledger", command, tmp_path / "none.jsonl")
    (tmp_path / "l.jsonl").write_text('{"a": 1}\n')
    assert "row 1" in fail("ledger", command, tmp_path / "l.jsonl")
