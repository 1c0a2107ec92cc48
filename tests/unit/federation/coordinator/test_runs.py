"""Runs between a coordinator and hosts: asked, polled, resumed, stopped, approved."""

from __future__ import annotations

import dataclasses
import json
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.engines import inprocess
from fedrulefit.errors import FederationError, PolicyError, ProtocolError
from fedrulefit.federation.coordinator import caller as callers
from fedrulefit.federation.coordinator import runs, serving
from fedrulefit.federation.envelope import Letter, read_signed, sign_letter
from fedrulefit.federation.site import approvals
from fedrulefit.federation.site import host as hosts
from fedrulefit.federation.state import read_json
from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.wire import digest, from_bytes, to_bytes
from fedrulefit.table.check import load_table
from tests.loopback import COORDINATOR, POLICY, Loopback
from tests.samples import make_frame

FRAMES = {site: make_frame(120 + 10 * k, seed=k) for k, site in enumerate("abc")}


@pytest.fixture
def net(tmp_path: Path, study_path: Path) -> Iterator[Loopback]:
    made = Loopback(tmp_path, FRAMES, hosts.Study.load(study_path))
    yield made
    made.close()


def request(run: str = "first", **options: Any) -> runs.RunRequest:
    return runs.RunRequest(run, ("a", "b", "c"), **{"wait": 5.0, **options})


def expected(path: Path) -> str:
    study = hosts.Study.load(path)
    fitted = inprocess.fit(
        study,
        {site: load_table(frame, study) for site, frame in FRAMES.items()},
        policy=POLICY,
        secure=True,
        make_noise=lambda site: UnsafeSeededLaplace(3, site),
    )
    return json.dumps(model_facts(fitted.model))


def found(folder: Path) -> str:
    return json.dumps(model_facts(Model.load(folder / "model.json")))


def test_a_run_gives_the_embedded_engine_s_model(net: Loopback, study_path: Path) -> None:
    folder = runs.submit(net.state, request(), study_path)
    serving.carry_out(folder, net.caller)
    status = runs.read_status(folder)
    assert status["state"] == "done"
    assert status["sites"] == {"a": True, "b": True, "c": True}
    assert status["sent"] > 0
    assert status["received"] > status["sent"]
    assert found(folder) == expected(study_path)


def test_what_is_written_is_the_owner_s_alone(net: Loopback, study_path: Path) -> None:
    folder = runs.submit(net.state, request(), study_path)
    serving.carry_out(folder, net.caller)
    for path in (folder / "run.json", folder / "journal.sqlite", folder / "status.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_lost_site_fails_the_run_and_resuming_ends_it(net: Loopback, study_path: Path) -> None:
    folder = runs.submit(net.state, request(wait=0.3), study_path)
    net.reachable.discard("b")
    serving.carry_out(folder, net.caller)
    status = runs.read_status(folder)
    assert status["state"] == "failed"
    assert "no reply from b" in status["message"]
    assert status["sites"]["b"] is False
    net.reachable.add("b")
    assert runs.resume(net.state, "first") == folder
    serving.carry_out(folder, net.caller)
    assert found(folder) == expected(study_path)


def test_hosts_restarted_at_every_call_change_nothing(
    net: Loopback, study_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = net._send
    lock = threading.Lock()

    def restart_first(site: str, envelope: bytes, seconds: float) -> bytes | None:
        with lock:
            net.restart(site)
        return send(site, envelope, seconds)

    monkeypatch.setattr(net.caller, "_send", restart_first)
    folder = runs.submit(net.state, request(), study_path)
    serving.carry_out(folder, net.caller)
    assert found(folder) == expected(study_path)


def test_a_finished_run_is_not_carried_out_again(net: Loopback, study_path: Path) -> None:
    folder = runs.submit(net.state, request(), study_path)
    with net.serving():
        _wait_for_end(folder)
        calls = len(net.calls)
        time.sleep(0.5)
        asked = net.calls[calls:]
    assert len(asked) <= 6, "only greetings"
    assert runs.read_status(folder)["state"] == "done"


def _wait_for_end(folder: Path, seconds: float = 60) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while runs.read_status(folder)["state"] in ("waiting", "running"):
        assert time.monotonic() < end
        time.sleep(0.05)
    return runs.read_status(folder)


def test_a_stopped_run_says_so_and_can_be_resumed(net: Loopback, study_path: Path) -> None:
    folder = runs.submit(net.state, request(), study_path)
    runs.stop(net.state, "first")
    serving.carry_out(folder, net.caller)
    assert runs.read_status(folder)["state"] == "stopped"
    runs.resume(net.state, "first")
    serving.carry_out(folder, net.caller)
    assert runs.read_status(folder)["state"] == "done"


@pytest.mark.parametrize("name", ["", "../evil", "a b", "x" * 101, ".hidden"])
def test_a_name_that_is_no_folder_is_refused(name: str, net: Loopback, study_path: Path) -> None:
    with pytest.raises(FederationError, match="cannot name a run"):
        runs.submit(net.state, request(name), study_path)


def test_names_are_used_once_and_unknown_runs_told(net: Loopback, study_path: Path) -> None:
    runs.submit(net.state, request(), study_path)
    with pytest.raises(FederationError, match="resume it"):
        runs.submit(net.state, request(), study_path)
    with pytest.raises(FederationError, match="there are: first"):
        runs.resume(net.state, "second")
    with pytest.raises(FederationError, match="no run 'second'"):
        runs.stop(net.state, "second")


def test_a_person_decides_and_the_run_waits(tmp_path: Path, study_path: Path) -> None:
    policy = POLICY.model_copy(update={"approval": "review"})
    net = Loopback(tmp_path, FRAMES, hosts.Study.load(study_path), policy)
    folder = runs.submit(net.state, request(), study_path)
    with net.serving():
        decided: set[tuple[str, str]] = set()
        end = time.monotonic() + 90
        while runs.read_status(folder)["state"] in ("waiting", "running"):
            assert time.monotonic() < end
            for site in net.sites:
                for name, facts in approvals.read_approvals(tmp_path / site).items():
                    if facts["decision"] is None:
                        approvals.decide(tmp_path / site, name, accept=True, by="the officer")
                        decided.add((site, facts["kind"]))
            time.sleep(0.05)
    assert runs.read_status(folder)["state"] == "done"
    kinds = {"exact-histograms", "rules", "votes", "curvature", "slopes", "summary",
             "between-sites"}  # fmt: skip
    assert decided == {(site, kind) for site in net.sites for kind in kinds}
    words = approvals.read_approvals(tmp_path / "a")
    rules = next(facts for facts in words.values() if facts["kind"] == "rules")
    assert any("age" in line for line in rules["words"])
    with pytest.raises(FederationError, match="already"):
        approvals.decide(tmp_path / "a", next(iter(words)), accept=False, by="another")
    with pytest.raises(FederationError, match="nothing to decide"):
        approvals.decide(tmp_path / "a", "nothing", accept=True, by="x")
    net.close()


def test_a_declined_release_fails_the_run(tmp_path: Path, study_path: Path) -> None:
    policy = POLICY.model_copy(update={"approval": "review"})
    net = Loopback(tmp_path, FRAMES, hosts.Study.load(study_path), policy)
    folder = runs.submit(net.state, request(), study_path)
    with net.serving():
        while runs.read_status(folder)["state"] in ("waiting", "running"):
            for name, facts in approvals.read_approvals(tmp_path / "b").items():
                if facts["decision"] is None:
                    approvals.decide(tmp_path / "b", name, accept=False, by="the officer")
            for site in "ac":
                for name, facts in approvals.read_approvals(tmp_path / site).items():
                    if facts["decision"] is None:
                        approvals.decide(tmp_path / site, name, accept=True, by="the officer")
            time.sleep(0.05)
    status = runs.read_status(folder)
    assert status["state"] == "failed"
    assert "b: a person declined" in status["message"]
    net.close()


# --- The host -----------------------------------------------------------------------------------


def test_one_state_folder_serves_one_process_and_one_data_set(
    net: Loopback, tmp_path: Path, study_path: Path
) -> None:
    with pytest.raises(FederationError, match="another process uses"):
        net._open("a")
    net.hosts["a"].close()
    net._policy = POLICY.model_copy(update={"dataset": "other"})
    with pytest.raises(PolicyError, match="one folder per data set"):
        net._open("a")


def test_an_envelope_of_anybody_else_is_refused(net: Loopback) -> None:
    """Another site cannot speak for the coordinator, though its certificate is good."""
    body = to_bytes(m.JoinRequest(m.Header(2, "r", 0, "a", "x"), ("a",), False, "wait"))
    letter = Letter("ask", digest(body), body)
    forged = sign_letter(letter, sender=net.identity("b"), recipient="a")
    reply = read_signed(
        net.hosts["a"].receive(forged), trust=net._trust, sender="a", recipient=COORDINATOR
    )
    refusal = from_bytes(reply.body)
    assert isinstance(refusal, m.Refusal)
    assert refusal.code == "identity"
    for_b = sign_letter(letter, sender=net.identity(COORDINATOR), recipient="b")
    reply = read_signed(
        net.hosts["a"].receive(for_b), trust=net._trust, sender="a", recipient=COORDINATOR
    )
    assert from_bytes(reply.body).code == "identity"  # type: ignore[union-attr]


@pytest.mark.parametrize("envelope", [b"", b"\x00", b"\xc1" * 50, to_bytes.__doc__.encode()])  # type: ignore[union-attr]
def test_garbage_gets_a_coded_answer(net: Loopback, envelope: bytes) -> None:
    reply = read_signed(
        net.hosts["a"].receive(envelope), trust=net._trust, sender="a", recipient=COORDINATOR
    )
    refusal = from_bytes(reply.body)
    assert isinstance(refusal, m.Refusal)
    assert refusal.code == "unreadable"


def test_a_changed_letter_is_noticed(net: Loopback) -> None:
    letter = Letter("ask", "s", b"body")
    data = sign_letter(letter, sender=net.identity(COORDINATOR), recipient="a")
    assert read_signed(data, trust=net._trust, sender=COORDINATOR, recipient="a") == letter
    for changed in (data.replace(b"body", b"bodz"), data.replace(b"ask", b"poll"), data[:-1]):
        with pytest.raises(ProtocolError):
            read_signed(changed, trust=net._trust, sender=COORDINATOR, recipient="a")


def test_an_unknown_study_is_refused(net: Loopback) -> None:
    header = m.Header(m.PROTOCOL_VERSION, "r", 0, "a", "another")
    reply = from_bytes(net.hosts["a"].answer(to_bytes(m.GridRequest(header))))
    assert isinstance(reply, m.Refusal)
    assert reply.code == "study"


def test_a_slow_answer_is_polled_for(
    net: Loopback, study_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "PATIENCE", 0.01)
    folder = runs.submit(net.state, request(), study_path)
    serving.carry_out(folder, net.caller)
    assert found(folder) == expected(study_path)


@pytest.mark.parametrize("signed", [False, True])
def test_a_call_waits_no_longer_for_what_nobody_signed(net: Loopback, signed: bool) -> None:
    """A carrier answers once with 60 MB of rubbish: each call then waited ten minutes."""
    body = bytes(100_000_000 if signed else 60_000_000)
    answer = sign_letter(Letter("done", "x", body), sender=net.identity("a"), recipient=COORDINATOR)
    waits: list[float] = []

    def send(site: str, envelope: bytes, seconds: float) -> bytes:
        waits.append(seconds)
        return answer if signed else body

    caller = callers.Caller(send, net.identity(COORDINATOR), net._trust, COORDINATOR)
    for _ in range(2):
        caller._call("a", Letter("poll", "x"))
    most = callers.CALL_SECONDS + callers.SECONDS_PER_MB * callers.MOST_EXPECTED / 1e6
    assert waits[0] < callers.CALL_SECONDS + 1.0
    assert waits[1] == (most if signed else waits[0])


@pytest.mark.parametrize("trouble", ['{"expires": []}', '{"expires": {"a": "soon"}}', "full disk"])
def test_the_service_outlives_trouble_at_its_start(
    net: Loopback, study_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """A full disk or an odd file ended the service before its first run, without a word."""
    net.state.mkdir(exist_ok=True)
    if trouble == "full disk":
        real, failed = serving.write_json, threading.Event()

        def write_json(path: Path, facts: Any) -> None:
            if not failed.is_set():
                failed.set()
                raise OSError(28, "No space left on device")
            real(path, facts)

        monkeypatch.setattr(serving, "write_json", write_json)
        monkeypatch.setattr(serving, "AFTER_TROUBLE", 0.1)
    else:
        (net.state / "sites.json").write_text(trouble)
    with net.serving():
        end = time.monotonic() + 10
        while not _all_here(net.state) and time.monotonic() < end:
            time.sleep(0.05)
    assert _all_here(net.state)


def _all_here(state: Path) -> bool:
    sites = read_json(state / "sites.json").get("sites", {})
    return bool(sites) and all(sites.values())


def test_requests_are_plain_facts() -> None:
    facts = dataclasses.asdict(request())
    assert json.loads(json.dumps(facts))["sites"] == ["a", "b", "c"]
