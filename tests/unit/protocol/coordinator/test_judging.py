"""How well the model predicts, and what single sites tell of themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import encode
from fedrulefit.core.rounding import EXACT
from fedrulefit.errors import ProtocolError
from fedrulefit.model import Counts, LinearTerm, Model, RuleTerm
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import judging
from fedrulefit.protocol.coordinator.judging import judge, told_coef
from fedrulefit.protocol.messages import OfferSums
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.testing.samples import OUTCOMES
from tests.oracles import fires
from tests.samples import SOLVERS, fit_model, make_study, make_tables
from tests.talks import SITES, add_up, make_asker, make_patients, make_public, play
from tests.tampered import change, run


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (m.ResultsReply, {"known": np.arange(1, 16), "measures": np.ones(15)}, "other results"),
        (m.ResultsReply, {"measures": np.full(16, 1e3)}, "between 0 and 1"),
        (m.ResultsReply, {"totals": np.ones(3)}, "other results than were asked for"),
        (m.ResultsReply, {"inside": np.ones(77)}, "other results than were asked for"),
        (m.ResultsReply, {"events_inside": np.empty(0)}, "other results than were asked for"),
        (m.ResultsReply, {"held_out": np.ones(77)}, "other results than were asked for"),
        (m.ResultsReply, {"held_out_events": np.empty(0)}, "other results than were asked for"),
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


# --- by hand ------------------------------------------------------------------------------------

TERMS = np.array([0, 1, 3, 5])
"""The intercept, two of the three rules, and the second linear term."""
BOTH = {"holdout": 0.3, "per_site": True}


def make_model(study: Study, coef: Any = (0.5, 1.0, -2.0, 0.25)) -> Model:
    """A model of these terms, most important first: not in the order of the design."""
    public = make_public(study)
    first, second = public.rules_of(TERMS)
    (feature,) = public.linear_of(TERMS)
    intercept, *rest = coef
    made = [
        RuleTerm(first, rest[0], 0.1, 50.0, 20.0),
        RuleTerm(second, rest[1], 0.3, 40.0, 30.0),
        LinearTerm(feature, rest[2], 0.2),
    ]
    plain = fit_model(study.with_settings(holdout=0.0, per_site=False))
    terms = tuple(sorted((t for t in made if t.coefficient), key=lambda t: -t.importance))
    return dataclasses.replace(plain, study=study, grid=public.grid, intercept=intercept,
                               terms=terms)  # fmt: skip


def play_judge(study: Study, answer: Any) -> tuple[Model, list[m.Request], Any]:
    asker, model, public = make_asker(study), make_model(study), make_public(study)
    judged, asked = play(judge(asker, model, model, TERMS, public, EXACT), answer)
    return judged, asked, asker


def test_coefficients_are_told_in_the_order_of_the_terms() -> None:
    public = make_public(make_study())
    told = told_coef(make_model(make_study()), TERMS, public)
    assert told.tolist() == [0.5, 1.0, -2.0, 0.25]
    left_out = told_coef(make_model(make_study(), (0.5, 0.0, -2.0, 0.0)), TERMS, public)
    assert left_out.tolist() == [0.5, 0.0, -2.0, 0.0], "0 for what rounding left out"


def test_a_rounded_baseline_is_judged_as_the_model_predicts() -> None:
    """Baselines that are rounded one by one do not add up to the whole hazard: sites judged
    another intercept than the published model has."""
    study = make_study("time", **SOLVERS["exact"])
    public, rounded = make_public(study), (-1.4, -2.7, -2.1, -2.2, -0.6)
    model = dataclasses.replace(fit_model(study), intercept=-1.5, baseline=rounded, terms=())
    told = told_coef(model, np.arange(5), public)
    assert public.family.join_baseline(told) == pytest.approx(-1.5, abs=1e-12)
    np.testing.assert_allclose(np.diff(told), np.diff(rounded), atol=1e-12)


def test_a_study_that_holds_nobody_out_asks_nothing() -> None:
    model, asked, _ = play_judge(make_study(), add_up({}))
    assert asked == []
    assert model.evaluation is None


def test_the_scores_are_those_of_all_held_out_patients_together() -> None:
    study = make_study(holdout=0.3)
    patients = make_patients(study)
    model, asked, asker = play_judge(study, add_up(patients))
    assert [type(request) for request in asked] == [m.EvaluateRequest]
    assert asker.progress.step == "evaluation"
    assert model.evaluation is not None
    coef = np.array([0.5, 1.0, -2.0, 0.25])
    each: Any = [own.count_scores(TERMS, coef) for own in patients.values()]
    overall = model.evaluation.overall
    np.testing.assert_allclose(overall.cases, sum(one.cases for one in each))
    assert overall.loss == pytest.approx(sum(one.loss for one in each))
    assert (model.evaluation.judged, model.evaluation.sites) == (EXACT, {})
    public = make_public(study)
    for term in model.rule_terms:
        hits = [fires(term.rule, encode(p.held_out.values, public.grid)) for p in patients.values()]
        outcomes = [p.held_out.outcome for p in patients.values()]
        cases = sum(y[hit].sum() for y, hit in zip(outcomes, hits, strict=True))
        assert term.held_out == Counts(sum(hit.sum() for hit in hits), cases)


MEASURES = [60.0, 30.0, 0.75, 0.7, 0.8, 0.01, 0.2, 0.5, 1.0, 0.9, 1.1, 0.0, -0.1, 0.1, 0.3, 0.3]


class Telling:
    """Sites of which some keep results of their own back."""

    def __init__(
        self,
        study: Study,
        *,
        rules: Any = (0, 0),
        totals: int = 0,
        judged: int = 0,
        held: Any = (0, 0),
    ):
        self.patients = make_patients(study)
        self.kept = OfferSums(
            np.array(rules, dtype=float),
            float(totals),
            float(judged),
            np.array(held, dtype=float),
        )
        self.asked: Any = None

    def __call__(self, site: str, request: m.Request) -> m.Reply:
        if isinstance(request, m.OfferRequest):
            (packing,) = request.packings(self.patients[site].public)
            nothing = OfferSums(np.zeros(2), 0.0, 0.0, np.zeros(2))
            numbers = packing.round(self.kept if site == "south" else nothing)
            return m.SumReply(request.header, False, numbers)
        if not isinstance(request, m.ResultsRequest):
            return add_up(self.patients)(site, request)
        self.asked = request
        size = 10.0 * (1 + SITES.index(site))
        n_rules = len(request.rules)
        measures = np.array(MEASURES if request.evaluation else [])
        return m.ResultsReply(
            request.header,
            np.array([10 * size, 5 * size] if request.totals else []),
            np.full(n_rules, 4 * size),
            np.full(n_rules, 2 * size),
            np.arange(len(measures)),
            measures,
            np.full(len(request.held_out), 30.0),
            np.full(len(request.held_out), size),
        )


def test_results_of_single_sites_stand_at_the_model_its_rules_and_its_evaluation() -> None:
    study = make_study(**BOTH)
    telling = Telling(study)
    model, asked, asker = play_judge(study, telling)
    kinds = [m.EvaluateRequest, m.OfferRequest, m.ResultsRequest]
    assert [type(request) for request in asked] == kinds
    assert asker.progress.step == "results"
    assert telling.asked.rules.tolist() == [0, 1]
    assert (telling.asked.totals, telling.asked.evaluation) == (True, True)
    assert model.provenance.by_site == (Counts(100, 50), Counts(200, 100), Counts(300, 150))
    for term in model.rule_terms:
        assert term.by_site == (Counts(40, 20), Counts(80, 40), Counts(120, 60))
        assert term.held_out_by_site == (Counts(30, 10), Counts(30, 20), Counts(30, 30))
    assert model.evaluation is not None
    assert list(model.evaluation.sites) == list(SITES)
    assert list(vars(model.evaluation.sites["west"]).values()) == MEASURES


@pytest.mark.parametrize(
    ("kept", "rules", "totals", "judged", "held"),
    [
        ({"rules": (1, 0)}, [1], True, True, [0, 1]),
        ({"rules": (0, 1)}, [0], True, True, [0, 1]),
        ({"totals": 1}, [], False, True, [0, 1]),  # a rule's counts tell of the totals
        ({"judged": 1}, [0, 1], True, False, []),
        ({"held": (1, 0)}, [0, 1], True, True, [1]),
        ({"rules": (1, 1), "totals": 1, "judged": 1}, [], False, False, []),
    ],
)
def test_what_one_site_keeps_back_no_site_is_asked_for(
    kept: Any, rules: list[int], totals: bool, judged: bool, held: list[int]
) -> None:
    """With the total known, what one site hides the others would tell."""
    study = make_study(**BOTH)
    telling = Telling(study, **kept)
    model, _, _ = play_judge(study, telling)
    assert telling.asked.rules.tolist() == rules
    assert (telling.asked.totals, telling.asked.evaluation) == (totals, judged)
    assert telling.asked.held_out.tolist() == held
    assert (model.provenance.by_site != ()) == totals
    told = make_public(study).rules_of(TERMS)
    for term in model.rule_terms:
        assert (term.by_site != ()) == (told.index(term.rule) in rules)
        assert (term.held_out_by_site != ()) == (told.index(term.rule) in held)
    assert model.evaluation is not None
    assert (model.evaluation.sites != {}) == judged


def test_measures_that_a_site_cannot_tell_are_not_numbers() -> None:
    study = make_study(**BOTH)
    telling = Telling(study)

    def answer(site: str, request: m.Request) -> m.Reply:
        reply = telling(site, request)
        if isinstance(reply, m.ResultsReply) and site == "south":
            return dataclasses.replace(
                reply, known=np.array([0, 1, 6]), measures=np.array([60.0, 30.0, 0.2])
            )
        return reply

    model, _, _ = play_judge(study, answer)
    assert model.evaluation is not None
    south = model.evaluation.sites["south"]
    assert (south.patients, south.events, south.brier) == (60, 30, 0.2)
    assert np.isnan([south.auc, south.slope, south.expected]).all()


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_model_without_rules_is_judged_too(outcome: str) -> None:
    """Of no rules no tallies came, and these could not be told from any number of them."""
    study = make_study(outcome, solver="exact", penalty=10.0, n_trees=0, holdout=0.3)
    model = run(study, {n: Site(n, t, study) for n, t in make_tables(study).items()})
    assert model.terms == ()
    assert model.evaluation is not None
    assert model.evaluation.total.patients > 0


def test_of_outcomes_without_events_the_second_measure_is_no_count() -> None:
    """R² is below 0 where a model predicts a hospital badly: that ended the run."""
    number = make_study("number", solver="exact").family
    names = [field.name for field in dataclasses.fields(number.judge.measures)]
    head = m.Header(m.PROTOCOL_VERSION, "run", 1, "north", "")
    none = np.empty(0)
    reply = m.ResultsReply(
        head, none, none, none, np.array([0, 1]), np.array([60.0, -0.3]), none, none
    )
    rules = np.empty(0, dtype=np.int64)
    facts: dict[str, Any] = {"totals": False, "evaluation": True}
    judging._check_results(reply, rules, rules, names, events=False, **facts)
    untold = dataclasses.replace(reply, known=np.array([1]), measures=np.array([-0.3]))
    with pytest.raises(ProtocolError, match="other results"):
        judging._check_results(untold, rules, rules, names, events=False, **facts)
