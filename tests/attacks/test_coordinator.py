"""A coordinator that chooses grid, rules or folds itself, or hands each site another."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np
import pytest

from fedrulefit.core.design import build_design
from fedrulefit.core.fixed import from_units
from fedrulefit.core.grid import Grid, encode
from fedrulefit.core.rules import Condition, Rule, conjoin, cutoff_rules
from fedrulefit.privacy.masks import add_rings
from fedrulefit.privacy.policy import KINDS, Policy
from fedrulefit.protocol import agreed, masking
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import free_rules, sender_claim
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.work import Work
from fedrulefit.protocol.solver_settings import most_rules
from fedrulefit.protocol.store import Transient
from fedrulefit.table.patients import Table
from tests.attacks.lead import Lead, RefusedError
from tests.samples import (
    SOLVERS,
    fit_model,
    make_sites,
    make_study,
    make_tables,
    record,
    take,
    take_apart,
)

POLICY = Policy(allow=tuple(KINDS))
Worker = TypeVar("Worker", bound=Work)
STUDY = make_study(**SOLVERS["exact"], n_cutoffs=5)
TABLES = make_tables(STUDY, sizes=(300, 250, 200))


def change(**changes: Any) -> Policy:
    return Policy.model_validate({**POLICY.model_dump(), **changes})


class Believing(Site):
    """Takes any grid on public edges, and any rules in canonical form: as sites once did."""

    def _check_handed(self, request: m.Request) -> None:
        if isinstance(request, m.RulesRequest):
            self.study.check_public(request.grid)
        elif isinstance(request, m.TermsRequest):
            self.patients.public.check_rules(request.rules)


class Hasty(Believing):
    """Enters what it is handed before a person has decided: as sites once did."""

    def _check_handed(self, request: m.Request) -> None:
        super()._check_handed(request)
        self._enter(request)
        self._known = self._known.take_in(request)


def weaken(site: Site, work: type[Worker]) -> Worker:
    """Let a site compute its answers as a twin of ``Work`` does; return the twin."""
    site._work.__class__ = work
    return cast(Worker, site._work)


def make(kind: type[Site], **options: Any) -> dict[str, Site]:
    """Return three sites of a kind."""
    honest = make_sites(STUDY, TABLES, **{"policy": POLICY, **options})
    return {
        name: kind(
            name,
            TABLES[name],
            STUDY,
            identity=site._masking._identity,
            trust=site._masking._trust,
            **{"policy": POLICY, **options},
        )
        for name, site in honest.items()
    }


def refused(act: Callable[..., Any], *args: Any, **fields: Any) -> str:
    """Return the code with which a site refuses."""
    with pytest.raises(RefusedError) as caught:
        act(*args, **fields)
    return str(caught.value.args[0])


# --- A grid of the coordinator's own ----------------------------------------------------------


def shifted(grid: Grid) -> Grid:
    """Move one cut-off by a public bin: no quantile of the histograms, but around somebody."""
    age = grid.axes[0]
    edges = STUDY.bins[0].edges
    moved = np.array([edges[1], *age.cutoffs[1:]])
    return Grid((dataclasses.replace(age, cutoffs=moved), *grid.axes[1:]))


def test_a_grid_that_the_histograms_do_not_give_is_refused() -> None:
    """Cut-offs on public edges could still be chosen around one patient."""
    for kind in (Believing, Site):
        lead = Lead(make(kind))
        lead.join()
        grid, signed = lead.agree()
        if kind is Believing:
            assert lead.collect(shifted(grid), ())
        else:
            assert refused(lead.collect, shifted(grid), signed) == "grid"
            assert refused(lead.collect, grid, ()) == "identity"
            assert refused(lead.collect, grid, signed[:2]) == "identity"
            assert refused(lead.collect, grid, (*signed[:2], signed[1])) == "identity"


def test_a_histogram_that_its_site_did_not_sign_is_refused() -> None:
    """Else the coordinator makes the histograms fit its grid."""
    lead = Lead(make(Site))
    lead.join()
    grid, signed = lead.agree()
    for victim in range(3):
        forged = list(signed)
        forged[victim] = dataclasses.replace(signed[victim], counts=signed[victim].counts + 1)
        assert refused(lead.collect, grid, tuple(forged)) == "identity"
    assert lead.collect(grid, signed)


# --- What a person declined -------------------------------------------------------------------


def test_a_declined_grid_takes_no_effect() -> None:
    """Once it did: each hospital could be given another grid while masks still cancelled."""

    def decline(kind: str, words: Any) -> bool:
        return kind != "rules"

    for kind in (Hasty, Site):
        lead = Lead(make(kind, policy=change(approval="review"), approver=decline))
        lead.join()
        grid, signed = lead.agree()
        assert refused(lead.collect, grid, signed) == "declined"
        free = tuple(sorted(free_rules(STUDY, grid, None)))[:3]
        if kind is Hasty:
            assert lead.ask(m.TermsRequest, rules=free)
        else:
            assert refused(lead.ask, m.TermsRequest, rules=free) == "order"
            assert all(site.patients.public.agreed is None for site in lead.sites.values())


# --- Every cell of the grid as a rule ----------------------------------------------------------


def cells(grid: Grid) -> Iterator[Rule]:
    """Yield a rule for every cell of the grid: together they tell every record."""
    codes = [[*range(axis.n_codes), *([] if axis.complete else [255])] for axis in grid.axes]
    for row in itertools.product(*codes):
        rule = conjoin([Condition(j, 1 << code) for j, code in enumerate(row)], grid)
        assert rule is not None
        yield rule


def read_records(lead: Lead, rules: tuple[Rule, ...]) -> int:
    """Ask for the counts in all cells; return how many patients were read, all right."""
    terms = np.arange(len(rules) + 1)
    lead.ask(m.SlopesRequest, terms=terms[:1], coef=np.zeros(1))
    sums, _ = lead.sum(
        m.SummaryRequest,
        terms=terms,
        coef=np.zeros(len(terms)),
        scales=np.zeros(2),
    )
    grid = lead.public.grid
    values = np.concatenate([table.values for table in TABLES.values()])
    outcome = np.concatenate([table.outcome for table in TABLES.values()])
    hits = build_design(encode(values, grid), rules, np.empty((len(values), 0))).dense_rules()
    inside = from_units(sums.inside)
    np.testing.assert_array_equal(hits.sum(axis=0), inside)
    np.testing.assert_array_equal(outcome @ hits, from_units(sums.events_inside))
    return int((inside == 1).sum())


def test_cells_as_rules_read_records_from_believing_sites() -> None:
    """Two sums once gave nearly every record: the rules were the coordinator's to choose."""
    lead = Lead(make(Believing))
    lead.join()
    grid, signed = lead.agree()
    lead.collect(grid, signed)
    rules = tuple(sorted(cells(grid), key=lambda rule: (len(rule), rule)))
    lead.ask(m.TermsRequest, rules=rules)
    assert read_records(lead, rules) > 200


def test_cells_as_rules_are_refused() -> None:
    lead = Lead(make(Site))
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    rules = tuple(sorted(cells(grid), key=lambda rule: (len(rule), rule)))
    assert refused(lead.ask, m.TermsRequest, rules=rules) == "votes"
    # More than the sites sent; with fewer, the votes are missing.
    assert refused(lead.vote, rules, sent) == "votes"
    few = rules[: sum(len(reply.rules) for reply in sent.values())]
    ballots = lead.vote(few, sent)
    assert refused(lead.ask, m.TermsRequest, rules=few, ballots=ballots) == "votes"


def test_votes_cannot_be_forged_or_left_out() -> None:
    lead = Lead(make(Site))
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    liar = dataclasses.replace(sent["west"], rules=tuple(cutoff_rules(grid)))
    assert refused(lead.vote, (), {**sent, "west": liar}) == "identity"
    assert refused(lead.vote, (), {"north": sent["north"]}) == "identity"
    rules = tuple(sorted(set().union(*(reply.rules for reply in sent.values()))))
    ballots = lead.vote(rules, sent)
    wrong = tuple(rule for rule in rules if len(rule) > 1)
    for bad, code in (
        (ballots[:2], "votes"),
        ((*ballots[:2], ballots[1]), "votes"),
        (
            (*ballots[:2], dataclasses.replace(ballots[2], votes=bytes(len(ballots[2].votes)))),
            "identity",
        ),
        ((*ballots[:2], dataclasses.replace(ballots[2], votes=b"")), "votes"),
    ):
        assert refused(lead.ask, m.TermsRequest, rules=wrong, ballots=bad) == code


def test_a_vote_tells_no_site_s_own_answer() -> None:
    """What leaves is uniformly random; only the sum of all sites says how many have enough."""
    lead = Lead(make(Site))
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    rules = tuple(sorted(set().union(*(reply.rules for reply in sent.values()))))
    ballots = lead.vote(rules, sent)
    own = np.array([agreed.unpack_votes(ballot.votes)[: len(rules)] for ballot in ballots])
    assert (own > 1).all()  # by chance not, with probability n·2⁻³⁰
    tally = count(ballots, len(rules))
    assert (tally.rules <= 3).all()
    passes = [set(reply.rules) for reply in sent.values()]  # every site passes what it sent
    for rule, votes in zip(rules, tally.rules, strict=True):
        assert votes >= sum(rule in some for some in passes)


def count(ballots: tuple[m.Ballot, ...], n_rules: int) -> agreed.Tally:
    """Add votes up, as everybody can."""
    n_votes = agreed.count_ballot(n_rules, len(ballots))
    return agreed.Tally.of(agreed.add_votes([b.votes for b in ballots], [], n_votes), n_rules)


# --- A hospital that invents patients ------------------------------------------------------------


class Planting(Work):
    """Sends one rule, around somebody else's patient."""

    target: Any
    planted: Rule

    def _grow(self, request: m.RulesRequest, patients: Patients) -> m.RulesReply:
        reply = super()._grow(request, patients)
        codes = encode(self.target, request.grid)[0]
        found = conjoin(
            [Condition(k, 1 << int(code)) for k, code in enumerate(codes)], request.grid
        )
        assert found is not None
        self.planted = found
        signature = self._masking.sign(sender_claim(request.header, self._name, 1))
        return dataclasses.replace(reply, rules=(found,), signature=signature)


@pytest.mark.parametrize("min_votes", [0, 2])
def test_a_hospital_that_invents_patients_learns_nothing_of_another_s(min_votes: int) -> None:
    """It invents patients like the target, sends that rule, and subtracts its own counts.

    One hospital has one vote: the rule is in the fit only where no votes are asked for.
    """
    study, row, clones = make_study(**{**SOLVERS["exact"], "penalty": 1e-3}), 7, 60
    target, west = TABLES["north"].values[[row]], TABLES["west"]
    # Surprising outcomes, so that the rule stays in the model.
    likely = fit_model(study, TABLES).predict_proba(target)[0] > 0.5
    outcome = np.concatenate([west.outcome, np.arange(clones) < (6 if likely else clones - 6)])
    values = np.concatenate([west.values, np.repeat(target, clones, axis=0)])
    forged = Table(values, outcome.astype(np.float64), np.ones(len(outcome)))
    tables = {**TABLES, "west": forged}
    options = {"policy": change(min_votes=min_votes, round_counts=1, min_published=0)}
    sites = make_sites(study, tables, **options)
    own = sites["west"]._masking
    options |= {"identity": own._identity, "trust": own._trust}
    sites["west"] = Site("west", forged, study, **options)
    inventor = weaken(sites["west"], Planting)
    inventor.target = target
    model, seen = record(Coordinator(study, list(sites), secure=True), sites)
    handed = next(r.rules for _, r, _ in seen if isinstance(r, m.TermsRequest))
    if min_votes:
        assert inventor.planted not in handed
        return
    (found,) = [term for term in model.rule_terms if term.rule == inventor.planted]
    inside = (encode(values, model.grid) == encode(target, model.grid)).all(axis=1)
    assert round(found.inside - inside.sum()) == 1
    assert found.inside is not None
    assert found.events_inside is not None
    learnt = round(found.events_inside - forged.outcome[inside].sum())  # type: ignore[index]
    assert learnt == TABLES["north"].outcome[row]  # type: ignore[index]


# --- Folds of one ---------------------------------------------------------------------------------


def held_weights(folds: int, policy: Policy) -> Any:
    """Return how many patients each fold holds out over all sites, as a coordinator reads it."""
    study = make_study(**{**SOLVERS["cv"], "folds": folds, "n_trees": 2})
    sites = make_sites(study, make_tables(study, sizes=(90, 80, 70)), policy=policy)
    coordinator = Coordinator(study, list(sites), secure=False)
    requests: Any = coordinator.step()
    while True:
        replies = {name: sites[name].handle(request) for name, request in requests.items()}
        if isinstance(requests["north"], m.CurvatureRequest):
            total = sum(reply.numbers for reply in replies.values())  # type: ignore[union-attr,misc]
            public = sites["north"].patients.public
            parts = take_apart(requests["north"], total, public)
            return from_units(np.array([part.held_weight for part in parts[1:]]))
        requests = coordinator.step(replies)


def test_no_fold_is_of_one_patient() -> None:
    """The sum of all less the sum without a fold is the fold's own: with 100 folds, a patient's."""
    plain = {"secure_sums": False, "min_sites": 1}
    weak = change(**plain, min_count=0, max_folds=100)
    assert (held_weights(100, weak) == 1).sum() > 5
    many = make_study(**{**SOLVERS["cv"], "folds": 11})
    lead = Lead(make_sites(many, make_tables(many), policy=POLICY))
    assert refused(lead.join) == "policy"
    kept = held_weights(3, change(**plain))
    assert ((kept == 0) | (kept >= 10)).all()


# --- One patient more ----------------------------------------------------------------------------


def total_events(sites: dict[str, Site], run: str) -> tuple[float, float]:
    lead = Lead(sites, run=run)
    lead.join()
    grid, signed = lead.agree()
    ballots = lead.vote((), lead.collect(grid, signed))
    lead.ask(m.TermsRequest, rules=(), ballots=ballots)
    lead.ask(m.SlopesRequest, terms=np.zeros(1, np.int64), coef=np.zeros(1))
    sums, _ = lead.sum(
        m.SummaryRequest,
        terms=np.zeros(1, np.int64),
        coef=np.zeros(1),
        scales=np.zeros(2),
    )
    return float(from_units(sums.total)), float(from_units(sums.events))


@pytest.mark.parametrize("min_changed", [0, 10])
def test_one_patient_who_joins_between_two_runs_is_not_told(min_changed: int) -> None:
    """Two runs, one with a patient more: their difference is that patient."""
    shared = {name: Transient() for name in TABLES}
    policy = change(min_changed=min_changed)

    def sites(n_north: int) -> dict[str, Site]:
        tables = {**TABLES, "north": take(TABLES["north"], np.arange(n_north))}
        return make_sites(STUDY, tables, policy=policy, each=lambda name: {"shared": shared[name]})

    before = total_events(sites(250), "before")
    total_events(sites(250), "again")  # an unchanged table may be run over again
    if min_changed == 0:
        after = total_events(sites(251), "after")
        assert after[0] - before[0] == pytest.approx(1)
        assert after[1] - before[1] == pytest.approx(TABLES["north"].outcome[250])  # type: ignore[index]
    else:
        for n_north in (251, 249, 259):
            assert refused(total_events, sites(n_north), f"n{n_north}") == "few-changes"
        total_events(sites(260), "enough")


# --- Folds of one hospital ------------------------------------------------------------------------


def sized(study: Any, n_cases: int, few: tuple[str, ...]) -> dict[str, Table]:
    """Return four tables, some of them with so few patients with the outcome."""
    tables = make_tables(study, sizes=(300, 250, 220, 200) if len(few) < 2 else (300, 150, 120))
    for name in few:
        rows = tables[name].outcome
        assert rows is not None
        kept = np.r_[np.flatnonzero(rows == 1)[:n_cases], np.flatnonzero(rows == 0)]
        tables[name] = take(tables[name], kept)
    return tables


def folds_of(
    policy: Policy, n_cases: int, few: tuple[str, ...] = ("south", "west")
) -> tuple[Any, Any]:
    """Return what a curious coordinator reads of all folds, and the largest site's own number."""
    study = make_study(**{**SOLVERS["cv"], "n_trees": 5})
    tables = sized(study, n_cases, few)
    sites = make_sites(study, tables, policy=policy)
    coordinator, replies = Coordinator(study, list(sites), secure=True), {}
    while True:
        requests: Any = coordinator.step(replies)
        replies = {name: sites[name].handle(request) for name, request in requests.items()}
        asked = requests["north"]
        refusals = [reply for reply in replies.values() if isinstance(reply, m.Refusal)]
        if refusals:
            return refusals[0], None
        if isinstance(asked, m.CurvatureRequest):
            numbers: list[Any] = [reply.numbers for reply in replies.values()]  # type: ignore[union-attr]
            public = sites["north"].patients.public
            parts = take_apart(asked, add_rings(numbers, len(numbers[0])), public)
            return float(from_units(sum(p.held_weight for p in parts))), tables["north"].n_rows


def test_folds_are_not_of_one_hospital_alone() -> None:
    """Hospitals with few cases deal no folds: then the folds' own sums are the third one's."""
    read, own = folds_of(change(min_votes=0), 9)  # the twin asks nobody who deals
    assert read == own == 300
    refusal, _ = folds_of(POLICY, 9)
    assert refusal.code == "too-few-sites"
    assert "only 1 of the sites deal their patients into folds" in refusal.reason
    read, own = folds_of(POLICY, 30)
    assert read > own


def test_nor_is_what_the_folds_leave() -> None:
    """Three deal, one cannot: all sums less the folds' own are that one's."""
    read, _ = folds_of(change(min_votes=0), 9, few=("east",))
    assert read == 300 + 250 + 220
    refusal, _ = folds_of(POLICY, 9, few=("east",))
    assert refusal.code == "too-few-sites"
    assert "only 1 of the sites do not deal their patients into folds" in refusal.reason
    assert folds_of(POLICY, 90, few=("east",))[0] > read


# --- Votes that are not votes ---------------------------------------------------------------------


def alone(lead: Lead, grid: Grid) -> Rule:
    """Return the cell of one patient, as a rule."""
    codes = encode(TABLES["north"].values[[7]], grid)[0]
    rule = conjoin([Condition(k, 1 << int(code)) for k, code in enumerate(codes)], grid)
    assert rule is not None
    return rule


@pytest.mark.parametrize("weak", [True, False])
def test_a_seed_is_not_tried_until_the_votes_fit(
    weak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where own masks are opened by seeds, a coordinator could try seeds until a sum is right.

    The twin does not bind the seed: it sees only that the votes do not add up, this time.
    """
    if weak:

        def claim_votes(header: m.Header, site: str, votes: bytes, *_: bytes) -> bytes:
            return agreed._claim("votes", header, site, votes)

        monkeypatch.setattr(masking, "ballot_claim", claim_votes)
    lead = Lead(make(Site, policy=change(dropouts="continue")))
    lead.join(dropouts="continue")
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    rules = tuple(sorted(free_rules(STUDY, grid, None)))[:1]
    ballots = lead.vote(rules, sent)
    opened = lead.ask(m.OpenRequest, answered=lead.talks["north"].step - 1)
    first, *rest = (dataclasses.replace(b, seed=opened[b.site].seed) for b in ballots)
    other = dataclasses.replace(first, seed=bytes(32))
    fields = {"rules": rules, "ballots": (other, *rest)}
    assert refused(lead.ask, m.TermsRequest, **fields) == ("votes" if weak else "identity")
    assert lead.ask(m.TermsRequest, rules=(), ballots=(first, *rest))


class Stuffing(Work):
    """Votes three times for every rule, and backs it wherever it can."""

    everywhere = False

    def _vote(self, header: m.Header, rules: tuple[Rule, ...], patients: Patients) -> m.VoteReply:
        enough = np.ones(len(rules), dtype=np.bool_)
        ballot = agreed.fill_ballot(enough, [True, True], self._name, self._masking.sites)
        ballot[: len(rules)] = 3
        if self.everywhere:
            ballot[len(rules) + agreed.FLAGS :] = 5
        return m.VoteReply(header, agreed.pack_votes(ballot), b"")


@pytest.mark.parametrize("weak", [True, False])
def test_a_hospital_that_votes_more_than_once_brings_no_rule_through(
    weak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under masks nobody sees who said three. In the sum without that hospital it has no say."""
    if weak:
        monkeypatch.setattr(agreed.Tally, "elect", lambda tally, least: tally.rules >= least)
    sites = make(Site)
    weaken(sites["west"], Stuffing)
    lead = Lead(sites)
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    rule = alone(lead, grid)
    ballots = lead.vote((rule,), sent)
    tally = count(ballots, 1)
    assert tally.rules.tolist() == [3]
    assert tally.elect(2).tolist() == [weak]
    if weak:
        assert lead.ask(m.TermsRequest, rules=(rule,), ballots=ballots)
    else:
        assert refused(lead.ask, m.TermsRequest, rules=(rule,), ballots=ballots) == "votes"


def test_a_hospital_has_no_say_in_the_sum_without_it() -> None:
    """Nor can it put a number there: that part of its ballot leaves without masks, and is 0."""
    sites = make(Site)
    weaken(sites["west"], Stuffing).everywhere = True
    lead = Lead(sites)
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    rule = alone(lead, grid)
    ballots = lead.vote((rule,), sent)
    assert count(ballots, 1).elect(2).all()
    assert refused(lead.ask, m.TermsRequest, rules=(rule,), ballots=ballots) == "votes"


def test_a_single_cut_off_needs_votes_as_well() -> None:
    """Invented patients can put a quantile beside somebody: `lactate ≥ highest` holds for one."""
    lead = Lead(make(Site))
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    free = tuple(sorted(free_rules(STUDY, grid, None)))
    ballots = lead.vote(free, sent)
    elected = count(ballots, len(free)).elect(2)
    few = tuple(rule for rule, stays in zip(free, elected, strict=True) if not stays)
    many = tuple(rule for rule, stays in zip(free, elected, strict=True) if stays)
    assert few
    assert refused(lead.ask, m.TermsRequest, rules=few[:1], ballots=ballots) == "votes"
    assert lead.ask(m.TermsRequest, rules=many, ballots=ballots)


def test_a_hospital_cannot_make_room_for_rules_that_its_trees_do_not_give() -> None:
    """It signed a hundred thousand, and its coordinator put every cell of the grid to the vote."""

    class Boasting(Work):
        def _grow(self, request: m.RulesRequest, patients: Patients) -> m.RulesReply:
            claim = sender_claim(request.header, self._name, 100_000)
            signature = self._masking.sign(claim)
            return dataclasses.replace(super()._grow(request, patients), signature=signature)

    sites = make(Site)
    weaken(sites["west"], Boasting)
    lead = Lead(sites)
    lead.join()
    grid, signed = lead.agree()
    sent = lead.collect(grid, signed)
    senders = tuple(
        m.Sender(n, 100_000 if n == "west" else agreed.count_rules(r), r.signature)
        for n, r in sent.items()
    )
    rules = tuple(sorted(cells(grid), key=lambda rule: (len(rule), rule)))
    honest = sum(agreed.count_rules(reply) for reply in sent.values())
    assert len(rules) > honest + most_rules(STUDY.settings)
    assert refused(lead.ask, m.VoteRequest, rules=rules, senders=senders) == "votes"
