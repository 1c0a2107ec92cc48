"""The calculator over time: risks by each horizon and the survival curve, as the model has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrulefit.model import Model
from tests.browser.test_report import enter
from tests.random_models import over_time, random_model
from tests.reports import draw_patients, sample_model, time_model

Open = Callable[..., Any]
RISKS = "rows => rows.map(row => Number(row.dataset.risk))"


def risks_of(page: Any) -> list[float]:
    found: list[float] = page.eval_on_selector_all("#horizons tbody tr", RISKS)
    return found


def curve_of(page: Any) -> Any:
    """Return times and chances of the curve that is drawn."""
    return np.array(json.loads(page.locator("#survival").get_attribute("data-points"))).T


def rounded_by_hand() -> Model:
    """Return a model whose baseline, once rounded, is not quite the whole hazard."""
    return over_time(np.random.default_rng(1), time_model(), horizons=[0.5, 90, 365])


@pytest.mark.parametrize("make", [time_model, rounded_by_hand])
def test_risks_and_curve_are_the_model_s(make: Callable[[], Model], open_report: Open) -> None:
    model = make()
    page = open_report(model)
    patients = draw_patients(model, 60, seed=5)
    wanted = model.predict_risks(patients)
    for patient, risks in zip(patients, wanted, strict=True):
        enter(page, model, patient)
        np.testing.assert_allclose(risks_of(page), risks, rtol=0, atol=1e-9)
        times, chances = curve_of(page)
        alive = model.predict_survival(patient[None, :], times)[0]
        np.testing.assert_allclose(chances, alive, rtol=0, atol=1e-9)
    assert (times[0], times[-1]) == (0, 365)
    assert set(model.study.outcome.horizons) <= set(times)  # type: ignore[union-attr]


def test_the_curve_moves_with_the_slider_and_is_told(open_report: Open) -> None:
    model = time_model()
    page = open_report(model)
    patient = draw_patients(model, 1, seed=8)[0]
    enter(page, model, np.where(np.isnan(patient), 1.0, patient))
    words, box = page.locator("#survival-words"), page.locator("#survival")
    entered, before = risks_of(page), curve_of(page)
    tell = lambda risk: f"{100 * (1 - risk):.1f} %"  # noqa: E731
    said = f"Chance to have no event: {tell(entered[0])} up to 90 days, {tell(entered[1])} up to"
    assert words.inner_text().startswith(said)
    assert box.locator("path").count() == 1
    page.select_option("#vary", "0")
    page.locator("#move").press("Home")
    page.locator("#move").press("End")
    now = risks_of(page)
    assert now != entered
    assert not np.array_equal(curve_of(page), before)
    assert box.locator("path.other").count() == 1
    assert f"Dashed, with the value entered: {tell(entered[0])} up to 90" in words.inner_text()
    page.locator("#back").click()
    assert risks_of(page) == entered
    assert box.locator("path.other").count() == 0
    page.locator("#move").press("Home")
    page.locator("#x0").fill("50")
    assert box.locator("path.other").count() == 0, "what is typed is the value entered"


def test_it_is_there_only_with_a_prediction_and_of_times(open_report: Open) -> None:
    page = open_report(time_model())
    assert not page.locator("#over-time").is_visible()
    enter(page, time_model(), draw_patients(time_model(), 1)[0])
    assert page.locator("#over-time").is_visible()
    page.locator("#x2").fill("")
    assert not page.locator("#over-time").is_visible()
    assert open_report(sample_model()).locator("#over-time").count() == 0


def test_one_horizon_needs_no_table(open_report: Open) -> None:
    rng = np.random.default_rng(2)
    model = over_time(rng, random_model(rng), horizons=[365])
    page = open_report(model)
    enter(page, model, draw_patients(model, 1)[0])
    assert page.locator("#horizons").count() == 0
    assert curve_of(page)[1][-1] == pytest.approx(
        1 - float(page.locator("#risk").get_attribute("data-risk")), abs=1e-12
    )
