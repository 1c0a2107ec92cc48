"""What a table can be found to have: its code, its severity, its words and the advice.

Each kind of finding is declared once, as a constant of the module that looks for it,
and :meth:`FindingKind.of` fills in its counts. The table of all findings in the
documentation is made from these declarations, and ``tests/disclosure/test_findings.py``
asks for a case of each.

Leaves the site: nothing. A finding is made to be shown, mailed or logged: it
holds column names, counts and the study's own words, never a patient's value
and never the place of a patient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fedrulefit.errors import DataError
from fedrulefit.study import Level, level_key
from fedrulefit.table.spelling import is_plain_number

Severity = Literal["error", "warning"]

_MAX_LISTED: Final = 20


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


@dataclass(frozen=True)
class FindingKind:
    """All findings of one code, with ``{names}`` where their counts and columns go.

    Parameters
    ----------
    severity : {"error", "warning"}
    code : str
    message, advice : str
        As in :class:`Finding`.
    when : str
        When it is found, where the message does not tell: for the documentation.
    """

    severity: Severity
    code: str
    message: str
    advice: str
    when: str = ""

    def of(self, column: str | None = None, /, **facts: object) -> Finding:
        """Return the finding about a column, or about the table as a whole."""
        message, advice = self.message.format(**facts), self.advice.format(**facts)
        return Finding(self.severity, self.code, column, message, advice)


def error(code: str, message: str, advice: str, *, when: str = "") -> FindingKind:
    """Declare findings that keep the site from taking part."""
    return FindingKind("error", code, message, advice, when)


def warning(code: str, message: str, advice: str, *, when: str = "") -> FindingKind:
    """Declare findings to think about."""
    return FindingKind("warning", code, message, advice, when)


class UnreadableError(DataError):
    """The source cannot be read as a table at all."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def list_names(names: Sequence[str]) -> str:
    """Return column names in quotes, and how many more there are than can be shown."""
    shown = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def list_levels(levels: Sequence[Level]) -> str:
    """Return levels of the study as it spells them."""
    return ", ".join(
        repr(level) if isinstance(level, str) else level_key(level) for level in levels
    )


def list_codes(values: Iterable[object]) -> str:
    """Return well-known codes for a missing value, each once, as a study file has them."""
    keys = {level_key(str(value).casefold()) for value in values}
    return ", ".join(key if is_plain_number(key) else f'"{key}"' for key in sorted(keys))
