"""A coordinator that would choose variants of rules around a patient, or add them unvoted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedrulefit import demo
from fedrulefit.core.rules import Rule, merge_rules
from fedrulefit.core.variants import find_between, find_ladders
from fedrulefit.privacy.policy import KINDS, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import count_votes, free_rules, list_variants, with_variants
from fedrulefit.protocol.site import Site
from fedrulefit.table.check import load_table
from tests.attacks.lead import Lead
from tests.attacks.test_coordinator import refused
from tests.samples import SOLVERS, make_sites, make_study, make_tables

STUDY = make_study(**{**SOLVERS["pruned"], "n_cutoffs": 12})
TABLES = make_tables(STUDY, sizes=(200, 160, 120))
POLICY = Policy(allow=tuple(KINDS), min_votes=2)


class Believing(Site):
    """Adds whatever variants it is told to."""

    def _check_handed(self, request: m.Request) -> None:
        if not isinstance(request, m.VariantsRequest):
            super()._check_handed(request)


def make(kind: type[Site] = Site) -> dict[str, Site]:
    honest = make_sites(STUDY, TABLES, policy=POLICY)
    return {
        name: kind(
            name,
            TABLES[name],
            STUDY,
            policy=POLICY,
            identity=site._masking._identity,
            trust=site._masking._trust,
        )
        for name, site in honest.items()
    }


def make_registry() -> dict[str, Site]:
    """Return sites with a registry like a real one: skewed, missing values, unlike hospitals."""
    settings = {**SOLVERS["pruned"], "n_trees": 40, "learning_rate": 0.1}
    study = demo.demo_study().with_settings(**settings)
    tables = {name: load_table(frame, study) for name, frame in demo.draw_registry().items()}
    return make_sites(study, tables, policy=POLICY)


def until_terms(kind: type[Site] = Site, sites: dict[str, Site] | None = None) -> Lead:
    """Lead an honest run to the point where the rules of the fit stand."""
    lead = Lead(sites or make(kind))
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    free = free_rules(lead.study, grid, sum(part.counts for part in signed))
    rules = merge_rules(
        [free, *(reply.rules for reply in sent.values())], grid, drop_complements=True
    )
    ballots = lead.vote(rules, sent)
    elected = count_votes(ballots, len(rules)).elect(2)
    stay = tuple(rule for rule, stays in zip(rules, elected, strict=True) if stays)
    lead.ask(m.TermsRequest, rules=stay, ballots=ballots)
    return lead


def longest(lead: Lead, n: int = 6) -> Any:
    """Return the places of the rules with most conditions."""
    rules = lead.public.fitted_rules
    return np.sort(np.argsort([-len(rule) for rule in rules], kind="stable")[:n])


def vote(lead: Lead, bases: Any) -> tuple[m.Ballot, ...]:
    votes = lead.ask(m.VariantVoteRequest, bases=bases)
    return tuple(m.Ballot(n, reply.votes, reply.signature, b"") for n, reply in votes.items())


def test_honest_variants_are_added_by_all_sites_alike() -> None:
    lead = until_terms()
    bases, before = longest(lead), lead.public
    ballots = vote(lead, bases)
    built = lead.ask(m.VariantsRequest, bases=bases, min_votes=2, ballots=ballots)
    question = m.VariantsRequest(
        m.Header(m.PROTOCOL_VERSION, "run", 0, "", STUDY.digest), bases, 2, ballots
    )
    expected = with_variants(question, before)
    assert {reply.n_terms for reply in built.values()} == {expected.n_terms}
    assert expected.n_terms > before.n_terms
    assert {site.patients.public.rules for site in lead.sites.values()} == {expected.rules}


@pytest.mark.parametrize("registry", [False, True])
def test_between_a_rule_and_an_added_variant_two_hospitals_have_enough_patients(
    registry: bool,
) -> None:
    """Who knows a sum over both knows that over the patients between them."""
    lead = until_terms(sites=make_registry() if registry else None)
    bases, before = longest(lead, 60 if registry else 6), lead.public
    rules = [before.fitted_rules[k] for k in bases.tolist()]
    lead.ask(m.VariantsRequest, bases=bases, min_votes=2, ballots=vote(lead, bases))
    added = set(lead.public.fitted_rules) - set(before.fitted_rules)
    assert added
    checked = 0
    for rule in rules:
        for ladder in find_ladders(rule, before.grid):
            last = rule
            for variant in filter(added.__contains__, ladder):
                parts = find_between(last, variant, before.grid)
                assert sum(has_enough(site, parts) for site in lead.sites.values()) >= 2
                last, checked = variant, checked + 1
    assert checked > 3


def has_enough(site: Site, parts: tuple[Rule, ...]) -> bool:
    """Whether a site has k patients with, and k without, the outcome in some part."""
    patients = site.patients
    for part in parts:
        hits = [c.table()[patients.ready_codes[:, c.feature]] for c in part]
        inside = np.logical_and.reduce(hits)
        events = patients.events[inside]
        if min(events.sum(), len(events) - events.sum()) >= POLICY.min_count:
            return True
    return False


@pytest.mark.parametrize("kind", [Believing, Site])
def test_variants_of_other_rules_than_were_voted_on(kind: type[Site]) -> None:
    lead = until_terms(kind)
    bases = longest(lead)
    ballots = vote(lead, bases)
    fields = {"min_votes": 2, "ballots": ballots}
    if kind is Site:
        assert refused(lead.ask, m.VariantsRequest, bases=bases[1:], **fields) == "votes"
    else:
        fewer = list_variants(lead.public, bases[1:])
        assert len(fewer) < len(list_variants(lead.public, bases))
        assert lead.ask(m.VariantsRequest, bases=bases[1:], min_votes=2, ballots=())


@pytest.mark.parametrize("kind", [Believing, Site])
def test_variants_without_the_votes_that_the_policy_asks_for(kind: type[Site]) -> None:
    """Without ballots all variants would be added, those of one patient, too."""
    for fields in ({"min_votes": 1}, {"ballots": ()}):
        lead = until_terms(kind)
        bases = longest(lead)
        given: dict[str, Any] = {"min_votes": 2, "ballots": vote(lead, bases), **fields}
        if kind is Site:
            assert refused(lead.ask, m.VariantsRequest, bases=bases, **given) == "votes"
        else:
            assert lead.ask(m.VariantsRequest, bases=bases, **given)


def test_forged_votes_on_variants_are_refused() -> None:
    lead = until_terms()
    bases = longest(lead)
    ballots = vote(lead, bases)
    for victim in range(3):
        forged = list(ballots)
        changed = bytes([ballots[victim].votes[0] ^ 1]) + ballots[victim].votes[1:]
        forged[victim] = dataclasses.replace(ballots[victim], votes=changed)
        fields = {"bases": bases, "min_votes": 2, "ballots": tuple(forged)}
        assert refused(lead.ask, m.VariantsRequest, **fields) in ("votes", "identity")
    assert lead.ask(m.VariantsRequest, bases=bases, min_votes=2, ballots=ballots)


def test_variants_of_variants_are_refused() -> None:
    """Step by step a rule could be led to one patient."""
    lead = until_terms()
    bases = longest(lead)
    ballots = vote(lead, bases)
    assert refused(lead.ask, m.VariantVoteRequest, bases=bases) == "order"
    lead.ask(m.VariantsRequest, bases=bases, min_votes=2, ballots=ballots)
    assert refused(lead.ask, m.VariantVoteRequest, bases=bases) == "order"
    again = {"bases": bases, "min_votes": 2, "ballots": ballots}
    assert refused(lead.ask, m.VariantsRequest, **again) == "order"


@pytest.mark.parametrize(
    "bases", [np.array([-1]), np.array([10**6]), np.array([3, 3]), np.array([4, 2])]
)
def test_places_that_are_none_are_refused(bases: Any) -> None:
    lead = until_terms()
    assert refused(lead.ask, m.VariantVoteRequest, bases=bases) == "bad-request"


def test_a_study_that_does_not_prune_hands_out_no_variants() -> None:
    study = make_study(**SOLVERS["cv"])
    sites = make_sites(study, make_tables(study, sizes=(200, 160, 120)), policy=POLICY)
    lead = Lead(sites)
    lead.join()
    assert refused(lead.ask, m.VariantVoteRequest, bases=np.array([0])) == "order"
