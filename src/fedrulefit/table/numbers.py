"""Faults of any column of numbers, weights included: what its cells are that are no numbers.

A message names a word or a code only from a public list (:mod:`fedrulefit.table.codes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.table.cells import factorise
from fedrulefit.table.codes import is_unknown_word
from fedrulefit.table.columns import Raw
from fedrulefit.table.findings import Finding, FindingKind, error, list_codes, list_names, warning
from fedrulefit.table.spelling import (
    has_decimal_comma,
    has_grouped_point,
    is_either,
    is_plain_number,
)
from fedrulefit.table.texts import Look, find_look

DECIMAL_COMMA: Final = error(
    "decimal-comma",
    "{n} of {all} cells have a comma that may be a decimal comma or separate thousands",
    "write them with a decimal point and without thousands separators: 1.234 or 1234, not 1,234",
)
MIXED_SEPARATORS: Final = error(
    "mixed-separators",
    "{n} of {all} cells have a point before three digits, which may separate thousands: numbers "
    "of this table have a decimal comma",
    "write all numbers with a decimal point and without thousands separators: 3.5, 1234",
)
READ_COMMA: Final = warning(
    "read-comma",
    "numbers with a decimal comma or separated thousands were read as such in: {names}",
    "3,5 counts as 3.5 and 1 234 as 1234: nothing to do if that is right",
)
DATES: Final = error(
    "dates",
    "{n} of {all} cells are dates",
    "use a number instead: an age in years, or the days from another date, such as admission",
)
UNKNOWN_WORD: Final = error(
    "unknown-word",
    "{n} of {all} cells say {words}, which is no number",
    "leave these cells empty, or add missing = [{words}] to the column in the study, with "
    "all sites",
)
BEYOND_LIMIT: Final = error(
    "beyond-limit",
    "{n} of {all} cells begin with < or >, or end with +",
    "agree with all sites on one number for a value beyond what was measured, such as the limit "
    "itself: 0.5 for <0.5, 90 for 90+",
)
NOT_A_NUMBER: Final = error(
    "not-a-number",
    "{n} of {all} cells are not numbers",
    "leave a cell empty where the value is missing, and take out units and remarks; a word for "
    "missing can be named in the study: missing = [...]",
)
INFINITE: Final = error(
    "infinite",
    "{n} of {all} values are infinite",
    "leave the cell empty where the value is missing",
)

_LIMIT: Final = re.compile(r"[<>≤≥]=?\s*[0-9].*|[0-9]+(?:[.,][0-9]+)?\s*\+")


def is_date(text: str) -> bool:
    """Whether a text looks like a date: 2024-03-31, 31.03.2024, 31 March 2024."""
    return find_look(text.strip()) is Look.DATE


def is_limit(text: str) -> bool:
    """Whether a text says that a value is beyond what was measured or told: <0.5, 90+."""
    return _LIMIT.fullmatch(text.strip()) is not None


_LOOKS: Final[tuple[tuple[FindingKind, Callable[[str], bool]], ...]] = (
    (DATES, is_date),
    (DECIMAL_COMMA, is_either),
    (BEYOND_LIMIT, is_limit),
    (UNKNOWN_WORD, is_unknown_word),
    (NOT_A_NUMBER, lambda text: True),
)
"""What a cell that is no number looks like; the first that fits."""


def number_faults(name: str, raw: Raw, unreadable: Bools, values: Floats) -> list[Finding]:
    """Return the errors of a column of numbers.

    Parameters
    ----------
    name : str
    raw : (n_rows,) float64 or object
    unreadable : (n_rows,) bool
        Which cells are neither numbers nor missing.
    values : (n_rows,) float64
    """
    findings = list(_unreadable(name, raw, unreadable)) if unreadable.any() else []
    n_infinite = int(np.isinf(values).sum())
    if n_infinite:
        findings.append(INFINITE.of(name, n=n_infinite, all=values.size))
    return findings


def _unreadable(name: str, raw: Raw, unreadable: Bools) -> Iterator[Finding]:
    texts = [str(cell) for cell in raw[unreadable]]
    looks = [next(kind for kind, fits in _LOOKS if fits(text)) for text in texts]
    for kind, _ in _LOOKS:
        chosen = [text for text, look in zip(texts, looks, strict=True) if look is kind]
        if chosen:
            words = list_codes(chosen) if kind is UNKNOWN_WORD else ""
            yield kind.of(name, n=len(chosen), all=raw.size, words=words)


@dataclass(frozen=True)
class Spelling:
    """How the numbers of a column are spelled.

    Parameters
    ----------
    n_odd : int
        Cells with a decimal comma or separated thousands.
    n_commas : int
        Those with a decimal comma.
    n_points : int
        Cells such as 1.234, where the point may separate thousands.
    all_points : bool
        Whether no cell has a point that cannot: 12.5.
    """

    n_odd: int = 0
    n_commas: int = 0
    n_points: int = 0
    all_points: bool = False

    def is_doubtful(self, *, commas: bool) -> bool:
        """Whether points may separate thousands; `commas`: other columns have decimal commas."""
        return self.n_points > 0 and (self.n_commas > 0 or (commas and self.all_points))


def spelling_findings(spellings: Mapping[str, Spelling], n_rows: int) -> list[Finding]:
    """Return what is in doubt, or to be known, of the spelling of a table's numbers, by column."""
    commas = any(spelling.n_commas for spelling in spellings.values())
    doubtful = [name for name, found in spellings.items() if found.is_doubtful(commas=commas)]
    odd = [name for name, found in spellings.items() if found.n_odd and name not in doubtful]
    findings = [
        MIXED_SEPARATORS.of(name, n=spellings[name].n_points, all=n_rows) for name in doubtful
    ]
    return [*findings, READ_COMMA.of(names=list_names(odd))] if odd else findings


def look_at_spelling(raw: Raw, values: Floats) -> Spelling:
    """Count the spellings of the cells that were read as numbers."""
    known = ~np.isnan(values)
    if raw.dtype == np.float64 or not known.any():
        return Spelling()
    places, cells = factorise(raw[known])
    texts = [str(cell).strip() for cell in cells]
    rows = np.bincount(places, minlength=len(texts))

    def count(fits: Callable[[str], bool]) -> int:
        return int(rows[[fits(text) for text in texts]].sum())

    points = [text for text in texts if "." in text and is_plain_number(text)]
    return Spelling(
        n_odd=count(lambda text: not is_plain_number(text)),
        n_commas=count(has_decimal_comma),
        n_points=count(has_grouped_point),
        all_points=all(map(has_grouped_point, points)),
    )
