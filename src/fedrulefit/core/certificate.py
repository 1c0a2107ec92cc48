r"""How far a model is from the optimum of the pooled problem.

In: coefficients and sums over all sites. Out: the KKT residual and the duality
gap, which bounds how much lower the objective could be. Leaves the site: the
gradient of the loss, of patients with and without the outcome apart
(:class:`SlopeSums`), and two sums for the primal and the dual objective (:class:`GapSums`).

With slopes :math:`σ_i - y_i` any scales a (for cases), b (for the others) in
[0, 1] give a dual point :math:`θ_i ∝ w_i·\{a,b\}·(σ_i - y_i)`. It is feasible if
:math:`\sum θ_i = 0` (the intercept is free) and :math:`|X_j^⊤θ| ≤ λπ_j`. The first
fixes a : b, the second their size. The dual objective is then
:math:`-\tfrac1W \sum w_i f^*(θ_i)` with the loss's conjugate
:math:`f^* = m\log m + (1-m)\log(1-m)`, m the shrunk probability. Primal minus dual
is never negative and is 0 at the optimum.

Oracle: the optimum itself, found by another solver
(``tests/unit/core/test_certificate.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, xlogy

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.design import Design
from fedrulefit.core.fixed import FINE_BITS, LOSS_BITS, add_units, round_units
from fedrulefit.core.losses import logistic_slope
from fedrulefit.core.quadratic import kkt_residual
from fedrulefit.core.sums import Packing, Sum, quantity

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
        where a term other than the intercept is unpenalised.
    """

    residual: float
    gap: float | None


def tell_distance(value: float) -> str:
    """Return a residual or a gap in words: 0 is what cannot be told from it."""
    return f"below {FINEST:.0e}" if value < FINEST else f"{value:.2g}"


@dataclass(frozen=True, eq=False)
class SlopeSums(Sum):
    """Gradients of the summed loss, shape (n_terms,) each: of cases and of others."""

    cases: Floats = quantity(
        "Σ w·x·slope over patients with the outcome",
        shape="n_terms",
        bits=FINE_BITS,
        scale="b",
        most="b·w",
    )
    others: Floats = quantity(
        "Σ w·x·slope over patients without it",
        shape="n_terms",
        bits=FINE_BITS,
        scale="b",
        most="b·w",
    )

    @classmethod
    def packing(cls, bounds: Floats) -> Packing[SlopeSums]:
        """Return how the numbers lie; `bounds` are the largest sizes of the terms."""
        return Packing(cls, {"n_terms": len(bounds)}, {"b": bounds})


@dataclass(frozen=True, eq=False)
class GapSums(Sum):
    """Primal and dual objective, without the penalty: their difference is the duality gap."""

    loss: float = quantity("Σ w·loss at the final coefficients", bits=LOSS_BITS, most="2049·w")
    conjugate: float = quantity("Σ w·ℓ* at the dual point of the certificate")

    @classmethod
    def packing(cls) -> Packing[GapSums]:
        """Return how the numbers lie."""
        return Packing(cls)


def sum_slopes(
    design: Design, outcome: Floats, weights: Floats, predictor: Floats, bounds: Floats
) -> Ints:
    """Return one site's :class:`SlopeSums` in whole units."""
    slope = round_units(logistic_slope(predictor, outcome, weights), FINE_BITS)
    return SlopeSums.packing(bounds).pack(
        cases=design.sum_columns(slope * outcome, bounds),
        others=design.sum_columns(slope * (1 - outcome), bounds),
    )


def sum_conjugate(
    outcome: Floats, weights: Floats, predictor: Floats, scales: tuple[float, float]
) -> int:
    """Return Σ w·f*(θ), in units of 2⁻³², for slopes shrunk by `scales` (cases, others)."""
    chance = expit(predictor)
    shrunk = np.where(outcome > 0, 1 - scales[0] * (1 - chance), scales[1] * chance)
    return add_units(weights * (xlogy(shrunk, shrunk) + xlogy(1 - shrunk, 1 - shrunk)))


def choose_scales(
    slopes: SlopeSums, weight: float, penalties: Floats
) -> tuple[float, float] | None:
    """Return the scales of a feasible dual point, or None if there is none of this kind.

    Parameters
    ----------
    slopes : SlopeSums
        Over all sites.
    weight : float
        W, over all sites.
    penalties : (n_terms,) float64
        λ·π; the intercept's is 0.
    """
    lacking, excess = -slopes.cases[0], slopes.others[0]
    if lacking <= 0 or excess <= 0:
        return 0.0, 0.0
    cases, others = min(1.0, excess / lacking), min(1.0, lacking / excess)
    size = np.abs(cases * slopes.cases + others * slopes.others)[1:] / weight
    limit = penalties[1:]
    if (size[limit == 0] > 0).any():
        return None
    ratios = limit[size > 0] / size[size > 0]
    shrink = min(1.0, float(ratios.min(initial=1.0)))
    return cases * shrink, others * shrink


def certify(
    slopes: SlopeSums,
    weight: float,
    coef: Floats,
    penalties: Floats,
    *,
    objective: float,
    conjugate: float | None,
) -> Certificate:
    """Put the certificate together; `conjugate` is None without a dual point."""
    gradient = (slopes.cases + slopes.others) / weight
    gap = None if conjugate is None else max(0.0, objective + conjugate / weight)
    return Certificate(kkt_residual(gradient, coef, penalties), gap)
