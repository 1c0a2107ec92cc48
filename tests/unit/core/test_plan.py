"""How many rules need no data, against a plan made by hand, one cut-off at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.grids import numbers

from fedrulefit.core.bins import Bins
from fedrulefit.core.cutoffs import exact_grid
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.plan import Plan, plan_candidates, thin
from fedrulefit.core.rules import cutoff_rules, level_rules

COUNTS = st.lists(st.integers(0, 254), min_size=1, max_size=12)


def plan(cutoffs: list[int], most: int, n_levels: int = 0, n_missing: int = 0) -> Plan:
    return Plan(n_levels, n_missing, np.array(cutoffs, dtype=np.int64), most)


def share_out(cutoffs: list[int], left: int) -> list[int]:
    """One more for each covariate that has another, as long as there is enough for all of them."""
    given = [0] * len(cutoffs)
    while True:
        wanting = [j for j, n in enumerate(cutoffs) if n > given[j]]
        if not wanting or len(wanting) > left:
            return given
        left -= len(wanting)
        for j in wanting:
            given[j] += 1


@given(COUNTS, st.integers(1, 2000), st.integers(0, 20), st.integers(0, 12))
def test_the_share_is_that_of_one_more_for_everybody(
    cutoffs: list[int], most: int, n_levels: int, n_missing: int
) -> None:
    planned = plan(cutoffs, most, n_levels, n_missing)
    assert planned.quotas.tolist() == share_out(cutoffs, most - n_levels - n_missing)
    assert planned.n_left_out == sum(cutoffs) - sum(planned.quotas)
    if planned.problem:
        assert n_levels + n_missing > most
        assert planned.quotas.sum() == 0
    else:
        assert planned.n_candidates <= most


@given(COUNTS, st.integers(1, 2000))
def test_narrow_data_keep_every_cut_off(cutoffs: list[int], most: int) -> None:
    planned = plan(cutoffs, most)
    assert (planned.quotas.tolist() == cutoffs) == (sum(cutoffs) <= most)


@given(COUNTS, st.integers(1, 2000), st.integers(0, 500), st.integers(0, 254))
def test_more_room_never_takes_and_more_covariates_never_give(
    cutoffs: list[int], most: int, more: int, further: int
) -> None:
    planned = plan(cutoffs, most).quotas
    assert (plan(cutoffs, most + more).quotas >= planned).all()
    assert (plan([*cutoffs, further], most).quotas[:-1] <= planned).all()


@given(st.integers(0, 254), st.integers(0, 254))
def test_those_that_stay_are_spread_evenly(n_cutoffs: int, n_kept: int) -> None:
    kept = thin(n_cutoffs, n_kept).tolist()
    assert len(kept) == min(n_cutoffs, n_kept)
    if n_kept >= n_cutoffs:
        assert kept == list(range(n_cutoffs))
        return
    # With both ends, where there is no cut-off: no gap is longer than another by more than one.
    gaps = [b - a for a, b in pairwise([-1, *kept, n_cutoffs])]
    assert min(gaps) >= 1
    assert max(gaps) - min(gaps) <= 1


def test_by_hand() -> None:
    assert [thin(7, n).tolist() for n in range(4)] == [[], [3], [2, 4], [1, 3, 5]]
    # 32 quantiles are near 3 %, 6 %, … 97 %: of these, the quartiles.
    assert ((thin(32, 3) + 1) / 33).round(2).tolist() == [0.24, 0.52, 0.76]


AXES = (
    (Bins.binary(complete=True), 1),
    (Bins.categorical(4, complete=False), 0),
    (Bins.ranked(4, complete=True), 3),
    (numbers(np.linspace(0, 1, 101), complete=False), 32),
    (numbers([0, 10], cutoffs=[1, 2, 5]), 3),
    (numbers([0, 15], step=1), 15),
    (numbers([0.0, 0.3], step=0.1), 3),
    (numbers([0, 500], step=1), 32),
)


def test_what_each_kind_of_covariate_can_give() -> None:
    bins = [b for b, _ in AXES]
    planned = plan_candidates(bins, n_cutoffs=32, single=True, most=200)
    assert planned.cutoffs.tolist() == [n for _, n in AXES]
    assert (planned.n_levels, planned.n_missing) == (4, 2)
    assert planned.n_candidates == 4 + 2 + 89
    alone = plan_candidates(bins, n_cutoffs=32, single=False, most=200)
    assert (alone.n_candidates, alone.n_left_out, alone.n_missing) == (4, 0, 0)


@pytest.mark.parametrize("most", [6, 7, 10, 20, 40, 94, 95, 1000])
def test_candidates_are_never_more_than_planned(most: int) -> None:
    """However many cut-offs the grid has: pooled data cut at values, not at bins."""
    bins = [b for b, _ in AXES]
    planned = plan_candidates(bins, n_cutoffs=32, single=True, most=most)
    rng = np.random.default_rng(most)
    values = np.column_stack([rng.uniform(b.edges[0], b.edges[-1], 400) for b in bins])
    values[:, [0, 1, 2]] = np.rint(values[:, [0, 1, 2]]).clip(0, [1, 3, 3])
    grid = exact_grid(values, np.ones(400), bins, n_cutoffs=32, winsor=0, centre=False)
    rules = {*level_rules(grid), *cutoff_rules(grid, None, planned.quotas)}
    assert len(rules) <= planned.n_candidates <= most


def test_thinned_rules_stand_at_the_cut_offs_that_stay() -> None:
    grid = Grid((Axis("number", np.arange(1.0, 8.0), 8, complete=True),))
    found = [rule.conditions[0].codes for rule in cutoff_rules(grid, None, np.array([3]))]
    assert found == [0b11, 0b1111, 0b111111]


def test_the_plan_in_words() -> None:
    wide = plan([32] * 2000, 10_000)
    assert wide.words().startswith(
        "2,000 covariates could give 64,000 single cut-offs as candidate rules; planned: at most 5 "
        "of each covariate, 10,000 together ('max_candidates' allows 10,000 candidates in all). "
    )
    assert "planned: none, 0 together" in plan([32] * 2000, 1999).words()
    assert "10 candidates in all, 4 of them levels" in plan([32], 10, 3, 1).words()
    narrow = plan([32] * 20, 10_000, 4, 2).words()
    assert narrow == "Candidate rules that need no data: 646 at most."
    assert wide.problem == ""
    stuck = plan([32], 10, 9, 2).problem
    assert stuck.startswith("9 levels of categories and 2 times “x is missing” are 11 candidate")
    assert "of at most 10 ('max_candidates')" in stuck
    assert "'single_cutoffs = false'" in stuck
    assert "single_cutoffs" not in plan([0], 10, 12, 0).problem
