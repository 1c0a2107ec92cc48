"""Nobody makes a site or a coordinator run out of memory or time, or wait for ever.

Each test tells an attack. It succeeds against a twin whose limit is lifted, on a scale that
costs nothing here, and fails against the real code.
"""

from __future__ import annotations

import copy
import io
import os
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import msgpack
import numpy as np
import pytest
from rich.console import Console

from fedrulefit.cli.runs import _status_lines
from fedrulefit.core import newton
from fedrulefit.core.boosting import draw_leaf_counts
from fedrulefit.core.curvature import Query
from fedrulefit.core.cutoffs import estimate_grid
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.rules import Condition, Rule, cutoff_rules, interval
from fedrulefit.engines.drive import Status, drive
from fedrulefit.errors import DataError, FitError, ModelFileError, ProtocolError
from fedrulefit.federation import envelope
from fedrulefit.federation.coordinator import runs, serving
from fedrulefit.federation.envelope import Letter, read_signed, sign_letter
from fedrulefit.model.file import build_model, model_facts
from fedrulefit.protocol import messages as m
from fedrulefit.protocol import wire
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.coordinator.agreeing import _check_sent
from fedrulefit.protocol.messages import fit as fit_messages
from fedrulefit.protocol.solver_settings import most_rules
from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table
from fedrulefit.table.findings import UnreadableError
from fedrulefit.table.size_limit import table_limit
from fedrulefit.table.sources import read_columns
from tests.loopback import COORDINATOR, Loopback
from tests.oracles import YES_NO
from tests.samples import (
    SOLVERS,
    Talk,
    fit_model,
    make_frame,
    make_sites,
    make_study,
    make_tables,
)

HEADER = m.Header(m.PROTOCOL_VERSION, "run", 3, "north", "ab" * 32)
MB = 10**6


def peak_of(work: Callable[[], object]) -> int:
    """Return the most memory that `work` takes; it may refuse."""
    tracemalloc.start()
    try:
        work()
    except ProtocolError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def memory_of(code: str, *arguments: object, limit: str = "") -> tuple[int, str]:
    """Run code in a process of its own; return the bytes it took beyond its imports, its words."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the most memory of a process is only known on Linux")
    head = (
        "import re, sys\n"
        "import duckdb\n"
        "from pathlib import Path\n"
        "from fedrulefit.errors import FedRuleFitError\n"
        "from fedrulefit.table.sources import read_columns\n"
        "from fedrulefit.model import Model\n"
        "from fedrulefit.protocol.wire import from_bytes\n"
        "from tests.attacks.test_availability import filled\n"
        "def most():\n"
        "    text = Path('/proc/self/status').read_text()\n"
        "    return 1024 * int(re.search(r'VmHWM:\\s+(\\d+)', text)[1])\n"
        "before = most()\n"
        "try:\n"
        f"    {code}\n"
        "except FedRuleFitError as error:\n"
        "    print(error)\n"
        "print(most() - before)\n"
    )
    environment = {**os.environ, **({"FEDRULEFIT_MAX_TABLE_MB": limit} if limit else {})}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", head, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=environment,
    )
    *words, taken = done.stdout.splitlines()
    return int(taken), "\n".join(words)


# --- messages -----------------------------------------------------------------------------------


def filled(field: str, item: bytes, n: int) -> bytes:
    """Return a request for a join in which one field holds `n` tiny parts."""
    facts = msgpack.unpackb(wire.to_bytes(m.JoinRequest(HEADER, ("north",), True, "wait")))
    parts = [msgpack.packb(name) + msgpack.packb(value) for name, value in facts.items()]
    place = list(facts).index(field)
    parts[place] = msgpack.packb(field) + b"\xdd" + struct.pack(">I", n) + item * n
    return bytes([0x80 + len(parts)]) + b"".join(parts)


def deep(n: int) -> bytes:
    """Return lists of lists of lists, four at a time."""
    return b"\x81\xa1a" + b"\x94\xc0\xc0\xc0" * n + b"\xc0"


def decode_as_before(data: bytes) -> object:
    """Build all that the sender wrote, and only then look at it."""
    return msgpack.unpackb(
        data, raw=False, max_str_len=100_000, max_ext_len=0, max_array_len=10**6, max_map_len=64
    )


N = 500_000
TINY = {
    "lists": filled("sites", b"\x90", N),
    "maps": filled("sites", b"\x80", N),
    "texts": filled("sites", b"\xa2\xce\xb1", N),
    "lists in the header": filled("header", b"\x91\x90", N),
}


@pytest.mark.parametrize("name", TINY)
def test_a_message_of_many_tiny_parts_takes_little_memory(name: str) -> None:
    """One byte on the wire became 72 in memory, before anything looked at it.

    32 MB were enough for 2.2 GiB, and anybody who can send a message can send these.
    """
    data = TINY[name]
    assert peak_of(lambda: decode_as_before(data)) > 15 * len(data)  # the twin
    assert peak_of(lambda: wire.from_bytes(data)) < 4 * len(data) + MB
    with pytest.raises(ProtocolError):
        wire.from_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        deep(100_000),
        b"\x91" * MB,
        b"\xdd\xff\xff\xff\xff" * 1000,
        b"\x81\xa4type\xdb\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff" + b"\xa1a\xc0" * 1000,
        b"\xdf\x00\x10\x00\x00" + b"\xa1a\xc0" * 2**20,
    ],
)
def test_declared_lengths_and_depths_cost_nothing(data: bytes) -> None:
    """A few bytes that promise gigabytes, or lists in lists without end."""
    assert peak_of(lambda: wire.from_bytes(data)) < 4 * len(data) + MB
    with pytest.raises(ProtocolError):
        wire.from_bytes(data)


def test_decoding_stays_within_its_limit_in_a_process_of_its_own() -> None:
    """The attack in full: 32 MB of empty lists, in a process of its own."""
    data = "filled('sites', b'\\x90', 32_000_000)"
    needed, words = memory_of(f"from_bytes({data})")
    assert "over the limit" in words
    assert needed < 4 * 32 * MB


@pytest.mark.parametrize(
    "message", [m.Refusal(HEADER, "x", "y"), m.JoinReply(HEADER, "1", 2, 5, 10)]
)
def test_a_message_without_numbers_is_small(message: m.Reply) -> None:
    """A refusal of a hundred megabytes: only what holds arrays or rules may be long."""
    facts = msgpack.unpackb(wire.to_bytes(message))
    padded = msgpack.packb({**facts, "more": bytes(2 * MB)})
    with pytest.raises(ProtocolError, match=f"over the limit of {wire.SMALL_BYTES}"):
        wire.from_bytes(padded)


def test_rules_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of millions of rules: two bytes each on the wire, 200 in memory.

    The twin counts nothing, and builds them all.
    """
    rules = tuple(Rule((Condition(0, 1),)) for _ in range(3000))
    data = wire.to_bytes(m.RulesReply(HEADER, (), (rules,) * 10, b""))
    monkeypatch.setattr(wire, "MAX_ITEMS", 10_000)
    built: list[Any] = []
    monkeypatch.setattr(wire, "Rule", lambda conditions: built.append(1) or Rule(conditions))
    with pytest.raises(ProtocolError, match="over 10000 parts"):
        wire.from_bytes(data)
    assert len(built) <= 5_000
    monkeypatch.setattr(wire, "MAX_ITEMS", 10**9)  # the twin
    wire.from_bytes(data)
    assert len(built) >= 30_000


def test_an_array_is_made_once_its_bytes_are_there() -> None:
    """An array that claims 2⁴⁰ numbers, or more than it brings."""
    facts = msgpack.unpackb(wire.to_bytes(m.SumReply(HEADER, True, np.arange(3))))
    for shape in (2**40, 4, 2, -3):
        data = msgpack.packb({**facts, "numbers": ["<i8", [shape], bytes(24)]})
        assert peak_of(lambda data=data: wire.from_bytes(data)) < MB  # type: ignore[misc]
        with pytest.raises(ProtocolError, match="does not fit its bytes"):
            wire.from_bytes(data)


def test_an_envelope_holds_no_lists() -> None:
    """Anybody who reaches the port can send an envelope, before any signature is checked."""

    def nest(depth: int) -> list[Any]:
        return [] if depth == 0 else [nest(depth - 1)] * 8

    data = msgpack.packb(["done", "", nest(6), "", b"", b""])
    before = peak_of(lambda: msgpack.unpackb(data, max_array_len=8))
    after = peak_of(lambda: envelope.unpack_parts(data, 6))
    assert before > 15 * len(data)
    assert after < 2 * len(data) + 10_000
    assert envelope.unpack_parts(data, 6) is None
    honest = msgpack.packb(["done", "s", b"b", "i", b"c", b"g"])
    assert envelope.unpack_parts(honest, 6) is not None


# --- rules and active terms ---------------------------------------------------------------------


def grid_of(n_features: int) -> Grid:
    """Return a grid of numbers with every cut-off that codes allow."""
    axis = Axis("number", np.arange(1.0, 200.0), 200, True, (0.0, 200.0), 50.0, 100.0, 100.0)
    return Grid((axis,) * n_features)


def many_rules(n: int) -> tuple[Rule, ...]:
    """Return different rules of two conditions on the grid."""
    places = ((1 + k // 199**2, 1 + k // 199 % 199, 1 + k % 199) for k in range(n))
    return tuple(
        Rule((Condition(0, interval(0, a)), Condition(feature, interval(0, b))))
        for feature, a, b in places
    )


def test_a_site_s_flood_of_rules_is_refused_at_once_and_by_name() -> None:
    """One site sends 150,000 rules: the run ended after 47 s, and all sites were blamed.

    The twin takes as many as come.
    """
    settings = make_study(**SOLVERS["exact"]).settings
    most = most_rules(settings)
    grid = grid_of(8)
    reply = m.RulesReply(replace(HEADER, site="mallory"), many_rules(150_000), (), b"")
    started = time.monotonic()
    with pytest.raises(ProtocolError, match=f"site 'mallory' sent 150000 rules.* {most} at most"):
        _check_sent(reply, 0, grid, most)
    assert time.monotonic() - started < 1.0
    _check_sent(reply, 0, grid, 10**9)  # the twin


def test_rules_hidden_in_folds_count_as_well() -> None:
    """Each list is short enough, but the folds' together are not."""
    rules = many_rules(900)
    reply = m.RulesReply(
        replace(HEADER, site="mallory"), rules[:300], (rules[300:600], rules[600:]), b""
    )
    with pytest.raises(ProtocolError, match="'mallory' sent 900 rules"):
        _check_sent(reply, 2, grid_of(8), 500)
    _check_sent(reply, 2, grid_of(8), 900)


def test_rules_that_collide_are_refused_before_they_are_hashed_together() -> None:
    """Sets of levels that are equal modulo 2⁶¹ − 1 have one hash: sets of them are slow."""
    grid = Grid((Axis("category", np.empty(0), 200, True),))
    alike = tuple(Rule((Condition(0, 1 + k * (2**61 - 1)),)) for k in range(3000))
    assert len({hash(rule) for rule in alike}) == 1
    reply = m.RulesReply(replace(HEADER, site="mallory"), alike, (), b"")
    with pytest.raises(ProtocolError, match="'mallory': rules are repeated, or made to collide"):
        _check_sent(reply, 0, grid, 10**6)


def test_honest_trees_give_fewer_rules_than_the_cap() -> None:
    """The cap is public, and no honest site meets it: not by chance, nor with few large trees."""
    rng = np.random.default_rng(0)
    for n_trees, mean_leaves in ((1, 2.0), (1, 500.0), (20, 4.0), (333, 4.0), (50, 60.0)):
        study = make_study(n_trees=n_trees, mean_leaves=mean_leaves)
        nodes = [2 * (draw_leaf_counts(n_trees, mean_leaves, rng) - 1).sum() for _ in range(200)]
        assert max(nodes) <= most_rules(study.settings)


def asked_for(n_active: int) -> m.Reply:
    """Ask a site for curvature of many terms, with a query that names many terms."""
    study = make_study(**{**SOLVERS["exact"], "max_active": 5})
    site = make_sites(study, secure=False)["north"]
    talk = Talk(site)
    talk.ask(m.JoinRequest, sites=("north",), secure=False, dropouts="wait")
    counts = talk.ask(m.GridRequest).counts
    grid = estimate_grid(
        counts, study.bins, n_cutoffs=32, winsor=0.0, repair="clip", centre=True, spreads=None
    )
    talk.ask(m.RulesRequest, grid=grid)
    built: m.Reply = talk.ask(m.TermsRequest, rules=tuple(cutoff_rules(grid)))
    if isinstance(built, m.Refusal):
        return built
    n_terms = talk.site.patients.design.n_terms
    terms = np.arange(n_terms)
    query = Query(-1, terms, np.zeros(n_terms), np.zeros(n_terms), np.arange(n_active))
    reply: m.Reply = talk.ask(m.CurvatureRequest, queries=(query,))
    return reply


def test_a_query_does_not_raise_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that names many terms was answered for as many active ones.

    The study said 300; 6,000 were answered, and 40,000 ended the site for want of memory.
    """
    monkeypatch.setattr(newton, "MAX_ACTIVE", 20)
    reply = asked_for(40)
    assert isinstance(reply, m.Refusal)
    assert "more active terms than the study allows, which is 20" in reply.reason
    monkeypatch.setattr(newton, "MAX_ACTIVE", 10**9)  # the twin
    assert isinstance(asked_for(40), m.SumReply)


def test_what_an_answer_would_take_is_known_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory follows from public numbers: points, terms and active terms."""
    monkeypatch.setattr(fit_messages, "MAX_NUMBERS", 12)
    monkeypatch.setattr(fit_messages, "sum_curvature", None)
    reply = asked_for(6)
    assert isinstance(reply, m.Refusal)
    assert "over the limit" in reply.reason


def test_the_solver_never_asks_for_more_than_sites_answer() -> None:
    """Whatever has a coefficient: the room is that of the sites, or the fit ends in words."""
    for must in (1, 290, 1900, newton.MAX_ACTIVE):
        room = newton.active_room(must, 300)
        assert must <= room <= newton.MAX_ACTIVE
    factors = np.zeros(newton.MAX_ACTIVE + 1)
    with pytest.raises(FitError, match=r"2001 terms have a coefficient.*raise 'penalty'"):
        newton.Newton(YES_NO, Layout.of_length(len(factors), 0), factors, 0.1)


# --- sites that do not answer -------------------------------------------------------------------


@pytest.fixture
def net(tmp_path: Path, study_path: Path) -> Iterator[Loopback]:
    frames = {site: make_frame(80, seed=k) for k, site in enumerate("abc")}
    made = Loopback(tmp_path, frames, Study.load(study_path))
    yield made
    made.close()


def stall(net: Loopback, site: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a site answer every question with "working"; return where the askings are counted."""
    send, n_asked = net._send, [0]

    def stalled(name: str, data: bytes, seconds: float) -> bytes | None:
        if name != site:
            return send(name, data, seconds)
        n_asked[0] += 1
        asked = read_signed(data, trust=net._trust, sender=COORDINATOR, recipient=site)
        letter = Letter("working", asked.subject)
        return sign_letter(letter, sender=net.identity(site), recipient=COORDINATOR)

    monkeypatch.setattr(net.caller, "_send", stalled)
    return n_asked


def test_a_site_that_works_for_ever_is_told_and_given_up(
    net: Loopback, study_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site says "working" to every question, and the run stands still without a word.

    Now the status names it, and a run that is told so gives it up like a lost site.
    """
    n_asked = stall(net, "b", monkeypatch)
    monkeypatch.setattr(serving, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(serving._Teller, "sign", note_minutes := NoteMinutes(serving._Teller.sign))
    request = runs.RunRequest("first", ("a", "b", "c"), give_up=0.5)
    folder = runs.submit(net.state, request, study_path)
    serving.carry_out(folder, net.caller)
    status = runs.read_status(folder)
    assert status["state"] == "failed"
    assert status["code"] == "given-up"
    assert "b was given up: no answer to one step" in status["message"]
    assert "a was" not in status["message"]
    assert max(note_minutes.waited["b"]) > 0.3
    assert n_asked[0] < 10, "however fast it answers, it is not asked all the time"
    assert runs.resume(net.state, "first") == folder


class NoteMinutes:
    """Passes a teller's signs on, and keeps how long was waited."""

    def __init__(self, sign: Callable[..., None]) -> None:
        self.sign, self.waited = sign, {site: [0.0] for site in "abc"}

    def __get__(self, teller: Any, _: type) -> Callable[..., None]:
        def sign(site: str, here: bool, waited: float) -> None:
            self.waited[site].append(waited)
            self.sign(teller, site, here, waited)

        return sign


def test_without_the_wish_to_give_up_a_run_waits_but_says_so(
    net: Loopback, study_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of before: only a person ends the wait. The status at least names the site."""
    n_asked = stall(net, "b", monkeypatch)
    monkeypatch.setattr(serving, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(serving.time, "monotonic", lambda real=time.monotonic: 600 * real())
    folder = runs.submit(net.state, runs.RunRequest("first", ("a", "b", "c")), study_path)
    thread = threading.Thread(target=serving.carry_out, args=(folder, net.caller), daemon=True)
    thread.start()
    end = time.time() + 20
    while time.time() < end and "b" not in runs.read_status(folder).get("slow", {}):
        time.sleep(0.05)
    status = runs.read_status(folder)
    assert n_asked[0] > 1
    assert status["state"] == "running"
    assert list(status["slow"]) == ["b"]
    shown = io.StringIO()
    Console(file=shown, width=200).print(_status_lines("first", status))
    assert "b has not answered for" in shown.getvalue()
    runs.stop(net.state, "first")
    thread.join(20)
    assert not thread.is_alive()


def test_a_site_that_answers_nonsense_is_named_and_given_up() -> None:
    """Nonsense from one site ended the run without a name; where it may, it now goes on."""
    study = make_study(n_trees=5, rounds=3)
    tables = make_tables(study, sizes=(50, 45, 40, 40))
    sites = make_sites(study, tables, secure=False)

    def exchange(requests: Mapping[str, bytes]) -> dict[str, bytes]:
        answers = {site: sites[site].answer(data) for site, data in requests.items()}
        return {**answers, "west": b"nonsense"} if "west" in requests else answers

    with pytest.raises(ProtocolError, match=r"west was given up: message.*3 times") as caught:
        drive(Coordinator(study, list(tables)), exchange)
    assert caught.value.code == "given-up"
    seen: list[Status] = []
    sites = make_sites(study, tables, secure=False)
    model = drive(
        Coordinator(study, list(tables), dropouts="continue"), exchange, on_status=seen.append
    )
    assert model.provenance.sites == ("east", "north", "south")
    assert seen[-1].given_up[0].startswith("west was given up")


def test_a_person_who_never_decides_is_given_up_as_well() -> None:
    """A site that says for ever that a person decides stalls a run just so."""
    study = make_study(n_trees=5, rounds=3)
    tables = make_tables(study, sizes=(50, 45, 40, 40))
    sites = make_sites(study, tables, secure=False)

    def exchange(requests: Mapping[str, bytes]) -> dict[str, bytes]:
        answers = {site: sites[site].answer(data) for site, data in requests.items()}
        if "west" in requests:
            header = wire.from_bytes(requests["west"]).header
            answers["west"] = wire.to_bytes(m.Refusal(header, "pending", "not decided yet"))
        return answers

    with pytest.raises(ProtocolError, match="west was given up: no answer to one step") as caught:
        drive(Coordinator(study, list(tables)), exchange, pause=0.01, give_up=0.1)
    assert caught.value.code == "given-up"


# --- files --------------------------------------------------------------------------------------

SOME = 10**6


def write_fat_parquet(path: Path, n_rows: int, n_letters: int) -> Path:
    """Write a table of a kilobyte that unfolds to `n_rows` · `n_letters` bytes."""
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT repeat('x', {n_letters}) AS ward, 1 AS died FROM range({n_rows})) "  # noqa: S608
            f"TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
        )
    assert path.stat().st_size < 10_000
    return path


READ = "read_columns(sys.argv[1], only={'ward', 'died'})"


def test_a_small_file_that_unfolds_is_refused_in_words(tmp_path: Path) -> None:
    """A 487 kB Parquet file took 10 GB in ``check``: one long text, repeated.

    The twin raises the limit, and takes what the file holds (here: 200 MB).
    """
    path = write_fat_parquet(tmp_path / "fat.parquet", 2_000, 100_000)
    taken, words = memory_of(READ, path, limit="100")
    assert "would take about 200 MB of memory, of at most 100 MB" in words
    assert "FEDRULEFIT_MAX_TABLE_MB" in words
    assert taken < 60 * MB
    taken, words = memory_of(READ, path, limit="1000")  # the twin
    assert not words
    assert taken > 190 * MB


def test_ten_gigabytes_in_a_kilobyte_are_refused_by_default(tmp_path: Path) -> None:
    """The attack in full, with the limit that holds where nobody raised it."""
    path = write_fat_parquet(tmp_path / "fat.parquet", 100_000, 100_000)
    study = make_study()
    started = time.monotonic()
    inspection = inspect_table(path, study)
    assert [finding.code for finding in inspection.errors] == ["too-large"]
    assert time.monotonic() - started < 10


def write_nested_parquet(path: Path, cell: str, n_rows: int) -> Path:
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {cell} AS ward FROM (SELECT repeat('x', 2_000_000) AS t), "  # noqa: S608
            f"range({n_rows})) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
        )
    return path


def test_a_nested_column_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    """A record of one long text, repeated, took 2.9 GB from 1.4 kB while it was measured."""
    path = write_nested_parquet(tmp_path / "nested.parquet", "{'a': t}", 200)
    taken, words = memory_of(READ, path, limit="100")
    assert "column 'ward': its cells in" in words
    assert "hold lists or records" in words
    assert taken < 60 * MB
    weak = (
        "import fedrulefit.table.parquet_file as p; p._refuse_nested = lambda *_: None; "
        f"p._LENGTH = 'sum(strlen({{0}}))'; {READ}"
    )
    taken, _ = memory_of(weak, path, limit="100")  # the twin
    assert taken > 200 * MB


@pytest.mark.parametrize("cell", ["[t]", "MAP {t: 1}", "[{'a': 1}]", "[1, 2]::INTEGER[2]"])
def test_lists_and_maps_are_refused(tmp_path: Path, cell: str) -> None:
    path = write_nested_parquet(tmp_path / "nested.parquet", cell, 2)
    with pytest.raises(UnreadableError, match="lists or records"):
        read_columns(path)
    assert read_columns(path, only={"died"}).names == ("ward",)


def test_one_wide_character_makes_a_text_four_times_as_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one emoji per text, a table of 190 MB took 760 MB."""
    path = tmp_path / "wide.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT repeat('x', 100_000) || chr(128512) AS ward FROM range(400)) "  # noqa: S608
            f"TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
        )
    line = "x" * 100_000
    plain, wide = tmp_path / "plain.csv", tmp_path / "wide.csv"
    plain.write_text("ward,died\n" + f"{line}é,1\n" * 400, encoding="utf-8-sig")
    wide.write_text("ward,died\n" + f"{line}\N{GRINNING FACE},1\n" * 400, encoding="utf-8-sig")
    monkeypatch.setenv("FEDRULEFIT_MAX_TABLE_MB", "100")
    assert read_columns(plain, only={"ward"}).n_rows == 400
    for each in (path, wide):
        with pytest.raises(UnreadableError, match="would take about 160 MB"):
            read_columns(each, only={"ward"})


def test_a_table_of_many_rows_is_refused(tmp_path: Path) -> None:
    """A constant column of hundreds of millions of rows takes a kilobyte on disk."""
    path = tmp_path / "long.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT 1 AS died, 'x' AS ward FROM range(3_000_000)) "  # noqa: S608
            f"TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 3_000_000)"
        )
    taken, words = memory_of(READ, path, limit="100")
    assert "of at most 100 MB" in words
    assert taken < 60 * MB


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ward,died\n" + "x" * 5 * MB + ",1\n", "long-line"),
        ("ward,died," + "y" * 5 * MB + "\n1,2,3\n", "long-line"),
        ("ward,died\n" + "1,2\n" * 400_000, "too-large"),
        ("ward,died," + ",".join(f"c{k}" for k in range(10_000)) + "\n", "too-large"),
    ],
    ids=["long cell", "long header", "many rows", "many columns"],
)
def test_a_csv_that_would_fill_the_memory_is_refused(
    tmp_path: Path, text: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines without end, very many rows, very many columns."""
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("FEDRULEFIT_MAX_TABLE_MB", "50")
    with pytest.raises(UnreadableError) as caught:
        read_columns(path, only={"ward", "died"})
    assert caught.value.finding.code == code


def test_the_limit_itself_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "much", "-3", "0", "1e3"):
        monkeypatch.setenv("FEDRULEFIT_MAX_TABLE_MB", text)
        with pytest.raises(DataError, match="must be a number of megabytes"):
            table_limit()


@cache
def small_model() -> dict[str, Any]:
    """Return the facts of a small model."""
    facts: dict[str, Any] = model_facts(fit_model(make_study()))
    return facts


@pytest.mark.parametrize(
    "text",
    ['{"format": "fedrulefit-model", "version": 1, "terms": [' + "[]," * SOME * 5 + "[]]}"],
)
def test_a_model_file_of_many_parts_is_refused(tmp_path: Path, text: str) -> None:
    """A 67 MB model file exhausted the memory: three bytes a list, and an error for each."""
    path = tmp_path / "model.json"
    path.write_text(text, encoding="utf-8")
    taken, words = memory_of("Model.load(sys.argv[1])", path)
    assert "values: not a model of fedrulefit" in words
    assert taken < 4 * len(text)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("terms", 0, "coefficient"), 1.7e308),
        (("terms", 0, "coefficient"), -301.0),
        (("intercept",), 1e6),
        (("terms", 0, "importance"), 1e300),
        (("provenance", "patients"), 1e300),
        (("grid", 0, "limits"), [0.0, 1e300]),
        (("provenance", "history"), [0.0] * 100_001),
        (("terms", 0, "path"), [0.0] * 1001),
    ],
)
def test_numbers_that_no_model_has_are_refused(place: tuple[Any, ...], value: Any) -> None:
    """A coefficient of 1.7e308 was loaded, and broke the report."""
    facts = copy.deepcopy(small_model())
    part = facts
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    with pytest.raises(ModelFileError, match="no model has"):
        build_model(facts)


def test_a_text_that_no_model_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study's name of 20 MB was loaded, and shown wherever the model was."""
    facts = copy.deepcopy(small_model())
    facts["study"]["name"] = "x" * 200_000
    with pytest.raises(ModelFileError, match="a text of 200000 characters"):
        build_model(facts)
    monkeypatch.setattr("fedrulefit.model.file.reading.MAX_TEXT", 10**9)  # the twin
    assert len(build_model(facts).study.name) == 200_000


def test_a_tiny_spread_does_not_make_an_infinite_odds_ratio() -> None:
    """The coefficient is small, but divided by a tiny spread it is beyond all numbers."""
    facts = copy.deepcopy(small_model())
    linear = next(term for term in facts["terms"] if term["kind"] == "linear")
    axis = next(axis for axis in facts["grid"] if axis["covariate"] == "sex")
    linear |= {"covariate": "sex", "coefficient": 10.0}
    axis["spread"] = 1e-3
    with pytest.raises(ModelFileError, match="too small for its limits"):
        build_model(facts)
