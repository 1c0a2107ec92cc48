"""How numbers are written for people; the exact ones stand in the model file."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

DIGITS: Final = 4
"""Significant digits of a number that nothing else is known of."""
_FROM_HERE_WHOLE: Final = 9_999.5


def format_number(value: float, step: float | None = None, digits: int = DIGITS) -> str:
    """Return a number as people write it: to its step, or four significant digits; no zeros.

    Parameters
    ----------
    value : float
    step : float, optional
        Values are multiples of this. A value that is none is written to `digits`.
    digits : int
        Significant digits; a number of more places before the point is written in whole.
    """
    if step is not None and _is_multiple(value, step):
        return _group(f"{value:.{_decimals(step)}f}")
    if abs(value) < _FROM_HERE_WHOLE:
        return f"{value + 0.0:.{digits}g}"
    whole = len(f"{abs(value):.0f}")
    return _group(f"{value:.{max(digits - whole, 0)}f}")


def format_effect(value: float) -> str:
    """Return an effect, such as a ratio, to two decimals where these say enough.

    Near 1 it has the digits that tell it from 1.
    """
    if is_little(value):
        away = abs(value - 1)
        decimals = 2 if away == 0 else min(-math.floor(math.log10(away)), 5)
        return f"{value:.{decimals}f}"
    return f"{value:.2f}" if 0.095 <= value < 99.5 else format_number(value)


def is_little(effect: float) -> bool:
    """Whether an effect, a ratio, is 1.00 when rounded: its term counts for little."""
    return f"{effect:.2f}" == "1.00"


def format_count(value: float) -> str:
    """Return a number of patients; weights may make it a fraction."""
    return f"{value:,.0f}".replace(",", "\u202f")


def name_count(number: float, noun: str) -> str:
    """Return a number and what it counts: 1 rule, 2 rules, 0.5 percentage points."""
    return f"{number:.15g} {noun}{'s' * (number != 1)}"


def write_minus(text: str) -> str:
    """Return numbers with minus signs instead of hyphens."""
    return text.replace("-", "−")


def _is_multiple(value: float, step: float) -> bool:
    """Return whether a value is a multiple of a step, but for how floats hold both."""
    return abs(round(value / step) * step - value) <= 1e-9 * max(step, abs(value))


def _decimals(step: float) -> int:
    exponent = Decimal(repr(step)).normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _group(text: str) -> str:
    """Return a number without zeros at its end, in groups of three from ten thousand on."""
    whole, _, part = text.partition(".")
    part = part.rstrip("0")
    sign, whole = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    if len(whole) > DIGITS:
        whole = f"{int(whole):,}".replace(",", " ")
    is_zero = not part and whole == "0"
    return f"{'' if is_zero else sign}{whole}{'.' * bool(part)}{part}"
