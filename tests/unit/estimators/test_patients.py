"""Several rows of one patient in the estimators: told with ``patients``, or noticed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import cross_val_score

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.errors import DataError
from fedrulefit.study import Study
from tests.samples import make_frame, make_study

FRAME = make_frame(300)
X, Y = FRAME.drop(columns="died"), (FRAME["died"] == "yes").to_numpy()
SITES = np.resize(["north", "south"], 300)
TWICE = np.repeat(np.arange(300), 2)
CV: dict[str, Any] = {"n_trees": 40, "path_length": 25, "folds": 4, "random_state": 0}
FEW: dict[str, Any] = {"n_trees": 5, "penalty": 0.02, "random_state": 0}


def repeated(rows: Any) -> tuple[pd.DataFrame, Any]:
    return X.iloc[rows].reset_index(drop=True), Y[rows]


@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_each_row_twice_is_the_same_model_once_it_is_told_whose_they_are(subsample: float) -> None:
    options = {**CV, "subsample": subsample, "cutoffs": "histogram"}
    once = RuleFitClassifier(**options).fit(X, Y, patients=np.arange(300)).model_
    own = RuleFitClassifier(**options).fit(*repeated(TWICE), patients=TWICE).model_
    assert own.provenance.patients == 600
    assert own.provenance.penalty == pytest.approx(once.provenance.penalty)
    left, right = ({m.describe(t): t.coefficient for t in m.terms} for m in (once, own))
    assert left == pytest.approx(right, abs=1e-6)
    assert len(left) > 5


def test_repeated_rows_that_nobody_tells_of_keep_many_terms() -> None:
    """A bootstrap: rows of the same patient stand on both sides of each fold."""
    rows = np.random.default_rng(0).integers(0, 300, 300)
    once = RuleFitClassifier(**CV).fit(X, Y).model_
    own = RuleFitClassifier(**CV).fit(*repeated(rows), patients=rows).model_
    with pytest.warns(UserWarning, match=r"\d+ of 300 rows are the same as another in every"):
        blind = RuleFitClassifier(**CV).fit(*repeated(rows)).model_
    assert len(own.terms) <= 2 * len(once.terms)
    assert len(blind.terms) > 3 * len(own.terms)
    assert len(blind.terms) > 3 * len(once.terms)


def test_every_row_a_patient_is_the_same_model_without_a_word() -> None:
    plain = FederatedRuleFitClassifier(noise=False, **CV).fit(X, Y, sites=SITES).model_
    own = FederatedRuleFitClassifier(noise=False, **CV)
    told = own.fit(X, Y, sites=SITES, patients=np.arange(300)).model_
    assert told.study.max_rows == 1
    assert [(t, t.coefficient) for t in told.terms] == [(t, t.coefficient) for t in plain.terms]
    assert told.intercept == plain.intercept
    assert told.privacy.words().replace(" Declare", "") == plain.privacy.words().replace(
        " Declare", ""
    )


def test_the_most_rows_are_those_of_a_patient_at_one_site() -> None:
    """Whether patients of two sites are the same nobody can know."""
    whose = [f"patient {k}" for k in range(294)] + ["anna", "anna", "ben", *["carl"] * 3]
    fitted = FederatedRuleFitClassifier(noise=False, **FEW).fit(X, Y, sites=SITES, patients=whose)
    assert fitted.study_.max_rows == 2  # carl's three rows are at two sites
    assert fitted.study_.patient is not None
    assert fitted.study_.ranges_from_data
    assert RuleFitClassifier(**FEW).fit(X, Y, patients=whose).study_.max_rows == 3
    # A row of weight 0 is not there.
    weights = np.where(np.arange(300) == 299, 0.0, 1.0)
    assert RuleFitClassifier(**FEW).fit(X, Y, weights, patients=whose).study_.max_rows == 2


@pytest.mark.parametrize(
    "kind", [str, int, float, "category", "string", "Int64", "datetime64[ns]", object]
)
def test_identifiers_of_any_kind_tell_patients_apart(kind: Any) -> None:
    whose = pd.Series(np.resize(np.arange(150), 300)).astype(kind)
    study = RuleFitClassifier(**FEW).fit(X, Y, patients=whose).study_
    assert study.max_rows == 2


def test_long_whole_numbers_are_told_apart() -> None:
    """As floats, these 300 identifiers would be 75 or so."""
    whose = 2**55 + 2 * np.arange(300)
    assert RuleFitClassifier(**FEW).fit(X, Y, patients=whose).study_.max_rows == 1


@pytest.mark.parametrize("bad", [None, np.nan, pd.NA, " ", "NA"])
def test_a_row_of_nobody_is_refused(bad: Any) -> None:
    whose = np.array([f"p{k}" for k in range(300)], dtype=object)
    whose[7] = bad
    with pytest.raises(DataError, match="patients has missing entries"):
        RuleFitClassifier(**FEW).fit(X, Y, patients=whose)


def test_patients_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RuleFitClassifier(**FEW).fit(X, Y, patients=TWICE)


def test_a_study_s_bound_holds_for_the_estimators() -> None:
    facts = {**make_study().model_dump(), "patient": {"column": "id", "max_rows": 2}}
    study = Study.model_validate(facts)
    with pytest.raises(DataError, match="the study has a column of patients: pass it as patients"):
        RuleFitClassifier(study=study, **FEW).fit(X, Y)
    fitted = RuleFitClassifier(study=study, **FEW).fit(X, Y, patients=np.arange(300) // 2)
    assert fitted.study_.patient == study.patient
    assert not fitted.study_.ranges_from_data
    with pytest.raises(DataError, match="a patient has more rows than the study's 'max_rows', 2"):
        RuleFitClassifier(study=study, **FEW).fit(X, Y, patients=np.arange(300) // 3)
    # A study that says nothing of patients takes what the data say, and tells so.
    fitted = RuleFitClassifier(study=make_study(), **FEW).fit(X, Y, patients=np.arange(300) // 3)
    assert fitted.study_.max_rows == 3
    assert fitted.study_.ranges_from_data


def test_the_noise_covers_all_rows_of_a_patient() -> None:
    fitted = FederatedRuleFitClassifier(**FEW).fit(X, Y, sites=SITES, patients=np.arange(300) // 6)
    assert fitted.study_.max_rows == 3
    assert "one patient with up to 3 rows" in fitted.model_.privacy.words()
    rows = [r for r in fitted.ledgers_["north"] if r.message == "GridReply"]
    assert {r.sensitivity for r in rows} == {3.0}


@pytest.mark.parametrize("estimator", [RuleFitClassifier, FederatedRuleFitClassifier])
def test_cross_validation_routes_the_patients(estimator: Any) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        asking = estimator(**FEW).set_fit_request(patients=True)
        scores = cross_val_score(asking, X, Y, params={"patients": TWICE[:300]}, cv=3)
        assert np.isfinite(scores).all()
        bad = np.array([*"a" * 299, None], dtype=object)
        with pytest.raises(ValueError, match="patients has missing entries"):
            cross_val_score(asking, X, Y, params={"patients": bad}, cv=3, error_score="raise")


# --- rows that are the same --------------------------------------------------------------------


def warned(values: Any, y: Any, **more: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        RuleFitClassifier(**FEW).fit(values, y, **more)
    return [str(w.message) for w in caught if "the same as another" in str(w.message)]


def test_a_warning_counts_rows_that_are_the_same_and_shows_no_value() -> None:
    rows = np.r_[np.arange(300), np.arange(60)]
    (words,) = warned(*repeated(rows))
    assert words.startswith("60 of 360 rows are the same as another in every covariate and the ")
    assert "patients=" in words
    assert warned(*repeated(rows), patients=rows) == []
    assert warned(X, Y) == []
    # Of so many columns even a few equal rows are copies, as drafts and checks have it.
    (words,) = warned(*repeated(np.r_[np.arange(300), np.arange(10)]))
    assert words.startswith("10 of 310")
    # Another outcome, or another value, is another row; a missing value is the same as another.
    values, y = repeated(rows)
    assert warned(values, np.r_[y[:300], ~y[300:]]) == []
    (words,) = warned(values.assign(lactate=np.nan), y)
    assert words.startswith("60 of 360")


def test_coarse_columns_are_the_same_by_chance_and_no_reason_to_warn() -> None:
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 3, (300, 3)).astype(float)
    assert len(np.unique(coarse, axis=0)) < 30
    assert warned(coarse, rng.random(300) < 0.5) == []


def test_a_site_for_nearly_every_row_is_pointed_out() -> None:
    """Identifiers of patients were taken for 300 hospitals of one patient."""
    with pytest.warns(UserWarning, match=r"sites names 300 sites for 300 rows: .* patients="):
        FederatedRuleFitClassifier(noise=False, **FEW).fit(X, Y, sites=np.arange(300))
