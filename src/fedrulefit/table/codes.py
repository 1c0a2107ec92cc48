"""Numbers that may be none: -9 for "unknown", blood groups from 1 to 4, running numbers.

In: a column of numbers, or a text. Out: what it looks like. Nothing is changed: people decide.

A number is suspected to stand for a missing value only where all of this holds:

1. it is one that people write for "unknown" (:data:`CODES`, a public list, so a message that
   shows it shows no patient's value);
2. it lies at an end of the column, alone or with others of the list;
3. at least two other values are left, and it stands apart from them: by half of their range or
   more, in :data:`REPEATED` rows or more; or it is negative where they are not. One of two digits
   or more (:data:`LONG`) also where it lies four times their range away, or is five times as
   frequent as any of them.

Oracle: a table of columns, each with its codes (``tests/unit/table/test_codes.py``).
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.table.names import names_amount, names_codes

_REPEATED_DIGIT: Final = [int(digit * n) for digit in "789" for n in range(1, 7)]
_REASONS: Final = [97, 98, 997, 998, 9997, 9998]
_TENTHS: Final = [99.9, 999.9, 9999.9]
_SIZES: Final = (*_REPEATED_DIGIT, *_REASONS, *_TENTHS)

CODES: Final = frozenset({-1.0, *map(float, _SIZES), *(-float(size) for size in _SIZES)})
"""Numbers that people write for a value that is unknown, refused, or was not taken."""

_MIRRORED: Final = frozenset(-code for code in CODES)

LONG: Final = 77
"""Codes of this size or more have two digits: fewer values are such by chance."""

REPEATED: Final = 3
"""Rows from which a code counts as repeated."""

MAX_NOMINAL: Final = 6
"""Most codes from 1 on that may name kinds; more are likely a score or a count."""

MAX_NAMED: Final = 30
"""The same where the column's name calls them codes."""

_MIN_ROWS: Final = 50
_LONG_NUMBER: Final = 1e5
UNKNOWN_WORDS: Final = frozenset(
    {
        "-", "--", "?", "??", "***", "#n/a", "n.a.", "n.d.", "nd", "n/d", "nk", "n/k", "nr", "unk",
        "unknown", "not known", "not available", "not applicable", "not done", "not measured",
        "not recorded", "not reported", "missing", "refused", "pending", "undetermined",
        "unbekannt", "fehlt", "keine angabe", "k.a.", "k. a.", "onbekend", "inconnu", "non connu",
        "manquant", "desconocido", "sconosciuto", "okänd", "ukjent", "ukendt", "dk", "n.k.", "n.t.",
        "don't know", "not stated", "not tested", "not assessed", "unbek.", "nicht bekannt",
        "nicht erhoben", "nicht bestimmt", "n.b.", "nsp", "ne sait pas", "non renseigné",
        "non renseignée", "ns/nc", "no consta", "no disponible", "non noto", "non disponibile",
        "niet bekend", "desconhecido", "ignorado", "não informado", "nieznany", "brak danych",
    }
)  # fmt: skip
"""Words for an unknown value, in lower case. In a column of levels each may be a level."""


def find_codes(values: Floats) -> dict[float, int]:
    """Return the numbers that look like codes for a missing value, and how many rows have each.

    Parameters
    ----------
    values : (n_rows,) float64
        NaN where missing.

    Examples
    --------
    >>> find_codes(np.array([15, 14, 3, 8, -9, 12, -9, 15, -9, 7.0]))
    {-9.0: 3}
    """
    finite = values[np.isfinite(values)]
    if not finite.size or not CODES & {float(finite.min()), float(finite.max())}:
        return {}
    distinct, counts = np.unique(finite, return_counts=True)
    # The lower end is the upper one of the mirrored column.
    low = -_suspect_top(-distinct[::-1], counts[::-1], _MIRRORED)[::-1]
    high = _suspect_top(distinct[low.size :], counts[low.size :], CODES)
    suspects = np.r_[low, high]
    return dict(zip(suspects.tolist(), counts[np.isin(distinct, suspects)].tolist(), strict=True))


def is_unknown_word(text: str) -> bool:
    """Whether a text usually says that a value is not known."""
    return text.strip().casefold() in UNKNOWN_WORDS


def find_nominal(name: str, values: Floats) -> tuple[int, ...]:
    """Return the codes of a column that may name kinds without an order, such as blood groups.

    They are whole numbers, each for five rows on average: 1, 2, … up to at most
    :data:`MAX_NOMINAL` (counts and yes/no start at 0), or by the column's name codes, up to
    :data:`MAX_NAMED` different ones. A column whose name tells of an order or an amount
    (``nyha``, ``stage``, ``n_children``) is left alone.
    """
    finite = values[np.isfinite(values)]
    if not finite.size or names_amount(name) or finite.min() < 0 or finite.max() > 1e6:
        return ()
    distinct = np.unique(finite)
    if not 3 <= distinct.size <= finite.size / 5 or (distinct % 1).any():
        return ()
    running = distinct.size <= MAX_NOMINAL and distinct[0] == 1 and distinct[-1] == distinct.size
    named = distinct.size <= MAX_NAMED and names_codes(name)
    return tuple(map(int, distinct)) if running or named else ()


def looks_like_identifiers(values: Floats) -> bool:
    """Whether a column holds another whole number in each of 50 rows or more: running or long."""
    if values.size < _MIN_ROWS or not np.isfinite(values).all() or (values % 1).any():
        return False
    low, high = float(values.min()), float(values.max())
    running = high - low < 2 * values.size
    return (running or low >= _LONG_NUMBER) and np.unique(values).size == values.size


def _suspect_top(distinct: Floats, counts: Ints, codes: Collection[float]) -> Floats:
    """Return the values at the upper end that look like codes; `distinct` rises."""
    n_codes = len(list(takewhile(codes.__contains__, distinct[::-1].tolist())))
    for start in range(distinct.size - n_codes, distinct.size):
        if start >= 2 and _stands_apart(distinct, counts, start):
            return distinct[start:]
    return distinct[:0]


def _stands_apart(distinct: Floats, counts: Ints, start: int) -> bool:
    """Whether the values from `start` on look like codes beside those before."""
    rest, nearest = distinct[:start], distinct[start]
    gap, spread = nearest - rest[-1], rest[-1] - rest[0]
    n_rows = int(counts[start:].min())
    repeated = n_rows >= REPEATED
    if rest[-1] <= 0 < nearest:  # of another sign than all others
        return repeated or bool(nearest > 1)
    if repeated and gap >= spread / 2:
        return True
    if nearest < LONG:
        return False
    return bool(gap >= 4 * spread) or (repeated and n_rows >= 5 * int(counts[:start].max()))
