"""A coordinator that asks at points of its own: the run's record gives it away."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from fedrulefit.core.newton import Newton
from fedrulefit.errors import FederationError, ProtocolError
from fedrulefit.federation import record as records
from fedrulefit.federation.audit import Audit, _same_facts, audit
from fedrulefit.federation.coordinator import runs, serving
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.record import write_record
from fedrulefit.federation.site.audits import AUDITS, note_audit
from fedrulefit.federation.site.remembered import run_memory
from fedrulefit.federation.site.status import read_site_status
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.study import Study
from tests.federations import write_study
from tests.loopback import COORDINATOR, POLICY, Loopback
from tests.samples import SOLVERS, make_frame, study_facts

FRAMES = {site: make_frame(120 + 10 * k, seed=k) for k, site in enumerate("abc")}


ELSEWHERE = """
import sys
from functools import partial
from pathlib import Path
import numpy as np
from fedrulefit.core import newton
from fedrulefit.federation.audit import audit
from fedrulefit.federation.site.remembered import run_memory
from fedrulefit.federation.journal import Journal
from fedrulefit.privacy.identity import Trust
record, journal, root, coordinator, twin = sys.argv[1:]
if twin == "exact":
    newton.near_coef = np.array_equal
    newton.Newton._is_flat = lambda solver, end: False
memory_of = partial(run_memory, Journal(Path(journal), read_only=True))
trust = Trust(bytes.fromhex(root))
found = audit(Path(record), site="a", memory_of=memory_of, trust=trust, coordinator=coordinator)
print(found.questions, *found.problems, sep="\\n")
"""


class Nudging(Coordinator):
    """Asks at a point a little beside the solver's: enough to read a difference."""

    nudge = 1e-7

    def _choose(self, solvers: Any) -> Any:
        queries = super()._choose(solvers)
        return [dataclasses.replace(query, end=query.end + self.nudge) for query in queries]


class Choosing(Coordinator):
    """Asks for the second derivatives of terms of its own choice."""

    def _choose(self, solvers: Any) -> Any:
        queries, every = super()._choose(solvers), np.arange(len(solvers[0].factors))
        more = [np.union1d(q.active, np.setdiff1d(every, q.active)[-2:]) for q in queries]
        return [dataclasses.replace(q, active=a) for q, a in zip(queries, more, strict=True)]


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Loopback]:
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), tmp_path / "study.toml")
    made = Loopback(tmp_path, FRAMES, Study.load(tmp_path / "study.toml"))
    yield made
    made.close()


def run(net: Loopback, tmp_path: Path, name: str = "first", **options: Any) -> Path:
    """Carry a run out; return its record."""
    request = runs.RunRequest(name, ("a", "b", "c"), wait=30.0, **options)
    folder = runs.submit(net.state, request, tmp_path / "study.toml")
    serving.carry_out(folder, net.caller)
    assert runs.read_status(folder)["state"] == "done", runs.read_status(folder)
    write_record(folder, tmp_path / "record.zip")
    return tmp_path / "record.zip"


def check(net: Loopback, record: Path, site: str = "a", **options: Any) -> Audit:
    return audit(
        record,
        site=site,
        memory_of=partial(run_memory, net.hosts[site]._journal),
        trust=net._trust,
        coordinator=COORDINATOR,
        **options,
    )


def check_elsewhere(net: Loopback, record: Path, twin: str = "") -> list[str]:
    """Audit on what computes like an older processor: other linear algebra, other last digits."""
    state = net.hosts["a"]._state / "journal.sqlite"
    arguments = [record, state, net._trust.root.hex(), COORDINATOR, twin]
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", ELSEWHERE, *map(str, arguments)],
        env={**os.environ, "OPENBLAS_CORETYPE": "Prescott"},
        capture_output=True,
        text=True,
        check=True,
    )
    questions, *problems = found.stdout.splitlines()
    assert int(questions) > 10
    return problems


def change(record: Path, edit: Any) -> None:
    """Change a record's journal, as its writer could."""
    folder = record.parent / "changed"
    with zipfile.ZipFile(record) as archive:
        archive.extractall(folder)
    journal = Journal(folder / "journal.sqlite")
    edit(journal)
    journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    journal.close()
    with zipfile.ZipFile(record, "w") as archive:
        for name in ("run.json", "study.toml", "journal.sqlite", "model.json"):
            if (folder / name).exists():
                archive.write(folder / name, name)


def test_an_honest_run_fits_its_record(net: Loopback, tmp_path: Path) -> None:
    record = run(net, tmp_path)
    assert record.stat().st_mode & 0o777 == 0o600
    for site in net.sites:
        found = check(net, record, site)
        assert found.problems == ()
        assert found.questions > 10
        assert found.replies == 3 * found.questions


def test_a_coordinator_that_asks_beside_the_solver_is_found_out(
    net: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sites cannot know the next point while they answer; afterwards they can.

    An audit that took every point for the solver's (the twin) would see nothing.
    """
    with monkeypatch.context() as patch:
        patch.setattr(serving, "Coordinator", Nudging)
        record = run(net, tmp_path)
    problems = check(net, record).problems
    assert problems
    assert "CurvatureRequest): the question does not follow from the study" in problems[0]
    assert "later steps" in problems[0]
    monkeypatch.setattr(Newton, "could_ask", lambda solver, query: True)
    assert check(net, record).problems == ()


@pytest.mark.parametrize(
    ("solver", "settings"),
    [("exact", {}), ("cv", {"drop_complements": False, "path_ratio": 1e-3, "n_trees": 30})],
)
def test_another_processor_accuses_nobody(
    tmp_path: Path, solver: str, settings: dict[str, Any]
) -> None:
    """Linear algebra differs between processors in the last digits; where rules cancel out, in
    the first. An audit that compared bits (the twin) would accuse an honest coordinator.
    """
    facts = study_facts(epsilon=1.0, **SOLVERS[solver] | settings)
    write_study(facts, tmp_path / "study.toml")
    net = Loopback(tmp_path, FRAMES, Study.load(tmp_path / "study.toml"))
    try:
        record = run(net, tmp_path)
        assert check_elsewhere(net, record) == []
        if platform.machine() in ("x86_64", "AMD64"):
            assert "does not follow" in check_elsewhere(net, record, "exact")[0]
    finally:
        net.close()


@pytest.mark.parametrize("nudge", [1e-4, 1e-7])
def test_another_processor_finds_nudges(
    net: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nudge: float
) -> None:
    monkeypatch.setattr(serving, "Coordinator", Nudging)
    monkeypatch.setattr(Nudging, "nudge", nudge)
    assert "does not follow" in check_elsewhere(net, run(net, tmp_path))[0]


def test_terms_are_not_active_by_choice(
    net: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Second derivatives tell of pairs of rules: a coordinator may not choose the pairs.

    An audit that did not look at the active terms (the twin) would see nothing.
    """
    with monkeypatch.context() as patch:
        patch.setattr(serving, "Coordinator", Choosing)
        record = run(net, tmp_path)
    assert "does not follow" in check(net, record).problems[0]
    monkeypatch.setattr(Newton, "_could_choose", lambda solver, active, coef: True)
    assert check(net, record).problems == ()


def test_a_run_that_is_not_finished_has_a_record(net: Loopback, tmp_path: Path) -> None:
    """A coordinator that never finishes cannot evade the audit; nor one that hides its last steps:
    the hospital knows how far it answered.
    """
    answer, left = net.hosts["b"].receive, [11]

    def fails(envelope: bytes) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            net.reachable.discard("b")
        return answer(envelope)

    net.hosts["b"].receive = fails  # type: ignore[method-assign]
    request = runs.RunRequest("first", ("a", "b", "c"), wait=0.3)
    folder = runs.submit(net.state, request, tmp_path / "study.toml")
    with pytest.raises(FederationError, match="has not asked anything"):
        write_record(folder, tmp_path / "record.zip")
    serving.carry_out(folder, net.caller)
    assert runs.read_status(folder)["state"] == "failed"
    record = tmp_path / "record.zip"
    write_record(folder, record)
    for site in net.sites:
        found = check(net, record, site)
        assert (found.problems, found.finished, found.model) == ((), False, "")
        assert found.steps > 5

    def hide(journal: Journal) -> None:
        journal.section("run").put({f"asked/{found.steps}": None})

    change(record, hide)
    assert "what came after is not in it" in check(net, record).problems[-1]


def test_a_site_that_answered_is_not_lost(tmp_path: Path) -> None:
    """A coordinator that calls an answer lost can ask the others again without that hospital.

    The hospital knows that it answered.
    """
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), tmp_path / "study.toml")
    policy = Policy(allow=OPEN.allow, dropouts="continue")
    net = Loopback(tmp_path, FRAMES, Study.load(tmp_path / "study.toml"), policy)
    try:
        record = run(net, tmp_path, dropouts="continue")
        assert check(net, record).problems == ()

        def lose(journal: Journal) -> None:
            steps = journal.section("run")
            kept = msgpack.unpackb(steps.get("step/3") or b"")
            del kept["a"]
            steps.put({"step/3": msgpack.packb(kept)})

        change(record, lose)
        problems = check(net, record).problems
        assert any("answered, but the record calls it lost" in each for each in problems)
        assert not any("calls it lost" in each for each in check(net, record, "b").problems)
    finally:
        net.close()


def test_a_hospital_that_asks_for_audits_joins_no_run_before(tmp_path: Path) -> None:
    """A coordinator that gives no record leads no second run. A policy that only tells (the twin)
    lets it.
    """
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), tmp_path / "study.toml")
    policy = Policy(allow=OPEN.allow, audits="require")
    net = Loopback(tmp_path, FRAMES, Study.load(tmp_path / "study.toml"), policy)
    try:
        record = run(net, tmp_path)
        request = runs.RunRequest("second", ("a", "b", "c"), wait=30.0)
        folder = runs.submit(net.state, request, tmp_path / "study.toml")
        serving.carry_out(folder, net.caller)
        told = runs.read_status(folder)
        assert told["state"] == "failed"
        assert "audit of earlier runs first (first)" in told["message"]
        for site, host in net.hosts.items():
            (said,) = read_site_status(host._state)["runs"]
            assert said["audit"].endswith("sums answered, never audited")
            found = check(net, record, site)
            key = {"study": found.study, "run": found.run}
            note_audit(host._state, record, **key, step=found.answered - 1)
            assert read_site_status(host._state)["runs"][0]["audit"].endswith("never audited")
            note_audit(host._state, record, **key, step=found.answered)
            assert read_site_status(host._state)["runs"][0]["audit"].endswith(", audited")
            assert (host._state / AUDITS).stat().st_mode & 0o777 == 0o600
        runs.resume(net.state, "second")
        serving.carry_out(folder, net.caller)
        assert runs.read_status(folder)["state"] == "done"
        (net.hosts["a"]._state / AUDITS).write_text("[1]")
        with pytest.raises(ProtocolError, match="cannot be read"):
            net.hosts["a"]._check_audits()
        (net.hosts["a"]._state / AUDITS).unlink()
        for host in net.hosts.values():
            host._policy = POLICY
        run(net, tmp_path, "third")
    finally:
        net.close()


def test_a_record_made_to_fit_lacks_the_sites_signatures(net: Loopback, tmp_path: Path) -> None:
    """To justify its points, a coordinator would have to change what the sites answered."""
    record = run(net, tmp_path)

    def forge(journal: Journal) -> None:
        steps = journal.section("run")
        kept = msgpack.unpackb(steps.get("step/3") or b"")
        kept["b"] = kept["b"].replace(b"discrete", b"disCrete")
        steps.put({"step/3": msgpack.packb(kept)})

    change(record, forge)
    problems = check(net, record).problems
    assert any("the reply of 'b' is not its own" in problem for problem in problems)


def test_requests_that_are_not_in_the_record_are_missed(net: Loopback, tmp_path: Path) -> None:
    record = run(net, tmp_path)
    memory = run_memory(net.hosts["a"]._journal, net._study.digest, "first")
    place = msgpack.unpackb(memory.get("place") or b"")
    memory.put({"place": msgpack.packb([place[0] + 2, *place[1:]])})
    assert "what came after is not in it" in check(net, record).problems[-1]

    def cut(journal: Journal) -> None:
        journal.section("run").put({"step/9": None})

    change(record, cut)
    assert "without a model" in check(net, record).problems[-1]


def test_another_model_than_the_replies_lead_to(net: Loopback, tmp_path: Path) -> None:
    record = run(net, tmp_path)
    folder = runs.run_folder(net.state, "first")
    facts = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**facts, "intercept": facts["intercept"] + 0.5}))
    write_record(folder, record)
    assert "not the one that the replies lead to" in check(net, record).problems[-1]
    (tmp_path / "given.json").write_text(json.dumps(facts))
    given = check(net, record, model=tmp_path / "given.json")
    assert given.problems == ()
    assert given.model == hashlib.sha256((tmp_path / "given.json").read_bytes()).hexdigest()


def test_numbers_of_a_model_may_differ_in_their_last_digit_only() -> None:
    told = {"objective": 0.5123, "coefficient": 0.25, "terms": [{"inside": 40.0}], "software": 1}
    for other, same in (
        ({"objective": 0.5124, "software": 2}, True),
        ({"objective": 0.5125}, False),
        ({"coefficient": 0.2500000001}, False),
        ({"terms": [{"inside": 45.0}]}, False),
        ({"terms": []}, False),
    ):
        assert _same_facts("", told, told | other) is same


def test_what_is_not_a_record(net: Loopback, tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"PK")
    with pytest.raises(FederationError, match="not the record of a run"):
        check(net, tmp_path / "no.zip")
    with pytest.raises(FederationError, match="there is no run 'frist'; there are: none"):
        write_record(runs.run_folder(net.state, "frist"), tmp_path / "none.zip")
    record = run(net, tmp_path)
    other = Journal(tmp_path / "other" / "journal.sqlite")
    with pytest.raises(FederationError, match="remembers no run 'first'"):
        audit(
            record,
            site="a",
            memory_of=partial(run_memory, other),
            trust=net._trust,
            coordinator=COORDINATOR,
        )
    other.close()


# --- Records that are bombs -----------------------------------------------------------------------


def parts_of(record: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(record) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_parts(record: Path, parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(record, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def test_a_record_that_unfolds_is_refused_before_it_is_unpacked(
    net: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of a megabyte held 1.5 GB of ``run.json``, or of a journal of nothing.

    The twin allows as much as before, and unpacks it.
    """
    record = run(net, tmp_path)
    parts = parts_of(record)
    for name, size in (("run.json", 2 * 10**6), ("study.toml", 2 * 10**6)):
        write_parts(record, {**parts, name: parts[name] + b"\n" * size})
        with pytest.raises(FederationError, match=f"its {name} would take"):
            check(net, record)
        with monkeypatch.context() as patch:
            patch.setattr(records, "_check_entry", lambda entry: None)
            with records.unpacked(record) as folder:
                assert (folder / name).stat().st_size > size
    write_parts(record, {**parts, "journal.sqlite": bytes(10**8)})
    with pytest.raises(FederationError, match=r"its journal\.sqlite would take"):
        check(net, record)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[]", "5", '{"run": "r", "sites": 5}', '{"run": 1, "sites": ["a"]}', "{}"],
    ids=["deep", "list", "number", "sites", "name", "nothing"],
)
def test_a_request_that_is_none_is_no_record(net: Loopback, tmp_path: Path, text: str) -> None:
    files = dict.fromkeys(records.FILES, b"")
    write_parts(tmp_path / "r.zip", {**files, "run.json": text.encode()})
    with pytest.raises(FederationError, match="not the record of a run"):
        check(net, tmp_path / "r.zip")


def test_locked_and_oddly_packed_records_are_refused(net: Loopback, tmp_path: Path) -> None:
    """An encrypted entry, or one of an unknown method, ended the program with a traceback."""
    record = tmp_path / "r.zip"
    files = dict.fromkeys(records.FILES, b"x")
    write_parts(record, files, zipfile.ZIP_BZIP2)
    with pytest.raises(FederationError, match="packed in an unknown way"):
        check(net, record)
    for local, central, value in ((6, 8, 1), (8, 10, 77)):
        write_parts(record, files)
        data = bytearray(record.read_bytes())
        for mark, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
            data[data.index(mark) + offset] = value
        record.write_bytes(data)
        with pytest.raises(FederationError, match="encrypted, or packed in an unknown way"):
            check(net, record)


ENTRIES = "(section TEXT, key TEXT, value BLOB{}, PRIMARY KEY (section, key)) WITHOUT ROWID"


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE VIEW entries AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
        "SELECT 'run' AS section, 'step/' || n AS key, x'00' AS value FROM c WHERE n < 0",
        f"CREATE TABLE entries {ENTRIES.format(' AS (zeroblob(900000000))')}",
        f"CREATE TABLE entries {ENTRIES.format('')}; CREATE TABLE other (a)",
        "CREATE TABLE other (a)",
        "",
    ],
    ids=["endless view", "computed column", "second table", "other table", "empty"],
)
def test_a_journal_that_is_a_program_is_not_run(tmp_path: Path, schema: str) -> None:
    """A view in the place of the table never ended, or gave a gigabyte for each entry."""
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as made:
        made.executescript(schema)
    made.close()
    with pytest.raises(FederationError, match="is not a journal"):
        Journal(path, read_only=True)


def test_entries_that_nobody_wrote_are_refused(net: Loopback, tmp_path: Path) -> None:
    """A number in the place of bytes asked for as many; a step of tiny lists took gigabytes."""
    record = run(net, tmp_path)

    def put_number(journal: Journal) -> None:
        journal._connection.execute("UPDATE entries SET value = 1000000000000 WHERE key = 'step/0'")

    def put_lists(journal: Journal) -> None:
        lists = b"\x81\xa1a\xdd" + (10**6).to_bytes(4, "big") + b"\x90" * 10**6
        journal.section("run").put({"step/0": lists})

    for edit, words in ((put_number, "not one of fedrulefit's"), (put_lists, "not readable")):
        change(record, edit)
        assert any(words in problem for problem in check(net, record).problems)


def test_signatures_that_are_none_are_told(net: Loopback, tmp_path: Path) -> None:
    record = run(net, tmp_path)

    def spoil(journal: Journal) -> None:
        journal._connection.execute(
            "UPDATE entries SET value = x'90' WHERE section = ?", (serving.SIGNATURES,)
        )

    change(record, spoil)
    found = check(net, record)
    assert found.replies == 0
    assert "its signature is not readable" in found.problems[0]
