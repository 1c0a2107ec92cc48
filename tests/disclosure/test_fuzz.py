"""Hostile and broken messages: 10,000 to a site, 10,000 to the coordinator.

A seeded fuzzer changes valid messages of recorded runs. Whatever arrives, a site
answers with a reply, and the coordinator raises nothing but its own errors. What
is accepted says what its bytes say, in all fields; another version, study, run or
site is never accepted. (A number changed into another number is another question:
that the bytes are the coordinator's own is for the transport to see to.)
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
import pytest

from fedrulefit.engines.drive import drive
from fedrulefit.errors import FedRuleFitError, FitError, ProtocolError
from fedrulefit.model import Model
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.table.check import load_table
from fedrulefit.testing.samples import add_outcomes
from tests.samples import SOLVERS, make_frame, make_study

N_MESSAGES = 10_000
NAMES = ("north", "south", "west")
RUNS: dict[str, dict[str, Any]] = {
    "secure": {
        "rounds": 2,
        "spreads": "exact",
        "secure": True,
        "dropouts": "continue",
        "holdout": 0.3,
        "per_site": True,
    },
    "plain": {**SOLVERS["cv"], "path_length": 4, "secure": False, "dropouts": "wait"},
    **{
        outcome: {
            **SOLVERS["exact"],
            "outcome": outcome,
            "secure": secure,
            "dropouts": "wait",
            "holdout": 0.3,
            "per_site": True,
        }
        for outcome, secure in (("number", False), ("count", True), ("time", False))
    },
}

# --- the fuzzer ---------------------------------------------------------------------------------

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.0, -0.0, 1e308, -1e308,
    5e-324, float("nan"), float("inf"), float("-inf"), "", "x", "north", "south", "\0", "ü" * 300,
    b"", b"\0" * 8, b"\xff" * 32, [], {}, [[]], [{}], {"": None}, [None] * 5, [0] * 100,
    msgpack.ExtType(5, b"abc"), msgpack.Timestamp(0, 0),
    ["<f8", [1], b"\0" * 8], ["<i8", [1], b"\0" * 8], ["|O", [1], b"\0" * 8],
    {"conditions": []}, "wait", "continue",
]  # fmt: skip
LENGTHS = [b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"]
"""Marks of a list, map, bytes, text and extension whose length has 32 bits."""


def deep(depth: int) -> Any:
    nested: Any = 0
    for _ in range(depth):
        nested = [nested]
    return nested


class Fuzzer:
    """Changes messages; the same seed, the same changes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.by_bytes: list[Callable[[bytes], bytes]] = [
            self.flip_bits, self.set_byte, self.truncate, self.extend, self.insert, self.cut,
            self.double, self.huge_length, self.noise,
        ]  # fmt: skip
        self.by_parts: list[Callable[[Any], Any]] = [
            self.drop_field, self.rename_field, self.add_field, self.odd_value, self.odd_value,
            self.change_header, self.change_header, self.change_type, self.change_array,
            self.change_array, self.spoil_floats, self.bury,
        ]  # fmt: skip

    def mutate(self, data: bytes) -> bytes:
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            data = self._once(data)
        return data

    def _once(self, data: bytes) -> bytes:
        if self.rng.random() < 0.4:
            return self.rng.choice(self.by_bytes)(data)
        try:
            packed = msgpack.unpackb(data)
        except Exception:
            return self.rng.choice(self.by_bytes)(data)
        changed = self.rng.choice(self.by_parts)(packed)
        try:
            return bytes(msgpack.packb(changed))
        except (ValueError, OverflowError):
            return data[:-1]

    # Bytes

    def flip_bits(self, data: bytes) -> bytes:
        bad = bytearray(data)
        for _ in range(self.rng.choice([1, 1, 2, 8])):
            if bad:
                bad[self.rng.randrange(len(bad))] ^= 1 << self.rng.randrange(8)
        return bytes(bad)

    def set_byte(self, data: bytes) -> bytes:
        bad = bytearray(data or b"\0")
        bad[self.rng.randrange(len(bad))] = self.rng.choice([0, 0x7F, 0x80, 0xC0, 0xC1, 0xFF])
        return bytes(bad)

    def truncate(self, data: bytes) -> bytes:
        return data[: self.rng.randrange(len(data) + 1)]

    def extend(self, data: bytes) -> bytes:
        return data + self.rng.randbytes(self.rng.choice([1, 8, 100]))

    def insert(self, data: bytes) -> bytes:
        place = self.rng.randrange(len(data) + 1)
        return data[:place] + self.rng.randbytes(self.rng.choice([1, 4, 50])) + data[place:]

    def cut(self, data: bytes) -> bytes:
        a, b = sorted(self.rng.randrange(len(data) + 1) for _ in range(2))
        return data[:a] + data[b:]

    def double(self, data: bytes) -> bytes:
        a, b = sorted(self.rng.randrange(len(data) + 1) for _ in range(2))
        return data[:b] + data[a:b] + data[b:]

    def huge_length(self, data: bytes) -> bytes:
        place = self.rng.randrange(len(data) + 1)
        length = struct.pack(">I", self.rng.choice([2**32 - 1, 2**31, 2**28, 2**20]))
        return data[:place] + self.rng.choice(LENGTHS) + length + data[place + 1 :]

    def noise(self, data: bytes) -> bytes:
        return self.rng.randbytes(self.rng.randrange(200))

    # Parts

    def places(self, packed: Any) -> list[tuple[Any, Any]]:
        """Every (container, key) in a message."""
        found: list[tuple[Any, Any]] = []

        def walk(value: Any) -> None:
            keys = (
                value.keys() if isinstance(value, dict)
                else range(min(len(value), 40)) if isinstance(value, list) else ()
            )  # fmt: skip
            for key in keys:
                found.append((value, key))
                walk(value[key])

        walk(packed)
        return found

    def pick(self, packed: Any, fits: Callable[[Any, Any], bool]) -> tuple[Any, Any] | None:
        fitting = [place for place in self.places(packed) if fits(*place)]
        return self.rng.choice(fitting) if fitting else None

    def drop_field(self, packed: Any) -> Any:
        place = self.pick(packed, lambda box, key: True)
        if place:
            del place[0][place[1]]
        return packed

    def rename_field(self, packed: Any) -> Any:
        place = self.pick(packed, lambda box, key: isinstance(box, dict))
        if place:
            box, key = place
            box[self.rng.choice([f"{key}x", "", "__class__", "header", 3, b"key"])] = box.pop(key)
        return packed

    def add_field(self, packed: Any) -> Any:
        place = self.pick(packed, lambda box, key: isinstance(box, dict))
        if place:
            place[0][self.rng.choice(["more", "__init__", "fold", ""])] = self.rng.choice(ODD)
        return packed

    def odd_value(self, packed: Any) -> Any:
        place = self.pick(packed, lambda box, key: True)
        if place:
            place[0][place[1]] = self.rng.choice(ODD)
        return packed

    def change_header(self, packed: Any) -> Any:
        header = packed.get("header") if isinstance(packed, dict) else None
        if isinstance(header, dict) and header:
            key = self.rng.choice(sorted(map(str, header)))
            choices = {
                "version": [0, 1, 3, 10**6, -1],
                "run": ["", "other", "run ", "x" * 1000],
                "step": [-1, 0, 1, 3, 2**62, 10**6],
                "site": ["south", "", "North", "north "],
                "study": ["", "0" * 64, "x"],
            }
            header[key] = self.rng.choice([*choices.get(key, []), self.rng.choice(ODD)])
        return packed

    def change_type(self, packed: Any) -> Any:
        if isinstance(packed, dict):
            names = [cls.__name__ for cls in m.MESSAGES]
            packed["type"] = self.rng.choice([*names, "Header", "Peer", "Site", "object", 3, None])
        return packed

    def change_array(self, packed: Any) -> Any:
        place = self.pick(packed, lambda box, key: is_array(box[key]))
        if place:
            array = list(place[0][place[1]])
            _, shape, raw = array
            what = self.rng.randrange(3)
            n = shape[0] if shape and isinstance(shape[0], int) else 1
            if what == 0:
                array[0] = self.rng.choice(["<f4", ">f8", "<i8", "<f8", "|O", "<U8", "", 7, None])
            elif what == 1:
                array[1] = self.rng.choice(
                    [[n + 1], [-1], [2**40], [2**62], [n, 1], [1, n], [], n, [float(n)], [True]]
                )
            else:
                array[2] = self.rng.choice([raw[:-1], raw + b"\0", raw[8:], raw * 3, b"", "x", []])
                if self.rng.random() < 0.5 and isinstance(array[2], bytes):
                    array[1] = [len(array[2]) // 8]
            place[0][place[1]] = array
        return packed

    def spoil_floats(self, packed: Any) -> Any:
        place = self.pick(
            packed, lambda box, key: is_array(box[key]) or isinstance(box[key], float)
        )
        bad = self.rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 1e20, -1.0, 0.5])
        if place is None:
            return packed
        value = place[0][place[1]]
        if isinstance(value, float):
            place[0][place[1]] = float(bad)
        elif value[2]:
            raw = bytearray(value[2])
            at = 8 * self.rng.randrange(len(raw) // 8)
            raw[at : at + 8] = struct.pack("<d", bad)
            value[2] = bytes(raw)
        return packed

    def bury(self, packed: Any) -> Any:
        place = self.pick(packed, lambda box, key: True)
        if place:
            place[0][place[1]] = self.rng.choice([deep(20), deep(300), deep(900)])
        return packed


def is_array(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and isinstance(value[1], list)
        and isinstance(value[2], bytes)
        and len(value[2]) % 8 == 0
    )


# --- recorded runs ------------------------------------------------------------------------------


@dataclass
class Recorded:
    """A run, message by message, with the site's memory before each."""

    study: Any
    tables: Mapping[str, Any]
    options: dict[str, Any]
    identities: Any
    trust: Any
    policy: Policy
    requests: list[bytes] = field(default_factory=list)
    replies: list[dict[str, bytes]] = field(default_factory=list)
    memories: list[tuple[dict[str, bytes], dict[str, bytes]]] = field(default_factory=list)

    def site(self, name: str = "north", stage: int | None = None) -> Site:
        """A site as it was before the request of a stage."""
        memory, shared = Transient(), Transient()
        if stage is not None:
            kept = self.memories[stage]
            memory.put(kept[0])
            shared.put(kept[1])
        return Site(
            name, self.tables[name], self.study, policy=self.policy,
            noise=UnsafeSeededLaplace(3, name), identity=self.identities[name], trust=self.trust,
            memory=memory, shared=shared,
        )  # fmt: skip

    def coordinator(self, stage: int = 0) -> tuple[Coordinator, Any]:
        """A coordinator that has asked the question of a stage."""
        coordinator = Coordinator(self.study, NAMES, **self.options)
        asked = coordinator.step()
        for replies in self.replies[:stage]:
            asked = coordinator.step({n: from_bytes(d) for n, d in replies.items()})  # type: ignore[misc]
        return coordinator, asked


def record(name: str) -> Recorded:
    settings = dict(RUNS[name])
    options = {key: settings.pop(key) for key in ("secure", "dropouts")}
    outcome = settings.pop("outcome", "yes/no")
    study = make_study(outcome, **{"n_trees": 5, "epsilon": 1.0, **settings})
    tables = {}
    for k, site in enumerate(NAMES):
        frame, rng = make_frame(60, k), np.random.default_rng(k)
        frame["age"] = 18.1 + 0.99 * (frame["age"] - 18) + 0.05 * rng.random(60)
        frame["lactate"] += 0.005 * rng.random(60)
        tables[site] = load_table(add_outcomes(frame, k), study)
    policy = Policy.model_validate({**OPEN.model_dump(), "min_count": 2})
    made = Recorded(study, tables, options, *make_consortium(NAMES), policy)
    sites = {site: made.site(site) for site in NAMES}
    coordinator, asked = made.coordinator()
    while not isinstance(asked, Model):
        north = sites["north"]
        made.memories.append((dict(north._memory._entries), dict(north._shared._entries)))  # type: ignore[attr-defined]
        made.requests.append(to_bytes(asked["north"]))
        made.replies.append({n: sites[n].answer(to_bytes(r)) for n, r in asked.items()})
        asked = coordinator.step({n: from_bytes(d) for n, d in made.replies[-1].items()})  # type: ignore[misc]
    return made


@pytest.fixture(scope="module", params=RUNS)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return record(request.param)


# --- what is right ------------------------------------------------------------------------------


def says_the_same(read: Any, sent: Any) -> bool:
    """Whether a message, packed again, is what the bytes said; 1 may stand for 1.0."""
    if isinstance(read, float) and type(sent) is int:
        return read == float(sent)
    if type(read) is not type(sent):
        return False
    if isinstance(read, dict):
        return read.keys() == sent.keys() and all(says_the_same(read[k], sent[k]) for k in read)
    if isinstance(read, list):
        return len(read) == len(sent) and all(map(says_the_same, read, sent))
    return bool(read == sent)


def check_faithful(message: Any, data: bytes) -> None:
    assert says_the_same(msgpack.unpackb(to_bytes(message)), msgpack.unpackb(data))


def check_silent(reasons: list[str], recorded: Recorded) -> None:
    text = "\n".join(reasons)
    for table in recorded.tables.values():
        values = table.values[:, :2]
        for value in np.unique(values[~np.isnan(values)]):
            assert repr(float(value)) not in text
            assert f"{value:.4g}" not in text or len(f"{value:.4g}") < 4


def mutations(recorded: Recorded, pool: list[bytes], seed: int, n: int) -> Iterator[bytes]:
    fuzzer = Fuzzer(seed)
    for _ in range(n):
        yield fuzzer.mutate(fuzzer.rng.choice(pool))


# --- to a site ----------------------------------------------------------------------------------


def test_a_site_survives_and_takes_nothing_for_what_it_is_not(recorded: Recorded) -> None:
    stages = range(len(recorded.requests))
    per_stage = -(-N_MESSAGES // (len(RUNS) * len(stages)))
    codes: Counter[str] = Counter()
    reasons: list[str] = []
    n_sent = n_accepted = 0
    replies = [data for step in recorded.replies for data in step.values()]
    for stage in stages:
        site = recorded.site(stage=stage)
        honest = recorded.requests[stage]
        original = from_bytes(honest)
        # Mostly this stage's request; also others', and replies sent back.
        pool = [honest] * 12 + recorded.requests + random.Random(stage).sample(replies, 5)
        for data in mutations(recorded, pool, stage, per_stage):
            n_sent += 1
            answer = from_bytes(site.answer(data))
            if isinstance(answer, m.Refusal):
                codes[answer.code] += 1
                reasons.append(answer.reason)
                assert answer.code != "internal", (answer, data)
                continue
            n_accepted += 1
            message: Any = from_bytes(data)
            check_faithful(message, data)
            # For this site, study, run and version; answered as what it is.
            assert message.header.run == original.header.run or stage == 0
            assert message.header.study == recorded.study.digest
            assert message.header.site == "north"
            assert message.header.version == m.PROTOCOL_VERSION
            assert answer.header == message.header
            site = recorded.site(stage=stage)
        # After all that, the right question gets the right answer.
        assert type(from_bytes(site.answer(honest))) is type(
            from_bytes(recorded.replies[stage]["north"])
        )
    assert n_sent >= N_MESSAGES // len(RUNS)
    assert n_accepted < n_sent // 4
    assert {"unreadable", "version", "study", "site", "stale", "order"} <= set(codes)
    check_silent(reasons, recorded)


def test_a_site_answers_a_mutated_repeat_only_with_what_it_said(recorded: Recorded) -> None:
    """A step that is over: the very same bytes, or a refusal."""
    fuzzer = Fuzzer(99)
    for stage in range(1, len(recorded.requests)):
        site, before = recorded.site(stage=stage), recorded.requests[stage - 1]
        said = recorded.replies[stage - 1]["north"]
        assert site.answer(before) == said
        for _ in range(30):
            data = fuzzer.mutate(before)
            message = from_bytes(site.answer(data))
            if isinstance(message, m.Refusal) or data == before:
                continue
            # Only a later step is another question.
            assert from_bytes(data).header.step >= stage  # type: ignore[union-attr]
            site = recorded.site(stage=stage)


# --- to the coordinator -------------------------------------------------------------------------


def test_the_coordinator_raises_nothing_but_its_own_errors(recorded: Recorded) -> None:
    """As :func:`drive` reads replies: bytes, then the step that they answer."""
    stages = range(len(recorded.replies))
    per_stage = -(-N_MESSAGES // (len(RUNS) * len(stages)))
    reasons: list[str] = []
    n_sent = n_accepted = 0
    errors: Counter[str] = Counter()
    for stage in stages:
        right = recorded.replies[stage]
        expected = from_bytes(recorded.requests[stage]).header
        pool = [right["north"]] * 12 + [d for step in recorded.replies for d in step.values()]
        coordinator: Coordinator | None = None
        for data in mutations(recorded, [*pool, *recorded.requests], 1000 + stage, per_stage):
            n_sent += 1
            try:
                message = from_bytes(data)
                if not isinstance(message, m.Reply):
                    raise ProtocolError("a site sent a request where a reply was due")
                if coordinator is None:
                    coordinator, _ = recorded.coordinator(stage)
                replies: dict[str, Any] = {n: from_bytes(d) for n, d in right.items()}
                used, coordinator = coordinator, None
                used.step({**replies, "north": message})
            except (ProtocolError, FitError) as error:
                errors[type(error).__name__] += 1
                reasons.append(str(error))
                continue
            n_accepted += 1
            check_faithful(message, data)
            assert message.header == expected
            assert type(message) is type(replies["north"])
    assert n_sent >= N_MESSAGES // len(RUNS)
    assert set(errors) <= {"ProtocolError", "FitError"}
    assert 0 < n_accepted < n_sent // 4
    check_silent(reasons, recorded)


def test_drive_ends_in_words_whatever_one_site_sends(recorded: Recorded) -> None:
    """The whole loop: a site that is hostile from some step on."""
    fuzzer = Fuzzer(7)
    for stage in range(0, len(recorded.replies), 2):
        for _ in range(10):
            coordinator, _ = recorded.coordinator()
            step = -1
            last: dict[str, bytes] = {}

            def exchange(requests: Mapping[str, bytes], at: int = stage) -> dict[str, bytes]:
                nonlocal step, last
                if dict(requests) != last:
                    step, last = step + 1, dict(requests)
                answers = recorded.replies[min(step, len(recorded.replies) - 1)]
                if step < at:
                    return {name: answers[name] for name in requests}
                return {**answers, "north": fuzzer.mutate(answers["north"])}

            try:
                drive(coordinator, exchange, pause=0)
            except FedRuleFitError as error:
                assert str(error)


# --- memory -------------------------------------------------------------------------------------


def test_declared_lengths_allocate_nothing(recorded: Recorded) -> None:
    """Messages that claim gigabytes are refused within a few megabytes."""
    fuzzer = Fuzzer(5)
    site = recorded.site(stage=len(recorded.requests) - 1)
    largest = max(map(len, recorded.requests))
    claims = [
        msgpack.packb({"type": "DualRequest", "dual": ["<f8", [2**40], b""]}),
        b"\xdd\xff\xff\xff\xff" + b"\xc0" * 100,
        b"\xdf\xff\xff\xff\xff" + b"\xa1a\xc0" * 100,
        b"\xc6\xff\xff\xff\xff" + b"x" * 100,
        b"\xdb\xff\xff\xff\xff" + b"x" * 100,
        b"\x91" * 100_000,
        b"\x81\xa1a" * 50_000,
    ]
    claims += [fuzzer.huge_length(fuzzer.rng.choice(recorded.requests)) for _ in range(300)]
    tracemalloc.start()
    try:
        for data in claims:
            assert isinstance(from_bytes(site.answer(data)), m.Reply)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * largest + 20 * 2**20


@pytest.mark.parametrize(
    "item", [b"\x90", b"\x80", b"\xa0", b"\xc0"], ids=["list", "map", "text", "nil"]
)
def test_many_tiny_parts_do_not_grow_to_a_large_allocation(item: bytes) -> None:
    """One byte on the wire must not become 72 in memory: 256 MB would become 18 GB."""
    n = 2_000_000
    data = b"\x81\xa1a\xdd" + struct.pack(">I", n) + item * n
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            from_bytes(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * len(data)
