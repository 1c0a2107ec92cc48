"""The packed design matrix against a dense naive twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core import design as design_module
from fedrulefit.core.arrays import MISSING
from fedrulefit.core.design import Design, build_design
from fedrulefit.core.fixed import round_coef
from fedrulefit.core.rules import Condition, Rule
from tests.oracles import YES_NO

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=120)

PATHS = ("packed", "packed, many blocks", "plain matrix")


@contextmanager
def code_path(name: str) -> Iterator[Callable[[Design], Design]]:
    """Set small blocks where asked; give the function that prepares a design."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "packed, many blocks":
            patch.setattr(design_module, "BLOCK_CELLS", 40)
            patch.setattr(design_module, "_TABLES", 2)
        yield Design.unpacked if name == "plain matrix" else lambda design: design


@st.composite
def sites(draw: Any) -> tuple[Any, list[Rule], Any]:
    """Codes of 0 to 70 patients, 0 to 12 rules on them, 0 to 3 linear terms, a baseline.

    The baseline is an intercept; or a column for each of two hospitals; or these and numbers.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.one_of(st.sampled_from([0, 1, 7, 8, 9, 16, 64]), st.integers(0, 70)))
    n_features, n_rules = draw(st.integers(1, 4)), draw(st.integers(0, 12))
    codes = rng.choice([0, 1, 2, 3, MISSING], (n_rows, n_features)).astype(np.uint8)
    rules = []
    for _ in range(n_rules):
        named = np.flatnonzero(rng.random(n_features) < 0.6)
        masks = [int(rng.integers(0, 16)) | int(rng.integers(2)) << MISSING for _ in named]
        rules.append(
            Rule(tuple(Condition(int(j), mask) for j, mask in zip(named, masks, strict=True)))
        )
    hospital = rng.integers(0, 2, n_rows)
    blocks = np.column_stack([hospital, 1 - hospital, rng.normal(size=n_rows)])
    baseline = draw(st.sampled_from([np.ones((n_rows, 1)), blocks[:, :2], blocks]))
    return codes, rules, rng.normal(size=(n_rows, draw(st.integers(0, 3)))), baseline


def naive_matrix(codes: Any, rules: list[Rule], linear: Any, baseline: Any) -> Any:
    """Return the whole matrix, one patient and one rule at a time."""
    rows = [[float(all(c >> int(row[j]) & 1 for j, c in rule)) for rule in rules] for row in codes]
    return np.hstack([baseline, np.array(rows).reshape(len(codes), len(rules)), linear])


def close(a: Any, b: Any, scale: Any) -> bool:
    """Within 1e-12 of the sum of the sizes that were added."""
    return bool((np.abs(a - b) <= 1e-12 * (scale + 1e-300)).all())


@pytest.mark.parametrize("path", PATHS)
@REPEATABLE
@given(site=sites(), seed=st.integers(0, 2**32 - 1))
def test_both_products_equal_the_dense_matrix(path: str, site: Any, seed: int) -> None:
    dense = naive_matrix(*site)
    design = build_design(*site)
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=dense.shape[1]) * (rng.random(dense.shape[1]) < 0.7)
    vector = rng.normal(size=len(dense))
    assert design.n_terms == dense.shape[1]
    with code_path(path) as prepare:
        forward, backward = prepare(design).dot(coef), prepare(design).transpose_dot(vector)
    assert forward.shape == (len(dense),)
    assert backward.shape == (dense.shape[1],)
    assert close(forward, dense @ coef, np.abs(dense) @ np.abs(coef))
    assert close(backward, dense.T @ vector, np.abs(dense.T) @ np.abs(vector))


@pytest.mark.parametrize("path", PATHS)
@REPEATABLE
@given(site=sites(), seed=st.integers(0, 2**32 - 1))
def test_whole_numbers_are_summed_exactly(path: str, site: Any, seed: int) -> None:
    codes, rules, linear, baseline = site
    whole = codes, rules, np.rint(10 * linear), np.rint(10 * baseline)
    dense = naive_matrix(*whole)
    rng = np.random.default_rng(seed)
    coef = rng.integers(-9, 10, dense.shape[1]).astype(float)
    vector = rng.integers(-9, 10, len(dense)).astype(float)
    design = build_design(*whole)
    with code_path(path) as prepare:
        assert prepare(design).dot(coef).tolist() == (dense @ coef).tolist()
        assert prepare(design).transpose_dot(vector).tolist() == (dense.T @ vector).tolist()
    n_baseline = baseline.shape[1]
    assert design.dense_rules().tolist() == dense[:, n_baseline:][:, : len(rules)].tolist()


def test_only_a_small_design_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    design = build_design(np.zeros((9, 1), np.uint8), [Rule(())], np.empty((9, 0)))
    assert design.matrix is None
    monkeypatch.setattr(design_module, "MATRIX_CELLS", 18)
    unpacked = design.unpacked().matrix
    assert unpacked is not None
    assert unpacked.tolist() == [[1.0, 1.0]] * 9
    monkeypatch.setattr(design_module, "MATRIX_CELLS", 17)
    assert design.unpacked().matrix is None


@pytest.mark.parametrize("path", PATHS)
@REPEATABLE
@given(site=sites(), seed=st.integers(0, 2**32 - 1))
def test_taking_terms_is_taking_columns(path: str, site: Any, seed: int) -> None:
    dense = naive_matrix(*site)
    rng = np.random.default_rng(seed)
    taken_too = rng.random(dense.shape[1]) < 0.5
    terms = np.flatnonzero(taken_too | (np.arange(len(taken_too)) < site[3].shape[1]))
    coef = rng.integers(-9, 10, len(terms)).astype(float)
    with code_path(path) as prepare:
        for taken in (
            prepare(build_design(*site)).take(terms),
            prepare(build_design(*site).take(terms)),
        ):
            assert taken.n_terms == len(terms)
            assert np.allclose(taken.dot(coef), dense[:, terms] @ coef, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_baseline", [1, 2])
@pytest.mark.parametrize("terms", [[], [1], [1, 0], [0, 3, 2], [0, 1, 1], [-1, 0, 1], [0, 1, 4]])
def test_a_design_without_its_baseline_is_refused(terms: list[int], n_baseline: int) -> None:
    baseline, bits = np.ones((3, n_baseline)), np.zeros((1, 4 - n_baseline), np.uint8)
    design = Design(baseline, bits, np.empty((3, 0)))
    with pytest.raises(ValueError, match="baseline"):
        design.take(np.array(terms, dtype=np.int64))


def test_half_a_baseline_is_refused() -> None:
    design = Design(np.ones((3, 2)), np.zeros((1, 2), np.uint8), np.empty((3, 0)))
    with pytest.raises(ValueError, match="baseline"):
        design.take(np.array([0, 2]))


@REPEATABLE
@given(site=sites())
def test_the_largest_entry_of_each_column_is_bounded(site: Any) -> None:
    dense = np.abs(naive_matrix(*site)).max(axis=0, initial=0.0)
    largest = build_design(*site).largest
    n_baseline, n_rules = site[3].shape[1], len(site[1])
    effects = largest[n_baseline:]
    assert (largest >= dense).all()
    assert effects[:n_rules].tolist() == [1.0] * n_rules
    assert effects[n_rules:].tolist() == dense[n_baseline + n_rules :].tolist()
    assert largest[:n_baseline].tolist() == np.maximum(dense[:n_baseline], 1).tolist()


@pytest.mark.parametrize("many_blocks", [False, True])
@REPEATABLE
@given(site=sites(), seed=st.integers(0, 2**32 - 1))
def test_sums_over_sites_are_made_of_each_patient_s_whole_numbers(
    many_blocks: bool, site: Any, seed: int
) -> None:
    """A patient's entry is rounded, and Python's integers add up."""
    dense, design = naive_matrix(*site), build_design(*site)
    rng = np.random.default_rng(seed)
    bounds = np.maximum(np.abs(dense).max(axis=0, initial=0.0), 1.0)
    bounds[design.layout.rules] = 1.0
    units = rng.integers(-(2**44), 2**44, len(dense)).astype(float)
    roots = rng.uniform(0, 1, len(dense))
    with code_path("packed, many blocks" if many_blocks else "packed"):
        columns, squares = design.sum_columns(units, bounds), design.sum_squares(roots, bounds)
    gradient, hessian = [0] * len(bounds), np.zeros((len(bounds),) * 2, dtype=object)
    for row, unit, root in zip((dense / bounds).tolist(), units, roots, strict=True):
        gradient = [g + round(float(unit) * x) for g, x in zip(gradient, row, strict=True)]
        own = np.array([round(float(root * 2.0**20) * x) for x in row], dtype=object)
        hessian = hessian + np.outer(own, own)
    assert columns.tolist() == gradient
    assert squares.tolist() == hessian.tolist()


@REPEATABLE
@given(site=sites(), seed=st.integers(0, 2**32 - 1))
def test_a_predictor_is_the_dense_matrix_s_with_rounded_coefficients(site: Any, seed: int) -> None:
    dense, design = naive_matrix(*site), build_design(*site)
    coef = np.random.default_rng(seed).normal(size=dense.shape[1])
    found = design.predictor(coef)
    assert close(found, dense @ round_coef(coef), np.abs(dense) @ np.abs(coef))
    rows = np.arange(len(dense))[::3]
    codes, rules, linear, baseline = site
    apart = build_design(codes[rows], rules, linear[rows], baseline[rows]).predictor(coef)
    assert apart.tolist() == found[rows].tolist()


@pytest.mark.parametrize("path", PATHS)
@REPEATABLE
@given(site=sites(), seed=st.integers(0, 2**32 - 1), n_sites=st.integers(1, 5))
def test_any_partition_into_sites_sums_to_the_pooled_gradient_and_supports(
    path: str, site: Any, seed: int, n_sites: int
) -> None:
    codes, rules, linear, baseline = site
    rng = np.random.default_rng(seed)
    outcome = rng.integers(0, 2, len(codes)).astype(float)
    weights = rng.uniform(0, 2, len(codes))
    coef = rng.normal(size=build_design(*site).n_terms)
    owner = rng.integers(0, n_sites, len(codes))

    def gradient_and_support(rows: Any, prepare: Callable[[Design], Design]) -> Any:
        design = prepare(build_design(codes[rows], rules, linear[rows], baseline[rows]))
        slope = YES_NO.slope(design.dot(coef), outcome[rows], weights[rows])
        return np.array([design.transpose_dot(slope), design.transpose_dot(weights[rows])])

    with code_path(path) as prepare:
        pooled = gradient_and_support(np.arange(len(codes)), prepare)
        parts = sum(
            gradient_and_support(np.flatnonzero(owner == m), prepare) for m in range(n_sites)
        )
    scale = np.abs(naive_matrix(*site)).sum(axis=0) * 2
    assert close(parts, pooled, scale)
