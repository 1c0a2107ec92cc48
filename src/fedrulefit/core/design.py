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

Oracle: the dense matrix (``tests/properties/test_design.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bits, Codes, Floats, Ints
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
        predictor: Floats = coef[0] + self.linear @ linear
        used = np.flatnonzero(rules)
        if len(used):
            step = max(1, BLOCK_CELLS // (8 * len(used)))
            for start in range(0, len(self.bits), step):
                rows = slice(8 * start, min(8 * (start + step), self.n_rows))
                block = _unpack(self.bits[start : start + step, used], rows.stop - rows.start)
                predictor[rows] += block @ rules[used]
        return predictor

    def transpose_dot(self, vector: Floats) -> Floats:
        """Return Xᵀ·v, shape (n_terms,)."""
        if self.matrix is not None:
            product: Floats = vector @ self.matrix
            return product
        padded = np.zeros(8 * len(self.bits))
        padded[: self.n_rows] = vector
        rules = np.zeros(self.n_rules)
        for start in range(0, len(self.bits), _TABLES):
            eights = padded[8 * start : 8 * (start + _TABLES)].reshape(-1, 8)
            for sums, byte in zip(eights @ _SUBSETS, self.bits[start:], strict=False):
                rules += sums[byte]
        return np.concatenate([[vector.sum()], rules, vector @ self.linear])

    def gram(self, weights: Floats) -> Floats:
        """Return Xᵀ·diag(weights)·X, shape (n_terms, n_terms), a block at a time."""
        total = np.zeros((self.n_terms, self.n_terms))
        step = max(1, BLOCK_CELLS // (8 * self.n_terms))
        for start in range(0, len(self.bits), step):
            rows = slice(8 * start, min(8 * (start + step), self.n_rows))
            n_rows = rows.stop - rows.start
            block = np.empty((n_rows, self.n_terms))
            block[:, 0] = 1.0
            block[:, 1 : 1 + self.n_rules] = _unpack(self.bits[start : start + step], n_rows)
            block[:, 1 + self.n_rules :] = self.linear[rows]
            block *= np.sqrt(weights[rows])[:, None]
            total += block.T @ block
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


def _unpack(packed: Bits, n_rows: int) -> Floats:
    unpacked = np.unpackbits(packed, axis=0, count=n_rows, bitorder="little")
    return unpacked.astype(np.float64)
