"""Numbers on their way into a sum: what is refused, and the ring itself, in literals.

Sums of whole sites are in ``tests/properties/test_secure_sums.py``, the bytes of masks in
``test_golden_bytes.py``.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.fixed import UNIT_BITS, from_units, to_units
from fedrulefit.privacy import masks
from fedrulefit.privacy.masks import RingOverflowError, add_rings, check_ring, open_sum

TOP = 2**63


def floats(*numbers: float) -> Any:
    return np.array(numbers, np.float64)


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def units_of(numbers: Any, n_sites: int) -> Any:
    """Return whole units that may be added up over so many sites."""
    units = to_units(numbers)
    check_ring(units, n_sites)
    return units


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_wherever_it_stands(bad: float) -> None:
    """Every comparison with NaN is false: a check for "too large" would let it through."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a cast of NaN only warns
        for place in range(3):
            numbers = floats(1, 2, 3)
            numbers[place] = bad
            with pytest.raises(OverflowError, match="too large for a sum"):
                to_units(numbers)


@pytest.mark.parametrize(
    ("n_sites", "most"), [(1, 2.0**31), (2, 2.0**30), (3, 2.0**31 / 3), (8, 2.0**28)]
)
def test_numbers_stay_below_their_share_of_the_ring(n_sites: int, most: float) -> None:
    below = math.nextafter(most, 0)
    assert units_of(floats(below, -below), n_sites).tolist() == [
        round(below * 2**32),
        -round(below * 2**32),
    ]
    share = f"too large for {n_sites} sites: its units must stay below {most * 2**32:.3g}"
    for bad in (most, -most, 2 * most, 1e300):
        with pytest.raises(OverflowError) as caught:
            units_of(floats(0, bad), n_sites)
        fits = abs(bad) < 2.0**31
        assert isinstance(caught.value, RingOverflowError) is fits
        assert (share if fits else "a number is too large for a sum") in str(caught.value)
        assert "1e+300" not in str(caught.value), "an error never tells a value"


@pytest.mark.parametrize(("n_sites", "most"), [(1, TOP), (2, TOP // 2), (4, TOP // 4)])
def test_whole_units_stay_below_their_share_of_the_ring(n_sites: int, most: int) -> None:
    """Integers are compared as floats: of 53 digits, so that the last thousand are refused."""
    units = ints(most - 1024, -(most - 1024), 0)
    check_ring(units, n_sites)
    assert units.tolist() == [most - 1024, -(most - 1024), 0], "units are left as they are"
    for bad in (most - 1, -(most - 1)):
        with pytest.raises(RingOverflowError):
            check_ring(ints(0, bad), n_sites)
    with pytest.raises(RingOverflowError):
        check_ring(ints(-TOP), n_sites)  # the one whose size is no number of the ring


def test_floats_become_whole_units() -> None:
    assert UNIT_BITS == 32
    found = units_of(floats(1, -0.5, 2.0**-32, 2.0**-33, 0.75 * 2.0**-32), 3)
    assert found.tolist() == [2**32, -(2**31), 1, 0, 1]
    assert found.dtype == np.int64
    assert units_of(floats(), 3).tolist() == []
    assert from_units(ints(2**32, -(2**31), 3)).tolist() == [1, -0.5, 3 * 2.0**-32]


def test_rings_are_added_modulo_two_to_the_64() -> None:
    assert add_rings([ints(TOP - 1), ints(1)], 1).tolist() == [-TOP]
    assert add_rings([ints(-TOP), ints(-TOP)], 1).tolist() == [0]
    assert add_rings([ints(-TOP, 5), ints(-1, -7)], 2).tolist() == [TOP - 1, -2]
    assert add_rings([], 2).tolist() == [0, 0]
    assert add_rings([ints(1)], 1).dtype == np.int64


def test_opening_takes_every_mask_off_again() -> None:
    seeds = [bytes([k]) * 32 for k in range(3)]
    sealed = [add_rings([ints(k, -k), masks.keystream(s, 2)], 2) for k, s in enumerate(seeds)]
    assert open_sum(sealed, seeds, 2).tolist() == [3, -3]
    assert open_sum([ints(4, 5)], [], 2).tolist() == [4, 5]


def test_a_keystream_has_the_length_that_is_asked_for() -> None:
    for length in (0, 1, 7, 100):
        stream = masks.keystream(bytes(32), length)
        assert stream.shape == (length,)
        assert stream.tolist() == masks.keystream(bytes(32), 200)[:length].tolist()
