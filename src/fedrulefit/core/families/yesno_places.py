r"""Where patients stand within the bins of their probabilities, on the scale of log-odds.

In: counts per bin and summed log-odds, as in
:class:`~fedrulefit.core.families.yesno_sums.ScoreSums`. Out: points that stand for the patients,
for what cannot be read off counts alone: slope and intercept of the calibration, and how cases
and others are sorted inside a bin. Nothing leaves a site here.

On either side of probability ½, and for cases and others each, all bins place their patients at
the same share of the way between their edges, such that the log-odds add up to what was summed.
The first and the last bin have no outer edge: they place them at the odds of that share beyond
the inner one. What the summed squares leave over is the variance in these two bins, and
two points of that mean and variance stand for each. Other bins are narrow: one point does.

Oracle: the patients themselves (``tests/properties/test_yesno_calibration.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, logit

from fedrulefit.core.arrays import Floats
from fedrulefit.core.crossing import find_crossing

FARTHEST: Final = 16.0
"""Log-odds farther from 0 count as this far: a probability of 1 in 9 million."""


def to_log_odds(chance: Floats) -> Floats:
    """Return log-odds, at most :data:`FARTHEST` from 0."""
    odds: Floats = np.clip(logit(chance), -FARTHEST, FARTHEST)
    return odds


def is_below(ends: Floats) -> np.ndarray:
    """Return which bins lie below probability ½, shape (n_bins,) bool."""
    below: np.ndarray = ends[1:] <= 0.5
    return below


@dataclass(frozen=True, eq=False)
class Places:
    """Where the patients of each bin stand.

    Parameters
    ----------
    ends : (n_bins + 1,) float64
        Ends of bins as log-odds, at most :data:`FARTHEST` from 0.
    means : (2, n_bins) float64
        Mean log-odds of cases and of others.
    variances : (n_bins,) float64
        Variance of log-odds in a bin, as far as it counts.
    """

    ends: Floats
    means: Floats
    variances: Floats

    def points(self, cases: Floats, others: Floats) -> Floats:
        """Return log-odds, weight of cases and weight of others, shape (3, n_points)."""
        found = np.array(list(self._list_points(np.stack([cases, others]))), dtype=np.float64)
        points: Floats = found.reshape(-1, 3).T
        return points

    def _list_points(self, weights: Floats) -> Iterator[list[float]]:
        for k, b in np.argwhere(weights > 0).tolist():
            low, high = self.ends[b : b + 2].tolist()
            for at, share in _split(float(self.means[k, b]), low, high, float(self.variances[b])):
                held = [0.0, 0.0]
                held[k] = weights[k, b] * share
                yield [at, *held]

    def sorting(self) -> Floats:
        """Return by how much a case of each bin more often than not stands above another patient.

        P(above) − ½, shape (n_bins,): for patients spread evenly over a bin, tilted to one side;
        in the first and the last bin, for distances to its edge that fall off exponentially.
        """
        (of_cases, of_others), widths = self.means, np.diff(self.ends)
        found: Floats = np.clip((of_cases - of_others) / widths, -0.5, 0.5)
        for b, sign, edge in ((0, -1, self.ends[1]), (-1, 1, self.ends[-2])):
            away = sign * (self.means[:, b] - edge)
            if away.sum() > 0:
                found[b] = sign * (away[0] - away[1]) / (2 * away.sum())
        return found


def place_patients(
    ends: Floats, cases: Floats, others: Floats, log_odds: Floats, squares: Floats
) -> Places:
    """Return where patients stand.

    Parameters
    ----------
    ends : (n_bins + 1,) float64
        Ends of bins as probabilities, from 0 to 1.
    cases, others : (n_bins,) float64
    log_odds : (4,) float64
        Summed log-odds of cases below and above ½, and of others.
    squares : (2,) float64
        Summed squares of log-odds below and above ½.
    """
    at, below = to_log_odds(ends), is_below(ends)
    held, sums = np.stack([cases, others]), log_odds.reshape(2, 2)
    means, variances = np.zeros(held.shape), np.zeros(len(cases))
    for side, (half, outer) in enumerate(((below, 0), (~below, -1))):
        if not half.any():
            continue
        for k in range(2):
            means[k, half] = _place(at, half, held[k, half], float(sums[k, side]))
        weights = held[:, half].sum(axis=0)
        shape = np.diff(at)[half] ** 2 / 12  # as if spread evenly, and in the outer bin ...
        inner = at[1] if side == 0 else at[-2]
        shape[outer] = max(abs(_mean(means[:, outer], held[:, outer]) - inner), 0.1) ** 2
        rest = squares[side] - (held * means**2)[:, half].sum()
        variances[half] = shape * max(rest, 0.0) / max(float(weights @ shape), 1e-300)
    return Places(at, means, variances)


def _mean(values: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float(values @ weights) / total if total > 0 else float(values.mean())


def _place(ends: Floats, half: np.ndarray, weights: Floats, total: float) -> Floats:
    """Return the mean log-odds of each bin on one side of ½, such that they add up."""
    low, high = ends[:-1][half], ends[1:][half]

    def place(shift: float) -> Floats:
        at: Floats = low + (high - low) * expit(shift)
        if half[0]:
            at[0] = max(high[0] - np.exp(-shift), low[0])
        if half[-1]:
            at[-1] = min(low[-1] + np.exp(shift), high[-1])
        return at

    return place(find_crossing(lambda shift: float(weights @ place(shift)) - total, -40.0, 40.0))


def _split(mean: float, low: float, high: float, variance: float) -> list[tuple[float, float]]:
    """Return two points of a mean and a variance between two ends, with their shares."""
    down, up = mean - low, high - mean
    variance = min(variance, down * up)
    if variance <= 0:
        return [(mean, 1.0)]
    left = right = float(np.sqrt(variance))
    if left > down:
        left, right = down, variance / down
    elif right > up:
        left, right = variance / up, up
    return [(mean - left, right / (left + right)), (mean + right, left / (left + right))]
