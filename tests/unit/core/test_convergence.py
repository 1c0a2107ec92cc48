"""A requirement: 2,000 rules, many unequal sites, the optimum in a few rounds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import YES_NO, ask, bounds_of, pool, split
from tests.simulations import make_problem

from fedrulefit.core.certificate import (
    SlopeSums,
    certify,
    choose_scales,
    sum_conjugate,
    sum_slopes,
)
from fedrulefit.core.fixed import Bounds, from_units
from fedrulefit.core.newton import Newton

SIZES = {
    5: (1000, 400, 300, 200, 100),
    20: tuple(40 + 8 * k for k in range(20)),
    50: (*(15 + 2 * k for k in range(49)), 260),
}


@pytest.mark.parametrize("penalty", [0.01, 0.003])
@pytest.mark.parametrize("n_sites", SIZES)
def test_two_thousand_rules_in_a_few_rounds(n_sites: int, penalty: float) -> None:
    sites, factors = make_problem(2, SIZES[n_sites], 2000, shift=0.5)
    assert len(sites) == n_sites
    assert len(factors) == 1 + 2000 + 10
    X, y, w = pool(sites)
    newton = Newton(YES_NO, sites[0][0].layout, factors, penalty, tolerance=1e-12)
    values = []
    while not newton.converged and newton.rounds < 30:
        newton.update(ask(sites, newton.query()))
        values.append(newton.point.objective)
    design = split(X, 2000, y, w, [len(X)])[0][0]
    coef, penalties, bounds = newton.point.coef, penalty * factors, bounds_of(sites).terms
    added = sum_slopes(YES_NO, design, y, w, design.dot(coef), Bounds(bounds))
    slopes = SlopeSums.packing(Bounds(bounds)).read(added)
    scales = choose_scales(design.layout, slopes, len(y), penalties)
    assert scales is not None
    conjugate = float(from_units(sum_conjugate(YES_NO, y, w, design.dot(coef), scales)))
    proof = certify(
        design.layout, slopes, len(y), coef, penalties, objective=values[-1], conjugate=conjugate
    )
    assert proof.gap is not None
    best = values[-1] - proof.gap  # no more than the true optimum
    gaps = (np.array(values) - best) / best
    assert gaps[min(10, len(gaps)) - 1] <= 1e-6
    assert gaps[min(20, len(gaps)) - 1] <= 1e-10
    assert 10 < (coef != 0).sum() < 300
