"""Columns of covariates → one float per cell, checked against what the study says of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.study import Level, Number, Study
from fedrulefit.table.cells import parse_numbers
from fedrulefit.table.codes import CODES, find_codes, is_unknown_word
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.findings import Finding, error, list_codes, list_levels, warning
from fedrulefit.table.numbers import look_at_spelling, number_faults, spelling_findings
from fedrulefit.table.reading import Cell, Reading, read_column
from fedrulefit.table.spelling import is_plain_number

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
CODE_OUTSIDE: Final = error(
    "missing-code-outside",
    "{n} of {all} values are {codes}, outside the study's range: this looks like a code for a "
    "missing value, but would count as a value at the nearer end of the range",
    "leave these cells empty, or add missing = [{codes}] to the column in the study, with all "
    "sites; if they are values, widen its range",
)
CODE_INSIDE: Final = warning(
    "missing-code",
    "{n} of {all} values are {codes}, far from all others: this looks like a code for a missing "
    "value",
    "if it is one, leave these cells empty, or add missing = [{codes}] to the column in the "
    "study, with all sites",
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
    "or add the level to the study with all sites{hint}",
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
            found = _check_numbers(name, raw, reading, covariate, learning)
        else:
            found = _check_levels(name, raw, reading, covariate.coded)
        findings += found
        findings += _check_missing(name, values[:, j], covariate.complete, found, learning)
    if learning:
        findings += _check_spelling(columns, study, values)
    return values


def _check_spelling(columns: Columns, study: Study, values: Floats) -> list[Finding]:
    """Look at how numbers are spelled; one column says what a point may mean in another."""
    numbers = {
        name: values[:, j]
        for j, (name, covariate) in enumerate(study.covariates.items())
        if isinstance(covariate, Number) and name in columns.arrays
    }
    for name in study.outcome.numeric:
        if name in columns.arrays:
            numbers[name] = parse_numbers(columns.arrays[name]).values
    spellings = {name: look_at_spelling(columns.arrays[name], x) for name, x in numbers.items()}
    return spelling_findings(spellings, columns.n_rows)


def _check_numbers(
    name: str, raw: Raw, reading: Reading, covariate: Number, learning: bool
) -> list[Finding]:
    x = reading.values
    findings = number_faults(name, raw, reading.states == Cell.UNREADABLE, x)
    codes = find_codes(x) if learning else {}
    if learning:
        findings += _check_codes(name, codes, int(np.isfinite(x).sum()), covariate)
    x = x[np.isfinite(x) & ~np.isin(x, list(codes))]
    low, high = covariate.range
    n_outside = int(((x < low) | (x > high)).sum())
    if n_outside:
        kind = MOSTLY_OUT_OF_RANGE if n_outside * 2 > x.size else OUT_OF_RANGE
        bounds = f"{low:g} to {high:g}" + (f" {covariate.unit}" if covariate.unit else "")
        findings.append(kind.of(name, n=n_outside, all=x.size, range=bounds))
    return findings + _check_step(name, x, covariate)


def _check_codes(
    name: str, codes: Mapping[float, int], n_known: int, covariate: Number
) -> list[Finding]:
    """Return what looks like codes for a missing value, those beyond the range apart."""
    low, high = covariate.range
    outside = [code for code in codes if not low <= code <= high]
    inside = [code for code in codes if low <= code <= high]
    return [
        kind.of(name, n=sum(codes[c] for c in found), all=n_known, codes=list_codes(found))
        for kind, found in ((CODE_OUTSIDE, outside), (CODE_INSIDE, inside))
        if found
    ]


def _check_step(name: str, x: Floats, covariate: Number) -> list[Finding]:
    if covariate.step is None:
        return []
    multiples = x / covariate.step
    n_between = int((np.abs(multiples - np.round(multiples)) > 1e-6).sum())
    if not n_between:
        return []
    return [BETWEEN_STEPS.of(name, n=n_between, all=x.size, step=f"{covariate.step:g}")]


def _check_levels(name: str, raw: Raw, reading: Reading, levels: Sequence[Level]) -> list[Finding]:
    unseen = reading.states == Cell.UNSEEN
    n_unknown = int(unseen.sum())
    if not n_unknown:
        return []
    codes = list_codes(value for value in raw[unseen] if _is_code(value))
    hint = f"; if {codes} means missing, add missing = [{codes}] to it instead" if codes else ""
    facts = {"n": n_unknown, "all": reading.values.size, "levels": list_levels(levels)}
    return [UNKNOWN_LEVEL.of(name, **facts, hint=hint)]


def _is_code(value: object) -> bool:
    """Whether a cell is a number or a word that often stands for a missing value."""
    text = str(value)
    return is_unknown_word(text) or (is_plain_number(text) and float(text) in CODES)


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
