"""Messages and their bytes: what goes in comes out, anything else is refused."""

from __future__ import annotations

import ast
import dataclasses
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedrulefit.protocol
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol import wire
from fedrulefit.protocol.wire import digest, from_bytes, question_digest, to_bytes
from tests.examples import EXAMPLES, GRID, HEADER, RULES
from tests.samples import disguise

quick = settings(max_examples=60, derandomize=True, deadline=None)


def packed(name: str) -> dict[str, Any]:
    """Return a message as MessagePack sees it."""
    facts: dict[str, Any] = msgpack.unpackb(to_bytes(EXAMPLES[name]))
    return facts


def refused(facts: Any) -> str:
    """Return why the bytes of `facts` are refused."""
    with pytest.raises(ProtocolError) as caught:
        from_bytes(msgpack.packb(facts))
    return str(caught.value)


def test_there_is_an_example_of_every_message() -> None:
    assert set(EXAMPLES) == {cls.__name__ for cls in m.MESSAGES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_round_trip(name: str) -> None:
    message = EXAMPLES[name]
    data = to_bytes(message)
    again = from_bytes(data)
    assert type(again) is type(message)
    assert to_bytes(again) == data
    assert digest(data) == digest(to_bytes(again))
    assert again.header == message.header
    for field in dataclasses.fields(message):
        old, new = getattr(message, field.name), getattr(again, field.name)
        if isinstance(old, np.ndarray):
            np.testing.assert_array_equal(new, old, strict=True)
        elif field.name == "queries":
            beside = "variants" if name == "RefitRequest" else "active"
            for left, right in zip(old, new, strict=True):
                assert left.fold == right.fold
                for array in ("terms", "start", "end", beside):
                    np.testing.assert_array_equal(
                        getattr(right, array), getattr(left, array), strict=True
                    )
        elif field.name == "histograms":
            for left, right in zip(old, new, strict=True):
                np.testing.assert_array_equal(right.counts, left.counts, strict=True)
                assert (right.site, right.signature) == (left.site, left.signature)
        elif not isinstance(old, Grid):
            assert new == old


def test_round_trip_of_a_grid() -> None:
    again = from_bytes(to_bytes(EXAMPLES["RulesRequest"]))
    assert isinstance(again, m.RulesRequest)
    for old, new in zip(GRID.axes, again.grid.axes, strict=True):
        np.testing.assert_array_equal(new.cutoffs, old.cutoffs, strict=True)
        for name in ("kind", "n_codes", "complete", "limits", "spread", "centre", "fill"):
            assert getattr(new, name) == getattr(old, name)


finite = hnp.arrays(
    np.float64, st.integers(0, 30), elements=st.floats(allow_nan=False, allow_infinity=False)
)
counts = hnp.arrays(np.int64, st.integers(0, 30))
rules = st.lists(
    st.lists(
        st.builds(Condition, st.integers(0, 2**31 - 1), st.integers(0, 2**256 - 1)), max_size=4
    ).map(lambda conditions: Rule(tuple(conditions))),
    max_size=5,
).map(tuple)


@given(values=finite, spread=st.floats(allow_nan=False, allow_infinity=False))
@quick
def test_any_floats_come_back_bit_for_bit(values: Any, spread: float) -> None:
    again = from_bytes(to_bytes(m.DualRequest(HEADER, 1, values)))
    assert isinstance(again, m.DualRequest)
    assert again.dual.tobytes() == values.tobytes()
    axis = dataclasses.replace(GRID.axes[2], fill=spread)
    handed = from_bytes(to_bytes(m.RulesRequest(HEADER, Grid((axis,)))))
    assert isinstance(handed, m.RulesRequest)
    assert handed.grid.axes[0].fill == spread


@given(values=counts, text=st.text(max_size=50))
@quick
def test_any_counts_and_texts_come_back(values: Any, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    again = from_bytes(to_bytes(m.GridReply(HEADER, text, True, values, b"")))
    assert isinstance(again, m.GridReply)
    np.testing.assert_array_equal(again.counts, values, strict=True)
    assert again.mechanism == text


@given(seed=st.binary(max_size=100), certificate=st.binary(max_size=100), values=counts)
@quick
def test_any_bytes_come_back(seed: bytes, certificate: bytes, values: Any) -> None:
    opened = from_bytes(to_bytes(m.OpenReply(HEADER, seed)))
    assert isinstance(opened, m.OpenReply)
    assert opened.seed == seed
    peers = (
        m.Peer("a", seed, certificate, "wait", b""),
        m.Peer("b", b"", seed, "wait", certificate),
    )
    met = from_bytes(to_bytes(m.PeersRequest(HEADER, peers)))
    assert isinstance(met, m.PeersRequest)
    assert met.peers == peers
    sealed = from_bytes(to_bytes(m.SumReply(HEADER, True, values)))
    assert isinstance(sealed, m.SumReply)
    np.testing.assert_array_equal(sealed.numbers, values, strict=True)


@given(sent=rules)
@quick
def test_any_rules_come_back(sent: tuple[Rule, ...]) -> None:
    again = from_bytes(to_bytes(m.RulesReply(HEADER, sent, (), b"")))
    assert isinstance(again, m.RulesReply)
    assert again.rules == sent


def test_what_is_asked_follows_from_the_meaning_not_from_the_bytes() -> None:
    """Else a coordinator could ask sites different things under masks that cancel."""
    other = m.TermsRequest(HEADER, RULES[::-1])
    for message in (EXAMPLES["TermsRequest"], EXAMPLES["CurvatureRequest"], other):
        again = from_bytes(disguise(to_bytes(message)))
        assert isinstance(again, m.Request)
        assert isinstance(message, m.Request)
        assert question_digest(again) == question_digest(message)
        elsewhere = dataclasses.replace(HEADER, site="south", step=70_000)
        moved = dataclasses.replace(message, header=elsewhere)
        assert question_digest(moved) == question_digest(message)
    first = from_bytes(disguise(to_bytes(EXAMPLES["TermsRequest"])))
    second = from_bytes(disguise(to_bytes(other)))
    assert isinstance(first, m.Request)
    assert isinstance(second, m.Request)
    assert question_digest(first) != question_digest(second)


def test_conditions_that_collide_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers that are equal modulo 2^61 − 1 have one hash: they must not be hashed."""

    def trap(_: object) -> int:
        raise AssertionError("a condition was hashed")

    colliding = tuple(Rule((Condition(0, 1 + k * (2**61 - 1)),)) for k in range(100))
    data = to_bytes(m.TermsRequest(HEADER, colliding))
    monkeypatch.setattr(Condition, "__hash__", trap)
    again = from_bytes(data)
    assert isinstance(again, m.TermsRequest)
    assert len(again.rules) == 100


def test_too_many_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = packed("TermsRequest")
    facts["rules"]["rules"] = [[0, 1]] * 10 + facts["rules"]["rules"]
    monkeypatch.setattr(wire, "MAX_ITEMS", 21)
    assert "too long" in refused(facts)


def test_a_condition_is_told_once() -> None:
    shared = tuple(Condition(0, 1 << place) for place in range(10))
    several = tuple(Rule((left, Condition(1, 5))) for left in shared) * 20
    once, often = (to_bytes(m.TermsRequest(HEADER, rules)) for rules in (several[:10], several))
    assert len(often) - len(once) <= 3 * 190 + 2  # a rule of known conditions: three bytes


def test_arrays_are_writable_and_own_their_memory() -> None:
    again = from_bytes(to_bytes(EXAMPLES["DualRequest"]))
    assert isinstance(again, m.DualRequest)
    again.dual[0] = 7


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_missing_or_extra_field_is_refused(name: str) -> None:
    for field in packed(name):
        short = packed(name)
        del short[field]
        words = refused(short)
        assert ("unknown type" if field == "type" else "fields missing or unknown") in words
    assert "fields missing or unknown" in refused({**packed(name), "patients": [1, 2]})
    facts = packed(name)
    facts["header"]["more"] = 1
    assert "header: fields missing or unknown" in refused(facts)


@pytest.mark.parametrize("name", ["Patients", "", None, 3, b"JoinRequest", ["JoinRequest"]])
def test_an_unknown_type_is_refused(name: object) -> None:
    assert "unknown type" in refused({**packed("JoinRequest"), "type": name})


TOLD = [0, bytes(32)]
WRONG_TYPES = [
    ("JoinRequest", "sites", "north"),
    ("JoinRequest", "sites", [1]),
    ("JoinRequest", "sites", [b"north"]),
    ("JoinRequest", "secure", 1),
    ("JoinRequest", "secure", None),
    ("JoinRequest", "dropouts", "never"),
    ("JoinRequest", "dropouts", b"wait"),
    ("JoinRequest", "dropouts", None),
    ("JoinRequest", "dropouts", ["wait"]),
    ("KeyReply", "public", "text"),
    ("KeyReply", "certificate", None),
    ("KeyReply", "signature", [1, 2]),
    ("KeyReply", "signature", 3),
    ("KeyReply", "dropouts", "perhaps"),
    ("KeyReply", "dropouts", 1),
    ("OpenRequest", "answered", True),
    ("OpenRequest", "answered", 2.0),
    ("OpenReply", "seed", "x" * 32),
    ("OpenReply", "seed", ["<i8", [4], bytes(32)]),
    ("PeersReply", "n_sites", "2"),
    ("PeersRequest", "peers", {}),
    ("PeersRequest", "peers", [["north", b"", b"", b""]]),
    ("PeersRequest", "peers", [{"site": "north", "public": b"", "certificate": b""}]),
    (
        "PeersRequest",
        "peers",
        [
            {
                "site": b"north",
                "public": b"",
                "certificate": b"",
                "dropouts": "wait",
                "signature": b"",
            }
        ],
    ),
    (
        "PeersRequest",
        "peers",
        [{"site": "north", "public": "", "certificate": b"", "dropouts": "wait", "signature": b""}],
    ),
    ("SumReply", "numbers", bytes(8)),
    ("SumReply", "numbers", ["<f8", [1], bytes(8)]),
    ("SumReply", "numbers", ["<u8", [1], bytes(8)]),
    ("SumReply", "masked", 1),
    ("SumReply", "masked", None),
    ("ResultsReply", "totals", ["<f8", [1], np.array([np.nan]).tobytes()]),
    ("JoinReply", "software", 3),
    ("JoinReply", "software", b"text"),
    ("JoinReply", "software", None),
    ("JoinReply", "header", None),
    ("JoinReply", "header", []),
    ("TermsReply", "n_terms", True),
    ("TermsReply", "n_terms", 1.0),
    ("TermsReply", "n_terms", "1"),
    ("TermsReply", "n_terms", 2**63),
    ("DualRequest", "dual", 1.0),
    ("DualRequest", "dual", []),
    ("DualRequest", "dual", ["<f8", [1]]),
    ("DualRequest", "dual", ["<i8", [1], bytes(8)]),
    ("DualRequest", "dual", ["<f4", [2], bytes(8)]),
    ("DualRequest", "dual", ["|O", [1], bytes(8)]),
    ("DualRequest", "dual", [["<f8"], [1], bytes(8)]),
    ("DualRequest", "dual", ["<f8", [1], "12345678"]),
    ("DualRequest", "dual", ["<f8", [2], bytes(8)]),
    ("DualRequest", "dual", ["<f8", [1, 1], bytes(8)]),
    ("DualRequest", "dual", ["<f8", [], bytes(8)]),
    ("DualRequest", "dual", ["<f8", 1, bytes(8)]),
    ("DualRequest", "dual", ["<f8", [True], bytes(8)]),
    ("DualRequest", "dual", ["<f8", [1.0], bytes(8)]),
    ("DualRequest", "dual", ["<f8", [-1], bytes(8)]),
    ("DualRequest", "dual", ["<f8", [2**62], bytes(8)]),
    ("DualRequest", "dual", ["<f8", [2**61], b""]),
    ("DualRequest", "dual", ["<f8", [1], np.array([np.nan]).tobytes()]),
    ("DualRequest", "dual", ["<f8", [1], np.array([-np.inf]).tobytes()]),
    ("GridReply", "counts", ["<f8", [1], bytes(8)]),
    ("RulesReply", "rules", None),
    ("RulesReply", "rules", {}),
    ("RulesReply", "rules", [[0, bytes(32)]]),
    ("RulesReply", "rules", {"conditions": [], "rules": [], "more": 1}),
    ("RulesReply", "rules", {"conditions": {}, "rules": []}),
    ("RulesReply", "rules", {"conditions": [], "rules": {}}),
    ("RulesReply", "rules", {"conditions": [[0, bytes(31)]], "rules": [[0]]}),
    ("RulesReply", "rules", {"conditions": [[0, bytes(33)]], "rules": [[0]]}),
    ("RulesReply", "rules", {"conditions": [[-1, bytes(32)]], "rules": [[0]]}),
    ("RulesReply", "rules", {"conditions": [[2**31, bytes(32)]], "rules": [[0]]}),
    ("RulesReply", "rules", {"conditions": [[True, bytes(32)]], "rules": [[0]]}),
    ("RulesReply", "rules", {"conditions": [["0", bytes(32)]], "rules": [[0]]}),
    ("RulesReply", "rules", {"conditions": [[0, bytes(32), 1]], "rules": [[0]]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": [0]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": ["0"]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": [{"0": 0}]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": [[[0]]]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": [[False]]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": [[0.0]]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": [[-1]]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": [[0], [1]]}),
    ("RulesReply", "rules", {"conditions": [TOLD], "rules": []}),
    ("RulesReply", "rules", {"conditions": [TOLD, TOLD], "rules": [[0], [1]]}),
    ("RulesReply", "rules", {"conditions": [TOLD, [1, bytes(32)]], "rules": [[1], [0]]}),
    ("RulesReply", "fold_rules", [{"conditions": [TOLD], "rules": [[1]]}]),
    ("TermsRequest", "rules", {"conditions": [TOLD], "rules": [[0, 1]]}),
]


@pytest.mark.parametrize(("name", "field", "value"), WRONG_TYPES)
def test_a_field_of_another_type_is_refused(name: str, field: str, value: object) -> None:
    words = refused({**packed(name), field: value})
    assert f"{name}.{field}" in words


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "letters"),
        ("kind", 1),
        ("kind", ["number"]),
        ("n_codes", 0),
        ("n_codes", 256),
        ("n_codes", 2),
        ("cutoffs", ["<f8", [2], np.array([2.0, 1.0]).tobytes()]),
        ("complete", 1),
        ("limits", [0.0]),
        ("limits", [3.0, 1.0]),
        ("limits", [0.0, 1.0, 2.0]),
        ("spread", -1.0),
        ("fill", None),
    ],
)
def test_a_grid_that_cannot_be_is_refused(field: str, value: object) -> None:
    facts = packed("RulesRequest")
    facts["grid"]["axes"][0][field] = value
    assert "RulesRequest.grid" in refused(facts)


def test_whole_numbers_are_taken_for_floats() -> None:
    facts = packed("RulesRequest")
    facts["grid"]["axes"][0]["spread"] = 2
    again = from_bytes(msgpack.packb(facts))
    assert isinstance(again, m.RulesRequest)
    assert type(again.grid.axes[0].spread) is float


@pytest.mark.parametrize("name", EXAMPLES)
def test_cut_off_or_longer_bytes_are_refused(name: str) -> None:
    data = to_bytes(EXAMPLES[name])
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            from_bytes(data[:end])
    for tail in (b"\x00", b"\xc0", data):
        with pytest.raises(ProtocolError):
            from_bytes(data + tail)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc0",
        msgpack.packb([1, 2]),
        msgpack.packb("JoinRequest"),
        msgpack.packb({1: 2}),
        b"\xdf\xff\xff\xff\xff",  # a map of 4 billion entries
        b"\xdd\xff\xff\xff\xff",  # a list of 4 billion entries
        b"\xc6\xff\xff\xff\xff",  # 4 GB of bytes
        b"\x91" * 100_000,  # a list in a list in a list …
        msgpack.packb(msgpack.ExtType(1, b"code")),
        msgpack.packb({"type": msgpack.Timestamp(1)}),
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        from_bytes(data)


def test_long_texts_and_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError, match="not readable"):
        from_bytes(to_bytes(m.JoinReply(HEADER, "x" * (wire.MAX_TEXT + 1), 0, 1, 0)))
    monkeypatch.setattr(wire, "MAX_BYTES", 10)
    with pytest.raises(ProtocolError, match="over the limit of 10"):
        from_bytes(to_bytes(EXAMPLES["JoinRequest"]))


def test_random_bytes_are_refused() -> None:
    source = random.Random(0)
    for _ in range(2_000):
        with pytest.raises(ProtocolError):
            from_bytes(source.randbytes(source.randrange(64)))


def test_mutated_messages_are_refused_or_still_messages() -> None:
    """Whatever the change: a message or a ProtocolError, never another exception."""
    source = random.Random(1)
    originals = [to_bytes(message) for message in EXAMPLES.values()]
    outcomes = {"message": 0, "refused": 0}
    for _ in range(2_000):
        data = bytearray(source.choice(originals))
        for _ in range(source.randint(1, 3)):
            place = source.randrange(len(data))
            match source.randrange(3):
                case 0:
                    data[place] = source.randrange(256)
                case 1:
                    del data[place : place + source.randint(1, 4)]
                case 2:
                    data[place:place] = source.randbytes(source.randint(1, 4))
        try:
            again = from_bytes(bytes(data))
        except ProtocolError:
            outcomes["refused"] += 1
            continue
        outcomes["message"] += 1
        assert isinstance(again, m.MESSAGES)
        assert to_bytes(from_bytes(to_bytes(again))) == to_bytes(again)
    assert min(outcomes.values()) > 50, outcomes


def test_an_error_does_not_repeat_what_was_sent() -> None:
    assert "54321" not in refused({**packed("TermsReply"), "n_terms": "54321"})
    assert "54321" not in refused({**packed("TermsReply"), "type": "54321"})


def test_the_protocol_knows_no_pickle() -> None:
    folder = Path(fedrulefit.protocol.__file__).parent
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
            roots = {name.split(".")[0] for name in names}
            assert not roots & {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}, (
                path
            )


def test_reading_a_message_unpickles_nothing() -> None:
    """numpy imports pickle itself; decoding must not call it."""
    code = (
        "import sys, pickle\n"
        "from fedrulefit.protocol.wire import from_bytes\n"
        "def trap(*a, **k): raise SystemExit('pickle was called')\n"
        "pickle.loads = pickle.load = pickle.Unpickler = trap\n"
        "from_bytes(sys.stdin.buffer.read())\n"
    )
    for name in ("SumReply", "RulesRequest"):
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code],
            input=to_bytes(EXAMPLES[name]),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
