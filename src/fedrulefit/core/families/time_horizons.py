r"""How far off risks by every horizon are, and over all of the time: Brier scores.

In: :class:`~fedrulefit.core.families.time_sums.TimeSums` of held-out patients, and the timeline of
the model (:class:`~fedrulefit.core.families.survival.Timeline`), which is public. Out: the Brier
score by each horizon, and the integrated one. Nothing leaves a site here, and nothing more than for
the other measures is asked for: with p the risk by the last horizon, that by t is
:math:`p_t = 1 - (1 - p)^{S(t)}`, which grows with p, and so a bin of p is one of :math:`p_t`.

.. math:: B(t) = \sum_{\text{event by } t} w(T)(1 - p_t)^2 +
   \sum_{\text{at risk after } t} w(t)\,p_t^2,\quad \frac1h\int_0^h B(t)\,dt

with w one over the chance to be under observation still (IPCW, Graf 1999):
:mod:`fedrulefit.core.families.time_weights`. The integral is by trapezoids between public times. By
the last horizon the score is that of :func:`~fedrulefit.core.families.time_measures.score`.

What bins and intervals cost
    Patients stand at the mean of their bin. The bounds hold wherever in it they are, and whenever
    in an interval events and losses were.

Oracle: scikit-survival on the patients themselves (``tests/properties/test_time_horizons.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.survival import Timeline
from fedrulefit.core.families.time_measures import bin_means, score
from fedrulefit.core.families.time_sums import TimeSums
from fedrulefit.core.families.time_weights import Weight, Weights, weigh


@dataclass(frozen=True)
class Scores:
    """Brier scores over time, each with the most that bins and intervals can shift it.

    Parameters
    ----------
    times, brier, bounds : tuple of float
        By each horizon.
    integrated, integrated_bound : float or None
        The mean over the time up to the last horizon; None where only horizons are known.
    observed, expected : tuple of float
        Observed and mean predicted risk by each horizon; empty where that is not told.
    """

    times: tuple[float, ...]
    brier: tuple[float, ...]
    bounds: tuple[float, ...]
    integrated: float | None
    integrated_bound: float | None
    observed: tuple[float, ...] = ()
    expected: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        whole = [part for part in (self.integrated, self.integrated_bound) if part is not None]
        if not {len(self.times)} == {len(self.brier), len(self.bounds)}:
            raise ValueError("a horizon lacks its score")
        if not all(number >= 0 for number in [*self.brier, *self.bounds, *whole]):
            raise ValueError("a Brier score lies below 0")
        if {len(self.observed), len(self.expected)} not in ({0}, {len(self.times)}):
            raise ValueError("a horizon lacks its risks")
        if not all(0 <= risk <= 1 + 1e-6 for risk in [*self.observed, *self.expected]):
            raise ValueError("a risk does not lie between 0 and 1")

    def rounded(self) -> Scores:
        """Return the same with three decimals."""
        brier, bounds, observed, expected = (
            tuple(round(number, 3) for number in own)
            for own in (self.brier, self.bounds, self.observed, self.expected)
        )
        whole, bound = (
            None if part is None else round(part, 3)
            for part in (self.integrated, self.integrated_bound)
        )
        return Scores(self.times, brier, bounds, whole, bound, observed, expected)


def score_over_time(sums: TimeSums, timeline: Timeline) -> Scores | None:
    """Return the scores of a model with this timeline.

    None where nobody was followed to the last horizon, or not without a gap.
    """
    sums = sums.fine
    weights, (last, bound) = weigh(sums.table), score(sums)
    if weights is None:
        return None
    low, found, high = _follow(sums, timeline.share(sums.times), weights)
    off = np.maximum(high - found, found - low)
    found[-1], off[-1] = last, bound
    at = np.searchsorted(sums.times, [horizon.time for horizon in timeline.horizons])
    span = float(sums.times[-1])
    return Scores(
        tuple(horizon.time for horizon in timeline.horizons),
        tuple(found[at].tolist()),
        tuple(off[at].tolist()),
        _area(found, sums.times) / span,
        _area(off, sums.times) / span,
    )


def _area(levels: Floats, times: Floats) -> float:
    """Return the area under straight lines between levels."""
    return float(np.diff(times) @ (levels[1:] + levels[:-1])) / 2


def _follow(sums: TimeSums, shares: Floats, weights: Weights) -> tuple[Floats, Floats, Floats]:
    """Return the least, the likely and the most score by each public time, (n_times,) each."""
    first, means, second = sums.ends[:-1], bin_means(sums), sums.ends[1:]
    # What patients weigh, and the risk of those with the event and of those who go on.
    low = _score(sums, shares, weights.least, second, first)
    likely = _score(sums, shares, weights.likely, means, means)
    return low, likely, _score(sums, shares, weights.most, first, second)


def _score(
    sums: TimeSums, shares: Floats, weight: Weight, of_events: Floats, of_others: Floats
) -> Floats:
    """Return B at each public time.

    `of_events` and `of_others`, of shape (n_bins,), are the risks by the last horizon of those with
    the event and of those at risk still.
    """
    table = sums.table
    events = table.events * weight.events
    happened = np.column_stack([np.zeros(len(events)), np.cumsum(events, axis=1)])
    missed = _by_then(of_events, shares, survive=True) ** 2 * happened
    feared = _by_then(of_others, shares, survive=False) ** 2 * table.started * weight.others
    found: Floats = (missed + feared).sum(axis=0)
    return found


def _by_then(risk: Floats, shares: Floats, *, survive: bool) -> Floats:
    """Return the risk by each time, or the chance to survive it, (n_bins, n_times)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(shares > 0, np.log1p(-risk)[:, None] * shares, 0.0)
    found: Floats = np.exp(logs) if survive else -np.expm1(logs)
    return found
