"""The study's own rules, before they are candidates: the gate that they have to pass.

In: the rules that the study names in words, on the shared grid. Out: those with enough patients.
Without votes every site puts them through its own gate, with the rules that it has grown, and sends
those that pass. With votes no site tells by itself: they are voted on like all others, and so is
what lies between two of them, since who knows a sum over both knows that of the slice.

Oracle: an isolated patient, sought with one rule and with the difference of two
(``tests/attacks/test_wishes.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Rule, complement, conjoin
from fedrulefit.core.variants import find_between
from fedrulefit.privacy.gate import implies
from fedrulefit.protocol.public import Public


def name_own(public: Public) -> tuple[Rule, ...]:
    """Return the rules that the study names, on the shared grid."""
    return () if public.limits is None else public.limits.own


def list_own_asked(own: Sequence[Rule], grid: Grid) -> tuple[Rule, ...]:
    """Return all that is put to the vote about own rules: they, and the slices between them."""
    asked = dict.fromkeys(own)
    for one, other in combinations(own, 2):
        asked.update(dict.fromkeys(part for slices in _slices(one, other, grid) for part in slices))
    return tuple(asked)


def elect_own(own: Sequence[Rule], grid: Grid, passes: Callable[[Rule], bool]) -> tuple[Rule, ...]:
    """Return the own rules with enough patients, and enough between each and those before it.

    Parameters
    ----------
    passes : callable
        Whether a rule, or a slice, has the votes.
    """
    elected: list[Rule] = []
    for rule in filter(passes, own):
        if all(
            any(map(passes, parts)) for known in elected for parts in _slices(known, rule, grid)
        ):
            elected.append(rule)
    return tuple(elected)


def _slices(one: Rule, other: Rule, grid: Grid) -> Iterator[tuple[Rule, ...]]:
    """Yield, for each way in which one implies the other, what lies between them, in parts.

    Whoever satisfies a part satisfies the larger and not the smaller. Of rules with one condition
    the complement is a rule, too.
    """
    for first in _with_complement(one, grid):
        for second in _with_complement(other, grid):
            for small, large in ((first, second), (second, first)):
                if small != large and implies(small, large):
                    yield _between(small, large, grid)


def _with_complement(rule: Rule, grid: Grid) -> Iterator[Rule]:
    yield rule
    other = complement(rule, grid)
    if other is not None:
        yield other


def _between(small: Rule, large: Rule, grid: Grid) -> tuple[Rule, ...]:
    """Return parts of `large` of which nobody satisfies `small`."""
    found: dict[Rule, None] = {}
    for condition in small:
        inner = conjoin((*large, condition), grid)
        if inner is not None and inner != large:
            found.update(dict.fromkeys(find_between(large, inner, grid)))
    return tuple(found)
