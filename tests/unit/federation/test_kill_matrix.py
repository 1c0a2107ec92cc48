"""Killed with SIGKILL at any moment, a run ends with the same model, bit for bit.

Real processes (``tests/killable.py``): three sites and a coordinator, each killed at
every kind of message, in every phase of its answer, within one run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from fedrulefit.engines import inprocess
from fedrulefit.federation.journal import Journal
from fedrulefit.model.file import load_model, model_facts
from fedrulefit.privacy.ledger import Ledger, read_rows
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.wire import digest, from_bytes
from fedrulefit.table.patients import Table
from tests import killable
from tests.samples import SOLVERS, Talk, fit_model, make_study, make_tables

NAMES = ("north", "south", "west")
ROOT = Path(__file__).resolve().parents[3]
BEFORE = ("JoinRequest", "KeyRequest", "PeersRequest", "GridRequest", "SpreadsRequest",
          "RulesRequest", "TermsRequest")  # fmt: skip
AFTER = ("SlopesRequest", "SummaryRequest", "BetweenRequest", "EvaluateRequest", "OfferRequest",
         "ResultsRequest")  # fmt: skip
SITE_PHASES = ("unkept", "kept", "unsent")
POLICY = killable.policy_of({"dropouts": "wait"})
LEADER_PHASES = ("asking", "unkept", "kept")


def study_of(solver: str, outcome: str = "yes/no", **settings: Any) -> Any:
    small = {"n_trees": 5, "rounds": 3, "epsilon": 1.0, "spreads": "exact"}
    return make_study(
        outcome, **{**small, **SOLVERS[solver], "holdout": 0.2, "per_site": True, **settings}
    )


def kinds_of(solver: str, dropouts: str = "wait", outcome: str = "yes/no") -> tuple[str, ...]:
    fit = "DualRequest" if solver == "fedda" else "CurvatureRequest"
    opening = ("OpenRequest",) if dropouts == "continue" else ()
    learnt = ("DispersionRequest", "ShareDispersionRequest") * ("negative" in outcome)
    return (*BEFORE, fit, *learnt, *opening, *AFTER)


def full_plan(kinds: tuple[str, ...]) -> dict[str, list[tuple[str, str]]]:
    plan = {name: [(kind, phase) for kind in kinds for phase in SITE_PHASES] for name in NAMES}
    leader = [(kind, phase) for kind in kinds for phase in LEADER_PHASES]
    return {**plan, "coordinator": leader}


def run_processes(folder: Path) -> Counter[str]:
    """Run to the end; return how often each process died."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tests.killable", str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the group that we started
        process.communicate()
        raise
    assert process.returncode == 0, errors.decode()[-2000:]
    log = folder / "deaths.log"
    return Counter(log.read_text(encoding="utf-8").split() if log.exists() else [])


def facts(model: Any) -> dict[str, Any]:
    told = model_facts(model)
    told.pop("privacy")
    return told


def check_ledgers(folder: Path, answered: Mapping[int, Mapping[str, bytes]]) -> None:
    """Every release is recorded once, with the digest of the bytes that arrived."""
    for name in NAMES:
        rows = list(read_rows(folder / name / "ledger.jsonl"))
        told = [(row["step"], row["message"], row["quantity"]) for row in rows]
        assert len(told) == len(set(told))
        for row in rows:
            assert row["digest"] == digest(answered[row["step"]][name])


def journaled(folder: Path) -> dict[int, dict[str, bytes]]:
    memory = Journal(folder / "coordinator.db").section("run")
    steps: dict[int, dict[str, bytes]] = {}
    while (kept := memory.get(f"step/{len(steps)}")) is not None:
        steps[len(steps)] = msgpack.unpackb(kept)
    return steps


@pytest.mark.parametrize(
    ("solver", "dropouts", "outcome"),
    [
        ("fedda", "wait", "yes/no"),
        ("exact", "wait", "yes/no"),
        ("fedda", "continue", "yes/no"),
        ("exact", "wait", "time"),  # a baseline for each interval
        ("exact", "wait", "number"),  # no events to count
        ("exact", "wait", "count, negative binomial"),  # what is handed out between rounds
    ],
)
def test_every_process_is_killed_at_every_message(
    solver: str, dropouts: str, outcome: str, tmp_path: Path
) -> None:
    """With seeded noise the model is that of an undisturbed run."""
    study = study_of(solver, outcome)
    tables = make_tables(study, sizes=(50, 45, 40))
    kinds = kinds_of(solver, dropouts, outcome)
    plan = full_plan(kinds)
    killable.write_folder(tmp_path, study, tables, plan, seed=7, dropouts=dropouts)
    deaths = run_processes(tmp_path)
    assert deaths == {who: len(kills) for who, kills in plan.items()}
    whole = fit_model(study, tables, policy=POLICY, secure=True)
    model = load_model(tmp_path / "model.json")
    assert facts(model) == facts(whole)
    answered = journaled(tmp_path)
    assert {type(from_bytes(d["north"])).__name__ for d in answered.values()} >= {
        "JoinReply", "KeyReply", "PeersReply", "GridReply", "RulesReply", "SumReply",
    }  # fmt: skip
    check_ledgers(tmp_path, answered)


class Replayed:
    """Noise that gives the counts of a journaled reply."""

    private = True

    def __init__(self, reply: m.GridReply) -> None:
        self.name = reply.mechanism
        self.counts = reply.counts

    def add(self, counts: Any, *, sensitivity: int, epsilon: float) -> tuple[Any, float]:
        del sensitivity
        assert counts.shape == self.counts.shape, "the noise of all histograms is drawn at once"
        return self.counts, epsilon


def test_private_noise_is_drawn_once_and_billed_once(tmp_path: Path) -> None:
    """OpenDP's noise: whatever is killed, one histogram leaves each site, and ε = 5."""
    study = study_of("exact")
    tables = make_tables(study, sizes=(50, 45, 40))
    kills = [("GridRequest", phase) for phase in SITE_PHASES]
    leader = [("GridRequest", phase) for phase in LEADER_PHASES]
    plan = {**dict.fromkeys(NAMES, kills), "coordinator": leader}
    killable.write_folder(tmp_path, study, tables, plan, seed=None)
    assert run_processes(tmp_path) == dict.fromkeys([*NAMES, "coordinator"], 3)
    answered = journaled(tmp_path)
    check_ledgers(tmp_path, answered)
    (grid,) = [
        step for step in answered.values() if isinstance(from_bytes(step["north"]), m.GridReply)
    ]
    for name in NAMES:
        ledger = Ledger(tmp_path / name / "ledger.jsonl")
        assert ledger.epsilon == pytest.approx(5.0)
        histograms = [r for r in ledger.releases if r.message == "GridReply"]
        assert [r.digest for r in histograms] == [digest(grid[name])] * 5
    # The model is the one that these very histograms give.
    again = inprocess.fit(
        study,
        tables,
        policy=POLICY,
        secure=True,
        make_noise=lambda name: Replayed(from_bytes(grid[name])),  # type: ignore[arg-type]
    )
    assert facts(load_model(tmp_path / "model.json")) == facts(again.model)


def test_two_undisturbed_runs_of_the_processes_agree(tmp_path: Path) -> None:
    """The same harness without a death, so that the matrix compares like with like."""
    study = study_of("cv", path_length=4)
    tables = make_tables(study, sizes=(50, 45, 40))
    killable.write_folder(tmp_path, study, tables, {}, seed=7)
    assert run_processes(tmp_path) == {}
    whole = fit_model(study, tables, policy=POLICY, secure=True)
    assert facts(load_model(tmp_path / "model.json")) == facts(whole)


# --- a site and its disk, in one process ---------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three sites' files, and this process in it."""
    study = study_of("exact")
    killable.write_folder(tmp_path, study, make_tables(study, sizes=(50, 45, 40)), {}, seed=None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def restart(step: int = 0) -> Talk:
    return Talk(killable.make_site("north"), step=step)


def change_table(**changes: Any) -> None:
    table = killable.load_table("north")
    arrays = {"values": table.values, "outcome": table.outcome, "weights": table.weights}
    np.savez("north/table.npz", **{**arrays, **changes})


def changes_of(table: Table) -> dict[str, dict[str, Any]]:
    moved, flipped, weighed = table.values.copy(), table.outcome.copy(), table.weights.copy()  # type: ignore[union-attr]
    moved[3, 0] += 0.1
    flipped[5] = 1 - flipped[5]
    weighed[0] = 2.0
    return {
        "a value": {"values": moved},
        "a label": {"outcome": flipped},
        "a weight": {"weights": weighed},
        "the order": {"values": table.values[::-1], "outcome": flipped[::-1]},
        "a patient less": {
            "values": table.values[:-1],
            "outcome": table.outcome[:-1],  # type: ignore[index]
            "weights": table.weights[:-1],
        },
    }


@pytest.mark.parametrize("what", ["a value", "a label", "a weight", "the order", "a patient less"])
def test_data_that_changed_in_between_are_refused(home: Path, what: str) -> None:
    talk = restart()
    assert isinstance(talk.join(NAMES), m.JoinReply)
    original = killable.load_table("north")
    change_table(**changes_of(original)[what])
    changed = restart(step=1)
    for ask in (
        lambda: changed.ask(m.KeyRequest),
        lambda: changed.ask(m.GridRequest),
        lambda: changed.site.handle(m.KeyRequest(changed.header(step=0))),
    ):
        reply = ask()
        assert isinstance(reply, m.Refusal)
        assert reply.code == "data-changed"
    assert changed.site.ledger.releases == []
    change_table(values=original.values, outcome=original.outcome, weights=original.weights)
    assert isinstance(restart(step=1).ask(m.KeyRequest), m.KeyReply)


def test_a_restarted_site_keeps_its_key_and_its_place(home: Path) -> None:
    talk = restart()
    talk.join(NAMES)
    key = talk.ask(m.KeyRequest)
    again = restart(step=1).ask(m.KeyRequest)
    assert again.public == key.public
    other = restart(step=2)
    other.run = "another"
    refusal = other.ask(m.KeyRequest)
    assert isinstance(refusal, m.Refusal)
    assert refusal.code == "run"


def test_a_reply_that_could_not_be_recorded_does_not_leave(home: Path) -> None:
    """A full disk under the ledger: refused, and recorded once it has room again."""
    talk = restart()
    talk.join(NAMES)
    good = talk.site.ledger
    talk.site._diary.ledger = killable.NoLedger()
    for _ in range(2):
        reply = talk.ask(m.GridRequest)
        assert isinstance(reply, m.Refusal)
        assert reply.code == "internal"
        assert "space" not in reply.reason
    talk.site._diary.ledger = good
    first = talk.ask(m.GridRequest)
    assert isinstance(first, m.GridReply)
    assert good.epsilon == pytest.approx(5.0)
    assert len(good.releases) == 5


@pytest.mark.parametrize("n_whole", range(6))
def test_a_ledger_torn_within_one_message_is_completed(home: Path, n_whole: int) -> None:
    """A power cut in the middle of five rows: the message must not be billed in part."""
    talk = restart()
    talk.join(NAMES)
    request = m.GridRequest(talk.header())
    reply = talk.site.handle(request)
    path = home / "north" / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    torn = b"".join(lines[:n_whole]) + (lines[n_whole][:40] if n_whole < 5 else b"")
    path.write_bytes(torn)
    site: Site = restart().site
    again = site.handle(request)
    np.testing.assert_array_equal(again.counts, reply.counts)  # type: ignore[union-attr]
    assert site.ledger.epsilon == pytest.approx(5.0)
    assert [r.quantity for r in site.ledger.releases] == [
        json.loads(line)["quantity"] for line in lines
    ]
    assert len(list(read_rows(path))) == 5
