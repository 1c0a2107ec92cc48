"""Partial dependence against a naive loop."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import linear_value, linear_values
from fedrulefit.model import LinearTerm
from fedrulefit.report.effects import find_effect, joint_effect, strongest_pairs
from tests.reports import huge_model, sample_model


@pytest.mark.parametrize("make", [sample_model, lambda: huge_model(80)])
def test_effects_are_the_sum_of_terms(make) -> None:  # type: ignore[no-untyped-def]
    model = make()
    for j, axis in enumerate(model.grid.axes):
        effect = find_effect(model, j)
        for code in (*range(axis.n_codes), MISSING):
            main = shared = 0.0
            for term in model.rule_terms:
                mine = [c for c in term.rule if c.feature == j]
                if not mine or not mine[0].codes >> code & 1:
                    continue
                if len(term.rule) == 1:
                    main += term.coefficient
                    continue
                every = axis.n_codes + (not axis.complete)
                share = bin(mine[0].codes).count("1") / every
                support = term.inside / model.provenance.patients
                shared += term.coefficient * min(1.0, support / share)
            assert effect.main[code] == pytest.approx(main, abs=1e-12)
            assert effect.shared[code] == pytest.approx(shared, abs=1e-12)


def test_the_slope_is_that_of_the_linear_term() -> None:
    model = sample_model()
    slopes = {t.feature: t.coefficient for t in model.terms if isinstance(t, LinearTerm)}
    assert slopes
    for j in range(model.study.n_features):
        assert find_effect(model, j).slope == slopes.get(j, 0.0)


def test_linear_values_are_those_of_the_grid() -> None:
    model = sample_model()
    values = np.linspace(-50, 150, 7)[:, None] * np.ones(model.study.n_features)
    values[:, 3] = 0
    expected = linear_values(values, model.grid)
    for k, j in enumerate(model.grid.linear):
        np.testing.assert_array_equal(
            linear_value(model.grid.axes[j], values[:, j]), expected[:, k]
        )


def test_joint_effects_name_both_and_the_strongest_come_first() -> None:
    model = huge_model(80)
    pairs = strongest_pairs(model, 100)
    weight = {
        pair: sum(t.importance for t in model.rule_terms if set(pair) <= set(t.features))
        for pair in combinations(range(model.study.n_features), 2)
    }
    assert [weight[p] for p in pairs] == sorted(weight.values(), reverse=True)[: len(pairs)]
    pair = pairs[0]
    two = [t for t in model.rule_terms if t.features == pair]
    only = joint_effect(_with(model, two), pair)
    expected = sum(
        t.coefficient * np.outer(*(c.table() for c in t.rule)).astype(float) for t in two
    )
    np.testing.assert_allclose(only, expected, atol=1e-12)


def _with(model, terms):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(model, terms=tuple(terms))
