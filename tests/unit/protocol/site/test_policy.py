"""A site and its policy: what it refuses, when, and with which code."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.curvature import Query
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import KINDS, OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.study import Study
from tests.hospitals import (
    ALL,
    FREE,
    GRID,
    SMALL,
    THREE,
    change,
    granted,
    make_site,
    named,
    refused,
)
from tests.samples import SOLVERS, Talk, make_study

LATER = ("slopes", "summary", "between-sites")
NEEDED = {
    "fedda": ("exact-histograms", "rules", "votes", "dual", *LATER),
    "exact": ("exact-histograms", "rules", "votes", "curvature", *LATER),
    "cv": ("exact-histograms", "rules", "votes", "curvature", *LATER),
    "own": ("exact-histograms", "rules", "votes", "own-baselines", *LATER),
    "pruned": ("exact-histograms", "rules", "votes", "curvature", *LATER),
}


@pytest.mark.parametrize(("solver", "kind"), [(s, k) for s in SOLVERS for k in NEEDED[s]])
def test_a_release_that_is_not_allowed_is_refused_at_join(solver: str, kind: str) -> None:
    allow = tuple(k for k in KINDS if k != kind)
    site = make_site(study=make_study(**SOLVERS[solver]), policy=change(ALL, allow=allow))
    reply = refused(Talk(site).join(THREE), "policy")
    assert KINDS[kind] in reply.reason  # type: ignore[index]
    assert site.ledger.releases == []


@pytest.mark.parametrize("solver", SOLVERS)
def test_only_what_a_run_needs_must_be_allowed(solver: str) -> None:
    study = make_study(**SOLVERS[solver])
    site = make_site(study=study, policy=change(ALL, allow=NEEDED[solver]))
    granted(Talk(site).join(THREE), m.JoinReply)
    noisy = make_study(**SOLVERS[solver], epsilon=1.0)
    allow = ("histograms", *NEEDED[solver][1:])
    granted(Talk(make_site(study=noisy, policy=change(ALL, allow=allow))).join(THREE), m.JoinReply)


def test_exact_spreads_need_the_policy_s_word() -> None:
    study = make_study(**SOLVERS["exact"], spreads="exact", epsilon=1.0)
    site = make_site(study=study, policy=Policy())
    assert "spread" in refused(Talk(site).join(THREE), "policy").reason
    granted(Talk(make_site(study=study)).join(THREE), m.JoinReply)


def test_the_paper_s_solver_needs_the_policy_s_word() -> None:
    """Its sums depend on how each site walks by itself, and can be taken apart."""
    study = make_study(epsilon=1.0)
    site = make_site(study=study, policy=Policy())
    assert "take these sums apart" in refused(Talk(site).join(THREE), "policy").reason
    chosen = Policy(allow=(*Policy().allow, "dual"))
    granted(Talk(make_site(study=study, policy=chosen)).join(THREE), m.JoinReply)


def test_noise_that_guarantees_nothing_is_no_noise() -> None:
    study = make_study(**SOLVERS["exact"], epsilon=1.0)
    site = make_site(study=study, policy=Policy(), noise=UnsafeSeededLaplace(1, "north"))
    assert "without noise" in refused(Talk(site).join(THREE), "policy").reason
    granted(Talk(make_site(study=study, policy=Policy())).join(THREE), m.JoinReply)


def test_more_rounds_than_the_policy_allows_are_refused() -> None:
    """At join where their number is known, else when they are used up."""
    few = change(ALL, max_sums=2, secure_sums=False)
    refused(Talk(make_site(policy=few)).join(THREE, secure=False), "policy")
    site = make_site(study=make_study(**SOLVERS["exact"]), policy=few)
    talk = Talk(site)
    talk.join(THREE, secure=False)
    granted(talk.ask(m.GridRequest), m.GridReply)
    granted(talk.ask(m.RulesRequest, grid=GRID), m.RulesReply)
    granted(talk.ask(m.TermsRequest, rules=()), m.TermsReply)
    one = np.zeros(1)
    query = Query(-1, one.astype(np.int64), one, one, one.astype(np.int64))
    for _ in range(2):
        granted(talk.ask(m.CurvatureRequest, queries=(query,)), m.SumReply)
    left = len(site.ledger.releases)
    reply = refused(talk.ask(m.CurvatureRequest, queries=(query,)), "policy")
    assert "2 sums" in reply.reason
    refused(talk.ask(m.SlopesRequest, terms=np.zeros(1, np.int64), coef=np.zeros(1)), "policy")
    assert len(site.ledger.releases) == left


@pytest.mark.parametrize("run", ["", "x" * 10_000, "a\nb", "\0", "\x1b[2J", "\u2028"])
def test_a_run_has_a_plain_name(run: str) -> None:
    """It stands in ledgers and on terminals."""
    refused(Talk(make_site(), run=run).join(THREE), "run")


def test_rules_are_not_grown_before_the_histograms_left() -> None:
    """Cut-offs that no histogram gave could be chosen around one patient."""
    talk = Talk(make_site(policy=FREE))
    granted(talk.join(THREE, secure=False), m.JoinReply)
    refused(talk.ask(m.RulesRequest, grid=GRID), "order")
    free = Talk(make_site(policy=change(FREE, min_count=0)))
    granted(free.join(THREE, secure=False), m.JoinReply)
    granted(free.ask(m.RulesRequest, grid=GRID), m.RulesReply)


@pytest.mark.parametrize("solver", ["fedda", "exact", "cv"])
def test_questions_that_the_study_does_not_ask_are_refused(solver: str) -> None:
    study = make_study(**{**SMALL, **SOLVERS[solver], "max_active": 3})
    site = make_site(study=study, policy=OPEN)
    talk = Talk(site)
    talk.join(THREE, secure=False)
    granted(talk.ask(m.RulesRequest, grid=GRID), m.RulesReply)
    n_terms = granted(talk.ask(m.TermsRequest, rules=()), m.TermsReply).n_terms
    dual = {"round": 0, "dual": np.zeros(n_terms)}
    one, zero = np.zeros(1, np.int64), np.zeros(1)
    query = Query(-1, one, zero, zero, one)
    if solver == "fedda":
        refused(talk.ask(m.CurvatureRequest, queries=(query,)), "order")
        granted(talk.ask(m.DualRequest, **dual), m.SumReply)
        return
    refused(talk.ask(m.DualRequest, **dual), "order")
    for queries in (
        (),
        (query, query),
        (query,) * 10,
        (dataclasses.replace(query, fold=99),),
        (dataclasses.replace(query, active=np.arange(n_terms)),),
        (dataclasses.replace(query, active=np.array([0, n_terms])),),
        (dataclasses.replace(query, active=np.array([1])),),
        (dataclasses.replace(query, terms=np.array([0, 0]), start=np.zeros(2), end=np.zeros(2)),),
    ):
        if not (len(queries) == 1 and len(queries[0].active) == n_terms <= 4):
            refused(talk.ask(m.CurvatureRequest, queries=queries), "bad-request")
    granted(talk.ask(m.CurvatureRequest, queries=(query,)), m.SumReply)


def run_grid(ledger: Ledger, run: str, study: Study, policy: Policy) -> Any:
    """Join and ask for histograms; return the refusal or the counts."""
    talk = Talk(make_site(study=study, policy=policy, ledger=ledger), run=run)
    reply = talk.join(THREE)
    return reply if isinstance(reply, m.Refusal) else talk.ask(m.GridRequest)


@pytest.mark.parametrize("reload", [False, True])
def test_a_spent_budget_refuses_and_reruns_add_up(reload: bool, tmp_path: Path) -> None:
    """Five covariates at ε = 1: four runs of a study, eight over two studies."""
    policy = Policy()
    assert (policy.epsilon_study, policy.epsilon_dataset) == (20, 40)
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    for n_study, study in enumerate((named("one"), named("two"))):
        for run in range(4):
            ledger = Ledger(path) if reload else ledger
            granted(run_grid(ledger, f"{study.name}-{run}", study, policy), m.GridReply)
            assert ledger.epsilon == pytest.approx(5 * (4 * n_study + run + 1))
        before = len(ledger.releases)
        reply = refused(run_grid(ledger, "once-more", study, policy), "budget")
        assert "20" in reply.reason
        assert len(ledger.releases) == before
    reply = refused(run_grid(ledger, "third", named("three"), policy), "budget")
    assert "data set" in reply.reason
    # Even the smallest ε is over a budget that is spent, and no cap knows no end.
    refused(run_grid(ledger, "tiny", named("three", 1e-3), policy), "budget")
    free = Policy(epsilon_study=None, epsilon_dataset=None)
    granted(run_grid(ledger, "free", named("three"), free), m.GridReply)


def test_a_budget_is_used_up_to_the_last() -> None:
    """0.1 + 0.2 is a little more than 0.3 in floats: rounding costs nobody a run."""
    policy = Policy(epsilon_study=1.5, epsilon_dataset=None)
    ledger = Ledger()
    for run in range(3):
        granted(run_grid(ledger, str(run), named("one", 0.1), policy), m.GridReply)
    refused(run_grid(ledger, "4", named("one", 0.1), policy), "budget")


def test_two_runs_that_joined_in_time_share_what_is_left() -> None:
    ledger, study = Ledger(), named("one")
    policy = Policy(epsilon_study=8.0)
    talks = [
        Talk(make_site(study=study, policy=policy, ledger=ledger), run=run) for run in ("1", "2")
    ]
    for talk in talks:
        granted(talk.join(THREE), m.JoinReply)
    granted(talks[0].ask(m.GridRequest), m.GridReply)
    refused(talks[1].ask(m.GridRequest), "budget")
    assert ledger.epsilon == pytest.approx(5)


def test_a_repeated_request_costs_once_and_draws_no_new_noise() -> None:
    site = make_site(study=named("one"), policy=Policy())
    talk = Talk(site)
    talk.join(THREE)
    request = m.GridRequest(talk.header())
    first, again = site.handle(request), site.handle(request)
    np.testing.assert_array_equal(first.counts, again.counts)  # type: ignore[union-attr]
    assert site.ledger.epsilon == pytest.approx(5)
    talk.step += 1
    refused(talk.ask(m.GridRequest), "order")
