"""Slow and plain solvers of the penalised problem, and rules one by one, to compare ours with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from fedrulefit.core.curvature import CurvatureSums, Query, sum_curvature
from fedrulefit.core.design import Design, intercept
from fedrulefit.core.families import Family, YesNo
from fedrulefit.core.fixed import Bounds
from fedrulefit.core.newton import Newton
from fedrulefit.core.rules import Rule

Site = tuple[Design, Any, Any]

YES_NO = YesNo()


def dense(design: Design) -> Any:
    """Return all columns, the baseline first."""
    return np.hstack([design.baseline, design.dense_rules(), design.linear])


def objective(X: Any, y: Any, w: Any, coef: Any, penalties: Any) -> float:
    """Return the penalised mean loss by its definition."""
    predictor = X @ coef
    loss = w @ (np.logaddexp(0, predictor) - y * predictor) / w.sum()
    return float(loss + penalties @ np.abs(coef))


def fista(X: Any, y: Any, w: Any, penalties: Any, *, steps: int = 200_000) -> Any:
    """Minimise by accelerated proximal gradients with restarts, to the last digits."""
    share = w / w.sum()
    size = 4.0 / np.linalg.eigvalsh((X * share[:, None]).T @ X)[-1]
    coef = np.zeros(X.shape[1])
    ahead, inertia = coef, 1.0
    for _ in range(steps):
        target = ahead - size * (X.T @ (share * (expit(X @ ahead) - y)))
        new = np.sign(target) * np.maximum(np.abs(target) - size * penalties, 0.0)
        if (ahead - new) @ (new - coef) > 0:
            inertia, ahead = 1.0, coef
            if np.abs(new - coef).max() < 1e-15:
                break
            continue
        faster = (1 + np.sqrt(1 + 4 * inertia**2)) / 2
        moved = np.abs(new - ahead).max()
        ahead = new + (inertia - 1) / faster * (new - coef)
        coef, inertia = new, faster
        if moved < 1e-14:
            break
    return coef


def bounds_of(sites: list[Site]) -> Bounds:
    """Return bounds that hold for these patients; between hospitals the study gives them."""
    terms = np.max([np.maximum(design.largest, 1e-3) for design, _, _ in sites], axis=0)
    return Bounds(terms, float(max(w.max(initial=1.0) for _, _, w in sites)))


def ask(
    sites: list[Site], query: Query, folds: list[Any] | None = None, *, family: Family = YES_NO
) -> CurvatureSums:
    """Ask every site and add up."""
    parts = folds or [np.zeros(design.n_rows, dtype=np.int64) for design, _, _ in sites]
    bounds = bounds_of(sites)
    units = [
        sum_curvature(family, *site, part, query, bounds)
        for site, part in zip(sites, parts, strict=True)
    ]
    return CurvatureSums.packing(query, bounds).read(np.sum(units, axis=0))


def solve(
    sites: list[Site], factors: Any, penalty: float, *, family: Family = YES_NO, **options: Any
) -> Newton:
    """Play the exact solver's rounds."""
    newton = Newton(family, sites[0][0].layout, factors, penalty, **options)
    while not newton.converged and newton.rounds < 100:
        newton.update(ask(sites, newton.query(), family=family))
    return newton


def pool(sites: list[Site]) -> tuple[Any, Any, Any]:
    """Return X, y and w of all sites together."""
    X = np.vstack([dense(design) for design, _, _ in sites])
    return X, *(np.concatenate([site[k] for site in sites]) for k in (1, 2))


def make_design(hits: Any, linear: Any, baseline: Any = None) -> Design:
    """Return the design of rules given by their hits; without a baseline, with an intercept."""
    baseline = intercept(len(hits)) if baseline is None else baseline
    return Design(baseline, np.packbits(hits, axis=0, bitorder="little"), linear)


def split(X: Any, n_rules: int, y: Any, w: Any, sizes: Any, *, n_baseline: int = 1) -> list[Site]:
    """Return a dense matrix with its baseline as sites of the given sizes."""
    edges = np.cumsum([0, *sizes])
    assert edges[-1] == len(X)
    baseline, rules, linear = np.split(X, [n_baseline, n_baseline + n_rules], axis=1)
    return [
        (make_design(rules[a:b] > 0, linear[a:b], baseline[a:b]), y[a:b], w[a:b])
        for a, b in pairwise(edges.tolist())
    ]


def fires(rule: Rule, codes: Any) -> Any:
    """Return which patients satisfy the rule, shape (n_rows,)."""
    hit = np.ones(len(codes), dtype=np.bool_)
    for condition in rule:
        hit &= condition.table()[codes[:, condition.feature]]
    return hit
