r"""The losses of counts: Poisson's, and the negative binomial one.

In: the linear predictor F, the count u and the exposure e of each patient, as shares of the public
largest ones (:mod:`fedrulefit.core.families.count`). Out: loss, slope, curvature and conjugate of a
patient of weight 1, each of shape (n_rows,). The expected count is :math:`m = e\,\exp(F)`.

Poisson, half the deviance:

.. math:: ℓ = m - u\log(m/e) - \bigl(u - u\log(u/e)\bigr),\quad ℓ' = m - u,\quad ℓ'' = m,\quad
   ℓ^*(θ) = μ\log(μ/e) - μ + u - u\log(u/e),\; μ = u + θ

Negative binomial with variance :math:`μ + αμ^2`; κ is α times the largest count, so that the
variance in shares is :math:`m + κm^2` over that count:

.. math:: ℓ = u\log\frac{u}{m} + \frac{1 + κu}{κ}\log\frac{1 + κm}{1 + κu},\quad
   ℓ' = \frac{m - u}{1 + κm},\quad ℓ'' = \frac{m\,(1 + κu)}{(1 + κm)^2}

.. math:: ℓ^*(θ) = θ\log(μ/e) - ℓ\big|_{m = μ},\quad μ = \frac{u + θ}{1 - κθ}

With κ → 0 it is Poisson's. For any κ its slope lies between −u and Poisson's, and it is at most
1/κ; its loss is at most Poisson's. From :data:`BEND` on both go straight on, along the tangent: so
slopes have a bound that does not depend on coefficients.

Leaves the site: nothing; sums of these do.

Oracles: numerical differentiation and the definition of the conjugate
(``tests/unit/core/test_families.py``), statsmodels and SciPy
(``tests/unit/core/test_negative_binomial.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from scipy.special import digamma, gammaln, polygamma, xlogy

from fedrulefit.core.arrays import Floats

BEND: Final = 3.0
"""From here on losses are straight lines."""

LARGE: Final = 1e3
"""From here on a size θ needs formulas of its own."""


def bent_exp(predictor: Floats) -> Floats:
    """Return ψ(F): exp, and from :data:`BEND` on its tangent."""
    over = np.maximum(predictor - BEND, 0.0)
    bent: Floats = np.exp(np.minimum(predictor, BEND)) * (1 + over)
    return bent


def bent_exp_slope(predictor: Floats) -> Floats:
    """Return ψ'(F)."""
    slope: Floats = np.exp(np.minimum(predictor, BEND))
    return slope


def bent_exp_curvature(predictor: Floats) -> Floats:
    """Return ψ''(F)."""
    curvature: Floats = np.where(predictor < BEND, np.exp(np.minimum(predictor, BEND)), 0.0)
    return curvature


class CountLoss(Protocol):
    """Loss of counts u over exposures e, and what follows from it."""

    def value(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return ℓ."""

    def slope(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return ∂ℓ/∂F."""

    def curvature(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return ∂²ℓ/∂F²."""

    def conjugate(
        self, predictor: Floats, counts: Floats, exposures: Floats, shrink: Floats
    ) -> Floats:
        """Return ℓ* at the slope times `shrink`."""


class PoissonLoss:
    """Half the Poisson deviance."""

    def value(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return eψ(F) − uF − u + u·log(u/e)."""
        loss: Floats = exposures * bent_exp(predictor) - counts * predictor
        loss -= _best(counts, exposures)
        return loss

    def slope(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return eψ'(F) − u."""
        slope: Floats = exposures * bent_exp_slope(predictor) - counts
        return slope

    def curvature(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return eψ''(F)."""
        del counts
        return exposures * bent_exp_curvature(predictor)

    def conjugate(
        self, predictor: Floats, counts: Floats, exposures: Floats, shrink: Floats
    ) -> Floats:
        """Return μ·log(μ/e) − μ + u − u·log(u/e), μ = u + θ."""
        mean = (1 - shrink) * counts + shrink * exposures * bent_exp_slope(predictor)
        conjugate: Floats = xlogy(mean, mean / exposures) - mean + _best(counts, exposures)
        return conjugate


def _best(counts: Floats, exposures: Floats) -> Floats:
    """Return u − u·log(u/e): what a perfect prediction leaves."""
    best: Floats = counts - xlogy(counts, counts / exposures)
    return best


@dataclass(frozen=True)
class NegativeBinomialLoss:
    """Half the deviance of negative binomial counts.

    Parameters
    ----------
    excess : float
        κ, above 0: α times the largest count.
    """

    excess: float

    def value(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return ℓ up to the bend, and its tangent from there on."""
        mean = exposures * bent_exp_slope(predictor)
        over = np.maximum(predictor - BEND, 0.0)
        return half_deviance(counts, mean, self.excess) + over * self._slope_at(mean, counts)

    def slope(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return (m − u)/(1 + κm)."""
        return self._slope_at(exposures * bent_exp_slope(predictor), counts)

    def curvature(self, predictor: Floats, counts: Floats, exposures: Floats) -> Floats:
        """Return m·(1 + κu)/(1 + κm)²."""
        mean = exposures * bent_exp_curvature(predictor)
        curvature: Floats = mean * (1 + self.excess * counts) / (1 + self.excess * mean) ** 2
        return curvature

    def conjugate(
        self, predictor: Floats, counts: Floats, exposures: Floats, shrink: Floats
    ) -> Floats:
        """Return θ·log(μ/e) − ℓ at μ, with θ = a·ℓ' and μ = (u + θ)/(1 − κθ)."""
        mean, k = exposures * bent_exp_slope(predictor), self.excess
        slopes = shrink * self._slope_at(mean, counts)
        # The same as (u + θ)/(1 − κθ), of parts that are never below 0.
        above = k * counts * mean + (1 - shrink) * counts + shrink * mean
        there = above / (1 + k * ((1 - shrink) * mean + shrink * counts))
        line = xlogy(slopes, there) - slopes * np.log(exposures)
        conjugate: Floats = line - half_deviance(counts, there, k)
        return conjugate

    def _slope_at(self, mean: Floats, counts: Floats) -> Floats:
        slope: Floats = (mean - counts) / (1 + self.excess * mean)
        return slope


def half_deviance(counts: Floats, mean: Floats, excess: float) -> Floats:
    """Return u·log(u/m) + (1 + κu)/κ·log{(1 + κm)/(1 + κu)}: 0 at m = u, else above."""
    own = 1 + excess * counts
    beyond = own / excess * np.log1p(excess * (mean - counts) / own)
    half: Floats = xlogy(counts, counts) - xlogy(counts, mean) + beyond
    return half


def dispersion_slopes(counts: Floats, mean: Floats, dispersion: float) -> tuple[Floats, Floats]:
    """Return ∂L/∂log α and −∂²L/∂(log α)² of the log-likelihood L of negative binomial counts.

    Counts and means are numbers of events here, not shares; each of shape (n_rows,), and both
    results at most count + mean, and twice that, in size.
    """
    size = 1 / dispersion  # θ
    held = size / (size + mean)
    risen = _rise(counts, size)
    gain = size * (np.log1p(mean / size) - risen) + held * (counts - mean)
    bent = size**2 * (polygamma(1, counts + size) - polygamma(1, size))
    curvature = bent + size * (1 - held) ** 2 + held**2 * counts
    return gain, gain - curvature


def _rise(counts: Floats, size: float) -> Floats:
    """Return ψ(y + θ) − ψ(θ) of the digamma function, to the last digits."""
    if size < LARGE:
        rise: Floats = digamma(counts + size) - digamma(size)
        return rise
    # Of large numbers the difference would be lost: log(x − ½) + 1/24(x − ½)², right to x⁻⁴.
    low, high = size - 0.5, counts + size - 0.5
    risen: Floats = np.log1p(counts / low) + (1 / high**2 - 1 / low**2) / 24
    return risen


def log_gain(counts: Floats, mean: Floats, dispersion: float) -> Floats:
    """Return by how much the log-likelihood is above Poisson's with the same means, (n_rows,)."""
    size = 1 / dispersion
    gain: Floats = gammaln(counts + size) - gammaln(size) - xlogy(counts, size)
    gain += mean - (counts + size) * np.log1p(mean / size)
    return gain
