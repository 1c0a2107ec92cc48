"""Federated Dual Averaging against a textbook version on dense matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from tests.oracles import YES_NO

from fedrulefit.core import fedda
from fedrulefit.core.design import Design, intercept
from fedrulefit.core.fedda import Schedule, client_update, server_update, soft_threshold

Site = tuple[Design, Any, Any]


def textbook_fedda(sites: list[Any], schedule: Schedule) -> Iterator[Any]:
    """Algorithms 2 and 3 with errata 1 to 4, line by line; yields z after each round."""
    s = schedule
    z = np.zeros(sites[0][0].shape[1])
    for r in range(s.rounds):
        increments = []
        for X, y, v in sites:
            local = z.copy()
            for g in range(s.local_steps):
                eta = s.server_step * s.client_step * r * s.local_steps + s.client_step * (g + 1)
                w = textbook_prox(local, eta * s.penalty)
                gradient = X.T @ (v * (expit(X @ w) - y)) / v.sum()
                local = local - s.client_step * gradient
            increments.append(local - z)
        n = np.array([v.sum() for _, _, v in sites])
        z = z + s.server_step * (n @ np.array(increments)) / n.sum()
        yield z


def textbook_prox(z: Any, threshold: float) -> Any:
    w = np.array([zi - threshold if zi > threshold else min(zi + threshold, 0.0) for zi in z])
    w[0] = z[0]
    return w


def ones(design: Design) -> Any:
    """The paper's penalty factors: 1, and 0 for the intercept."""
    return np.array([0.0, *[1.0] * (design.n_terms - 1)])


def make_site(rng: Any, n_rows: int, n_rules: int, n_linear: int, *, weighted: bool) -> Site:
    hits = rng.random((n_rows, n_rules)) < rng.uniform(0.1, 0.9, n_rules)
    linear = 0.4 * rng.normal(size=(n_rows, n_linear))
    design = Design(intercept(n_rows), np.packbits(hits, axis=0, bitorder="little"), linear)
    signal = dense(design) @ np.resize([0.3, 2.0, -2.0, 0.0, 0.0], design.n_terms)
    outcome = (rng.random(n_rows) < expit(signal)).astype(float)
    weights = rng.uniform(0.2, 2.0, n_rows) if weighted else np.ones(n_rows)
    return design, outcome, weights


def make_sites(seed: int, sizes: tuple[int, ...] = (31, 60, 17), **changes: Any) -> list[Site]:
    rng = np.random.default_rng(seed)
    facts = {"n_rules": 14, "n_linear": 3, "weighted": True, **changes}
    return [make_site(rng, n_rows, **facts) for n_rows in sizes]


def dense(design: Design) -> Any:
    return np.hstack([design.baseline, design.dense_rules(), design.linear])


def run(sites: list[Site], schedule: Schedule) -> Iterator[Any]:
    """The rounds as coordinator and sites play them; yields z after each round."""
    dual = np.zeros(sites[0][0].n_terms)
    for round_ in range(schedule.rounds):
        total, increment = 0.0, np.zeros_like(dual)
        for design, outcome, weights in sites:
            local = client_update(
                YES_NO, design, outcome, weights, ones(design), dual, round_, schedule
            )
            increment = increment + weights.sum() * local.increment
            total += weights.sum()
        dual = server_update(dual, increment / total, schedule.server_step)
        yield dual


def objective(sites: list[Site], coef: Any, penalty: float) -> float:
    total = sum(weights.sum() for _, _, weights in sites)
    loss = sum(YES_NO.value(d.dot(coef), y, w).sum() for d, y, w in sites) / total
    return float(loss + penalty * np.abs(coef[1:]).sum())


def dense_sites(sites: list[Site]) -> list[Any]:
    return [(dense(design), outcome, weights) for design, outcome, weights in sites]


# --- the schedule and the proximal map --------------------------------------------------


def test_total_step_size_is_the_papers() -> None:
    schedule = Schedule(9, local_steps=5, server_step=0.5, client_step=0.1, penalty=0.3)
    assert schedule.total(0) == 0
    assert schedule.total(0, 0) == pytest.approx(0.1)
    assert schedule.total(4, 2) == pytest.approx(0.5 * 0.1 * 4 * 5 + 0.1 * 3)
    assert schedule.total(9) == pytest.approx(0.5 * 0.1 * 9 * 5)
    assert schedule.threshold(4, 2) == pytest.approx(0.3 * 1.3)


def test_with_server_step_one_a_round_ends_where_the_next_begins() -> None:
    schedule = Schedule(9, local_steps=5, server_step=1.0, client_step=0.1, penalty=0.3)
    assert schedule.total(3, 4) == pytest.approx(schedule.total(4))


def test_soft_threshold_is_the_minimiser_of_its_objective() -> None:
    dual = np.array([0.2, 3.0, -3.0, 0.5, -0.5, 1.0, 0.0])
    coef = soft_threshold(dual, 1.0, np.array([0.0, *[1.0] * 6]))
    assert coef.tolist() == [0.2, 2.0, -2.0, 0.0, 0.0, 0.0, 0.0]
    sizes = np.linspace(-4, 4, 8001)
    for z, w in zip(dual[1:], coef[1:], strict=True):
        best = sizes[np.argmin(-z * sizes + np.abs(sizes) + sizes**2 / 2)]
        assert w == pytest.approx(best, abs=1e-3)


def test_penalty_factors_scale_the_threshold_of_their_term() -> None:
    dual = np.array([0.2, 3.0, -3.0, 3.0, 0.3])
    coef = soft_threshold(dual, 1.0, np.array([0.0, 0.5, 1.75, 4.0, 0.0]))
    assert coef.tolist() == [0.2, 2.5, -1.25, 0.0, 0.3]


@pytest.mark.parametrize("name", ["middle penalty", "large steps", "one local step"])
def test_with_penalty_factors_the_iterates_are_those_of_the_textbook(name: str) -> None:
    schedule = SCHEDULES[name]
    (site,) = make_sites(11, sizes=(60,), n_rules=0, n_linear=6)
    design, outcome, weights = site
    factors = np.array([0.0, 0.0, 0.2, 0.5, 1.0, 1.75, 3.0])
    dual = np.zeros(design.n_terms)
    X, share, z = dense(design), weights / weights.sum(), np.zeros(design.n_terms)
    for r in range(schedule.rounds):
        local = client_update(YES_NO, design, outcome, weights, factors, dual, r, schedule)
        dual = dual + local.increment
        for g in range(schedule.local_steps):
            edge = schedule.threshold(r, g) * factors
            w = np.where(np.abs(z) > edge, z - np.sign(z) * edge, 0.0)
            z = z - schedule.client_step * X.T @ (share * (expit(X @ w) - outcome))
        assert np.abs(dual - z).max() <= 1e-10 * max(1.0, np.abs(z).max())


def test_the_server_adds_the_increment_erratum_1() -> None:
    new = server_update(np.array([1.0, 2.0]), np.array([0.5, -1.0]), 2.0)
    assert new.tolist() == [2.0, 0.0]


# --- the textbook twin ------------------------------------------------------------------

SCHEDULES = {
    "published": Schedule(40, 20, 1.0, 0.01, 0.01),
    "no penalty": Schedule(40, 10, 1.0, 0.1, 0.0),
    "huge penalty": Schedule(40, 10, 1.0, 0.1, 5.0),
    "middle penalty": Schedule(40, 25, 1.0, 0.2, 0.05),
    "one local step": Schedule(60, 1, 1.0, 0.5, 0.03),
    "large steps": Schedule(40, 20, 1.0, 1.0, 0.05),
    "very large steps": Schedule(25, 12, 1.0, 4.0, 0.1),
    "slow server": Schedule(40, 8, 0.3, 0.3, 0.04),
    "fast server": Schedule(40, 8, 2.0, 0.3, 0.04),
    "many local steps": Schedule(8, 150, 1.0, 0.3, 0.06),
}


@pytest.mark.parametrize(("seed", "first_drift"), [(1, fedda.FIRST_DRIFT), (2, 0.0)])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_iterates_are_those_of_the_textbook(
    name: str, seed: int, first_drift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fedda, "FIRST_DRIFT", first_drift)
    schedule = SCHEDULES[name]
    sites = make_sites(seed)
    pairs = zip(run(sites, schedule), textbook_fedda(dense_sites(sites), schedule), strict=True)
    for ours, theirs in pairs:
        assert np.abs(ours - theirs).max() <= 1e-10 * max(1.0, np.abs(theirs).max())


def live_columns(sites: list[Site], schedule: Schedule, patch: pytest.MonkeyPatch) -> list[int]:
    """How many columns each call of the local steps worked on."""
    sizes: list[int] = []
    inner = fedda._local_steps

    def spy(*arguments: Any) -> Any:
        sizes.append(int(arguments[6].sum()))
        return inner(*arguments)

    patch.setattr(fedda, "_local_steps", spy)
    list(run(sites, schedule))
    return sizes


def test_the_short_cut_skips_columns_and_wakes_some_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the agreement with the textbook also covers the short cut."""
    monkeypatch.setattr(fedda, "FIRST_DRIFT", 0.0)
    schedule = SCHEDULES["middle penalty"]
    sites = make_sites(1)
    sizes = live_columns(sites, schedule, monkeypatch)
    n_terms = sites[0][0].n_terms
    assert min(sizes) < n_terms / 2
    # More calls than rounds × sites: a first guess of the live columns was enlarged.
    assert len(sizes) > schedule.rounds * len(sites)


def test_a_huge_penalty_leaves_only_the_intercept_live(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = SCHEDULES["huge penalty"]
    sites = make_sites(1)
    assert set(live_columns(sites, schedule, monkeypatch)) == {1}


def test_without_penalty_every_column_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = make_sites(1)
    sizes = live_columns(sites, SCHEDULES["no penalty"], monkeypatch)
    assert sizes[-1] == sites[0][0].n_terms


@pytest.mark.parametrize("seed", range(12))
def test_one_round_from_any_dual_variable_is_the_textbooks(seed: int) -> None:
    """Dual variables on, just below and far from the threshold; long rounds, large steps."""
    rng = np.random.default_rng(seed)
    ((design, outcome, weights),) = make_sites(seed, sizes=(40,))
    steps = int(rng.integers(1, 60))
    schedule = Schedule(99, steps, 1.0, float(rng.choice([0.05, 0.5, 3.0])), 0.05)
    round_ = int(rng.integers(0, 9))
    edge = schedule.threshold(round_, 0)
    dual = edge * rng.choice([-1.5, -1.0, -0.999, -0.5, 0.0, 0.9, 1.0, 1.001], design.n_terms)
    local = client_update(YES_NO, design, outcome, weights, ones(design), dual, round_, schedule)
    X, share, z = dense(design), weights / weights.sum(), dual.copy()
    for g in range(steps):
        w = textbook_prox(z, schedule.threshold(round_, g))
        if g == 0:
            loss = float(share @ (np.log1p(np.exp(X @ w)) - outcome * (X @ w)))
        z = z - schedule.client_step * X.T @ (share * (expit(X @ w) - outcome))
    assert np.abs(local.increment - (z - dual)).max() <= 1e-10 * max(1.0, np.abs(z).max())
    assert local.loss == pytest.approx(loss, rel=1e-12)


# --- what the algorithm promises --------------------------------------------------------


def test_one_site_and_one_local_step_is_plain_dual_averaging() -> None:
    """Xiao (2010): w = prox of minus the summed gradients."""
    (site,) = make_sites(3, sizes=(80,))
    design, outcome, weights = site
    schedule = Schedule(50, 1, 1.0, 0.4, 0.03)
    X, share = dense(design), weights / weights.sum()
    gradients = np.zeros(design.n_terms)
    for r, dual in enumerate(run([site], schedule)):
        coef = textbook_prox(-0.4 * gradients, 0.4 * (r + 1) * 0.03)
        gradients += X.T @ (share * (expit(X @ coef) - outcome))
        assert np.allclose(dual, -0.4 * gradients, rtol=0, atol=1e-12)


def test_with_one_local_step_sites_are_the_same_as_pooled_patients() -> None:
    sites = make_sites(4)
    designs, outcomes, weights = zip(*sites, strict=True)
    hits = np.vstack([d.dense_rules() for d in designs]).astype(np.uint8)
    bits = np.packbits(hits, axis=0, bitorder="little")
    pooled = Design(intercept(len(hits)), bits, np.vstack([d.linear for d in designs]))
    one = (pooled, np.concatenate(outcomes), np.concatenate(weights))
    schedule = SCHEDULES["one local step"]
    for apart, together in zip(run(sites, schedule), run([one], schedule), strict=True):
        assert np.allclose(apart, together, rtol=0, atol=1e-12)


def test_equal_sites_are_one_site_whatever_the_number_of_local_steps() -> None:
    (site,) = make_sites(5, sizes=(50,))
    for three, one in zip(
        run([site] * 3, SCHEDULES["middle penalty"]),
        run([site], SCHEDULES["middle penalty"]),
        strict=True,
    ):
        assert np.allclose(three, one, rtol=0, atol=1e-12)


def test_the_increment_depends_on_the_relative_weights_alone_erratum_2() -> None:
    ((design, outcome, weights),) = make_sites(6, sizes=(50,))
    schedule = SCHEDULES["middle penalty"]
    dual = np.linspace(-1, 1, design.n_terms)
    once = client_update(YES_NO, design, outcome, weights, ones(design), dual, 2, schedule)
    tenfold = client_update(YES_NO, design, outcome, 10 * weights, ones(design), dual, 2, schedule)
    assert tenfold.increment == pytest.approx(once.increment, rel=1e-12)
    assert tenfold.loss == pytest.approx(once.loss, rel=1e-12)


def test_the_intercept_is_never_penalised_erratum_4() -> None:
    """With a huge penalty what remains is the intercept, at the log-odds."""
    sites = make_sites(7)
    schedule = Schedule(300, 10, 1.0, 1.0, 50.0)
    *_, dual = run(sites, schedule)
    coef = soft_threshold(dual, schedule.threshold(schedule.rounds), ones(sites[0][0]))
    events = sum(w @ y for _, y, w in sites)
    total = sum(w.sum() for _, _, w in sites)
    assert not coef[1:].any()
    # Local steps drift towards each site's own log-odds: equal only in the limit of small steps.
    assert coef[0] == pytest.approx(np.log(events / (total - events)), abs=0.05)
    one_step = Schedule(300, 1, 1.0, 1.0, 50.0)
    *_, dual = run(sites, one_step)
    assert dual[0] == pytest.approx(np.log(events / (total - events)), abs=1e-9)


def test_the_objective_goes_down_erratum_1() -> None:
    sites = make_sites(8)
    schedule = SCHEDULES["published"]
    values = [objective(sites, np.zeros(sites[0][0].n_terms), schedule.penalty)]
    for r, dual in enumerate(run(sites, schedule)):
        coef = soft_threshold(dual, schedule.threshold(r + 1), ones(sites[0][0]))
        values.append(objective(sites, coef, schedule.penalty))
    assert values[0] == pytest.approx(np.log(2))
    assert (np.diff(values) < 1e-9).all()
    assert values[-1] < values[0] - 0.02


@pytest.mark.parametrize("penalty", [0.01, 0.05])
def test_long_runs_come_near_the_pooled_lasso_of_scikit_learn(penalty: float) -> None:
    """Within 0.1 % of the optimum, from above, with the same large coefficients."""
    sites = make_sites(9, sizes=(120, 80))
    schedule = Schedule(3000, 1, 1.0, 0.5, penalty)
    *_, dual = run(sites, schedule)
    coef = soft_threshold(dual, schedule.threshold(schedule.rounds), ones(sites[0][0]))
    X = np.vstack([dense(d)[:, 1:] for d, _, _ in sites])
    y, w = (np.concatenate([site[k] for site in sites]) for k in (1, 2))
    # Until 1.8 scikit-learn read l1_ratio only under this name of the penalty.
    old = (
        {"penalty": "elasticnet"}
        if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)
        else {}
    )
    lasso = LogisticRegression(
        l1_ratio=1.0, solver="saga", C=1 / (penalty * w.sum()), tol=1e-9, max_iter=20_000, **old
    ).fit(X, y, sample_weight=w)
    best = np.append(lasso.intercept_, lasso.coef_)
    optimum = objective(sites, best, penalty)
    reached = objective(sites, coef, penalty)
    assert optimum <= reached * (1 + 1e-7)
    assert reached <= optimum * 1.001
    assert np.abs(coef - best).max() < 0.1
    assert (best[1:] == 0).any()
    large = np.abs(best) > 0.2
    assert large.any()
    assert (np.sign(coef[large]) == np.sign(best[large])).all()


@pytest.mark.parametrize("local_steps", [5, 20])
def test_local_steps_on_like_sites_reach_the_same_model(local_steps: int) -> None:
    """Sites drawn from one population: G local steps are worth about G rounds."""
    sites = make_sites(10, sizes=(400, 400), weighted=False)
    values = []
    for steps in (1, local_steps):
        schedule = Schedule(1200 // steps, steps, 1.0, 0.2, 0.02)
        *_, dual = run(sites, schedule)
        coef = soft_threshold(dual, schedule.threshold(schedule.rounds), ones(sites[0][0]))
        values.append(objective(sites, coef, 0.02))
    assert values[1] == pytest.approx(values[0], rel=0.01)


def test_thresholds_by_hand() -> None:
    """λ·η̃: of round 3 itself, of its first local step, and of its last."""
    schedule = Schedule(rounds=9, local_steps=5, server_step=2.0, client_step=0.25, penalty=0.5)
    assert schedule.threshold(3) == 0.5 * (2.0 * 0.25 * 3 * 5)
    assert schedule.threshold(3, 0) == 0.5 * (2.0 * 0.25 * 3 * 5 + 0.25)
    assert schedule.threshold(3, 4) == 0.5 * (2.0 * 0.25 * 3 * 5 + 0.25 * 5)
    assert schedule.total(0) == 0
