"""How ratios and risks are told: what families with a multiplied effect share."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats

LEAST_SHARE: Final = 2.0**-24
"""No rate is taken to be less, as a share of the one at F = 0: its sums are not known any finer."""

LEAST_SPAN: Final = math.log(1.5)
"""A drawing need not stretch ratios that are nearer to 1."""

TELL_SHARE_JAVASCRIPT: Final = """(p) => {
    if (p > 0 && p < 0.001) return "below 0.1 %";
    if (p < 1 && p > 0.999) return "above 99.9 %";
    return (100 * p).toFixed(1) + " %";
  }"""
"""A JavaScript function from a probability to its text."""


def log_share(slope: Floats, curvature: Floats) -> Floats:
    """Return the log of 1 − ℓ'/ℓ'': where a loss e·exp(F) − u·F is least, from sums at F = 0.

    Where nobody is at risk nothing happens.
    """
    share = 1 - slope / np.where(curvature > 0, curvature, 1.0)
    best: Floats = np.log(np.where(curvature > 0, np.maximum(share, LEAST_SHARE), LEAST_SHARE))
    return best


def ratio_ticks(low: float, high: float) -> list[tuple[float, float]]:
    """Return powers of two between two logarithms, or of four and so on: five or six at most."""
    step = max(1, math.ceil((high - low) / math.log(2) / 5))
    first = math.ceil(low / math.log(2) / step) * step
    last = math.floor(high / math.log(2) / step) * step
    return [(k * math.log(2), 2.0**k) for k in range(first, last + 1, step)]


def tell_share(share: float) -> str:
    """Return a probability in percent."""
    return f"{100 * share:.1f} %"
