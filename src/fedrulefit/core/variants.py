r"""Rules a step away from others, for the selection that moves cut-offs after the fact.

Not in the paper. In: rules of the fit, on the shared grid. Out: their *variants*: one limit of one
condition moved by one or two cut-offs, or taken away, or a condition left out. They follow from
the rule and the grid alone, so everybody makes the same, and no list of them is ever sent.

A variant and its rule differ in a thin slice of patients, and who knows a sum over both knows
that of the slice. So the slice is put to the vote like a rule: of a *ladder* of variants that lead
away from a rule in one direction, one stays if it holds enough patients, and so does what
lies between it and the last that stayed (:func:`elect_variants`).

Oracle: brute force over all rows of codes (``tests/unit/core/test_variants.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule, as_interval, conjoin, interval, twins

REACH: Final = 2
"""Cut-offs by which a limit moves at most."""

Ladder = tuple[Rule, ...]
"""Variants that lead away from a rule in one direction, the nearest first."""


def find_ladders(rule: Rule, grid: Grid) -> Iterator[Ladder]:
    """Yield the variants of a rule, direction by direction; each is a rule, and another one."""
    for place, condition in enumerate(rule.conditions):
        others = rule.conditions[:place] + rule.conditions[place + 1 :]
        for codes in (*_move_limits(condition, grid), (grid.axes[condition.feature].every_code,)):
            moved = (conjoin((*others, Condition(condition.feature, one)), grid) for one in codes)
            ladder = tuple(one for one in moved if one is not None and len(one))
            if ladder:
                yield ladder


def _move_limits(condition: Condition, grid: Grid) -> Iterator[tuple[int, ...]]:
    """Yield codes of a condition whose limits are moved, or one of two taken away."""
    axis = grid.axes[condition.feature]
    known = as_interval(condition.codes)
    if not axis.ordered or known is None or known[0] == known[1]:
        return
    lo, hi = known
    last = axis.n_codes
    steps = range(1, REACH + 1)
    directions: list[list[tuple[int, int]]] = []
    if lo > 0:
        directions += [[(lo - k, hi) for k in steps if lo - k > 0]]
        directions += [[(lo + k, hi) for k in steps if lo + k < hi]]
    if hi < last:
        directions += [[(lo, hi - k) for k in steps if lo < hi - k]]
        directions += [[(lo, hi + k) for k in steps if hi + k < last]]
    if lo > 0 and hi < last:
        directions += [[(0, hi)], [(lo, last)]]
    for limits in directions:
        yield tuple(interval(*pair, missing=condition.missing) for pair in limits)


def find_between(rule: Rule, other: Rule, grid: Grid) -> tuple[Rule, ...]:
    """Return what lies between two rules of which one implies the other, as rules.

    They differ in one covariate; what lies between them may be several parts.
    """
    own, others = dict(rule), dict(other)
    (feature,) = (
        f for f in own.keys() | others.keys() if _codes(own, f, grid) != _codes(others, f, grid)
    )
    shared = [Condition(f, codes) for f, codes in own.items() if f != feature]
    between = _codes(own, feature, grid) ^ _codes(others, feature, grid)
    parts = _runs(between) if grid.axes[feature].ordered else (between,)
    found = (conjoin((*shared, Condition(feature, part)), grid) for part in parts)
    return tuple(part for part in found if part is not None)


def _codes(conditions: dict[int, int], feature: int, grid: Grid) -> int:
    return conditions.get(feature, grid.axes[feature].every_code)


def _runs(codes: int) -> Iterator[int]:
    """Yield the codes as intervals, a missing value with the first."""
    missing = codes & 1 << MISSING
    left = codes & ~(1 << MISSING)
    while left:
        lo = (left & -left).bit_length() - 1
        ends = ~(left >> lo)
        run = interval(lo, lo + (ends & -ends).bit_length() - 1)
        yield run | missing
        left, missing = left & ~run, 0
    if missing:
        yield missing


def list_asked(rules: Iterable[Rule], grid: Grid) -> tuple[Rule, ...]:
    """Return all that is put to the vote about variants of some rules, in canonical order."""
    asked: set[Rule] = set()
    for rule in rules:
        for ladder in find_ladders(rule, grid):
            asked.update(ladder)
            for one, other in combinations((rule, *ladder), 2):
                asked.update(find_between(one, other, grid))
    return tuple(sorted(asked, key=lambda one: (len(one), one)))


def elect_variants(
    rules: Iterable[Rule], grid: Grid, passes: Callable[[Rule], bool]
) -> tuple[Rule, ...]:
    """Return the variants that are far enough from their rule, and from each other.

    A variant of several rules is far enough from each of them.

    Parameters
    ----------
    passes : callable
        Whether a rule, or what lies between two, holds enough patients.

    Returns
    -------
    variants : tuple of Rule
        In canonical order.
    """
    elected: set[Rule] = set()
    near: set[Rule] = set()
    for rule in rules:
        for ladder in find_ladders(rule, grid):
            last = rule
            for variant in filter(passes, ladder):
                if any(map(passes, find_between(last, variant, grid))):
                    elected.add(variant)
                    last = variant
                else:
                    near.add(variant)
    return tuple(sorted(elected - near, key=lambda one: (len(one), one)))


def add_variants(rules: Sequence[Rule], variants: Iterable[Rule], grid: Grid) -> tuple[Rule, ...]:
    """Return `rules` and behind them those variants that are not, nor tell the same as one."""
    known = set(rules)
    new = []
    for variant in variants:
        if variant not in known and twins(variant, grid).isdisjoint(known):
            known.add(variant)
            new.append(variant)
    return (*rules, *new)


def find_places(rule: Rule, places: dict[Rule, int], grid: Grid) -> list[int]:
    """Return where the variants of a rule stand, increasing, as far as they do."""
    found = {places[one] for ladder in find_ladders(rule, grid) for one in ladder if one in places}
    return sorted(found - {places.get(rule, -1)})


def index_rules(rules: Collection[Rule], grid: Grid) -> dict[Rule, int]:
    """Return the place of every rule, and of the :func:`twins` that tell the same."""
    places: dict[Rule, int] = {}
    for place, rule in enumerate(rules):
        for twin in twins(rule, grid):
            places.setdefault(twin, place)
    places.update({rule: place for place, rule in enumerate(rules)})
    return places
