"""The path and the choice of λ, against the exact solver and a loop over folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from tests.oracles import YES_NO, ask, fista, objective, pool, solve, split
from tests.simulations import make_problem
from tests.unit.core.test_newton import make_data, ones

from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import Point
from fedrulefit.core.path import PATH_TOLERANCE, PATIENCE, Path, PathSearch, choose, largest_penalty


def walk(
    sites: Any, factors: Any, folds: Any, *, rule: Any = "min", max_rules: Any = None, **shape: Any
) -> tuple[Path, PathSearch]:
    """Play the rounds of a path."""
    options = {"length": 12, "ratio": 0.02, "max_active": 300, **shape}
    n_folds = options.pop("n_folds", 3)
    search = PathSearch(YES_NO, sites[0][0].layout, [factors] * (1 + n_folds), **options)
    while not search.done:
        search.update([ask(sites, query, folds) for query in search.queries()])
        assert search.rounds < 300
    return search.finish(rule=rule, max_rules=max_rules), search


def make_sites(seed: int = 0, n_rows: int = 300) -> tuple[Any, Any, Any]:
    X, y, w = make_data(seed, n_rows=n_rows)
    sizes = [10, 90, n_rows - 100]
    folds = np.random.default_rng(seed).integers(0, 3, n_rows)
    return split(X, 6, y, w, sizes), ones(X.shape[1]), np.split(folds, np.cumsum(sizes)[:-1])


# --- λ_max --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_penalty_is_exact(seed: int) -> None:
    sites, factors, _ = make_sites(seed)
    factors = factors * np.resize([1.0, 0.2, 1.75], len(factors))
    X, y, w = pool(sites)
    null = np.zeros(len(factors))
    null[0] = logit(w @ y / w.sum())
    gradient = X.T @ (w * (expit(X @ null) - y)) / w.sum()
    largest = largest_penalty(gradient, factors)
    above, below = (solve(sites, factors, f * largest, tolerance=1e-9) for f in (1.0001, 0.999))
    assert not above.point.coef[1:].any()
    assert (below.point.coef[1:] != 0).sum() == 1
    folds = [np.zeros(d.n_rows, dtype=np.int64) for d, _, _ in sites]
    path, _ = walk(sites, factors, folds, n_folds=0, length=5)
    # The null model stands to the path's tolerance.
    assert path.penalties[0] == pytest.approx(largest, rel=5e-3)
    np.testing.assert_allclose(path.penalties / path.penalties[0], np.geomspace(1, 0.02, 5))


def test_unpenalised_terms_do_not_count() -> None:
    assert largest_penalty(np.array([9.0, 8.0, 0.5, -3.0]), np.array([0, 0, 1, 2.0])) == 1.5
    assert largest_penalty(np.array([9.0]), np.array([0.0])) == 0


# --- points and deviances -----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_points_on_the_path_are_near_the_optimum(seed: int) -> None:
    sites, factors, folds = make_sites(seed)
    path, _ = walk(sites, factors, folds, length=8)
    X, y, w = pool(sites)
    for penalty, point in zip(path.penalties, path.points, strict=True):
        assert point.residual <= PATH_TOLERANCE * penalty
        exact = solve(sites, factors, penalty).point
        gap = objective(X, y, w, point.coef, penalty * factors) - exact.objective
        assert -1e-10 <= gap <= 1e-3
    assert path.n_terms == tuple(int((p.coef[1:] != 0).sum()) for p in path.points)
    assert path.n_rules == tuple(int((p.coef[1:7] != 0).sum()) for p in path.points)


def test_held_out_deviance_is_that_of_a_loop_over_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedrulefit.core.path.PATH_TOLERANCE", 1e-5)
    monkeypatch.setattr("fedrulefit.core.path.PATIENCE", 100)
    sites, factors, folds = make_sites(5)
    path, _ = walk(sites, factors, folds, length=6)
    X, y, w = pool(sites)
    fold = np.concatenate(folds)
    held = np.empty((3, 6))
    for k in range(3):
        rows = fold == k
        for j, penalty in enumerate(path.penalties):
            coef = fista(X[~rows], y[~rows], w[~rows], penalty * factors)
            held[k, j] = objective(X[rows], y[rows], w[rows], coef, 0 * factors)
    np.testing.assert_allclose(path.deviance, 2 * held.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(path.error, 2 * held.std(axis=0, ddof=1) / np.sqrt(3), rtol=1e-3)
    assert path.chosen == np.argmin(path.deviance)


def test_a_path_without_gain_stops_early() -> None:
    rng = np.random.default_rng(0)
    X = np.hstack([np.ones((200, 1)), rng.normal(size=(200, 40))])
    y = (rng.random(200) < 0.4).astype(float)
    sites = split(X, 0, y, np.ones(200), [200])
    path, _ = walk(sites, ones(41), [np.arange(200) % 3], length=40, ratio=1e-3)
    assert len(path.penalties) < 40
    assert len(path.penalties) >= path.chosen + PATIENCE
    assert path.chosen < 10


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_patients_of_one_class(label: float) -> None:
    """Once an error about infinity."""
    sites, factors, folds = make_sites(6)
    sites = [(d, np.full(d.n_rows, label), w) for d, _, w in sites]
    path, _ = walk(sites, factors, folds, length=4)
    assert np.isfinite(path.deviance).all()
    assert not path.points[path.chosen].coef[1:].any()


def test_a_fold_that_trains_on_one_class() -> None:
    """All events are held out at once."""
    X, y, w = make_data(7)
    sites = split(X, 6, y, w, [len(X)])
    folds = np.where(y == 1, 0, 1 + np.arange(len(y)) % 2)
    path, _ = walk(sites, ones(X.shape[1]), [folds], length=6)
    assert np.isfinite(path.deviance).all()


def test_separated_outcomes_end() -> None:
    X, _, w = make_data(8)
    sites = split(X, 6, (X[:, -1] > 0).astype(float), w, [len(X)])
    path, search = walk(sites, ones(X.shape[1]), [np.arange(len(X)) % 3], length=15, ratio=1e-4)
    assert np.isfinite(path.deviance).all()
    assert search.rounds < 100


# --- the choice ---------------------------------------------------------------------------

DEVIANCE = np.array([1.3, 1.0, 0.8, 0.75, 0.74, 0.78])
ERROR = np.full(6, 0.07)
RULES = [0, 1, 2, 5, 9, 14]
TERMS = [n + 2 for n in RULES]


def test_the_choice_of_the_penalty() -> None:
    assert choose(DEVIANCE, ERROR, RULES, TERMS, rule="min", max_rules=None) == 4
    assert choose(DEVIANCE, ERROR, RULES, TERMS, rule="1se", max_rules=None) == 2
    assert choose(DEVIANCE, 0 * ERROR, RULES, TERMS, rule="1se", max_rules=None) == 4
    assert choose(DEVIANCE, 100 * ERROR, RULES, TERMS, rule="1se", max_rules=None) == 0


@pytest.mark.parametrize(
    ("max_rules", "least", "simplest"), [(20, 4, 2), (8, 3, 2), (5, 3, 2), (1, 1, 1), (0, 0, 0)]
)
def test_at_most_so_many_terms(max_rules: int, least: int, simplest: int) -> None:
    """Two linear terms stay at every λ."""
    most = max_rules + 2
    assert choose(DEVIANCE, ERROR, RULES, TERMS, rule="min", max_terms=most) == least
    assert choose(DEVIANCE, ERROR, RULES, TERMS, rule="1se", max_terms=most) == simplest
    assert choose(DEVIANCE, ERROR, RULES, TERMS, rule="min", max_terms=most, max_rules=0) == 0


@pytest.mark.parametrize(
    ("max_rules", "least", "simplest"), [(20, 4, 2), (8, 3, 2), (5, 3, 2), (1, 1, 1), (0, 0, 0)]
)
def test_at_most_so_many_rules(max_rules: int, least: int, simplest: int) -> None:
    assert choose(DEVIANCE, ERROR, RULES, TERMS, rule="min", max_rules=max_rules) == least
    assert choose(DEVIANCE, ERROR, RULES, TERMS, rule="1se", max_rules=max_rules) == simplest


def test_a_path_must_have_started() -> None:
    search = PathSearch(YES_NO, Layout(1, 2, 0), [ones(3)] * 3, length=4, ratio=0.1, max_active=9)
    assert (search.rounds, search.done) == (0, False)
    with pytest.raises(ValueError, match="allow more rounds"):
        search.finish(rule="min")


# --- the requirement ----------------------------------------------------------------------


@pytest.mark.parametrize(("model", "n_rules"), [(1, 500), (2, 500), (2, 2000)])
def test_a_path_of_thirty_takes_fewer_than_sixty_rounds(model: int, n_rules: int) -> None:
    sites, factors = make_problem(model, (200,) * 5, n_rules)
    fold = np.random.default_rng(0).permutation(1000) % 5
    path, search = walk(sites, factors, np.split(fold, 5), n_folds=5, length=30, ratio=1e-3)
    assert search.rounds < 60
    assert len(path.penalties) > 10
    assert 0 < path.chosen < len(path.penalties) - 1


# --- in between ---------------------------------------------------------------------------


def test_the_path_begins_at_the_largest_penalty_of_all_patients() -> None:
    """Folds may weigh terms otherwise: λ_max is that of the fit to all patients."""
    sites, factors, folds = make_sites()
    every = [factors, 3 * factors, 0.5 * factors]
    layout = sites[0][0].layout
    search = PathSearch(YES_NO, layout, every, length=4, ratio=0.1, max_active=99)
    while not search.done:
        search.update([ask(sites, query, folds) for query in search.queries()])
    X, y, w = pool(sites)
    null = np.zeros(len(factors))
    null[0] = logit(w @ y / w.sum())
    gradient = X.T @ (w * (expit(X @ null) - y)) / w.sum()
    path = search.finish(rule="min")
    assert path.penalties[0] == pytest.approx(np.abs(gradient[1:]).max(), rel=1e-3)
    np.testing.assert_allclose(path.penalties, path.penalties[0] * np.geomspace(1, 0.1, 4))
    # The objective told is that of the fit to all patients, too.
    last = path.points[-1]
    expected = objective(X, y, w, last.coef, path.penalties[-1] * factors)
    assert search.objective == last.objective == pytest.approx(expected, rel=1e-6)


def test_a_path_that_is_cut_short_tells_what_all_have_walked() -> None:
    """At any round: as many points, deviances, penalties and counts."""
    sites, factors, folds = make_sites(1)
    layout = sites[0][0].layout
    search = PathSearch(YES_NO, layout, [factors] * 4, length=9, ratio=0.01, max_active=99)
    uneven = 0
    while not search.done:
        search.update([ask(sites, query, folds) for query in search.queries()])
        walked = [len(track.held) for track in search._tracks]
        uneven += walked[0] > min(walked) > 0
        if min(walked) == 0:
            continue
        path = search.finish(rule="min")
        lengths = {len(getattr(path, name)) for name in
                   ("penalties", "deviance", "error", "n_terms", "n_rules", "points")}  # fmt: skip
        assert lengths == {min(walked)}
        for point, n_terms, n_rules in zip(path.points, path.n_terms, path.n_rules, strict=True):
            assert n_terms == np.count_nonzero(point.coef[1:])
            assert n_rules == np.count_nonzero(point.coef[1:7])
    assert uneven, "the fit to all patients was ahead of a fold at times"


def test_deviance_and_error_by_hand() -> None:
    search = PathSearch(YES_NO, Layout(1, 2, 0), [ones(3)] * 4, length=2, ratio=0.1, max_active=9)
    search._penalties = np.array([0.2, 0.02])
    held = [[9.0, 9.0], [1.0, 0.5], [2.0, 0.7], [3.0, 0.9]]
    null = Point(np.array([0.1, 0.0, 0.0]), 1.0, np.zeros(3), 0.0, 0.0)
    for track, losses in zip(search._tracks, held, strict=True):
        track.held, track.points = losses, [null, null]
    path = search.finish(rule="1se")
    # Folds only, twice the loss; the deviation of three folds over √3.
    np.testing.assert_allclose(path.deviance, [4.0, 1.4])
    np.testing.assert_allclose(path.error, [2 * 1.0 / np.sqrt(3), 2 * 0.2 / np.sqrt(3)])
    assert path.chosen == 1
    assert (path.n_terms, path.n_rules) == ((0, 0), (0, 0))


def test_without_folds_the_whole_path_is_walked_and_has_no_error() -> None:
    search = PathSearch(YES_NO, Layout(1, 2, 0), [ones(3)], length=30, ratio=0.1, max_active=9)
    search._penalties = np.geomspace(1, 0.1, 30)
    search._tracks[0].held = [1.0 + k for k in range(29)]
    assert not search.done
    search._tracks[0].held.append(99.0)
    assert search.done
    null = Point(np.zeros(3), 1.0, np.zeros(3), 0.0, 0.0)
    search._tracks[0].points = [null] * 30
    assert search.finish(rule="min").error.tolist() == [0.0] * 30


@pytest.mark.parametrize(
    ("losses", "done"),
    [
        ([1.0] * 6, False),
        ([1.0] * 7, True),  # the first of equals is the best
        ([2.0, *[1.0] * 6], False),
        ([2.0, *[1.0] * 6, 3.0], True),
        ([9.0, 8, 7, 6, 5, 4, 3, 2, 1], False),
    ],
)
def test_patience_along_the_path(losses: list[float], done: bool) -> None:
    """Six λs without a better one; counted where all folds have been."""
    search = PathSearch(YES_NO, Layout(1, 2, 0), [ones(3)] * 3, length=30, ratio=0.1, max_active=9)
    search._penalties = np.geomspace(1, 0.1, 30)
    for track, extra in zip(search._tracks, ([0.0] * 9, [], [0.5]), strict=True):
        track.held = [*losses, *extra]
    assert PATIENCE == 6
    assert search.done is done
