"""What a state folder must be: one owner's, and closed to others.

A state folder holds what must not be mixed up: budget, keys and answers of one hospital
(or the runs of one coordinator). So it belongs to one name, one root and one certificate,
written down at the first start; a swapped kit or a foreign folder is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from fedrulefit.errors import FederationError, LedgerError
from fedrulefit.files import close_to_others, make_private_folder, write_json
from fedrulefit.privacy.identity import Identity, Trust

OWNER: Final = "owner.json"
JOURNAL: Final = "journal.sqlite"
LEDGER: Final = "ledger.jsonl"
_OURS: Final = ("*.json", "*.jsonl", "journal.sqlite*", "lock", "approvals", "runs")
"""What we keep in a state folder; whatever else lies there is not ours to close."""


@dataclass(frozen=True)
class Owner:
    """Whose a state folder is.

    Parameters
    ----------
    role : {"site", "coordinator"}
    name : str
    root, certificate : str
        SHA-256 of the consortium's root, and of the certificate that the owner signs with.
    """

    role: Literal["site", "coordinator"]
    name: str
    root: str
    certificate: str

    @classmethod
    def of(
        cls, role: Literal["site", "coordinator"], name: str, identity: Identity, trust: Trust
    ) -> Owner:
        """Return the owner with these certificates."""
        return cls(role, name, hashlib.sha256(trust.root).hexdigest(), identity.fingerprint)


def read_owner(state: Path) -> Owner | None:
    """Return whose a state folder is; None before the first start."""
    path = state / OWNER
    if not path.exists():
        return None
    try:
        return Owner(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise FederationError(f"{path} cannot be read: bring it back from the backup") from None


def check_owner(state: Path, owner: Owner, *, chartered: bool) -> None:
    """Refuse a state folder of another name, root or certificate, or one that has lost its journal.

    Parameters
    ----------
    state : Path
    owner : Owner
        Who wants to use it.
    chartered : bool
        Whether an accepted charter names root and certificate: then they may be new.

    Raises
    ------
    FederationError
        If it is somebody else's.
    LedgerError
        If a site has used it before, and its journal is gone.
    """
    known = read_owner(state)
    if known is None:
        return
    if known.role == "site" and not (state / JOURNAL).exists():
        raise LedgerError(
            f"{state / JOURNAL} is missing: it knows what this site has spent and answered. Bring "
            f"it back together with {LEDGER}, from the same backup; nothing starts without them"
        )
    if known == owner:
        return
    if (known.role, known.name) != (owner.role, owner.name):
        raise FederationError(
            f"the state folder {state} is of the {known.role} {known.name!r}, but the kit is of "
            f"the {owner.role} {owner.name!r}: are kits or folders swapped? Each has its own"
        )
    if chartered:
        return
    if known.root != owner.root:
        raise FederationError(
            f"the state folder {state} belongs to a consortium with another root certificate "
            f"({known.root[:16]}…, the kit has {owner.root[:16]}…): use the folder of this "
            "consortium, or accept its new charter with 'fedrulefit site accept --new-root'"
        )
    if owner.role == "site":
        raise FederationError(
            f"the kit of {owner.name!r} has another certificate than the state folder {state} was "
            "used with: if it was renewed, accept the new charter with 'fedrulefit site accept'"
        )


def write_owner(state: Path, owner: Owner) -> None:
    """Write down whose a state folder is."""
    write_json(state / OWNER, asdict(owner))


def open_state(state: Path) -> list[str]:
    """Make a state folder, or close the one that is there to others; return warnings."""
    make_private_folder(state)
    ours = [path for pattern in _OURS for path in state.glob(pattern)]
    return warn_of_open(state, close_to_others(state, ours))


def warn_of_open(folder: Path, mended: list[Path]) -> list[str]:
    """Say that others could reach a folder's files until now."""
    if not mended:
        return []
    return [
        f"other users of this machine could reach {len(mended)} files or folders in {folder}; that "
        "is closed now. If they hold keys, ask for a new kit"
    ]


def read_json(path: Path) -> dict[str, Any]:
    """Return a small file's facts; nothing where there is none."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def new_instance() -> str:
    """Return a name for this very process, that no other has."""
    return os.urandom(8).hex()
