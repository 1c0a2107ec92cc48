"""A site and its policy: what it refuses, when, and with which code."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.bins import count_histograms
from fedrulefit.core.curvature import Query
from fedrulefit.core.fixed import capacity, from_units
from fedrulefit.core.grid import Grid
from fedrulefit.errors import FitError
from fedrulefit.model import Model, describe_rule
from fedrulefit.privacy.gate import implies
from fedrulefit.privacy.identity import Identity, Trust, make_consortium
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.masks import add_rings, keystream, make_secret, public_key
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import KINDS, OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import free_rules, histogram_claim
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Transient
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.oracles import YES_NO
from tests.samples import (
    SOLVERS,
    Talk,
    fit_model,
    make_frame,
    make_sites,
    make_study,
    make_tables,
    record,
)

KEY = ("public", "certificate", "dropouts", "signature")
SMALL = {"n_trees": 5, "rounds": 3}
STUDY = make_study(**SMALL, spreads="exact")
THREE = ("north", "south", "west")
SIX = ("north", "south", "west", "east", "centre", "coast")
TABLES = make_tables(STUDY, sizes=(60, 50, 40, 40, 40, 40))
IDENTITIES, TRUST = make_consortium(SIX)
ALL = Policy(allow=tuple(KINDS))
"""The default policy, with exact histograms allowed: the study here has no noise."""


def change(policy: Policy, **changes: Any) -> Policy:
    return Policy.model_validate({**policy.model_dump(), **changes})


@cache
def peer_key(name: str, names: tuple[str, ...], run: str) -> m.KeyReply:
    policy = change(OPEN, dropouts="wait")
    talk = Talk(make_site(name, policy=policy), run=run)
    granted(talk.join(names), m.JoinReply)
    reply: m.KeyReply = granted(talk.ask(m.KeyRequest), m.KeyReply)
    return reply


def make_site(name: str = "north", *, study: Study = STUDY, **options: Any) -> Site:
    given = {"policy": ALL, "identity": IDENTITIES[name], "trust": TRUST, **options}
    return Site(name, TABLES[name], study, **given)


def refused(reply: Any, code: str) -> m.Refusal:
    assert isinstance(reply, m.Refusal), type(reply).__name__
    assert reply.code == code, reply
    assert reply.reason
    return reply


def granted(reply: Any, kind: Any) -> Any:
    assert isinstance(reply, kind), reply
    return reply


def peers_of(names: Sequence[str], run: str, own: m.KeyReply | None = None) -> tuple[m.Peer, ...]:
    """Keys of honest sites; `own` is the one of the site under test."""
    peers = []
    for name in sorted(names):
        if own is not None and name == own.header.site:
            reply = own
        else:
            reply = peer_key(name, tuple(names), run)
        peers.append(m.Peer(name, reply.public, reply.certificate, reply.dropouts, reply.signature))
    return tuple(peers)


def meet(
    site: Site, names: Sequence[str], *, run: str = "run", dropouts: Any = "wait"
) -> tuple[Talk, Any]:
    """Join, exchange keys, hand them out; return the last reply."""
    talk = Talk(site, run=run)
    reply = talk.join(sorted(names), dropouts=dropouts)
    if isinstance(reply, m.Refusal):
        return talk, reply
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    return talk, talk.ask(m.PeersRequest, peers=peers_of(names, run, own))


# --- refused at once ----------------------------------------------------------------------

NEEDED = {
    "fedda": ("exact-histograms", "rules", "votes", "dual", "slopes", "summary"),
    "exact": ("exact-histograms", "rules", "votes", "curvature", "slopes", "summary"),
    "cv": ("exact-histograms", "rules", "votes", "curvature", "slopes", "summary"),
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


def test_sites_that_count_equally_are_refused_under_masks() -> None:
    """Sums divided by a site's own size are partial fractions, which tell of each site."""
    study = make_study(**SOLVERS["exact"], weighting="sites")
    reply = refused(Talk(make_site(study=study)).join(THREE), "policy")
    assert "taken apart" in reply.reason
    open_ = make_site(study=study, policy=OPEN)
    granted(Talk(open_).join(THREE, secure=False), m.JoinReply)


def test_a_table_that_sums_cannot_bear_does_not_join() -> None:
    """The threshold is public: a coordinator cannot move it to learn the table's size."""
    study = Study.model_validate(
        {**make_study(**SOLVERS["exact"]).model_dump(), "weight": {"column": "w", "max": 1000}}
    )
    rows = np.resize(np.arange(60), 2000)
    values, outcome = TABLES["north"].values[rows], TABLES["north"].outcome[rows]
    for n_sites in (3, 30):
        sites = (*(f"site {k}" for k in range(n_sites - 1)), "north")
        for share in (0.999, 1.001):
            table = Table(values, outcome, np.full(2000, share * capacity(YES_NO, n_sites) / 2000))
            # The kit's list counts, not the sites that a coordinator names.
            site = Site("north", table, study, policy=OPEN, roster=sites)
            reply = Talk(site).join(("north",), secure=False)
            if share < 1:
                granted(reply, m.JoinReply)
            else:
                why = refused(reply, "policy").reason
                assert f"too many patients for a sum over {n_sites} sites" in why


def test_a_weight_that_sums_cannot_bear_does_not_join() -> None:
    facts = make_study(**SOLVERS["exact"]).model_dump()
    study = Study.model_validate({**facts, "weight": {"column": "w", "max": 2000}})
    assert "weight" in refused(Talk(make_site(study=study)).join(THREE), "policy").reason


def test_noise_that_guarantees_nothing_is_no_noise() -> None:
    study = make_study(**SOLVERS["exact"], epsilon=1.0)
    site = make_site(study=study, policy=Policy(), noise=UnsafeSeededLaplace(1, "north"))
    assert "without noise" in refused(Talk(site).join(THREE), "policy").reason
    granted(Talk(make_site(study=study, policy=Policy())).join(THREE), m.JoinReply)


@pytest.mark.parametrize(
    ("options", "join", "code"),
    [
        ({}, {"secure": False}, "secure-sum"),
        ({"identity": None}, {}, "identity"),
        ({"trust": None}, {}, "identity"),
        ({}, {"sites": ("north", "south")}, "too-few-sites"),
        ({}, {"sites": ("north", "south", "south")}, "bad-request"),
        ({}, {"sites": ("south", "west", "east")}, "bad-request"),
        ({"roster": ("north", "south", "east")}, {}, "identity"),
        ({"policy": change(ALL, peers={"south": "ab" * 32})}, {}, "policy"),
        ({"policy": change(ALL, min_sites=4)}, {}, "too-few-sites"),
        ({}, {"dropouts": "continue"}, "policy"),
    ],
)
def test_a_run_that_the_policy_would_end_later_is_refused_at_join(
    options: dict[str, Any], join: dict[str, Any], code: str
) -> None:
    site = make_site(**options)
    facts = {"sites": THREE, "secure": True, "dropouts": "wait", **join}
    talk = Talk(site)
    refused(talk.ask(m.JoinRequest, **facts), code)
    # Nothing was entered: the site can still join another run.
    assert site.ledger.releases == []
    refused(talk.ask(m.GridRequest), "order")
    if not options:
        other = Talk(site, run="another")
        granted(other.join(THREE), m.JoinReply)


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


def test_runs_over_a_data_set_are_counted() -> None:
    shared, policy = Transient(), change(ALL, max_runs=2)

    def join(run: str) -> Any:
        return Talk(make_site(policy=policy, shared=shared), run=run).join(THREE)

    for run in ("one", "two", "one", "two"):  # a run that is resumed is the same run
        granted(join(run), m.JoinReply)
    assert "2 runs" in refused(join("three"), "policy").reason
    # One name for runs of two studies: two runs.
    shared, other = Transient(), named("other")
    for study in (named("one"), other):
        site = make_site(study=study, policy=policy, shared=shared)
        granted(Talk(site, run="same").join(THREE), m.JoinReply)
    site = make_site(study=named("third"), policy=policy, shared=shared)
    refused(Talk(site, run="same").join(THREE), "policy")
    # A run that is refused is not counted.
    free = Transient()
    site = make_site(policy=change(policy, min_sites=4), shared=free)
    refused(Talk(site, run="none").join(THREE), "too-few-sites")
    assert free.get("runs") is None


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


GRID = fit_model(make_study(**SMALL), {name: TABLES[name] for name in THREE}).grid


def count(name: str) -> Any:
    values = TABLES[name].values
    return count_histograms(values, np.ones(len(values), dtype=np.int64), STUDY.bins)


TOTAL = sum(count(name) for name in THREE)


def hand_out_grid(talk: Talk, names: Sequence[str]) -> dict[str, Any]:
    """Ask for histograms; return the grid, and signed histograms that add up to it."""
    own = granted(talk.ask(m.GridRequest), m.GridReply)
    first, *rest = (name for name in sorted(names) if name != talk.site.name)
    counts = {talk.site.name: own.counts, first: TOTAL - own.counts}
    counts |= dict.fromkeys(rest, 0 * TOTAL)
    signed = tuple(
        m.Histogram(name, part, IDENTITIES[name].sign(histogram_claim(talk.header(), name, part)))
        for name, part in counts.items()
    )
    return {"grid": GRID, "histograms": signed}


# --- budgets --------------------------------------------------------------------------------


def run_grid(ledger: Ledger, run: str, study: Study, policy: Policy) -> Any:
    """Join and ask for histograms; return the refusal or the counts."""
    talk = Talk(make_site(study=study, policy=policy, ledger=ledger), run=run)
    reply = talk.join(THREE)
    return reply if isinstance(reply, m.Refusal) else talk.ask(m.GridRequest)


def named(name: str, epsilon: float = 1.0) -> Study:
    study = make_study(**{**SMALL, **SOLVERS["exact"]}, epsilon=epsilon)
    return Study.model_validate({**study.model_dump(), "name": name})


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


# --- a person decides -----------------------------------------------------------------------


class Person:
    """Answers what it is told to, and keeps what it was shown."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers, self.shown = list(answers), []

    def __call__(self, kind: str, lines: Sequence[str]) -> bool | None:
        self.shown.append((kind, list(lines)))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


REVIEW = change(ALL, approval="review")


def test_nothing_leaves_until_a_person_has_decided() -> None:
    person = Person(None, None, True)
    site = make_site(study=named("one"), policy=REVIEW, approver=person)
    talk = Talk(site)
    granted(talk.join(THREE), m.JoinReply)  # nothing of patients: nobody is asked
    assert person.shown == []
    for _ in range(2):
        refused(talk.ask(m.GridRequest), "pending")
        assert site.ledger.releases == []
    reply = granted(talk.ask(m.GridRequest), m.GridReply)
    assert site.ledger.epsilon == pytest.approx(5)
    text = "\n".join(person.shown[0][1])
    assert "ε = 5 " in text
    assert "10 for replacing one" in text
    assert KINDS["histograms"] in text
    assert str(len(reply.counts)) in text
    assert all(name in text for name in site.study.names)


def test_a_person_may_decline_and_nobody_stands_for_no() -> None:
    for approver in (Person(False), None):
        site = make_site(policy=REVIEW, approver=approver)
        talk = Talk(site)
        talk.join(THREE)
        refused(talk.ask(m.GridRequest), "declined")
        refused(talk.ask(m.GridRequest), "declined")
        assert site.ledger.releases == []


def test_what_was_shown_is_what_leaves() -> None:
    """While a person thinks, the draft stays: the noise is not drawn anew."""
    drawn = []

    class Counting(UnsafeSeededLaplace):
        def add(self, *args: Any, **kwargs: Any) -> Any:
            drawn.append(1)
            return super().add(*args, **kwargs)

    person = Person(None, None, True)
    noise = Counting(1, "north")
    site = make_site(study=named("one"), policy=REVIEW, approver=person, noise=noise)
    talk = Talk(site)
    talk.join(THREE)
    for _ in range(3):
        reply = talk.ask(m.GridRequest)
    granted(reply, m.GridReply)
    assert len(drawn) == 5


def words_of_run(solver: str, secure: bool) -> tuple[dict[str, Any], Any, Any]:
    study = make_study(**{**SMALL, **SOLVERS[solver]})
    frames = {name: make_frame(80, k) for k, name in enumerate(THREE)}
    rng = np.random.default_rng(0)
    for frame in frames.values():
        frame["age"] = 18.1 + 0.99 * (frame["age"] - 18) + 0.05 * rng.random(len(frame))
        frame["lactate"] += 0.005 * rng.random(len(frame))
    tables = {name: load_table(frame, study) for name, frame in frames.items()}
    people = {name: Person(True) for name in THREE}
    policy = change(REVIEW, secure_sums=secure)
    sites = make_sites(study, tables, policy=policy, each=lambda name: {"approver": people[name]})
    model, seen = record(Coordinator(study, THREE, secure=secure), sites)
    assert isinstance(model, Model)
    return people, seen, (study, tables, model)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("secure", [False, True])
def test_a_person_is_asked_once_for_each_kind_in_words(solver: str, secure: bool) -> None:
    people, seen, (study, tables, model) = words_of_run(solver, secure)
    rounds = "dual" if solver == "fedda" else "curvature"
    for name, person in people.items():
        kinds = [kind for kind, _ in person.shown]
        votes = ["votes"] * secure
        assert kinds == ["exact-histograms", "rules", *votes, rounds, "slopes", "summary"]
        text = {kind: "\n".join(lines) for kind, lines in person.shown}
        (sent,) = [r for n, _, r in seen if n == name and isinstance(r, m.RulesReply)]
        for rule in {*sent.rules, *(r for rules in sent.fold_rules for r in rules)}:
            assert describe_rule(rule, model.grid, study) in text["rules"]
        told = "inside secure sums over north, south, west" if secure else "without masks"
        for kind in (rounds, "slopes", "summary"):
            assert told in text[kind]
        every = "\n".join(text.values())
        values = tables[name].values[:, :2]
        for value in np.unique(values[~np.isnan(values)]):
            assert repr(float(value)) not in every
        assert not re.search(r"\d\.\d{5}", every)  # no number longer than a cut-off


# --- rules and their grid -------------------------------------------------------------------


def ready_for_rules(site: Site) -> Talk:
    talk = Talk(site)
    granted(talk.join(THREE, secure=False), m.JoinReply)
    granted(talk.ask(m.GridRequest), m.GridReply)
    return talk


FREE = change(ALL, secure_sums=False)


def test_cut_offs_off_the_public_bins_are_refused() -> None:
    """A cut-off could otherwise be put on either side of one patient."""
    age = GRID.axes[0]
    moved = age.cutoffs.copy()
    moved[len(moved) // 2] += 1e-3
    bad_axes = [
        dataclasses.replace(age, cutoffs=moved),
        dataclasses.replace(age, limits=(age.limits[0] + 1e-3, age.limits[1])),
        dataclasses.replace(age, limits=(age.limits[0], age.limits[1] - 1e-9)),
    ]
    for axis in bad_axes:
        site = make_site(policy=FREE)
        grid = Grid((axis, *GRID.axes[1:]))
        refused(ready_for_rules(site).ask(m.RulesRequest, grid=grid), "grid")
        assert {r.message for r in site.ledger.releases} == {"GridReply"}
        # Without a smallest count the hospital has said that it does not mind.
        free = make_site(policy=change(FREE, min_count=0))
        granted(ready_for_rules(free).ask(m.RulesRequest, grid=grid), m.RulesReply)
    granted(ready_for_rules(make_site(policy=FREE)).ask(m.RulesRequest, grid=GRID), m.RulesReply)


def test_a_grid_of_other_covariates_is_refused() -> None:
    for axes in (GRID.axes[:-1], GRID.axes[::-1], (*GRID.axes, GRID.axes[0])):
        for policy in (FREE, OPEN):
            site = make_site(policy=policy)
            refused(ready_for_rules(site).ask(m.RulesRequest, grid=Grid(axes)), "grid")


def test_sites_send_only_rules_with_enough_patients_and_not_too_many() -> None:
    site = make_site(policy=FREE)
    sent = granted(ready_for_rules(site).ask(m.RulesRequest, grid=GRID), m.RulesReply)
    every = granted(
        ready_for_rules(make_site(policy=OPEN)).ask(m.RulesRequest, grid=GRID), m.RulesReply
    )
    assert 0 < len(sent.rules) < len(every.rules)
    assert set(sent.rules) <= set(every.rules)
    few = make_site(policy=change(FREE, max_rules_sent=2))
    reply = granted(ready_for_rules(few).ask(m.RulesRequest, grid=GRID), m.RulesReply)
    assert len(reply.rules) == 2
    assert set(reply.rules) <= set(sent.rules)
    none = make_site(policy=change(FREE, min_count=1000))
    reply = granted(ready_for_rules(none).ask(m.RulesRequest, grid=GRID), m.RulesReply)
    assert reply.rules == ()
    assert any(implies(a, b) for a, b in combinations(every.rules, 2))


# --- keys ---------------------------------------------------------------------------------


def with_peer(site: Site, **changes: Any) -> Any:
    """Hand out keys of which the one of "south" is changed."""
    talk = Talk(site)
    granted(talk.join(THREE), m.JoinReply)
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    peers = [
        dataclasses.replace(peer, **changes) if peer.site == "south" else peer
        for peer in peers_of(THREE, "run", own)
    ]
    reply = talk.ask(m.PeersRequest, peers=tuple(peers))
    if isinstance(reply, m.Refusal):
        # No masks: no sum leaves.
        refused(talk.ask(m.SpreadsRequest), "secure-sum")
        assert site.ledger.releases == []
    return reply


def test_a_key_that_the_coordinator_put_in_is_refused() -> None:
    """It knows its own key's secret, and so would take the masks off."""
    mine = public_key(make_secret())
    refused(with_peer(make_site(), public=mine), "identity")
    # Signed by an identity that it made itself, under the right name.
    forged, _ = make_consortium(["south"])
    fake = forged["south"]
    refused(
        with_peer(
            make_site(), public=mine, certificate=fake.certificate, signature=fake.sign(mine)
        ),
        "identity",
    )
    # With the certificate of a site of the consortium that works with it.
    west = peers_of(THREE, "run")[2]
    refused(
        with_peer(
            make_site(),
            public=west.public,
            certificate=west.certificate,
            signature=west.signature,
        ),
        "identity",
    )
    granted(with_peer(make_site()), m.PeersReply)


def test_a_site_that_waits_sums_only_with_sites_that_wait() -> None:
    """Another that sums without this one gives this one's sums away."""
    careless = Talk(make_site("south", policy=change(ALL, dropouts="continue")), run="run")
    granted(careless.join(THREE), m.JoinReply)
    reply = granted(careless.ask(m.KeyRequest), m.KeyReply)
    assert reply.dropouts == "continue"
    told = {key: getattr(reply, key) for key in KEY}
    assert "without this one" in refused(with_peer(make_site(), **told), "policy").reason
    refused(with_peer(make_site(), **{**told, "dropouts": "wait"}), "identity")


def test_a_key_of_another_run_or_without_a_signature_is_refused() -> None:
    south = peers_of(THREE, "another-run")[1]
    refused(with_peer(make_site(), public=south.public, signature=south.signature), "identity")
    refused(with_peer(make_site(), signature=b""), "identity")
    refused(with_peer(make_site(), certificate=b"garbage"), "identity")
    refused(with_peer(make_site(), public=b"short"), "identity")


def test_expired_and_unpinned_certificates_are_refused() -> None:
    late = Trust(TRUST.root, clock=lambda: dt.datetime.now(dt.UTC) + dt.timedelta(days=1000))
    assert "expired" in refused(with_peer(make_site(trust=late)), "identity").reason
    prints = {name: IDENTITIES[name].fingerprint for name in THREE}
    granted(with_peer(make_site(trust=Trust(TRUST.root, prints))), m.PeersReply)
    wrong = Trust(TRUST.root, {**prints, "south": "00" * 32})
    assert "pinned" in refused(with_peer(make_site(trust=wrong)), "identity").reason


def test_a_key_that_is_no_point_of_the_curve_is_refused() -> None:
    """All-zero keys give everyone the same secret, whoever signed them."""
    site = make_site()
    talk = Talk(site)
    talk.join(THREE)
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    zero = bytes(32)
    signer = SigningSite(IDENTITIES["south"])
    peers = [
        m.Peer("south", zero, IDENTITIES["south"].certificate, "wait", signer.sign_key(zero))
        if peer.site == "south"
        else peer
        for peer in peers_of(THREE, "run", own)
    ]
    refused(talk.ask(m.PeersRequest, peers=tuple(peers)), "identity")


class SigningSite:
    """A site of the consortium that signs whatever key it likes."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def sign_key(self, public: bytes) -> bytes:
        from fedrulefit.protocol.masking import _key_claim

        header = m.Header(m.PROTOCOL_VERSION, "run", 1, "south", STUDY.digest)
        return self.identity.sign(_key_claim(header, "south", public, "wait", b""))


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("north", "south"), "set-changed"),
        (("south", "west", "east"), "bad-request"),
        (("north", "south", "west", "east"), "set-changed"),
        (("north", "south", "west", "west"), "bad-request"),
        (("north", "east", "centre"), "set-changed"),
        ((), "bad-request"),
    ],
)
def test_keys_must_be_of_the_run_s_sites(names: Sequence[str], code: str) -> None:
    site = make_site()
    talk = Talk(site)
    talk.join(THREE)
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    known = {peer.site: peer for peer in peers_of(SIX[:5], "run", own)}
    refused(talk.ask(m.PeersRequest, peers=tuple(known[n] for n in names)), code)


def test_another_key_under_this_site_s_name_is_refused() -> None:
    site = make_site()
    talk = Talk(site)
    talk.join(THREE)
    granted(talk.ask(m.KeyRequest), m.KeyReply)
    refused(talk.ask(m.PeersRequest, peers=peers_of(THREE, "run")), "bad-request")


CUT = make_study(**SMALL, single_cutoffs=True)
UNVOTED = change(ALL, min_votes=0)
"""Asks for no votes: what is tested here is masks."""


def play_round(told: Mapping[str, tuple[Any, ...]], *, disguised: bool = False) -> tuple[Any, Any]:
    """A first round among three sites; `told` are the rules that each is handed."""
    sites = {name: make_site(name, study=CUT, policy=UNVOTED) for name in THREE}
    talks = {name: Talk(site, disguised=disguised) for name, site in sites.items()}
    for talk in talks.values():
        granted(talk.join(THREE), m.JoinReply)
    keys = {name: granted(talk.ask(m.KeyRequest), m.KeyReply) for name, talk in talks.items()}
    peers = tuple(m.Peer(name, *(getattr(keys[name], f) for f in KEY)) for name in sorted(THREE))
    for talk in talks.values():
        granted(talk.ask(m.PeersRequest, peers=peers), m.PeersReply)
    counted = {name: granted(talk.ask(m.GridRequest), m.GridReply) for name, talk in talks.items()}
    signed = tuple(m.Histogram(n, reply.counts, reply.signature) for n, reply in counted.items())
    replies = []
    for name, talk in talks.items():
        granted(talk.ask(m.RulesRequest, grid=GRID, histograms=signed), m.RulesReply)
        n_terms = granted(talk.ask(m.TermsRequest, rules=told[name]), m.TermsReply).n_terms
        replies.append(
            granted(talk.ask(m.DualRequest, round=0, dual=np.zeros(n_terms)), m.SumReply)
        )
    numbers = from_units(add_rings([r.numbers for r in replies], len(replies[0].numbers)))
    return numbers, sum(TABLES[name].n_rows for name in THREE)


@pytest.mark.parametrize("disguised", [False, True])
def test_a_coordinator_that_tells_sites_different_things_reads_nothing(disguised: bool) -> None:
    """One site alone is asked about a rule: the masks do not cancel, whatever bytes carry it."""
    rules = sorted(free_rules(CUT, GRID, TOTAL))
    same = dict.fromkeys(THREE, tuple(rules[:2]))
    numbers, n_patients = play_round(same, disguised=disguised)
    assert numbers[-1] == n_patients  # FedDA's weight: the sum is right
    numbers, n_patients = play_round({**same, "north": tuple(rules[2:4])}, disguised=disguised)
    # By chance, one of the numbers is below a million with probability 2^-10.
    assert np.abs(numbers).min() > 1
    assert numbers[-1] != n_patients


# --- sets of sites that differ by few --------------------------------------------------------


def sum_among(shared: Transient, names: Sequence[str], run: str, **options: Any) -> Any:
    """Go through a run's first sum among `names`, with the memory of earlier runs."""
    talk, reply = meet(make_site(shared=shared, **options), names, run=run)
    return reply if isinstance(reply, m.Refusal) else talk.ask(m.SpreadsRequest)


def test_all_sums_over_a_data_set_are_among_the_same_sites() -> None:
    """The default: no two sums, of whatever runs, can be subtracted."""
    first = frozenset(SIX[:4])
    others = [frozenset(["north", *rest]) for n in range(2, 6) for rest in combinations(SIX[1:], n)]
    assert len(others) == 26
    for other in others:
        shared = Transient()
        granted(sum_among(shared, sorted(first), "first"), m.SumReply)
        reply = sum_among(shared, sorted(other), "second")
        if first == other:
            granted(reply, m.SumReply)
        else:
            refused(reply, "set-changed")
    # Another data set remembers nothing of it.
    granted(sum_among(Transient(), SIX[:5], "third"), m.SumReply)


def test_a_refused_set_leaves_no_trace() -> None:
    shared = Transient()
    talk, _ = meet(make_site(shared=shared), SIX[:4], run="keys-only")
    del talk  # no sum left: there is nothing to subtract from
    granted(sum_among(shared, THREE, "sum"), m.SumReply)
    refused(sum_among(shared, SIX[:4], "again"), "set-changed")
    granted(sum_among(shared, THREE, "sum-again"), m.SumReply)


def test_two_runs_side_by_side_cannot_go_round_the_rule() -> None:
    """Both have exchanged keys before either sums: the second sum is refused."""
    shared = Transient()
    one, first = meet(make_site(shared=shared), SIX[:4], run="one")
    two, second = meet(make_site(shared=shared), THREE, run="two")
    granted(first, m.PeersReply)
    granted(second, m.PeersReply)
    granted(one.ask(m.SpreadsRequest), m.SumReply)
    refused(two.ask(m.SpreadsRequest), "set-changed")


def test_no_combination_of_sums_tells_of_one_site() -> None:
    """½·(third + fourth − first − second) would be coast alone, though no two are near."""
    sets = [
        ("north", "south", "west"),
        ("centre", "east", "north"),
        ("coast", "east", "north", "south"),
        ("centre", "coast", "north", "west"),
    ]
    assert all(len(set(one) ^ set(other)) >= 3 for one, other in combinations(sets, 2))
    shared = Transient()
    replies = [sum_among(shared, names, str(run)) for run, names in enumerate(sets)]
    assert any(isinstance(reply, m.Refusal) for reply in replies)


# --- a run that goes on without a lost site -----------------------------------------------------

GO_ON = change(ALL, dropouts="continue", min_sites=2, min_votes=0)


def fitted_site(
    names: Sequence[str] = SIX[:4], *, run: str = "run", policy: Policy = GO_ON, **options: Any
) -> tuple[Talk, tuple[m.Peer, ...]]:
    """A site with its design, ready for rounds; and all keys."""
    site = make_site(policy=policy, **options)
    talk = Talk(site, run=run)
    granted(talk.join(sorted(names), dropouts="continue"), m.JoinReply)
    peers = peers_of(names, run, granted(talk.ask(m.KeyRequest), m.KeyReply))
    granted(talk.ask(m.PeersRequest, peers=peers), m.PeersReply)
    granted(talk.ask(m.RulesRequest, **hand_out_grid(talk, names)), m.RulesReply)
    granted(talk.ask(m.TermsRequest, rules=()), m.TermsReply)
    return talk, peers


def n_terms_of(talk: Talk) -> int:
    return 1 + len(GRID.linear) if talk.site.study.settings.linear_terms else 1


def ask_round(talk: Talk, value: float = 0.0) -> Any:
    return talk.ask(m.DualRequest, round=0, dual=np.full(n_terms_of(talk), value))


def keys_of(peers: Sequence[m.Peer], names: Sequence[str]) -> dict[str, Any]:
    return {"peers": tuple(peer for peer in peers if peer.site in names)}


def test_the_run_waits_unless_it_was_said_to_go_on() -> None:
    talk, reply = meet(make_site(policy=GO_ON), THREE)
    granted(reply, m.PeersReply)
    sealed = granted(talk.ask(m.SpreadsRequest), m.SumReply)
    refused(talk.ask(m.OpenRequest, answered=sealed.header.step), "order")


def test_sites_may_leave_but_not_come_back() -> None:
    talk, peers = fitted_site()
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    for names in (SIX[:4], THREE, ("north", "south", "east"), ("south", "west")):
        reply = talk.ask(m.PeersRequest, **keys_of(peers, names))
        assert isinstance(reply, m.Refusal)
        assert reply.code in ("set-changed", "bad-request")
    refused(talk.ask(m.PeersRequest, **keys_of(peers, ("north",))), "too-few-sites")
    granted(talk.ask(m.PeersRequest, **keys_of(peers, ("north", "west"))), m.PeersReply)


def test_a_refused_departure_changes_nothing() -> None:
    talk, peers = fitted_site()
    sealed = granted(ask_round(talk), m.SumReply)
    bad = [dataclasses.replace(p, signature=b"") for p in peers if p.site != "east"]
    refused(talk.ask(m.PeersRequest, peers=tuple(bad)), "identity")
    granted(talk.ask(m.OpenRequest, answered=sealed.header.step), m.OpenReply)


def test_a_sum_is_opened_only_while_it_stands() -> None:
    talk, peers = fitted_site()
    refused(talk.ask(m.OpenRequest, answered=3), "not-open")
    first = granted(ask_round(talk), m.SumReply)
    again = granted(ask_round(talk), m.SumReply)
    refused(talk.ask(m.OpenRequest, answered=first.header.step), "not-open")
    one = granted(talk.ask(m.OpenRequest, answered=again.header.step), m.OpenReply)
    two = granted(talk.ask(m.OpenRequest, answered=again.header.step), m.OpenReply)
    assert one.seed == two.seed
    # The seed takes off the site's own mask, not those that it shares.
    bare = again.numbers - keystream(one.seed, len(again.numbers))
    other = first.numbers - keystream(one.seed, len(first.numbers))
    assert not np.array_equal(bare, other)
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    refused(talk.ask(m.OpenRequest, answered=again.header.step), "not-open")


def test_the_same_question_among_a_near_set_is_refused() -> None:
    talk, peers = fitted_site()
    sealed = granted(ask_round(talk), m.SumReply)
    granted(talk.ask(m.OpenRequest, answered=sealed.header.step), m.OpenReply)
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    refused(ask_round(talk), "same-question")
    # The next round's question is another one.
    granted(ask_round(talk, 0.5), m.SumReply)


def test_what_was_not_opened_may_be_asked_again_among_the_rest() -> None:
    talk, peers = fitted_site()
    given_up = granted(ask_round(talk), m.SumReply)
    granted(talk.ask(m.PeersRequest, **keys_of(peers, THREE)), m.PeersReply)
    repeated = granted(ask_round(talk), m.SumReply)
    assert repeated.header.step > given_up.header.step
    assert not (repeated.numbers == given_up.numbers).any()
    refused(talk.ask(m.OpenRequest, answered=given_up.header.step), "not-open")
    granted(talk.ask(m.OpenRequest, answered=repeated.header.step), m.OpenReply)
    refused(talk.ask(m.OpenRequest, answered=given_up.header.step), "not-open")


Actions = tuple[str, ...]


class Curious:
    """Tries every order of messages on one site, and notes which sums it opens.

    States are copied by the site's own memory, which tests restarts on the way.
    """

    NAMES = SIX[:4]
    SETS: Mapping[str, tuple[str, ...]] = {
        "leave east": ("north", "south", "west"),
        "leave west": ("east", "north", "south"),
        "leave both": ("north", "south"),
    }

    def __init__(self) -> None:
        self.memory, self.shared = Transient(), Transient()
        talk, self.peers = fitted_site(self.NAMES, memory=self.memory, shared=self.shared)
        self.first_step = talk.step
        self.paths = 0
        self.opened: set[frozenset[tuple[str, tuple[str, ...]]]] = set()

    def search(self, depth: int) -> None:
        self._visit(self.memory, self.shared, self.first_step, self.NAMES, {}, frozenset(), depth)

    def _visit(
        self,
        memory: Transient,
        shared: Transient,
        step: int,
        names: tuple[str, ...],
        sealed: dict[int, tuple[str, tuple[str, ...]]],
        opened: frozenset[tuple[str, tuple[str, ...]]],
        depth: int,
    ) -> None:
        self.paths += 1
        self.opened.add(opened)
        if depth == 0:
            return
        actions = ["ask 0", "ask 1", *self.SETS, *(f"open {s}" for s in sealed)]
        for action in actions:
            copied = [Transient(), Transient()]
            for new, old in zip(copied, (memory, shared), strict=True):
                new.put(dict(old._entries))
            site = make_site(policy=GO_ON, memory=copied[0], shared=copied[1])
            talk = Talk(site, step=step)
            kind, _, what = action.partition(" ")
            now, left, known = names, dict(sealed), opened
            if kind == "ask":
                reply = ask_round(talk, float(what))
                left[step] = (what, names)
            elif kind == "leave":
                now = self.SETS[action]
                reply = talk.ask(m.PeersRequest, **keys_of(self.peers, now))
            else:
                reply = talk.ask(m.OpenRequest, answered=int(what))
                known = opened | {sealed[int(what)]}
            if not isinstance(reply, m.Refusal):  # else all is as before
                self._visit(*copied, talk.step, now, left, known, depth - 1)


def test_no_order_of_messages_opens_one_round_among_two_sets() -> None:
    """All orders of up to five messages: ask, ask another, let sites go, open any sum."""
    curious = Curious()
    curious.search(depth=5)
    assert curious.paths > 500
    for opened in curious.opened:
        for (question, one), (again, other) in combinations(opened, 2):
            # Of one question, no two sums whose difference is over fewer than two sites.
            assert question != again or len(set(one) ^ set(other)) >= GO_ON.min_sites, opened
    # The search reached what it looks for: rounds among different sets, both opened.
    assert any(len({names for _, names in opened}) == 2 for opened in curious.opened)
    assert any(len({question for question, _ in opened}) == 2 for opened in curious.opened)


def test_a_question_is_remembered_across_runs_among_every_set_it_had() -> None:
    """North answers among six, then among others far from both; never next to the first."""
    policy = change(GO_ON, min_sites=3)
    shared = Transient()

    def round_among(names: Sequence[str], run: str) -> Any:
        talk, _ = fitted_site(names, run=run, policy=policy, shared=shared)
        reply = ask_round(talk)
        if isinstance(reply, m.Refusal):
            return reply
        return talk.ask(m.OpenRequest, answered=reply.header.step)

    granted(round_among(SIX, "1"), m.OpenReply)
    refused(round_among(SIX[:5], "2"), "same-question")
    granted(round_among(("north", "centre", "coast"), "3"), m.OpenReply)
    refused(round_among(SIX[:5], "4"), "same-question")


def test_a_waiting_run_is_remembered_by_a_run_that_goes_on() -> None:
    """The same question, once in a run that waits and once in one that does not."""
    policy = change(GO_ON, min_sites=3)
    shared = Transient()
    for run, names, expected in (("1", SIX[:4], None), ("2", THREE, "same-question")):
        site = make_site(policy=policy, shared=shared)
        talk, reply = meet(site, names, run=run, dropouts="wait")
        granted(reply, m.PeersReply)
        granted(talk.ask(m.RulesRequest, **hand_out_grid(talk, names)), m.RulesReply)
        granted(talk.ask(m.TermsRequest, rules=()), m.TermsReply)
        reply = ask_round(talk)
        if expected is None:
            granted(reply, m.SumReply)
        else:
            refused(reply, expected)


@pytest.mark.parametrize("lost", [("west",), ("west", "east")])
def test_a_run_never_goes_on_below_the_smallest_number_of_sites(lost: Sequence[str]) -> None:
    """The coordinator loses sites; the rest refuse what would be too few."""
    tables = make_tables(STUDY, sizes=(50,) * 4)
    sites = make_sites(STUDY, tables, policy=change(GO_ON, min_sites=3))
    coordinator = Coordinator(STUDY, list(sites), secure=True, dropouts="continue")
    kinds: list[type] = []

    def play() -> Model:
        outcome = coordinator.step()
        while not isinstance(outcome, Model):
            kinds.append(type(next(iter(outcome.values()))))
            gone = lost if m.DualRequest in kinds else ()
            asked = {name: request for name, request in outcome.items() if name not in gone}
            outcome = coordinator.step({name: sites[name].handle(r) for name, r in asked.items()})
        return outcome

    if len(lost) > 1:
        with pytest.raises(FitError, match="too-few-sites"):
            play()
        return
    assert set(play().provenance.sites) == set(sites) - set(lost)
    first = kinds.index(m.DualRequest)
    repeated = [m.DualRequest, m.PeersRequest, m.DualRequest, m.OpenRequest]
    assert kinds[first : first + 4] == repeated
