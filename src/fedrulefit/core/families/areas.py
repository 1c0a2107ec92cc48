r"""Intervals of areas under the ROC curve, and of other shares of pairs that are told apart.

In: an area :math:`A`, and what is known of its variance. Out: the ends of its 95 % interval.
They are score intervals after Newcombe (2006, Statistics in Medicine 25: 559–573, method 5): an
area's own standard error counts, not that of the observed one, which would be 0 for an observed
area of 1, and far off with few cases. For scores of m cases and n others that are alike in spread
but for their place,

.. math:: V(A) = \frac{A(1 - A)}{mn} \left(1 + N g(A)\right),
    \quad N = \frac{m + n}{2} - 1, \quad g(A) = \frac{1 - A}{2 - A} + \frac{A}{1 + A}
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import logit

from fedrulefit.core.crossing import find_crossing
from fedrulefit.core.shares import Z95

TRUST: Final = 20
"""How many cases an observed variance needs to count as much as Newcombe's."""


def find_ends(auc: float, variance: float, n1: float, n0: float) -> tuple[float, float]:
    """Return all areas from which `auc` is at most 1.96 standard errors away.

    The square of an area's standard error is V(A), times how `variance` compares with it at
    `auc`: as far as that can be told from `n1` and `n0` patients. So ties, bins and other
    spreads count once there are many.
    """

    def own(area: float) -> float:
        both = (1 - area) / (2 - area) + area / (1 + area)
        return area * (1 - area) / (n1 * n0) * (1 + ((n1 + n0) / 2 - 1) * both)

    ratio = variance / own(auc) if 0 < auc < 1 else 1.0
    few = min(n1, n0)
    scale = (TRUST * 1.0 + few * ratio) / (TRUST + few)

    def reach(area: float) -> float:
        return Z95 * math.sqrt(scale * own(area))

    hair = 1e-9  # at 0 and 1 no area has an error
    return (
        find_crossing(lambda area: reach(area) - (auc - area), 0.0, auc * (1 - hair)),
        find_crossing(lambda area: (area - auc) - reach(area), auc + (1 - auc) * hair, 1.0),
    )


def score_interval(auc: float, doubt: float) -> tuple[float, float]:
    """Return the areas A from which `auc` is no further than 1.96·√{A(1 − A)·g(A)·doubt}."""

    def fits(area: float) -> bool:
        g = (1 - area) / (2 - area) + area / (1 + area)
        return (auc - area) ** 2 <= Z95**2 * area * (1 - area) * g * doubt

    def find(inside: float, outside: float) -> float:
        for _ in range(50):
            middle = 0.5 * (inside + outside)
            inside, outside = (middle, outside) if fits(middle) else (inside, middle)
        return inside

    return find(auc, 0.0), find(auc, 1.0)


def logit_effect(low: float, centre: float, high: float) -> tuple[float, float] | None:
    """Return the logit of an area, and its standard error; None if unknown.

    Where the interval ends at 1, its lower half tells the error.
    """
    if not 0 < low < centre < 1:
        return None
    near, far = logit(np.array([centre, low]))
    if not high < 1:
        return float(near), float((near - far) / Z95)
    return float(near), float((logit(high) - far) / (2 * Z95))
