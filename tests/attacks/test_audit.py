"""A coordinator that asks at points of its own: the run's record gives it away."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import pytest

from fedrulefit.engines import audit as audits
from fedrulefit.engines import runs
from fedrulefit.engines.audit import Audit, audit, write_record
from fedrulefit.engines.host import run_memory
from fedrulefit.engines.journal import Journal
from fedrulefit.errors import FederationError
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.study import Study
from tests.federations import write_study
from tests.loopback import COORDINATOR, Loopback
from tests.samples import SOLVERS, make_frame, study_facts

FRAMES = {site: make_frame(120 + 10 * k, seed=k) for k, site in enumerate("abc")}


class Nudging(Coordinator):
    """Asks at a point a little beside the solver's: enough to read a difference."""

    def _evaluate(self, queries: Any, n_terms: int) -> Any:
        moved = [dataclasses.replace(query, end=query.end + 1e-7) for query in queries]
        return (yield from super()._evaluate(moved, n_terms))


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Loopback]:
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), tmp_path / "study.toml")
    made = Loopback(tmp_path, FRAMES, Study.load(tmp_path / "study.toml"))
    yield made
    made.close()


def run(net: Loopback, tmp_path: Path) -> Path:
    """Carry a run out; return its record."""
    request = runs.RunRequest("first", ("a", "b", "c"), wait=30.0)
    folder = runs.submit(net.state, request, tmp_path / "study.toml")
    runs.carry_out(folder, net.caller)
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

    An audit that led the run as that coordinator did (the twin) would see nothing.
    """
    with monkeypatch.context() as patch:
        patch.setattr(runs, "Coordinator", Nudging)
        record = run(net, tmp_path)
    problems = check(net, record).problems
    assert problems
    assert "CurvatureRequest): this hospital was asked something else" in problems[0]
    assert "later steps" in problems[0]
    monkeypatch.setattr("fedrulefit.engines.audit.Coordinator", Nudging)
    assert check(net, record).problems == ()


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


def test_what_is_not_a_record(net: Loopback, tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"PK")
    with pytest.raises(FederationError, match="not the record of a run"):
        check(net, tmp_path / "no.zip")
    with pytest.raises(FederationError, match="there is no run 'frist'; there are: none"):
        write_record(runs.run_folder(net.state, "frist"), tmp_path / "none.zip")
    record = run(net, tmp_path)
    (runs.run_folder(net.state, "first") / "model.json").unlink()
    with pytest.raises(FederationError, match="no model yet"):
        write_record(runs.run_folder(net.state, "first"), tmp_path / "none.zip")
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
            patch.setattr(audits, "_check_entry", lambda entry: None)
            with audits._unpacked(record) as folder:
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
    files = dict.fromkeys(audits.FILES, b"")
    write_parts(tmp_path / "r.zip", {**files, "run.json": text.encode()})
    with pytest.raises(FederationError, match="not the record of a run"):
        check(net, tmp_path / "r.zip")


def test_locked_and_oddly_packed_records_are_refused(net: Loopback, tmp_path: Path) -> None:
    """An encrypted entry, or one of an unknown method, ended the program with a traceback."""
    record = tmp_path / "r.zip"
    files = dict.fromkeys(audits.FILES, b"x")
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
            "UPDATE entries SET value = x'90' WHERE section = ?", (runs.SIGNATURES,)
        )

    change(record, spoil)
    found = check(net, record)
    assert found.replies == 0
    assert "its signature is not readable" in found.problems[0]
