r"""How much outcomes vary about their means, learnt from sums: one public number.

A family whose loss depends on it (:attr:`~fedrulefit.core.families.base.Family.disperses`) says
what one patient's log-likelihood ℓ gains as the *dispersion* α grows, with the means held fixed.
For negative binomial counts :math:`\operatorname{Var} y = μ + αμ^2`, and α is 1/θ.

In: predictors and outcomes, at an α. Out: two sums over all sites,

=============================================  =============
mathematics                                    here
=============================================  =============
:math:`\sum w\,∂ℓ/∂\log α`                     ``gain``
:math:`-\sum w\,∂^2ℓ/∂(\log α)^2`              ``bend``
=============================================  =============

and from them the next α, until ``gain`` is 0: the maximum likelihood estimate, as of R's
``glm.nb`` given its means. Newton's steps on log α are kept within what earlier answers left open.
α stands on a public ladder, 256 steps to a factor of 2, and a step is found when Newton would not
leave it: so α is right within 0.14 %, and every machine comes to the same one, since sums are whole
numbers. Where the likelihood still grows at the ladder's foot, outcomes vary no more than without
α, and it is 0.

Leaves the site: these two sums, a dozen times or so in a run (:class:`DispersionSums`).

Oracle: statsmodels, and the likelihood's own maximum
(``tests/unit/core/test_negative_binomial.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.fixed import add_units
from fedrulefit.core.sums import Packing, Sum, quantity

if TYPE_CHECKING:
    from fedrulefit.core.families import Family

STEPS_PER_OCTAVE: Final = 256
"""Steps of the ladder to a factor of 2."""

LONGEST: Final = 4 * STEPS_PER_OCTAVE
"""No step of the search is longer."""

MOST_ROUNDS: Final = 100
"""The bracket is at least halved every other round, so a ladder of 2⁵⁰ steps is walked in these."""


def stand_on(place: int) -> float:
    """Return α of a step of the ladder, to four digits: the same number on every machine."""
    return float(f"{2 ** (place / STEPS_PER_OCTAVE):.4g}")


def is_step(dispersion: float, ladder: range) -> bool:
    """Whether α stands on the ladder."""
    if not 0 < dispersion < math.inf:
        return False
    place = round(STEPS_PER_OCTAVE * math.log2(dispersion))
    return place in ladder and stand_on(place) == dispersion


@dataclass(frozen=True, eq=False)
class DispersionSums(Sum):
    """First and second derivative of the log-likelihood in the dispersion, at one α.

    Parameters
    ----------
    gain, bend : float
        As shares of the family's public scale.
    """

    gain: float = quantity(
        "Σ w·∂(log-likelihood)/∂ log α at the coefficients, as a share of the largest count",
        most="64·w",
    )
    bend: float = quantity(
        "−Σ w·∂²(log-likelihood)/∂(log α)² there, as a share of the largest count", most="64·w"
    )


def sum_dispersion(
    family: Family, predictor: Floats, outcome: Floats, weights: Floats, dispersion: float
) -> Ints:
    """Return one site's :class:`DispersionSums` in whole units."""
    gain, bend = family.slope_in_dispersion(predictor, outcome, dispersion)
    return Packing(DispersionSums).pack(
        gain=add_units(weights * gain), bend=add_units(weights * bend)
    )


class DispersionSearch:
    """The way to the α of highest likelihood.

    Ask for sums at :attr:`dispersion`, give them to :meth:`update`, until :attr:`done`.

    Parameters
    ----------
    ladder : range
        The public places that α may have.
    start : int, optional
        Where to begin, such as the place at earlier means; by default at the foot, since there it
        shows whether outcomes vary more than without α at all.
    """

    def __init__(self, ladder: range, start: int | None = None) -> None:
        self._foot, self._top = ladder[0], ladder[-1]
        self.place = self._foot if start is None else start
        self._low, self._high = self._foot - 1, self._top + 1  # where α is not
        self.rounds = 0
        self.done = False
        self.none = False

    @property
    def dispersion(self) -> float:
        """The α at which sums are wanted, or that was found; 0 for none."""
        return 0.0 if self.none else stand_on(self.place)

    def update(self, sums: DispersionSums) -> None:
        """Take the summed answer: go on, or stay for good."""
        self.rounds += 1
        here = self.place
        if sums.gain > 0:
            self._low = here
        else:
            self._high = here
        if here == self._foot and sums.gain <= 0:
            self.none = self.done = True
            return
        there = max(0, here + 1) if self.rounds == 1 and here == self._foot else here
        there += self._step(sums) if there == here else 0
        if not self._low < there < self._high:
            # Newton leads to, or beyond, where the answer is known: the middle of what is open.
            there = (self._low + self._high) // 2 if there != here else here
        there = min(max(there, self._foot), self._top)
        self.done = there == here or self._high - self._low <= 1 or self.rounds >= MOST_ROUNDS
        self.place = here if self.done else there

    def _step(self, sums: DispersionSums) -> int:
        """Return Newton's step on the ladder, no longer than :data:`LONGEST`; upwards is a gain."""
        if not sums.bend > 0:
            return LONGEST if sums.gain > 0 else -LONGEST
        length = sums.gain / sums.bend * STEPS_PER_OCTAVE / math.log(2)
        return round(min(max(length, -LONGEST), LONGEST))
