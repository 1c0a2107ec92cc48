r"""What several hospitals tell of a hospital like them: random effects.

In: one estimate per hospital, :math:`y_i` with standard error :math:`s_i`. Out: their mean,
how much they differ beyond chance, and between what a further hospital's own value may lie.
Nothing leaves a site here.

The model is :math:`y_i \sim N(θ_i, s_i^2)`, :math:`θ_i \sim N(μ, τ^2)`, with
:math:`w_i(τ^2) = 1/(s_i^2 + τ^2)` and

.. math:: Q(τ^2) = \sum_i w_i (y_i - \hat μ(τ^2))^2 \sim χ^2_{k-1}

at the true τ, whatever the hospitals' sizes. That pivot gives τ (Paule and Mandel:
:math:`Q(\hat τ^2) = k - 1`, or 0) and a confidence distribution of τ²,
:math:`P(T ≤ τ^2) = P(χ^2_{k-1} ≥ Q(τ^2))`. With T drawn from it, se(T) Hartung and Knapp's
standard error of the mean, t with k − 1 degrees of freedom and Z standard normal, the 95 %
intervals lie between quantiles of

=================  =============================================
the mean           :math:`\hat μ(T) + \mathrm{se}(T)\,t`
a new hospital     :math:`\hat μ(T) + \mathrm{se}(T)\,t + \sqrt{T} Z`
=================  =============================================

The latter is Nagashima, Noma and Furukawa's interval (2019) with Q in the place of DerSimonian
and Laird's statistic: its distribution is known without simulation. Both are integrated, not
drawn, so that equal estimates give equal intervals. The usual intervals (Hartung and Knapp,
Higgins, both with k − 1 degrees of freedom) take τ as known at its estimate, and cover too little
with three or four hospitals of different sizes: .92 and .86 instead of .95.

Three estimates can agree by chance so well that Hartung and Knapp's error is next to nothing.
A Q below the 2 % quantile of its distribution therefore counts as that quantile in se(T).

Oracles: ``statsmodels``, closed forms for equal errors, a naive restricted maximum likelihood,
draws instead of integrals, and simulated coverage (``tests/unit/core/test_heterogeneity.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, stdtr

from fedrulefit.core.arrays import Floats

FEWEST: Final = 3
"""Fewest hospitals that tell something of a further one."""

_NODES: Final = 61
"""Places at which distributions are integrated."""

_HALVINGS: Final = 40
_TOO_ALIKE: Final = 0.02
"""Estimates that agree better than this share of all would, by chance, agree by chance."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Across:
    """One measure across hospitals; NaN where they are too few (:data:`FEWEST`).

    Parameters
    ----------
    hospitals : int
        Whose estimates it rests on.
    mean, low, high : float
        The mean over hospitals like these, and its 95 % interval.
    tau : float
        Standard deviation of the hospitals' own values, beyond chance; known from two on.
    new_low, new_high : float
        The 95 % prediction interval: where a further hospital's own value may lie.
    """

    hospitals: int
    mean: float
    low: float
    high: float
    tau: float
    new_low: float
    new_high: float


def combine(estimates: Floats, errors: Floats) -> Across:
    """Combine hospitals' estimates.

    Parameters
    ----------
    estimates : (n_sites,) float64
    errors : (n_sites,) float64
        Their standard errors, above 0.
    """
    k, nan = len(estimates), float("nan")
    if k < 2:
        return Across(k, nan, nan, nan, nan, nan, nan)
    (spread,) = _find_spreads(estimates, errors, np.array([k - 1.0])).tolist()
    if k < FEWEST:
        return Across(k, nan, nan, nan, spread**0.5, nan, nan)
    (mean,), _ = _centre(estimates, errors, np.array([spread]))
    interval, new = _find_intervals(estimates, errors)
    # Where τ is 0 both are the same, but for the last digit.
    further = min(new[0], interval[0]), max(new[1], interval[1])
    return Across(k, float(mean), *interval, spread**0.5, *further)


def _weigh(estimates: Floats, errors: Floats, spreads: Floats) -> tuple[Floats, Floats, Floats]:
    """Return, for each τ², the weights' sum, the mean and Q; all of the shape of `spreads`."""
    weights = 1 / (errors**2 + spreads[:, None])
    total = weights.sum(axis=1)
    mean = weights @ estimates / total
    return total, mean, (weights * (estimates - mean[:, None]) ** 2).sum(axis=1)


def _centre(estimates: Floats, errors: Floats, spreads: Floats) -> tuple[Floats, Floats]:
    """Return, for each τ², the mean and Hartung and Knapp's standard error of it."""
    freedom = len(estimates) - 1
    total, mean, excess = _weigh(estimates, errors, spreads)
    (seen,) = _weigh(estimates, errors, np.zeros(1))[2].tolist()
    least = float(chdtri(freedom, 1 - _TOO_ALIKE))
    if seen < least:
        excess = least * (excess / seen if seen > 0 else np.ones_like(excess))
    return mean, np.sqrt(excess / freedom / total)


def _find_spreads(estimates: Floats, errors: Floats, targets: Floats) -> Floats:
    """Return the τ² at which Q falls to each target, by halving; 0 where it begins below."""
    squares = ((estimates - estimates.mean()) ** 2).sum()
    low, high = np.zeros_like(targets), squares / targets  # Q(τ²) ≤ squares/τ²
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = _weigh(estimates, errors, middle)[2] > targets
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(_weigh(estimates, errors, 0 * targets)[2] > targets, high, 0.0)


@cache
def list_ranks() -> tuple[Floats, Floats]:
    """Return places between 0 and 1, denser at 1 where τ² is large, and their weights."""
    middles = (np.arange(_NODES) + 0.5) / _NODES
    return 1 - (1 - middles) ** 2, 2 * (1 - middles) / _NODES


@cache
def _normal() -> tuple[Floats, Floats]:
    """Return standard normal places at equal distances, and their weights."""
    places = np.linspace(-4.5, 4.5, _NODES)
    weights = np.exp(-0.5 * places**2)
    return places, weights / weights.sum()


def _find_intervals(estimates: Floats, errors: Floats) -> tuple[Interval, Interval]:
    """Return the 95 % interval of the mean, and that of a new hospital."""
    freedom = len(estimates) - 1
    (ranks, shares), (places, weights) = list_ranks(), _normal()
    spreads = _find_spreads(estimates, errors, chdtri(freedom, 1 - ranks))
    means, widths = (part[:, None] for part in _centre(estimates, errors, spreads))
    centres, one = means + np.sqrt(spreads)[:, None] * places, np.ones(1)
    scales = np.maximum(widths, 1e-12)
    return (
        _between_quantiles(means, scales, freedom, shares, one),
        _between_quantiles(centres, scales, freedom, shares, weights),
    )


def _between_quantiles(
    centres: Floats, scales: Floats, freedom: int, shares: Floats, weights: Floats
) -> Interval:
    """Return the 2.5 and 97.5 % quantiles of a mixture of shifted and scaled t.

    Parameters
    ----------
    centres : (_NODES, n_weights) float64
    scales : (_NODES, 1) float64
    shares, weights : (_NODES,) and (n_weights,) float64
        Of the mixture: their products.
    """
    far = 40 * float(scales.max())  # t with 2 degrees of freedom, beyond its 0.05 %
    ends = float(centres.min()) - far, float(centres.max()) + far

    def miss(value: float, share: float) -> float:
        return float(shares @ stdtr(freedom, (value - centres) / scales) @ weights) - share

    low, high = (float(brentq(miss, *ends, args=(share,), xtol=1e-9)) for share in (0.025, 0.975))
    return low, high
