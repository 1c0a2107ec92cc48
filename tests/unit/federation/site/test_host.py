"""A hospital's host: whose folder, which table, which keys, and what it tells a person."""

from __future__ import annotations

import datetime as dt
import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.errors import FederationError, LedgerError
from fedrulefit.federation.coordinator import runs, serving
from fedrulefit.federation.envelope import Letter, read_signed, sign_letter
from fedrulefit.federation.site import approvals, remembered
from fedrulefit.federation.site import host as hosts
from fedrulefit.federation.site.baselines import baseline_path, keep_baseline
from fedrulefit.federation.site.source import SourceFile
from fedrulefit.federation.site.status import read_site_status
from fedrulefit.model import Model
from fedrulefit.model.own_file import OwnBaseline
from fedrulefit.privacy.identity import Trust
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from tests.federations import write_study
from tests.loopback import COORDINATOR, POLICY, Loopback
from tests.samples import SOLVERS, make_frame, study_facts

FRAMES = {site: make_frame(90 + 10 * k, seed=k) for k, site in enumerate("abc")}
SITES = ("a", "b", "c")


@pytest.fixture
def study_path(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    write_study(study_facts(epsilon=1.0, holdout=0.2, **SOLVERS["exact"]), path)
    return path


@pytest.fixture
def net(tmp_path: Path, study_path: Path) -> Iterator[Loopback]:
    made = Loopback(tmp_path, FRAMES, Study.load(study_path))
    yield made
    made.close()


def carry_out(net: Loopback, study: Path, run: str, **options: Any) -> dict[str, Any]:
    request = runs.RunRequest(run, SITES, **{"wait": 5.0, **options})
    folder = runs.submit(net.state, request, study)
    serving.carry_out(folder, net.caller)
    return runs.read_status(folder)


def ask(host: hosts.SiteHost, kind: Any, step: int, run: str = "one", **fields: Any) -> Any:
    (study,) = host._tables
    header = m.Header(m.PROTOCOL_VERSION, run, step, host.name, study)
    return from_bytes(host.answer(to_bytes(kind(header, **fields))))


def join(host: hosts.SiteHost, run: str = "one") -> Any:
    return ask(host, m.JoinRequest, 0, run, sites=SITES, secure=True, dropouts="wait")


# --- Whose folder ---------------------------------------------------------------------------------


def test_a_refused_folder_is_let_go_of_again(net: Loopback, tmp_path: Path) -> None:
    net.hosts["a"].close()
    ledger = tmp_path / "a" / "ledger.jsonl"
    net._identities["a"], kept = net._identities["b"], net._identities["a"]
    with pytest.raises(FederationError, match="another certificate"):
        net._open("a")
    net._identities["a"] = kept
    (tmp_path / "a" / "journal.sqlite").rename(tmp_path / "away")
    with pytest.raises(LedgerError, match="Bring it back"):
        net._open("a")
    (tmp_path / "away").rename(tmp_path / "a" / "journal.sqlite")
    assert not ledger.exists()
    net.hosts["a"] = net._open("a")


# --- Keys are erased ------------------------------------------------------------------------------


@pytest.mark.parametrize("dropouts", ["wait", "continue"])
def test_a_run_that_ended_has_no_keys_left(tmp_path: Path, study_path: Path, dropouts: Any) -> None:
    policy = POLICY.model_copy(update={"dropouts": dropouts})
    net = Loopback(tmp_path, FRAMES, Study.load(study_path), policy)
    assert carry_out(net, study_path, "first", dropouts=dropouts)["state"] == "done"
    for host in net.hosts.values():
        (facts,) = remembered.read_runs(host._journal)
        assert facts["erased"] == "it has ended"
        key = (facts["study"], facts["run"])
        assert host._memory_of(key).get("secret") is None
        assert not host._sites
    net.close()


def test_what_was_answered_last_is_repeated_without_keys(
    net: Loopback, study_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator may have died before it kept the last answers."""
    answers: list[tuple[bytes, bytes]] = []
    answer = hosts.SiteHost.answer

    def listen(self: hosts.SiteHost, data: bytes) -> bytes:
        reply = answer(self, data)
        if self.name == "a":
            answers.append((data, reply))
        return reply

    monkeypatch.setattr(hosts.SiteHost, "answer", listen)
    assert carry_out(net, study_path, "first")["state"] == "done"
    last, reply = answers[-1]
    for _ in range(2):
        assert answer(net.hosts["a"], last) == reply
        net.restart("a")
    other = ask(net.hosts["a"], m.KeyRequest, 999, "first")
    assert isinstance(other, m.Refusal)
    assert other.code == "erased"
    assert "it has ended" in other.reason


def age(host: hosts.SiteHost, run: str, days: float) -> None:
    """Let a run lie for so long."""
    (study,) = host._tables
    seen = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
    section = "\0".join(("run", study, run))
    host._journal.put({section: {"seen": seen.isoformat(timespec="seconds").encode()}})


def test_an_abandoned_run_loses_its_keys_when_another_joins(net: Loopback) -> None:
    host = net.hosts["a"]
    for run in ("one", "two"):
        assert isinstance(join(host, run), m.JoinReply)
        assert isinstance(ask(host, m.KeyRequest, 1, run), m.KeyReply)
    age(host, "one", 1.5)
    assert isinstance(join(host, "three"), m.JoinReply)
    refusal = ask(host, m.GridRequest, 2, "one")
    assert (refusal.code, "unfinished" in refusal.reason) == ("erased", True)
    assert isinstance(ask(host, m.GridRequest, 2, "two"), m.GridReply), "of today: goes on"


@pytest.mark.parametrize("restarted", [False, True])
def test_an_abandoned_run_loses_its_keys_with_time(net: Loopback, restarted: bool) -> None:
    host = net.hosts["a"]
    join(host)
    ask(host, m.KeyRequest, 1)
    age(host, "one", 29)
    net.restart("a")
    assert isinstance(ask(net.hosts["a"], m.GridRequest, 2), m.GridReply)
    age(net.hosts["a"], "one", 31)
    if restarted:
        net.restart("a")
    else:
        net.hosts["a"]._tidied -= 100_000
        net.caller.greet(("a",))
    assert ask(net.hosts["a"], m.GridRequest, 3).code == "erased"


def test_an_erased_key_is_in_no_file(net: Loopback, tmp_path: Path) -> None:
    host = net.hosts["a"]
    join(host)
    ask(host, m.KeyRequest, 1)
    (study,) = host._tables
    secret = host._memory_of((study, "one")).get("secret")
    assert secret is not None

    def holding() -> list[str]:
        return [p.name for p in (tmp_path / "a").iterdir() if secret in p.read_bytes()]

    assert holding()
    host._erase((study, "one"), "a test")
    assert holding() == []


# --- Two processes, one kit -----------------------------------------------------------------------


def test_two_hosts_with_one_kit_are_noticed_and_a_restart_is_not(
    net: Loopback, tmp_path: Path
) -> None:
    for _ in range(3):
        net.caller.greet(SITES)
        net.restart("a")
    assert net.caller.warnings(SITES) == []
    first = net.hosts["a"]
    net._folder = tmp_path / "elsewhere"
    second = net._open("a")
    for host in (first, second, first):
        net.hosts["a"] = host
        net.caller.greet(SITES)
    assert net.caller.warnings(SITES) == ["two processes use the kit of a: stop one of them"]
    serving._tell_sites(net.state, net.caller, {"a": True}, set())
    assert "two processes" in (net.state / "sites.json").read_text()
    second.close()
    net.hosts["a"] = first


def test_the_instance_is_signed(net: Loopback) -> None:
    hello = sign_letter(Letter("hello"), sender=net.identity(COORDINATOR), recipient="a")
    answer = net.hosts["a"].receive(hello)
    letter = read_signed(answer, trust=net._trust, sender="a", recipient=COORDINATOR)
    assert len(letter.instance) == 16
    forged = answer.replace(letter.instance.encode(), b"0" * 16)
    with pytest.raises(hosts.ProtocolError):
        read_signed(forged, trust=net._trust, sender="a", recipient=COORDINATOR)


# --- What a person should know --------------------------------------------------------------------


def test_a_table_that_changed_on_disk_is_told_at_the_next_run(
    net: Loopback, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("patients")
    host = net.hosts["a"]
    host._source = SourceFile(path)
    join(host)
    assert read_site_status(tmp_path / "a")["warnings"] == [
        "the site was started without a charter"
    ]
    path.write_text("other patients")
    with caplog.at_level(logging.WARNING):
        join(host, "two")
        join(host, "three")
    assert caplog.text.count("Restart to use the new file") == 1
    status = read_site_status(tmp_path / "a")
    assert any("Restart to use the new file" in words for words in status["warnings"])


def test_the_status_tells_what_the_folder_holds(
    net: Loopback, tmp_path: Path, study_path: Path
) -> None:
    carry_out(net, study_path, "first")
    approvals.ask_person(tmp_path / "a", "first", "rules", ["words"])
    join(net.hosts["a"], "second")
    status = read_site_status(tmp_path / "a")
    assert (status["site"], status["dataset"], status["running"]) == ("a", "patients", True)
    (table,) = status["tables"]
    assert (table["study"], table["patients"], len(table["hash"])) == ("sepsis", 90, 16)
    states = {run["run"]: run["state"] for run in status["runs"]}
    assert states == {
        "first": "keys erased, since it has ended",
        "second": "under way, 1 steps answered",
    }
    assert [name.split("-")[0] for name in status["pending"]] == ["rules"]
    assert status["epsilon"] == 0, "the seeded noise guarantees nothing"
    (tmp_path / "a" / "ledger.jsonl").unlink()
    assert any("is missing" in words for words in read_site_status(tmp_path / "a")["warnings"])
    with pytest.raises(FederationError, match="no site has run"):
        read_site_status(tmp_path / "nobody")


def test_expired_certificates_are_named_by_the_run(
    tmp_path: Path, study_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from a year later, every certificate has expired; the run says whose."""
    net = Loopback(tmp_path, FRAMES, Study.load(study_path))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=400)
    net.caller._trust = Trust(net._trust.root, clock=lambda: later)
    status = carry_out(net, study_path, "first", wait=0.3)
    assert status["state"] == "failed"
    assert "what 'a' signed is not to be trusted: its certificate expired on" in status["message"]
    net.close()


def test_soon_expiring_certificates_are_in_a_run_s_status(net: Loopback, study_path: Path) -> None:
    net.caller.expires["b"] = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=20)
    status = carry_out(net, study_path, "first")
    assert any("the certificate of b expires soon, in 20 days" in w for w in status["warnings"])
    assert status["message"] == ""


def test_the_coordinator_remembers_when_certificates_end(net: Loopback) -> None:
    net.caller.greet(SITES)
    serving._tell_sites(net.state, net.caller, dict.fromkeys(SITES, True), set())
    assert set(net.caller.expires) == set(SITES)
    net.caller.expires.clear()
    net.reachable.clear()
    with net.serving():
        pass
    assert set(net.caller.expires) == set(SITES)


# --- Files are their owner's alone ----------------------------------------------------------------


def test_every_file_of_every_folder_is_private_whatever_the_umask(
    tmp_path: Path, study_path: Path
) -> None:
    before = os.umask(0)
    try:
        net = Loopback(tmp_path, FRAMES, Study.load(study_path))
        assert carry_out(net, study_path, "first")["state"] == "done"
        with net.serving():
            pass
        approvals.ask_person(tmp_path / "a", "first", "rules", ["words"])
        runs.submit(net.state, runs.RunRequest("second", SITES), study_path)
        runs.stop(net.state, "second")
        folders = [tmp_path / site for site in SITES]
        found = [p for folder in folders for p in (folder, *folder.rglob("*"))]
        found += [*(net.state / "runs").rglob("*"), net.state / "sites.json"]
        names = {path.name for path in found}
    finally:
        os.umask(before)
    assert names >= {
        "ledger.jsonl", "journal.sqlite", "journal.sqlite-wal", "lock", "owner.json", "site.json",
        "run.json", "study.toml", "status.json", "model.json", "stop", "sites.json", "approvals",
    }  # fmt: skip
    assert [p for p in found if p.stat().st_mode & 0o077] == []
    net.close()


# --- Its own baseline -----------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["afterwards", "site"])
def test_its_own_baseline_is_written_for_itself_alone(tmp_path: Path, baseline: str) -> None:
    path = tmp_path / "own.toml"
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"], baseline=baseline), path)
    net = Loopback(tmp_path, FRAMES, Study.load(path))
    assert carry_out(net, path, "first")["state"] == "done"
    model = Model.load(net.state / "runs" / "first" / "model.json")
    found = set()
    for name, host in net.hosts.items():
        kept = baseline_path(tmp_path / name, "first")
        own = OwnBaseline.load(kept)
        own.check(model)
        found.add(own.values)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        text = kept.read_bytes()
        keep_baseline(tmp_path / name, "first", replace(own, patients=1.0))
        assert kept.read_bytes() == text, "what is there stays"
        ledger = (tmp_path / name / "ledger.jsonl").read_text(encoding="utf-8")
        assert "ShareModelReply" not in ledger, "it tells nothing of patients"
        assert host.ledger.releases
    assert len(found) == len(net.hosts), "each has another"
    net.close()


def test_a_baseline_that_cannot_be_written_does_not_end_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "own.toml"
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"], baseline="afterwards"), path)
    net = Loopback(tmp_path, FRAMES, Study.load(path))
    (tmp_path / "a" / "runs").write_text("in the way", encoding="utf-8")
    with caplog.at_level(logging.ERROR):
        assert carry_out(net, path, "first")["state"] == "done"
    assert "could not be written" in caplog.text
    assert baseline_path(tmp_path / "b", "first").exists()
    net.close()
