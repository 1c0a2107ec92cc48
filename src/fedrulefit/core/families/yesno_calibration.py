r"""How far predicted and observed probabilities agree: slope and intercept of the calibration.

In: points that stand for the patients
(:meth:`~fedrulefit.core.families.yesno_sums.ScoreSums.place`). Out:

=========================  =====================================================================
calibration slope          :math:`b` of the logistic regression
                           :math:`P(y = 1) = σ(a + bF)` on the predicted log-odds :math:`F`
calibration in the large   :math:`α` of :math:`P(y = 1) = σ(α + F)`
=========================  =====================================================================

Both likelihoods are concave. The intercept is the root of a growing function between two known
ends; the slope is found by Newton's method with steps that are halved until the likelihood grows.
So a fit ends wherever there is an optimum, and where there is none (one class; bins that do not
overlap) that is known beforehand.

Intervals
    Of the slope: all :math:`b` that a likelihood-ratio test at 5 % keeps, with :math:`a` fitted
    anew to each. Of the intercept: all :math:`α` that the score test keeps,
    :math:`|\sum_i (y_i - p_i)| ≤ 1.96 \sqrt{φ \sum_i p_i(1 - p_i)} + ½` at
    :math:`p_i = σ(α + F_i)`: where all predictions are alike, Wilson's interval with correction for
    continuity. Where the slope is not 1, outcomes differ from :math:`p` by more or less than such
    chances do: :math:`φ` is :math:`\sum_i (y_i - p_i)^2 / \sum_i p_i(1 - p_i)` at the estimate.
    Both intervals hold what the bins leave open (:func:`_blur`). With fewer than :data:`FEWEST`
    patients of either outcome a slope is not told.

What the bins cost
    Compared with a fit to the patients, the slope of smooth predictions is off by a fifth of
    its standard error among 4,000 patients, or less; that of very few distinct predictions by more,
    for which the interval is wide enough. Log-odds farther than 16 from 0 count as 16.

Oracle: statsmodels' GLM on the patients themselves, with and without an offset
(``tests/properties/test_yesno_calibration.py``); coverage by simulation (``docs/coverage.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, log_expit, logit

from fedrulefit.core.arrays import Floats
from fedrulefit.core.crossing import find_crossing
from fedrulefit.core.families.yesno_places import Places, is_below
from fedrulefit.core.families.yesno_sums import ScoreSums
from fedrulefit.core.shares import Z95

FEWEST: Final = 10
"""A calibration slope rests on at least so many patients with and without the outcome."""

Estimate = tuple[float, float, float]
"""A number, and both ends of its 95 % interval."""

_PLACES: Final = 17
"""Places in a bin at which a patient is tried."""

_FAR: Final = 60.0
"""Farther from the intercept than any end of its interval: F are at most 16 from 0."""


@dataclass(frozen=True)
class Calibration:
    """How far predicted and observed probabilities agree; NaN where that is not known.

    Parameters
    ----------
    slope, slope_low, slope_high : float
        Of a logistic regression of the outcome on the predicted log-odds, and its 95 %
        interval; 1 is perfect.
    intercept, intercept_low, intercept_high : float
        Calibration in the large: the intercept for slope 1; 0 is perfect.
    """

    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    intercept_low: float
    intercept_high: float


def calibrate(sums: ScoreSums) -> Calibration:
    """Return slope and intercept of the calibration, with their intervals."""
    fine = sums.fine
    unknown = (float("nan"),) * 3
    if min(fine.n_cases, fine.n_others) <= 0:
        return Calibration(*unknown, *unknown)
    places = fine.place()
    odds, cases, others = points = places.points(fine.cases, fine.others)
    slope, large = unknown, _fit_large(odds, cases, cases + others)
    if min(fine.n_cases, fine.n_others) >= FEWEST and overlap(fine.cases, fine.others):
        slope = _fit_slope(odds, cases, others)
        slope = _widen(slope, _blur_slope(slope[0], places, points, fine))
    return Calibration(*slope, *_widen(large, _blur_large(large[0], places, points, fine)))


def _widen(found: Estimate, error: float) -> Estimate:
    """Return an estimate whose interval also holds another source of error."""
    value, low, high = found
    return (
        value,
        value - float(np.hypot(value - low, Z95 * error)),
        value + float(np.hypot(high - value, Z95 * error)),
    )


def _blur_slope(slope: float, places: Places, points: Floats, sums: ScoreSums) -> float:
    """Return the standard error of the slope that the bins leave."""
    odds, cases, others = points
    weights = cases + others
    level = _find_level(slope * odds, weights, float(cases.sum()))
    chance = expit(level + slope * odds)
    design = np.column_stack([np.ones_like(odds), odds])
    first, second = np.linalg.inv((design.T * (weights * chance * (1 - chance))) @ design)[1]

    def move(at: Floats, outcome: float) -> Floats:
        moved: Floats = (outcome - expit(level + slope * at)) * (first + second * at)
        return moved

    return _blur(move, places, sums)


def _blur_large(large: float, places: Places, points: Floats, sums: ScoreSums) -> float:
    """Return the standard error of the intercept that the bins leave."""
    odds, cases, others = points
    chance = expit(large + odds)
    information = (cases + others) @ (chance * (1 - chance))

    def move(at: Floats, outcome: float) -> Floats:
        moved: Floats = (outcome - expit(large + at)) / information
        return moved

    return _blur(move, places, sums)


def _blur(move: Callable[[Floats, float], Floats], places: Places, sums: ScoreSums) -> float:
    """Return the standard error that comes of not knowing where in a bin its patients stand.

    `move` tells by how much one patient of an outcome, who stands at some log-odds, moves an
    estimate. Each bin's patients may stand anywhere in it, and all together: as in a model of few
    distinct predictions, the worst that is plausible. As the summed log-odds are known, only what
    differs from a straight line counts, and for that line least squares are taken.
    """
    low, high = places.ends[:-1].copy(), places.ends[1:].copy()
    first, last = places.means[:, [0, -1]].mean(axis=0)  # the outer bins have no other end
    low[0], high[-1] = max(low[0], 2 * first - high[0]), min(high[-1], 2 * last - low[-1])
    grid = np.linspace(low, high, _PLACES, axis=1)
    held, below = np.stack([sums.cases, sums.others]), is_below(sums.ends)
    variance = 0.0
    for half in (below, ~below):
        at, weights = grid[half], held[:, half, None]
        moves = weights * _centre(np.stack([move(at, 1.0), move(at, 0.0)]))
        lines = weights * _centre(np.stack([at, at]))
        sizes = (lines**2).sum(axis=(1, 2))
        tilts = (lines * moves).sum(axis=(1, 2)) / np.maximum(sizes, 1e-300)
        left = (moves - tilts[:, None, None] * lines).sum(axis=0)
        variance += float((left**2).mean(axis=1).sum())
    return float(np.sqrt(variance))


def _centre(values: Floats) -> Floats:
    centred: Floats = values - values.mean(axis=-1, keepdims=True)
    return centred


def overlap(cases: Floats, others: Floats) -> bool:
    """Whether bins show cases below others and others below cases: if not, no slope is finite."""
    sick, well = np.flatnonzero(cases > 0), np.flatnonzero(others > 0)
    return bool(sick[0] < well[-1] and well[0] < sick[-1])


def _fit_large(odds: Floats, cases: Floats, weights: Floats) -> Estimate:
    """Return the intercept for slope 1, and the ends of its score interval."""
    total = float(cases.sum())
    at = _find_level(odds, weights, total)
    fitted = expit(odds + at)
    squares = cases @ (1 - 2 * fitted) + weights @ fitted**2
    scale = squares / (weights @ (fitted * (1 - fitted)))

    def reach(intercept: float) -> float:
        chance = expit(odds + intercept)
        return Z95 * float(np.sqrt(scale * (weights @ (chance * (1 - chance))))) + 0.5

    def miss(intercept: float) -> float:
        return total - float(weights @ expit(odds + intercept))

    low = find_crossing(lambda x: reach(x) - miss(x), at - _FAR, at)
    high = find_crossing(lambda x: -miss(x) - reach(x), at, at + _FAR)
    return at, low, high


def _find_level(offset: Floats, weights: Floats, total: float) -> float:
    """Return a with Σ w·σ(offset + a) = total, by Newton's steps between two known ends."""
    even = float(logit(total / weights.sum()))
    low, high = even - float(offset.max()), even - float(offset.min())
    at = 0.5 * (low + high)
    for _ in range(200):
        chance = expit(offset + at)
        off = float(weights @ chance) - total
        low, high = (at, high) if off < 0 else (low, at)
        slope = float(weights @ (chance * (1 - chance)))
        step = at - off / slope if slope > 0 else low
        following = step if low < step < high else 0.5 * (low + high)
        if abs(following - at) < 1e-12 * (1 + abs(at)):
            break
        at = following
    return following


def _fit_slope(odds: Floats, cases: Floats, others: Floats) -> Estimate:
    """Return the slope, and the ends of its profile likelihood interval."""
    weights, total = cases + others, float(cases.sum())
    centre = float(weights @ odds / weights.sum())
    spread = float(np.sqrt(weights @ (odds - centre) ** 2 / weights.sum()))
    at = (odds - centre) / spread

    def height(level: float, slope: float) -> float:
        predictor = level + slope * at
        return float(cases @ log_expit(predictor) + others @ log_expit(-predictor))

    def profile(slope: float) -> float:
        return height(_find_level(slope * at, weights, total), slope)

    best = _climb(at, cases, weights, height)
    least = profile(best) - Z95**2 / 2

    def find_end(side: float) -> float:
        step = 1.0
        while profile(best + side * step) > least:
            step *= 2
        return best + side * find_crossing(
            lambda away: least - profile(best + side * away), 0.0, step
        )

    return best / spread, find_end(-1.0) / spread, find_end(1.0) / spread


def _climb(
    at: Floats, cases: Floats, weights: Floats, height: Callable[[float, float], float]
) -> float:
    """Return the slope of highest likelihood, by Newton's steps, halved until they climb."""
    design = np.column_stack([np.ones_like(at), at])
    coef = np.array([logit(cases.sum() / weights.sum()), 0.0])
    reached = height(*coef)
    for _ in range(200):
        chance = expit(design @ coef)
        slope = design.T @ (cases - weights * chance)
        bend = (design.T * (weights * chance * (1 - chance))) @ design
        step = np.linalg.solve(bend, slope)
        if np.abs(step).max() < 1e-9:
            break
        while (found := height(*(coef + step))) < reached and np.abs(step).max() > 1e-12:
            step = step / 2
        coef, reached = coef + step, found
    return float(coef[1])
