"""A grid with further cut-offs: rules hold for the same values as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracles import fires

from fedrulefit.core.grid import Axis, Grid, encode
from fedrulefit.core.refining import refine
from fedrulefit.core.rules import Condition, conjoin, interval

GRID = Grid(
    (
        Axis("number", np.array([1.0, 4.0, 7.0]), 4, False),
        Axis("category", np.empty(0), 3, False),
        Axis("number", np.array([2.0]), 2, True),
    )
)


@pytest.mark.parametrize("seed", range(30))
def test_rules_hold_for_the_same_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    more = {0: rng.uniform(0, 9, 3).round(1).tolist(), 2: [2.0, 5.0]}
    refined = refine(GRID, more)
    assert set(more[0]) <= set(refined.grid.axes[0].cutoffs)
    values = np.column_stack(
        [rng.uniform(0, 9, 80), rng.integers(0, 3, 80).astype(float), rng.uniform(0, 9, 80)]
    )
    values[rng.random(80) < 0.2, 0] = np.nan
    conditions: list[Any] = [
        Condition(
            0, interval(*sorted(rng.choice(5, 2, replace=False).tolist()), missing=bool(seed % 2))
        ),
        Condition(1, int(rng.integers(1, 7))),
        Condition(2, interval(1, 2)),
    ]
    chosen = [c for c in conditions if rng.random() < 0.7] or conditions[:1]
    rule = conjoin(chosen, GRID)
    if rule is None:
        return
    carried = refined.carry(rule)
    assert carried == conjoin(carried.conditions, refined.grid)
    before, after = fires(rule, encode(values, GRID)), fires(carried, encode(values, refined.grid))
    assert np.array_equal(before, after)


def test_a_rule_of_missing_values_stays() -> None:
    rule = conjoin([Condition(0, 1 << 255)], GRID)
    assert rule is not None
    assert refine(GRID, {0: [2.0]}).carry(rule) == rule


def test_shares_of_a_parted_code_are_spread_evenly() -> None:
    refined = refine(GRID, {0: [2.0, 3.0]})
    shares = (np.array([0.1, 0.6, 0.1, 0.1, 0.1]), np.full(4, 0.25), np.array([0.5, 0.5]))
    found = refined.spread(shares)
    np.testing.assert_allclose(found[0], [0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1])
    assert [len(each) for each in found] == [
        axis.every_code.bit_count() for axis in refined.grid.axes
    ]
    assert refine(GRID, {}).grid.axes == GRID.axes


def test_too_many_cut_offs_are_refused() -> None:
    with pytest.raises(ValueError, match="303 cut-offs"):
        refine(GRID, {0: np.linspace(10, 20, 300).tolist()})
