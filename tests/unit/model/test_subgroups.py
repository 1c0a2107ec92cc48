"""Outcome rates inside and outside rules, of patients that the rules were not learnt from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

from fedrulefit import plot
from fedrulefit.cli.app import app
from fedrulefit.core.grid import encode
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.engines import inprocess
from fedrulefit.errors import FedRuleFitError, ModelFileError
from fedrulefit.model import Counts, Model
from fedrulefit.model.file import load_model, model_facts
from fedrulefit.model.file.reading import build_model
from fedrulefit.model.publish import round_model
from fedrulefit.model.subgroups import tell_patients
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.protocol.dealing import Dealer
from fedrulefit.report import render_report
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.oracles import fires
from tests.reports import evaluated_model, sample_model
from tests.samples import SOLVERS, fit_model, make_study, make_tables, study_facts

ROUNDING = Rounding(5, 10)
STUDY = make_study(**SOLVERS["exact"], holdout=0.3, per_site=True)
TABLES = make_tables(STUDY, sizes=(400, 350, 300))
"""Of :func:`evaluated_model`."""


def held_out(study: Study, tables: dict[str, Table]) -> dict[str, Table]:
    """Return who each site holds out."""
    return {
        site: table.take(Dealer(study, site, None, 0).hold_out(table))
        for site, table in tables.items()
    }


def count(model: Model, rule: Any, table: Table) -> Any:
    """Count patients inside and outside a rule, with and without the outcome, one by one."""
    cells = {(side, ill): 0.0 for side in (True, False) for ill in (True, False)}
    hits = fires(rule, encode(table.values, model.grid))
    assert table.outcome is not None
    for hit, y, w in zip(hits, table.outcome, table.weights, strict=True):
        cells[bool(hit), bool(y)] += w
    return cells


def pool(tables: Any) -> Table:
    """Return the patients of all sites."""
    parts = [(t.values, t.outcome, t.weights) for t in tables.values()]
    return Table(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def test_rates_are_those_of_the_patients_who_were_held_out() -> None:
    """They were of those that the rules were learnt from, and nothing said so."""
    model, everybody = evaluated_model(), pool(held_out(STUDY, TABLES))
    frame = model.subgroups_frame()
    assert set(frame["among"]) == {"held-out patients"}
    n_told = 0
    for term, row in zip(model.rule_terms, frame.to_dict("records"), strict=True):
        cells = count(model, term.rule, everybody)
        inside = cells[True, True] + cells[True, False]
        outside = cells[False, True] + cells[False, False]
        if min(cells.values()) < MIN_COUNT:
            assert term.held_out is None
            assert np.isnan([row["inside"], row["rate_outside"], row["difference"]]).all()
            continue
        n_told += 1
        assert (row["inside"], row["outside"]) == (inside, outside)
        assert row["rate_inside"] == pytest.approx(cells[True, True] / inside)
        assert row["rate_outside"] == pytest.approx(cells[False, True] / outside)
        assert row["difference"] == row["rate_inside"] - row["rate_outside"]
        for side in ("inside", "outside"):
            assert row[f"low_{side}"] < row[f"rate_{side}"] < row[f"high_{side}"]
        assert row["low_difference"] < row["difference"] < row["high_difference"]
    assert n_told > 3


def test_a_rule_of_few_held_out_patients_is_not_told() -> None:
    model = evaluated_model()
    assert model.evaluation is not None
    whole = model.evaluation.total
    for inside, events, told in (
        (60, 30, True), (60, 4, False), (60, 56, False), (5, 5, False),
        (whole.patients - 10, whole.events - 3, False), (10, 5, True),
    ):  # fmt: skip
        changed = change_first(model, held_out=Counts(inside, events))
        assert (round_model(changed, EXACT).rule_terms[0].held_out is not None) == told


def change_first(model: Model, **changes: Any) -> Model:
    """Return the model with its first rule changed."""
    first = model.rule_terms[0]
    changed = replace(first, **changes)
    return replace(model, terms=tuple(changed if t is first else t for t in model.terms))


def test_masks_do_not_change_them_and_no_site_is_told_of() -> None:
    study = STUDY.with_settings(per_site=False)
    plain, secure = (inprocess.fit(study, TABLES, secure=on).model for on in (False, True))
    found = [t.held_out for t in plain.rule_terms]
    assert any(found)
    assert found == [t.held_out for t in secure.rule_terms]
    assert found == [t.held_out for t in evaluated_model().rule_terms]
    assert not any(t.held_out_by_site for t in secure.rule_terms)


def test_weights_count() -> None:
    facts = study_facts(**SOLVERS["exact"], holdout=0.3)
    study = Study.from_mapping({**facts, "weight": {"column": "w", "max": 2.0}})
    rng = np.random.default_rng(5)
    tables = {
        site: Table(t.values, t.outcome, rng.choice([0.0, 0.5, 1.25, 2.0], t.n_rows))
        for site, t in TABLES.items()
    }
    model, everybody = fit_model(study, tables), pool(held_out(study, tables))
    told = [t for t in model.rule_terms if t.held_out]
    assert told
    for term in told:
        cells = count(model, term.rule, everybody)
        inside = cells[True, True] + cells[True, False]
        assert term.held_out == pytest.approx((inside, cells[True, True]))
        assert min(cells.values()) >= MIN_COUNT * 2.0


def test_by_site_they_are_those_of_each_hospital() -> None:
    model = evaluated_model()
    judged = held_out(STUDY, TABLES)
    n_told = 0
    for term in model.rule_terms:
        cells = [count(model, term.rule, table) for table in judged.values()]
        smallest = min(min(own.values()) for own in cells)
        assert bool(term.held_out_by_site) == (smallest >= MIN_COUNT), "of all sites or none"
        for told, own in zip(term.held_out_by_site, cells, strict=False):
            assert told.patients % MIN_COUNT == told.events % MIN_COUNT == 0
            assert abs(told.patients - own[True, True] - own[True, False]) <= MIN_COUNT / 2
            assert abs(told.events - own[True, True]) <= MIN_COUNT / 2
        n_told += bool(term.held_out_by_site)
    frame = model.subgroups_frame(by_site=True)
    assert len(frame) == 3 * n_told > 0
    assert set(frame["among"]) == {"held-out patients"}
    assert frame["low_inside"].isna().all(), "how coarse a site's counts are, it alone knows"


# --- Training rates look larger than they are ---------------------------------------------------


def test_without_a_signal_held_out_rates_do_not_differ_and_training_rates_do() -> None:
    """Held-out differences, in the direction that the model learnt, are as often too small.

    Two in five patients of every site have the outcome, drawn without a look at them. Given the
    model, a site's held-out outcomes may then stand in any order: the sum of the differences has
    mean 0 and the variance of a permutation. Beyond five of its standard deviations it is less
    than once in 10⁶. That of training patients is far beyond: rules were chosen for it.
    """
    rng = np.random.default_rng(11)
    study = make_study(**{**SOLVERS["exact"], "penalty": 0.001}, holdout=0.4)
    tables = {
        site: Table(t.values, rng.permuted(np.arange(t.n_rows) % 5 < 2).astype(float), t.weights)
        for site, t in make_tables(study, sizes=(900, 800, 700)).items()
    }
    model = fit_model(study, tables)
    signs = np.sign([term.coefficient for term in model.rule_terms])
    frames = {among: model.subgroups_frame(patients=among) for among in ("training", "held-out")}
    told = frames["held-out"]["difference"].notna().to_numpy()
    assert told.sum() > 20
    found = {name: signs[told] @ frame["difference"][told] for name, frame in frames.items()}
    judged = held_out(study, tables)
    shown = [term for term, kept in zip(model.rule_terms, told, strict=True) if kept]
    hits = np.array([fires(term.rule, encode(pool(judged).values, model.grid)) for term in shown])
    n_inside, n_outside = (part.sum(axis=1, keepdims=True) for part in (hits, ~hits))
    lever = signs[told] @ np.where(hits, 1 / n_inside, -1 / n_outside)
    assert found["held-out"] == pytest.approx(lever @ pool(judged).outcome)
    places = np.split(lever, np.cumsum([t.n_rows for t in judged.values()])[:-1])
    variance = sum(part.var(ddof=1) * len(part) * 0.4 * 0.6 for part in places)
    assert [t.outcome.mean() for t in judged.values()] == [0.4] * 3
    assert abs(found["held-out"]) < 5 * np.sqrt(variance)
    assert found["training"] > 5 * np.sqrt(variance)


# --- What is published --------------------------------------------------------------------------


def test_published_counts_are_rounded_and_none_is_small() -> None:
    exact, everybody = evaluated_model(), pool(held_out(STUDY, TABLES))
    model = round_model(exact, ROUNDING)
    n_told = 0
    for term in model.rule_terms:
        cells = count(exact, term.rule, everybody)
        assert (term.held_out is not None) == (min(cells.values()) >= 10)
        if term.held_out is not None:
            inside = cells[True, True] + cells[True, False]
            expected = ROUNDING.count(inside), ROUNDING.count(cells[True, True])
            assert term.held_out == expected
            n_told += 1
    assert n_told > 3
    frame = model.subgroups_frame()
    known = frame.dropna(subset="difference")
    assert (known[["inside", "outside"]] % 5 == 0).all(axis=None)
    assert any(t.held_out_by_site for t in model.rule_terms)
    assert round_model(model, ROUNDING).terms == model.terms, "once more changes nothing"


def test_a_model_that_judged_nobody_tells_no_held_out_counts() -> None:
    model = replace(evaluated_model(), evaluation=None)
    for rounding in (EXACT, ROUNDING):
        told = round_model(model, rounding).rule_terms
        assert not any(t.held_out or t.held_out_by_site for t in told)
    coarse = round_model(evaluated_model(), Rounding(5, 200))
    assert coarse.evaluation is None
    assert not any(t.held_out or t.held_out_by_site for t in coarse.rule_terms)


def test_the_file_keeps_them(tmp_path: Any) -> None:
    for model in (evaluated_model(), evaluated_model().rounded()):
        model.save(tmp_path / "model.json")
        again = load_model(tmp_path / "model.json")
        assert again.terms == model.terms
        assert again.subgroups_frame().equals(model.subgroups_frame())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"held_out": [40, 41]}, "more patients than the whole"),
        ({"held_out": [4000, 41]}, "more patients than the whole"),
        ({"held_out_by_site": [[40, 20], [40, 41], [40, 20]]}, "more patients than the whole"),
        ({"held_out_by_site": [[40, 20], [400, 20], [40, 20]]}, "more patients than the whole"),
        ({"held_out_by_site": [[40, 20]]}, "other sites than were judged"),
    ],
)
def test_a_file_whose_held_out_counts_do_not_fit_is_refused(changes: Any, why: str) -> None:
    facts = model_facts(evaluated_model())
    rule = next(term for term in facts["terms"] if term["kind"] == "rule")
    rule |= changes
    with pytest.raises(ModelFileError, match=why):
        build_model(facts)


def test_a_file_that_judged_nobody_counts_no_held_out_patients() -> None:
    facts = {**model_facts(evaluated_model()), "evaluation": None}
    with pytest.raises(ModelFileError, match="none were judged"):
        build_model(facts)


# --- Of whom they are is always said ------------------------------------------------------------

CAUTION = "Patients the rules were learnt from: differences look larger than they are."


def test_training_rates_are_told_under_their_name_only() -> None:
    model = evaluated_model()
    frame = model.subgroups_frame(patients="training")
    assert set(frame["among"]) == {"training patients"}
    assert frame[["low_inside", "high_outside", "low_difference"]].isna().all(axis=None)
    assert frame["inside"].tolist() == [term.inside for term in model.rule_terms]
    assert tell_patients(model, "training") == CAUTION
    of_sites = model.subgroups_frame(patients="training", by_site=True)
    assert set(of_sites["among"]) == {"training patients"}


def test_without_a_holdout_there_are_training_rates_and_advice() -> None:
    model = sample_model()
    assert set(model.subgroups_frame()["among"]) == {"training patients"}
    told = tell_patients(model, "training")
    assert told.startswith(CAUTION)
    assert "holdout = 0.2" in told
    for by_site in (False, True):
        with pytest.raises(FedRuleFitError, match=r"holdout = 0.2.*patients='training'"):
            model.subgroups_frame(patients="held-out", by_site=by_site)
    few = replace(model, study=model.study.with_settings(holdout=0.2))
    assert "too few were held out" in tell_patients(few, "training")


def test_the_page_says_of_whom_its_rates_are() -> None:
    page = render_report(evaluated_model())
    assert "inside and outside each rule: held-out patients</caption>" in page
    assert "Held-out patients: the rules were not learnt from them." in page
    assert "fewer than 5 held-out patients" in page
    assert CAUTION not in page
    page = render_report(sample_model())
    assert "inside and outside each rule: training patients</caption>" in page
    assert f'<p class="warning">{CAUTION} No patients were held out' in page


def test_the_command_says_of_whom_its_rates_are(tmp_path: Any) -> None:
    evaluated_model().save(tmp_path / "judged.json")
    sample_model().save(tmp_path / "plain.json")

    def run(name: str, *options: str) -> str:
        done = CliRunner().invoke(app, ["rules", str(tmp_path / name), "--subgroups", *options])
        return " ".join(done.output.split())

    judged = run("judged.json")
    assert "died inside and outside rules: held-out patients Held-out patients: the" in judged
    assert "95 % interval" in judged
    training = run("judged.json", "--patients", "training")
    assert f"training patients {CAUTION}" in training
    assert "95 % interval" not in training
    assert CAUTION in run("plain.json")
    assert "No patients were held out" in run("plain.json", "--patients", "held-out")


def test_the_figure_says_of_whom_its_rates_are() -> None:
    judged = plot.subgroups(evaluated_model(), min_support=0.0)
    assert judged.get_title() == "Subgroups: held-out patients"
    texts = [text.get_text() for text in judged.get_legend().get_texts()]
    assert {"95 % interval", "each site"} <= {*texts}
    for ax in (
        plot.subgroups(evaluated_model(), min_support=0.0, patients="training"),
        plot.subgroups(sample_model(), min_support=0.0),
    ):
        assert "training patients" in ax.get_title()
        assert "larger than they are" in ax.get_title()
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert "95 % interval" not in texts
    plt.close("all")


def test_sites_of_other_patients_are_not_drawn_beside() -> None:
    model = evaluated_model()
    terms = tuple(
        replace(t, held_out_by_site=()) if t in model.rule_terms else t for t in model.terms
    )
    ax = plot.subgroups(replace(model, terms=terms), min_support=0.0)
    assert "each site" not in [text.get_text() for text in ax.get_legend().get_texts()]
    plt.close("all")
