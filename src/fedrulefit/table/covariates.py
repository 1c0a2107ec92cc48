"""Columns of covariates → one float per cell, checked against what the study says of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.study import Level, Number, Study
from fedrulefit.table.columns import Columns
from fedrulefit.table.findings import Finding, error, list_levels, warning
from fedrulefit.table.numbers import number_faults
from fedrulefit.table.reading import Cell, Reading, read_column

NEARLY_ALL: Final = 0.95
"""Share of patients without a value from which a column tells little but where they are."""

MOSTLY_OUT_OF_RANGE: Final = error(
    "mostly-out-of-range",
    "{n} of {all} values are outside the study's range {range}",
    "the unit is probably another one: convert the column to the study's unit",
    when="more than half",
)
OUT_OF_RANGE: Final = warning(
    "out-of-range",
    "{n} of {all} values are outside the study's range {range}",
    "they are counted at the nearer end of the range: check them for typing errors",
    when="at most half",
)
BETWEEN_STEPS: Final = warning(
    "between-steps",
    "{n} of {all} values are no multiple of the study's step {step}",
    "cut-offs are moved to multiples of the step: check the values, or take 'step' "
    "out of the study",
)
UNKNOWN_LEVEL: Final = error(
    "unknown-level",
    "{n} of {all} patients have a value that is none of the study's: {levels}",
    "recode the column to these values (spelling and case count), "
    "or add the level to the study with all sites",
)
MISSING_VALUE: Final = error(
    "missing-value",
    "{n} of {all} patients have no value, but the study says the column is complete",
    "fill them in, or set 'complete = false' in the study with all sites",
)
STANDS_FOR_HOSPITAL: Final = (
    "check the export; if this hospital does not collect it, “{column} is missing” will stand for "
    "the hospital in the model, and its coefficient for all that is different there: talk to the "
    "other sites about leaving the column out of the study"
)
ALL_MISSING: Final = warning("all-missing", "no patient has a value", STANDS_FOR_HOSPITAL)
NEARLY_ALL_MISSING: Final = warning(
    "nearly-all-missing",
    "{n} of {all} patients have no value",
    STANDS_FOR_HOSPITAL,
    when="95 % or more",
)
MOSTLY_MISSING: Final = warning(
    "mostly-missing",
    "{n} of {all} patients have no value",
    "check the export; rules on it will say little here",
    when="more than half, but less than 95 %",
)
CONSTANT: Final = warning(
    "constant",
    "all patients with a value have the same one",
    "check the export; this site cannot learn from the column",
)


def check_covariates(
    columns: Columns, study: Study, findings: list[Finding], *, learning: bool
) -> Floats:
    """Return values, shape (n_rows, n_features), and add to `findings`."""
    values = np.full((columns.n_rows, study.n_features), np.nan)
    for j, (name, covariate) in enumerate(study.covariates.items()):
        raw = columns.arrays.get(name)
        if raw is None:
            continue
        reading = read_column(raw, covariate)
        values[:, j] = reading.values
        if isinstance(covariate, Number):
            found = _check_numbers(name, reading, covariate)
        else:
            found = _check_levels(name, reading, covariate.coded)
        findings += found
        findings += _check_missing(name, values[:, j], covariate.complete, found, learning)
    return values


def _check_numbers(name: str, reading: Reading, covariate: Number) -> list[Finding]:
    x = reading.values
    findings = number_faults(
        name,
        n_not_number=reading.count(Cell.UNREADABLE) - reading.n_decimal_comma,
        n_decimal_comma=reading.n_decimal_comma,
        values=x,
    )
    finite = np.isfinite(x)
    low, high = covariate.range
    n_seen = int(finite.sum())
    n_outside = int((finite & ((x < low) | (x > high))).sum())
    if n_outside:
        kind = MOSTLY_OUT_OF_RANGE if n_outside * 2 > n_seen else OUT_OF_RANGE
        bounds = f"{low:g} to {high:g}" + (f" {covariate.unit}" if covariate.unit else "")
        findings.append(kind.of(name, n=n_outside, all=n_seen, range=bounds))
    return findings + _check_step(name, x[finite], covariate)


def _check_step(name: str, x: Floats, covariate: Number) -> list[Finding]:
    if covariate.step is None:
        return []
    multiples = x / covariate.step
    n_between = int((np.abs(multiples - np.round(multiples)) > 1e-6).sum())
    if not n_between:
        return []
    return [BETWEEN_STEPS.of(name, n=n_between, all=x.size, step=f"{covariate.step:g}")]


def _check_levels(name: str, reading: Reading, levels: Sequence[Level]) -> list[Finding]:
    n_unknown = reading.count(Cell.UNSEEN)
    if not n_unknown:
        return []
    return [
        UNKNOWN_LEVEL.of(name, n=n_unknown, all=reading.values.size, levels=list_levels(levels))
    ]


def _check_missing(
    name: str, x: Floats, complete: bool, found: Sequence[Finding], learning: bool
) -> list[Finding]:
    """Look for missing and constant values; cells with another fault are not counted twice."""
    if any(f.severity == "error" and f.code != MOSTLY_OUT_OF_RANGE.code for f in found):
        return []
    observed = x[~np.isnan(x)]
    n_missing = x.size - observed.size
    if complete and n_missing:
        return [MISSING_VALUE.of(name, n=n_missing, all=x.size)]
    if not learning:
        return []
    if not observed.size:
        return [ALL_MISSING.of(name, column=name)]
    findings = []
    if n_missing >= NEARLY_ALL * x.size:
        findings.append(NEARLY_ALL_MISSING.of(name, n=n_missing, all=x.size, column=name))
    elif n_missing * 2 > x.size:
        findings.append(MOSTLY_MISSING.of(name, n=n_missing, all=x.size))
    if (observed == observed[0]).all():
        findings.append(CONSTANT.of(name))
    return findings
