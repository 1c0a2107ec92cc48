"""Rules that say nearly the same are one idea: against a naive grouping, and wherever it shows."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import unescape
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from fedrulefit.cli import show
from fedrulefit.core.refinding import SAME, Alike
from fedrulefit.core.rules import Condition, Rule, conjoin, interval
from fedrulefit.model import Model, RuleTerm
from fedrulefit.model.ideas import MARK, group_ideas, number_ideas
from fedrulefit.report.page import render_report
from tests.random_models import random_model
from tests.samples import SOLVERS, fit_model, make_study, make_tables


@cache
def learnt() -> Model:
    study = make_study(**SOLVERS["exact"])
    return fit_model(study, make_tables(study, sizes=(900, 700, 600)))


def with_neighbours() -> Model:
    """Return a model with a single cut-off, its neighbour, its negation, and another rule."""
    model = learnt()
    j = next(j for j, axis in enumerate(model.grid.axes) if axis.kind == "number")
    n_codes, middle = model.grid.axes[j].n_codes, model.grid.axes[j].n_codes // 2
    spans = [(middle, n_codes), (0, 2), (middle + 1, n_codes), (0, middle)]
    terms = []
    for importance, (lo, hi) in zip((4.0, 3.0, 2.0, 1.0), spans, strict=True):
        rule = conjoin([Condition(j, interval(lo, hi))], model.grid)
        assert rule is not None
        terms.append(RuleTerm(rule, importance / 4, importance, None, None))
    linear = [term for term in model.terms if not isinstance(term, RuleTerm)]
    return replace(model, terms=(*terms, *linear))


@pytest.mark.parametrize("seed", range(12))
def test_ideas_are_those_of_a_naive_loop_over_pairs(seed: int) -> None:
    model = random_model(np.random.default_rng(seed), n_rules=40)
    alike = Alike(model.grid, model.distribution)
    leaders: list[int] = []
    naive = {}
    for place, term in enumerate(model.terms):
        near = [
            at
            for at in leaders
            if isinstance(term, RuleTerm)
            and isinstance(leader := model.terms[at], RuleTerm)
            and term.level == leader.level
            and abs(alike.correlate(leader.rule, term.rule)) >= SAME
        ]
        if near:
            naive[place] = leaders.index(near[0]) + 1
        else:
            leaders.append(place)
            naive[place] = len(leaders)
    assert number_ideas(model) == naive
    assert sum(len([*idea]) for idea in group_ideas(model)) == len(model.terms)


def test_neighbours_and_the_negation_are_variants_of_the_most_important() -> None:
    model = with_neighbours()
    first, second, *others = group_ideas(model)
    assert [term.importance for term in first] == [4.0, 2.0, 1.0]
    assert [term.importance for term in second] == [3.0]
    assert all(not idea.variants for idea in others)


def test_two_rules_of_everybody_are_no_idea() -> None:
    """Their correlation is not defined."""
    model = learnt()
    whole = Rule(())
    terms = tuple(RuleTerm(whole, 1.0, size, None, None) for size in (2.0, 1.0))
    assert len(group_ideas(replace(model, terms=terms))) == 2


def test_tables_show_variants_below_their_leader_and_say_what_they_are() -> None:
    model = with_neighbours()
    leader, variant, negation = group_ideas(model)[0]
    frame = model.rules_frame()
    assert frame["idea"].tolist()[:4] == [1, 2, 1, 1]
    out = StringIO()
    show.print_rules(Console(file=out, width=160), model, frame)
    text, page = out.getvalue(), render_report(model)
    html = unescape(model._repr_html_())
    for words in (text, html):
        at = [words.index(model.describe(leader))]
        at += [words.index(MARK + model.describe(term)) for term in (variant, negation)]
        assert at == sorted(at)
        assert "hold" in words
    assert "read them together" in " ".join(text.split())
    assert page.count('class="tag variant"') == 2
    rows = re.findall(r'<th scope="row"><bdi>(.*?)</bdi>', page)
    assert len(rows) >= len(model.terms)
    plain = learnt()
    if not any(idea.variants for idea in group_ideas(plain)):
        assert MARK not in plain._repr_html_()
