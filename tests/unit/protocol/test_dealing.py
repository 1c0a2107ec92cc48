"""Folds and held-out patients: even, secret, and never of few patients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.protocol.dealing import NEVER, deal_folds, dealing_rng, hold_out


def deal(outcome: Any, n_folds: int, *, seed: int = 3, site: str = "north", least: int = 0) -> Any:
    rng = dealing_rng(seed, site, None, "folds")
    return deal_folds(outcome, np.ones(len(outcome)), n_folds, rng, least=least)


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
def test_a_fold_has_k_patients_of_either_outcome_or_nobody(
    n_cases: int, n_others: int, n_folds: int, least: int, n_idle: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n_rows = n_cases + n_others + n_idle
    outcome = np.concatenate([np.ones(n_cases), np.zeros(n_others), rng.integers(0, 2, n_idle)])
    weights = np.concatenate([np.ones(n_cases + n_others), np.zeros(n_idle)])
    order = rng.permutation(n_rows)
    outcome, weights = outcome[order], weights[order]
    folds = deal_folds(outcome, weights, n_folds, rng, least=least)
    fewest = min(n_cases, n_others)
    if fewest < 2 * least:
        assert (folds == NEVER).all()
        return
    used = np.unique(folds[weights > 0])
    assert len(used) == min(n_folds, fewest // least)
    assert set(used.tolist()) <= set(range(n_folds))
    for fold in used:
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


@pytest.mark.parametrize("draw", [
    lambda rng: deal_folds(make_outcome(100, 40), np.ones(100), 5, rng("folds"), least=5),
    lambda rng: hold_out(make_outcome(100, 40), np.ones(100), 0.3, rng("holdout"), least=5),
])  # fmt: skip
def test_a_secret_deals_whatever_the_study_s_seed_and_the_site_s_name(
    draw: Callable[[Any], Any],
) -> None:
    """Else a coordinator, which knows both, knew who is in which fold."""

    def dealt(seed: int, site: str, secret: bytes | None) -> Any:
        return draw(lambda purpose: dealing_rng(seed, site, secret, purpose))

    mine = dealt(0, "north", b"a" * 32)
    np.testing.assert_array_equal(mine, dealt(1, "south", b"a" * 32))
    assert (mine != dealt(0, "north", b"b" * 32)).any()
    assert (mine != dealt(0, "north", None)).any()
