"""The column of a number → the outcome, cut to the study's range; and any outcome's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.study import NumberOutcome
from fedrulefit.table.cells import parse_numbers
from fedrulefit.table.codes import find_codes
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.covariates import MOSTLY_OUT_OF_RANGE, OUT_OF_RANGE
from fedrulefit.table.findings import Finding, FindingKind, error, list_codes, warning
from fedrulefit.table.numbers import NOT_A_NUMBER, UNKNOWN_WORD, number_faults
from fedrulefit.table.outcome_yes_no import ONE_CLASS, OUTCOME_MISSING

OUTCOME_CODE: Final = error(
    "outcome-code",
    "{n} of {all} values are {codes}, which the outcome cannot be: this looks like a code for a "
    "missing value, but would count as one",
    "fill the outcome in, or leave these patients out; if they are values, the study's bounds "
    "do not fit",
)
OUTCOME_CODE_INSIDE: Final = warning(
    "outcome-code-inside",
    "{n} of {all} values are {codes}, far from all others: this looks like a code for a missing "
    "value",
    "if it is one, fill the outcome in, or leave these patients out",
)
OUTCOME_STEP: Final = warning(
    "outcome-step",
    "{n} of {all} values are no multiple of the study's step {step}",
    "check the values, or take 'step' out of the study, with all sites",
)
OUTCOME_NARROW: Final = warning(
    "outcome-narrow",
    "all values lie in the lowest fiftieth of the study's range {range}",
    "the unit may be another one: compare the values with the study's unit and range",
)

_FILL_IN: Final = {
    UNKNOWN_WORD.code: "fill it in, or leave these patients out",
    NOT_A_NUMBER.code: "take out units and remarks, and leave out patients without an outcome",
}
"""Advice that does not name a code in the study: an outcome has none."""


@dataclass(frozen=True, eq=False)
class OutcomeNumbers:
    """A column of numbers of an outcome, as read.

    Parameters
    ----------
    values : (n_rows,) float64
        NaN where missing or unreadable.
    known : (n_rows,) bool
        Where a number was measured: not missing, not infinite, and no code for a missing value.
    findings : list of Finding
    """

    values: Floats
    known: Bools
    findings: list[Finding]

    @property
    def n_known(self) -> int:
        """How many numbers were measured."""
        return int(self.known.sum())

    def count(self, rows: Bools) -> int:
        """Return how many of these rows have a number that was measured."""
        return int((self.known & rows).sum())


def read_numbers(
    name: str, raw: Raw, low: float, high: float, missing: FindingKind = OUTCOME_MISSING
) -> OutcomeNumbers:
    """Read a column of an outcome: no cell may be missing, and none has a code for it.

    Parameters
    ----------
    name : str
    raw : (n_rows,) float64 or object
    low, high : float
        What can be a value: a code for a missing value outside is an error, inside a warning.
    missing : FindingKind
        What is found where a cell is missing.
    """
    numbers = parse_numbers(raw)
    x = numbers.values
    findings = [_advise(fault) for fault in number_faults(name, raw, numbers.unreadable, x)]
    n_missing = int((np.isnan(x) & ~numbers.unreadable).sum())
    if n_missing:
        findings.append(missing.of(name, n=n_missing, all=x.size))
    codes = find_codes(x)
    findings += _find_codes(name, codes, int(np.isfinite(x).sum()), low, high)
    known = np.isfinite(x) & ~np.isin(x, list(codes))
    return OutcomeNumbers(x, known, findings)


def _advise(fault: Finding) -> Finding:
    return replace(fault, advice=_FILL_IN.get(fault.code, fault.advice))


def _find_codes(
    name: str, codes: Mapping[float, int], n_known: int, low: float, high: float
) -> list[Finding]:
    outside = [code for code in codes if not low <= code <= high]
    inside = [code for code in codes if low <= code <= high]
    return [
        kind.of(name, n=sum(codes[c] for c in found), all=n_known, codes=list_codes(found))
        for kind, found in ((OUTCOME_CODE, outside), (OUTCOME_CODE_INSIDE, inside))
        if found
    ]


def check_bounds(
    name: str, numbers: OutcomeNumbers, low: float, high: float, unit: str
) -> list[Finding]:
    """Count the numbers beyond the public bounds, which are cut there."""
    x = numbers.values
    n_outside = numbers.count((x < low) | (x > high))
    if not n_outside:
        return []
    kind = MOSTLY_OUT_OF_RANGE if n_outside * 2 > numbers.n_known else OUT_OF_RANGE
    bounds = tell_range(low, high, unit)
    return [kind.of(name, n=n_outside, all=numbers.n_known, range=bounds)]


def tell_range(low: float, high: float, unit: str) -> str:
    """Return a public range with its unit."""
    return f"{low:g} to {high:g} {unit}".rstrip()


def check_constant(name: str, y: Floats) -> list[Finding]:
    """Point out an outcome that is the same for all."""
    return [ONE_CLASS.of(name)] if (y == y[0]).all() else []


def check_number(columns: Columns, outcome: NumberOutcome) -> tuple[Floats | None, list[Finding]]:
    """Return the numbers, cut to the study's range, shape (n_rows,)."""
    raw = columns.arrays.get(outcome.column)
    if raw is None:
        return None, []
    name, (low, high) = outcome.column, outcome.range
    numbers = read_numbers(name, raw, low, high)
    findings = numbers.findings + check_bounds(name, numbers, low, high, outcome.unit)
    if outcome.step is not None:
        multiples = numbers.values / outcome.step
        with np.errstate(invalid="ignore"):
            between = np.abs(multiples - np.round(multiples)) > 1e-6
        n_between = numbers.count(between)
        if n_between:
            facts = {"n": n_between, "all": numbers.n_known, "step": f"{outcome.step:g}"}
            findings.append(OUTCOME_STEP.of(name, **facts))
    same = check_constant(name, numbers.values)
    if not same and numbers.count(numbers.values <= low + (high - low) / 50) == columns.n_rows:
        findings.append(OUTCOME_NARROW.of(name, range=tell_range(low, high, outcome.unit)))
    return np.clip(numbers.values, low, high), findings + same
