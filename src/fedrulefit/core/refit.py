r"""A refit of few terms, at a site: what it takes to drop terms, and to move cut-offs.

Not in the paper. In: a site's design and outcome, and a :class:`RefitQuery` of the coordinator.
Out: sums over patients. Leaves the site in every round: :class:`RefitSums`, which add up over
sites.

================================================  ============  ==============
mathematics                                       here          shape
================================================  ============  ==============
:math:`\sum w_iℓ(F_i, y_i)`                       ``losses``    (n_steps,)
:math:`\sum w_iℓ'_i\,x_i`                         ``gradient``  (n_own,)
:math:`\sum w_iℓ''_i\,x_ix_i^⊤`                   ``hessian``   upper triangle
:math:`\sum w_iℓ'_i\,z_i`                         ``beside``    (n_variants,)
:math:`\sum w_iℓ''_i\,z_ix_i^⊤`                   ``cross``     (n_variants · n_own)
:math:`\sum w_iℓ''_i\,z_i^2`                      ``squares``   (n_variants,)
================================================  ============  ==============

x are the terms of the fit, z the *variants* that could stand in for one of them. Unlike a round
of the path, of the other terms nothing is asked for.

Oracle: the definitions on a dense matrix (``tests/unit/core/test_refit.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.class_design import AnyDesign
from fedrulefit.core.curvature import STEPS, pack_triangle, stand
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import FINE_BITS, LOSS_BITS, ROOT_BITS, Bounds
from fedrulefit.core.own import profile, profile_squares
from fedrulefit.core.sums import Packing, Sum, quantity

LEAST_CHUNK = 16
"""Variants whose products are taken at a time, at least."""


@dataclass(frozen=True, eq=False)
class RefitQuery:
    """A point of a refit.

    Parameters
    ----------
    fold : int
        Patients of this fold are held out; -1 for none.
    terms : (n_own,) int64
        Terms with a coefficient at either end, and the whole baseline; increasing.
    start, end : (n_own,) float64
        Coefficients of `terms` at the old and the new point.
    variants : (n_variants,) int64
        Terms that could stand in for one of these; increasing, none of `terms`.
    """

    fold: int
    terms: Ints
    start: Floats
    end: Floats
    variants: Ints


@dataclass(frozen=True, eq=False)
class RefitSums(Sum):
    """Sums over patients at one point of a refit.

    Parameters
    ----------
    query : RefitQuery
        The point at which they were taken.
    weight, held_weight : float
        Of the patients in training, and held out.
    losses : (n_steps,) float64
        Summed loss along the way.
    held_loss : float
        Summed loss of the held-out patients at the new point.
    gradient : (n_own,) float64
    hessian : (n_own·(n_own + 1) / 2,) float64
        Upper triangle, row by row.
    beside : (n_variants,) float64
        The gradient of the variants.
    cross : (n_variants·n_own,) float64
    squares : (n_variants,) float64
        The diagonal of the variants' Hessian.
    """

    query: RefitQuery
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
        "Σ w·x·slope of the terms",
        shape="n_own",
        bits=FINE_BITS,
        scale="s·b",
        most="w·b·most slope",
    )
    hessian: Floats = quantity(
        "Σ w·curvature·x·xᵀ of the terms, upper triangle",
        shape="n_triangle",
        bits=2 * ROOT_BITS,
        scale="s·w_max·b_j·b_k",
        most="w·b_j·b_k·most curvature",
    )
    beside: Floats = quantity(
        "Σ w·z·slope of their variants",
        shape="n_variants",
        bits=FINE_BITS,
        scale="s·b_z",
        most="w·b_z·most slope",
    )
    cross: Floats = quantity(
        "Σ w·curvature·z·xᵀ of variants and terms",
        shape="n_variants·n_own",
        bits=2 * ROOT_BITS,
        scale="s·w_max·b_z·b_k",
        most="w·b_z·b_k·most curvature",
    )
    squares: Floats = quantity(
        "Σ w·curvature·z² of the variants",
        shape="n_variants",
        bits=2 * ROOT_BITS,
        scale="s·w_max·b_z²",
        most="w·b_z²·most curvature",
    )

    @classmethod
    def packing(cls, query: RefitQuery, bounds: Bounds) -> Packing[RefitSums]:
        """Return how the numbers lie at a point."""
        n_own, own, others = len(query.terms), bounds.terms[query.terms], query.variants
        unit, curved, sizes = bounds.unit, bounds.unit * bounds.weight, bounds.terms[others]
        return Packing(
            cls,
            {
                "n_steps": len(STEPS),
                "n_own": n_own,
                "n_triangle": n_own * (n_own + 1) // 2,
                "n_variants": len(others),
            },
            {
                "s": np.array(unit),
                "s·b": unit * own,
                "s·b_z": unit * sizes,
                "s·w_max·b_j·b_k": lambda: curved * pack_triangle(np.outer(own, own)),
                "s·w_max·b_z·b_k": lambda: curved * np.outer(sizes, own).ravel(),
                "s·w_max·b_z²": curved * sizes**2,
            },
            {"query": query},
        )


def sum_refit(
    family: Family,
    design: AnyDesign,
    outcome: Floats,
    weights: Floats,
    folds: Ints,
    query: RefitQuery,
    bounds: Bounds,
) -> Ints:
    """Return one site's :class:`RefitSums` at a point, in whole units."""
    own, others = query.terms, query.variants
    both = np.union1d(own, others)
    few, sizes = design.take(both), bounds.terms[both]
    small = RefitQuery(
        query.fold,
        np.searchsorted(both, own),
        query.start,
        query.end,
        np.searchsorted(both, others),
    )
    at = stand(family, few, outcome, weights, folds, small, bounds)
    slopes = few.sum_columns(at.slope, sizes)
    square, cross, diagonal = _cross(few, at.curvature, small, sizes)
    if at.own is not None:
        base, unit = few.layout.baseline, bounds.unit * bounds.weight
        # Of variants first: the terms' own products are needed as they were.
        beside = cross[:, base]
        diagonal -= profile_squares(at.own, square, base, beside, unit)
        cross -= profile(at.own, square, base, beside, unit)
        square -= profile(at.own, square, base, square[:, base], unit)
    return RefitSums.packing(query, bounds).pack(
        **at.sums,
        gradient=slopes[small.terms],
        hessian=pack_triangle(square),
        beside=slopes[small.variants],
        cross=cross.ravel(),
        squares=diagonal,
    )


def _cross(
    design: AnyDesign, curvature: Floats, query: RefitQuery, sizes: Floats
) -> tuple[Ints, Ints, Ints]:
    """Return the terms' products with themselves, the variants' with them, and with themselves.

    Some variants at a time: of their products with each other none is needed.
    """
    own, others = query.terms, query.variants
    cross = np.zeros((len(others), len(own)), dtype=np.int64)
    diagonal = np.zeros(len(others), dtype=np.int64)
    square = np.zeros((len(own), len(own)), dtype=np.int64)
    step = max(LEAST_CHUNK, len(own))
    for start in range(0, max(len(others), 1), step):
        part = slice(start, start + step)
        used = np.union1d(own, others[part])
        products = design.take(used).sum_products(curvature, sizes[used])
        at, beside = np.searchsorted(used, own), np.searchsorted(used, others[part])
        square = products[np.ix_(at, at)]
        cross[part] = products[np.ix_(beside, at)]
        diagonal[part] = products[beside, beside]
    return square, cross, diagonal
