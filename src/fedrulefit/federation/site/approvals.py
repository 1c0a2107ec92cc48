"""A person decides, in another process, what may leave: questions and decisions in a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedrulefit.errors import FederationError
from fedrulefit.files import make_private_folder, write_json
from fedrulefit.privacy.ledger import now


def ask_person(state: Path, run: str, kind: str, words: Sequence[str]) -> bool | None:
    """Write down what is about to leave; return the decision, None before there is one."""
    folder = state / "approvals"
    make_private_folder(folder)
    asked = {"run": run, "kind": kind, "words": list(words)}
    name = f"{kind}-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]}"
    path = folder / f"{name}.json"
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if any(kept[key] != value for key, value in asked.items()):
            return False  # a decision on something else
        decision = kept["decision"]
        return None if decision is None else decision == "accepted"
    write_json(path, {**asked, "asked": now(), "decision": None})
    return None


def read_approvals(state: Path) -> dict[str, dict[str, Any]]:
    """Return every question put to a person, by its id."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((state / "approvals").glob("*.json"))
    }


def decide(state: Path, approval: str, *, accept: bool, by: str) -> None:
    """Write down a person's decision."""
    path = state / "approvals" / f"{approval}.json"
    if approval not in read_approvals(state):
        raise FederationError(f"there is nothing to decide under {approval!r}")
    facts = json.loads(path.read_text(encoding="utf-8"))
    if facts["decision"] is not None:
        raise FederationError(f"{approval} was {facts['decision']} by {facts['by']} already")
    decision = "accepted" if accept else "declined"
    write_json(path, {**facts, "decision": decision, "by": by, "decided": now()})
