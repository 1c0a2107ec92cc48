"""A coordinator that asks at points of its own: the run's record gives it away."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import pytest

from fedrulefit.core.newton import Newton
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

    def _sum_curvature(self, queries: Any, bounds: Any) -> Any:
        moved = [dataclasses.replace(query, end=query.end + 1e-7) for query in queries]
        return (yield from super()._sum_curvature(moved, bounds))


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

    An audit that took every point for the solver's (the twin) would see nothing.
    """
    with monkeypatch.context() as patch:
        patch.setattr(runs, "Coordinator", Nudging)
        record = run(net, tmp_path)
    problems = check(net, record).problems
    assert problems
    assert "CurvatureRequest): the question does not follow from the study" in problems[0]
    assert "later steps" in problems[0]
    monkeypatch.setattr(Newton, "could_ask", lambda solver, query: True)
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
