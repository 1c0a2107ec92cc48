"""Refits of a model's terms to held-out patients: against a minimum over single patients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.samples import SOLVERS, make_study, make_tables

from fedrulefit.core.adjusting import BASELINE_SPREAD, MOST_ROUNDS, SPREAD, Adjustment
from fedrulefit.core.curvature import CurvatureSums, Query, sum_curvature
from fedrulefit.core.fixed import Bounds
from fedrulefit.core.predictor import evaluate_terms
from fedrulefit.engines import inprocess
from fedrulefit.model import LinearTerm, RuleTerm
from fedrulefit.protocol.site import Site
from fedrulefit.testing.samples import OUTCOMES

SIZES = (420, 360, 300)
COUNTED = [kind for kind in OUTCOMES if kind not in ("classes", "time, competing")]


def fit(kind: str, *, secure: bool = False, **changes: Any) -> Any:
    settings = {**SOLVERS["exact"], "holdout": 0.4, "adjusted": True, **changes}
    study = make_study(kind, **settings)
    tables = make_tables(study, sizes=SIZES)
    return inprocess.fit(study, tables, secure=secure).model, study, tables


def held_out(study: Any, tables: Any) -> list[Any]:
    return [Site(name, table, study).patients.held_out for name, table in tables.items()]


def joint(model: Any, study: Any, tables: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and standard errors of one fit to all held-out patients.

    By scipy and differences of its gradient, from the family's loss of single patients alone.
    """
    family = study.family
    rules = [term.rule for term in model.rule_terms]
    linear = [term.feature for term in model.linear_terms]
    tables = held_out(study, tables)
    designs, outcomes, n_base = [], [], family.n_baseline
    for table in tables:
        columns = evaluate_terms(table.values, model.grid, rules, linear, parts=n_base)
        eye = np.eye(columns.n_terms)
        designs.append(np.stack([columns.predictor(column) for column in eye], axis=-1))
        outcomes.append(family.prepare(table.outcome))
    n_terms = designs[0].shape[-1]
    ridge = np.full(n_terms, SPREAD**-2.0)
    ridge[:n_base] = BASELINE_SPREAD**-2.0

    def slope(coef: np.ndarray) -> np.ndarray:
        found = ridge * coef
        for design, outcome in zip(designs, outcomes, strict=True):
            slopes = family.slope(design @ coef, outcome, np.ones(len(design)))
            found += np.tensordot(slopes, design, slopes.ndim)
        return found

    def value(coef: np.ndarray) -> float:
        total = 0.5 * float(ridge @ coef**2)
        for design, outcome in zip(designs, outcomes, strict=True):
            total += float(family.value(design @ coef, outcome, np.ones(len(design))).sum())
        return total

    best = np.zeros(len(ridge))
    for _ in range(5):
        found = minimize(value, best, jac=slope, method="BFGS", options={"gtol": 1e-9})
        best = found.x
    step = 1e-5
    hessian = np.stack(
        [(slope(best + step * e) - slope(best - step * e)) / (2 * step) for e in np.eye(len(best))]
    )
    best = best - np.linalg.solve(hessian, slope(best))
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    if family.of_errors:
        loss = value(best) - 0.5 * float(ridge @ best**2)
        errors *= np.sqrt(2 * loss / sum(len(design) for design in designs))
    return best[n_base:n_terms], errors[n_base:n_terms]


@pytest.mark.parametrize("kind", COUNTED)
def test_estimates_and_errors_are_those_of_a_joint_fit(kind: str) -> None:
    model, study, tables = fit(kind)
    estimates, errors = joint(model, study, tables)
    terms = [*model.rule_terms, *model.linear_terms]
    told = [(term.adjusted, *both) for term, *both in zip(terms, estimates, errors, strict=True)]
    known = [row for row in told if row[0] is not None]
    assert len(known) >= 0.6 * len(terms)
    for adjusted, estimate, error in known:
        assert adjusted.sites == len(SIZES)
        assert adjusted.estimate == pytest.approx(estimate, abs=2e-4)
        assert adjusted.error == pytest.approx(error, rel=2e-3)


@pytest.mark.parametrize("kind", ["yes/no", "time", "classes"])
def test_masks_change_nothing_and_without_the_setting_nothing_is_told(kind: str) -> None:
    plain, masked = (fit(kind, secure=secure)[0] for secure in (False, True))
    assert [t.adjusted for t in plain.terms] == [t.adjusted for t in masked.terms]
    assert any(t.adjusted for t in plain.terms)
    assert all(t.adjusted is None for t in fit(kind, adjusted=False)[0].terms)
    assert all(t.adjusted is None for t in fit(kind, holdout=0.0)[0].terms)


def test_a_step_uphill_is_shortened_and_the_end_is_found_from_far_away() -> None:
    model, study, tables = fit("yes/no")
    tables_out = held_out(study, tables)
    rules = [term.rule for term in model.rule_terms]
    linear = [term.feature for term in model.linear_terms]
    designs = [evaluate_terms(t.values, model.grid, rules, linear) for t in tables_out]
    n = designs[0].n_terms
    sizes = np.where(np.arange(n) < 1 + len(rules), 1.0, 64.0)
    bounds = Bounds(sizes, 1.0, study.family.unit)

    def answer(query: Query) -> CurvatureSums:
        packing = CurvatureSums.packing(query, bounds)
        flat = sum(
            sum_curvature(
                study.family, design, table.outcome, table.weights,
                np.zeros(table.n_rows, dtype=np.int64), query, bounds,
            )
            for design, table in zip(designs, tables_out, strict=True)
        )  # fmt: skip
        return packing.read(flat)

    ends = []
    for start in (np.zeros(n), np.linspace(-6, 6, n)):
        refit = Adjustment(designs[0].layout, start)
        while not refit.done:
            refit.update(answer(refit.query()))
        assert refit.converged
        assert refit.rounds < MOST_ROUNDS
        ends.append(refit.finish(study.family)[0])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)


def test_terms_are_in_the_order_of_the_model() -> None:
    model, *_ = fit("yes/no")
    assert any(isinstance(term, RuleTerm) and term.adjusted for term in model.terms)
    assert any(isinstance(term, LinearTerm) and term.adjusted for term in model.terms)
