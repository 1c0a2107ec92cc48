"""The columns of a count → count and exposure, checked against the study."""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.study import CountOutcome
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.findings import Finding, error
from fedrulefit.table.outcome_number import check_bounds, check_constant, read_numbers

COUNT_NEGATIVE: Final = error(
    "count-negative", "{n} of {all} counts are negative", "counts start at 0: check the export"
)
COUNT_FRACTION: Final = error(
    "count-fraction",
    "{n} of {all} counts are no whole numbers",
    "give how often it happened, and the time over which it was counted as a column of its own "
    "('exposure'); for an amount, the study's kind is \"number\"",
)
EXPOSURE_MISSING: Final = error(
    "exposure-missing",
    "{n} of {all} patients have no exposure",
    "fill in over how long was counted, or leave these patients out",
)
EXPOSURE_NEGATIVE: Final = error(
    "exposure-negative", "{n} of {all} exposures are negative", "check the export"
)
EXPOSURE_ZERO: Final = error(
    "exposure-zero",
    "{n} of {all} exposures are zero, in which nothing can be counted",
    "fill in over how long was counted (half a day rather than none), or leave these patients out",
)
EXPOSURE_TOO_LARGE: Final = error(
    "exposure-too-large",
    "{n} of {all} exposures are above the study's bound {bound}",
    "check the unit, or agree on a larger 'max_exposure' with all sites",
)


def check_count(columns: Columns, outcome: CountOutcome) -> tuple[Floats | None, list[Finding]]:
    """Return counts, cut at the study's largest, and exposures, shape (n_rows, 2)."""
    raw = columns.arrays.get(outcome.column)
    if raw is None or (outcome.exposure is not None and outcome.exposure not in columns.arrays):
        return None, []
    counts, findings = _read_counts(raw, outcome)
    exposures = np.ones(len(counts))
    if outcome.exposure is not None:
        exposures, found = _read_exposures(columns.arrays[outcome.exposure], outcome)
        findings += found
    return np.column_stack([counts, exposures]), findings


def _read_counts(raw: Raw, outcome: CountOutcome) -> tuple[Floats, list[Finding]]:
    name = outcome.column
    numbers = read_numbers(name, raw, 0, outcome.most)
    x, findings = numbers.values, numbers.findings
    faults = (
        (COUNT_NEGATIVE, numbers.count(x < 0)),
        (COUNT_FRACTION, numbers.count(x % 1 != 0)),
    )
    findings += [kind.of(name, n=n, all=numbers.n_known) for kind, n in faults if n]
    if not faults[0][1]:
        findings += check_bounds(name, numbers, 0, outcome.most, outcome.unit)
    return np.clip(x, 0, outcome.most), findings + check_constant(name, x)


def _read_exposures(raw: Raw, outcome: CountOutcome) -> tuple[Floats, list[Finding]]:
    name, most = str(outcome.exposure), outcome.max_exposure or 1.0
    numbers = read_numbers(name, raw, 0, most, EXPOSURE_MISSING)
    x = numbers.values
    faults = (
        (EXPOSURE_NEGATIVE, numbers.count(x < 0)),
        (EXPOSURE_ZERO, numbers.count(x == 0)),
        (EXPOSURE_TOO_LARGE, numbers.count(x > most)),
    )
    bound = f"{most:g} {outcome.exposure_unit}".strip()
    found = [kind.of(name, n=n, all=numbers.n_known, bound=bound) for kind, n in faults if n]
    return x, numbers.findings + found
