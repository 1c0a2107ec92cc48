"""A column of text, or of several types → a number or levels.

Text is levels: its type says so. But text in which most cells are numbers, more of them than
levels could be, was a number once, before a word such as "unknown" got in. It is read as one, its
words as missing, and a :class:`~fedrulefit.table.notes.Note` says so. Neither a number nor levels
would be right for dates, limits such as "<5", units, and a comma as in "1,234": those are refused
with what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.errors import DataError
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.table.codes import is_unknown_word
from fedrulefit.table.findings import list_levels
from fedrulefit.table.notes import FEW_LEVELS, Note, note_text
from fedrulefit.table.spelling import has_grouped_point
from fedrulefit.table.texts import NUMBERS, Look, Texts


@dataclass(frozen=True)
class Guess:
    """What a column of text is taken for.

    Parameters
    ----------
    is_number : bool
        A number, or else levels.
    missing : tuple of str
        Words that stand for a missing number.
    notes : tuple of Note
    """

    is_number: bool
    missing: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def guess_text(name: str, texts: Texts, *, is_text: bool, told: bool) -> Guess:
    """Return what a column of text is taken for, or refuse it.

    Parameters
    ----------
    name : str
    texts : Texts
        Without the codes that the caller says are missing.
    is_text : bool
        Whether all cells are declared text, or may be of any type.
    told : bool
        Whether the caller has named the column's codes for a missing value.

    Raises
    ------
    DataError
        Where neither a number nor levels would be right: dates, limits, doubtful commas; and
        where there are too many levels.
    """
    n_rows, n_numbers = texts.n_rows, texts.count(*NUMBERS)
    if 2 * texts.count(Look.DATE) > n_rows:
        raise DataError(
            f"column {name!r} is text that looks like dates or times: give a number instead, such "
            "as the age, or the days since another date "
            "((pandas.to_datetime(a) - pandas.to_datetime(b)).dt.days); or drop it"
        )
    n_doubtful = _count_doubtful(texts)
    if n_doubtful and 2 * (n_numbers + texts.count(Look.EITHER)) > n_rows:
        raise DataError(
            f"column {name!r} is text, and {n_doubtful} of {n_rows} cells have a comma or a point "
            "that may be decimal or separate thousands: write 1.234 or 1234, not 1,234 "
            f"(pandas.read_csv has decimal= and thousands=){_or_levels(name)}"
        )
    mostly_numbers = 2 * n_numbers > n_rows and not texts.of(Look.CODE)
    if not mostly_numbers or _are_levels(texts, is_text=is_text):
        refuse_many_levels(name, texts.n_levels)
        return Guess(is_number=False, notes=note_text(name, texts, is_text=is_text))
    n_marked = n_rows - n_numbers - texts.count(Look.WORD)
    if n_marked:
        raise DataError(
            f"column {name!r} is text: {n_numbers} of {n_rows} cells are numbers, and {n_marked} "
            "have digits beside something else, such as a limit ('<5') or a unit ('5 mg'): make "
            "them numbers, name codes for a missing value in "
            f"missing={{{name!r}: [...]}}{_or_levels(name)}"
        )
    return _guess_number(name, texts, is_text=is_text, told=told)


def refuse_many_levels(name: str, n_levels: int) -> None:
    """Refuse more levels than a category can have."""
    if n_levels > MAX_CODES:
        raise DataError(
            f"column {name!r} has {n_levels} different texts, at most {MAX_CODES} can be "
            "levels of a category: drop the column, group its levels, or make it a number"
        )


def _count_doubtful(texts: Texts) -> int:
    """Return how many cells are one number or another: 1,234; and 1.234 beside 3,5."""
    n_points = 0
    if texts.of(Look.SPELLED):
        plain = texts.of(Look.WHOLE, Look.DECIMAL)
        n_points = sum(texts.rows[text] for text in plain if has_grouped_point(text))
    return texts.count(Look.EITHER) + n_points


def _are_levels(texts: Texts, *, is_text: bool) -> bool:
    """Whether text of numbers is meant as levels: a few whole ones, which come again and again."""
    if texts.of(Look.DECIMAL, Look.SPELLED):
        return False
    few = texts.n_levels <= FEW_LEVELS and 2 * texts.n_levels <= texts.n_rows
    # Of cells of several types, numbers are what they are: only "3+" makes levels of them.
    return few and (is_text or bool(texts.of(Look.MARKED)))


def _guess_number(name: str, texts: Texts, *, is_text: bool, told: bool) -> Guess:
    words, n_spelled = texts.of(Look.WORD), texts.count(Look.SPELLED)
    if told and not words and not n_spelled:
        return Guess(is_number=True)
    shown = [word for word in words if is_unknown_word(word) or texts.rows[word] >= MIN_COUNT]
    what = "text" if is_text else "of several types"
    if not words:
        message = f"is {what}, but all of it is numbers: read as a number"
        cure = "pandas.to_numeric"
    else:
        message = (
            f"is {what}, {texts.count(*NUMBERS)} of {texts.n_rows} cells are numbers: read as a "
            f"number, with {_list_words(words, shown)} ({texts.count(Look.WORD)} cells) as missing"
        )
        cure = f"missing={{{name!r}: [{list_levels(shown) or '...'}]}}"
    if n_spelled:
        message += f", and 3,5 as 3.5, 1 234 as 1234 ({n_spelled} cells)"
    advice = f"to have no doubt, {cure}; if its values are levels, categorical=[{name!r}]"
    note = Note((name,), message, advice)
    return Guess(is_number=True, missing=tuple(shown), notes=(note,))


def _list_words(words: Sequence[str], shown: Sequence[str]) -> str:
    listed = [list_levels(shown)] if shown else []
    if len(shown) < len(words):
        listed.append(f"{len(words) - len(shown)} rare text(s)")
    return " and ".join(listed)


def _or_levels(name: str) -> str:
    return f"; or, to have levels, categorical=[{name!r}]"
