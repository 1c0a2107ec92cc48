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

from fedrulefit.core.families import Family
from fedrulefit.core.families.count import Count
from fedrulefit.core.families.number import Number
from fedrulefit.core.families.time import Time
from tests.oracles import YES_NO, make_design, solve

HERE = Path(__file__).parent
N_RULES = 6
SIZES = (700, 100, 450, 250)
NUMBER, COUNT = Number(-20, 60), Count(80, max_exposure=2.5)


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
        baseline = np.ones((end - start, family.n_baseline))
        design = make_design(X[own, :N_RULES] > 0, X[own, N_RULES:], baseline)
        if family.n_baseline > 1:
            design = type(design)(baseline, design.bits, design.linear, parts=family.n_baseline)
        sites.append((design, outcome[own], np.ones(end - start)))
    factors = np.array([0.0] * family.n_baseline + [1.0] * X.shape[1])
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
