"""One column as its covariate reads it, cell by cell: the only place where cells get a meaning.

In: a raw column, and the covariate that the study (or a guess, or a model) says it is. Out: a
:class:`Reading`: for each cell a value in the study's coding, and what kind of cell it is. No
cell's reading depends on another cell. What follows from it is for others to say:
:mod:`fedrulefit.table.covariates` makes findings of it before learning,
the prediction a note beside the number.

Oracle: a loop over the cells (``tests/unit/table/test_reading.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedrulefit.core.arrays import Floats
from fedrulefit.study import Covariate, Number
from fedrulefit.table.cells import match_levels, parse_numbers
from fedrulefit.table.columns import Raw

States: TypeAlias = npt.NDArray[np.uint8]


class Cell(IntEnum):
    """What a cell is to its covariate."""

    KNOWN = 0
    MISSING = 1
    BELOW = 2
    """A number below the public range; minus infinity, too."""
    ABOVE = 3
    UNSEEN = 4
    """A value that is no level of the study."""
    UNREADABLE = 5
    """Neither a number nor missing, where a number should be."""


@dataclass(frozen=True, eq=False)
class Reading:
    """A column as read.

    Parameters
    ----------
    values : (n_rows,) float64
        As :class:`~fedrulefit.table.patients.Table` has them. NaN where missing, unseen or
        unreadable; a number outside the range as it stands.
    states : (n_rows,) uint8
        The :class:`Cell` of each.
    """

    values: Floats
    states: States

    def count(self, *kinds: Cell) -> int:
        """Return how many cells are of these kinds."""
        return int(np.isin(self.states, kinds).sum())


def read_column(raw: Raw, covariate: Covariate) -> Reading:
    """Return a raw column as its covariate reads it."""
    if isinstance(covariate, Number):
        return _read_numbers(raw, covariate)
    positions, unknown = match_levels(raw, covariate.coded, covariate.missing)
    states = np.where(np.isnan(positions), Cell.MISSING, Cell.KNOWN)
    return Reading(positions, np.where(unknown, Cell.UNSEEN, states).astype(np.uint8))


def read_coded(values: Floats, covariate: Covariate) -> Reading:
    """Return a column that is in the study's coding already; what is no place of a level is unseen.

    Parameters
    ----------
    values : (n_rows,) float64
    """
    if isinstance(covariate, Number):
        return _read_numbers(values, covariate)
    states = np.isnan(values).astype(np.uint8) * np.uint8(Cell.MISSING)
    known = np.isin(values, np.arange(len(covariate.coded)))
    unseen = ~known & (states == Cell.KNOWN)
    return Reading(np.where(known, values, np.nan), np.where(unseen, np.uint8(Cell.UNSEEN), states))


def _read_numbers(raw: Raw, covariate: Number) -> Reading:
    numbers, (low, high) = parse_numbers(raw, covariate.missing), covariate.range
    x = numbers.values
    states = np.isnan(x).astype(np.uint8) * np.uint8(Cell.MISSING)
    states[x < low], states[x > high] = Cell.BELOW, Cell.ABOVE
    states[numbers.unreadable] = Cell.UNREADABLE
    return Reading(x, states)
