r"""The exact solver, at a site: losses, gradient and Hessian at a point.

In: a site's design and outcome, and a :class:`Query` of the coordinator. Out: sums over
patients. Leaves the site in every round: :class:`CurvatureUnits`, which add up over sites
(:mod:`fedrulefit.core.fixed`).

================================================  ============  ==============
mathematics                                       here          shape
================================================  ============  ==============
:math:`\sum w_iℓ(F_i, y_i)`                       ``losses``    (n_steps,)
:math:`g = \sum w_iℓ'_i\,x_i`                     ``gradient``  (n_terms,)
:math:`H_{AA} = \sum w_iℓ''_i\,x_{iA}x_{iA}^⊤`    ``hessian``   upper triangle
================================================  ============  ==============

Oracles: the definitions on a dense matrix (``tests/unit/core/test_curvature.py``), and Python's
integers, patient by patient (``tests/properties/test_splits.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.design import Design
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import (
    FINE_BITS,
    LOSS_BITS,
    ROOT_BITS,
    Bounds,
    from_units,
    round_units,
)

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
class CurvatureUnits:
    """Sums over a site's patients, in whole units; all add up over sites.

    The fields are those of :class:`CurvatureSums`: weights in units of 2⁻³², losses of 2⁻³⁰,
    `gradient` of 2⁻⁴⁰·(bound of the term), `hessian` of 2⁻⁴⁰·(largest weight)·(both bounds).
    """

    weight: int
    held_weight: int
    losses: Ints
    held_loss: int
    gradient: Ints
    hessian: Ints


@dataclass(frozen=True, eq=False)
class CurvatureSums:
    """Sums over the patients of all sites.

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
    weight: float
    held_weight: float
    losses: Floats
    held_loss: float
    gradient: Floats
    hessian: Floats


def sum_curvature(
    family: Family,
    design: Design,
    outcome: Floats,
    weights: Floats,
    folds: Ints,
    query: Query,
    bounds: Bounds,
) -> CurvatureUnits:
    """Return one site's sums at a point."""
    training = folds != query.fold
    columns = design.take(query.terms)
    old, new = columns.predictor(query.start), columns.predictor(query.end)
    counted = round_units(weights).astype(np.int64)
    along = [_along(old, new, t) for t in STEPS]
    losses = [
        round_units(family.value(point, outcome, weights), LOSS_BITS).astype(np.int64)
        for point in along
    ]
    slopes = round_units(family.slope(new, outcome, weights), FINE_BITS)
    slope = np.where(training, slopes, 0.0)
    curvature = np.where(training, family.curvature(new, outcome, weights / bounds.weight), 0.0)
    active = design.take(query.active)
    return CurvatureUnits(
        weight=int(counted[training].sum()),
        held_weight=int(counted[~training].sum()),
        losses=np.array([each[training].sum() for each in losses]),
        held_loss=int(losses[-1][~training].sum()),
        gradient=design.sum_columns(slope, bounds.terms),
        hessian=pack_triangle(active.sum_squares(np.sqrt(curvature), bounds.terms[query.active])),
    )


def read_curvature(units: CurvatureUnits, query: Query, bounds: Bounds) -> CurvatureSums:
    """Return the numbers that summed units stand for."""
    own = bounds.terms[query.active]
    scale = 0.25**ROOT_BITS * bounds.weight * pack_triangle(np.outer(own, own))
    return CurvatureSums(
        query,
        weight=float(from_units(units.weight)),
        held_weight=float(from_units(units.held_weight)),
        losses=from_units(units.losses, LOSS_BITS),
        held_loss=float(from_units(units.held_loss, LOSS_BITS)),
        gradient=from_units(units.gradient, FINE_BITS) * bounds.terms,
        hessian=units.hessian * scale,
    )


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
