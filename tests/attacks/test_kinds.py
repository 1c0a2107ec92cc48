"""Attacks on outcomes that are more than yes or no: sums over many that tell one patient's number.

A coordinator that keeps to the masks sees totals over three hospitals. Of a number the total
inside a rule is nearly one patient's, where that one lies far from all others; of a time, second
derivatives tell the time at risk inside a rule in each interval, so the last who is followed tells
her own. Each attack works on hospitals that count patients alone, and not on ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.curvature import CurvatureSums, Query, unpack_triangle
from fedrulefit.core.grid import Grid, encode
from fedrulefit.core.people import Sensitive
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.privacy.gate import Gated, gate_rules, have_enough
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.dealing import NEVER, Dealer
from fedrulefit.protocol.messages.results import offer_results
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import OUTCOMES, SOLVERS
from tests.alone import shared_grid
from tests.oracles import fires
from tests.samples import make_study, make_tables

SIZES = (150, 120, 90)
RULE = Rule((Condition(4, 0b10),))
"""Women: about half of all patients."""
KEPT_BACK = Gated((), one_sided=1)


def study_of(kind: str, **settings: Any) -> Study:
    return make_study(kind, **{**SOLVERS["cv"], "n_trees": 0, **settings})


def grid_of(study: Study) -> Grid:
    return shared_grid(study)


def change(table: Table, row: int, outcome: Any) -> Table:
    """Return the table with one patient's outcome changed."""
    assert table.outcome is not None
    changed = table.outcome.copy()
    changed[row] = outcome
    return replace(table, outcome=changed)


def inside(table: Table, grid: Grid, rule: Rule = RULE) -> Any:
    return fires(rule, encode(table.values, grid))


def gate(study: Study, grid: Grid, table: Table, *, counts_alone: bool) -> Gated:
    """Return what leaves of the rule: by our gate, or by one that counts patients alone."""
    assert table.outcome is not None
    assert table.events is not None
    own = None if counts_alone else Sensitive.of(study.family, table.outcome)
    codes, options = encode(table.values, grid), {"min_count": 5, "sensitive": own}
    found = gate_rules([RULE], codes, table.events, grid, max_rules_sent=9, **options)  # type: ignore[arg-type]
    votes = have_enough([RULE], codes, table.events, table.weights, **options)  # type: ignore[arg-type]
    assert votes.tolist() == [bool(found.rules)]
    return found


def ask_totals(study: Study, grid: Grid, tables: dict[str, Table], coef: Any) -> Any:
    """Return the summed answer on the rule at a point, over all hospitals."""
    public = Public(study).with_grid(grid).with_rules((RULE,))
    n = public.family.n_baseline
    terms = np.arange(n + 1)
    query = Query(-1, terms, np.zeros(n + 1), np.array([*coef, 0.0]), terms)
    request = m.CurvatureRequest(m.base.blank_header("a"), (query,))
    units: Any = 0
    for table in tables.values():
        held = replace(table, values=table.values[:0], outcome=table.outcome[:0])  # type: ignore[index]
        folds = np.zeros(table.n_rows, dtype=np.int64)
        own = Patients(public, table, held, folds, 5).on_grid(public).with_terms(public)
        (part,) = request.add_up(own)
        units = units + part
    return CurvatureSums.packing(query, public.bounds).read(units), n


# --- the last who is followed -------------------------------------------------------------------


def follow(tables: dict[str, Table], grid: Grid, last: float, day: float) -> dict[str, Table]:
    """End everybody's follow-up before the last interval, but for one woman's of the north."""
    made = {}
    for name, table in tables.items():
        outcome = table.outcome.copy()  # type: ignore[union-attr]
        outcome[:, 1] = np.minimum(outcome[:, 1], last)
        if name == "north":
            row = int(np.flatnonzero(inside(table, grid))[0])
            outcome[row] = 0.0, day, 0.0
        made[name] = replace(table, outcome=outcome)
    return made


def test_the_last_who_is_followed_does_not_tell_her_day() -> None:
    study = study_of("time")
    grid, ends = grid_of(study), study.family.ends  # type: ignore[attr-defined]
    tables = follow(make_tables(study, sizes=SIZES), grid, ends[-2], day := ends[-2] + 41.0)
    sums, n = ask_totals(study, grid, tables, np.zeros(study.family.n_baseline))
    # At F = 0 the curvature is the time at risk itself, in each interval apart.
    hessian = unpack_triangle(sums.hessian, n + 1)
    told = ends[-2] + hessian[n - 1, n] * (ends[-1] - ends[-2])
    assert told == pytest.approx(day, abs=0.5), "her day, of all women of three hospitals"
    for table in tables.values():
        assert gate(study, grid, table, counts_alone=True).rules == (RULE,)
        assert gate(study, grid, table, counts_alone=False).too_few == 1
    # Nor is a fold, or who is held out, told apart.
    careful, blind = (Dealer(study, "north", b"s" * 32, least) for least in (5, 0))
    assert (careful.deal_folds(tables["north"]) == NEVER).all()
    assert (blind.deal_folds(tables["north"]) >= 0).all()


def test_a_rule_whose_women_are_all_followed_leaves() -> None:
    study = study_of("time")
    grid, tables = grid_of(study), make_tables(study, sizes=SIZES)
    for table in tables.values():
        assert gate(study, grid, table, counts_alone=False).rules == (RULE,)


def test_the_grid_of_time_is_public() -> None:
    """No interval ends where a patient's follow-up does: the study's words alone place them."""
    study = study_of("time")
    for seed in (0, 1):
        tables = make_tables(study, seed=seed)
        assert Public(study).family is study.family
        times = np.concatenate([table.outcome[:, 1] for table in tables.values()])  # type: ignore[index]
        assert len(np.unique(times)) > 50
    assert study.family.ends.tolist() == [0, *study.outcome.inner_cuts, 365]  # type: ignore[attr-defined, union-attr]


# --- one patient who outweighs all others ---------------------------------------------------------


def outweigh(kind: str, table: Table, grid: Grid, *, within: bool = True) -> Table:
    """Return a table in which one woman (or man) has nearly all there is of the outcome."""
    row = int(np.flatnonzero(inside(table, grid) == within)[0])
    rng = np.random.default_rng(3)
    if kind == "count":
        outcome = np.column_stack([np.arange(table.n_rows) % 8 == 0, np.full(table.n_rows, 12.0)])
        return change(replace(table, outcome=outcome.astype(float)), row, (30.0, 12.0))
    return change(replace(table, outcome=0.02 * rng.random(table.n_rows)), row, 55.0)


def refresh(study: Study, table: Table) -> Table:
    """Return the table with who counts as with the outcome, as it would be loaded."""
    assert table.outcome is not None
    return replace(table, events=study.family.events(table.outcome, table.weights))


NUMBERS = ["number", "number, robust", "count"]


@pytest.mark.parametrize("kind", ["number", "count"])
def test_a_total_is_nearly_the_number_of_whoever_outweighs_all(kind: str) -> None:
    study = study_of(kind)
    grid, tables = grid_of(study), make_tables(study, sizes=SIZES)
    tables = {name: refresh(study, replace(outweigh(kind, table, grid), patients=None))
              if name == "north" else refresh(study, small(kind, table))
              for name, table in tables.items()}  # fmt: skip
    start = -1.0 if kind == "number" else -32.0  # where all others' slopes are nearly 0
    sums, _ = ask_totals(study, grid, tables, [start])
    (told,) = -sums.gradient[1:2]
    # Less what anybody would guess of all others: next to nothing, or a visit of every sixth.
    women = sum(int(inside(table, grid).sum()) for table in tables.values())
    usual, truth = (0.0, 55 / 30) if kind == "number" else (women / 6 / 30, 30 / 30)
    assert told - usual == pytest.approx(truth, rel=0.25)
    for name, table in tables.items():
        assert gate(study, grid, table, counts_alone=True).rules == (RULE,)
        expected = KEPT_BACK if name == "north" else Gated((RULE,))
        assert gate(study, grid, table, counts_alone=False) == expected


def small(kind: str, table: Table) -> Table:
    """Return a table of small numbers, none of which outweighs the others."""
    rng = np.random.default_rng(4)
    if kind == "count":
        counts = (np.arange(table.n_rows) % 5 == 0).astype(float)
        return replace(table, outcome=np.column_stack([counts, np.full(table.n_rows, 12.0)]))
    return replace(table, outcome=0.02 * rng.random(table.n_rows))


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("within", [True, False])
def test_nor_does_the_rule_of_all_others_leave(kind: str, within: bool) -> None:
    """Totals are known: what is inside a rule tells what is outside."""
    study = study_of(kind)
    grid = grid_of(study)
    table = make_tables(study, sizes=SIZES)["north"]
    far = refresh(study, outweigh(kind, table, grid, within=within))
    assert gate(study, grid, far, counts_alone=False) == KEPT_BACK
    assert gate(study, grid, refresh(study, table), counts_alone=False).rules == (RULE,)


@pytest.mark.parametrize("kind", NUMBERS)
def test_powers_of_held_out_numbers_are_not_one_patient_s(kind: str) -> None:
    """From Σt⁴ / Σt² whoever reads the sums would know the largest t: nobody is held out then."""
    study = study_of(kind, holdout=0.3)
    grid = grid_of(study)
    table = make_tables(study, sizes=SIZES)["north"]
    far = refresh(study, outweigh(kind, table, grid))
    scaled = study.family.magnitudes(far.outcome)[:, 0]  # type: ignore[arg-type]
    gaps = scaled - np.median(scaled)
    told = np.sqrt((gaps**4).sum() / (gaps**2).sum())
    assert told == pytest.approx(np.abs(gaps).max(), rel=0.1)
    careful, blind = (Dealer(study, "north", b"s" * 32, least) for least in (5, 0))
    assert not careful.hold_out(far).any()
    assert blind.hold_out(far).any()
    assert (careful.deal_folds(far) == NEVER).all()
    usual = refresh(study, table)
    assert careful.hold_out(usual).sum() == pytest.approx(45, abs=1)
    assert (careful.deal_folds(usual) >= 0).all()


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_site_tells_no_results_of_patients_whom_one_outweighs(kind: str) -> None:
    study = study_of(kind, holdout=0.3, per_site=True)
    grid = grid_of(study)
    table = refresh(study, make_tables(study, sizes=SIZES)["north"])
    far = refresh(study, outweigh(kind, table, grid))
    public = Public(study).with_grid(grid).with_rules((RULE,))
    for held, keeps_back in ((table, 0.0), (far, 1.0)):
        own = Patients(public, table, held, np.zeros(table.n_rows, dtype=np.int64), 5)
        offer = offer_results(own.on_grid(public).with_terms(public), np.array([0, 1]))
        assert offer.evaluation == keeps_back


# --- a rare level -------------------------------------------------------------------------------

LEVELS = ("ordered", "classes")


def make_rare(kind: str, tables: dict[str, Table], study: Study, grid: Grid) -> dict[str, Table]:
    """Leave one patient of the last level in all hospitals: a woman of the north."""
    made = {}
    for name, table in tables.items():
        outcome = table.outcome.copy()  # type: ignore[union-attr]
        last = len(study.family.names) - 1
        outcome[outcome == last] = 1
        if name == "north":
            outcome[np.flatnonzero(inside(table, grid))[0]] = last
        made[name] = refresh(study, replace(table, outcome=outcome))
    return made


def count_last(kind: str, study: Study, grid: Grid, tables: dict[str, Table]) -> float:
    """Return how many at the last level are women, as the summed answer at F = 0 tells."""
    public = Public(study).with_grid(grid).with_rules((RULE,))
    n, every = public.family.n_baseline, np.arange(public.layout.n_terms)
    terms = np.array([*range(n), *every[public.layout.rules]])
    assert len(terms) - n == (n if kind == "classes" else 1)
    zero = np.zeros(len(terms))
    sums = ask(public, Query(-1, terms, zero, zero, terms), tables)
    hessian, last = unpack_triangle(sums.hessian, len(terms)), sums.gradient[len(terms) - 1]
    if kind == "classes":
        women = hessian[-1, -1] / ((1 / n) * (1 - 1 / n))
        return float(women / n - last)
    tried = 4 * hessian[:n, n]  # second derivatives at F = 0, by step
    went_on = tried.sum() / 2 - last
    return float(went_on - tried[1:].sum())


def ask(public: Public, query: Query, tables: dict[str, Table]) -> CurvatureSums:
    """Return the summed answer to a question, over all hospitals."""
    request = m.CurvatureRequest(m.base.blank_header("a"), (query,))
    units: Any = 0
    for table in tables.values():
        held = replace(table, values=table.values[:0], outcome=table.outcome[:0])  # type: ignore[index]
        folds = np.zeros(table.n_rows, dtype=np.int64)
        own = Patients(public, table, held, folds, 5).on_grid(public).with_terms(public)
        (part,) = request.add_up(own)
        units = units + part
    return CurvatureSums.packing(query, public.bounds).read(units)


@pytest.mark.parametrize("kind", LEVELS)
def test_the_only_patient_of_a_level_is_not_placed_by_rules(kind: str) -> None:
    """Summed over all hospitals the answers told whether a rule holds for her, rule by rule."""
    study = study_of(kind)
    grid = grid_of(study)
    tables = make_rare(kind, make_tables(study, sizes=SIZES), study, grid)
    assert count_last(kind, study, grid, tables) == pytest.approx(1, abs=0.01)
    moved = dict(tables)
    women = inside(tables["north"], grid)
    outcome = tables["north"].outcome.copy()  # type: ignore[union-attr]
    last = len(study.family.names) - 1
    outcome[outcome == last] = 1
    outcome[np.flatnonzero(~women)[0]] = last
    moved["north"] = refresh(study, replace(tables["north"], outcome=outcome))
    assert count_last(kind, study, grid, moved) == pytest.approx(0, abs=0.01)
    for table in tables.values():
        assert gate(study, grid, table, counts_alone=True).rules == (RULE,)
        assert gate(study, grid, table, counts_alone=False).too_few == 1, "nobody votes for it"


@pytest.mark.parametrize("kind", LEVELS)
def test_a_rule_with_enough_of_every_level_leaves(kind: str) -> None:
    study = study_of(kind)
    grid = grid_of(study)
    for table in make_tables(study, sizes=(300, 280, 260)).values():
        assert gate(study, grid, table, counts_alone=False).rules == (RULE,)


# --- a rule inside which all have the same --------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in OUTCOMES if kind != "yes/no"])
def test_a_rule_inside_which_all_have_the_same_is_kept_back(kind: str) -> None:
    """Whoever knows that somebody is inside would know the outcome."""
    study = study_of(kind)
    grid = grid_of(study)
    table = make_tables(study, sizes=SIZES)["north"]
    outcome = table.outcome.copy()  # type: ignore[union-attr]
    women = inside(table, grid)
    outcome[women] = outcome[np.flatnonzero(women)[0]]
    same = refresh(study, replace(table, outcome=outcome))
    assert gate(study, grid, same, counts_alone=False).too_few == 1


# --- the gate is the policy's ---------------------------------------------------------------------


def test_a_policy_without_a_smallest_count_asks_for_nothing() -> None:
    study = study_of("number")
    grid = grid_of(study)
    far = refresh(study, outweigh("number", make_tables(study, sizes=SIZES)["north"], grid))
    codes, own = encode(far.values, grid), Sensitive.of(study.family, far.outcome)  # type: ignore[arg-type]
    for policy, passed in ((OPEN, (RULE,)), (Policy(), ())):
        found = gate_rules(
            [RULE], codes, far.events, grid, max_rules_sent=9, sensitive=own,  # type: ignore[arg-type]
            min_count=policy.min_count,
        )  # fmt: skip
        assert found.rules == passed
