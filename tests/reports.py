"""Models whose reports several folders test: ordinary, hostile, huge and empty."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.rules import Condition, Rule, conjoin, interval
from fedrulefit.engines.leaveout import leave_one_site_out
from fedrulefit.model import Model, RuleTerm
from fedrulefit.study import Number, Study
from tests.samples import SOLVERS, fit_model, make_study, make_tables, study_facts

SCRIPT = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>"
QUOTES = "a \"quoted\" 'name' & <b>bold</b> {{ 7 * 7 }}"
EMOJI = "fever 🤒👩🏽‍⚕️"
LONG = "N" * 200
HEBREW = "לחץ דם \u202e(mmHg)"
NAMES = (SCRIPT, QUOTES, EMOJI, LONG, HEBREW)


@cache
def sample_model() -> Model:
    """Return a model with every kind of covariate, rules and linear terms."""
    return fit_model(make_study(**SOLVERS["exact"]))


@cache
def path_model() -> Model:
    """Return a model whose λ was chosen by cross-validation, under noise."""
    return fit_model(make_study(**{**SOLVERS["cv"], "epsilon": 1.0}))


@cache
def evaluated_model() -> Model:
    """Return a model judged on held-out patients and left-out sites, with results per site."""
    study = make_study(**{**SOLVERS["exact"], "holdout": 0.3, "per_site": True})
    tables = make_tables(study, sizes=(400, 350, 300))
    model = fit_model(study, tables)
    return replace(model, validation=leave_one_site_out(study, tables))


@cache
def time_model() -> Model:
    """Return a model of a time to an event with two horizons, judged on held-out patients."""
    study = make_study("time", **{**SOLVERS["exact"], "holdout": 0.3})
    return fit_model(study, make_tables(study, sizes=(400, 350, 300)))


@cache
def competing_model() -> Model:
    """Return a model of events that compete, with two horizons, judged on held-out patients."""
    study = make_study("time, competing", **{**SOLVERS["exact"], "penalty": 0.005}, holdout=0.3)
    return fit_model(study, make_tables(study, sizes=(400, 350, 300)))


@cache
def ordered_model() -> Model:
    """Return a model of levels in an order, with rules and a linear term on them."""
    facts = study_facts(**SOLVERS["exact"])
    ward = facts["covariates"]["ward"]
    facts["covariates"]["ward"] = {**ward, "kind": "ordered"}
    return fit_model(Study.from_mapping(facts))


@cache
def outcome_model(kind: str) -> Model:
    """Return a model of another outcome, judged on held-out patients; its numbers are exact."""
    study = make_study(kind, **{**SOLVERS["exact"], "penalty": 0.003}, holdout=0.3, per_site=True)
    return fit_model(study, make_tables(study, sizes=(400, 350, 300)))


@cache
def many_levels_model(kind: str) -> Model:
    """Return a model of eleven levels of hostile and of long names, with terms of some of them."""
    model = outcome_model(kind)
    facts = model.study.model_dump()
    names = [*NAMES, "home", "rehab", "hospice", "another ward", "severe", "dead"]
    facts["outcome"] = {**facts["outcome"], "levels": names}
    study, rng = Study.model_validate(facts), np.random.default_rng(4)
    terms = model.terms
    if study.family.own_terms:
        levels = rng.choice(study.family.names, len(terms))
        terms = tuple(
            replace(term, level=str(level)) for term, level in zip(terms, levels, strict=True)
        )
    baseline = tuple(rng.normal(0, 0.5, study.family.n_baseline).tolist())
    bare = tuple(replace(t, sides=None) if isinstance(t, RuleTerm) else t for t in terms)
    return replace(model, study=study, terms=bare, baseline=baseline, evaluation=None)


@cache
def hostile_unit_model(kind: str) -> Model:
    """Return it under units that would break a careless program."""
    model = outcome_model(kind)
    facts = model.study.model_dump()
    unit = {"count": "exposure_unit"}.get(kind, "unit")
    facts["outcome"] = {**facts["outcome"], unit: QUOTES + SCRIPT + "\\" + HEBREW + EMOJI}
    study = Study.model_validate(facts)
    judged = model.evaluation and replace(model.evaluation, family=study.family)
    return replace(model, study=study, evaluation=judged)


@cache
def hostile_model() -> Model:
    """Return the sample under names that would break a careless page."""
    facts = study_facts(**SOLVERS["exact"])
    old = facts["covariates"]
    new = dict(zip(NAMES, old.values(), strict=True))
    new[HEBREW] = {**new[HEBREW], "labels": [SCRIPT, LONG], "label": HEBREW + SCRIPT}
    new[LONG] = {**new[LONG], "levels": [SCRIPT, QUOTES, EMOJI, LONG], "note": SCRIPT}
    new[SCRIPT] = {**new[SCRIPT], "unit": SCRIPT}
    study = Study.from_mapping(
        {
            **facts,
            "name": SCRIPT + LONG + HEBREW,
            "description": QUOTES + SCRIPT,
            "covariates": new,
            "outcome": {**facts["outcome"], "column": QUOTES + SCRIPT, "label": SCRIPT + EMOJI},
        }
    )
    model = sample_model()
    sites = tuple(SCRIPT + name for name in model.provenance.sites)
    return replace(model, study=study, provenance=replace(model.provenance, sites=sites))


@cache
def empty_model() -> Model:
    """Return a model that no term earned a place in."""
    return replace(sample_model(), terms=())


@cache
def huge_model(n_rules: int = 2000) -> Model:
    """Return a model of many rules, one to three conditions each."""
    model = sample_model()
    rng = np.random.default_rng(3)
    axes = model.grid.axes
    rules: dict[Rule, None] = {}
    while len(rules) < n_rules:
        features = rng.choice(len(axes), rng.integers(1, 4), replace=False)
        conditions = [_draw_condition(int(j), model, rng) for j in features]
        rule = conjoin(conditions, model.grid)
        if rule is not None and len(rule):
            rules[rule] = None
    patients, events = model.provenance.patients, model.provenance.events
    terms = []
    for rule in rules:
        inside = float(rng.integers(10, int(patients) - 10))
        held = float(rng.integers(0, int(min(inside, events))))
        coefficient = float(rng.normal(0, 0.02))
        terms.append(RuleTerm(rule, coefficient, abs(coefficient), inside, held))
    terms.sort(key=lambda term: -term.importance)
    return replace(model, terms=(*terms, *model.linear_terms))


def _draw_condition(feature: int, model: Model, rng: np.random.Generator) -> Condition:
    axis = model.grid.axes[feature]
    if axis.ordered:
        low, high = sorted(rng.choice(axis.n_codes + 1, 2, replace=False).tolist())
        codes = interval(low, high)
    else:
        codes = int(rng.integers(1, 1 << axis.n_codes))
    return Condition(feature, codes | int(rng.integers(2) and not axis.complete) << MISSING)


def draw_patients(model: Model, n_rows: int, seed: int = 0) -> Floats:
    """Return patients with missing values, values at cut-offs and far out of range."""
    rng = np.random.default_rng(seed)
    columns = []
    for name, axis in zip(model.study.names, model.grid.axes, strict=True):
        covariate = model.study.covariates[name]
        if isinstance(covariate, Number):
            low, high = covariate.range
            column = rng.uniform(low, high, n_rows)
            column = np.where(rng.random(n_rows) < 0.3, rng.choice(axis.cutoffs, n_rows), column)
            wide = rng.uniform(low - 3 * (high - low), high + 3 * (high - low), n_rows)
            column = np.where(rng.random(n_rows) < 0.2, wide, column)
        else:
            column = rng.integers(0, len(covariate.coded), n_rows).astype(np.float64)
        if not axis.complete:
            column = np.where(rng.random(n_rows) < 0.25, np.nan, column)
        columns.append(column)
    return np.column_stack(columns)


def as_texts(model: Model, patient: Floats) -> list[str]:
    """Return a patient as somebody would enter it into the calculator."""
    texts = []
    for name, value in zip(model.study.names, patient.tolist(), strict=True):
        if np.isnan(value):
            texts.append("")
        elif isinstance(model.study.covariates[name], Number):
            texts.append(repr(value))
        else:
            texts.append(str(int(value)))
    return texts


def weird_tables(study: Study) -> dict[str, Any]:
    """Return tables of three sites of telling sizes."""
    return make_tables(study, sizes=(173, 139, 131))


@cache
def wide_model() -> Model:
    """Return a model that needs much room: long names and levels, many of them, 25 hospitals."""
    model = huge_model(60)
    facts = study_facts(**SOLVERS["exact"], holdout=0.3, per_site=True)
    old = facts["covariates"]
    names = {name: f"{name}_on_admission_to_the_first_hospital_as_recorded" for name in old}
    facts["covariates"] = {names[name]: _with_long_levels(old[name]) for name in old}
    study = Study.from_mapping(facts)
    judged = evaluated_model()
    assert judged.evaluation is not None
    assert judged.validation is not None
    places = [f"University hospital of town {k}" for k in range(1, 26)]
    of_one = [*judged.evaluation.sites.values()]
    left_out = [*judged.validation.sites.values()]
    return replace(
        model,
        study=study,
        evaluation=replace(
            judged.evaluation, sites={n: of_one[k % 3] for k, n in enumerate(places)}
        ),
        validation=replace(
            judged.validation, sites={n: left_out[k % 3] for k, n in enumerate(places)}
        ),
    )


def _with_long_levels(covariate: dict[str, Any]) -> dict[str, Any]:
    words = "A level that somebody described in many words, not all of them needed: {}"
    if "levels" in covariate:
        return {**covariate, "labels": [words.format(level) for level in covariate["levels"]]}
    return {**covariate, "label": "What this is, " * 6}
