"""What is handed out must follow from what the sites sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule, conjoin, merge_rules
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import fill_ballot, free_rules, histogram_claim, pack_votes
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.diary import Place
from fedrulefit.protocol.site.handed import Handed, add_histograms
from fedrulefit.protocol.solver_settings import most_rules
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.wire import question_digest
from tests.alone import head, refusal
from tests.hospitals import (
    ALL,
    FREE,
    GRID,
    SMALL,
    STUDY,
    THREE,
    TOTAL,
    change,
    granted,
    make_site,
    ready_for_rules,
    refused,
)
from tests.samples import SOLVERS, make_study


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


def test_a_grid_of_fewer_more_or_shuffled_covariates_is_refused() -> None:
    for axes in (GRID.axes[:-1], GRID.axes[::-1], (*GRID.axes, GRID.axes[0])):
        for policy in (FREE, OPEN):
            site = make_site(policy=policy)
            refused(ready_for_rules(site).ask(m.RulesRequest, grid=Grid(axes)), "grid")


def test_a_grid_of_other_covariates_is_refused(joined: Site, grid: Grid) -> None:
    age, lactate, gcs, ward, sex = grid.axes

    def reason(*axes: Any) -> str:
        return refusal(joined, m.RulesRequest(head(), Grid(axes)), "grid")

    assert "does not fit the study's covariates" in reason(age)
    assert "does not fit the study's covariates" in reason(age, lactate, gcs, sex, ward)
    complete = dataclasses.replace(age, complete=True)
    assert "does not fit the study's covariates" in reason(complete, lactate, gcs, ward, sex)
    more = dataclasses.replace(ward, n_codes=5)
    assert "category's levels" in reason(age, lactate, gcs, more, sex)
    finer = dataclasses.replace(sex, cutoffs=np.array([0.5, 0.7]), n_codes=3)
    assert "cut-offs that the study fixes" in reason(age, lactate, gcs, ward, finer)


def test_rules_that_do_not_fit_the_grid_are_refused(joined: Site, grid: Grid) -> None:
    joined.handle(m.RulesRequest(head(), grid))

    def reason(*conditions: tuple[int, int]) -> str:
        rule = Rule(tuple(Condition(*c) for c in conditions))
        return refusal(joined, m.TermsRequest(head(), (rule,)))

    assert "names covariate 5" in reason((5, 1))
    assert "a code that its covariate does not have" in reason((3, 1 << 7))
    assert "must be an interval" in reason((0, 0b101))
    assert "not in canonical form" in reason((3, 1), (0, 1))
    assert "not in canonical form" in reason()


# --- by hand ------------------------------------------------------------------------------------


class Masking:
    """Stands for the masks: three sites, who signed whatever ends in their name."""

    sites = THREE

    def __init__(self, *, active: bool = True) -> None:
        self.active = active
        self.claims: list[tuple[str, bytes]] = []
        self.ballots: list[tuple[bytes, bytes]] = []

    def check_senders(self, names: Iterable[str]) -> None:
        if sorted(names) != sorted(self.sites):
            raise ProtocolError("not of every site", "identity")

    def check_signed(self, site: str, claim: bytes, signature: bytes) -> None:
        self.claims.append((site, claim))
        if signature != site.encode():
            raise ProtocolError("not signed", "identity")

    def check_ballots(self, request: m.TermsRequest, own: bytes, question: bytes) -> None:
        self.ballots.append((own, question))


HEAD = m.Header(m.PROTOCOL_VERSION, "run", 1, "north", STUDY.digest)
CUTS = make_study(**SMALL, single_cutoffs=True)
PUBLIC = Public(CUTS).with_grid(GRID)
FREE_RULES = tuple(sorted(free_rules(CUTS, GRID, None)))
GROWN = tuple(
    rule
    for j in range(2)
    for code in (1, 2, 3)
    if (rule := conjoin([Condition(j, 2**code - 1), Condition(3, 0b1)], GRID)) is not None
)
"""Rules of two covariates: trees grew them."""


def check(
    request: m.Request,
    *,
    public: Public = PUBLIC,
    masking: Masking | None = None,
    policy: Policy = OPEN,
    turn: m.Turn = m.Turn.GRID,
    kept: Mapping[str, bytes] = {},
    candidates: tuple[Rule, ...] = (),
) -> str | None:
    """Return the code of the refusal; None where there is none."""
    memory = Transient()
    memory.put(dict(kept))
    handed = Handed("north", policy, masking or Masking(), memory)  # type: ignore[arg-type]
    place = Place(step=0, turn=turn)
    try:
        handed.check(request, place, public, counts=None, candidates=candidates)
    except ProtocolError as error:
        return error.code
    return None


def histograms(**changes: Any) -> tuple[m.Histogram, ...]:
    """Histograms of three sites that add up to those that the grid was made from."""
    counts = {"north": TOTAL - 2, "south": np.ones_like(TOTAL), "west": np.ones_like(TOTAL)}
    return tuple(
        m.Histogram(site, part, site.encode()) for site, part in {**counts, **changes}.items()
    )


OWN = {"histogram": (TOTAL - 2).astype("<i8").tobytes()}


def test_a_grid_is_made_again_from_what_every_site_signed() -> None:
    masking = Masking()
    assert check(m.RulesRequest(HEAD, GRID, histograms()), masking=masking, kept=OWN) is None
    assert masking.claims == [
        (part.site, histogram_claim(HEAD, part.site, part.counts)) for part in histograms()
    ]


@pytest.mark.parametrize(
    ("changed", "kept", "code"),
    [
        (histograms()[:2], OWN, "identity"),
        ((), OWN, "identity"),
        (histograms(west=np.ones(3, np.int64)), OWN, "grid"),
        (histograms(south=0 * TOTAL, west=np.full_like(TOTAL, 2)), OWN, None),
        (histograms(south=TOTAL[::-1].copy()), OWN, "grid"),
        (histograms(), {"histogram": b"another"}, "grid"),
        (histograms(), {}, "grid"),
        ((m.Histogram("north", TOTAL, b"forged"), *histograms()[1:]), OWN, "identity"),
    ],
)
def test_a_grid_of_other_histograms_is_refused(
    changed: tuple[m.Histogram, ...], kept: Any, code: str | None
) -> None:
    public = Public(STUDY)
    assert check(m.RulesRequest(HEAD, GRID, changed), public=public, kept=kept) == code


def test_without_masks_or_before_histograms_a_grid_needs_no_evidence() -> None:
    bare = m.RulesRequest(HEAD, GRID)
    assert check(bare, masking=Masking(active=False)) is None
    assert check(bare, turn=m.Turn.PEERS) is None, "the cut-offs were known before"
    assert check(bare) == "identity"


def test_histograms_add_up_only_if_all_are_of_the_study() -> None:
    request = m.RulesRequest(HEAD, GRID, histograms())
    total = add_histograms(request, STUDY)
    assert total is not None
    np.testing.assert_array_equal(total, TOTAL)
    assert add_histograms(m.RulesRequest(HEAD, GRID), STUDY) is None
    short = histograms(west=np.ones(3, np.int64))
    assert add_histograms(m.RulesRequest(HEAD, GRID, short), STUDY) is None


def senders(**told: int) -> tuple[m.Sender, ...]:
    counts = {"north": 1, "south": 1, "west": 1, **told}
    return tuple(m.Sender(site, n, site.encode()) for site, n in counts.items())


def test_no_more_candidates_than_the_sites_sent() -> None:
    assert len(GROWN) == 6
    free = FREE_RULES[:4]
    merged = merge_rules([{*free, *GROWN[:3]}], GRID, drop_complements=False)
    assert len(merged) == 7
    assert check(m.VoteRequest(HEAD, merged, senders())) is None, "three grown, three sent"
    assert check(m.VoteRequest(HEAD, merged, senders(west=0))) == "votes"
    every = merge_rules([{*GROWN}], GRID, drop_complements=False)
    assert check(m.VoteRequest(HEAD, every, senders(west=4))) is None
    assert check(m.VoteRequest(HEAD, every, senders(west=3))) == "votes"


def test_no_more_single_cut_offs_than_the_study_plans() -> None:
    """The plan follows from the study: whoever leaves it has more rules than the sites sent."""
    thinned = CUTS.with_settings(max_candidates=20)
    public = Public(thinned).with_grid(GRID)
    planned = free_rules(thinned, GRID, None)
    assert planned < set(FREE_RULES)
    assert len(planned) <= 20

    def asked(rules: Iterable[Rule], **told: int) -> str | None:
        merged = merge_rules([rules], GRID, drop_complements=False)
        request = m.VoteRequest(dataclasses.replace(HEAD, study=thinned.digest), merged, ())
        return check(dataclasses.replace(request, senders=senders(**told)), public=public)

    assert asked({*planned, *GROWN[:3]}) is None
    assert asked(FREE_RULES) == "votes"
    # As many as the sites say that they sent: these could be a tree's.
    beyond = sorted(set(FREE_RULES) - planned)[:3]
    assert asked({*planned, *beyond}) is None
    assert asked({*planned, *beyond}, west=0) == "votes"


def test_a_site_cannot_say_that_it_sent_more_than_trees_can_grow() -> None:
    few = CUTS.with_settings(n_trees=1, mean_leaves=2.0)
    most = most_rules(few.settings)
    codes = range(1, GRID.axes[0].n_codes)
    limits = range(1, GRID.axes[1].n_codes)
    grown = [
        rule
        for low in codes
        for high in limits
        if (rule := conjoin([Condition(0, 2**low - 1), Condition(1, 2**high - 1)], GRID))
    ]
    assert len(grown) > most
    rules = merge_rules([set(grown[: most + 1])], GRID, drop_complements=False)
    told = {"north": 0, "south": 0, "west": 10**6}
    public = Public(few).with_grid(GRID)
    assert check(m.VoteRequest(HEAD, rules[:most], senders(**told)), public=public) is None
    assert check(m.VoteRequest(HEAD, rules, senders(**told)), public=public) == "votes"


def test_votes_are_only_under_masks_and_on_rules_of_this_grid() -> None:
    request = m.VoteRequest(HEAD, (), senders())
    assert check(request) is None
    assert check(request, masking=Masking(active=False)) == "secure-sum"
    strange = (Rule((Condition(9, 0b1),)),)
    assert check(m.VoteRequest(HEAD, strange, senders())) == "bad-request"
    assert check(m.VoteRequest(HEAD, (), senders()[1:])) == "identity"
    forged = (m.Sender("north", 1, b"forged"), *senders()[1:])
    assert check(m.VoteRequest(HEAD, (), forged)) == "identity"


RULES = FREE_RULES[:2]
VOTING = change(ALL, min_votes=2, min_sites=3)


def ballots(*votes: tuple[bool, bool], deals: Any = (True, True, True)) -> tuple[m.Ballot, ...]:
    """What three sites voted on two rules, and which of them deal patients into folds."""
    return tuple(
        m.Ballot(site, pack_votes(fill_ballot(np.array(own), [deal, deal], site, THREE)), b"", b"")
        for site, own, deal in zip(THREE, votes, deals, strict=True)
    )


BOTH = ((True, True), (True, True), (False, False))
ONE = ((True, True), (True, False), (False, False))


@pytest.mark.parametrize(
    ("rules", "votes", "min_votes", "code"),
    [
        (RULES, BOTH, 2, None),
        (RULES, BOTH, 3, "votes"),
        (RULES, ONE, 2, "votes"),
        (RULES[:1], ONE, 2, None),
        (RULES, ONE, 1, None),
        ((), ONE, 2, None),
        ((FREE_RULES[3],), BOTH, 2, "votes"),  # nobody voted on it
    ],
)
def test_rules_need_the_votes_of_enough_sites(
    rules: tuple[Rule, ...], votes: Any, min_votes: int, code: str | None
) -> None:
    request = m.TermsRequest(HEAD, rules, ballots(*votes))
    policy, masking = change(VOTING, min_votes=min_votes), Masking()
    found = check(request, policy=policy, masking=masking, kept={"votes": b"own"}, candidates=RULES)
    assert found == code
    if rules != (FREE_RULES[3],):
        question = question_digest(m.VoteRequest(HEAD, RULES, ()))
        assert masking.ballots == [(b"own", question)]


def test_rules_without_a_vote_are_refused_where_the_policy_asks_for_one() -> None:
    request = m.TermsRequest(HEAD, RULES)
    assert check(request, policy=VOTING, candidates=RULES) == "votes", "this site never voted"
    assert check(request, policy=change(VOTING, min_votes=0)) is None
    assert check(request, policy=VOTING, masking=Masking(active=False)) is None


@pytest.mark.parametrize(
    ("settings", "deals", "code"),
    [
        ({}, (True, True, True), None),
        ({}, (True, False, True), None),  # no folds, nobody held out: who deals does not matter
        ({"folds": 3}, (True, True, True), None),
        ({"folds": 3}, (False, False, False), None),
        ({"folds": 3}, (True, False, True), "too-few-sites"),
        ({"folds": 3}, (False, False, True), "too-few-sites"),
        ({"holdout": 0.2}, (True, True, True), None),
        ({"holdout": 0.2}, (False, False, False), None),
        ({"holdout": 0.2}, (True, True, False), "too-few-sites"),
        ({"holdout": 0.2}, (True, False, False), "too-few-sites"),
    ],
)
def test_sums_over_some_of_the_sites_are_over_enough(
    settings: Any, deals: Any, code: str | None
) -> None:
    solver = {**SOLVERS["cv"], **settings} if "folds" in settings else settings
    public = Public(CUTS.with_settings(**solver)).with_grid(GRID)
    request = m.TermsRequest(HEAD, RULES, ballots(*BOTH, deals=deals))
    kept = {"votes": b"own"}
    assert check(request, public=public, policy=VOTING, kept=kept, candidates=RULES) == code
