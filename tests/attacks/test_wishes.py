"""A study whose rules in words single a patient out: with one rule, or with the difference of two.

A study is signed by every hospital; still, nobody counts patients while reading it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.rules import Rule, merge_rules
from fedrulefit.privacy.policy import KINDS, OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import count_votes, free_rules
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.own_rules import list_own_asked, name_own
from fedrulefit.protocol.site import work
from fedrulefit.study import Study
from fedrulefit.testing.samples import study_facts
from tests.attacks.lead import Lead
from tests.attacks.test_coordinator import refused
from tests.samples import SOLVERS, make_sites, make_study, make_tables, record

TABLES = make_tables(make_study(), sizes=(200, 160, 120))
POLICY = Policy(allow=tuple(KINDS), min_votes=2, min_sites=3)
CLEAR = Policy.model_validate({**POLICY.model_dump(), "secure_sums": False})


def declare(*rules: str) -> Study:
    facts = study_facts(**{**SOLVERS["exact"], "n_trees": 3, "penalty": 1e-4})
    return Study.from_mapping({**facts, "wishes": {"kept_rules": list(rules)}})


def inside(rule: str) -> dict[str, int]:
    """Return the patients that satisfy a rule on ages and GCS, by site."""
    age, gcs = (float(part.split()[-1]) for part in rule.split("&"))
    return {
        name: int(((t.values[:, 0] >= age) & (t.values[:, 2] < gcs)).sum())
        for name, t in TABLES.items()
    }


def oldest() -> float:
    """Return an age above that of all patients but one, of those with a low GCS."""
    ages = np.concatenate([t.values[t.values[:, 2] < 12, 0] for t in TABLES.values()])
    return float(np.round(np.sort(ages)[-1], 1))


LONE = f"age >= {oldest()} & gcs < 12"
HOME = next(name for name, n in inside(LONE).items() if n)
WIDE = "age >= 50 & gcs < 12"


def next_to(rule: str) -> str:
    """Return a rule that holds for all of its patients but the youngest of one hospital."""
    ages = TABLES[HOME].values[TABLES[HOME].values[:, 2] < 12, 0]
    above = np.unique(ages[ages >= 50])
    return f"age >= {above[1]} & gcs < 12"


NEXT = next_to(WIDE)


def fitted(study: Study, policy: Policy, secure: bool) -> tuple[set[Rule], tuple[Rule, ...]]:
    """Return the candidates of a run, and the study's own rules on its grid.

    Without masks of the one hospital that has the patient: in clear, each lets rules out by itself.
    """
    whose = TABLES if secure else {name: TABLES[name] for name in (HOME,)}
    sites = make_sites(study, whose, policy=policy)
    coordinator = Coordinator(study, list(sites), secure=secure)
    model, _ = record(coordinator, sites)
    return set(coordinator.candidates), study.wished.on_grid(model.grid).own


def test_the_rules_are_what_this_file_says() -> None:
    assert sum(inside(LONE).values()) == 1
    assert min(inside(WIDE).values()) > 20
    assert inside(WIDE)[HOME] - inside(NEXT)[HOME] == 1
    assert max(inside(WIDE)[name] - inside(NEXT)[name] for name in TABLES) < POLICY.min_count


@pytest.mark.parametrize(("policy", "secure"), [(CLEAR, False), (POLICY, True)])
def test_a_rule_of_one_patient_is_no_candidate(policy: Policy, secure: bool) -> None:
    candidates, own = fitted(declare(LONE, WIDE), policy, secure)
    assert [rule in candidates for rule in own] == [False, True]


def test_without_the_gate_it_would_be() -> None:
    candidates, own = fitted(declare(LONE, WIDE), OPEN, False)
    assert set(own) <= candidates


@pytest.mark.parametrize(("policy", "secure"), [(CLEAR, False), (POLICY, True)])
def test_of_two_rules_that_one_patient_parts_one_is_a_candidate(
    policy: Policy, secure: bool
) -> None:
    candidates, own = fitted(declare(WIDE, NEXT), policy, secure)
    assert len(set(own) & candidates) == 1


def test_votes_on_each_by_itself_would_let_both_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def believing(own: Any, grid: Any, passes: Any) -> tuple[Rule, ...]:
        return tuple(filter(passes, own))

    for room in ("coordinator.agreeing", "site.handed"):
        monkeypatch.setattr(f"fedrulefit.protocol.{room}.elect_own", believing)
    candidates, own = fitted(declare(WIDE, NEXT), POLICY, True)
    assert set(own) <= candidates


def test_a_gate_of_single_rules_would_let_both_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = work.gate_rules

    def single(rules: Any, *facts: Any, **options: Any) -> Any:
        passed = [gate([rule], *facts, **options) for rule in sorted(rules)]
        return work.Gated(tuple(rule for each in passed for rule in each.rules))

    monkeypatch.setattr(work, "gate_rules", single)
    candidates, own = fitted(declare(WIDE, NEXT), CLEAR, False)
    assert set(own) <= candidates


def test_sites_refuse_both_whatever_a_coordinator_hands_out() -> None:
    study = declare(WIDE, NEXT)
    lead = Lead(make_sites(study, TABLES, policy=POLICY))
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    own = name_own(lead.public)
    free = free_rules(study, grid, sum(part.counts for part in signed))
    merged = merge_rules(
        [free, own, *(reply.rules for reply in sent.values())],
        grid,
        drop_complements=True,
        preferred=own,
    )
    asked = (*merged, *(part for part in list_own_asked(own, grid) if part not in merged))
    ballots = lead.vote(asked, sent)
    elected = count_votes(ballots, len(asked)).elect(2)
    stay = tuple(rule for rule, stays in zip(asked, elected, strict=True) if stays)
    assert set(own) <= set(stay)
    assert refused(lead.ask, m.TermsRequest, rules=stay, ballots=ballots) == "votes"


def test_no_site_tells_by_itself_what_is_voted_on() -> None:
    """Under masks a reply with rules says nothing of which own rules the site lets pass."""
    told = {}
    for secure, policy in ((False, CLEAR), (True, POLICY)):
        study = declare(LONE, WIDE)
        sites = make_sites(study, TABLES, policy=policy)
        model, seen = record(Coordinator(study, list(sites), secure=secure), sites)
        own = set(study.wished.on_grid(model.grid).own)
        told[secure] = [
            len(own & set(reply.rules)) for _, _, reply in seen if isinstance(reply, m.RulesReply)
        ]
    assert told == {False: [1, 1, 1], True: [0, 0, 0]}
