r"""How well the risk of a cause is predicted where other causes compete with it.

In: :class:`~fedrulefit.core.families.competing_sums.CompetingSums`, of one site or of all. Out: the
usual measures of the cause of interest. Nothing leaves a site here. Each is that of
:mod:`fedrulefit.core.families.time_measures` with one change:

====================  ==========================================================================
concordance           Wolbers' (2009): who had a competing event has the event of interest never,
                      so has it later than whoever had it, at any time
Brier score           by each horizon, competing events being known non-events:
                      :math:`\{\sum_{\text{event}} (1 - p)^2/G(T) + \sum_{\text{competing}} p^2/G(T)
                      + \sum_{\text{at risk}} p^2/G(t)\}/n`, with late entry in the form of
                      :mod:`fedrulefit.core.families.time_weights`
observed risk         Aalen and Johansen's cumulative incidence
ratio                 of it to the mean prediction
calibration slope     of the log cumulative subdistribution hazard of a prediction,
                      :math:`\log(-\log(1 - p))`, as Fine and Gray weigh patients: not told with
                      late entry
====================  ==========================================================================

What bins and intervals cost is told there. A Brier score's bound holds whenever inside an interval
events and losses were, and whosever a squared error is.

Oracles: all pairs of patients, statsmodels, and sums over patients weighed by scikit-survival
(``tests/properties/test_competing_measures.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.competing_sums import PARTS, CauseCounts, CompetingSums
from fedrulefit.core.families.time_horizons import Scores
from fedrulefit.core.families.time_measures import (
    NAN,
    UNKNOWN,
    Measures,
    bin_means,
    is_late,
    list_measures,
)
from fedrulefit.core.families.time_weights import Weight, weigh
from fedrulefit.core.families.yesno_sums import STEP


@dataclass(frozen=True)
class CauseMeasures(Measures):
    """The usual measures of the cause of interest; NaN where one is not known.

    Parameters
    ----------
    patients, events, concordance, …
        As of :class:`Measures`.
    competing : float
        Patients with a competing event by the last horizon; NaN where that is not told.
    """

    competing: float

    @property
    def counts(self) -> tuple[float, ...]:
        """Patients, events, and competing ones."""
        return self.patients, self.events, self.competing

    def with_counts(self, *counts: float) -> CauseMeasures:
        """Return the same with rounded counts."""
        patients, events, competing = counts
        facts = vars(self) | {"patients": patients, "events": events, "competing": competing}
        return CauseMeasures(**facts)


def measure_causes(sums: CompetingSums) -> CauseMeasures:
    """Return all measures."""
    if sums.told:
        found: CauseMeasures = sums.told.measures  # type: ignore[assignment]
        return found
    brier = score_causes(sums)
    last = (brier[-1, 0], brier[-1, 1]) if brier is not None else (NAN, NAN)
    numbers = *list_measures(sums, last), float(sums.others.sum())
    measures = CauseMeasures(*numbers)
    if is_late(sums.table):
        low, value, high = UNKNOWN
        facts = {"slope": low, "slope_low": value, "slope_high": high}
        return CauseMeasures(**(vars(measures) | facts))
    return measures


def score_causes(sums: CompetingSums) -> Floats | None:
    """Return the Brier score by each horizon and how far it can be off, (n_horizons, 2).

    None where nobody was followed to the last horizon, or not without a gap.
    """
    sums = sums.fine
    table: CauseCounts = sums.table  # type: ignore[assignment]
    weights = weigh(table.any_event)
    if weights is None:
        return None
    means, n = bin_means(sums), float(table.patients.sum())
    errors = sums.squares.reshape(-1, PARTS)
    # How squared errors may lie over intervals.
    spreads = (1 - means) ** 2 @ table.events, means**2 @ table.others
    cases = (
        (weights.likely, _mean_of),
        (weights.least, lambda numbers, _: float(numbers.min())),
        (weights.most, lambda numbers, _: float(numbers.max())),
    )
    found = []
    for place, own in zip(sums.places.tolist(), errors.tolist(), strict=True):
        likely, low, high = (
            _score(weight, place, own, spreads, choose) for weight, choose in cases
        )
        step = STEP * n * weights.likely.others[place]
        found.append((likely, max(high - likely, likely - low, 0.0) + step))
    return np.array(found)


def _mean_of(numbers: Floats, spread: Floats) -> float:
    return float(spread @ numbers / spread.sum())


def _score(
    weight: Weight,
    place: int,
    errors: Sequence[float],
    spreads: Sequence[Floats],
    choose: Callable[[Floats, Floats], float],
) -> float:
    """Return the score by one horizon, with what patients weigh at the likeliest, least or most.

    Parameters
    ----------
    weight : Weight
    place : int
        Of the horizon among the public times.
    errors : (3,) sequence of float
        Summed squares: of those with the event, with a competing one, and at risk after.
    spreads : two of (T,) float64
        How the first two may lie over intervals.
    choose : callable
        From the weights of intervals with events, and how squares lie there, to one weight.
    """
    total = errors[2] * float(weight.others[place])
    for error, spread in zip(errors[:2], spreads, strict=True):
        here = spread[:place] > 0
        if here.any():
            total += error * choose(weight.events[:place][here], spread[:place][here])
    return total


def score_by_horizon(sums: CompetingSums) -> Scores | None:
    """Return Brier scores, observed and mean predicted risks by each horizon."""
    brier = score_causes(sums)
    if brier is None:
        return None
    sums = sums.fine
    curve = sums.table.pooled().follow().survival[0]
    expected = sums.expected / float(sums.patients.sum())
    return Scores(
        tuple(sums.horizons.tolist()),
        tuple(brier[:, 0].tolist()),
        tuple(brier[:, 1].tolist()),
        None,
        None,
        tuple((1 - curve[sums.places]).tolist()),
        tuple(expected.tolist()),
    )
