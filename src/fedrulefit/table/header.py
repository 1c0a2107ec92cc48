"""The names in a table against the names in the study, and whether a row of units lies below."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from fedrulefit.study import Study
from fedrulefit.table.cells import parse_numbers
from fedrulefit.table.codes import is_unknown_word
from fedrulefit.table.columns import Columns
from fedrulefit.table.findings import Finding, error, list_names, warning

NO_STUDY_COLUMNS: Final = error(
    "no-study-columns",
    "none of the study's columns is in the header",
    "the first line must hold the column names, separated by comma, semicolon, tab or |, with no "
    "titles above them; the study needs {names}",
)
DUPLICATE_COLUMN: Final = error(
    "duplicate-column",
    "the table has more than one column named {names}",
    "give every column a name of its own",
)
MISSING_COLUMN: Final = error(
    "missing-column", "the {role} column is not in the table", "{hint} (names must match)"
)
EXTRA_COLUMN: Final = warning(
    "extra-column",
    "not in the study, and ignored: {names}",
    "nothing to do if that is meant (the draft of a study says why it leaves a column out); if one "
    "is a misspelt covariate, rename it",
)
SECOND_HEADER: Final = warning(
    "second-header",
    "the row under the names holds words in {n} columns of numbers",
    "if it tells units, or is a second row of names, delete it",
    when="in two columns or more, and no number stands in it",
)


def find_second_header(columns: Columns) -> list[Finding]:
    """Look for a row of units, or of further names, between the names and the patients."""
    n_columns = 0
    for raw in columns.arrays.values():
        numbers = parse_numbers(raw[:1])
        if np.isfinite(numbers.values).any():
            return []
        if numbers.unreadable.any() and not is_unknown_word(str(raw[0])):
            below = parse_numbers(raw[1:])
            known = np.isfinite(below.values)
            n_columns += bool(known.any() and not below.unreadable.any())
    return [SECOND_HEADER.of(n=n_columns)] if n_columns > 1 else []


def check_header(columns: Columns, study: Study, *, need_outcome: bool) -> list[Finding]:
    """Compare the names in the table with the names in the study."""
    required = list(study.names)
    optional = list(study.special.values())
    if need_outcome:
        required += optional
    known = {*study.names, *optional}
    if not known.intersection(columns.names):
        return [_foreign_header(columns, study)]
    findings = []
    if columns.duplicates:
        findings.append(DUPLICATE_COLUMN.of(names=list_names(columns.duplicates)))
    extra = [name for name in dict.fromkeys(columns.names) if name not in known and name]
    # A file without a header has a patient's numbers here: those are not shown.
    shown = [name for name in extra if not _is_number(name)]
    findings += [
        _missing_column(name, study, shown) for name in required if name not in columns.names
    ]
    if extra:
        names = list_names(shown) if len(shown) == len(extra) else f"{len(extra)} columns"
        findings.append(EXTRA_COLUMN.of(names=names))
    return findings


def fold(name: str) -> str:
    """Return a name in lower case without punctuation; one of nothing else stays as it is."""
    return re.sub(r"[\W_]+", "", name.casefold()) or name


def _foreign_header(columns: Columns, study: Study) -> Finding:
    """Say that no name fits, without showing what may be the first patient."""
    folded = {fold(name) for name in columns.names}
    alike = [name for name in study.names if fold(name) in folded]
    names = list_names([*study.names, *study.outcome.columns.values()])
    hint = f"; mind the spelling and case of {list_names(alike)}" if alike else ""
    return NO_STUDY_COLUMNS.of(names=names + hint)


def _missing_column(name: str, study: Study, extra: Sequence[str]) -> Finding:
    roles = {column: role for role, column in study.special.items()}
    role = roles.get(name, "covariate")
    folded = {fold(other): other for other in extra}
    close = difflib.get_close_matches(fold(name), folded, n=1, cutoff=0.6)
    hint = f"rename {folded[close[0]]!r} if it is the same" if close else "add the column"
    return MISSING_COLUMN.of(name, role=role, hint=hint)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
