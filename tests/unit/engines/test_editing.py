"""A model changed by hand, beside a dense fit of the terms that are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import encode, linear_values
from fedrulefit.engines.editing import edit_model, hash_model
from fedrulefit.errors import FitError, StudyError
from fedrulefit.model import Model, RuleTerm
from fedrulefit.model.wishes import IN_MODEL
from fedrulefit.study import Study
from fedrulefit.testing.samples import SOLVERS, study_facts
from tests.oracles import fires, fista
from tests.samples import fit_model, make_tables, take

SIZES = (250, 200)


def declare(solver: str = "cv", outcome: str = "yes/no", **changes: Any) -> Study:
    settings = {**SOLVERS[solver], "n_trees": 5, **changes.pop("settings", {})}
    facts = study_facts(outcome, **settings)
    for name, more in changes.pop("covariates", {}).items():
        facts["covariates"][name] |= more
    return Study.from_mapping({**facts, **({"wishes": changes} if changes else {})})


STUDY = declare()
TABLES = make_tables(STUDY, sizes=SIZES)
MODEL = fit_model(STUDY, TABLES)
ADDED = "age >= 64.3 & gcs < 9"


def find(model: Model, part: str) -> int:
    """Return the number of the first term that says something."""
    return next(k for k, t in enumerate(model.terms, 1) if part in model.describe(t))


@pytest.fixture(scope="module")
def edited() -> Model:
    return edit_model(MODEL, TABLES, drop=[2, 1], add=[ADDED])


def dense_fit(model: Model, kept: set[str], tables: Any = TABLES) -> dict[str, float]:
    """Fit the terms of a model on a dense matrix; return coefficients by words."""
    values = np.vstack([t.values for t in tables.values()])
    y = np.concatenate([t.outcome for t in tables.values()])
    codes, linear = encode(values, model.grid), linear_values(values, model.grid)
    columns, penalties, words = [np.ones(len(y))], [0.0], ["intercept"]
    settings = model.study.settings
    for term in model.terms:
        if isinstance(term, RuleTerm):
            columns.append(fires(term.rule, codes).astype(float))
            factor = settings.interaction_factor if len(term.rule) > 1 else 1.0
            factor = settings.linear_factor if model.describe(term)[-7:] == "missing" else factor
        else:
            columns.append(linear[:, model.grid.linear.index(term.feature)])
            factor = settings.linear_factor
        words.append(model.describe(term))
        penalties.append(0.0 if words[-1] in kept else model.provenance.penalty * factor)
    coef = fista(np.column_stack(columns), y, np.ones(len(y)), np.array(penalties))
    return dict(zip(words, coef.tolist(), strict=True))


def test_the_rest_is_fitted_to_its_optimum(edited: Model) -> None:
    gone = {MODEL.describe(MODEL.terms[k]) for k in (0, 1)}
    words = {edited.describe(term) for term in edited.terms}
    assert not gone & words
    assert "age ≥ 64.3 years & gcs < 9" in words
    exact = dense_fit(edited, {"age ≥ 64.3 years & gcs < 9"})
    for term in edited.terms:
        assert term.coefficient == pytest.approx(exact[edited.describe(term)], abs=2e-5)
    assert edited.intercept == pytest.approx(exact["intercept"], abs=2e-5)
    assert edited.provenance.certificate.residual < 1e-7
    assert edited.provenance.certificate.gap is not None
    assert edited.provenance.certificate.gap < 1e-6
    assert edited.provenance.penalty == MODEL.provenance.penalty


def test_the_new_model_tells_what_was_changed(edited: Model, tmp_path: Any) -> None:
    (edit,) = edited.edits
    assert edit.parent == hash_model(MODEL)
    assert edit.dropped == tuple(MODEL.describe(t) for t in MODEL.terms[:2])
    assert edit.added == (ADDED,)
    assert edit.price is not None
    assert edit.price > 0.01  # the two terms that count most
    assert edit.error is not None
    assert "Edited by hand, without “" in edit.words()
    assert f"with “{ADDED}”" in edit.words()
    assert [(w.kind, w.text, w.fate) for w in edited.wishes] == [("kept rule", ADDED, IN_MODEL)]
    path = tmp_path / "edited.json"
    edited.save(path)
    again = Model.load(path)
    assert again.edits == edited.edits
    assert hash_model(again) == hash_model(edited)
    assert any("edit the model" in told for told in edited.privacy.exact)


def test_dropping_what_was_added_leads_back(edited: Model) -> None:
    only_added = edit_model(MODEL, TABLES, add=[ADDED])
    back = edit_model(only_added, TABLES, drop=[find(only_added, "64.3")])
    assert {back.describe(t) for t in back.terms} == {MODEL.describe(t) for t in MODEL.terms}
    first = np.vstack([t.values for t in TABLES.values()])
    np.testing.assert_allclose(
        back.linear_predictor(first), MODEL.linear_predictor(first), atol=1e-6
    )
    assert back.study.wishes.kept_rules == ()
    assert len(back.edits) == 2
    assert back.edits[1].parent == hash_model(only_added)
    assert only_added.edits[0].price == pytest.approx(-back.edits[1].price or 0, abs=1e-9)


def test_directions_still_hold() -> None:
    study = declare(covariates={"age": {"direction": "down"}})
    model = fit_model(study, TABLES)
    edited = edit_model(model, TABLES, add=["gcs < 5"])
    values = np.repeat(next(iter(TABLES.values())).values[:20], 50, axis=0)
    values[:, 0] = np.tile(np.linspace(18, 100, 50), 20)
    steps = np.diff(edited.linear_predictor(values).reshape(20, 50), axis=1)
    assert steps.max() <= 1e-9
    with pytest.raises(StudyError, match="goes against a 'direction'"):
        edit_model(model, TABLES, add=["40 <= age < 60"])


def test_what_a_study_keeps_can_be_dropped() -> None:
    study = declare(covariates={"sex": {"keep": True}}, kept_rules=[ADDED])
    model = fit_model(study, TABLES)
    edited = edit_model(model, TABLES, drop=[find(model, "64.3"), find(model, "sex")])
    words = " ".join(edited.describe(term) for term in edited.terms)
    assert "64.3" not in words
    assert not edited.study.wished.kept
    assert edited.study.wishes.kept_rules == ()


@pytest.mark.parametrize("outcome", ["number", "count", "time", "ordered", "classes"])
def test_models_of_other_outcomes_are_edited(outcome: str) -> None:
    study = declare("cv", outcome)
    tables = make_tables(study, sizes=SIZES)
    model = fit_model(study, tables)
    edited = edit_model(model, tables, drop=[1], add=[ADDED])
    dropped = model.terms[0]
    assert (model.describe(dropped), dropped.level) not in {
        (edited.describe(t), t.level) for t in edited.terms
    }
    levels = {t.level for t in edited.rule_terms if "64.3" in edited.describe(t)}
    assert len(levels) == (3 if outcome == "classes" else 1)


def test_pruned_and_wholly_dropped_models_are_edited() -> None:
    model = fit_model(declare("pruned"), TABLES)
    every = range(1, len(model.terms) + 1)
    only = edit_model(model, TABLES, drop=every, add=[ADDED])
    assert len(only.terms) == 1
    none = edit_model(model, TABLES, drop=every)
    assert none.terms == ()
    rate = np.concatenate([t.outcome for t in TABLES.values()]).mean()
    assert none.predict(next(iter(TABLES.values())).values[:1])[0] == pytest.approx(rate, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": [0]}, "there is no term 0 to drop"),
        ({"drop": [99]}, "the model has terms 1 to"),
        ({}, "nothing to change"),
        ({"add": ["GSC < 9"]}, "no covariate 'GSC'"),
    ],
)
def test_edits_that_mean_nothing_are_refused(options: Any, message: str) -> None:
    with pytest.raises(StudyError) as error:
        edit_model(MODEL, TABLES, **options)
    assert message in str(error.value)


def test_other_patients_are_refused() -> None:
    fewer = {name: take(table, np.arange(100)) for name, table in TABLES.items()}
    with pytest.raises(FitError, match="not the tables of the model"):
        edit_model(MODEL, fewer, drop=[1])
    with pytest.raises(FitError, match="not the tables of the model"):
        edit_model(MODEL, {"north": TABLES["north"]}, drop=[1])
    averaged = replace(MODEL, study=Study.from_mapping(study_facts()))
    with pytest.raises(FitError, match="exact solver"):
        edit_model(averaged, TABLES, drop=[1])
