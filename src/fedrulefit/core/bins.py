r"""The public histogram bins of covariates, and what a site counts in them.

Paper 2.2.1 (pre-processing), the site's part.

In: a site's values, shape (n_rows, n_features), with NaN for missing; a category is its
level's position, yes/no is 1/0. Out: counts, and sums for exact spreads.

Leaves the site: the histogram counts (with noise, :mod:`fedrulefit.privacy`) and, only where
the study asks for exact spreads, three sums per number.

=============================  ====================  =======================
paper                          here                  shape
=============================  ====================  =======================
:math:`\tilde h_b`             ``Bins.edges``        (n_bins + 1,)
:math:`H_b^{(m)}`              count_histograms      (n_cells,) int64
:math:`s_j^*`                  find_spreads          (n_features,)
=============================  ====================  =======================

Departures
----------
* Boundaries are public and values outside are counted in the end bins (erratum 8).
* A histogram has one more cell for missing values. A patient still stands in
  exactly one cell, so the sensitivity stays 1.
* With ``step`` (a score in whole points) a cut-off is moved up to the next
  multiple: the rule holds for the same patients and reads ``GCS ≥ 6``.
* Cut-offs at the upper end of the range are dropped: no declared value lies
  beyond them.
* Where cut-offs are round numbers, so are the edges (:mod:`fedrulefit.core.ladder`): what lies
  between two cut-offs is then a sum of bins.
* An exact spread is that of all patients, about their common mean. The paper pools
  squares about each site's own mean, which tell of single sites.

Oracles: naive loops and closed forms (``tests/unit/core/test_bins.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.fixed import FINE_BITS, add_units
from fedrulefit.core.sums import Packing, Sum, quantity

Kind = Literal["number", "category", "ordered", "yes/no"]
"""The kind of a covariate."""

Style = Literal["round", "quantile"]
"""Which numbers become cut-offs, where the study does not fix them."""


@dataclass(frozen=True, eq=False)
class Bins:
    """The public histogram of one covariate.

    Parameters
    ----------
    kind : {"number", "category", "ordered", "yes/no"}
    edges : (n_bins + 1,) float64
        Bin b holds values in [edges[b], edges[b + 1]).
    cutoffs : (n_cutoffs,) float64 or None
        Public cut-offs, where they are not to be estimated.
    step : float or None
        Values are multiples of this, if given.
    complete : bool
        Whether missing values are impossible.
    added : tuple of float
        Public cut-offs beside those that are estimated; increasing.
    """

    kind: Kind
    edges: Floats
    cutoffs: Floats | None
    step: float | None
    complete: bool
    added: tuple[float, ...] = ()

    @classmethod
    def numeric(
        cls, edges: Floats, *, cutoffs: Floats | None, step: float | None, complete: bool
    ) -> Bins:
        """Bins of a number."""
        return cls("number", np.asarray(edges, np.float64), cutoffs, step, complete)

    @classmethod
    def categorical(cls, n_levels: int, *, complete: bool) -> Bins:
        """One bin per level, at the level's position."""
        edges = np.arange(n_levels + 1, dtype=np.float64) - 0.5
        return cls("category", edges, None, None, complete)

    @classmethod
    def ranked(cls, n_levels: int, *, complete: bool) -> Bins:
        """One bin per level, at its place in their order, with a cut-off between neighbours."""
        edges = np.arange(n_levels + 1, dtype=np.float64) - 0.5
        return cls("ordered", edges, edges[1:-1], None, complete)

    @classmethod
    def binary(cls, *, complete: bool) -> Bins:
        """Bins of no = 0 and yes = 1, with the cut-off between them."""
        edges = np.array([-0.5, 0.5, 1.5])
        return cls("yes/no", edges, np.array([0.5]), None, complete)

    def with_cutoffs(self, values: Sequence[float]) -> Bins:
        """Return the bins of a number that has some cut-offs whatever is estimated."""
        if self.kind != "number":
            return self
        if self.cutoffs is not None:
            return replace(self, cutoffs=np.union1d(self.cutoffs, values))
        return replace(self, added=tuple(sorted({*self.added, *values})))

    @property
    def n_bins(self) -> int:
        """Cells for values."""
        return len(self.edges) - 1

    @property
    def n_cells(self) -> int:
        """Cells for values and, unless complete, one for missing values."""
        return self.n_bins + (not self.complete)

    @property
    def midpoints(self) -> Floats:
        """The middle of every bin, shape (n_bins,)."""
        return 0.5 * (self.edges[:-1] + self.edges[1:])

    @property
    def middles(self) -> Floats:
        """The middle of the values that a bin can hold, shape (n_bins,)."""
        if self.step is None:
            return self.midpoints
        ends = self.edges[1:].copy()
        ends[-1] += 1e-6 * self.step  # the last bin holds its upper end, too
        last = _next_multiples(ends - self.step, self.step)
        return 0.5 * (self.samples + np.maximum(last, self.samples))

    @property
    def samples(self) -> Floats:
        """A value of every bin that can occur, shape (n_bins,): no cut-off parts it from others."""
        return self.midpoints if self.step is None else _next_multiples(self.edges[:-1], self.step)

    def clip(self, value: float) -> float:
        """Return the value, or the end of the public range that it lies beyond."""
        return float(np.clip(value, self.edges[0], self.edges[-1]))

    @property
    def centre(self) -> float:
        """The middle of the public range."""
        return 0.5 * float(self.edges[0] + self.edges[-1])

    @property
    def half(self) -> float:
        """Half the width of the public range."""
        return 0.5 * float(self.edges[-1] - self.edges[0])


def count_histograms(values: Floats, units: Ints, bins: Sequence[Bins]) -> Ints:
    """Count patients per cell, all covariates one after another.

    Parameters
    ----------
    values : (n_rows, n_features) float64
    units : (n_rows,) int64
        What each patient counts; 1 without weights.
    bins : the public bins of every covariate

    Returns
    -------
    counts : (n_cells,) int64
        Per covariate its bins and, unless complete, its missing cell last.
    """
    parts = []
    for j, b in enumerate(bins):
        column = values[:, j]
        missing = np.isnan(column)
        cell = np.searchsorted(b.edges, column, side="right") - 1
        cell = np.where(missing, b.n_bins, np.clip(cell, 0, b.n_bins - 1))
        counts = np.zeros(b.n_bins + 1, dtype=np.int64)
        np.add.at(counts, cell, units)
        if b.complete and counts[-1]:
            raise ValueError("a missing value in a covariate that the study declares complete")
        parts.append(counts[: b.n_cells])
    return np.concatenate(parts)


def split_cells(counts: Ints, bins: Sequence[Bins]) -> list[Ints]:
    """Cut the flat counts into one array per covariate."""
    ends = np.cumsum([b.n_cells for b in bins])
    if counts.shape != (ends[-1],):
        raise ValueError(f"expected {ends[-1]} counts, got shape {counts.shape}")
    return np.split(counts, ends[:-1])


@dataclass(frozen=True, eq=False)
class SpreadSums(Sum):
    """What the spread s* of every covariate follows from.

    A value counts as z = (x − c)/h: its distance from the middle of the public range, in
    half ranges.

    Parameters
    ----------
    known : (n_features,) float64
        Patients whose value is known.
    sums, squares : (n_features,) float64
        Of z, over these patients.
    """

    known: Floats = quantity("Σ w over known values", shape="n_features", bits=FINE_BITS)
    sums: Floats = quantity("Σ w·z", shape="n_features", bits=FINE_BITS)
    squares: Floats = quantity("Σ w·z²", shape="n_features", bits=FINE_BITS)

    @classmethod
    def packing(cls, n_features: int) -> Packing[SpreadSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_features": n_features})


def sum_spreads(values: Floats, weights: Floats, bins: Sequence[Bins]) -> Ints:
    """Return the site's :class:`SpreadSums` in whole units; 0 for a category.

    Values outside the public range count as its end.
    """
    sums = np.zeros((3, len(bins)), dtype=np.int64)
    for j, b in enumerate(bins):
        if b.kind == "category":
            continue
        known = ~np.isnan(values[:, j])
        z = (np.clip(values[known, j], b.edges[0], b.edges[-1]) - b.centre) / b.half
        w = weights[known]
        sums[:, j] = [add_units(part, FINE_BITS) for part in (w, w * z, w * z**2)]
    known, first, second = sums
    return SpreadSums.packing(len(bins)).pack(known=known, sums=first, squares=second)


def find_spreads(sums: SpreadSums, bins: Sequence[Bins]) -> Floats:
    """Return s* of every covariate from the totals, shape (n_features,); 0 if unknown."""
    known = sums.known
    within = sums.squares - sums.sums**2 / np.maximum(known, 1.0)
    variance = np.maximum(within, 0.0) / np.where(known > 1, known - 1, np.inf)
    halves = np.array([b.half for b in bins])
    spreads: Floats = np.sqrt(variance) * halves
    return spreads


def public_cutoffs(bins: Bins) -> Floats:
    """Return the cut-offs that the study fixes; else all that its bins could give."""
    if bins.cutoffs is not None:
        return bins.cutoffs
    return np.union1d(useful_cutoffs(bins.edges, bins), bins.added)


def public_cells(column: Floats, bins: Bins) -> Ints:
    """Return the cell of each value, which no public cut-off or limit parts; −1 if missing.

    Values outside the public range count as its end.
    """
    points = np.union1d(bins.edges, public_cutoffs(bins))
    cells = np.searchsorted(points, np.clip(column, points[0], points[-1]), side="right")
    return np.where(np.isnan(column), -1, cells).astype(np.int64)


def useful_cutoffs(edges: Floats, bins: Bins) -> Floats:
    """Edges as cut-offs: on values that occur, and with something on either side."""
    cutoffs = edges
    if bins.step is not None:
        cutoffs = _next_multiples(cutoffs, bins.step)
    inside = (cutoffs > bins.edges[0]) & (cutoffs < bins.edges[-1])
    if bins.step is not None:
        # The highest score itself is a value that occurs: keep `≥ highest`.
        inside |= cutoffs == bins.edges[-1]
    return np.unique(cutoffs[inside])


def _next_multiples(values: Floats, step: float) -> Floats:
    multiples = np.ceil(values / step - 1e-9) * step
    # As a file writes it: 3 · 0.1 is above 0.3, and ceil(−0.3) is −0.
    return np.array([float(f"{m:.12g}") for m in multiples]) + 0.0
