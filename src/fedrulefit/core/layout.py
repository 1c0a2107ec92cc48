"""Where the baseline, the rules and the linear terms stand in the coefficient vector.

The vector holds three blocks, one after another:

===========  =====================================================  =============
block        what                                                   penalised
===========  =====================================================  =============
baseline     what always is in the model: the intercept, or a       never
             column per hospital
rules        :math:`β_1 … β_K`                                      by λ·π
linear       :math:`β^*_1 … β^*_p`                                  by λ·π
===========  =====================================================  =============

Nobody else counts on this order. A *term* is a position in the vector, a *place* a position
among the rules, or among the linear terms.

Oracle: the blocks written out as a list of names (``tests/unit/core/test_layout.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Layout:
    """How many terms each block of the coefficient vector has.

    Parameters
    ----------
    n_baseline, n_rules, n_linear : int
    """

    n_baseline: int
    n_rules: int
    n_linear: int

    def __post_init__(self) -> None:
        if min(self.n_baseline, self.n_rules, self.n_linear) < 0:
            raise ValueError("fewer terms than baseline and rules have")

    @classmethod
    def of_length(cls, n_terms: int, n_rules: int, *, n_baseline: int = 1) -> Layout:
        """Return the layout of `n_terms` terms: those that are left over are linear."""
        return cls(n_baseline, n_rules, n_terms - n_baseline - n_rules)

    @property
    def n_terms(self) -> int:
        """All terms."""
        return self.n_baseline + self.n_rules + self.n_linear

    @property
    def baseline(self) -> slice:
        """The terms of the baseline."""
        return slice(0, self.n_baseline)

    @property
    def rules(self) -> slice:
        """The terms of the rules."""
        return slice(self.n_baseline, self.n_baseline + self.n_rules)

    @property
    def linear(self) -> slice:
        """The linear terms."""
        return slice(self.n_baseline + self.n_rules, self.n_terms)

    @property
    def effects(self) -> slice:
        """Rules and linear terms: all but the baseline."""
        return slice(self.n_baseline, self.n_terms)

    def join(self, baseline: Floats, rules: Floats, linear: Floats) -> Floats:
        """Return the vector of these blocks, shape (n_terms,)."""
        return np.concatenate([baseline, rules, linear])

    def holds(self, terms: Ints) -> bool:
        """Whether these are increasing terms of this layout, with the whole baseline."""
        start = np.arange(self.n_baseline)
        return bool(
            np.array_equal(terms[self.baseline], start)
            and (np.diff(terms) > 0).all()
            and ((terms >= 0) & (terms < self.n_terms)).all()
        )

    def with_baseline(self, terms: Ints) -> Ints:
        """Return these terms and the whole baseline, increasing."""
        return np.union1d(np.arange(self.n_baseline), terms).astype(np.int64)

    def are_rules(self, terms: Ints) -> Bools:
        """Return which of these terms are rules."""
        return _inside(terms, self.rules)

    def are_linear(self, terms: Ints) -> Bools:
        """Return which of these terms are linear."""
        return _inside(terms, self.linear)

    def rules_among(self, terms: Ints) -> Ints:
        """Return the places of the rules among these terms."""
        places: Ints = terms[self.are_rules(terms)] - self.rules.start
        return places

    def linear_among(self, terms: Ints) -> Ints:
        """Return the places of the linear terms among these."""
        places: Ints = terms[self.are_linear(terms)] - self.linear.start
        return places

    def of_rules(self, places: Ints) -> Ints:
        """Return the terms of the rules at these places."""
        terms: Ints = places + self.rules.start
        return terms

    def of_linear(self, places: Ints) -> Ints:
        """Return the terms of the linear terms at these places."""
        terms: Ints = places + self.linear.start
        return terms

    def among(self, terms: Ints) -> Layout:
        """Return the layout of a model that has these of the terms."""
        n_rules, n_linear = (int(which(terms).sum()) for which in (self.are_rules, self.are_linear))
        return Layout(len(terms) - n_rules - n_linear, n_rules, n_linear)


def _inside(terms: Ints, block: slice) -> Bools:
    inside: Bools = (terms >= block.start) & (terms < block.stop)
    return inside
