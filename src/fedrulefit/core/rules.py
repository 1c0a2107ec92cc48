r"""Rules: conjunctions of conditions on codes, in one canonical form.

Paper 2.1 (rule terms) and 2.2.2 step 2 (duplicates), erratum 12.

In: conditions met on the way through a tree. Out: :class:`Rule` objects that
are equal exactly when they fire on the same rows of codes. Leaves the site:
the rules, and nothing about how many patients each holds.

A condition is the *set* of codes of one covariate that satisfy it, kept as the
bits of an integer: bit c for code c, bit 255 for "missing". For a number or a
yes/no covariate the codes must form one interval [lo, hi); for a category any
set of levels may stand, since ``cp ≠ 1`` and ``cp ≠ 2`` met on one path give
``cp is 3 or 4``. Conjunction is bitwise *and*; the full set is no condition;
the empty set makes the rule impossible.

=====================  ============================
paper                  here
=====================  ============================
:math:`r_k(x)`         :class:`Rule`
:math:`I(x_j∈S_{jk})`  :class:`Condition`
:math:`\mathcal R^*`   :func:`merge_rules`
=====================  ============================

Oracle: brute force over all code rows (``tests/properties/test_rules.py``).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from fedrulefit.core.arrays import MISSING, Bools, Floats, Ints
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.plan import thin
from fedrulefit.numerals import DIGITS, format_number

MAX_ALIKE: Final = 256
"""Most rules or conditions of one hash: sets of more of them would take very long."""


NEARLY_ALL: Final = 0.95
"""Share of the known from which a condition's words tell of missing values first."""


class Condition(NamedTuple):
    """The codes of one covariate that satisfy a condition, as bits."""

    feature: int
    codes: int

    @property
    def missing(self) -> bool:
        """Whether a missing value satisfies the condition."""
        return bool(self.codes >> MISSING & 1)

    def table(self) -> Bools:
        """Return the condition as a look-up table, shape (256,)."""
        raw = np.frombuffer(self.codes.to_bytes(32, "little"), dtype=np.uint8)
        return np.unpackbits(raw, bitorder="little").astype(np.bool_)


@dataclass(frozen=True, order=True)
class Rule:
    """A conjunction in canonical form: build it with :func:`conjoin`."""

    conditions: tuple[Condition, ...]

    def __iter__(self) -> Iterator[Condition]:
        return iter(self.conditions)

    def __len__(self) -> int:
        return len(self.conditions)

    @property
    def features(self) -> tuple[int, ...]:
        """The covariates that the rule names."""
        return tuple(c.feature for c in self.conditions)


def interval(lo: int, hi: int, *, missing: bool = False) -> int:
    """Return the bits of codes lo ≤ c < hi, with or without missing."""
    return ((1 << hi) - (1 << lo)) | (missing << MISSING)


def as_interval(codes: int) -> tuple[int, int] | None:
    """Return [lo, hi) of the non-missing codes, or None if they have a gap.

    No code at all (only "missing" satisfies) is the empty interval [0, 0).
    """
    present = codes & ~(1 << MISSING)
    if present == 0:
        return 0, 0
    lo = (present & -present).bit_length() - 1
    hi = present.bit_length()
    return (lo, hi) if present == interval(lo, hi) else None


def conjoin(conditions: Iterable[Condition], grid: Grid) -> Rule | None:
    """Return the canonical conjunction, or None if nothing can satisfy it.

    Codes that cannot occur are cut off, conditions on one covariate are
    intersected, and conditions that everything satisfies are left out.
    """
    allowed: dict[int, int] = {}
    for feature, codes in conditions:
        full = grid.axes[feature].every_code
        allowed[feature] = allowed.get(feature, full) & codes
    if any(codes == 0 for codes in allowed.values()):
        return None
    kept = (
        Condition(feature, codes)
        for feature, codes in sorted(allowed.items())
        if codes != grid.axes[feature].every_code
    )
    return Rule(tuple(kept))


def complement(rule: Rule, grid: Grid) -> Rule | None:
    """Return the rule's negation where it is a rule, too: one condition only."""
    if len(rule) != 1:
        return None
    feature, codes = rule.conditions[0]
    return conjoin([Condition(feature, grid.axes[feature].every_code & ~codes)], grid)


def mirror(rule: Rule, grid: Grid) -> Rule | None:
    """Return the negation among known values: ``x ≥ c`` for ``x < c``.

    Where x may be missing both are false for a missing value. They are not
    complements, then, but tell the same once "x is missing" has its own term.
    """
    if len(rule) != 1 or rule.conditions[0].missing:
        return None
    feature, codes = rule.conditions[0]
    present = (1 << grid.axes[feature].n_codes) - 1
    return conjoin([Condition(feature, present & ~codes)], grid)


def twins(rule: Rule, grid: Grid) -> set[Rule]:
    """Return the other rules that part the known values of one covariate in the same place.

    The :func:`complement`, and where values may be missing the :func:`mirror`, and all of them
    with a missing value on the other side: once "x is missing" has its own term they tell the
    same.
    """
    if len(rule) != 1:
        return set()
    (feature, codes), axis = rule.conditions[0], grid.axes[rule.features[0]]
    present = (1 << axis.n_codes) - 1
    if codes & present in (0, present):
        found = {complement(rule, grid)}
    else:
        sides = (codes & present, present & ~codes)
        each = (side | missing << MISSING for side in sides for missing in (False, True))
        found = {conjoin([Condition(feature, one)], grid) for one in each}
    return {other for other in found if other is not None and other != rule}


def tells_missing(rule: Rule, grid: Grid) -> bool:
    """Whether the rule is ``x is missing``, or its negation."""
    if len(rule) != 1:
        return False
    feature, codes = rule.conditions[0]
    present = (1 << grid.axes[feature].n_codes) - 1
    return not grid.axes[feature].complete and codes & present in (0, present)


def merge_rules(
    rule_sets: Iterable[Iterable[Rule]],
    grid: Grid,
    *,
    drop_complements: bool,
    by_code: Sequence[Floats] | None = None,
    preferred: Collection[Rule] = (),
) -> tuple[Rule, ...]:
    """Return the distinct rules of all sites in one canonical order.

    The order tells nothing of which site sent a rule or of its place in a
    tree. With `drop_complements`, of a rule and its negation (and its other
    :func:`twins`) the one stays that is false for missing values and holds
    fewer patients (`by_code`, see :func:`cutoff_rules`), or names fewer codes; before them
    those that are `preferred`.
    """
    distinct = {rule for rules in rule_sets for rule in rules if len(rule)}
    if drop_complements:
        for rule in sorted(distinct):
            for twin in twins(rule, grid):
                if (
                    twin in distinct
                    and rule not in preferred
                    and (twin in preferred or _plainer(rule, twin, grid, by_code) == twin)
                ):
                    distinct.discard(rule)
    return tuple(sorted(distinct, key=lambda rule: (len(rule), rule)))


def level_rules(grid: Grid) -> Iterator[Rule]:
    """Yield ``covariate = level`` for every category.

    They need no data, and stand beside the linear terms of numbers: a
    category's main effect never depends on whether a tree happened to use it.
    """
    for feature, axis in enumerate(grid.axes):
        if not axis.ordered:
            for level in range(axis.n_codes):
                rule = conjoin([Condition(feature, 1 << level)], grid)
                if rule is not None and len(rule):
                    yield rule


def cutoff_rules(
    grid: Grid, by_code: Sequence[Floats] | None = None, quotas: Ints | None = None
) -> Iterator[Rule]:
    """Yield ``covariate < cut-off`` for every cut-off, and ``covariate is missing``.

    They need no data: together they can follow any curve in one covariate. Where a value may
    be missing, the side of the cut-off is named that fewer patients are on: the other, of
    nearly all who are known, would say little but that the value is known.

    Parameters
    ----------
    by_code : one array per covariate, (n_codes,) or more
        How many patients have each code, as released; None counts codes instead.
    quotas : (n_features,) int64, optional
        How many cut-offs of each covariate are taken, where not all are.
    """
    for feature, axis in enumerate(grid.axes):
        n_cutoffs = len(axis.cutoffs)
        taken = thin(n_cutoffs, n_cutoffs if quotas is None else int(quotas[feature]))
        below = (interval(0, cut + 1) for cut in taken.tolist())
        for codes in (*below, 1 << MISSING):
            rule = conjoin([Condition(feature, codes)], grid)
            if rule is not None and len(rule):
                twin = None if axis.complete else mirror(rule, grid)
                yield rule if twin is None else _plainer(rule, twin, grid, by_code)


def plausible_rules(
    rules: Iterable[Rule], by_code: Sequence[Floats], grid: Grid, *, fewest: float
) -> set[Rule]:
    """Return the rules of one condition with patients on either side.

    As far as the released histograms tell: `by_code` is their :func:`count_codes`. A rule that
    needs no data could otherwise hold a single patient. Both sides of a cut-off, or of a
    level, are counted among those whose value is known.
    """
    kept = set()
    for rule in rules:
        ((feature, codes),) = rule
        counts, n_codes = by_code[feature], grid.axes[feature].n_codes
        known = np.array([codes >> code & 1 for code in range(n_codes)], dtype=np.bool_)
        if known.all() or not known.any():
            sides = counts[:n_codes].sum(), counts[n_codes:].sum()
        else:
            sides = counts[:n_codes][known].sum(), counts[:n_codes][~known].sum()
        if min(sides) >= fewest:
            kept.add(rule)
    return kept


def check_rules(rules: Sequence[Rule], grid: Grid) -> None:
    """Refuse rules that are not canonical on this grid.

    Raises
    ------
    ValueError
        If a rule names an unknown covariate, a code that cannot occur, a gap
        in an ordered covariate, or is not in canonical form.
    """
    # Rules are many and share their conditions: each is looked at once. They are known by
    # bytes, since hashes of integers can be made to collide.
    known: set[tuple[int, bytes]] = set()
    hashes: Counter[int] = Counter(map(hash, rules))
    for rule in rules:
        for condition in rule:
            key = condition.feature, condition.codes.to_bytes(32, "little")
            if key not in known:
                _check_condition(condition, grid)
                known.add(key)
                hashes[hash(condition)] += 1
        features = rule.features
        if not features or any(map(operator.ge, features, features[1:])):
            raise ValueError("a rule is not in canonical form")
    if max(hashes.values(), default=0) > MAX_ALIKE:
        raise ValueError("rules are repeated, or made to collide")


def _check_condition(condition: Condition, grid: Grid) -> None:
    feature, codes = condition
    if not 0 <= feature < len(grid.axes):
        raise ValueError(f"a rule names covariate {feature}, of {len(grid.axes)}")
    axis = grid.axes[feature]
    if codes & ~axis.every_code:
        raise ValueError("a rule names a code that its covariate does not have")
    if axis.ordered and as_interval(codes) is None:
        raise ValueError("a rule on an ordered covariate must be an interval")
    if codes in (0, axis.every_code):
        raise ValueError("a rule is not in canonical form")


def _plainer(rule: Rule, twin: Rule, grid: Grid, by_code: Sequence[Floats] | None) -> Rule:
    """Return the one that is false for missing values and holds fewer: the shorter to think of."""

    def plainness(one: Rule) -> tuple[bool, float, int]:
        (feature, codes), axis = one.conditions[0], grid.axes[one.features[0]]
        size = float(codes.bit_count())
        if by_code is not None and not axis.complete:
            size = sum(n for k, n in enumerate(by_code[feature][: axis.n_codes]) if codes >> k & 1)
        return one.conditions[0].missing, size, codes

    return min(rule, twin, key=plainness)


def describe_condition(
    condition: Condition,
    axis: Axis,
    name: str,
    *,
    unit: str = "",
    step: float | None = None,
    levels: Sequence[str] = (),
    shares: Floats | None = None,
) -> str:
    """Return a condition in words: ``age < 57.2 years (or missing)``.

    Where nearly all known values are on one side it is missing values that the condition
    parts from the others: ``chol is not missing (and chol < 507.5 mg/dL)``.

    Parameters
    ----------
    unit : str
        Of a number, as its step: cut-offs are written to it.
    step : float, optional
    levels : sequence of str
        Words for the codes of anything else.
    shares : (n_codes,) or (n_codes + 1,) float64, optional
        How frequent each code is (:func:`~fedrulefit.core.cutoffs.estimate_shares`).
    """
    codes, missing = condition.codes, condition.missing
    present = codes & ~(1 << MISSING)
    if present == 0:
        return f"{name} is missing"
    if present == (1 << axis.n_codes) - 1:
        return f"{name} is not missing"
    if axis.kind == "number":
        words = _describe_range(present, axis, name, unit, step)
    else:
        words = _describe_levels(present, axis, name, levels)
    among_known = _share_of_known(condition, axis, shares)
    if not missing and among_known >= NEARLY_ALL:
        return f"{name} is not missing (and {words})"
    if missing and among_known <= 1 - NEARLY_ALL:
        return f"{name} is missing (or {words})"
    return f"{words} (or missing)" if missing else words


def _share_of_known(condition: Condition, axis: Axis, shares: Floats | None) -> float:
    """Return which share of the known satisfies a condition; ½ where nothing tells."""
    if shares is None or axis.complete or shares[axis.n_codes] == 0:
        return 0.5
    known = shares[: axis.n_codes]
    satisfied = float(known @ condition.table()[: axis.n_codes])
    return satisfied / float(known.sum()) if known.sum() > 0 else 0.5


def _describe_levels(present: int, axis: Axis, name: str, levels: Sequence[str]) -> str:
    """Return which levels satisfy a condition, in words."""
    chosen = [levels[c] for c in range(axis.n_codes) if present >> c & 1]
    if axis.kind == "yes/no" or len(chosen) == 1:
        return f"{name} = {chosen[0]}"
    if axis.kind == "ordered":
        return _describe_ordered(chosen, levels, name)
    if len(chosen) == axis.n_codes - 1:
        (other,) = [levels[c] for c in range(axis.n_codes) if not present >> c & 1]
        return f"{name} ≠ {other}"
    return f"{name} is {', '.join(chosen[:-1])} or {chosen[-1]}"


def _describe_ordered(chosen: Sequence[str], levels: Sequence[str], name: str) -> str:
    """Return a range of ordered levels: ``NYHA ≥ III``."""
    if chosen[0] == levels[0]:
        return f"{name} ≤ {chosen[-1]}"
    if chosen[-1] == levels[-1]:
        return f"{name} ≥ {chosen[0]}"
    return f"{chosen[0]} ≤ {name} ≤ {chosen[-1]}"


def _describe_range(present: int, axis: Axis, name: str, unit: str, step: float | None) -> str:
    """Return which range of a number satisfies a condition, in words."""
    bounds = as_interval(present)
    if bounds is None:
        raise ValueError("a condition on a number must be an interval")
    low, high = (format_cutoff(axis, k - 1, step) if 0 < k < axis.n_codes else "" for k in bounds)
    tail = f" {unit}" if unit else ""
    if not low:
        return f"{name} < {high}{tail}"
    return f"{low} ≤ {name} < {high}{tail}" if high else f"{name} ≥ {low}{tail}"


def format_cutoff(axis: Axis, position: int, step: float | None = None) -> str:
    """Return a cut-off to its step, or with as many digits as tell it from its neighbours."""
    near = axis.cutoffs[max(position - 1, 0) : position + 2].tolist()
    value = float(axis.cutoffs[position])
    if len({format_number(other, step) for other in near}) == len(near):
        return format_number(value, step)
    for digits in range(DIGITS + 1, 17):
        if len({f"{other:.{digits}g}" for other in near}) == len(near):
            return f"{value:.{digits}g}"
    return repr(value)
