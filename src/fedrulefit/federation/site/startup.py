"""How a hospital's host is opened: what it is started with, checked and read once.

All of it happens in the hospital's own process, after that has given up the network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from threadpoolctl import threadpool_limits

from fedrulefit.errors import FederationError
from fedrulefit.federation.behind import close_kit, kit_certificates
from fedrulefit.federation.expiry import refuse_expired, warn_of_expiry
from fedrulefit.federation.folderlock import lock_folder
from fedrulefit.federation.kits.charter import WITHOUT, Charter, check_acceptance, join_pins
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.site.host import STATUS, SiteHost, TableFacts
from fedrulefit.federation.site.source import SourceFile
from fedrulefit.federation.state import Owner, check_owner, open_state, read_json
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table
from fedrulefit.table.patients import Table


@dataclass(frozen=True)
class SiteStart:
    """What a hospital's process is started with.

    Parameters
    ----------
    kit : Kit
        The ``site`` part.
    studies : mapping of Path to Study
        The studies that it takes part in, by the files that say them.
    data : Path
        The table of its patients.
    state : Path
        The state folder; made if it is not there.
    policy : Policy
    without_charter : bool
        Whether to start although no person accepted who the other sites are.
    unsafe_noise_seed : int, optional
        For tests that compare engines: named unsafe in everything that leaves, and refused by
        the default policy.
    """

    kit: Kit
    studies: Mapping[Path, Study]
    data: Path
    state: Path
    policy: Policy = field(default_factory=Policy)
    without_charter: bool = False
    unsafe_noise_seed: int | None = None


@dataclass(frozen=True, eq=False)
class OpenedSite:
    """A host that is ready to answer, and what a person should know of it.

    Parameters
    ----------
    host : SiteHost
    charter : Charter or None
    warnings : tuple of str
    """

    host: SiteHost
    charter: Charter | None
    warnings: tuple[str, ...]


def open_site(start: SiteStart) -> OpenedSite:
    """Check all that a site needs, read its table, and open its host.

    Everything that this process and those that it starts write is closed to other users.

    Raises
    ------
    FederationError, PolicyError, LedgerError
        Saying what is wrong, and what to do.
    """
    os.umask(0o077)
    threadpool_limits(1, "blas")  # for good: more threads could change the order of sums
    kit, state = start.kit, start.state
    refuse_expired("site", kit.identity)
    warnings = [*open_state(state), *close_kit(kit)]
    lock = lock_folder(state)
    try:
        charter = check_acceptance(kit, start.policy, state, without=start.without_charter)
        owner = Owner.of("site", kit.name, kit.identity, kit.trust())
        check_owner(state, owner, chartered=charter is not None)
        warnings += _warn(kit, charter)
        source = SourceFile(start.data)
        tables, findings = _read_tables(start)
        if source.changed():
            raise FederationError(f"{start.data} changed while it was read: start again")
        earlier = read_json(state / STATUS).get("tables", [])
        host = _open_host(start, charter, tables, source, lock)
    except BaseException:
        lock.close()
        raise
    changes = compare_tables(earlier, host.tables)
    return OpenedSite(host, charter, (*warnings, *findings, *changes))


def _warn(kit: Kit, charter: Charter | None) -> list[str]:
    """Say what a person should know of certificates and charter."""
    certificates = kit_certificates(kit)
    if charter is None:
        return [WITHOUT, *warn_of_expiry(certificates)]
    party = charter.coordinator
    certificates[f"the certificate of the coordinator {party.name}"] = party.expires
    return warn_of_expiry(certificates)


def _read_tables(start: SiteStart) -> tuple[list[tuple[Study, Table]], list[str]]:
    """Read the patients as each study has them; return also what was found in them."""
    tables: list[tuple[Study, Table]] = []
    findings: list[str] = []
    for path, study in start.studies.items():
        found = inspect_table(start.data, study, where=f"site {start.kit.name}")
        if found.errors or found.table is None:
            lines = [f"  {finding}" for finding in found.errors]
            raise FederationError("\n".join([f"{start.data} does not fit {path}:", *lines]))
        findings += map(str, found.warnings)
        tables.append((study, found.table))
    return tables, findings


def _open_host(
    start: SiteStart,
    charter: Charter | None,
    tables: list[tuple[Study, Table]],
    source: SourceFile,
    lock: IO[str],
) -> SiteHost:
    kit, seed = start.kit, start.unsafe_noise_seed
    return SiteHost(
        kit.name,
        tables,
        start.policy,
        state=start.state,
        identity=kit.identity,
        trust=kit.trust(join_pins(start.policy, charter)),
        coordinator=kit.coordinator,
        roster=kit.sites if charter is None else charter.site_names,
        charter=charter,
        source=source,
        make_noise=lambda: None if seed is None else UnsafeSeededLaplace(seed, kit.name),
        secret_folds=seed is None,
        lock=lock,
    )


def compare_tables(earlier: list[TableFacts], tables: list[TableFacts]) -> list[str]:
    """Say which tables are not those of the last start."""
    before = {facts["study_hash"]: facts for facts in earlier}
    said = []
    for facts in tables:
        known = before.get(facts["study_hash"])
        if known is not None and known["hash"] != facts["hash"]:
            said.append(
                f"the table of {facts['study']} is not that of the last start: {known['patients']} "
                f"patients ({known['hash']}) then, {facts['patients']} ({facts['hash']}) now. If "
                "few patients changed since an earlier run, it is refused ('min_changed')"
            )
    return said
