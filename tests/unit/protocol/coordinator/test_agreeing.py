"""Cut-offs, candidate rules and terms: what the sites sent, and what follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.bins import SpreadSums, sum_spreads
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule, conjoin, interval, level_rules
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import fill_ballot, make_grid, pack_votes, same_grid
from fedrulefit.protocol.coordinator import Coordinator, agreeing
from fedrulefit.protocol.coordinator.agreeing import (
    FORBIDDEN,
    Candidates,
    Counted,
    _forbid,
    agree_on_grid,
    collect_rules,
)
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.solver_settings import most_rules
from fedrulefit.study import Study
from tests.samples import SOLVERS, make_study, make_tables, record
from tests.talks import RULES, SITES, counts_of, grid_of, make_asker, play
from tests.tampered import STUDY, change, run


def test_histograms_of_another_length_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"where .* were due"):
        run(tamper=change("west", m.GridReply, counts=np.ones(99, np.int64)))


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


def test_a_rule_grown_on_a_folds_patients_is_forbidden_where_that_fold_judges() -> None:
    """Else the held-out deviance would be too good, and too many rules would stay."""
    axes = tuple(Axis("number", np.array([1.0, 2.0]), 3, True) for _ in range(2))
    grid = Grid(axes)
    first, second = (Rule((Condition(0, interval(0, k)),)) for k in (1, 2))
    opposite = Rule((Condition(0, interval(2, 3)),))
    public = Public(STUDY).with_grid(grid).with_rules((first, second))
    factors, anything = _forbid(public, [{opposite}, {first, second}])
    # `second` stays: its negation was grown, which carries the same information.
    assert factors.tolist() == [0.0, FORBIDDEN, 1.0]
    assert anything.tolist() == [0.0, 1.0, 1.0]


def test_more_rules_than_sites_take_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were grown, sent, and refused by every site, without a word on what to do."""
    monkeypatch.setattr(agreeing, "MAX_RULES", 10)
    with pytest.raises(FitError, match="of at most 10: lower 'n_trees', 'mean_leaves' or 'max_c"):
        run(study=make_study(n_trees=1, mean_leaves=2.0, single_cutoffs=True))


def test_a_run_that_cannot_keep_the_plan_does_not_begin() -> None:
    study = STUDY.with_settings(max_candidates=1)
    with pytest.raises(FitError, match="levels of categories and 0 times “x is missing”"):
        Coordinator(study, ["north"])


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


# --- by hand: histograms --------------------------------------------------------------------

NOISES = {"north": "Laplace", "south": "Laplace", "west": "a\nlong " + "x" * 200}


def agree(study: Study, *, secure: bool = False, **privates: bool) -> tuple[Counted, Any]:
    """Agree on the grid of the sample sites; some of their noises guarantee no ε."""
    counts, tables = counts_of(study), make_tables(study)

    def answer(site: str, request: m.Request) -> m.Reply:
        if isinstance(request, m.SpreadsRequest):
            table = tables[site]
            units = sum_spreads(table.values, table.weights, study.bins)
            return m.SumReply(request.header, False, units)
        assert isinstance(request, m.GridRequest)
        private = privates.get(site, True)
        return m.GridReply(request.header, NOISES[site], private, counts[site], site.encode())

    return play(agree_on_grid(make_asker(study, secure=secure)), answer)


def test_the_grid_is_that_of_the_summed_histograms() -> None:
    counted, asked = agree(STUDY)
    assert [type(request) for request in asked] == [m.GridRequest]
    total = sum(counts_of(STUDY).values())
    np.testing.assert_array_equal(counted.counts, total)
    assert same_grid(counted.grid, make_grid(STUDY, total, None))
    assert counted.histograms == (), "without masks nobody makes it again"


def test_under_masks_every_site_s_signed_histogram_is_handed_on() -> None:
    counted, _ = agree(STUDY, secure=True)
    for histogram, (site, counts) in zip(counted.histograms, counts_of(STUDY).items(), strict=True):
        assert (histogram.site, histogram.signature) == (site, site.encode())
        np.testing.assert_array_equal(histogram.counts, counts)


def test_every_noise_is_told_and_one_that_guarantees_nothing_is_enough() -> None:
    protection = agree(STUDY)[0].protection
    assert protection is not None
    assert protection.private
    first, second = protection.mechanism.split("; ")
    assert first == "Laplace"
    assert second.startswith(r"a\nlong xxx")
    assert len(second) <= 101
    weakened = agree(STUDY, south=False)[0].protection
    assert weakened is not None
    assert not weakened.private


def test_spreads_are_asked_for_only_where_the_study_wants_them_exact() -> None:
    study = make_study(spreads="exact")
    counted, asked = agree(study)
    assert [type(request) for request in asked] == [m.GridRequest, m.SpreadsRequest]
    ages = np.concatenate([table.values[:, 0] for table in make_tables(study).values()])
    assert counted.grid.axes[0].spread == pytest.approx(np.std(ages, ddof=1), rel=1e-9)
    rough, _ = agree(make_study(spreads="histogram"))
    assert rough.grid.axes[0].spread != counted.grid.axes[0].spread


@pytest.mark.parametrize("name", ["known", "squares"])
def test_spreads_that_are_none_are_refused(name: str) -> None:
    """Only the total is looked at: under masks nothing else is seen."""
    study = make_study(spreads="exact")
    packing = SpreadSums.packing(5)
    parts = {key: np.full(5, 100, np.int64) for key in packing.lengths}
    counts = counts_of(study)

    def answer(site: str, request: m.Request) -> m.Reply:
        if isinstance(request, m.GridRequest):
            return m.GridReply(request.header, "exact", False, counts[site], b"")
        own = parts if site != "west" else {**parts, name: np.array([0, 0, 0, 0, -201])}
        return m.SumReply(request.header, False, packing.pack(**own))

    with pytest.raises(ProtocolError, match="do not add up to spreads"):
        play(agree_on_grid(make_asker(study)), answer)


# --- by hand: rules -------------------------------------------------------------------------

A, B, C = RULES


class Sent:
    """Sites that send given rules, vote for some, and build their design."""

    def __init__(self, study: Study, sent: Mapping[str, Any], *, yes: Any = (), n_terms: int = 0):
        self.study, self.sent, self.yes, self.n_terms = study, sent, yes, n_terms

    def __call__(self, site: str, request: m.Request) -> m.Reply:
        match request:
            case m.RulesRequest():
                rules, *folds = self.sent[site]
                return m.RulesReply(request.header, tuple(rules), tuple(folds), site.encode())
            case m.VoteRequest():
                enough = np.array([rule in self.yes.get(site, ()) for rule in request.rules])
                ballot = fill_ballot(enough, [True, False], site, SITES)
                return m.VoteReply(request.header, pack_votes(ballot), site.encode())
            case m.TermsRequest():
                public = Public(self.study).with_grid(GRID).with_rules(request.rules)
                return m.TermsReply(request.header, self.n_terms or public.n_terms)
        raise AssertionError(request)


GRID = grid_of(STUDY)
PLAIN = {"penalty": 0.1, "drop_complements": False}


def collect(
    sent: Mapping[str, Any], *, min_votes: int = 0, yes: Any = (), n_terms: int = 0, **settings: Any
) -> tuple[Candidates, list[m.Request]]:
    study = make_study(**{**SOLVERS["exact"], "single_cutoffs": False, **PLAIN, **settings})
    signed = (m.Histogram("north", np.zeros(1, np.int64), b"s"),)
    talk = collect_rules(
        make_asker(study, secure=min_votes > 0), Counted(GRID, histograms=signed), min_votes
    )
    return play(talk, Sent(study, sent, yes=yes, n_terms=n_terms))


LEVELS = tuple(sorted(level_rules(GRID)))
"""Rules of the study's categories: they need no data."""


def test_equal_rules_are_merged_and_levels_stand_beside_them() -> None:
    candidates, asked = collect({"north": [[B]], "south": [[B, C]], "west": [[]]})
    ask, terms = asked
    assert isinstance(ask, m.RulesRequest)
    assert isinstance(terms, m.TermsRequest)
    assert ask.grid is GRID
    assert [part.signature for part in ask.histograms] == [b"s"]
    expected = sorted({*LEVELS, B, C}, key=lambda rule: (len(rule), rule))
    assert list(terms.rules) == expected == list(candidates.public.fitted_rules)
    assert terms.ballots == ()
    assert (candidates.factors[0] < FORBIDDEN).all()
    assert candidates.n_allowed == len(expected)


def test_only_rules_that_enough_sites_vote_for_are_terms() -> None:
    yes = {"north": [*LEVELS, B], "south": [*LEVELS, B, C], "west": [LEVELS[0]]}
    sent = {"north": [[B]], "south": [[B, C]], "west": [[]]}
    _, asked = collect(sent, min_votes=2, yes=yes)
    _, vote, terms = asked
    assert isinstance(vote, m.VoteRequest)
    assert isinstance(terms, m.TermsRequest)
    assert [(s.site, s.n_rules, s.signature) for s in vote.senders] == [
        ("north", 1, b"north"), ("south", 2, b"south"), ("west", 0, b"west"),
    ]  # fmt: skip
    assert C in vote.rules
    assert set(terms.rules) == {*LEVELS, B}, "one site alone voted for the other"
    assert [(b.site, b.signature, b.seed) for b in terms.ballots] == [
        ("north", b"north", b""), ("south", b"south", b""), ("west", b"west", b""),
    ]  # fmt: skip
    every, _ = collect(sent, min_votes=3, yes=yes)
    assert set(every.public.fitted_rules) == {LEVELS[0]}


def test_a_fold_s_fit_may_use_the_rules_grown_without_it_and_those_that_need_no_data() -> None:
    sent = {"north": [[A, B], [B], [], []], "south": [[], [], [C], []], "west": [[C], [], [], [C]]}
    candidates, _ = collect(sent, penalty="cv", folds=3)
    rules = candidates.public.fitted_rules
    allowed = [
        {rule for k, rule in enumerate(rules) if factors[1 + k] < FORBIDDEN}
        for factors in candidates.factors
    ]
    assert allowed == [{*LEVELS, A, B, C}, {*LEVELS, B}, {*LEVELS, C}, {*LEVELS, C}]
    assert candidates.n_allowed == len(LEVELS) + 2 == len(rules)


def test_a_ballot_that_leaves_rules_out_names_its_site() -> None:
    study = make_study(**SOLVERS["exact"])
    sent = Sent(study, {site: [[B]] for site in SITES}, yes={})

    def answer(site: str, request: m.Request) -> m.Reply:
        reply = sent(site, request)
        if isinstance(reply, m.VoteReply) and site == "south":
            return dataclasses.replace(reply, votes=reply.votes[:-4])
        return reply

    talk = collect_rules(make_asker(study, secure=True), Counted(GRID), 2)
    with pytest.raises(ProtocolError, match="site 'south' did not vote on every rule"):
        play(talk, answer)


@pytest.mark.parametrize(
    ("sent", "folds", "words"),
    [
        ([[B], [B]], 0, "did not send rules for 0 folds"),
        ([[B], [B], [B]], 3, "did not send rules for 3 folds"),
        ([[Rule((Condition(7, 1),))]], 0, "names covariate 7"),
        ([[B], [], [Rule(())], []], 3, "canonical"),
    ],
)
def test_rules_that_were_not_asked_for_name_their_site(sent: Any, folds: int, words: str) -> None:
    settings: dict[str, Any] = {"penalty": "cv", "folds": folds} if folds else {}
    with pytest.raises(ProtocolError, match=f"site 'south'.*{words}"):
        collect({"north": [[], *[[]] * folds], "south": sent, "west": [[], *[[]] * folds]},
                **settings)  # fmt: skip


def test_more_rules_than_the_study_s_trees_can_give_are_refused() -> None:
    """The site's words are counted before they are looked at, and over all folds together."""
    few = {"n_trees": 1, "mean_leaves": 2.0}
    most = most_rules(make_study(**few).settings)
    grown = [
        rule
        for low in range(1, GRID.axes[0].n_codes)
        for high in range(1, GRID.axes[1].n_codes)
        if (rule := conjoin([Condition(0, 2**low - 1), Condition(1, 2**high - 1)], GRID))
    ][: most + 1]
    assert len(grown) == most + 1

    def ask(rules: Any) -> Any:
        return collect({"north": [rules], "south": [[]], "west": [[]]}, **few)

    ask(grown[:-1])
    for rules in (grown, [Rule(())] * (most + 1)):
        with pytest.raises(ProtocolError, match=f"'north' sent {most + 1} rules.*{most}") as caught:
            ask(rules)
        assert caught.value.code == "too-many-rules"


def test_a_rule_has_a_bounded_number_of_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreeing, "MAX_CONDITIONS", 1)
    with pytest.raises(ProtocolError, match="'south' sent a rule of 2 conditions, of at most 1"):
        collect({"north": [[]], "south": [[B]], "west": [[]]})
    folds = {"north": [[]] * 4, "south": [[], [], [B], []], "west": [[]] * 4}
    with pytest.raises(ProtocolError, match="'south' sent a rule of 2 conditions"):
        collect(folds, penalty="cv", folds=3)
    collect({"north": [[]], "south": [[C]], "west": [[]]})


def test_all_sites_build_the_same_terms_as_the_coordinator() -> None:
    with pytest.raises(ProtocolError, match="disagree on the number of terms"):
        collect({site: [[B]] for site in SITES}, n_terms=99)
