"""One cell of text → a number, however it is spelled.

================================  ==========  ===========================================
cell                              read as     because
================================  ==========  ===========================================
``3.5``, ``1e3``                  itself      a point is the decimal point
``3,5``, ``0,125``, ``12,75``     3.5, …      thousands have three digits after the comma
``1.234,5``, ``1 234,5``          1234.5      what comes last is the decimal comma
``1,234.5``, ``1,234,567``        1234.5, …   separates thousands
``1 234``, ``1'234``              1234        separates thousands
``1,234``                         –           could be 1.234 or 1234: refused
================================  ==========  ===========================================

A cell is read by itself, never by its neighbours: the same text is the same number in every row
of every table. ``1.234`` in a table with ``3,5`` is 1.234, too, but a finding
(:mod:`fedrulefit.table.numbers`).

Oracle: a table of spellings, and numbers written by Python and read back
(``tests/unit/table/test_spelling.py``).
"""

from __future__ import annotations

import re
from typing import Final

_SPACES: Final = " \u00a0\u2009\u202f'’"
_GROUPS: Final = re.compile(rf"[1-9][0-9]{{0,2}}(?:([{_SPACES}])[0-9]{{3}})(?:\1[0-9]{{3}})*")
_POINTS: Final = re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_COMMAS: Final = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_PLAIN: Final = re.compile(r"[0-9]*")
_FRACTION: Final = re.compile(r"[0-9]+(?:[eE][+-]?[0-9]+)?")
_EITHER: Final = re.compile(r"[+−-]?[1-9][0-9]{0,2},[0-9]{3}")
_GROUPED_POINT: Final = re.compile(r"[+−-]?[1-9][0-9]{0,2}\.[0-9]{3}")


def read_number(text: str) -> float | None:
    """Return the number that a text spells, or None; spaces around it do not count."""
    text = text.strip().replace("−", "-")
    if is_plain_number(text):
        return float(text)
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    plain = _spell_plainly(digits)
    return None if plain is None else float(sign + plain)


def is_plain_number(text: str) -> bool:
    """Whether Python reads a text as a number, and not as one of a program: ``1_000``."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def is_either(text: str) -> bool:
    """Whether the comma of a text may be decimal as well as separate thousands: ``1,234``."""
    return _EITHER.fullmatch(text.strip()) is not None


def has_grouped_point(text: str) -> bool:
    """Whether a text is read as a decimal, but may be thousands elsewhere: ``1.234``."""
    return _GROUPED_POINT.fullmatch(text.strip()) is not None


def has_decimal_comma(text: str) -> bool:
    """Whether a text is a number with a decimal comma: ``3,5``."""
    one_comma = text.count(",") == 1 and "." not in text.partition(",")[2]
    return one_comma and read_number(text) is not None


def _spell_plainly(digits: str) -> str | None:
    """Return an unsigned number with a decimal point and nothing else."""
    if is_either(digits):
        return None
    whole, comma, fraction = digits.rpartition(",")
    if comma and _FRACTION.fullmatch(fraction) and not _COMMAS.fullmatch(digits):
        if any(pattern.fullmatch(whole) for pattern in (_PLAIN, _POINTS, _GROUPS)):
            return f"{_digits(whole) or '0'}.{fraction}"
        return None
    whole, point, fraction = digits.rpartition(".")
    if point and _FRACTION.fullmatch(fraction) and not _POINTS.fullmatch(digits):
        return (
            f"{_digits(whole)}.{fraction}"
            if any(pattern.fullmatch(whole) for pattern in (_COMMAS, _GROUPS))
            else None
        )
    if any(pattern.fullmatch(digits) for pattern in (_COMMAS, _POINTS, _GROUPS)):
        return _digits(digits)
    return None


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())
