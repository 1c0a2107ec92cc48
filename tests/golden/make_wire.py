"""How ``wire-v….json`` was made: the bytes of one example of every message.

Written once for each version of the protocol. When ``PROTOCOL_VERSION`` is raised, run
``python -m tests.golden.make_wire``: it writes the file of the new version beside the old ones,
which stay (their messages must be told by their version, and refused). It never writes over a
file: bytes that changed without a new version are a mistake, since hospitals of one version
would not understand, or would mask, the same question alike.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedrulefit.protocol import messages as m
from fedrulefit.protocol.wire import question_digest, to_bytes
from tests.examples import EXAMPLES

HERE = Path(__file__).parent


def main() -> None:
    facts = {
        "version": m.PROTOCOL_VERSION,
        "messages": {name: to_bytes(message).hex() for name, message in EXAMPLES.items()},
        "questions": {
            name: question_digest(message).hex()
            for name, message in EXAMPLES.items()
            if isinstance(message, m.Request)
        },
    }
    path = HERE / f"wire-v{m.PROTOCOL_VERSION}.json"
    with path.open("x", encoding="utf-8") as file:
        file.write(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
