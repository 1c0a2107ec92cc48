"""The door by itself: which request is let in, without a site behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import Grid
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.ledger import Ledger, Release
from fedrulefit.privacy.policy import KINDS, OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site.diary import Place
from fedrulefit.protocol.site.door import Door
from fedrulefit.study import Study
from tests.samples import SOLVERS, make_study


@dataclass
class Masking:
    """Stands for the masks: whether there are some, and whether the last sum was given up."""

    active: bool = False
    given_up: bool = False


ASKS_ALL = {"spreads": "exact", "holdout": 0.3, "per_site": True}
FEDDA = make_study(**ASKS_ALL)
EXACT = make_study(**{**SOLVERS["exact"], **ASKS_ALL})
EMPTY: Any = np.empty(0)
WHOLE = EMPTY.astype(np.int64)
HEAD = m.Header(m.PROTOCOL_VERSION, "run", 1, "north", FEDDA.digest)

ASKED: dict[str, m.Request] = {
    "join": m.JoinRequest(HEAD, ("north",), True, "wait"),
    "key": m.KeyRequest(HEAD),
    "peers": m.PeersRequest(HEAD, ()),
    "grid": m.GridRequest(HEAD),
    "spreads": m.SpreadsRequest(HEAD),
    "rules": m.RulesRequest(HEAD, Grid(())),
    "votes": m.VoteRequest(HEAD, (), ()),
    "terms": m.TermsRequest(HEAD, ()),
    "dual": m.DualRequest(HEAD, 0, EMPTY),
    "curve": m.CurvatureRequest(HEAD, ()),
    "dispersion": m.DispersionRequest(HEAD, WHOLE, EMPTY, 0.5),
    "share": m.ShareDispersionRequest(HEAD, 0.5),
    "model": m.ShareModelRequest(HEAD, WHOLE, EMPTY),
    "variant votes": m.VariantVoteRequest(HEAD, WHOLE),
    "variants": m.VariantsRequest(HEAD, WHOLE, 0),
    "refit": m.RefitRequest(HEAD, ()),
    "slopes": m.SlopesRequest(HEAD, WHOLE, EMPTY),
    "summary": m.SummaryRequest(HEAD, WHOLE, EMPTY, EMPTY),
    "between": m.BetweenRequest(HEAD, 3, WHOLE, 1.0, EMPTY, EMPTY),
    "scores": m.EvaluateRequest(HEAD, WHOLE, EMPTY),
    "adjust": m.AdjustRequest(HEAD, WHOLE, EMPTY, EMPTY),
    "offer": m.OfferRequest(HEAD, WHOLE),
    "results": m.ResultsRequest(HEAD, WHOLE, EMPTY, WHOLE, False, False, WHOLE),
    "open": m.OpenRequest(HEAD, 0),
}


def make_door(
    study: Study = FEDDA, policy: Policy = OPEN, *, private: bool = True, **masks: bool
) -> Door:
    return Door("north", study, policy, Masking(**masks), private=private)  # type: ignore[arg-type]


def change(policy: Policy, **changes: Any) -> Policy:
    return Policy.model_validate({**policy.model_dump(), **changes})


def code_of(check: Any, *args: Any, **options: Any) -> str | None:
    """Return the code of the refusal; None where there is none."""
    try:
        check(*args, **options)
    except ProtocolError as error:
        return error.code
    return None


def let_in(door: Door, place: Place, run: str | None = "run") -> set[str]:
    return {name for name, q in ASKED.items() if code_of(door.check_turn, q, run, place) is None}


def test_there_is_one_of_every_request() -> None:
    assert {type(request) for request in ASKED.values()} == {*m.REQUESTS}


# --- turns ----------------------------------------------------------------------------------

COLUMNS = [
    "join", "key", "peers", "grid", "spreads", "rules", "votes", "terms", "dual", "slopes",
    "summary", "between", "scores", "offer", "results", "open",
]  # fmt: skip
TABLE = {
    # the last answer: what may come next, in a run of the paper's solver without masks
    m.Turn.JOIN:       "- + + + + + + + + + + + + + + +",
    m.Turn.KEYS:       "- - + + + + + + + + + + + + + +",
    m.Turn.PEERS:      "- - - + + + + + + + + + + + + +",
    m.Turn.GRID:       "- - - - + + + + + + + + + + + +",
    m.Turn.SPREADS:    "- - - - - + + + + + + + + + + +",
    m.Turn.RULES:      "- - - - - - + + + + + + + + + +",
    m.Turn.VOTES:      "- - - - - - - + + + + + + + + +",
    m.Turn.TERMS:      "- - - - - - - - + + + + + + + +",
    m.Turn.FIT:        "- - - - - - - - + + + + + + + +",
    m.Turn.VARIANT_VOTES: "- - - - - - - - - + + + + + + +",
    m.Turn.VARIANTS:   "- - - - - - - - - + + + + + + +",
    m.Turn.REFIT:      "- - - - - - - - - + + + + + + +",
    m.Turn.SLOPES:     "- - - - - - - - - - + + + + + +",
    m.Turn.SUMMARY:    "- - - - - - - - - - - + + + + +",
    m.Turn.BETWEEN:    "- - - - - - - - - - - - + + + +",
    m.Turn.MODEL:      "- - - - - - - - - - - - + + + +",
    m.Turn.EVALUATION: "- - - - - - - - - - - - - + + +",
    m.Turn.ADJUST:     "- - - - - - - - - - - - - + + +",
    m.Turn.OFFER:      "- - - - - - - - - - - - - - + +",
    m.Turn.RESULTS:    "- - - - - - - - - - - - - - - +",
}  # fmt: skip
"""Who lies about the order gets no sum: a question about rules needs rules, and a design.

Only rounds of the fit repeat. An opening comes whenever its sum is open: the masks know."""
AFTER = {
    turn: {name for name, mark in zip(COLUMNS, marks.split(), strict=True) if mark == "+"}
    for turn, marks in TABLE.items()
}


@pytest.mark.parametrize("turn", m.Turn)
def test_requests_come_in_their_turn(turn: m.Turn) -> None:
    assert let_in(make_door(), Place(step=0, turn=turn)) == AFTER[turn]


@pytest.mark.parametrize("turn", m.Turn)
def test_the_exact_solver_s_rounds_stand_where_the_paper_s_do(turn: m.Turn) -> None:
    expected = {"curve" if name == "dual" else name for name in AFTER[turn]}
    assert let_in(make_door(EXACT), Place(step=0, turn=turn)) == expected


VARIANTS = {
    m.Turn.TERMS: {"curve", "variant votes", "variants", "refit"},
    m.Turn.FIT: {"curve", "variant votes", "variants", "refit"},
    m.Turn.VARIANT_VOTES: {"variants", "refit"},
    m.Turn.VARIANTS: {"refit"},
    m.Turn.REFIT: {"refit", "curve"},
    m.Turn.SLOPES: set(),
}
"""Variants are voted on once, and handed out once; once refits are over, the exact fit goes on."""


@pytest.mark.parametrize("turn", VARIANTS)
def test_variants_are_handed_out_once_where_terms_are_pruned(turn: m.Turn) -> None:
    door = make_door(make_study(**{**SOLVERS["pruned"], **ASKS_ALL}))
    later = {*AFTER[m.Turn.REFIT]} if turn < m.Turn.SLOPES else {*AFTER[turn]}
    assert let_in(door, Place(step=0, turn=turn)) == VARIANTS[turn] | later


def test_before_joining_there_is_nothing_but_joining() -> None:
    assert let_in(make_door(), Place(), run=None) == {"join"}
    assert let_in(make_door(active=True), Place(), run=None) == {"join"}


@pytest.mark.parametrize("turn", m.Turn)
def test_under_masks_sites_may_be_let_go_at_any_time(turn: m.Turn) -> None:
    place = Place(step=0, turn=turn)
    assert let_in(make_door(active=True), place) == {*AFTER[turn], "peers"}


GIVEN_UP = {
    m.Turn.SPREADS: "spreads", m.Turn.VOTES: "votes", m.Turn.FIT: "dual", m.Turn.SLOPES: "slopes",
    m.Turn.SUMMARY: "summary", m.Turn.BETWEEN: "between", m.Turn.EVALUATION: "scores",
    m.Turn.OFFER: "offer",
}  # fmt: skip


@pytest.mark.parametrize("turn", m.Turn)
def test_a_sum_that_was_given_up_may_be_asked_again_and_nothing_else(turn: m.Turn) -> None:
    door = make_door(active=True, given_up=True)
    again = {*AFTER[turn], "peers", *GIVEN_UP.get(turn, "").split()}
    assert let_in(door, Place(step=0, turn=turn)) == again


@pytest.mark.parametrize("turn", [m.Turn.JOIN, m.Turn.KEYS, m.Turn.PEERS])
def test_a_site_that_guards_its_patients_wants_the_histograms_first(turn: m.Turn) -> None:
    """Cut-offs that no histogram gave could be chosen around one patient."""
    door = make_door(policy=change(OPEN, min_count=1))
    assert let_in(door, Place(step=0, turn=turn)) == AFTER[turn] - {"rules"}
    assert "rules" in let_in(door, Place(step=0, turn=m.Turn.GRID))


@pytest.mark.parametrize(
    ("settings", "never"),
    [
        ({}, {"spreads", "curve", "scores", "offer", "results"}),
        ({"spreads": "exact"}, {"curve", "scores", "offer", "results"}),
        ({"holdout": 0.3}, {"spreads", "curve", "offer", "results"}),
        ({"per_site": True}, {"spreads", "curve", "scores"}),
        (SOLVERS["cv"], {"spreads", "dual", "scores", "offer", "results"}),
        ({"between_sites": False}, {"spreads", "curve", "between", "scores", "offer", "results"}),
    ],
)
def test_what_a_study_never_asks_is_never_let_in(settings: Any, never: set[str]) -> None:
    door = make_door(make_study(**settings))
    never = never | {"join", "dispersion", "share"}  # a yes/no outcome has no dispersion
    never |= {"variant votes", "variants", "refit"}  # of studies whose terms are pruned
    never |= {"adjust"}  # of those that ask for it, with patients held out
    never |= {"model"}  # of those whose sites have baselines of their own
    assert let_in(door, Place(step=0, turn=m.Turn.JOIN)) == {*ASKED} - never


@pytest.mark.parametrize("turn", m.Turn)
def test_dispersions_are_asked_and_shared_between_rounds_of_their_outcome(turn: m.Turn) -> None:
    settings = {**SOLVERS["exact"], **ASKS_ALL}
    found = let_in(make_door(make_study("count, negative binomial", **settings)), Place(0, turn))
    both = {"dispersion", "share"}
    assert found & both == (both if turn <= m.Turn.FIT else set())
    assert not let_in(make_door(make_study("count", **settings)), Place(0, turn)) & both


@pytest.mark.parametrize("turn", m.Turn)
def test_the_model_is_handed_out_once_where_sites_have_baselines_of_their_own(turn: m.Turn) -> None:
    settings = {**SOLVERS["exact"], **ASKS_ALL}
    found = let_in(make_door(make_study(**settings, baseline="site")), Place(0, turn))
    assert ("model" in found) == (turn < m.Turn.MODEL)
    assert "model" not in let_in(make_door(make_study(**settings)), Place(0, turn))


# --- headers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "run", "code"),
    [
        (HEAD, None, None),
        (HEAD, "run", None),
        (HEAD, "other", "run"),
        (m.Header(5, "run", 1, "south", FEDDA.digest), "run", "site"),
        (m.Header(5, "run", 1, "north", "another"), "run", "study"),
        (m.Header(5, "-run", 1, "north", FEDDA.digest), None, "run"),
        (m.Header(5, "x" * 100, 1, "north", FEDDA.digest), None, None),
        (m.Header(5, "x" * 101, 1, "north", FEDDA.digest), None, "run"),
        (m.Header(5, "run\n", 1, "north", FEDDA.digest), None, "run"),
    ],
)
def test_a_header_names_this_site_study_and_run(
    header: m.Header, run: str | None, code: str | None
) -> None:
    assert code_of(make_door().check_header, header, run) == code


# --- the policy -----------------------------------------------------------------------------

KIND_OF = {
    "join": None, "key": None, "peers": None, "terms": None, "open": None,
    "grid": "histograms", "spreads": "spreads", "rules": "rules", "votes": "votes",
    "dual": "dual", "curve": "curvature", "slopes": "slopes", "summary": "summary",
    "between": "between-sites", "scores": "evaluation", "offer": "site-results",
    "results": "site-results", "dispersion": "curvature", "share": None,
    "variant votes": "votes", "variants": None, "refit": "curvature", "model": None,
    "adjust": "evaluation",
}  # fmt: skip


def test_each_request_asks_for_one_kind_of_release() -> None:
    private, bare = make_door(private=True), make_door(private=False)
    for name, request in ASKED.items():
        kind = KIND_OF[name]
        assert private.kind_of(type(request)) == kind
        without_noise = "exact-histograms" if name == "grid" else kind
        assert bare.kind_of(type(request)) == without_noise


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_is_not_allowed_is_refused(kind: Any) -> None:
    others = tuple(other for other in KINDS if other != kind)
    policy = change(OPEN, allow=others)
    for private in (True, False):
        door = make_door(policy=policy, private=private)
        refused = {
            name
            for name, request in ASKED.items()
            if code_of(door.check_policy, request, Place()) == "policy"
        }
        hit = {name for name, asks in KIND_OF.items() if asks == kind}
        if kind in ("histograms", "exact-histograms"):
            hit = {"grid"} if private == (kind == "histograms") else set()
        assert refused == hit


MASKED = {
    "spreads", "votes", "dual", "curve", "dispersion", "slopes", "summary", "between", "scores",
    "offer", "variant votes", "refit", "adjust",
}  # fmt: skip


def test_sums_and_votes_leave_under_masks_and_up_to_a_number() -> None:
    policy = change(OPEN, secure_sums=True, max_sums=3)
    for name, request in ASKED.items():
        sums = name in MASKED
        bare, masked = make_door(policy=policy), make_door(policy=policy, active=True)
        assert code_of(bare.check_policy, request, Place()) == ("secure-sum" if sums else None)
        assert code_of(masked.check_policy, request, Place(n_sums=2)) is None
        few = code_of(masked.check_policy, request, Place(n_sums=3))
        assert few == ("policy" if sums else None)


@pytest.mark.parametrize(
    ("settings", "secure", "min_votes", "n_sums"),
    [
        # 7 rounds, slopes, the summary, and what lies between sites
        ({}, False, 0, 10),
        ({}, False, 2, 10),
        ({}, True, 0, 11),  # a vote that the policy of another site may ask for
        ({}, True, 2, 11),  # and a vote
        ({"between_sites": False}, False, 0, 9),
        ({"spreads": "exact"}, False, 0, 11),
        ({"holdout": 0.3}, False, 0, 11),
        ({"per_site": True}, False, 0, 11),  # the offer; results are no sum
        (ASKS_ALL, True, 1, 14),
        ({**ASKS_ALL, "rounds": 100}, True, 1, 107),
    ],
)
def test_a_run_of_the_paper_s_solver_must_fit_into_the_sums_allowed(
    settings: Any, secure: bool, min_votes: int, n_sums: int
) -> None:
    study = make_study(**{"rounds": 7, **settings})
    enough = change(OPEN, max_sums=n_sums, min_votes=min_votes)
    few = change(enough, max_sums=n_sums - 1)
    assert code_of(make_door(study, enough).check_run, secure=secure, n_sites=3) is None
    assert code_of(make_door(study, few).check_run, secure=secure, n_sites=3) == "policy"


def test_of_the_exact_solver_nobody_knows_the_rounds_before() -> None:
    one = change(OPEN, max_sums=1)
    assert code_of(make_door(EXACT, one).check_run, secure=True, n_sites=3) is None


@pytest.mark.parametrize(("secure", "min_votes"), [(True, 2), (True, 0), (False, 2)])
def test_a_run_is_refused_for_a_kind_that_it_would_ask_for(secure: bool, min_votes: int) -> None:
    needed = {"histograms", "spreads", "rules", "dual", "slopes", "summary", "evaluation"}
    needed |= {"between-sites", "site-results"} | ({"votes"} if secure and min_votes else set())
    refused = set()
    for kind in KINDS:
        others = tuple(other for other in KINDS if other != kind)
        policy = change(OPEN, allow=others, min_votes=min_votes)
        if code_of(make_door(policy=policy).check_run, secure=secure, n_sites=3) is not None:
            refused.add(kind)
    assert refused == needed


def test_a_run_of_one_site_is_never_asked_what_lies_between_sites() -> None:
    without = change(OPEN, allow=tuple(kind for kind in KINDS if kind != "between-sites"))
    check = make_door(policy=without).check_run
    assert code_of(check, secure=False, n_sites=1) is None
    assert code_of(check, secure=False, n_sites=2) == "policy"


# --- the budget -----------------------------------------------------------------------------


def spend(study: str, epsilon: float) -> Release:
    return Release("GridReply", "histogram of age", (3,), "noise", epsilon, study=study)


@pytest.mark.parametrize(
    ("caps", "cost", "code"),
    [
        ((10.0, 100.0), 6.0, None),  # the study has spent 4
        ((10.0, 100.0), 6.1, "budget"),
        ((100.0, 10.0), 3.0, None),  # the data set 7
        ((100.0, 10.0), 3.1, "budget"),
        ((None, 10.0), 3.1, "budget"),
        ((10.0, None), 6.1, "budget"),
        ((None, None), 1e9, None),
        ((1.0, 1.0), 0.0, None),  # the same noise again costs nothing, whatever was spent
        ((10.0, 100.0), 6.0 + 1e-9, None),  # digits that sums of floats lose cost nobody a run
    ],
)
def test_a_budget_is_for_the_study_and_for_the_data_set(
    caps: tuple[float | None, float | None], cost: float, code: str | None
) -> None:
    ledger = Ledger()
    ledger.append(spend(FEDDA.name, 4.0), spend("another study", 3.0))
    door = make_door(policy=change(OPEN, epsilon_study=caps[0], epsilon_dataset=caps[1]))
    assert code_of(door.check_budget, cost, ledger) == code
