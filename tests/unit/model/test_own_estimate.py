"""A hospital's own baseline from its own patients, against the run, scipy and statsmodels."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from fedrulefit.core.families.count import Count
from fedrulefit.core.families.number import Number
from fedrulefit.core.own import count_own
from fedrulefit.engines import inprocess
from fedrulefit.engines.base import Fitted
from fedrulefit.errors import DataError, ModelFileError
from fedrulefit.model.own_estimate import (
    FEWEST_EVENTS,
    FEWEST_PATIENTS,
    estimate_own,
    find_predictors,
    is_far,
    judge_in_the_large,
)
from fedrulefit.model.own_file import fingerprint
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import OUTCOMES, add_outcomes
from tests.samples import SOLVERS, make_frame, make_study, make_tables, repeat, take

SIZES = (400, 350, 300)
every_outcome = pytest.mark.parametrize("outcome", OUTCOMES)


@cache
def fit(outcome: str = "yes/no", baseline: str = "afterwards") -> tuple[Fitted, Any]:
    """Return a run over three hospitals, and their tables."""
    settings = {**SOLVERS["exact"], "penalty": 0.005, "baseline": baseline, "noise": False}
    study = make_study(outcome, **settings)
    tables = make_tables(study, sizes=SIZES)
    return inprocess.fit(study, tables), tables


@cache
def newcomer(outcome: str = "yes/no") -> Table:
    """Return patients of a hospital that took no part, where half as many are ill as elsewhere."""
    study = make_study(outcome, **SOLVERS["exact"])
    table = make(add_outcomes(make_frame(1200, 77), 77), study)
    assert table.events is not None
    return take(table, (table.events == 0) | (np.random.default_rng(4).random(1200) < 0.5))


def make(frame: pd.DataFrame, study: Study) -> Table:
    from fedrulefit.table.check import load_table

    return load_table(frame, study)


@every_outcome
@pytest.mark.parametrize("baseline", ["afterwards", "site"])
def test_a_hospital_of_the_run_finds_what_the_run_found_there(outcome: str, baseline: str) -> None:
    if outcome == "count, negative binomial" and baseline == "site":
        pytest.skip("not with a dispersion that is learnt in turns")
    fitted, tables = fit(outcome, baseline)
    assert set(fitted.own_baselines) == set(tables)
    for site, theirs in fitted.own_baselines.items():
        ours = estimate_own(fitted.model, tables[site], site=site)
        assert (ours.model, ours.site, ours.names) == (theirs.model, site, theirs.names)
        np.testing.assert_allclose(ours.values, theirs.values, rtol=0, atol=1e-10)
        np.testing.assert_allclose(ours.errors, theirs.errors, rtol=1e-8)
        assert ours.patients == theirs.patients == tables[site].n_rows


@every_outcome
def test_a_new_hospital_finds_the_dense_minimum(outcome: str) -> None:
    model, table = fit(outcome)[0].model, newcomer(outcome)
    weights = np.random.default_rng(5).uniform(0.0, 2.0, table.n_rows)
    table = replace(table, weights=weights)
    own, family = estimate_own(model, table), model.family
    predictor = find_predictors(model, table.values)

    def height(b: Any) -> float:
        loss = family.value(predictor + b, table.outcome, weights).sum()
        return float(loss) + float(b @ b) / (2 * 0.5**2 * family.likelihoods)

    theirs = minimize(height, np.zeros(count_own(family)), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(own.values, theirs.x, atol=1e-5)
    assert height(own.shift) <= theirs.fun + 1e-12 * abs(theirs.fun)
    assert own.model == fingerprint(model)
    assert estimate_own(model.at(own), table).values == own.values, "of the model, wherever it is"


@pytest.mark.parametrize("outcome", ["yes/no", "number", "count"])
def test_there_statsmodels_score_is_the_prior_s(outcome: str) -> None:
    """Its GLM with F as an offset: the score at b is b/τ²."""
    statsmodels = pytest.importorskip("statsmodels.api")
    model, table = fit(outcome)[0].model, newcomer(outcome)
    offset, family = find_predictors(model, table.values), model.study.family
    told: Any = table.outcome
    if isinstance(family, Count):
        told, exposures = family.scale(told)
        offset = offset + np.log(exposures)
    elif isinstance(family, Number):
        told = family.scale(told)
    theirs = {"yes/no": "Binomial", "number": "Gaussian", "count": "Poisson"}[outcome]
    kind = getattr(statsmodels.families, theirs)()
    glm = statsmodels.GLM(told, np.ones((table.n_rows, 1)), family=kind, offset=offset)
    own = estimate_own(model, table)
    ridge = 1 / 0.5**2 / family.likelihoods  # counts are told as shares of the largest
    score = float(glm.score(own.shift, scale=1.0)[0])
    assert score == pytest.approx(ridge * own.values[0], abs=1e-8)
    assert abs(score) > 1e-3, "or this would hold of nothing"
    information = -float(glm.hessian(own.shift, scale=1.0)[0, 0])
    if outcome == "yes/no":
        assert own.errors[0] == pytest.approx(1 / np.sqrt(information + ridge), rel=1e-6)


def test_with_a_wide_prior_predictions_are_right_in_the_large() -> None:
    """The slopes then add up to nothing: observed and expected are one number."""
    for outcome, digits in (("yes/no", 3e-4), ("number", 2e-3), ("count", 2e-3)):
        made = fit(outcome)[0].model
        model = replace(made, study=made.study.with_settings(baseline_spread=4.0))
        table = newcomer(outcome)
        after = judge_in_the_large(model.at(estimate_own(model, table)), table)
        assert after.expected[""] == pytest.approx(after.observed[""], rel=digits)


@every_outcome
def test_in_the_large_predictions_come_closer(outcome: str) -> None:
    model, table = fit(outcome)[0].model, newcomer(outcome)
    before = judge_in_the_large(model, table)
    after = judge_in_the_large(model.at(estimate_own(model, table)), table)
    assert before.observed == after.observed
    names = set(before.observed)
    levels = {"ordered": {"mild", "severe", "dead"}, "classes": {"home", "rehab", "hospice"}}
    assert names == levels.get(outcome, {""})

    gaps = [abs(after.observed[name] - after.expected[name]) for name in names]
    assert after.off == max(gaps) < before.off


def test_in_the_large_is_of_means() -> None:
    model, table = fit()[0].model, newcomer()
    found = judge_in_the_large(model, table)
    assert table.outcome is not None
    assert found.observed[""] == pytest.approx(table.outcome.mean())
    assert found.expected[""] == pytest.approx(
        model.at(None).predict(table.values).mean(), abs=1e-4
    )


def test_too_few_patients_tell_nothing() -> None:
    model, table = fit()[0].model, newcomer()
    few = take(table, slice(0, FEWEST_PATIENTS - 1))
    with pytest.raises(DataError, match=f"199 patients are too few .* takes {FEWEST_PATIENTS}"):
        estimate_own(model, few)
    enough = take(table, slice(0, FEWEST_PATIENTS))
    assert estimate_own(model, enough).patients == FEWEST_PATIENTS
    weights = np.ones(FEWEST_PATIENTS)
    weights[0] = 0.0
    with pytest.raises(DataError, match="199 patients are too few"):
        estimate_own(model, replace(enough, weights=weights))


def test_rows_of_one_patient_are_one_patient() -> None:
    model, table = fit()[0].model, newcomer()
    pairs = replace(table, patients=np.arange(table.n_rows) // 6)
    assert 100 < pairs.n_patients < FEWEST_PATIENTS < table.n_rows
    several = replace(model, study=repeat(model.study, 6))
    with pytest.raises(DataError, match=f"{pairs.n_patients} patients are too few"):
        estimate_own(several, pairs)


@pytest.mark.parametrize("with_outcome", [True, False])
def test_too_few_on_either_side_tell_nothing(with_outcome: bool) -> None:
    model, table = fit()[0].model, newcomer()
    assert table.outcome is not None
    side = np.flatnonzero(table.outcome == float(with_outcome))
    rest = np.flatnonzero(table.outcome != float(with_outcome))
    few = take(table, np.sort([*side[: FEWEST_EVENTS - 1], *rest]))
    with pytest.raises(DataError, match="fewer than 20 of these .* have, or have not, the outcome"):
        estimate_own(model, few)
    estimate_own(model, take(table, np.sort([*side[:FEWEST_EVENTS], *rest])))


def test_what_is_refused_besides() -> None:
    model, table = fit()[0].model, newcomer()
    with pytest.raises(DataError, match="needs the outcomes"):
        estimate_own(model, replace(table, outcome=None, events=None))
    with pytest.raises(DataError, match="whose outcomes are known"):
        judge_in_the_large(model, replace(table, outcome=None, events=None))
    shared = replace(model, study=model.study.with_settings(baseline="shared"))
    with pytest.raises(ModelFileError, match="one baseline for all hospitals"):
        estimate_own(shared, table)
    with pytest.raises(DataError, match="does not fit the study"):
        model.estimate_baseline(make_frame(300, 1).drop(columns="died"))


def test_from_a_table_to_predictions() -> None:
    model, frame = fit()[0].model, make_frame(400, 9)
    own = model.estimate_baseline(frame, site="east")
    assert own.site == "east"
    assert own.values == estimate_own(model, make(frame, model.study)).values
    found = model.at(own).predict_frame(frame)["log_odds"]
    plain = model.at(None).predict_frame(frame)["log_odds"]
    np.testing.assert_allclose(found - plain, own.values[0], atol=1e-12)


def test_a_baseline_that_is_far_off_is_told() -> None:
    model, table = fit()[0].model, newcomer()
    assert table.outcome is not None
    assert not is_far(model, estimate_own(model, table))
    tight = replace(model, study=model.study.with_settings(baseline_spread=0.05))
    events = table.outcome.copy()
    events[np.flatnonzero(events == 0)[:-30]] = 1.0
    assert is_far(tight, estimate_own(tight, replace(table, outcome=events, events=events)))
