"""The finished model and its bill: they follow from what was asked and summed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import FitError
from fedrulefit.model import Model
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.privacy.policy import KINDS
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.agreeing import Counted, Protection
from fedrulefit.protocol.coordinator.concluding import Found, conclude, make_bill
from fedrulefit.protocol.coordinator.fitting import Solution
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.oracles import fista, objective, pool
from tests.samples import SOLVERS, make_study, make_tables
from tests.talks import RULES as SHARED
from tests.talks import add_up, make_asker, make_candidates, make_patients, make_public, play
from tests.tampered import run

NOISY = Protection("discrete Laplace", private=True)


def bill(
    protection: Protection | None = NOISY, *, votes: bool = True, **settings: Any
) -> PrivacyBill:
    facts: dict[str, Any] = {"solver": "exact", "penalty": 0.1, "epsilon": 1.0, **settings}
    study = make_study(**facts)
    return make_bill(study, protection, 300, n_sites=3, sum_of=None, votes=votes)


def test_every_question_that_asks_for_a_release_says_what_it_tells() -> None:
    study = make_study()
    asked = [kind for kind in m.REQUESTS if kind.release is not None]
    assert all(kind.tells(study) for kind in asked)
    assert {kind.release for kind in asked} == set(KINDS) - {"exact-histograms", "own-baselines"}
    assert not any(kind.tells(study) for kind in m.REQUESTS if kind not in asked)


@pytest.mark.parametrize("protection", [NOISY, Protection("exact", private=False), None])
@pytest.mark.parametrize("penalty", ["cv", 0.1])
@pytest.mark.parametrize("per_site", [True, False])
@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_the_bill_names_all_that_each_site_tells_without_noise(
    protection: Protection | None, penalty: Any, per_site: bool, holdout: float
) -> None:
    words = bill(protection, penalty=penalty, folds=5, per_site=per_site, holdout=holdout).exact
    unprotected = protection is not None and not protection.private
    assert ("the histograms" in words) == unprotected
    assert any("under the site's name" in line for line in words) == per_site
    assert any("measures" in line for line in words) == (per_site and holdout > 0)
    (rules,) = (line for line in words if line.startswith("the rules"))
    assert ("without each of 5 folds" in rules) == (penalty == "cv")


@pytest.mark.parametrize("spreads", ["exact", "histogram"])
@pytest.mark.parametrize("solver", ["exact", "fedda"])
@pytest.mark.parametrize("penalty", ["cv", 0.1])
@pytest.mark.parametrize("votes", [True, False])
def test_the_bill_names_all_that_is_summed_without_noise(
    spreads: str, solver: str, penalty: Any, votes: bool
) -> None:
    facts = {"spreads": spreads, "solver": solver, "penalty": penalty, "folds": 5}
    if solver == "fedda":
        facts["penalty"] = 0.1
    words = bill(votes=votes, **facts).sums
    with_scores = bill(votes=votes, **facts, holdout=0.3).sums
    assert [*words, with_scores[-1]] == list(with_scores)
    assert "scores" in with_scores[-1]
    assert any("known values" in line for line in words) == (spreads == "exact")
    assert any("candidate rule" in line and "sites" in line for line in words) == votes
    always = [w for w in words if "known values" not in w and "how many sites" not in w]
    pruned = [w for w in always if "of few terms" in w]
    rounds, slopes, inside, between = (w for w in always if w not in pruned)
    assert bool(pruned) == (facts["penalty"] == "cv")
    assert all("variants" in w and "without each of 5 folds" in w for w in pruned)
    assert ("without each of 5 folds" in rounds) == (facts["penalty"] == "cv")
    assert "gradient" in rounds
    assert "loss" in rounds
    assert ("second derivatives" in rounds) == (solver == "exact")
    assert "300 rounds" in rounds
    assert "with and without the outcome" in slopes
    assert "outcomes" in inside
    assert "between the sites" in between


def test_without_histograms_no_spread_is_told() -> None:
    assert not any("known values" in line for line in bill(None, spreads="exact").sums)


RULES = "the rules grown on the site's patients"
OWN = (
    "under the site's name and rounded, where no site has too few: its patients and outcomes, in "
    "all and inside rules"
)
ALWAYS = (
    "the gradient at the final coefficients, with and without the outcome apart",
    "the number of patients and of outcomes in all and inside each rule of the final model, the "
    "spread of its terms, and its loss",
    "roughly, which share of each term's variance lies between the sites",
)
AVERAGING = "a gradient sum, a loss and the number of patients in each of 300 rounds"
CURVATURE = (
    "gradients, second derivatives, losses and the number of patients (from which patients and "
    "outcomes inside candidate rules follow) in each of 300 rounds"
)


def test_what_each_site_tells_without_noise_word_for_word() -> None:
    exact = Protection("exact", private=False)
    found = bill(exact, penalty="cv", folds=2, per_site=True, holdout=0.3)
    assert list(found.exact) == [
        "the histograms",
        f"{RULES}, and without each of 2 folds",
        f"{OWN}; the same of its held-out patients, and measures of their predictions",
    ]
    assert list(bill(per_site=True).exact) == [RULES, OWN]


def test_one_site_tells_nothing_of_what_lies_between_sites() -> None:
    facts = {"sum_of": None, "votes": False}
    for study, n_sites in ((make_study(), 1), (make_study(between_sites=False), 3)):
        sums = make_bill(study, NOISY, 300, n_sites=n_sites, **facts).sums  # type: ignore[arg-type]
        assert not any("between" in words for words in sums)


def test_what_is_summed_without_noise_word_for_word() -> None:
    """In the order of the questions."""
    before = (
        "the spread and number of known values of each covariate",
        "how many sites have enough patients in each candidate rule",
    )
    after = (
        "histograms of the held-out patients' scores, with and without the outcome, how well the "
        "scores tell apart patients of one and the same site, over all sites, and how many of "
        "these patients satisfy each rule, and coarsely, how those inside a rule differ from those "
        "outside it within sites",
        "how many sites have too few patients to tell results of their own",
    )
    most: dict[str, Any] = {"spreads": "exact", "holdout": 0.3, "per_site": True}
    folds = ", of all patients and without each of 2 folds"
    found = bill(**most, penalty="cv", folds=2, selection="min")
    assert list(found.sums) == [*before, CURVATURE + folds, *ALWAYS, *after]
    found = bill(**most, penalty="cv", folds=2)
    refits = (
        "gradients, second derivatives and losses of few terms and of their variants (from which "
        "patients and outcomes inside these follow) in each of 0 rounds"
    )
    votes = "how many sites have enough patients in variants of rules, and between them"
    told = [*before, CURVATURE + folds, votes, refits + folds, *ALWAYS, *after]
    assert list(found.sums) == told
    found = bill(**most, solver="fedda")
    assert list(found.sums) == [*before, AVERAGING, *ALWAYS, *after]
    few = bill(votes=False, spreads="histogram", per_site=False)
    assert list(few.sums) == [CURVATURE, *ALWAYS]


def test_the_bill_counts_what_was_released() -> None:
    bill = run().privacy
    assert (bill.epsilon_per_histogram, bill.n_histograms) == (None, 5)
    assert bill.exact[0] == "the histograms"
    assert "rules" in bill.exact[1]
    assert not any("spread and number" in words for words in bill.sums)
    assert "2 rounds" in bill.sums[0]
    assert bill.sum_of is None
    study = make_study(rounds=2, epsilon=0.5, spreads="exact")
    bill = run(study).privacy
    assert (bill.epsilon_per_histogram, bill.epsilon_histograms) == (0.5, 2.5)
    assert "rules" in bill.exact[0]
    assert "spread" in bill.sums[0]
    assert "OpenDP" in bill.mechanism


def test_terms_are_sorted_and_their_sums_are_those_of_all_sites() -> None:
    study = make_study()
    model = run(study)
    sizes = [term.importance for term in model.terms]
    assert sizes == sorted(sizes, reverse=True)
    assert all(term.coefficient != 0 for term in model.terms)
    tables = make_tables(study).values()
    assert model.provenance.patients == sum(t.n_rows for t in tables)
    assert model.provenance.events == sum(float(np.sum(t.outcome)) for t in tables)
    assert len(model.provenance.history) == model.provenance.rounds == 10


# --- by hand ------------------------------------------------------------------------------------


def found_of(study: Study, coef: Any) -> Found:
    """What the run has agreed on before the summary: three rules and four linear terms."""
    candidates = make_candidates(make_public(study))
    solution = Solution(np.array(coef), 0.01, 150.0, [0.7, 0.6])
    return Found(candidates, solution, Counted(candidates.public.grid), 0)


COEF = [0.1, 0.0, 0.8, 0.0, 0.0, -0.3, 0.0, 0.0]


def play_conclude(study: Study, answer: Any = None) -> tuple[Model, list[m.Request], Any]:
    asker = make_asker(study)
    talk = conclude(asker, found_of(study, COEF))
    model, asked = play(talk, answer if answer is not None else add_up(make_patients(study)))
    return model, asked, asker


def test_terms_are_those_that_stayed_and_the_baseline() -> None:
    assert found_of(make_study(), COEF).terms.tolist() == [0, 2, 5]
    assert found_of(make_study(), np.zeros(8)).terms.tolist() == [0], "the intercept always"
    found = found_of(make_study(linear_factor=2.0), COEF)
    assert found.penalties[0] == 0
    np.testing.assert_allclose(found.penalties[4:], 0.02)


def test_only_terms_of_the_model_are_asked_for() -> None:
    _, asked, asker = play_conclude(make_study(**SOLVERS["exact"]))
    slopes, summary, between = asked
    assert isinstance(slopes, m.SlopesRequest)
    assert isinstance(summary, m.SummaryRequest)
    for request in (slopes, summary):
        assert request.terms.tolist() == [0, 2, 5]
        assert request.coef.tolist() == [0.1, 0.8, -0.3]
    assert ((summary.scales >= 0) & (summary.scales <= 1)).all()
    assert isinstance(between, m.BetweenRequest)
    assert (between.n_sites, between.terms.tolist()) == (3, [0, 2, 5])
    assert (asker.progress.step, asker.progress.round) == ("between", 2)


def test_what_lies_between_sites_is_asked_of_terms_that_vary_enough() -> None:
    """And by what totals tell: means over all sites' patients."""
    study = make_study(**SOLVERS["exact"])
    rare = Rule((Condition(0, 0b1), Condition(3, 0b1)))
    public = make_public(study).with_rules((SHARED[0], rare, SHARED[2]))
    patients = make_patients(study, public)
    found = dataclasses.replace(found_of(study, COEF), candidates=make_candidates(public))
    model, asked = play(conclude(make_asker(study), found), add_up(patients))
    question = asked[-1]
    assert isinstance(question, m.BetweenRequest)
    assert question.terms.tolist() == [0, 5], "the rare rule is left out"
    X, _, w = pool([(p.design, p.outcome, p.weights) for p in patients.values()])
    assert question.total == w.sum()
    scaled = X[:, 5] / public.bounds.terms[5]
    assert question.means == pytest.approx([scaled.mean()])
    assert question.squares == pytest.approx([(scaled**2).mean()])
    (rule,), (linear,) = model.rule_terms, model.linear_terms
    assert rule.between_sites is None
    assert linear.between_sites is not None


def test_of_a_site_that_is_left_alone_nothing_lies_between() -> None:
    study = make_study(**SOLVERS["exact"])
    asker = make_asker(study)
    asker.sites = ("north",)
    model, asked = play(conclude(asker, found_of(study, COEF)), add_up(make_patients(study)))
    assert not isinstance(asked[-1], m.BetweenRequest)
    assert not model.tells_between


def test_counts_importance_and_objective_are_those_of_all_patients() -> None:
    study = make_study(**SOLVERS["exact"])
    model, _, _ = play_conclude(study)
    sites = make_patients(study).values()
    X, y, w = pool([(p.design, p.outcome, p.weights) for p in sites])
    assert (model.provenance.patients, model.provenance.events) == (len(y), y.sum())
    (rule,) = model.rule_terms
    (linear,) = model.linear_terms
    hit = X[:, 2] > 0
    assert (rule.inside, rule.events_inside) == (hit.sum(), y[hit].sum())
    assert rule.importance == pytest.approx(0.8 * np.std(X[:, 2], ddof=1), rel=1e-6)
    assert linear.importance == pytest.approx(0.3 * np.std(X[:, 5], ddof=1), rel=1e-6)
    penalties = 0.01 * make_public(study).factors
    expected = objective(X, y, w, np.array(COEF), penalties)
    assert model.provenance.objective == pytest.approx(expected)
    best = objective(X, y, w, fista(X, y, w, penalties), penalties)
    gap = model.provenance.certificate.gap
    assert gap is not None
    assert gap >= expected - best > 1e-3, "the gap bounds how far the model is from the best"
    assert model.provenance.history == (0.7, 0.6)
    assert model.intercept == 0.1


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_patients_of_one_class_are_nothing_to_learn_from(outcome: float) -> None:
    study = make_study(**SOLVERS["exact"])
    patients = {
        site: dataclasses.replace(
            own, learnt=Table(own.learnt.values, np.full(own.learnt.n_rows, outcome), own.weights)
        )
        for site, own in make_patients(study).items()
    }
    with pytest.raises(FitError, match="one outcome class"):
        play_conclude(study, add_up(patients))


def test_a_fit_that_ran_away_in_its_last_round_is_an_error() -> None:
    """The objective of the end is only known from the summary."""
    study = make_study()
    asker = make_asker(study)
    found = found_of(study, np.array(COEF) * 100)
    solution = dataclasses.replace(found.solution, history=[0.7])
    talk = conclude(asker, dataclasses.replace(found, solution=solution))
    with pytest.raises(FitError, match="diverges"):
        play(talk, add_up(make_patients(study)))
