"""Attacks on hospitals' own baselines: by the coordinator, together with one colluding hospital.

Of three hospitals the two others' total is then known: the masked total less the colluder's own.

Where baselines are found *afterwards*, all sums of the fit are over patients, whoever they are
with: any way to share the same patients out to the two others gives the same total, bit for bit,
while their baselines differ. So no total tells them.

Where they take part in the fit (``baseline = "site"``), a total is over hospitals. At a point where
nothing but the intercept counts, it is made of two numbers per hospital: its patients, and those
with the outcome. Of two hospitals whose sums are known, one loss tells all four. So a policy must
allow such fits by name, and none does unless somebody chose so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.curvature import CurvatureSums
from fedrulefit.core.families import YesNo
from fedrulefit.core.own import settle
from fedrulefit.errors import FitError
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.messages.results import MANY_RULES
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.samples import SOLVERS, make_sites, make_study, make_tables, record, take

SIZES = (210, 150, 120)
COLLUDER, OTHERS = "north", ("south", "west")
SPREAD = 0.5


def study_of(baseline: str) -> Study:
    """Return a study whose rules need no patients, so that totals are all there is to see."""
    return make_study(**{**SOLVERS["exact"], "n_trees": 0, "baseline": baseline})


def share_out(study: Study, seed: int | None) -> dict[str, Table]:
    """Return the hospitals' tables; with a seed, the two others' patients are dealt anew."""
    tables = make_tables(study, sizes=SIZES)
    if seed is None:
        return tables
    south, west = (tables[name] for name in OTHERS)
    values = np.vstack([south.values, west.values])
    outcome, weights, events = (
        np.concatenate([getattr(south, name), getattr(west, name)])
        for name in ("outcome", "weights", "events")
    )
    both = Table(values, outcome, weights, None, events)
    # Those with the outcome go south more often: the hospitals' baselines move apart.
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random(both.n_rows) - 0.5 * outcome, kind="stable")
    parts = order[: SIZES[1]], order[SIZES[1] :]
    return {**tables, **{n: take(both, np.sort(p)) for n, p in zip(OTHERS, parts, strict=True)}}


@cache
def listen(baseline: str, seed: int | None) -> tuple[list[Any], Mapping[str, Site]]:
    """Return what coordinator and colluder see of the two others' sums, question by question."""
    study = study_of(baseline)
    sites = make_sites(study, share_out(study, seed), secure=False)
    _, seen = record(Coordinator(study, list(sites)), sites)
    asked: dict[int, tuple[m.Request, list[Any]]] = {}
    for name, request, reply in seen:
        if isinstance(reply, m.SumReply) and name in OTHERS:
            asked.setdefault(request.header.step, (request, []))[1].append(reply.numbers)
    return [(request, np.sum(parts, axis=0)) for request, parts in asked.values()], sites


def own_of(sites: Mapping[str, Site]) -> list[float]:
    found = [sites[name].own_baseline for name in OTHERS]
    return [own.values[0] for own in found if own is not None]


def test_afterwards_totals_are_the_same_whatever_the_two_others_baselines_are() -> None:
    first, sites = listen("afterwards", None)
    for seed in (1, 2):
        again, others = listen("afterwards", seed)
        assert len(again) == len(first)
        for (request, total), (request_, total_) in zip(first, again, strict=True):
            assert type(request) is type(request_)
            if not isinstance(request, m.BetweenRequest):  # coarse, and about hospitals
                np.testing.assert_array_equal(total, total_)
        moved = np.abs(np.subtract(own_of(sites), own_of(others)))
        assert (moved > 0.2).all(), "and yet the baselines differ"


def test_under_masks_neither_of_the_two_is_seen_alone() -> None:
    """What leaves a hospital is random; the masked totals are those of no masks."""
    study = study_of("site")
    tables = share_out(study, None)
    identical, masked = (make_sites(study, tables, secure=secure) for secure in (False, True))
    sums: list[list[tuple[str, Any]]] = []
    for sites in (identical, masked):
        _, seen = record(Coordinator(study, list(sites), secure=sites is masked), sites)
        sums.append([(n, reply) for n, _, reply in seen if isinstance(reply, m.SumReply)])
    plain, hidden = sums
    assert len(plain) == len(hidden)
    for start in range(0, len(plain), len(SIZES)):
        rows = slice(start, start + len(SIZES))
        totals = [np.sum([reply.numbers for _, reply in told[rows]], axis=0) for told in sums]
        np.testing.assert_array_equal(*totals)
        for (_, bare), (_, under) in zip(plain[rows], hidden[rows], strict=True):
            assert under.masked
            assert (bare.numbers != under.numbers).all()


def test_no_message_of_the_finished_model_tells_of_the_baseline() -> None:
    for baseline in ("afterwards", "site"):
        study = study_of(baseline)
        replies = []
        for seed in (None, 1):
            sites = make_sites(study, share_out(study, seed), secure=False)
            _, seen = record(Coordinator(study, list(sites)), sites)
            replies.append([r for _, _, r in seen if isinstance(r, m.ShareModelReply)])
            assert len(replies[-1]) == len(SIZES)
            for request, reply in ((q, r) for _, q, r in seen if isinstance(r, m.ShareModelReply)):
                assert isinstance(request, m.ShareModelRequest)
                assert vars(reply) == {"header": request.header, "n_terms": len(request.terms)}


def first_loss(asked: list[Any], sites: Mapping[str, Site]) -> CurvatureSums:
    """Return the two others' sums where the run begins: every predictor is 0."""
    request, total = next(
        (request, total) for request, total in asked if isinstance(request, m.CurvatureRequest)
    )
    (sums,) = request.read(total, sites[COLLUDER].patients.public)
    assert isinstance(sums, CurvatureSums)
    assert not sums.query.end.any()
    return sums


def guess(sums: CurvatureSums, events: int) -> set[tuple[int, int]]:
    """Return which patients and events one of the two can have, by the loss at F = 0."""
    n_both, family = round(sums.weight), YesNo()
    known: dict[tuple[int, int], float] = {}

    def price(n: int, e: int) -> float:
        if (n, e) not in known:
            weights = np.array([e, n - e], dtype=np.float64)
            outcome = np.array([1.0, 0.0])
            own = settle(family, np.zeros(2), outcome, weights, SPREAD)
            loss = family.value(own.shift(np.zeros(2)), outcome, weights).sum()
            known[n, e] = float(loss) + own.price
        return known[n, e]

    return {
        (n, e)
        for n in range(1, n_both // 2 + 1)
        for e in range(max(0, n - (n_both - events)), min(n, events) + 1)
        if abs(price(n, e) + price(n_both - n, events - e) - sums.losses[-1]) < 1e-6
    }


def test_in_the_fit_one_loss_tells_the_two_others_apart_but_for_their_names() -> None:
    """Why such fits need the policy's word. What is told is a pair, with no name to either."""
    asked, sites = listen("site", None)
    truth = {}
    for name in OTHERS:
        learnt = sites[name].patients.learnt
        truth[name] = (learnt.n_rows, round(float(learnt.outcome.sum())))
    events = sum(e for _, e in truth.values())  # the model tells the total; the colluder's is known
    found = guess(first_loss(asked, sites), events)
    assert found == {min(truth.values())}, "exactly the smaller hospital: the other is the rest"


def test_afterwards_the_same_attack_finds_nothing() -> None:
    """The weakened twin's loss is a function of all patients together: log 2 of each."""
    asked, sites = listen("afterwards", None)
    sums = first_loss(asked, sites)
    assert sums.losses[-1] == pytest.approx(sums.weight * np.log(2), abs=1e-6)


def test_no_policy_lets_such_a_fit_begin_unless_it_says_so() -> None:
    """Afterwards there is nothing to allow."""
    for baseline, refused in (("site", True), ("afterwards", False)):
        study = make_study(**SOLVERS["exact"], baseline=baseline, epsilon=1.0)
        tables = make_tables(study, sizes=SIZES)
        sites = make_sites(study, tables, policy=Policy())
        run = Coordinator(study, list(sites), secure=True)
        if not refused:
            record(run, sites)
            continue
        with pytest.raises(FitError, match="does not let out"):
            record(run, sites)
        allowed = Policy(allow=(*Policy().allow, "own-baselines"))
        sites = make_sites(study, tables, policy=allowed)
        record(Coordinator(study, list(sites), secure=True), sites)
    assert "own-baselines" in OPEN.allow, "of tables in one process nobody is asked"


def test_own_baselines_are_not_judged_where_predictions_are_few() -> None:
    """Of a model of few rules each hospital's own predictions would stand apart in histograms."""
    for terms, judged in (({"linear_terms": False, "penalty": 0.08}, False), ({}, True)):
        settings = {**SOLVERS["exact"], "holdout": 0.3, **terms}
        study = make_study(**settings, baseline="afterwards")
        sites = make_sites(study, make_tables(study, sizes=SIZES), secure=False)
        model, _ = record(Coordinator(study, list(sites)), sites)
        assert model.evaluation is not None
        assert judged or 0 < len(model.rule_terms) < MANY_RULES
        assert bool(model.linear_terms) == judged
        assert (model.evaluation.own is not None) == judged
