"""The calculator of several levels: the probability of each, as the model has it, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedrulefit.model import Model
from tests.browser.test_report import enter
from tests.reports import (
    as_texts,
    draw_patients,
    empty_model,
    many_levels_model,
    outcome_model,
    sample_model,
)

Open = Callable[..., Any]
LEVELS = "JSON.parse(document.getElementById('risk').dataset.levels)"
KINDS = pytest.mark.parametrize("kind", ["ordered", "classes"])


def whole(model: Model, seed: int = 8) -> Any:
    """Return a patient with every value."""
    patient = draw_patients(model, 1, seed)[0]
    return np.where(np.isnan(patient), 1.0, patient)


@pytest.mark.parametrize(
    "make",
    [
        lambda: outcome_model("ordered"),
        lambda: outcome_model("classes"),
        lambda: outcome_model("ordered").rounded(),
        lambda: outcome_model("classes").rounded(),
        lambda: many_levels_model("ordered"),
        lambda: many_levels_model("classes"),
    ],
    ids=[
        "ordered",
        "classes",
        "ordered, rounded",
        "classes, rounded",
        "many steps",
        "many classes",
    ],
)
def test_the_probabilities_are_the_model_s(make: Callable[[], Model], open_report: Open) -> None:
    model = make()
    page = open_report(model)
    patients = draw_patients(model, 150, seed=5)
    shown = []
    for patient in patients:
        enter(page, model, patient)
        shown.append(page.evaluate(LEVELS))
    wanted = model.predict_proba(patients)
    np.testing.assert_allclose(shown, wanted, rtol=0, atol=1e-9)
    told = page.locator("#risk").inner_text()
    names, tell = model.study.family.names, model.study.family.tell
    most = int(wanted[-1].argmax())
    assert told.split() == f"{names[most]}, {tell(wanted[-1, most])}".split()
    rows = page.eval_on_selector_all(
        "#levels tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent.trim()))"
    )
    assert [row[0] for row in rows] == [*names]
    said = [f"{100 * p:.1f} %" for p in wanted[-1]]
    assert [row[1] for row in rows] == [
        "below 0.1 %" if 0 < p < 0.001 else text for p, text in zip(wanted[-1], said, strict=True)
    ]


@KINDS
def test_a_stack_is_as_long_as_its_probabilities(kind: str, open_report: Open) -> None:
    model = outcome_model(kind)
    page = open_report(model)
    patient = whole(model)
    enter(page, model, patient)
    (chances,) = model.predict_proba(patient[None])
    widths = page.eval_on_selector_all(
        "#stack rect", "all => all.map(r => [Number(r.getAttribute('x')), r.width.baseVal.value])"
    )
    np.testing.assert_allclose([width for _, width in widths], 100 * chances, atol=1e-4)
    np.testing.assert_allclose(
        [x for x, _ in widths], 100 * (np.cumsum(chances) - chances), atol=1e-9
    )


def test_the_explanation_is_that_of_the_likeliest_class(open_report: Open) -> None:
    model = outcome_model("classes")
    page = open_report(model)
    seen = set()
    for patient in draw_patients(model, 25, seed=6):
        enter(page, model, patient)
        rows = page.eval_on_selector_all(
            "#parts tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
        )
        (explanation,) = model.explain(patient[None])
        seen.add(explanation.level)
        told = page.locator("#parts caption").inner_text()
        assert told == f"What adds up to “{explanation.level}”"
        assert rows[0][:2] == [
            "Starting point", f"{explanation.baseline:.3f}".replace("-", "−"),
        ]  # fmt: skip
        adds = sorted(f"{part.contribution:+.3f}" for part in explanation.contributions)
        assert sorted(row[1].replace("−", "-") for row in rows[1:]) == adds
    assert len(seen) > 1


@KINDS
def test_the_stack_follows_the_value_that_moves(kind: str, open_report: Open) -> None:
    model = outcome_model(kind)
    page = open_report(model)
    patient = whole(model)
    enter(page, model, patient)
    words, box = page.locator("#curve-words"), page.locator("#curve")
    n_levels = len(model.study.family.names)
    before = page.evaluate(LEVELS)
    assert "in brackets" not in page.locator("#levels caption").inner_text()
    for j, name in enumerate(model.study.names):
        page.select_option("#vary", str(j))
        page.locator("#move").press("Home")
        page.locator("#move").press("End")
        moved = patient.copy()
        text = page.locator(f"#x{j}").input_value()
        moved[j] = float(text)
        (wanted,) = model.predict_proba(moved[None])
        np.testing.assert_allclose(page.evaluate(LEVELS), wanted, rtol=0, atol=1e-9)
        tell = [f"{level} {100 * p:.1f} %" for level, p in zip(
            model.study.family.names, wanted, strict=True
        )]  # fmt: skip
        said = " ".join(words.inner_text().split())
        assert said.startswith(name)
        assert f"now {', '.join(tell)}, at" in said
        number = model.grid.axes[j].kind == "number"
        drawn = box.locator("path.level" if number else "rect.level").count()
        assert drawn == n_levels if number else drawn >= 2 * n_levels
        assert "in brackets, with the value entered" in page.locator("#levels caption").inner_text()
        page.locator("#back").click()
        assert page.evaluate(LEVELS) == before


def test_levels_are_hidden_without_a_prediction(open_report: Open) -> None:
    model = outcome_model("classes")
    page = open_report(model)
    assert not page.locator("#levels").is_visible()
    enter(page, model, whole(model))
    assert page.locator("#levels").is_visible()
    page.locator("#x2").fill("")
    assert not page.locator("#levels").is_visible()
    assert page.locator("#stack rect").count() == 0
    assert page.locator("#risk").inner_text() == "–"
    assert page.locator("#risk").get_attribute("data-levels") is None
    assert open_report(sample_model()).locator("#levels").count() == 0


def test_rules_are_shown_of_one_class(open_report: Open) -> None:
    model = outcome_model("classes")
    page = open_report(model)
    names = model.study.family.names
    page.locator("#f-level").select_option("1")
    rows = page.locator("#rules-table tbody tr:visible")
    assert {*rows.locator("td.of").all_inner_texts()} == {names[1]}
    assert rows.count() == sum(term.level == names[1] for term in model.terms)
    page.get_by_role("button", name="Class", exact=True).click()
    page.locator("#f-level").select_option("")
    order = [names.index(name) for name in rows.locator("td.of").all_inner_texts()]
    assert order == sorted(order, reverse=True)


@cache
def empty_levels_model(kind: str) -> Model:
    return replace(outcome_model(kind), terms=())


@KINDS
def test_a_model_without_terms_gives_all_the_same(kind: str, open_report: Open) -> None:
    model = empty_levels_model(kind)
    page = open_report(model)
    enter(page, model, draw_patients(empty_model(), 1)[0])
    (wanted,) = model.predict_proba(draw_patients(model, 1))
    np.testing.assert_allclose(page.evaluate(LEVELS), wanted, rtol=0, atol=1e-9)
    text = page.locator("main").inner_text()
    assert "the same probability" in text
    assert as_texts(model, whole(model))
    assert json.loads(page.locator("#island").text_content())["levels"] == [
        *model.study.family.names
    ]
