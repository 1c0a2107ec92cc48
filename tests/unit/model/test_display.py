"""How a model shows itself: one line, and a table for notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit import Model
from fedrulefit.model.display import MOST_ROWS, fold_little, tell_little
from fedrulefit.model.ideas import MARK
from fedrulefit.model.terms import LinearTerm, RuleTerm
from fedrulefit.numerals import format_effect
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from tests.oracles import YES_NO
from tests.reports import evaluated_model
from tests.samples import fit_model, make_frame, make_study, study_facts


class Cells(HTMLParser):
    """Reads the cells of all tables, and notices what is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def model() -> Model:
    return fit_model(make_study())


def test_a_line_of_what_it_is(model: Model) -> None:
    """It was all its fields once: 4,765 characters of a small model."""
    shown = repr(model)
    assert shown == str(model)
    assert len(shown) < 160
    assert "\n" not in shown
    assert shown.startswith("<Model of 'died': ")
    rules, linear = len(model.rule_terms), len(model.linear_terms)
    assert f"{rules} rule{'s' * (rules != 1)} and {linear} linear term" in shown
    assert f"from {model.provenance.patients:,.0f} patients of 3 sites, λ = " in shown
    made_up = replace(model, study=model.study.model_copy(update={"synthetic": True}))
    assert "synthetic patients" in repr(made_up)


def test_the_table_of_a_notebook_is_that_of_the_rules(model: Model) -> None:
    html = model._repr_html_()
    read = Cells(html)
    assert not read.open
    head, *rows = [
        row for row in read.rows if row[0] != "rule or linear term" or row is read.rows[0]
    ]
    weight = "weight (shrunk), odds ratio"
    assert head[:4] == ["rule or linear term", weight, "importance", "support"]
    frame = model.rules_frame()
    assert sorted(row[0].removeprefix(MARK) for row in rows) == sorted(frame["rule"])
    shown = {row[0].removeprefix(MARK): row for row in rows}
    for line in frame.itertuples():
        assert float(shown[line.rule][1]) == pytest.approx(line.odds_ratio, abs=0.005)
        support = "linear" if line.kind == "linear" else f"{100 * line.support:.0f} %"
        assert shown[line.rule][3] in (support, "not told")


def test_it_brings_no_script_no_style_sheet_and_no_colour(model: Model) -> None:
    """So it reads on light and dark pages, and asks no server for anything."""
    html = model._repr_html_()
    assert not re.search(r"<(script|style|link|img)|colou?r|background|https?:|src=|on\w+=", html)


def test_what_others_named_is_escaped() -> None:
    facts: Any = study_facts()
    evil = "<script>alert(1)</script>"
    facts["covariates"] = {evil if k == "age" else k: v for k, v in facts["covariates"].items()}
    facts["outcome"]["label"] = "<b>dead</b>\x1b[31m"
    study = Study.from_mapping(facts)
    table = load_table(make_frame(300).rename(columns={"age": evil}), study)
    model = fit_model(study, {"north": table})
    html = model._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "<b>" not in html
    assert "\x1b" not in html
    assert "script" not in Cells(html).tags


def test_terms_that_count_for_little_are_folded_away(model: Model) -> None:
    """They were listed with an odds ratio of 1.00, as if they said something."""
    little = [replace(t, coefficient=0.001, importance=1e-5) for t in model.rule_terms[-2:]]
    faint = replace(model, terms=(*model.terms[:3], *little))
    html = faint._repr_html_()
    before, after = html.split("<details>")
    assert "and 2 terms with odds ratios of 1.00 when rounded, together less than 0.1 % of" in after
    assert [row[0] for row in Cells(after.split("</details>")[0]).rows[1:]] == [
        model.describe(term) for term in little
    ]
    assert len(Cells(before + "</div>").rows) == 1 + 3


def test_how_little_they_count_is_said(model: Model) -> None:
    total = model.importance.sum()
    assert tell_little(model, np.array([0.02 * total])) == (
        "and 1 term with an odds ratio of 1.00 when rounded, 2.0 % of the importance"
    )
    assert "together 5.0 % of" in tell_little(model, np.array([0.02, 0.03]) * total)


def test_all_are_shown_where_all_count_for_little(model: Model) -> None:
    faint = replace(
        model, terms=tuple(replace(t, coefficient=1e-4, importance=1e-4) for t in model.terms)
    )
    assert "when rounded" not in faint._repr_html_()
    assert list(fold_little(YES_NO, [1.001, 0.999])) == [False, False]
    assert list(fold_little(YES_NO, [1.001, 2.0])) == [True, False]


def test_many_terms_and_none(model: Model) -> None:
    many = replace(model, terms=tuple(model.terms[k % 2] for k in range(MOST_ROWS + 3)))
    html = many._repr_html_()
    assert "<summary>and 3 further terms</summary>" in html
    assert len(Cells(html.split("<details>")[0] + "</div>").rows) == 1 + MOST_ROWS
    assert "The model has no terms" in replace(model, terms=())._repr_html_()


def test_how_well_it_predicts_is_said() -> None:
    model = evaluated_model()
    assert model.evaluation.words()[:20] in model._repr_html_()


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (9.384, "9.38"), (0.5, "0.50"), (0.0123, "0.0123"), (1.0, "1.00"), (1.0049, "1.005"),
        (1.003, "1.003"), (0.9972, "0.997"), (1.00004, "1.00004"), (1 + 1e-12, "1.00000"),
        (1.006, "1.01"), (0.994, "0.99"),
    ],
)  # fmt: skip
def test_an_effect_is_written_with_the_digits_that_tell_it_from_1(effect: float, text: str) -> None:
    assert format_effect(effect) == text


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_pandas_shows_the_rule_and_its_odds_ratio(model: Model, columns: int) -> None:
    """The odds ratio was hidden behind dots."""
    frame = model.rules_frame()
    assert frame["rule"].str.len().max() > 50, "a long rule must be among them"
    with pd.option_context("display.width", columns, "display.max_columns", 0):
        head, first, *_ = repr(frame.head()).splitlines()
    assert len(first) <= columns
    assert head.split()[0] == "rule"
    assert head.split()[-1] == "odds_ratio"
    assert first.split()[-1] == f"{frame['odds_ratio'][0]:.6f}"


def test_both_kinds_of_terms_are_in_the_sample(model: Model) -> None:
    assert {type(term) for term in model.terms} == {RuleTerm, LinearTerm}


def test_showing_a_model_needs_no_pandas() -> None:
    """A hospital's process makes models, and logs them, without it."""
    code = (
        "import sys; from fedrulefit.model import Model; "
        "m = Model.load(sys.argv[1]); repr(m); m._repr_html_(); assert 'pandas' not in sys.modules"
    )
    command = [sys.executable, "-c", code, "tests/golden/model-v3.json"]
    subprocess.run(command, check=True)  # noqa: S603 - our own
