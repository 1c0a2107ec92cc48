"""The column of a yes/no outcome → 0/1, checked against the study."""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.study import TimeOutcome, YesNoOutcome, level_key
from fedrulefit.table.cells import match_levels
from fedrulefit.table.columns import Columns
from fedrulefit.table.findings import Finding, error, list_levels, warning
from fedrulefit.table.words import says_no, says_yes

OUTCOME_MISSING: Final = error(
    "outcome-missing",
    "{n} of {all} patients have no outcome",
    "fill it in, or leave these patients (and rows at the end that are empty, or totals) out",
)
OUTCOME_UNKNOWN: Final = error(
    "outcome-unknown",
    "{n} of {all} patients have an outcome that is neither {positive} (event) nor {negative}",
    "recode the column to these two values",
)
OUTCOME_WORDS: Final = warning(
    "outcome-words",
    "the study takes {positive} as the event and {negative} as no event",
    "if that is the wrong way round, swap 'positive' and 'negative' in the study",
    when="where the words suggest the opposite",
)
ONE_CLASS: Final = warning(
    "one-class",
    "all patients have the same outcome",
    "the site helps with histograms and gradients but cannot grow trees",
)
OUTCOME_REVERSED: Final = error(
    "outcome-reversed",
    "{rate} of patients have the event; the study expects {range}, which fits the other value",
    "the outcome is probably coded the other way round: check it with the study",
)
OUTCOME_RATE: Final = warning(
    "outcome-rate",
    "{rate} of patients have the event; the study expects {range}",
    "check which patients and which outcome it is",
)


def check_yes_no(columns: Columns, outcome: YesNoOutcome) -> tuple[Floats | None, list[Finding]]:
    """Return 0/1, shape (n_rows,)."""
    raw = columns.arrays.get(outcome.column)
    if raw is None:
        return None, []
    name = outcome.column
    y, unknown = match_levels(raw, (outcome.negative, outcome.positive))
    n_unknown = int(unknown.sum())
    n_missing = int(np.isnan(y).sum()) - n_unknown
    findings = check_words(name, outcome)
    if n_missing:
        findings.append(OUTCOME_MISSING.of(name, n=n_missing, all=y.size))
    if n_unknown:
        findings.append(OUTCOME_UNKNOWN.of(name, n=n_unknown, all=y.size, **tell_values(outcome)))
    if not n_missing and not n_unknown:
        findings += _check_rate(name, float(y.mean()), outcome.expected_rate)
    return y, findings


def tell_values(outcome: YesNoOutcome | TimeOutcome) -> dict[str, str]:
    """Return the two values as the study spells them."""
    return {
        "positive": list_levels([outcome.positive]),
        "negative": list_levels([outcome.negative]),
    }


def check_words(name: str, outcome: YesNoOutcome | TimeOutcome) -> list[Finding]:
    """Point out an event whose words say that nothing happened."""
    positive, negative = level_key(outcome.positive), level_key(outcome.negative)
    if not says_no(positive) or not says_yes(negative):
        return []
    return [OUTCOME_WORDS.of(name, **tell_values(outcome))]


def _check_rate(name: str, rate: float, expected: tuple[float, float] | None) -> list[Finding]:
    findings = []
    if rate in (0.0, 1.0):
        findings.append(ONE_CLASS.of(name))
    if expected is None or expected[0] <= rate <= expected[1]:
        return findings
    low, high = expected
    kind = OUTCOME_REVERSED if low <= 1 - rate <= high else OUTCOME_RATE
    return [*findings, kind.of(name, rate=f"{rate:.0%}", range=f"{low:.0%} to {high:.0%}")]
