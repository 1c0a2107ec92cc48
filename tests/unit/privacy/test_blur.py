"""How far noise moves a median: the formula against noisy histograms, and in words."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from tests.samples import make_study

from fedrulefit.privacy.blur import Blur
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace


@pytest.mark.parametrize(("n_sites", "epsilon"), [(1, 0.05), (3, 0.02)])
def test_the_rank_of_a_median_is_off_by_as_much(n_sites: int, epsilon: float) -> None:
    """Seeded, so it always does the same; 1,000 draws give a standard deviation to 2 %."""
    n_bins, n_draws = 100, 1000
    counts = np.full(n_bins * n_draws, 10, dtype=np.int64)
    noisy = np.zeros((n_draws, n_bins))
    for site in range(n_sites):
        noise = UnsafeSeededLaplace(5, f"site {site}")
        noisy += noise.add(counts, sensitivity=1, epsilon=epsilon)[0].reshape(noisy.shape)
    below, total = noisy[:, : n_bins // 2].sum(axis=1), noisy.sum(axis=1)
    found = float(np.std(below - total / 2))
    assert Blur(epsilon, n_bins).ranks(n_sites) == pytest.approx(found, rel=0.06)


def test_weights_count_as_their_most() -> None:
    assert Blur(0.5, 200, 3.0).ranks(4) == pytest.approx(6 * sqrt(4 * 100))
    assert Blur(None, 200, 3.0).ranks(4) == 0


def test_a_warning_where_a_median_may_as_well_be_a_quartile() -> None:
    blur = Blur(0.002, 100)
    assert blur.ranks() == pytest.approx(3535.5, abs=0.1)
    assert blur.problem(14_200) == ""
    words = blur.problem(1000, 3)
    assert words.startswith("ε of each histogram is 0.002: its noise moves a median by about 6,124")
    for advice in ("'epsilon_total'", "'cutoffs'", "'noise = false'", "take covariates out"):
        assert advice in words
    assert Blur(None, 100).problem(1) == ""


def test_only_numbers_whose_cut_offs_are_estimated_can_be_blurred() -> None:
    study = make_study(epsilon=0.001, noise=True)
    assert study.blur == Blur(0.001, max(b.n_bins for b in study.bins if b.kind == "number"))
    quantiles = study.with_settings(cutoff_style="quantile")
    assert quantiles.blur == Blur(0.001, quantiles.settings.n_bins)
    facts = study.model_dump()
    for name, covariate in facts["covariates"].items():
        if covariate["kind"] == "number":
            low, high = covariate["range"]
            facts["covariates"][name] |= {"cutoffs": [(low + high) / 2], "step": None}
    fixed = type(study).model_validate(facts)
    assert fixed.blur.problem(10) == ""
    assert study.with_settings(noise=False).blur.epsilon is None
