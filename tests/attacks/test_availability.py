"""Nobody makes a site or a coordinator run out of memory or time, or wait for ever.

Each test tells an attack. It succeeds against a twin whose limit is lifted, on a scale that
costs nothing here, and fails against the real code.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

from fedrulefit.core.rules import Condition, Rule
from fedrulefit.engines import envelope
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol import wire

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
    "texts": filled("sites", b"\xa2\xc3\xa9", N),
    "lists in the header": filled("header", b"\x91\x90", N),
    "lists as a name": b"\x81" + b"\xdd" + struct.pack(">I", N) + b"\x90" * N,
}


@pytest.mark.parametrize("name", TINY)
def test_a_message_of_many_tiny_parts_takes_little_memory(name: str) -> None:
    """One byte on the wire became 72 in memory, before anything looked at it.

    32 MB were enough for 2.2 GiB, and anybody who can send a message can send these.
    """
    data = TINY[name]
    before = peak_of(lambda: decode_as_before(data) if name != "lists as a name" else None)
    assert before > 15 * len(data) or name in ("lists as a name", "texts")
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
    ],
)
def test_declared_lengths_and_depths_cost_nothing(data: bytes) -> None:
    """A few bytes that promise gigabytes, or lists in lists without end."""
    assert peak_of(lambda: wire.from_bytes(data)) < 4 * len(data) + MB
    with pytest.raises(ProtocolError):
        wire.from_bytes(data)


def test_decoding_stays_within_its_limit_in_a_process_of_its_own() -> None:
    """The attack in full: 32 MB of empty lists, in a process with little memory to give."""
    code = (
        "import resource, sys\n"
        "from fedrulefit.errors import ProtocolError\n"
        "from fedrulefit.protocol.wire import from_bytes\n"
        "from tests.attacks.test_availability import filled\n"
        "data = filled('sites', b'\\x90', 32_000_000)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    from_bytes(data)\n"
        "except ProtocolError:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) * 1024 < 4 * 32 * MB


@pytest.mark.parametrize("message", [m.Refusal(HEADER, "x", "y"), m.JoinReply(HEADER, "1")])
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
    data = wire.to_bytes(m.RulesReply(HEADER, (), (rules,) * 10))
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
    facts = msgpack.unpackb(wire.to_bytes(m.SealedReply(HEADER, np.arange(3))))
    for shape in (2**40, 4, 2, -3):
        data = msgpack.packb({**facts, "numbers": ["<i8", [shape], bytes(24)]})
        assert peak_of(lambda data=data: wire.from_bytes(data)) < MB  # type: ignore[misc]
        with pytest.raises(ProtocolError, match="does not fit its bytes"):
            wire.from_bytes(data)


def test_an_envelope_holds_no_lists() -> None:
    """Anybody who reaches the port can send an envelope, before any signature is checked."""

    def nest(depth: int) -> list[Any]:
        return [] if depth == 0 else [nest(depth - 1)] * 8

    data = msgpack.packb(["done", "", nest(6), b"", b""])
    before = peak_of(lambda: msgpack.unpackb(data, max_array_len=8))
    after = peak_of(lambda: envelope._unpack(data))
    assert before > 15 * len(data)
    assert after < 2 * len(data) + 10_000
    assert envelope._unpack(data) is None
    assert envelope._unpack(msgpack.packb(["done", "s", b"b", b"c", b"g"])) is not None
