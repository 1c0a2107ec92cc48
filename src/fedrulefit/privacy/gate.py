"""The disclosure gate: which rules may leave a site.

In: rules, the site's codes and outcomes, k. Out: the rules that may leave, in
canonical order; how many were kept back and why stays at the site.

A rule leaves only if at least k patients are inside it, k outside, and k with
and k without the outcome inside. Of two rules of which one implies the other
(or the other's complement, where that is a rule), the longer one is kept back
if the patients between them are fewer than k, but not 0: who knew both counts
would know theirs.

Of outcomes that are numbers or counts, k patients inside must have another number than the
rule's median, in place of k with and k without: a rule in which nearly all are the same tells
each one's.

Of outcomes that are more than with or without, sums tell more than counts. So a rule is kept
back, too, if inside or outside it one patient outweighs all others (a number far from the
median), or fewer than k patients are in a part of the loss (at risk in an interval of time), or
at one of several levels:
:class:`~fedrulefit.core.people.Sensitive`.

Counts are of patients, not of their weights; a patient of weight 0 is none. A patient with several
rows counts once in each of these groups of rows: as one with the outcome if any of the rows there
has it (:mod:`fedrulefit.core.people`). Oracle: brute force over pairs
(``tests/unit/privacy/test_gate.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Bools, Codes, Floats, Ints
from fedrulefit.core.design import Design, build_design
from fedrulefit.core.grid import Grid
from fedrulefit.core.people import (
    Sensitive,
    count_apart,
    count_cells,
    count_present,
    count_rows_each,
    find_one_sided,
)
from fedrulefit.core.rules import Rule, complement


@dataclass(frozen=True)
class Gated:
    """The rules that may leave, and how many may not, by reason."""

    rules: tuple[Rule, ...]
    too_few: int = 0
    too_near: int = 0
    too_many: int = 0
    one_sided: int = 0


def gate_rules(
    rules: Iterable[Rule],
    codes: Codes,
    outcome: Floats,
    grid: Grid,
    *,
    min_count: int,
    max_rules_sent: int,
    weights: Floats | None = None,
    patients: Ints | None = None,
    sensitive: Sensitive | None = None,
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
        Rows of weight 0 are not counted; all are, if not given.
    patients : (n_rows,) int64, optional
        Whose each row is; without it every row is one patient.
    sensitive : Sensitive, optional
        What of these rows a sum could tell although it is over enough patients.
    """
    rows = _Rows.of(codes, outcome, weights, patients, sensitive)
    distinct = sorted(set(rules), key=_canonical)
    counted = distinct
    inside: Ints = np.zeros(len(distinct), dtype=np.int64)
    if min_count > 0 and distinct:
        inside, smallest = rows.count(distinct)
        kept = np.flatnonzero(smallest >= min_count)
        distinct, inside = [distinct[k] for k in kept], inside[kept]
    too_few = len(counted) - len(distinct)
    if min_count > 0 and distinct:
        even = np.flatnonzero(~rows.find_one_sided(distinct))
        distinct, inside = [distinct[k] for k in even], inside[even]
    one_sided = len(counted) - too_few - len(distinct)
    near = _too_near(distinct, inside, rows, grid, min_count) if min_count > 1 else set()
    passed = [rule for k, rule in enumerate(distinct) if k not in near]
    sent = passed
    if len(passed) > max_rules_sent:
        sent = sorted(sorted(passed, key=_by_hash)[:max_rules_sent], key=_canonical)
    return Gated(tuple(sent), too_few, len(near), len(passed) - len(sent), one_sided)


def have_enough(
    rules: Sequence[Rule],
    codes: Codes,
    outcome: Floats,
    weights: Floats,
    *,
    min_count: int,
    patients: Ints | None = None,
    sensitive: Sensitive | None = None,
) -> Bools:
    """Return which rules have enough patients here, shape (n_rules,): the site's votes.

    Of nested rules that are near in number all may have: that is for the rules that leave.
    """
    rows = _Rows.of(codes, outcome, weights, patients, sensitive)
    enough: Bools = rows.count(rules)[1] >= min_count
    if min_count > 0 and enough.any():
        candidates = [rule for rule, passes in zip(rules, enough.tolist(), strict=True) if passes]
        enough[enough] = ~rows.find_one_sided(candidates)
    return enough


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that count, and whose they are.

    Without those of weight 0: no sum is over them, so nobody hides among them.
    """

    codes: Codes
    outcome: Floats
    weights: Floats
    patients: Ints | None
    sensitive: Sensitive | None

    @classmethod
    def of(
        cls,
        codes: Codes,
        outcome: Floats,
        weights: Floats | None,
        patients: Ints | None,
        sensitive: Sensitive | None,
    ) -> _Rows:
        if weights is None:
            return cls(codes, outcome, np.ones(len(codes)), patients, sensitive)
        kept = weights > 0
        return cls(
            codes[kept],
            outcome[kept],
            weights[kept],
            None if patients is None else patients[kept],
            None if sensitive is None else sensitive.take(kept),
        )

    def __len__(self) -> int:
        return len(self.codes)

    def count(self, rules: Sequence[Rule]) -> tuple[Ints, Ints]:
        """Rows inside each rule, and patients in the smallest group that k is asked of."""
        design = self._build(rules)
        every = np.ones(len(self))
        inside = np.rint(design.transpose_dot(every)[design.layout.rules]).astype(np.int64)
        cells = count_cells(design, self.outcome, every > 0, self.patients)
        smallest = cells.smallest_inside
        if self.sensitive is not None and self.sensitive.is_measured:
            apart = count_apart(design, self.sensitive, self.patients)
            smallest = np.minimum(cells.smallest_side, apart)
        if self.sensitive is not None:
            present = count_present(design, self.sensitive, every > 0, self.patients)
            smallest = np.minimum(smallest, present).astype(np.int64)
        return inside, smallest

    def find_one_sided(self, rules: Sequence[Rule]) -> Bools:
        """Inside or outside which rules one patient outweighs all others."""
        if self.sensitive is None:
            return np.zeros(len(rules), dtype=np.bool_)
        return find_one_sided(self._build(rules), self.sensitive, self.weights, self.patients)

    def _build(self, rules: Sequence[Rule]) -> Design:
        return build_design(self.codes, rules, np.empty((len(self), 0)))

    def has_few_between(self, small: Rule, large: Rule, min_count: int) -> bool:
        """Whether few patients have rows of `large` that are not of `small`, which implies it."""
        if self.patients is None:
            return True  # as many as rows, and these are few
        between = self._satisfy(large) & ~self._satisfy(small)
        return len(np.unique(self.patients[between])) < min_count

    def _satisfy(self, rule: Rule) -> Bools:
        hits = [condition.table()[self.codes[:, condition.feature]] for condition in rule]
        satisfied: Bools = np.logical_and.reduce(hits, axis=0)
        return satisfied


def _too_near(
    rules: Sequence[Rule], inside: Ints, rows: _Rows, grid: Grid, min_count: int
) -> set[int]:
    """Positions of rules to keep back: a nested one that stays is too near in number."""
    n_rows, far = len(rows), (min_count - 1) * count_rows_each(rows.patients) + 1
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
            for place in _neighbours(sizes, size, far)
        )
        if any(
            j < k and j not in held and implies(*pair) and rows.has_few_between(*pair, min_count)
            for rule, size, (other, n, j) in near
            for pair in ((rule, other) if size < n else (other, rule),)
        ):
            held.add(k)
    return held


def _neighbours(sizes: Ints, size: int, far: int) -> Iterator[int]:
    """Places of shapes whose number of rows differs by less than `far`, but not by 0.

    From `far` on, rows are of k patients at least.
    """
    bounds = (size - far + 1, size, size + 1, size + far)
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
