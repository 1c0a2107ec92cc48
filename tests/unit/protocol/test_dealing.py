"""Folds and held-out patients: even, secret, and never of few patients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.protocol.dealing import NEVER, Dealer, deal_folds, hold_out, site_rng
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.samples import make_frame, make_study, make_tables, take

STUDY = make_study()


def dealer(
    *, seed: int = 3, site: str = "north", secret: bytes | None = None, least: int = 0, **more: Any
) -> Dealer:
    return Dealer(STUDY.with_settings(seed=seed, **more), site, secret, least)


def make_table(outcome: Any) -> Table:
    frame = make_frame(len(outcome)).assign(died=np.where(outcome == 1, "yes", "no"))
    return load_table(frame, STUDY)


def deal(outcome: Any, n_folds: int, **more: Any) -> Any:
    return dealer(folds=n_folds, **more).deal_folds(make_table(outcome))


def make_outcome(n_rows: int, n_cases: int) -> Any:
    outcome = np.zeros(n_rows)
    outcome[np.random.default_rng(0).permutation(n_rows)[:n_cases]] = 1
    return outcome


@pytest.mark.parametrize(("n_rows", "n_cases", "n_folds"), [(100, 13, 5), (7, 2, 3), (4, 1, 5)])
def test_folds_are_even_in_cases_and_others(n_rows: int, n_cases: int, n_folds: int) -> None:
    outcome = make_outcome(n_rows, n_cases)
    folds = deal(outcome, n_folds)
    for rows in (outcome == 0, outcome == 1, outcome >= 0):
        assert np.ptp(np.bincount(folds[rows], minlength=n_folds)) <= 1
    np.testing.assert_array_equal(folds, deal(outcome, n_folds))
    if n_rows == 100:
        assert (folds != deal(outcome, n_folds, seed=4)).any()
        assert (folds != deal(outcome, n_folds, site="south")).any()


@given(
    n_cases=st.integers(0, 60),
    n_others=st.integers(0, 60),
    n_folds=st.integers(2, 12),
    least=st.integers(1, 8),
    n_idle=st.integers(0, 5),
    seed=st.integers(0, 99),
)
def test_every_fold_has_k_patients_of_either_outcome_or_none_has_any(
    n_cases: int, n_others: int, n_folds: int, least: int, n_idle: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n_rows = n_cases + n_others + n_idle
    outcome = np.concatenate([np.ones(n_cases), np.zeros(n_others), rng.integers(0, 2, n_idle)])
    weights = np.concatenate([np.ones(n_cases + n_others), np.zeros(n_idle)])
    order = rng.permutation(n_rows)
    outcome, weights = outcome[order], weights[order]
    folds = deal_folds(outcome, weights, n_folds, rng, least=least)
    if min(n_cases, n_others) < n_folds * least:
        assert (folds == NEVER).all()
        return
    for fold in range(n_folds):
        inside = outcome[(folds == fold) & (weights > 0)]
        assert min((inside == 1).sum(), (inside == 0).sum()) >= least


@given(
    n_cases=st.integers(0, 60),
    n_others=st.integers(0, 60),
    share=st.floats(0, 0.9),
    least=st.integers(1, 8),
)
def test_k_patients_of_either_outcome_are_held_out_or_nobody(
    n_cases: int, n_others: int, share: float, least: int
) -> None:
    outcome = np.repeat([1.0, 0.0], [n_cases, n_others])
    rng = np.random.default_rng(1)
    held = hold_out(outcome, np.ones(len(outcome)), share, rng, least=least)
    sizes = [round(share * n) for n in (n_cases, n_others)]
    rest = [n_cases - sizes[0], n_others - sizes[1]]
    if min(*sizes, *rest) < least:
        assert not held.any()
    else:
        assert [held[outcome == value].sum() for value in (1, 0)] == sizes


DRAWS: list[Callable[[Dealer, Table], Any]] = [Dealer.deal_folds, Dealer.hold_out]
TABLE = make_tables(STUDY, sizes=(200,))["north"]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_secret_deals_whatever_the_study_s_seed_and_the_site_s_name(
    draw: Callable[[Dealer, Table], Any],
) -> None:
    """Else a coordinator, which knows both, knew who is in which fold."""

    def dealt(seed: int, site: str, secret: bytes | None) -> Any:
        return draw(dealer(seed=seed, site=site, secret=secret, least=5, holdout=0.3), TABLE)

    mine = dealt(0, "north", b"a" * 32)
    np.testing.assert_array_equal(mine, dealt(1, "south", b"a" * 32))
    assert (mine != dealt(0, "north", b"b" * 32)).any()
    assert (mine != dealt(0, "north", None)).any()


@pytest.mark.parametrize("draw", DRAWS)
def test_a_secret_deals_by_patients_and_not_by_rows(draw: Callable[[Dealer, Table], Any]) -> None:
    order = np.random.default_rng(1).permutation(200)
    mine = dealer(secret=b"a" * 32, least=5, holdout=0.3)
    dealt = draw(mine, TABLE)
    np.testing.assert_array_equal(dealt[order], draw(mine, take(TABLE, order)))
    # Nor by how the study writes its columns.
    facts = STUDY.with_settings(holdout=0.3).model_dump()
    facts["covariates"] = dict(reversed(facts["covariates"].items()))
    turned = Dealer(Study.model_validate(facts), "north", b"a" * 32, 5)
    table = Table(TABLE.values[:, ::-1], TABLE.outcome, TABLE.weights)
    np.testing.assert_array_equal(dealt, draw(turned, table))
    # One patient less, and everybody is dealt anew.
    assert (dealt[1:] != draw(mine, take(TABLE, np.arange(1, 200)))).mean() > 0.2


def make_repeated(seed: int = 0, n_people: int = 120, most: int = 4) -> Table:
    """A table of patients with 1 to `most` rows, in any order, whose outcomes may differ."""
    rng = np.random.default_rng(seed)
    patients = np.repeat(np.arange(n_people), rng.integers(1, most + 1, n_people))
    patients = rng.permutation(patients)
    table = make_table((rng.random(len(patients)) < 0.3).astype(float))
    weights = np.where(rng.random(len(patients)) < 0.1, 0.0, 1.0)
    return Table(table.values, table.outcome, weights, patients)


def naive_outcome(table: Table, rows: Any) -> tuple[set[int], set[int]]:
    """Return the patients with, and without, the outcome among some rows that count."""
    assert table.patients is not None
    rows = rows & (table.weights > 0)
    ill = set(table.patients[rows & (table.outcome == 1)].tolist())
    return ill, set(table.patients[rows].tolist()) - ill


@given(
    seed=st.integers(0, 99),
    n_people=st.integers(1, 150),
    most=st.integers(1, 6),
    n_folds=st.integers(2, 6),
    least=st.integers(0, 8),
    secret=st.sampled_from([None, b"a" * 32]),
)
def test_no_patient_is_in_two_folds_or_in_both_parts(
    seed: int, n_people: int, most: int, n_folds: int, least: int, secret: bytes | None
) -> None:
    table = make_repeated(seed, n_people, most)
    mine = dealer(secret=secret, least=least, folds=n_folds, holdout=0.3)
    folds, held = mine.deal_folds(table), mine.hold_out(table)
    assert table.patients is not None
    for part in (folds, held):
        dealt = [set(part[table.patients == p].tolist()) for p in np.unique(table.patients)]
        assert all(len(each) == 1 for each in dealt)
    if (folds != NEVER).any():
        for fold in range(n_folds):
            assert min(map(len, naive_outcome(table, folds == fold))) >= least
    else:
        everybody = naive_outcome(table, folds == folds)
        assert min(map(len, everybody)) < n_folds * least
    if held.any():
        for part in (held, ~held):
            assert min(map(len, naive_outcome(table, part))) >= least


def test_repeated_rows_deal_as_the_patients_would() -> None:
    """Without a secret, patients are dealt in the order in which they first come."""
    twice = np.repeat(np.arange(200), 2)
    table = Table(
        *(getattr(TABLE, name)[twice] for name in ("values", "outcome", "weights")), twice
    )
    mine = dealer(seed=7, folds=4, holdout=0.3, least=5)
    for draw in DRAWS:
        np.testing.assert_array_equal(draw(mine, table), draw(mine, TABLE)[twice])


@pytest.mark.parametrize("draw", DRAWS)
def test_a_secret_deals_patients_whatever_the_order_of_their_rows(
    draw: Callable[[Dealer, Table], Any],
) -> None:
    table = make_repeated()
    mine = dealer(secret=b"a" * 32, least=5, holdout=0.3)
    dealt = draw(mine, table)
    rng = np.random.default_rng(3)
    order = rng.permutation(table.n_rows)
    turned = take(table, order)
    assert turned.patients is not None
    named = rng.permutation(500)[turned.patients]  # other numbers for the same patients
    again = draw(mine, Table(turned.values, turned.outcome, turned.weights, named))
    counted = table.weights > 0
    np.testing.assert_array_equal(dealt[order][counted[order]], again[counted[order]])
    # One row less, and everybody is dealt anew.
    first = int(np.flatnonzero(counted)[0])
    fewer = draw(mine, take(table, np.arange(table.n_rows) != first))
    assert (np.delete(dealt, first) != fewer).mean() > 0.2


def test_without_a_secret_rows_are_dealt_by_the_seed_alone() -> None:
    """What embedded runs gave before stays as it was, bit for bit."""
    folds = dealer(seed=7, folds=3).deal_folds(TABLE)
    held = dealer(seed=7, holdout=0.25).hold_out(TABLE)
    expected = deal_folds(TABLE.outcome, TABLE.weights, 3, site_rng(7, "north", 0), least=0)  # type: ignore[arg-type]
    np.testing.assert_array_equal(folds, expected)
    rng = site_rng(7, "north", 1_000_000)
    np.testing.assert_array_equal(held, hold_out(TABLE.outcome, TABLE.weights, 0.25, rng, least=0))  # type: ignore[arg-type]
