"""Negative binomial counts through a whole run: θ and coefficients together, or none."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.curvature import CurvatureSums
from fedrulefit.core.dispersion import STEPS_PER_OCTAVE, DispersionSums, stand_on
from fedrulefit.core.families.count import Count
from fedrulefit.core.families.count_losses import log_gain
from fedrulefit.engines.inprocess import fit
from fedrulefit.errors import FitError, ModelFileError
from fedrulefit.model import Model
from fedrulefit.model.file import build_model, model_facts
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.retrace import Retracer
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.wire import to_bytes
from fedrulefit.report import render_report
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.testing.samples import add_outcomes
from tests.samples import (
    SOLVERS,
    make_frame,
    make_sites,
    make_study,
    make_tables,
    record,
)

KIND = "count, negative binomial"
SIZES = (300, 250, 200)


def study_of(solver: str = "exact", outcome: str = KIND, **settings: Any) -> Study:
    return make_study(outcome, **{**SOLVERS[solver], "penalty": 0.004, **settings})


def with_poisson(study: Study) -> Study:
    facts = study.model_dump()
    return Study.from_mapping({**facts, "outcome": {**facts["outcome"], "dispersion": "poisson"}})


@cache
def run(solver: str) -> tuple[Model, list[Any]]:
    """Return the model of a run, and what was asked of each site and answered."""
    study = study_of(solver, **({"penalty": "cv"} if solver == "cv" else {}))
    sites = make_sites(study, make_tables(study, SIZES), secure=False)
    return record(Coordinator(study, list(sites)), sites)


def patients() -> Any:
    """Return all patients of the run."""
    return [add_outcomes(make_frame(n, k), k) for k, n in enumerate(SIZES)]


def counts_and_means(model: Model) -> tuple[Any, Any]:
    y, mean = [], []
    for frame in patients():
        outcome = np.column_stack([frame["contacts"], frame["months"]]).astype(float)
        family = model.family
        assert isinstance(family, Count)
        u, e = family.scale(outcome)
        y.append(u * family.most)
        mean.append(family.most * e * np.exp(model.decision_function(frame)))
    return np.concatenate(y), np.concatenate(mean)


@pytest.mark.parametrize("solver", ["exact", "cv"])
def test_theta_has_the_highest_likelihood_at_the_model_s_own_means(solver: str) -> None:
    model, _ = run(solver)
    y, mean = counts_and_means(model)
    assert model.dispersion is not None
    around = [model.dispersion * 2 ** (k / 32) for k in range(-16, 17)]
    best = int(np.argmax([log_gain(y, mean, a).sum() for a in around]))
    assert abs(best - 16) <= 1
    assert 0.3 < model.theta < 2.5
    assert model.provenance.certificate.residual <= 1e-8


def test_no_other_model_nearby_is_likelier() -> None:
    """The penalised likelihood of both together has its highest place at the model."""
    model, _ = run("exact")
    y, mean = counts_and_means(model)
    assert model.dispersion is not None
    base = log_gain(y, mean, model.dispersion).sum() - (mean - y * np.log(mean)).sum()
    for scale in (0.99, 1.01):  # the intercept has no penalty
        other = log_gain(y, scale * mean, model.dispersion).sum()
        other -= (scale * mean - y * np.log(scale * mean)).sum()
        assert other < base


def test_what_is_asked_and_when() -> None:
    """Poisson's fit, θ, the fit with it, and both in turns until θ stays."""
    _, seen = run("exact")
    kinds = [type(request) for site, request, _ in seen if site == "north"]
    fitting = [k for k in kinds if k.turn == m.Turn.FIT]
    shared = [k for k, kind in enumerate(fitting) if kind is m.ShareDispersionRequest]
    assert fitting[0] is m.CurvatureRequest
    assert fitting[shared[0] - 1] is m.DispersionRequest
    assert fitting[shared[0] + 1] is m.CurvatureRequest
    assert fitting[-1] is m.DispersionRequest, "the last question finds that θ stays"
    assert 2 <= len(shared) <= 5
    assert fitting.count(m.DispersionRequest) <= 25


def test_what_was_handed_out_is_the_model_s() -> None:
    model, seen = run("exact")
    shared = [r.dispersion for _, r, _ in seen if isinstance(r, m.ShareDispersionRequest)]
    assert shared[-1] == model.dispersion
    steps = STEPS_PER_OCTAVE * np.log2(shared)
    np.testing.assert_allclose(steps, np.rint(steps), atol=0.5)
    assert all(stand_on(round(step)) == told for step, told in zip(steps, shared, strict=True))


def test_the_ledger_names_the_two_sums_of_every_question() -> None:
    study = study_of()
    sites = make_sites(study, make_tables(study, SIZES), secure=False)
    _, seen = record(Coordinator(study, list(sites)), sites)
    asked = sum(isinstance(r, m.DispersionRequest) for site, r, _ in seen if site == "north")
    rows = [r for r in sites["north"].ledger.releases if r.message == DispersionSums.__name__]
    assert [row.quantity for row in rows] == ["gain", "bend"] * asked
    assert {row.shape for row in rows} == {()}
    handed = [r for r in sites["north"].ledger.releases if "ShareDispersion" in r.message]
    assert handed == [], "what is handed out tells nothing of patients"


def test_the_bill_tells_of_it_once() -> None:
    model, _ = run("cv")
    told = [line for line in model.privacy.exact + model.privacy.sums if "dispersion" in line]
    assert len(told) == 1
    assert "rounds" not in told[0]
    plain = fit(with_poisson(study_of()), make_tables(study_of(), SIZES)).model
    assert not any("dispersion" in line for line in plain.privacy.exact + plain.privacy.sums)


def tame(study: Study) -> Any:
    """Return tables of counts that vary less than their mean."""
    return {
        name: load_table(
            frame.assign(contacts=np.rint(0.2 * frame["months"] * np.exp(0.02 * frame["age"]))),
            study,
        )
        for name, frame in zip(("north", "south", "west"), patients(), strict=True)
    }


def test_where_counts_vary_no_more_the_model_is_poisson_s() -> None:
    study = study_of(holdout=0.2)
    model = fit(study, tame(study)).model
    plain = fit(with_poisson(study), tame(with_poisson(study))).model
    assert (model.dispersion, model.theta) == (0.0, np.inf)
    assert "the model is Poisson's" in model.of_dispersion
    own, other = model_facts(model), model_facts(plain)
    for name in ("grid", "intercept", "terms", "evaluation"):
        assert own[name] == other[name]
    assert plain.dispersion is None
    assert np.isnan(plain.theta)
    assert plain.of_dispersion == ""


def test_the_paper_s_solver_is_refused() -> None:
    """θ comes of a Poisson fit, whose slopes have no bound of 1."""
    with pytest.raises(Exception, match="Federated Dual Averaging, cannot learn"):
        make_study(KIND, **SOLVERS["fedda"])


def test_a_site_takes_no_dispersion_off_the_ladder_and_none_of_another_outcome() -> None:
    """A number that no search comes to could be made to single somebody out."""
    _, seen = run("exact")
    asked = [request for site, request, _ in seen if site == "north"]
    question = next(r for r in asked if isinstance(r, m.DispersionRequest))
    share = next(r for r in asked if isinstance(r, m.ShareDispersionRequest))
    study = study_of()
    sites = make_sites(study, make_tables(study, SIZES), secure=False)
    north = sites["north"]
    for request in asked[: asked.index(question)]:
        assert not isinstance(north.handle(request), m.Refusal)
    for bad in (0.3001, 0.0, -1.0, 1e9):
        reply = north.handle(dataclasses.replace(question, dispersion=bad))
        assert isinstance(reply, m.Refusal)
        assert "step of the public ladder" in reply.reason
    for bad in (0.3001, -1.0, 1e9):
        reply = north.handle(dataclasses.replace(share, dispersion=bad))
        assert isinstance(reply, m.Refusal)
    assert not isinstance(north.handle(question), m.Refusal)


def test_a_run_ends_with_words_where_its_rounds_do_not_do() -> None:
    study = study_of("cv", penalty="cv", max_rounds=5)
    with pytest.raises(FitError, match="did not end within 5 rounds"):
        fit(study, make_tables(study, SIZES))


def test_rounds_of_all_fits_are_counted() -> None:
    model, seen = run("exact")
    rounds = [
        request
        for site, request, _ in seen
        if site == "north" and CurvatureSums in getattr(request, "sums", ())
    ]
    assert len(rounds) == model.provenance.rounds == len(model.provenance.history)


def lead_again(change: Any) -> set[str]:
    """Follow a recorded run whose questions were changed; return the kinds that do not follow."""
    _, seen = run("exact")
    study = study_of()
    asked = {r.header.step: change(r) for site, r, _ in seen if site == "north"}
    replies: dict[int, dict[str, Any]] = {}
    for site, request, reply in seen:
        replies.setdefault(request.header.step, {})[site] = reply
    lead = Retracer(asked.get, study, sorted(replies[0]))
    beside, requests = set(), lead.step()
    while not isinstance(requests, Model):
        own = requests["north"]
        if not lead.follows(own, asked[own.header.step]):
            beside.add(type(own).__name__)
        requests = lead.step(replies[own.header.step])
    return beside


def test_an_audit_finds_another_dispersion_than_the_sums_give() -> None:
    def share_more(request: m.Request) -> m.Request:
        if not isinstance(request, m.ShareDispersionRequest):
            return request
        return dataclasses.replace(request, dispersion=2 * request.dispersion)

    assert lead_again(lambda request: request) == set()
    assert lead_again(share_more) == {"ShareDispersionRequest"}


def test_under_masks_and_without_it_is_the_same_model() -> None:
    study = study_of(holdout=0.2)
    models = []
    for secure in (True, False):
        sites = make_sites(study, make_tables(study, SIZES), secure=secure)
        model, _ = record(Coordinator(study, list(sites), secure=secure, run="r"), sites)
        models.append(model_facts(model))
    for facts in models:
        del facts["privacy"]
    assert models[0] == models[1]


def test_a_restarted_site_knows_the_dispersion_again() -> None:
    """What was handed out is read again, in the order in which it came: the last one counts."""
    model, seen = run("exact")
    study = study_of()
    tables = make_tables(study, SIZES)
    memory = Transient()
    asked = [request for site, request, _ in seen if site == "north"]
    last = max(k for k, r in enumerate(asked) if isinstance(r, m.ShareDispersionRequest))
    north = Site("north", tables["north"], study, memory=memory)
    for request in asked[: last + 1]:
        assert not isinstance(north.handle(request), m.Refusal)
    again = Site("north", tables["north"], study, memory=memory)
    assert again.patients.public.dispersion == model.dispersion
    replies = [reply for site, _, reply in seen if site == "north"]
    for request, reply in zip(asked[last + 1 :], replies[last + 1 :], strict=True):
        assert to_bytes(again.handle(request)) == to_bytes(reply)


def test_it_stands_in_the_file_and_nowhere_else(tmp_path: Any) -> None:
    model, _ = run("exact")
    facts = model_facts(model)
    assert facts["dispersion"] == model.dispersion
    model.save(tmp_path / "m.json")
    again = Model.load(tmp_path / "m.json")
    assert model_facts(again) == facts
    assert again.theta == model.theta
    plain = model_facts(fit(with_poisson(study_of()), make_tables(study_of(), SIZES)).model)
    assert "dispersion" not in plain
    assert "dispersion" not in plain["study"]["outcome"], "an older version reads it"
    without = {name: value for name, value in facts.items() if name != "dispersion"}
    for wrong in (without, {**plain, "dispersion": 0.5}, {**facts, "dispersion": -1.0}):
        with pytest.raises(ModelFileError):
            build_model(wrong, source="m.json")


def test_people_are_told_it() -> None:
    model, _ = run("exact")
    assert f"θ = {model.theta:.3g}" in model.of_dispersion
    page = render_report(model)
    assert model.of_dispersion in page
    assert f"θ = {model.theta:.4g}" in page
    assert "negative binomial regression" in page
    assert model.of_dispersion in model._repr_html_()
