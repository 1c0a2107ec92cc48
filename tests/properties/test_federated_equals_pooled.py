"""With noise off, any partition of the patients gives what pooled data give.

Sums that the sites send are compared at a relative tolerance of 1e-12: only the
order of additions differs. The coordinator adds them in fixed point, which is off
by at most M·2⁻³³ per sum over M sites; whole fits are compared at what that allows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core.certificate import GapSums
from fedrulefit.core.grid import Grid
from fedrulefit.core.importance import TermSums
from fedrulefit.engines import inprocess
from fedrulefit.estimators import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import OUTCOMES, add_outcomes
from tests.samples import make_frame, make_study, record, repeat, study_facts, take, take_apart

quick = settings(max_examples=25, derandomize=True, deadline=None)

STUDY = make_study(n_trees=5, rounds=2, local_steps=1, client_step=0.5)
POOL = load_table(make_frame(90, seed=5), STUDY)
SCALES = np.array([0.5, 0.25])


@st.composite
def partitions(draw: st.DrawFn, n_rows: int = 90) -> dict[str, np.ndarray]:
    """Rows of 1 to 6 sites: of equal size, or one with all but a few patients."""
    n_sites = draw(st.integers(1, 6))
    order = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).permutation(n_rows)
    if draw(st.booleans()):
        cuts = np.linspace(0, n_rows, n_sites + 1).astype(int)[1:-1]
    else:
        cuts = np.sort(draw(st.permutations(range(1, 12)))[: n_sites - 1]).astype(int)
    return {f"site {k}": rows for k, rows in enumerate(np.split(order, cuts))}


def talk(study: Study, tables: dict[str, Table]) -> tuple[Model, dict[str, list[Any]]]:
    """Return the model and the replies by kind."""
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    model, seen = record(Coordinator(study, list(sites)), sites)
    replies: dict[str, list[Any]] = {}
    for _, _, reply in seen:
        replies.setdefault(type(reply).__name__, []).append(reply)
    return model, replies


def close(left: Any, right: Any, *, rtol: float = 1e-12, rounding: float = 0.0) -> None:
    scale = float(np.max(np.abs(right), initial=0.0))
    np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol * scale + rounding)


def same_grid(left: Grid, right: Grid) -> None:
    for a, b in zip(left.axes, right.axes, strict=True):
        np.testing.assert_array_equal(a.cutoffs, b.cutoffs)
        assert (a.kind, a.n_codes, a.limits, a.spread) == (b.kind, b.n_codes, b.limits, b.spread)
        assert (a.centre, a.fill, a.complete) == (b.centre, b.fill, b.complete)


def ask(site: Site, study: Study, *requests: Callable[[m.Header], m.Request]) -> list[Any]:
    """Join a run and ask one question after another; return the answers."""
    join = partial(m.JoinRequest, sites=(site.name,), secure=False, dropouts="wait")
    replies: list[Any] = []
    for step, request in enumerate((join, *requests)):
        asked = request(m.Header(m.PROTOCOL_VERSION, "run", step, site.name, study.digest))
        reply = site.handle(asked)
        assert not isinstance(reply, m.Refusal)
        # Of a sum its numbers, by name; the summary's are two sums.
        if isinstance(asked, m.SumRequest):
            parts = take_apart(asked, reply.numbers, site.patients.public)
            reply = SimpleNamespace(**{n: v for part in parts for n, v in vars(part).items()})
        replies.append(reply)
    return replies[1:]


def answers(
    study: Study, tables: dict[str, Table], grid: Grid, rules: Any, dual: Any
) -> tuple[list[Any], list[Any]]:
    """Ask every site the same questions about the same rules."""
    duals: list[Any] = []
    sums: list[Any] = []
    for name, table in tables.items():
        _, _, dual_reply, summary = ask(
            Site(name, table, study),
            study,
            partial(m.RulesRequest, grid=grid),
            partial(m.TermsRequest, rules=rules),
            partial(m.DualRequest, round=1, dual=dual),
            partial(m.SummaryRequest, terms=np.arange(len(dual)), coef=dual, scales=SCALES),
        )
        duals.append(dual_reply)
        sums.append(summary)
    return duals, sums


def ask_pool(study: Study, pool: Table) -> tuple[Grid, Any, Any]:
    """Return grid, rules and a dual vector, as pooled data give them."""
    sites = {"pool": Site("pool", pool, study)}
    model, seen = record(Coordinator(study, ["pool"]), sites)
    requests = [request for _, request, _ in seen]
    (rules,) = (r.rules for r in requests if isinstance(r, m.TermsRequest))
    n_terms = next(len(r.dual) for r in requests if isinstance(r, m.DualRequest))
    dual = np.random.default_rng(1).normal(size=n_terms)
    return model.grid, rules, dual


SOLVERS: list[dict[str, Any]] = [
    {"solver": "fedda", "penalty": 0.01, "rounds": 5, "client_step": 0.1, "single_cutoffs": False},
    {"solver": "exact", "penalty": 0.02},
]
GRID, RULES, DUAL = ask_pool(STUDY, POOL)
POOLED_DUAL, POOLED_SUMS = answers(STUDY, {"pool": POOL}, GRID, RULES, DUAL)


@given(parts=partitions())
@quick
def test_histograms_and_grid(parts: dict[str, np.ndarray]) -> None:
    pooled, pooled_replies = talk(STUDY, {"pool": POOL})
    model, replies = talk(STUDY, {name: take(POOL, rows) for name, rows in parts.items()})
    summed = np.sum([r.counts for r in replies["GridReply"]], axis=0)
    np.testing.assert_array_equal(summed, pooled_replies["GridReply"][0].counts)
    assert "SumReply" in replies
    same_grid(model.grid, pooled.grid)


@given(parts=partitions())
@quick
def test_gradients(parts: dict[str, np.ndarray]) -> None:
    """With one local step the increment is −η_c times the gradient of the mean loss."""
    tables = {name: take(POOL, rows) for name, rows in parts.items()}
    replies, _ = answers(STUDY, tables, GRID, RULES, DUAL)
    (pooled,) = POOLED_DUAL
    weight = sum(r.weight for r in replies)
    assert weight == pooled.weight == 90 << 32
    # Every site rounds its numbers to whole units, and so does the pool.
    half = 0.5 * (len(replies) + 1) / weight
    total = np.sum([r.increment for r in replies], axis=0)
    close(total / weight, pooled.increment / weight, rounding=half)
    close(sum(r.loss for r in replies) / weight, pooled.loss / weight, rounding=half)
    assert np.abs(pooled.increment).max() > 1 << 32


@given(parts=partitions())
@quick
def test_supports_and_events(parts: dict[str, np.ndarray]) -> None:
    tables = {name: take(POOL, rows) for name, rows in parts.items()}
    _, replies = answers(STUDY, tables, GRID, RULES, DUAL)
    (pooled,) = POOLED_SUMS
    for field in SUMMED:
        total = np.sum([getattr(r, field) for r in replies], axis=0)
        assert np.array_equal(total, getattr(pooled, field)), field


SUMMED = (*TermSums.quantities(), *GapSums.quantities())

weighted = Study.from_mapping(
    {
        **study_facts(n_trees=5, rounds=2, local_steps=1, client_step=0.5),
        "weight": {"column": "w", "max": 5.0},
    }
)


@given(counts=st.lists(st.integers(0, 5), min_size=90, max_size=90).filter(lambda c: sum(c) > 9))
@quick
def test_weights_are_repeated_rows(counts: list[int]) -> None:
    weights = np.array(counts, dtype=np.float64)
    once = Table(POOL.values, POOL.outcome, weights)
    often = take(POOL, np.repeat(np.arange(90), counts))
    sites = {"once": Site("s", once, weighted), "often": Site("s", often, weighted)}
    replies: dict[str, list[Any]] = {}
    for key, site in sites.items():
        first, _, _, dual, final = ask(
            site,
            weighted,
            m.GridRequest,
            partial(m.RulesRequest, grid=GRID),
            partial(m.TermsRequest, rules=RULES),
            partial(m.DualRequest, round=1, dual=DUAL),
            partial(m.SummaryRequest, terms=np.arange(len(DUAL)), coef=DUAL, scales=SCALES),
        )
        replies[key] = [first, dual, final]
    (grid_w, dual_w, sum_w), (grid_r, dual_r, sum_r) = replies["once"], replies["often"]
    np.testing.assert_array_equal(grid_w.counts, grid_r.counts)
    assert dual_w.weight == dual_r.weight
    close(dual_w.increment, dual_r.increment, rounding=1.0)
    close(dual_w.loss, dual_r.loss, rounding=1.0)
    for field in SUMMED:
        # In units: a patient is rounded once, its copies each.
        assert np.abs(getattr(sum_w, field) - getattr(sum_r, field)).max(initial=0) <= sum(counts)


def test_exact_spreads_are_the_pooled_standard_deviation() -> None:
    """Of all patients together, not of the sites: theirs would tell of them."""
    study = STUDY.with_settings(spreads="exact")
    parts = {"a": np.arange(0, 20), "b": np.arange(20, 90)}
    model, _ = talk(study, {name: take(POOL, rows) for name, rows in parts.items()})
    close(model.grid.axes[0].spread, np.std(POOL.values[:, 0], ddof=1), rtol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS, ids=["fedda", "exact"])
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(30, 120), weights=st.booleans())
@settings(max_examples=8, derandomize=True, deadline=None)
def test_one_site_without_noise_is_the_central_estimator(
    seed: int, n_rows: int, weights: bool, solver: dict[str, Any]
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(2)
    X[:, 3] = X[:, 3] > 0
    X[rng.random(X.shape) < 0.05] = np.nan
    y = rng.random(n_rows) < 0.5
    y[:2] = [True, False]
    w = rng.integers(1, 4, n_rows) if weights else None
    options: dict[str, Any] = {"n_trees": 10, "random_state": 3, **solver}
    central = RuleFitClassifier(cutoffs="histogram", **options).fit(X, y, sample_weight=w)
    federated = FederatedRuleFitClassifier(noise=False, **options).fit(X, y, sample_weight=w)
    left, right = model_facts(central.model_), model_facts(federated.model_)
    for facts in (left, right):
        del facts["study"]["name"]
    assert left == right
    assert left["terms"]


@given(parts=partitions())
@settings(max_examples=8, derandomize=True, deadline=None)
def test_fedda_with_one_local_step_is_pooled_dual_averaging(parts: dict[str, np.ndarray]) -> None:
    """Through the whole protocol; without trees all sites have the same terms."""
    study = make_study(n_trees=0, rounds=60, local_steps=1, client_step=0.5, penalty=0.002)
    pooled = inprocess.fit(study, {"pool": POOL}).model
    tables = {name: take(POOL, rows) for name, rows in parts.items()}
    model = inprocess.fit(study, tables).model
    assert len(pooled.terms) > 3
    close(model.intercept, pooled.intercept, rtol=1e-9)
    left, right = (
        {model.describe(t): t.coefficient for t in model.terms} for model in (model, pooled)
    )
    assert set(left) == set(right)
    close([left[name] for name in left], [right[name] for name in left], rtol=1e-9)
    close(model.provenance.history, pooled.provenance.history, rtol=1e-9)


def test_fedda_with_shared_trees_is_pooled_dual_averaging() -> None:
    """Every site holds the same patients, so it grows the same trees as the pool."""
    study = make_study(n_trees=20, mean_leaves=2, rounds=40, local_steps=1, client_step=0.5)
    copies = {"a": POOL, "b": POOL, "c": POOL}
    # min_leaf is in patients, and leaf counts are 2: the seed does not matter.
    pooled = inprocess.fit(study, {"pool": POOL}).model
    model = inprocess.fit(study, copies).model
    left, right = (
        {model.describe(t): t.coefficient for t in model.terms} for model in (model, pooled)
    )
    assert set(left) == set(right)
    assert sum("missing" not in name for name in left) > 5
    for name, coefficient in left.items():
        assert coefficient == pytest.approx(right[name], rel=1e-9)
    assert model.rule_terms


@pytest.mark.parametrize("weights", [False, True])
@given(parts=partitions())
@settings(max_examples=8, derandomize=True, deadline=None)
def test_the_exact_fit_is_that_of_the_pool(parts: dict[str, np.ndarray], weights: bool) -> None:
    """Through the whole protocol; without trees all sites have the same terms."""
    exact = {"solver": "exact", "penalty": 0.01, "single_cutoffs": True, "tolerance": 1e-10}
    study = make_study(n_trees=0, spreads="histogram", n_cutoffs=4, **exact)
    table = POOL
    if weights:
        study = Study.model_validate({**study.model_dump(), "weight": {"column": "w", "max": 3}})
        heavy = np.resize([1.0, 2.0, 0.5], POOL.n_rows)
        table = Table(POOL.values, POOL.outcome, heavy)
    same_fit(study, table, parts)


@pytest.mark.parametrize("outcome", [kind for kind in OUTCOMES if kind != "yes/no"])
@given(parts=partitions())
@settings(max_examples=4, derandomize=True, deadline=None)
def test_so_it_is_of_every_outcome(parts: dict[str, np.ndarray], outcome: str) -> None:
    # A count that varies much is a weak sign: the same λ would leave no term.
    penalty = 0.0003 if outcome == "count, negative binomial" else 0.002
    exact = {"solver": "exact", "penalty": penalty, "single_cutoffs": True, "tolerance": 1e-10}
    study = make_study(outcome, n_trees=0, spreads="histogram", n_cutoffs=4, **exact)
    same_fit(study, load_table(add_outcomes(make_frame(90, seed=5), 5), study), parts)


@given(seed=st.integers(0, 2**32 - 1), n_sites=st.integers(1, 4))
@settings(max_examples=8, derandomize=True, deadline=None)
def test_so_it_is_where_patients_have_several_rows(seed: int, n_sites: int) -> None:
    """Each patient with all rows at one site; the sums are over rows."""
    exact = {"solver": "exact", "penalty": 0.01, "single_cutoffs": True, "tolerance": 1e-10}
    study = repeat(make_study(n_trees=0, spreads="histogram", n_cutoffs=4, **exact), 4)
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(90), rng.integers(1, 5, 90))
    table = take(POOL, whose)
    table = Table(table.values, table.outcome, table.weights, whose)
    site_of = rng.permutation(np.arange(90) % n_sites)
    parts = {f"site {k}": np.flatnonzero(site_of[whose] == k) for k in range(n_sites)}
    pooled = same_fit(study, table, parts)
    assert pooled.provenance.patients == len(whose)


def same_fit(study: Study, table: Table, parts: dict[str, Any]) -> Model:
    """Compare the fit over sites with that of the pool; return the latter."""
    pooled = inprocess.fit(study, {"pool": table}).model
    model = inprocess.fit(study, {name: take(table, rows) for name, rows in parts.items()}).model
    assert len(pooled.terms) > 3
    assert model.provenance.certificate.residual <= 1e-10
    assert model.provenance.certificate.gap == pytest.approx(0, abs=1e-8)
    assert abs(model.provenance.objective - pooled.provenance.objective) <= 1e-11
    left, right = (
        {model.describe(t): t.coefficient for t in model.terms} for model in (model, pooled)
    )
    names = sorted({*left, *right})
    for name in names:
        assert abs(left.get(name, 0.0) - right.get(name, 0.0)) <= 1e-7, name
    assert abs(model.intercept - pooled.intercept) <= 1e-7
    return pooled
