"""The share of variance between sites, against a one-way analysis of variance on pooled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import f_oneway

from fedrulefit.core.between import (
    LEAST_COUNT,
    BetweenSums,
    Moments,
    count_levels,
    find_tellable,
    share_between,
    step_between,
    within_importance,
)
from fedrulefit.core.design import Design, intercept
from fedrulefit.core.importance import TermSums, squares_of, sum_terms, term_importance
from fedrulefit.core.layout import Layout

LAYOUT = Layout(1, 3, 2)
BOUNDS = np.array([1.0, 1.0, 1.0, 1.0, 30.0, 40.0])
PACKING = TermSums.packing(3, 2)


def make_sites(seed: int, sizes: Any, *, apart: float) -> list[tuple[Any, Any]]:
    """Return each site's terms, (n_rows, 5), and weights; levels lie `apart`."""
    rng = np.random.default_rng(seed)
    sites = []
    for size in sizes:
        share = np.clip(0.4 + apart * rng.normal(size=3), 0.0, 1.0)
        rules = rng.random((size, 3)) < share
        linear = rng.normal(2 * apart * rng.normal(size=2), 1.0, size=(size, 2))
        sites.append((np.hstack([rules, linear.clip(-30, 30)]), rng.integers(1, 4, size) / 2))
    return sites


def sums_of(terms: Any, weights: Any) -> TermSums:
    bits = np.packbits(terms[:, :3].astype(np.uint8), axis=0, bitorder="little")
    design = Design(intercept(len(terms)), bits, terms[:, 3:])
    return PACKING.read(sum_terms(design, np.zeros(len(terms)), weights, BOUNDS))


def add(parts: list[TermSums]) -> TermSums:
    return TermSums(*(sum(vars(part)[name] for part in parts) for name in vars(parts[0])))


def tell(sites: Any) -> Any:
    """Return η² as the sites tell it together; NaN where it may not be told."""
    own = [sums_of(*site) for site in sites]
    pooled = Moments.of(add(own))
    kept = find_tellable(LAYOUT, pooled, BOUNDS, 1.5)
    layout = Layout(1, int(kept[:3].sum()), int(kept[3:].sum()))
    told = [
        TermSums(sums.total, 0.0, *([sums.inside[kept[:3]]] * 2), sums.sums[kept[3:]], np.empty(0))
        for sums in own
    ]
    levels = sum(
        count_levels(layout, sums, pooled.among(kept, LAYOUT), len(sites)) for sums in told
    )
    shares = np.full(5, np.nan)
    shares[kept] = share_between(BetweenSums(levels), len(sites))
    return shares


def naive(sites: Any) -> Any:
    """Return Σ_m N_m (mean_m − mean)² / Σ_i w_i (x_i − mean)², one column after another."""
    x = np.vstack([terms for terms, _ in sites])
    w = np.concatenate([weights for _, weights in sites])
    mean = np.average(x, axis=0, weights=w)
    between = sum(
        weights.sum() * (np.average(terms, axis=0, weights=weights) - mean) ** 2
        for terms, weights in sites
    )
    whole = w @ (x - mean) ** 2
    return np.divide(between, whole, out=np.full(5, np.nan), where=whole > 0)


@given(
    st.integers(0, 2**16),
    st.lists(st.integers(30, 200), min_size=2, max_size=14),
    st.sampled_from([0.0, 0.1, 0.5, 3.0]),
)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_it_is_the_eta_squared_of_pooled_rows_within_half_a_step_per_site(
    seed: int, sizes: list[int], apart: float
) -> None:
    sites = make_sites(seed, sizes, apart=apart)
    half = len(sizes) * step_between(len(sizes)) / 2
    assert half <= 0.05 or len(sizes) > 10
    told = tell(sites)
    known = ~np.isnan(told)
    assert known[3:].all()
    assert (np.abs(told - naive(sites))[known] <= half + 1e-9).all()


def test_it_is_that_of_the_f_test() -> None:
    """η² = F·(M − 1) / (F·(M − 1) + N − M), where all weights are 1."""
    sites = [(terms, np.ones(len(terms))) for terms, _ in make_sites(3, (80, 50, 120), apart=0.5)]
    columns = [[terms[:, k] for terms, _ in sites] for k in range(5)]
    ratio = np.array([f_oneway(*groups).statistic for groups in columns]) * 2
    assert naive(sites) == pytest.approx(ratio / (ratio + 250 - 3))
    assert np.abs(tell(sites) - ratio / (ratio + 250 - 3)).max() <= 0.05


def test_a_rule_of_one_hospital_lies_between_and_one_as_frequent_everywhere_does_not() -> None:
    own, same = np.repeat([1.0, 0.0, 0.0], 60), np.tile([1.0, 0.0], 90)
    noise = np.random.default_rng(0).normal(size=(180, 2))
    terms = np.column_stack([own, same, 1 - own, noise])
    sites = [(part, np.ones(60)) for part in np.split(terms, 3)]
    assert tell(sites)[:3] == pytest.approx([1.0, 0.0, 1.0], abs=0.05)


def test_one_site_has_nothing_between() -> None:
    assert tell(make_sites(1, (200,), apart=0.1)).tolist() == [0.0] * 5


def test_weights_are_repeated_patients() -> None:
    sites = make_sites(5, (40, 70, 90), apart=0.4)
    repeated = [
        (np.repeat(terms, (2 * weights).astype(int), axis=0), np.ones(int(2 * weights.sum())))
        for terms, weights in sites
    ]
    assert tell(sites).tolist() == tell(repeated).tolist()


def test_importance_is_made_of_what_lies_within_and_between() -> None:
    """I² = I_within² + η²·I², and I_within is |β|·std about each site's own mean."""
    sites = make_sites(7, (60, 90), apart=0.3)
    total = add([sums_of(terms, np.ones(len(terms))) for terms, _ in sites])
    squares = squares_of(LAYOUT, total, BOUNDS)
    coef = np.array([0.3, 1.0, -2.0, 0.5, 0.7, -0.1])
    importance = term_importance(LAYOUT, coef, squares, total.total - 1)[1:]
    between = naive([(terms, np.ones(len(terms))) for terms, _ in sites])
    within = within_importance(importance, between)
    own = sum(((terms - terms.mean(axis=0)) ** 2).sum(axis=0) for terms, _ in sites)
    assert within == pytest.approx(np.abs(coef[1:]) * np.sqrt(own / (total.total - 1)), rel=1e-6)
    assert within**2 + between * importance**2 == pytest.approx(importance**2)
    assert np.isnan(within_importance(importance, np.full(5, np.nan))).all()


def test_a_site_s_part_is_one_of_few_levels_whatever_is_asked() -> None:
    """At most 10·M + 1 of them, and 101, also if mean or total are not those of the patients."""
    own = sums_of(*make_sites(2, (90,), apart=0.5)[0])
    for n_sites, most in ((2, 20), (3, 30), (10, 100), (40, 100)):
        for total, mean in ((1e-3, 0.01), (90.0, 0.99), (1e9, 0.5)):
            asked = Moments(total, np.full(5, mean), np.full(2, mean**2 + 1e-6))
            levels = count_levels(LAYOUT, own, asked, n_sites)
            assert ((levels >= 0) & (levels <= most)).all()


def test_terms_that_hardly_vary_are_not_told() -> None:
    """Rules of less than 1 % or ten patients, inside or outside; linear terms of no spread."""
    layout, bounds = Layout(1, 4, 2), np.array([1.0] * 5 + [2.0, 2.0])

    def tellable(total: float, inside: list[float], variance: float, heaviest: float = 1.0) -> Any:
        means = np.array([*(n / total for n in inside), 0.1, 0.0])
        pooled = Moments(total, means, np.array([0.01 + variance / 4, 0.0]))
        return find_tellable(layout, pooled, bounds, heaviest).tolist()

    assert tellable(500, [9, 10, 490, 491], 0.0017) == [False, True, True, False, True, False]
    assert tellable(5000, [49, 50, 4950, 4951], 0.0015) == [False, True, True, *[False] * 3]
    assert tellable(500, [19, 20, 480, 481], 1.0, 2.0)[:4] == [False, True, True, False]
    few = 2 * LEAST_COUNT - 1
    assert tellable(few, [0, few, 9, 10], 1.0)[:4] == [False] * 4


def test_false_levels_of_a_dishonest_site_give_a_share_all_the_same() -> None:
    assert share_between(BetweenSums(np.array([-5.0, 1e9])), 3).tolist() == [0.0, 1.0]
