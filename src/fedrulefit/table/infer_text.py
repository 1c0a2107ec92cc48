"""A column of text, or of several types → a number or levels.

Text is levels: its type says so. But text in which most cells are numbers, more of them than
levels could be, was a number once, before a word such as "unknown" got in. It is read as one, its
words as missing, and a :class:`~fedrulefit.table.notes.Note` says so. Neither a number nor levels
would be right for dates, limits such as "<5" and units: those are refused with what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedrulefit.errors import DataError
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.table.codes import is_unknown_word
from fedrulefit.table.findings import list_levels
from fedrulefit.table.notes import FEW_LEVELS, Note, note_text
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
        Where neither a number nor levels would be right: dates, decimal commas, limits.
    """
    n_rows, n_numbers = texts.n_rows, texts.count(*NUMBERS)
    if 2 * texts.count(Look.DATE) > n_rows:
        raise DataError(
            f"column {name!r} is text that looks like dates or times: give a number instead, such "
            "as the age, or the days since another date "
            "((pandas.to_datetime(a) - pandas.to_datetime(b)).dt.days); or drop it"
        )
    n_commas = texts.count(Look.COMMA)
    if n_commas and 2 * (n_numbers + n_commas) > n_rows:
        raise DataError(
            f"column {name!r} is text, with a comma or thousands set apart in {n_commas} of "
            f"{n_rows} numbers: write 3.5 and 1200, not 3,5 and 1,200 (pandas.read_csv has "
            f"decimal= and thousands=){_or_levels(name)}"
        )
    mostly_numbers = 2 * n_numbers > n_rows and not texts.of(Look.CODE)
    if not mostly_numbers or _are_levels(texts, is_text=is_text):
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


def _are_levels(texts: Texts, *, is_text: bool) -> bool:
    """Whether text of numbers is meant as levels: a few whole ones, which come again and again."""
    if texts.of(Look.DECIMAL):
        return False
    few = len(texts.levels) <= FEW_LEVELS and 2 * len(texts.levels) <= texts.n_rows
    # Of cells of several types, numbers are what they are: only "3+" makes levels of them.
    return few and (is_text or bool(texts.of(Look.MARKED)))


def _guess_number(name: str, texts: Texts, *, is_text: bool, told: bool) -> Guess:
    words = texts.of(Look.WORD)
    shown = [word for word in words if is_unknown_word(word) or texts.rows[word] >= MIN_COUNT]
    if told and not words:
        return Guess(is_number=True)
    what = "text" if is_text else "of several types"
    advice = f"if its values are levels, categorical=[{name!r}]"
    if not words:
        message = f"is {what}, but all of it is numbers: read as a number"
        note = Note((name,), message, f"to have no doubt, pandas.to_numeric; {advice}")
        return Guess(is_number=True, notes=(note,))
    n_words = texts.count(Look.WORD)
    listed = list_levels(shown) if shown else ""
    if len(shown) < len(words):
        listed += f"{' and ' if listed else ''}{len(words) - len(shown)} rare text(s)"
    message = (
        f"is {what}, {texts.count(*NUMBERS)} of {texts.n_rows} cells are numbers: read as a "
        f"number, with {listed} ({n_words} cells) as missing"
    )
    confirm = f"missing={{{name!r}: [{list_levels(shown) or '...'}]}}"
    note = Note((name,), message, f"to have no doubt, {confirm}; {advice}")
    return Guess(is_number=True, missing=tuple(shown), notes=(note,))


def _or_levels(name: str) -> str:
    return f"; or, to have levels, categorical=[{name!r}]"
