"""Effects that multiply: odds, rate and hazard ratios."""

from __future__ import annotations

import math
from typing import Final

LEAST_SPAN: Final = math.log(1.5)
"""A drawing need not stretch ratios that are nearer to 1."""


def ratio_ticks(low: float, high: float) -> list[tuple[float, float]]:
    """Return powers of two, or of four and so on, as (log, ratio): five or six at most."""
    step = max(1, math.ceil((high - low) / math.log(2) / 5))
    first = math.ceil(low / math.log(2) / step) * step
    last = math.floor(high / math.log(2) / step) * step
    return [(k * math.log(2), 2.0**k) for k in range(first, last + 1, step)]
