"""The noise's distribution and its price.

OpenDP draws from the operating system's randomness and cannot be seeded, so
each test on it states how often a correct sampler would fail it; together
less than once in 100,000 runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from fedrulefit.privacy.mechanisms import OpenDPLaplace, UnsafeSeededLaplace

FALSE_ALARM = 1e-7
N_DRAWS = 20_000


def law(scale: float, n_tail: int) -> Any:
    """Discrete Laplace probabilities of −n … n, the tails added to both ends."""
    a = math.exp(-1 / scale)
    sizes = np.abs(np.arange(-n_tail, n_tail + 1))
    probabilities = (1 - a) / (1 + a) * a**sizes
    # P(X ≥ n) = aⁿ / (1 + a)
    probabilities[[0, -1]] = a**n_tail / (1 + a)
    return probabilities


def tail_with_enough(scale: float) -> int:
    """The end cell, so that each cell expects at least 25 draws."""
    a = math.exp(-1 / scale)
    return max(1, int(math.log(25 * (1 + a) / N_DRAWS) / math.log(a)))


def draw(noise: Any, *, sensitivity: int, epsilon: float, n: int = N_DRAWS) -> Any:
    noisy, _ = noise.add(np.zeros(n, np.int64), sensitivity=sensitivity, epsilon=epsilon)
    return noisy


def pvalue_of_law(draws: Any, scale: float) -> float:
    n_tail = tail_with_enough(scale)
    observed = np.bincount(np.clip(draws, -n_tail, n_tail) + n_tail, minlength=2 * n_tail + 1)
    return float(chisquare(observed, len(draws) * law(scale, n_tail)).pvalue)


@pytest.mark.parametrize("scale", [0.5, 1.0, 10.0])
def test_the_law_is_a_probability_with_the_known_variance(scale: float) -> None:
    a = math.exp(-1 / scale)
    assert law(scale, tail_with_enough(scale)).sum() == pytest.approx(1, rel=1e-12)
    wide = law(scale, 2000)
    sizes = np.arange(-2000, 2001)
    assert wide @ sizes**2 == pytest.approx(2 * a / (1 - a) ** 2, rel=1e-9)


@pytest.mark.parametrize(
    ("sensitivity", "epsilon"), [(1, 1.0), (1, 0.25), (1, 3.0), (3, 1.0), (1000, 100.0)]
)
def test_opendp_noise_is_discrete_laplace_of_scale_sensitivity_over_epsilon(
    sensitivity: int, epsilon: float
) -> None:
    """χ² on cells of at least 25 expected draws; false alarm 1e-7 each."""
    draws = draw(OpenDPLaplace(), sensitivity=sensitivity, epsilon=epsilon)
    assert pvalue_of_law(draws, sensitivity / epsilon) > FALSE_ALARM


def test_the_statistical_test_notices_a_scale_that_is_a_tenth_off() -> None:
    """The test's own power: noise too small by 10 % or more would be found."""
    draws = draw(UnsafeSeededLaplace(1, "a"), sensitivity=1, epsilon=1.1)
    assert pvalue_of_law(draws, 1.0) < FALSE_ALARM


def test_opendp_noise_leaves_a_count_unchanged_as_often_as_it_should() -> None:
    """Exact binomial test of P(0) = (1 − a)/(1 + a); false alarm 1e-7."""
    unchanged = int((draw(OpenDPLaplace(), sensitivity=1, epsilon=1.0) == 0).sum())
    a = math.exp(-1)
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], N_DRAWS, (1 - a) / (1 + a))
    assert low <= unchanged <= high


def test_opendp_noise_has_mean_zero() -> None:
    """5.5 standard errors by the normal law: false alarm 4e-8."""
    a = math.exp(-0.5)
    error = math.sqrt(2 * a / (1 - a) ** 2 / N_DRAWS)
    assert abs(draw(OpenDPLaplace(), sensitivity=1, epsilon=0.5).mean()) < 5.5 * error


def test_opendp_noise_is_fresh_in_every_call_and_cell() -> None:
    """Two runs of 200 equal draws would be chance once in 10⁸⁰ or so."""
    noise = OpenDPLaplace()
    one, two = (draw(noise, sensitivity=1, epsilon=1.0, n=200) for _ in range(2))
    assert one.tolist() != two.tolist()
    assert one[:100].tolist() != one[100:].tolist()


def test_neighbouring_cells_get_independent_noise() -> None:
    """Correlation of 10,000 pairs within 5.5 standard errors: false alarm 4e-8."""
    pairs = draw(OpenDPLaplace(), sensitivity=1, epsilon=1.0).reshape(-1, 2)
    correlation = np.corrcoef(pairs.T)[0, 1]
    assert abs(correlation) < 5.5 / math.sqrt(len(pairs))


def test_noise_is_added_to_the_counts_and_stays_whole() -> None:
    """At ε = 200 a draw other than 0 has probability 3e-87."""
    counts = np.array([0, 5, 123_456_789, 3], np.int64)
    noisy, _ = OpenDPLaplace().add(counts, sensitivity=1, epsilon=200.0)
    assert noisy.dtype == np.int64
    assert noisy.tolist() == counts.tolist()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("sensitivity", [1, 7, 1000])
def test_the_price_is_the_epsilon_asked_for_as_opendp_states_it(
    epsilon: float, sensitivity: int
) -> None:
    _, spent = OpenDPLaplace().add(np.zeros(3, np.int64), sensitivity=sensitivity, epsilon=epsilon)
    assert spent == pytest.approx(epsilon, rel=1e-9)


def test_opendp_is_named_with_its_version() -> None:
    assert OpenDPLaplace().name.startswith("discrete Laplace, OpenDP 0.")


# --- the seeded noise of tests ----------------------------------------------------------


def test_seeded_noise_is_reproducible_per_seed_and_site_and_has_no_epsilon() -> None:
    counts = np.arange(50)

    def once(seed: int, site: str) -> Any:
        return UnsafeSeededLaplace(seed, site).add(counts, sensitivity=1, epsilon=0.5)

    noisy, spent = once(1, "a")
    assert spent is None
    assert noisy.dtype == np.int64
    assert noisy.tolist() == once(1, "a")[0].tolist()
    assert noisy.tolist() != once(2, "a")[0].tolist()
    assert noisy.tolist() != once(1, "b")[0].tolist()
    noise = UnsafeSeededLaplace(1, "a")
    first, second = (noise.add(counts, sensitivity=1, epsilon=0.5)[0] for _ in range(2))
    assert first.tolist() != second.tolist()


def test_seeded_noise_is_named_unsafe() -> None:
    assert UnsafeSeededLaplace.name.startswith("UNSAFE")


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1.0), (1, 0.25), (3, 1.0)])
def test_seeded_noise_has_the_same_law(sensitivity: int, epsilon: float) -> None:
    """The seed is fixed: it cannot fail by chance."""
    draws = draw(UnsafeSeededLaplace(7, "a"), sensitivity=sensitivity, epsilon=epsilon)
    assert pvalue_of_law(draws, sensitivity / epsilon) > 1e-3
