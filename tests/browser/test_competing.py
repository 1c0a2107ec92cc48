"""The calculator where events compete: the risk of each, by each horizon and over time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.model import Model
from fedrulefit.model.publish import round_model
from tests.browser.test_report import enter
from tests.reports import competing_model, draw_patients, sample_model, time_model

Open = Callable[..., Any]
CHANCES = "JSON.parse(document.getElementById('risk').dataset.levels)"
BY = "rows => rows.map(row => JSON.parse(row.dataset.risks))"
NAMES = ["Death", "discharge", "transfer", "none of them"]


@pytest.mark.parametrize("rounded", [False, True])
def test_risks_are_the_model_s(rounded: bool, open_report: Open) -> None:
    model = competing_model()
    model = round_model(model, PUBLISHED) if rounded else model
    page = open_report(model)
    patients = draw_patients(model, 60, seed=5)
    wanted = model.predict_cumulative_incidence(patients, [90, 365])
    alive = model.predict_survival(patients, [90, 365])
    for patient, risks, none in zip(patients, wanted, alive, strict=True):
        enter(page, model, patient)
        by = page.eval_on_selector_all("#horizons tbody tr", BY)
        np.testing.assert_allclose(by, np.vstack([risks, none]).T, rtol=0, atol=1e-9)
        np.testing.assert_allclose(page.evaluate(CHANCES), by[1], rtol=0, atol=1e-12)
        main = float(page.locator("#risk").get_attribute("data-risk"))
        assert main == pytest.approx(risks[0, 1], abs=1e-9)
    tell = model.study.family.tell
    assert page.locator("#risk").inner_text() == tell(wanted[-1, 0, 1])
    assert page.locator("#risk-title").inner_text() == "Risk of Death by 365 days"
    rows = page.eval_on_selector_all(
        "#levels tbody tr", "rows => rows.map(r => r.cells[0].textContent)"
    )
    assert [row.strip() for row in rows] == NAMES


def whole(model: Model) -> Any:
    patient = draw_patients(model, 1, seed=8)[0]
    return np.where(np.isnan(patient), 1.0, patient)


def test_what_adds_up_is_told_of_the_event_of_interest(open_report: Open) -> None:
    model = competing_model()
    page = open_report(model)
    patient = whole(model)
    enter(page, model, patient)
    (explanation,) = model.explain(patient[None])
    rows = page.eval_on_selector_all(
        "#parts tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    assert page.locator("#parts caption").inner_text() == "What adds up to “Death”"
    assert rows[0][1] == f"{explanation.baseline:.3f}".replace("-", "−")
    adds = sorted(f"{part.contribution:+.3f}" for part in explanation.contributions)
    assert sorted(row[1].replace("−", "-") for row in rows[1:]) == adds


def test_the_stack_over_time_is_drawn_and_told(open_report: Open) -> None:
    model = competing_model()
    page = open_report(model)
    assert not page.locator("#over-time").is_visible()
    patient = whole(model)
    enter(page, model, patient)
    assert page.locator("#survival path.level").count() == len(NAMES)
    said = page.locator("#survival-words").inner_text()
    risks = model.predict_cumulative_incidence(patient[None], [90.0])[0, :, 0]
    first = f"by 90 days Death {100 * risks[0]:.1f} %, discharge {100 * risks[1]:.1f} %"
    assert said.startswith(f"Which event came first, stacked up: {first}")
    page.select_option("#vary", "0")
    page.locator("#move").press("Home")
    page.locator("#move").press("End")
    assert page.locator("#survival-words").inner_text() != said
    assert page.locator("#curve path.level").count() == len(NAMES)
    page.locator("#x2").fill("")
    assert not page.locator("#over-time").is_visible()
    assert page.locator("#risk").inner_text() == "–"


def test_rules_are_shown_of_one_event(open_report: Open) -> None:
    model = competing_model()
    page = open_report(model)
    page.locator("#f-level").select_option("2")
    rows = page.locator("#rules-table tbody tr:visible")
    assert {*rows.locator("td.of").all_inner_texts()} == {"transfer"}
    assert rows.count() == sum(term.level == "transfer" for term in model.terms)


@pytest.mark.parametrize("make", [competing_model, time_model])
def test_curves_inside_and_outside_rules_are_drawn(make: Any, open_report: Open) -> None:
    model = round_model(make(), PUBLISHED)
    page = open_report(model)
    frame = model.subgroup_curves_frame()
    names = list(dict.fromkeys(frame["rule"]))[:6]
    assert page.locator("#side-charts figcaption").all_inner_texts() == names
    first = frame[(frame["rule"] == names[0])]
    box = page.locator("#side-charts svg").first
    assert box.locator("circle.inner").count() == (first["side"] == "inside").sum()
    last = first[(first["side"] == "outside") & (first["time"] == 365)]["risk"].iloc[0]
    assert f"{100 * last:.0f} % by 365." in box.get_attribute("aria-label")
    assert json.dumps("NaN") not in page.content()
    assert open_report(sample_model()).locator("#side-charts").count() == 0
