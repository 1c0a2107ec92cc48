"""Our exact solver over several sites beside R: glmnet, and Cox regression of survival.

The numbers are of ``make_glmnet.R``, frozen. Our losses are relative to public facts, so λ and the
coefficients are scaled (the families' docstrings): for a number with half range h by 1/h, and for
counts up to C, λ by 1/C.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.core.class_design import ClassDesign
from fedrulefit.core.families import Family
from fedrulefit.core.families.classes import Classes
from fedrulefit.core.families.count import Count
from fedrulefit.core.families.number import Number
from fedrulefit.core.families.ordered import Ordered
from fedrulefit.core.families.time import Time
from tests.oracles import YES_NO, make_design, solve

HERE = Path(__file__).parent
N_RULES = 6
SIZES = (700, 100, 450, 250)
NUMBER, COUNT = Number(-20, 60), Count(80, max_exposure=2.5)
GRADES, CLASSES = Ordered(("none", "mild", "severe", "dead")), Classes(("home", "rehab", "hospice"))


@cache
def read() -> tuple[pd.DataFrame, Any]:
    """Return patients, and what R found."""
    found = json.loads((HERE / "glmnet.json").read_text(encoding="utf-8"))
    return pd.read_csv(HERE / "patients.csv"), found


def fit(family: Family, outcome: Any, penalty: float) -> Any:
    """Return the coefficients of our solver over several sites, the baseline first."""
    X = read()[0].filter(regex="rule|linear").to_numpy()
    edges = np.cumsum([0, *SIZES])
    sites = []
    for start, end in pairwise(edges.tolist()):
        own = slice(start, end)
        design: Any = make_design(X[own, :N_RULES] > 0, X[own, N_RULES:])
        if family.own_terms:
            design = ClassDesign.of_each(design, family.n_baseline)
        elif family.n_baseline > 1:
            baseline = np.ones((end - start, family.n_baseline))
            design = type(design)(baseline, design.bits, design.linear, parts=family.n_baseline)
        sites.append((design, outcome[own], np.ones(end - start)))
    factors = np.array([0.0] * family.n_baseline + [1.0] * (design.n_terms - family.n_baseline))
    newton = solve(sites, factors, penalty, family=family, tolerance=1e-11)
    assert newton.converged
    return newton.point.coef


def cases(kind: str) -> Any:
    return pytest.mark.parametrize("case", read()[1][kind], ids=lambda case: str(case["lambda"]))


@cases("number")
def test_numbers_are_the_lasso_of_glmnet(case: Any) -> None:
    """With t = (y − m)/h the squared error is h² times as small, and a coefficient h times."""
    coef = fit(NUMBER, read()[0]["number"].to_numpy(), case["lambda"] / NUMBER.half)
    ours = NUMBER.half * coef
    ours[0] += NUMBER.middle
    np.testing.assert_allclose(ours, case["coef"], rtol=0, atol=1e-5)


@cases("count")
def test_counts_with_exposure_are_the_poisson_lasso_of_glmnet(case: Any) -> None:
    """The likelihood is C times as small; the intercept is of C events in the longest exposure."""
    patients = read()[0]
    coef = fit(COUNT, patients[["count", "years"]].to_numpy(float), case["lambda"] / COUNT.most)
    coef[0] += np.log(COUNT.most / COUNT.max_exposure)
    np.testing.assert_allclose(coef, case["coef"], rtol=0, atol=1e-5)


@cases("yes/no")
def test_yes_no_is_the_logistic_lasso_of_glmnet(case: Any) -> None:
    coef = fit(YES_NO, read()[0]["yes"].to_numpy(float), case["lambda"])
    np.testing.assert_allclose(coef, case["coef"], rtol=0, atol=1e-5)


@cases("classes")
def test_classes_are_the_multinomial_lasso_of_glmnet(case: Any) -> None:
    """Ours stand by rules, then linear terms, of one class after another; R's by class."""
    coef = fit(CLASSES, read()[0]["class"].to_numpy(float), case["lambda"])
    n = CLASSES.n_baseline
    baseline, rules, linear = np.split(coef, [n, n * (1 + N_RULES)])
    ours = np.hstack([baseline[:, None], rules.reshape(n, -1), linear.reshape(n, -1)])
    theirs = np.reshape(case["coef"], (-1, n)).T
    assert (np.abs(theirs[:, 1:]) > 0).any()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@cases("ordered")
def test_ordered_levels_are_the_logistic_lasso_of_patients_steps(case: Any) -> None:
    """A row for each step that a patient tries, and a constant per step."""
    coef = fit(GRADES, read()[0]["grade"].to_numpy(float), case["lambda"])
    np.testing.assert_allclose(coef, case["coef"], rtol=0, atol=1e-5)


def times() -> tuple[Time, Any]:
    """Return the family with R's intervals, and the outcomes."""
    patients, found = read()
    ends = found["ends"]
    family = Time(ends[1:-1], ends[-1:])
    return family, np.column_stack([0 * patients["time"], patients[["time", "event"]]])


@cases("time")
def test_times_are_the_poisson_lasso_of_patients_intervals(case: Any) -> None:
    """A constant per interval, and the log of the time at risk as offset."""
    coef = fit(*times(), case["lambda"])
    np.testing.assert_allclose(coef, case["coef"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("peer", ["cox", "piecewise"])
def test_without_a_penalty_times_are_near_to_cox(peer: str) -> None:
    """Cox's hazard is any, ours is constant in each of five intervals."""
    family, outcome = times()
    coef, theirs = fit(family, outcome, 0.0), np.array(read()[1][peer])
    ours = coef if peer == "piecewise" else coef[family.n_baseline :]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.02)
