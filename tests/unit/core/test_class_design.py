"""Predictors with terms of their own: the same as a dense matrix of all terms."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.oracles import dense, make_design

from fedrulefit.core.class_design import ClassDesign
from fedrulefit.core.fixed import ROOT_BITS
from fedrulefit.core.layout import Layout, Owners

C, N_RULES, N_LINEAR = 4, 5, 2
BOUNDS = np.array([1.0] * (C * (1 + N_RULES)) + [4.0, 5.0] * C)


def draw(seed: int, n_rows: int = 83) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.random((n_rows, N_RULES)) < 0.4, rng.normal(size=(n_rows, N_LINEAR))


def of_each(hits: Any, linear: Any) -> ClassDesign:
    return ClassDesign.of_each(make_design(hits, linear), C)


def long_rows(design: ClassDesign) -> Any:
    """Return x of every patient and predictor over all terms, shape (n_rows, C, n_terms)."""
    owners, X = design.owners, dense(design.columns)
    rows = np.zeros((design.n_rows, C, design.n_terms))
    for t, (part, at) in enumerate(zip(owners.parts, owners.at, strict=True)):
        rows[:, part, t] = X[:, at]
    return rows


def draw_curvature(rng: Any, n_rows: int) -> Any:
    """Return curvatures of a softmax."""
    p = rng.dirichlet(np.ones(C), n_rows)
    crossed = -p[:, :, None] * p[:, None, :]
    crossed[:, range(C), range(C)] = p * (1 - p)
    return crossed * rng.uniform(0, 1, n_rows)[:, None, None]


def test_terms_come_baselines_first_then_rules_by_class_then_linear_terms_by_class() -> None:
    owners = Owners.of_each(2, 2, 1)
    assert owners.parts.tolist() == [0, 1, 0, 0, 1, 1, 0, 1]
    assert owners.at.tolist() == [0, 0, 1, 2, 1, 2, 3, 3]
    assert owners.layout == Layout(2, 4, 2)
    assert owners.n_parts == 2
    assert owners.of_part(1).tolist() == [1, 4, 5, 7]
    assert owners.spread(np.array([5.0, 6, 7, 8])).tolist() == [5, 5, 6, 7, 6, 7, 8, 8]
    taken, columns = owners.take(np.array([0, 1, 3, 7]))
    assert columns.tolist() == [0, 2, 3]
    assert taken.at.tolist() == [0, 0, 1, 2]
    assert taken.layout == Layout(2, 1, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("few", [False, True])
def test_products_are_those_of_the_dense_matrix(seed: int, few: bool) -> None:
    rng = np.random.default_rng(seed)
    design, bounds = of_each(*draw(seed)), BOUNDS
    if few:
        terms = np.union1d(np.arange(C), rng.choice(np.arange(C, design.n_terms), 9, replace=False))
        design, bounds = design.take(terms), BOUNDS[terms]
    rows, n_rows = long_rows(design), design.n_rows
    coef = rng.normal(size=design.n_terms)
    np.testing.assert_allclose(design.predictor(coef), rows @ coef, atol=1e-11)
    units = np.rint(rng.normal(size=(n_rows, C)) * 1e6)
    exact = np.einsum("ict,ic->t", rows, units) / bounds
    np.testing.assert_allclose(design.sum_columns(units, bounds), exact, atol=n_rows)
    curvature = draw_curvature(rng, n_rows)
    found = design.sum_products(curvature, bounds) / 2.0**40 * np.outer(bounds, bounds)
    exact = np.einsum("ict,icd,idu->tu", rows, curvature, rows)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(found)[0] > -1e-9, "no direction of negative curvature"
    assert (np.abs(design.largest) <= np.maximum(np.abs(rows).max(axis=(0, 1)), 1)).all()


def test_predictors_that_move_alike_move_nothing() -> None:
    """To the last bit: the roots are of pairs, not of a factor that rounding would break."""
    design, rng = of_each(*draw(1)), np.random.default_rng(1)
    found = design.sum_products(draw_curvature(rng, design.n_rows), BOUNDS)
    together = np.zeros((design.columns.n_terms, design.n_terms), dtype=np.int64)
    together[design.owners.at, np.arange(design.n_terms)] = 1
    assert not (together @ found).any()


def test_products_of_some_terms_are_some_of_the_products() -> None:
    design, rng = of_each(*draw(2)), np.random.default_rng(2)
    few = np.array([0, 1, 2, 3, 4, 9, 11, 24, 25, 31])
    curvature, units = draw_curvature(rng, 83), np.rint(rng.normal(size=(83, C)) * 2.0**30)
    taken, bounds = design.take(few), BOUNDS[few]
    np.testing.assert_array_equal(
        taken.sum_products(curvature, bounds),
        design.sum_products(curvature, BOUNDS)[np.ix_(few, few)],
    )
    np.testing.assert_array_equal(
        taken.sum_columns(units, bounds), design.sum_columns(units, BOUNDS)[few]
    )
    again = taken.take(np.array([0, 1, 2, 3, 5, 8]))
    np.testing.assert_array_equal(again.owners.at.shape, (6,))
    np.testing.assert_array_equal(
        long_rows(again), long_rows(design)[:, :, few[[0, 1, 2, 3, 5, 8]]]
    )
    with pytest.raises(ValueError, match="all baselines"):
        design.take(np.array([0, 1, 2, 9]))


def test_sums_do_not_depend_on_the_split() -> None:
    hits, linear = draw(5, 203)
    rng = np.random.default_rng(5)
    curvature, units = draw_curvature(rng, 203), np.rint(rng.normal(size=(203, C)) * 2.0**38)
    coef, whole = rng.normal(size=len(BOUNDS)), of_each(hits, linear)
    for cut in (1, 8, 77):
        parts = [of_each(hits[s], linear[s]) for s in (slice(cut), slice(cut, None))]
        for sums, numbers in (("sum_products", curvature), ("sum_columns", units)):
            halves = zip(parts, np.split(numbers, [cut]), strict=True)
            added = sum(getattr(part, sums)(own, BOUNDS) for part, own in halves)
            np.testing.assert_array_equal(added, getattr(whole, sums)(numbers, BOUNDS))
        apart = np.concatenate([part.predictor(coef) for part in parts])
        np.testing.assert_array_equal(apart, whole.predictor(coef))


def test_products_are_those_of_the_naive_twin() -> None:
    """One patient and one pair of classes at a time, in Python's integers."""
    hits, linear = draw(6, 11)
    design, rng = of_each(hits, linear), np.random.default_rng(6)
    curvature, rows = draw_curvature(rng, 11), long_rows(design)
    total = np.zeros((design.n_terms, design.n_terms), dtype=object)
    linear_terms = set(range(design.layout.linear.start, design.n_terms))
    for i in range(11):
        for a, b in combinations(range(C), 2):
            root = float(np.sqrt(-curvature[i, a, b])) * 2**ROOT_BITS
            x = rows[i, a] - rows[i, b]
            own = [
                round(Fraction(root * (value / BOUNDS[t])))
                if t in linear_terms
                else round(root) * int(value)
                for t, value in enumerate(x.tolist())
            ]
            total = total + np.outer(np.array(own, object), np.array(own, object))
    assert design.sum_products(curvature, BOUNDS).tolist() == total.tolist()


def test_a_design_of_classes_has_one_column_of_ones() -> None:
    hits, linear = draw(0, 9)
    for baseline in (np.ones((9, 2)), np.full((9, 1), 2.0)):
        with pytest.raises(ValueError, match="one column of ones"):
            ClassDesign.of_each(make_design(hits, linear, baseline), C)
