r"""Cumulative incidence of several causes, one of which comes first: of a model, and in general.

In: hazards of each cause. Out: the probability that the event of a cause has come by a time. With
:math:`Λ_c(t)` the cumulative hazards of the causes and :math:`S(t) = \exp(-\sum_c Λ_c(t))` the
chance that nothing has come,

.. math:: \text{CIF}_c(t) = \int_0^t S(s)\,dΛ_c(s) = \sum_{\text{pieces}}
   \frac{ΔΛ_c}{\sum_b ΔΛ_b}\,S_{\text{before}}\,(1 - e^{-\sum_b ΔΛ_b})

which is exact where hazards are constant inside pieces of time (:func:`accumulate`, the only place
where it is computed; :func:`write_incidences` writes it in other languages).

A model's (:class:`Incidence`): with :math:`F_c` the log of the cumulative hazard of cause c by the
last horizon, :math:`Λ_c(t) = e^{F_c} S_c(t)`, where the share :math:`S_c(t)` is the same for all
patients (:mod:`fedrulefit.core.families.survival`).

Oracles: numerical integration, and the product over short steps
(``tests/unit/core/test_incidence.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.recipes import Language
from fedrulefit.core.families.survival import name_time, tell_time

STEEPEST = 700.0
"""exp does not overflow up to here."""


def accumulate(steps: Floats) -> Floats:
    """Return the cumulative incidence of each cause at the end of each piece of time.

    Parameters
    ----------
    steps : (…, n_causes, n_pieces) float64
        Cumulative hazards of each piece alone.
    """
    total = steps.sum(axis=-2, keepdims=True)
    alive = np.exp(-np.cumsum(total, axis=-1))
    before = np.concatenate([np.ones_like(alive[..., :1]), alive[..., :-1]], axis=-1)
    share = steps / np.where(total > 0, total, 1.0)
    found: Floats = np.cumsum(share * before * -np.expm1(-total), axis=-1)
    return found


@dataclass(frozen=True)
class CauseHorizon:
    """A time by which the risk of a cause is told.

    Parameters
    ----------
    cause : int
        Its place among the causes.
    time : float
    column : str
        Of the risk, in frames and exports: ``risk_90``, ``risk_transplant``.
    by : str
        The time with its unit.
    """

    cause: int
    time: float
    column: str
    by: str


@dataclass(frozen=True, eq=False)
class Incidence:
    """How the risks of a model's causes grow with time.

    Parameters
    ----------
    causes : tuple of str
        The one of interest first.
    ends : (K + 1,) float64
        Where intervals of constant hazards end, from 0 on.
    shares : (n_causes, K + 1) float64
        Which share of a cause's hazard by the last end comes before each: from 0 to 1.
    horizons : tuple of float
        The study's, the last one being the main one.
    unit : str
        Of time.
    column : str
        How columns of risks begin.
    """

    causes: tuple[str, ...]
    ends: Floats
    shares: Floats
    horizons: tuple[float, ...]
    unit: str
    column: str

    @property
    def told(self) -> tuple[CauseHorizon, ...]:
        """What is told of a patient: of each cause the risk by the last horizon, then by each."""
        return tuple(self._list_told())

    def _list_told(self) -> Iterator[CauseHorizon]:
        for cause, name in enumerate(self.causes):
            first = self.column if cause == 0 else f"{self.column}_{name}"
            last = self.horizons[-1]
            yield CauseHorizon(cause, last, first, tell_time(last, self.unit))
            if len(self.horizons) > 1:
                for time in self.horizons:
                    column, by = f"{first}_{name_time(time)}", tell_time(time, self.unit)
                    yield CauseHorizon(cause, time, column, by)

    def find_cause(self, cause: str | None) -> int:
        """Return the place of a cause; of None that of interest.

        Raises
        ------
        ValueError
            If there is no such cause.
        """
        if cause is None:
            return 0
        if cause not in self.causes:
            raise ValueError(f"no cause {cause!r}: the causes are {', '.join(self.causes)}")
        return self.causes.index(cause)

    def share(self, times: Floats) -> Floats:
        """Return S_c at each time, shape (n_causes, n_times).

        Raises
        ------
        ValueError
            If one lies before 0 or beyond the last end: nothing is known of hazards there.
        """
        if not ((times >= 0) & (times <= self.ends[-1])).all():
            raise ValueError(
                "risks are told of times from 0 to the last horizon, "
                f"{tell_time(float(self.ends[-1]), self.unit)}"
            )
        return np.stack([np.interp(times, self.ends, own) for own in self.shares])

    def hazards(self, predictor: Floats, times: Floats) -> Floats:
        """Return Λ_c of each patient at each time, shape (n_rows, n_causes, n_times).

        `predictor` holds F of each cause, shape (n_rows, n_causes).
        """
        found: Floats = np.exp(np.minimum(predictor, STEEPEST))[:, :, None] * self.share(times)
        return found

    def survival(self, predictor: Floats, times: Floats) -> Floats:
        """Return the probability of no event of any cause, shape (n_rows, n_times)."""
        alive: Floats = np.exp(-self.hazards(predictor, times).sum(axis=1))
        return alive

    def risks(self, predictor: Floats, times: Floats) -> Floats:
        """Return the cumulative incidence of each cause, shape (n_rows, n_causes, n_times)."""
        grid = np.union1d(self.ends, times)
        steps = np.diff(self.hazards(predictor, grid), axis=2)
        grown = np.concatenate([np.zeros((*steps.shape[:2], 1)), accumulate(steps)], axis=2)
        found: Floats = grown[:, :, np.searchsorted(grid, times)]
        return found

    def told_risks(self, predictor: Floats) -> Floats:
        """Return the risks of :attr:`told`, shape (n_rows, n_told)."""
        risks = self.risks(predictor, np.array(self.horizons))
        places = [self.horizons.index(own.time) for own in self.told]
        causes = [own.cause for own in self.told]
        found: Floats = risks[:, causes, places]
        return found


def write_incidences(
    language: Language, predictors: Sequence[str], incidence: Incidence
) -> list[str]:
    """Return the risks of :attr:`Incidence.told`, from F of each cause.

    Every horizon is the end of an interval.
    """
    alive, found = [_write_alive(language, predictors, own) for own in incidence.shares.T[1:]], []
    steps = np.diff(incidence.shares, axis=1)
    for own in incidence.told:
        total = ""
        for j in range(int(np.searchsorted(incidence.ends, own.time))):
            if not steps[own.cause, j] > 0:
                continue
            before = language.number(1.0) if j == 0 else alive[j - 1]
            died = language.add(before, language.negate(alive[j]))
            share = _write_share(language, predictors, steps[:, j], own.cause)
            part = language.multiply(share, died)
            total = language.add(total, part) if total else part
        found.append(total or language.number(0.0))
    return found


def _write_alive(language: Language, predictors: Sequence[str], shares: Floats) -> str:
    """Return S at the end of an interval: exp(−Σ exp(F_c + log S_c))."""
    total = ""
    for own, share in zip(predictors, shares.tolist(), strict=True):
        if share > 0:
            part = language.exp(language.add(own, language.number(math.log(share))))
            total = language.add(total, part) if total else part
    return language.exp(language.negate(total)) if total else language.number(1.0)


def _write_share(language: Language, predictors: Sequence[str], steps: Floats, cause: int) -> str:
    """Return which share of an interval's hazard is a cause's: 1/Σ exp(F_b − F_c + log ratio)."""
    total = language.number(1.0)
    for b, step in enumerate(steps.tolist()):
        if b != cause and step > 0:
            apart = language.add(predictors[b], language.negate(predictors[cause]))
            ratio = language.number(math.log(step / steps[cause]))
            total = language.add(total, language.exp(language.add(apart, ratio)))
    return language.invert(total)
