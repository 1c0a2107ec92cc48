"""Where a function crosses zero upwards, by Ridders' method: halving that ends sooner."""

from __future__ import annotations

import math
from collections.abc import Callable

_CLOSE = 1e-13


def find_crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where `function`, below zero at first, comes to zero between `low` and `high`.

    Where it is never below zero, `low`; where it never comes to it, `high`.
    """
    at_low, at_high = function(low), function(high)
    if at_low >= 0:
        return low
    if at_high <= 0:
        return high
    found = high
    for _ in range(100):
        middle = 0.5 * (low + high)
        at_middle = function(middle)
        root = math.sqrt(at_middle**2 - at_low * at_high)
        if root == 0 or high - low <= _CLOSE * (1 + abs(low)):
            return middle
        before, found = found, middle - (middle - low) * at_middle / root
        at_found = function(found)
        ends = [(low, at_low), (middle, at_middle), (found, at_found), (high, at_high)]
        low, at_low = max((end for end in ends if end[1] < 0), default=ends[0])
        high, at_high = min((end for end in ends if end[1] >= 0), default=ends[3])
        if at_high == 0 or abs(found - before) <= _CLOSE * (1 + abs(found)):
            break
    return high if at_high == 0 else found
