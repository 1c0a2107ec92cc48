"""Another λ without growing rules again: the same as a fit from the beginning."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.errors import DataError, FitError, StudyError
from fedrulefit.protocol.coordinator import Coordinator
from tests.samples import make_frame, make_study

SMALL: dict[str, Any] = {"n_trees": 10, "learning_rate": 0.1, "random_state": 0}
CV: dict[str, Any] = {**SMALL, "penalty": "cv", "folds": 3, "path_length": 12, "path_ratio": 0.02}
FEDDA: dict[str, Any] = {**SMALL, "solver": "fedda", "penalty": 0.01, "rounds": 20}
FRAME = make_frame(300, seed=3)
Y = FRAME.pop("died").to_numpy()
SITES = np.array(["north", "south", "west"])[np.arange(300) % 3]


@pytest.mark.parametrize("more", [{}, {"holdout": 0.3}, {"class_weight": "balanced"}], ids=str)
@pytest.mark.parametrize("settings", [CV, FEDDA], ids=["exact", "fedda"])
@pytest.mark.parametrize("federated", [False, True])
def test_as_a_fit_from_the_beginning(
    settings: dict[str, Any], federated: bool, more: dict[str, Any]
) -> None:
    given: dict[str, Any] = {**settings, **more}
    make: Any = RuleFitClassifier
    how: dict[str, Any] = {}
    if federated:
        make, how = FederatedRuleFitClassifier, {"sites": SITES}
        given["noise"] = False
    if settings is FEDDA:
        given["client_step"] = 0.05
    first = make(**given).fit(FRAME, Y, **how)
    for penalty in (0.003, 0.03):
        again = first.with_penalty(penalty, FRAME, Y, **how)
        fresh = make(**{**given, "penalty": penalty}).fit(FRAME, Y, **how)
        assert type(again) is make
        assert again.get_params()["penalty"] == penalty
        assert again.model_.provenance.penalty == penalty
        np.testing.assert_allclose(
            again.decision_function(FRAME), fresh.decision_function(FRAME), atol=1e-7
        )
        assert sorted(again.rules_["rule"]) == sorted(fresh.rules_["rule"])
        assert again.model_.provenance.candidates == fresh.model_.provenance.candidates
        assert again.model_.study.digest == fresh.model_.study.digest
        one, two = again.model_.provenance.certificate, fresh.model_.provenance.certificate
        assert one.gap == pytest.approx(two.gap, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(
            again.feature_importances_, fresh.feature_importances_, atol=1e-6
        )
        if "holdout" in more:
            judged, own = again.model_.evaluation, fresh.model_.evaluation
            assert judged.total.patients == own.total.patients > 0
            assert judged.total == own.total
    assert len(again.rules_) < len(first.with_penalty(0.003, FRAME, Y, **how).rules_)


def test_the_estimator_itself_stays_as_it_is() -> None:
    first = RuleFitClassifier(**CV).fit(FRAME, Y)
    before = pickle.dumps(first)
    first.with_penalty(0.05, FRAME, Y)
    assert pickle.dumps(first) == before


def test_a_fitted_estimator_keeps_no_patient() -> None:
    """Its size does not depend on theirs: the same patients twice leave the same rules."""
    once, twice = (
        RuleFitClassifier(**{**CV, "penalty": 0.01, "n_trees": 0, "n_cutoffs": 10}).fit(
            FRAME.loc[FRAME.index.repeat(n)], np.repeat(Y, n)
        )
        for n in (1, 20)
    )
    assert len(pickle.dumps(twice)) < 1.2 * len(pickle.dumps(once))


def test_after_a_file_too() -> None:
    first = RuleFitClassifier(**CV).fit(FRAME, Y)
    loaded = pickle.loads(pickle.dumps(first))  # noqa: S301 - our own
    np.testing.assert_array_equal(
        loaded.with_penalty(0.02, FRAME, Y).coef_, first.with_penalty(0.02, FRAME, Y).coef_
    )


def test_noise_is_drawn_once_and_both_fits_are_counted() -> None:
    first = FederatedRuleFitClassifier(**{**CV, "penalty": 0.01}).fit(FRAME, Y, sites=SITES)
    again = first.with_penalty(0.02, FRAME, Y, sites=SITES)
    assert again.model_.grid is first.model_.grid
    assert again.model_.privacy.epsilon_histograms == first.model_.privacy.epsilon_histograms > 0
    assert "once more, at λ = 0.02: gradients" in again.model_.privacy.words()
    np.testing.assert_array_equal(
        np.concatenate(again.model_.distribution), np.concatenate(first.model_.distribution)
    )
    for site, releases in first.ledgers_.items():
        assert again.ledgers_[site][: len(releases)] == releases
        added = again.ledgers_[site][len(releases) :]
        assert added
        assert not any(release.epsilon for release in added)
        assert not any(release.quantity == "counts" for release in added)


def test_with_several_rows_of_a_patient() -> None:
    rows = {"patients": np.arange(300) // 2}
    first = RuleFitClassifier(**CV).fit(FRAME, Y, **rows)
    again = first.with_penalty(0.02, FRAME, Y, **rows)
    fresh = RuleFitClassifier(**{**CV, "penalty": 0.02}).fit(FRAME, Y, **rows)
    np.testing.assert_allclose(again.coef_, fresh.coef_, atol=1e-7)
    with pytest.raises(DataError, match="the patients are not those of the fit"):
        first.with_penalty(0.02, FRAME, Y)


def test_with_a_study() -> None:
    study = make_study(penalty=0.02, n_trees=5)
    first = FederatedRuleFitClassifier(study=study, noise=False).fit(FRAME, Y)
    again = first.with_penalty(0.005, FRAME, Y)
    assert again.study_ == study.with_settings(noise=False, penalty=0.005)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda X, y: (X.iloc[:-1], y[:-1]),
            "patients, .* of them with the outcome, are not those",
        ),
        (lambda X, y: (X, np.where(y == "yes", "no", "yes")), "are not those of the fit"),
        (lambda X, y: (X, np.where(y == "yes", "dead", "alive")), "the classes are not those"),
        (lambda X, y: (X.drop(columns="age"), y), "the columns are not those of the fit"),
    ],
)
def test_other_patients_are_refused(change: Any, message: str) -> None:
    first = RuleFitClassifier(**{**CV, "penalty": 0.01}).fit(FRAME, Y)
    with pytest.raises(DataError, match=message):
        first.with_penalty(0.02, *change(FRAME, Y))


def test_other_sites_and_weights_are_refused() -> None:
    first = FederatedRuleFitClassifier(noise=False, **{**CV, "penalty": 0.01})
    first.fit(FRAME, Y, sites=SITES)
    with pytest.raises(DataError, match="the sites are not those of the fit"):
        first.with_penalty(0.02, FRAME, Y)
    with pytest.raises(DataError, match="the weights are not those of the fit"):
        first.with_penalty(0.02, FRAME, Y, sites=SITES, sample_weight=np.full(300, 2.0))


def test_a_penalty_is_a_number() -> None:
    first = RuleFitClassifier(**{**CV, "penalty": 0.01}).fit(FRAME, Y)
    with pytest.raises(ValueError, match="must be a number"):
        first.with_penalty("cv", FRAME, Y)
    with pytest.raises(StudyError, match="penalty"):
        first.with_penalty(-0.1, FRAME, Y)


def test_known_rules_need_their_grid_and_a_number() -> None:
    model = RuleFitClassifier(**{**CV, "penalty": 0.01}).fit(FRAME, Y)
    with pytest.raises(FitError, match="need the grid"):
        Coordinator(model.study_, ["one"], rules=model.candidates_)
    study = replace(model.model_, study=model.study_.with_settings(penalty="cv")).study
    with pytest.raises(FitError, match="need a number"):
        Coordinator(study, ["one"], grid=model.model_.grid, rules=model.candidates_)
