r"""Rules and linear terms of one site's patients: the design matrix.

In: codes, rules and linear values. Out: a :class:`Design` that multiplies
vectors. Nothing here leaves the site.

Columns come in the order of the coefficient vector: baseline, rules, linear terms
(:mod:`fedrulefit.core.layout`). The baseline is a block of any columns that are always in the
model; by default one of ones, the intercept. Where each of several begins a predictor of its own
(``parts``), patient i has the predictors :math:`F_{ik} = a_k + f_i`, as if the patient stood in a
row for each k; vectors over patients then have shape (n_rows, parts).

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
:meth:`Design.sum_columns` and :meth:`Design.sum_products`. All their sums are of whole
numbers below 2⁵³, exact in any order.

Oracles: the dense matrix (``tests/properties/test_design.py``), and Python's integers
(``tests/properties/test_splits.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bits, Bools, Codes, Floats, Ints
from fedrulefit.core.fixed import EXACT, ROOT_BITS, round_coef
from fedrulefit.core.layout import Layout
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
    baseline : (n_rows, n_baseline) float64
    bits : (n_bytes, n_rules) uint8
        Bit i of ``bits[g, k]``: whether patient 8·g + i satisfies rule k.
    linear : (n_rows, n_linear) float64
    matrix : (n_rows, n_terms) float64 or None
        The same as a plain matrix, where it was asked for and small enough.
    parts : int
        Predictors of each patient; where several, one for each column of a baseline of ones.
    """

    baseline: Floats
    bits: Bits
    linear: Floats
    matrix: Floats | None = None
    parts: int = 1

    def __post_init__(self) -> None:
        if self.parts not in (1, self.baseline.shape[1]):
            raise ValueError("several predictors need a baseline column each")

    @property
    def n_rows(self) -> int:
        """The number of patients."""
        return len(self.baseline)

    @cached_property
    def layout(self) -> Layout:
        """Where baseline, rules and linear terms stand among the columns."""
        return Layout(self.baseline.shape[1], self.bits.shape[1], self.linear.shape[1])

    @property
    def n_terms(self) -> int:
        """All columns."""
        return self.layout.n_terms

    @property
    def _plain(self) -> tuple[tuple[Floats, slice], ...]:
        """The blocks that are kept as numbers, and their terms."""
        return (self.baseline, self.layout.baseline), (self.linear, self.layout.linear)

    def dot(self, coef: Floats) -> Floats:
        """Return X·w, shape (n_rows,)."""
        if self.matrix is not None:
            product: Floats = self.matrix @ coef
            return product
        at = self.layout
        predictor: Floats = (
            self.baseline @ coef[at.baseline]
            + self.linear @ coef[at.linear]
            + self._dot_rules(coef[at.rules])
        )
        return predictor

    def predictor(self, coef: Floats) -> Floats:
        """Return X·w, shape (n_rows,) or (n_rows, parts): each patient's own.

        Coefficients are rounded (:func:`~fedrulefit.core.fixed.round_coef`), so that rules
        add up exactly in whatever order the library adds them.
        """
        rounded, at = round_coef(coef), self.layout
        predictor = self._dot_rules(rounded[at.rules])
        for block, own in self._plain[self.parts > 1 :]:
            for column, slope in zip(block.T, rounded[own], strict=True):
                predictor += slope * column
        if self.parts > 1:
            return np.add.outer(predictor, rounded[at.baseline])
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
        # One column at a time: numpy then adds pairwise, as it does without a column of ones.
        baseline = np.array([(vector * column).sum() for column in self.baseline.T])
        return self.layout.join(baseline, _sum_rules(self.bits, vector), vector @ self.linear)

    def sum_columns(self, units: Floats, bounds: Floats) -> Ints:
        """Return Xᵀ·v exactly, shape (n_terms,).

        Parameters
        ----------
        units : (n_rows,) or (n_rows, parts) float64
            Whole numbers.
        bounds : (n_terms,) float64
            Largest size of each term; 1 for rules. Other terms are divided by it, and their
            products rounded to a whole number for each patient.
        """
        at = self.layout
        if units.ndim > 1:
            total = self.sum_columns(units.sum(axis=1), bounds)
            total[at.baseline] = units.astype(np.int64).sum(axis=0)
            return total
        total = np.zeros(at.n_terms, dtype=np.int64)
        step = _exact_rows(float(np.abs(units).max(initial=1.0)))
        for start in range(0, self.n_rows, step):
            bits = self.bits[start // 8 : (start + step) // 8]
            rules = _sum_rules(bits, units[start : start + step])
            total[at.rules] += rules.astype(np.int64)
        for block, own in self._plain:
            # Few patients at a time: of many columns, all of them would not fit the cache.
            few = min(step, max(8, BLOCK_CELLS // (64 * max(1, block.shape[1]))))
            for start in range(0, self.n_rows, few):
                rows = slice(start, start + few)
                products = block[rows] / bounds[own]
                products *= units[rows, None]
                total[own] += np.rint(products, out=products).sum(axis=0).astype(np.int64)
        return total

    def sum_products(self, curvature: Floats, bounds: Floats) -> Ints:
        """Return Xᵀ·V·X exactly, shape (n_terms, n_terms), in units of 2⁻⁴⁰ of bound × bound.

        Parameters
        ----------
        curvature : (n_rows,) or (n_rows, parts) float64
            What each patient counts, not negative.
        bounds : (n_terms,) float64
            Largest size of each term; 1 for rules and baselines of several parts.
        """
        if curvature.ndim == 1:
            return self.sum_squares(np.sqrt(curvature), bounds)
        at, whole = self.layout, curvature.sum(axis=1)
        roots = np.sqrt(whole)
        total = self.sum_squares(roots, bounds)
        # The parts of what the rounded root counts, not of the root itself: else the matrix
        # could have a direction of negative curvature.
        counted = np.rint(roots * 2.0**ROOT_BITS) ** 2 / np.maximum(whole, 1e-300)
        total[at.baseline] = total[:, at.baseline] = 0
        units = np.rint(curvature * counted[:, None])
        total[at.baseline, at.baseline] = np.diag(units.astype(np.int64).sum(axis=0))
        for own, crossed in (
            (at.rules, self._cross_rules(units)),
            (at.linear, self._cross_linear(units, bounds[at.linear])),
        ):
            total[own, at.baseline], total[at.baseline, own] = crossed, crossed.T
        return total

    def _cross_rules(self, units: Floats) -> Ints:
        """Return each rule's sums of each column of whole numbers, exactly, (n_rules, n_columns).

        For the few rules of a Hessian: as matrices they are faster than byte by byte.
        """
        total = np.zeros((self.bits.shape[1], units.shape[1]), dtype=np.int64)
        step = min(
            max(1, BLOCK_CELLS // (8 * max(1, self.bits.shape[1]))),
            _exact_rows(float(np.abs(units).max(initial=1.0))) // 8,
        )
        for start in range(0, len(self.bits), step):
            rows = slice(8 * start, min(8 * (start + step), self.n_rows))
            block = _unpack(self.bits[start : start + step], rows.stop - rows.start)
            total += (block.T @ units[rows]).astype(np.int64)
        return total

    def _cross_linear(self, units: Floats, bounds: Floats) -> Ints:
        """Return the same of the linear terms, each patient's product rounded."""
        total = np.zeros((len(bounds), units.shape[1]), dtype=np.int64)
        shares = self.linear / bounds
        for k, column in enumerate(units.T):
            total[:, k] = np.rint(shares * column[:, None]).astype(np.int64).sum(axis=0)
        return total

    def sum_squares(self, roots: Floats, bounds: Floats) -> Ints:
        """Return Bᵀ·B exactly, shape (n_terms, n_terms), with whole numbers B = [2²⁰·root·x/bound].

        Parameters
        ----------
        roots : (n_rows,) float64
            Root of what each patient counts.
        bounds : (n_terms,) float64
            Largest size of each term; 1 for rules.
        """
        at, scaled = self.layout, roots * 2.0**ROOT_BITS
        whole = np.rint(scaled)
        baseline, linear = (
            np.rint(scaled[:, None] * (block / bounds[own])) for block, own in self._plain
        )
        largest = max(float(np.abs(x).max(initial=1.0)) for x in (baseline, whole, linear))
        total = np.zeros((at.n_terms, at.n_terms), dtype=np.int64)
        step = min(max(1, BLOCK_CELLS // (8 * at.n_terms)), _exact_rows(largest**2) // 8)
        for start in range(0, len(self.bits), step):
            rows = slice(8 * start, min(8 * (start + step), self.n_rows))
            n_rows = rows.stop - rows.start
            block = np.empty((n_rows, at.n_terms))
            block[:, at.baseline] = baseline[rows]
            block[:, at.rules] = _unpack(self.bits[start : start + step], n_rows)
            block[:, at.rules] *= whole[rows, None]
            block[:, at.linear] = linear[rows]
            total += (block.T @ block).astype(np.int64)
        return total

    def dense_rules(self) -> Floats:
        """Return the rule columns as a matrix: for few patients or few rules."""
        return _unpack(self.bits, self.n_rows)

    def rule_blocks(self) -> Iterator[tuple[slice, Bools]]:
        """Yield which patients satisfy some of the rules, shape (n_rows, n_some), and which."""
        n_rules = self.layout.n_rules
        step = max(1, 8 * BLOCK_CELLS // max(self.n_rows, 1))
        for start in range(0, n_rules, step):
            rules = slice(start, min(start + step, n_rules))
            packed = self.bits[:, rules]
            block = np.unpackbits(packed, axis=0, count=self.n_rows, bitorder="little")
            yield rules, block.astype(np.bool_)

    def take(self, terms: Ints) -> Design:
        """Return the design of some terms, increasing; the whole baseline is among them."""
        if not self.layout.holds(terms):
            raise ValueError("terms must begin with the whole baseline, and increase")
        bits = np.ascontiguousarray(self.bits[:, self.layout.rules_among(terms)])
        linear = self.linear[:, self.layout.linear_among(terms)]
        return Design(self.baseline, bits, linear, parts=self.parts)

    @cached_property
    def largest(self) -> Floats:
        """The most that each column's entries can measure, shape (n_terms,)."""
        baseline = np.abs(self.baseline).max(axis=0, initial=1.0)
        linear = np.abs(self.linear).max(axis=0, initial=0.0)
        return self.layout.join(baseline, np.ones(self.layout.n_rules), linear)

    def unpacked(self) -> Design:
        """Return the same design as a plain matrix, unless that would be large."""
        if self.n_rows * self.n_terms > MATRIX_CELLS or self.parts > 1:
            return self
        matrix = np.hstack([self.baseline, self.dense_rules(), self.linear])
        return Design(self.baseline, self.bits, self.linear, matrix)


def build_design(
    codes: Codes,
    rules: Sequence[Rule],
    linear: Floats,
    baseline: Floats | None = None,
    *,
    parts: int = 1,
) -> Design:
    """Evaluate `rules` on the patients, one bit each.

    Without `baseline`, shape (n_rows, n_baseline), the design has a column of ones for each of
    the patients' predictors (`parts`): the intercept, where there is one.

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
    own = np.ones((n_rows, parts)) if baseline is None else baseline
    return Design(own, bits, linear, parts=parts)


def intercept(n_rows: int) -> Floats:
    """Return the baseline of one column of ones."""
    return np.ones((n_rows, 1))


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
