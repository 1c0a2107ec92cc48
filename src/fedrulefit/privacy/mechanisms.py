r"""Integer noise for histograms, drawn by OpenDP.

In: integer counts. Out: noisy integer counts and the ε they cost, as OpenDP's
own privacy map states it.

A patient's row stands in one cell per covariate, so adding or removing one patient
changes a covariate's counts by at most the units of all of that patient's rows: the
ℓ1 sensitivity. The noise is the *discrete* Laplace distribution: continuous
Laplace noise on floats is attackable through the floats' own gaps.

Laplace noise of scale sensitivity / ε gives ε-differential privacy (paper,
appendix 1). Over p covariates of the same patients the costs add up: p·ε. The same
noisy counts again cost nothing more (:mod:`fedrulefit.protocol.histograms`).

Oracle: the discrete Laplace probabilities (``tests/statistics``).
"""

from __future__ import annotations

import random
from importlib.metadata import version
from typing import Protocol

import numpy as np

from fedrulefit.core.arrays import Ints


class Noise(Protocol):
    """Something that adds integer noise and knows its price.

    Its name is the distribution, then a comma and what drew it.
    """

    name: str
    private: bool

    def add(self, counts: Ints, *, sensitivity: int, epsilon: float) -> tuple[Ints, float | None]:
        """Return noisy counts and the ε spent; None where no ε is guaranteed."""
        ...


def law_of(noise: Noise) -> str:
    """Return the name without the version that draws it: a newer one is the same noise."""
    return noise.name.partition(",")[0]


class OpenDPLaplace:
    """Discrete Laplace noise from OpenDP's cryptographic sampler."""

    private = True

    def __init__(self) -> None:
        self.name = f"discrete Laplace, OpenDP {version('opendp')}"

    def add(self, counts: Ints, *, sensitivity: int, epsilon: float) -> tuple[Ints, float]:
        """Return `counts` with noise of scale sensitivity / epsilon, and ε."""
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
        measurement = dp.m.make_laplace(*space, scale=sensitivity / epsilon)
        noisy = np.asarray(measurement(counts.tolist()), dtype=np.int64)
        return noisy, float(measurement.map(d_in=sensitivity))


class UnsafeSeededLaplace:
    """Reproducible noise for tests; NOT PRIVATE.

    Whoever knows the seed subtracts the noise.
    """

    name = "UNSAFE seeded discrete Laplace: not private, for tests only"
    private = False

    def __init__(self, seed: int, site: str) -> None:
        self._random = random.Random(f"{seed}/{site}")

    def add(self, counts: Ints, *, sensitivity: int, epsilon: float) -> tuple[Ints, None]:
        """Return `counts` plus the difference of two geometric variables."""
        keep = float(np.exp(-epsilon / sensitivity))
        noise = [self._geometric(keep) - self._geometric(keep) for _ in range(len(counts))]
        return counts + np.asarray(noise, dtype=np.int64), None

    def _geometric(self, keep: float) -> int:
        uniform = 1.0 - self._random.random()
        return int(np.floor(np.log(uniform) / np.log(keep)))
