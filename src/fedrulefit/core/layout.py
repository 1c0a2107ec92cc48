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

Where each of a patient's predictors has rules and linear terms of its own (one for each class of
an outcome), every column stands in the vector once for each: first all baselines, then the rules
of the first predictor, those of the second and so on, then the linear terms likewise. To whom a
term belongs, and which column it has, is told by :class:`Owners`. An owner may itself be several
predictors that share its terms, one for each of its baselines (a cause of a time to an event).

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


@dataclass(frozen=True, eq=False)
class Owners:
    """Of which predictor each term is, and which column it has, where predictors share no terms.

    Parameters
    ----------
    columns : Layout
        Of the columns that all predictors choose from; the first are of ones. Where there are
        several of these, each of them begins a predictor, and those of one owner share its terms.
    parts : (n_terms,) int64
        The predictor that each term is part of.
    at : (n_terms,) int64
        Its column.
    """

    columns: Layout
    parts: Ints
    at: Ints

    @classmethod
    def of_each(cls, n_parts: int, n_rules: int, n_linear: int, *, n_baseline: int = 1) -> Owners:
        """Return the owners where each predictor has all columns; `n_baseline` is that of each."""
        columns = Layout(n_baseline, n_rules, n_linear)
        blocks = [
            (k, np.arange(block.start, block.stop))
            for block in (columns.baseline, columns.rules, columns.linear)
            for k in range(n_parts)
        ]
        parts = np.concatenate([np.full(len(block), k) for k, block in blocks])
        at = np.concatenate([block for _, block in blocks])
        return cls(columns, parts.astype(np.int64), at.astype(np.int64))

    @property
    def n_parts(self) -> int:
        """The owners; each has a baseline."""
        return int((self.at == 0).sum())

    @property
    def layout(self) -> Layout:
        """Where baselines, rules and linear terms of all predictors stand in the vector."""
        among = self.columns.are_rules(self.at), self.columns.are_linear(self.at)
        n_rules, n_linear = (int(which.sum()) for which in among)
        return Layout(len(self.at) - n_rules - n_linear, n_rules, n_linear)

    def spread(self, numbers: Floats) -> Floats:
        """Return what each column has, shape (n_columns,), for every term that it is."""
        spread: Floats = numbers[self.at]
        return spread

    def of_part(self, part: int) -> Ints:
        """Return the terms of a predictor, increasing: their columns increase, too."""
        terms: Ints = np.flatnonzero(self.parts == part)
        return terms

    def take(self, terms: Ints) -> tuple[Owners, Ints]:
        """Return the owners of some terms, and the columns that they need, increasing."""
        needed, at = np.unique(self.at[terms], return_inverse=True)
        return Owners(self.columns.among(needed), self.parts[terms], at.astype(np.int64)), needed


def _inside(terms: Ints, block: slice) -> Bools:
    inside: Bools = (terms >= block.start) & (terms < block.stop)
    return inside
