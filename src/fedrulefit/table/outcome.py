"""The columns of the outcome → the array that the study's kind of outcome has, checked.

In: raw columns and the study. Out: ``Table.outcome`` in the shapes that
:mod:`fedrulefit.study.outcomes` lists, and findings; one module per kind says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fedrulefit.core.arrays import Floats
from fedrulefit.study import (
    CountOutcome,
    NumberOutcome,
    Study,
    TimeOutcome,
    YesNoOutcome,
)
from fedrulefit.table.columns import Columns
from fedrulefit.table.findings import Finding
from fedrulefit.table.outcome_count import check_count
from fedrulefit.table.outcome_levels import check_levels
from fedrulefit.table.outcome_number import check_number
from fedrulefit.table.outcome_time import check_time
from fedrulefit.table.outcome_yes_no import check_yes_no


def check_outcome(columns: Columns, study: Study) -> tuple[Floats | None, list[Finding]]:
    """Return the outcome, shape (n_rows,) or (n_rows, n_parts)."""
    outcome = study.outcome
    if isinstance(outcome, YesNoOutcome):
        return check_yes_no(columns, outcome)
    if isinstance(outcome, NumberOutcome):
        return check_number(columns, outcome)
    if isinstance(outcome, CountOutcome):
        return check_count(columns, outcome)
    if isinstance(outcome, TimeOutcome):
        return check_time(columns, outcome)
    return check_levels(columns, outcome)


def find_events(outcome: Floats | None, weights: Floats, study: Study) -> Floats | None:
    """Return which rows count as with the outcome, shape (n_rows,); None where there is none."""
    if outcome is None or isinstance(study.outcome, YesNoOutcome):
        return outcome
    events: Floats = study.family.events(outcome, weights)
    return events


_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "count": ("outcome", "exposure"),
    "time": ("entry", "outcome", "event"),
}
"""Which role each part of an outcome has, where it has several."""


def name_parts(study: Study) -> list[str]:
    """Return which column each part of the outcome is of; an empty text for one that is of none."""
    columns = study.outcome.columns
    return [columns.get(role, "") for role in _PARTS.get(study.outcome.kind, ("outcome",))]
