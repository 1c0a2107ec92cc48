"""The page of several levels, ordered or not: complete, and of the model alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import encode
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.model import Model
from fedrulefit.model.file import model_text
from fedrulefit.model.ideas import group_ideas
from fedrulefit.model.publish import round_model
from fedrulefit.report import render_report
from fedrulefit.report.charts import draw_effects, tabulate_pairs
from fedrulefit.report.contents import list_terms, tell_model
from fedrulefit.report.embedded import island_facts
from fedrulefit.report.specification import LINEAR, RULES, STEPS, list_specification
from fedrulefit.report.subgroups import tabulate_subgroups
from fedrulefit.report.tripod import list_checklist
from tests.disclosure.test_report import leaves
from tests.reports import draw_patients, many_levels_model, outcome_model
from tests.unit.report.test_family_words import read
from tests.unit.report.test_page import Balance
from tests.unit.report.test_specification import read as read_number

KINDS = pytest.mark.parametrize("kind", ["ordered", "classes"])


@KINDS
@pytest.mark.parametrize("make", [outcome_model, many_levels_model])
def test_pages_are_well_formed(kind: str, make: Any) -> None:
    parser = Balance()
    parser.feed(render_report(make(kind)))
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)


@KINDS
def test_no_level_breaks_the_page(kind: str) -> None:
    page = render_report(many_levels_model(kind))
    assert "<img" not in page
    assert page.count("<script") == 2
    assert "{{ 7 * 7 }}" in page.replace("&amp;", "&")


@KINDS
def test_it_starts_from_the_levels_of_patients_without_any_term(kind: str) -> None:
    model = outcome_model(kind)
    words, family = " ".join(tell_model(model)), model.study.family
    (chances,) = replace(model, terms=()).predict_proba(draw_patients(model, 1))
    for name, chance in zip(family.names, chances, strict=True):
        assert f"{name}\u2069” {family.tell(chance)}" in words
    assert f"every {family.words.one_of} of" in words
    if family.own_terms:
        assert f"{model.terms[0].level}\u2069” (odds ×" in words


def test_terms_of_classes_say_whose_they_are() -> None:
    model = outcome_model("classes")
    rows = list_terms(model)
    terms = [term for idea in group_ideas(model) for term in idea]
    assert [f"{row.level}: {row.words}" for row in rows] == [model.describe(t) for t in terms]
    assert {row.level for row in rows} == {*model.study.family.names}
    assert {row.level for row in list_terms(outcome_model("ordered"))} == {""}


@KINDS
def test_probabilities_follow_from_the_printed_numbers(kind: str) -> None:
    """As somebody would compute them who has nothing but the page."""
    model = outcome_model(kind)
    patients = draw_patients(model, 200, seed=4)
    tables, names = list_specification(model), model.study.family.names
    if kind == "classes":
        sums = [add_up(model, tables, f": {name}", name, patients) for name in names]
        heights = np.exp(np.column_stack(sums))
        chances = heights / heights.sum(axis=1, keepdims=True)
    else:
        total = add_up(model, tables, "", None, patients)
        first = read_number(tables[RULES].rows[0][1])
        reached, chances = np.ones(len(patients)), np.zeros((len(patients), len(names)))
        for k, (step, start) in enumerate(tables[STEPS].rows):
            assert step == f"from {names[k]} to {names[k + 1]}"
            going = 1 / (1 + np.exp(-(total - first + read_number(start))))
            chances[:, k], reached = reached * (1 - going), reached * going
        chances[:, -1] = reached
    np.testing.assert_allclose(chances, model.predict_proba(patients), rtol=0, atol=1e-5)
    assert model.study.family.words.by_hand in read(render_report(model)).replace("&#39;", "'")


def add_up(model: Model, tables: Any, of: str, level: str | None, patients: Any) -> Any:
    """Return F of one class, or of all there is, from the printed numbers."""
    codes = encode(patients, model.grid)
    (_, start), *rules = tables[f"{RULES}{of}"].rows
    total = np.full(len(patients), read_number(start))
    own = [term for term in model.rule_terms if term.level == level]
    for (words, coefficient), term in zip(rules, own, strict=True):
        assert words == model.describe(replace(term, level=None))
        holds = [condition.table()[codes[:, condition.feature]] for condition in term.rule]
        total += read_number(coefficient) * np.all(holds, axis=0)
    for name, *numbers, fill in tables[f"{LINEAR}{of}"].rows if f"{LINEAR}{of}" in tables else []:
        coefficient, centre, spread = map(read_number, numbers[:3])
        low, high = map(read_number, numbers[3].split(" to "))
        value = patients[:, model.study.names.index(name)]
        value = np.clip(np.where(np.isnan(value), read_number(fill), value), low, high)
        total += coefficient * 0.4 * (value - centre) / spread
    return total


@KINDS
def test_performance_is_told_by_level(kind: str) -> None:
    model = outcome_model(kind)
    assert model.evaluation is not None
    page, frame = render_report(model), model.evaluation.levels_frame()
    text = read(page)
    for row in frame.to_dict("records"):
        assert f'<td class="num">{row["auc"]:.3f}</td>' in page
        assert f"Calibration: {row['level']}" in text
    against = "the rest" if kind == "classes" else "those below it; with those above it"
    assert f"Each {model.study.family.words.one_of} against {against}" in text
    assert ("Ranked probability score" in text) is (kind == "ordered")
    assert "Log-loss" in text
    answers = {item.number: item.answer for item in list_checklist(model)}
    assert all(f"{row['level']} " in answers["21"] for row in frame.to_dict("records"))


@KINDS
@pytest.mark.parametrize("rounded", [False, True])
def test_subgroups_show_the_shares_of_all_levels(kind: str, rounded: bool) -> None:
    model = outcome_model(kind)
    model = round_model(model, PUBLISHED) if rounded else model
    table, frame = tabulate_subgroups(model), model.subgroups_frame()
    names = model.study.family.names
    told = [row for row in table.rows if row.inside.shares]
    assert told
    for row in told:
        for side, own in (("inside", row.inside), ("outside", row.outside)):
            assert sum(own.shares) == pytest.approx(100)
            (line,) = frame[frame["rule"] == row.words].to_dict("records")
            wanted = [100 * line[f"share_{name}_{side}"] for name in names]
            assert list(own.shares) == pytest.approx(wanted)
    assert len({row.words for row in table.rows}) == len(table.rows), "each rule once"
    page = render_report(model)
    assert page.count('class="bar stack"') == 2 * len(told)


@KINDS
def test_a_model_file_keeps_the_shares(kind: str, tmp_path: Any) -> None:
    model = outcome_model(kind)
    model.save(tmp_path / "model.json")
    again = Model.load(tmp_path / "model.json")
    assert render_report(again) == render_report(model)
    assert [t.sides for t in again.rule_terms] == [t.sides for t in model.rule_terms]
    assert "at_levels" in model_text(model)
    assert "at_levels" not in model_text(outcome_model("number")), "as it was before"


def test_each_class_has_a_line_and_a_pair() -> None:
    model = outcome_model("classes")
    names = model.study.family.names
    charts = draw_effects(model, range(model.study.n_features))
    assert {len(chart.lines) for chart in charts} == {0, len(names)}
    for chart in charts:
        assert all(f"{name}: " in chart.words for name in names)
        assert {mark.part for mark in chart.marks} <= {*range(len(names))}
    pairs = tabulate_pairs(model, 3)
    assert len({pair.level for pair in pairs}) == len(pairs) <= len(names)
    (plain,) = {len(chart.lines) for chart in draw_effects(outcome_model("ordered"), [0])}
    assert plain == 1


@KINDS
def test_the_calculator_holds_only_numbers_of_the_model_file(kind: str) -> None:
    model = outcome_model(kind)
    island = json.loads(
        re.search(r'id="island">(.*?)</script>', render_report(model), re.DOTALL)[1]  # type: ignore[index]
    )
    assert island == json.loads(json.dumps(island_facts(model)))
    said = {float(x) for x in leaves(json.loads(model_text(model))) if isinstance(x, int | float)}
    known = said | {*range(256), 0.4}
    shown = [x for x in leaves(island) if isinstance(x, int | float) and not isinstance(x, bool)]
    assert [x for x in shown if x not in known] == []
