"""Fits with hospitals' own baselines, against a dense joint solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.families import EXAMPLES
from tests.oracles import bounds_of, make_design
from tests.unit.core.test_own import KINDS, draw_outcome, every_family

from fedrulefit.core.certificate import (
    Certificate,
    GapSums,
    SlopeSums,
    certify,
    choose_scales,
    sum_gap,
    sum_slopes,
)
from fedrulefit.core.class_design import ClassDesign
from fedrulefit.core.curvature import STEPS, CurvatureSums, Query, sum_curvature, unpack_triangle
from fedrulefit.core.design import Design
from fedrulefit.core.families import Family
from fedrulefit.core.fixed import Bounds
from fedrulefit.core.newton import Newton
from fedrulefit.core.own import count_own, settle, with_room
from fedrulefit.core.refit import RefitQuery, RefitSums, sum_refit

N_RULES, N_LINEAR, SIZES, FOLDS = 5, 2, (40, 130, 70), 3

PENALTIES = {"number, robust": 0.0005, "count": 0.001, "number": 0.005, "time": 0.005}
"""λ at which some terms stay and some do not."""


@dataclass(frozen=True, eq=False)
class Hospitals:
    """Sites that differ by more than chance, and the study's public facts."""

    family: Family
    sites: list[Any]
    folds: list[Any]
    bounds: Bounds
    factors: Any

    @classmethod
    def of(cls, kind: str, spread: float | None, seed: int = 0) -> Hospitals:
        rng, family = np.random.default_rng(seed), EXAMPLES[kind]
        n_rows, made, edges = sum(SIZES), [], np.cumsum([0, *SIZES]).tolist()
        hits = rng.random((n_rows, N_RULES)) < 0.4
        linear, outcome = rng.normal(size=(n_rows, N_LINEAR)), draw_outcome(family, rng, n_rows)
        if kind == "yes/no":
            chance = 0.15 + 0.3 * hits[:, 0] + 0.3 * (np.arange(n_rows) > SIZES[0])
            outcome = (rng.random(n_rows) < chance).astype(float)
        weights = rng.uniform(0.3, 2.0, n_rows)
        for a, b in pairwise(edges):
            own = np.ones((b - a, family.n_baseline // family.n_owners))
            design: Any = make_design(hits[a:b], linear[a:b], own)
            design = Design(own, design.bits, design.linear, parts=own.shape[1])
            if family.own_terms:
                design = ClassDesign.of_each(design, family.n_owners)
            made.append((design, outcome[a:b], weights[a:b]))
        bounds = replace(bounds_of(made), unit=family.unit, spread=spread)
        factors = np.ones(made[0][0].n_terms)
        factors[: family.n_baseline] = 0
        folds = [rng.integers(0, FOLDS, size) for size in SIZES]
        solved = family if spread is None else with_room(family)
        return cls(solved, made, folds, bounds, factors)

    @property
    def weight(self) -> float:
        return float(sum(w.sum() for _, _, w in self.sites))

    def ask(self, query: Query) -> CurvatureSums:
        units = [
            sum_curvature(self.family, *site, part, query, self.bounds)
            for site, part in zip(self.sites, self.folds, strict=True)
        ]
        return CurvatureSums.packing(query, self.bounds).read(np.sum(units, axis=0))

    def solve(self, penalty: float, fold: int = -1, most: int = 100) -> Newton:
        newton = Newton(
            self.family, self.sites[0][0].layout, self.factors, penalty,
            bounds=self.bounds.terms, fold=fold, tolerance=1e-11,
        )  # fmt: skip
        while not newton.converged and newton.rounds < most:
            newton.update(self.ask(newton.query()))
        return newton

    def certify(self, coef: Any, penalty: float) -> tuple[Certificate, float]:
        """Return the certificate, and the objective."""
        penalties, slopes, predictors = penalty * self.factors, [], []
        for design, outcome, weights in self.sites:
            predictors.append(design.predictor(coef))
            facts = design, outcome, weights, predictors[-1], self.bounds
            slopes.append(sum_slopes(self.family, *facts))
        told = SlopeSums.packing(self.bounds).read(np.sum(slopes, axis=0))
        layout = self.sites[0][0].layout
        scales = choose_scales(layout, told, self.weight, penalties)
        assert scales is not None
        gaps = [
            sum_gap(self.family, y, w, predictor, scales, self.bounds)
            for (_, y, w), predictor in zip(self.sites, predictors, strict=True)
        ]
        gap = GapSums.packing(self.bounds).read(np.sum(gaps, axis=0))
        objective = gap.loss / self.weight + float(penalties @ np.abs(coef))
        found = certify(
            layout, told, self.weight, coef, penalties,
            objective=objective, conjugate=gap.conjugate,
        )  # fmt: skip
        return found, objective


class Joint:
    """The pooled problem in coefficients and all own baselines at once, on a dense tensor."""

    def __init__(self, hospitals: Hospitals, fold: int = -1) -> None:
        family, self.spread = hospitals.family, hospitals.bounds.spread or 0.0
        self.family, n_own, m = family, count_own(family), len(hospitals.sites)
        self.n_terms = hospitals.sites[0][0].n_terms
        blocks = []
        for k, (design, _, _) in enumerate(hospitals.sites):
            units = np.eye(self.n_terms)
            F = np.stack([design.predictor(unit) for unit in units], axis=-1)
            F = F.reshape(design.n_rows, family.n_baseline, self.n_terms)
            own = np.zeros((design.n_rows, family.n_baseline, m * n_own))
            for j in range(n_own):
                own[:, slice(None) if n_own == 1 else j, k * n_own + j] = 1
            blocks.append(np.concatenate([F, own], axis=2))
        self.tensor = np.concatenate(blocks)
        self.outcome = np.concatenate([y for _, y, _ in hospitals.sites])
        inside = np.concatenate(hospitals.folds) != fold
        self.weights = np.concatenate([w for _, _, w in hospitals.sites]) * inside
        self.ridge = np.zeros(self.tensor.shape[2])
        if self.spread:
            self.ridge[self.n_terms :] = 1 / self.spread**2

    def height(self, point: Any) -> float:
        """Return the summed loss and the price."""
        F = self._place(point)
        return float(
            self.family.value(F, self.outcome, self.weights).sum() + self.ridge @ point**2 / 2
        )

    def _place(self, point: Any) -> Any:
        F = self.tensor @ point
        return F[:, 0] if self.family.n_baseline == 1 else F

    def derive(self, point: Any) -> tuple[Any, Any]:
        F = self._place(point)
        slope = self.family.slope(F, self.outcome, self.weights)
        bend = self.family.curvature(F, self.outcome, self.weights)
        D, n = self.tensor, len(F)
        gradient = np.einsum("ikj,ik->j", D, slope.reshape(n, -1)) + self.ridge * point
        bend = bend if bend.ndim == 3 else np.einsum("ik,kl->ikl", bend.reshape(n, -1),
                                                     np.eye(D.shape[1]))  # fmt: skip
        return gradient, np.einsum("ikj,ikl,ilm->jm", D, bend, D) + np.diag(self.ridge)

    def minimise(self, linear: Any, free: Any, start: Any) -> Any:
        """Return the minimum of the height + linear·point over the free numbers, by Newton."""
        point = start.copy()
        for _ in range(100):
            gradient, hessian = self.derive(point)
            step = np.zeros(len(point))
            step[free] = -np.linalg.lstsq(
                hessian[np.ix_(free, free)], (gradient + linear)[free], rcond=1e-13
            )[0]
            size = 1.0
            before = self.height(point) + linear @ point
            while size > 1e-6 and self.height(point + size * step) + linear @ (
                point + size * step
            ) > before + 1e-12 * abs(before):
                size /= 2
            point = point + size * step
            if np.abs(step).max() < 1e-13:
                break
        return point


def centre(coef: Any, family: Family) -> Any:
    """Return coefficients where those of classes, which could all move alike, add up to 0."""
    coef = coef.copy()
    if family.crossed:
        coef[: family.n_baseline] -= coef[: family.n_baseline].mean()
    return coef


@every_family
@pytest.mark.parametrize("fold", [-1, 1])
def test_the_federated_optimum_is_the_joint_one(kind: str, fold: int) -> None:
    """Of [X, dummies of sites with a ridge of 1/τ²], solved densely; the b of sites, too."""
    hospitals, penalty = Hospitals.of(kind, 0.5), PENALTIES.get(kind, 0.01)
    newton = hospitals.solve(penalty, fold)
    assert newton.converged
    coef, joint = newton.point.coef, Joint(hospitals, fold)
    n_own, spread = count_own(hospitals.family), 0.5
    bs = []
    for (design, y, w), folds in zip(hospitals.sites, hospitals.folds, strict=True):
        inside = w * (folds != fold)
        bs.append(settle(hospitals.family, design.predictor(coef), y, inside, spread).values)
    weight = joint.weights.sum()
    signs = np.zeros(len(joint.ridge))
    signs[: len(coef)] = weight * penalty * hospitals.factors * np.sign(coef)
    free = np.ones(len(joint.ridge), dtype=bool)
    free[: len(coef)] = (coef != 0) | (hospitals.factors == 0)
    kept = free[: len(coef)] & (hospitals.factors > 0)
    assert kept.any(), "some terms stay"
    theirs = joint.minimise(signs, free, np.zeros(len(free)))
    np.testing.assert_array_equal(np.sign(theirs[: len(coef)])[kept], np.sign(coef)[kept])
    gradient, _ = joint.derive(theirs)
    limit = weight * penalty * hospitals.factors[coef == 0]
    assert (np.abs(gradient[: len(coef)][coef == 0]) <= limit + 1e-6).all(), "none lacks"
    assert len(bs) * n_own == len(theirs) - len(coef)
    np.testing.assert_allclose(
        centre(coef, hospitals.family), centre(theirs[: len(coef)], hospitals.family), atol=1e-10
    )
    np.testing.assert_allclose(np.concatenate(bs), theirs[len(coef) :], atol=1e-10)
    size = joint.height(theirs) / weight + penalty * hospitals.factors @ np.abs(theirs[: len(coef)])
    assert newton.point.objective == pytest.approx(size, abs=1e-9 * hospitals.bounds.unit)
    if fold >= 0:
        held = sum(
            hospitals.family.value(
                settle_shift(hospitals, k, coef, b), y, w * (folds == fold)
            ).sum()
            for k, ((_, y, w), folds, b) in enumerate(
                zip(hospitals.sites, hospitals.folds, bs, strict=True)
            )
        )
        assert newton.point.held_loss == pytest.approx(
            held / (hospitals.weight - weight), abs=1e-7
        ), "held-out patients are judged with the b of their site's others"


def settle_shift(hospitals: Hospitals, k: int, coef: Any, b: Any) -> Any:
    return hospitals.sites[k][0].predictor(coef) + b


@every_family
def test_second_derivatives_are_those_of_the_best_baseline(kind: str) -> None:
    """Numerical derivatives of the told gradient, which is that of the told loss."""
    hospitals, rng = Hospitals.of(kind, 0.7, seed=3), np.random.default_rng(4)
    n = hospitals.sites[0][0].n_terms
    terms, here, width = np.arange(n), 0.3 * rng.normal(size=n), 2.0**-12
    told = hospitals.ask(Query(0, terms, here - 0.1, here, terms))
    hessian = unpack_triangle(told.hessian, n)
    scale = np.abs(hessian).max()
    for j in range(n):
        step = width * np.eye(n)[j]
        ahead = hospitals.ask(Query(0, terms, here - step, here + step, terms))
        behind = hospitals.ask(Query(0, terms, here + step, here - step, terms))
        rise = (ahead.gradient - behind.gradient) / (2 * width)
        np.testing.assert_allclose(hessian[j], rise, atol=2e-4 * scale)
        slope = (ahead.losses[-1] - ahead.losses[0]) / (2 * width)
        assert told.gradient[j] == pytest.approx(slope, abs=1e-3 * scale)
    assert np.linalg.eigvalsh(hessian).min() > -1e-6 * scale, "convex"


@every_family
def test_sums_of_a_refit_are_those_of_a_round(kind: str) -> None:
    """Of variants, too: the same numbers as where all are active."""
    hospitals, rng = Hospitals.of(kind, 0.5, seed=5), np.random.default_rng(6)
    layout = hospitals.sites[0][0].layout
    n, base = layout.n_terms, layout.n_baseline
    variants = np.arange(base, n)[1 : 1 + N_RULES : 2]
    own = np.setdiff1d(np.arange(n), variants)
    start, end = 0.2 * rng.normal(size=(2, len(own)))
    all_terms = np.arange(n)
    wide = np.zeros((2, n))
    wide[:, own] = start, end
    full = hospitals.ask(Query(1, all_terms, wide[0], wide[1], all_terms))
    query = RefitQuery(1, own, start, end, variants)
    units = [
        sum_refit(hospitals.family, *site, part, query, hospitals.bounds)
        for site, part in zip(hospitals.sites, hospitals.folds, strict=True)
    ]
    told = RefitSums.packing(query, hospitals.bounds).read(np.sum(units, axis=0))
    hessian = unpack_triangle(full.hessian, n)
    near = {"rtol": 1e-8, "atol": 1e-8 * np.abs(hessian).max()}
    np.testing.assert_allclose(told.losses, full.losses, rtol=1e-12)
    np.testing.assert_allclose(told.gradient, full.gradient[own], **near)
    np.testing.assert_allclose(told.beside, full.gradient[variants], **near)
    inside = unpack_triangle(told.hessian, len(own))
    np.testing.assert_allclose(inside, hessian[np.ix_(own, own)], **near)
    cross = told.cross.reshape(len(variants), len(own))
    np.testing.assert_allclose(cross, hessian[np.ix_(variants, own)], **near)
    np.testing.assert_allclose(told.squares, np.diag(hessian)[variants], **near)


@every_family
def test_the_certificate_closes_and_bounds_the_distance(kind: str) -> None:
    hospitals, penalty = Hospitals.of(kind, 0.5, seed=1), PENALTIES.get(kind, 0.01)
    best = hospitals.solve(penalty)
    found, objective = hospitals.certify(best.point.coef, penalty)
    assert objective == pytest.approx(best.point.objective, abs=1e-9)
    assert found.gap is not None
    assert found.gap <= 2e-8 * max(1.0, hospitals.bounds.unit), "it closes"
    assert found.residual < 1e-9
    rng = np.random.default_rng(2)
    for size in (0.01, 0.1):
        near = best.point.coef + size * rng.normal(size=len(best.point.coef))
        told, there = hospitals.certify(near, penalty)
        assert told.gap is not None
        assert there - objective <= told.gap + 1e-9, "never too small"


@every_family
def test_it_takes_hardly_more_rounds(kind: str) -> None:
    for seed in range(3):
        for share in (0.2, 2.0):
            scaled = share * PENALTIES.get(kind, 0.01)
            shared = Hospitals.of(kind, None, seed).solve(scaled)
            own = Hospitals.of(kind, 0.5, seed).solve(scaled)
            assert own.converged
            assert own.rounds <= shared.rounds + 3


@every_family
def test_without_any_spread_it_is_the_shared_fit(kind: str) -> None:
    """And the more spread, the lower the objective."""
    shared = Hospitals.of(kind, None).solve(0.01)
    last = shared.point.objective + 1e-9
    for spread in (1e-5, 0.1, 1.0):
        own = Hospitals.of(kind, spread).solve(0.01)
        if spread == 1e-5:
            np.testing.assert_allclose(own.point.coef, shared.point.coef, atol=1e-6)
        assert own.point.objective <= last
        last = own.point.objective


def test_all_kinds_are_here() -> None:
    assert {EXAMPLES[kind].kind for kind in KINDS} == {f.kind for f in EXAMPLES.values()}
    assert STEPS[-1] == 1
