"""Any table → typed columns, checked against the study.

In: a CSV or Parquet file, a data frame, or a mapping from names to arrays, and
the :class:`~fedrulefit.study.Study`. Out: a :class:`Table` with one float per
cell, and every :class:`Finding` of one pass.

Leaves the site: nothing. A finding is made to be shown, mailed or logged: it
holds column names, counts and the study's own words, never a patient's value
and never the place of a patient. Messages of the readers underneath quote
cells, so they are dropped.

===========  ==========================================  ==================
covariate    in the source                               in ``Table.values``
===========  ==========================================  ==================
number       number, or text of one with a point         the number
category     a level, in any spelling that ``level_key``  position of the level
             takes as the same
yes/no       ``yes`` or ``no`` of the study              1.0 or 0.0
any          null, NaN, empty, or :data:`MISSING_WORDS`  NaN
===========  ==========================================  ==================
"""

from __future__ import annotations

import codecs
import csv
import difflib
import glob
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.errors import DataError
from fedrulefit.study import Category, Level, Number, Study, YesNo, level_key

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Source: TypeAlias = str | Path | Mapping[str, Any] | Any
"""A path to CSV or Parquet, an eager data frame, or names → arrays."""

Raw: TypeAlias = npt.NDArray[Any]
"""One column as read, shape (n_rows,): float64 with NaN, or object with str and None."""

MISSING_WORDS: Final = frozenset({"", "na", "nan", "n/a", "null", "none", "."})
"""Texts that stand for a missing value, in lower case, unless they are a declared level."""

FEW_PATIENTS: Final = 20
DELIMITERS: Final = ",;\t|"
_MAX_LISTED: Final = 20
_CSV_OPTIONS: Final = (
    "auto_detect = false, header = true, delim = $delimiter, quote = '\"', escape = '\"', "
    "nullstr = '', strict_mode = true"
)
_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_UNKNOWN: Final = -1.0
YES_WORDS: Final = frozenset(
    {"1", "yes", "y", "true", "dead", "died", "death", "deceased", "positive", "event", "case"}
)
NO_WORDS: Final = frozenset(
    {"0", "no", "n", "false", "alive", "none", "negative", "survived", "survivor", "control"}
)

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing about a table that its owner should know.

    Parameters
    ----------
    severity : {"error", "warning"}
        An error keeps the site from taking part.
    code : str
        Stable name in kebab-case, for programs.
    column : str or None
        The column it is about; None for the table as a whole.
    message : str
        What is wrong, with counts.
    advice : str
        What to do.
    """

    severity: Severity
    code: str
    column: str | None
    message: str
    advice: str

    def __str__(self) -> str:
        """Return the finding on one line."""
        prefix = "" if self.column is None else f"column {self.column!r}: "
        return f"{prefix}{self.message}; {self.advice}"


@dataclass(frozen=True, eq=False)
class Table:
    """A site's patients in the order and coding of the study.

    Parameters
    ----------
    values : Floats, shape (n_rows, n_features)
        NaN is missing; a category is its level's position; yes/no is 1/0.
    outcome : Floats or None, shape (n_rows,)
        1 for the event, 0 otherwise; None where it was not asked for.
    weights : Floats, shape (n_rows,)
        Ones without a weight column.
    """

    values: Floats
    outcome: Floats | None
    weights: Floats

    @property
    def n_rows(self) -> int:
        """The number of patients."""
        return int(self.values.shape[0])

    def take(self, rows: Bools) -> Table:
        """Return the table of some patients only."""
        outcome = None if self.outcome is None else self.outcome[rows]
        return Table(self.values[rows], outcome, self.weights[rows])


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


@dataclass(frozen=True, eq=False)
class Columns:
    """A table as read: names in their order and the columns asked for."""

    names: tuple[str, ...]
    """As they stand in the source, duplicates included."""
    arrays: Mapping[str, Raw]
    """By name; of columns with the same name, the first."""
    n_rows: int

    @property
    def duplicates(self) -> tuple[str, ...]:
        """Names that occur more than once; unnamed columns do not count."""
        return tuple(name for name, n in Counter(self.names).items() if n > 1 and name)


class UnreadableError(DataError):
    """The source cannot be read as a table at all."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


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
        findings.append(_error("no-rows", None, "the table has no patients", "add their rows"))
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


def _error(code: str, column: str | None, message: str, advice: str) -> Finding:
    return Finding("error", code, column, message, advice)


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
            _error(
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
    return _error(
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
    return _error(
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
            _error(
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


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column read as numbers: NaN where missing or not a number."""

    values: Floats
    n_not_number: int
    n_decimal_comma: int

    @property
    def n_infinite(self) -> int:
        """How many values are infinite."""
        return int(np.isinf(self.values).sum())


def parse_numbers(raw: Raw) -> Numbers:
    """Read a column as numbers; nothing is guessed."""
    if raw.dtype == np.float64:
        return Numbers(raw, 0, 0)
    try:
        values = raw.astype(np.float64)
        # Python takes "1_000" for a number.
        clean = not any("_" in text for text in raw if text is not None)
    except ValueError:
        clean = False
    if clean:
        return Numbers(values, 0, 0)
    codes, texts = factorise(raw)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    lookup = np.full(len(texts) + 1, np.nan)
    n_not_number = n_decimal_comma = 0
    for position, text in enumerate(str(text).strip() for text in texts):
        if text.casefold() in MISSING_WORDS:
            continue
        try:
            lookup[position] = float("bad" if "_" in text else text)
        except ValueError:
            n = int(counts[position])
            if _DECIMAL_COMMA.fullmatch(text):
                n_decimal_comma += n
            else:
                n_not_number += n
    return Numbers(lookup[codes], n_not_number, n_decimal_comma)


def _number_faults(name: str, numbers: Numbers) -> list[Finding]:
    """Errors of any column of numbers, weights included."""
    n_rows = numbers.values.size
    faults = []
    if numbers.n_decimal_comma:
        faults.append(
            _error(
                "decimal-comma",
                name,
                f"{numbers.n_decimal_comma} of {n_rows} cells are numbers with a comma",
                "write them with a decimal point and without thousands separators: 3.5, not 3,5",
            )
        )
    if numbers.n_not_number:
        faults.append(
            _error(
                "not-a-number",
                name,
                f"{numbers.n_not_number} of {n_rows} cells are not numbers",
                "leave a cell empty where the value is missing, and take out units and remarks",
            )
        )
    if numbers.n_infinite:
        faults.append(
            _error(
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
    finding = _error(
        "unknown-level",
        name,
        f"{n_unknown} of {raw.size} patients have a value that is none of the study's: "
        f"{_spelled(levels)}",
        "recode the column to these values (spelling and case count), "
        "or add the level to the study with all sites",
    )
    return positions, [finding]


def match_levels(raw: Raw, levels: Sequence[Level]) -> tuple[Floats, int]:
    """Return each row's position in `levels`, NaN where missing, and how many are unknown.

    Unknown rows are NaN, too.
    """
    keys = {level_key(level): float(i) for i, level in enumerate(levels)}
    keys |= _boolean_aliases(keys)
    missing = MISSING_WORDS - {key.casefold() for key in keys}
    codes, uniques = factorise(raw)
    lookup = np.full(len(uniques) + 1, np.nan)
    for position, value in enumerate(uniques):
        key = level_key(value)
        if key in keys:
            lookup[position] = keys[key]
        elif key.casefold() not in missing:
            lookup[position] = _UNKNOWN
    positions = lookup[codes]
    unknown = positions == _UNKNOWN
    positions[unknown] = np.nan
    return positions, int(unknown.sum())


def _boolean_aliases(keys: Mapping[str, float]) -> dict[str, float]:
    """Let true/false stand for 1/0 and back, where the study has only one of the pairs."""
    if set(keys) == {"0", "1"}:
        return {"false": keys["0"], "true": keys["1"]}
    if set(keys) == {"false", "true"}:
        return {"0": keys["false"], "1": keys["true"]}
    return {}


def factorise(raw: Raw) -> tuple[npt.NDArray[np.intp], Raw]:
    """Return codes and distinct values; missing has the code -1, the last of a lookup."""
    codes, uniques = pd.factorize(raw)
    return codes, np.asarray(uniques)


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
            _error(
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
            _error(
                "outcome-missing",
                name,
                f"{n_missing} of {y.size} patients have no outcome",
                "fill it in, or leave these patients (and empty rows at the end) out",
            )
        )
    if n_unknown:
        findings.append(
            _error(
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
            _error(
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
            findings.append(_error(code, name, f"{n} of {w.size} weights {what}", advice))
    return w, findings


# --- reading ------------------------------------------------------------------------------


def read_columns(
    source: Source, *, only: Collection[str] | None = None, where: str = "table"
) -> Columns:
    """Read a source into raw columns.

    Parameters
    ----------
    source : path, data frame, or mapping
        See :data:`Source`.
    only : collection of str, optional
        Names to read; the names of all columns are reported all the same.
    where : str
        What errors call a source that has no path.

    Raises
    ------
    UnreadableError
        Where there is no table to be read.
    """
    if isinstance(source, (str, Path)):
        return _read_file(Path(source), only)
    if isinstance(source, Mapping):
        return _read_mapping(source, only, where)
    return _read_frame(source, only, where)


def _unreadable(code: str, message: str, advice: str) -> UnreadableError:
    return UnreadableError(_error(code, None, message, advice))


def _wanted(names: Sequence[str], only: Collection[str] | None) -> dict[str, int]:
    """Return name → first position, for named columns that are asked for."""
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        if name and (only is None or name in only):
            positions.setdefault(name, position)
    return positions


def _read_file(path: Path, only: Collection[str] | None) -> Columns:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise _unreadable(
            "file-not-found", f"the file {path} does not exist", "check the path"
        ) from None
    except IsADirectoryError:
        raise _unreadable("not-a-file", f"{path} is a folder", "give the file itself") from None
    except OSError as error:
        reason = error.strerror or "unknown reason"
        raise _unreadable(
            "file-unreadable", f"{path} cannot be opened: {reason}", "check its permissions"
        ) from None
    if not magic:
        raise _unreadable("empty-file", f"the file {path} is empty", "export the table again")
    if magic == b"PAR1":
        return _read_parquet(path, only)
    if magic in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"):
        raise _unreadable(
            "excel-file", f"{path} looks like an Excel workbook", "save it as 'CSV UTF-8'"
        )
    if magic[:2] == b"\x1f\x8b":
        raise _unreadable("compressed-file", f"{path} is compressed", "unpack it first")
    return _read_csv(path, only)


@contextmanager
def _duckdb() -> Iterator[DuckDBPyConnection]:
    """Open DuckDB in memory: no spill to disk, nothing fetched from the network."""
    import duckdb

    connection = duckdb.connect(
        config={
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    try:
        connection.execute("SET enable_progress_bar = false")
        yield connection
    finally:
        connection.close()


def _read_csv(path: Path, only: Collection[str] | None) -> Columns:
    import duckdb

    _check_utf8(path)
    delimiter, names = _read_csv_header(path)
    positions = _wanted(names, only)
    if not positions:
        return Columns(names, {}, 0)
    types = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
    chosen = ", ".join(f"c{i}" for i in positions.values())
    # Only positions are pasted in; names and cells never are.
    query = f"SELECT {chosen} FROM read_csv($path, columns = {{{types}}}, {_CSV_OPTIONS})"  # noqa: S608
    try:
        with _duckdb() as connection:
            # Brackets and stars in a file's name are not patterns.
            parameters = {"path": glob.escape(str(path)), "delimiter": delimiter}
            found = connection.execute(query, parameters).fetchnumpy()
    except duckdb.Error:
        # DuckDB quotes the line, so its words stop here.
        raise _explain_csv(path, delimiter, len(names)) from None
    arrays = {name: from_array(found[f"c{i}"]) for name, i in positions.items()}
    return Columns(names, arrays, next(iter(arrays.values())).size)


def _check_utf8(path: Path) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 22):
                decoder.decode(chunk)
                if b"\0" in chunk:
                    raise UnicodeError
            decoder.decode(b"", final=True)
    except UnicodeError:
        raise _unreadable(
            "not-utf-8",
            f"{path} is not UTF-8",
            "save it as UTF-8 (in Excel: 'CSV UTF-8')",
        ) from None


def _read_csv_header(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter that cuts the header into most names, and the names."""
    best: tuple[str, tuple[str, ...]] = (DELIMITERS[0], ())
    for delimiter in DELIMITERS:
        with path.open(encoding="utf-8-sig", newline="") as file:
            try:
                names = next(csv.reader(file, delimiter=delimiter, strict=True), [])
            except csv.Error:
                continue
        if len(names) > len(best[1]):
            best = (delimiter, tuple(name.strip() for name in names))
    if not any(best[1]):
        raise _unreadable(
            "no-header",
            f"the first line of {path} holds no column names",
            "the first line must hold the column names",
        )
    return best


def _explain_csv(path: Path, delimiter: str, n_columns: int) -> UnreadableError:
    """Find the line that cannot be read, and name only its number."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                if cells and len(cells) != n_columns:
                    return _unreadable(
                        "ragged-row",
                        f"line {reader.line_num} of {path} has {len(cells)} cells, the header "
                        f"has {n_columns}",
                        f"put cells that contain {delimiter!r} in double quotes, or export again",
                    )
        except csv.Error:
            return _unreadable(
                "bad-quotes",
                f"line {reader.line_num} of {path} cannot be read: its double quotes do not match",
                'write a double quote inside a cell as "", or export again',
            )
    return _unreadable(
        "malformed-csv",
        f"{path} cannot be read as CSV: its line ends are mixed, or a line is very long",
        "open and save it once more as 'CSV UTF-8'",
    )


def _read_parquet(path: Path, only: Collection[str] | None) -> Columns:
    import duckdb

    pattern = {"path": glob.escape(str(path))}
    try:
        with _duckdb() as connection:
            # DuckDB takes age and Age for the same name and renames one: the file knows better.
            labels = [
                row[0]
                for row in connection.execute(
                    "DESCRIBE SELECT * FROM read_parquet($path)", pattern
                ).fetchall()
            ]
            schema = connection.execute(
                "SELECT name, num_children FROM parquet_schema($path)", pattern
            ).fetchall()
            own = _top_level_names(schema)
            names = tuple(own) if len(own) == len(labels) else tuple(labels)
            positions = _wanted(names, only)
            quoted = ['"' + labels[i].replace('"', '""') + '"' for i in positions.values()]
            chosen = ", ".join(f"{label} AS c{i}" for i, label in enumerate(quoted))
            query = f"SELECT {chosen or '1 AS c0'} FROM read_parquet($path)"  # noqa: S608
            found = connection.execute(query, pattern).fetchnumpy()
    except duckdb.Error:
        raise _unreadable(
            "malformed-parquet", f"{path} cannot be read as Parquet", "export the table again"
        ) from None
    arrays = {name: from_array(found[f"c{i}"]) for i, name in enumerate(positions)}
    shown = tuple(name for name in names if not name.startswith("__index_level_"))
    return Columns(shown, arrays, len(found["c0"]))


def _top_level_names(schema: Sequence[tuple[str, int | None]]) -> list[str]:
    """Return the columns of a Parquet schema, which lists a tree depth first."""
    names: list[str] = []
    open_children = 0
    for name, n_children in schema[1:]:
        if open_children == 0:
            names.append(name)
        else:
            open_children -= 1
        open_children += n_children or 0
    return names


def _read_mapping(source: Mapping[str, Any], only: Collection[str] | None, where: str) -> Columns:
    names = tuple(str(name) for name in source)
    values = list(source.values())
    positions = _wanted(names, only)
    arrays = {name: _from_any(name, values[i], where) for name, i in positions.items()}
    sizes = {array.size for array in arrays.values()}
    if len(sizes) > 1:
        raise _unreadable(
            "unequal-lengths",
            f"the columns of the {where} differ in length",
            "give every column one value per patient",
        )
    return Columns(names, arrays, sizes.pop() if sizes else 0)


def _read_frame(source: Any, only: Collection[str] | None, where: str) -> Columns:
    names: tuple[str, ...] | None = None
    if isinstance(source, pd.DataFrame):
        # narwhals refuses duplicated names, which we want to report.
        names = tuple(str(name).strip() for name in source.columns)
        source = source.set_axis([f"c{i}" for i in range(len(names))], axis=1)
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        raise _unreadable(
            "unknown-source",
            f"the {where} is a {type(source).__name__}, which is not a table",
            "give a path to CSV or Parquet, an eager data frame (pandas, polars, …), "
            "or a mapping from names to arrays",
        ) from None
    keys = frame.columns
    names = names or tuple(name.strip() for name in keys)
    arrays = {name: _from_series(frame[keys[i]]) for name, i in _wanted(names, only).items()}
    return Columns(names, arrays, len(frame))


def _from_any(name: str, values: Any, where: str) -> Raw:
    if not isinstance(values, np.ndarray):
        try:
            return _from_series(nw.from_native(values, series_only=True))
        except TypeError:
            # pandas knows lists, categoricals and its own nullable arrays.
            return _from_series(nw.from_native(pd.Series(values), series_only=True))
    if values.ndim != 1:
        raise _unreadable(
            "not-a-column",
            f"column {name!r} of the {where} has {values.ndim} dimensions",
            "give one value per patient",
        )
    return from_array(values)


def _from_series(series: Any) -> Raw:
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return from_array(series.cast(nw.Float64).to_numpy())
    return _as_text(series.to_list())


def from_array(values: Any) -> Raw:
    """Return float64 with NaN, or object with str and None, of a one-dimensional array."""
    if isinstance(values, pd.Categorical):
        values = np.asarray(values, dtype=object)
    plain: Raw = np.ma.getdata(values)
    hidden: Bools = np.ma.getmaskarray(values)
    if plain.dtype.kind in "biuf":
        out = plain.astype(np.float64)
        out[hidden] = np.nan
        return out
    if plain.dtype.kind in "Mm":
        hidden = hidden | np.isnat(plain)
        plain = plain.astype(str)
    text = _as_text(plain)
    text[hidden] = None
    return text


def _as_text(values: Sequence[Any] | Raw) -> Raw:
    """Return an object array of str, and None where pandas sees a missing value."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    missing = np.asarray(pd.isna(cells), dtype=bool)
    if pd.api.types.infer_dtype(cells[~missing], skipna=False) not in ("string", "empty"):
        cells[:] = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in cells]
    cells[missing] = None
    return cells
