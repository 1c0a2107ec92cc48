"""What the texts of a column look like: numbers, dates, limits such as "<5", or words.

In: a raw column of text. Out: :class:`Texts`, a :class:`Look` and a number of rows per text. Which
covariate it is, :mod:`fedrulefit.table.infer` decides from that.

Oracle: cells whose look is known (``tests/unit/table/test_texts.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

import numpy as np

from fedrulefit.study import first_spellings, level_key, level_order
from fedrulefit.table.cells import MISSING_WORDS, factorise
from fedrulefit.table.columns import Raw
from fedrulefit.table.spelling import is_either, is_plain_number, read_number


class Look(Enum):
    """What a text looks like."""

    WHOLE = "a whole number"
    DECIMAL = "a number with a decimal point, or an infinite one"
    CODE = "digits behind a 0, such as a postcode"
    SPELLED = "a number with a decimal comma, or with thousands set apart"
    EITHER = "a number with a comma that may be either of these"
    DATE = "a date or a time of day"
    MARKED = "digits with something else, such as a limit or a unit"
    WORD = "anything else"


NUMBERS: Final = (Look.WHOLE, Look.DECIMAL, Look.SPELLED)

_START: Final = re.compile(r"[-+−.,\d]")
"""How a number or a date begins."""

_DIGIT: Final = re.compile(r"\d")
_CODE: Final = re.compile(r"0\d+")
_DATE: Final = re.compile(
    r"(?:\d{4}([-/.])\d{1,2}(?:\1\d{1,2})?|\d{1,2}([-/.])\d{1,2}\2\d{2,4})(?:[T ]\d{1,2}:.*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d*)?)?"
    r"|\d{1,2}[-. /]*[A-Za-z]{3,9}[-. ,/]*\d{2,4}"
)


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of a column that are not missing, by look.

    Parameters
    ----------
    looks : mapping of str to Look
        By text, without blanks around it.
    rows : mapping of str to int
        How many rows have each.
    """

    looks: Mapping[str, Look]
    rows: Mapping[str, int]

    def of(self, *looks: Look) -> tuple[str, ...]:
        """Return the texts that look so, numbers by size."""
        return tuple(
            sorted((t for t, look in self.looks.items() if look in looks), key=level_order)
        )

    def count(self, *looks: Look) -> int:
        """Return how many rows hold such a text."""
        return sum(self.rows[text] for text, look in self.looks.items() if look in looks)

    @property
    def n_rows(self) -> int:
        """How many rows hold a text at all."""
        return sum(self.rows.values())

    @cached_property
    def n_levels(self) -> int:
        """How many levels the texts are."""
        return len(set(map(level_key, self.looks)))

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The texts as levels, numbers by size and before words.

        Of spellings that count as one level ("1" and "1.0"), the first stands.
        """
        return first_spellings(sorted(self.looks, key=lambda text: (*level_order(text), text)))


def read_texts(raw: Raw, missing: Collection[str] = ()) -> Texts:
    """Look at the texts of a column; `missing` are the keys of codes that mean no value."""
    places, distinct = factorise(raw)
    sizes = np.bincount(places[places >= 0], minlength=len(distinct))
    rows: dict[str, int] = {}
    for text, n in zip((str(text).strip() for text in distinct), sizes.tolist(), strict=True):
        if text.casefold() not in MISSING_WORDS and level_key(text).casefold() not in missing:
            rows[text] = rows.get(text, 0) + n
    return Texts({text: find_look(text) for text in rows}, rows)


def find_look(text: str) -> Look:
    """Return what a text looks like."""
    if _CODE.fullmatch(text):
        return Look.CODE
    if is_plain_number(text) and not math.isnan(float(text)):
        return Look.WHOLE if float(text).is_integer() else Look.DECIMAL
    if not _START.match(text):
        return Look.MARKED if _DIGIT.search(text) else Look.WORD
    if _DATE.fullmatch(text):
        return Look.DATE
    if is_either(text):
        return Look.EITHER
    if read_number(text) is not None and text.casefold() not in MISSING_WORDS:
        return Look.SPELLED
    return Look.MARKED if _DIGIT.search(text) else Look.WORD
