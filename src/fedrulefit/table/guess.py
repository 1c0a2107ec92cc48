"""One column of one site → what it may be in the study, as lines of TOML, or why it is left out.

What is guessed is marked ``CHECK`` in the file and said again to whoever asked for the draft.
Levels are shown as they are, but not those of fewer than
:data:`~fedrulefit.privacy.policy.MIN_COUNT` patients, nor a lowest or highest value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.study import level_key
from fedrulefit.table.cells import MISSING_WORDS, Numbers, factorise, parse_numbers
from fedrulefit.table.codes import CODES, LONG, find_codes, is_unknown_word, looks_like_identifiers
from fedrulefit.table.columns import Raw
from fedrulefit.table.header import fold
from fedrulefit.table.measures import KNOWN, Measure, widen
from fedrulefit.table.names import names_codes, names_order, split_unit
from fedrulefit.table.numbers import is_date, is_limit, look_at_spelling
from fedrulefit.table.spelling import is_either, is_plain_number, read_number
from fedrulefit.table.toml_text import toml_level, toml_number, toml_string
from fedrulefit.table.words import find_order, says_no, says_yes

MAX_LEVELS: Final = 12
"""A text column with more distinct values is taken for free text."""

MAX_CODE_LEVELS: Final = 6
"""A column of whole numbers with more distinct values is taken for a number."""

MAX_NAMED_CODES: Final = 30
"""The same where the column's name suggests codes."""

MAX_LEVEL_TEXT: Final = 60

MOST_STRAY: Final = 0.1
"""Share of cells up to which a column of numbers may hold texts."""

MOST_MEASURED: Final = 1e15
"""Above this a number is none that was measured."""

_MARKED: Final = re.compile(r"\W{0,2}[0-9]+(?:[.,][0-9]+)?\s*(?:[a-zµ%°/².³]{0,8})$", re.IGNORECASE)
"""A number with a unit or a sign."""


@dataclass(frozen=True)
class Guess:
    """What a column may be.

    Parameters
    ----------
    lines : tuple of str
        Its table in TOML; none where it is left out.
    left_out : str
        Why it is left out, or an empty text.
    said : tuple of str
        What was guessed, in words for people.
    """

    lines: tuple[str, ...] = ()
    left_out: str = ""
    said: tuple[str, ...] = ()


@dataclass
class Seen:
    """A column as far as it is known."""

    name: str
    raw: Raw
    numbers: Numbers
    counts: dict[str, int]
    """How often each value occurs, those that look missing left out."""
    missing: list[str]
    """Codes and words that look missing."""
    said: list[str] = field(default_factory=list)

    @property
    def shown(self) -> list[str]:
        """Values of enough patients to be shown."""
        return [key for key, n in self.counts.items() if n >= MIN_COUNT]

    @property
    def strays(self) -> dict[str, int]:
        """Values that are no numbers."""
        return {key: n for key, n in self.counts.items() if read_number(key) is None}

    @property
    def x(self) -> Floats:
        """The known numbers."""
        return self.numbers.values[~np.isnan(self.numbers.values)]

    @property
    def measure(self) -> Measure | None:
        """The well-known measure that the name says it is."""
        return KNOWN.get(fold(split_unit(self.name)[0]))

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        return not self.strays and bool((self.x == np.round(self.x)).all())


def guess_column(name: str, raw: Raw, *, commas: bool = False) -> Guess:
    """Return what a column may be; `commas`: other columns have decimal commas."""
    column = look_at(name, raw)
    reason = _left_out(column, commas=commas)
    if reason:
        return Guess(left_out=reason)
    lines = [*_kind_lines(column), *_missing_lines(column)]
    return Guess(tuple(lines), said=tuple(column.said))


def count_values(raw: Raw) -> dict[str, int]:
    """Return how often each value occurs, by :func:`level_key`; missing ones are left out."""
    codes, values = factorise(raw)
    sizes = np.bincount(codes[codes >= 0], minlength=len(values))
    counts: dict[str, int] = {}
    for value, n in zip(values, sizes, strict=True):
        key = level_key(value)
        if key.casefold() not in MISSING_WORDS:
            counts[key] = counts.get(key, 0) + int(n)
    return counts


def yes_and_no(values: Iterable[str]) -> tuple[str, str, bool]:
    """Return which of two values says yes, the other, and whether their words tell it."""
    first, second = sorted(values, key=_place)
    order = find_order((first, second))
    if order is not None:
        return order[1], order[0], True
    # 1 and 2 are as often yes and no as no and yes.
    told = {first, second} == {"0", "1"} or not all(map(is_plain_number, (first, second)))
    if says_yes(first) or says_no(second):
        return first, second, told
    return second, first, told and (says_yes(second) or says_no(first))


def _place(key: str) -> tuple[int, float, str]:
    """Sort numbers by size and before text."""
    return (0, float(key), key) if is_plain_number(key) else (1, 0.0, key)


# --- what is missing, and what is left out --------------------------------------------------


def look_at(name: str, raw: Raw) -> Seen:
    """Set apart what looks like a code or a word for a missing value."""
    counts = count_values(raw)
    missing = [key for key in counts if is_unknown_word(key)]
    numbers = parse_numbers(raw, missing)
    if numbers.n_infinite:
        codes: Collection[float] = ()
    elif _mostly_text(counts):
        codes = _TEXT_CODES
    else:
        codes = find_codes(numbers.values)
    missing += [key for key in counts if key not in missing and read_number(key) in codes]
    known = {key: n for key, n in counts.items() if key not in missing}
    return Seen(name, raw, parse_numbers(raw, missing), known, missing)


_TEXT_CODES: Final = frozenset(code for code in CODES if code < 0 or code >= LONG)
"""Codes that stand for a missing value among levels of text, too."""


def _mostly_text(counts: Mapping[str, int]) -> bool:
    texts = [n for key, n in counts.items() if read_number(key) is None]
    return 2 * sum(texts) > sum(counts.values())


def _left_out(column: Seen, *, commas: bool) -> str:
    """Return why a column is left out for its values, or an empty text."""
    if len(column.counts) < 2:
        return "has fewer than two distinct values here"
    if sum(map(is_date, column.counts)) * 2 > len(column.counts):
        return "looks like dates or times: use an age in years, or the time from another, instead"
    if any(map(is_either, column.counts)):
        return (
            "has commas that may be decimal or separate thousands: write numbers with a point, "
            "and thousands without a separator"
        )
    if column.numbers.n_infinite:
        return "has infinite values"
    if _is_number(column):
        return _left_out_number(column, commas=commas)
    return _left_out_text(column)


def _is_number(column: Seen) -> bool:
    """Whether all cells are numbers, or most are, and more than a few levels could be.

    A limit is a measurement, too, so there may be more of them than of other texts.
    """
    strays = column.strays
    if not strays:
        return True
    n_rows = sum(column.counts.values())
    n_others = sum(n for text, n in strays.items() if not is_limit(text))
    few = n_others <= MOST_STRAY * n_rows and 2 * sum(strays.values()) < n_rows
    return few and len(column.counts) - len(strays) > MAX_LEVELS


def _left_out_number(column: Seen, *, commas: bool) -> str:
    x = column.x
    if look_at_spelling(column.raw, column.numbers.values).is_doubtful(commas=commas):
        return (
            "has points that may separate thousands, in a table with decimal commas: write numbers "
            "with a decimal point, and thousands without a separator"
        )
    if np.abs(x).max() > MOST_MEASURED:
        return f"has values beyond {MOST_MEASURED:g}, which nobody measured"
    if len(column.counts) > MAX_LEVELS and _has_leading_zeros(column.raw):
        return "has codes with leading zeros, such as postcodes, which are no numbers"
    if looks_like_identifiers(x) and column.measure is None:
        return "has another whole number for every patient: looks like an identifier"
    return ""


def _has_leading_zeros(raw: Raw) -> bool:
    """Whether all texts are digits of one length, some with zeros in front."""
    texts = [str(text).strip() for text in factorise(raw)[1]]
    of_one_length = len(set(map(len, texts))) == 1 and all(map(str.isdecimal, texts))
    return of_one_length and len(texts[0]) > 1 and any(text[0] == "0" for text in texts)


def _left_out_text(column: Seen) -> str:
    counts, n_rows = column.counts, sum(column.counts.values())
    if max(map(len, counts)) > MAX_LEVEL_TEXT:
        return "has long texts: free text?"
    n_marked = sum(n for text, n in counts.items() if _MARKED.match(text))
    if n_marked * 2 > n_rows and len(counts) > MAX_LEVELS:
        return "has numbers with units or remarks: leave the numbers only, in one unit"
    if len(counts) == n_rows:
        return "has another text for every patient: an identifier or free text"
    if len(counts) > MAX_LEVELS or len(counts) * 2 > n_rows:
        return f"is text with many distinct values: group them into {MAX_LEVELS} levels or fewer"
    if len(column.shown) < 2:
        return f"has fewer than two levels of {MIN_COUNT} patients or more here"
    return ""


# --- kinds ----------------------------------------------------------------------------------


def _kind_lines(column: Seen) -> Iterator[str]:
    counts = column.counts
    rare = len(column.shown) < len(counts)
    if _is_number(column) and not all(map(is_plain_number, counts)):
        return _number_lines(column)
    if len(counts) == 2 and (not rare or set(counts) == {"0", "1"}):
        return _yes_no_lines(column)
    if _is_number(column):
        return _number_or_codes(column)
    order = find_order(counts)
    if order is not None:
        return _ordered_lines(column, order)
    return chain(_category_lines(column), _missing_word_lines(column.raw))


def _number_or_codes(column: Seen) -> Iterator[str]:
    """Tell numbers from codes: a few whole numbers may be levels."""
    if column.is_whole and column.measure is None:
        all_shown = len(column.shown) == len(column.counts)
        if len(column.counts) <= MAX_CODE_LEVELS and all_shown:
            if names_order(column.name):
                return _ordered_lines(column, sorted(column.counts, key=_place))
            column.said.append("whole numbers, taken for codes without an order")
            return chain([_AS_ORDERED], _category_lines(column))
        if names_codes(column.name) and len(column.counts) <= MAX_NAMED_CODES:
            column.said.append("whole numbers, by its name taken for codes without an order")
            if len(column.shown) >= 2:
                return chain([_AS_NUMBER], _category_lines(column))
    return _number_lines(column)


_AS_ORDERED: Final = (
    '# CHECK: a guess; if these have an order, write kind = "ordered"; if they are amounts, '
    'kind = "number" with a range'
)
_AS_NUMBER: Final = (
    '# CHECK: a guess from the name; if these are amounts, write kind = "number" with a range'
)


def _yes_no_lines(column: Seen) -> Iterator[str]:
    yes, no, told = yes_and_no(column.counts)
    if not told:
        column.said.append(f"{toml_level(yes)} taken as yes, {toml_level(no)} as no")
    yield 'kind = "yes/no"'
    yield f"yes = {toml_level(yes)}" + (
        "" if told else "  # CHECK: a guess which of the two is yes"
    )
    yield f"no = {toml_level(no)}"
    if len(column.shown) < 2:
        yield f"# rare: one of them stands for fewer than {MIN_COUNT} patients here"


def _category_lines(column: Seen) -> Iterator[str]:
    yield 'kind = "category"'
    if len({key.casefold() for key in column.counts}) < len(column.counts):
        column.said.append("has levels that differ in capitals only")
        yield "# CHECK: levels that differ in capitals only are kept apart: recode them"
    yield from _level_lines(column, sorted(column.counts, key=_place), "all levels that any site")


def _ordered_lines(column: Seen, order: Sequence[str]) -> Iterator[str]:
    shown = " < ".join(level for level in order if level in column.shown)
    column.said.append(f"levels put in an order: {shown}")
    yield 'kind = "ordered"'
    words = "the order is a guess, the lowest first; all levels that any site"
    yield from _level_lines(column, order, words)


def _level_lines(column: Seen, levels: Sequence[str], words: str) -> Iterator[str]:
    yield f"levels = [  # CHECK: {words} may have"
    yield from (f"  {toml_level(level)}," for level in levels if level in column.shown)
    yield "]"
    if len(column.shown) < len(levels):
        few = f"levels of fewer than {MIN_COUNT} patients"
        column.said.append(f"{few} are not shown: add or merge them")
        yield f"# CHECK: {few} here are not shown: add or merge them"


def _number_lines(column: Seen) -> Iterator[str]:
    yield 'kind = "number"'
    yield from range_lines(column)
    if column.is_whole:
        yield "step = 1  # whole numbers only"
    n_limits = sum(n for key, n in column.strays.items() if is_limit(key))
    n_others = sum(column.strays.values()) - n_limits
    if n_limits:
        limits = f"begin with < or >, or end with +: {n_limits}"
        column.said.append(f"a number; cells that {limits}")
        yield f"# CHECK: cells here that {limits}; agree on a number for them"
    if n_others:
        column.said.append(f"a number; cells that are no numbers: {n_others}")
        yield f"# CHECK: cells here that are no numbers: {n_others}; empty or mend them"


def range_lines(column: Seen) -> Iterator[str]:
    """Yield a public range and a unit: well-known ones, or round numbers well beyond the values."""
    measure, x = column.measure, column.x
    named = bool(split_unit(column.name)[1])
    check = "# CHECK: public range, agreed on before looking at patients' values"
    if measure and np.mean((x < measure.low) | (x > measure.high)) <= 0.05:
        yield f"range = [{toml_number(measure.low)}, {toml_number(measure.high)}]  {check}"
        if measure.unit and not named:
            yield f"unit = {toml_string(measure.unit)}"
        return
    low, high = widen(float(x.min()), float(x.max()))
    yield f"range = [{toml_number(low)}, {toml_number(high)}]  {check}"
    unit = "which unit?"
    if measure:
        usual = f"{measure.low:g} to {measure.high:g} {measure.unit}".strip()
        unit = f"values do not fit the usual {usual}"
    yield 'unit = ""' + ("  # the name tells it" if named and not measure else f"  # CHECK: {unit}")


# --- missing values -------------------------------------------------------------------------


def _missing_lines(column: Seen) -> Iterator[str]:
    if column.missing:
        codes = ", ".join(map(toml_level, sorted(column.missing, key=_place)))
        column.said.append(f"{codes} taken as missing")
        yield f"missing = [{codes}]  # CHECK: a guess; take out what is a value"


def _missing_word_lines(raw: Raw) -> Iterator[str]:
    """Point out words such as "NA" that may be a level."""
    words = {str(text).strip() for text in factorise(raw)[1]}
    for word in sorted(w for w in words if w and w.casefold() in MISSING_WORDS):
        yield f"# CHECK: {toml_string(word)} is taken as missing: add it to the levels if it is one"
