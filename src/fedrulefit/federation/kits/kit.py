"""Start-up kits: a folder for one hospital (or the coordinator), sealed by the root.

A kit has two parts that are complete by themselves, so that each process, user or container
gets its own and no more:

=============================  ====================================================
``carrier/``                   certificate and key for TLS: who may connect
``site/`` or ``coordinator/``  certificate and key that sign envelopes and secure sums
=============================  ====================================================

Each part has the consortium's root certificate, the facts of the consortium, and a seal
signed by the root, which lists the hash of every file: a part that was changed on its
way is not started. Only files that the seal lists are read. Links are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import (
    model_validator,
)

from fedrulefit.errors import FederationError
from fedrulefit.federation.kits.consortium import Facts, Host, Name, Port, check_distinct
from fedrulefit.federation.transport import DEFAULT
from fedrulefit.files import NO_LINKS
from fedrulefit.privacy.identity import Identity, Trust, load_pem, verifies

Part = Literal["carrier", "site", "coordinator"]

SEAL: Final = "seal.json"
SIGNATURE: Final = "seal.sig"
ROOT: Final = "root.pem"
CERTIFICATE: Final = "certificate.pem"
KEY: Final = "key.pem"

_MOST_BYTES = 1 << 20
"""Of one file of a kit that are read; no file is as long."""


class _Seal(Facts):
    """What the root signed of one part of a kit."""

    consortium: Name
    coordinator: Host
    name: Host
    port: Port
    role: Part
    side: Literal["site", "coordinator"]
    sites: tuple[Name, ...]
    transport: Name = DEFAULT
    files: dict[str, str]

    @model_validator(mode="after")
    def _check_owner(self) -> _Seal:
        check_distinct(self.sites)
        if self.role not in ("carrier", self.side):
            raise ValueError("role and side contradict each other")
        if self.name not in (self.sites if self.side == "site" else (self.coordinator,)):
            raise ValueError("its owner does not take part")
        return self


@dataclass(frozen=True)
class Kit:
    """One part of a start-up kit that has been checked against its seal.

    Parameters
    ----------
    folder : Path
        The part's own folder.
    name : str
        Whose it is: a site's name, or the coordinator's host.
    role : {"carrier", "site", "coordinator"}
        Which part it is.
    side : {"site", "coordinator"}
        On which side of the federation it works.
    consortium, coordinator : str
        The consortium's name, and the name in the coordinator's certificates.
    port : int
        Where the coordinator's carrier listens.
    sites : tuple of str
    transport : str
        What carriers send with.
    files : mapping of str to bytes
        The part's files as they were checked; they are not read again.
    """

    folder: Path
    name: str
    role: str
    side: str
    consortium: str
    coordinator: str
    port: int
    sites: tuple[str, ...]
    transport: str = DEFAULT
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, folder: str | Path, role: Part) -> Kit:
        """Read a part of a kit and check its seal; a whole kit's folder will do.

        Raises
        ------
        FederationError
            If it is not a kit, was changed, holds a link, or is the other role's.
        """
        part = _find_part(Path(folder).resolve(), role)
        files = _read_files(part)
        try:
            text, signature = files.pop(SEAL), files.pop(SIGNATURE)
            root = load_pem(files[ROOT])
        except (KeyError, ValueError):
            raise FederationError(
                f"{part} is not a start-up kit: 'fedrulefit federation init' makes them"
            ) from None
        if not verifies(root.public_key(), text, signature):
            raise FederationError(f"{part}: the kit's seal is broken: ask for a new kit")
        try:
            facts = _Seal.model_validate(json.loads(text))
        except (ValueError, RecursionError):
            raise FederationError(
                f"{part}: the kit's seal holds something else than a kit's facts: ask for a new kit"
            ) from None
        if {name: hashlib.sha256(data).hexdigest() for name, data in files.items()} != facts.files:
            raise FederationError(
                f"{part}: files were changed, added or taken out: ask for a new kit"
            )
        if facts.role != role:
            raise FederationError(f"{part} is the kit of a {facts.role}, not of a {role}")
        kit = cls(folder=part, **{**dict(facts), "files": files})
        try:
            kit.identity.check(kit.name)
        except (KeyError, ValueError, TypeError):
            raise FederationError(
                f"{part}: certificate and key are not those of {kit.name!r}: ask for a new kit"
            ) from None
        return kit

    @property
    def identity(self) -> Identity:
        """The part's certificate and key."""
        return Identity.from_pem(self.files[CERTIFICATE], self.files[KEY])

    @property
    def root_fingerprint(self) -> str:
        """SHA-256 of the consortium's root certificate."""
        return hashlib.sha256(self.trust().root).hexdigest()

    def trust(self, pinned: Mapping[str, str] | None = None) -> Trust:
        """Return whom the kit's owner believes."""
        return Trust.from_pem(self.files[ROOT], pinned)

    def carrier(self) -> Kit:
        """Return the carrier's part that lies beside this one.

        Raises
        ------
        FederationError
            If there is none, or it is not of the same party and consortium.
        """
        folder = self.folder.parent / "carrier"
        if not folder.exists():
            raise FederationError(
                f"{self.folder} has no carrier beside it: run 'fedrulefit carrier start' with the "
                "kit's other part, and give both the same --socket"
            )
        kit = Kit.load(folder, "carrier")
        if (kit.name, kit.root_fingerprint) != (self.name, self.root_fingerprint):
            raise FederationError(f"{folder} is the carrier of another kit")
        return kit


def seal_part(folder: Path, facts: Mapping[str, Any], authority: Identity) -> None:
    """Write the seal of a finished part: facts, the hash of every file, a signature."""
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in _read_files(folder).items()}
    text = json.dumps({**facts, "files": hashes}, indent=1, sort_keys=True).encode()
    (folder / SEAL).write_bytes(text)
    (folder / SIGNATURE).write_bytes(authority.sign(text))


def _find_part(folder: Path, role: str) -> Path:
    """Return the folder of a part, given that or the whole kit's."""
    if (folder / SEAL).exists():
        return folder
    part = folder / role
    if part.is_symlink():
        raise FederationError(f"{part} is a link: a kit has none. Ask for a new kit")
    if (part / SEAL).exists():
        return part
    for other in ("site", "coordinator"):
        if (folder / other / SEAL).exists():
            raise FederationError(f"{folder} is the kit of a {other}, not of a {role}")
    raise FederationError(
        f"{folder} is not a start-up kit: 'fedrulefit federation init' makes them"
    )


def _read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a part; it has no folders, no links and nothing else."""
    try:
        return {name: _read_plain(folder / name) for name in sorted(os.listdir(folder))}
    except OSError as error:
        raise FederationError(f"cannot read the kit {folder}: {error.strerror}") from None


def _read_plain(path: Path) -> bytes:
    """Read a small file that is itself, not a link to one."""
    entry = path.lstat()
    if not stat.S_ISREG(entry.st_mode) or entry.st_nlink != 1:
        raise FederationError(
            f"{path} is a link, a folder or a device: a kit holds plain files only. "
            "Ask for a new kit"
        )
    descriptor = os.open(path, os.O_RDONLY | NO_LINKS)
    with os.fdopen(descriptor, "rb") as file:
        if (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino) != (
            entry.st_dev,
            entry.st_ino,
        ):
            raise FederationError(f"{path} changed while it was read: ask for a new kit")
        return file.read(_MOST_BYTES)
