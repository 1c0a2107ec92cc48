"""Intervals of shares, against statsmodels and by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from fedrulefit.core.shares import effective_size, newcombe, wilson

COUNTS = st.tuples(st.integers(1, 3000), st.floats(0, 1)).map(lambda t: (round(t[0] * t[1]), t[0]))


@given(COUNTS)
def test_wilson_is_that_of_statsmodels(counts: tuple[int, int]) -> None:
    cases, n = counts
    found = wilson(np.array([cases / n]), np.array([float(n)]))
    expected = proportion_confint(cases, n, method="wilson")
    np.testing.assert_allclose(np.ravel(found), expected, atol=1e-12)


@given(COUNTS, COUNTS)
def test_newcombe_is_that_of_statsmodels(first: Any, second: Any) -> None:
    (a, n), (b, m) = first, second
    found = newcombe(*(np.float64(x) for x in (a / n, n, b / m, m, 0.0)))
    expected = confint_proportions_2indep(a, n, b, m, method="newcomb", compare="diff")
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_what_is_linked_widens_or_narrows_by_its_covariance() -> None:
    facts = [np.float64(x) for x in (0.3, 200, 0.4, 300)]
    low, high = newcombe(*facts, np.float64(0.0))
    wide = newcombe(*facts, np.float64(-4e-4))
    near = newcombe(*facts, np.float64(4e-4))
    assert wide[0] < low < near[0] < -0.1 < near[1] < high < wide[1]
    # On the scale of variances: half-widths² grow by 2·z²·covariance.
    grown = ((wide[1] + 0.1) ** 2 - (high + 0.1) ** 2) / (2 * 1.959963984540054**2)
    assert grown == pytest.approx(4e-4)
    assert newcombe(*facts, np.float64(1.0)) == (facts[0] - facts[2],) * 2, "never inside out"


def test_noise_counts_as_fewer_patients() -> None:
    """Until the variance of the share is that of both together."""
    share, n = np.array([0.2, 0.5]), np.array([500.0, 400.0])
    noise = np.array([1e-4, 0.0])
    size = effective_size(share, n, noise)
    assert size[1] == 400
    assert share[0] * 0.8 / size[0] == pytest.approx(0.2 * 0.8 / 500 + 1e-4, rel=0.01)
    assert 0 < effective_size(np.array([0.0]), np.array([50.0]), np.array([1e-3]))[0] < 50
