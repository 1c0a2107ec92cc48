"""The answers that are no sums: histograms, rules, and a site's own results."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.core.bins import split_cells
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import DataError, ProtocolError
from fedrulefit.privacy.gate import implies
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import (
    count_ballot,
    count_rules,
    histogram_claim,
    sender_claim,
    unpack_votes,
)
from fedrulefit.protocol.dealing import NEVER, site_rng
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.work import Known, Work
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests import hospitals
from tests.alone import (
    COEF,
    OWN,
    STUDY,
    TERMS,
    ask_results,
    head,
    join,
    make_site,
    own_site,
    refusal,
)
from tests.oracles import fires
from tests.samples import SOLVERS, make_study, make_tables, repeat, study_facts, sums_of


def test_noise_is_drawn_once() -> None:
    """Otherwise the coordinator asks again and averages the noise away."""
    study = make_study(epsilon=0.1)
    site = make_site(study)
    site.handle(join(study))
    request = m.GridRequest(head(study))
    data = site.answer(to_bytes(request))
    assert site.answer(to_bytes(request)) == data
    assert "came out of turn" in refusal(site, m.GridRequest(head(study)), "order")
    first = from_bytes(data)
    assert isinstance(first, m.GridReply)
    exact = make_site()
    exact.handle(join())
    truth = exact.handle(m.GridRequest(head()))
    assert isinstance(truth, m.GridReply)
    assert (first.counts != truth.counts).mean() > 0.3, "ε = 0.1 must move most cells"


def test_two_sites_draw_different_noise() -> None:
    study = make_study(epsilon=0.1)
    counts = []
    for _ in range(2):
        site = make_site(study)
        site.handle(join(study))
        reply = site.handle(m.GridRequest(head(study)))
        assert isinstance(reply, m.GridReply)
        counts.append(reply.counts)
    assert (counts[0] != counts[1]).any()


def test_weights_are_counted_in_whole_units_with_their_bound() -> None:
    """The noise must be scaled to the largest weight that the study allows."""

    class Spy(UnsafeSeededLaplace):
        asked: list[int] = []  # noqa: RUF012

        def add(self, counts: Any, *, sensitivity: int, epsilon: float) -> Any:
            self.asked.append(sensitivity)
            return super().add(counts, sensitivity=sensitivity, epsilon=epsilon)

    study = Study.from_mapping({**study_facts(epsilon=1.0), "weight": {"column": "w", "max": 2.5}})
    table = make_tables(make_study())["north"]
    weights = np.linspace(0.5, 2.5, table.n_rows)
    site = Site("north", Table(table.values, table.outcome, weights), study, noise=Spy(0, "north"))
    site.handle(join(study))
    site.handle(m.GridRequest(head(study)))
    assert Spy.asked == [2560], "for all covariates at once"


@given(
    seed=st.integers(0, 2**32),
    max_rows=st.integers(1, 5),
    heaviest=st.sampled_from([None, 1.0, 2.5]),
)
def test_one_patient_changes_a_histogram_by_no_more_than_its_noise_covers(
    seed: int, max_rows: int, heaviest: float | None
) -> None:
    """Adding a patient with all rows: the distance in ℓ1 is bounded, and the bound is reached."""
    rng = np.random.default_rng(seed)
    facts = {**study_facts(epsilon=1.0), "patient": {"column": "p", "max_rows": max_rows}}
    if heaviest is not None:
        facts["weight"] = {"column": "w", "max": heaviest}
    study, frame = Study.from_mapping(facts), make_tables(make_study())["north"]
    n_own, most = int(rng.integers(1, max_rows + 1)), heaviest or 1.0
    weights = np.ones(frame.n_rows) if heaviest is None else rng.uniform(0.1, most, frame.n_rows)
    weights[:n_own] = most
    patients = np.maximum(np.arange(frame.n_rows) - n_own + 1, 0)  # the first has n_own rows
    table = Table(frame.values, frame.outcome, weights, patients)
    counts, sensitivity = [], 0
    for neighbour in (table, table.take(patients > 0)):
        work = Site("north", neighbour, study)._work  # the histograms, before noise
        sensitivity = work.histograms._sensitivity
        counts.append(split_cells(work.histograms._counts, study.bins))
    moved = [int(np.abs(one - other).sum()) for one, other in zip(*counts, strict=True)]
    assert max(moved) <= sensitivity
    if n_own == max_rows:
        assert set(moved) == {sensitivity}, "no more noise than that needs"


def test_the_ledger_and_the_person_are_told_what_a_patient_with_several_rows_costs() -> None:
    study = repeat(make_study(epsilon=1.0), 3)
    table = make_tables(make_study())["north"]
    own = Table(table.values, table.outcome, table.weights, np.arange(table.n_rows) // 3)
    said: list[str] = []

    def approve(kind: str, words: Any) -> bool:
        said.extend([kind, *words])
        return True

    policy = Policy.model_validate({**OPEN.model_dump(), "approval": "review"})
    site = Site("north", own, study, policy=policy, approver=approve)
    site.handle(join(study))
    site.handle(m.GridRequest(head(study)))
    assert "one patient with up to 3 rows, 10 for replacing one" in " ".join(said)
    rows = [row for row in site.ledger.releases if row.message == "GridReply"]
    assert [(row.sensitivity, row.scale, row.epsilon) for row in rows] == [(3.0, 3.0, 1.0)] * 5


def test_a_site_refuses_rows_that_its_noise_would_not_cover() -> None:
    table = make_tables(make_study())["north"]
    own = Table(table.values, table.outcome, table.weights, np.arange(table.n_rows) // 3)
    with pytest.raises(DataError, match="'north': a patient has more rows than the study's .* 2"):
        Site("north", own, repeat(STUDY, 2))
    with pytest.raises(DataError, match="the study says whose a row is, and the table does not"):
        Site("north", table, repeat(STUDY, 3))
    with pytest.raises(DataError, match="the table says whose a row is, and the study does not"):
        Site("north", own, STUDY)
    Site("north", own, repeat(STUDY, 3))


NONE = np.empty(0, np.int64)


def test_a_site_offers_only_results_on_enough_patients() -> None:
    site = own_site(OWN, offered=False)
    (offer,) = sums_of(site, m.OfferRequest(head(OWN), TERMS))
    assert offer.rules.tolist() == [0, 1 << 32], "the other rule holds for too few"
    assert (offer.totals, offer.evaluation) == (0, 0)
    assert offer.held_out.tolist() == [0, 1 << 32]
    policy = Policy.model_validate({**OPEN.model_dump(), "min_count": 60})
    careful = own_site(OWN, offered=False, policy=policy)
    (offer,) = sums_of(careful, m.OfferRequest(head(OWN), TERMS))
    assert offer.rules.tolist() == [1 << 32] * 2, "the policy's own count"
    assert offer.held_out.tolist() == [1 << 32] * 2
    assert offer.evaluation == 1 << 32


def test_a_site_tells_its_own_results_and_only_those_asked_for() -> None:
    site = own_site(OWN)
    reply = site.handle(ask_results())
    assert isinstance(reply, m.ResultsReply)
    assert reply.totals[0] == 140
    assert 0 < reply.events_inside[0] < reply.inside[0] < 140
    assert 0 < reply.held_out_events[0] < reply.held_out[0] < 60
    held = [reply.held_out, reply.held_out_events, reply.measures[:2]]
    counts = np.concatenate([reply.totals, reply.inside, reply.events_inside, *held])
    assert (counts % 5 == 0).all(), "rounded"
    assert reply.known.tolist() == list(range(16))
    assert reply.measures[0] == 60
    np.testing.assert_array_equal(reply.measures, reply.measures.round(3))
    nothing = own_site(OWN).handle(
        ask_results(rules=NONE, totals=False, evaluation=False, held_out=NONE)
    )
    assert isinstance(nothing, m.ResultsReply)
    names = "totals", "inside", "events_inside", "known", "measures", "held_out", "held_out_events"
    assert [len(getattr(nothing, name)) for name in names] == [0] * len(names)


@pytest.mark.parametrize(
    "changes",
    [np.array([1]), np.array([0, 1]), np.array([0, 0]), np.array([-1]), np.array([7])],
)
@pytest.mark.parametrize("among", ["rules", "held_out"])
def test_what_a_site_keeps_back_it_does_not_tell(changes: Any, among: str) -> None:
    code = "policy" if 1 in changes else "bad-request"
    reason = refusal(own_site(OWN), ask_results(**{among: changes}), code)
    assert "keeps these results" in reason or "increasing positions" in reason


def test_a_site_tells_once_at_most_that_it_keeps_something_back() -> None:
    """Refusals would else tell, rule by rule, which hold for few."""
    site = own_site(OWN)
    assert "keeps these results" in refusal(site, ask_results(rules=np.array([1])), "policy")
    assert "keeps these results" in refusal(site, ask_results(rules=np.array([0])), "policy")
    empty = ask_results(rules=NONE, totals=False, evaluation=False, held_out=NONE)
    assert "keeps these results" in refusal(site, empty, "policy")


def test_results_are_of_the_model_that_the_offer_was_for() -> None:
    early = own_site(OWN, offered=False)
    assert "another model" in refusal(early, ask_results(), "order")
    request = dataclasses.replace(ask_results(), terms=TERMS[:2], coef=COEF[:2])
    late = own_site(OWN)
    request = dataclasses.replace(request, header=head(OWN))
    assert "another model" in refusal(late, request, "order")


def test_sites_send_only_rules_with_enough_patients_and_not_too_many() -> None:
    site = hospitals.make_site(policy=hospitals.FREE)
    sent = hospitals.granted(
        hospitals.ready_for_rules(site).ask(m.RulesRequest, grid=hospitals.GRID), m.RulesReply
    )
    every = hospitals.granted(
        hospitals.ready_for_rules(hospitals.make_site(policy=OPEN)).ask(
            m.RulesRequest, grid=hospitals.GRID
        ),
        m.RulesReply,
    )
    assert 0 < len(sent.rules) < len(every.rules)
    assert set(sent.rules) <= set(every.rules)
    few = hospitals.make_site(policy=hospitals.change(hospitals.FREE, max_rules_sent=2))
    reply = hospitals.granted(
        hospitals.ready_for_rules(few).ask(m.RulesRequest, grid=hospitals.GRID), m.RulesReply
    )
    assert len(reply.rules) == 2
    assert set(reply.rules) <= set(sent.rules)
    none = hospitals.make_site(policy=hospitals.change(hospitals.FREE, min_count=1000))
    reply = hospitals.granted(
        hospitals.ready_for_rules(none).ask(m.RulesRequest, grid=hospitals.GRID), m.RulesReply
    )
    assert reply.rules == ()
    assert any(implies(a, b) for a, b in combinations(every.rules, 2))


# --- by hand ------------------------------------------------------------------------------------


class Masking:
    """Stands for the masks: signs with a mark, and says what it was asked."""

    sites = ("north", "south", "west")

    def __init__(self) -> None:
        self.signed: list[bytes] = []

    def sign(self, claim: bytes) -> bytes:
        self.signed.append(claim)
        return b"signed"

    def show_key(self, header: m.Header) -> m.KeyReply:
        return m.KeyReply(header, b"key", b"certificate", "wait", b"signed")

    def open(self, request: m.OpenRequest) -> m.OpenReply:
        return m.OpenReply(request.header, b"seed of %d" % request.answered)


HEAD = m.Header(m.PROTOCOL_VERSION, "run", 1, "north", "study")
RULES = (Rule((Condition(3, 0b1),)), Rule((Condition(4, 0b10),)))


def make_patients(study: Study, *, folds: Any = None, n_held: int = 0) -> Patients:
    table = make_tables(study)["north"]
    rows = np.arange(table.n_rows) >= n_held
    learnt = table.take(rows)
    dealt = np.full(learnt.n_rows, NEVER) if folds is None else folds
    return Patients(Public(study), learnt, table.take(~rows), dealt, 5)


def make_work(patients: Patients, policy: Policy = OPEN, noise: Any = None) -> tuple[Work, Masking]:
    masking = Masking()
    work = Work(
        "north",
        policy,
        masking,  # type: ignore[arg-type]
        patients,
        noise=noise if noise is not None else UnsafeSeededLaplace(1, "north"),
        memory=Transient(),
        shared=Transient(),
        n_threads=1,
    )
    return work, masking


def test_what_tells_nothing_of_patients_needs_none() -> None:
    policy = Policy(min_votes=3, round_counts=7, min_published=11)
    patients = make_patients(make_study())
    work, _ = make_work(patients, policy)
    known = Known(patients)
    joined: Any = work.answer(m.JoinRequest(HEAD, ("north",), True, "wait"), known)
    assert (joined.min_votes, joined.round_counts, joined.min_published) == (3, 7, 11)
    assert joined.software.startswith("fedrulefit ")
    peers: Any = work.answer(m.PeersRequest(HEAD, (m.Peer("a", b"", b"", "wait", b""),)), known)
    assert peers.n_sites == 1
    key: Any = work.answer(m.KeyRequest(HEAD), known)
    assert key.public == b"key", "the masks know it"
    opened: Any = work.answer(m.OpenRequest(HEAD, 3), known)
    assert opened.seed == b"seed of 3"
    with pytest.raises(ProtocolError, match="no answer to a Request"):
        work.answer(m.Request(HEAD), known)


def test_histograms_are_counted_per_covariate_and_signed() -> None:
    study = make_study()
    patients = make_patients(study)
    work, masking = make_work(patients)
    reply: Any = work.answer(m.GridRequest(HEAD), Known(patients))
    assert (reply.mechanism, reply.private, reply.signature) == ("exact", False, b"signed")
    assert masking.signed == [histogram_claim(HEAD, "north", reply.counts)]
    for bins, counts in zip(study.bins, split_cells(reply.counts, study.bins), strict=True):
        assert counts.sum() == patients.learnt.n_rows
        assert len(counts) == bins.n_cells
    ward = split_cells(reply.counts, study.bins)[3]
    values = patients.learnt.values[:, 3]
    known = [int((values == level).sum()) for level in range(4)]
    assert sorted(ward.tolist()) == sorted([*known, int(np.isnan(values).sum())])


def test_what_is_handed_out_is_taken_in_step_by_step(grid: Grid) -> None:
    known = Known(make_patients(STUDY))
    counts = np.arange(sum(bins.n_cells for bins in STUDY.bins))
    signed = (m.Histogram("north", counts, b""), m.Histogram("south", 2 * counts, b""))
    on_grid = known.take_in(m.RulesRequest(HEAD, grid, signed))
    assert on_grid.patients.public.grid is grid
    assert on_grid.patients.ready_codes.shape == (70, 5)
    np.testing.assert_array_equal(on_grid.counts, 3 * counts)
    voting = on_grid.take_in(m.VoteRequest(HEAD, RULES, ()))
    assert voting.candidates == RULES
    np.testing.assert_array_equal(voting.counts, 3 * counts)
    fitted = voting.take_in(m.TermsRequest(HEAD, RULES[:1]))
    assert fitted.patients.public.fitted_rules == RULES[:1]
    assert fitted.patients.design.n_terms == 1 + 1 + 4
    assert fitted.candidates == RULES
    for request in (m.GridRequest(HEAD), m.DualRequest(HEAD, 0, np.zeros(6))):
        assert fitted.take_in(request) is fitted
    anew = fitted.take_in(m.RulesRequest(HEAD, grid))
    assert (anew.counts, anew.candidates, anew.patients.built) == (None, (), None)
    assert anew.patients.public.rules is None, "another grid: no design of the old one"


def test_rules_are_grown_for_all_patients_and_without_each_fold(grid: Grid) -> None:
    study = make_study(**SOLVERS["cv"], n_trees=10)
    folds = np.arange(70) % 3
    patients = make_patients(study, folds=folds)
    known = Known(patients).take_in(m.RulesRequest(HEAD, grid))
    work, masking = make_work(patients)
    reply: Any = work.answer(m.RulesRequest(HEAD, grid), known)
    assert len(reply.fold_rules) == 3
    assert masking.signed == [sender_claim(HEAD, "north", count_rules(reply))]
    # The fold's patients are of no weight when the rules that judge them are grown.
    for fold in range(3):
        outcome = np.asarray(patients.learnt.outcome)
        other = np.where(folds == fold, 1 - outcome, outcome)
        turned = dataclasses.replace(patients.learnt, outcome=other, events=other)
        changed = dataclasses.replace(known.patients, learnt=turned)
        again: Any = make_work(patients)[0].answer(
            m.RulesRequest(HEAD, grid), dataclasses.replace(known, patients=changed)
        )
        assert again.fold_rules[fold] == reply.fold_rules[fold]
        assert again.rules != reply.rules


def test_trees_of_all_patients_and_of_each_fold_have_random_streams_of_their_own(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 deals patients into folds, so it is not among them."""
    drawn: list[tuple[int, str, int]] = []

    def watched(seed: int, site: str, purpose: int) -> np.random.Generator:
        drawn.append((seed, site, purpose))
        return site_rng(seed, site, purpose)

    monkeypatch.setattr("fedrulefit.protocol.site.work.site_rng", watched)
    study = make_study(**SOLVERS["cv"], n_trees=2, seed=8)
    patients = make_patients(study, folds=np.arange(70) % 3)
    known = Known(patients).take_in(m.RulesRequest(HEAD, grid))
    make_work(patients)[0].answer(m.RulesRequest(HEAD, grid), known)
    assert drawn == [(8, "north", purpose) for purpose in (1, 2, 3, 4)]


@pytest.mark.parametrize("min_count", [1, 8, 30])
@pytest.mark.parametrize(("dealt", "n_held"), [(True, 10), (False, 10), (True, 0)])
def test_a_vote_is_yes_where_all_four_groups_are_large_enough(
    grid: Grid, min_count: int, dealt: bool, n_held: int
) -> None:
    n_rows = 70 - n_held
    patients = make_patients(STUDY, folds=np.zeros(n_rows, int) if dealt else None, n_held=n_held)
    known = Known(patients).take_in(m.RulesRequest(HEAD, grid))
    policy = Policy.model_validate({**OPEN.model_dump(), "min_count": min_count})
    work, _ = make_work(patients, policy)
    reply: Any = work.answer(m.VoteRequest(HEAD, RULES, ()), known)
    votes = unpack_votes(reply.votes)
    outcome = np.asarray(patients.learnt.outcome)
    enough = []
    for rule in RULES:
        hit = fires(rule, known.patients.ready_codes)
        inside = [int((hit & (outcome == y)).sum()) for y in (0, 1)]
        enough.append(min(*inside, int((~hit).sum())) >= min_count)
    assert votes[:2].tolist() == enough
    assert votes[2:4].tolist() == [dealt, n_held > 0]
    assert len(votes) == count_ballot(2, 3)
    assert reply.signature == b"", "masked and signed later"


@pytest.mark.parametrize(
    ("min_count", "subsample", "n_trees"), [(5, 1.0, 15), (8, 0.7, 4), (12, 0.7, 4)]
)
def test_equal_rows_of_a_patient_send_and_elect_the_rules_of_the_patient(
    grid: Grid, min_count: int, subsample: float, n_trees: int
) -> None:
    """Later trees may differ where splits tie, as the two sides of values that nobody drawn has."""
    study = make_study(n_trees=n_trees, subsample=subsample)
    policy = Policy.model_validate({**OPEN.model_dump(), "min_count": min_count})
    plain = make_patients(study)
    named = dataclasses.replace(plain.learnt, patients=np.arange(70))  # drawn as patients are
    once = dataclasses.replace(plain, learnt=named)
    rows = np.repeat(np.arange(70), 2)
    assert once.learnt.outcome is not None
    cells = once.learnt.values[rows], once.learnt.outcome[rows], once.learnt.weights[rows]
    often, blind = (
        Patients(Public(told), learnt, once.held_out, np.full(140, NEVER), 5)
        for told, learnt in ((repeat(study, 2), Table(*cells, rows)), (study, Table(*cells)))
    )

    def ask(patients: Patients) -> tuple[set[Rule], Any]:
        known = Known(patients).take_in(m.RulesRequest(HEAD, grid))
        work, _ = make_work(patients, policy)
        sent: Any = work.answer(m.RulesRequest(HEAD, grid), known)
        votes: Any = work.answer(m.VoteRequest(HEAD, every, ()), known)
        return set(sent.rules), unpack_votes(votes.votes)[: len(every)].tolist()

    open_work, _ = make_work(once)
    known = Known(once).take_in(m.RulesRequest(HEAD, grid))
    reply: Any = open_work.answer(m.RulesRequest(HEAD, grid), known)
    every: tuple[Rule, ...] = reply.rules
    assert ask(often) == ask(once)
    assert 0 < sum(ask(once)[1]) < len(every)
    assert sum(ask(blind)[1]) > sum(ask(often)[1]), "rows hide the few"


@dataclasses.dataclass(frozen=True, eq=False)
class Odd(m.SlopesRequest):
    """A question that can be told to refuse, or to overflow."""

    error: Exception | None = None
    asked: list[str] = dataclasses.field(default_factory=list)

    def check(self, public: Public) -> None:
        self.asked.append("check")
        if isinstance(self.error, ProtocolError):
            raise self.error

    def add_up(self, patients: Patients) -> Any:
        self.asked.append("add up")
        if self.error is not None:
            raise self.error
        return np.array([1, 2]), np.array([3])


def test_a_question_is_checked_before_a_patient_is_touched() -> None:
    patients = make_patients(STUDY)
    work, _ = make_work(patients)

    def ask(error: Exception | None) -> tuple[Odd, Any]:
        request = Odd(HEAD, np.array([0]), np.zeros(1), error)
        try:
            return request, work.answer(request, Known(patients))
        except ProtocolError as refusal:
            return request, refusal.code

    request, reply = ask(None)
    assert request.asked == ["check", "add up"]
    assert (reply.masked, reply.numbers.tolist()) == (False, [1, 2, 3])
    request, code = ask(ProtocolError("no", "bad-request"))
    assert (request.asked, code) == (["check"], "bad-request")
    request, code = ask(OverflowError("7 is too large"))
    assert code == "overflow"
