"""The model in numbers: a prediction can be made from the page alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedrulefit.core.grid import encode
from fedrulefit.model import Model
from fedrulefit.report.specification import OVER_TIME, list_covariates, list_specification
from fedrulefit.study import Study
from tests.reports import draw_patients, empty_model, path_model, sample_model, time_model
from tests.samples import study_facts


def read(text: str) -> float:
    return float(text.replace("−", "-").replace(" ", ""))


@pytest.mark.parametrize("make", [sample_model, path_model, empty_model, time_model])
def test_predictions_follow_from_the_printed_numbers(make: Callable[[], Model]) -> None:
    model = make()
    patients = draw_patients(model, 200, seed=4)
    codes = encode(patients, model.grid)
    tables = list_specification(model)
    (_, start), *rules = tables["Starting point and rules"].rows
    predictor = np.full(len(patients), read(start))
    for (words, coefficient), term in zip(rules, model.rule_terms, strict=True):
        assert words == model.describe(term)
        holds = [condition.table()[codes[:, condition.feature]] for condition in term.rule]
        predictor += read(coefficient) * np.all(holds, axis=0)
    linear = tables["Linear terms"].rows if "Linear terms" in tables else []
    assert len(linear) == len(model.linear_terms)
    for name, *numbers, fill in linear:
        coefficient, centre, spread = map(read, numbers[:3])
        low, high = map(read, numbers[3].split(" to "))
        value = patients[:, model.study.names.index(name)]
        value = np.clip(np.where(np.isnan(value), read(fill), value), low, high)
        predictor += coefficient * 0.4 * (value - centre) / spread
    if model.timeline is None:
        shown = 1 / (1 + np.exp(-predictor))
        np.testing.assert_allclose(shown, model.predict_proba(patients), rtol=0, atol=1e-5)
        return
    for time, share, logarithm in tables[OVER_TIME].rows:
        survival = model.predict_survival(patients, [read(time)])[:, 0]
        by_hand = np.exp(-np.exp(predictor + read(logarithm)))
        np.testing.assert_allclose(by_hand, survival, rtol=0, atol=1e-5)
        assert read(share) == pytest.approx(np.exp(read(logarithm)), abs=1e-5)


def test_numbers_are_rounded_where_people_read_them() -> None:
    """ "3.2199999999999998 to 60.2" stood there, and ran over the page's margin."""
    for table in list_specification(path_model()).values():
        for row in table.rows:
            for text in " ".join(row[1:]).replace("−", "").split(" to "):
                assert all(len(number.replace(".", "").lstrip("0")) <= 6 for number in text.split())


def test_covariates_are_told_as_the_study_defines_them() -> None:
    facts = study_facts()
    facts["covariates"] = {
        "na": {"kind": "number", "range": [-0.3, 160], "step": 0.05, "unit": "mmol/L"},
        "nyha": {"kind": "ordered", "levels": ["I", "II", "III"], "label": "class", "note": "rest"},
        "ward": {"kind": "category", "levels": ["A", "B"], "complete": True},
        "sex": {"kind": "yes/no", "labels": ["male", "female"]},
    }
    model = replace(sample_model(), study=Study.from_mapping(facts))
    assert [tuple(row) for row in list_covariates(model)] == [
        ("na", "", "−0.3 to 160 mmol/L", "may be"),
        ("nyha", "class. rest", "I < II < III", "may be"),
        ("ward", "", "A, B", "never"),
        ("sex", "", "male, female", "may be"),
    ]
