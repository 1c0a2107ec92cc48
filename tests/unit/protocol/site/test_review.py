"""What a person is shown before it leaves, and that nothing leaves without their word."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fedrulefit.model import Model, describe_rule
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import KINDS, OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.table.check import load_table
from tests.alone import OWN, ask_results, own_site
from tests.hospitals import REVIEW, SMALL, THREE, Person, change, granted, make_site, named, refused
from tests.samples import SOLVERS, Talk, make_frame, make_sites, make_study, record


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
