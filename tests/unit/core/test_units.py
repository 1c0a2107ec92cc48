"""What an outcome is a multiple of moves neither trees nor the solver's way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.families import EXAMPLES
from tests.oracles import solve, split

from fedrulefit.core.boosting import Units, extract_rules, grow_trees
from fedrulefit.core.design import Design
from fedrulefit.core.families import Family
from fedrulefit.core.families.count import Count
from fedrulefit.core.families.number import Number
from fedrulefit.core.families.time import Time
from fedrulefit.core.grid import Axis, Grid

GRID = Grid((Axis("number", np.arange(8.0), 9, True),) * 3)


def draw(kind: str, n_rows: int = 400) -> tuple[Any, Any]:
    """Return codes of patients, and their outcomes."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 9, (n_rows, 3)).astype(np.uint8)
    truth = 0.6 * (codes[:, 0] > 4) - 0.4 * (codes[:, 1] > 2)
    if kind == "number":
        return codes, np.clip(50 + 10 * truth + 5 * rng.normal(size=n_rows), 0, 100)
    watched = rng.uniform(0.2, 1.0, n_rows)
    if kind.startswith("count"):
        return codes, np.column_stack([rng.poisson(4 * watched * np.exp(truth)), watched])
    due = rng.exponential(0.5 * np.exp(-truth))
    return codes, np.column_stack([0 * due, np.minimum(due, watched), due <= watched])


WIDER: dict[str, tuple[Family, Family]] = {
    "number": (Number(0, 100), Number(-1450, 1550)),
    "count": (Count(30), Count(900)),
    "count, negative binomial": (
        Count(30, negative_binomial=True, dispersion=0.7),
        Count(900, negative_binomial=True, dispersion=0.7),
    ),
    "time": (Time((0.3, 0.6), (1.0,)), Time((0.3, 0.6, 1.0), (30.0,))),
}
"""A family, and one whose public range is 30 times as wide."""


def grow(family: Family, codes: Any, outcome: Any, n_trees: int = 40) -> Any:
    trees = grow_trees(
        family, codes, outcome, np.ones(len(codes)), GRID, n_trees=n_trees, mean_leaves=4.0,
        learning_rate=0.1, subsample=1.0, min_leaf=10, rng=np.random.default_rng(0),
    )  # fmt: skip
    return extract_rules(trees, GRID)


@pytest.mark.parametrize("kind", WIDER)
def test_a_public_range_that_is_too_wide_hardly_changes_a_rule(kind: str) -> None:
    """Counts far below the largest moved trees by so little that all of them were alike."""
    codes, outcome = draw(kind)
    near, wide = (grow(family, codes, outcome) for family in WIDER[kind])
    assert len(near) > 20
    assert len(near & wide) >= 0.95 * len(near | wide)


def test_yes_no_trees_have_the_leaves_of_the_paper() -> None:
    outcome = np.array([0.0, 1.0, 0.0, 0.0])
    family = EXAMPLES["yes/no"]
    start = family.start(outcome, np.ones(4))
    assert start is not None
    assert Units.of(family, outcome, np.ones(4), start) == Units(1.0, 1.0)


@pytest.mark.parametrize("kind", WIDER)
def test_residuals_are_about_one_and_leaves_are_newtons(kind: str) -> None:
    _, outcome = draw(kind)
    weights = np.ones(len(outcome))
    for family in WIDER[kind]:
        start = family.start(outcome, weights)
        assert start is not None
        units = Units.of(family, outcome, weights, start)
        predictor = np.tile(start, (len(outcome), 1))
        flat = predictor[:, 0] if family.n_baseline == 1 else predictor
        slope, curvature = (
            each(flat, outcome, weights).reshape(len(outcome), -1).sum(axis=1)
            for each in (family.slope, family.curvature)
        )
        assert 1 <= np.sqrt(np.mean((units.residual * slope) ** 2)) < 2
        assert units.residual / units.score == pytest.approx(1 / curvature.mean())
        assert np.log2(units.score) == round(np.log2(units.score))


@pytest.mark.parametrize("kind", ["count", "time"])
def test_the_baseline_jumps_to_its_best(kind: str) -> None:
    """Down an exponential Newton's steps are 1 each: a wide range cost a round for each."""
    for family in WIDER[kind]:
        _, outcome = draw(kind)
        weights, zero = np.ones(len(outcome)), np.zeros((len(outcome), family.n_baseline))
        flat = zero[:, 0] if family.n_baseline == 1 else zero
        slope, curvature = (
            each(flat, outcome, weights).reshape(zero.shape).sum(axis=0)
            for each in (family.slope, family.curvature)
        )
        start = family.start(outcome, weights)
        assert start is not None
        np.testing.assert_allclose(family.jump(slope, curvature), start, rtol=1e-5)


@pytest.mark.parametrize("kind", WIDER)
def test_the_solver_needs_no_more_rounds_for_a_wide_range(kind: str) -> None:
    codes, outcome = draw(kind)
    rounds = []
    for family in WIDER[kind]:
        hits = np.column_stack([codes[:, 0] > 4, codes[:, 1] > 2, codes[:, 2] > 6])
        sites = split_parts(family, hits, outcome)
        factors = np.array([0.0] * family.n_baseline + [1.0] * 3)
        newton = solve(sites, factors, 0.0, family=family, tolerance=1e-7)
        assert newton.converged
        rounds.append(newton.rounds)
    assert max(rounds) <= 8


def split_parts(family: Family, hits: Any, outcome: Any) -> Any:
    """Return two sites, with a predictor for each of the family's baselines."""
    X = np.hstack([np.ones((len(hits), 1)), hits])
    halves = split(X, 3, outcome, np.ones(len(hits)), [150, len(hits) - 150])
    if family.n_baseline == 1:
        return halves
    K = family.n_baseline
    return [(Design(np.ones((d.n_rows, K)), d.bits, d.linear, parts=K), y, w) for d, y, w in halves]
