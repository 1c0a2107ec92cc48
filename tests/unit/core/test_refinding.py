"""Terms that folds find again: against columns of patients whose covariates are independent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.grids import estimate, numbers
from tests.oracles import fires

from fedrulefit.core.refinding import SAME, Alike, count_found_again
from fedrulefit.core.rules import Condition, Rule, conjoin, interval

GRID = estimate(
    [*range(1, 17), *[30] * 8],
    [numbers(range(17), cutoffs=range(1, 16)), numbers(range(9), cutoffs=range(1, 8))],
    n_cutoffs=15,
)
N = [axis.n_codes for axis in GRID.axes]
SHARES = [np.arange(1.0, N[0] + 1), np.ones(N[1])]
SHARES = [shares / shares.sum() for shares in SHARES]
ALIKE = Alike(GRID, SHARES)


def rule(*parts: tuple[int, int, int]) -> Rule:
    made = conjoin([Condition(j, interval(lo, hi)) for j, lo, hi in parts], GRID)
    assert made is not None
    return made


def draw_rules(rng: Any, n_rules: int) -> list[Rule]:
    found = []
    while len(found) < n_rules:
        parts = []
        for j in rng.permutation(2)[: rng.integers(1, 3)].tolist():
            lo, hi = sorted(rng.choice(N[j] + 1, 2, replace=False).tolist())
            parts.append((j, lo, hi))
        made = rule(*parts)
        if made.conditions:
            found.append(made)
    return found


def test_correlations_are_those_of_patients_with_these_shares() -> None:
    """Every pair of codes, weighted by its share: no chance is left."""
    codes = np.stack([axis.ravel() for axis in np.indices(N)], axis=1).astype(np.uint8)
    weights = SHARES[0][codes[:, 0]] * SHARES[1][codes[:, 1]]
    rules = draw_rules(np.random.default_rng(1), 40)
    hits = np.array([fires(own, codes) for own in rules], dtype=float)
    centred = hits - (hits @ weights)[:, None]
    covariance = (centred * weights) @ centred.T
    spread = np.sqrt(np.diag(covariance))
    for i, first in enumerate(rules):
        for j, second in enumerate(rules):
            if set(first.features) & set(second.features):
                expected = covariance[i, j] / (spread[i] * spread[j])
                assert ALIKE.correlate(first, second) == pytest.approx(expected, abs=1e-9)
            else:
                assert ALIKE.correlate(first, second) == 0
                assert abs(covariance[i, j]) < 1e-9, "independent"


def test_a_rule_is_found_again_by_neighbours_and_by_its_opposite() -> None:
    own, near, far = rule((0, 8, 16)), rule((0, 9, 16)), rule((0, 14, 16))
    opposite, other = rule((0, 0, 8)), rule((1, 4, 8))
    assert ALIKE.correlate(own, near) > SAME > ALIKE.correlate(own, far)
    assert ALIKE.correlate(own, opposite) == pytest.approx(-1)
    terms = [(own, None, 0.7)]
    folds = [
        [(own, None, 0.1)],
        [(near, None, 0.2), (other, None, 0.4)],
        [(opposite, None, -0.3)],
        [(far, None, 0.5), (other, None, 0.4)],
        [(near, None, -0.2)],
        [(opposite, None, 0.3)],
        [],
    ]
    assert [count_found_again(terms, [fold], ALIKE) for fold in folds] == [
        [1], [1], [1], [0], [0], [0], [0],
    ]  # fmt: skip
    assert count_found_again(terms, folds, ALIKE) == [3]


def test_a_linear_term_is_found_again_with_its_sign_and_no_rule_stands_for_it() -> None:
    terms = [(0, None, 0.7), (1, None, -0.2)]
    folds = [[(0, None, 0.1), (1, None, 0.2)], [(rule((0, 8, 16)), None, 0.5)]]
    assert count_found_again(terms, folds, ALIKE) == [1, 0]


def test_a_term_of_one_class_is_not_found_again_in_another() -> None:
    own = rule((0, 8, 16))
    folds = [[(own, "home", 0.1)], [(own, "care", 0.1)]]
    assert count_found_again([(own, "home", 0.7)], folds, ALIKE) == [1]


def test_without_histograms_all_codes_count_alike() -> None:
    alike = Alike(GRID)
    first, second = rule((0, 8, 16)), rule((0, 9, 16))
    p, q = 8 / N[0], 7 / N[0]
    expected = (q - p * q) / np.sqrt(p * (1 - p) * q * (1 - q))
    assert alike.correlate(first, second) == pytest.approx(expected)
