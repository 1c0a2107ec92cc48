"""Every family against numerical mathematics, and solvers that know of none.

The first part is one contract for all families: whoever adds one adds a line to :data:`CASES`.
Two toy families, defined here, pass it too; the last part runs them through every solver.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, gammaln, xlogy
from sklearn.linear_model import Lasso
from sklearn.metrics import log_loss
from sklearn.tree import DecisionTreeRegressor
from tests.families import EXAMPLES
from tests.oracles import YES_NO, bounds_of, solve, split

from fedrulefit.core.arrays import Floats
from fedrulefit.core.boosting import grow_trees
from fedrulefit.core.certificate import (
    Certificate,
    SlopeSums,
    certify,
    choose_scales,
    sum_conjugate,
    sum_slopes,
)
from fedrulefit.core.families import FAMILIES, Family, Link, YesNo
from fedrulefit.core.fedda import Schedule, client_update, server_update, soft_threshold
from fedrulefit.core.fixed import (
    FINE_BITS,
    LARGEST_PREDICTOR,
    LOSS_BITS,
    Bounds,
    capacity,
    from_units,
    most_units,
)
from fedrulefit.core.grid import Axis, Grid


class Toy(Family):
    """A family without words: mathematics must not ask for any."""

    words = YesNo.words
    judge = YesNo.judge
    judge_type = YesNo.judge_type
    averages = True

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        raise AssertionError

    def tallies(self, outcome: Floats) -> Floats:
        raise AssertionError

    effect_javascript = tell_javascript = ""
    least_span = 1.0

    def information(self, patients: float, mean: float) -> float:
        raise AssertionError

    def effect(self, coefficient: float) -> float:
        raise AssertionError

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        raise AssertionError

    def tell(self, prediction: float) -> str:
        raise AssertionError

    def tell_move(self, most: float) -> str:
        raise AssertionError


class Gaussian(Toy):
    """Squared errors of outcomes between −2 and 2."""

    kind = "gaussian"
    link = Link("identity", lambda f: 1.0 * f, lambda m: 1.0 * m, sql="", onnx=(), javascript="")
    most_slope = LARGEST_PREDICTOR + 2
    most_curvature = 1.0
    most_conjugate = 0.5 * (LARGEST_PREDICTOR + 2) ** 2 + 2 * (LARGEST_PREDICTOR + 2)

    def most_value(self, predictor: float) -> float:
        return 0.5 * (predictor + 2) ** 2

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        losses: Floats = 0.5 * weights * (outcome - predictor) ** 2
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        return weights * (predictor - outcome)

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        return weights * np.ones_like(predictor)

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        shrunk = shrink * (predictor - outcome)
        return weights * (0.5 * shrunk**2 + shrunk * outcome)

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        return np.array([weights @ outcome / weights.sum()])


class Poisson(Toy):
    """Counts with a log link; the loss is 0 for a perfect prediction. Not bounded: a toy."""

    kind = "count"
    link = Link("log", np.exp, np.log, sql="", onnx=(), javascript="")
    most_slope = most_curvature = most_conjugate = math.inf

    def most_value(self, predictor: float) -> float:
        return math.inf

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        best = outcome - xlogy(outcome, outcome)
        losses: Floats = weights * (np.exp(predictor) - outcome * predictor - best)
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        slope: Floats = weights * (np.exp(predictor) - outcome)
        return slope

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        curvature: Floats = weights * np.exp(predictor)
        return curvature

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        mean = outcome + shrink * (np.exp(predictor) - outcome)
        best = outcome - xlogy(outcome, outcome)
        conjugate: Floats = weights * (xlogy(mean, mean) - mean + best)
        return conjugate

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        events = float(weights @ outcome)
        return np.array([math.log(events / weights.sum())]) if events > 0 else None


@dataclass(frozen=True)
class Case:
    """A family, what its outcomes can be (a row each, of several columns), and the largest |F|."""

    family: Family
    outcomes: tuple[float | tuple[float, ...], ...]
    reach: float = LARGEST_PREDICTOR
    exposure: float | None = None

    def draw(self, seed: int, n_rows: int = 40, most: float = 8.0) -> tuple[Any, Any, Any]:
        """Return predictor, outcome and weights."""
        rng = np.random.default_rng(seed)
        predictor = rng.uniform(-min(most, self.reach), min(most, self.reach), n_rows)
        outcome = np.array(self.outcomes)[rng.integers(len(self.outcomes), size=n_rows)]
        return predictor, outcome, rng.uniform(0.1, 2, n_rows)

    def of_mean(self, mean: Any) -> Any:
        """Return outcomes that are as predicted."""
        if self.exposure is None:
            return mean
        return np.column_stack([mean, np.full(len(mean), self.exposure)])


COUNTS = ((0.0, 365.0), (0.0, 7.0), (3.0, 30.0), (17.0, 300.0), (50.0, 365.0), (50.0, 1.0))

CASES = {
    "toy gaussian": Case(Gaussian(), (-2.0, -0.3, 0.0, 1.5, 2.0)),
    "toy poisson": Case(Poisson(), (0.0, 1.0, 2.0, 7.0), reach=20.0),
    "yes/no": Case(EXAMPLES["yes/no"], (0.0, 1.0)),
    "number": Case(EXAMPLES["number"], (0.0, 1.3, 5.0, 9.9, 10.0), reach=64.0),
    "count": Case(EXAMPLES["count"], COUNTS, reach=32.0, exposure=365.0),
    **{
        f"count, {told}": Case(
            EXAMPLES["count, negative binomial"].with_dispersion(dispersion),
            COUNTS,
            reach=32.0,
            exposure=365.0,
        )
        for told, dispersion in {
            "negative binomial": 0.4,
            "hardly dispersed": 2.0**-10 / 50,
            "widely dispersed": 8.0,
        }.items()
    },
    "number, robust": Case(EXAMPLES["number, robust"], (-40.0, -3.0, 0.0, 55.5, 120.0), reach=64.0),
}
every_family = pytest.mark.parametrize("kind", CASES)


# --- the contract -------------------------------------------------------------------------


def test_every_family_of_a_study_is_tested_here() -> None:
    one = {kind for kind, family in EXAMPLES.items() if family.n_baseline == 1}
    assert one <= set(CASES), "of several predictors, each has a file of its own"
    assert {family.kind for family in EXAMPLES.values()} == set(FAMILIES)
    for family in EXAMPLES.values():
        assert type(family) is FAMILIES[family.kind]


@every_family
def test_the_slope_is_the_derivative_of_the_value(kind: str) -> None:
    case, width = CASES[kind], 1e-5
    predictor, outcome, weights = case.draw(1)
    up, down = (case.family.value(predictor + step, outcome, weights) for step in (width, -width))
    slope = case.family.slope(predictor, outcome, weights)
    np.testing.assert_allclose(slope, (up - down) / (2 * width), rtol=1e-6, atol=1e-7)


@every_family
def test_the_curvature_is_the_derivative_of_the_slope(kind: str) -> None:
    case, width = CASES[kind], 1e-5
    predictor, outcome, weights = case.draw(2)
    up, down = (case.family.slope(predictor + step, outcome, weights) for step in (width, -width))
    curvature = case.family.curvature(predictor, outcome, weights)
    assert (curvature >= 0).all(), "the loss is convex"
    np.testing.assert_allclose(curvature, (up - down) / (2 * width), rtol=1e-6, atol=1e-8)


@every_family
@pytest.mark.parametrize("shrink", [0.0, 0.3, 1.0])
def test_the_conjugate_is_the_largest_distance_below_a_line(kind: str, shrink: float) -> None:
    """ℓ*(θ) = sup_F θF − ℓ(F, y), at the shrunk slope."""
    family = CASES[kind].family
    predictor, outcome, weights = CASES[kind].draw(3, n_rows=12, most=3.0)
    theta = shrink * family.slope(predictor, outcome, np.ones(12))
    ours = family.conjugate(predictor, outcome, weights, np.full(12, shrink))
    for i in range(12):
        own = outcome[i : i + 1]

        def below(place: float, slope: float = theta[i], own: Any = own) -> float:
            return float(family.value(np.array([place]), own, np.ones(1))[0]) - slope * place

        found = minimize_scalar(below, bounds=(-60, 60), method="bounded")
        assert ours[i] == pytest.approx(-weights[i] * found.fun, abs=1e-5)


@every_family
def test_at_the_slope_itself_the_conjugate_touches(kind: str) -> None:
    """ℓ(F) + ℓ*(ℓ'(F)) = F·ℓ'(F): the duality gap can close."""
    family = CASES[kind].family
    predictor, outcome, weights = CASES[kind].draw(4)
    both = family.value(predictor, outcome, weights) + family.conjugate(
        predictor, outcome, weights, np.ones(40)
    )
    slope = family.slope(predictor, outcome, weights)
    np.testing.assert_allclose(both, predictor * slope, rtol=1e-9, atol=1e-9)


@every_family
@given(data=st.data())
@settings(max_examples=200, derandomize=True, deadline=None)
def test_the_bounds_are_never_exceeded(kind: str, data: st.DataObject) -> None:
    case = CASES[kind]
    size = data.draw(st.floats(0, case.reach))
    predictor = np.array([data.draw(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])) * size])
    outcome, weight = np.array([data.draw(st.sampled_from(case.outcomes))]), np.ones(1)
    shrink = np.array([data.draw(st.floats(0, 1))])
    family = case.family
    found = [
        (family.value(predictor, outcome, weight)[0], family.most_value(size)),
        (abs(family.slope(predictor, outcome, weight)[0]), family.most_slope),
        (family.curvature(predictor, outcome, weight)[0], family.most_curvature),
        (abs(family.conjugate(predictor, outcome, weight, shrink)[0]), family.most_conjugate),
    ]
    for value, most in found:
        assert np.isfinite(value)
        assert value <= most * (1 + 1e-12)


@every_family
@pytest.mark.parametrize("n_sites", [1, 3, 100])
def test_sums_of_as_many_patients_as_may_take_part_hold_every_contribution(
    kind: str, n_sites: int
) -> None:
    family = CASES[kind].family
    weight = n_sites * capacity(family, n_sites)
    for most, bits in (
        (family.most_value(family.largest_predictor), LOSS_BITS),
        (family.most_slope, FINE_BITS),
        (family.most_curvature, FINE_BITS),
        (family.unit, FINE_BITS),
    ):
        assert weight == 0 or weight * most / family.unit * 2.0**bits <= 2.0**63
    assert most_units(family) > 0


@every_family
@pytest.mark.parametrize("seed", range(3))
def test_the_start_has_the_least_loss_of_all_constants(kind: str, seed: int) -> None:
    case = CASES[kind]
    _, outcome, weights = case.draw(seed)
    start = case.family.start(outcome, weights)
    assert start is not None

    def total(constant: float) -> float:
        return float(case.family.value(np.full(40, constant), outcome, weights).sum())

    best = minimize_scalar(total, bounds=(-9, 9), method="bounded", options={"xatol": 1e-9})
    assert start[0] == pytest.approx(best.x, abs=1e-6)
    assert total(start[0]) <= best.fun * (1 + 1e-12)


@every_family
def test_the_link_goes_forth_and_back(kind: str) -> None:
    link = CASES[kind].family.link
    predictor = np.linspace(-8, 3 if kind.startswith("count") else 8, 33)  # a rate is capped
    np.testing.assert_allclose(link.forward(link.inverse(predictor)), predictor, atol=1e-10)


@every_family
def test_at_the_mean_the_slope_is_zero(kind: str) -> None:
    """The link and the loss belong together: F = g(y) predicts best."""
    case = CASES[kind]
    mean = np.array([0.2, 0.7])
    flat = case.family.slope(case.family.link.forward(mean), case.of_mean(mean), np.ones(2))
    np.testing.assert_allclose(flat, 0, atol=1e-12)


@every_family
def test_a_weight_is_a_repeated_patient(kind: str) -> None:
    family = CASES[kind].family
    predictor, outcome, weights = CASES[kind].draw(7)
    for each in (family.value, family.slope, family.curvature):
        once = each(predictor, outcome, np.ones(40))
        np.testing.assert_allclose(each(predictor, outcome, weights), weights * once, rtol=1e-12)


# --- yes/no -------------------------------------------------------------------------------


def total_loss(predictor: Any, outcome: Any, weights: Any) -> float:
    return float(YES_NO.value(predictor, outcome, weights).sum())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_loss_is_the_summed_log_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    predictor = rng.normal(size=50) * 3
    outcome = rng.integers(0, 2, 50).astype(float)
    weights = rng.uniform(0, 2, 50)
    expected = log_loss(outcome, expit(predictor), sample_weight=weights, normalize=False)
    assert total_loss(predictor, outcome, weights) == pytest.approx(expected, rel=1e-12)


def test_the_loss_adds_up_over_patients_and_starts_at_log_two() -> None:
    rng = np.random.default_rng(4)
    predictor, outcome = rng.normal(size=9), rng.integers(0, 2, 9).astype(float)
    each = [total_loss(predictor[i : i + 1], outcome[i : i + 1], np.ones(1)) for i in range(9)]
    assert total_loss(predictor, outcome, np.ones(9)) == pytest.approx(sum(each), rel=1e-12)
    assert total_loss(np.zeros(9), outcome, np.ones(9)) == pytest.approx(9 * np.log(2))


def test_the_slope_is_the_derivative_of_the_loss() -> None:
    rng = np.random.default_rng(5)
    predictor = rng.normal(size=20) * 4
    outcome = rng.integers(0, 2, 20).astype(float)
    weights = rng.uniform(0, 2, 20)
    width = 1e-5
    for i in range(20):
        up, down = predictor.copy(), predictor.copy()
        up[i] += width
        down[i] -= width
        rise = total_loss(up, outcome, weights) - total_loss(down, outcome, weights)
        slope = YES_NO.slope(predictor, outcome, weights)[i]
        assert slope == pytest.approx(rise / (2 * width), abs=1e-8)


@pytest.mark.parametrize("size", [40.0, 800.0, 1e8, 1e300])
def test_extreme_predictors_overflow_nowhere(size: float) -> None:
    predictor, outcome = np.array([size, size, -size, -size]), np.array([1.0, 0.0, 1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [
            total_loss(predictor[i : i + 1], outcome[i : i + 1], np.ones(1)) for i in range(4)
        ]
        slopes = YES_NO.slope(predictor, outcome, np.ones(4))
        curvature = YES_NO.curvature(predictor, outcome, np.ones(4))
        conjugate = YES_NO.conjugate(predictor, outcome, np.ones(4), np.ones(4))
    assert losses == pytest.approx([0.0, size, size, 0.0], rel=1e-12, abs=1e-14)
    assert slopes == pytest.approx([0.0, 1.0, -1.0, 0.0], abs=1e-15)
    assert curvature == pytest.approx([0.0] * 4, abs=1e-15)
    assert conjugate == pytest.approx([0.0] * 4, abs=1e-14)


def test_one_class_has_nothing_to_learn() -> None:
    for label in (0.0, 1.0):
        assert YES_NO.start(np.full(5, label), np.ones(5)) is None
    # A patient without weight does not count.
    assert YES_NO.start(np.array([0.0, 1.0]), np.array([2.0, 0.0])) is None
    assert YES_NO.start(np.array([0.0, 1.0]), np.array([3.0, 1.0])) == pytest.approx(-np.log(3))


def test_the_bounds_of_yes_no_are_the_published_ones() -> None:
    """A patient's loss is at most 2049 times the weight: how large a table may be follows."""
    assert YES_NO.most_value(LARGEST_PREDICTOR) == 2049
    assert capacity(YES_NO, 3) == 2.0**33 / (3 * 2049)


# --- solvers need nothing but the seam ----------------------------------------------------


N_RULES = 6
TOYS = {"gaussian": Gaussian(), "count": Poisson()}


def make_toy(kind: str, seed: int, n_rows: int = 240) -> tuple[Any, Any, Any]:
    """Return X with its intercept, outcomes of the toy family, and weights."""
    rng = np.random.default_rng(seed)
    hits = rng.random((n_rows, N_RULES)) < rng.uniform(0.2, 0.8, N_RULES)
    X = np.hstack([np.ones((n_rows, 1)), hits, 0.5 * rng.normal(size=(n_rows, 3))])
    signal = X @ np.resize([0.2, 0.6, -0.7, 0.0], X.shape[1])
    y = rng.poisson(np.exp(signal)) if kind == "count" else signal + rng.normal(0, 0.5, n_rows)
    return X, np.clip(y, -2, None).astype(float), rng.uniform(0.3, 2.0, n_rows)


def best_by_scipy(family: Family, X: Any, y: Any, w: Any, penalties: Any) -> Any:
    """Minimise over positive and negative parts, which makes the penalty smooth."""
    n = X.shape[1]

    def both(parts: Any) -> tuple[float, Any]:
        coef = parts[:n] - parts[n:]
        loss = family.value(X @ coef, y, w).sum() / w.sum()
        gradient = X.T @ family.slope(X @ coef, y, w) / w.sum()
        return (
            float(loss + penalties @ (parts[:n] + parts[n:])),
            np.concatenate([gradient + penalties, penalties - gradient]),
        )

    found = minimize(
        both, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * n),
        options={"maxiter": 50_000, "maxfun": 200_000, "ftol": 1e-16, "gtol": 1e-11},
    )  # fmt: skip
    return found.x[:n] - found.x[n:]


def value_of(family: Family, X: Any, y: Any, w: Any, coef: Any, penalties: Any) -> float:
    loss = family.value(X @ coef, y, w).sum() / w.sum()
    return float(loss + penalties @ np.abs(coef))


def prove(family: Family, X: Any, y: Any, w: Any, coef: Any, penalties: Any) -> Certificate:
    """Make the certificate of pooled patients."""
    ((design, *_),) = split(X, N_RULES, y, w, [len(X)])
    bounds = bounds_of([(design, y, w)]).terms
    slopes = SlopeSums.packing(Bounds(bounds)).read(
        sum_slopes(family, design, y, w, X @ coef, Bounds(bounds))
    )
    scales = choose_scales(design.layout, slopes, w.sum(), penalties)
    assert scales is not None
    conjugate = float(from_units(sum_conjugate(family, y, w, X @ coef, scales)))
    value = value_of(family, X, y, w, coef, penalties)
    return certify(
        design.layout, slopes, w.sum(), coef, penalties, objective=value, conjugate=conjugate
    )


@pytest.mark.parametrize("penalty", [0.01, 0.1])
@pytest.mark.parametrize("kind", TOYS)
def test_the_exact_solver_fits_any_family(kind: str, penalty: float) -> None:
    family, (X, y, w) = TOYS[kind], make_toy(kind, 1)
    factors = np.array([0, *[1.0] * (X.shape[1] - 1)])
    newton = solve(
        split(X, N_RULES, y, w, [30, 1, 209]), factors, penalty, family=family, tolerance=1e-10
    )
    assert newton.converged
    assert newton.rounds <= 15
    assert not newton.separated
    best = best_by_scipy(family, X, y, w, penalty * factors)
    np.testing.assert_allclose(newton.point.coef, best, atol=1e-5)
    assert 1 < (newton.point.coef != 0).sum() < X.shape[1] + (penalty < 0.1)


@pytest.mark.parametrize("seed", range(3))
def test_squared_errors_are_the_lasso_of_scikit_learn(seed: int) -> None:
    X, y, w = make_toy("gaussian", seed)
    factors = np.array([0, *[1.0] * (X.shape[1] - 1)])
    newton = solve(
        split(X, N_RULES, y, w, [200, 40]), factors, 0.05, family=Gaussian(), tolerance=1e-11
    )
    lasso = Lasso(alpha=0.05, tol=1e-12, max_iter=100_000).fit(X[:, 1:], y, sample_weight=w)
    assert newton.point.coef[0] == pytest.approx(lasso.intercept_, abs=1e-7)
    np.testing.assert_allclose(newton.point.coef[1:], lasso.coef_, atol=1e-7)


def test_a_fit_without_error_is_no_separation() -> None:
    """Finite coefficients that predict perfectly are an optimum like any other."""
    X, _, w = make_toy("gaussian", 4)
    truth = np.linspace(-0.2, 0.3, X.shape[1])
    factors = np.zeros(X.shape[1])
    newton = solve(
        split(X, N_RULES, X @ truth, w, [len(X)]), factors, 0.0, family=Gaussian(), tolerance=1e-9
    )
    assert not newton.separated
    np.testing.assert_allclose(newton.point.coef, truth, atol=1e-7)


@pytest.mark.parametrize("kind", TOYS)
def test_the_certificate_bounds_the_distance_of_any_family(kind: str) -> None:
    family, (X, y, w) = TOYS[kind], make_toy(kind, 2)
    penalties = 0.02 * np.array([0, *[1.0] * (X.shape[1] - 1)])
    best = best_by_scipy(family, X, y, w, penalties)
    lowest = value_of(family, X, y, w, best, penalties)
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-3, 0.03, 0.3, 1.0):
        coef = best + size * rng.normal(size=len(best))
        proof = prove(family, X, y, w, coef, penalties)
        assert proof.gap is not None
        assert proof.gap >= value_of(family, X, y, w, coef, penalties) - lowest - 1e-8
        if size == 0:
            assert proof.gap <= 1e-5
            assert proof.residual <= 1e-5


@pytest.mark.parametrize("kind", TOYS)
def test_federated_averaging_fits_any_family(kind: str) -> None:
    family, (X, y, w) = TOYS[kind], make_toy(kind, 3)
    factors = np.array([0, *[1.0] * (X.shape[1] - 1)])
    schedule = Schedule(2000, 1, 1.0, 0.2, 0.05)
    ((design, *_),) = split(X, N_RULES, y, w, [len(X)])
    dual = np.zeros(X.shape[1])
    for r in range(schedule.rounds):
        local = client_update(family, design, y, w, factors, dual, r, schedule)
        dual = server_update(dual, local.increment, schedule.server_step)
    coef = soft_threshold(dual, schedule.threshold(schedule.rounds), factors)
    best = best_by_scipy(family, X, y, w, 0.05 * factors)
    lowest = value_of(family, X, y, w, best, 0.05 * factors)
    assert value_of(family, X, y, w, coef, 0.05 * factors) <= lowest * 1.002


@pytest.mark.parametrize("seed", range(3))
def test_trees_follow_the_slopes_of_any_family(seed: int) -> None:
    """The first split of squared errors is that of a regression tree."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 9, (300, 3)).astype(np.uint8)
    y = np.clip((codes[:, 1] >= 4 + seed) + 0.2 * rng.normal(size=300), -2, 2)
    w = rng.uniform(0.5, 2, 300)
    grid = Grid((Axis("number", np.arange(8.0), 9, True),) * 3)
    (tree,) = grow_trees(
        Gaussian(), codes, y, w, grid, n_trees=1, mean_leaves=2.0, learning_rate=0.1,
        subsample=1.0, min_leaf=5, rng=np.random.default_rng(0),
    )  # fmt: skip
    peer = DecisionTreeRegressor(max_leaf_nodes=2).fit(codes, y, sample_weight=w).tree_
    assert tree.root is not None
    assert tree.root.left.feature == peer.feature[0]
    below = 1 + math.floor(peer.threshold[0])
    assert tree.root.left.codes == (1 << below) - 1


def test_poisson_is_the_negative_log_likelihood_up_to_a_constant() -> None:
    """So that the toy itself is right."""
    predictor, outcome, weights = CASES["toy poisson"].draw(0, most=2.0)
    likelihood = outcome * predictor - np.exp(predictor) - gammaln(outcome + 1)
    ours = Poisson().value(predictor, outcome, weights) + weights * likelihood
    best = weights * (xlogy(outcome, outcome) - outcome - gammaln(outcome + 1))
    np.testing.assert_allclose(ours, best, atol=1e-12)
