"""Texts of a study inside programs that we write: no text can end its quotes, or the program."""

from __future__ import annotations

from typing import Final

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 %/.")


def quote_javascript(text: str) -> str:
    """Return a text as a JavaScript literal, safe inside HTML, too."""
    units = text.encode("utf-16-be", "replace")
    codes = [units[k] << 8 | units[k + 1] for k in range(0, len(units), 2)]
    return '"' + "".join(_write_unit(code) for code in codes) + '"'


def _write_unit(code: int) -> str:
    return chr(code) if chr(code) in _PLAIN else f"\\u{code:04x}"
