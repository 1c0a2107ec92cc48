"""Whether a site joins a run: refuses at once what would be refused later, or tell too much."""

from __future__ import annotations

from typing import Final

import msgpack

from fedrulefit.core.fixed import LARGEST_WEIGHT, capacity
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.masking import Masking
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.tables import check_changes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

_NONE: Final = b"\x90"
"""An empty list, packed."""


def check_join(
    request: m.JoinRequest,
    study: Study,
    policy: Policy,
    masking: Masking,
    shared: Memory,
    *,
    learnt: Table,
    held_out: Table,
) -> None:
    """Refuse a run that this site cannot take part in to its end."""
    masking.check_join(request)
    _check_runs(request.header, policy, shared)
    _check_capacity(request, study, masking, (learnt, held_out))
    _check_folds(study, policy)
    check_changes(learnt, held_out, study, shared, policy.min_changed)


def note_run(header: m.Header, shared: Memory) -> None:
    """Count a run over this data set."""
    earlier = msgpack.unpackb(shared.get("runs") or _NONE)
    this = [header.study, header.run]  # one name may stand for runs of several studies
    if this not in earlier:
        shared.put({"runs": msgpack.packb([*earlier, this])})


def _check_runs(header: m.Header, policy: Policy, shared: Memory) -> None:
    """Refuse more runs over this data set than the policy allows."""
    earlier = msgpack.unpackb(shared.get("runs") or _NONE)
    if [header.study, header.run] not in earlier and len(earlier) >= policy.max_runs:
        raise ProtocolError(
            f"the site's policy allows {policy.max_runs} runs over its data set, and they are "
            "used up",
            "policy",
        )


def _check_folds(study: Study, policy: Policy) -> None:
    """Refuse more folds than the policy allows, whether or not the study uses them."""
    n_folds, most = study.settings.folds, policy.max_folds
    if n_folds > most:
        raise ProtocolError(
            f"the study has {n_folds} folds; the site's policy allows {most}", "policy"
        )


def _check_capacity(
    request: m.JoinRequest, study: Study, masking: Masking, tables: tuple[Table, ...]
) -> None:
    """Refuse sums that this table could outgrow, or that could be taken apart."""
    if request.secure and study.settings.weighting != "patients":
        raise ProtocolError(
            "weighting = 'sites' divides each site's sums by its own size, from which masked "
            "totals can be taken apart: use weighting = 'patients'",
            "policy",
        )
    n_sites = masking.most_sites(request)
    most = capacity(study.family, n_sites, own=study.settings.fits_own)
    rows = sum(table.n_rows for table in tables)
    if max(rows, sum(float(table.weights.sum()) for table in tables)) > most:
        raise ProtocolError(
            f"too many patients for a sum over {n_sites} sites: each may have {most:,.0f}, or "
            "weights that add up to so much",
            "policy",
        )
    if study.most_row > LARGEST_WEIGHT:
        raise ProtocolError(
            f"a patient's weight may be up to {LARGEST_WEIGHT:,.0f}: scale the weights down",
            "policy",
        )
