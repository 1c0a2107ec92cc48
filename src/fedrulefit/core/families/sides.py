r"""What is told of the outcome of patients inside and outside a rule, whatever its kind.

In: sums of tallies (:meth:`~fedrulefit.core.families.base.Family.tallies`) on either side. Out:
a :class:`Side` each: its level (a mean, a rate, a risk) and how well it is known; then both
levels and what is between them, with 95 % intervals (:class:`Contrast`). Nothing leaves a site
here: what does is :class:`~fedrulefit.core.subgroups.SubgroupSums`.

======================  ======================================================================
outcome                 level, and what is between two
======================  ======================================================================
yes/no                  share of patients (:mod:`fedrulefit.core.subgroups`), difference
number                  mean (:class:`~fedrulefit.core.families.side_means.MeanLevels`),
                        difference
count                   rate (:class:`~fedrulefit.core.families.side_rates.RateLevels`), ratio
time to an event        risk by the last horizon
                        (:class:`~fedrulefit.core.families.side_risks.RiskLevels`), difference
ordered, classes        share beyond the first level
                        (:class:`~fedrulefit.core.families.side_splits.SplitLevels`), difference
======================  ======================================================================

A level is published no finer than a patient or a few move it. What that adds to its error stands
in the published error, so that the intervals count with it.

Oracles: formulas on the patients themselves, and simulated coverage
(``tests/unit/core/test_sides.py``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Final

from fedrulefit.core.arrays import Floats
from fedrulefit.core.rounding import EXACT, Rounding, round_digits, round_step, round_up_step

_ERROR_DIGITS: Final = 2


@dataclass(frozen=True)
class Contrast:
    """Levels inside and outside a rule, and what is between them, each with a 95 % interval."""

    level_inside: float
    low_inside: float
    high_inside: float
    level_outside: float
    low_outside: float
    high_outside: float
    gap: float
    low_gap: float
    high_gap: float


PERCENT: Final = 100.0

UNKNOWN: Final = Contrast(*[math.nan] * 9)
"""Where there is nobody to compare."""


@dataclass(frozen=True)
class Moment:
    """The risk on one side of a rule by a time, where the outcome is a time to an event.

    Parameters
    ----------
    time : float
        Public.
    level, error : float
        The risk by then, and its standard error, as of :class:`Side`.
    watched : float
        Patients at risk in the interval that ends there, in the mean over it.
    events : float
        Those with the event by then.
    """

    time: float
    level: float
    error: float
    watched: float
    events: float


@dataclass(frozen=True)
class Side:
    """Held-out patients on one side of a rule.

    Parameters
    ----------
    patients : float
        With weights.
    level : float
        In the outcome's unit; NaN where it is not known.
    error : float
        Its standard error, on the scale on which its interval is even: see each kind of
        :class:`Levels`. NaN where it is not known.
    events : float or None
        What happened to these patients, where the outcome counts events.
    at_levels : tuple of float
        Patients at each level of an outcome of several; empty where that is not told.
    curve : tuple of Moment
        The level over time, of a time to an event, as far as that is told.
    """

    patients: float
    level: float
    error: float
    events: float | None = None
    at_levels: tuple[float, ...] = ()
    curve: tuple[Moment, ...] = ()


@dataclass(frozen=True)
class LevelWords:
    """What people read of levels.

    Parameters
    ----------
    level, gap : str
        Columns of frames: ``mean`` (``mean_inside``), ``difference``.
    one, many : str
        A level and levels, in sentences: ``mean outcome``, ``mean outcomes``.
    unit : str
        Behind a level, with its blank: `` %``.
    heading : str
        Over a level in a narrow table: ``mean``.
    gap_heading : str
        Over what is between two levels, on the page: ``Inside − outside (points)``.
    shown : str
        What a table of subgroups shows of patients, in a clause.
    axis : str
        What stands before the outcome's name on an axis of levels.
    follow : str
        How levels follow from counts that may be rounded, in a clause; empty where they do not.
    few : str
        What else, beside patients, may be too few to tell a level, in a clause.
    """

    level: str
    gap: str
    one: str
    many: str
    unit: str
    heading: str
    gap_heading: str
    shown: str
    axis: str = ""
    follow: str = ""
    few: str = ""


class Levels(ABC):
    """How a family tells the level of patients inside and outside rules.

    Of a plain one patients and events say it all, and these are told as counts
    (:mod:`fedrulefit.core.subgroups`); of others see :class:`MeasuredLevels`.
    """

    words: LevelWords

    from_zero: bool = True
    """Whether a drawing of levels begins at 0."""

    drawn: float = 1.0
    """What levels are multiplied by where they are drawn: :data:`PERCENT` for shares."""

    @abstractmethod
    def write(self, level: float, *, coarse: bool) -> str:
        """Return a level as text, without its unit; `coarse` where counts are rounded."""

    @abstractmethod
    def write_gap(self, gap: float, *, coarse: bool) -> str:
        """Return what is between two levels as text, with its sign; without its unit."""

    def write_gap_end(self, gap: float, *, coarse: bool) -> str:
        """Return an end of its interval."""
        return self.write_gap(gap, coarse=coarse)

    @abstractmethod
    def share(self, level: float, largest: float) -> float:
        """Return how far a bar goes, 0 to 1; `largest` is the largest level beside it."""


class MeasuredLevels(Levels):
    """Levels that follow from sums of tallies over held-out patients."""

    @abstractmethod
    def find(self, patients: float, sums: Floats) -> Side:
        """Return a side from its sums of tallies, shape (n_tallies,)."""

    @abstractmethod
    def compare(self, inside: Side, outside: Side) -> Contrast:
        """Return both levels and what is between them, with 95 % intervals."""

    @abstractmethod
    def step(self, side: Side, rounding: Rounding, unit: float) -> float:
        """Return what the level is rounded to multiples of, at least."""

    @abstractmethod
    def spread(self, side: Side, step: float) -> float:
        """Return the standard deviation that such rounding adds, on the scale of the error."""

    def fewest(self, side: Side) -> float:
        """Return the smallest number that the side rests on."""
        return side.patients if side.events is None else min(side.patients, side.events)

    def publish(self, sides: Sides, rounding: Rounding, unit: float) -> Sides | None:
        """Return what may be told of a rule; None where too few are on a side.

        Parameters
        ----------
        sides : (Side, Side)
            Inside and outside.
        rounding : Rounding
            :data:`~fedrulefit.core.rounding.EXACT` hides, and rounds nothing.
        unit : float
            The most that one patient counts.
        """
        known = all(math.isfinite(side.level) and math.isfinite(side.error) for side in sides)
        if not known or min(map(self.fewest, sides)) < rounding.least(unit):
            return None
        if rounding == EXACT:
            return sides
        inside, outside = (self.round(side, rounding, unit) for side in sides)
        return inside, outside

    def round(self, side: Side, rounding: Rounding, unit: float) -> Side:
        """Return a side that is large enough to be told, rounded."""
        step = round_up_step(self.step(side, rounding, unit))
        error = math.hypot(side.error, self.spread(side, step))
        return replace(
            side,
            patients=rounding.count(side.patients, unit),
            level=round_step(side.level, step),
            error=round_digits(error, _ERROR_DIGITS),
            events=None if side.events is None else rounding.count(side.events, unit),
        )


Sides = tuple[Side, Side]
"""Inside and outside a rule."""

ROUNDED: Final = 1 / math.sqrt(12)
"""Standard deviation of rounding to whole numbers."""
