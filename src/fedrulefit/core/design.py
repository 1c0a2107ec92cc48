r"""Rules and linear terms of one site's patients: the design matrix.

In: codes, rules and linear values. Out: a :class:`Design` that multiplies
vectors. Nothing here leaves the site.

Columns come in the order of the coefficient vector
:math:`w = (β_0, β_1 … β_K, β^*_1 … β^*_p)`: intercept, rules, linear terms.

A rule takes one bit per patient, eight patients a byte, so that 100,000
patients × 3,000 rules are 38 MB; a dense float matrix would be 2.4 GB. Both
products work on the bytes:

* :math:`X^⊤v`: for eight patients the sums of v over all 256 subsets are
  tabulated once, and each rule looks its byte up.
* :math:`Xw`: only columns with a coefficient other than 0 are unpacked, a
  bounded block of patients at a time. Under an ℓ1 penalty these are few.

Few columns that are multiplied many times are better unpacked once, while that
takes no more than a bounded block: :meth:`Design.unpacked`.

What is summed over sites (:mod:`fedrulefit.core.fixed`) is made by three products that
do not depend on which patients stand together: :meth:`Design.predictor`,
:meth:`Design.sum_columns` and :meth:`Design.sum_squares`. All their sums are of whole
numbers below 2⁵³, exact in any order.

Oracles: the dense matrix (``tests/properties/test_design.py``), and Python's integers
(``tests/properties/test_splits.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bits, Codes, Floats, Ints
from fedrulefit.core.fixed import EXACT, ROOT_BITS, round_coef
from fedrulefit.core.rules import Condition, Rule

BLOCK_CELLS: Final = 1 << 20
"""Cells (patients × columns) unpacked at a time: 8 MB as float64."""

MATRIX_CELLS: Final = 1 << 22
"""The largest matrix that :meth:`Design.unpacked` makes: 32 MB."""

_TABLES: Final = 1024
"""Look-up tables made at a time: 2 MB."""

_SUBSETS: Final = np.unpackbits(
    np.arange(256, dtype=np.uint8)[None, :], axis=0, bitorder="little"
).astype(np.float64)
"""Which of eight patients a byte names, shape (8, 256)."""


@dataclass(frozen=True, eq=False)
class Design:
    """One site's design matrix, shape (n_rows, n_terms), kept compact.

    Parameters
    ----------
    n_rows : int
    bits : (n_bytes, n_rules) uint8
        Bit i of ``bits[g, k]``: whether patient 8·g + i satisfies rule k.
    linear : (n_rows, n_linear) float64
    matrix : (n_rows, n_terms) float64 or None
        The same as a plain matrix, where it was asked for and small enough.
    """

    n_rows: int
    bits: Bits
    linear: Floats
    matrix: Floats | None = None

    @property
    def n_rules(self) -> int:
        """The number of rule columns."""
        return int(self.bits.shape[1])

    @property
    def n_terms(self) -> int:
        """Intercept, rules and linear terms."""
        return 1 + self.n_rules + int(self.linear.shape[1])

    def dot(self, coef: Floats) -> Floats:
        """Return X·w, shape (n_rows,)."""
        if self.matrix is not None:
            product: Floats = self.matrix @ coef
            return product
        rules, linear = coef[1 : 1 + self.n_rules], coef[1 + self.n_rules :]
        predictor: Floats = coef[0] + self.linear @ linear + self._dot_rules(rules)
        return predictor

    def predictor(self, coef: Floats) -> Floats:
        """Return X·w, shape (n_rows,): each patient's depends on that patient alone.

        Coefficients are rounded (:func:`~fedrulefit.core.fixed.round_coef`), so that rules
        add up exactly in whatever order the library adds them.
        """
        rounded = round_coef(coef)
        predictor: Floats = rounded[0] + self._dot_rules(rounded[1 : 1 + self.n_rules])
        for column, slope in zip(self.linear.T, rounded[1 + self.n_rules :], strict=True):
            predictor += slope * column
        return predictor

    def _dot_rules(self, coef: Floats) -> Floats:
        """Return the rules' part of X·w, shape (n_rows,), a block of patients at a time."""
        predictor = np.zeros(self.n_rows)
        used = np.flatnonzero(coef)
        if len(used):
            step = max(1, BLOCK_CELLS // (8 * len(used)))
            for start in range(0, len(self.bits), step):
                rows = slice(8 * start, min(8 * (start + step), self.n_rows))
                block = _unpack(self.bits[start : start + step, used], rows.stop - rows.start)
                predictor[rows] = block @ coef[used]
        return predictor

    def transpose_dot(self, vector: Floats) -> Floats:
        """Return Xᵀ·v, shape (n_terms,)."""
        if self.matrix is not None:
            product: Floats = vector @ self.matrix
            return product
        rules = _sum_rules(self.bits, vector)
        return np.concatenate([[vector.sum()], rules, vector @ self.linear])

    def sum_columns(self, units: Floats, bounds: Floats) -> Ints:
        """Return Xᵀ·v exactly, shape (n_terms,).

        Parameters
        ----------
        units : (n_rows,) float64
            Whole numbers.
        bounds : (n_terms,) float64
            Largest size of each term; 1 for intercept and rules. A linear term is divided
            by it, and its product rounded to a whole number for each patient.
        """
        total = np.zeros(self.n_terms, dtype=np.int64)
        total[0] = units.astype(np.int64).sum()
        step = _exact_rows(float(np.abs(units).max(initial=1.0)))
        for start in range(0, self.n_rows, step):
            bits = self.bits[start // 8 : (start + step) // 8]
            rules = _sum_rules(bits, units[start : start + step])
            total[1 : 1 + self.n_rules] += rules.astype(np.int64)
        scaled = self.linear / bounds[1 + self.n_rules :]
        products = np.rint(units[:, None] * scaled).astype(np.int64)
        total[1 + self.n_rules :] = products.sum(axis=0)
        return total

    def sum_squares(self, roots: Floats, bounds: Floats) -> Ints:
        """Return Bᵀ·B exactly, shape (n_terms, n_terms), with whole numbers B = [2²⁰·root·x/bound].

        Parameters
        ----------
        roots : (n_rows,) float64
            Root of what each patient counts.
        bounds : (n_terms,) float64
            Largest size of each term; 1 for intercept and rules.
        """
        scaled = roots * 2.0**ROOT_BITS
        whole = np.rint(scaled)
        linear = np.rint(scaled[:, None] * (self.linear / bounds[1 + self.n_rules :]))
        largest = max(float(np.abs(x).max(initial=1.0)) for x in (whole, linear))
        total = np.zeros((self.n_terms, self.n_terms), dtype=np.int64)
        step = min(max(1, BLOCK_CELLS // (8 * self.n_terms)), _exact_rows(largest**2) // 8)
        for start in range(0, len(self.bits), step):
            rows = slice(8 * start, min(8 * (start + step), self.n_rows))
            n_rows = rows.stop - rows.start
            block = np.empty((n_rows, self.n_terms))
            block[:, 0] = whole[rows]
            block[:, 1 : 1 + self.n_rules] = _unpack(self.bits[start : start + step], n_rows)
            block[:, 1 : 1 + self.n_rules] *= whole[rows, None]
            block[:, 1 + self.n_rules :] = linear[rows]
            total += (block.T @ block).astype(np.int64)
        return total

    def dense_rules(self) -> Floats:
        """Return the rule columns as a matrix: for few patients or few rules."""
        return _unpack(self.bits, self.n_rows)

    def take(self, terms: Ints) -> Design:
        """Return the design of some terms; the intercept must come first."""
        if len(terms) == 0 or terms[0] != 0:
            raise ValueError("the intercept must be the first term")
        is_rule = (terms > 0) & (terms <= self.n_rules)
        linear = terms[terms > self.n_rules] - 1 - self.n_rules
        bits = np.ascontiguousarray(self.bits[:, terms[is_rule] - 1])
        return Design(self.n_rows, bits, self.linear[:, linear])

    @cached_property
    def largest(self) -> Floats:
        """The largest size of each column's entries, shape (n_terms,)."""
        linear = np.abs(self.linear).max(axis=0, initial=0.0)
        return np.concatenate([np.ones(1 + self.n_rules), linear])

    def unpacked(self) -> Design:
        """Return the same design as a plain matrix, unless that would be large."""
        if self.n_rows * self.n_terms > MATRIX_CELLS:
            return self
        matrix = np.hstack([np.ones((self.n_rows, 1)), self.dense_rules(), self.linear])
        return Design(self.n_rows, self.bits, self.linear, matrix)


def build_design(codes: Codes, rules: Sequence[Rule], linear: Floats) -> Design:
    """Evaluate `rules` on the patients, one bit each.

    Every distinct condition is evaluated once; a rule is the bitwise *and* of
    its conditions.
    """
    n_rows = len(codes)
    n_bytes = -(-n_rows // 8)
    known: dict[Condition, Bits] = {}
    bits = np.empty((n_bytes, len(rules)), dtype=np.uint8)
    for k, rule in enumerate(rules):
        column = np.full(n_bytes, 255, dtype=np.uint8)
        for condition in rule:
            if condition not in known:
                hit = condition.table()[codes[:, condition.feature]]
                known[condition] = np.packbits(hit, bitorder="little")
            column &= known[condition]
        bits[:, k] = column
    return Design(n_rows, bits, linear)


def _sum_rules(bits: Bits, vector: Floats) -> Floats:
    """Return the rules' part of Xᵀ·v, shape (n_rules,)."""
    padded = np.zeros(8 * len(bits))
    padded[: len(vector)] = vector
    rules = np.zeros(bits.shape[1])
    for start in range(0, len(bits), _TABLES):
        eights = padded[8 * start : 8 * (start + _TABLES)].reshape(-1, 8)
        for sums, byte in zip(eights @ _SUBSETS, bits[start:], strict=False):
            rules += sums[byte]
    return rules


def _exact_rows(largest: float) -> int:
    """Return how many patients' whole numbers add up exactly as floats: a multiple of 8."""
    return 8 * int(EXACT / largest // 8)


def _unpack(packed: Bits, n_rows: int) -> Floats:
    unpacked = np.unpackbits(packed, axis=0, count=n_rows, bitorder="little")
    return unpacked.astype(np.float64)
