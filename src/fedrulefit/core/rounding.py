"""How coarse the numbers of a published model are.

A model file is read by anybody. Counts to the last patient, and importances or coefficients
to the last digit from which such counts can be worked out, tell of single patients and
hospitals. So they are published as multiples of a number, and small ones not at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats

FEWEST: Final = 5
"""No group of fewer patients is published, however little else is rounded."""


@dataclass(frozen=True)
class Rounding:
    """What the counts of a model are multiples of, and the smallest that is told.

    Parameters
    ----------
    multiple : int
        Counts are multiples of it; 1 leaves them as they are.
    smallest : int
        A smaller count of patients is not told, nor one whose complement is smaller; 0 tells
        all.
    """

    multiple: int = 1
    smallest: int = 0

    def __post_init__(self) -> None:
        if self.multiple < 1 or self.smallest < 0:
            raise ValueError("counts are rounded to multiples of 1 or more; none is below 0")

    def join(self, other: Rounding) -> Rounding:
        """Return the coarser of both."""
        return Rounding(max(self.multiple, other.multiple), max(self.smallest, other.smallest))

    def words(self) -> str:
        """Return the rounding in a few words."""
        if self == EXACT:
            return "exact"
        hidden = f"; fewer than {self.smallest} are not told" if self.smallest > 1 else ""
        return f"rounded to multiples of {self.multiple}{hidden}"

    def step(self, unit: float = 1.0) -> float:
        """Return what counts are multiples of; 0 where they are exact.

        Parameters
        ----------
        unit : float
            The most that one patient counts.
        """
        return self.multiple * unit if self.multiple > 1 else 0.0

    def least(self, unit: float = 1.0) -> float:
        """Return the least weight of a group that is told.

        Parameters
        ----------
        unit : float
            The most that one patient counts.
        """
        return max(FEWEST, self.smallest, self.multiple) * unit

    def count(self, value: float, unit: float = 1.0) -> float:
        """Return a count that is large enough to be told, rounded.

        Parameters
        ----------
        value : float
        unit : float
            The most that one patient counts.
        """
        base = self.multiple * unit
        least = base * math.ceil(self.smallest / self.multiple)
        return max(base * round(value / base), least) if self != EXACT else value


EXACT: Final = Rounding()
"""Nothing is rounded: for tables that lie in one process, and files that stay there."""

PUBLISHED: Final = Rounding(multiple=5, smallest=10)
"""How coarse a published model is where nobody says otherwise: many statistical offices ask
that no count below 10 is told; some regulators say 11."""


def round_digits(value: float, digits: int) -> float:
    """Round to significant digits."""
    return float(f"{value:.{digits - 1}e}")


def round_up_step(finest: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below `finest`."""
    power = 10.0 ** math.floor(math.log10(finest))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= finest * (1 - 1e-9))


def round_step(value: float, step: float) -> float:
    """Round to a multiple of `step`, a number of few digits, without float dust."""
    return float(f"{step * round(value / step):.12g}")


def round_place(value: float, place: int) -> float:
    """Round to a multiple of ten to the power of `place`."""
    return float(f"{value:.{max(-place, 0)}f}") if place <= 0 else float(round(value, -place))


def round_to(numbers: Floats, base: float) -> Floats:
    """Round to multiples of `base`, so that one patient more or less seldom shows."""
    rounded: Floats = base * np.rint(numbers / base)
    return rounded
