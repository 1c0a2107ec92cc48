"""Values as they stand in tables, and when two spellings of one are the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

Level = bool | int | float | str
"""A value as it stands in a table: ``1``, ``"Y"``, ``true``."""

L = TypeVar("L", bound=Level)


def as_level(value: object) -> Level:
    """Return a value of any type, such as a category of a data frame, as a study names it."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return int(value) if float(value).is_integer() else float(value)
    return str(value)


def first_spellings(levels: Iterable[L]) -> tuple[L, ...]:
    """Return levels in their order, each once: of several spellings, the first."""
    found: dict[str, L] = {}
    for level in levels:
        found.setdefault(level_key(level), level)
    return tuple(found.values())


def level_order(level: object) -> tuple[int, float, str]:
    """Return by what levels without an order are sorted: numbers by size, before text."""
    key = level_key(level)
    try:
        return 0, float(key), key
    except ValueError:
        return 1, 0.0, key


def level_key(value: object) -> str:
    """Return the text under which two spellings of one level meet.

    ``1``, ``1.0``, ``"1"`` and ``"1.0"`` are the same level; so are ``True``
    and ``"true"``.
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    text = str(value).strip()
    if text.isascii() and text.isdecimal():
        # Not through a float: codes such as SNOMED's have more digits than it keeps.
        return text.lstrip("0") or "0"
    try:
        number = float(text)
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text
    if not np.isfinite(number):
        return text
    return str(int(number)) if number == int(number) else repr(number)


def check_two_values(positive: Level, negative: Level) -> None:
    """Refuse an event that is the same value as its absence."""
    if level_key(positive) == level_key(negative):
        raise ValueError(
            "'positive' and 'negative' are the same value: give the value of "
            "patients with the event as 'positive' and the other as 'negative'"
        )
