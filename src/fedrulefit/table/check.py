"""Any table → typed columns, checked against the study in one pass.

In: any :data:`~fedrulefit.table.sources.Source` and the
:class:`~fedrulefit.study.Study`. Out: a :class:`~fedrulefit.table.patients.Table` with
one float per cell, and every :class:`~fedrulefit.table.findings.Finding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np

from fedrulefit.errors import DataError
from fedrulefit.study import Study
from fedrulefit.table.columns import Columns
from fedrulefit.table.covariates import check_covariates
from fedrulefit.table.findings import Finding, UnreadableError, error, warning
from fedrulefit.table.header import check_header, find_second_header
from fedrulefit.table.outcome import check_outcome, find_events, name_parts
from fedrulefit.table.patient_column import check_patients
from fedrulefit.table.patients import Table
from fedrulefit.table.repeats import check_repeats
from fedrulefit.table.sources import Source, read_columns
from fedrulefit.table.weights import check_weights

_Values = TypeVar("_Values")

FEW_PATIENTS: Final = 20
"""A site of fewer is told that it learns little; nothing that leaves depends on it."""

NO_ROWS: Final = error("no-rows", "the table has no patients", "add their rows")
TOO_FEW: Final = warning(
    "few-patients",
    f"the number of patients is {{n}}, below {FEW_PATIENTS}",
    "a site this small learns little and protects its patients less: "
    "consider joining with another site",
)


@dataclass(frozen=True, eq=False)
class Inspection:
    """What one pass over a table found."""

    table: Table | None
    """None where an error prevents it."""
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that keep the site from taking part."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings to think about."""
        return tuple(f for f in self.findings if f.severity == "warning")


def load_table(
    source: Source, study: Study, *, need_outcome: bool = True, where: str = "table"
) -> Table:
    """Return the checked table, or raise with every error on a line of its own.

    Parameters
    ----------
    source : path, data frame, or mapping
        See :data:`Source`.
    study : Study
        What the columns must hold.
    need_outcome : bool
        False for prediction: see :func:`inspect_table`.
    where : str
        What the error calls the table, such as a site's name.

    Raises
    ------
    DataError
        Where the table does not fit the study.
    """
    inspection = inspect_table(source, study, need_outcome=need_outcome, where=where)
    if inspection.table is None:
        raise _refusal(inspection.errors, study, where)
    return inspection.table


def load_columns(source: Source, study: Study, *, where: str = "table") -> Columns:
    """Return the raw columns of all covariates: to predict, where each row stands for itself.

    Raises
    ------
    DataError
        Where a column is not there, or there twice. What the cells hold is not looked at.
    """
    try:
        columns = read_columns(source, only=set(study.names), where=where)
    except UnreadableError as unreadable:
        raise _refusal([unreadable.finding], study, where) from None
    findings = check_header(columns, study, need_outcome=False)
    faults = [finding for finding in findings if finding.severity == "error"]
    if not faults and columns.n_rows == 0:
        faults = [NO_ROWS.of()]
    if faults:
        raise _refusal(faults, study, where)
    return columns


def _refusal(faults: Sequence[Finding], study: Study, where: str) -> DataError:
    lines = [f"  {finding}" for finding in faults]
    return DataError("\n".join([f"{where} does not fit the study {study.name!r}:", *lines]))


def inspect_table(
    source: Source, study: Study, *, need_outcome: bool = True, where: str = "table"
) -> Inspection:
    """Check a table against the study and report all that is found.

    With ``need_outcome=False`` (prediction) outcome, weights and patients may be absent;
    where they are there but faulty they are left out with a warning, and
    findings that matter only for learning are not made.
    """
    wanted = {*study.names, *study.special.values()}
    try:
        columns = read_columns(source, only=wanted, where=where)
    except UnreadableError as unreadable:
        return Inspection(None, (unreadable.finding,))
    findings = [*columns.findings, *check_header(columns, study, need_outcome=need_outcome)]
    if not wanted.intersection(columns.names):
        return Inspection(None, tuple(findings))
    if columns.n_rows == 0:
        findings.append(NO_ROWS.of())
        return Inspection(None, tuple(findings))
    findings += find_second_header(columns)
    values = check_covariates(columns, study, findings, learning=need_outcome)
    outcome = _check_optional(check_outcome, columns, study, findings, needed=need_outcome)
    weights = _check_optional(check_weights, columns, study, findings, needed=need_outcome)
    patients = _check_optional(check_patients, columns, study, findings, needed=need_outcome)
    n_patients = columns.n_rows if patients is None else len(np.unique(patients))
    if need_outcome and n_patients < FEW_PATIENTS:
        findings.append(TOO_FEW.of(n=n_patients))
    if need_outcome:
        findings += check_repeats(values, outcome, study, name_parts(study))
    if any(f.severity == "error" for f in findings):
        return Inspection(None, tuple(findings))
    if weights is None:
        weights = np.ones(columns.n_rows)
    events = find_events(outcome, weights, study)
    return Inspection(Table(values, outcome, weights, patients, events), tuple(findings))


def _check_optional(
    check: Callable[[Columns, Study], tuple[_Values | None, list[Finding]]],
    columns: Columns,
    study: Study,
    findings: list[Finding],
    *,
    needed: bool,
) -> _Values | None:
    """Run `check`; where the column is not needed, its errors only leave it out."""
    values, found = check(columns, study)
    if needed:
        findings += found
        return values
    faults = [replace(f, severity="warning") for f in found if f.severity == "error"]
    findings += faults
    return None if faults else values
