r"""How well predicted counts hit, read off deviances and a histogram.

In: :class:`~fedrulefit.core.families.count_sums.CountSums`, of one site or of all. Out: the usual
measures, and the calibration curve. Nothing leaves a site here.

With y the count, μ the expected count, O and E their sums:

==============================  ==================================================================
ratio                           :math:`O/E`: calibration in the large
mean deviance                   :math:`D = \overline{2(y \log(y/μ) - y + μ)}`
explained share, D²             :math:`1 - D/D_0`, :math:`D_0` of one rate for all
calibration slope               b of the Poisson regression of counts on the logarithm of predicted
                                rates, with log exposure as offset
dispersion                      :math:`φ = \overline{(y - μ)^2/μ}` (Pearson), 1 in a Poisson model
mean absolute error             :math:`\overline{|y - μ|}`
==============================  ==================================================================

What rounding and bins cost
    Sums are off by at most 2⁻²¹ of the largest count for each patient. The slope is that of bins:
    a rate stands for others at most a quarter larger. Where predictions hardly differ, that
    is most of what they differ by: the slope's interval is wider by the bins' share of the
    variance of log rates. Rates beyond 1/4096 and 4 largest counts
    per largest exposure count as these.

Intervals
    Of the ratio: Poisson's exact one (Garwood 1936), widened by how much more counts vary about
    predictions than Poisson's do, where it is more (quasi-Poisson). A patient's variance is taken
    to be :math:`φ_b μ`, with the bin's own φ. Of the slope likewise: a sandwich of these variances,
    never less than Poisson's. Where predictions are too low or too high on the whole, φ holds that,
    too, and intervals are a little wide. Of D²: of the logarithm
    (:mod:`fedrulefit.core.families.intervals`). With fewer than :data:`FEWEST_EVENTS` events none
    is told.

Oracle: scikit-learn, statsmodels and SciPy (``tests/properties/test_count_measures.py``);
simulated coverage (``tests/unit/core/test_count_judge.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from scipy.special import gammaincinv

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.count_sums import PAIRS, PARTS, CountSums
from fedrulefit.core.families.grouping import group_bins, group_ends
from fedrulefit.core.families.intervals import (
    UNKNOWN,
    Estimate,
    check_interval,
    estimate,
    estimate_explained,
)
from fedrulefit.core.rounding import round_digits, round_to

FEWEST_EVENTS: Final = 10
"""Intervals rest on at least so many events."""

BIN_WIDTH: Final = math.log(2) / 3
"""Of a bin of rates, on the scale of their logarithm."""

_DIGITS: Final = 3


@dataclass(frozen=True)
class Scale:
    """From shares of public largest numbers to what people are told.

    Parameters
    ----------
    most : float
        The largest count.
    max_exposure : float
        The largest exposure.
    per : float
        Rates are told per so much exposure.
    """

    most: float
    max_exposure: float
    per: float

    @property
    def rate(self) -> float:
        """What a relative rate of 1 is told as."""
        return self.most * self.per / self.max_exposure


def spread_factors(sums: CountSums) -> Floats:
    """Return φ of each bin, shape (n_bins,): 1 where nobody is."""
    held = sums.people > 0
    factors: Floats = np.where(held, sums.pearson / np.where(held, sums.people, 1.0), 1.0)
    return factors


def widen(sums: CountSums) -> float:
    """Return by how much the variance of all events is larger than Poisson's; at least 1."""
    expected = float(sums.expected.sum())
    return max(float(spread_factors(sums) @ sums.expected) / expected, 1.0) if expected else 1.0


def reach_poisson(events: float, factor: float) -> tuple[float, float]:
    """Return Garwood's 95 % interval of a mean count, whose variance is `factor` times the mean."""
    seen = events / factor
    low = float(gammaincinv(seen, 0.025)) if events > 0 else 0.0
    return factor * low, factor * float(gammaincinv(seen + 1, 0.975))


def find_ratio(sums: CountSums, most: float) -> Estimate:
    """Return observed over expected events."""
    events, expected = float(sums.events.sum()), most * float(sums.expected.sum())
    if not expected > 0:
        return UNKNOWN
    if events < FEWEST_EVENTS:
        return events / expected, math.nan, math.nan
    low, high = reach_poisson(events, widen(sums))
    return events / expected, low / expected, high / expected


def explain(sums: CountSums, most: float, *, within: bool = False) -> tuple[float, float, float]:
    """Return A, B and the influence of D², for :func:`estimate_explained`.

    Mean deviances of the model and of one rate for all, as shares of the largest count.

    Parameters
    ----------
    sums : CountSums
    most : float
    within : bool
        Whether predictions first get the right level, by a common factor.
    """
    n, count = sums.total, float(sums.events.sum()) / most
    exposure, expected = float(sums.exposures.sum()), float(sums.expected.sum())
    if n <= 0 or count <= 0 or expected <= 0:
        return 0.0, 0.0, 0.0
    deviance, own = sums.losses.tolist()
    rate = math.log(count / exposure)
    model, null = np.zeros(len(PARTS)), np.zeros(len(PARTS))
    model[0] = 1.0
    if within:
        factor = count / expected
        model[[2, 4]] = -2 * math.log(factor), 2 * (factor - 1)
    null[[1, 2, 3]] = 2.0, -2 * (rate + 1), 2 * math.exp(rate)
    totals = np.array([deviance, own, count, exposure, expected])
    left, whole = float(model @ totals) / n, float(null @ totals) / n
    if left <= 0 or whole <= 1e-9:
        return max(left, 0.0), whole if whole > 1e-9 else 0.0, 0.0
    products = np.zeros((len(PARTS), len(PARTS)))
    for (i, j), total in zip(PAIRS, sums.products.tolist(), strict=True):
        products[i, j] = products[j, i] = total / n
    move = model / left - null / whole
    return left, whole, float(move @ products @ move)


def fit_slope(sums: CountSums, most: float) -> Estimate:
    """Return the calibration slope of the bins; unknown where fewer than two have events."""
    held = (sums.expected > 0) & (sums.exposures > 0)
    events, expected = sums.events[held], most * sums.expected[held]
    if events.sum() < FEWEST_EVENTS or np.count_nonzero(events) < 2:
        return UNKNOWN
    at = np.log(sums.expected[held] / sums.exposures[held])
    at = at - float(expected @ at / expected.sum())
    design = np.column_stack([np.ones_like(at), at])
    coef, fitted = _climb(design, events, expected)
    inverse = np.linalg.inv((design.T * fitted) @ design)
    factors = spread_factors(sums)[held]
    robust = inverse @ ((design.T * (factors * fitted)) @ design) @ inverse
    blur = 1 + BIN_WIDTH**2 / 12 * float(expected.sum()) / float(expected @ at**2)
    error = blur * math.sqrt(max(float(robust[1, 1]), float(inverse[1, 1])))
    return estimate(1 + coef[1], error, sums.total, lost=2)


def _climb(design: Floats, events: Floats, expected: Floats) -> tuple[list[float], Floats]:
    """Return the coefficients of highest Poisson likelihood, and the events that they fit.

    By Newton's steps, halved until they climb; log `expected` is the offset.
    """

    def fit(coef: Floats) -> Floats:
        means: Floats = expected * np.exp(np.minimum(design @ coef, 300.0))
        return means

    def height(coef: Floats) -> float:
        return float(events @ (design @ coef) - fit(coef).sum())

    coef = np.array([math.log(events.sum() / expected.sum()), 0.0])
    for _ in range(200):
        fitted = fit(coef)
        step = np.linalg.solve((design.T * fitted) @ design, design.T @ (events - fitted))
        if np.abs(step).max() < 1e-10:
            break
        coef = _walk(coef, np.asarray(step, dtype=np.float64), height)
    return coef.tolist(), fit(coef)


def _walk(coef: Floats, step: Floats, height: Callable[[Floats], float]) -> Floats:
    reached = height(coef)
    while height(coef + step) < reached and np.abs(step).max() > 1e-12:
        step = step / 2
    return coef + step


@dataclass(frozen=True)
class Measures:
    """The usual measures on some patients; NaN where one is not known.

    Parameters
    ----------
    patients, patients_with, events : float
        Those judged, those of them with an event, and all events.
    exposure : float
        Summed.
    ratio, ratio_low, ratio_high : float
        Observed over expected events, and its 95 % interval; 1 is right.
    explained, explained_low, explained_high : float
        Share of deviance explained, D².
    deviance, mae : float
        Mean Poisson deviance, and mean absolute error of a patient's count.
    slope, slope_low, slope_high : float
        Calibration slope; 1 is right.
    dispersion : float
        Pearson's: 1 where counts vary as Poisson's do.
    observed, expected : float
        Rates.
    """

    patients: float
    patients_with: float
    events: float
    exposure: float
    ratio: float
    ratio_low: float
    ratio_high: float
    explained: float
    explained_low: float
    explained_high: float
    deviance: float
    mae: float
    slope: float
    slope_low: float
    slope_high: float
    dispersion: float
    observed: float
    expected: float

    digits: ClassVar[tuple[str, ...]] = ("exposure", "deviance", "mae", "observed", "expected")
    """What is rounded to three digits; the rest is to three decimals."""

    def __post_init__(self) -> None:
        slack = 1e-6  # sums are in fixed point
        above = (self.patients, self.events, self.exposure, self.ratio, self.deviance, self.mae)
        if any(value < -slack for value in (*above, self.dispersion, self.observed)):
            raise ValueError("a measure that is never below 0 is")
        if self.patients_with > self.patients + slack or self.explained > 1 + slack:
            raise ValueError("a measure contradicts itself")
        for name in ("ratio", "explained", "slope"):
            check_interval(*(getattr(self, f"{name}{end}") for end in ("_low", "", "_high")))

    @property
    def with_outcome(self) -> float:
        """Patients with an event."""
        return self.patients_with

    @property
    def fewest(self) -> float:
        """Patients with an event: they are among all patients."""
        return self.patients_with

    @property
    def counts(self) -> tuple[float, float, float]:
        """Patients, those with an event, and events."""
        return self.patients, self.patients_with, self.events

    def rounded(self, base: float) -> Measures:
        """Return counts as multiples of `base`, and the rest to three digits or decimals."""
        facts = {
            name: round_digits(value, _DIGITS) if name in self.digits else round(value, _DIGITS)
            for name, value in vars(self).items()
        }
        return type(self)(**facts).with_counts(*round_to(np.array(self.counts), base).tolist())

    def with_counts(self, *counts: float) -> Measures:
        """Return the same with rounded counts."""
        patients, with_one, events = counts
        return replace(self, patients=patients, patients_with=with_one, events=events)


def measure(sums: CountSums, scale: Scale) -> Measures:
    """Return all measures."""
    n, most, events = sums.total, scale.most, float(sums.events.sum())
    exposure = scale.max_exposure * float(sums.exposures.sum())
    parts = explain(sums, most)
    explained = estimate_explained(*parts, n)
    if events < FEWEST_EVENTS:
        explained = (explained[0], math.nan, math.nan)
    told = {
        "ratio": find_ratio(sums, most),
        "explained": explained,
        "slope": fit_slope(sums, most),
    }
    return Measures(
        patients=n,
        patients_with=float(sums.people_with.sum()),
        events=events,
        exposure=exposure,
        **{
            f"{name}{end}": value
            for name, values in told.items()
            for end, value in zip(("", "_low", "_high"), values, strict=True)
        },
        deviance=most * max(float(sums.losses[0]), 0.0) / n,
        mae=most * sums.misses / n,
        dispersion=float(sums.pearson.sum()) / n,
        observed=events / exposure * scale.per,
        expected=most * float(sums.expected.sum()) / exposure * scale.per,
    )


@dataclass(frozen=True)
class Group:
    """Patients whose predicted rates lie close together.

    Parameters
    ----------
    predicted : float
        Mean predicted rate, by exposure.
    above, below : float
        Where the group begins and ends; the last holds what is beyond, too.
    observed, low, high : float
        Events by exposure, and Poisson's 95 % interval, widened as that of the ratio.
    patients, events : float
    """

    predicted: float
    above: float
    below: float
    observed: float
    low: float
    high: float
    patients: float
    events: float


def calibration_groups(
    sums: CountSums, scale: Scale, n_groups: int, step: float = 0.0
) -> list[Group]:
    """Return the calibration curve: at most `n_groups` groups of similar weight.

    Counts of their bins were rounded to multiples of `step`, which adds its variance,
    :math:`s^2/12` a bin, to that of the events; 0 if they are exact.
    """
    group = group_bins(sums.people, n_groups)
    parts = (sums.people, sums.events, sums.exposures, sums.expected)
    people, events, exposures, expected = (np.bincount(group, x, n_groups) for x in parts)
    found = np.flatnonzero((people > 0) & (exposures > 0))
    above, below = group_ends(group, sums.ends, found)
    bins = np.bincount(group, sums.people > 0, n_groups)
    factor, told = widen(sums), []
    for k, start, end in zip(found.tolist(), above.tolist(), below.tolist(), strict=True):
        seen, exposure = float(events[k]), float(exposures[k])
        wide = factor + float(bins[k]) * step**2 / 12 / max(seen, 1.0)
        ends = (count / scale.most / exposure for count in reach_poisson(seen, wide))
        row = (float(expected[k]) / exposure, start, end, seen / scale.most / exposure, *ends)
        told.append(Group(*[*(scale.rate * x for x in row), float(people[k]), seen]))
    return told
