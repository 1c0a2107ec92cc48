r"""How far a model is from the optimum of the pooled problem.

In: coefficients and sums over all sites. Out: the KKT residual and the duality
gap, which bounds how much lower the objective could be. Leaves the site: the
gradient of the loss, of patients with a falling and with a rising slope apart
(:class:`SlopeSums`), and two sums for the primal and the dual objective (:class:`GapSums`).

The dual of :math:`P(w) = \tfrac1W \sum w_iℓ(F_i, y_i) + λ\sum π_j|w_j|` is to
maximise :math:`D(θ) = -\tfrac1W \sum w_iℓ^*(θ_i, y_i)` with :math:`ℓ^*` the conjugate of
the loss (:meth:`~fedrulefit.core.families.base.Family.conjugate`). By Fenchel's
inequality :math:`D(θ) ≤ P(w)` for all w, if θ is *feasible*: with
:math:`g = \tfrac1W X^⊤(wθ)`

* :math:`g_0 = 0`, since the baseline is free, and
* :math:`|g_j| ≤ λπ_j` for rules and linear terms.

At the optimum θ are the slopes :math:`ℓ'_i = ∂ℓ/∂F_i`, and D = P. Elsewhere slopes are not
feasible, but slopes that are *shrunk* can be. Of patients some have a slope below 0,
whose loss falls as F rises (of a yes/no outcome, those who have it), and others one
above 0. Shrinking the falling ones by a and the rising ones by b, both in [0, 1]:

* one baseline column, of ones or not, has one number to bring to 0:
  :math:`a·g^-_0 + b·g^+_0`. If the first part is below 0 and the second above, that fixes
  a : b; if not, a = b = 0 does it.
* a and b times a common factor in [0, 1] meet the limits of all penalised terms.

:math:`ℓ^*(θ_i)` is finite at a slope, and at 0 if the loss has a lower bound; being convex, it
is finite at every shrunk slope between. So D is a lower bound of the optimum for every
family with such a loss, and P − D, the *gap*, is at least the distance from it.

Where a coefficient may have one sign only (:mod:`fedrulefit.core.signs`), its limit is one-sided,
too: :math:`g_j ≥ -λπ_j` where it may be positive, :math:`g_j ≤ λπ_j` where it may be negative. What
a study keeps unpenalised is paid for as several baseline columns are.

Where sites have baselines of their own (:mod:`fedrulefit.core.own`), each adds its price h(b) to
the primal objective, and to the dual one :math:`-h^*(S)`, S its summed dual point: at the optimum
:math:`S = -b/τ^2`, and :math:`h^*(S) = τ^2S^2/2` unless b is at its bound. That needs nothing of
the θ to be feasible: b is penalised.

With several baseline columns two scales do not bring all their numbers to 0. One scale a for
all slopes meets the limits of the penalised terms, and what is left of the baseline's numbers is
paid for: :math:`D(θ) - B\sum_k |g_k| ≤ P(w)` for all w whose baselines are at most
:data:`LARGEST_BASELINE` = B. Near the optimum the :math:`g_k` are as small as the residual.

Oracle: the optimum itself, found by another solver
(``tests/unit/core/test_certificate.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.class_design import AnyDesign
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import FINE_BITS, LOSS_BITS, Bounds, add_units, round_units
from fedrulefit.core.layout import Layout
from fedrulefit.core.own import Own, price_conjugate, settle
from fedrulefit.core.quadratic import kkt_residual
from fedrulefit.core.signs import Signs, pull
from fedrulefit.core.sums import Packing, Sum, quantity

LARGEST_BASELINE: Final = 20.0
"""Optima with larger baselines, of several, and with larger coefficients that a study keeps, are
left out of account: e²⁰ is 5·10⁸."""

FINEST: Final = 1e-9
"""Losses are summed in units of 2⁻³⁰: a mean loss, or a gap, is not known any finer."""


@dataclass(frozen=True)
class Certificate:
    """What is known of a model's distance from the optimum.

    Parameters
    ----------
    residual : float
        Largest entry of the least subgradient (KKT) of the penalised mean loss.
    gap : float or None
        Duality gap: the objective lies at most so much above its optimum. None
        where a term other than the baseline is unpenalised.
    """

    residual: float
    gap: float | None


def tell_distance(value: float) -> str:
    """Return a residual or a gap in words: 0 is what cannot be told from it."""
    return f"below {FINEST:.0e}" if value < FINEST else f"{value:.2g}"


@dataclass(frozen=True, eq=False)
class SlopeSums(Sum):
    """Gradients of the summed loss.

    Parameters
    ----------
    falling, rising : (n_terms,) float64
        Of patients whose loss falls, and rises, with the linear predictor.
    """

    falling: Floats = quantity(
        "Σ w·x·slope over patients whose slope is below 0",
        shape="n_terms",
        bits=FINE_BITS,
        scale="s·b",
        most="w·b·most slope",
    )
    rising: Floats = quantity(
        "Σ w·x·slope over those whose slope is above 0",
        shape="n_terms",
        bits=FINE_BITS,
        scale="s·b",
        most="w·b·most slope",
    )

    @classmethod
    def packing(cls, bounds: Bounds) -> Packing[SlopeSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_terms": len(bounds.terms)}, {"s·b": bounds.unit * bounds.terms})


@dataclass(frozen=True, eq=False)
class GapSums(Sum):
    """Primal and dual objective, without the penalty: their difference is the duality gap."""

    loss: float = quantity(
        "Σ w·loss at the final coefficients", bits=LOSS_BITS, scale="s", most="w·most loss"
    )
    conjugate: float = quantity(
        "Σ w·ℓ* at the dual point of the certificate", scale="s", most="w·most ℓ*"
    )

    @classmethod
    def packing(cls, bounds: Bounds) -> Packing[GapSums]:
        """Return how the numbers lie."""
        return Packing(cls, scales={"s": np.array(bounds.unit)})


def sum_slopes(
    family: Family,
    design: AnyDesign,
    outcome: Floats,
    weights: Floats,
    predictor: Floats,
    bounds: Bounds,
) -> Ints:
    """Return one site's :class:`SlopeSums` in whole units."""
    predictor, _ = _place(family, predictor, outcome, weights, bounds)
    slope = round_units(family.slope(predictor, outcome, weights / bounds.unit), FINE_BITS)
    return SlopeSums.packing(bounds).pack(
        falling=design.sum_columns(np.minimum(slope, 0.0), bounds.terms),
        rising=design.sum_columns(np.maximum(slope, 0.0), bounds.terms),
    )


def sum_gap(
    family: Family,
    outcome: Floats,
    weights: Floats,
    predictor: Floats,
    scales: tuple[float, float],
    bounds: Bounds,
) -> Ints:
    """Return one site's :class:`GapSums` in whole units.

    The dual point are the slopes, shrunk by `scales` (falling, rising).
    """
    scaled = weights / bounds.unit
    predictor, own = _place(family, predictor, outcome, weights, bounds)
    loss = add_units(family.value(predictor, outcome, scaled), LOSS_BITS)
    conjugate = sum_conjugate(family, outcome, scaled, predictor, scales)
    if own is not None:
        shrink = _shrink(family, outcome, weights, predictor, scales)
        slopes = family.slope(predictor, outcome, weights)
        slopes *= shrink.reshape(-1, *[1] * (slopes.ndim - 1))
        price = price_conjugate(family, slopes, own.spread)
        loss += add_units(np.array([own.price / bounds.unit]), LOSS_BITS)
        conjugate += add_units(np.array([price / bounds.unit]))
    return GapSums.packing(bounds).pack(loss=loss, conjugate=conjugate)


def _place(
    family: Family, predictor: Floats, outcome: Floats, weights: Floats, bounds: Bounds
) -> tuple[Floats, Own | None]:
    """Return predictors with the site's own baseline, where sites have one."""
    if bounds.spread is None:
        return predictor, None
    own = settle(family, predictor, outcome, weights, bounds.spread)
    return own.shift(predictor), own


def sum_conjugate(
    family: Family,
    outcome: Floats,
    weights: Floats,
    predictor: Floats,
    scales: tuple[float, float],
) -> int:
    """Return Σ w·ℓ*(θ), in units of 2⁻³²."""
    shrink = _shrink(family, outcome, weights, predictor, scales)
    return add_units(family.conjugate(predictor, outcome, weights, shrink))


def _shrink(
    family: Family,
    outcome: Floats,
    weights: Floats,
    predictor: Floats,
    scales: tuple[float, float],
) -> Floats:
    """Return by what each patient's slope is multiplied, shape (n_rows,)."""
    falling, rising = scales
    shrink = np.full(len(weights), rising)
    if falling != rising:
        shrink[family.slope(predictor, outcome, weights) < 0] = falling
    return shrink


def choose_scales(
    layout: Layout,
    slopes: SlopeSums,
    weight: float,
    penalties: Floats,
    *,
    signs: Signs | None = None,
    kept: Bools | None = None,
) -> tuple[float, float] | None:
    """Return the scales of a feasible dual point, or None if there is none of this kind.

    Parameters
    ----------
    layout : Layout
        Of the terms.
    slopes : SlopeSums
        Over all sites.
    weight : float
        W, over all sites.
    penalties : (n_terms,) float64
        λ·π; the baseline's is 0.
    signs : Signs, optional
        That coefficients may have; any, by default.
    kept : (n_terms,) bool, optional
        What the study keeps unpenalised, and :func:`certify` pays for.

    Returns
    -------
    falling, rising : float
        By which the slopes of either group are multiplied.
    """
    falling = rising = 1.0
    if layout.n_baseline == 1:
        (lacking,), (excess,) = -slopes.falling[layout.baseline], slopes.rising[layout.baseline]
        if lacking <= 0 or excess <= 0:
            return 0.0, 0.0
        falling, rising = min(1.0, excess / lacking), min(1.0, lacking / excess)
    size = pull(falling * slopes.falling + rising * slopes.rising, signs)[layout.effects] / weight
    limit = penalties[layout.effects]
    if kept is not None:
        size[kept[layout.effects]] = 0.0
    if (size[limit == 0] > 0).any():
        return None
    ratios = limit[size > 0] / size[size > 0]
    shrink = min(1.0, float(ratios.min(initial=1.0)))
    return falling * shrink, rising * shrink


def certify(
    layout: Layout,
    slopes: SlopeSums,
    weight: float,
    coef: Floats,
    penalties: Floats,
    *,
    objective: float,
    conjugate: float | None,
    signs: Signs | None = None,
    kept: Bools | None = None,
    scales: tuple[float, float] | None = None,
) -> Certificate:
    """Put the certificate together; `conjugate` is None without a dual point.

    `signs` and `kept` as for :func:`choose_scales`, which gave the `scales`.
    """
    gradient = (slopes.falling + slopes.rising) / weight
    gap = None
    if conjugate is not None:
        left = np.abs(gradient[layout.baseline]).sum() if layout.n_baseline > 1 else 0.0
        if kept is not None and scales is not None:
            shrunk = (scales[0] * slopes.falling + scales[1] * slopes.rising) / weight
            left = float(left) + pull(shrunk, signs)[kept].sum()
        gap = max(0.0, objective + conjugate / weight + LARGEST_BASELINE * float(left))
    return Certificate(kkt_residual(gradient, coef, penalties, signs), gap)
