"""How large the public numbers of an outcome may be, in whatever unit."""

from __future__ import annotations

from typing import Final

SIZES: Final = (1e-100, 1e100)
"""Public lengths and times are from here to there."""

NARROWEST: Final = 1e-9
"""A range is no narrower than this share of its ends: else outcomes would lose their digits."""

MOST_COUNT: Final = 2**20
"""No count is larger: so sums of counts stay within their bounds."""

OUTLIERS: Final = (1e-3, 0.5)
"""Shares of the range from which on an error may count as large: losses keep their digits, and
slopes their bound."""


def check_size(what: str, size: float) -> None:
    """Refuse a length or time that is too small or too large for float64."""
    if not SIZES[0] <= size <= SIZES[1]:
        raise ValueError(
            f"{what} must lie between {SIZES[0]:g} and {SIZES[1]:g}: take another unit"
        )


def check_range(low: float, high: float, outlier: float | None) -> None:
    """Refuse a range in which numbers, or errors from `outlier` on, cannot be told apart."""
    if not low < high:
        raise ValueError("'range' must be [lowest, highest] with lowest < highest")
    check_size("the width of 'range'", high - low)
    if not high - low >= NARROWEST * max(abs(low), abs(high)):
        raise ValueError("'range' is too narrow for numbers so large: subtract its middle")
    if outlier is not None and not OUTLIERS[0] <= outlier / (high - low) <= OUTLIERS[1]:
        raise ValueError("'outlier' must lie between a thousandth and a half of the range")
