"""Attacks on effects within hospitals: sums that say how patients lie in hospitals.

The coordinator knows the totals over all hospitals to the patient, and from what a hospital's sums
are made. It tries every way in which the patients could lie in two hospitals, or what one hospital
may hold where the others add nothing. Weakened twins tell their sums with all digits.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.families import evidence as coarse
from fedrulefit.core.families.effects import OddsEvidence
from fedrulefit.core.families.evidence import EvidenceSums, add_stratum, find_grain

NORTH = np.array([9, 17, 14, 33])
"""With the outcome inside, without it inside, and the same outside."""
SOUTH = np.array([14, 12, 21, 30])
STARTS = ((0.21, 0.83), (0.55, 0.07))
LEAST = 5.0
assert find_grain(2) == 1.0


def tell(cells: Any, starts: tuple[float, float], *, exact: bool) -> Any:
    """Return what a hospital adds, one row per number, of each column of cells, (4, any)."""
    a, b, c, d = np.asarray(cells, dtype=float).reshape(4, -1)
    evidence: Any = OddsEvidence()
    with np.errstate(divide="ignore", invalid="ignore"):
        stratum = evidence.summarise(np.stack([a + b, a]), (a + b + c + d, a + c))
        if exact:
            share = (a + d) / np.maximum(a + b + c + d, 1)
            stratum = replace(stratum, shapes=share[None])
        enough = np.minimum.reduce([a + b, c + d, a + c, b + d]) >= LEAST
        told = add_stratum(evidence, stratum, enough, 1e-9 if exact else LEAST, starts)
    return np.stack([getattr(told, field.name) for field in fields(EvidenceSums)])


def every_split(total: Any) -> Any:
    """Return every way in which patients of four kinds can lie in a hospital, (4, any)."""
    return np.indices(np.asarray(total) + 1).reshape(4, -1)


@pytest.mark.parametrize("exact", [True, False])
def test_two_hospitals_are_not_told_apart_by_their_sums(exact: bool) -> None:
    total = NORTH + SOUTH
    seen = tell(NORTH, STARTS[0], exact=exact) + tell(SOUTH, STARTS[1], exact=exact)
    found = []
    for guess in np.array_split(every_split(total), 12, axis=1):
        added = tell(guess, STARTS[0], exact=exact)
        added += tell(total[:, None] - guess, STARTS[1], exact=exact)
        fits = (np.abs(added - seen) <= 1e-6 * (1 + np.abs(seen))).all(axis=0)
        found.append(guess[:, fits])
    left = np.concatenate(found, axis=1)
    assert (left == NORTH[:, None]).all(axis=0).any(), "the truth is among them"
    if exact:
        assert left.shape[1] <= 4, "exact sums give the counts away"
        return
    assert left.shape[1] > 100
    for own in left:
        assert len(np.unique(own)) >= LEAST, "as many values of each count fit as k"


@pytest.mark.parametrize("exact", [True, False])
def test_a_hospital_whose_sums_stand_alone_keeps_its_counts(exact: bool) -> None:
    """The others have too few patients, and add zeros."""
    seen = tell(NORTH, STARTS[0], exact=exact)
    guess = every_split(3 * NORTH // 2)
    told = tell(guess, STARTS[0], exact=exact)
    left = guess[:, (np.abs(told - seen) <= 1e-6 * (1 + np.abs(seen))).all(axis=0)]
    assert (left == NORTH[:, None]).all(axis=0).any()
    if exact:
        assert left.shape[1] <= 4
        return
    assert left.shape[1] > 100
    for own in left:
        assert len(np.unique(own)) >= LEAST


def test_steps_do_not_tell_from_what_they_were_made() -> None:
    """A width that followed the counts to the last digit would tell them: steps are few."""
    rng = np.random.default_rng(0)
    widths = coarse._step_up(rng.random(5000))
    assert len(np.unique(widths)) <= 21
    np.testing.assert_allclose(2 * np.log2(widths), np.rint(2 * np.log2(widths)), atol=1e-9)
