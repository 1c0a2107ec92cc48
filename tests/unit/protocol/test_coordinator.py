"""The coordinator: what it does with replies that it should not have got."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule, interval
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.coordinator.agreeing import FORBIDDEN, _forbid
from fedrulefit.protocol.public import SITE_WEIGHT, Public
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.samples import SOLVERS, make_study, make_tables, record

Replies = dict[str, Any]
Requests = Mapping[str, m.Request]
TamperSums = Callable[[Replies, Requests, Public], Replies]
STUDY = make_study(rounds=2)


def make_sites(study: Study) -> dict[str, Site]:
    return {name: Site(name, table, study) for name, table in make_tables(study).items()}


def run(
    study: Study = STUDY,
    sites: Mapping[str, Site] | None = None,
    tamper: Callable[[Replies], Replies] = lambda replies: replies,
    tamper_sums: TamperSums = lambda replies, requests, public: replies,
) -> Model:
    """Run a conversation; `tamper` and `tamper_sums` change the replies on their way."""
    sites = sites or make_sites(study)
    coordinator = Coordinator(study, list(sites))
    requests = coordinator.step()
    while not isinstance(requests, Model):
        replies = {name: sites[name].handle(request) for name, request in requests.items()}
        public = next(iter(sites.values())).patients.public
        requests = coordinator.step(tamper_sums(tamper(replies), requests, public))
    return requests


def change(site: str, kind: type, **fields: Any) -> Callable[[Replies], Replies]:
    """Return a `tamper` that sets fields in one site's reply of one kind."""

    def tamper(replies: Replies) -> Replies:
        if isinstance(replies.get(site), kind):
            return {**replies, site: dataclasses.replace(replies[site], **fields)}
        return replies

    return tamper


def test_a_run_needs_sites_with_names_of_their_own() -> None:
    with pytest.raises(FitError, match="at least one site"):
        Coordinator(STUDY, [])
    with pytest.raises(FitError, match="two sites have the same name"):
        Coordinator(STUDY, ["north", "south", "north"])


def test_a_refusal_is_told_with_site_and_reason() -> None:
    other = STUDY.with_settings(seed=5)
    sites = {**make_sites(STUDY), "south": make_sites(other)["south"]}
    with pytest.raises(FitError) as caught:
        run(sites=sites)
    first, line = str(caught.value).splitlines()
    assert first == "these sites refused:"
    assert line.startswith("  south: site 'south' holds another study")
    assert line.endswith("[study]")


def test_all_refusals_are_told_at_once() -> None:
    def tamper(replies: Replies) -> Replies:
        return {
            name: m.Refusal(r.header, "policy", f"{name} is shut") for name, r in replies.items()
        }

    with pytest.raises(FitError, match=r"north is shut \[policy\]\n.*south is shut.*\n.*west"):
        run(tamper=tamper)


@pytest.mark.parametrize("kind", [m.JoinReply, m.GridReply, m.RulesReply, m.SumReply])
def test_a_missing_reply_is_named(kind: type) -> None:
    def tamper(replies: Replies) -> Replies:
        return {n: r for n, r in replies.items() if n != "south" or not isinstance(r, kind)}

    with pytest.raises(ProtocolError, match="no reply from south"):
        run(tamper=tamper)


def test_no_replies_at_all() -> None:
    coordinator = Coordinator(STUDY, ["a", "b"])
    coordinator.step()
    with pytest.raises(ProtocolError, match="no reply from a, b"):
        coordinator.step()


def test_a_reply_of_another_type_is_refused() -> None:
    def tamper(replies: Replies) -> Replies:
        south = replies["south"]
        if isinstance(south, m.GridReply):
            return {**replies, "south": m.TermsReply(south.header, 3)}
        return replies

    with pytest.raises(ProtocolError, match="site 'south' answered another question"):
        run(tamper=tamper)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 99},
        {"run": "other"},
        {"site": "north"},
        {"study": "0"},
        {"version": m.PROTOCOL_VERSION + 1},
    ],
)
def test_a_reply_to_another_question_is_refused(changes: dict[str, Any]) -> None:
    def tamper(replies: Replies) -> Replies:
        south = replies["south"]
        header = dataclasses.replace(south.header, **changes)
        return {**replies, "south": dataclasses.replace(south, header=header)}

    with pytest.raises(ProtocolError, match="site 'south' answered another question"):
        run(tamper=tamper)


def test_histograms_of_another_length_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"where .* were due"):
        run(tamper=change("west", m.GridReply, counts=np.ones(99, np.int64)))


def lengthen(kind: type[m.SumRequest]) -> TamperSums:
    """One site answers this question with a number too many."""

    def tamper(replies: Replies, requests: Requests, public: Public) -> Replies:
        west = replies["west"]
        if not isinstance(requests["west"], kind) or not isinstance(west, m.SumReply):
            return replies
        numbers = np.append(west.numbers, 0)
        return {**replies, "west": dataclasses.replace(west, numbers=numbers)}

    return tamper


@pytest.mark.parametrize("kind", m.SUM_REQUESTS)
def test_sums_of_another_length_are_refused(kind: type[m.SumRequest]) -> None:
    solver = SOLVERS["fedda" if kind is m.DualRequest else "exact"]
    study = make_study(**{**solver, "rounds": 2}, spreads="exact", holdout=0.3, per_site=True)
    tables = make_tables(study, sizes=(200, 150, 150))
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    with pytest.raises(ProtocolError, match=r"site 'west' sent a sum of .* were due"):
        run(study, sites, tamper_sums=lengthen(kind))


def test_a_sum_under_masks_where_none_are_is_refused() -> None:
    with pytest.raises(ProtocolError, match="site 'west' sent a sum under masks"):
        run(tamper=change("west", m.SumReply, masked=True))


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (m.ResultsReply, {"known": np.arange(1, 16), "measures": np.ones(15)}, "other results"),
        (m.ResultsReply, {"measures": np.full(16, 7.0)}, "between 0 and 1"),
        (m.ResultsReply, {"totals": np.ones(3)}, "other results than were asked for"),
        (m.ResultsReply, {"inside": np.ones(77)}, "other results than were asked for"),
        (m.ResultsReply, {"events_inside": np.empty(0)}, "other results than were asked for"),
        (m.ResultsReply, {"measures": np.ones(3)}, "other results than were asked for"),
        (m.ResultsReply, {"known": np.zeros(16, np.int64)}, "other results than were asked for"),
        (m.ResultsReply, {"known": np.r_[0:15, 16]}, "a measure that does not exist"),
        (m.ResultsReply, {"totals": np.array([10.0, 11.0])}, "more patients in a part"),
        (m.ResultsReply, {"totals": np.array([3.0, -1.0])}, "more patients in a part"),
    ],
)
def test_results_that_were_not_asked_for_are_refused(kind: type, fields: Any, why: Any) -> None:
    study = make_study(**SOLVERS["exact"], holdout=0.3, per_site=True)
    tables = make_tables(study, sizes=(200, 150, 150))
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    with pytest.raises(ProtocolError, match=why):
        run(study, sites, tamper=change("west", kind, **fields))


def change_sum(kind: type[m.SumRequest], name: str, numbers: Mapping[str, float]) -> TamperSums:
    """Return a `tamper_sums` that sets one quantity in some sites' answers to a question."""

    def tamper(replies: Replies, requests: Requests, public: Public) -> Replies:
        question = next(iter(requests.values()))
        if not isinstance(question, kind):
            return replies
        packing = question.packings(public)[0]
        changed = dict(replies)
        for site, number in numbers.items():
            parts = packing.split(replies[site].numbers[: packing.size])
            parts[name] = np.array([int(number * 2**32)])
            rest = replies[site].numbers[packing.size :]
            numbers_ = np.concatenate([packing.pack(**parts), rest])
            changed[site] = dataclasses.replace(replies[site], numbers=numbers_)
        return changed

    return tamper


@pytest.mark.parametrize("number", [0.0, -5.0])
@pytest.mark.parametrize(
    ("kind", "field"), [(m.DualRequest, "weight"), (m.SummaryRequest, "total")]
)
def test_sites_without_patients_are_refused(
    kind: type[m.SumRequest], field: str, number: float
) -> None:
    """A weight of 0 from every site once divided by zero.

    Only the total is looked at: under masks nothing else is seen.
    """
    everywhere = dict.fromkeys(("north", "south", "west"), number)
    for numbers in (everywhere, {"west": -120.0}):  # the others have 70 and 50
        with pytest.raises(ProtocolError, match="the sites count no patients"):
            run(tamper_sums=change_sum(kind, field, numbers))


def test_sites_that_disagree_on_the_terms_are_refused() -> None:
    with pytest.raises(ProtocolError, match="disagree on the number of terms"):
        run(tamper=change("west", m.TermsReply, n_terms=2))


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ([(9, 1)], "names covariate 9"),
        ([(3, 1 << 20)], "a code that its covariate does not have"),
        ([(0, 0b101)], "must be an interval"),
        ([(3, 1), (0, 1)], "canonical"),
        ([(0, 1), (0, 3)], "canonical"),
        ([(3, 0b1111 | 1 << 255)], "canonical"),
        ([(3, 0)], "canonical"),
        ([], "canonical"),
    ],
)
def test_rules_that_are_not_canonical_are_refused(
    conditions: list[tuple[int, int]], words: str
) -> None:
    rule = Rule(tuple(Condition(*c) for c in conditions))
    with pytest.raises(ProtocolError, match=f"site 'south': .*{words}"):
        run(tamper=change("south", m.RulesReply, rules=(rule,)))


def far_off(study: Study) -> dict[str, Site]:
    """Sites whose outcomes lean so far that the intercept alone must overshoot."""
    sites = {}
    for name, table in make_tables(study).items():
        outcome = (np.arange(table.n_rows) % 10 == 0).astype(float)
        sites[name] = Site(name, Table(table.values, outcome, table.weights), study)
    return sites


@pytest.mark.parametrize("rounds", [1, 30])
def test_divergence_is_an_error_that_says_what_to_do(rounds: int) -> None:
    """With one round the last objective, not a round's first, must be looked at."""
    study = make_study(client_step=1000.0, rounds=rounds)
    with pytest.raises(FitError, match=r"diverges .*lower 'client_step' \(now 1000\)"):
        run(study, far_off(study))


def test_the_same_sites_converge_with_a_smaller_step() -> None:
    study = make_study(rounds=30)
    model = run(study, far_off(study))
    assert model.provenance.objective < model.provenance.history[0]


def facts(model: Model) -> str:
    return json.dumps(model_facts(model))


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 2, 0]])
def test_the_order_of_replies_does_not_matter(order: list[int]) -> None:
    def shuffled(replies: Replies) -> Replies:
        items = list(replies.items())
        return dict(items[k] for k in order)

    assert facts(run(tamper=shuffled)) == facts(run())


def test_the_order_of_sites_does_not_matter() -> None:
    sites = make_sites(STUDY)
    backwards = dict(reversed(make_sites(STUDY).items()))
    assert facts(run(sites=sites)) == facts(run(sites=backwards))


def test_replies_of_strangers_are_not_used() -> None:
    def tamper(replies: Replies) -> Replies:
        return {**replies, "stranger": replies["north"]}

    assert facts(run(tamper=tamper)) == facts(run())


def test_steps_count_up_and_runs_have_a_name() -> None:
    sites = make_sites(STUDY)
    coordinator = Coordinator(STUDY, list(sites))
    steps = []
    requests = coordinator.step()
    while not isinstance(requests, Model):
        headers = {request.header for request in requests.values()}
        assert {h.run for h in headers} == {coordinator.run}
        steps += sorted({h.step for h in headers})
        requests = coordinator.step({n: sites[n].handle(r) for n, r in requests.items()})
    assert steps == list(range(4 + 2 + 2))  # join, grid, rules, terms; rounds; slopes, summary
    assert Coordinator(STUDY, ["a", "b"]).run == Coordinator(STUDY, ["b", "a"]).run
    assert Coordinator(STUDY, ["a", "b"]).run != Coordinator(STUDY, ["a", "c"]).run
    assert Coordinator(STUDY, ["a"], run="mine").run == "mine"


@pytest.mark.parametrize("weighting", ["patients", "sites"])
def test_sites_count_by_patients_or_equally(weighting: str) -> None:
    study = make_study(rounds=1, weighting=weighting)
    sites = make_sites(study)
    weights: dict[str, float] = {}

    def look(replies: Replies, requests: Requests, public: Public) -> Replies:
        for name, request in requests.items():
            if isinstance(request, m.DualRequest):
                (sums,) = request.read(replies[name].numbers, public)
                weights[name] = sums.weight
        return replies

    run(study, sites, tamper_sums=look)
    expected = {"north": 70, "south": 50, "west": 30}
    assert weights == (
        expected if weighting == "patients" else dict.fromkeys(expected, SITE_WEIGHT)
    )


def test_the_bill_counts_what_was_released() -> None:
    bill = run().privacy
    assert (bill.epsilon_per_histogram, bill.n_histograms) == (None, 5)
    assert bill.exact[0] == "the histograms"
    assert "rules" in bill.exact[1]
    assert not any("spread and number" in words for words in bill.sums)
    assert "2 rounds" in bill.sums[0]
    assert bill.sum_of is None
    study = make_study(rounds=2, epsilon=0.5, spreads="exact")
    bill = run(study).privacy
    assert (bill.epsilon_per_histogram, bill.epsilon_histograms) == (0.5, 2.5)
    assert "rules" in bill.exact[0]
    assert "spread" in bill.sums[0]
    assert "OpenDP" in bill.mechanism


def test_terms_are_sorted_and_their_sums_are_those_of_all_sites() -> None:
    study = make_study()
    model = run(study)
    sizes = [term.importance for term in model.terms]
    assert sizes == sorted(sizes, reverse=True)
    assert all(term.coefficient != 0 for term in model.terms)
    tables = make_tables(study).values()
    assert model.provenance.patients == sum(t.n_rows for t in tables)
    assert model.provenance.events == sum(float(np.sum(t.outcome)) for t in tables)
    assert len(model.provenance.history) == model.provenance.rounds == 10


def test_a_rule_grown_on_a_folds_patients_is_forbidden_where_that_fold_judges() -> None:
    """Else the held-out deviance would be too good, and too many rules would stay."""
    axes = tuple(Axis("number", np.array([1.0, 2.0]), 3, True) for _ in range(2))
    grid = Grid(axes)
    first, second = (Rule((Condition(0, interval(0, k)),)) for k in (1, 2))
    opposite = Rule((Condition(0, interval(2, 3)),))
    public = Public(STUDY).with_grid(grid).with_rules((first, second))
    factors = _forbid(public, {opposite})
    # `second` stays: its negation was grown, which carries the same information.
    assert factors.tolist() == [0.0, FORBIDDEN, 1.0]


def test_each_fold_is_fitted_with_the_rules_grown_without_it() -> None:
    study = make_study(
        solver="exact", penalty="cv", folds=3, path_length=10, n_trees=20, epsilon=None
    )
    tables = make_tables(study)
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    _, seen = record(Coordinator(study, list(sites)), sites)
    (merged,) = {r.rules for _, r, _ in seen if isinstance(r, m.TermsRequest)}
    sent = [reply for _, _, reply in seen if isinstance(reply, m.RulesReply)]
    grown = [{rule for reply in sent for rule in reply.rules}]
    grown += [{rule for reply in sent for rule in reply.fold_rules[k]} for k in range(3)]
    used: dict[int, set[Rule]] = {fold: set() for fold in range(-1, 3)}
    for _, request, _ in seen:
        for query in request.queries if isinstance(request, m.CurvatureRequest) else ():
            places = {*query.terms.tolist(), *query.active.tolist()} - {0}
            used[query.fold] |= {merged[k - 1] for k in places if k <= len(merged)}
    for fold, rules in used.items():
        several = {rule for rule in rules if len(rule) > 1}
        assert several
        assert several <= grown[fold + 1]
        # Some rules are only of other folds, so that the check means something.
        assert {rule for rule in merged if len(rule) > 1} - grown[fold + 1]


@pytest.mark.parametrize("votes", [-1, 4])
def test_a_site_that_asks_for_votes_that_nobody_can_give_is_named(votes: int) -> None:
    coordinator = Coordinator(make_study(), ["north", "south", "west"], secure=True)
    requests = coordinator.step()
    assert not isinstance(requests, Model)
    replies = {
        name: m.JoinReply(request.header, "x", votes if name == "south" else 2, 1, 0)
        for name, request in requests.items()
    }
    with pytest.raises(ProtocolError, match=f"'south' asks for {votes} votes of 3"):
        coordinator.step(replies)
