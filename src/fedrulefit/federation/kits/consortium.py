"""Who is to take part, and where to call: ``consortium.toml``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
)

from fedrulefit.errors import FederationError
from fedrulefit.federation.transport import DEFAULT
from fedrulefit.toml import load_toml

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
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # as long as a certificate's name

_RESERVED: Final = frozenset(["authority", "coordinator", "charter.toml"])
"""What lies beside the sites' kits, so that no site can have the name."""


def check_name(name: str) -> str:
    """Return the name of a site or consortium, if it is plain."""
    if not _NAME.fullmatch(name):
        raise ValueError("a name has letters, digits, '-', '_' and '.', and begins with neither")
    return name


def check_host(host: str) -> str:
    """Return the name or address of a machine, if it is one."""
    try:
        ipaddress.ip_address(host.replace("%", " "))  # an address with a zone is no host's
    except ValueError:
        if not _HOST.fullmatch(host):
            raise ValueError("this is not the name or address of a machine") from None
    return host


def check_distinct(names: Sequence[str]) -> None:
    """Refuse names that are the same, or differ in case only: people and folders confuse them."""
    if len({name.casefold() for name in names}) < len(names):
        raise ValueError("two sites have the same name, or names that differ in case only")


Name = Annotated[str, AfterValidator(check_name)]
Host = Annotated[str, AfterValidator(check_host)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Facts(BaseModel):
    """What a file of a consortium says: nothing else stands in it, and nothing changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CoordinatorPart(Facts):
    """Where the coordinator listens."""

    host: Host
    port: Port = 8102


class SitePart(Facts):
    """One hospital."""

    name: Name


class Consortium(Facts):
    """The facts of ``consortium.toml``.

    Parameters
    ----------
    name : str
    coordinator : CoordinatorPart
    sites : tuple of SitePart
    transport : str
        What carriers send with, one of :data:`~fedrulefit.federation.transport.TRANSPORTS`.
    """

    name: Name
    coordinator: CoordinatorPart
    sites: tuple[SitePart, ...]
    transport: Name = DEFAULT

    @field_validator("sites")
    @classmethod
    def _check_sites(cls, sites: tuple[SitePart, ...]) -> tuple[SitePart, ...]:
        names = [site.name for site in sites]
        if not names:
            raise ValueError("name at least one site")
        check_distinct(names)
        for name in names:
            if name.casefold() in _RESERVED:
                raise ValueError(f"{name!r} names a part of the kits' folder: name it otherwise")
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
        advice = f"write one with 'fedrulefit federation draft -o {path}'"
        consortium = load_toml(path, cls, "consortium", FederationError, advice)
        if consortium.coordinator.host.casefold() in map(str.casefold, consortium.site_names):
            raise FederationError(f"{path}: a site has the name of the coordinator's host")
        return consortium
