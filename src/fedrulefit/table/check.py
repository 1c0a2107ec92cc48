"""Any table → typed columns, checked against the study.

In: a CSV or Parquet file, a data frame, or a mapping from names to arrays, and
the :class:`~fedrulefit.study.Study`. Out: a :class:`Table` with one float per
cell, and every :class:`Finding` of one pass.

Leaves the site: nothing. A finding is made to be shown, mailed or logged: it
holds column names, counts and the study's own words, never a patient's value
and never the place of a patient.

===========  ==========================================  ==================
covariate    in the source                               in ``Table.values``
===========  ==========================================  ==================
number       number, or text of one with a point         the number
category     a level, in any spelling that ``level_key``  position of the level
             takes as the same
yes/no       ``yes`` or ``no`` of the study              1.0 or 0.0
any          null, NaN, empty, or ``MISSING_WORDS``      NaN
===========  ==========================================  ==================
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.errors import DataError
from fedrulefit.study import Category, Level, Number, Study, YesNo, level_key
from fedrulefit.table.columns import (
    Columns,
    Finding,
    Numbers,
    Raw,
    Source,
    UnreadableError,
    error_finding,
    match_levels,
    parse_numbers,
    read_columns,
)
from fedrulefit.table.patients import Table

FEW_PATIENTS: Final = 20
_MAX_LISTED: Final = 20
YES_WORDS: Final = frozenset(
    {"1", "yes", "y", "true", "dead", "died", "death", "deceased", "positive", "event", "case"}
)
NO_WORDS: Final = frozenset(
    {"0", "no", "n", "false", "alive", "none", "negative", "survived", "survivor", "control"}
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


# --- the two entrances --------------------------------------------------------------------


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
        lines = [f"  {finding}" for finding in inspection.errors]
        raise DataError("\n".join([f"{where} does not fit the study {study.name!r}:", *lines]))
    return inspection.table


def inspect_table(
    source: Source, study: Study, *, need_outcome: bool = True, where: str = "table"
) -> Inspection:
    """Check a table against the study and report all that is found.

    With ``need_outcome=False`` (prediction) outcome and weights may be absent;
    where they are there but faulty they are left out with a warning, and
    findings that matter only for learning are not made.
    """
    wanted = {*study.names, study.outcome.column}
    if study.weight:
        wanted.add(study.weight.column)
    try:
        columns = read_columns(source, only=wanted, where=where)
    except UnreadableError as error:
        return Inspection(None, (error.finding,))
    findings = _check_header(columns, study, need_outcome=need_outcome)
    if not wanted.intersection(columns.names):
        return Inspection(None, tuple(findings))
    if columns.n_rows == 0:
        findings.append(
            error_finding("no-rows", None, "the table has no patients", "add their rows")
        )
        return Inspection(None, tuple(findings))
    values = _check_covariates(columns, study, findings, learning=need_outcome)
    outcome = _check_optional(_check_outcome, columns, study, findings, needed=need_outcome)
    weights = _check_optional(_check_weights, columns, study, findings, needed=need_outcome)
    if need_outcome and columns.n_rows < FEW_PATIENTS:
        findings.append(_few_patients(columns.n_rows))
    if any(f.severity == "error" for f in findings):
        return Inspection(None, tuple(findings))
    if weights is None:
        weights = np.ones(columns.n_rows)
    return Inspection(Table(values, outcome, weights), tuple(findings))


# --- findings -----------------------------------------------------------------------------


def _warning(code: str, column: str | None, message: str, advice: str) -> Finding:
    return Finding("warning", code, column, message, advice)


def _few_patients(n_rows: int) -> Finding:
    return _warning(
        "few-patients",
        None,
        f"the number of patients is {n_rows}, below {FEW_PATIENTS}",
        "a site this small learns little and protects its patients less: "
        "consider joining with another site",
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _spelled(levels: Sequence[Level]) -> str:
    return ", ".join(
        repr(level) if isinstance(level, str) else level_key(level) for level in levels
    )


# --- the header ---------------------------------------------------------------------------


def _check_header(columns: Columns, study: Study, *, need_outcome: bool) -> list[Finding]:
    """Compare the names in the table with the names in the study."""
    required = list(study.names)
    optional = [study.outcome.column] + ([study.weight.column] if study.weight else [])
    if need_outcome:
        required += optional
    known = {*study.names, *optional}
    if not known.intersection(columns.names):
        return [_foreign_header(columns, study)]
    findings = []
    if columns.duplicates:
        findings.append(
            error_finding(
                "duplicate-column",
                None,
                f"the table has more than one column named {_listed(columns.duplicates)}",
                "give every column a name of its own",
            )
        )
    extra = [name for name in dict.fromkeys(columns.names) if name not in known and name]
    # A file without a header has a patient's numbers here: those are not shown.
    shown = [name for name in extra if not _is_number(name)]
    findings += [
        _missing_column(name, study, shown) for name in required if name not in columns.names
    ]
    if extra:
        names = _listed(shown) if len(shown) == len(extra) else f"{len(extra)} columns"
        findings.append(
            _warning(
                "extra-column",
                None,
                f"not in the study, and ignored: {names}",
                "no need to act, unless one is a misspelt covariate",
            )
        )
    return findings


def _foreign_header(columns: Columns, study: Study) -> Finding:
    """Say that no name fits, without showing what may be the first patient."""
    folded = {_fold(name) for name in columns.names}
    alike = [name for name in study.names if _fold(name) in folded]
    hint = f"; mind the spelling and case of {_listed(alike)}" if alike else ""
    return error_finding(
        "no-study-columns",
        None,
        "none of the study's columns is in the header",
        "the first line must hold the column names, separated by comma, semicolon, tab or |; "
        f"the study needs {_listed([*study.names, study.outcome.column])}{hint}",
    )


def _missing_column(name: str, study: Study, extra: Sequence[str]) -> Finding:
    role = "covariate"
    if name == study.outcome.column:
        role = "outcome"
    elif study.weight and name == study.weight.column:
        role = "weight"
    folded = {_fold(other): other for other in extra}
    close = difflib.get_close_matches(_fold(name), folded, n=1, cutoff=0.6)
    hint = f"rename {folded[close[0]]!r} if it is the same" if close else "add the column"
    return error_finding(
        "missing-column",
        name,
        f"the {role} column is not in the table",
        f"{hint} (names must match)",
    )


def _fold(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold()) or name


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


# --- covariates ---------------------------------------------------------------------------


def _check_covariates(
    columns: Columns, study: Study, findings: list[Finding], *, learning: bool
) -> Floats:
    """Return values, shape (n_rows, n_features), and add to `findings`."""
    values = np.full((columns.n_rows, study.n_features), np.nan)
    for j, (name, covariate) in enumerate(study.covariates.items()):
        raw = columns.arrays.get(name)
        if raw is None:
            continue
        if isinstance(covariate, Number):
            values[:, j], found = _read_number(name, raw, covariate)
        else:
            values[:, j], found = _read_levels(name, raw, covariate)
        findings += found
        findings += _check_missing(name, values[:, j], covariate.complete, found, learning)
    return values


def _read_number(name: str, raw: Raw, covariate: Number) -> tuple[Floats, list[Finding]]:
    numbers = parse_numbers(raw)
    findings = _number_faults(name, numbers)
    x = numbers.values
    finite = np.isfinite(x)
    low, high = covariate.range
    n_seen = int(finite.sum())
    n_outside = int((finite & ((x < low) | (x > high))).sum())
    bounds = f"{low:g} to {high:g}" + (f" {covariate.unit}" if covariate.unit else "")
    if n_outside * 2 > n_seen:
        findings.append(
            error_finding(
                "mostly-out-of-range",
                name,
                f"{n_outside} of {n_seen} values are outside the study's range {bounds}",
                "the unit is probably another one: convert the column to the study's unit",
            )
        )
    elif n_outside:
        findings.append(
            _warning(
                "out-of-range",
                name,
                f"{n_outside} of {n_seen} values are outside the study's range {bounds}",
                "they are counted at the nearer end of the range: check them for typing errors",
            )
        )
    findings += _check_step(name, x[finite], covariate)
    return x, findings


def _check_step(name: str, x: Floats, covariate: Number) -> list[Finding]:
    if covariate.step is None:
        return []
    multiples = x / covariate.step
    n_between = int((np.abs(multiples - np.round(multiples)) > 1e-6).sum())
    if not n_between:
        return []
    return [
        _warning(
            "between-steps",
            name,
            f"{n_between} of {x.size} values are no multiple of the study's step "
            f"{covariate.step:g}",
            "cut-offs are moved to multiples of the step: check the values, or take 'step' "
            "out of the study",
        )
    ]


def _number_faults(name: str, numbers: Numbers) -> list[Finding]:
    """Errors of any column of numbers, weights included."""
    n_rows = numbers.values.size
    faults = []
    if numbers.n_decimal_comma:
        faults.append(
            error_finding(
                "decimal-comma",
                name,
                f"{numbers.n_decimal_comma} of {n_rows} cells are numbers with a comma",
                "write them with a decimal point and without thousands separators: 3.5, not 3,5",
            )
        )
    if numbers.n_not_number:
        faults.append(
            error_finding(
                "not-a-number",
                name,
                f"{numbers.n_not_number} of {n_rows} cells are not numbers",
                "leave a cell empty where the value is missing, and take out units and remarks",
            )
        )
    if numbers.n_infinite:
        faults.append(
            error_finding(
                "infinite",
                name,
                f"{numbers.n_infinite} of {n_rows} values are infinite",
                "leave the cell empty where the value is missing",
            )
        )
    return faults


def _read_levels(name: str, raw: Raw, covariate: Category | YesNo) -> tuple[Floats, list[Finding]]:
    if isinstance(covariate, YesNo):
        levels: tuple[Level, ...] = (covariate.no, covariate.yes)
    else:
        levels = covariate.levels
    positions, n_unknown = match_levels(raw, levels)
    if not n_unknown:
        return positions, []
    finding = error_finding(
        "unknown-level",
        name,
        f"{n_unknown} of {raw.size} patients have a value that is none of the study's: "
        f"{_spelled(levels)}",
        "recode the column to these values (spelling and case count), "
        "or add the level to the study with all sites",
    )
    return positions, [finding]


def _check_missing(
    name: str, x: Floats, complete: bool, found: Sequence[Finding], learning: bool
) -> list[Finding]:
    """Look for missing and constant values; cells with another fault are not counted twice."""
    if any(f.severity == "error" and f.code != "mostly-out-of-range" for f in found):
        return []
    observed = x[~np.isnan(x)]
    n_missing = x.size - observed.size
    if complete and n_missing:
        return [
            error_finding(
                "missing-value",
                name,
                f"{n_missing} of {x.size} patients have no value, but the study says "
                "the column is complete",
                "fill them in, or set 'complete = false' in the study with all sites",
            )
        ]
    if not learning:
        return []
    if not observed.size:
        return [_warning("all-missing", name, "no patient has a value", "check the export")]
    findings = []
    if n_missing * 2 > x.size:
        findings.append(
            _warning(
                "mostly-missing",
                name,
                f"{n_missing} of {x.size} patients have no value",
                "check the export; rules on it will say little here",
            )
        )
    if (observed == observed[0]).all():
        findings.append(
            _warning(
                "constant",
                name,
                "all patients with a value have the same one",
                "check the export; this site cannot learn from the column",
            )
        )
    return findings


# --- outcome and weights ------------------------------------------------------------------


def _check_optional(
    check: Callable[[Columns, Study], tuple[Floats | None, list[Finding]]],
    columns: Columns,
    study: Study,
    findings: list[Finding],
    *,
    needed: bool,
) -> Floats | None:
    """Run `check`; where the column is not needed, its errors only leave it out."""
    values, found = check(columns, study)
    if needed:
        findings += found
        return values
    faults = [replace(f, severity="warning") for f in found if f.severity == "error"]
    findings += faults
    return None if faults else values


def _check_outcome(columns: Columns, study: Study) -> tuple[Floats | None, list[Finding]]:
    """Return 0/1, shape (n_rows,)."""
    outcome = study.outcome
    raw = columns.arrays.get(outcome.column)
    if raw is None:
        return None, []
    name = outcome.column
    y, n_unknown = match_levels(raw, (outcome.negative, outcome.positive))
    n_missing = int(np.isnan(y).sum()) - n_unknown
    findings = _check_outcome_words(study)
    if n_missing:
        findings.append(
            error_finding(
                "outcome-missing",
                name,
                f"{n_missing} of {y.size} patients have no outcome",
                "fill it in, or leave these patients (and empty rows at the end) out",
            )
        )
    if n_unknown:
        findings.append(
            error_finding(
                "outcome-unknown",
                name,
                f"{n_unknown} of {y.size} patients have an outcome that is neither "
                f"{_spelled([outcome.positive])} (event) nor {_spelled([outcome.negative])}",
                "recode the column to these two values",
            )
        )
    if not n_missing and not n_unknown:
        findings += _check_rate(name, float(y.mean()), outcome.expected_rate)
    return y, findings


def _check_outcome_words(study: Study) -> list[Finding]:
    positive = level_key(study.outcome.positive).casefold()
    negative = level_key(study.outcome.negative).casefold()
    if positive not in NO_WORDS or negative not in YES_WORDS:
        return []
    return [
        _warning(
            "outcome-words",
            study.outcome.column,
            f"the study takes {_spelled([study.outcome.positive])} as the event and "
            f"{_spelled([study.outcome.negative])} as no event",
            "if that is the wrong way round, swap 'positive' and 'negative' in the study",
        )
    ]


def _check_rate(name: str, rate: float, expected: tuple[float, float] | None) -> list[Finding]:
    findings = []
    if rate in (0.0, 1.0):
        findings.append(
            _warning(
                "one-class",
                name,
                "all patients have the same outcome",
                "the site helps with histograms and gradients but cannot grow trees",
            )
        )
    if expected is None or expected[0] <= rate <= expected[1]:
        return findings
    low, high = expected
    text = f"{rate:.0%} of patients have the event; the study expects {low:.0%} to {high:.0%}"
    if low <= 1 - rate <= high:
        findings.append(
            error_finding(
                "outcome-reversed",
                name,
                f"{text}, which fits the other value",
                "the outcome is probably coded the other way round: check it with the study",
            )
        )
    else:
        findings.append(
            _warning("outcome-rate", name, text, "check which patients and which outcome it is")
        )
    return findings


def _check_weights(columns: Columns, study: Study) -> tuple[Floats | None, list[Finding]]:
    """Return the weights, shape (n_rows,), or None without a weight column."""
    if study.weight is None or study.weight.column not in columns.arrays:
        return None, []
    name, top = study.weight.column, study.weight.max
    numbers = parse_numbers(columns.arrays[name])
    w = numbers.values
    findings = _number_faults(name, numbers)
    n_faulty = numbers.n_not_number + numbers.n_decimal_comma
    n_finite = int(np.isfinite(w).sum())
    faults: list[tuple[str, int, str, str]] = [
        (
            "weight-missing",
            int(np.isnan(w).sum()) - n_faulty,
            "are missing",
            "give every patient a weight",
        ),
        ("weight-negative", int((w < 0).sum()), "are negative", "use weights from 0"),
        (
            "weight-too-large",
            int((np.isfinite(w) & (w > top)).sum()),
            f"are above the study's bound {top:g}",
            "rescale the weights, or agree on a larger 'max' with all sites",
        ),
        (
            "weight-zero",
            n_finite if n_finite and not w[np.isfinite(w)].any() else 0,
            "are zero, so that no patient counts",
            "check the export",
        ),
    ]
    for code, n, what, advice in faults:
        if n:
            findings.append(error_finding(code, name, f"{n} of {w.size} weights {what}", advice))
    return w, findings
