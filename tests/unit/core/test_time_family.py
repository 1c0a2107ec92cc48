"""The family of times to an event: against numerical mathematics, Cox, and plain Python."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from statsmodels.duration.hazard_regression import PHReg

from fedrulefit.core.families.survival import follow_baseline, join_baseline
from fedrulefit.core.families.time import CLOGLOG, FEWEST_EVENTS, MOST_PACE, PACE, Time
from fedrulefit.core.families.time_at_risk import SHORTEST, STEP, at_risk, check_ends
from fedrulefit.model.export.dialects import find_dialect

CUTS, HORIZONS = (90.0, 180.0, 365.0), (365.0, 730.0)
FAMILY = Time(CUTS, HORIZONS, unit="days")
K = FAMILY.n_baseline


def draw_outcome(rng: np.random.Generator, n_rows: int) -> Any:
    """Entries (late for some), times up to the last horizon, and events."""
    entry = np.where(rng.random(n_rows) < 0.3, rng.uniform(0, 400, n_rows), 0.0)
    time = np.minimum(entry + rng.exponential(300, n_rows), 730.0)
    event = ((rng.random(n_rows) < 0.6) & (time < 730.0)).astype(float)
    return np.column_stack([entry, time, event])


def draw(seed: int, n_rows: int = 40, most: float = 8.0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    predictor = rng.uniform(-most, most, (n_rows, K))
    return predictor, draw_outcome(rng, n_rows), rng.uniform(0.1, 2, n_rows)


# --- follow-up --------------------------------------------------------------------------------


def follow_naively(entry: float, time: float, event: float, ends: Any) -> list[tuple[float, int]]:
    """The naive twin: one patient, one interval after the other."""
    found = []
    entry, time, *ends = (round(x / ends[-1] * 2**30) / 2**30 for x in (entry, time, *ends))
    for start, end in pairwise(ends):
        inside = max(min(time, end) - max(entry, start), 0.0) / (end - start)
        share = round(inside / STEP) * STEP
        first = start == ends[0]
        here = bool(event) and (start < time <= end or (first and time == start))
        found.append((max(share, SHORTEST) if here else share, int(here)))
    return found


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_follow_up_is_that_of_each_patient(seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    outcome = draw_outcome(rng, 20)
    if whole:  # ties with the cuts, and events on day 0
        outcome[:, :2] = np.ceil(outcome[:, :2] / 90) * 90 - 90 * (rng.random() < 0.5)
        outcome[:, :2] = np.clip(outcome[:, :2], 0, 730)
    found = at_risk(outcome, FAMILY.ends)
    for row, exposure, event in zip(outcome, found.exposure, found.event, strict=True):
        told = follow_naively(*row, FAMILY.ends)
        assert exposure.tolist() == [share for share, _ in told]
        assert event.tolist() == [here for _, here in told]


def test_nobody_is_at_risk_before_entry_nor_after_the_last_horizon() -> None:
    outcome = np.array([[200.0, 1000.0, 1.0], [0.0, 0.0, 1.0], [0.0, 365.0, 1.0]])
    found = at_risk(outcome, FAMILY.ends)
    assert found.exposure[0, :2].tolist() == [0, 0]
    assert found.exposure[0, 2] == pytest.approx(165 / 185, abs=STEP)
    assert found.exposure[0, 3] == 1
    assert found.event[0].sum() == 0, "after the last horizon"
    assert found.exposure[1].tolist() == [SHORTEST, 0, 0, 0]
    assert found.event[2].tolist() == [0, 0, 1, 0], "the end of an interval belongs to it"
    assert FAMILY.events(outcome, np.ones(3)).tolist() == [0, 1, 1]
    np.testing.assert_array_equal(FAMILY.tallies(outcome), np.hstack([found.event, found.exposure]))
    assert FAMILY.tallies(outcome).shape == (3, FAMILY.n_tallies)


def test_the_unit_of_time_does_not_matter() -> None:
    _, outcome, _ = draw(5, 400)
    outcome[:, :2] = outcome[:, :2].round()
    years = outcome / [365.25, 365.25, 1]
    other = Time([cut / 365.25 for cut in CUTS], [h / 365.25 for h in HORIZONS], unit="years")
    ours, theirs = at_risk(outcome, FAMILY.ends), at_risk(years, other.ends)
    np.testing.assert_array_equal(ours.exposure, theirs.exposure)
    np.testing.assert_array_equal(ours.event, theirs.event)


@pytest.mark.parametrize(
    ("cuts", "horizons"),
    [
        ((), ()),
        ((), (0.0,)),
        ((), (5.0, 4.0)),
        ((3.0, 2.0), (5.0,)),
        ((5.0,), (5.0,)),
        ((-1,), (5,)),
    ],
)
def test_ends_grow(cuts: Any, horizons: Any) -> None:
    with pytest.raises(ValueError, match="must grow"):
        check_ends(cuts, horizons)


# --- the loss ---------------------------------------------------------------------------------


def shift(predictor: Any, k: int, step: float) -> Any:
    moved = predictor.copy()
    moved[:, k] += step
    return moved


@pytest.mark.parametrize("k", range(K))
def test_slope_and_curvature_are_derivatives(k: int) -> None:
    (predictor, outcome, weights), width = draw(1), 1e-5
    up, down = (FAMILY.value(shift(predictor, k, s), outcome, weights) for s in (width, -width))
    slope = FAMILY.slope(predictor, outcome, weights)
    assert slope.shape == predictor.shape
    np.testing.assert_allclose(slope[:, k], (up - down) / (2 * width), rtol=1e-6, atol=1e-6)
    up, down = (FAMILY.slope(shift(predictor, k, s), outcome, weights) for s in (width, -width))
    curvature = FAMILY.curvature(predictor, outcome, weights)
    assert (curvature >= 0).all(), "the loss is convex"
    change = (up - down)[:, k] / (2 * width)
    np.testing.assert_allclose(curvature[:, k], change, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shrink", [0.0, 0.3, 1.0])
def test_the_conjugate_is_the_largest_distance_below_a_plane(shrink: float) -> None:
    """ℓ*(θ) = Σ_k sup_F θ_k·F − ℓ_k(F): parts are summed, so each has its own largest distance."""
    predictor, outcome, weights = draw(3, n_rows=12, most=4.0)
    outcome[0] = 0.0, 0.0, 1.0  # the shortest part
    theta = shrink * FAMILY.slope(predictor, outcome, np.ones(12))
    ours = FAMILY.conjugate(predictor, outcome, weights, np.full(12, shrink))
    at = at_risk(outcome, FAMILY.ends)
    for i in range(12):
        total, single = 0.0, Time((), (1.0,))
        for k in range(K):
            if at.exposure[i, k] == 0:
                continue
            when = np.array([[0.0, at.exposure[i, k], at.event[i, k]]])

            def below(place: float, own: Any = when, slope: float = theta[i, k]) -> float:
                value = single.value(np.array([[place]]), own, np.ones(1))[0]  # noqa: B023
                return float(value) - slope * place

            found = minimize_scalar(
                below, bounds=(-60, 60), method="bounded", options={"xatol": 1e-10}
            )
            total -= found.fun
        assert ours[i] == pytest.approx(weights[i] * total, abs=1e-5)


def test_at_the_slope_itself_the_conjugate_touches() -> None:
    predictor, outcome, weights = draw(4, 400)
    both = FAMILY.value(predictor, outcome, weights) + FAMILY.conjugate(
        predictor, outcome, weights, np.ones(400)
    )
    slope = FAMILY.slope(predictor, outcome, weights)
    np.testing.assert_allclose(both, (predictor * slope).sum(axis=1), rtol=1e-9, atol=1e-9)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, FAMILY.largest_predictor), st.floats(0, 1))
def test_the_bounds_are_never_exceeded(seed: int, size: float, shrink: float) -> None:
    rng = np.random.default_rng(seed)
    outcome = draw_outcome(rng, 8)
    outcome[:2] = [[0.0, 0.0, 1.0], [0.0, 730.0, 0.0]]
    signs = rng.choice([-1.0, -0.5, 0.0, 0.01, 0.5, 1.0], (8, K))
    signs[1] = 1.0
    predictor, ones = signs * size, np.ones(8)
    found = [
        (np.abs(FAMILY.value(predictor, outcome, ones)), FAMILY.most_value(size)),
        (np.abs(FAMILY.slope(predictor, outcome, ones)).sum(axis=1), FAMILY.most_slope),
        (FAMILY.curvature(predictor, outcome, ones).sum(axis=1), FAMILY.most_curvature),
        (
            np.abs(FAMILY.conjugate(predictor, outcome, ones, np.full(8, shrink))),
            FAMILY.most_conjugate,
        ),
    ]
    for values, most in found:
        assert np.isfinite(values).all()
        assert values.max() <= most * (1 + 1e-12)


def test_bounds_are_reached() -> None:
    """Somebody at risk all through, whom the model gives the steepest hazard."""
    outcome, one = np.array([[0.0, 730.0, 0.0]]), np.ones(1)
    steep, bent = np.full((1, K), math.log(PACE) + 1.0), np.full((1, K), math.log(PACE))
    assert FAMILY.slope(steep, outcome, one).sum() == pytest.approx(FAMILY.most_slope)
    assert FAMILY.most_slope == MOST_PACE * K
    assert FAMILY.curvature(bent, outcome, one).sum() == pytest.approx(FAMILY.most_curvature)
    found = FAMILY.conjugate(steep, outcome, one, one)
    assert found == pytest.approx(FAMILY.most_conjugate, rel=1e-6)


@pytest.mark.parametrize("size", [40.0, 800.0, 1e8, 1e300])
def test_extreme_predictors_overflow_nowhere(size: float) -> None:
    outcome = draw_outcome(np.random.default_rng(1), 30)
    for sign in (-1.0, 1.0):
        predictor, ones = np.full((30, K), sign * size), np.ones(30)
        with np.errstate(all="raise", under="ignore"):
            for each in (FAMILY.value, FAMILY.slope, FAMILY.curvature):
                assert np.isfinite(each(predictor, outcome, ones)).all()
            for a in (0.0, 0.5, 1.0):
                assert np.isfinite(FAMILY.conjugate(predictor, outcome, ones, np.full(30, a))).all()


def test_a_weight_is_a_repeated_patient() -> None:
    predictor, outcome, weights = draw(7)
    for each in (FAMILY.value, FAMILY.slope, FAMILY.curvature):
        once = each(predictor, outcome, np.ones(40))
        expected = (once.T * weights).T
        np.testing.assert_allclose(each(predictor, outcome, weights), expected, rtol=1e-12)


def test_a_single_interval_may_be_flat() -> None:
    family, (_, outcome, weights) = Time((), (730.0,)), draw(8)
    predictor = np.linspace(-3, 3, 40)
    for each in (family.slope, family.curvature):
        flat = each(predictor, outcome, weights)
        assert flat.shape == (40,)
        np.testing.assert_array_equal(flat, each(predictor[:, None], outcome, weights)[:, 0])


# --- the start --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_start_has_the_least_loss_of_all_constants(seed: int) -> None:
    _, outcome, weights = draw(seed, 200)
    start = FAMILY.start(outcome, weights)
    assert start is not None
    flat = FAMILY.slope(np.tile(start, (200, 1)), outcome, weights).sum(axis=0)
    np.testing.assert_allclose(flat, 0, atol=1e-9)
    at = at_risk(outcome, FAMILY.ends)
    np.testing.assert_allclose(
        start, np.log(weights @ at.event / (weights @ at.exposure)), atol=1e-5
    )


def test_the_start_is_finite_or_none() -> None:
    ones = np.ones(2)
    assert FAMILY.start(np.array([[0.0, 50.0, 0.0], [0.0, 90.0, 0.0]]), ones) is None
    assert FAMILY.start(np.zeros((0, 3)), np.ones(0)) is None
    first = np.array([[0.0, 50.0, 1.0], [0.0, 300.0, 0.0]])
    assert FAMILY.start(first, np.array([0.0, 1.0])) is None, "a patient without weight"
    start = FAMILY.start(first, ones)
    assert start is not None
    assert start[1:].tolist() == [math.log(FEWEST_EVENTS)] * 3, "no event, or nobody at risk"
    at_once = FAMILY.start(np.array([[0.0, 0.0, 1.0]]), np.ones(1))
    assert at_once is not None
    assert FAMILY.slope(at_once[None], np.array([[0.0, 0.0, 1.0]]), np.ones(1))[0, 0] == (
        pytest.approx(0, abs=1e-9)
    )


# --- against Cox ------------------------------------------------------------------------------


def test_coefficients_are_those_of_cox() -> None:
    """Hazards that are constant in the intervals; late entry, and censoring."""
    rng = np.random.default_rng(11)
    n_rows, beta = 6000, np.array([0.8, -0.5, 0.3])
    X = np.column_stack([rng.normal(size=n_rows), rng.random((n_rows, 2)) < 0.4])
    family = Time([0.5, 1.0, 2.0, 3.0], [5.0], unit="years")
    hazards = rng.exponential(np.exp(-X @ beta)) / 0.25
    entry = np.where(rng.random(n_rows) < 0.3, rng.uniform(0, 1, n_rows), 0.0)
    time = np.minimum(hazards, np.minimum(rng.exponential(6, n_rows), 5.0))
    kept = time > entry
    event = (hazards <= time).astype(float)
    outcome = np.column_stack([entry, time, event])[kept]
    X, ones = X[kept], np.ones(kept.sum())
    start = family.start(outcome, ones)
    assert start is not None

    def loss(point: Any) -> tuple[float, Any]:
        predictor = point[:5] + (X @ point[5:])[:, None]
        slope = family.slope(predictor, outcome, ones)
        gradient = np.concatenate([slope.sum(axis=0), X.T @ slope.sum(axis=1)])
        return family.value(predictor, outcome, ones).sum(), gradient

    found = minimize(loss, np.concatenate([start, np.zeros(3)]), jac=True, method="BFGS")
    cox = PHReg(outcome[:, 1], X, status=outcome[:, 2], entry=outcome[:, 0]).fit()
    np.testing.assert_allclose(found.x[5:], cox.params, atol=0.02)
    np.testing.assert_allclose(found.x[5:], beta, atol=0.1)
    # The risk of the baseline: a constant hazard of 0.25 a year.
    intercept, baseline = join_baseline(found.x[:5])
    times = np.array([0.25, 1.0, 2.5, 5.0])
    ours = family.timeline(baseline.tolist()).survival(np.array([intercept]), times)[0]
    np.testing.assert_allclose(ours, np.exp(-0.25 * times), atol=0.03)


def test_the_model_gives_risks_at_any_horizon() -> None:
    constants = np.log([0.1, 0.2, 0.4, 0.3])
    intercept, baseline = join_baseline(constants)
    assert intercept == pytest.approx(0.0)
    np.testing.assert_allclose(np.exp(baseline), [0.1, 0.2, 0.4, 0.3])
    predictor = intercept + np.array([0.0, math.log(2)])
    timeline = FAMILY.timeline(baseline.tolist())
    for time, hazard in ((0.0, 0.0), (45.0, 0.05), (180.0, 0.3), (365.0, 0.7), (730.0, 1.0)):
        found = timeline.hazards(predictor, np.array([time]))[:, 0]
        np.testing.assert_allclose(found, [hazard, 2 * hazard], atol=1e-12)
        alive = timeline.survival(predictor, np.array([time]))[:, 0]
        np.testing.assert_allclose(alive, np.exp(-found), atol=1e-12)
    for horizon in timeline.horizons:
        risk = FAMILY.link.inverse(predictor + horizon.shift)
        alive = timeline.survival(predictor, np.array([horizon.time]))[:, 0]
        np.testing.assert_allclose(risk, 1 - alive, atol=1e-12)
    assert timeline.horizons[-1].shift == 0
    for outside in (-1.0, 731.0, math.nan):
        with pytest.raises(ValueError, match="last horizon, 730 days"):
            timeline.share(np.array([outside]))


def test_a_rounded_baseline_still_ends_at_the_prediction() -> None:
    """Published baselines are rounded one by one: the risk by the last horizon was another one
    than the model's prediction."""
    _, exact = join_baseline(np.log([0.11, 0.23, 0.37, 0.31]))
    rounded = np.round(exact, 1).tolist()
    assert np.exp(rounded).sum() != pytest.approx(1, abs=1e-3)
    timeline, predictor = FAMILY.timeline(rounded), np.array([-1.0, 0.3])
    alive = timeline.survival(predictor, np.array([730.0]))[:, 0]
    np.testing.assert_array_equal(1 - alive, 1 - np.exp(-np.exp(predictor)))
    assert timeline.horizons[-1].shift == 0


def test_names_of_horizons_can_stand_in_a_query() -> None:
    ends = np.array([0.0, 0.5, 1.0, 1e6 + 1, 1e6 + 2])
    told = follow_baseline((), ends[[0, -1]], ends[1:].tolist(), "years", "risk").horizons
    names = [horizon.column for horizon in told]
    assert names == ["risk_0_5", "risk_1", "risk_1000001", "risk_1000002"]
    assert told[0].by == "0.5 years"


# --- link and words ---------------------------------------------------------------------------

F = np.concatenate([np.linspace(-40, 40, 81), [-1e4, -709.0, 709.0, 1e4, math.log(1e-3)]])


def test_forward_undoes_inverse() -> None:
    """Beyond F = 3.6 the risk is 1 to the last bit."""
    middle = np.linspace(-30, 2.5, 101)
    np.testing.assert_allclose(CLOGLOG.forward(CLOGLOG.inverse(middle)), middle, atol=1e-9)
    assert CLOGLOG.inverse(np.array([800.0, -800.0])).tolist() == [1, 0]


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_sql_is_the_inverse(dialect: str) -> None:
    written = CLOGLOG.sql("f", find_dialect(dialect).real)
    values = ", ".join(f"({f!r}::DOUBLE)" for f in F.tolist())
    query = f"SELECT {written} FROM (VALUES {values}) AS t(f)"  # noqa: S608
    found = np.array(duckdb.sql(query).fetchall())[:, 0].astype(float)
    np.testing.assert_allclose(found, CLOGLOG.inverse(F), rtol=1e-12, atol=1e-300)


def test_onnx_is_the_inverse() -> None:
    helper = pytest.importorskip("onnx.helper")
    runtime = pytest.importorskip("onnxruntime")
    double = 11
    nodes, constants, name = [], [], "f"
    for k, (kind, *rest) in enumerate(CLOGLOG.onnx):
        constants += [helper.make_tensor(f"c{k}", double, [], [x]) for x in rest]
        nodes.append(helper.make_node(kind, [name, *(f"c{k}" for _ in rest)], [f"y{k}"]))
        name = f"y{k}"
    graph = helper.make_graph(
        nodes,
        "link",
        [helper.make_tensor_value_info("f", double, [None])],
        [helper.make_tensor_value_info(name, double, [None])],
        initializer=constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (found,) = runtime.InferenceSession(made.SerializeToString()).run(None, {"f": F})
    np.testing.assert_allclose(found, CLOGLOG.inverse(F), rtol=1e-9, atol=1e-300)


def test_the_horizon_is_told() -> None:
    assert "730 days" in FAMILY.words.output


def test_no_risk_moves_further_than_is_told() -> None:
    f = np.linspace(-8, 4, 20001)
    for most in (0.0, 0.01, 0.3, 2.0):
        words = FAMILY.tell_move(most)
        told = float(words.split("by at most ")[-1].split()[0])
        move = 100 * np.abs(FAMILY.link.inverse(f + most) - FAMILY.link.inverse(f)).max()
        assert move <= told + 1e-9
        assert told <= move + 0.1 + 1e-9


def test_what_a_model_tells() -> None:
    assert FAMILY.effect(math.log(2)) == pytest.approx(2.0)
    assert FAMILY.tell(0.3214) == "32.1 %"
    assert FAMILY.effect_ticks(-1.5, 1.5) == [(k * math.log(2), 2.0**k) for k in (-2, -1, 0, 1, 2)]


def test_information_is_the_curvature_of_as_many_expected_events() -> None:
    """At the best constants the expected events are the observed ones."""
    _, outcome, _ = draw(9, 3000)
    ones, start = np.ones(3000), FAMILY.start(outcome, np.ones(3000))
    assert start is not None
    curvature = FAMILY.curvature(np.tile(start, (3000, 1)), outcome, ones).sum()
    mean = float(outcome[:, 2].mean())
    assert FAMILY.information(3000.0, mean) == pytest.approx(curvature, rel=1e-4)


def test_an_outcome_may_be_prepared_once() -> None:
    """Follow-up by interval was worked out anew for every loss, slope and curvature."""
    predictor, outcome, weights = draw(5)
    prepared = FAMILY.prepare(outcome)
    for each in (FAMILY.value, FAMILY.slope, FAMILY.curvature):
        once, again = (each(predictor, told, weights) for told in (outcome, prepared))
        assert once.tobytes() == again.tobytes()
