r"""What each term does given all others: a refit of the final terms to held-out patients.

In: sums of :mod:`fedrulefit.core.curvature` over the patients that were held out. Out: an estimate
and a standard error of every term. Nothing is chosen here, and no term was chosen by these
patients.

.. math:: \min_{β_0, β} \sum_i w_iℓ(F_i, y_i) + \sum_j \frac{β_j^2}{2·3^2}

so coefficients are as if drawn from N(0, 3²), which hardly moves what patients tell, and keeps
terms apart that say nearly the same. Standard errors are the roots of the diagonal of the inverse
Hessian, as the model has it: of numbers times the spread of errors. Hospitals share the baseline:
sums at a baseline of each hospital's own would tell of hospitals, exactly
(:mod:`fedrulefit.core.own`), and these leave in every run that asks for them.

A state machine: :meth:`Adjustment.query`, :meth:`Adjustment.update` with the summed answer, until
it is ``done``. A step that leads uphill is shortened to the best of the places on the way.

=======================================  ===============================  ==============
mathematics                              here                             shape
=======================================  ===============================  ==============
:math:`β`, :math:`H^{-1}`                :meth:`Adjustment.finish`        (n_terms,)
=======================================  ===============================  ==============

Oracle: the same minimum over single patients, by another solver
(``tests/unit/core/test_adjusting.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.curvature import STEPS, CurvatureSums, Query, unpack_triangle
from fedrulefit.core.families import Family
from fedrulefit.core.layout import Layout

SPREAD: Final = 3.0
"""Standard deviation of coefficients, before any patient."""

BASELINE_SPREAD: Final = 30.0
"""The same of the baseline: hardly any bound, but one."""

MOST_TERMS: Final = 300
"""Models of more terms are not adjusted: their Hessian would be most of what leaves a site."""

MOST_ROUNDS: Final = 30
"""Of Newton's method; half a dozen are usual."""

_CLOSE: Final = 1e-8
"""A step that lowers the loss per patient by so little is the last: what is left is its square."""


@dataclass(eq=False)
class Adjustment:
    """The refit of a model's terms to held-out patients.

    Parameters
    ----------
    layout : Layout
        Of the model's terms.
    start : (n_terms,) float64
        The model's coefficients.
    """

    layout: Layout
    start: Floats
    done: bool = False
    converged: bool = False
    rounds: int = 0
    _here: Floats = field(init=False)
    _there: Floats = field(init=False)
    _hessian: Floats = field(init=False)
    _shortened: bool = False
    _loss: float = 0.0
    _weight: float = 0.0

    def __post_init__(self) -> None:
        self._here = self._there = self.start
        self._ridge = np.full(len(self.start), SPREAD**-2.0)
        self._ridge[self.layout.baseline] = BASELINE_SPREAD**-2.0

    def query(self) -> Query:
        """Return the point that is asked for next."""
        every = np.arange(len(self.start))
        return Query(-1, every, self._here, self._there, every)

    def update(self, sums: CurvatureSums) -> None:
        """Take the summed answer."""
        self.rounds += 1
        way = [self._here + t * (self._there - self._here) for t in STEPS]
        heights = sums.losses + np.array([0.5 * float(self._ridge @ coef**2) for coef in way])
        best = STEPS[int(np.argmin(heights))]
        falls = best == 1.0 or (self._shortened and heights[-1] < heights[0])
        if not falls and not np.array_equal(self._here, self._there):
            self._there = self._here + (best or STEPS[1] / 2) * (self._there - self._here)
            self._shortened, self.done = True, self.rounds >= MOST_ROUNDS
            return
        self._loss, self._weight = float(sums.losses[-1]), sums.weight
        self._hessian = unpack_triangle(sums.hessian, len(self.start)) + np.diag(self._ridge)
        gradient = sums.gradient + self._ridge * self._there
        step = -np.linalg.solve(self._hessian, gradient)
        self._here, self._shortened = self._there, False
        fall = -0.5 * float(gradient @ step)
        self.converged = fall <= _CLOSE * max(sums.weight, 1.0)
        self.done = self.converged or self.rounds >= MOST_ROUNDS
        if self.converged:
            self._here = self._here + step
        self._there = self._here + step

    def finish(self, family: Family) -> tuple[Floats, Floats]:
        """Return estimates and standard errors, each of shape (n_terms,)."""
        spreads = np.diag(np.linalg.inv(self._hessian))
        if family.of_errors:
            spreads = spreads * 2 * self._loss / max(self._weight, 1e-300)
        return self._here, np.sqrt(np.maximum(spreads, 0.0))
