r"""The design where each of a patient's predictors has rules and linear terms of its own.

In: a plain design, whose columns all predictors choose from. Out: a :class:`ClassDesign`, whose
products are those of :class:`~fedrulefit.core.design.Design` for the predictors

.. math:: F_{ic} = a_c + x_i^⊤ w_c, \quad c = 1 … C

of an outcome of C classes. Each column is kept once, whoever uses it. Nothing here leaves the
site.

The loss of such an outcome depends on differences of predictors alone, and a patient's curvature
is a sum over pairs of them:

.. math:: \frac{∂^2ℓ}{∂F∂F^⊤} = \sum_{a<b} v_{ab}\,(e_a - e_b)(e_a - e_b)^⊤,
   \quad v_{ab} = -\frac{∂^2ℓ}{∂F_a∂F_b} ≥ 0

With :math:`G_{ab} = \sum_i v_{iab}\,x_ix_i^⊤`, summed as a plain design sums it (whole numbers, in
any order), the Hessian's blocks are :math:`H_{aa} = \sum_b G_{ab}` and :math:`H_{ab} = -G_{ab}`:
exact, too, never of negative curvature, and flat to the last bit where all predictors move alike.

Or the loss is a sum over owners, each of several predictors that share the owner's terms (causes,
and intervals of time): curvatures are then not crossed, of shape (n_rows, n_baseline), and the
Hessian has a block of its own for each owner, that of a plain design.

Oracle: the dense matrix of all terms (``tests/unit/core/test_class_design.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.design import Design
from fedrulefit.core.layout import Layout, Owners


@dataclass(frozen=True, eq=False)
class ClassDesign:
    """One site's design, with terms for each predictor: see :class:`Design` for its products.

    Parameters
    ----------
    columns : Design
        The columns: one of ones, rules, linear terms.
    owners : Owners
        Whose each term of the long vector is, and which column it has.
    """

    columns: Design
    owners: Owners

    @classmethod
    def of_each(cls, columns: Design, n_parts: int) -> ClassDesign:
        """Return the design where each of `n_parts` predictors has all columns."""
        at = columns.layout
        if columns.parts != at.n_baseline or (columns.baseline != 1).any():
            raise ValueError("predictors with terms of their own share one column of ones")
        owners = Owners.of_each(n_parts, at.n_rules, at.n_linear, n_baseline=at.n_baseline)
        return cls(columns, owners)

    @property
    def n_rows(self) -> int:
        """The number of patients."""
        return self.columns.n_rows

    @cached_property
    def layout(self) -> Layout:
        """Where baselines, rules and linear terms stand in the long vector."""
        return self.owners.layout

    @property
    def n_terms(self) -> int:
        """All terms of all predictors."""
        return self.layout.n_terms

    @cached_property
    def largest(self) -> Floats:
        """The most that each term's entries can measure, shape (n_terms,)."""
        return self.owners.spread(self.columns.largest)

    @cached_property
    def _parts(self) -> tuple[tuple[Ints, Design], ...]:
        """The terms and the columns of each predictor."""
        return tuple(self._find_part(k) for k in range(self.owners.n_parts))

    def _find_part(self, part: int) -> tuple[Ints, Design]:
        terms = self.owners.of_part(part)
        if len(terms) == self.columns.n_terms:  # all: the bits need not be copied
            return terms, self.columns
        return terms, self.columns.take(self.owners.at[terms])

    def predictor(self, coef: Floats) -> Floats:
        """Return all predictors, shape (n_rows, n_baseline): each patient's own."""
        return np.column_stack([own.predictor(coef[terms]) for terms, own in self._parts])

    def _split(self, numbers: Floats) -> list[Floats]:
        """Return numbers of all predictors by owner, each as its own design takes them."""
        parts = np.split(numbers, self.owners.n_parts, axis=1)
        flat = self.columns.parts == 1
        return [np.ascontiguousarray(part[:, 0] if flat else part) for part in parts]

    def sum_columns(self, units: Floats, bounds: Floats) -> Ints:
        """Return Xᵀ·v exactly, shape (n_terms,).

        Parameters
        ----------
        units : (n_rows, n_baseline) float64
            Whole numbers.
        bounds : (n_terms,) float64
            Largest size of each term; 1 for baselines and rules.
        """
        total = np.zeros(self.n_terms, dtype=np.int64)
        for (terms, own), part in zip(self._parts, self._split(units), strict=True):
            total[terms] = own.sum_columns(part, bounds[terms])
        return total

    def sum_products(self, curvature: Floats, bounds: Floats) -> Ints:
        """Return Xᵀ·V·X exactly, shape (n_terms, n_terms), in units of 2⁻⁴⁰ of bound × bound.

        Parameters
        ----------
        curvature : (n_rows, n_parts, n_parts) or (n_rows, n_baseline) float64
            Of each patient. Crossed, its rows add up to 0, and none but the diagonal is above 0.
        bounds : (n_terms,) float64
            Largest size of each term, alike for all terms of one column.
        """
        total = np.zeros((self.n_terms, self.n_terms), dtype=np.int64)
        if curvature.ndim == 2:
            for (terms, columns), part in zip(self._parts, self._split(curvature), strict=True):
                total[np.ix_(terms, terms)] = columns.sum_products(part, bounds[terms])
            return total
        sizes = np.ones(self.columns.n_terms)
        sizes[self.owners.at] = bounds
        for a, b in combinations(range(self.owners.n_parts), 2):
            first, second = self.owners.of_part(a), self.owners.of_part(b)
            used = np.union1d(self.owners.at[first], self.owners.at[second])
            roots = np.sqrt(np.maximum(-curvature[:, a, b], 0.0))
            pair = self.columns.take(used).sum_squares(roots, sizes[used])
            own, other = (np.searchsorted(used, self.owners.at[x]) for x in (first, second))
            total[np.ix_(first, first)] += pair[np.ix_(own, own)]
            total[np.ix_(second, second)] += pair[np.ix_(other, other)]
            total[np.ix_(first, second)] -= pair[np.ix_(own, other)]
            total[np.ix_(second, first)] -= pair[np.ix_(other, own)]
        return total

    def take(self, terms: Ints) -> ClassDesign:
        """Return the design of some terms, increasing; all baselines are among them."""
        if not self.layout.holds(terms):
            raise ValueError("terms must begin with all baselines, and increase")
        owners, needed = self.owners.take(terms)
        return ClassDesign(self.columns.take(needed), owners)


def columns_of(design: AnyDesign) -> Design:
    """Return the columns of a design, each once, whoever uses it."""
    return design.columns if isinstance(design, ClassDesign) else design


AnyDesign: TypeAlias = Design | ClassDesign
"""Predictors share all terms but their baselines, or none."""
