"""The disclosure gate: which rules may leave a site.

In: rules, the site's codes and outcomes, k. Out: the rules that may leave, in
canonical order; how many were kept back and why stays at the site.

A rule leaves only if at least k patients are inside it, k outside, and k with
and k without the outcome inside. Of two rules of which one implies the other
(or the other's complement, where that is a rule), the longer one is kept back
if the patients between them are fewer than k, but not 0: who knew both counts
would know theirs.

Counts are of patients, not of their weights; a patient of weight 0 is none. Oracle:
brute force over pairs (``tests/unit/privacy/test_gate.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Bools, Codes, Floats, Ints
from fedrulefit.core.design import build_design
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Rule, complement


@dataclass(frozen=True)
class Gated:
    """The rules that may leave, and how many may not, by reason."""

    rules: tuple[Rule, ...]
    too_few: int = 0
    too_near: int = 0
    too_many: int = 0


def gate_rules(
    rules: Iterable[Rule],
    codes: Codes,
    outcome: Floats,
    grid: Grid,
    *,
    min_count: int,
    max_rules_sent: int,
    weights: Floats | None = None,
) -> Gated:
    """Return the rules that may leave.

    Parameters
    ----------
    rules : iterable of Rule
    codes : (n_rows, n_features) uint8
    outcome : (n_rows,) float64
        1 with the outcome, 0 without.
    grid : Grid
    min_count : int
        k; 0 lets every rule pass.
    max_rules_sent : int
        Most rules; beyond, those stay that are shorter, then by a hash of the
        rule, which says nothing of the patients.
    weights : (n_rows,) float64, optional
        Patients of weight 0 are not counted; all are, if not given.
    """
    codes, outcome = _counted(codes, outcome, weights)
    distinct = sorted(set(rules), key=_canonical)
    counted = distinct
    inside: Ints = np.zeros(len(distinct), dtype=np.int64)
    if min_count > 0 and distinct:
        inside, smallest = _count(distinct, codes, outcome)
        kept = np.flatnonzero(smallest >= min_count)
        distinct, inside = [distinct[k] for k in kept], inside[kept]
    too_few = len(counted) - len(distinct)
    near = _too_near(distinct, inside, len(codes), grid, min_count) if min_count > 1 else set()
    passed = [rule for k, rule in enumerate(distinct) if k not in near]
    sent = passed
    if len(passed) > max_rules_sent:
        sent = sorted(sorted(passed, key=_by_hash)[:max_rules_sent], key=_canonical)
    return Gated(tuple(sent), too_few, len(near), len(passed) - len(sent))


def have_enough(
    rules: Sequence[Rule],
    codes: Codes,
    outcome: Floats,
    weights: Floats,
    *,
    min_count: int,
) -> Bools:
    """Return which rules have enough patients here, shape (n_rules,): the site's votes.

    Of nested rules that are near in number all may have: that is for the rules that leave.
    """
    return _count(rules, *_counted(codes, outcome, weights))[1] >= min_count


def _counted(codes: Codes, outcome: Floats, weights: Floats | None) -> tuple[Codes, Floats]:
    """Leave out patients of weight 0: no sum is over them, so nobody hides among them."""
    return (codes, outcome) if weights is None else (codes[weights > 0], outcome[weights > 0])


def _count(rules: Sequence[Rule], codes: Codes, outcome: Floats) -> tuple[Ints, Ints]:
    """Patients inside each rule, and in the smallest group that k is asked of."""
    design = build_design(codes, rules, np.empty((len(codes), 0)))
    sums = [design.transpose_dot(v)[1:] for v in (np.ones(len(codes)), outcome)]
    inside, cases = (np.rint(part).astype(np.int64) for part in sums)
    return inside, np.minimum.reduce([inside, len(codes) - inside, cases, inside - cases])


def _too_near(
    rules: Sequence[Rule], inside: Ints, n_rows: int, grid: Grid, min_count: int
) -> set[int]:
    """Positions of rules to keep back: a nested one that stays is too near in number."""
    # Every rule, and its complement where that is a rule: what, how many inside, whose.
    shapes = [(rule, int(inside[k]), k) for k, rule in enumerate(rules)]
    for k, rule in enumerate(rules):
        other = complement(rule, grid)
        if other is not None:
            shapes.append((other, n_rows - int(inside[k]), k))
    shapes.sort(key=lambda shape: shape[1])
    sizes: Ints = np.array([size for _, size, _ in shapes], dtype=np.int64)
    own: dict[int, list[tuple[Rule, int]]] = {}
    for rule, size, k in shapes:
        own.setdefault(k, []).append((rule, size))
    held: set[int] = set()
    for k in range(len(rules)):
        near = (
            (rule, size, shapes[place])
            for rule, size in own[k]
            for place in _neighbours(sizes, size, min_count)
        )
        if any(
            j < k and j not in held and (implies(rule, other) if size < n else implies(other, rule))
            for rule, size, (other, n, j) in near
        ):
            held.add(k)
    return held


def _neighbours(sizes: Ints, size: int, min_count: int) -> Iterator[int]:
    """Places of shapes whose number differs by 1 … k − 1."""
    bounds = (size - min_count + 1, size, size + 1, size + min_count)
    low, below, above, high = np.searchsorted(sizes, bounds)
    yield from range(low, below)
    yield from range(above, high)


def implies(rule: Rule, other: Rule) -> bool:
    """Whether every row of codes inside `rule` is inside `other`."""
    codes = dict(rule)
    return all(feature in codes and codes[feature] & ~allowed == 0 for feature, allowed in other)


def _canonical(rule: Rule) -> tuple[int, Rule]:
    return len(rule), rule


def _by_hash(rule: Rule) -> tuple[int, bytes]:
    return len(rule), hashlib.sha256(repr(rule.conditions).encode()).digest()
