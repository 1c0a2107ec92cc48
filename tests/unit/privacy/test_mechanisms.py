"""Noise and its price. Its distribution is tested in ``tests/statistics``."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.privacy.mechanisms import OpenDPLaplace, UnsafeSeededLaplace, law_of


@pytest.mark.parametrize("sensitivity", [1, 2, 1024])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_price_is_what_opendp_says_of_the_noise_that_was_added(
    sensitivity: int, epsilon: float
) -> None:
    """A scale of sensitivity · ε instead of sensitivity / ε would cost something else."""
    counts = np.array([0, 5, -3], np.int64)
    noisy, price = OpenDPLaplace().add(counts, sensitivity=sensitivity, epsilon=epsilon)
    assert price == pytest.approx(epsilon, rel=1e-9)
    assert noisy.dtype == np.int64
    assert noisy.shape == (3,)


@pytest.mark.parametrize("noise", [OpenDPLaplace(), UnsafeSeededLaplace(1, "north")])
def test_noise_is_of_the_scale_that_was_asked_for(noise: OpenDPLaplace) -> None:
    """The mean size of Laplace noise is its scale, here 20; of 2,000 draws to within 5 errors."""
    zero = np.zeros(2000, np.int64)
    noisy, _ = noise.add(zero, sensitivity=2, epsilon=0.1)
    assert abs(np.abs(noisy).mean() - 20) < 5 * 20 / np.sqrt(2000)
    assert abs(noisy.mean()) < 5 * 20 * np.sqrt(2 / 2000)


def test_seeded_noise_is_frozen() -> None:
    """Golden models rest on these draws."""
    noisy, price = UnsafeSeededLaplace(3, "north").add(
        np.zeros(12, np.int64), sensitivity=1, epsilon=0.5
    )
    assert price is None
    assert noisy.tolist() == [-4, 3, 5, 0, 1, 0, 0, -1, 0, -3, 1, -2]


def test_only_the_real_noise_is_called_private() -> None:
    real, fake = OpenDPLaplace(), UnsafeSeededLaplace(1, "north")
    assert (real.private, fake.private) == (True, False)
    assert law_of(real) == "discrete Laplace"
    assert "not private" in fake.name
