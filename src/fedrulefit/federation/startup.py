"""What is checked before a process starts, and how a site's host is opened.

The same checks are made twice: by the command, which says in words what is wrong, and by
the process itself, which must not rest on how it was started.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fedrulefit.errors import FederationError
from fedrulefit.federation.charter import WITHOUT, Charter, check_acceptance, join_pins
from fedrulefit.federation.consortium import Kit
from fedrulefit.federation.host import STATUS, SiteHost, lock_folder
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.kept import KeptLedger
from fedrulefit.federation.state import (
    JOURNAL,
    LEDGER,
    Owner,
    SourceFile,
    check_owner,
    open_state,
    own_certificates,
    read_json,
    refuse_expired,
    warn_of_expiry,
    warn_of_open,
    write_owner,
)
from fedrulefit.files import close_to_others
from fedrulefit.privacy.identity import Trust
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import Study
from fedrulefit.table.check import load_table


@dataclass(frozen=True)
class Readiness:
    """What was found before a site starts.

    Parameters
    ----------
    charter : Charter or None
    spent : float
        ε of the data set so far.
    warnings : tuple of str
    """

    charter: Charter | None
    spent: float
    warnings: tuple[str, ...]


def check_site(kit: Kit, policy: Policy, state: Path, *, without_charter: bool) -> Readiness:
    """Check all that a site needs but its table: kit, charter, state folder, ledger.

    Everything that this process and those that it starts write is closed to other users.

    Raises
    ------
    FederationError, PolicyError, LedgerError
        Saying what is wrong, and what to do.
    """
    os.umask(0o077)
    refuse_expired("site", kit.identity)
    warnings = [*open_state(state), *close_kit(kit)]
    lock_folder(state).close()
    charter = check_acceptance(kit, policy, state, without=without_charter)
    trust = kit.trust()
    owner = Owner.of("site", kit.name, kit.identity, trust)
    check_owner(state, owner, chartered=charter is not None)
    certificates = _certificates(kit, trust)
    if charter is None:
        warnings.append(WITHOUT)
    else:
        party = charter.coordinator
        certificates[f"the certificate of the coordinator {party.name}"] = party.expires
    warnings += warn_of_expiry(certificates)
    return Readiness(charter, _check_ledger(state), tuple(warnings))


def _check_ledger(state: Path) -> float:
    """Read the ledger as the site's process will; return the ε spent."""
    if not (state / JOURNAL).exists():  # never started here, but perhaps with an older ledger
        return Ledger(state / LEDGER).epsilon
    journal = Journal(state / JOURNAL)
    try:
        return KeptLedger(state / LEDGER, journal).epsilon
    finally:
        journal.close()


def compare_tables(state: Path, tables: list[dict[str, Any]]) -> list[str]:
    """Say which tables are not those of the last start."""
    earlier = {facts["study_hash"]: facts for facts in read_json(state / STATUS).get("tables", [])}
    said = []
    for facts in tables:
        known = earlier.get(facts["study_hash"])
        if known is not None and known["hash"] != facts["hash"]:
            said.append(
                f"the table of {facts['study']} is not that of the last start: {known['patients']} "
                f"patients ({known['hash']}) then, {facts['patients']} ({facts['hash']}) now. If "
                "few patients changed since an earlier run, it is refused ('min_changed')"
            )
    return said


def check_coordinator(kit: Kit, state: Path) -> list[str]:
    """Check what a coordinator needs, and bind its state folder; return warnings."""
    os.umask(0o077)
    refuse_expired("coordinator", kit.identity)
    warnings = [*open_state(state), *close_kit(kit)]
    lock_folder(state).close()
    trust = kit.trust()
    owner = Owner.of("coordinator", kit.name, kit.identity, trust)
    check_owner(state, owner, chartered=False)
    write_owner(state, owner)
    return warnings + warn_of_expiry(_certificates(kit, trust))


def _certificates(kit: Kit, trust: Trust) -> dict[str, dt.date]:
    """Return when each certificate ends that a process and its carrier need."""
    ends = own_certificates(kit.role, kit.identity, trust)
    if (kit.folder.parent / "carrier").exists():
        ends[f"the certificate of this {kit.role}'s carrier"] = kit.carrier().identity.expires
    return ends


def close_kit(kit: Kit) -> list[str]:
    """Close a kit to others, with its carrier's part if that lies beside; return warnings."""
    folder = kit.folder.parent if (kit.folder.parent / "carrier").exists() else kit.folder
    try:
        return warn_of_open(folder, close_to_others(folder))
    except FederationError as error:  # on a disk of somebody else's, perhaps by intent
        return [str(error)]


def open_host(facts: Mapping[str, Any]) -> SiteHost:
    """Open a hospital's host from the facts that its start-up command was given."""
    os.umask(0o077)
    kit = Kit.load(facts["kit"], "site")
    refuse_expired("site", kit.identity)
    policy = Policy.load(facts["policy"]) if facts["policy"] else Policy()
    studies = [Study.load(path) for path in facts["studies"]]
    state, data = Path(facts["state"]), Path(facts["data"])
    charter = check_acceptance(kit, policy, state, without=bool(facts.get("without_charter")))
    where = f"site {kit.name}"
    # Named unsafe in everything that leaves, and refused by the default policy.
    seed = facts.get("unsafe_noise_seed")
    threadpool_limits(1, "blas")  # for good: more threads could change the order of sums
    source = SourceFile(data)
    tables = [(study, load_table(data, study, where=where)) for study in studies]
    if source.changed():
        raise FederationError(f"{data} changed while it was read: start again")
    return SiteHost(
        kit.name,
        tables,
        policy,
        state=state,
        identity=kit.identity,
        trust=kit.trust(join_pins(policy, charter)),
        coordinator=kit.coordinator,
        roster=kit.sites if charter is None else charter.site_names,
        charter=charter,
        source=source,
        make_noise=lambda: None if seed is None else UnsafeSeededLaplace(seed, kit.name),
        secret_folds=seed is None,
    )
