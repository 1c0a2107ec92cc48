"""An offset in whole runs: weight 1 whatever patients say, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedrulefit import RuleFitClassifier
from fedrulefit.core.rounding import PUBLISHED, Rounding
from fedrulefit.engines.editing import edit_model
from fedrulefit.engines.pricing import price_wishes
from fedrulefit.errors import DataError, StudyError
from fedrulefit.model import Model
from fedrulefit.model.publish import round_model
from fedrulefit.privacy.policy import KINDS, Policy
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.testing.samples import SOLVERS, add_outcomes, make_frame, study_facts
from tests import predictors
from tests.databases import InMemory
from tests.random_models import expected, plain_columns
from tests.samples import fit_model, make_sites, record

OUTCOMES = ["yes/no", "number", "number, robust", "count", "time", "ordered"]
SCORE = {"kind": "number", "range": [-4, 4], "complete": True, "offset": True}


def make_patients(n_rows: int, seed: int, *, scale: float = 1.0) -> pd.DataFrame:
    """Return patients with a score that says something of all their outcomes, but too little."""
    frame = add_outcomes(make_frame(n_rows, seed), seed)
    rng = np.random.default_rng([seed, 11])
    score = 0.02 * (frame["age"] - 60) + rng.normal(0, 0.5, n_rows)
    return frame.assign(score=scale * score.round(3).clip(-4, 4))


def declare(outcome: str = "yes/no", solver: str = "cv", **changes: Any) -> Study:
    """Return a study in which the score is an offset; a number's is in days."""
    facts = study_facts(outcome, **{**SOLVERS[solver], **changes.pop("settings", {})})
    if solver == "exact":
        facts["settings"]["penalty"] = 0.002
    unit = unit_of(outcome)
    own = {**SCORE, "range": [-4 * unit, 4 * unit], **changes.pop("score", {})}
    facts["covariates"] = {"score": own, **facts["covariates"]}
    for name, more in changes.pop("covariates", {}).items():
        facts["covariates"][name] |= more
    return Study.from_mapping({**facts, **({"wishes": changes} if changes else {})})


def unit_of(outcome: str) -> float:
    return 30.0 if outcome.startswith("number") else 1.0


def load(study: Study, sizes: Any = (200, 150), seed: int = 0) -> Any:
    unit = study.family.offset_unit
    return {
        f"site {k}": load_table(make_patients(size, seed + k, scale=unit), study)
        for k, size in enumerate(sizes)
    }


def find_score(model: Model) -> Any:
    (term,) = (term for term in model.linear_terms if term.feature == 0)
    return term


# --- Weight 1, and nowhere else -----------------------------------------------------------------


@pytest.mark.parametrize("outcome", [*OUTCOMES, "count, negative binomial"])
@pytest.mark.parametrize("solver", ["exact", "cv", "own", "pruned", "fedda"])
def test_one_more_is_one_more_in_the_predictor(outcome: str, solver: str) -> None:
    if solver in ("own", "pruned") and "negative" in outcome:
        return
    if solver == "fedda" and outcome not in ("yes/no", "number, robust"):
        return
    study = declare(outcome, solver)
    tables = load(study)
    model = fit_model(study, tables)
    assert find_score(model).coefficient == 1
    assert not any(0 in term.features for term in model.rule_terms)
    assert {(wish.kind, wish.fate) for wish in model.wishes} == {("offset", "in the model")}
    unit = unit_of(outcome)
    values = tables["site 0"].values[:60].copy()
    values[:, 0] = np.linspace(-4, 3, 60) * unit
    more = values.copy()
    more[:, 0] += unit
    steps = model.linear_predictor(more) - model.linear_predictor(values)
    np.testing.assert_allclose(steps, 1.0, rtol=0, atol=1e-12)
    if outcome.startswith("number"):
        predicted = model.family.link.inverse(np.column_stack([model.linear_predictor(v)
                                              for v in (values, more)]))  # fmt: skip
        np.testing.assert_allclose(np.diff(predicted), unit, atol=1e-9)
    beyond = values.copy()
    beyond[:, 0], values[:, 0] = 9 * unit, 4 * unit
    assert np.array_equal(model.linear_predictor(beyond), model.linear_predictor(values))
    certificate = model.provenance.certificate
    assert certificate.gap is not None
    if solver != "fedda":
        assert certificate.gap < 1e-4 * max(model.provenance.objective, 1e-3)
        assert certificate.residual < 1e-7


@given(
    outcome=st.sampled_from(OUTCOMES),
    solver=st.sampled_from(["exact", "cv", "pruned"]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=15, derandomize=True, deadline=None)
def test_no_rule_names_an_offset(outcome: str, solver: str, seed: int) -> None:
    study = declare(outcome, solver, settings={"seed": seed, "max_rounds": 300})
    tables = load(study, (90, 60), seed)
    sites = make_sites(study, tables, secure=False)
    coordinator = Coordinator(study, list(sites))
    model, _ = record(coordinator, sites)
    assert not any(0 in rule.features for rule in coordinator.candidates)
    assert coordinator.candidates
    assert find_score(model).coefficient == 1


def test_without_the_offset_rules_and_weights_are_others() -> None:
    """So the properties above are not those of every model."""
    study = declare(settings={"n_trees": 20})
    free = declare(settings={"n_trees": 20}, score={"offset": False})
    tables = load(study, (400,))
    model = fit_model(free, tables)
    own = [term.coefficient * 0.4 / free_spread(model) for term in model.linear_terms
           if term.feature == 0]  # fmt: skip
    assert any(0 in term.features for term in model.rule_terms) or abs(own[0] - 1) > 0.1


def free_spread(model: Model) -> float:
    return model.grid.axes[0].spread


# --- The fit --------------------------------------------------------------------------------------

PLAIN = {"keep": True, "complete": True}


def declare_glm(outcome: str) -> Study:
    """Return a study of three unpenalised linear terms beside the offset, and no rule."""
    study = declare(
        outcome, "exact", covariates={"age": PLAIN, "gcs": PLAIN, "sex": PLAIN},
        settings={"n_trees": 0, "single_cutoffs": False, "winsor": 0.0, "tolerance": 1e-11},
    )  # fmt: skip
    facts = study.model_dump()
    facts["covariates"] = {k: facts["covariates"][k] for k in ("score", "age", "gcs", "sex")}
    return Study.from_mapping(facts)


def pool(tables: Any) -> tuple[Any, Any]:
    values, outcomes = ([getattr(t, key) for t in tables.values()] for key in ("values", "outcome"))
    return np.concatenate(values), np.concatenate(outcomes)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_without_a_penalty_it_is_the_dense_fit_with_an_offset(outcome: str) -> None:
    study = declare_glm(outcome)
    tables = load(study)
    model, (values, y) = fit_model(study, tables), pool(tables)
    family, offset = model.family, values[:, 0] / study.family.offset_unit
    X = values[:, 1:] - values[:, 1:].mean(axis=0)
    X, n_baseline, w = X / X.std(axis=0), family.n_baseline, np.full(len(y), 1 / len(y))

    def value(b: Any) -> tuple[float, Any]:
        f = X @ b[n_baseline:] + offset
        F = f + b[0] if n_baseline == 1 else f[:, None] + b[:n_baseline]
        slope = family.slope(F, y, w)
        each = slope.reshape(len(y), n_baseline)
        both = np.concatenate([each.sum(axis=0), X.T @ each.sum(axis=1)])
        return float(family.value(F, y, w).sum()), both

    start = np.zeros(n_baseline + 3)
    start[:n_baseline] = family.start(y, w)
    found = minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    own, other = model.linear_predictor(values), X @ found[n_baseline:] + offset
    np.testing.assert_allclose(own - own.mean(), other - other.mean(), atol=2e-6)
    rounding = 2.0**-30 * family.unit
    assert model.provenance.objective == pytest.approx(value(found)[0], abs=rounding)


@pytest.mark.parametrize("outcome", ["yes/no", "number", "count"])
def test_without_a_penalty_it_is_statsmodels_fit_with_an_offset(outcome: str) -> None:
    sm = pytest.importorskip("statsmodels.api")
    study = declare_glm(outcome)
    tables = load(study)
    model, (values, y) = fit_model(study, tables), pool(tables)
    X = sm.add_constant(values[:, 1:])
    kind = {"yes/no": sm.families.Binomial(), "count": sm.families.Poisson(),
            "number": sm.families.Gaussian()}[outcome]  # fmt: skip
    exposure = np.log(y[:, 1]) if outcome == "count" else 0.0
    counted = y[:, 0] if outcome == "count" else y
    glm = sm.GLM(counted, X, kind, offset=values[:, 0] + exposure).fit(tol=1e-13)
    told = X @ glm.params + values[:, 0]
    own = model.linear_predictor(values) * study.family.offset_unit
    np.testing.assert_allclose(own - own.mean(), told - told.mean(), atol=1e-6)
    if outcome == "yes/no":
        np.testing.assert_allclose(own, told, atol=1e-6)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_federated_equals_pooled(outcome: str) -> None:
    study = declare(outcome, "exact", settings={"n_trees": 0})
    tables = load(study, (120, 150, 80))
    values, _ = pool(tables)
    frame = pd.concat(
        [make_patients(n, k, scale=study.family.offset_unit) for k, n in enumerate((120, 150, 80))]
    )
    one = fit_model(study, {"pool": load_table(frame, study)})
    many = fit_model(study, tables)
    np.testing.assert_allclose(
        many.linear_predictor(values), one.linear_predictor(values), rtol=0, atol=1e-8
    )
    assert [t.key for t in many.linear_terms] == [t.key for t in one.linear_terms]
    assert len(one.terms) > 1


@pytest.mark.parametrize("solver", ["cv", "pruned"])
def test_a_masked_run_holds_the_offset(solver: str) -> None:
    study = declare(
        solver=solver, settings={"seed": 5, "holdout": 0.2, "adjusted": True, "max_terms": None}
    )
    sites = make_sites(study, load(study, (300, 300, 300)),
                       policy=Policy(allow=tuple(KINDS), min_sites=3, max_folds=3))  # fmt: skip
    model, _ = record(Coordinator(study, list(sites), secure=True), sites)
    score = find_score(model)
    assert score.coefficient == 1
    assert score.adjusted is None
    assert score.found_again == 3
    assert not any(0 in term.features for term in model.rule_terms)


def test_an_offset_does_not_count_in_max_terms() -> None:
    for most in (1, 3):
        study = declare(solver="pruned", settings={"max_terms": most})
        model = fit_model(study, load(study, (500,)))
        assert len(model.terms) == most + 1
        assert find_score(model).coefficient == 1
        lasso = declare(solver="cv", settings={"max_terms": most})
        model = fit_model(lasso, load(lasso, (500,)))
        assert 2 <= len(model.terms) <= most + 1
        assert model.provenance.path[0].terms == 0


# --- What is made of the model --------------------------------------------------------------------

STUDY = declare(settings={"n_trees": 5})
TABLES = load(STUDY, (250, 200))


@pytest.fixture(scope="module")
def fitted() -> Model:
    return fit_model(STUDY, TABLES)


def test_rounding_leaves_the_weight(fitted: Model) -> None:
    for rounding in (PUBLISHED, Rounding(multiple=50, smallest=100)):
        assert find_score(round_model(fitted, rounding)).coefficient == 1


def test_a_file_holds_it(fitted: Model, tmp_path: Any) -> None:
    fitted.save(tmp_path / "model.json")
    again = Model.load(tmp_path / "model.json")
    assert find_score(again).coefficient == 1
    values = TABLES["site 0"].values
    assert np.array_equal(again.linear_predictor(values), fitted.linear_predictor(values))
    assert "added as it is (offset)" in again.describe(find_score(again))


@pytest.mark.parametrize("seed", range(3))
def test_model_query_graph_and_oracle_predict_the_same(fitted: Model, seed: int) -> None:
    pytest.importorskip("onnxruntime")
    columns = plain_columns(np.random.default_rng(seed), fitted, 60, bad=0.1)
    right, told = expected(fitted, columns)
    assert None in right
    _, chances, flags = predictors.run_graph(fitted, predictors.as_inputs(fitted, columns))
    for found, words in (
        predictors.by_model(fitted, columns),
        predictors.by_query(fitted, columns, InMemory("sqlite")),
        (chances, flags),
    ):
        assert words == told
        np.testing.assert_allclose(found, np.array(right, dtype=float), rtol=0, atol=1e-9)


def test_an_edit_leaves_it_and_cannot_drop_it(fitted: Model) -> None:
    at = fitted.terms.index(find_score(fitted)) + 1
    other = next(k for k in range(1, len(fitted.terms) + 1) if k != at)
    with pytest.raises(StudyError, match=f"term {at} is an offset"):
        edit_model(fitted, TABLES, drop=[other, at])
    edited = edit_model(fitted, TABLES, drop=[other], add=["age >= 64.3 & gcs < 9"])
    assert find_score(edited).coefficient == 1
    assert edited.edits[0].price is not None
    assert not any(0 in term.features for term in edited.rule_terms)


def test_its_price_is_that_of_a_weight_that_is_not_learnt(fitted: Model) -> None:
    (wish,) = price_wishes(fitted, TABLES).wishes
    assert wish.kind == "offset"
    assert wish.price is not None
    narrow = declare(settings={"n_trees": 5}, score={"range": [-0.1, 0.1]})
    tables = {
        name: load_table(make_patients(size, k).assign(score=0.05), narrow)
        for k, (name, size) in enumerate({"a": 200, "b": 150}.items())
    }
    (priced,) = price_wishes(fit_model(narrow, tables), tables).wishes  # a range below 0.4
    assert priced.price is not None


def test_several_offsets_add_up() -> None:
    facts = declare().model_dump()
    facts["covariates"]["other"] = {**SCORE}
    study = Study.from_mapping(facts)
    frame = make_patients(300, 1).assign(other=lambda f: -f["score"])
    model = fit_model(study, {"north": load_table(frame, study)})
    assert [t.coefficient for t in model.linear_terms if t.feature in (0, 6)] == [1, 1]
    facts["covariates"] = {
        k: v for k, v in facts["covariates"].items() if k not in ("other", "score")
    }
    plain = Study.from_mapping(facts)
    other = fit_model(plain, {"north": load_table(frame, plain)})
    own, same = (m.linear_predictor(m.read_values(frame)) for m in (model, other))
    np.testing.assert_allclose(own, same, atol=2e-2)  # λ's path ends at its tolerance


def test_the_estimators_take_one() -> None:
    frame = make_patients(400, 1)
    X, y = frame[["score", "age", "lactate", "gcs", "sex"]], frame["died"]
    quick: dict[str, Any] = {"n_trees": 5, "folds": 2, "path_length": 10, "random_state": 0}
    fitted = RuleFitClassifier(**quick, wishes={"offset": ["score"]}).fit(X, y)
    assert find_score(fitted.model_).coefficient == 1
    with pytest.raises(DataError, match="'offset' likewise"):
        RuleFitClassifier(**quick, wishes={"offset": "score"}).fit(X, y)
    with pytest.raises(StudyError, match=r"'offset' of 'age'.*between -16 and 16"):
        RuleFitClassifier(**quick, wishes={"offset": ["age"]}).fit(X, y)


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": {"complete": False}}, "needs 'complete = true'"),
        ({"score": {"keep": True}}, "'offset' and 'keep' together"),
        ({"score": {"direction": "up"}}, "'offset' and 'direction' together"),
        ({"score": {"range": [0, 100]}}, "must lie between -16 and 16"),
        ({"never": ["score"]}, "both an offset and in 'never'"),
        ({"rules": ["score >= 2 & age >= 65"]}, "is an offset, which no rule may name"),
        ({"settings": {"linear_terms": False}}, "'linear_terms' must not be false"),
        ({"never": ["age", "lactate", "gcs", "ward", "sex"]}, "beside the offset no covariate"),
        ({"covariates": {"sex": {"offset": True}}}, "offset"),
    ],
)
def test_offsets_that_cannot_be_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(StudyError) as error:
        declare(**changes)
    assert message in str(error.value)


@pytest.mark.parametrize("outcome", ["classes", "time, competing"])
def test_classes_have_no_offset(outcome: str) -> None:
    with pytest.raises(StudyError, match="'offset' of 'score': classes without an order"):
        declare(outcome)


def test_a_study_without_offsets_is_the_same_as_before() -> None:
    facts = study_facts()
    plain = Study.from_mapping(facts)
    facts["covariates"]["age"]["offset"] = False
    same = Study.from_mapping(facts)
    assert same.digest == plain.digest
    assert "offset" not in same.model_dump()["covariates"]["age"]
    assert not same.wished.any
    assert declare().digest != declare(score={"offset": False}).digest


def test_a_missing_offset_is_an_error_at_the_site_and_no_prediction(fitted: Model) -> None:
    frame = make_patients(20, 3)
    frame.loc[4, "score"] = None
    with pytest.raises(DataError, match="score"):
        load_table(frame, STUDY)
    predicted = fitted.predict_frame(frame)
    assert predicted.iloc[:, 0].isna().tolist() == [k == 4 for k in range(20)]
