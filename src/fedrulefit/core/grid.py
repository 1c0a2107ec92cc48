r"""The shared grid, and a patient on it: codes and linear terms.

Paper 2.2.1 (pre-processing) and the linear terms of 2.1.

In: a site's values, shape (n_rows, n_features), with NaN for missing; a
category is its level's position, yes/no is 1/0. Out: on a :class:`Grid` every patient
becomes a row of uint8 codes, and of linear terms. Nothing here leaves the site.

=============================  ====================  =======================
paper                          here                  shape
=============================  ====================  =======================
:math:`\mathcal C_j`           ``Axis.cutoffs``      (n_cutoffs,)
:math:`\delta_j^\pm`           ``Axis.limits``       2
:math:`s_j^*`                  ``Axis.spread``       scalar
:math:`l_j(x_j)`               linear_values         (n_rows, n_linear)
=============================  ====================  =======================

How a grid is found is in :mod:`fedrulefit.core.cutoffs`.

Oracles: naive loops (``tests/unit/core/test_grid.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fedrulefit.core.arrays import MAX_CODES, MISSING, Codes, Floats
from fedrulefit.core.bins import Bins, Kind, public_cutoffs
from fedrulefit.core.fixed import LARGEST_TERM
from fedrulefit.core.layout import Layout

RULE_SPREAD: Final = 0.4
"""Average standard deviation of a rule with support ~ U(0, 1) (paper 2.1)."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One covariate on the shared grid.

    Parameters
    ----------
    kind : {"number", "category", "ordered", "yes/no"}
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

    @cached_property
    def linear(self) -> tuple[int, ...]:
        """Positions of the covariates that have a linear term."""
        return tuple(j for j, axis in enumerate(self.axes) if axis.has_linear)

    def take(self, features: Sequence[int]) -> Grid:
        """Return the grid of some covariates only."""
        return Grid(tuple(self.axes[j] for j in features))


def count_codes(counts: Floats, bins: Sequence[Bins], grid: Grid) -> tuple[Floats, ...]:
    """Return how many patients have each code, as the histograms' counts tell.

    Parameters
    ----------
    counts : (n_cells,) float64
        All covariates one after another (:func:`~fedrulefit.core.bins.count_histograms`).

    Returns
    -------
    by_code : one array per covariate, (n_codes,) or, unless it is complete, (n_codes + 1,)
        Missing values last.
    """
    found: list[Floats] = []
    start = 0
    for b, axis in zip(bins, grid.axes, strict=True):
        cells = counts[start : start + b.n_cells]
        start += b.n_cells
        codes = np.arange(b.n_bins)
        if axis.ordered:
            codes = np.searchsorted(axis.cutoffs, b.samples, side="right")
        known = np.bincount(codes, cells[: b.n_bins], minlength=axis.n_codes)
        found.append(np.append(known, cells[b.n_bins :]))
    return tuple(found)


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
        so small beside it that a patient's value could outgrow a sum; or if an offset is not
        added as it is.
    """
    low, high = axis.limits
    if bins.offset is not None:
        told = (axis.limits, axis.centre, axis.spread)
        if told != (bins.ends, 0.0, RULE_SPREAD * bins.offset) or not low <= axis.fill <= high:
            raise ValueError("the grid does not add an offset of the study as it is")
        return
    inside = bins.edges[0] <= low and high <= bins.edges[-1] and low <= axis.fill <= high
    centred = axis.centre == 0 or low <= axis.centre <= high
    # Uncentred values far from 0 may need a spread that is wider than their range.
    least = axis.spread * axis.largest / LARGEST_TERM
    wide = axis.spread <= max(2 * bins.half, least * (1 + 1e-9))
    if not (inside and centred and wide):
        raise ValueError("the grid has a limit, centre, fill or spread outside the public range")
    if axis.spread < least * (1 - 1e-9):
        raise ValueError("the grid has a spread that is too small for its limits")


def on_public_edges(axis: Axis, bins: Bins) -> bool:
    """Whether cut-offs and limits of an ordered covariate lie on its public bins."""
    public = public_cutoffs(bins)
    edges = (*bins.edges.tolist(), 0.0, 1.0) if bins.kind == "yes/no" else bins.edges.tolist()
    return bool(np.isin(axis.cutoffs, public).all()) and set(axis.limits) <= set(edges)
