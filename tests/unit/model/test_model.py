"""The model's tables and predictions, against plain evaluations term by term."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit

from fedrulefit.core.arrays import MISSING
from fedrulefit.errors import DataError, FedRuleFitError
from fedrulefit.model import LinearTerm, Model, RuleTerm
from fedrulefit.study import Category, Number, YesNo
from fedrulefit.table.check import load_table
from tests.samples import fit_model, make_frame, make_study, make_tables

STUDY = make_study(rounds=40, penalty=0.0005, linear_factor=0.1)
FRAME = make_frame(60, seed=9)
VALUES = load_table(FRAME, STUDY).values


@pytest.fixture(scope="module")
def model() -> Model:
    fitted = fit_model(STUDY)
    assert len(fitted.rule_terms) > 10
    assert {t.feature for t in fitted.linear_terms} == {0, 1, 2, 4}
    assert any(c.feature == 3 for t in fitted.rule_terms for c in t.rule)
    return fitted


def naive_code(model: Model, feature: int, value: float) -> int:
    """Return how many cut-offs a value reaches; a level is its own code."""
    axis = model.grid.axes[feature]
    if math.isnan(value):
        return MISSING
    if axis.kind == "category":
        return int(value)
    return sum(bool(value >= cutoff) for cutoff in axis.cutoffs)


def naive_term(model: Model, term: RuleTerm | LinearTerm, row: Any) -> float:
    """Return a term's value for one patient, by the definition."""
    if isinstance(term, RuleTerm):
        hits = (c.codes >> naive_code(model, c.feature, row[c.feature]) & 1 for c in term.rule)
        return float(all(hits))
    axis = model.grid.axes[term.feature]
    x = row[term.feature]
    x = axis.fill if math.isnan(x) else min(max(x, axis.limits[0]), axis.limits[1])
    return 0.4 * (x - axis.centre) / axis.spread


def naive_holds(words: str, patient: Any) -> bool:
    """Read a rule's own words and say whether the patient satisfies it."""
    return all(naive_condition(part, patient) for part in words.split(" & "))


def naive_condition(words: str, patient: Any) -> bool:
    known = re.fullmatch(r".+ is not missing \(and (.+)\)", words)
    if known:  # "lab is not missing (and lab < 9)"
        return naive_condition(known[1], patient)
    absent = re.fullmatch(r".+ is missing \(or (.+)\)", words)
    if absent:
        return naive_condition(f"{absent[1]} (or missing)", patient)
    if words.endswith(" is missing"):
        return patient[words.removesuffix(" is missing")] is None
    if words.endswith(" is not missing"):
        return patient[words.removesuffix(" is not missing")] is not None
    name = next(n for n in patient if n in words.split())
    value = patient[name]
    if value is None:
        return words.endswith(" (or missing)")
    words = words.removesuffix(" (or missing)")
    before, after = (part.split() for part in words.split(name, 1))
    if before:  # "3 ≤ gcs < 9"
        return float(before[0]) <= value < float(after[1])
    sign, *rest = after
    if sign == "<":
        return bool(value < float(rest[0]))
    if sign == "≥":
        return bool(value >= float(rest[0]))
    levels = " ".join(rest).replace(" or ", ", ").split(", ")
    return value != levels[0] if sign == "≠" else value in levels


def test_the_probability_is_the_logistic_of_the_log_odds(model: Model) -> None:
    np.testing.assert_array_equal(
        model.predict_proba(FRAME), expit(model.decision_function(FRAME)), strict=True
    )
    assert model.predict_proba(FRAME).shape == (60,)
    assert np.ptp(model.predict_proba(FRAME)) > 0.3


def test_predictions_are_the_sum_over_terms(model: Model) -> None:
    expected = [
        model.intercept + sum(t.coefficient * naive_term(model, t, row) for t in model.terms)
        for row in VALUES
    ]
    np.testing.assert_allclose(model.decision_function(FRAME), expected, rtol=1e-12)


def test_a_rule_s_words_say_what_it_does(model: Model) -> None:
    """Patients far from the cut-offs, since words carry four digits."""
    words = dict(zip(STUDY.names, (STUDY.covariates[n] for n in STUDY.names), strict=True))
    assert isinstance(words["ward"], Category)
    for row in VALUES:
        patient: dict[str, Any] = {}
        for name, covariate, value in zip(words, words.values(), row, strict=True):
            if math.isnan(value):
                patient[name] = None
            elif isinstance(covariate, YesNo):
                patient[name] = ("male", "female")[int(value)]
            elif isinstance(covariate, Category):
                patient[name] = str(covariate.levels[int(value)])
            else:
                patient[name] = value
        for term in model.rule_terms:
            near = any(
                np.min(np.abs(model.grid.axes[c.feature].cutoffs - row[c.feature]), initial=9) < 0.1
                for c in term.rule
                if model.grid.axes[c.feature].kind == "number"
            )
            if not near:
                told = naive_holds(model.describe(term), patient)
                assert told == bool(naive_term(model, term, row)), model.describe(term)


def test_explanations_add_up(model: Model) -> None:
    explained = model.explain(FRAME)
    np.testing.assert_allclose(
        [e.linear_predictor for e in explained], model.decision_function(FRAME), rtol=1e-12
    )
    by_words = {model.describe(t): t for t in model.terms}
    for row, explanation in zip(VALUES, explained, strict=True):
        parts = explanation.contributions
        total = explanation.baseline + sum(part.contribution for part in parts)
        assert total == pytest.approx(explanation.linear_predictor, rel=1e-12)
        assert explanation.prediction == expit(explanation.linear_predictor)
        assert explanation.baseline == model.intercept
        sizes = [abs(part.contribution) for part in parts]
        assert sizes == sorted(sizes, reverse=True)
        assert 0 not in sizes
        for part in parts:
            term = by_words[part.term]
            assert part.kind == ("rule" if isinstance(term, RuleTerm) else "linear")
            assert part.value == pytest.approx(naive_term(model, term, row))
            assert part.contribution == pytest.approx(part.value * term.coefficient)


def train() -> tuple[Any, Any]:
    tables = make_tables(STUDY).values()
    return (
        np.vstack([t.values for t in tables]),
        np.concatenate([np.asarray(t.outcome) for t in tables]),
    )


def test_subgroup_rates(model: Model) -> None:
    values, outcome = train()
    frame = model.subgroups_frame()
    assert len(frame) == len(model.rule_terms)
    for term, row in zip(model.rule_terms, frame.itertuples(), strict=True):
        inside = np.array([bool(naive_term(model, term, v)) for v in values])
        assert row.rule == model.describe(term)
        assert (row.inside, row.outside) == (inside.sum(), (~inside).sum())
        assert row.rate_inside == pytest.approx(outcome[inside].mean())
        assert row.rate_outside == pytest.approx(outcome[~inside].mean())
    least = float(frame["inside"].median()) / len(values)
    bigger = model.subgroups_frame(min_support=least)
    assert (bigger["inside"] > least * len(values)).all()
    assert 0 < len(bigger) < len(frame)
    assert len(model.subgroups_frame(top=2)) == 2


def test_rules_frame(model: Model) -> None:
    frame = model.rules_frame()
    columns = ["rule", "importance", "idea", "kind", "coefficient", "between_sites"]
    columns += ["importance_within", "stands_for_site", "support", "found_again", "in_halves"]
    columns += ["spread_between_hospitals", "low_elsewhere", "high_elsewhere"]
    columns += ["held_out_odds_ratio", "low_held_out", "high_held_out", "odds_ratio"]
    assert list(frame.columns) == columns
    assert list(frame["rule"]) == [model.describe(t) for t in model.terms]
    assert frame["importance"].is_monotonic_decreasing
    rules = frame[frame["kind"] == "rule"]
    np.testing.assert_allclose(rules["odds_ratio"], np.exp(rules["coefficient"]))
    assert frame.loc[frame["kind"] == "linear", "support"].isna().all()
    values, _ = train()
    for term, support in zip(model.rule_terms, rules["support"], strict=True):
        assert support == np.mean([naive_term(model, term, v) for v in values])
    pd.testing.assert_frame_equal(model.rules_frame(top=3), frame.head(3))
    assert len(model.rules_frame(top=0)) == 0
    big = model.rules_frame(min_support=0.3)
    expected = frame[frame["support"] > 0.3].reset_index(drop=True)
    pd.testing.assert_frame_equal(big, expected)
    assert 0 < len(big) < len(rules)
    pd.testing.assert_frame_equal(model.rules_frame(top=1, min_support=0.3), expected.head(1))


def test_term_importance_is_the_pooled_standard_deviation(model: Model) -> None:
    """Over all patients, about their common mean."""
    values = np.vstack([table.values for table in make_tables(STUDY).values()])
    for term in model.terms:
        column = np.array([naive_term(model, term, v) for v in values])
        expected = abs(term.coefficient) * column.std(ddof=1)
        assert term.importance == pytest.approx(expected, rel=1e-8)


def test_variable_importance(model: Model) -> None:
    expected = np.zeros(5)
    for term in model.terms:
        named = {c.feature for c in term.rule} if isinstance(term, RuleTerm) else {term.feature}
        for feature in named:
            expected[feature] += term.importance / len(named)
    np.testing.assert_allclose(model.variable_importance(), expected)
    assert expected.sum() == pytest.approx(sum(t.importance for t in model.terms))


def test_odds_ratios_of_linear_terms_are_for_the_change_they_name(model: Model) -> None:
    """Against predictions of two patients who differ by just that change."""
    rules_off = Model(
        STUDY, model.grid, model.intercept, model.linear_terms, model.privacy, model.provenance
    )
    for term in model.linear_terms:
        name = STUDY.names[term.feature]
        words, covariate = model.describe(term), STUDY.covariates[name]
        axis = model.grid.axes[term.feature]
        low, high = axis.limits
        if isinstance(covariate, Number):
            unit = f" {covariate.unit}" if covariate.unit else ""
            assert words.startswith(f"{name}, per ")
            assert words.endswith(unit)
            change = float(words.removeprefix(f"{name}, per ").removesuffix(unit))
            step = min(change, high - low) / 2
        else:
            assert words == "sex, female against male"
            low, change, step = 0.0, 1.0, 1.0
        patients = np.tile(VALUES[:1], (2, 1))
        patients[:, term.feature] = [low, low + step]
        below, above = rules_off.decision_function(patients)
        ratio = np.exp((above - below) * change / step)
        assert model.effect(term) == pytest.approx(ratio, rel=1e-3), "four digits in words"


def test_every_kind_of_source_gives_the_same_predictions(model: Model, tmp_path: Path) -> None:
    expected = model.predict_proba(VALUES)
    blank = FRAME.drop(columns="died")
    path = tmp_path / "patients.csv"
    blank.to_csv(path, index=False)
    parquet = tmp_path / "patients.parquet"
    polars = pl.DataFrame(
        {name: [None if pd.isna(v) else v for v in blank[name]] for name in blank}
    )
    polars.write_parquet(parquet)
    mapping = {name: blank[name].to_numpy() for name in reversed(blank.columns)}
    for source in (FRAME, blank, path, str(path), parquet, polars, mapping):
        np.testing.assert_array_equal(model.predict_proba(source), expected)
    # BLAS may add in another order for one row than for many.
    np.testing.assert_allclose(model.predict_proba(FRAME.iloc[:1]), expected[:1], rtol=1e-14)


def test_a_row_predicts_the_same_alone_and_in_company(model: Model) -> None:
    many = np.tile(VALUES, (200, 1))  # large enough for the packed design
    np.testing.assert_allclose(
        model.predict_proba(many)[: len(VALUES)], model.predict_proba(VALUES), rtol=1e-13
    )


def test_arrays_must_fit(model: Model) -> None:
    with pytest.raises(FedRuleFitError, match="array of 5 columns, got shape \\(60, 4\\)"):
        model.predict_proba(VALUES[:, :4])
    with pytest.raises(FedRuleFitError, match="got shape"):
        model.predict_proba(VALUES[0])


def changed(column: int, value: float) -> Any:
    """Return the patients with another value of the fourth."""
    values = VALUES.copy()
    values[3, column] = value
    return values


def test_a_value_in_an_array_that_the_study_does_not_foresee(model: Model) -> None:
    """It is that patient's affair alone, and told."""
    expected = model.decision_function(VALUES)
    others = np.arange(len(VALUES)) != 3

    def judge(values: Any, flag: str) -> float:
        found = model.predict_frame(values)
        np.testing.assert_array_equal(found["log_odds"][others], expected[others])
        assert found["flags"].tolist() == [flag if row == 3 else "" for row in range(len(VALUES))]
        return float(found["log_odds"][3])

    without = model.decision_function(changed(3, np.nan))[3]
    for place in (4.0, -1.0, 0.5, 256.0, 300.0, np.inf):
        # 256 once became level 0, as codes have eight bits.
        flag = "ward not a level of the study: counted as missing"
        assert judge(changed(3, place), flag) == without
    oldest = model.decision_function(changed(0, 100.0))[3]
    for age in (100.5, 1e9, np.inf):
        assert judge(changed(0, age), "age above the range: counted as 100 years") == oldest
    youngest = model.decision_function(changed(0, 18.0))[3]
    assert judge(changed(0, -np.inf), "age below the range: counted as 18 years") == youngest
    assert np.isnan(judge(changed(2, np.nan), "gcs missing: no prediction"))
    assert np.isfinite(judge(changed(0, np.nan), ""))
    (explained,) = model.explain(changed(2, np.nan)[3:4])
    assert (explained.contributions, explained.flags) == ((), ("gcs missing: no prediction",))
    assert np.isnan([explained.linear_predictor, explained.prediction]).all()


def test_a_frame_that_does_not_fit_is_refused(model: Model) -> None:
    with pytest.raises(DataError, match="'lactate'"):
        model.predict_proba(FRAME.drop(columns="lactate"))


def test_a_model_without_terms_is_its_intercept() -> None:
    empty = fit_model(make_study(penalty=1000.0))
    assert empty.terms == ()
    probability = empty.predict_proba(FRAME)
    np.testing.assert_array_equal(probability, np.full(60, expit(empty.intercept)))
    assert empty.rules_frame().empty
    assert empty.rules_frame().columns[0] == "rule"
    assert empty.subgroups_frame().empty
    np.testing.assert_array_equal(empty.variable_importance(), np.zeros(5))
    assert empty.explain(FRAME)[0].contributions == ()
    outcome = train()[1]
    assert np.sign(empty.intercept) == np.sign(outcome.mean() - 0.5)


def test_support_of_a_linear_term_is_not_a_number(model: Model) -> None:
    assert math.isnan(model.support(model.linear_terms[0]))
