"""Masked totals are functions of all patients together: the same for every split into sites.

Two splits of the same patients into the same number of sites give identical bytes for every
total of the exact solver. So whatever is computed from totals says nothing about who has
which patient. The naive twin adds Python's integers, one patient at a time.

Three sums are left out on purpose, since who is where is what they measure. The share of variance
between sites is coarse (``tests/attacks/test_between.py``), and so are effects within sites
(:class:`EvidenceSums`, ``tests/attacks/test_evidence.py``). How well patients of one and the same
site are told apart (:class:`WithinSums`, and its like of other outcomes): what it can tell of a
site is thought through in :mod:`fedrulefit.core.families.yesno_within`; the last test here shows
that these two are the only ones of their question, and that other splits give other totals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, xlogy

from fedrulefit.core.bins import count_histograms
from fedrulefit.core.certificate import SlopeSums, sum_conjugate, sum_slopes
from fedrulefit.core.curvature import STEPS, CurvatureSums, Query, sum_curvature
from fedrulefit.core.cutoffs import estimate_grid
from fedrulefit.core.families import FAMILIES
from fedrulefit.core.families.elsewhere import ElsewhereSums
from fedrulefit.core.families.evidence import EvidenceSums
from fedrulefit.core.families.yesno_sums import ScoreSums, count_scores
from fedrulefit.core.families.yesno_within import WithinSums, place_within
from fedrulefit.core.fixed import FINE_BITS, LOSS_BITS, ROOT_BITS, UNIT_BITS, Bounds, round_coef
from fedrulefit.core.grid import Grid, term_bounds
from fedrulefit.core.importance import TermSums, sum_terms
from fedrulefit.core.layout import Layout
from fedrulefit.core.rules import Rule, conjoin, cutoff_rules
from fedrulefit.core.subgroups import SubgroupSums
from fedrulefit.core.sums import Packing
from fedrulefit.privacy.masks import add_rings
from fedrulefit.privacy.policy import OPEN
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import OUTCOMES, add_outcomes
from tests.oracles import YES_NO, dense, make_design, split
from tests.samples import SOLVERS, Talk, make_frame, make_study, take


def weigh(kind: str, **changes: Any) -> Study:
    """Return the study of a kind of outcome, in which patients count up to 3."""
    facts = {**SOLVERS["cv"], "n_trees": 0, "spreads": "exact", **changes}
    weight = {"column": "w", "max": 3.0}
    return Study.model_validate({**make_study(kind, **facts).model_dump(), "weight": weight})


STUDIES = {kind: weigh(kind) for kind in OUTCOMES}
STUDY = STUDIES["yes/no"]
N_FOLDS = STUDY.settings.folds
JUDGED = {kind: weigh(kind, holdout=0.1, penalty=0.1) for kind in OUTCOMES}
EVERY_KIND = pytest.mark.parametrize("kind", OUTCOMES)


def make_patients(seed: int, n_rows: int, *, whole: bool, kind: str = "yes/no") -> Table:
    """Return patients with every kind of covariate; each counts 1, or up to 3."""
    rng = np.random.default_rng(seed)
    weights = np.ones(n_rows) if whole else rng.uniform(0.01, 3.0, n_rows).round(3)
    frame = add_outcomes(make_frame(n_rows, seed), seed).assign(w=weights)
    return load_table(frame, STUDIES[kind])


@cache
def make_terms() -> tuple[Grid, tuple[Rule, ...]]:
    """Return a grid, and single cut-offs with some conjunctions of them."""
    table = make_patients(0, 300, whole=True)
    units = np.ones(300, dtype=np.int64)
    grid = estimate_grid(
        count_histograms(table.values, units, STUDY.bins),
        STUDY.bins,
        n_cutoffs=4,
        winsor=0.025,
        repair="project",
        centre=True,
        spreads=None,
    )
    single = sorted(cutoff_rules(grid), key=lambda rule: rule.conditions)
    pairs = (
        conjoin((*a.conditions, *b.conditions), grid)
        for a, b in zip(single, single[5:], strict=False)
    )
    rules = {rule for rule in (*single, *pairs) if rule is not None and rule.conditions}
    return grid, tuple(sorted(rules, key=lambda rule: (len(rule), rule.conditions)))


def make_queries(rng: np.random.Generator, kind: str) -> tuple[Query, ...]:
    """Return a point for the fit to all patients, and for two folds.

    Near 0, or as far away as may be asked for.
    """
    grid, rules = make_terms()
    family = STUDIES[kind].family
    bounds = term_bounds(grid, Layout(family.n_baseline, len(rules), len(grid.linear)))
    n_terms, baseline = len(bounds), np.arange(family.n_baseline)
    queries = []
    for fold in (-1, 0, 2):
        terms, active = (
            np.union1d(baseline, rng.choice(n_terms, size, replace=False)) for size in (12, 20)
        )
        points = rng.normal(size=(2, len(terms))) * rng.choice([0.01, 0.5, 9.0])
        sizes = np.abs(points) @ bounds[terms] / family.largest_predictor
        start, end = points / np.maximum(1.01 * sizes, 1.0)[:, None]
        queries.append(Query(fold, terms, start, end, active))
    return tuple(queries)


def ask_all(
    table: Table, folds: Any, queries: tuple[Query, ...], kind: str
) -> Iterator[m.SumReply]:
    """Have one site answer every sum of the exact solver."""
    (grid, rules), parts = make_terms(), STUDIES[kind].family.n_baseline
    site = Site("a", table, STUDIES[kind], policy=OPEN)
    site._known = replace(site._known, patients=replace(site.patients, folds=folds))
    talk, final = Talk(site), queries[0]
    talk.join(("a",), secure=False)
    model = {"terms": final.terms, "coef": final.end}
    for question, fields in (
        (m.SpreadsRequest, {}),
        (m.RulesRequest, {"grid": grid}),
        (m.TermsRequest, {"rules": rules}),
        (m.CurvatureRequest, {"queries": queries}),
        (m.SlopesRequest, model),
        (m.SummaryRequest, {**model, "scales": np.array([0.7, 0.7 if parts > 1 else 0.3])}),
    ):
        reply = talk.ask(question, **fields)
        assert not isinstance(reply, m.Refusal), reply
        if isinstance(reply, m.SumReply):
            yield reply


def totals(
    table: Table, folds: Any, owner: Any, queries: tuple[Query, ...], kind: str
) -> list[bytes]:
    """Return the bytes of every total over sites that hold the patients as `owner` says."""
    parts = [
        list(ask_all(take(table, owner == k), folds[owner == k], queries, kind))
        for k in np.unique(owner)
    ]
    found = []
    for replies in zip(*parts, strict=True):
        rings = [reply.numbers for reply in replies]
        found.append(add_rings(rings, len(rings[0])).tobytes())
    return found


@st.composite
def owners(draw: st.DrawFn, n_rows: int, n_sites: int) -> Any:
    """Give every patient to a site: evenly, all but a few to one, or in blocks."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    how = draw(st.sampled_from(["random", "one has nearly all", "blocks"]))
    if how == "random":
        owner = rng.integers(0, n_sites, n_rows)
    elif how == "blocks":
        owner = np.sort(rng.integers(0, n_sites, n_rows))
    else:
        owner = np.zeros(n_rows, dtype=np.int64)
    # Nobody is left without a patient: a site needs one.
    owner[rng.permutation(n_rows)[:n_sites]] = np.arange(n_sites)
    return owner


@EVERY_KIND
@given(st.data(), st.integers(0, 2**16), st.integers(20, 90), st.integers(1, 5), st.booleans())
@settings(max_examples=10, derandomize=True, deadline=None)
def test_every_split_of_the_same_patients_has_the_same_totals(
    kind: str, data: st.DataObject, seed: int, n_rows: int, n_sites: int, whole: bool
) -> None:
    table = make_patients(seed, n_rows, whole=whole, kind=kind)
    rng = np.random.default_rng(seed)
    folds = rng.integers(0, N_FOLDS, n_rows)
    queries = make_queries(rng, kind)
    left, right = (
        totals(table, folds, data.draw(owners(n_rows, n_sites)), queries, kind) for _ in range(2)
    )
    assert len(left) == 4, "spreads, curvature, slopes, summary"
    assert left == right
    # Nor does it matter in which order a hospital keeps its patients.
    order = rng.permutation(n_rows)
    turned = totals(take(table, order), folds[order], np.zeros(n_rows), queries, kind)
    assert turned == totals(table, folds, np.zeros(n_rows), queries, kind)


def scores(table: Table, owner: Any, query: Query, kind: str) -> list[bytes]:
    """Return the bytes of the summed scores and tallies, where all of `table` are held out."""
    grid, rules = make_terms()
    rings = []
    for k in np.unique(owner):
        site = Site("a", take(table, owner == k), JUDGED[kind], policy=OPEN)
        held = replace(site.patients, held_out=take(table, owner == k))
        site._known = replace(site._known, patients=held)
        talk = Talk(site)
        talk.join(("a",), secure=False)
        talk.ask(m.RulesRequest, grid=grid)
        talk.ask(m.TermsRequest, rules=rules)
        model = {"terms": query.terms, "coef": query.end}
        reply = talk.ask(m.EvaluateRequest, **model)
        assert isinstance(reply, m.SumReply), reply
        asked = m.EvaluateRequest(talk.header(), **model)
        rings.append((reply.numbers, asked.packings(site.patients.public)))
    total = add_rings([ring for ring, _ in rings], len(rings[0][0]))
    ends = np.cumsum([p.size for p in rings[0][1]])[:-1]
    judged, within, inside, apart, elsewhere = np.split(total, ends)
    del within, apart, elsewhere  # these are made to tell who is where
    return [judged.tobytes(), inside.tobytes()]


@EVERY_KIND
@given(st.data(), st.integers(0, 2**16), st.integers(20, 90), st.integers(2, 4), st.booleans())
@settings(max_examples=6, derandomize=True, deadline=None)
def test_every_split_of_held_out_patients_has_the_same_scores(
    kind: str, data: st.DataObject, seed: int, n_rows: int, n_sites: int, whole: bool
) -> None:
    table = make_patients(seed, n_rows, whole=whole, kind=kind)
    query = make_queries(np.random.default_rng(seed), kind)[0]
    left, right = (scores(table, data.draw(owners(n_rows, n_sites)), query, kind) for _ in range(2))
    assert left == right


@EVERY_KIND
@pytest.mark.parametrize("whole", [True, False])
def test_totals_are_those_of_patients_one_by_one(kind: str, whole: bool) -> None:
    """The naive twin of every kind: each patient is a hospital, and Python adds up."""
    table, rng = make_patients(3, 40, whole=whole, kind=kind), np.random.default_rng(3)
    queries, folds = make_queries(rng, kind), rng.integers(0, N_FOLDS, 40)
    alone = [
        [reply.numbers.tolist() for reply in ask_all(take(table, rows), folds[rows], queries, kind)]
        for rows in np.arange(40)[:, None]
    ]
    together = [reply.numbers.tolist() for reply in ask_all(table, folds, queries, kind)]
    added = [[sum(each) for each in zip(*part, strict=True)] for part in zip(*alone, strict=True)]
    assert together == added
    assert scores(table, np.arange(40), queries[0], kind) == scores(
        table, np.zeros(40), queries[0], kind
    )


def test_large_sites_too() -> None:
    """Blocks, look-up tables and the library's kernels change with size, the totals do not."""
    rng = np.random.default_rng(5)
    n_rows = 30_000
    hits = rng.random((n_rows, 70)) < rng.uniform(0.01, 0.9, 70)
    X = np.hstack([np.ones((n_rows, 1)), hits, rng.normal(size=(n_rows, 3))])
    y, w = rng.integers(0, 2, n_rows).astype(float), rng.uniform(0, 40, n_rows)
    folds = rng.integers(0, 3, n_rows)
    n_terms = X.shape[1]
    query = Query(1, np.arange(n_terms), *rng.normal(size=(2, n_terms)), np.arange(n_terms))
    bounds = Bounds(np.array([1.0] * 71 + [6.0] * 3), 40.0)
    found = []
    for sizes in ([30_000], [29_991, 4, 5], [8192, 1, 21_807]):
        sites = split(X, 70, y, w, sizes)
        parts = np.split(folds, np.cumsum(sizes)[:-1])
        sums = [
            sum_curvature(YES_NO, *s, f, query, bounds) for s, f in zip(sites, parts, strict=True)
        ]
        found.append(np.sum(sums, axis=0).tolist())
    assert found[0] == found[1] == found[2]


# --- the naive twins: one patient at a time, in Python's integers ---------------------------


def naive_predictor(row: Any, coef: Any, n_rules: int) -> float:
    """Add the rules as fractions, then the linear terms one after another."""
    rounded = [Fraction(round(Fraction(float(c)) * 2**41), 2**41) for c in coef]
    whole = sum(c for c, x in zip(rounded[: 1 + n_rules], row, strict=False) if x)
    predictor = float(whole)
    for c, x in zip(rounded[1 + n_rules :], row[1 + n_rules :], strict=True):
        predictor = predictor + float(c) * float(x)
    return predictor


def one(*values: float) -> list[Any]:
    return [np.array([value]) for value in values]


def naive_units(number: float, bits: int = UNIT_BITS) -> int:
    return round(Fraction(float(number)) * 2**bits)


@pytest.mark.parametrize("seed", range(3))
def test_curvature_is_that_of_the_naive_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hits, linear = rng.random((41, 6)) < 0.4, rng.normal(size=(41, 2))
    design = make_design(hits, linear)
    X = dense(design)
    y, w = rng.integers(0, 2, 41).astype(float), rng.uniform(0, 3, 41)
    folds = rng.integers(0, 3, 41)
    start, end = 3 * rng.normal(size=(2, 9))
    bounds = Bounds(np.array([1.0] * 7 + [4.0, 5.0]), 3.0)
    active = np.array([0, 2, 5, 7, 8])
    query = Query(2, np.arange(9), start, end, active)
    flat = sum_curvature(YES_NO, design, y, w, folds, query, bounds)
    sums = SimpleNamespace(**CurvatureSums.packing(query, bounds).split(flat))
    weight, losses, gradient, hessian = [0, 0], [0] * len(STEPS), [0] * 9, np.zeros((5, 5), object)
    held_loss = 0
    for row, label, heavy, fold in zip(X, y, w, folds, strict=True):
        old, new = (naive_predictor(row, coef, 6) for coef in (start, end))
        points = [new if t == 1 else old + t * (new - old) for t in STEPS]
        own = [naive_units(YES_NO.value(*one(p, label, heavy))[0], LOSS_BITS) for p in points]
        weight[int(fold == 2)] += naive_units(heavy)
        if fold == 2:
            held_loss += own[-1]
            continue
        losses = [a + b for a, b in zip(losses, own, strict=True)]
        chance = float(expit(one(new)[0])[0])
        slope = naive_units(heavy * (chance - label), FINE_BITS)
        scaled = [x / b for x, b in zip(row.tolist(), bounds.terms.tolist(), strict=True)]
        gradient = [g + round(float(slope) * x) for g, x in zip(gradient, scaled, strict=True)]
        root = float(np.sqrt(heavy / 3.0 * chance * (1 - chance))) * 2**ROOT_BITS
        b = [round(root) * int(scaled[k]) if k < 7 else round(root * scaled[k]) for k in active]
        hessian = hessian + np.outer(np.array(b, object), np.array(b, object))
    assert [sums.weight, sums.held_weight] == weight
    assert sums.losses.tolist() == losses
    assert sums.held_loss == held_loss
    assert sums.gradient.tolist() == gradient
    assert sums.hessian.tolist() == hessian[np.triu_indices(5)].tolist()


def test_terms_slopes_and_the_conjugate_are_those_of_the_naive_twins() -> None:
    rng = np.random.default_rng(8)
    hits, linear = rng.random((29, 4)) < 0.4, rng.normal(size=(29, 2))
    design, bounds = make_design(hits, linear), np.array([1.0] * 5 + [4.0, 5.0])
    y, w = rng.integers(0, 2, 29).astype(float), rng.uniform(0, 3, 29)
    predictor = rng.normal(0, 3, 29)
    terms = SimpleNamespace(**TermSums.packing(4, 2).split(sum_terms(design, y, w, bounds)))
    units = [naive_units(heavy) for heavy in w]
    assert terms.total == sum(units)
    assert terms.events == sum(u for u, label in zip(units, y, strict=True) if label)
    for k in range(4):
        inside = [u for u, hit in zip(units, hits[:, k], strict=True) if hit]
        cases = [u for u, hit in zip(units, hits[:, k] * y, strict=True) if hit]
        assert (terms.inside[k], terms.events_inside[k]) == (sum(inside), sum(cases))
    for k in range(2):
        z = (linear[:, k] / bounds[5 + k]).tolist()
        assert terms.sums[k] == sum(round(float(u) * x) for u, x in zip(units, z, strict=True))
        squares = [naive_units(heavy * x**2) for heavy, x in zip(w.tolist(), z, strict=True)]
        assert terms.squares[k] == sum(squares)
    added = sum_slopes(YES_NO, design, y, w, predictor, Bounds(bounds))
    slopes = SimpleNamespace(**SlopeSums.packing(Bounds(bounds)).split(added))
    each = [
        naive_units(heavy * (float(expit(f)) - label), FINE_BITS)
        for heavy, f, label in zip(w.tolist(), predictor, y.tolist(), strict=True)
    ]
    for k, column in enumerate((dense(design) / bounds).T.tolist()):
        parts = [round(float(s) * x) for s, x in zip(each, column, strict=True)]
        for label, found in ((1, slopes.falling[k]), (0, slopes.rising[k])):
            assert found == sum(p for p, outcome in zip(parts, y, strict=True) if outcome == label)
    total = 0
    for heavy, f, label in zip(w.tolist(), predictor, y.tolist(), strict=True):
        chance = float(expit(f))
        p = 1 - 0.7 * (1 - chance) if label else 0.3 * chance
        total += naive_units(heavy * (float(xlogy(p, p)) + float(xlogy(1 - p, 1 - p))))
    assert sum_conjugate(YES_NO, y, w, predictor, (0.7, 0.3)) == total


# --- a patient's own numbers do not depend on the neighbours --------------------------------


FUNCTIONS = {
    "σ": expit,
    "loss": lambda x: YES_NO.value(x, (x > 0.3).astype(float), np.abs(x)),
    "x·log x": lambda x: xlogy(expit(x), expit(x)),
    "root": lambda x: np.sqrt(np.abs(x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_one_patient_does_not_depend_on_its_place(name: str) -> None:
    """Libraries work on several numbers at once, and on the rest one by one."""
    function = FUNCTIONS[name]
    x = np.random.default_rng(0).normal(0, 12, 4099)
    together = function(x)
    for start in range(17):
        for length in (1, 2, 3, 5, 8, 63, 1024):
            part = np.ascontiguousarray(x[start : start + length])
            assert function(part).tolist() == together[start : start + length].tolist()
            view = function(x[start : start + length])
            assert view.tolist() == together[start : start + length].tolist()


@pytest.mark.parametrize("n_rules", [1, 7, 60, 400])
def test_a_predictor_depends_on_the_patient_alone(n_rules: int) -> None:
    rng = np.random.default_rng(n_rules)
    hits, linear = rng.random((700, n_rules)) < 0.5, rng.normal(size=(700, 4))
    coef = rng.normal(size=5 + n_rules)
    together = make_design(hits, linear).predictor(coef)
    for rows in (rng.permutation(700), np.arange(3, 700, 7), np.array([699]), np.arange(1, 9)):
        apart = make_design(hits[rows], linear[rows]).predictor(coef)
        assert apart.tolist() == together[rows].tolist()
    X = dense(make_design(hits, linear))
    for k in (0, 11, 699):
        assert together[k] == naive_predictor(X[k], coef, n_rules)
    np.testing.assert_allclose(together, X @ coef, atol=1e-10)
    np.testing.assert_allclose(round_coef(coef), coef, atol=2.0**-42)


def test_bounds_hold_for_the_terms_of_a_site() -> None:
    grid, rules = make_terms()
    bounds = term_bounds(grid, Layout(1, len(rules), len(grid.linear)))
    assert (bounds > 0).all()
    assert set(bounds[: 1 + len(rules)].tolist()) == {1.0}


# --- the one sum that depends on the split ---------------------------------------------------


def test_discrimination_within_sites_depends_on_who_is_where_and_nothing_else_does() -> None:
    rng = np.random.default_rng(4)
    chance = expit(rng.normal(-1, 1.5, 400))
    outcome = (rng.random(400) < chance).astype(float)
    found: dict[type, set[bytes]] = {ScoreSums: set(), WithinSums: set()}
    for owner in (np.arange(400) % 2, np.arange(400) // 200):
        parts = [
            count_scores(chance[owner == k], outcome[owner == k], np.ones(200)) for k in (0, 1)
        ]
        for kind, sums in (
            (ScoreSums, parts),
            (WithinSums, [place_within(part, 5.0) for part in parts]),
        ):
            packing: Any = Packing(kind)
            found[kind].add(sum(packing.round(part) for part in sums).tobytes())
    judges = [family.judge_type for family in FAMILIES.values()]
    within = {judge.within_sums for judge in judges}
    free = {SubgroupSums, *(judge.sums for judge in judges)}
    assert {*m.EvaluateRequest.sums} == free | within | {EvidenceSums, ElsewhereSums}
    assert {kind: len(totals) for kind, totals in found.items()} == {ScoreSums: 1, WithinSums: 2}
