"""Runs whose sites have baselines of their own: found at each site, kept there, judged twice."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from fedrulefit.core.own import scale_spread, settle
from fedrulefit.core.quadratic import kkt_residual
from fedrulefit.engines.inprocess import fit
from fedrulefit.errors import ModelFileError
from fedrulefit.model import Model
from fedrulefit.model.file import build_model, model_facts
from fedrulefit.model.own_file import fingerprint
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.retrace import Retracer
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Transient
from fedrulefit.testing.samples import OUTCOMES
from tests.samples import SOLVERS, make_sites, make_study, make_tables, record

SIZES = (120, 90, 80)
EVERY = [kind for kind in OUTCOMES if "negative" not in kind]


def play(
    outcome: str = "yes/no", solver: str = "exact", **settings: Any
) -> tuple[Model, dict[str, Site], list[Any]]:
    study = make_study(outcome, **{**SOLVERS[solver], "holdout": 0.3, **settings})
    sites = make_sites(study, make_tables(study, sizes=SIZES))
    model, seen = record(Coordinator(study, list(sites)), sites)
    return model, sites, seen


@pytest.mark.parametrize("baseline", ["afterwards", "site"])
@pytest.mark.parametrize("outcome", EVERY)
def test_each_site_finds_its_own_baseline_of_the_published_model(
    outcome: str, baseline: str
) -> None:
    """From the model alone, by another way to its predictors."""
    model, sites, _ = play(outcome, baseline=baseline)
    family = model.study.family
    for site in sites.values():
        own, learnt = site.own_baseline, site.patients.learnt
        assert own is not None
        assert own.model == fingerprint(model)
        own.check(model)
        predictor = model.linear_predictor(learnt.values)
        if family.own_terms and predictor.shape[1] < family.n_baseline:  # causes, in intervals
            spans = family.n_baseline // family.n_owners
            starts = np.reshape(model.intercept + np.array(model.baseline), (-1, spans))
            joined = np.array([family.starts(model.intercept, model.baseline)]).ravel()
            spread = [
                np.add.outer(predictor[:, c] - joined[c], starts[c]) for c in range(len(starts))
            ]
            predictor = np.hstack(spread)
        elif family.n_baseline > 1 and not family.own_terms:
            predictor = family.spread(predictor, model.baseline)
        theirs = settle(
            family, predictor, learnt.outcome, learnt.weights, scale_spread(family, 0.5)
        )
        np.testing.assert_allclose(own.values, theirs.values, atol=1e-8)
        assert min(own.errors) > 0
        assert own.patients == pytest.approx(learnt.n_rows)


@pytest.mark.parametrize("baseline", ["afterwards", "site"])
def test_held_out_patients_are_judged_twice(baseline: str) -> None:
    model, sites, _ = play(baseline=baseline)
    odds, shifts, outcomes = [], [], []
    for site in sites.values():
        held, own = site.patients.held_out, site.own_baseline
        assert own is not None
        odds.append(model.linear_predictor(held.values))
        shifts.append(np.full(held.n_rows, own.values[0]))
        outcomes.append(held.outcome)
    F, b, y = map(np.concatenate, (odds, shifts, outcomes))
    judged = model.evaluation
    assert judged is not None
    assert judged.own is not None
    assert abs(log_loss(y, expit(F)) - log_loss(y, expit(F + b))) > 2e-4, "it matters"
    for found, odds_of in ((judged.total, F), (judged.own.total, F + b)):
        chance, judge = expit(odds_of), judged.family.judge
        assert found.log_loss == pytest.approx(log_loss(y, chance), abs=1e-4)  # in coarse units
        expected = judge.measure(judge.count(chance, y, np.ones(len(y))))
        assert found.log_loss == pytest.approx(expected.log_loss, abs=1e-4)
        assert found.auc == pytest.approx(expected.auc, abs=1e-9)
    frame = judged.metrics_frame()
    assert frame["site"].tolist() == [
        "all sites, as new hospitals", "all sites, with own baselines"
    ]  # fmt: skip
    assert frame["log_loss"].tolist() == [judged.total.log_loss, judged.own.total.log_loss]
    assert "As patients of a new hospital" in judged.words()
    assert "With each hospital's own baseline" in judged.words()


@pytest.mark.parametrize("solver", ["fedda", "exact", "cv", "pruned"])
def test_afterwards_the_model_is_the_shared_one(solver: str) -> None:
    shared, _, _ = play(solver=solver)
    after, sites, _ = play(solver=solver, baseline="afterwards")
    before, now = model_facts(shared), model_facts(after)
    for name in ("intercept", "terms", "grid", "provenance"):
        assert now[name] == before[name]
    assert all(site.own_baseline is not None for site in sites.values())


def test_of_a_shared_baseline_nothing_is_new() -> None:
    model, sites, seen = play()
    assert not any(isinstance(request, m.ShareModelRequest) for _, request, _ in seen)
    assert all(site.own_baseline is None for site in sites.values())
    assert model.own_baselines is None
    assert model.evaluation is not None
    assert model.evaluation.own is None
    assert "own" not in model_facts(model)["evaluation"]


def test_negative_binomial_counts_have_them_afterwards() -> None:
    model, sites, _ = play("count, negative binomial", baseline="afterwards")
    for site in sites.values():
        assert site.own_baseline is not None
        site.own_baseline.check(model)


def test_a_model_with_own_baselines_survives_its_file() -> None:
    model, _, _ = play(baseline="site")
    facts = model_facts(model)
    again = build_model(facts, source="m.json")
    assert again.own_baselines == 0.5
    assert model_facts(again) == facts
    assert fingerprint(again) == fingerprint(model)
    facts["study"]["settings"]["baseline"] = "shared"
    with pytest.raises(ModelFileError, match="judged again only with own baselines"):
        build_model(facts, source="m.json")


def test_a_site_that_dies_and_comes_back_knows_its_baseline_and_repeats_its_bytes() -> None:
    study = make_study(**{**SOLVERS["own"], "holdout": 0.3})
    tables = make_tables(study, sizes=SIZES)
    memories = {name: Transient() for name in tables}
    sites = make_sites(study, tables, secure=False, each=lambda name: {"memory": memories[name]})
    _, seen = record(Coordinator(study, list(sites)), sites)
    again = make_sites(study, tables, secure=False, each=lambda name: {"memory": memories[name]})
    for name, site in again.items():
        assert site.own_baseline == sites[name].own_baseline is not None
        name_, request, reply = [talk for talk in seen if talk[0] == name][-1]
        assert name_ == name
        repeated = site.handle(request)
        assert isinstance(repeated, m.SumReply)
        np.testing.assert_array_equal(repeated.numbers, reply.numbers)
    # A site that was never there works the same numbers out.
    fresh = make_sites(study, tables, secure=False)
    _, anew = record(Coordinator(study, list(fresh)), fresh)
    for (_, _, old), (_, _, new) in zip(seen, anew, strict=True):
        if isinstance(old, m.SumReply):
            np.testing.assert_array_equal(old.numbers, new.numbers)


def test_coefficients_that_are_none_of_the_fit_s_are_refused() -> None:
    _, sites, seen = play(baseline="site", holdout=0.0)
    site = sites["north"]
    shared = next(r for _, r, _ in seen if isinstance(r, m.ShareModelRequest))
    fresh = make_sites(make_study(**SOLVERS["exact"], baseline="site"), secure=False)["north"]
    assert isinstance(fresh.handle(shared), m.Refusal)
    huge = m.ShareModelRequest(shared.header, shared.terms, 1e6 * np.ones(len(shared.terms)))
    reply = site.handle(huge)
    assert isinstance(reply, m.Refusal)


def lead_again(change: Any, baseline: str) -> set[str]:
    """Follow a recorded run whose questions were changed; return the kinds that do not follow."""
    _, sites, seen = play(solver="cv", baseline=baseline)
    asked = {r.header.step: change(r) for site, r, _ in seen if site == "north"}
    replies: dict[int, dict[str, Any]] = {}
    for site, request, reply in seen:
        replies.setdefault(request.header.step, {})[site] = reply
    lead = Retracer(asked.get, sites["north"].study, sorted(replies[0]))
    beside, requests = set(), lead.step()
    while not isinstance(requests, Model):
        own = requests["north"]
        if not lead.follows(own, asked[own.header.step]):
            beside.add(type(own).__name__)
        requests = lead.step(replies[own.header.step])
    return beside


@pytest.mark.parametrize("baseline", ["afterwards", "site"])
def test_an_audit_finds_another_model_than_was_fitted(baseline: str) -> None:
    def hand_out_another(request: m.Request) -> m.Request:
        if not isinstance(request, m.ShareModelRequest):
            return request
        return dataclasses.replace(request, coef=request.coef + 0.01)

    assert lead_again(lambda request: request, baseline) == set()
    assert lead_again(hand_out_another, baseline) == {"ShareModelRequest"}


@pytest.mark.parametrize("outcome", ["yes/no", "count", "time", "classes", "ordered"])
def test_a_whole_run_ends_at_the_joint_optimum(outcome: str) -> None:
    """Slopes of the joint problem, of all coefficients and all baselines, by the sites' tables."""
    model, sites, _ = play(outcome, baseline="site", holdout=0.0)
    family, total = model.study.family, 0.0
    pulls = []
    for site in sites.values():
        patients, own = site.patients, site.own_baseline
        assert own is not None
        shared = next(k for k in [site._known.model] if k is not None)
        predictor = patients.design.take(shared.terms).predictor(shared.coef) + own.shift
        slopes = family.slope(predictor, patients.outcome, patients.weights)
        flat = slopes.reshape(len(slopes), -1)
        whole = flat.sum(axis=0) if len(own.values) > 1 else np.array([flat.sum()])
        np.testing.assert_allclose(
            whole, -np.array(own.values) / scale_spread(family, 0.5) ** 2, atol=1e-8
        )
        bounds = patients.public.bounds.terms
        units = patients.design.sum_columns(np.rint(slopes * 2.0**40), bounds)
        pulls.append(units * bounds / 2.0**40)
        total += float(patients.weights.sum())
    public = sites["north"].patients.public
    gradient, coef = np.sum(pulls, axis=0) / total, np.zeros(public.n_terms)
    coef[shared.terms] = shared.coef
    residual = kkt_residual(gradient, coef, model.provenance.penalty * public.factors)
    assert residual <= 2e-8
    assert model.provenance.certificate.residual <= 1e-8
    assert model.provenance.certificate.gap is not None
    assert model.provenance.certificate.gap <= 1e-6


def test_the_embedded_engine_gives_them_back() -> None:
    study = make_study(**SOLVERS["own"])
    fitted = fit(study, make_tables(study, sizes=SIZES))
    assert sorted(fitted.own_baselines) == sorted(fitted.model.provenance.sites)
    for own in fitted.own_baselines.values():
        own.check(fitted.model)
    plain = make_study(**SOLVERS["exact"])
    assert not fit(plain, make_tables(plain, sizes=SIZES)).own_baselines
