"""The calculator with a hospital's own baseline: the model's prediction there, and whose it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrulefit.model.at_hospital import IN_FILE
from fedrulefit.testing.samples import OUTCOMES
from tests.browser.test_report import enter
from tests.own_baselines import make_own, own_model
from tests.reports import draw_patients

LEVELS = "JSON.parse(document.getElementById('risk').dataset.levels)"


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_calculator_is_the_hospital_s(outcome: str, open_report: Callable[..., Any]) -> None:
    shared = own_model(outcome)
    model = shared.at(make_own(shared))
    page = open_report(model)
    patients, names = draw_patients(model, 60, seed=5), model.study.family.names
    for patient in patients:
        shown = enter(page, model, patient)
        chances = model.predict_proba(patient[None]) if names else None
        if model.incidence is not None:
            risks = model.predict_risks(patient[None])
            assert shown == pytest.approx(risks[0, -1], rel=1e-9, abs=1e-9)
        elif chances is not None:
            np.testing.assert_allclose(page.evaluate(LEVELS), chances[0], rtol=0, atol=1e-9)
        else:
            assert shown == pytest.approx(model.predict(patient[None])[0], rel=1e-9, abs=1e-9)
    told = page.locator("#hospital").inner_text()
    assert told == f"Predictions have the own baseline of north, of 2026-03-01: for its patients " \
        f"alone. {IN_FILE}"  # fmt: skip
    (explanation,) = model.explain(patients[-1:])[:1] if not names else [None]
    if explanation is not None and not model.study.family.additive:
        start = page.eval_on_selector("#parts tbody tr", "row => row.cells[1].textContent")
        assert start == f"{explanation.baseline:.3f}".replace("-", "−")


def test_without_it_the_page_says_so(open_report: Callable[..., Any]) -> None:
    page = open_report(own_model())
    assert page.locator("#hospital").inner_text() == own_model().of_hospital
    assert page.locator("#hospital").is_visible()
