r"""How far the effect of a rule differs between hospitals, and what another hospital may see.

In: what each hospital adds to :class:`~fedrulefit.core.families.evidence.EvidenceSums`. Out: the
spread of its effect over hospitals, with where a further hospital's own effect may lie. Leaves
the site: the :class:`ElsewhereSums`, in runs of :data:`FEWEST` hospitals or more.

A hospital's own effect :math:`θ_m` and its standard error :math:`s_m` follow from the coarse
numbers that it tells anyway, as if it stood alone: so nothing is added here that those would not
tell, even if somebody took all hospitals' sums apart. With :math:`w_m = s_m^{-2}` and k
hospitals (DerSimonian and Laird 1986, Controlled Clinical Trials 7: 177–188),

.. math:: Q = \sum w θ^2 - \frac{(\sum w θ)^2}{\sum w}, \qquad
    τ^2 = \max\Bigl(0,\; \frac{Q - (k - 1)}{\sum w - \sum w^2 / \sum w}\Bigr)

Given τ, Q has the mean :math:`k - 1 + cτ^2` and the variance
:math:`2(k - 1) + 4cτ^2 + 2dτ^4`, with :math:`c = \sum w - \sum w^2/\sum w` and, as if the weights
differed little, :math:`d = \sum w^2 - (\sum w^2/\sum w)^2`. The gamma distribution with these two
(Biggerstaff and Jackson 2008, Statist. Med. 27: 6093–6110) gives a confidence distribution of τ²,
:math:`P(T \le τ^2) = P(Q_{τ} \ge Q)`. A further hospital's own effect lies, 19 times of 20,
between quantiles of

.. math:: \bar θ + Z \sqrt{T + \frac{1}{\sum w} + T \frac{\sum w^2}{(\sum w)^2}}, \qquad
    \bar θ = \frac{\sum w θ}{\sum w}

with T drawn from it and Z standard normal; both are integrated, as in
:mod:`fedrulefit.core.heterogeneity`. The usual range, :math:`\bar θ \pm t_{k-1}(…)` at DerSimonian
and Laird's τ, held for .88 of hospitals only, of ten that differ.

============================================  =============================  ==========
mathematics                                   here                           shape
============================================  =============================  ==========
:math:`1, w, wθ, wθ^2, w^2`                   :func:`add_own_effects`        (n_rules,)
:math:`τ` and the interval                    :func:`find_elsewhere`         list
============================================  =============================  ==========

Oracle: the same from single hospitals, statsmodels' ``combine_effects``, and simulated coverage
(``tests/unit/core/test_elsewhere.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincc, ndtr

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.evidence import Evidence, EvidenceSums
from fedrulefit.core.heterogeneity import list_ranks
from fedrulefit.core.rounding import EXACT, Rounding, round_digits
from fedrulefit.core.sums import Packing, Sum, quantity

FEWEST: Final = 5
"""Of fewer hospitals with enough patients no spread is told."""

MOST_WEIGHT: Final = 2.0**14
"""No hospital's effect counts more, however small its error."""

MOST_EFFECT: Final = 8.0
"""No effect is larger, as a logarithm, and none smaller than its negative."""

_BITS: Final = 20
_DIGITS: Final = 2
_DOUBLINGS: Final = 40
_HALVINGS: Final = 60
_FAR: Final = 10


@dataclass(frozen=True, eq=False)
class ElsewhereSums(Sum):
    """Sums over the hospitals that have an effect of a rule to tell.

    Parameters
    ----------
    sites : (n_told,) float64
        How many they are, by rule; empty where the run has too few, or the outcome's family tells
        no effect.
    weights, effects, squares, squared_weights : (n_told,) float64
        Σw, Σwθ, Σwθ² and Σw².
    """

    sites: Floats = quantity(
        "1 where the site's numbers of this rule (above) give an effect θ of its own, else 0",
        shape="n_told",
        most="1 per site",
    )
    weights: Floats = quantity(
        "w = 1/s², its error s from the same numbers",
        shape="n_told",
        bits=_BITS,
        most="2¹⁴ per site",
    )
    effects: Floats = quantity("w·θ", shape="n_told", bits=_BITS, most="2¹⁷ per site")
    squares: Floats = quantity("w·θ²", shape="n_told", bits=_BITS, most="2²⁰ per site")
    squared_weights: Floats = quantity("w²", shape="n_told", bits=_BITS, most="2²⁸ per site")

    @classmethod
    def packing(
        cls, n_rules: int, evidence: Evidence | None, n_sites: int
    ) -> Packing[ElsewhereSums]:
        """Return how the numbers lie in a run of so many sites."""
        told = evidence is not None and n_sites >= FEWEST
        return Packing(cls, {"n_told": n_rules if told else 0})


NOWHERE: Final = ElsewhereSums(*[np.empty(0)] * 5)
"""What a site adds in a run of too few sites, or where the family tells no effect."""


@dataclass(frozen=True)
class Elsewhere:
    """How far hospitals differ in what a rule does.

    Parameters
    ----------
    sites : int
        Hospitals with an effect of their own.
    spread : float
        τ, the standard deviation of hospitals' effects beyond chance, on the scale of F.
    low, high : float
        Between what a further hospital's effect may lie, on that scale.
    """

    sites: int
    spread: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if self.sites < FEWEST or not (0 <= self.spread < math.inf and self.low < self.high):
            raise ValueError(f"a spread is of {FEWEST} hospitals or more, and has an interval")

    def rounded(self, rounding: Rounding) -> Elsewhere:
        """Return what may be published: two digits."""
        if rounding == EXACT:
            return self
        spread, low, high = (
            round_digits(number, _DIGITS) for number in (self.spread, self.low, self.high)
        )
        return replace(self, spread=spread, low=low, high=high)


def add_own_effects(evidence: Evidence, told: EvidenceSums) -> ElsewhereSums:
    """Return what one hospital adds, from what it adds to the sums of effects."""
    mixed = told.mixed if evidence.mixes else np.zeros_like(told.sites)
    rows = (told.sites, told.above, told.below, told.first, mixed, told.second)
    own = [_own_effect(evidence, row) for row in np.array(rows).T.tolist()]
    known, effects, weights = np.array(own).reshape(-1, 3).T
    return ElsewhereSums(
        known, weights, weights * effects, weights * effects**2, known * weights**2
    )


def _own_effect(evidence: Evidence, row: list[float]) -> tuple[float, float, float]:
    """Return whether there is an effect, the effect, and its weight."""
    found = evidence.measure(*row[1:]) if row[0] > 0 else None
    if found is None:
        return 0.0, 0.0, 0.0
    effect, error = found
    bounded = min(max(effect, -MOST_EFFECT), MOST_EFFECT)
    return 1.0, bounded, min(error**-2, MOST_WEIGHT)


def find_elsewhere(sums: ElsewhereSums) -> list[Elsewhere | None]:
    """Return the spread of each rule's effect; None of those that too few hospitals tell."""
    rows = (sums.sites, sums.weights, sums.effects, sums.squares, sums.squared_weights)
    return [_measure(*row) for row in np.array(rows).T.tolist()]


def _measure(
    sites: float, weight: float, effect: float, square: float, squared_weight: float
) -> Elsewhere | None:
    k = round(sites)
    if k < FEWEST or weight <= 0:
        return None
    mean, common = effect / weight, squared_weight / weight
    seen, slope = max(square - effect * mean, 0.0), weight - common
    variance = max(0.0, (seen - (k - 1)) / slope)
    ranks, shares = list_ranks()
    variances = _find_variances(k, seen, slope, max(squared_weight - common**2, 0.0), ranks)
    spreads = np.sqrt(variances + 1 / weight + variances * common / weight)

    def miss(reach: float) -> float:
        return float(shares @ ndtr(reach / spreads)) - 0.975

    reach = float(brentq(miss, 0.0, _FAR * float(spreads.max()), xtol=1e-9))
    return Elsewhere(k, math.sqrt(variance), mean - reach, mean + reach)


def _find_variances(k: int, seen: float, slope: float, curve: float, ranks: Floats) -> Floats:
    """Return the τ² at these places of its confidence distribution, by doubling and halving."""

    def below(variances: Floats) -> Floats:
        """P(T ≤ τ²): Q is as large as seen, or larger."""
        mean = k - 1 + slope * variances
        spread = 2 * (k - 1) + 4 * slope * variances + 2 * curve * variances**2
        share: Floats = gammaincc(mean**2 / spread, seen * mean / spread)
        return share

    low, high = np.zeros_like(ranks), np.ones_like(ranks)
    for _ in range(_DOUBLINGS):
        high = np.where(below(high) < ranks, 2 * high, high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        short = below(middle) < ranks
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.where(below(np.zeros_like(ranks)) < ranks, high, 0.0)
