"""What a person is shown before it leaves, and that nothing leaves without their word."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.rules import Condition, Rule
from fedrulefit.model import Model, describe_rule
from fedrulefit.privacy.gate import Gated
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import KINDS, OPEN, Policy, ReleaseKind
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site.review import Review
from fedrulefit.table.check import load_table
from fedrulefit.testing.samples import OUTCOMES
from tests.alone import OWN, ask_results, own_site
from tests.hospitals import (
    GRID,
    REVIEW,
    SMALL,
    THREE,
    Person,
    change,
    granted,
    make_site,
    named,
    refused,
)
from tests.samples import (
    SOLVERS,
    Talk,
    make_frame,
    make_sites,
    make_study,
    make_tables,
    record,
)


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
    assert len(drawn) == 1, "for all covariates at once"


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


LATER = ("slopes", "summary", "between-sites")


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("secure", [False, True])
def test_a_person_is_asked_once_for_each_kind_in_words(solver: str, secure: bool) -> None:
    people, seen, (study, tables, model) = words_of_run(solver, secure)
    rounds = {"fedda": "dual", "own": "own-baselines"}.get(solver, "curvature")
    for name, person in people.items():
        kinds = [kind for kind, _ in person.shown]
        votes = ["votes"] * secure
        pruned = votes * (solver == "pruned")  # variants are voted on, too
        assert kinds == ["exact-histograms", "rules", *votes, rounds, *pruned, *LATER]
        text = {kind: "\n".join(lines) for kind, lines in person.shown}
        (sent,) = [r for n, _, r in seen if n == name and isinstance(r, m.RulesReply)]
        for rule in {*sent.rules, *(r for rules in sent.fold_rules for r in rules)}:
            assert describe_rule(rule, model.grid, study) in text["rules"]
        told = "inside secure sums over north, south, west" if secure else "without masks"
        for kind in (rounds, *LATER):
            assert told in text[kind]
        every = "\n".join(text.values())
        values = tables[name].values[:, :2]
        for value in np.unique(values[~np.isnan(values)]):
            assert repr(float(value)) not in every
        assert not re.search(r"\d\.\d{5}", every)  # no number longer than a cut-off


def test_a_person_sees_what_stands_under_the_hospital_s_name() -> None:
    asked: list[list[str]] = []

    def approve(kind: str, words: Any) -> bool:
        if kind == "site-results":
            asked.append(list(words))
        return True

    policy = Policy.model_validate({**OPEN.model_dump(), "approval": "review"})
    site = own_site(OWN, policy=policy, approver=approve)
    site.handle(ask_results())
    assert len(asked) == 2, "once for the offer, once for the results"
    assert "whether this site has too few patients" in " ".join(asked[0])
    told = " ".join(asked[1])
    assert "under the name 'north' in the model file" in told
    assert "patients, and with the outcome: 140, " in told
    assert "predictions: patients = 60, events = " in told


# --- the words of every kind, by hand ---------------------------------------------------------

HEAD = m.Header(m.PROTOCOL_VERSION, "run", 1, "north", OWN.digest)
RULES = (Rule((Condition(3, 0b0001),)), Rule((Condition(3, 0b0110), Condition(4, 0b10))))
PUBLIC = Public(OWN).with_grid(GRID).with_rules(RULES)
PLACES, COEF = np.array([0, 1]), np.array([0.5, 0.25])
NOTHING: Any = np.empty(0)
FIRST = "Study 'sepsis', run run-1."
UNDER = "They leave inside secure sums over north, south."
BARE = "They leave without masks: the coordinator sees this site's own numbers."
SUM = m.SumReply(HEAD, False, np.zeros(1, np.int64))


def words(kind: ReleaseKind, request: m.Request, reply: m.Reply, **options: Any) -> list[str]:
    facts = {"gated": Gated(()), "n_candidates": 7, "cost": "This costs ε = 5.", **options}
    sites = facts.pop("sites", ("north", "south"))
    return Review("north", "run-1", sites, 40).words(kind, request, reply, PUBLIC, **facts)


NOISY = m.GridReply(HEAD, "Laplace", True, np.zeros(9, np.int64), b"")
SENT = m.RulesReply(HEAD, RULES[:1], (RULES[1:], ()), b"")
RESULTS = m.ResultsReply(
    HEAD, np.array([140.0, 60.0]), np.array([70.0]), np.array([35.0]), np.array([0, 2]),
    np.array([60.0, 0.75]), np.array([30.0]), np.array([10.0]),
)  # fmt: skip
ASKED = m.ResultsRequest(HEAD, PLACES, COEF, np.array([0]), True, True, np.array([0]))
SHOWN: dict[str, tuple[ReleaseKind, m.Request, m.Reply, list[str]]] = {
    "histograms": ("histograms", m.GridRequest(HEAD), NOISY, [
        "9 noisy counts (Laplace) of: age, lactate, gcs, ward, sex.",
        "This costs ε = 5.",
    ]),
    "exact-histograms": (
        "exact-histograms", m.GridRequest(HEAD), dataclasses.replace(NOISY, private=False),
        ["9 noisy counts (Laplace) of: age, lactate, gcs, ward, sex."],
    ),
    "rules": ("rules", m.RulesRequest(HEAD, GRID), SENT, [
        "2 rules; kept back: 1 with too few patients, 2 too near to another, 3 over the limit.",
        "  ward = icu",
        "  ward is er or general & sex = female",
    ]),
    "spreads": ("spreads", m.SpreadsRequest(HEAD), SUM, [UNDER]),
    "votes": ("votes", m.VoteRequest(HEAD, (), ()), m.VoteReply(HEAD, bytes(4), b""), [
        UNDER,
        "There are 7 candidate rules.",
    ]),
    "dual": ("dual", m.DualRequest(HEAD, 0, NOTHING), SUM, [
        UNDER, "Up to 40 rounds.", "They are of 2 rules.",
    ]),
    "curvature": ("curvature", m.CurvatureRequest(HEAD, ()), SUM, [
        UNDER, "Up to 40 rounds.", "They are of 2 rules.",
    ]),
    "own-baselines": ("own-baselines", m.CurvatureRequest(HEAD, ()), SUM, [
        UNDER, "Up to 40 rounds.", "They are of 2 rules.",
    ]),
    "slopes": ("slopes", m.SlopesRequest(HEAD, PLACES, COEF), SUM, [UNDER]),
    "summary": ("summary", m.SummaryRequest(HEAD, PLACES, COEF, np.zeros(2)), SUM, [UNDER]),
    "between-sites": (
        "between-sites", m.BetweenRequest(HEAD, 3, PLACES, 9.0, NOTHING, NOTHING), SUM, [UNDER],
    ),
    "evaluation": ("evaluation", m.EvaluateRequest(HEAD, PLACES, COEF), SUM, [UNDER]),
    "site-results": ("site-results", ASKED, RESULTS, [
        "They leave without masks, and stand under the name 'north' in the model file and the "
        "report.",
        "  patients, and with the outcome: 140, 60",
        "  inside 1 rules: 70",
        "  with the outcome inside them: 35",
        "  held out, inside 1 rules: 30",
        "  with the outcome inside them: 10",
        "  predictions: patients = 60, auc = 0.75",
    ]),
}  # fmt: skip


def test_every_kind_of_release_has_its_words() -> None:
    assert {*SHOWN} == {*KINDS}
    gated = Gated((), too_few=1, too_near=2, too_many=3)
    for kind, request, reply, told in SHOWN.values():
        expected = [FIRST, f"About to leave: {KINDS[kind]}.", *told]
        assert words(kind, request, reply, gated=gated) == expected


def test_an_offer_says_that_it_tells_no_results_yet() -> None:
    request = m.OfferRequest(HEAD, PLACES)
    assert words("site-results", request, SUM) == [
        FIRST,
        "About to leave: for each rule of the model, and for the totals, whether this site has too "
        "few patients (learnt from, held out) to tell results of its own (1) or enough (0).",
        UNDER,
    ]


def test_sums_without_masks_are_called_so() -> None:
    for kind in ("spreads", "dual", "curvature", *LATER, "evaluation"):
        _, request, reply, told = SHOWN[kind]
        assert words(kind, request, reply, sites=())[2:] == [BARE, *told[1:]]  # type: ignore[arg-type]


def test_results_that_some_site_keeps_back_are_called_nothing() -> None:
    none = m.ResultsReply(HEAD, *[NOTHING] * 3, NOTHING.astype(np.int64), NOTHING, NOTHING, NOTHING)
    assert words("site-results", ASKED, none)[3:] == [
        "  nothing: some site has too few patients"
    ]  # fmt: skip


@pytest.mark.parametrize("outcome", [kind for kind in OUTCOMES if kind != "yes/no"])
def test_nobody_reads_of_with_and_without_where_the_outcome_is_another(outcome: str) -> None:
    """What is about to leave, and the bill, are told in words of the outcome's own kind."""
    settings = {**SOLVERS["exact"], "epsilon": 1.0, "holdout": 0.3, "per_site": True, "n_trees": 5}
    study = make_study(outcome, **settings)
    shown: list[str] = []

    def approve(kind: str, lines: Any) -> bool:
        shown.append(" ".join(lines))
        return True

    sites = make_sites(
        study,
        make_tables(study, sizes=(200, 150, 150)),
        policy=change(OPEN, approval="review"),
        secure=False,
        approver=approve,
    )
    model, _ = record(Coordinator(study, list(sites)), sites)
    told, bill = study.family.tells, model.privacy.words()
    for clause in (told.inside, told.slopes, told.summary, told.evaluation, told.subgroups):
        assert any(clause in text for text in shown), clause
        assert clause in " ".join(bill.split()), clause
    assert any(told.held_out_results in text for text in shown)
    for text in [*shown, bill]:
        assert "without the outcome" not in text
        assert "with the outcome:" not in text


def test_rules_that_one_patient_outweighs_are_said_to_be_kept_back() -> None:
    lines = words("rules", m.RulesRequest(HEAD, GRID), SENT, gated=Gated((), 1, 2, 3, one_sided=4))
    assert lines[2].endswith("3 over the limit, 4 in which one patient outweighs all others.")
