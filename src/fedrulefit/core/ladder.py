r"""Round numbers: where bins may end, and which of them become cut-offs.

Not in the paper, whose cut-offs are quantiles: of noisy counts, they are another number in every
run. Here the numbers that can be cut-offs are public, and the roundest come first, so that noise
can add or drop little but the least round ones.

In: a public range, or values that lie in one place; which share of the patients lies below each
candidate. Out: the edges of bins, the cut-offs, the limits of a linear term.

The *ladder* has the rungs :math:`\dots, 0.5, 1, 2, 5, 10, 20, 50, 100, \dots`; 1 is rung 0, 2 is
rung 1, 10 is rung 3, 0.5 is rung −1. The *roundness* of a number is the highest rung that it is a
multiple of: 4 that of 40, 2 that of 35, 0 that of 37; 0 is the roundest number of all. With the
study's ``step``, only multiples of it are candidates.

Oracles: naive loops over fractions (``tests/unit/core/test_ladder.py``).
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_left
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints

DIGITS: Final = (1, 2, 5)
"""The rungs of a decade."""

ROUNDEST: Final = 10_000
"""The roundness of 0, which is a multiple of every rung."""

_FINEST: Final = 17
"""Digits of a number, from which on none differs from its neighbour."""

_SAME: Final = 1e-12
"""Shares of patients that differ by no more are the same: sums have dust."""


# --- where bins end -------------------------------------------------------------------------


def round_edges(low: float, high: float, n_bins: int, *, step: float | None) -> Floats:
    """Return the edges of at most `n_bins` bins: the ends, and all numbers of some roundness.

    Parameters
    ----------
    low, high : float
        The public range.
    step : float or None
        Values are multiples of it, if given; the highest then has a bin of its own.
    """
    top = _top(low, high, step)
    room = n_bins - 1 - len(top)
    best: list[float] = []
    for rung in count(_highest(max(abs(low), abs(high))), -1):
        width = _width(rung, step)
        if (Fraction(high) - Fraction(low)) / width > 2 * n_bins + 2:
            break
        # A multiple of a rung above is one of this or the next.
        inside = {*_multiples(width, low, high), *_multiples(_width(rung + 1, step), low, high)}
        if len(inside) > room:
            best = best or _spread(sorted(inside), room)
            break
        best = sorted(inside)
        if _is_finest(rung, width, step, max(abs(low), abs(high))):
            break
    return np.array([low, *best, *top, high])


def log_round_edges(low: float, high: float, n_bins: int, *, step: float | None) -> Floats:
    """Return the same for a range that starts above 0, its bins about as wide as values are large.

    Edges are the multiples of a rung up to k times the rung, of every rung: with k = 10, from
    100 to 200 each 10, to 500 each 20 or 50, and to 1000 each 100.
    """
    top = _top(low, high, step)
    room = n_bins - 1 - len(top)

    def lay(k: int) -> list[float]:
        rungs = range(_highest(low / k) - 4, _highest(high) + 1)
        found: set[float] = set()
        for rung in rungs:
            reach = float(k * _rung(rung))
            end = min(high, math.nextafter(reach, math.inf))
            found.update(_multiples(_width(rung, step), low, end))
        return sorted(found)

    finest, most = math.ceil(high / (high - low)) * 20 * n_bins, 1
    while most < finest and len(lay(most)) <= room:
        most *= 2
    k = bisect(range(1, most + 1), room, key=lambda k: len(lay(k)))
    inside = lay(k) if k else _spread(lay(1), room)
    return np.array([low, *inside, *top, high])


def _rung(rung: int) -> Fraction:
    return DIGITS[rung % 3] * Fraction(10) ** (rung // 3)


def _width(rung: int, step: float | None) -> Fraction:
    """Return of what the multiples of the step that are multiples of a rung are multiples."""
    width = _rung(rung)
    if step is None:
        return width
    own = Fraction(repr(step))
    a, b = width.numerator * own.denominator, own.numerator * width.denominator
    return Fraction(math.lcm(a, b), width.denominator * own.denominator)


def _highest(largest: float) -> int:
    """Return a rung that is above a number."""
    return 3 * (math.floor(math.log10(largest)) + 1) if largest > 0 else 0


def _is_finest(rung: int, width: Fraction, step: float | None, largest: float) -> bool:
    """Whether there is nothing finer: every multiple of the step, or no digit left."""
    return (step is not None and width == Fraction(repr(step))) or (
        rung < _highest(largest) - 3 * _FINEST
    )


def _multiples(width: Fraction, low: float, high: float) -> Iterator[float]:
    """Yield the multiples of a width strictly between two numbers."""
    first = math.floor(Fraction(low) / width)
    last = math.ceil(Fraction(high) / width)
    for k in range(first, last + 1):
        multiple = k * width.numerator / width.denominator
        if low < multiple < high:
            yield multiple


def _top(low: float, high: float, step: float | None) -> list[float]:
    """Return the edge that parts the highest value from the next, where values have steps."""
    if step is None or (Fraction(repr(high)) / Fraction(repr(step))).denominator > 1:
        return []
    edge = high - 0.5 * step
    return [edge] if low < edge < high else []


def _spread(numbers: list[float], most: int) -> list[float]:
    """Return so many of the numbers, spread evenly over them."""
    if len(numbers) <= most:
        return numbers
    places = np.linspace(0, len(numbers) - 1, most + 2)[1:-1]
    return [numbers[place] for place in np.rint(places).astype(int)]


# --- how round a number is ------------------------------------------------------------------


def find_roundness(numbers: Floats) -> Ints:
    """Return the highest rung that each number is a multiple of."""
    return np.array([_roundness(number) for number in numbers.tolist()], dtype=np.int64)


def _roundness(number: float) -> int:
    if number == 0:
        return ROUNDEST
    parts = Decimal(repr(number)).normalize().as_tuple()
    last = parts.digits[-1]
    digit = 2 if last == 5 else 1 if last % 2 == 0 else 0
    return 3 * int(parts.exponent) + digit


def roundest_between(low: Floats, high: Floats, step: float | None) -> tuple[Floats, Ints]:
    """Return the roundest number above `low` and at most `high`, of each pair.

    Of several the smallest. With a step, multiples of it; pairs without one are left out.

    Returns
    -------
    numbers : (n_found,) float64
    roundness : (n_found,) int64
    """
    numbers, ranks = high.copy(), np.full(len(high), -ROUNDEST)
    zero = (low < 0) & (high >= 0)
    numbers[zero], ranks[zero] = 0.0, ROUNDEST
    left = np.flatnonzero(~zero)
    largest = max(np.abs(low).max(initial=0), np.abs(high).max(initial=0))
    for rung in count(_highest(largest), -1):
        if not len(left):
            break
        width = _width(rung, step)
        over, under = float(width.numerator), float(width.denominator)
        before = np.floor(low[left] * under / over)
        # By rounding, the multiple that is meant may be this one or the next.
        nearest = [(before + k) * over / under for k in range(3)]
        first = np.select([nearest[0] > low[left], nearest[1] > low[left]], nearest[:2], nearest[2])
        hit = first <= high[left]
        numbers[left[hit]], ranks[left[hit]] = first[hit], rung
        left = left[~hit]
        if _is_finest(rung, width, step, largest):
            break
    found = np.full(len(high), step is None)
    found |= ranks > -ROUNDEST
    return numbers[found], ranks[found]


# --- which of them are taken ----------------------------------------------------------------


def choose_round(ranks: Ints, below: Floats, least: float) -> Bools:
    """Choose the roundest candidates with enough patients between neighbours.

    From the roundest on, and of equally round ones from the smallest on, each is taken if at
    least a share `least` of the patients lies between it and either neighbour that was taken
    before, or beyond it where there is none. So at most 1/`least` − 1 are taken.

    Parameters
    ----------
    ranks : (n_candidates,) int64
        Roundness of the candidates, which increase.
    below : (n_candidates,) float64
        The share of patients below each.
    least : float

    Returns
    -------
    (n_candidates,) bool
    """
    enough = least - _SAME
    taken, chosen = [0.0, 1.0], np.zeros(len(below), dtype=np.bool_)
    for rank in np.unique(ranks)[::-1]:
        own = np.flatnonzero(ranks == rank)
        known = np.array(taken)
        sides = np.clip(np.searchsorted(known, below[own]), 1, len(known) - 1)
        fits = (below[own] - known[sides - 1] >= enough) & (known[sides] - below[own] >= enough)
        # Few of many fit beside those of higher rungs; only these are looked at one by one.
        for place in own[fits].tolist():
            share = float(below[place])
            side = bisect_left(taken, share)
            if share - taken[side - 1] >= enough and taken[side] - share >= enough:
                taken.insert(side, share)
                chosen[place] = True
    return chosen


def choose_limits(
    candidates: Floats, ranks: Ints, below: Floats, above: Floats, most: float
) -> tuple[float, float]:
    """Choose the roundest limits with half to all of a share of the patients beyond each.

    Where no candidate has that many, the innermost with no more.

    Parameters
    ----------
    candidates : (n_candidates,) float64
        Increasing; nobody is below the first, nor above the last.
    ranks : (n_candidates,) int64
    below, above : (n_candidates,) float64
        The share of patients on either side of each.
    most : float
        Most of the patients beyond a limit; below ½.
    """
    low = _limit(ranks, below, most)
    high = len(ranks) - 1 - _limit(ranks[::-1], above[::-1], most)
    return float(candidates[low]), float(candidates[high])


def _limit(ranks: Ints, beyond: Floats, most: float) -> int:
    """Return the place of the limit, counted from the end that it is on."""
    allowed = np.flatnonzero(beyond <= most + _SAME)
    near = allowed[beyond[allowed] >= most / 2 - _SAME]
    if not len(near):
        return int(allowed[-1])
    return int(near[ranks[near] == ranks[near].max()][-1])
