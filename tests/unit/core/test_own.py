"""A hospital's own baseline, against a joint minimum that another solver finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.families import EXAMPLES

from fedrulefit.core.families import Family
from fedrulefit.core.families.count import Count
from fedrulefit.core.fixed import LARGEST_OWN
from fedrulefit.core.own import (
    count_own,
    estimate,
    price_conjugate,
    scale_spread,
    settle,
    with_room,
)

KINDS = [kind for kind in EXAMPLES if kind != "count, negative binomial"]
every_family = pytest.mark.parametrize("kind", KINDS)


def draw_outcome(family: Family, rng: Any, n_rows: int) -> Any:
    """Return outcomes of any kind, in a table's form."""
    match family.kind:
        case "yes/no":
            return (rng.random(n_rows) < 0.3).astype(float)
        case "number":
            return np.clip(rng.normal(4.0, 2.0, n_rows), 0, 10)
        case "count":
            return np.column_stack([rng.poisson(4, n_rows), rng.uniform(30, 365, n_rows)])
        case "time" | "competing":
            ends = np.minimum(rng.exponential(300, n_rows), 365.0)
            causes = rng.integers(1, len(family.names) + 1 if family.names else 2, n_rows)
            return np.column_stack([np.zeros(n_rows), ends, np.where(ends < 365, causes, 0)])
    return rng.integers(len(family.names), size=n_rows).astype(float)


def draw(kind: str, seed: int, n_rows: int = 60) -> tuple[Family, Any, Any, Any]:
    """Return a family, predictors, outcomes and weights; of some the weight is 0."""
    family, rng = EXAMPLES[kind], np.random.default_rng(seed)
    shape = (n_rows,) if family.n_baseline == 1 else (n_rows, family.n_baseline)
    weights = rng.uniform(0.2, 2.0, n_rows) * (rng.random(n_rows) < 0.8)
    predictor = rng.normal(-0.5, 1.0, shape)
    return family, predictor, draw_outcome(family, rng, n_rows), weights


def height(facts: Any, spread: float, b: Any) -> float:
    family, predictor, outcome, weights = facts
    return float(family.value(predictor + b, outcome, weights).sum() + b @ b / (2 * spread**2))


@every_family
@pytest.mark.parametrize("spread", [0.05, 0.5, 2.0])
def test_the_own_baseline_is_where_scipy_finds_it(kind: str, spread: float) -> None:
    for seed in range(3):
        facts = draw(kind, seed)
        own = settle(*facts, spread)
        assert own.values.shape == (count_own(facts[0]),)
        theirs = minimize(
            lambda b, facts=facts: height(facts, spread, b),
            np.zeros(len(own.values)), method="Powell", options={"xtol": 1e-10, "ftol": 1e-14},
        )  # fmt: skip
        ours = height(facts, spread, own.values)
        assert ours <= theirs.fun + 1e-12 * abs(theirs.fun)
        np.testing.assert_allclose(own.values, theirs.x, atol=2e-5)
        assert own.price == pytest.approx(own.values @ own.values / (2 * spread**2))


@every_family
def test_nothing_pulls_at_it(kind: str) -> None:
    """The slopes add up to −b/τ²: to the last digits, wherever the search began."""
    family, predictor, outcome, weights = facts = draw(kind, 7)
    own = settle(*facts, 0.5)
    slopes = family.slope(own.shift(predictor), outcome, weights).sum(axis=0)
    whole = slopes if count_own(family) > 1 else np.array([slopes.sum()])
    np.testing.assert_allclose(whole + own.values / 0.25, 0, atol=1e-10)
    far = settle(family, predictor - 3.0, outcome, weights, 0.5)
    again = settle(*facts, 0.5, far)
    np.testing.assert_allclose(again.values, own.values, atol=1e-12)
    prepared = settle(family, predictor, family.prepare(outcome), weights, 0.5)
    assert (prepared.values == own.values).all(), "the same numbers in the same order"


def test_of_errors_it_is_the_shrunken_mean() -> None:
    family, predictor, outcome, weights = draw("number", 3)
    own = settle(family, predictor, outcome, weights, 0.3)
    errors = (outcome - 5.0) / 5.0 - predictor
    assert own.values[0] == pytest.approx(weights @ errors / (weights.sum() + 1 / 0.09), abs=1e-13)


@every_family
def test_standard_errors_are_those_of_numerical_second_derivatives(kind: str) -> None:
    family, predictor, outcome, weights = facts = draw(kind, 11, n_rows=200)
    found, spread, width = estimate(*facts, 0.5), 0.5, 1e-4
    n = len(found.values)
    bend = np.empty((n, n))
    for j in range(n):
        ahead, behind = (found.values + k * width * np.eye(n)[j] for k in (1, -1))
        rise = [family.slope(predictor + b, outcome, weights).sum(axis=0) for b in (ahead, behind)]
        parts = [x if n > 1 else np.array([x.sum()]) for x in rise]
        bend[j] = (parts[0] - parts[1]) / (2 * width)
    inverse = np.linalg.inv(bend + np.eye(n) / scale_spread(family, spread) ** 2)
    if family.crossed:
        centre = np.eye(n) - 1 / n
        inverse = centre @ inverse @ centre
        assert abs(found.values.sum()) < 1e-9
    spreads = np.diag(inverse)
    if family.kind in ("number", "count"):
        errors = [family.slope((predictor + found.values)[[i]], outcome[[i]], np.ones(1))[0]
                  for i in range(len(weights))]  # fmt: skip
        spreads = spreads * (weights @ np.square(errors)) / bend[0, 0]
    np.testing.assert_allclose(found.errors, np.sqrt(spreads), rtol=1e-5)
    assert found.patients == pytest.approx(weights.sum() ** 2 / (weights @ weights))


@pytest.mark.parametrize("kind", ["yes/no", "number", "number, robust", "count", "overdispersed"])
def test_intervals_hold_the_truth_as_often_as_they_say(kind: str) -> None:
    """In about .95 of 300 hospitals, by a fixed seed: counts' errors were 7 times too wide once."""
    rng, family = np.random.default_rng(8), EXAMPLES[kind.replace("overdispersed", "count")]
    held, own, n_rows = [], 0.05 if "number" in kind else 0.15, 400
    for _ in range(300):
        predictor = rng.normal(-0.3, 0.5, n_rows)
        if "number" in kind:
            predictor = 0.3 * predictor
            error = rng.normal(size=n_rows) if kind == "number" else rng.standard_t(4, n_rows)
            outcome: Any = family.link.inverse(np.clip(predictor + own + 0.1 * error, -1, 1))
        elif kind == "yes/no":
            outcome = (rng.random(n_rows) < family.link.inverse(predictor + own)).astype(float)
        else:
            predictor, exposure = predictor - 2.5, rng.uniform(30, 365, n_rows)
            mean = 50 * np.exp(predictor + own) * exposure / 365
            more = 1.0 if kind == "count" else rng.gamma(2, 0.5, n_rows)
            outcome = np.column_stack([np.minimum(rng.poisson(mean * more), 50), exposure])
        found = estimate(family, predictor, outcome, np.ones(n_rows), 0.5)
        held.append(abs(found.values[0] - own) < 1.96 * found.errors[0])
    assert 0.89 <= np.mean(held) <= 0.99


def test_of_counts_the_prior_is_that_of_poisson_regression() -> None:
    """Whatever largest count the study states: its loss is divided by it, the prior is not."""
    rng, n_rows = np.random.default_rng(1), 300
    predictor, rate = rng.normal(-1, 0.3, n_rows), 8.0
    counts = rng.poisson(rate * np.exp(predictor + 0.3)).astype(float)
    found = []
    for most in (40, 400):
        family = Count(most)
        outcome = np.column_stack([counts, np.ones(n_rows)])
        at = predictor + np.log(rate / most)
        found.append(estimate(family, at, outcome, np.ones(n_rows), 0.1))
    means = rate * np.exp(predictor)
    best = minimize(
        lambda b: float((means * np.exp(b[0]) - counts * b[0]).sum() + b[0] ** 2 / (2 * 0.1**2)),
        np.zeros(1), method="BFGS", options={"gtol": 1e-9},
    )  # fmt: skip
    for own in found:
        assert own.values[0] == pytest.approx(float(best.x[0]), abs=1e-6)
        assert own.errors[0] == pytest.approx(found[0].errors[0], rel=1e-6)


def test_intervals_in_which_few_events_are_known_stay_near_the_shared_hazard() -> None:
    family, predictor, outcome, weights = draw("time", 5)
    tight, loose = (settle(family, predictor, outcome, weights, s).values for s in (0.01, 2.0))
    assert np.abs(tight).max() < 0.01 < np.abs(loose).max()


@every_family
def test_a_site_without_patients_in_training_has_none(kind: str) -> None:
    family, predictor, outcome, weights = draw(kind, 2)
    own = settle(family, predictor, outcome, 0 * weights, 0.5)
    assert not own.values.any()
    assert own.price == 0


@every_family
def test_it_keeps_within_its_bounds_however_far_patients_are(kind: str) -> None:
    family, predictor, outcome, weights = draw(kind, 4)
    room = with_room(family)
    assert room.largest_predictor + LARGEST_OWN == family.largest_predictor > LARGEST_OWN
    assert not room.jumps
    assert family.jumps == EXAMPLES[kind].jumps, "the study's own is as it was"
    for far in (-room.largest_predictor, room.largest_predictor):
        own = settle(family, np.full_like(predictor, far), outcome, 100 * weights, 4.0)
        assert np.abs(own.values).max() <= LARGEST_OWN
        less = height((family, np.full_like(predictor, far), outcome, 100 * weights), 4.0,
                      0 * own.values)  # fmt: skip
        there = height((family, np.full_like(predictor, far), outcome, 100 * weights), 4.0,
                       own.values)  # fmt: skip
        assert there <= less, "so no summed loss outgrows what it could be without"


@pytest.mark.parametrize("kind", ["yes/no", "time", "classes", "ordered"])
@pytest.mark.parametrize("spread", [0.2, 1.0, 4.0])
def test_the_price_s_conjugate_is_the_largest_distance_below_a_line(
    kind: str, spread: float
) -> None:
    family, rng = EXAMPLES[kind], np.random.default_rng(1)
    n = count_own(family)
    grid = np.linspace(-LARGEST_OWN, LARGEST_OWN, 400_001)
    for size in (0.01, 1.0, 30.0):
        slopes = size * rng.normal(size=(20, family.n_baseline))
        whole = slopes.sum(axis=0) if n > 1 else np.array([slopes.sum()])
        least = sum((grid * s - grid**2 / (2 * spread**2)).max() for s in whole)
        found = price_conjugate(family, slopes, spread)
        assert found == pytest.approx(least, rel=1e-6, abs=1e-8)
        assert found <= spread**2 * (whole @ whole) / 2 + 1e-12
