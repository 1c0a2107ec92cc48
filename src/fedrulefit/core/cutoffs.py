r"""From summed histograms, or pooled values, to the shared grid: cut-offs, limits, spreads.

Paper 2.2.1 (pre-processing), the coordinator's part.

In: counts summed over sites, perhaps with noise, and spreads; or the values themselves, where
they lie in one place. Out: a :class:`~fedrulefit.core.grid.Grid`.

=============================  ====================  =======================
paper                          here                  shape
=============================  ====================  =======================
:math:`\hat F(\tilde h_b)`     ``_distribution``     (n_bins,)
:math:`\hat q_\tau`            ``_quantiles``        (n_levels,)
:math:`\mathcal C_j`           ``Axis.cutoffs``      (n_cutoffs,)
:math:`\delta_j^\pm`           ``Axis.limits``       2
:math:`s_j^*`                  ``Axis.spread``       scalar
=============================  ====================  =======================

Departures
----------
* With the style ``round`` cut-offs and limits are not quantiles but the roundest numbers that
  part enough patients (:mod:`fedrulefit.core.ladder`): nearly the same under any noise.
* A quantile is the *upper* edge of its bin (erratum 7).
* The summed counts are mended before the CDF (erratum 9).
* Where a value may be missing, a cut-off with less than half a quantile step of the known
  patients on a side is dropped: ``x < c`` would say little but that x was measured, which
  "x is missing" says. Of complete covariates none is dropped.
* A spread is never so small that a linear term is larger than 64: sums over patients
  are bounded on public grounds (:mod:`fedrulefit.core.fixed`).

Oracles: :func:`numpy.quantile` on fine bins, closed forms
(``tests/unit/core/test_cutoffs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedrulefit.core.arrays import MAX_CODES, Floats, Ints
from fedrulefit.core.bins import Bins, Style, split_cells, useful_cutoffs
from fedrulefit.core.fixed import LARGEST_TERM
from fedrulefit.core.grid import RULE_SPREAD, Axis, Grid
from fedrulefit.core.ladder import (
    choose_limits,
    choose_round,
    find_roundness,
    roundest_between,
)
from fedrulefit.core.plan import thin


def estimate_grid(
    counts: Ints,
    bins: Sequence[Bins],
    *,
    n_cutoffs: int,
    winsor: float,
    repair: Literal["clip", "project"],
    centre: bool,
    spreads: Floats | None,
    style: Style = "quantile",
    fewest: float = 0.0,
) -> Grid:
    """Turn summed (noisy) counts into the shared grid.

    Parameters
    ----------
    counts : (n_cells,) int64
        Summed over sites; may be negative where noise was added.
    spreads : (n_features,) float64 or None
        Exact spreads; ``None`` derives them from the counts.
    style : {"round", "quantile"}
        With ``round``, which the bins of numbers must have been made for, the roundest numbers.
    fewest : float
        Least count of known patients on either side of a cut-off, where values may be missing.
    """
    axes = []
    for j, (cells, b) in enumerate(zip(split_cells(counts, bins), bins, strict=True)):
        mended = repair_counts(cells, repair)[: b.n_bins]
        total = mended.sum()
        share = mended / total if total > 0 else np.full(b.n_bins, 1 / b.n_bins)
        is_round = style == "round" and b.kind == "number"
        values = b.middles if is_round else b.midpoints
        mean = float(share @ values)
        if spreads is None:
            spread = float(np.sqrt(share @ (values - mean) ** 2))
        else:
            spread = float(spreads[j])
        limits = (float(b.edges[0]), float(b.edges[-1]))
        if is_round:
            cutoffs, limits = _round_numbers(share, b, n_cutoffs, winsor)
        else:
            cutoffs = _cutoffs(share, b, n_cutoffs)
            if winsor > 0:
                low, high = _quantiles(share, b, np.array([winsor, 1 - winsor])).tolist()
                limits = (low, high)
        if not b.complete:
            below = share @ (b.samples[:, None] < cutoffs)
            least = fewest / total if total > 0 else np.inf
            cutoffs = _drop_rare(cutoffs, below, max(least, 0.5 / (n_cutoffs + 1)))
        if b.added:
            far = fewest / total if total > 0 else np.inf
            cutoffs = _make_room(cutoffs, b, b.samples, share, far)
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
    style: Style = "quantile",
) -> Grid:
    """Return the grid of pooled data: no histogram, no noise.

    With the style ``quantile`` every distinct value but the lowest is a cut-off while these are at
    most `n_cutoffs`; beyond that, as many weighted quantiles. With ``round``, of all numbers the
    roundest, as from histograms of any number of bins.
    """
    axes = []
    for j, b in enumerate(bins):
        known = ~np.isnan(values[:, j])
        if not known.any():
            axes.append(_build_axis(b, np.empty(0), (0.0, 0.0), 0.0, 0.0, centre=centre))
            continue
        distinct, where = np.unique(values[known, j], return_inverse=True)
        share = np.bincount(where, weights[known], minlength=len(distinct))
        share = share / share.sum()
        if style == "round" and b.kind == "number":
            cutoffs, limits = _round_values(distinct, share, b, n_cutoffs, winsor)
        else:
            cutoffs, limits = _value_quantiles(distinct, share, b, n_cutoffs, winsor)
        if not b.complete:
            lower = share @ (distinct[:, None] < cutoffs)
            cutoffs = _drop_rare(cutoffs, lower, 0.5 / (n_cutoffs + 1))
        if b.added:
            cutoffs = _make_room(cutoffs, b, distinct, share, 0.0)
        mean = float(share @ distinct)
        spread = _sample_spread(np.clip(values[known, j], *b.edges[[0, -1]]), weights[known])
        axes.append(_build_axis(b, cutoffs, limits, mean, spread, centre=centre))
    return Grid(tuple(axes))


def repair_counts(counts: Ints | Floats, how: Literal["clip", "project"]) -> Floats:
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


def estimate_shares(by_code: Sequence[Floats]) -> tuple[Floats, ...]:
    """Return the share of patients with each code, from (noisy) counts by code.

    Parameters
    ----------
    by_code : one array per covariate
        See :func:`~fedrulefit.core.grid.count_codes`; may be negative where noise was added.

    Returns
    -------
    shares : one array per covariate, (n_codes,) or, unless it is complete, (n_codes + 1,)
        Missing values last; each adds up to 1. They are worked out of what was released, so
        they cost no ε.
    """
    mended = (repair_counts(counts, "project") for counts in by_code)
    return tuple(m / m.sum() if m.sum() > 0 else np.full(len(m), 1 / len(m)) for m in mended)


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
    elif bins.added:
        cutoffs = np.union1d(cutoffs, bins.added)
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


def _distribution(share: Floats) -> Floats:
    """F̂ at the upper edges: monotone, ends at 1."""
    below = np.cumsum(share)
    below[-1] = 1.0
    capped: Floats = np.minimum(below, 1.0)
    return capped


def _quantiles(share: Floats, bins: Bins, levels: Floats) -> Floats:
    """The upper edges of the first bins whose F̂ reaches `levels`."""
    first = np.searchsorted(_distribution(share), levels - 1e-12)
    edges: Floats = bins.edges[np.minimum(first, bins.n_bins - 1) + 1]
    return edges


def _cutoffs(share: Floats, bins: Bins, n_cutoffs: int) -> Floats:
    levels = np.arange(1, n_cutoffs + 1) / (n_cutoffs + 1)
    return useful_cutoffs(_quantiles(share, bins, levels), bins)


Limits = tuple[float, float]


def _value_quantiles(
    distinct: Floats, share: Floats, bins: Bins, n_cutoffs: int, winsor: float
) -> tuple[Floats, Limits]:
    """Return cut-offs at the values themselves or at quantiles of them, and winsor limits."""
    below = _distribution(share)
    cutoffs = distinct[1:]
    if len(cutoffs) > n_cutoffs:
        levels = np.arange(1, n_cutoffs + 1) / (n_cutoffs + 1)
        picked = np.searchsorted(below, levels - 1e-12) + 1
        # Many patients at the highest value: keep `≥ highest`.
        cutoffs = np.unique(distinct[np.minimum(picked, len(distinct) - 1)])
    low, high = np.searchsorted(below, [winsor - 1e-12, 1 - winsor - 1e-12])
    return cutoffs, (bins.clip(distinct[low]), bins.clip(distinct[high]))


def _round_numbers(
    share: Floats, bins: Bins, n_cutoffs: int, winsor: float
) -> tuple[Floats, Limits]:
    """Return the roundest of the public cut-offs, and winsor limits that are round, too."""
    candidates = useful_cutoffs(bins.edges, bins)
    places = _Places(bins.samples, share, candidates, find_roundness(candidates))
    return places.choose(float(bins.edges[0]), float(bins.edges[-1]), n_cutoffs, winsor)


def _round_values(
    distinct: Floats, share: Floats, bins: Bins, n_cutoffs: int, winsor: float
) -> tuple[Floats, Limits]:
    """Return the roundest numbers between values that lie in one place, and winsor limits."""
    inside, where = np.unique(np.clip(distinct, *bins.edges[[0, -1]]), return_inverse=True)
    candidates, ranks = roundest_between(inside[:-1], inside[1:], bins.step)
    places = _Places(inside, np.bincount(where, share).astype(np.float64), candidates, ranks)
    return places.choose(float(inside[0]), float(inside[-1]), n_cutoffs, winsor)


@dataclass(frozen=True, eq=False)
class _Places:
    """Which numbers can be cut-offs of a covariate, and where its patients are.

    Parameters
    ----------
    values, share : (n_values,) float64
        The values of patients, or one of each bin, increasing, and the share at each.
    candidates : (n_candidates,) float64
        Increasing.
    ranks : (n_candidates,) int64
        Their roundness.
    """

    values: Floats
    share: Floats
    candidates: Floats
    ranks: Ints

    def choose(
        self, low: float, high: float, n_cutoffs: int, winsor: float
    ) -> tuple[Floats, Limits]:
        """Choose cut-offs, and limits among the candidates and the ends of the range."""
        upto = np.concatenate([[0.0], _distribution(self.share)])
        below = upto[np.searchsorted(self.values, self.candidates, side="left")]
        above = 1 - upto[np.searchsorted(self.values, self.candidates, side="right")]
        chosen = self.candidates[choose_round(self.ranks, below, 1 / (n_cutoffs + 1))]
        if winsor == 0:
            return chosen, (low, high)
        own = self.candidates < high  # the highest score is an end, too
        ends = np.concatenate([[low], self.candidates[own], [high]])
        ranks = np.concatenate(
            [find_roundness(ends[:1]), self.ranks[own], find_roundness(ends[-1:])]
        )
        below = np.concatenate([[0.0], below[own], [1.0]])
        above = np.concatenate([[1.0], above[own], [0.0]])
        return chosen, choose_limits(ends, ranks, below, above, winsor)


def _drop_rare(cutoffs: Floats, below: Floats, least: float) -> Floats:
    """Return the cut-offs with at least this share of the known patients on either side."""
    kept: Floats = cutoffs[np.minimum(below, 1 - below) >= least - 1e-12]
    return kept


def _make_room(cutoffs: Floats, bins: Bins, values: Floats, share: Floats, least: float) -> Floats:
    """Return the estimated cut-offs that stay beside those that the study adds.

    Without those between which and an added one lie hardly any patients: a rule and its neighbour
    would tell of these. At most so many that all have a code.
    """
    added = np.array(bins.added)
    below, beside = (share @ (values[:, None] < cuts) for cuts in (cutoffs, added))
    near = (np.abs(below[:, None] - beside) < least).any(axis=1)
    estimated: Floats = np.setdiff1d(cutoffs[~near], added)
    return estimated[thin(len(estimated), MAX_CODES - 1 - len(added))]


def _sample_spread(values: Floats, weights: Floats) -> float:
    """Return the standard deviation of values that lie in one place."""
    total = weights.sum()
    if total <= 1:
        return 0.0
    mean = weights @ values / total
    return float(np.sqrt(weights @ (values - mean) ** 2 / (total - 1)))
