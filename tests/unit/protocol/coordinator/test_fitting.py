"""Coefficients: how a fit ends, and what it refuses to divide by."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.path import Path, PathSearch
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.fitting import (
    Solution,
    check_converges,
    fit_by_averaging,
    fit_exactly,
    last_of,
    positive,
)
from fedrulefit.protocol.dealing import NEVER
from fedrulefit.protocol.public import SITE_WEIGHT, Public
from fedrulefit.study import Study
from tests.oracles import dense, fista, objective, pool
from tests.samples import SOLVERS, make_study
from tests.talks import add_up, make_asker, make_candidates, make_patients, make_public, play
from tests.tampered import Replies, Requests, change_sum, far_off, make_sites, run


@pytest.mark.parametrize("number", [0.0, -5.0])
@pytest.mark.parametrize(
    ("kind", "field"), [(m.DualRequest, "weight"), (m.SummaryRequest, "total")]
)
def test_sites_without_patients_are_refused(
    kind: type[m.SumRequest], field: str, number: float
) -> None:
    """A weight of 0 from every site once divided by zero.

    Only the total is looked at: under masks nothing else is seen.
    """
    everywhere = dict.fromkeys(("north", "south", "west"), number)
    for numbers in (everywhere, {"west": -120.0}):  # the others have 70 and 50
        with pytest.raises(ProtocolError, match="the sites count no patients"):
            run(tamper_sums=change_sum(kind, field, numbers))


@pytest.mark.parametrize("rounds", [1, 30])
def test_divergence_is_an_error_that_says_what_to_do(rounds: int) -> None:
    """With one round the last objective, not a round's first, must be looked at."""
    study = make_study(client_step=1000.0, rounds=rounds)
    with pytest.raises(FitError, match=r"diverges .*lower 'client_step' \(now 1000\)"):
        run(study, far_off(study))


def test_the_same_sites_converge_with_a_smaller_step() -> None:
    study = make_study(rounds=30)
    model = run(study, far_off(study))
    assert model.provenance.objective < model.provenance.history[0]


@pytest.mark.parametrize("weighting", ["patients", "sites"])
def test_sites_count_by_patients_or_equally(weighting: str) -> None:
    study = make_study(rounds=1, weighting=weighting)
    sites = make_sites(study)
    weights: dict[str, float] = {}

    def look(replies: Replies, requests: Requests, public: Public) -> Replies:
        for name, request in requests.items():
            if isinstance(request, m.DualRequest):
                (sums,) = request.read(replies[name].numbers, public)
                weights[name] = sums.weight
        return replies

    run(study, sites, tamper_sums=look)
    expected = {"north": 70, "south": 50, "west": 30}
    assert weights == (
        expected if weighting == "patients" else dict.fromkeys(expected, SITE_WEIGHT)
    )


# --- by hand: rounds are answered from the patients, without a site ----------------------------


def fit(study: Study, choose: Any = None, patients: Any = None) -> tuple[Solution, list[m.Request]]:
    public = make_public(study)
    asker, candidates = make_asker(study), make_candidates(public)
    if study.settings.solver == "fedda":
        talk = fit_by_averaging(asker, candidates)
    else:
        talk = fit_exactly(asker, candidates, choose or query_all)
    answer = add_up(make_patients(study) if patients is None else patients)
    solution, asked = play(talk, answer)
    return solution, asked


def query_all(solvers: Any) -> Any:
    return [solver.query() for solver in solvers]


def pool_of(study: Study) -> tuple[Any, Any, Any]:
    """Return X, y, w of all sites, the terms as a dense matrix."""
    sites = make_patients(study).values()
    return pool([(p.design, p.outcome, p.scaled_weights) for p in sites])


def test_the_paper_s_rounds_are_weighted_means_of_the_sites_own_walks() -> None:
    """Algorithms 2 and 3 as they are printed (erratum 1 in mind), on dense matrices."""
    study = make_study(rounds=4, local_steps=3, server_step=0.7, client_step=0.2, penalty=0.01)
    solution, asked = fit(study)
    sites = [(dense(p.design), p.outcome, p.weights) for p in make_patients(study).values()]
    factors = make_public(study).factors
    total = sum(len(y) for _, y, _ in sites)
    z = np.zeros(len(factors))
    eta, losses = 0.0, []

    def shrink(dual: Any, threshold: float) -> Any:
        return np.sign(dual) * np.maximum(np.abs(dual) - threshold * factors, 0)

    for round_ in range(4):
        assert isinstance(asked[round_], m.DualRequest)
        np.testing.assert_allclose(asked[round_].dual, z, atol=1e-8)
        eta = 0.7 * 0.2 * 3 * round_
        step, loss = np.zeros_like(z), 0.0
        for X, y, w in sites:
            own = z.copy()
            for g in range(3):
                coef = shrink(own, (eta + 0.2 * (g + 1)) * 0.01)
                chance = 1 / (1 + np.exp(-(X @ coef)))
                if g == 0:
                    loss += w @ (np.logaddexp(0, X @ coef) - y * (X @ coef))
                own -= 0.2 * (X.T @ (chance - y)) / len(y)
            step += len(y) * (own - z)
        start = shrink(z, (eta + 0.2) * 0.01)
        losses.append(loss / total + 0.01 * factors @ np.abs(start))
        z = z + 0.7 * step / total
    np.testing.assert_allclose(solution.history, losses, atol=1e-8)
    np.testing.assert_allclose(solution.coef, shrink(z, 0.7 * 0.2 * 3 * 4 * 0.01), atol=1e-8)
    assert (solution.penalty, solution.weight, solution.path) == (0.01, total, None)


@pytest.mark.parametrize(
    ("objective", "diverges"), [(10.0, False), (10.001, True), (0.0, False), (np.inf, True)]
)
def test_a_loss_ten_times_the_first_will_not_come_back(objective: float, diverges: bool) -> None:
    settings = make_study().settings
    if not diverges:
        check_converges(objective, 1.0, 3, settings)
        return
    with pytest.raises(FitError, match="round 3: the objective is .* it started at 1"):
        check_converges(objective, 1.0, 3, settings)


def test_the_exact_fit_is_the_optimum_of_all_patients_together() -> None:
    study = make_study(**SOLVERS["exact"])
    solution, asked = fit(study)
    X, y, w = pool_of(study)
    penalties = 0.01 * make_public(study).factors
    best = fista(X, y, w, penalties)
    np.testing.assert_allclose(solution.coef, best, atol=1e-6)
    assert solution.history[-1] == pytest.approx(objective(X, y, w, best, penalties), abs=1e-9)
    assert len(asked) == len(solution.history)
    assert solution.weight == len(y)
    assert all(isinstance(request, m.CurvatureRequest) for request in asked)


def test_the_last_round_allowed_ends_the_exact_fit_where_it_is() -> None:
    study = make_study(**SOLVERS["exact"], max_rounds=2)
    solution, asked = fit(study)
    assert len(asked) == len(solution.history) == 2


def test_a_path_that_does_not_end_in_time_is_an_error_that_says_what_to_do() -> None:
    study = make_study(**SOLVERS["cv"], max_rounds=2)
    with pytest.raises(FitError, match="2 rounds: raise 'max_rounds'.*'path_length'"):
        fit(study)


def test_the_points_asked_for_are_those_chosen() -> None:
    """The audit's coordinator goes on from the points that were asked for."""
    study = make_study(**SOLVERS["cv"])
    chosen: list[Any] = []

    def choose(solvers: Any) -> Any:
        chosen.append(query_all(solvers))
        return chosen[-1]

    _, asked = fit(study, choose)
    assert len(asked) == len(chosen)
    for request, queries in zip(asked, chosen, strict=True):
        assert isinstance(request, m.CurvatureRequest)
        assert all(a is b for a, b in zip(request.queries, queries, strict=True))
    folds = [sorted(query.fold for query in queries) for queries in chosen]
    assert folds[0] == [-1, 0, 1, 2], "all patients, and without each fold"
    assert folds[-1] == [-1], "at last the fit at the λ that was chosen"


@pytest.mark.parametrize("max_rules", [0, 1])
def test_the_exact_fit_goes_back_up_the_path_until_few_enough_rules_stay(max_rules: int) -> None:
    study = make_study(**SOLVERS["cv"], linear_terms=False)
    free, _ = fit(study)
    rules = make_public(study).layout.rules
    assert (free.coef[rules] != 0).sum() == 2
    solution, _ = fit(study.with_settings(max_rules=max_rules))
    assert (solution.coef[rules] != 0).sum() <= max_rules
    assert solution.penalty > free.penalty
    assert solution.path is not None
    assert np.isin(solution.penalty, solution.path.penalties)


@pytest.mark.parametrize("max_rules", [0, 1])
def test_where_the_exact_fit_keeps_more_rules_than_its_path_it_goes_back_up(
    max_rules: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is only near its optima: here it claims that its last λ keeps few enough."""
    finish = PathSearch.finish

    def choose_last(self: PathSearch, **options: Any) -> Path:
        path = finish(self, **options)
        return dataclasses.replace(path, chosen=len(path.penalties) - 1)

    monkeypatch.setattr(PathSearch, "finish", choose_last)
    study = make_study(**SOLVERS["cv"], linear_terms=False, max_rules=max_rules)
    solution, asked = fit(study)
    rules = make_public(study).layout.rules
    assert (solution.coef[rules] != 0).sum() == max_rules
    assert solution.path is not None
    penalties = solution.path.penalties.tolist()
    chosen = penalties.index(solution.penalty)
    exact = study.with_settings(penalty=penalties[chosen + 1])
    assert (fit(exact)[0].coef[rules] != 0).sum() > max_rules, "the next λ keeps more"
    assert len(solution.history) == len(asked), "every round counts"


def test_folds_of_nobody_are_an_error_that_says_what_to_do() -> None:
    study = make_study(**SOLVERS["cv"])
    patients = {
        site: dataclasses.replace(own, folds=np.full(own.learnt.n_rows, NEVER))
        for site, own in make_patients(study).items()
    }
    with pytest.raises(FitError, match="too few patients for cross-validation: lower 'folds'"):
        fit(study, patients=patients)


def test_a_number_of_patients_is_above_0() -> None:
    assert positive(0.5) == 0.5
    for total in (0.0, -1.0, float("nan")):
        with pytest.raises(ProtocolError, match="count no patients"):
            positive(total)
    assert last_of([]) is None
    assert last_of([2.0, 1.0]) == 1.0
