r"""The exact solver, at a site: losses, gradient and Hessian at a point.

In: a site's design and outcome, and a :class:`Query` of the coordinator. Out: sums over
patients. Leaves the site in every round: :class:`CurvatureSums`, which add up over sites.

================================================  ============  ==============
mathematics                                       here          shape
================================================  ============  ==============
:math:`\sum w_iℓ(F_i, y_i)`                       ``losses``    (n_steps,)
:math:`g = \sum w_iℓ'_i\,x_i`                     ``gradient``  (n_terms,)
:math:`H_{AA} = \sum w_iℓ''_i\,x_{iA}x_{iA}^⊤`    ``hessian``   upper triangle
================================================  ============  ==============

Where each of a patient's predictors has terms of its own, the Hessian is
:math:`\sum w_i\,∂^2ℓ/∂F_a∂F_b\,x_{ia}x_{ib}^⊤` (:mod:`fedrulefit.core.class_design`). Where sites
have baselines of their own, losses and derivatives are of the sum at each site's best one
(:mod:`fedrulefit.core.own`); messages have the same shape.

Oracles: the definitions on a dense matrix (``tests/unit/core/test_curvature.py``), and Python's
integers, patient by patient (``tests/properties/test_splits.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.class_design import AnyDesign
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import FINE_BITS, LOSS_BITS, ROOT_BITS, Bounds, round_units
from fedrulefit.core.own import Own, profile, settle
from fedrulefit.core.sums import Packing, Sum, quantity

Matrix = TypeVar("Matrix", Floats, Ints)

STEPS: Final = (0.0, 0.0625, 0.25, 0.5, 1.0)
"""Where along the way from the old point to the new one losses are summed."""


@dataclass(frozen=True, eq=False)
class Query:
    """A point to evaluate.

    Parameters
    ----------
    fold : int
        Patients of this fold are held out; -1 for none.
    terms : (n,) int64
        Terms with a coefficient at either end, and the whole baseline; increasing.
    start, end : (n,) float64
        Coefficients of `terms` at the old and the new point.
    active : (n_active,) int64
        Terms whose Hessian is wanted, the whole baseline among them; increasing.
    """

    fold: int
    terms: Ints
    start: Floats
    end: Floats
    active: Ints


@dataclass(frozen=True, eq=False)
class CurvatureSums(Sum):
    """Sums over patients at one point.

    Parameters
    ----------
    query : Query
        The point at which they were taken.
    weight, held_weight : float
        Of the patients in training, and held out.
    losses : (n_steps,) float64
        Summed loss along the way, at :data:`STEPS`.
    held_loss : float
        Summed loss of the held-out patients at the new point.
    gradient : (n_terms,) float64
        Of the summed loss at the new point.
    hessian : (n_active·(n_active + 1) / 2,) float64
        Upper triangle, row by row, for the active terms.
    """

    query: Query
    weight: float = quantity("Σ w of the patients in training")
    held_weight: float = quantity("Σ w of the held-out patients")
    losses: Floats = quantity(
        "Σ w·loss along the way to the point",
        shape="n_steps",
        bits=LOSS_BITS,
        scale="s",
        most="w·most loss",
    )
    held_loss: float = quantity(
        "Σ w·loss of the held-out patients", bits=LOSS_BITS, scale="s", most="w·most loss"
    )
    gradient: Floats = quantity(
        "Σ w·x·slope", shape="n_terms", bits=FINE_BITS, scale="s·b", most="w·b·most slope"
    )
    hessian: Floats = quantity(
        "Σ w·curvature·x·xᵀ of the active terms, upper triangle",
        shape="n_triangle",
        bits=2 * ROOT_BITS,
        scale="s·w_max·b_j·b_k",
        most="w·b_j·b_k·most curvature",
    )

    @classmethod
    def packing(cls, query: Query, bounds: Bounds) -> Packing[CurvatureSums]:
        """Return how the numbers lie at a point."""
        n_active = len(query.active)

        def of_pairs() -> Floats:
            own = bounds.terms[query.active]
            scale: Floats = bounds.unit * bounds.weight * pack_triangle(np.outer(own, own))
            return scale

        return Packing(
            cls,
            {
                "n_steps": len(STEPS),
                "n_terms": len(bounds.terms),
                "n_triangle": n_active * (n_active + 1) // 2,
            },
            {
                "s": np.array(bounds.unit),
                "s·b": bounds.unit * bounds.terms,
                "s·w_max·b_j·b_k": of_pairs,
            },
            {"query": query},
        )


def sum_curvature(
    family: Family,
    design: AnyDesign,
    outcome: Floats,
    weights: Floats,
    folds: Ints,
    query: Query,
    bounds: Bounds,
) -> Ints:
    """Return one site's :class:`CurvatureSums` at a point, in whole units."""
    at = stand(family, design, outcome, weights, folds, query, bounds)
    active = design.take(query.active)
    products = active.sum_products(at.curvature, bounds.terms[query.active])
    if at.own is not None:
        base = active.layout.baseline
        products -= profile(at.own, products, base, products[:, base], bounds.unit * bounds.weight)
    return CurvatureSums.packing(query, bounds).pack(
        **at.sums,
        gradient=design.sum_columns(at.slope, bounds.terms),
        hessian=pack_triangle(products),
    )


class Way(Protocol):
    """From one point to another, without the patients of a fold."""

    @property
    def fold(self) -> int:
        """Whose patients are held out; -1 for none."""
        ...

    @property
    def terms(self) -> Ints:
        """Terms with a coefficient at either end, and the whole baseline."""
        ...

    @property
    def start(self) -> Floats:
        """Coefficients at the old point."""
        ...

    @property
    def end(self) -> Floats:
        """Coefficients at the new point."""
        ...


@dataclass(frozen=True, eq=False)
class Stand:
    """What every question about a point begins with.

    Parameters
    ----------
    sums : dict
        Whole units of the weights, of the losses along the way, and of the held-out loss.
    slope, curvature : float64 arrays
        Of each patient at the new point, 0 for those held out.
    own : Own or None
        The site's own baseline there, where sites have one: of these patients without those held
        out.
    """

    sums: dict[str, Any]
    slope: Floats
    curvature: Floats
    own: Own | None = None


def stand(
    family: Family,
    design: AnyDesign,
    outcome: Floats,
    weights: Floats,
    folds: Ints,
    way: Way,
    bounds: Bounds,
) -> Stand:
    """Return losses on the way to a point, and each patient's derivatives there.

    Where sites have baselines of their own, all this is at the site's best, at every step anew.
    """
    training = folds != way.fold
    columns = design.take(way.terms)
    old, new = columns.predictor(way.start), columns.predictor(way.end)
    counted, outcome = round_units(weights).astype(np.int64), family.prepare(outcome)
    scaled, own = weights / bounds.unit, None
    losses, prices = [], []
    for t in STEPS:
        there = _along(old, new, t)
        if bounds.spread is not None:
            own = settle(family, there, outcome, weights * training, bounds.spread, own)
            there = own.shift(there)
            prices.append(int(round_units(np.array(own.price / bounds.unit), LOSS_BITS)))
        units = round_units(family.value(there, outcome, scaled), LOSS_BITS)
        losses.append(units.astype(np.int64))
    slope = round_units(family.slope(there, outcome, scaled), FINE_BITS)
    curvature = family.curvature(there, outcome, scaled / bounds.weight)
    slope, curvature = (np.where(_along_rows(training, x), x, 0.0) for x in (slope, curvature))
    sums = {
        "weight": int(counted[training].sum()),
        "held_weight": int(counted[~training].sum()),
        "losses": np.array([each[training].sum() for each in losses])
        + np.array(prices or [0] * len(STEPS)),
        "held_loss": int(losses[-1][~training].sum()),
    }
    return Stand(sums, slope, curvature, own)


def _along_rows(rows: Bools, numbers: Floats) -> Bools:
    """Return what is told of rows such that it goes with numbers of several axes."""
    return rows.reshape(-1, *[1] * (numbers.ndim - 1))


def _along(old: Floats, new: Floats, step: float) -> Floats:
    """Return the predictor on the way; exactly the new one at its end."""
    return new if step == 1 else old + step * (new - old)


def pack_triangle(matrix: Matrix) -> Matrix:
    """Return the upper triangle, row by row."""
    packed: Matrix = matrix.ravel()[_triangle(len(matrix))]
    return packed


def unpack_triangle(packed: Floats, n: int) -> Floats:
    """Return the symmetric matrix, shape (n, n)."""
    matrix = np.zeros((n, n))
    matrix.ravel()[_triangle(n)] = packed
    return matrix + np.triu(matrix, 1).T


@lru_cache(maxsize=16)
def _triangle(n: int) -> Ints:
    """Return where the upper triangle of an n × n matrix stands in its flat form."""
    rows, columns = np.triu_indices(n)
    return rows * n + columns
