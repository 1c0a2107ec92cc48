r"""Patients whose true measures are known.

Of patients without the outcome log-odds :math:`F` are normal with mean
:math:`\log\frac{π}{1 - π} - s^2/2` and standard deviation :math:`s`; of patients with it their mean
is :math:`s^2` higher. Then :math:`F` is the truth, :math:`P(y = 1 \mid F) = σ(F)`: it has slope 1
and intercept 0, and :math:`s = \sqrt2\,Φ^{-1}(\mathrm{AUC})`. A model that is too sure predicts
:math:`F' = 2F - \log\frac{π}{1 - π}`: the same order, slope ½.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from fedrulefit.core.arrays import Floats
from fedrulefit.core.crossing import find_crossing

CALIBRATED: Final = "calibrated"
TOO_SURE: Final = "too sure"
MODELS: Final = (CALIBRATED, TOO_SURE)
AREAS: Final = (0.6, 0.8, 0.95)
SIZES: Final = (100, 500, 2000)
EVENTS: Final = (2, 5, 20, 100)

_STRETCH: Final = 2.0
_OTHERS_INSIDE: Final = 0.2
"""Share of the patients without the outcome for whom the rule holds."""


@dataclass(frozen=True)
class Judged:
    """Some patients: what was predicted, what is true, and what came out.

    Parameters
    ----------
    chance, truth, outcome : (n_patients,) float64
        Predicted and true probability, and 1 with the outcome.
    """

    chance: Floats
    truth: Floats
    outcome: Floats


@dataclass(frozen=True)
class Rates:
    """A rule, that the true probability is at least `cut`, and the true rates on both sides."""

    cut: float
    inside: float
    outside: float


@dataclass(frozen=True)
class Cell:
    """A number of patients, of events, and a model.

    Parameters
    ----------
    patients : int
    events : int
        As many, or as many as are expected.
    area : float
        The AUC.
    model : str
        One of :data:`MODELS`.
    """

    patients: int
    events: int
    area: float
    model: str

    @property
    def slope(self) -> float:
        """The true calibration slope."""
        return 1.0 if self.model == CALIBRATED else 1 / _STRETCH

    @cached_property
    def intercept(self) -> float:
        """The true calibration in the large."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(99)
        true = [self._base + self._spread * nodes + shift for shift in (0.0, self._spread**2)]
        shares = (1 - self._rate, self._rate)
        predicted = [self._predict(part) for part in true]

        def exceed(intercept: float) -> float:
            means = [weights @ expit(part + intercept) / weights.sum() for part in predicted]
            return float(np.dot(shares, means)) - self._rate

        return find_crossing(exceed, -20.0, 20.0)

    @cached_property
    def rates(self) -> Rates:
        """A rule that holds for a fifth of the patients without the outcome."""
        at = float(ndtri(1 - _OTHERS_INSIDE))
        cases_inside = self._rate * float(ndtr(self._spread - at))
        inside = cases_inside + (1 - self._rate) * _OTHERS_INSIDE
        return Rates(
            float(expit(self._base + self._spread * at)),
            cases_inside / inside,
            (self._rate - cases_inside) / (1 - inside),
        )

    def draw_fixed(self, rng: np.random.Generator) -> Judged:
        """Draw patients of whom exactly so many have the outcome."""
        outcome = np.zeros(self.patients)
        outcome[: self.events] = 1
        return self._draw(outcome, rng)

    def draw(self, rng: np.random.Generator) -> Judged:
        """Draw patients of whom so many are expected to have the outcome."""
        return self._draw((rng.random(self.patients) < self._rate).astype(np.float64), rng)

    def _draw(self, outcome: Floats, rng: np.random.Generator) -> Judged:
        noise = rng.normal(size=self.patients)
        true = self._base + self._spread * noise + self._spread**2 * outcome
        return Judged(expit(self._predict(true)), expit(true), outcome)

    def _predict(self, true: Floats) -> Floats:
        if self.model == CALIBRATED:
            return true
        stretched: Floats = _STRETCH * true - (_STRETCH - 1) * logit(self._rate)
        return stretched

    @property
    def _rate(self) -> float:
        return self.events / self.patients

    @property
    def _spread(self) -> float:
        return float(np.sqrt(2) * ndtri(self.area))

    @property
    def _base(self) -> float:
        return float(logit(self._rate) - self._spread**2 / 2)


def list_cells(areas: Sequence[float] = AREAS) -> list[Cell]:
    """Return all cells; of 100 patients 50 have the outcome where 100 were asked for."""
    return [
        Cell(patients, min(events, patients // 2), area, model)
        for patients in SIZES
        for events in EVENTS
        for area in areas
        for model in MODELS
    ]
