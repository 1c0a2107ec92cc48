"""The columns of a time to an event → entry, time and event, checked against the study.

The event is 0 for none, 1 for that of interest, and 2 and so on for those that compete with it, in
the study's order.

Follow-up ends at the last horizon: who is followed longer is cut there, and has no event after it.
Nobody at risk for no time at all can have an event, so a follow-up of zero, such as of a patient
who died on the day of admission, counts as a public instant
(:attr:`~fedrulefit.study.TimeOutcome.instant`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.study import TimeOutcome
from fedrulefit.table.cells import match_levels
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.findings import Finding, error, list_levels, warning
from fedrulefit.table.names import names_censoring
from fedrulefit.table.outcome_number import OutcomeNumbers, read_numbers
from fedrulefit.table.outcome_yes_no import OUTCOME_MISSING, check_words, tell_values

OTHER_UNIT: Final = 50
"""A longest follow-up so many times shorter or longer than the last horizon is of another unit."""

TIME_NEGATIVE: Final = error(
    "time-negative",
    "{n} of {all} times are negative",
    "count all times from the same start; leave out patients whose follow-up ended before it",
)
TIME_ZERO: Final = warning(
    "time-zero",
    "{n} of {all} patients are followed for no time at all",
    "they count as followed for {instant}: give the time more exactly if it is known",
)
TIME_SHORT: Final = error(
    "time-short",
    "no patient is followed for {least}, a fiftieth of the study's last horizon",
    "the unit is probably another one: convert the times to the study's unit",
)
TIME_LONG: Final = warning(
    "time-long",
    "{n} of {all} patients are followed for more than {most}, fifty times the study's last horizon",
    "the unit may be another one: convert the times to the study's unit, or nothing to do if "
    "that is meant",
)
ENTRY_MISSING: Final = error(
    "entry-missing",
    "{n} of {all} patients have no time of entry",
    "give 0 to those who are followed from the start",
)
ENTRY_LATE: Final = error(
    "entry-late",
    "{n} of {all} patients enter after the end of their follow-up",
    "check both columns: they count from the same start",
)
ENTRY_BEYOND: Final = error(
    "entry-beyond",
    "{n} of {all} patients enter at the study's last horizon or after it",
    "nothing is learnt of their follow-up: leave these patients out",
)
EVENT_UNKNOWN: Final = error(
    "event-unknown",
    "{n} of {all} patients have a value that is neither {positive} (event) nor {negative}",
    "recode the column to these two values; another event that ends the follow-up is no event, or "
    "stands under 'competing' in the study",
)
CAUSE_UNKNOWN: Final = error(
    "cause-unknown",
    "{n} of {all} patients have a value that is none of the study's {values}",
    "recode the column to these values: no event, the event of interest, and the competing ones",
)
CAUSE_UNSEEN: Final = warning(
    "cause-unseen",
    "no patient has the competing event {cause} by the study's last horizon",
    "the site tells nothing of that event: check how the column codes it",
)
EVENT_BEYOND: Final = warning(
    "event-beyond",
    "{n} of {all} patients have the event after the study's last horizon {horizon}",
    "they count as without it until then: nothing to do",
)
NO_EVENTS: Final = warning(
    "no-events",
    "no patient has the event by the study's last horizon",
    "the site helps with histograms and gradients but cannot grow trees: check the export",
)
ALL_EVENTS: Final = warning(
    "all-events",
    "every patient has the event by the study's last horizon",
    "check that patients without the event are in the table, too: the site cannot grow trees",
)
NOBODY_AT_RISK: Final = warning(
    "nobody-at-risk",
    "no patient is followed beyond {start}, where the last interval before the horizon {horizon} "
    "begins",
    "the site tells nothing of that time: agree on an earlier horizon unless others can",
)


def check_time(columns: Columns, outcome: TimeOutcome) -> tuple[Floats | None, list[Finding]]:
    """Return entry, time (cut at the last horizon) and event, shape (n_rows, 3)."""
    if not set(outcome.columns.values()) <= set(columns.arrays):
        return None, []
    last = outcome.horizons[-1]
    times = read_numbers(outcome.time, columns.arrays[outcome.time], 0, np.inf)
    findings = times.findings + _check_times(times, outcome)
    events, found = _read_events(columns.arrays[outcome.event], outcome)
    findings += found
    entries = np.zeros(columns.n_rows)
    if outcome.entry is not None:
        read = read_numbers(outcome.entry, columns.arrays[outcome.entry], 0, np.inf, ENTRY_MISSING)
        findings += read.findings + _check_entries(read, times, outcome)
        entries = read.values
    instant = outcome.instant
    if any(finding.severity == "error" for finding in findings):
        return np.column_stack([entries, times.values, events]), findings
    zero = times.values == entries
    if zero.any():
        told = _tell(instant, outcome)
        findings.append(TIME_ZERO.of(outcome.time, n=int(zero.sum()), all=zero.size, instant=told))
    ends = np.where(times.values - entries < instant, entries + instant, times.values)
    late = (ends > last) & (events > 0)
    findings += _check_follow_up(ends, events, late, outcome)
    cut = np.minimum(ends, last)
    return np.column_stack([entries, cut, np.where(late, 0.0, events)]), findings


def _tell(time: float, outcome: TimeOutcome) -> str:
    return f"{time:g} {outcome.unit}".strip()


def _check_times(times: OutcomeNumbers, outcome: TimeOutcome) -> list[Finding]:
    name, last = outcome.time, outcome.horizons[-1]
    x, n_known = times.values, times.n_known
    n_negative = times.count(x < 0)
    if n_negative:
        return [TIME_NEGATIVE.of(name, n=n_negative, all=n_known)]
    if n_known and x[times.known].max() < last / OTHER_UNIT:
        return [TIME_SHORT.of(name, least=_tell(last / OTHER_UNIT, outcome))]
    n_long = times.count(x > last * OTHER_UNIT)
    if n_long:
        most = _tell(last * OTHER_UNIT, outcome)
        return [TIME_LONG.of(name, n=n_long, all=n_known, most=most)]
    return []


def _read_events(raw: Raw, outcome: TimeOutcome) -> tuple[Floats, list[Finding]]:
    """Return 0 or 1, or the place of a competing event from 2 on, shape (n_rows,)."""
    name = outcome.event
    events, unknown = match_levels(raw, outcome.values)
    n_unknown = int(unknown.sum())
    n_missing = int(np.isnan(events).sum()) - n_unknown
    # In a column called "censored" a no is the event.
    findings = [] if names_censoring(name) else check_words(name, outcome)
    if n_missing:
        findings.append(OUTCOME_MISSING.of(name, n=n_missing, all=events.size))
    if n_unknown and outcome.competing:
        values = list_levels(outcome.values)
        findings.append(CAUSE_UNKNOWN.of(name, n=n_unknown, all=events.size, values=values))
    elif n_unknown:
        told = tell_values(outcome)
        findings.append(EVENT_UNKNOWN.of(name, n=n_unknown, all=events.size, **told))
    return events, findings


def _check_entries(
    entries: OutcomeNumbers, times: OutcomeNumbers, outcome: TimeOutcome
) -> list[Finding]:
    x, last = entries.values, outcome.horizons[-1]
    faults = (
        (TIME_NEGATIVE, entries.count(x < 0)),
        (ENTRY_LATE, entries.count(times.known & (times.values >= 0) & (x > times.values))),
        (ENTRY_BEYOND, entries.count(x >= last)),
    )
    name = str(outcome.entry)
    return [kind.of(name, n=n, all=entries.n_known) for kind, n in faults if n]


def _check_follow_up(
    ends: Floats, events: Floats, late: Bools, outcome: TimeOutcome
) -> list[Finding]:
    """Look at how long patients are followed, and at how many have the event by the horizon."""
    name, last = outcome.time, outcome.horizons[-1]
    horizon = _tell(last, outcome)
    findings = []
    if late.any():
        n = int(late.sum())
        findings.append(EVENT_BEYOND.of(name, n=n, all=late.size, horizon=horizon))
    counted = (events == 1) & ~late
    if not counted.any():
        findings.append(NO_EVENTS.of(outcome.event))
    elif counted.all():
        findings.append(ALL_EVENTS.of(outcome.event))
    for place, cause in enumerate(outcome.competing, start=2):
        if not ((events == place) & ~late).any():
            findings.append(CAUSE_UNSEEN.of(outcome.event, cause=list_levels([cause])))
    start = (0.0, *outcome.inner_cuts)[-1]
    if ends.max() <= start:
        told = _tell(start, outcome)
        findings.append(NOBODY_AT_RISK.of(name, start=told, horizon=horizon))
    return findings
