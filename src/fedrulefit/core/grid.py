r"""Histograms → shared cut-offs, winsor limits and spreads; values → codes.

Paper 2.2.1 (pre-processing) and the linear terms of 2.1.

In: a site's values, shape (n_rows, n_features), with NaN for missing; a
category is its level's position, yes/no is 1/0. Out: a :class:`Grid`, on which
every patient becomes a row of uint8 codes.

Leaves the site: the histogram counts (with noise, :mod:`fedrulefit.privacy`)
and, only where the study asks for exact spreads, three sums per number.

=============================  ====================  =======================
paper                          here                  shape
=============================  ====================  =======================
:math:`\tilde h_b`             ``Bins.edges``        (n_bins + 1,)
:math:`H_b^{(m)}`              count_histograms      (n_cells,) int64
:math:`\hat F(\tilde h_b)`     ``_distribution``     (n_bins,)
:math:`\hat q_\tau`            ``_quantile``         scalar
:math:`\mathcal C_j`           ``Axis.cutoffs``      (n_cutoffs,)
:math:`\delta_j^\pm`           ``Axis.limits``       2
:math:`s_j^*`                  ``Axis.spread``       scalar
:math:`l_j(x_j)`               linear_values         (n_rows, n_linear)
=============================  ====================  =======================

Departures
----------
* A quantile is the *upper* edge of its bin (erratum 7); boundaries are public
  and values outside are counted in the end bins (erratum 8); the summed counts
  are mended before the CDF (erratum 9).
* A histogram has one more cell for missing values. A patient still stands in
  exactly one cell, so the sensitivity stays 1.
* With ``step`` (a score in whole points) a cut-off is moved up to the next
  multiple: the rule holds for the same patients and reads ``GCS ≥ 6``.
* Cut-offs at the upper end of the range are dropped: no declared value lies
  beyond them.
* An exact spread is that of all patients, about their common mean. The paper pools
  squares about each site's own mean, which tell of single sites.
* A spread is never so small that a linear term is larger than 64: sums over patients
  are bounded on public grounds (:mod:`fedrulefit.core.fixed`).

Oracles: :func:`numpy.quantile` on fine bins, naive loops, closed forms
(``tests/unit/core/test_grid.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from fedrulefit.core.arrays import MAX_CODES, MISSING, Codes, Floats, Ints
from fedrulefit.core.fixed import FINE_BITS, LARGEST_TERM, add_units, from_units
from fedrulefit.core.layout import Layout

RULE_SPREAD: Final = 0.4
"""Average standard deviation of a rule with support ~ U(0, 1) (paper 2.1)."""

Kind = Literal["number", "category", "yes/no"]


@dataclass(frozen=True, eq=False)
class Bins:
    """The public histogram of one covariate.

    Parameters
    ----------
    kind : {"number", "category", "yes/no"}
    edges : (n_bins + 1,) float64
        Bin b holds values in [edges[b], edges[b + 1]).
    cutoffs : (n_cutoffs,) float64 or None
        Public cut-offs, where they are not to be estimated.
    step : float or None
        Values are multiples of this, if given.
    complete : bool
        Whether missing values are impossible.
    """

    kind: Kind
    edges: Floats
    cutoffs: Floats | None
    step: float | None
    complete: bool

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
    def binary(cls, *, complete: bool) -> Bins:
        """Bins of no = 0 and yes = 1, with the cut-off between them."""
        edges = np.array([-0.5, 0.5, 1.5])
        return cls("yes/no", edges, np.array([0.5]), None, complete)

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


@dataclass(frozen=True, eq=False)
class Axis:
    """One covariate on the shared grid.

    Parameters
    ----------
    kind : {"number", "category", "yes/no"}
    cutoffs : (n_codes - 1,) float64
        Increasing; empty for a category.
    n_codes : int
        Number of codes a value can have.
    complete : bool
        Whether missing values are impossible.
    limits : (float, float)
        Winsor limits δ⁻, δ⁺ of the linear term.
    spread : float
        s*; 0 means that there is no linear term.
    centre : float
        Subtracted from the winsorised value.
    fill : float
        What a missing value counts as in the linear term.
    """

    kind: Kind
    cutoffs: Floats
    n_codes: int
    complete: bool
    limits: tuple[float, float] = (0.0, 0.0)
    spread: float = 0.0
    centre: float = 0.0
    fill: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.n_codes <= MAX_CODES:
            raise ValueError(f"a covariate has 1 to {MAX_CODES} codes, not {self.n_codes}")
        if self.ordered and len(self.cutoffs) != self.n_codes - 1:
            raise ValueError("an ordered covariate has one code more than cut-offs")
        if not (np.diff(self.cutoffs) > 0).all():
            raise ValueError("cut-offs must increase")
        if self.spread < 0 or self.limits[0] > self.limits[1]:
            raise ValueError("spread must not be negative, nor the limits reversed")

    @property
    def ordered(self) -> bool:
        """Whether conditions are intervals (not sets of levels)."""
        return self.kind != "category"

    @property
    def has_linear(self) -> bool:
        """Whether the covariate has a linear term."""
        return self.ordered and self.spread > 0 and self.limits[0] < self.limits[1]

    @property
    def largest(self) -> float:
        """The largest size of the linear term, whatever the value."""
        reach = max(abs(value - self.centre) for value in (*self.limits, self.fill))
        return RULE_SPREAD * reach / self.spread

    @property
    def every_code(self) -> int:
        """The bit set of all codes that can occur."""
        present = (1 << self.n_codes) - 1
        return present if self.complete else present | 1 << MISSING


@dataclass(frozen=True, eq=False)
class Grid:
    """All covariates on the shared grid."""

    axes: tuple[Axis, ...]

    @property
    def linear(self) -> tuple[int, ...]:
        """Positions of the covariates that have a linear term."""
        return tuple(j for j, axis in enumerate(self.axes) if axis.has_linear)


@dataclass(frozen=True, eq=False)
class SpreadUnits:
    """Sums from which s* follows, in units of 2⁻⁴⁰; all add up over sites.

    A value counts as z = (x − c)/h: its distance from the middle of the public range, in
    half ranges.

    Parameters
    ----------
    known : (n_features,) int64
        Patients whose value is known.
    sums, squares : (n_features,) int64
        Of z, over these patients.
    """

    known: Ints
    sums: Ints
    squares: Ints


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


def sum_spreads(values: Floats, weights: Floats, bins: Sequence[Bins]) -> SpreadUnits:
    """Return the site's sums for the spread of every ordered covariate.

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
    return SpreadUnits(*sums)


def read_spreads(units: SpreadUnits, bins: Sequence[Bins]) -> Floats:
    """Return s* of every covariate from the totals, shape (n_features,); 0 if unknown."""
    parts = (units.known, units.sums, units.squares)
    known, sums, squares = (from_units(part, FINE_BITS) for part in parts)
    within = squares - sums**2 / np.maximum(known, 1.0)
    variance = np.maximum(within, 0.0) / np.where(known > 1, known - 1, np.inf)
    halves = np.array([b.half for b in bins])
    spreads: Floats = np.sqrt(variance) * halves
    return spreads


def estimate_grid(
    counts: Ints,
    bins: Sequence[Bins],
    *,
    n_cutoffs: int,
    winsor: float,
    repair: Literal["clip", "project"],
    centre: bool,
    spreads: Floats | None,
) -> Grid:
    """Turn summed (noisy) counts into the shared grid.

    Parameters
    ----------
    counts : (n_cells,) int64
        Summed over sites; may be negative where noise was added.
    spreads : (n_features,) float64 or None
        Exact spreads; ``None`` derives them from the counts.
    """
    axes = []
    for j, (cells, b) in enumerate(zip(split_cells(counts, bins), bins, strict=True)):
        mended = repair_counts(cells, repair)[: b.n_bins]
        total = mended.sum()
        share = mended / total if total > 0 else np.full(b.n_bins, 1 / b.n_bins)
        mean = float(share @ b.midpoints)
        if spreads is None:
            spread = float(np.sqrt(share @ (b.midpoints - mean) ** 2))
        else:
            spread = float(spreads[j])
        limits = (float(b.edges[0]), float(b.edges[-1]))
        if winsor > 0:
            limits = (_quantile(share, b, winsor), _quantile(share, b, 1 - winsor))
        cutoffs = _cutoffs(share, b, n_cutoffs)
        axes.append(_build_axis(b, cutoffs, limits, mean, spread, centre=centre))
    return Grid(tuple(axes))


def exact_grid(
    values: Floats,
    weights: Floats,
    bins: Sequence[Bins],
    *,
    n_cutoffs: int,
    winsor: float,
    centre: bool,
) -> Grid:
    """Return the grid of pooled data: no histogram, no noise.

    Every distinct value but the lowest is a cut-off while these are at most
    `n_cutoffs`; beyond that, as many weighted quantiles.
    """
    levels = np.arange(1, n_cutoffs + 1) / (n_cutoffs + 1)
    axes = []
    for j, b in enumerate(bins):
        known = ~np.isnan(values[:, j])
        if not known.any():
            axes.append(_build_axis(b, np.empty(0), (0.0, 0.0), 0.0, 0.0, centre=centre))
            continue
        distinct, where = np.unique(values[known, j], return_inverse=True)
        share = np.bincount(where, weights[known], minlength=len(distinct))
        share = share / share.sum()
        below = _distribution(share)
        cutoffs = distinct[1:]
        if len(cutoffs) > n_cutoffs:
            picked = np.searchsorted(below, levels - 1e-12) + 1
            # Many patients at the highest value: keep `≥ highest`.
            cutoffs = np.unique(distinct[np.minimum(picked, len(distinct) - 1)])
        low, high = np.searchsorted(below, [winsor - 1e-12, 1 - winsor - 1e-12])
        limits = (b.clip(distinct[low]), b.clip(distinct[high]))
        mean = float(share @ distinct)
        spread = _sample_spread(np.clip(values[known, j], *b.edges[[0, -1]]), weights[known])
        axes.append(_build_axis(b, cutoffs, limits, mean, spread, centre=centre))
    return Grid(tuple(axes))


def _build_axis(
    bins: Bins,
    cutoffs: Floats,
    limits: tuple[float, float],
    mean: float,
    spread: float,
    *,
    centre: bool,
) -> Axis:
    """Put together one covariate; what the study fixes wins over estimates."""
    if bins.kind == "category":
        return Axis("category", np.empty(0), bins.n_bins, bins.complete)
    if bins.kind == "yes/no":
        limits = (0.0, 1.0)
    if bins.cutoffs is not None:
        cutoffs = bins.cutoffs
    fill = float(np.clip(mean, *limits))
    middle = fill if centre else 0.0
    # A spread that is tiny beside the range would make the term larger than sums can bear.
    widest = max(abs(limit - middle) for limit in limits)
    least = RULE_SPREAD * widest / LARGEST_TERM if spread > 0 else 0.0
    return Axis(
        kind=bins.kind,
        cutoffs=cutoffs,
        n_codes=len(cutoffs) + 1,
        complete=bins.complete,
        limits=limits,
        spread=max(min(spread, 2 * bins.half), least),
        centre=middle,
        fill=fill,
    )


def repair_counts(counts: Ints, how: Literal["clip", "project"]) -> Floats:
    """Return non-negative counts near the noisy `counts`.

    ``clip`` cuts at 0. ``project`` gives the nearest non-negative counts, in
    Euclidean distance, that keep the (unbiased) noisy total: clipping alone
    adds mass to every empty bin, which pulls quantiles to the middle.
    """
    noisy = counts.astype(np.float64)
    total = noisy.sum()
    if how == "clip" or total <= 0:
        return np.maximum(noisy, 0.0)
    falling = np.sort(noisy)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    projected: Floats = np.maximum(noisy - excess[last], 0.0)
    return projected


def encode(values: Floats, grid: Grid) -> Codes:
    """Return codes, shape (n_rows, n_features): the number of cut-offs ≤ value."""
    codes = np.empty(values.shape, dtype=np.uint8)
    for j, axis in enumerate(grid.axes):
        column = values[:, j]
        missing = np.isnan(column)
        if axis.ordered:
            code = np.searchsorted(axis.cutoffs, column, side="right")
        else:
            code = np.where(missing, 0, column).astype(np.int64)
        codes[:, j] = np.where(missing, MISSING, code)
    return codes


def linear_values(values: Floats, grid: Grid) -> Floats:
    """Return the linear terms l_j(x_j), shape (n_rows, n_linear).

    Winsorised, centred where the study says so, and scaled to 0.4 / s*.
    """
    terms = np.empty((len(values), len(grid.linear)), dtype=np.float64)
    for k, j in enumerate(grid.linear):
        axis = grid.axes[j]
        known = np.where(np.isnan(values[:, j]), axis.fill, values[:, j])
        terms[:, k] = RULE_SPREAD * (np.clip(known, *axis.limits) - axis.centre) / axis.spread
    return terms


def term_bounds(grid: Grid, layout: Layout) -> Floats:
    """Return the largest size of each term, shape (n_terms,): 1 for baseline and rules."""
    linear = [grid.axes[j].largest for j in grid.linear[: layout.n_linear]]
    return layout.join(np.ones(layout.n_baseline), np.ones(layout.n_rules), np.array(linear))


def check_linear(axis: Axis, bins: Bins) -> None:
    """Refuse a linear term that leaves the public range, or is too large for sums.

    Raises
    ------
    ValueError
        If limits, centre, fill or spread are not within the public range, or the spread is
        so small beside it that a patient's value could outgrow a sum.
    """
    low, high = axis.limits
    inside = bins.edges[0] <= low and high <= bins.edges[-1] and low <= axis.fill <= high
    centred = axis.centre == 0 or low <= axis.centre <= high
    # Uncentred values far from 0 may need a spread that is wider than their range.
    least = axis.spread * axis.largest / LARGEST_TERM
    wide = axis.spread <= max(2 * bins.half, least * (1 + 1e-9))
    if not (inside and centred and wide):
        raise ValueError("the grid has a limit, centre, fill or spread outside the public range")
    if axis.spread < least * (1 - 1e-9):
        raise ValueError("the grid has a spread that is too small for its limits")


def _distribution(share: Floats) -> Floats:
    """F̂ at the upper edges: monotone, ends at 1."""
    below = np.cumsum(share)
    below[-1] = 1.0
    capped: Floats = np.minimum(below, 1.0)
    return capped


def _quantile(share: Floats, bins: Bins, level: float) -> float:
    """The upper edge of the first bin whose F̂ reaches `level`."""
    first = int(np.searchsorted(_distribution(share), level - 1e-12))
    return float(bins.edges[min(first, bins.n_bins - 1) + 1])


def _cutoffs(share: Floats, bins: Bins, n_cutoffs: int) -> Floats:
    levels = np.arange(1, n_cutoffs + 1) / (n_cutoffs + 1)
    return _useful_cutoffs(np.array([_quantile(share, bins, level) for level in levels]), bins)


def _useful_cutoffs(edges: Floats, bins: Bins) -> Floats:
    """Edges as cut-offs: on values that occur, and with something on either side."""
    cutoffs = edges
    if bins.step is not None:
        multiple = np.ceil(cutoffs / bins.step - 1e-9)
        # As a file writes it: 3 · 0.1 is above 0.3, and ceil(−0.3) is −0.
        cutoffs = np.array([float(f"{c:.12g}") for c in multiple * bins.step]) + 0.0
    inside = (cutoffs > bins.edges[0]) & (cutoffs < bins.edges[-1])
    if bins.step is not None:
        # The highest score itself is a value that occurs: keep `≥ highest`.
        inside |= cutoffs == bins.edges[-1]
    return np.unique(cutoffs[inside])


def _public_cutoffs(bins: Bins) -> Floats:
    return _useful_cutoffs(bins.edges, bins) if bins.cutoffs is None else bins.cutoffs


def public_cells(column: Floats, bins: Bins) -> Ints:
    """Return the cell of each value, which no public cut-off or limit parts; −1 if missing.

    Values outside the public range count as its end.
    """
    points = np.union1d(bins.edges, _public_cutoffs(bins))
    cells = np.searchsorted(points, np.clip(column, points[0], points[-1]), side="right")
    return np.where(np.isnan(column), -1, cells).astype(np.int64)


def on_public_edges(axis: Axis, bins: Bins) -> bool:
    """Whether cut-offs and limits of an ordered covariate lie on its public bins."""
    public = _public_cutoffs(bins)
    edges = (*bins.edges.tolist(), 0.0, 1.0) if bins.kind == "yes/no" else bins.edges.tolist()
    return bool(np.isin(axis.cutoffs, public).all()) and set(axis.limits) <= set(edges)


def _sample_spread(values: Floats, weights: Floats) -> float:
    """Return the standard deviation of values that lie in one place."""
    total = weights.sum()
    if total <= 1:
        return 0.0
    mean = weights @ values / total
    return float(np.sqrt(weights @ (values - mean) ** 2 / (total - 1)))
