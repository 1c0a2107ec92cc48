"""A table → the text of a first ``study.toml``, for a person to complete.

In: one site's table and which column is the outcome. Out: TOML that
:meth:`fedrulefit.study.Study.load` takes as it is, with a ``CHECK`` comment
wherever a person has to decide.

Leaves the site: whatever its owner does with the file. Ranges are public ones
(:mod:`fedrulefit.table.measures`). Levels are shown as they are, but not those of fewer
than :data:`~fedrulefit.privacy.policy.MIN_COUNT` patients. Identifiers, dates and free
text are left out by their looks, and their contents are not shown.

The text is written line by line: half of it is comments, for which a writer of TOML has no
shorter words, and what TOML asks of a value is told by two functions below.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.errors import DataError, StudyError
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.study import describe_settings, level_key
from fedrulefit.table.cells import (
    MISSING_WORDS,
    NO_WORDS,
    YES_WORDS,
    Numbers,
    factorise,
    parse_numbers,
)
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.header import fold
from fedrulefit.table.measures import KNOWN, Measure, widen
from fedrulefit.table.sources import Source, read_columns

MAX_LEVELS: Final = 12
"""A text column with more distinct values is taken for free text."""

MAX_CODE_LEVELS: Final = 6
"""A column of whole numbers with more distinct values is taken for a number."""

MAX_LEVEL_TEXT: Final = 60
_MIN_IDENTIFIER_ROWS: Final = 50

OUTCOME_NAMES: Final = ("outcome", "mortality", "died", "death", "y", "event", "target")
_SITE: Final = re.compile(r"(?:site|hospital|centre|center|clinic)(?:$|[_\W]|id$)", re.IGNORECASE)
_OTHER_OUTCOME: Final = re.compile(
    r"^y_|died|death|dead|mortality|surviv|deceased|outcome", re.IGNORECASE
)
_IDENTIFIER: Final = re.compile(
    r"(?:^|[_\W])(?:id|mrn|ssn|nhs|bsn|uuid|name|patient|pat_?no|case_?no|record)(?:$|[_\W])",
    re.IGNORECASE,
)
_SHOWN: Final = {"epsilon_total": "10.0", "penalty": "0.01", "max_rules": "10", "holdout": "0.2"}
"""Settings that a draft shows, with a value to start from."""

_DATE: Final = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ].*)?")


def draft_study(
    source: Source,
    *,
    outcome: str | None,
    name: str | None,
    site_column: str | None = None,
) -> str:
    """Return the TOML text of a first study.

    Parameters
    ----------
    source : path, data frame, or mapping
        One site's table.
    outcome : str or None
        The outcome column; None to guess it by its name.
    name : str or None
        The study's name; None to take the file's.
    site_column : str or None
        A column that says which site a patient is from; it is no covariate.

    Raises
    ------
    StudyError
        Where there is no outcome with two values, or no covariate is left.
    DataError
        Where the table cannot be read.
    """
    columns = read_columns(source)
    _check_names(columns)
    if site_column is not None and site_column not in columns.names:
        raise StudyError(f"site column {site_column!r} {_not_there(site_column, columns)}")
    chosen = _find_outcome(columns, outcome)
    title = name or (Path(source).stem if isinstance(source, (str, Path)) else "my study")
    tables = {
        column: _draft_covariate(column, columns.arrays[column], site_column)
        for column in columns.arrays
        if column != chosen
    }
    if not any(lines for _, lines in tables.values()):
        raise StudyError(
            "no column can be a covariate: numbers, yes/no columns and text with few distinct "
            "values can"
        )
    parts = [
        *_draft_head(title),
        *_draft_outcome(chosen, columns.arrays[chosen]),
        *(line for column, table in tables.items() for line in _join(column, *table)),
        *_draft_settings(),
    ]
    return "\n".join(parts) + "\n"


def _check_names(columns: Columns) -> None:
    if columns.duplicates:
        raise DataError("column names occur more than once: give every column its own name")
    numeric = sum(
        parse_numbers(np.array([n], object)).n_not_number == 0 for n in columns.names if n
    )
    if numeric * 2 > len(columns.names):
        raise DataError(
            "the first line does not look like column names (most are numbers): "
            "the first line must hold the column names"
        )
    if columns.n_rows == 0:
        raise DataError("the table has no patients: draft a study from a table that has some")


def _not_there(name: str, columns: Columns) -> str:
    close = difflib.get_close_matches(name, columns.names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "check its spelling"
    return f"is not in the table: {hint}"


# --- the outcome --------------------------------------------------------------------------


def _find_outcome(columns: Columns, given: str | None) -> str:
    """Return the outcome column, named or guessed."""
    if given is not None:
        if given not in columns.arrays:
            raise StudyError(f"outcome {given!r} {_not_there(given, columns)}")
        n_values = len(_count_values(columns.arrays[given]))
        if n_values != 2:
            raise StudyError(
                f"outcome {given!r} has {n_values} distinct values here, not two: choose a "
                "yes/no column, or draft from a table with patients of both outcomes"
            )
        return given
    folded = {name.casefold(): name for name in columns.arrays}
    for guess in OUTCOME_NAMES:
        column = folded.get(guess)
        if column and len(_count_values(columns.arrays[column])) == 2:
            return column
    raise StudyError(
        "which column is the outcome? none has two values and a usual name "
        f"({', '.join(OUTCOME_NAMES)}): pass --outcome COLUMN (in Python: outcome=)"
    )


def _draft_outcome(column: str, raw: Raw) -> Iterator[str]:
    positive, negative = _yes_and_no(_count_values(raw))
    yield "[outcome]"
    yield f"column = {_quote(column)}"
    yield f"positive = {_literal(positive)}  # CHECK: the value of patients with the event"
    yield f"negative = {_literal(negative)}"
    yield 'label = ""  # in words, such as "death within 30 days"'
    yield "# expected_rate = [0.05, 0.40]  # share of events you expect: finds reversed coding"
    yield ""


# --- covariates ---------------------------------------------------------------------------


def _draft_covariate(column: str, raw: Raw, site_column: str | None) -> tuple[str, list[str]]:
    """Return why the column is left out (or ""), and the lines of its table (or none)."""
    counts, numbers = _count_values(raw), parse_numbers(raw)
    reason = _left_out_by_name(column, site_column) or _left_out_by_values(counts, numbers)
    if reason:
        return reason, []
    complete = f"complete = {str(sum(counts.values()) == raw.size).lower()}"
    rare = min(counts.values()) < MIN_COUNT
    if len(counts) == 2 and (not rare or set(counts) == {"0", "1"}):
        return "", [*_yes_no_lines(counts), complete]
    if numbers.n_not_number == 0:
        x = numbers.values[~np.isnan(numbers.values)]
        return _draft_number(column, x, counts, complete)
    if sum(n >= MIN_COUNT for n in counts.values()) < 2:
        return f"has fewer than two levels of {MIN_COUNT} patients or more here", []
    return "", [*_category_lines(counts), *_missing_word_lines(raw), complete]


def _left_out_by_values(counts: Mapping[str, int], numbers: Numbers) -> str:
    if len(counts) < 2:
        return "has fewer than two distinct values here"
    if numbers.n_decimal_comma:
        return "has numbers with a decimal comma: write them with a point"
    if numbers.n_infinite:
        return "has infinite values"
    return _left_out_text(counts) if numbers.n_not_number else ""


def _left_out_by_name(column: str, site_column: str | None) -> str:
    if column == site_column:
        return "says which site a patient is from"
    if _SITE.match(column):
        return "seems to say which site a patient is from"
    if _OTHER_OUTCOME.search(column):
        return "looks like another outcome, which is not known beforehand"
    if _IDENTIFIER.search(column):
        return "looks like an identifier or a name"
    return ""


def _left_out_text(counts: Mapping[str, int]) -> str:
    n_dates = sum(_DATE.fullmatch(text) is not None for text in counts)
    if n_dates * 2 > len(counts):
        return "looks like dates: use a duration in days or hours instead"
    n_rows = sum(counts.values())
    if max(len(text) for text in counts) > MAX_LEVEL_TEXT:
        return "has long texts: free text?"
    if len(counts) == n_rows:
        return "has another text for every patient: an identifier or free text"
    if len(counts) > MAX_LEVELS or len(counts) * 2 > n_rows:
        return f"is text with many distinct values: group them into {MAX_LEVELS} levels or fewer"
    return ""


def _draft_number(
    column: str, x: Floats, counts: Mapping[str, int], complete: str
) -> tuple[str, list[str]]:
    whole = bool((x == np.round(x)).all())
    measure = KNOWN.get(fold(column))
    if measure is None and whole:
        if len(counts) <= MAX_CODE_LEVELS and min(counts.values()) >= MIN_COUNT:
            note = '# CHECK: if these codes have an order, write kind = "number" with a range'
            return "", [note, *_category_lines(counts), complete]
        if len(counts) == x.size >= _MIN_IDENTIFIER_ROWS:
            return "has another whole number for every patient: looks like an identifier", []
    if np.abs(x).max() > 1e300:
        return "has values too large for a range", []
    step = ["step = 1  # whole numbers only"] if whole else []
    return "", [*_range_lines(measure, x), *step, complete]


def _range_lines(measure: Measure | None, x: Floats) -> Iterator[str]:
    yield 'kind = "number"'
    check = "# CHECK: public range, agreed on before looking at patients' values"
    if measure and np.mean((x < measure.low) | (x > measure.high)) <= 0.05:
        yield f"range = [{measure.low:g}, {measure.high:g}]  {check}"
        yield f"unit = {_quote(measure.unit)}"
        return
    low, high = widen(float(x.min()), float(x.max()))
    yield f"range = [{low:g}, {high:g}]  {check}"
    unit = "which unit?"
    if measure:
        unit = f"values do not fit the usual {measure.low:g} to {measure.high:g} {measure.unit}"
    yield f'unit = ""  # CHECK: {unit}'


def _yes_no_lines(counts: Mapping[str, int]) -> Iterator[str]:
    yes, no = _yes_and_no(counts)
    yield 'kind = "yes/no"'
    yield f"yes = {_literal(yes)}  # CHECK"
    yield f"no = {_literal(no)}"
    if min(counts.values()) < MIN_COUNT:
        yield f"# rare: one of them stands for fewer than {MIN_COUNT} patients here"


def _category_lines(counts: Mapping[str, int]) -> Iterator[str]:
    yield 'kind = "category"'
    yield "levels = [  # CHECK: all levels that any site may have"
    for level in sorted(counts, key=_level_order):
        if counts[level] >= MIN_COUNT:
            yield f"  {_literal(level)},"
    yield "]"
    if min(counts.values()) < MIN_COUNT:
        few = f"levels of fewer than {MIN_COUNT} patients"
        yield f"# CHECK: {few} here are not shown: add or merge them"


def _missing_word_lines(raw: Raw) -> Iterator[str]:
    """Point out words such as "none" that may be a level."""
    words = {str(text).strip() for text in factorise(raw)[1]}
    for word in sorted(w for w in words if w and w.casefold() in MISSING_WORDS):
        yield f"# CHECK: {_quote(word)} is taken as missing: add it to the levels if it is one"


# --- values and TOML ----------------------------------------------------------------------


def _count_values(raw: Raw) -> dict[str, int]:
    """Return how often each value occurs, by :func:`level_key`; missing ones are left out."""
    codes, values = factorise(raw)
    sizes = np.bincount(codes[codes >= 0], minlength=len(values))
    counts: dict[str, int] = {}
    for value, n in zip(values, sizes, strict=True):
        key = level_key(value)
        if key.casefold() not in MISSING_WORDS:
            counts[key] = counts.get(key, 0) + int(n)
    return counts


def _yes_and_no(counts: Mapping[str, int]) -> tuple[str, str]:
    """Return which of two values says yes, and the other; without a usual word, the later one."""
    first, second = sorted(counts, key=_level_order)
    swap = first.casefold() in YES_WORDS or second.casefold() in NO_WORDS
    return (first, second) if swap else (second, first)


def _level_order(key: str) -> tuple[int, float, str]:
    """Sort numbers by size and before text."""
    try:
        return 0, float(key), key
    except ValueError:
        return 1, 0.0, key


def _literal(key: str) -> str:
    """Return a level as TOML: 1, 2.5, true, or "text"."""
    if key in ("true", "false"):
        return key
    try:
        number = float(key)
    except ValueError:
        return _quote(key)
    return key if math.isfinite(number) else _quote(key)


def _quote(text: str) -> str:
    # JSON's escapes are TOML's, but TOML also refuses a bare DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quote(name)


def _join(column: str, reason: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"[covariates.{_key(column)}]"
        yield from lines
        yield 'label = ""'
    else:
        yield f"# Left out: {_quote(column)} {reason}."
    yield ""


def _draft_head(title: str) -> Iterator[str]:
    yield "# A first draft, written by 'fedrulefit study draft' from one site's table."
    yield "# Before you send it to the other sites:"
    yield "#   1. Settle every line marked CHECK, with all sites."
    yield "#   2. Take out covariates that are known only after the outcome."
    yield "#   3. Levels are as in the table: make sure that none points to a person."
    yield ""
    yield "format = 1"
    yield f"name = {_quote(title)}"
    yield 'description = ""'
    yield ""


def _draft_settings() -> Iterator[str]:
    yield "[settings]"
    yield 'preset = "default"  # or "paper", the numbers of the published method'
    yield "# Any setting can be changed below; 'fedrulefit study settings' tells them all. Such as:"
    for setting in describe_settings():
        if setting.name in _SHOWN:
            yield f"# {setting.name} = {_SHOWN[setting.name]}"
            yield from textwrap.wrap(
                setting.meaning, 96, initial_indent="#   ", subsequent_indent="#   "
            )
