"""Values as they stand in tables, and when two spellings of one are the same."""

from __future__ import annotations

import numpy as np

Level = bool | int | float | str
"""A value as it stands in a table: ``1``, ``"Y"``, ``true``."""


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
