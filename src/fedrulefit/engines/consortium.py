"""Who takes part: ``consortium.toml``, and the start-up kits made from it.

A kit is a folder for one hospital (or the coordinator): certificate, private key,
the consortium's root certificate, and the address of the coordinator. A seal, signed
by the root, lists the hash of every file, so that a kit changed on its way is not
started.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fedrulefit.errors import FederationError, explain
from fedrulefit.privacy.identity import Identity, Trust, load_pem, verifies

SEAL: Final = "seal.json"
SIGNATURE: Final = "seal.sig"
EXAMPLE: Final = """\
name = "sepsis-consortium"

[coordinator]
host = "fed.example.org"   # the name that hospitals reach it by; localhost to try it out
port = 8102

[[sites]]
name = "north"

[[sites]]
name = "south"

[[sites]]
name = "west"
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CoordinatorPart(_Part):
    """Where the coordinator listens."""

    host: str
    port: Annotated[int, Field(ge=1, le=65535)] = 8102


class SitePart(_Part):
    """One hospital."""

    name: str


class Consortium(_Part):
    """The facts of ``consortium.toml``.

    Parameters
    ----------
    name : str
    coordinator : CoordinatorPart
    sites : tuple of SitePart
    """

    name: str
    coordinator: CoordinatorPart
    sites: tuple[SitePart, ...]

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        return _checked(name)

    @field_validator("sites")
    @classmethod
    def _check_sites(cls, sites: tuple[SitePart, ...]) -> tuple[SitePart, ...]:
        names = [_checked(site.name) for site in sites]
        if not names:
            raise ValueError("name at least one site")
        if len(set(names)) < len(names):
            raise ValueError("two sites have the same name")
        return sites

    @property
    def site_names(self) -> tuple[str, ...]:
        """The hospitals' names, sorted."""
        return tuple(sorted(site.name for site in self.sites))

    @classmethod
    def load(cls, path: str | Path) -> Consortium:
        """Read the file.

        Raises
        ------
        FederationError
            Saying which key is wrong.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise FederationError(
                f"cannot read {path}: {error.strerror}. Write one with "
                f"'fedrulefit federation draft -o {path}'"
            ) from None
        try:
            consortium = cls.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise FederationError(f"{path} is not TOML: {error}") from None
        except ValidationError as error:
            raise FederationError(explain(error, f"{path} is not valid:")) from None
        if consortium.coordinator.host in consortium.site_names:
            raise FederationError(f"{path}: a site has the name of the coordinator's host")
        return consortium


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("a name has letters, digits, '-', '_' and '.', and begins with neither")
    return name


@dataclass(frozen=True)
class Kit:
    """A start-up kit that has been checked against its seal.

    Parameters
    ----------
    folder : Path
    name : str
        Whose it is: a site's name, or the coordinator's host.
    role : str
        ``site`` or ``coordinator``.
    consortium, coordinator : str
        The consortium's name, and the name in the coordinator's certificate.
    sites : tuple of str
    """

    folder: Path
    name: str
    role: str
    consortium: str
    coordinator: str
    sites: tuple[str, ...]

    @classmethod
    def load(cls, folder: str | Path, role: str) -> Kit:
        """Read a kit and check its seal.

        Raises
        ------
        FederationError
            If it is not a kit, was changed, or is the other role's.
        """
        folder = Path(folder).resolve()
        try:
            text = (folder / SEAL).read_bytes()
            signature = (folder / SIGNATURE).read_bytes()
            facts = json.loads(text)
            root = load_pem(folder / "startup" / "rootCA.pem")
        except (OSError, ValueError):
            raise FederationError(
                f"{folder} is not a start-up kit: 'fedrulefit federation init' makes them"
            ) from None
        if not verifies(root.public_key(), text, signature):
            raise FederationError(f"{folder}: the kit's seal is broken: ask for a new kit")
        if _hashes(folder) != facts["files"]:
            raise FederationError(
                f"{folder}: files were changed, added or taken out: ask for a new kit"
            )
        if facts["role"] != role:
            raise FederationError(f"{folder} is the kit of a {facts['role']}, not of a {role}")
        return cls(
            folder=folder,
            name=facts["name"],
            role=facts["role"],
            consortium=facts["consortium"],
            coordinator=facts["coordinator"],
            sites=tuple(facts["sites"]),
        )

    @property
    def identity(self) -> Identity:
        """The kit's certificate and key."""
        stem = "client" if self.role == "site" else "server"
        startup = self.folder / "startup"
        return Identity.load(startup / f"{stem}.crt", startup / f"{stem}.key")

    @property
    def root_fingerprint(self) -> str:
        """SHA-256 of the consortium's root certificate."""
        return hashlib.sha256(self.trust().root).hexdigest()

    def trust(self, pinned: Mapping[str, str] | None = None) -> Trust:
        """Return whom the kit's owner believes."""
        return Trust.load(self.folder / "startup" / "rootCA.pem", pinned)


def seal_kit(folder: Path, facts: Mapping[str, Any], authority: Identity) -> None:
    """Write the seal of a finished kit: facts, the hash of every file, a signature."""
    text = json.dumps({**facts, "files": _hashes(folder)}, indent=1, sort_keys=True).encode()
    (folder / SEAL).write_bytes(text)
    (folder / SIGNATURE).write_bytes(authority.sign(text))


def _hashes(folder: Path) -> dict[str, str]:
    """Return the hash of every file but the seal itself."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path not in (folder / SEAL, folder / SIGNATURE)
    }
