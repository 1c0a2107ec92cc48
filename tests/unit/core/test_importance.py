"""Importances from sums against the paper's formulas on dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.design import Design, intercept
from fedrulefit.core.importance import (
    TermSums,
    squares_of,
    sum_terms,
    term_importance,
    variable_importance,
)
from fedrulefit.core.layout import Layout

N_RULES, N_LINEAR = 5, 2
LAYOUT = Layout(1, N_RULES, N_LINEAR)


def make_site(seed: int, n_rows: int) -> tuple[Any, Any, Any]:
    """Rules (n_rows, 5), linear terms (n_rows, 2) and outcome; sites differ in level."""
    rng = np.random.default_rng(seed)
    rules = (rng.random((n_rows, N_RULES)) < rng.uniform(0.1, 0.9, N_RULES)).astype(float)
    linear = rng.normal(seed, 1 + seed, size=(n_rows, N_LINEAR))
    return rules, linear, rng.integers(0, 2, n_rows).astype(float)


BOUNDS = np.array([1.0] * (1 + N_RULES) + [30.0, 40.0])


def sums_of(rules: Any, linear: Any, outcome: Any, weights: Any = None) -> Any:
    bits = np.packbits(rules.astype(np.uint8), axis=0, bitorder="little")
    weights = np.ones(len(rules)) if weights is None else weights
    return sum_terms(Design(intercept(len(rules)), bits, linear), outcome, weights, BOUNDS)


PACKING = TermSums.packing(N_RULES, N_LINEAR)


def added(parts: list[Any]) -> tuple[Any, float]:
    total = PACKING.read(np.sum(parts, axis=0))
    return squares_of(LAYOUT, total, BOUNDS), total.total - 1


SITES = [make_site(1, 23), make_site(2, 40)]
COEF = np.array([0.7, 1.0, -2.0, 0.0, 0.5, 3.0, -0.25, 1.5])


def test_importance_is_the_standard_deviation_over_all_patients() -> None:
    """About the pooled mean: squares about the sites' own means give their counts away."""
    importance = term_importance(LAYOUT, COEF, *added([sums_of(*site) for site in SITES]))
    terms = np.vstack([np.hstack([rules, linear]) for rules, linear, _ in SITES])
    expected = np.abs(COEF[1:]) * terms.std(axis=0, ddof=1)
    assert importance[1:] == pytest.approx(expected, rel=1e-7)


def test_the_intercept_has_no_importance() -> None:
    assert term_importance(LAYOUT, COEF, *added([sums_of(*site) for site in SITES]))[0] == 0
    assert term_importance(Layout(1, 0, 0), np.array([5.0]), np.array([9.0]), 3.0).tolist() == [0.0]


@pytest.mark.parametrize("sizes", [(63,), (1, 62), (20, 20, 23)])
def test_importance_does_not_depend_on_who_has_which_patient(sizes: tuple[int, ...]) -> None:
    rules, linear, outcome = (np.concatenate(parts) for parts in zip(*SITES, strict=True))
    parts, start = [], 0
    for size in sizes:
        rows = slice(start, start + size)
        parts.append(sums_of(rules[rows], linear[rows], outcome[rows]))
        start += size
    here = term_importance(LAYOUT, COEF, *added(parts))
    assert (
        here.tolist()
        == term_importance(LAYOUT, COEF, *added([sums_of(*s) for s in SITES])).tolist()
    )


def test_supports_and_outcome_rates_are_counts_inside_each_rule() -> None:
    parts = [sums_of(*site) for site in SITES]
    rules = np.vstack([site[0] for site in SITES])
    outcome = np.concatenate([site[2] for site in SITES])
    total = PACKING.read(np.sum(parts, axis=0))
    assert total.total == len(rules)
    assert total.events == outcome.sum()
    assert total.inside.tolist() == rules.sum(axis=0).tolist()
    assert total.events_inside.tolist() == (outcome @ rules).tolist()
    support = total.inside / total.total
    assert support == pytest.approx(rules.mean(axis=0))


def test_sums_treat_weights_as_repeated_patients() -> None:
    rules, linear, outcome = SITES[0]
    weights = np.random.default_rng(5).integers(0, 4, len(rules))
    weighted = PACKING.split(sums_of(rules, linear, outcome, weights.astype(float)))
    rows = np.repeat(np.arange(len(rules)), weights)
    repeated = PACKING.split(sums_of(rules[rows], linear[rows], outcome[rows]))
    for name in ("total", "events", "inside", "events_inside"):
        assert np.all(weighted[name] == repeated[name])
    for name in ("sums", "squares"):
        # In units; a patient is rounded once, its copies each.
        assert weighted[name] == pytest.approx(repeated[name], abs=len(rows))


def test_no_freedom_means_no_importance() -> None:
    assert term_importance(LAYOUT, COEF, np.ones(8), 0.0).tolist() == [0.0] * 8


def test_a_rounding_error_below_zero_gives_no_nan() -> None:
    assert term_importance(Layout(1, 1, 0), np.ones(2), np.array([0.0, -1e-17]), 4.0).tolist() == [
        0.0,
        0.0,
    ]


def test_a_term_shares_its_importance_equally_among_its_covariates() -> None:
    importance = np.array([6.0, 4.0, 1.0, 0.5, 2.0])
    features = [(0, 1, 2), (1, 3), (3,), (0,), (1,)]
    shares = variable_importance(importance, features, 5)
    assert shares == pytest.approx([2 + 0.5, 2 + 2 + 2, 2, 2 + 1, 0])
    assert shares.sum() == pytest.approx(importance.sum())


def test_importances_and_names_must_match_in_number() -> None:
    with pytest.raises(ValueError, match="shorter"):
        variable_importance(np.ones(2), [(0,)], 1)
