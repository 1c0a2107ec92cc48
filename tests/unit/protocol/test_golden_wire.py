"""The bytes of the wire stay as they are within a version of the protocol.

Frozen are the bytes of one example of every message (``tests/examples.py``), which a ledger
hashes, and the digest of every question, which masks are bound to. A change to either makes
sites of one version misunderstand each other, or masks that do not cancel: raise
``PROTOCOL_VERSION``, then run ``python -m tests.golden.make_wire``. Files of older versions stay:
what they hold is told by its version, and refused. How keys of masks are derived is frozen in
``tests/unit/privacy``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tests.golden
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.wire import from_bytes, question_digest, to_bytes
from tests.examples import EXAMPLES

FOLDER = Path(tests.golden.__file__).parent
FILES = sorted(FOLDER.glob("wire-v*.json"))


def read(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


NOW = read(FOLDER / f"wire-v{m.PROTOCOL_VERSION}.json")


def test_there_is_a_file_of_this_version_with_every_message() -> None:
    assert NOW["version"] == m.PROTOCOL_VERSION
    assert {*NOW["messages"]} == {cls.__name__ for cls in m.MESSAGES}
    assert {*NOW["questions"]} == {cls.__name__ for cls in m.REQUESTS}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_has_the_bytes_that_it_had(name: str) -> None:
    data = bytes.fromhex(NOW["messages"][name])
    assert to_bytes(EXAMPLES[name]).hex() == data.hex()
    assert to_bytes(from_bytes(data)) == data


@pytest.mark.parametrize("name", NOW["questions"])
def test_a_question_has_the_digest_that_it_had(name: str) -> None:
    request = EXAMPLES[name]
    assert isinstance(request, m.Request)
    assert question_digest(request).hex() == NOW["questions"][name]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_messages_of_older_versions_are_told_by_their_version(path: Path) -> None:
    facts = read(path)
    assert facts["version"] <= m.PROTOCOL_VERSION
    if facts["version"] == m.PROTOCOL_VERSION:
        return
    for data in facts["messages"].values():
        with pytest.raises(ProtocolError) as caught:
            from_bytes(bytes.fromhex(data))
        assert caught.value.code == "version"
