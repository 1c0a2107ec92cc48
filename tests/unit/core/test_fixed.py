"""Fixed point in literals: hospitals of different versions must count in the same units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oracles import YES_NO

from fedrulefit.core import arrays, fixed
from fedrulefit.core.fixed import (
    add_units,
    capacity,
    from_units,
    largest_predictor,
    round_coef,
    round_units,
)


def test_units_and_bounds_are_those_of_the_documents() -> None:
    assert (arrays.MISSING, arrays.MAX_CODES) == (255, 255)
    assert (fixed.UNIT_BITS, fixed.LOSS_BITS, fixed.FINE_BITS) == (32, 30, 40)
    assert (fixed.ROOT_BITS, fixed.COEF_BITS) == (20, 41)
    assert fixed.EXACT == 9_007_199_254_740_992
    assert (fixed.LARGEST_TERM, fixed.LARGEST_PREDICTOR, fixed.LARGEST_MEAN) == (64, 2048, 500)
    assert fixed.LARGEST_WEIGHT == 1024
    assert fixed.Bounds(np.ones(1)).weight == 1, "a patient counts once, unless one says otherwise"


def test_the_bounds_fit_together() -> None:
    """What the documents argue, in numbers."""
    # Eight slopes of the heaviest patients add up exactly as floats.
    assert 8 * fixed.LARGEST_WEIGHT * 2.0**fixed.FINE_BITS <= fixed.EXACT
    # Whole numbers up to EXACT are floats; the next one is not.
    assert float(2**53 - 1) == 2**53 - 1
    assert fixed.EXACT + 1 == fixed.EXACT
    # No loss is larger than the predictor and one.
    largest = fixed.LARGEST_PREDICTOR
    assert np.logaddexp(0, largest) <= largest + 1
    # Losses of all patients of a full table stay below 2⁶³ units over all sites.
    for n_sites in (1, 3, 50):
        total = n_sites * capacity(YES_NO, n_sites) * (largest + 1) * 2.0**fixed.LOSS_BITS
        assert total == pytest.approx(2.0**63, rel=1e-12)


def test_rounding_to_units_by_hand() -> None:
    assert round_units(np.array([1.0, -0.5, 2.0**-33, 3 * 2.0**-33])).tolist() == [
        2**32,
        -(2**31),
        0,  # a half goes to the even number
        2,
    ]
    assert round_units(np.array([0.3, -0.8]), 1).tolist() == [1, -2]
    assert add_units(np.array([0.25, 0.5, 1.0])) == 7 * 2**30
    assert add_units(np.array([0.3, 0.3, 0.3]), 1) == 3
    assert from_units(3 * 2**31) == 1.5
    assert from_units(np.array([1, -4]), 2).tolist() == [0.25, -1]


def test_coefficients_are_multiples_of_their_unit() -> None:
    unit = 2.0**-41
    found = round_coef(np.array([1.0, 0.4 * unit, -0.6 * unit, 7.0 + 1.4 * unit]))
    assert found.tolist() == [1, 0, -unit, 7 + unit]


def test_how_large_a_predictor_could_be() -> None:
    assert largest_predictor(np.array([1.0, -2.0, 0.5]), np.array([1.0, 1.0, 64.0])) == 35
    several = np.array([1.0, -3.0, 0.5, -0.25]), np.array([1.0, 1.0, 64.0, 4.0])
    assert largest_predictor(*several, n_predictors=2) == 3 + 32 + 1
    with np.errstate(all="raise"):
        assert largest_predictor(np.array([1e308, 1e308]), np.full(2, 64.0)) == math.inf


def test_the_capacity_by_hand() -> None:
    """2³³ patients would fill one site's losses of 1; each may be of 2,049."""
    assert capacity(YES_NO, 1) == 2**33 / 2049
    assert capacity(YES_NO, 4) == 2**33 / (4 * 2049)
