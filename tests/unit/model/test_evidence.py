"""How sure terms are, as models, files, tables and pages say it."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cache
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from fedrulefit.cli import show
from fedrulefit.core.rounding import EXACT, PUBLISHED
from fedrulefit.core.shares import Z95
from fedrulefit.errors import ModelFileError
from fedrulefit.model import LinearTerm, Model
from fedrulefit.model.evidence import tell_effects, tell_folds, write_effect, write_elsewhere
from fedrulefit.model.file.reading import build_model
from fedrulefit.model.file.writing import model_facts
from fedrulefit.model.publish import round_model
from fedrulefit.report.page import render_report
from tests.samples import SOLVERS, fit_model, make_study, make_tables


@cache
def learnt(**changes: Any) -> Model:
    study = make_study(**{**SOLVERS["cv"], "holdout": 0.3, **changes})
    return fit_model(study, make_tables(study, sizes=(900, 700, 600)))


def told(model: Model) -> Any:
    return [term for term in model.rule_terms if term.within is not None]


def test_the_frame_has_the_effect_of_held_out_patients_and_its_interval() -> None:
    model = learnt()
    frame = model.rules_frame().set_index("rule")
    assert len(told(model)) >= 2
    for term in told(model):
        row, found = frame.loc[model.describe(term)], term.within
        ends = (math.exp(found.estimate + sign * Z95 * found.error) for sign in (-1, 0, 1))
        assert (row.low_held_out, row.held_out_odds_ratio, row.high_held_out) == pytest.approx(
            tuple(ends)
        )
    linear = frame[frame["kind"] == "linear"]
    assert len(linear)
    assert linear[["held_out_odds_ratio", "low_held_out", "high_held_out"]].isna().all(axis=None)
    assert frame["found_again"].between(0, model.study.settings.folds).all()
    assert frame["found_again"].max() == model.study.settings.folds


def test_a_file_tells_it_and_is_the_same_again() -> None:
    for model in (learnt(), learnt().rounded(), learnt(holdout=0.0)):
        facts = model_facts(model)
        again = build_model(copy.deepcopy(facts))
        assert [t.found_again for t in again.terms] == [t.found_again for t in model.terms]
        assert [t.within for t in again.rule_terms] == [t.within for t in model.rule_terms]
        assert model_facts(again) == facts


def test_five_hospitals_tell_how_they_differ_wherever_the_effect_stands() -> None:
    study = make_study(**{**SOLVERS["exact"], "holdout": 0.4})
    model = fit_model(study, make_tables(study, sizes=(500, 420, 380, 460, 300))).rounded()
    terms = [term for term in model.rule_terms if term.elsewhere is not None]
    assert terms
    again = build_model(model_facts(model))
    assert [t.elsewhere for t in again.rule_terms] == [t.elsewhere for t in model.rule_terms]
    frame, text = model.rules_frame().set_index("rule"), printed(model)
    for term in terms:
        row, found = frame.loc[model.describe(term)], term.elsewhere
        assert found is not None
        assert row.spread_between_hospitals == found.spread
        ends = math.exp(found.low), math.exp(found.high)
        assert (row.low_elsewhere, row.high_elsewhere) == pytest.approx(ends)
        for words in (text, model._repr_html_(), render_report(model)):
            assert write_elsewhere(model, term) in words
    assert "In another hospital" in tell_effects(model)
    assert "In another hospital" not in tell_effects(learnt())
    assert learnt().rules_frame()["spread_between_hospitals"].isna().all()
    facts = model_facts(model)
    rule = next(part for part in facts["terms"] if "elsewhere" in part)
    rule["elsewhere"]["low"] = rule["elsewhere"]["high"]
    with pytest.raises(ModelFileError, match="elsewhere"):
        build_model(facts)
    rule["elsewhere"] |= {"low": -1.0, "high": 1.0, "sites": 6}
    with pytest.raises(ModelFileError, match="more sites tell how sites differ"):
        build_model(facts)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"held_out_effect": {"sites": 4, "estimate": 0.1, "error": 0.1}}, "more sites"),
        ({"held_out_effect": {"sites": 2, "estimate": 0.1, "error": 0.0}}, "greater than 0"),
        ({"held_out_effect": {"sites": 2, "estimate": 1e9, "error": 0.1}}, "less than or equal"),
        ({"found_again": 4}, "more folds than there are"),
        ({"found_again": -1}, "greater than or equal to 0"),
    ],
)
def test_nonsense_is_refused(changes: Any, why: str) -> None:
    facts = model_facts(learnt())
    next(part for part in facts["terms"] if part["kind"] == "rule").update(changes)
    with pytest.raises(ModelFileError, match=why):
        build_model(facts)


def test_an_effect_on_nobody_is_refused() -> None:
    facts = model_facts(learnt(holdout=0.0))
    rule = next(part for part in facts["terms"] if part["kind"] == "rule")
    rule["held_out_effect"] = {"sites": 2, "estimate": 0.1, "error": 0.1}
    with pytest.raises(ModelFileError, match="none were judged"):
        build_model(facts)


def test_what_is_published_is_coarse_and_small_cells_tell_nothing() -> None:
    model = learnt()
    published = round_model(model, PUBLISHED)
    exact = {term.key: term.within for term in model.rule_terms}
    for term in told(published):
        found = exact[term.key]
        assert found is not None
        assert term.within == found.rounded(PUBLISHED)
        assert abs(term.within.estimate - found.estimate) < 0.11 * found.error
    few = replace(told(model)[0], held_out=None)
    hidden = round_model(replace(model, terms=(few,), rounding=EXACT), PUBLISHED)
    assert [term.within for term in hidden.rule_terms] == [None]
    assert write_effect(hidden, hidden.rule_terms[0]) == ("too few", "")


def test_the_table_calls_the_coefficient_a_weight_without_an_interval() -> None:
    model = learnt().rounded()
    text = printed(model)
    assert "held-out" in text
    assert "odds ratio" in text
    assert "(shrunk)" in text
    term = told(model)[0]
    effect, ends = write_effect(model, term)
    assert effect in text
    assert ends in text
    assert f"{term.found_again} of {model.study.settings.folds}" in text
    assert all(write_effect(model, t) == ("", "") for t in model.terms if isinstance(t, LinearTerm))
    for words in (model._repr_html_(), render_report(model)):
        assert effect in words
        assert ends in words
        assert "shrunk" in words


def test_without_held_out_patients_no_interval_is_told_and_it_says_so() -> None:
    model = learnt(holdout=0.0)
    text = printed(model)
    assert "No patients were held out, so that no interval is told" in text
    assert "(95 %)" not in text
    assert "found again" in text
    assert "held-out odds ratio, 95 %" not in render_report(model)
    few = replace(model, study=make_study(**{**SOLVERS["cv"], "holdout": 0.3}))
    assert tell_effects(few).startswith("No held-out odds ratio is told of a rule: too few")


def test_without_a_cross_validation_nothing_is_found_again() -> None:
    model = learnt(penalty=0.02, holdout=0.3)
    assert all(term.found_again is None for term in model.terms)
    assert model.rules_frame()["found_again"].isna().all()
    assert tell_folds(model) == ""
    assert "found" not in printed(model)


def printed(model: Model) -> str:
    out = StringIO()
    show.print_rules(Console(file=out, width=110), model, model.rules_frame())
    return " ".join(out.getvalue().split())
