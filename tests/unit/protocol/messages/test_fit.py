"""The sums of the fit: what is refused on public grounds, and the numbers by hand."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.curvature import Query
from fedrulefit.core.fixed import FINE_BITS, LOSS_BITS, from_units
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.public import SITE_WEIGHT, Public
from fedrulefit.protocol.site import Site
from tests.alone import STUDY, head, join, make_site, refusal, shared_grid, summary
from tests.samples import SOLVERS, make_study, make_tables, sums_of


@pytest.mark.parametrize("length", [0, 5, 7])
def test_dual_variables_of_another_length_are_refused(ready: Site, length: int) -> None:
    reason = refusal(ready, m.DualRequest(head(), 0, np.zeros(length)))
    assert "expected 6 dual variables" in reason


@pytest.mark.parametrize("round_", [-1, 3])
def test_rounds_beyond_the_study_are_refused(ready: Site, round_: int) -> None:
    assert f"round {round_} of 3" in refusal(ready, m.DualRequest(head(), round_, np.zeros(6)))


@pytest.mark.parametrize("terms", [[], [1], [0, 6], [0, -1], [0, 2, 1], [0, 1, 1], [0, 0]])
def test_terms_out_of_range_or_order_are_refused(ready: Site, terms: list[int]) -> None:
    request = summary(np.array(terms, dtype=np.int64), np.zeros(len(terms)))
    assert "increasing positions that start with 0" in refusal(ready, request)


def test_coefficients_must_match_the_terms(ready: Site) -> None:
    request = summary(np.array([0, 1]), np.zeros(3))
    assert "expected 2 coefficients" in refusal(ready, request)


SOLVED = make_study(**{**SOLVERS["exact"], "penalty": "cv"})


@pytest.fixture
def solving(grid: Grid) -> Site:
    """The site with its design built, in a study of the exact solver."""
    site = make_site(SOLVED)
    for request in (
        join(SOLVED),
        m.RulesRequest(head(SOLVED), grid),
        m.TermsRequest(head(SOLVED), (Rule((Condition(3, 0b1),)),)),
    ):
        assert not isinstance(site.handle(request), m.Refusal)
    return site


def make_query(**changes: Any) -> Query:
    facts: dict[str, Any] = {
        "fold": -1,
        "terms": np.array([0, 1]),
        "start": np.zeros(2),
        "end": np.array([0.3, -0.2]),
        "active": np.array([0, 1, 3]),
        **changes,
    }
    return Query(**facts)


def curve(site: Site, *queries: Query) -> list[SimpleNamespace]:
    return sums_of(site, m.CurvatureRequest(head(SOLVED, site=site.name), queries))


@pytest.mark.parametrize("terms", [[], [1], [0, 6], [0, -1], [0, 2, 1], [0, 1, 1], [0, 0]])
@pytest.mark.parametrize("name", ["terms", "active"])
def test_curvature_of_bad_terms_is_refused(solving: Site, name: str, terms: list[int]) -> None:
    bad = np.array(terms, dtype=np.int64)
    query = make_query(**{name: bad})
    if name == "terms":
        query = make_query(terms=bad, start=np.zeros(len(bad)), end=np.zeros(len(bad)))
    request = m.CurvatureRequest(head(SOLVED), (make_query(fold=0), query))
    assert "increasing positions that start with 0" in refusal(solving, request)


@pytest.mark.parametrize("name", ["start", "end"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_curvature_needs_a_coefficient_per_term(solving: Site, name: str, length: int) -> None:
    request = m.CurvatureRequest(head(SOLVED), (make_query(**{name: np.zeros(length)}),))
    assert "expected 2 coefficients" in refusal(solving, request)


@pytest.mark.parametrize("fold", [-2, STUDY.settings.folds])
def test_a_fold_that_is_none_is_refused(solving: Site, fold: int) -> None:
    request = m.CurvatureRequest(head(SOLVED), (make_query(fold=fold),))
    assert f"there is no fold {fold}" in refusal(solving, request)


@pytest.mark.parametrize("n", [0, STUDY.settings.folds + 2])
def test_too_many_points_at_once_are_refused(solving: Site, n: int) -> None:
    request = m.CurvatureRequest(head(SOLVED), (make_query(),) * n)
    assert f"expected 1 to {STUDY.settings.folds + 1} points" in refusal(solving, request)


def test_rounds_of_another_solver_are_refused(ready: Site, solving: Site) -> None:
    assert "not the study's" in refusal(ready, m.CurvatureRequest(head(), ()), "order")
    dual = m.DualRequest(head(SOLVED), 0, np.zeros(6))
    assert "not the study's" in refusal(solving, dual, "order")


def test_points_of_one_fold_and_too_many_active_terms_are_refused(grid: Grid) -> None:
    study = make_study(**{**SOLVERS["exact"], "penalty": "cv", "max_active": 2})
    site = make_site(study)
    for request in (
        join(study),
        m.RulesRequest(head(study), grid),
        m.TermsRequest(head(study), (Rule((Condition(3, 0b1),)),)),
    ):
        site.handle(request)
    twice = m.CurvatureRequest(head(study), (make_query(), make_query()))
    assert "two points of one fold" in refusal(site, twice)
    many = make_query(terms=np.array([0]), start=np.zeros(1), end=np.zeros(1))
    many = dataclasses.replace(many, active=np.arange(6))
    assert "more active terms" in refusal(site, m.CurvatureRequest(head(study), (many,)))


@pytest.mark.parametrize("terms", [[], [1], [0, 6], [0, 2, 1], [0, 0]])
def test_slopes_of_bad_terms_are_refused(ready: Site, terms: list[int]) -> None:
    request = m.SlopesRequest(head(), np.array(terms, dtype=np.int64), np.zeros(len(terms)))
    assert "increasing positions that start with 0" in refusal(ready, request)
    short = m.SlopesRequest(head(), np.array([0, 1]), np.zeros(1))
    assert "expected 2 coefficients" in refusal(ready, short)


@pytest.mark.parametrize("scales", [(-0.1, 0.5), (0.5, 1.01)])
def test_scales_outside_0_and_1_are_refused(ready: Site, scales: tuple[float, float]) -> None:
    request = summary(np.array([0]), np.zeros(1), scales)
    assert r"must lie in [0, 1]" in refusal(ready, request)


def test_of_several_baselines_both_scales_are_one() -> None:
    """Two once broke the sum, and the site could only say that something had gone wrong."""
    study = make_study("time", solver="exact", n_trees=0)
    public = Public(study).with_grid(shared_grid()).with_rules(())
    terms = np.arange(public.family.n_baseline)
    for scales, fits in (((0.5, 0.5), True), ((0.5, 0.4), False)):
        request = m.SummaryRequest(head(study), terms, np.zeros(len(terms)), np.array(scales))
        if fits:
            request.check(public)
        else:
            with pytest.raises(ProtocolError, match="one scale"):
                request.check(public)


@pytest.mark.parametrize("scales", [(np.nan, 0.5), (0.0, np.inf)])
def test_scales_that_are_no_numbers_are_not_even_read(
    ready: Site, scales: tuple[float, float]
) -> None:
    before = len(ready.ledger.releases)
    reply = ready.handle(summary(np.array([0]), np.zeros(1), scales))
    assert isinstance(reply, m.Refusal)
    assert "not finite" in reply.reason
    assert reply.header == m.blank_header("north")
    assert len(ready.ledger.releases) == before


@pytest.mark.parametrize("n", [0, 1, 3])
def test_there_are_two_scales(ready: Site, n: int) -> None:
    assert "expected 2 scales" in refusal(ready, summary(np.array([0]), np.zeros(1), [0.5] * n))


def test_a_summary_is_the_site_s_own_sums(ready: Site) -> None:
    table = make_tables(STUDY)["north"]
    request = summary(np.array([0, 1]), np.array([0.3, -0.2]), scales=(0.5, 0.25))
    reply, gap = sums_of(ready, request)
    icu = table.values[:, 3] == 0
    y = np.asarray(table.outcome)
    assert (reply.total, reply.events) == (len(y) << 32, int(y.sum()) << 32)
    assert reply.inside.tolist() == [int(icu.sum()) << 32]
    assert reply.events_inside.tolist() == [int((icu * y).sum()) << 32]
    assert len(reply.sums) == len(reply.squares) == 0, "a rule's spread follows from its count"
    log_odds = 0.3 - 0.2 * icu
    loss = -np.where(y == 1, -np.log1p(np.exp(-log_odds)), -np.log1p(np.exp(log_odds))).sum()
    assert from_units(gap.loss, LOSS_BITS) == pytest.approx(loss, abs=len(y) * 2.0**-31)


def test_every_patient_is_held_out_once(solving: Site) -> None:
    n_folds = STUDY.settings.folds
    whole, *parts = curve(solving, make_query(), *(make_query(fold=k) for k in range(n_folds)))
    table = make_tables(STUDY)["north"]
    assert whole.weight == table.n_rows << 32
    assert whole.held_weight == 0
    assert sum(part.held_weight for part in parts) == table.n_rows << 32
    assert {part.weight + part.held_weight for part in parts} == {table.n_rows << 32}
    assert {part.losses[-1] + part.held_loss for part in parts} == {whole.losses[-1]}
    assert np.ptp([part.held_weight for part in parts]) <= 1 << 32


def test_folds_are_the_same_in_every_request_and_differ_between_sites(
    solving: Site, grid: Grid
) -> None:
    folds = [make_query(fold=k) for k in range(STUDY.settings.folds)]
    together = np.array([part.held_loss for part in curve(solving, *folds)])
    alone = [curve(solving, query)[0].held_loss for query in folds]
    np.testing.assert_array_equal(together, alone)
    other = Site("south", make_tables(SOLVED)["north"], SOLVED)  # the same patients
    for request in (
        join(SOLVED, site="south"),
        m.RulesRequest(head(SOLVED, site="south"), grid),
        m.TermsRequest(head(SOLVED, site="south"), (Rule((Condition(3, 0b1),)),)),
    ):
        other.handle(request)
    theirs = np.array([part.held_loss for part in curve(other, *folds)])
    assert (np.abs(from_units(theirs - together)) > 1e-6).all()


@pytest.mark.parametrize("weighting", ["patients", "sites"])
def test_the_certificate_s_sums(weighting: str) -> None:
    study = make_study(rounds=3, weighting=weighting)
    site = make_site(study)
    grid = shared_grid(study)
    rule = Rule((Condition(3, 0b1),))
    for request in (
        join(study),
        m.RulesRequest(head(study), grid),
        m.TermsRequest(head(study), (rule,)),
    ):
        site.handle(request)
    terms, coef = np.array([0, 1]), np.array([0.3, -0.2])
    (slopes,) = sums_of(site, m.SlopesRequest(head(study), terms, coef))
    table = make_tables(study)["north"]
    y, icu = np.asarray(table.outcome), table.values[:, 3] == 0
    chance = 1 / (1 + np.exp(-(0.3 - 0.2 * icu)))
    w = np.ones(len(y)) if weighting == "patients" else np.full(len(y), SITE_WEIGHT / len(y))
    np.testing.assert_allclose(
        from_units(slopes.falling[:2], FINE_BITS),
        [(w * y * (chance - 1)).sum(), (w * icu * y * (chance - 1)).sum()],
    )
    others = w * (1 - y) * chance
    np.testing.assert_allclose(
        from_units(slopes.rising[:2], FINE_BITS), [others.sum(), (icu * others).sum()]
    )
    request = m.SummaryRequest(head(study), terms, coef, np.array([0.5, 0.25]))
    reply, gap = sums_of(site, request)
    p = np.where(y == 1, 1 - 0.5 * (1 - chance), 0.25 * chance)
    conjugate = float(w @ (p * np.log(p) + (1 - p) * np.log(1 - p)))
    assert from_units(gap.conjugate) == pytest.approx(conjugate)
    assert reply.total == len(y) << 32


# --- by hand ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "start", "code"),
    [
        ({}, 0.0, None),
        # A step is η_c·G times the largest term: with rules alone that is 1.
        ({"client_step": 100.0, "local_steps": 5}, 0.0, None),
        ({"client_step": 100.1, "local_steps": 5}, 0.0, "overflow"),
        ({"client_step": 0.1, "local_steps": 5001}, 0.0, "overflow"),
        # Where the round starts: Σ |β|·b of three terms.
        ({"penalty": 0.0}, 500.0 / 3, None),
        ({"penalty": 0.0}, 501.0 / 3, "overflow"),
        ({"penalty": 0.0}, -501.0 / 3, "overflow"),
    ],
)
def test_a_round_of_the_paper_s_leads_no_further_than_a_sum_can_bear(
    grid: Grid, settings: dict[str, Any], start: float, code: str | None
) -> None:
    study = make_study(**{"linear_terms": False, **settings})
    rules = (Rule((Condition(3, 0b1),)), Rule((Condition(3, 0b10),)))
    public = Public(study).with_grid(grid).with_rules(rules)
    found = None
    try:
        m.DualRequest(head(study), 0, np.full(3, start)).check(public)
    except ProtocolError as error:
        found = error.code
    assert found == code
