"""Who takes part, accepted by a person: ``charter.toml``.

A kit tells a hospital who the others are, and whoever makes kits could invent some: two
invented sites around a real one make "a sum of three" that is one hospital's own. So the
consortium writes a charter, the name and certificate of the coordinator and of every
site; a person at each hospital compares it with the others' by another way and accepts
it (``fedrulefit site accept``). From then on the site believes these certificates and no
others, takes part with these sites and no others, and signs the charter's hash with the
key of every secure sum: sites that accepted different charters do not sum together.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import (
    field_validator,
    model_validator,
)

from fedrulefit.errors import FederationError, PolicyError
from fedrulefit.federation.kits.consortium import Facts, Host, Name, check_distinct, check_name
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.state import read_owner
from fedrulefit.files import write_json
from fedrulefit.privacy.ledger import now
from fedrulefit.privacy.policy import Policy, read_fingerprint
from fedrulefit.toml import load_toml

ACCEPTED: Final = "charter.json"
"""The accepted charter, in a site's state folder."""

WITHOUT: Final = (
    "without a charter nothing that a person accepted says who the other sites are. Whoever "
    "makes the kits and leads the runs could surround this site with invented ones: a sum of "
    "three, two of them invented, is this hospital's own number"
)
"""What a site gives up that starts without a charter."""


class Party(Facts):
    """The coordinator or a site.

    Parameters
    ----------
    name : str
    fingerprint : str
        SHA-256 of the certificate that it signs with.
    expires : date
        The certificate's last day; for people, not part of the charter's hash.
    """

    name: Host
    fingerprint: str
    expires: dt.date

    @field_validator("fingerprint")
    @classmethod
    def _check_fingerprint(cls, text: str) -> str:
        return read_fingerprint(text)


class Charter(Facts):
    """The facts of ``charter.toml``.

    Parameters
    ----------
    consortium : str
    root : str
        SHA-256 of the consortium's root certificate.
    coordinator : Party
    sites : tuple of Party
    """

    consortium: Name
    root: str
    coordinator: Party
    sites: tuple[Party, ...]

    @field_validator("root")
    @classmethod
    def _check_root(cls, text: str) -> str:
        return read_fingerprint(text)

    @field_validator("sites")
    @classmethod
    def _check_sites(cls, sites: tuple[Party, ...]) -> tuple[Party, ...]:
        check_distinct([check_name(site.name) for site in sites])
        if len({site.fingerprint for site in sites}) < len(sites):
            raise ValueError("two sites have the same fingerprint")
        return tuple(sorted(sites, key=lambda site: site.name))

    @model_validator(mode="after")
    def _check_coordinator(self) -> Charter:
        for site in self.sites:
            if self.coordinator.name.casefold() == site.name.casefold():
                raise ValueError("a site has the name of the coordinator")
            if self.coordinator.fingerprint == site.fingerprint:
                raise ValueError("a site has the certificate of the coordinator")
        return self

    @classmethod
    def load(cls, path: str | Path) -> Charter:
        """Read the file.

        Raises
        ------
        FederationError
            Saying which key is wrong.
        """
        return load_toml(path, cls, "charter", FederationError)

    @property
    def digest(self) -> bytes:
        """The charter's hash: of what it says, however the file is written."""
        facts = {
            "consortium": self.consortium,
            "root": self.root,
            "coordinator": [self.coordinator.name, self.coordinator.fingerprint],
            "sites": sorted([site.name, site.fingerprint] for site in self.sites),
        }
        text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(b"fedrulefit charter 1\n" + text.encode()).digest()

    @property
    def site_names(self) -> tuple[str, ...]:
        """The hospitals' names, sorted."""
        return tuple(site.name for site in self.sites)

    @property
    def pins(self) -> dict[str, str]:
        """The certificate of every site and of the coordinator, by name."""
        return {party.name: party.fingerprint for party in (self.coordinator, *self.sites)}

    def text(self) -> str:
        """Return the charter as TOML."""
        lines = [
            "# Who takes part. Compare the fingerprints by telephone; then accept this file with",
            "# 'fedrulefit site accept'. All hospitals must accept the same.",
            "",
            f"consortium = {json.dumps(self.consortium)}",
            f"root = {json.dumps(self.root)}",
        ]
        for head, party in (
            ("[coordinator]", self.coordinator),
            *(("[[sites]]", site) for site in self.sites),
        ):
            lines += ["", head, f"name = {json.dumps(party.name)}"]
            lines += [
                f"fingerprint = {json.dumps(party.fingerprint)}",
                f"expires = {party.expires}",
            ]
        return "\n".join(lines) + "\n"

    def words(self) -> list[str]:
        """Return the charter for the person who accepts it."""
        lines = [f"Consortium {self.consortium}", "  root certificate", *_groups(self.root)]
        for role, party in (
            ("Coordinator", self.coordinator),
            *(("Site", site) for site in self.sites),
        ):
            lines += [f"{role} {party.name}, valid until {party.expires}"]
            lines += _groups(party.fingerprint)
        return [*lines, "Hash of this charter, the same at every hospital", *_groups(self.hash)]

    @property
    def hash(self) -> str:
        """The hash in hexadecimal."""
        return self.digest.hex()

    def changes(self, earlier: Charter) -> list[str]:
        """Say in words what is new against an earlier charter."""
        if earlier.digest == self.digest:
            return []
        lines = []
        for what in ("consortium", "root"):
            was, is_now = getattr(earlier, what), getattr(self, what)
            if was != is_now:
                lines.append(f"The {what} CHANGED from {was} to {is_now}.")
        old, new = earlier.coordinator, self.coordinator
        if old.name != new.name:
            lines.append(f"The coordinator CHANGED from {old.name} to {new.name}.")
        elif old.fingerprint != new.fingerprint:
            lines.append(f"The coordinator {new.name} has a NEW certificate.")
        before = {site.name: site.fingerprint for site in earlier.sites}
        after = {site.name: site.fingerprint for site in self.sites}
        lines += [f"{name} JOINED." for name in sorted(after.keys() - before.keys())]
        lines += [f"{name} LEFT." for name in sorted(before.keys() - after.keys())]
        lines += [
            f"{name} has a NEW certificate."
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ]
        return lines

    def check_kit(self, kit: Kit) -> None:
        """Refuse a kit that is not of this charter.

        Raises
        ------
        FederationError
            Saying what differs.
        """
        own = {site.name: site.fingerprint for site in self.sites}.get(kit.name)
        faults = {
            f"the charter has no site {kit.name!r}": own is None,
            f"the charter names another certificate for {kit.name!r} than the kit holds":
            own is not None and own != kit.identity.fingerprint,
            "the kit's root certificate is not the charter's": self.root != kit.root_fingerprint,
            f"the kit is of the consortium {kit.consortium!r}": self.consortium != kit.consortium,
            f"the kit's coordinator is {kit.coordinator!r}":
            self.coordinator.name != kit.coordinator,
            f"the kit names other sites ({', '.join(kit.sites)})":
            set(kit.sites) != set(self.site_names),
        }  # fmt: skip
        found = [f"  {words}" for words, wrong in faults.items() if wrong]
        if found:
            lines = [f"the kit {kit.folder} and the charter do not belong together:", *found]
            lines.append("ask for the charter that was made with this kit, or for a new kit")
            raise FederationError("\n".join(lines))


def make_charter(coordinator: Kit, sites: Mapping[str, Kit]) -> Charter:
    """Write down whose kits were made."""

    def party(kit: Kit) -> Party:
        identity = kit.identity
        return Party(name=kit.name, fingerprint=identity.fingerprint, expires=identity.expires)

    return Charter(
        consortium=coordinator.consortium,
        root=coordinator.root_fingerprint,
        coordinator=party(coordinator),
        sites=tuple(party(kit) for kit in sites.values()),
    )


@dataclass(frozen=True)
class Acceptance:
    """A charter as a person accepted it.

    Parameters
    ----------
    charter : Charter
    site : str
        The site that accepted it.
    dataset : str
        The data set that it accepted it for.
    by, time : str
        Who, and when.
    """

    charter: Charter
    site: str
    dataset: str
    by: str
    time: str


def accept(state: Path, charter: Charter, *, site: str, dataset: str, by: str) -> None:
    """Keep a charter as accepted; earlier ones stay in the file, a broken one beside it."""
    path = state / ACCEPTED
    earlier = []
    if find_earlier(state) is not None:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    elif path.exists():
        path.rename(path.with_name(f"{ACCEPTED}.broken-{now().replace(':', '-')}"))
    facts: dict[str, Any] = {
        "charter": charter.model_dump(mode="json"),
        "site": site,
        "dataset": dataset,
        "by": by,
        "time": now(),
    }
    write_json(path, [*earlier, facts])


def read_acceptance(state: Path) -> Acceptance | None:
    """Return what was accepted last in a state folder, None before the first.

    Raises
    ------
    FederationError
        If the file cannot be read.
    """
    path = state / ACCEPTED
    if not path.exists():
        return None
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))[-1]
        return Acceptance(**{**facts, "charter": Charter.model_validate(facts["charter"])})
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise FederationError(f"{path} cannot be read: accept the charter again") from None


def find_earlier(state: Path) -> Acceptance | None:
    """Return what a new charter replaces; a file that cannot be read counts as none."""
    try:
        return read_acceptance(state)
    except FederationError:
        return None


def check_successor(state: Path, charter: Charter, site: str, *, new_root: bool) -> None:
    """Refuse a charter for a state folder of another site, or of another root unless meant so.

    Raises
    ------
    FederationError
        If it is.
    """
    owner, earlier = read_owner(state), find_earlier(state)
    known = owner.name if owner else earlier.site if earlier else site
    if known != site:
        raise FederationError(
            f"the state folder {state} is of {known!r}, but the kit is of {site!r}: are kits or "
            "folders swapped?"
        )
    root = owner.root if owner else earlier.charter.root if earlier else charter.root
    if root != charter.root and not new_root:
        raise FederationError(
            f"the charter has another root certificate than {state} was used with: if the "
            "consortium has made a new one, say so with --new-root"
        )


def check_acceptance(
    kit: Kit, policy: Policy, state: Path, *, without: bool = False
) -> Charter | None:
    """Return the charter that a site starts under, None where it wants none.

    Raises
    ------
    FederationError
        If none was accepted, or kit, name or data set are not those it was accepted for.
    PolicyError
        If the policy pins another certificate than the charter.
    """
    accepted = read_acceptance(state)
    if without:
        return None
    if accepted is None:
        raise FederationError(
            f"no charter was accepted in {state}: compare the consortium's charter.toml by "
            f"telephone, and accept it with 'fedrulefit site accept charter.toml --kit "
            f"{kit.folder} --state {state}'. --without-charter starts all the same, but {WITHOUT}"
        )
    if accepted.site != kit.name:
        raise FederationError(
            f"the kit {kit.folder} is of {kit.name!r}, but {accepted.by} accepted the charter in "
            f"{state} for {accepted.site!r}: are kits swapped? Use the kit of {accepted.site!r}"
        )
    if accepted.dataset != policy.dataset:
        raise FederationError(
            f"the charter in {state} was accepted for the data set {accepted.dataset!r}, but the "
            f"policy names {policy.dataset!r}: use the right state folder, or accept it again"
        )
    accepted.charter.check_kit(kit)
    join_pins(policy, accepted.charter)
    return accepted.charter


def join_pins(policy: Policy, charter: Charter | None) -> dict[str, str]:
    """Return all certificates that a site knows by heart: its charter's and its policy's.

    Raises
    ------
    PolicyError
        If the two contradict each other.
    """
    pins = {} if charter is None else charter.pins
    for name, fingerprint in policy.peers.items():
        if charter is not None and pins.get(name) != fingerprint:
            what = "names another certificate for" if name in pins else "does not know"
            raise PolicyError(
                f"the policy's [peers] pin {name!r}, but the accepted charter {what} it: correct "
                "the policy, or accept the charter that holds"
            )
    return {**pins, **policy.peers}


def _groups(fingerprint: str) -> list[str]:
    """Return a fingerprint in groups of four, to be read aloud, in two lines."""
    groups = [fingerprint[k : k + 4] for k in range(0, len(fingerprint), 4)]
    return [f"    {' '.join(groups[k : k + 8])}" for k in range(0, len(groups), 8)]
