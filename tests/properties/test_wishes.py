"""No prediction goes against a declared direction, whatever patients say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.model import Model
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.testing.samples import SOLVERS, add_outcomes, make_frame, study_facts
from tests.samples import fit_model

STAGES = ["I", "II", "III", "IV"]
VALUES: dict[str, list[Any]] = {
    "age": np.linspace(18, 100, 40).tolist(),
    "lactate": np.geomspace(0.1, 25, 40).tolist(),
    "gcs": list(range(3, 16)),
    "sex": ["m", "f"],
    "stage": STAGES,
}
"""Of covariates that can have a direction, from low to high."""

OUTCOMES = ["yes/no", "number", "count", "time", "ordered", "count, negative binomial"]

directions = st.dictionaries(
    st.sampled_from(list(VALUES)), st.sampled_from(["up", "down"]), min_size=1
)


def declare(outcome: str, wished: dict[str, str], **more: Any) -> Study:
    """Return a study with directions, and a covariate whose levels have an order."""
    facts = study_facts(outcome, **{"mean_leaves": 5.0, **more})
    facts["covariates"]["stage"] = {"kind": "ordered", "levels": STAGES}
    for name, direction in wished.items():
        facts["covariates"][name]["direction"] = direction
    return Study.from_mapping(facts)


def make_patients(n_rows: int, seed: int) -> pd.DataFrame:
    """Return patients whose stage says something of the outcome, and is missing at times."""
    frame = add_outcomes(make_frame(n_rows, seed), seed)
    rng = np.random.default_rng([seed, 9])
    stage = rng.choice(STAGES, n_rows).astype(object)
    stage[(frame["died"] == "yes") & (rng.random(n_rows) < 0.4)] = "IV"
    frame["stage"] = stage
    frame.loc[rng.random(n_rows) < 0.1, "stage"] = None
    return frame


def most_against(model: Model, wished: dict[str, str], frame: pd.DataFrame) -> float:
    """Return how far any prediction goes against a direction as one value rises."""
    worst = 0.0
    for name, direction in wished.items():
        swept = []
        for value in VALUES[name]:
            changed = frame.copy()
            changed[name] = pd.Series([value] * len(frame), dtype=frame[name].dtype)
            swept.append(model.linear_predictor(model.read_values(changed)))
        steps = np.diff(np.array(swept), axis=0) * (1 if direction == "up" else -1)
        worst = max(worst, float(-steps.min()))
    return worst


@given(
    wished=directions,
    outcome=st.sampled_from(OUTCOMES),
    solver=st.sampled_from(["exact", "cv", "pruned"]),
    seed=st.integers(0, 2**16),
    limit=st.sampled_from([None, 1, 2]),
)
@settings(max_examples=30, derandomize=True, deadline=None)
def test_no_prediction_goes_against_a_direction(
    wished: dict[str, str], outcome: str, solver: str, seed: int, limit: int | None
) -> None:
    if solver == "pruned" and "negative" in outcome:
        solver = "cv"
    options = {**SOLVERS[solver], "max_conditions": limit, "seed": seed, "max_rounds": 300}
    if solver == "exact":
        options["penalty"] = 0.002
    study = declare(outcome, wished, **options)
    tables = {
        name: load_table(make_patients(size, seed + k), study)
        for k, (name, size) in enumerate({"north": 90, "south": 60}.items())
    }
    model = fit_model(study, tables)
    assert most_against(model, wished, make_patients(40, seed + 7)) <= 1e-9
    assert all(len(term.rule) <= (limit or 9) for term in model.rule_terms)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_papers_solver_keeps_to_directions(direction: str) -> None:
    wished = dict.fromkeys(VALUES, direction)
    study = declare("yes/no", wished, rounds=30)
    tables = {"north": load_table(make_patients(150, 3), study)}
    model = fit_model(study, tables)
    assert len(model.terms)
    assert most_against(model, wished, make_patients(40, 4)) <= 1e-9


@pytest.mark.parametrize("solver", ["exact", "cv", "pruned"])
def test_without_directions_predictions_do_go_against_them(solver: str) -> None:
    """So the property is not one that every model has."""
    study = declare("yes/no", {}, **SOLVERS[solver])
    tables = {"north": load_table(make_patients(300, 1), study)}
    wished = dict.fromkeys(VALUES, "down")
    assert most_against(fit_model(study, tables), wished, make_patients(40, 2)) > 0.05


# --- What is always in ------------------------------------------------------------------------

KEPT = ["age", "ward", "sex"]


@pytest.mark.parametrize("outcome", ["yes/no", "number", "time", "classes", "time, competing"])
@pytest.mark.parametrize("solver", ["exact", "cv", "pruned"])
def test_kept_covariates_are_in_every_model(outcome: str, solver: str) -> None:
    """A linear term of a number and of yes/no, and three of four levels; for each class."""
    options = {**SOLVERS[solver], "max_terms": None, "n_trees": 3}
    facts = study_facts(outcome, **{**options, **({"penalty": 0.3} if solver == "exact" else {})})
    for name in KEPT:
        facts["covariates"][name]["keep"] = True
    study = Study.from_mapping(facts)
    tables = {"north": load_table(make_patients(400, 2), study)}
    model = fit_model(study, tables)
    n_levels = len(study.family.names) if study.family.own_terms else 1
    linear = [term.feature for term in model.linear_terms]
    levels = [t.rule for t in model.rule_terms if t.features == (study.names.index("ward"),)]
    assert linear.count(0) == linear.count(4) == n_levels
    assert len(levels) >= 3 * n_levels
    assert {wish.fate for wish in model.wishes} == {"in the model"}
    gap = model.provenance.certificate.gap
    assert gap is not None
    assert gap < 1e-4 * max(model.provenance.objective, 1e-3)


def test_kept_terms_count_in_max_terms_and_stay() -> None:
    facts = study_facts(**{**SOLVERS["pruned"], "max_terms": 4})
    for name in ("ward", "sex"):
        facts["covariates"][name]["keep"] = True
    study = Study.from_mapping(facts)
    model = fit_model(study, {"north": load_table(make_patients(400, 2), study)})
    assert len(model.terms) == 4
    assert {wish.fate for wish in model.wishes} == {"in the model"}


def test_the_papers_solver_keeps_terms_too() -> None:
    facts = study_facts(rounds=30, penalty=0.5)
    facts["covariates"]["age"]["keep"] = True
    study = Study.from_mapping(facts)
    model = fit_model(study, {"north": load_table(make_patients(300, 2), study)})
    assert [term.feature for term in model.linear_terms] == [0]
    assert model.rule_terms == ()


def test_a_kept_term_against_its_direction_has_no_effect() -> None:
    facts = study_facts(**SOLVERS["cv"])
    facts["covariates"]["age"] |= {"keep": True, "direction": "down"}
    study = Study.from_mapping(facts)
    model = fit_model(study, {"north": load_table(make_patients(400, 2), study)})
    assert 0 not in model.features
    assert [wish.fate[:20] for wish in model.wishes] == ["kept to", "kept, with no effect"]


def test_what_is_never_used_is_not(tmp_path: Any) -> None:
    facts = study_facts(**SOLVERS["cv"])
    study = Study.from_mapping({**facts, "wishes": {"never": ["age", ["lactate", "gcs"]]}})
    model = fit_model(study, {"north": load_table(make_patients(400, 2), study)})
    assert 0 not in model.features
    assert not any({1, 2} <= set(term.features) for term in model.terms)
    plain = fit_model(
        Study.from_mapping(facts), {"north": load_table(make_patients(400, 2), study)}
    )
    assert 0 in plain.features
    model.save(tmp_path / "model.json")
    assert Model.load(tmp_path / "model.json").wishes == model.wishes


@pytest.mark.parametrize("outcome", ["yes/no", "number", "time"])
def test_directions_hold_beside_baselines_of_sites_own(outcome: str) -> None:
    wished = {"age": "down", "lactate": "up", "gcs": "up"}
    study = declare(outcome, wished, **SOLVERS["cv"], baseline="site")
    tables = {
        name: load_table(make_patients(size, k), study)
        for k, (name, size) in enumerate({"north": 200, "south": 150}.items())
    }
    model = fit_model(study, tables)
    assert model.terms
    assert most_against(model, wished, make_patients(40, 7)) <= 1e-9
    gap = model.provenance.certificate.gap
    assert gap is not None
    assert gap < 1e-4 * max(model.provenance.objective, 1e-3)
