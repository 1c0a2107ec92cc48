"""The certificate bounds the true distance from the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit
from tests.oracles import YES_NO, bounds_of, fista, objective, split
from tests.unit.core.test_newton import make_data

from fedrulefit.core.certificate import (
    Certificate,
    SlopeSums,
    certify,
    choose_scales,
    sum_conjugate,
    sum_slopes,
    tell_distance,
)
from fedrulefit.core.fedda import Schedule, client_update, server_update, soft_threshold
from fedrulefit.core.fixed import Bounds, from_units
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import ROUNDING

FACTORS = np.array([0, 1, 1, 0.5, 1.75, 1, 1, 0.2, 1, 0.2])


def certificate(X: Any, y: Any, w: Any, coef: Any, penalties: Any, n_sites: int = 1) -> Certificate:
    """Make the certificate from sites of very unequal size, as the coordinator does."""
    sizes = [len(X)] if n_sites == 1 else [1, 40, len(X) - 41]
    sites = split(X, 6, y, w, sizes)
    bounds = bounds_of(sites).terms
    parts = [sum_slopes(YES_NO, d, y_, w_, d.dot(coef), Bounds(bounds)) for d, y_, w_ in sites]
    slopes = SlopeSums.packing(Bounds(bounds)).read(np.sum(parts, axis=0))
    scales = choose_scales(sites[0][0].layout, slopes, float(w.sum()), penalties)
    conjugate = None
    if scales is not None:
        assert all(0 <= scale <= 1 for scale in scales)
        each = [sum_conjugate(YES_NO, y_, w_, d.dot(coef), scales) for d, y_, w_ in sites]
        conjugate = float(from_units(sum(each)))
    value = objective(X, y, w, coef, penalties)
    return certify(
        sites[0][0].layout,
        slopes,
        float(w.sum()),
        coef,
        penalties,
        objective=value,
        conjugate=conjugate,
    )


@pytest.mark.parametrize("penalty", [0.002, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_the_gap_is_never_below_the_true_distance(seed: int, penalty: float) -> None:
    X, y, w = make_data(seed)
    penalties = penalty * FACTORS
    best = fista(X, y, w, penalties)
    lowest = objective(X, y, w, best, penalties)
    rng = np.random.default_rng(seed)
    for size in (0.0, 1e-4, 0.01, 0.1, 1.0, 5.0):
        coef = best + size * rng.normal(size=len(best)) * (rng.random(len(best)) < 0.6)
        proof = certificate(X, y, w, coef, penalties, n_sites=3)
        assert proof.gap is not None
        assert proof.gap >= objective(X, y, w, coef, penalties) - lowest - ROUNDING
        if size == 0:
            assert proof.gap <= 1e-8
            assert proof.residual <= 1e-8
    zero = certificate(X, y, w, np.zeros(len(best)), penalties)
    assert zero.gap is not None
    assert zero.gap >= np.log(2) - lowest


def test_the_gap_closes_as_the_optimum_comes_near() -> None:
    X, y, w = make_data(5)
    penalties = 0.01 * FACTORS
    best = fista(X, y, w, penalties)
    way = np.random.default_rng(0).normal(size=len(best)) * (best != 0)
    proofs = [certificate(X, y, w, best + t * way, penalties) for t in (1, 0.1, 0.01, 1e-3, 0)]
    gaps = [proof.gap or 0.0 for proof in proofs]
    assert (np.diff(gaps) <= 0).all()
    assert (np.diff([proof.residual for proof in proofs]) <= 0).all()


def test_weights_are_repeated_patients_and_their_unit_does_not_matter() -> None:
    X, y, _ = make_data(6)
    times = np.random.default_rng(1).integers(1, 4, len(X))
    rows = np.repeat(np.arange(len(X)), times)
    coef, penalties = np.linspace(-0.3, 0.3, X.shape[1]), 0.02 * FACTORS
    proofs = [
        certificate(X, y, times.astype(float), coef, penalties),
        certificate(X[rows], y[rows], np.ones(len(rows)), coef, penalties),
        certificate(X, y, 7.0 * times, coef, penalties),
    ]
    for proof in proofs[1:]:
        assert proof.gap == pytest.approx(proofs[0].gap, abs=ROUNDING)
        assert proof.residual == pytest.approx(proofs[0].residual, abs=ROUNDING)


def test_another_unpenalised_term_has_no_dual_point_of_this_kind() -> None:
    X, y, w = make_data(7)
    penalties = 0.02 * FACTORS
    penalties[7] = 0
    proof = certificate(X, y, w, np.zeros(X.shape[1]), penalties)
    assert proof.gap is None
    assert proof.residual > 0


def test_a_penalty_of_zero_promises_nothing_or_the_truth() -> None:
    X, y, w = make_data(8)
    proof = certificate(X, y, w, np.zeros(X.shape[1]), 0 * FACTORS)
    best = fista(X, y, w, 0 * FACTORS)
    lowest = objective(X, y, w, best, 0 * FACTORS)
    assert proof.gap is None or proof.gap >= np.log(2) - lowest


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("intercept", [-20.0, 0.0, 3.0])
def test_one_class(label: float, intercept: float) -> None:
    """The optimum is 0, at infinity."""
    X, y, w = make_data(9)
    y = np.full(len(y), label)
    coef = np.zeros(X.shape[1])
    coef[0] = intercept
    proof = certificate(X, y, w, coef, 0.02 * FACTORS)
    assert proof.gap is not None
    assert proof.gap >= objective(X, y, w, coef, 0.02 * FACTORS) - ROUNDING


@pytest.mark.parametrize("outcome", [0.0, 1.0])
@pytest.mark.parametrize("predictor", [-3.0, 0.0, 1.5])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0])
def test_the_conjugate_is_the_legendre_transform(
    outcome: float, predictor: float, scale: float
) -> None:
    """f*(θ) = sup_F θF − f(F) at the shrunk slope."""
    theta = scale * (expit(predictor) - outcome)
    found = minimize_scalar(
        lambda F: np.logaddexp(0, F) - outcome * F - theta * F, bounds=(-60, 60), method="bounded"
    )
    ours = sum_conjugate(
        YES_NO, np.array([outcome]), np.array([2.0]), np.array([predictor]), (scale, scale)
    )
    assert from_units(ours) == pytest.approx(-2 * found.fun, abs=1e-5)


def test_extreme_predictions_are_finite() -> None:
    y, w = np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4)
    far = np.array([800.0, -800.0, -800.0, 800.0])
    for scales in ((0.0, 0.0), (1.0, 1.0), (0.5, 0.2)):
        assert -4 <= from_units(sum_conjugate(YES_NO, y, w, far, scales)) <= 0


def test_slopes_of_both_groups_are_the_gradient() -> None:
    X, y, w = make_data(10)
    ((design, *_),) = split(X, 6, y, w, [len(X)])
    coef = np.linspace(-1, 1, X.shape[1])
    bounds = bounds_of([(design, y, w)]).terms
    slopes = SlopeSums.packing(Bounds(bounds)).read(
        sum_slopes(YES_NO, design, y, w, X @ coef, Bounds(bounds))
    )
    np.testing.assert_allclose(
        slopes.falling + slopes.rising, X.T @ (w * (expit(X @ coef) - y)), rtol=1e-10, atol=1e-10
    )
    assert slopes.falling[0] < 0 < slopes.rising[0]


def test_a_model_of_fedda_has_a_true_certificate() -> None:
    X, y, w = make_data(11)
    factors = np.array([0.0, *[1.0] * (X.shape[1] - 1)])
    ((design, *_),) = split(X, 6, y, w, [len(X)])
    lowest = objective(X, y, w, fista(X, y, w, 0.01 * factors), 0.01 * factors)
    gaps = []
    for rounds in (5, 60, 600):
        schedule = Schedule(rounds, 5, 1.0, 0.1, 0.01)
        dual = np.zeros(X.shape[1])
        for r in range(rounds):
            local = client_update(YES_NO, design, y, w, factors, dual, r, schedule)
            dual = server_update(dual, local.increment, 1.0)
        coef = soft_threshold(dual, schedule.threshold(rounds), factors)
        proof = certificate(X, y, w, coef, 0.01 * factors)
        distance = objective(X, y, w, coef, 0.01 * factors) - lowest
        assert proof.gap is not None
        assert proof.gap >= distance - ROUNDING
        gaps.append(proof.gap)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.01


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, "below 1e-09"), (0.99e-9, "below 1e-09"), (1e-9, "1e-09"), (0.01234, "0.012")],
)
def test_a_distance_in_words(value: float, words: str) -> None:
    assert tell_distance(value) == words


def slopes(falling: Any, rising: Any) -> SlopeSums:
    return SlopeSums(np.asarray(falling, float), np.asarray(rising, float))


@pytest.mark.parametrize(
    ("falling", "rising", "penalty", "scales"),
    [
        # What falls lacks 4, what rises has 4 too many: at the optimum of the intercept.
        ([-4.0, -2.0], [4.0, 1.0], 1.0, (1.0, 1.0)),
        ([-4.0, -2.0], [2.0, 1.0], 1.0, (0.5, 1.0)),  # the larger is shrunk to the smaller
        ([-2.0, -1.0], [4.0, 2.0], 1.0, (1.0, 0.5)),
        # |−2 + 0| / 2 = 1 against λ = 0.25: a quarter of both.
        ([-4.0, -2.0], [4.0, 0.0], 0.25, (0.25, 0.25)),
        ([-4.0, -2.0], [2.0, 0.0], 0.25, (0.25, 0.5)),
        ([0.0, -2.0], [2.0, 0.0], 0.25, (0.0, 0.0)),
        ([-2.0, -2.0], [0.0, 0.0], 0.25, (0.0, 0.0)),
        ([-0.5, 0.0], [0.5, 0.0], 0.0, (1.0, 1.0)),  # no slope, no limit
        ([-0.5, 0.3], [0.5, 0.0], 0.0, None),
        ([-4.0, -3.0], [4.0, 3.0], 0.0, (1.0, 1.0)),
        # A term without slope sets no limit; of the others the steepest does.
        ([-4.0, -2.0, -4.0, 0.0], [4.0, 0.0, 0.0, 0.0], 0.5, (0.25, 0.25)),
    ],
)
def test_scales_of_a_dual_point_by_hand(
    falling: Any, rising: Any, penalty: float, scales: tuple[float, float] | None
) -> None:
    """Two patients in all; the intercept first, then the terms."""
    penalties = np.array([0.0] + [penalty] * (len(falling) - 1))
    layout = Layout(1, len(falling) - 1, 0)
    assert choose_scales(layout, slopes(falling, rising), 2.0, penalties) == scales


def test_a_certificate_by_hand() -> None:
    found = certify(
        Layout(1, 2, 0), slopes([-4.0, -3.0, 0.5], [4.5, 2.0, 0.5]), 2.0, np.array([1.0, 2.0, 0.0]),
        np.array([0.0, 0.25, 0.375]), objective=0.5, conjugate=-0.75,
    )  # fmt: skip
    # Gradients 0.25, −0.5 and 0.5; with the penalty −0.5 + 0.25 and 0.5 − 0.375.
    assert found == Certificate(residual=0.25, gap=0.125)
    facts: dict[str, Any] = {"objective": 0.5, "conjugate": -1.5}
    none = certify(Layout(1, 0, 0), slopes([0.0], [0.0]), 2.0, np.zeros(1), np.zeros(1), **facts)
    assert none.gap == 0, "below the rounding of losses it is not negative"
    free = certify(
        Layout(1, 0, 0),
        slopes([0.0], [0.0]),
        2.0,
        np.zeros(1),
        np.zeros(1),
        objective=1,
        conjugate=None,
    )
    assert free.gap is None
