r"""What a study's wishes leave of the candidate terms: directions, vetoes, own rules.

Not in the paper. In: the wishes of :mod:`fedrulefit.study.wishes` on the shared grid, public like
the study itself. Out: which rules may be candidates, which of them and of the linear terms are
unpenalised, and which sign each may have (:mod:`fedrulefit.core.signs`). Everybody in a run works
it out alike, and no message tells of it.

A rule is used unless

* it names a covariate that is not to be used, or all of some that are not to meet in a rule;
* it has more conditions than the study allows;
* it holds for the same known values as a forbidden one, or, where both have one condition, for
  all others: with a coefficient of the other sign that tells the same;
* it goes against a direction with either sign.

Rules of the study's own are candidates whatever trees find. Those that it keeps, and the linear
terms of covariates that it keeps, or their levels but the first, are unpenalised.

Oracle: the definitions, rule by rule (``tests/unit/core/test_limits.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Bools
from fedrulefit.core.grid import Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.rules import Condition, Rule, conjoin, twins
from fedrulefit.core.signs import NEITHER, Signs, allowed_signs, find_signs, join_signs

Shape = frozenset[tuple[int, int]]
"""Which known values of which covariates satisfy a rule."""


@dataclass(frozen=True, eq=False)
class Limits:
    """What may be used, and how.

    Parameters
    ----------
    grid : Grid
    directions : (n_features,) of {-1, 0, 1}
        What predictions may do as a covariate rises; 0: anything.
    unused : frozenset of int
        Covariates of no term.
    apart : tuple of frozenset of int
        Covariates that no rule names together.
    longest : int or None
        Most conditions of a rule.
    forbidden, own : tuple of Rule
        Rules that are never used, and that always are candidates.
    fixed : frozenset of Rule
        Of the own rules, those that are unpenalised.
    kept : frozenset of int
        Covariates whose linear term, or levels, are unpenalised.
    """

    grid: Grid
    directions: tuple[int, ...]
    unused: frozenset[int] = frozenset()
    apart: tuple[frozenset[int], ...] = ()
    longest: int | None = None
    forbidden: tuple[Rule, ...] = ()
    own: tuple[Rule, ...] = ()
    fixed: frozenset[Rule] = frozenset()
    kept: frozenset[int] = frozenset()

    @property
    def directed(self) -> bool:
        """Whether any covariate has a direction."""
        return any(self.directions)

    @property
    def signed(self) -> bool:
        """Whether any term has fewer than all signs."""
        return self.directed or bool(self.unused) or bool(self.forbidden)

    # --- Which rules may be candidates ----------------------------------------------------------

    def permits(self, rule: Rule) -> bool:
        """Whether a rule may be used at all."""
        features = frozenset(rule.features)
        if features & self.unused or any(group <= features for group in self.apart):
            return False
        if self.longest is not None and len(rule) > self.longest:
            return False
        if self.directed and allowed_signs(rule, self.directions, self.grid) == NEITHER:
            return False
        return not self.forbidden or self._shapes(rule).isdisjoint(self._forbidden_shapes())

    def sift(self, rules: Iterable[Rule]) -> list[Rule]:
        """Return the rules that may be used, in their order."""
        return [rule for rule in rules if self.permits(rule)]

    def _forbidden_shapes(self) -> set[Shape]:
        return set().union(*map(self._shapes, self.forbidden))

    def _shapes(self, rule: Rule) -> set[Shape]:
        """Return which known values satisfy a rule, and of one condition those that do not."""
        known = {feature: codes & self._known(feature) for feature, codes in rule}
        parting = {j: codes for j, codes in known.items() if codes != self._known(j)}
        known = parting or known  # "x is not missing" parts no known values
        shapes = {frozenset(known.items())}
        if len(known) == 1:
            ((feature, codes),) = known.items()
            shapes.add(frozenset([(feature, self._known(feature) & ~codes)]))
        return shapes

    def _known(self, feature: int) -> int:
        return (1 << self.grid.axes[feature].n_codes) - 1

    # --- What terms are allowed ---------------------------------------------------------------

    def find_signs(self, rules: Sequence[Rule], layout: Layout) -> Signs:
        """Return the signs that the coefficients of some rules, and the linear terms, may have."""
        features = self.grid.linear[: layout.n_linear]
        by_rule, by_linear = find_signs(rules, features, self.directions, self.grid)
        barred = self.unused | self._barred_linear()
        by_linear = [
            NEITHER if feature in barred else pair
            for feature, pair in zip(features, by_linear, strict=True)
        ]
        by_rule = [
            pair if rule in self.own or self.permits(rule) else NEITHER
            for rule, pair in zip(rules, by_rule, strict=True)
        ]
        return join_signs(layout, by_rule, by_linear)

    def _barred_linear(self) -> frozenset[int]:
        """Return the yes/no covariates whose linear term tells the same as a forbidden rule."""
        both = (1, 2)
        return frozenset(
            rule.features[0]
            for rule in self.forbidden
            if len(rule) == 1
            and self.grid.axes[rule.features[0]].kind == "yes/no"
            and rule.conditions[0].codes & self._known(rule.features[0]) in both
        )

    def find_kept(self, rules: Sequence[Rule], layout: Layout) -> Bools:
        """Return which terms are kept unpenalised, shape (n_terms,)."""
        wanted = set(self.fixed) | self._kept_levels()
        by_rule = [
            rule in wanted or not twins(rule, self.grid).isdisjoint(wanted) for rule in rules
        ]
        by_linear = [feature in self.kept for feature in self.grid.linear[: layout.n_linear]]
        every = [*[False] * layout.n_baseline, *by_rule, *by_linear]
        return np.array(every, dtype=np.bool_)

    def _kept_levels(self) -> set[Rule]:
        """Return ``category = level`` for all levels but the first of kept categories."""
        levels: set[Rule] = set()
        for feature in self.kept:
            axis = self.grid.axes[feature]
            if not axis.ordered:
                made = (
                    conjoin([Condition(feature, 1 << k)], self.grid) for k in range(axis.n_codes)
                )
                levels.update(rule for rule in list(made)[1:] if rule is not None)
        return levels
