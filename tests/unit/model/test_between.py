"""What stands for the hospital is told as such: in the model, its file, frames, page and lines."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier, plot
from fedrulefit.cli import show
from fedrulefit.core.rounding import PUBLISHED, Rounding
from fedrulefit.engines import inprocess
from fedrulefit.errors import ModelFileError
from fedrulefit.model import LinearTerm, Model, RuleTerm
from fedrulefit.model.file import build_model, model_facts
from fedrulefit.model.publish import round_model
from fedrulefit.privacy.policy import KINDS, Policy
from fedrulefit.report import render_report
from fedrulefit.report.contents import list_terms, list_variables, tell_model
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.samples import SOLVERS, fit_model, make_study, make_tables

STUDY = Study.from_mapping(
    {
        "name": "stand-in",
        "outcome": {"column": "y", "positive": 1, "negative": 0},
        "covariates": {
            "age": {"kind": "number", "range": [0, 100]},
            "lab": {"kind": "number", "range": [0, 10]},
        },
        "settings": {"noise": False, "n_trees": 20, "folds": 3, "path_length": 20},
    }
)


def draw(seed: int, n: int, level: float, *, measured: bool) -> pd.DataFrame:
    """Return a hospital whose risk is `level` log-odds at age 60, and follows age; lab is noise."""
    rng = np.random.default_rng(seed)
    age, lab = rng.normal(60, 12, n).clip(1, 99).round(), rng.uniform(0.1, 9.9, n).round(1)
    chance = 1 / (1 + np.exp(-(level + 0.04 * (age - 60))))
    y = (rng.random(n) < chance).astype(int)
    return pd.DataFrame({"age": age, "lab": lab if measured else np.nan, "y": y})


FRAMES = {
    "east": draw(1, 500, -2.0, measured=True),
    "south": draw(2, 600, -2.0, measured=True),
    "west": draw(3, 400, 0.0, measured=False),
}
"""One hospital never measures lab, and has more severe patients."""


@cache
def stand_in_model() -> Model:
    tables = {name: load_table(frame, STUDY) for name, frame in FRAMES.items()}
    # By votes a rule that holds at one hospital alone would not be summed.
    policy = Policy(allow=tuple(KINDS), min_changed=0, min_votes=0)
    return inprocess.fit(STUDY, tables, policy=policy, secure=True).model


def term_of(model: Model, inside: Any) -> RuleTerm:
    """Return the rule that holds for just these patients."""
    rows = pd.concat(FRAMES.values())[["age", "lab"]]
    for term in model.rule_terms:
        alone = replace(model, terms=(term,), intercept=0.0)
        if ((alone.decision_function(rows) != 0) == inside).all():
            return term
    raise AssertionError("no such rule")


# --- the case of the audit ----------------------------------------------------------------------


def test_the_importance_of_a_rule_for_one_hospital_is_told_to_lie_between_hospitals() -> None:
    """`lab is missing` was the hospital, and nothing said so: AUC .71 pooled, .6 within."""
    model = stand_in_model()
    missing = pd.concat(FRAMES.values())["lab"].isna().to_numpy()
    term = term_of(model, missing)
    assert term is model.terms[0], "it counts most"
    assert term.between_sites == 1.0
    assert model.stands_for_site(term)
    assert model.importance_within[0] == 0.0, "what the paper tells of it"
    frame = model.rules_frame()
    assert frame.loc[0, "stands_for_site"]
    age = frame[frame["rule"].str.contains("age")]
    assert len(age) > 0
    assert (age["between_sites"] == 0).all()
    assert not age["stands_for_site"].any()
    covariates = model.importance_frame().set_index("covariate")
    assert covariates["stands_for_site"].to_dict() == {"lab": True, "age": False}
    assert covariates.loc["age", "importance_within"] == covariates.loc["age", "importance"]


def test_the_page_says_so_where_it_says_what_counts_most() -> None:
    model = stand_in_model()
    first = model.describe(model.terms[0])
    words = tell_model(model)
    (place,) = [k for k, line in enumerate(words) if "What counts most" in line]
    assert first in words[place]
    assert words[place + 1].startswith("It ")
    assert "for the hospital" in words[place + 1]
    assert "age" not in words[place + 1]
    page = render_report(model)
    n_marked = len(model.stand_ins) + sum(row.stands_for_site for row in list_variables(model))
    assert page.count('<span class="tag warning">stands for the hospital</span>') == n_marked
    assert ">Between sites<" in page
    assert '<td class="num">100 %</td>' in page


def test_the_page_names_a_stand_in_that_is_not_the_first_and_few_of_many() -> None:
    terms = fit_model(make_study(**SOLVERS["exact"])).terms
    model = fit_model(make_study(**SOLVERS["exact"]))
    for marked, expected in (
        ([1], "”\u2069 stands"),
        ([0], "It stands for the hospital: "),
        ([0, 1], "It (“"),
        ([1, 2, 3, 4, 5], " So do 2 more of its terms, marked below."),
    ):
        shares = [0.9 if k in marked else 0.1 for k in range(len(terms))]
        told = replace(
            model,
            terms=tuple(
                replace(t, between_sites=share) for t, share in zip(terms, shares, strict=True)
            ),
        )
        text = " ".join(tell_model(told))
        assert expected.replace("”\u2069", "\u2069”") in text
    assert "for the hospital" not in " ".join(tell_model(model))


def printed(model: Model) -> str:
    out = StringIO()
    console = Console(file=out, width=120)
    show.print_model(console, model, Path("model.json"), top=5, written="model.json")
    return " ".join(out.getvalue().split())


def test_the_lines_of_the_commands_say_so() -> None:
    text = printed(stand_in_model())
    assert "for the hospital: more than half of" in text
    assert "importance support found again between sites" in text
    assert "lab 100 (stands for the hospital), age " in text


def test_bars_of_what_stands_for_the_hospital_are_striped() -> None:
    model = stand_in_model()
    for draw_bars, frame in (
        (plot.rules, model.rules_frame(top=10)),
        (plot.importance, model.importance_frame()),
    ):
        ax = draw_bars(model)
        bars = [bar.get_hatch() == "//" for bar in ax.patches]
        assert sorted(bars) == sorted(frame["stands_for_site"].tolist())
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert "stands for the hospital" in labels
    plain = plot.importance(fit_model(make_study(**SOLVERS["exact"])))
    assert plain.get_legend() is None


# --- federated is pooled ------------------------------------------------------------------------


def naive_share(columns: Any, owner: Any, weights: Any) -> Any:
    """Return η² of a one-way analysis of variance on pooled rows, column by column."""
    mean = np.average(columns, axis=0, weights=weights)
    between = 0.0
    for site in np.unique(owner):
        rows = owner == site
        own = np.average(columns[rows], axis=0, weights=weights[rows])
        between = between + weights[rows].sum() * (own - mean) ** 2
    return between / (weights @ (columns - mean) ** 2)


def columns_of(model: Model, study: Study, tables: dict[str, Table]) -> Any:
    """Return the model's terms of all patients that were learnt from."""
    values = np.vstack([table.values for table in tables.values()])
    found = []
    for term in model.terms:
        alone = replace(model, terms=(replace(term, coefficient=1.0),), intercept=0.0)
        found.append(alone.decision_function(values))
    return np.column_stack(found)


@pytest.mark.parametrize("weighting", ["patients", "sites"])
@pytest.mark.parametrize("solver", ["fedda", "exact", "cv"])
def test_it_is_the_share_of_pooled_rows_within_its_coarseness(solver: str, weighting: str) -> None:
    """Patients count by their weights, however sites count in the fit."""
    facts = make_study(**{**SOLVERS[solver], "weighting": weighting}).model_dump()
    study = Study.model_validate({**facts, "weight": {"column": "w", "max": 3.0}})
    rng = np.random.default_rng(4)
    plain = make_tables(make_study(), sizes=(200, 150, 170))
    tables = {
        name: Table(t.values, t.outcome, rng.uniform(0.1, 3.0, t.n_rows).round(2))
        for name, t in plain.items()
    }
    # Hospitals differ in age, and one has no lactate.
    for k, table in enumerate(tables.values()):
        table.values[:, 0] = np.clip(table.values[:, 0] + 15 * k, 0, 100)
    tables["west"].values[:, 1] = np.nan
    model = fit_model(study, tables)
    owner = np.repeat(np.arange(3), [t.n_rows for t in tables.values()])
    weights = np.concatenate([t.weights for t in tables.values()])
    expected = naive_share(columns_of(model, study, tables), owner, weights)
    told = np.array([model.between_sites(term) for term in model.terms])
    assert np.nanmax(told) > 0.25
    known = ~np.isnan(told)
    assert known.mean() > 0.8
    assert np.abs(told - expected)[known].max() <= 0.05 + 1e-9


def test_masks_change_nothing_of_it() -> None:
    study = make_study(**SOLVERS["exact"])
    tables = make_tables(study, sizes=(200, 150, 150))
    policy = Policy(allow=tuple(KINDS), min_changed=0, round_counts=1, min_published=0)
    bare, masked = (
        inprocess.fit(study, tables, policy=p, secure=s).model
        for p, s in (
            (policy.model_copy(update={"secure_sums": False, "min_votes": 0}), False),
            (policy.model_copy(update={"min_votes": 0}), True),
        )
    )
    assert [t.between_sites for t in bare.terms] == [t.between_sites for t in masked.terms]


# --- where it is not told -----------------------------------------------------------------------


def test_a_study_may_leave_it_unasked() -> None:
    study = make_study(**SOLVERS["exact"], between_sites=False)
    model = fit_model(study)
    assert not model.tells_between
    assert model.stand_ins == ()
    assert np.isnan(model.importance_within).all()
    assert np.isnan(model.variable_between()).all()
    assert model.rules_frame()["between_sites"].isna().all()
    assert "Between sites" not in render_report(model)
    assert "between sites" not in printed(model)


def test_a_policy_that_does_not_let_it_out_refuses_such_a_run_and_no_other() -> None:
    study = make_study(**SOLVERS["exact"])
    tables = make_tables(study, sizes=(200, 150, 150))
    policy = Policy(allow=tuple(kind for kind in KINDS if kind != "between-sites"), min_changed=0)
    with pytest.raises(Exception, match="does not let out how far this site's means"):
        inprocess.fit(study, tables, policy=policy, secure=True)
    without = study.with_settings(between_sites=False)
    inprocess.fit(without, tables, policy=policy, secure=True)


def test_one_site_has_nothing_between_sites() -> None:
    study = make_study(**SOLVERS["exact"])
    model = fit_model(study, {"only": make_tables(study)["north"]})
    assert not model.tells_between
    assert not any("between the sites" in words for words in model.privacy.exact)


def test_the_estimators_tell_it_where_they_know_sites() -> None:
    frame = pd.concat(FRAMES.values(), keys=FRAMES).reset_index(level=0, names="site")
    X, y = frame[["age", "lab"]], frame["y"]
    facts: dict[str, Any] = {"n_trees": 10, "penalty": 0.01, "noise": False}
    federated = FederatedRuleFitClassifier(**facts, per_site=True).fit(X, y, sites=frame["site"])
    assert federated.rules_["stands_for_site"].any()
    pooled = RuleFitClassifier(n_trees=10, penalty=0.01).fit(X, y)
    assert pooled.rules_["between_sites"].isna().all()


# --- covariates, rounding, files ----------------------------------------------------------------


def test_a_covariate_has_the_mean_of_its_terms_by_importance() -> None:
    model = fit_model(make_study(**SOLVERS["exact"]))
    rules = [t for t in model.rule_terms if t.features in ((0,), (1,))][:2]
    first, second = (replace(t, importance=s) for t, s in zip(rules, (3.0, 1.0), strict=True))
    linear = LinearTerm(0, 0.5, 1.0, between_sites=1.0)
    first = replace(first, rule=rules[0].rule, between_sites=0.2)
    second = replace(second, between_sites=None)
    model = replace(model, terms=(first, linear))
    j = first.features[0]
    expected = (3 * 0.2 + 1.0) / 4 if j == 0 else 0.2
    assert model.variable_between()[j] == pytest.approx(expected)
    alone = replace(model, terms=(second,))
    assert np.isnan(alone.variable_between()).all()
    within = replace(model, terms=(linear, first)).variable_importance(within=True)
    assert within.sum() == pytest.approx(3 * np.sqrt(0.8))


def test_it_is_published_in_steps_and_not_of_too_few() -> None:
    model = fit_model(make_study(**SOLVERS["exact"]))
    rule, other = model.rule_terms[:2]
    half = model.provenance.patients / 2
    terms = (
        replace(rule, between_sites=2 / 30, inside=half, coefficient=1.0),
        replace(other, between_sites=0.9, inside=9.0, coefficient=1.0),
        LinearTerm(0, 1.0, 1.0, between_sites=17 / 30),
        LinearTerm(2, 1.0, 1.0),
    )
    told = {t: t.between_sites for t in round_model(replace(model, terms=terms), PUBLISHED).terms}
    by_rule = {t.rule: share for t, share in told.items() if isinstance(t, RuleTerm)}
    assert by_rule == {rule.rule: 0.05, other.rule: None}
    assert {t.feature: s for t, s in told.items() if isinstance(t, LinearTerm)} == {
        0: 0.55,
        2: None,
    }
    exact = round_model(replace(model, terms=terms), Rounding())
    assert [t.between_sites for t in exact.terms] == [t.between_sites for t in terms]


def test_it_stands_in_the_file_and_older_files_do_without(tmp_path: Path) -> None:
    model = stand_in_model()
    model.save(tmp_path / "model.json")
    again = Model.load(tmp_path / "model.json")
    assert [t.between_sites for t in again.terms] == [t.between_sites for t in model.terms]
    facts = model_facts(model)
    for term in facts["terms"]:
        del term["between_sites"]
    assert not build_model(facts).tells_between
    for wrong in (-0.1, 1.1):
        facts["terms"][0]["between_sites"] = wrong
        with pytest.raises(ModelFileError, match="between_sites"):
            build_model(facts)


def test_rows_of_the_page_hold_percents() -> None:
    model = stand_in_model()
    rows = list_terms(model)
    assert [row.between for row in rows] == [100 * t.between_sites for t in model.terms]
    unknown = replace(model, terms=tuple(replace(t, between_sites=None) for t in model.terms))
    assert {row.between for row in list_terms(unknown)} == {-1.0}
    assert {row.between for row in list_variables(unknown)} == {-1.0}
