"""Brier scores over time are scikit-survival's on the patients, within their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sksurv.metrics import brier_score, integrated_brier_score
from sksurv.util import Surv

from fedrulefit.core.families.time import Time
from fedrulefit.core.families.time_horizons import Scores, score_over_time

FAMILY = Time((0.5, 1.0, 3.0), (1.0, 3.0, 5.0), unit="years")
ONES = (-1.0, -1.5, -0.8, -2.0)


def draw(seed: int, n_rows: int, base: float = 0.4, loss: float = 6.0) -> tuple[Any, Any]:
    """Return predicted risks by the last horizon that are right, and censored outcomes."""
    rng = np.random.default_rng(seed)
    hazard = base * np.exp(rng.normal(0, 1, n_rows))
    timeline = FAMILY.timeline(ONES)
    due = rng.exponential(1, n_rows) / hazard  # in shares of the whole hazard
    event = np.where(due < 1, np.interp(due, timeline.shares, timeline.ends), 9.0)
    lost = rng.exponential(loss, n_rows)
    time = np.minimum(np.minimum(event, lost), 5.0)
    happened = (event <= lost) & (event <= 5.0)
    return -np.expm1(-hazard), np.column_stack([np.zeros(n_rows), time, happened])


def ours(risk: Any, outcome: Any) -> Scores | None:
    sums = FAMILY.judge.count(risk, outcome, np.ones(len(risk)))
    return score_over_time(sums, FAMILY.timeline(ONES))


def theirs(risk: Any, outcome: Any, times: Any) -> Any:
    known = Surv.from_arrays(outcome[:, 2] > 0, outcome[:, 1])
    # Whoever is followed to the last horizon is free of the event.
    later = Surv.from_arrays(outcome[:, 2] > 0, np.where(outcome[:, 1] == 5, 5.1, outcome[:, 1]))
    alive = FAMILY.timeline(ONES).survival(FAMILY.link.forward(risk), times)
    return known, later, alive


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(5, 300),
    base=st.floats(0.05, 3),
    loss=st.floats(1, 20),
)
def test_each_horizon_is_scikit_survivals_within_the_bound(
    seed: int, n_rows: int, base: float, loss: float
) -> None:
    risk, outcome = draw(seed, n_rows, base, loss)
    found = ours(risk, outcome)
    if found is None or not outcome[:, 2].any() or not outcome[:, 1].min() < 1:
        return
    assert found.times == (1.0, 3.0, 5.0)
    times = np.array([1.0, 3.0, 5.0 - 1e-9])
    _, told = brier_score(*theirs(risk, outcome, times), times)
    assert (np.abs(np.array(found.brier) - told) <= np.array(found.bounds) + 1e-9).all()


def test_scores_are_much_nearer_than_their_bounds() -> None:
    risk, outcome = draw(2, 3000)
    found = ours(risk, outcome)
    assert found is not None
    times = np.array([1.0, 3.0, 5.0 - 1e-9])
    _, told = brier_score(*theirs(risk, outcome, times), times)
    np.testing.assert_allclose(found.brier, told, atol=1e-3)
    assert max(found.bounds) < 0.1


def test_the_integrated_score_is_scikit_survivals() -> None:
    risk, outcome = draw(3, 3000)
    found = ours(risk, outcome)
    assert found is not None
    times = np.linspace(outcome[:, 1].min() + 1e-6, 5 - 1e-9, 2000)
    told = integrated_brier_score(*theirs(risk, outcome, times), times)
    assert found.integrated == pytest.approx(told, abs=2e-3)
    assert abs(found.integrated - told) < found.integrated_bound < 0.1


def draw_late(seed: int, n_rows: int, *, share: float = 0.5) -> tuple[Any, Any, Any]:
    """Return patients some of whom come late, and who of all there are is among them."""
    rng = np.random.default_rng(seed)
    risk, outcome = draw(seed, n_rows)
    outcome[:, 0] = np.where(rng.random(n_rows) < share, rng.uniform(0, 2, n_rows), 0.0)
    return risk, outcome, outcome[:, 1] > outcome[:, 0]


def score_one_by_one(risk: Any, outcome: Any, t: float) -> float:
    """Return the score by t: each event weighs S(T−)/R(T−), those at risk after t S(t)/R(t)."""
    entry, time, event = outcome.T
    alive = FAMILY.timeline(ONES).survival(FAMILY.link.forward(risk), np.array([t]))[:, 0]
    total, curve = 0.0, 1.0
    for at in np.unique(time[(event > 0) & (time <= t)]):
        at_risk = float(((entry < at) & (time >= at)).sum())
        now = (time == at) & (event > 0)
        total += curve / at_risk * float((alive[now] ** 2).sum())
        curve *= 1 - float(now.sum()) / at_risk
    still = (entry <= t) & (time > t) | ((time >= 5) & (event == 0))
    return total + curve / float(still.sum()) * float(((1 - alive[still]) ** 2).sum())


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(30, 300), share=st.floats(0.05, 0.9))
def test_with_late_entry_it_is_that_of_patients_one_by_one_within_the_bound(
    seed: int, n_rows: int, share: float
) -> None:
    risk, outcome, seen = draw_late(seed, n_rows, share=share)
    found = ours(risk[seen], outcome[seen])
    if found is None:
        return
    for t, brier, bound in zip(found.times, found.brier, found.bounds, strict=True):
        told = score_one_by_one(risk[seen], outcome[seen], t)
        assert abs(brier - told) <= bound + 1e-9


def test_late_entry_does_not_move_the_score() -> None:
    """Of those who are seen it tells what is true of all, as if nobody had come late or left."""
    risk, outcome, seen = draw_late(5, 20_000)
    found = ours(risk[seen], outcome[seen])
    assert found is not None
    timeline, rng = FAMILY.timeline(ONES), np.random.default_rng(6)
    due = rng.exponential(1, len(risk)) / -np.log1p(-risk)
    event = np.where(due < 1, np.interp(due, timeline.shares, timeline.ends), 9.0)
    for t, brier in zip(found.times, found.brier, strict=True):
        by_then = 1 - timeline.survival(FAMILY.link.forward(risk), np.array([t]))[:, 0]
        assert brier == pytest.approx(np.mean((by_then - (event <= t)) ** 2), abs=0.008)
    one_by_one = [score_one_by_one(risk[seen], outcome[seen], t) for t in found.times]
    np.testing.assert_allclose(found.brier, one_by_one, atol=3e-3)


def test_a_gap_and_no_follow_up_tell_nothing() -> None:
    risk, outcome = draw(4, 200)
    assert ours(risk, np.maximum(outcome, [0.4, 0.5, 0])) is None
    assert ours(risk, np.minimum(outcome, [0, 4.0, 0])) is None


def test_scores_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="lacks its score"):
        Scores((1.0, 2.0), (0.1,), (0.0, 0.0), 0.1, 0.0)
    with pytest.raises(ValueError, match="below 0"):
        Scores((1.0,), (-0.1,), (0.0,), 0.1, 0.0)
