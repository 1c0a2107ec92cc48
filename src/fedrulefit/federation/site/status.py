"""What a site knows, read from its state folder alone: for ``fedrulefit site status``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Final

from fedrulefit.errors import FederationError, LedgerError
from fedrulefit.federation.expiry import warn_of_expiry
from fedrulefit.federation.folderlock import is_held
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.kits.charter import read_acceptance
from fedrulefit.federation.site.approvals import read_approvals
from fedrulefit.federation.site.audits import RunKey, without_audit
from fedrulefit.federation.site.host import STATUS
from fedrulefit.federation.site.kept import Head
from fedrulefit.federation.site.remembered import read_runs
from fedrulefit.federation.state import JOURNAL, LEDGER, read_json, read_owner
from fedrulefit.privacy.ledger import FIRST, read_rows

_LOOKS: Final = 3
"""How often ledger and journal are compared: a site at work may write between two looks."""


def read_site_status(state: Path) -> dict[str, Any]:
    """Return charter, certificates, data set, tables, ε, runs, pending approvals, warnings.

    Raises
    ------
    FederationError
        If no site has used the folder, nor accepted a charter in it.
    """
    owner, accepted, left = read_owner(state), read_acceptance(state), read_json(state / STATUS)
    if owner is None and accepted is None:
        raise FederationError(
            f"no site has run in {state}: start one with 'fedrulefit site start', or name its "
            "folder with --state"
        )
    certificates = dict(left.get("certificates", {}))
    if accepted is not None:
        party = accepted.charter.coordinator
        whose = f"the certificate of the coordinator {party.name}"
        certificates[whose] = party.expires.isoformat()
    names = {facts["study_hash"]: facts["study"] for facts in left.get("tables", [])}
    epsilon, runs, faults = _read_journal(state, names)
    ends = {whose: dt.date.fromisoformat(end) for whose, end in certificates.items()}
    # What was said of certificates when the site last looked is said anew, as of today.
    told = [w for w in left.get("warnings", []) if not any(w.startswith(whose) for whose in ends)]
    if owner is not None and left.get("charter") is None:
        told.append("the site was started without a charter")
    return {
        "site": owner.name if owner is not None else accepted.site if accepted else "",
        "running": is_held(state),
        "charter": None
        if accepted is None
        else {
            "hash": accepted.charter.hash,
            "consortium": accepted.charter.consortium,
            "sites": list(accepted.charter.site_names),
            "by": accepted.by,
            "time": accepted.time,
        },
        "certificates": certificates,
        "dataset": left.get("dataset") or (accepted.dataset if accepted else ""),
        "tables": left.get("tables", []),
        "epsilon": epsilon,
        "runs": runs,
        "pending": [name for name, one in read_approvals(state).items() if one["decision"] is None],
        "warnings": [*faults, *told, *warn_of_expiry(ends)],
    }


def _read_journal(
    state: Path, names: dict[str, str]
) -> tuple[float, list[dict[str, Any]], list[str]]:
    """Return ε spent, the runs, and what is wrong with the ledger."""
    if not (state / JOURNAL).exists():
        missing = [f"{state / JOURNAL} is missing"] if read_owner(state) else []
        return 0.0, [], missing
    journal = Journal(state / JOURNAL, read_only=True)
    try:
        known = read_runs(journal)
        due = without_audit(state, known)
        runs = [
            {
                **facts,
                "study": names.get(facts["study"], facts["study"]),
                "state": _stand(facts),
                "audit": _audit_words(facts, due),
            }
            for facts in known
        ]
        head = Head.read(journal) or Head()
        wrong = check_ledger(state / LEDGER, journal)
    finally:
        journal.close()
    return head.epsilon, runs, [] if wrong is None else [wrong]


def check_ledger(path: Path, journal: Journal) -> str | None:
    """Say what is wrong with a ledger file, against the head that its journal keeps."""
    wrong = None
    for _ in range(_LOOKS):
        head = Head.read(journal)
        if head is None:
            return None
        try:
            hashes = [row["hash"] for row in read_rows(path)] if path.exists() else []
        except LedgerError as error:
            return str(error)
        wrong = head.explain(path, len(hashes), hashes[-1] if hashes else FIRST)
        if wrong is None:
            return None
    return wrong


def _audit_words(run: dict[str, Any], due: list[RunKey]) -> str:
    """Say whether a run that answered sums was audited; nothing where it answered none."""
    if run["sums"] == 0:
        return ""
    sums = f"{run['sums']} sums answered"
    return f"{sums}, never audited" if (run["study"], run["run"]) in due else f"{sums}, audited"


def _stand(run: dict[str, Any]) -> str:
    if run["erased"] is None:
        return f"under way, {run['steps']} steps answered"
    return f"keys erased, since {run['erased']}"
