"""How far hospitals differ in what a rule does: against other programs, and coverage."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, gamma
from statsmodels.stats.meta_analysis import combine_effects

from fedrulefit.core.families.effects import MeanEvidence, OddsEvidence
from fedrulefit.core.families.elsewhere import (
    FEWEST,
    MOST_EFFECT,
    MOST_WEIGHT,
    Elsewhere,
    ElsewhereSums,
    add_own_effects,
    find_elsewhere,
)
from fedrulefit.core.families.evidence import NOTHING, EvidenceSums
from fedrulefit.core.rounding import EXACT, PUBLISHED


def told(estimates: Any, errors: Any, *, enough: Any = True) -> list[EvidenceSums]:
    """Return what hospitals would tell of one rule with these effects, of means: R/S and X/S²."""
    known = np.broadcast_to(np.asarray(enough, dtype=float), np.shape(estimates))
    return [
        EvidenceSums(*(np.array([k * part]) for part in (1.0, y, 1.0, s**2, 0.0, 0.0)))
        for y, s, k in zip(estimates, errors, known, strict=True)
    ]


def spread_of(parts: Any, evidence: Any = None) -> Elsewhere | None:
    """Add hospitals up, and return the spread of the one rule."""
    own = [add_own_effects(evidence or MeanEvidence(), part) for part in parts]
    names = [field.name for field in fields(ElsewhereSums)]
    sums = ElsewhereSums(*(np.sum([getattr(one, name) for one in own], axis=0) for name in names))
    (found,) = find_elsewhere(sums)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_it_is_dersimonian_and_lairds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(FEWEST, 12))
    errors = rng.uniform(0.1, 0.6, k)
    effects = rng.normal(0.5, np.hypot(errors, rng.choice([0.0, 0.7])))
    found = spread_of(told(effects, errors))
    theirs = combine_effects(effects, errors**2, method_re="chi2", use_t=False)
    tau2 = max(theirs.tau2, 0.0)
    assert found is not None
    assert found.sites == k
    assert found.spread == pytest.approx(tau2**0.5, abs=1e-9)
    assert (found.low + found.high) / 2 == pytest.approx(theirs.mean_effect_fe, abs=1e-9)


def test_the_range_is_that_of_draws() -> None:
    """τ² from its confidence distribution, then a hospital with it: drawn, not integrated."""
    rng = np.random.default_rng(4)
    errors = rng.uniform(0.2, 0.5, 8)
    effects = rng.normal(0.3, np.hypot(errors, 0.4))
    w = errors**-2.0
    mean, common = (w * effects).sum() / w.sum(), (w**2).sum() / w.sum()
    seen, slope = (w * (effects - mean) ** 2).sum(), w.sum() - common
    tau2 = np.linspace(0, 20, 400_001)
    expected = 7 + slope * tau2
    variance = 14 + 4 * slope * tau2 + 2 * ((w**2).sum() - common**2) * tau2**2
    share = gamma(expected**2 / variance, scale=variance / expected).sf(seen)
    drawn = np.interp(rng.random(400_000), share, tau2)
    far = rng.normal(mean, np.sqrt(drawn + 1 / w.sum() + drawn * common / w.sum()))
    found = spread_of(told(effects, errors))
    assert found is not None
    np.testing.assert_allclose(
        (found.low, found.high), np.quantile(far, [0.025, 0.975]), rtol=0.01, atol=0.02
    )


def test_fewer_than_five_hospitals_tell_nothing_and_those_with_too_few_do_not_count() -> None:
    effects, errors = np.linspace(-1, 1, 6), np.full(6, 0.2)
    assert spread_of(told(effects, errors, enough=[1, 1, 1, 1, 0, 0])) is None
    five = spread_of(told(effects, errors, enough=[1, 1, 1, 1, 1, 0]))
    assert five == spread_of(told(effects[:5], errors[:5]))


def test_hospitals_without_an_effect_of_their_own_add_nothing() -> None:
    """An empty cell: R or S is 0, and the logarithm of the ratio none."""
    row = [1.0, 0.0, 3.0, 0.5, 1.0, 0.5]
    (own,) = [add_own_effects(OddsEvidence(), EvidenceSums(*(np.array([x]) for x in row)))]
    assert not any(getattr(own, field.name).any() for field in fields(own))


def test_what_one_hospital_adds_is_bounded() -> None:
    """However small the error and large the effect: sums of a thousand sites stay in range."""
    (own,) = [add_own_effects(MeanEvidence(), part) for part in told([1e6], [1e-9])]
    assert own.weights == MOST_WEIGHT
    assert own.effects == MOST_WEIGHT * MOST_EFFECT
    packing = ElsewhereSums.packing(1, MeanEvidence(), FEWEST)
    assert (np.abs(packing.round(own)) * 1000.0 < 2.0**62).all()


@pytest.mark.parametrize("n_sites", [2, FEWEST - 1, FEWEST])
def test_runs_of_few_hospitals_do_not_even_ask(n_sites: int) -> None:
    assert ElsewhereSums.packing(3, OddsEvidence(), n_sites).size == 15 * (n_sites >= FEWEST)
    assert ElsewhereSums.packing(3, None, n_sites).size == 0
    assert len(NOTHING.sites) == 0


def test_rounding_keeps_two_digits() -> None:
    found = Elsewhere(7, 0.123456, -0.98765, 1.23456)
    assert found.rounded(EXACT) == found
    assert found.rounded(PUBLISHED) == Elsewhere(7, 0.12, -0.99, 1.2)
    with pytest.raises(ValueError, match="5 hospitals"):
        Elsewhere(4, 0.1, 0.0, 1.0)


@pytest.mark.parametrize("tau", [0.0, 0.4])
@pytest.mark.parametrize("n_sites", [5, 10, 20])
def test_another_hospitals_effect_lies_within(n_sites: int, tau: float) -> None:
    """A range that holds for .93 holds in so few of 800 draws with a chance below 1e-7."""
    rng, n_draws, inside = np.random.default_rng(n_sites), 800, 0
    for _ in range(n_draws):
        errors = rng.uniform(0.15, 0.5, n_sites)
        effects = 0.6 + rng.normal(0, tau, n_sites) + rng.normal(0, errors)
        found = spread_of(told(effects, errors))
        assert found is not None
        inside += found.low <= 0.6 + rng.normal(0, tau) <= found.high
    assert inside >= binom(n_draws, 0.93).ppf(1e-7), inside / n_draws
