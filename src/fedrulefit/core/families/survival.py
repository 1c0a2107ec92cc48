r"""Survival curves: of a model at any horizon, and of patients from counts per interval.

A model's (:class:`Timeline`): with F its predictor (the log of the cumulative hazard by the last
horizon) and ``baseline`` :math:`b_k = a_k - \log\sum_j e^{a_j}`, the cumulative hazard by the
time t is :math:`Λ(t) = e^F S(t)`, :math:`S(t) = \sum_k e^{b_k} s_k(t) / \sum_k e^{b_k}`,
:math:`s_k(t)` the share of interval k before t. So the risk by t follows from :math:`F + \log S(t)`
as that by the last horizon does from F: whoever knows the link knows all horizons.

Patients': of the D patients with the event in an interval, the M at risk all through it and the
time X of those at risk during a part of it (as shares of the interval), the interval is survived
with probability :math:`(M + X)/(M + X + D)`. Without such parts that is Kaplan and Meier's, to the
last digit. With P patients at risk during a part, Kaplan and Meier's own lies between
:math:`M/(M + D)`, if all were gone before the first event, and :math:`(M + P)/(M + P + D)`: factors
:math:`1 - 1/n` fall as fewer are at risk (:func:`bound_survival`).

Intervals are Rothman's (1978): Wilson's, of as many patients as have Greenwood's variance.
Without censoring they are Wilson's.

Oracle: scikit-survival on the patients themselves (``tests/properties/test_time_measures.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from fedrulefit.core.arrays import Floats
from fedrulefit.core.shares import wilson_poisson
from fedrulefit.numerals import format_number


def tell_time(time: float, unit: str) -> str:
    """Return a time with its unit: ``365 days``."""
    return f"{format_number(time)} {unit}".strip()


# --- of a model -------------------------------------------------------------------------------


def join_baseline(constants: Floats) -> tuple[float, Floats]:
    """Return a model's intercept and its baseline, shape (K,), from the constants per interval."""
    intercept = float(logsumexp(constants))
    return intercept, constants - intercept


@dataclass(frozen=True)
class Horizon:
    """A time by which a model tells a risk.

    Parameters
    ----------
    time : float
    column : str
        Of the risk by then, in frames and exports: ``risk_90``.
    by : str
        The time with its unit: ``90 days``.
    shift : float
        What F is raised by for the risk by then: below 0, but for the last horizon 0.
    """

    time: float
    column: str
    by: str
    shift: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """How the risk of a model's patients grows with time, whoever they are.

    Parameters
    ----------
    ends : (K + 1,) float64
        Where intervals of constant hazard end, from 0 on.
    shares : (K + 1,) float64
        Which share of the hazard by the last end comes before each: from 0 to 1.
    horizons : tuple of Horizon
        The study's, the last one being the main one.
    unit : str
        Of time.
    """

    ends: Floats
    shares: Floats
    horizons: tuple[Horizon, ...]
    unit: str

    def share(self, times: Floats) -> Floats:
        """Return S at each time, shape (n_times,).

        Raises
        ------
        ValueError
            If one lies before 0 or beyond the last end: nothing is known of the hazard there.
        """
        if not ((times >= 0) & (times <= self.ends[-1])).all():
            raise ValueError(
                "survival is told of times from 0 to the last horizon, "
                f"{tell_time(float(self.ends[-1]), self.unit)}"
            )
        found: Floats = np.interp(times, self.ends, self.shares)
        return found

    def hazards(self, predictor: Floats, times: Floats) -> Floats:
        """Return Λ of each patient at each time, shape (n_rows, n_times), from F."""
        found: Floats = np.exp(predictor)[:, None] * self.share(times)
        return found

    def survival(self, predictor: Floats, times: Floats) -> Floats:
        """Return the probability of no event up to each time, shape (n_rows, n_times)."""
        return np.exp(-self.hazards(predictor, times))


def follow_baseline(
    baseline: Sequence[float], ends: Floats, horizons: Sequence[float], unit: str, risk: str
) -> Timeline:
    """Return the timeline of a model.

    Parameters
    ----------
    baseline : (K,) sequence of float
        Of the model: what exp makes parts of the whole hazard of. None at all is one interval.
        Rounded ones do not add up to the whole: they are scaled.
    ends : (K + 1,) float64
    horizons : sequence of float
    unit : str
        Of time.
    risk : str
        How the risk's column begins.
    """
    parts = np.exp(np.array(baseline or (0.0,)))
    shares = np.append(0.0, np.cumsum(parts))
    shares /= shares[-1]
    return Timeline(
        ends,
        shares,
        tuple(
            Horizon(
                time,
                f"{risk}_{name_time(time)}",
                tell_time(time, unit),
                math.log(np.interp(time, ends, shares)),
            )
            for time in horizons
        ),
        unit,
    )


def name_time(time: float) -> str:
    """Return a time as a part of a name, different for each: ``90``, ``0_5``."""
    return np.format_float_positional(time, trim="-").replace(".", "_")


# --- of patients ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curve:
    """Survival at the ends of intervals.

    Parameters
    ----------
    survival : (…, T + 1) float64
        From 1 on; NaN from where nobody is at risk.
    spread : (…, T + 1) float64
        Greenwood's variance of its logarithm; infinite where the curve is 0.
    size : (…, T + 1) float64
        Fewest who were at risk in an interval so far.
    """

    survival: Floats
    spread: Floats
    size: Floats

    def interval(self) -> tuple[Floats, Floats]:
        """Return both ends of the 95 % interval of the survival, as it."""
        alive = np.clip(self.survival, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            patients = (1 - alive) / (alive * self.spread)
        known = (alive > 0) & (alive < 1)
        patients = np.where(known & np.isfinite(patients), patients, self.size)
        low, high = wilson_poisson(1 - alive, np.maximum(patients, 1e-9))
        return 1 - high, 1 - low


def estimate_survival(events: Floats, through: Floats, partial: Floats) -> Curve:
    """Return the survival at the ends of the intervals.

    Parameters
    ----------
    events, through, partial : (…, T) float64
        Patients with the event, and at risk all through an interval, and the summed shares of
        those at risk during a part of it.
    """
    stay = through + partial
    size = stay + events
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(size > 0, stay / size, 1.0)
        spread = np.where(events > 0, events / (size * stay), 0.0)
    one = np.ones((*events.shape[:-1], 1))
    survival = np.concatenate([one, np.cumprod(factor, axis=-1)], axis=-1)
    # Nobody is left to follow, but for that all had the event.
    gap = np.logical_or.accumulate((size <= 0) & (survival[..., 1:] > 0), axis=-1)
    survival[..., 1:][gap] = np.nan
    fewest = np.minimum.accumulate(size, axis=-1)
    return Curve(
        survival,
        np.concatenate([0 * one, np.cumsum(spread, axis=-1)], axis=-1),
        np.concatenate([size[..., :1], fewest], axis=-1),
    )


def bound_survival(events: Floats, through: Floats, parts: Floats) -> tuple[Floats, Floats]:
    """Return between what Kaplan and Meier's curve of the patients lies, (…, T + 1) each.

    `parts` are the patients at risk during a part of an interval, without an event in it.
    """
    one = np.ones((*events.shape[:-1], 1))

    def follow(stay: Floats) -> Floats:
        held = stay + events
        factor = np.where(held > 0, stay / np.where(held > 0, held, 1.0), 1.0)
        return np.concatenate([one, np.cumprod(factor, axis=-1)], axis=-1)

    return follow(through), follow(through + parts)
