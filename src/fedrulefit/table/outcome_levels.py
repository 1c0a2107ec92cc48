"""The column of an outcome of several levels → their positions, checked against the study."""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.study import ClassesOutcome, OrderedOutcome
from fedrulefit.table.cells import match_levels
from fedrulefit.table.columns import Columns
from fedrulefit.table.findings import Finding, error, list_levels, warning
from fedrulefit.table.outcome_number import check_constant
from fedrulefit.table.outcome_yes_no import OUTCOME_MISSING

FEW: Final = 5
"""A level of fewer patients is rare."""

OUTCOME_LEVEL: Final = error(
    "outcome-level",
    "{n} of {all} patients have an outcome that is none of the study's: {levels}",
    "recode the column to these values (spelling and case count), or add the level to the study "
    "with all sites; where the outcome is not known, leave these patients out",
)
RARE_LEVEL: Final = warning(
    "rare-level",
    "{n} of {all} patients have the outcome {level}",
    "this site says little of it: think about joining it with another level in the study, with "
    "all sites",
    when=f"fewer than {FEW}",
)


def check_levels(
    columns: Columns, outcome: OrderedOutcome | ClassesOutcome
) -> tuple[Floats | None, list[Finding]]:
    """Return the position of each patient's level, shape (n_rows,)."""
    raw = columns.arrays.get(outcome.column)
    if raw is None:
        return None, []
    name, levels = outcome.column, outcome.levels
    y, unknown = match_levels(raw, levels)
    n_unknown = int(unknown.sum())
    n_missing = int(np.isnan(y).sum()) - n_unknown
    findings = []
    if n_missing:
        findings.append(OUTCOME_MISSING.of(name, n=n_missing, all=y.size))
    if n_unknown:
        told = list_levels(levels)
        findings.append(OUTCOME_LEVEL.of(name, n=n_unknown, all=y.size, levels=told))
    if findings:
        return y, findings
    constant = check_constant(name, y)
    sizes = np.bincount(y.astype(np.int64), minlength=len(levels)).tolist()
    rare = [
        RARE_LEVEL.of(name, n=n, all=y.size, level=list_levels([level]))
        for level, n in zip(levels, sizes, strict=True)
        if n < FEW and not constant
    ]
    return y, [*constant, *rare]
