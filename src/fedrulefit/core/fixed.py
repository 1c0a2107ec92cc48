r"""Sums that depend on the patients alone: fixed point, and the bounds that keep it exact.

Hospitals' sums are added under masks, so that only the total is known. The total tells
nothing of a single hospital if it is a function of *all patients together*. Sums of
floats are not: their rounding depends on who is summed with whom, and a number that is
too large for the sum is treated by the hospital that holds it. Hence:

* **Each patient's contribution is rounded to a whole number of units**, and these are
  added exactly. It depends on that patient, on the question and on public facts.
  Any split of the same patients into sites has the same total, bit for bit. One sum is about
  the split itself, and coarse for it: :mod:`fedrulefit.core.families.yesno_within`.
* **Contributions are bounded by public facts**: the study, the grid, and the constants
  below. A question that could go beyond is refused before a patient is touched; a table
  that is too large for its sums never joins. Nothing is cut.

=====================================  ===================  ==================================
contribution of a patient of weight w  unit                 largest
=====================================  ===================  ==================================
weights, counts                        2⁻³²                 w
loss ℓ                                 2⁻³⁰                 w·most_value(largest F)
mean loss, increments (FedDA)          2⁻³²                 w·max(500, most_value(500))
conjugate ℓ*                           2⁻³²                 w·most_conjugate
spreads, in half ranges                2⁻⁴⁰                 w
slope ℓ'·x/b                           2⁻⁴⁰                 w·most_slope
root of the curvature ℓ'', times x/b   2⁻²⁰; squared 2⁻⁴⁰   √(most_curvature·w/largest weight)
=====================================  ===================  ==================================

b is the largest size of the term on public grounds (:class:`Bounds`); how large a loss and its
derivatives can be is told by the outcome's family (:class:`~fedrulefit.core.families.Family`),
and so is a public power of two s of which they are multiples, 1 for a yes/no outcome: the units
above are those of ℓ/s, but for FedDA's. What a patient adds to a judge's sums is at most 2⁴⁰ units.
For a yes/no outcome a loss is at most 2049·w, a slope w, and a root ½·√(w/largest weight).

A predictor is exact, too: coefficients are rounded to 2⁻⁴¹, so the rules that hold for a
patient add up exactly in any order; baseline and linear terms are added one after another.

Oracle: Python's integers, patient by patient (``tests/properties/test_splits.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints

if TYPE_CHECKING:
    from fedrulefit.core.families import Family  # SciPy: a study loads without it

UNIT_BITS: Final = 32
"""A unit is 2⁻³²."""

LOSS_BITS: Final = 30
"""Losses are counted in units of 2⁻³⁰: they can be large."""

FINE_BITS: Final = 40
"""Slopes and spreads are counted in units of 2⁻⁴⁰: they need the digits."""

ROOT_BITS: Final = 20
"""Roots of the curvature are counted in units of 2⁻²⁰: they only set the pace of the solver."""

COEF_BITS: Final = 41
"""Coefficients are rounded to 2⁻⁴¹ before patients' predictors are made."""

EXACT: Final = 2.0**53
"""Whole numbers up to here are exact as floats."""

LARGEST_TERM: Final = 64.0
"""No linear term is larger: the grid sees to it."""

MOST_OFFSET: Final = 16.0
"""No offset adds more to F, of whatever sign: 9 million times the odds."""

LARGEST_PREDICTOR: Final = 2048.0
"""No predictor is larger, of any family: Σ |β|·(largest size of the term) stays below."""

LARGEST_OWN: Final = 8.0
"""No hospital's own baseline is larger (:mod:`fedrulefit.core.own`): 3,000 times the odds."""

LARGEST_MEAN: Final = 500.0
"""No mean is larger that a site sends times its weight, in units of 2⁻³² (FedDA)."""

LARGEST_WEIGHT: Final = 2.0**10
"""No patient counts more: eight slopes of such patients still add up exactly as floats."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """How large a patient's numbers can be, on public grounds.

    Parameters
    ----------
    terms : (n_terms,) float64
        Largest size of each term: 1 for baseline and rules; above 0.
    weight : float
        Most that one patient counts.
    unit : float
        What losses and their derivatives are multiples of
        (:attr:`~fedrulefit.core.families.base.Family.unit`).
    spread : float or None
        τ of hospitals' own baselines, with which losses are summed
        (:mod:`fedrulefit.core.own`); None where they have none.
    """

    terms: Floats
    weight: float = 1.0
    unit: float = 1.0
    spread: float | None = None


def round_units(contributions: Floats, bits: int = UNIT_BITS) -> Floats:
    """Return each patient's contribution in whole units of 2^−bits, as floats."""
    units: Floats = np.rint(contributions * 2.0**bits)
    return units


def add_units(contributions: Floats, bits: int = UNIT_BITS) -> int:
    """Round each patient's contribution, and add exactly."""
    return int(round_units(contributions, bits).astype(np.int64).sum())


def to_units(numbers: Floats, bits: int = UNIT_BITS) -> Ints:
    """Return numbers as whole units of 2^−bits.

    Raises
    ------
    OverflowError
        If one is not finite, or has more units than an integer holds; it is not told.
    """
    with np.errstate(over="ignore"):  # infinite is too large, too
        units = round_units(numbers, bits)
    if not (np.abs(units) < 2.0**63).all():
        raise OverflowError("a number is too large for a sum")
    return units.astype(np.int64)


def from_units(total: Ints | int, bits: int = UNIT_BITS) -> Floats:
    """Return the numbers that units of 2^−bits stand for."""
    numbers: Floats = np.asarray(total, dtype=np.float64) / 2.0**bits
    return numbers


def round_coef(coef: Floats) -> Floats:
    """Round coefficients to multiples of 2⁻⁴¹."""
    rounded: Floats = np.rint(coef * 2.0**COEF_BITS) / 2.0**COEF_BITS
    return rounded


def largest_predictor(coef: Floats, bounds: Floats, n_predictors: int = 1) -> float:
    """Return how large a predictor could be, whoever the patient is.

    Of several predictors of a patient each begins with one of the first coefficients.
    """
    with np.errstate(over="ignore"):  # infinite is too large, too
        if n_predictors == 1:
            return float(np.abs(coef) @ bounds)
        own, shared = np.split(np.abs(coef), [n_predictors])
        return float((own * bounds[:n_predictors]).max() + shared @ bounds[n_predictors:])


def most_units(family: Family, *, own: bool = False) -> float:
    """Return the most units that a patient of weight 1 adds to any sum (the table above).

    With `own` baselines, their price has a conjugate, too.
    """
    of_own = LARGEST_OWN * family.n_owners * family.most_slope if own else 0.0
    of_losses = max(
        2.0**LOSS_BITS * family.most_value(family.largest_predictor),
        2.0**UNIT_BITS * (family.most_conjugate + of_own),
        2.0**FINE_BITS * family.most_slope,
        2.0 ** (2 * ROOT_BITS) * family.most_curvature,
    )
    # FedDA's means and increments know no scale.
    of_means = max(family.most_value(LARGEST_MEAN), LARGEST_MEAN) if family.averages else 0.0
    return max(
        of_losses / family.unit,
        2.0**UNIT_BITS * of_means,
        2.0**FINE_BITS,
    )


def capacity(family: Family, n_sites: int, *, own: bool = False) -> float:
    """Return the patients, or the sum of their weights, that one of `n_sites` may have.

    Any sum over them stays below 2⁶³ units. `own`: hospitals have baselines of their own.
    """
    return float(2.0**63 / (n_sites * most_units(family, own=own)))
