"""Negative binomial counts against SciPy and statsmodels: loss, θ, bounds, and Poisson's limit."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar

from fedrulefit.core.dispersion import (
    MOST_ROUNDS,
    STEPS_PER_OCTAVE,
    DispersionSearch,
    DispersionSums,
    is_step,
    stand_on,
    sum_dispersion,
)
from fedrulefit.core.families.count import MOST_DISPERSION, Count
from fedrulefit.core.families.count_losses import (
    BEND,
    LARGE,
    NegativeBinomialLoss,
    PoissonLoss,
    dispersion_slopes,
    half_deviance,
    log_gain,
)
from fedrulefit.core.fixed import UNIT_BITS, most_units
from fedrulefit.core.sums import Packing

MOST = 40.0
FAMILY = Count(MOST, max_exposure=2.0, negative_binomial=True)


def log_likelihood(y: Any, mean: Any, dispersion: float) -> Any:
    """SciPy's; its p is θ/(θ + μ)."""
    size = 1 / dispersion
    return stats.nbinom.logpmf(y, size, size / (size + mean))


def draw(seed: int, n_rows: int = 400, dispersion: float = 0.7) -> tuple[Any, Any]:
    """Return predictors of F, and counts with exposures that vary about them."""
    rng = np.random.default_rng(seed)
    predictor = rng.normal(-2.5, 0.6, n_rows)
    exposure = rng.uniform(0.4, 2.0, n_rows)
    mean = MOST * exposure / 2 * np.exp(predictor)
    more = rng.gamma(1 / dispersion, dispersion, n_rows) if dispersion > 0 else 1.0
    return predictor, np.column_stack([np.minimum(rng.poisson(mean * more), MOST), exposure])


def means_of(predictor: Any, outcome: Any) -> Any:
    _, exposures = FAMILY.scale(outcome)
    return MOST * exposures * np.exp(predictor)


# --- the loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dispersion", [1e-3, 0.1, 0.7, 5.0, 300.0])
def test_the_loss_is_the_likelihood_s_but_for_what_no_prediction_moves(dispersion: float) -> None:
    predictor, outcome = draw(1)
    family, ones = FAMILY.with_dispersion(dispersion), np.ones(len(predictor))
    here, there = (family.value(F, outcome, ones) for F in (predictor, predictor + 0.8))
    one, other = (
        log_likelihood(outcome[:, 0], means_of(F, outcome), dispersion)
        for F in (predictor, predictor + 0.8)
    )
    np.testing.assert_allclose(MOST * (there - here), one - other, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("dispersion", [0.05, 0.7, 5.0])
def test_it_is_half_of_the_deviance_of_statsmodels(dispersion: float) -> None:
    predictor, outcome = draw(2)
    mean = means_of(predictor, outcome)
    peer = sm.families.NegativeBinomial(alpha=dispersion).deviance(outcome[:, 0], mean)
    ours = FAMILY.with_dispersion(dispersion).value(predictor, outcome, np.ones(len(predictor)))
    assert 2 * MOST * ours.sum() == pytest.approx(peer, rel=1e-9)


def test_a_vanishing_dispersion_is_poisson_s() -> None:
    predictor, outcome = draw(3)
    u, e = FAMILY.scale(outcome)
    # As the dispersion falls by ten, so does the distance: the limit is Poisson's.
    for name in ("value", "slope", "curvature"):
        apart = [
            np.abs(
                getattr(NegativeBinomialLoss(k), name)(predictor, u, e)
                - getattr(PoissonLoss(), name)(predictor, u, e)
            ).max()
            for k in (1e-3, 1e-4, 1e-5)
        ]
        assert apart[0] < 1e-2
        np.testing.assert_allclose(np.array(apart[:-1]) / apart[1:], 10, rtol=0.05)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.floats(-32, 32),
    st.integers(0, 40),
    st.floats(1e-6, 2.0),
    st.integers(FAMILY.ladder[0], FAMILY.ladder[-1]),
    st.floats(0, 1),
)
def test_for_every_dispersion_it_keeps_within_poisson_s_bounds(
    predictor: float, count: int, exposure: float, place: int, shrink: float
) -> None:
    """So whatever α a run comes to, sums were large enough from the start."""
    family = FAMILY.with_dispersion(stand_on(place))
    F, outcome, one = np.array([predictor]), np.array([[float(count), exposure]]), np.ones(1)
    poisson = [each(F, outcome, one)[0] for each in (FAMILY.value, FAMILY.slope)]
    value, slope, curvature = (
        each(F, outcome, one)[0] for each in (family.value, family.slope, family.curvature)
    )
    assert -1e-12 <= value <= poisson[0] + 1e-9
    assert abs(slope) <= abs(poisson[1]) + 1e-12
    assert slope <= 1 / family.excess + 1e-12
    assert 0 <= curvature <= family.most_curvature
    conjugate = family.conjugate(F, outcome, one, np.array([shrink]))[0]
    assert abs(conjugate) <= family.most_conjugate
    assert (family.most_slope, family.unit) == (FAMILY.most_slope, FAMILY.unit)


def test_beyond_the_bend_the_loss_is_a_line() -> None:
    family, outcome = FAMILY.with_dispersion(0.3), np.array([[7.0, 1.5]])
    ends = [family.value(np.array([BEND + x]), outcome, np.ones(1))[0] for x in (0, 1, 5)]
    slope = family.slope(np.array([20.0]), outcome, np.ones(1))[0]
    np.testing.assert_allclose(np.diff(ends), [slope, 4 * slope])
    assert family.curvature(np.array([BEND]), outcome, np.ones(1))[0] == 0


def test_half_a_deviance_is_zero_at_the_count_itself() -> None:
    counts = np.array([0.0, 0.1, 1.0])
    np.testing.assert_allclose(half_deviance(counts, counts, 3.0), 0, atol=1e-15)
    assert (half_deviance(counts, counts + 0.2, 3.0) > 0).all()


@pytest.mark.parametrize("dispersion", [1e-6, 1e-3, 0.7, 30.0])
def test_the_gain_is_scipy_s(dispersion: float) -> None:
    predictor, outcome = draw(4)
    y, mean = outcome[:, 0], means_of(predictor, outcome)
    expected = log_likelihood(y, mean, dispersion) - stats.poisson.logpmf(y, mean)
    np.testing.assert_allclose(log_gain(y, mean, dispersion), expected, rtol=1e-6, atol=1e-8)


def test_the_baseline_jumps_to_its_best_where_exposures_are_equal() -> None:
    family = Count(MOST, negative_binomial=True, dispersion=0.9)
    counts = np.random.default_rng(0).poisson(3.0, 200).astype(float)
    outcome, weights = np.column_stack([counts, np.ones(200)]), np.ones(200)
    slope, curvature = (
        np.array([each(np.zeros(200), outcome, weights).sum()])
        for each in (family.slope, family.curvature)
    )
    np.testing.assert_allclose(family.jump(slope, curvature), np.log(counts.mean() / MOST))
    start = family.start(outcome, weights)
    np.testing.assert_allclose(start, np.log(counts.mean() / MOST), rtol=1e-12)


# --- the dispersion -----------------------------------------------------------------------------


@pytest.mark.parametrize("dispersion", [1e-4, 0.02, 0.7, 40.0])
def test_the_derivatives_in_the_dispersion_are_the_likelihood_s(dispersion: float) -> None:
    predictor, outcome = draw(5)
    y, mean, step = outcome[:, 0], means_of(predictor, outcome), 3e-3
    gain, bend = dispersion_slopes(y, mean, dispersion)
    low, middle, high = (log_gain(y, mean, dispersion * math.exp(x)) for x in (-step, 0.0, step))
    np.testing.assert_allclose(gain, (high - low) / (2 * step), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(-bend, (high - 2 * middle + low) / step**2, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("side", [0.999, 1.0, 1.001])
def test_large_sizes_lose_no_digits(side: float) -> None:
    """Of the difference of two digammas of 10¹⁰ hardly one was left."""
    y, mean = [0, 1, 5, 40], [0.4, 2.0, 2.0, 30.0]
    for size in (side * LARGE, 1e7, 1e10):
        gain, _ = dispersion_slopes(np.array(y, float), np.array(mean), 1 / size)
        with localcontext() as digits:
            digits.prec = 60
            theta = 1 / Decimal(1 / size)
            exact = [
                theta * ((1 + Decimal(mu) / theta).ln() - sum(1 / (theta + j) for j in range(k)))
                + theta * (k - Decimal(mu)) / (theta + Decimal(mu))
                for k, mu in zip(y, mean, strict=True)
            ]
        np.testing.assert_allclose(gain, [float(x) for x in exact], rtol=1e-6, atol=5e-12)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.floats(-32, 32),
    st.integers(0, 40),
    st.floats(1e-6, 2.0),
    st.integers(FAMILY.ladder[0], FAMILY.ladder[-1]),
)
def test_what_a_patient_adds_to_the_sums_is_bounded(
    predictor: float, count: int, exposure: float, place: int
) -> None:
    outcome = np.array([[float(count), exposure]])
    for part in FAMILY.slope_in_dispersion(np.array([predictor]), outcome, stand_on(place)):
        assert abs(part[0]) <= 64
    assert most_units(FAMILY) >= 64 * 2.0**UNIT_BITS, "a table that joins has room for it"


def search(predictor: Any, outcome: Any, start: int | None = None) -> DispersionSearch:
    found, weights = DispersionSearch(FAMILY.ladder, start), np.ones(len(predictor))
    while not found.done:
        units = sum_dispersion(FAMILY, predictor, outcome, weights, found.dispersion)
        found.update(Packing(DispersionSums).read(units))
    return found


@pytest.mark.parametrize("dispersion", [0.05, 0.7, 6.0])
@pytest.mark.parametrize("start", [None, 0, -900, 700])
def test_the_dispersion_has_the_highest_likelihood(dispersion: float, start: int | None) -> None:
    predictor, outcome = draw(6, 900, dispersion)
    y, mean = outcome[:, 0], means_of(predictor, outcome)
    best = minimize_scalar(
        lambda x: -log_gain(y, mean, math.exp(x)).sum(), bounds=(-7, 6), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    found = search(predictor, outcome, start)
    assert abs(math.log(found.dispersion) - best.x) <= math.log(2) / STEPS_PER_OCTAVE
    assert found.rounds <= 14


def test_it_is_that_of_statsmodels_on_the_patients() -> None:
    """Means and θ together: in turns, as a run does it, against their joint maximum."""
    rng = np.random.default_rng(7)
    n = 3000
    x = rng.normal(size=(n, 2))
    design = np.column_stack([np.ones(n), x])
    exposure = rng.uniform(0.4, 2.0, n)
    mean = exposure * np.exp(0.4 + 0.5 * x[:, 0] - 0.3 * x[:, 1])
    y = np.minimum(rng.poisson(mean * rng.gamma(1 / 0.8, 0.8, n)), MOST).astype(float)
    peer = sm.NegativeBinomial(y, design, exposure=exposure).fit(disp=False, maxiter=200)
    outcome, coef, place = np.column_stack([y, exposure]), np.zeros(3), None
    coef[0] = math.log(y.sum() / exposure.sum() * 2 / MOST)
    for _ in range(5):
        found = search(design @ coef, outcome, place)
        place, family = found.place, FAMILY.with_dispersion(found.dispersion)
        for _ in range(25):
            slope, curvature = (
                each(design @ coef, outcome, np.ones(n))
                for each in (family.slope, family.curvature)
            )
            coef = coef - np.linalg.solve((design.T * curvature) @ design, design.T @ slope)
    assert found.dispersion == pytest.approx(peer.params[-1], rel=0.003)
    np.testing.assert_allclose(coef[1:], peer.params[1:3], atol=1e-4)
    assert coef[0] + math.log(MOST / 2) == pytest.approx(peer.params[0], abs=1e-4)


def test_counts_that_do_not_vary_more_have_none() -> None:
    predictor, outcome = draw(8)
    tight = np.column_stack([np.rint(means_of(predictor, outcome)), outcome[:, 1]])
    found = search(predictor, tight)
    assert found.none
    assert (found.dispersion, found.rounds) == (0.0, 1), "one question says so"


def test_the_search_ends_at_the_top_where_counts_vary_without_end() -> None:
    predictor = np.full(300, -7.0)
    outcome = np.column_stack([np.zeros(300), np.full(300, 2.0)])
    outcome[0, 0] = MOST
    found = search(predictor, outcome)
    assert found.dispersion == MOST_DISPERSION


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=120, max_size=120))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_whatever_sums_come_the_search_ends_on_the_ladder(answers: Any) -> None:
    found = DispersionSearch(FAMILY.ladder)
    for gain, bend in answers:
        if found.done:
            break
        assert is_step(found.dispersion, FAMILY.ladder)
        found.update(DispersionSums(gain, bend))
    assert found.done
    assert found.rounds <= MOST_ROUNDS
    assert found.none or is_step(found.dispersion, FAMILY.ladder)


def test_the_ladder_is_the_same_on_every_machine() -> None:
    """Four digits are far from a tie of rounding, for every step: a last digit decides nothing."""
    for place in FAMILY.ladder:
        if place % STEPS_PER_OCTAVE == 0:
            continue  # a power of 2 has no last digit to differ in
        exact = 2 ** (place / STEPS_PER_OCTAVE)
        digits = exact / 10 ** (math.floor(math.log10(exact)) - 3)
        assert abs(digits % 1 - 0.5) > 1e-9
        assert stand_on(place) == pytest.approx(exact, rel=1e-3)
        assert is_step(stand_on(place), FAMILY.ladder)
    for other in (0.0, -1.0, 0.3001, math.inf, math.nan, stand_on(FAMILY.ladder[-1] + 5)):
        assert not is_step(other, FAMILY.ladder)


def test_without_a_dispersion_the_family_is_poisson_s() -> None:
    predictor, outcome = draw(9)
    plain = Count(MOST, max_exposure=2.0)
    for family in (FAMILY, FAMILY.with_dispersion(0.0), FAMILY.with_dispersion(None)):
        for name in ("value", "slope", "curvature"):
            np.testing.assert_array_equal(
                getattr(family, name)(predictor, outcome, np.ones(400)),
                getattr(plain, name)(predictor, outcome, np.ones(400)),
            )
    with pytest.raises(ValueError, match="have no dispersion"):
        plain.with_dispersion(0.5)
    assert plain.words.regression == "Poisson regression"
    assert FAMILY.words.regression == "negative binomial regression"


def test_a_dispersion_makes_the_same_patients_tell_less() -> None:
    """Of a coefficient; so published ones are rounded to coarser steps."""
    told = [FAMILY.with_dispersion(a).information(100, 20.0) for a in (0.0, 0.1, 1.0)]
    assert told[0] > told[1] > told[2] > 0
