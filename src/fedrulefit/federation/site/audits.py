"""Which runs a hospital has audited: a small file in its state folder.

An audit is of a run as far as it was answered then: if the run goes on, it is due again.
The file is written by ``federation audit``, while the site's own process may run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fedrulefit.errors import FederationError
from fedrulefit.files import write_json
from fedrulefit.privacy.ledger import now

AUDITS: Final = "audits.json"

RunKey = tuple[str, str]
"""The study's digest, and the run's name."""


def note_audit(state: Path, record: Path, *, study: str, run: str, step: int) -> None:
    """Write down that a run fits its record.

    Parameters
    ----------
    state : Path
        The hospital's state folder.
    record : Path
    study, run : str
        The study's digest, and the run's name.
    step : int
        The last step that this hospital has answered.
    """
    others = [one for one in _read(state) if (one["study"], one["run"]) != (study, run)]
    with record.open("rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()
    this = {"study": study, "run": run, "step": step, "record": fingerprint, "time": now()}
    write_json(state / AUDITS, [*others, this])


def without_audit(state: Path, runs: Iterable[Mapping[str, Any]]) -> list[RunKey]:
    """Return the runs that answered sums, and have no passed audit of all of them.

    Parameters
    ----------
    state : Path
    runs : iterable of mapping
        As the site's journal knows them: study, run, steps and sums answered.

    Raises
    ------
    FederationError
        If the file cannot be read.
    """
    audited = {(one["study"], one["run"]): one["step"] for one in _read(state)}
    return [
        (run["study"], run["run"])
        for run in runs
        if run["sums"] > 0 and audited.get((run["study"], run["run"]), -1) < run["steps"] - 1
    ]


def _read(state: Path) -> list[dict[str, Any]]:
    path = state / AUDITS
    if not path.exists():
        return []
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return [
            {**one, "study": str(one["study"]), "run": str(one["run"]), "step": int(one["step"])}
            for one in facts
        ]
    except (OSError, ValueError, TypeError, KeyError):
        raise FederationError(
            f"{path} cannot be read: bring it back from the backup, or delete it and audit the "
            "runs again"
        ) from None
