r"""How well risks predict times to an event, read off a table of risk bins and intervals.

In: :class:`~fedrulefit.core.families.time_sums.TimeSums`, of one site or of all. Out: the usual
measures. Nothing leaves a site here: it is all in the sums. With :math:`D_{bk}` the patients of
bin b with the event in interval k and :math:`M_{bk}` those at risk all through it and beyond:

======================  ========================================================================
concordance             Harrell's C over the pairs whose order is known,
                        :math:`\sum_k\sum_{b,b'} D_{bk}M_{b'k}s_{bb'} / \sum_k D_{\cdot k}
                        M_{\cdot k}`, with s = 1 where the bin of the event is the higher, ½ where
                        both are the same
Brier score             of the last horizon, each patient weighed by one over the chance to be
                        under observation still (IPCW, Graf 1999):
                        :mod:`fedrulefit.core.families.time_weights`
observed risk           one minus Kaplan and Meier's curve at the last horizon
ratio                   of the observed risk to the mean prediction
calibration slope       :math:`b` of the hazard :math:`h_k e^{bF}`, F the predicted log cumulative
                        hazard: Poisson's likelihood, the :math:`h_k` fitted to each b
======================  ========================================================================

What bins and intervals cost
    Of the concordance: pairs in one bin count as tied, those of one interval are left out; the
    bound holds whatever their order. Of the Brier score: when in its interval an event was, and
    what of its squared error is whose; the bound holds whatever both are. Of the observed risk:
    :mod:`fedrulefit.core.families.survival`. The slope of smooth predictions is off by half of its
    standard error among 3,000 patients of whom a third have the event, or less; its interval does
    not hold that, and is too short among many more events.

Intervals
    Of the concordance: a score interval (:func:`~fedrulefit.core.families.areas.find_ends`), from
    the variance of its projection on single patients and as many others as an event is held
    against on average. Of the ratio: Rothman's of the observed risk. Of the slope: profile
    likelihood. Weights count for that many patients. With fewer than :data:`FEWEST` events
    none of them is told.

Oracles: scikit-survival and statsmodels on the patients themselves, within these bounds
(``tests/properties/test_time_measures.py``); coverage by simulation there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, logsumexp

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.crossing import find_crossing
from fedrulefit.core.families.areas import find_ends
from fedrulefit.core.families.survival import Curve
from fedrulefit.core.families.time_sums import (
    LEAST_HAZARD,
    MOST_HAZARD,
    Counts,
    TimeSums,
    to_log_hazard,
)
from fedrulefit.core.families.time_weights import LATE, weigh
from fedrulefit.core.families.yesno_measures import place_means
from fedrulefit.core.families.yesno_sums import STEP
from fedrulefit.core.rounding import round_to
from fedrulefit.core.shares import Z95

FEWEST: Final = 10
"""Intervals, and the calibration slope, rest on at least so many events."""

_FAR: Final = 30.0
"""A slope farther from 0 is taken to have no end."""

_WIDEST: Final = 1.0
"""Log hazards of an outer bin, which has no end, are taken to lie within so much of its edge."""

_ROUNDS: Final = 3
"""How often times of events in an interval follow from hazards, and these from them."""

NAN: Final = float("nan")
UNKNOWN: Final = (NAN, NAN, NAN)

Estimate = tuple[float, float, float]
"""A number, and both ends of its 95 % interval."""


def bin_means(sums: TimeSums) -> Floats:
    """Return where the mean prediction of each bin may lie, shape (n_bins,)."""
    if sums.means is not None:
        return sums.means
    return place_means(sums.ends, sums.patients, sums.chances)


def follow(table: Counts) -> Curve:
    """Return the survival of the patients of each bin."""
    return table.follow()


# --- concordance ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Concordance:
    """Harrell's C; NaN where it is not known.

    Parameters
    ----------
    value, low, high : float
        With its 95 % interval.
    bound : float
        Most that it can be off because of bins and intervals.
    events, partners : float
        Patients with the event, and how many others one is held against on average.
    """

    value: float
    low: float
    high: float
    bound: float
    events: float
    partners: float


def rank(sums: TimeSums) -> Concordance:
    """Return the concordance of risks and times."""
    table = sums.table.ranked
    events, partners = table.events, table.through
    cases, by_time = float(events.sum()), events.sum(axis=0)
    pairs = float(by_time @ partners.sum(axis=0))
    if pairs <= 0:
        return Concordance(*UNKNOWN, NAN, cases, 0.0)
    lower = _lower(partners)
    sure, tied = float((events * lower).sum()), float((events * partners).sum()) / 2
    # Of one interval: an event may have been before the last news of others, and either of two
    # events the first.
    ended, both = table.left + table.entered, float((by_time * np.maximum(by_time - 1, 0)).sum())
    halves = float(by_time @ ended.sum(axis=0))
    guessed = sure + 0.5 * float((events * _lower(ended)).sum()) + both / 4
    found = guessed / (pairs + halves / 2 + both / 2)
    unsorted = halves + float(by_time @ table.entered.sum(axis=0)) + float(by_time @ by_time) / 2
    least = (sure - tied) / (pairs + unsorted)
    most = (sure + tied + unsorted) / (pairs + unsorted)
    bound, size = max(found - least, most - found), pairs / cases
    if cases < FEWEST:
        return Concordance(found, NAN, NAN, bound, cases, size)
    variance = _variance(table, sure / pairs, lower) / pairs**2
    low, high = find_ends(found, variance, cases, size)
    high += float((events * partners).sum(axis=1) @ _sort_inside(sums)) / pairs
    return Concordance(found, min(low, found), min(max(high, found), 1.0), bound, cases, size)


def _lower(others: Floats) -> Floats:
    """Return the weight of others in lower bins than each, and half of those in the same."""
    lower: Floats = np.cumsum(others, axis=0) - 0.5 * others
    return lower


def _sort_inside(sums: TimeSums) -> Floats:
    """Return by how much more than half of the pairs in a bin the risks are expected to sort.

    Where log hazards lie evenly over a width δ, and hazards are as predicted, that is δ/12.
    """
    width = np.diff(to_log_hazard(sums.ends))
    sorted_: Floats = np.minimum(width, _WIDEST) / 12
    return sorted_


def _variance(table: Counts, found: float, lower: Floats) -> float:
    """Return the variance of the pairs that are told apart: of what single patients add to them.

    A patient adds as somebody with an event, and as a partner of all who had theirs before.
    """
    own = lower - found * table.through.sum(axis=0)
    higher = table.events.sum(axis=0) - np.cumsum(table.events, axis=0) + 0.5 * table.events
    other = np.cumsum(higher - found * table.events.sum(axis=0), axis=1)
    before = np.column_stack([np.zeros(len(other)), other])
    squares = (
        (table.events * (own + before[:, :-1]) ** 2).sum()
        + (table.left * before[:, :-1] ** 2).sum()
        + table.started[:, -1] @ before[:, -1] ** 2
    )
    return float(squares)


# --- Brier score ------------------------------------------------------------------------------


def score(sums: TimeSums) -> tuple[float, float]:
    """Return the Brier score of the last horizon by IPCW, and how far it can be off.

    NaN where nobody was followed to the horizon, or not without a gap.
    """
    sums = sums.fine
    table, weights = sums.table, weigh(sums.table)
    if weights is None:
        return NAN, NAN
    errors = (1 - bin_means(sums)) ** 2
    of_events, of_others = sums.squares.tolist()
    guessed = float((table.events.sum(axis=1) * errors).sum())
    scale = of_events / guessed if guessed > 0 else 1.0
    likely, least, most = weights.likely, weights.least, weights.most
    brier = scale * float(errors @ table.events @ likely.events) + of_others * likely.others[-1]
    seen = table.events.sum(axis=0) > 0
    if not seen.any():
        seen = np.ones_like(seen)
    own = table.events @ most.events, table.events @ least.events
    high = min((1 - sums.ends[:-1]) ** 2 @ own[0], of_events * most.events[seen].max())
    low = max((1 - sums.ends[1:]) ** 2 @ own[1], of_events * least.events[seen].min())
    upper = high + of_others * most.others[-1]
    lower = low + of_others * least.others[-1]
    step = STEP * float(table.patients.sum()) * likely.others[-1]
    return float(brier), float(max(upper - brier, brier - lower, 0.0) + step)


def is_late(table: Counts) -> bool:
    """Whether patients came under observation late: then nobody knows who would have been lost."""
    return float(table.entered.sum()) > LATE


# --- calibration ------------------------------------------------------------------------------


def place_hazards(sums: TimeSums) -> Floats:
    """Return the log cumulative hazard that stands for each bin's patients, shape (n_bins,).

    On either side of risk ½ all bins place it at the same share of the way between their edges,
    such that these add up to what was summed. The first and the last have no outer edge: they place
    it at the hazard of that share beyond the inner one; above half as far on the log scale, as few
    have a risk near 1.
    """
    ends, weight, half = to_log_hazard(sums.ends), sums.patients, sums.ends[1:] <= 0.5
    ends[0] = ends[-1] = NAN

    def place(shift: float) -> Floats:
        share = float(expit(shift))
        found: Floats = ends[:-1] + np.diff(ends) * share
        found[0] = max(ends[1] - float(np.logaddexp(0.0, -shift)), LEAST_HAZARD)
        found[-1] = min(ends[-2] + float(np.logaddexp(0.0, shift)) / 2, MOST_HAZARD)
        return found

    found = np.zeros(sums.n_bins)
    for side, total in zip((half, ~half), sums.log_hazards.tolist(), strict=True):

        def miss(shift: float, side: Bools = side, total: float = total) -> float:
            return float((weight * side) @ place(shift)) - total

        found[side] = place(find_crossing(miss, -40.0, 40.0))[side]
    return found


def fit_slope(sums: TimeSums) -> Estimate:
    """Return the calibration slope, with its profile likelihood interval."""
    sums = sums.fine
    table = sums.table
    events = table.events.sum(axis=0)
    if events.sum() < FEWEST:
        return UNKNOWN
    held = sums.patients > 0
    at = place_hazards(sums)[held]
    centre = float(sums.patients[held] @ at / sums.patients.sum())
    at = at - centre
    stay, own = table.exposed[held], table.events[held]
    waited, slope = own / 2, UNKNOWN
    for _ in range(_ROUNDS):
        slope = _climb(at, own, stay + waited)
        if np.isnan(slope[0]):
            break
        hazard = np.exp(slope[0] * at)[:, None]
        pace = own.sum(axis=0) / np.maximum((hazard * (stay + waited)).sum(axis=0), 1e-300)
        waited = own * _wait(hazard * pace)
    return slope


def _wait(hazard: Floats) -> Floats:
    """Return after what share of an interval its events happen on average, at a constant hazard."""
    rate = np.clip(hazard, 1e-4, 100.0)
    share: Floats = 1 / rate - 1 / np.expm1(rate)
    return share


def _climb(at: Floats, own: Floats, time: Floats) -> Estimate:
    """Return the slope of highest likelihood, and the ends of its interval.

    Parameters
    ----------
    at : (n_bins,) float64
        Log cumulative hazards.
    own, time : (n_bins, T) float64
        Events, and time at risk.
    """
    events = own.sum(axis=0)
    seen = (events > 0) & (time.sum(axis=0) > 0)
    with np.errstate(divide="ignore"):
        logs, told = np.log(time[:, seen]), float(own.sum(axis=1) @ at)

    def height(slope: float) -> float:
        return slope * told - float(events[seen] @ logsumexp(logs + slope * at[:, None], axis=0))

    def fall(slope: float) -> float:
        """Return minus the derivative of the height; it grows."""
        share = np.exp(logs + slope * at[:, None])
        means = (at @ share) / share.sum(axis=0)
        return float(events[seen] @ means) - told

    best = find_crossing(fall, -_FAR, _FAR)
    least = height(best) - Z95**2 / 2
    if not abs(best) < _FAR:
        return UNKNOWN
    low = find_crossing(lambda slope: height(slope) - least, -_FAR, best)
    high = find_crossing(lambda slope: least - height(slope), best, _FAR)
    if low <= -_FAR or high >= _FAR:
        return UNKNOWN  # predictions that are alike, or separate
    return best, low, high


@dataclass(frozen=True)
class Measures:
    """The usual measures of a model on some patients; NaN where one is not known.

    That is so of intervals and of the calibration slope with fewer than ten events (``FEWEST``), of
    the concordance without any, of the Brier score where nobody was followed to the last horizon,
    and of it and the observed risk where follow-up has a gap.

    Parameters
    ----------
    patients, events : float
    concordance, concordance_low, concordance_high, concordance_bound : float
        Harrell's C, its 95 % score interval, and the most that bins and intervals can shift it.
    brier, brier_bound : float
        Of the last horizon, by IPCW, and the most that bins and intervals can shift it.
    slope, slope_low, slope_high : float
        Calibration slope and its 95 % profile likelihood interval.
    ratio, ratio_low, ratio_high : float
        Observed by predicted risk, and its 95 % interval.
    observed, expected : float
        Risk by the last horizon: by Kaplan and Meier, and the mean prediction.
    """

    patients: float
    events: float
    concordance: float
    concordance_low: float
    concordance_high: float
    concordance_bound: float
    brier: float
    brier_bound: float
    slope: float
    slope_low: float
    slope_high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    observed: float
    expected: float

    def __post_init__(self) -> None:
        slack = 1e-6  # sums are in fixed point
        areas = (self.concordance, self.concordance_low, self.concordance_high)
        shares = (*areas, self.concordance_bound, self.observed, self.expected)
        if any(share < -slack or share > 1 + slack for share in shares):
            raise ValueError("a measure that lies between 0 and 1 does not")
        if not -slack <= self.events <= self.patients + slack or self.brier < -slack:
            raise ValueError("a measure contradicts itself")
        for low, value, high in (
            (self.concordance_low, self.concordance, self.concordance_high),
            (self.slope_low, self.slope, self.slope_high),
            (self.ratio_low, self.ratio, self.ratio_high),
        ):
            if low > value or value > high:
                raise ValueError("a measure lies outside of its interval")
            if np.isnan(low) != np.isnan(high) or np.isnan(low) < np.isnan(value):
                raise ValueError("a measure knows half of its interval")

    @property
    def with_outcome(self) -> float:
        """Those with the event."""
        return self.events

    @property
    def fewest(self) -> float:
        """Those with the event, or without it, whichever are fewer."""
        return min(self.events, self.patients - self.events)

    @property
    def counts(self) -> tuple[float, ...]:
        """Patients and events."""
        return self.patients, self.events

    def rounded(self, base: float) -> Measures:
        """Return counts as multiples of `base` and the rest with three decimals."""
        facts = {name: round(value, 3) for name, value in vars(self).items()}
        counts = round_to(np.array(self.counts), base)
        return replace(self, **facts).with_counts(*counts.tolist())

    def with_counts(self, *counts: float) -> Measures:
        """Return the same with rounded counts."""
        patients, events = counts
        return replace(self, patients=patients, events=events)


def compare(sums: TimeSums) -> tuple[Estimate, float, float]:
    """Return the ratio of observed to predicted risk with its interval, and both risks."""
    n = float(sums.patients.sum())
    curve = follow(sums.table.pooled())
    expected = sums.chances / n if n > 0 else NAN
    observed = 1 - float(curve.survival[0, -1])
    if not expected > 0 or np.isnan(observed):
        return UNKNOWN, observed, expected
    low, high = NAN, NAN
    if sums.cases.sum() >= FEWEST:
        high, low = (1 - float(end[0, -1]) for end in curve.interval())
    return (observed / expected, low / expected, high / expected), observed, expected


def measure(sums: TimeSums) -> Measures:
    """Return all measures."""
    return sums.told.measures if sums.told else Measures(*list_measures(sums, score(sums)))


def list_measures(sums: TimeSums, brier: tuple[float, float]) -> tuple[float, ...]:
    """Return all measures in their order, the Brier score with its bound being known."""
    ranked, (ratio, observed, expected) = rank(sums), compare(sums)
    return (
        float(sums.patients.sum()),
        float(sums.cases.sum()),
        ranked.value,
        ranked.low,
        ranked.high,
        ranked.bound,
        *brier,
        *fit_slope(sums),
        *ratio,
        observed,
        expected,
    )
