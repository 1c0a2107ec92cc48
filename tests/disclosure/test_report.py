"""The report shows nothing but what the model file says: no record, no site's own number.

What leaves a site is in its ledger; of that, only the model is written down. So: the
page depends on the model file alone, and every number in it is one of the file's or
follows from some of them by a formula that stands here, too.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.engines import inprocess
from fedrulefit.model import LinearTerm, Model
from fedrulefit.model.dependence import strongest_pairs
from fedrulefit.model.evidence import find_effect
from fedrulefit.model.file import model_facts, model_text
from fedrulefit.numerals import format_effect
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.report import render_report
from fedrulefit.report.charts import draw_effects, tabulate_pair
from fedrulefit.report.contents import (
    format_count,
    tell_heterogeneity,
    tell_validation,
)
from fedrulefit.report.curves import draw_calibration, draw_decision
from fedrulefit.report.embedded import island_facts
from fedrulefit.report.forest import draw_forests
from tests.reports import empty_model, evaluated_model, path_model, sample_model, weird_tables
from tests.samples import SOLVERS, make_study, make_tables

MODELS = {
    "sample": sample_model,
    "path": path_model,
    "evaluated": evaluated_model,
    "rounded": lambda: evaluated_model().rounded(),
    "empty": empty_model,
}
NUMBER = re.compile(r"\d+(?:[.\u202f]\d+)*(?:e-?\d+)?")


def visible_text(page: str) -> str:
    """Return what a reader sees, without style, program, data and the checklist's numbers."""
    page = re.sub(r"<(style|script|title)\b.*?</\1>", " ", page, flags=re.S)
    page = re.sub(r'<th scope="row">\d+[a-g]?</th>', " ", page)
    page = re.sub(r"<code.*?</code>", " ", page)
    # Words for a screen reader are read, too.
    spoken = " ".join(re.findall(r'aria-label="(.*?)"', page))
    return html.unescape(re.sub(r"<[^>]+>", " ", page) + " " + spoken).replace("−", "-")


def static_numbers() -> set[str]:
    """Numbers in our own words: the checklist's reference, "largest = 100", the advice to hold
    out a share of 0.2, that fewer than 5 held-out patients are not told of, the digits of numbers
    to compute with."""
    return set(
        NUMBER.findall(
            "100 95 BMJ 2024;385:e078378 BMJ 2023;380:e071018 SHA-256 Apache-2.0 fig. 3 0.4 0.2 5 "
            "0 below 1e-09 rounded to 6 significant digits"
        )
    )


def leaves(facts: Any) -> Iterator[Any]:
    if isinstance(facts, dict):
        yield from itertools.chain(facts, *map(leaves, facts.values()))
    elif isinstance(facts, list):
        yield from itertools.chain.from_iterable(map(leaves, facts))
    else:
        yield facts


def spellings(value: float) -> set[str]:
    """Return a number as the page may round it."""
    forms = {f"{abs(value):.{d}f}" for d in range(5)} | {format_count(abs(value))}
    forms |= {f"{abs(value):.{d}g}" for d in range(2, 7)} | {format_effect(abs(value)), repr(value)}
    return {text for form in forms for text in NUMBER.findall(form)}


def derivable(model: Model) -> set[str]:
    """Return every number that the model file says or implies, as the page may write it."""
    facts = json.loads(model_text(model))
    known: set[str] = set()
    for leaf in leaves(facts):
        if isinstance(leaf, str):
            known.update(NUMBER.findall(leaf))
        elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
            known |= spellings(float(leaf))
    origin = model.provenance
    numbers: list[float] = [
        len(model.terms), len(model.rule_terms), len(model.linear_terms), len(origin.sites),
        len(origin.path), model.study.n_features, 100 * origin.events / origin.patients,
        100 / (1 + math.exp(-model.intercept)),
        len({j for t in model.terms for j in t.features}),
        sum(c.complete for c in model.study.covariates.values()),
    ]  # fmt: skip
    largest = max((t.importance for t in model.terms), default=1.0)
    for term in model.terms:
        numbers += [model.effect(term), 100 * term.importance / largest]
        numbers += [effect for effect in find_effect(model, term) if not math.isnan(effect)]
        known.update(NUMBER.findall(model.describe(term)))
        if isinstance(term, LinearTerm) or term.inside is None:
            continue
        outside = origin.patients - term.inside
        numbers += [100 * term.inside / origin.patients, term.inside, outside]
        if term.events_inside is None:
            continue
        numbers += [100 * term.events_inside / term.inside]
        numbers += [100 * (origin.events - term.events_inside) / outside] if outside else []
    importance = model.variable_importance()
    numbers += (100 * importance / (importance.max() or 1.0)).tolist()
    numbers += [sum(j in t.features for t in model.terms) for j in range(model.study.n_features)]
    known |= {text for number in numbers for text in spellings(float(number))}
    known.update(NUMBER.findall(model.privacy.words()))
    frames = [model.subgroups_frame(by_site=by_site) for by_site in (False, True)]
    cells = [f.select_dtypes("number").to_numpy().ravel().tolist() for f in frames]
    shares = [100 * counts.events / counts.patients for counts in origin.by_site]
    for number in (*itertools.chain(*cells), *shares):
        known |= spellings(number) | spellings(100 * number)
    return known | evaluation_numbers(model) | effect_numbers(model)


def evaluation_numbers(model: Model) -> set[str]:
    """Numbers of the frames, which are functions of the score histograms in the model file."""
    known: set[str] = set()
    words: list[str] = []
    frames: list[Any] = []
    judged, left_out = model.evaluation, model.validation
    if judged is not None:
        drawn = (draw_calibration(judged), draw_decision(judged))
        words += [t.text for curve in drawn for t in (*curve.x_ticks, *curve.y_ticks)]
        words += [judged.words(), tell_heterogeneity(judged)]
        frames += [judged.metrics_frame(), judged.calibration_frame(), judged.decision_frame()]
    if left_out is not None:
        words += [t.text for tree in draw_forests(left_out) for t in tree.x_ticks]
        words += [tell_heterogeneity(left_out), tell_validation(left_out)]
        frames += [left_out.metrics_frame(), left_out.summary_frame()]
    for x in itertools.chain.from_iterable(f.to_numpy().ravel().tolist() for f in frames):
        if isinstance(x, float):
            known |= spellings(x) | spellings(100 * x)
    known |= {text for line in words for text in NUMBER.findall(line)}
    return known


def effect_numbers(model: Model) -> set[str]:
    """Numbers of charts and pair tables, which are drawn from the model alone."""
    charts = draw_effects(model, range(model.study.n_features))
    pairs = [tabulate_pair(model, pair) for pair in strongest_pairs(model, 3)]
    ticks = [t.text for c in charts for t in (*c.x_ticks, *c.y_ticks)]
    marks = [m.effect for c in charts for m in c.marks] + [c.words for c in charts]
    cells = [odds for p in pairs for row in p.cells for odds, _ in row]
    words = [word for p in pairs for word in (*p.rows, *p.columns)]
    return {text for part in (*ticks, *marks, *cells, *words) for text in NUMBER.findall(part)}


SHOWN = {
    "patients": ("TermSums", "total"),
    "with the outcome": ("TermSums", "events"),
    "inside": ("TermSums", "inside"),
    "with the outcome inside": ("TermSums", "events_inside"),
    "importance": ("TermSums", "squares"),
    "objective": ("GapSums", "loss"),
    "certificate": ("GapSums", "conjugate"),
    "coefficients": ("CurvatureSums", "gradient"),
    "cut-offs": ("GridReply", "histogram of age"),
    "rules": ("RulesReply", "rules"),
}
"""What the page shows of patients, and the release that it rests on."""


def test_what_the_page_shows_was_released_by_every_site() -> None:
    study = make_study(**SOLVERS["exact"])
    tables = weird_tables(study)
    ledgers = {name: Ledger() for name in tables}
    model = inprocess.fit(study, tables, make_ledger=ledgers.__getitem__).model
    for ledger in ledgers.values():
        left = {(r.message, r.quantity): r for r in ledger.releases}
        assert [what for what, release in SHOWN.items() if release not in left] == []
        # Counts of the page's own rules left, and of no others.
        assert left["TermSums", "inside"].shape == (len(model.rule_terms),)
    counts = re.findall(r'<span class="name">of ([\d\u202f]+)</span>', render_report(model))
    patients = model.provenance.patients
    inside = [x for t in model.rule_terms for x in (t.inside, patients - t.inside)]
    assert counts == [format_count(x) for x in inside]


JUDGED = {
    **SHOWN,
    "scores of held-out patients": ("ScoreSums", "cases"),
    "their probabilities": ("ScoreSums", "chances"),
    "their Brier score": ("ScoreSums", "squares"),
    "their log-loss": ("ScoreSums", "loss"),
    "held-out patients inside rules": ("SubgroupSums", "inside"),
    "with the outcome inside, of them": ("SubgroupSums", "tallies_inside"),
    "held-out patients inside rules at each site": ("ResultsReply", "held_out"),
    "with the outcome inside at each site, of them": ("ResultsReply", "held_out_events"),
    "hospitals with enough of them": ("WithinSums", "sites"),
    "those with the outcome there": ("WithinSums", "cases"),
    "the areas within hospitals": ("WithinSums", "placed"),
    "their interval": ("WithinSums", "doubts"),
    "hospitals with enough of them in a rule": ("EvidenceSums", "sites"),
    "how those inside differ within hospitals": ("EvidenceSums", "above"),
    "from those outside": ("EvidenceSums", "below"),
    "its interval": ("EvidenceSums", "mixed"),
    "patients of each site": ("ResultsReply", "totals"),
    "inside rules at each site": ("ResultsReply", "inside"),
    "with the outcome inside at each site": ("ResultsReply", "events_inside"),
    "measures of each site": ("ResultsReply", "measures"),
}


@pytest.mark.parametrize("secure", [True, False])
def test_results_that_the_page_shows_were_released_as_the_ledger_says(secure: bool) -> None:
    study = make_study(**SOLVERS["exact"], holdout=0.3, per_site=True)
    tables = make_tables(study, sizes=(400, 350, 300))
    ledgers = {name: Ledger() for name in tables}
    fitted = inprocess.fit(study, tables, make_ledger=ledgers.__getitem__, secure=secure)
    model, page = fitted.model, render_report(fitted.model)
    n_told = sum(bool(term.by_site) for term in model.rule_terms)
    n_held = sum(bool(term.held_out_by_site) for term in model.rule_terms)
    assert n_told > n_held > 0
    for ledger in ledgers.values():
        left = {(r.message, r.quantity): r for r in ledger.releases}
        assert [what for what, release in JUDGED.items() if release not in left] == []
        # Every sum is masked; what is not, is what stands under the site's name.
        openly = {r.message for r in ledger.releases if r.sum_of is None}
        if secure:
            assert openly == {"GridReply", "RulesReply", "ResultsReply"}
        assert left["ResultsReply", "inside"].shape == (n_told,)
        assert left["ResultsReply", "held_out"].shape == (n_held,)
    table = page[page.index('id="site-subgroups-table"') :]
    counts = re.findall(
        r'<span class="name">of ([\d\u202f]+)</span>', table[: table.index("</table>")]
    )
    assert len(counts) == 2 * 3 * n_held
    assert all(int(count.replace("\u202f", "")) % 5 == 0 for count in counts), "rounded"
    # Nothing of a single site is shown where the study does not ask for it.
    silent = inprocess.fit(study.with_settings(per_site=False), tables, secure=secure)
    assert "ResultsReply" not in {r.message for r in silent.ledgers["north"].releases}
    hidden = render_report(silent.model)
    assert "site-subgroups-table" not in hidden
    assert '<th scope="col" class="num"><bdi>north</bdi></th>' in page
    assert '<th scope="col" class="num"><bdi>north</bdi></th>' not in hidden


def test_a_number_that_was_not_released_would_be_noticed() -> None:
    model = evaluated_model()
    page = render_report(model).replace("</main>", "<p>Of north: 123456</p></main>")
    shown = set(NUMBER.findall(visible_text(page)))
    assert shown - derivable(model) - static_numbers() - {"52", "22"} == {"123456"}


@pytest.mark.parametrize("name", MODELS)
def test_every_number_follows_from_the_model_file(name: str) -> None:
    model = MODELS[name]()
    shown = set(NUMBER.findall(visible_text(render_report(model))))
    assert len(shown) > 20
    filled = {"52", "22"}  # Items of the checklist, and those filled in.
    assert shown - derivable(model) - static_numbers() - filled == set()


@pytest.mark.parametrize("name", MODELS)
def test_the_calculator_holds_only_numbers_of_the_model_file(name: str) -> None:
    model = MODELS[name]()
    page = render_report(model)
    island = json.loads(re.search(r'id="island">(.*?)</script>', page, re.S)[1])
    assert island == json.loads(json.dumps(island_facts(model)))
    said = {float(x) for x in leaves(model_facts(model)) if isinstance(x, int | float)}
    codes = set(range(256))
    places = set(range(model.study.n_features))
    for leaf in leaves(island):
        if isinstance(leaf, int | float) and not isinstance(leaf, bool):
            assert leaf in said or leaf in codes | places or leaf == 0.4


def test_the_page_depends_on_the_model_file_alone(tmp_path: Path) -> None:
    model = path_model()
    model.save(tmp_path / "model.json")
    assert render_report(Model.load(tmp_path / "model.json")) == render_report(model)


def test_no_sites_own_number_and_no_patients_value_is_shown() -> None:
    study = make_study(**SOLVERS["exact"])
    tables = weird_tables(study)
    ledgers = {name: Ledger() for name in tables}
    model = inprocess.fit(study, tables, make_ledger=ledgers.__getitem__).model
    page = render_report(model)
    island = page[page.index('id="island"') :]
    text = visible_text(page)
    for name, table in tables.items():
        assert not re.search(rf"\b{len(table.values)}\b", text), name
        assert not any(release.digest in page for release in ledgers[name].releases)
        # Values with two decimals or more are patients', not the study's round numbers.
        column = table.values[:, study.names.index("lactate")]
        odd = {repr(x) for x in column[~np.isnan(column)].tolist() if len(repr(x)) >= 5}
        assert odd
        assert not odd & set(NUMBER.findall(island))
