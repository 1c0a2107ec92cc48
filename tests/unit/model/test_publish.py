"""What is published is rounded, hidden where it is small, and said to be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

from fedrulefit import plot
from fedrulefit.cli.app import app
from fedrulefit.core.grid import encode
from fedrulefit.core.rounding import EXACT, Rounding, round_digits
from fedrulefit.engines import inprocess
from fedrulefit.errors import FedRuleFitError, ProtocolError
from fedrulefit.model import Counts, Model, RuleTerm
from fedrulefit.model.file import load_model, model_facts
from fedrulefit.model.publish import (
    BEFORE_ROUNDING,
    bound_move,
    check_rounding,
    find_step,
    round_model,
    tell_changes,
    warn_exact,
)
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.report import render_report
from fedrulefit.report.contents import NOT_TOLD, list_terms, tell_model
from fedrulefit.report.subgroups import tabulate_subgroups
from fedrulefit.study import Study
from tests.oracles import fires
from tests.reports import evaluated_model, path_model, sample_model
from tests.samples import (
    SOLVERS,
    fit_model,
    make_sites,
    make_study,
    make_tables,
    record,
    study_facts,
)

matplotlib.use("Agg")
GOLDEN = Path(__file__).parents[2] / "golden"
ROUNDING = Rounding(5, 10)


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def weakest(model: Model, **changes: Any) -> Model:
    """Return the model with changed counts of its first rule."""
    first = model.rule_terms[0]
    terms = tuple(replace(t, **changes) if t is first else t for t in model.terms)
    return replace(model, terms=terms)


def rule_of(model: Model, like: Model) -> RuleTerm:
    """Return the rule that `like` has first."""
    return next(t for t in model.rule_terms if t.rule == like.rule_terms[0].rule)


# --- A step ----------------------------------------------------------------------------------


@pytest.mark.parametrize("information", [0.7, 3.0, 16.0, 167.0, 4e4])
def test_a_step_is_one_patient_or_two(information: float) -> None:
    step = find_step(0.5, information)
    assert 1 <= step * information <= 2.5 or step == pytest.approx(5e-5)
    first = f"{step:.0e}"[0]
    assert first in "125"
    assert step >= 0.5e-4, "four digits at most"


# --- A model -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sample_model, path_model, evaluated_model])
def test_what_is_published_is_near_to_what_was_learnt(make: Any) -> None:
    exact = make()
    rounded = round_model(exact, ROUNDING)
    assert rounded.rounding == ROUNDING
    assert exact.rounding == EXACT
    assert abs(rounded.provenance.patients - exact.provenance.patients) <= 2.5
    assert {t.rule for t in rounded.rule_terms} <= {t.rule for t in exact.rule_terms}
    for term in rounded.rule_terms:
        was = next(t for t in exact.rule_terms if t.rule == term.rule)
        assert was.inside is not None
        assert term.coefficient == pytest.approx(was.coefficient, abs=0.25)
        if term.inside is not None:
            assert term.inside % 5 == 0
            assert abs(term.inside - was.inside) <= 2.5
            assert term.importance == pytest.approx(was.importance, rel=0.4)
        assert float(f"{term.importance:.3g}") == term.importance
    assert list(rounded.terms) == sorted(rounded.terms, key=lambda t: -t.importance)
    values = make_tables(make_study(), (400,))["north"].values
    assert np.abs(rounded.predict_proba(values) - exact.predict_proba(values)).mean() < 0.03
    assert round_model(exact, EXACT).terms == exact.terms
    assert model_facts(exact.rounded()) == model_facts(rounded)


def test_a_path_keeps_its_shape() -> None:
    exact = path_model()
    origin = round_model(exact, ROUNDING).provenance
    penalties = [point.penalty for point in origin.path]
    assert round_digits(penalties[0], 2) == penalties[0]
    assert penalties == sorted(penalties, reverse=True)
    chosen = [p.penalty for p in exact.provenance.path].index(exact.provenance.penalty)
    assert origin.penalty == penalties[chosen]
    given = round_model(sample_model(), ROUNDING).provenance
    assert given.penalty == sample_model().study.settings.penalty, "everybody knows it"


@pytest.mark.parametrize("kind", ["number", "count"])
def test_losses_of_numbers_keep_digits_that_tell_them_apart(kind: str) -> None:
    """They are shares of the public range: a step of 1/N made stairs of the path."""
    exact = fit_model(make_study(kind, **SOLVERS["cv"]))
    origin, told = exact.provenance, round_model(exact, ROUNDING).provenance
    assert max(point.deviance for point in origin.path) < 0.2
    for point, was in zip(told.path, origin.path, strict=True):
        assert abs(point.deviance - was.deviance) <= 5 * was.deviance / origin.patients
        assert point.deviance == round_digits(point.deviance, 4), "and no more"
    assert len({point.deviance for point in told.path}) > len(told.path) / 2
    assert told.objective == pytest.approx(origin.objective, rel=5 / origin.patients)


def test_rounding_again_changes_nothing_and_never_refines() -> None:
    once = round_model(evaluated_model(), ROUNDING)
    again = round_model(once, Rounding(1, 0))
    assert again.rounding == ROUNDING
    assert [t.coefficient for t in again.terms] == [t.coefficient for t in once.terms]
    assert again.provenance == once.provenance
    assert round_model(once, Rounding(10, 20)).rounding == Rounding(10, 20)


@pytest.mark.parametrize(
    ("changes", "inside_is_told", "events_are_told"),
    [
        ({"inside": 9.0, "events_inside": 4.0}, False, False),
        ({"inside": 145.0, "events_inside": 60.0}, False, False),
        ({"inside": 60.0, "events_inside": 9.0}, True, False),
        ({"inside": 60.0, "events_inside": 51.0}, True, False),
        ({"inside": 60.0, "events_inside": 30.0}, True, True),
    ],
)
def test_small_cells_are_not_told(
    changes: dict[str, float], inside_is_told: bool, events_are_told: bool
) -> None:
    model = sample_model()
    model = replace(model, provenance=replace(model.provenance, patients=150.0, events=75.0))
    told = rule_of(round_model(weakest(model, coefficient=2.0, **changes), ROUNDING), model)
    assert (told.inside is not None) == inside_is_told
    assert (told.events_inside is not None) == events_are_told


def test_few_outcomes_and_few_patients() -> None:
    model = sample_model()
    few = replace(model, provenance=replace(model.provenance, events=9.0))
    assert round_model(few, ROUNDING).provenance.events is None
    healthy = replace(model, provenance=replace(model.provenance, patients=150.0, events=141.0))
    assert round_model(healthy, ROUNDING).provenance.events is None
    tiny = replace(model, provenance=replace(model.provenance, patients=9.0, events=4.0))
    with pytest.raises(FedRuleFitError, match="fewer than 10 patients"):
        round_model(tiny, ROUNDING)
    with pytest.raises(FedRuleFitError, match="fewer than 500 patients"):
        round_model(model, Rounding(500, 0))


def test_results_of_sites_go_where_one_cell_is_small() -> None:
    model = evaluated_model()
    assert model.provenance.by_site
    kept = round_model(model, Rounding(10, 10))
    assert kept.provenance.by_site
    assert all(count % 10 == 0 for counts in kept.provenance.by_site for count in counts)
    few = replace(model.provenance, by_site=(Counts(100, 5), *model.provenance.by_site[1:]))
    gone = round_model(replace(model, provenance=few), ROUNDING)
    assert not gone.provenance.by_site
    assert not any(term.by_site for term in gone.rule_terms)


def test_weights_make_all_of_it_coarser() -> None:
    """One patient of the largest weight is what must not show."""
    facts = study_facts(**SOLVERS["exact"])
    study = Study.from_mapping({**facts, "weight": {"column": "w", "max": 2.0}})
    model = replace(sample_model(), study=study)
    rounded = round_model(model, ROUNDING)
    counts = [t.inside for t in rounded.rule_terms if t.inside is not None]
    assert counts
    assert all(count % 10 == 0 and count >= 20 for count in counts)


@pytest.mark.parametrize("rounding", [Rounding(5, 0), Rounding(1, 3), Rounding(100, 0)])
def test_any_rounding_can_be_asked_for(rounding: Rounding) -> None:
    model = weakest(sample_model(), coefficient=5.0, inside=1.0, events_inside=0.0)
    rounded = round_model(model, rounding)
    assert rounded.terms
    assert all(math.isfinite(term.importance) for term in rounded.terms)


def test_a_term_that_rounds_to_nothing_leaves() -> None:
    model = weakest(sample_model(), coefficient=1e-4)
    rounded = round_model(model, ROUNDING)
    assert all(t.rule != model.rule_terms[0].rule for t in rounded.rule_terms)


@pytest.mark.parametrize("make", [sample_model, path_model, evaluated_model])
def test_no_patient_moves_further_than_is_told(make: Any) -> None:
    exact = make()
    rounded = round_model(exact, Rounding(5, 40))
    values = make_tables(make_study(), (400,))["north"].values
    moved = np.abs(rounded.decision_function(values) - exact.decision_function(values)).max()
    most = bound_move(exact, rounded)
    assert 0.2 * most < moved <= most
    risks = np.abs(rounded.predict_proba(values) - exact.predict_proba(values)).max()
    assert risks <= math.tanh(most / 4)
    assert bound_move(exact, exact) == 0


def test_rounding_says_what_it_changed(tmp_path: Path) -> None:
    """Three rules left a model, and nobody was told."""
    exact = weakest(evaluated_model(), coefficient=1e-4)
    exact.save(tmp_path / "model.json")
    done = run("round", tmp_path / "model.json", "-o", tmp_path / "rounded.json")
    rounded = load_model(tmp_path / "rounded.json")
    lost = len(exact.rule_terms) - len(rounded.rule_terms)
    assert lost > 0
    words = " ".join(done.output.split())
    assert f"{lost} rule{'s' * (lost > 1)} left the model: their coefficients rounded to 0" in words
    assert "coefficients coarser" in words, "λ was given"
    assert "percentage points" in words
    assert BEFORE_ROUNDING in words
    shown = " ".join(run("rules", tmp_path / "rounded.json").output.split())
    assert "Before rounding, the objective was" in shown
    assert "at most 0.0e+00" not in shown
    assert "coefficients and λ coarser" in tell_changes(path_model(), path_model().rounded())[1]
    assert tell_changes(rounded, round_model(rounded, ROUNDING)) == ["No coefficient changed."]


# --- Everything that shows a model -----------------------------------------------------------


def hidden_model() -> Model:
    """Return a rounded model that does not tell the counts of its first rule."""
    model = sample_model()
    rare = weakest(model, coefficient=2.0, inside=4.0, events_inside=2.0)
    rounded = round_model(rare, ROUNDING)
    first = rule_of(rounded, model)
    others = tuple(t for t in rounded.terms if t is not first)
    return replace(rounded, terms=(first, *others))


def test_what_is_not_told_is_said_to_be(tmp_path: Path) -> None:
    model = hidden_model()
    first = model.rule_terms[0]
    assert first.inside is None
    assert math.isnan(model.support(first))
    assert first not in model.top_rules(min_support=0.001)
    frame = model.subgroups_frame()
    assert frame.loc[0, ["inside", "rate_inside", "outside", "rate_outside"]].isna().all()
    assert tabulate_subgroups(model).rows[0].inside.patients == NOT_TOLD
    assert list_terms(model)[0].support == -1
    page = render_report(model)
    assert "fewer than 10 patients are inside or outside the rule" in page
    assert "nan" not in page[page.index('id="rules-table"') : page.index('id="h-variables"')]
    model.save(tmp_path / "model.json")
    assert model_facts(load_model(tmp_path / "model.json")) == model_facts(model)
    for options in ((), ("--subgroups",)):
        shown = run("rules", tmp_path / "model.json", *options)
        assert shown.exit_code == 0
        assert "too few" in shown.output
        assert "nan" not in shown.output
    words = [text.get_text() for text in plot.subgroups(model, min_support=0).texts]
    assert "too few to tell" in words


def test_a_model_that_does_not_tell_its_outcomes_is_shown(tmp_path: Path) -> None:
    model = sample_model()
    few = round_model(replace(model, provenance=replace(model.provenance, events=9.0)), ROUNDING)
    assert math.isnan(few.rate)
    assert "too few of them had, or had not, the outcome" in " ".join(tell_model(few))
    assert render_report(few)
    few.save(tmp_path / "model.json")
    assert "died in too few to tell" in run("rules", tmp_path / "model.json").output


def test_dependence_takes_an_untold_support_as_nearly_nobody_or_nearly_all() -> None:
    model = hidden_model()
    wide = next(t for t in model.rule_terms if len(t.features) > 1)
    for support in (None, wide.inside):
        changed = replace(wide, inside=support)
        terms = tuple(changed if t is wide else t for t in model.terms)
        name = model.study.names[wide.features[0]]
        frame = replace(model, terms=terms).partial_dependence(name)
        assert frame["log_odds"].notna().all()
        assert (frame["log_odds"] <= frame["highest"] + 1e-9).all()
        assert (frame["log_odds"] >= frame["lowest"] - 1e-9).all()


def test_few_held_out_patients_stand_in_one_group() -> None:
    """Then there is no threshold to decide at, and neither page nor figure draws one."""
    model = round_model(replace(evaluated_model(), validation=None), Rounding(20, 60))
    assert model.evaluation is not None
    assert len(model.evaluation.overall.edges) == 0
    assert len(model.evaluation.calibration_frame()) == 1
    page = render_report(model)
    performance = page[page.index('<section id="performance"') :]
    assert "Treat from a risk of" not in performance
    assert plot.decision(model).texts
    assert plot.calibration(model).lines


# --- Files without a rounding, and with exact counts -----------------------------------------


def test_a_file_made_before_is_refused_with_the_way_to_round_it(tmp_path: Path) -> None:
    old = GOLDEN / "model-v1.json"
    for command in (
        ("report", old, "-o", tmp_path / "report.html"),
        ("export", old, "--sql", "duckdb", "-o", tmp_path / "score.sql"),
        ("export", old, "--onnx", "-o", tmp_path / "model.onnx"),
    ):
        refused = run(*command)
        assert refused.exit_code != 0
        assert "fedrulefit round FILE -o rounded.json" in " ".join(refused.output.split())
    assert not list(tmp_path.iterdir())
    with pytest.raises(FedRuleFitError, match="fedrulefit round"):
        check_rounding(load_model(old))
    done = run("round", old, "-o", tmp_path / "rounded.json", "--multiple", 10, "--smallest", 11)
    assert done.exit_code == 0, done.output
    assert load_model(tmp_path / "rounded.json").rounding == Rounding(10, 11)
    done = run("report", tmp_path / "rounded.json", "-o", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert "Warning" not in done.output


def test_exact_counts_of_several_sites_are_warned_of(tmp_path: Path) -> None:
    model = sample_model()
    assert "counts are exact" in warn_exact(model)
    assert not warn_exact(round_model(model, ROUNDING))
    alone = replace(model, provenance=replace(model.provenance, sites=("north",)))
    assert not warn_exact(alone)
    model.save(tmp_path / "model.json")
    for command in (
        ("report", tmp_path / "model.json", "-o", tmp_path / "report.html"),
        ("export", tmp_path / "model.json", "--sql", "duckdb", "-o", tmp_path / "score.sql"),
        ("rules", tmp_path / "model.json"),
    ):
        done = run(*command)
        assert done.exit_code == 0
        assert "counts are exact" in done.output
    assert "counts are exact" in render_report(model)


# --- Between hospitals ------------------------------------------------------------------------


def test_the_coarsest_policy_holds_and_the_published_model_is_judged() -> None:
    study = make_study(**SOLVERS["exact"], holdout=0.3)
    policies = {"north": (1, 0), "south": (5, 3), "west": (2, 11)}
    sites = make_sites(
        study,
        make_tables(study, (300, 200, 150)),
        secure=False,
        each=lambda name: {
            "policy": OPEN.model_copy(
                update=dict(zip(("round_counts", "min_published"), policies[name], strict=True))
            )
        },
    )
    model, seen = record(Coordinator(study, list(sites)), sites)
    assert model.rounding == Rounding(5, 11)
    (asked,) = {tuple(r.coef.tolist()) for _, r, _ in seen if isinstance(r, m.EvaluateRequest)}
    told = {model.intercept, 0.0, *(term.coefficient for term in model.terms)}
    assert set(asked) <= told
    exact = inprocess.fit(study, make_tables(study, (300, 200, 150))).model
    assert exact.rounding == EXACT
    assert len(repr(exact.intercept)) > 10


@pytest.mark.parametrize("wrong", [{"round_counts": 0}, {"min_published": -1}])
def test_a_site_that_asks_for_nonsense_is_refused(wrong: dict[str, int]) -> None:
    study = make_study(**SOLVERS["exact"])
    coordinator = Coordinator(study, ["north"])
    requests = coordinator.step()
    assert not isinstance(requests, Model)
    facts = {"software": "x", "min_votes": 0, "round_counts": 5, "min_published": 10, **wrong}
    with pytest.raises(ProtocolError, match="'north'"):
        coordinator.step({"north": m.JoinReply(requests["north"].header, **facts)})


def test_policies_default_to_multiples_of_five_and_ten_patients() -> None:
    policy = Policy()
    assert (policy.round_counts, policy.min_published) == (5, 10)
    assert any("multiples of 5" in line for line in policy.words())
    assert (OPEN.round_counts, OPEN.min_published) == (1, 0)


def test_rounded_counts_are_those_of_the_patients() -> None:
    study = make_study(**SOLVERS["exact"])
    tables = make_tables(study)
    model = round_model(fit_model(study, tables), ROUNDING)
    codes = np.concatenate([encode(table.values, model.grid) for table in tables.values()])
    for term in model.rule_terms:
        inside = float(fires(term.rule, codes).sum())
        told = min(inside, len(codes) - inside) >= 10
        assert term.inside == (ROUNDING.count(inside) if told else None)
