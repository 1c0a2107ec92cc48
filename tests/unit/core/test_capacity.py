"""No sum outgrows the ring, whatever the patients: the most of one, by search, times capacity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.certificate import sum_gap, sum_slopes
from fedrulefit.core.curvature import Query, sum_curvature
from fedrulefit.core.design import Design
from fedrulefit.core.families import Family, YesNo
from fedrulefit.core.families.count import Count
from fedrulefit.core.families.number import Number
from fedrulefit.core.families.time import Time
from fedrulefit.core.fixed import (
    LARGEST_MEAN,
    LARGEST_TERM,
    UNIT_BITS,
    Bounds,
    capacity,
    most_units,
)
from fedrulefit.core.own import settle, with_room

FAMILIES: dict[str, Family] = {
    "yes/no": YesNo(),
    "number": Number(0, 60),
    "number, large": Number(1e9, 1e12, unit="mg"),
    "number, small": Number(-1e-9, 1e-9),
    "robust": Number(0, 60, robust=True),
    "robust, wide": Number(0, 60, robust=True, outlier=30),
    "count": Count(30, max_exposure=24.0),
    "count, one": Count(1),
    "count, large": Count(2**20, max_exposure=1e-9),
    "count, dispersed": Count(30, max_exposure=24.0, negative_binomial=True, dispersion=1024.0),
    "count, hardly dispersed": Count(1, negative_binomial=True, dispersion=2.0**-10),
    "count, large and dispersed": Count(2**20, negative_binomial=True, dispersion=0.5),
    "time": Time([30.0, 90.0], [365.0]),
    "time, one interval": Time([], [1e-9]),
    "time, many intervals": Time(np.arange(1.0, 50.0), [50.0]),
}


def extremes(family: Family) -> Any:
    """Return patients at every end of what an outcome can be."""
    if isinstance(family, Number):
        return np.array([family.low, family.middle, family.high])
    if isinstance(family, Count):
        shares = [0.0, 2.0**-20, 0.5, 1.0]
        return np.array([[np.rint(u * family.most), e * family.max_exposure]
                         for u in shares for e in (1e-9, 1e-3, 0.1, 1.0)])  # fmt: skip
    if isinstance(family, Time):
        last = family.ends[-1]
        times = np.unique([*family.ends[1:], last / 1000, 0.99 * last])
        rows = [(0.0, time, event) for time in times for event in (0.0, 1.0)]
        return np.array([*rows, (0.98 * last, last, 1.0), (0.5 * last, 0.51 * last, 0.0)])
    return np.array([0.0, 1.0])


def worst(units: Any) -> int:
    return max(abs(int(unit)) for unit in np.ravel(units))


def patients_at(family: Family, weight: float) -> Any:
    """Yield each patient alone, with the largest predictor and terms of either sign."""
    most, k = family.largest_predictor, family.n_baseline
    for y in extremes(family):
        for f in (-most, -1.0, 0.0, 1.0, 2.9, most):
            for x in (-LARGEST_TERM, LARGEST_TERM):
                linear = np.array([[x]])
                yield (
                    Design(np.ones((1, k)), np.array([[1]], np.uint8), linear, parts=k),
                    np.array([y]), np.array([weight]), np.array([*[0.0] * k, f, 0.0]),
                )  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("weight", [1.0, 1024.0])
def test_no_patient_adds_more_units_to_a_sum_than_is_said(name: str, weight: float) -> None:
    family = FAMILIES[name]
    k, n = family.n_baseline, family.n_baseline + 2
    bounds = Bounds(np.array([*[1.0] * (k + 1), LARGEST_TERM]), weight, family.unit)
    found = 0
    for design, y, w, coef in patients_at(family, weight):
        terms = np.arange(n)
        query = Query(-1, terms, np.zeros(n), coef, terms)
        predictor = design.predictor(coef)
        found = max(
            found,
            worst(sum_curvature(family, design, y, w, np.zeros(1, int), query, bounds)),
            worst(sum_slopes(family, design, y, w, predictor, bounds)),
            worst(sum_gap(family, y, w, predictor, (1.0, 1.0), bounds)),
            worst(sum_gap(family, y, w, predictor, (0.3, 0.3), bounds)),
        )
    assert 2.0**30 < found <= weight * most_units(family) * (1 + 1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_nor_to_a_judge_s(name: str) -> None:
    family = FAMILIES[name]
    packing, found = family.judge.packing(), 0
    for y in extremes(family):
        for f in (-family.largest_predictor, -3.0, 0.0, 1.0, family.largest_predictor):
            prediction = np.asarray(family.link.inverse(np.array([f])), dtype=np.float64)
            sums = family.judge.count(prediction, np.array([y]), np.ones(1))
            found = max(found, worst(packing.round(sums)))
    assert 2.0**32 <= found <= most_units(family)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n_sites", [1, 3, 32])
def test_a_full_table_stays_within_the_ring(name: str, n_sites: int) -> None:
    family = FAMILIES[name]
    most = capacity(family, n_sites)
    assert n_sites * most * most_units(family) <= 2.0**63
    assert most >= 2.0**33 / 2049 / n_sites, "no kind bears fewer patients than yes/no"


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.averages])
def test_so_do_rounds_of_fedda(name: str) -> None:
    """Increments are up to 500 per patient, whatever the loss: once they were left out."""
    family = FAMILIES[name]
    assert family.most_slope <= 1
    assert most_units(family) >= LARGEST_MEAN * 2.0**UNIT_BITS
    assert most_units(family) >= family.most_value(LARGEST_MEAN) * 2.0**UNIT_BITS


OWN = [name for name in FAMILIES if not {"dispersed", "many"} & {*name.split()}]


@pytest.mark.parametrize("name", OWN)
def test_nor_with_a_baseline_of_the_site_s_own(name: str) -> None:
    """Its price is in the loss, and its conjugate beside; predictors leave room for it."""
    whole, weight, spread = FAMILIES[name], 1024.0, 4.0  # the largest
    family = with_room(whole)
    k, n = family.n_baseline, family.n_baseline + 2
    bounds = Bounds(np.array([*[1.0] * (k + 1), LARGEST_TERM]), weight, family.unit, spread)
    found, terms = 0, np.arange(n)
    for design, y, w, coef in patients_at(family, weight):
        query = Query(-1, terms, np.zeros(n), coef, terms)
        predictor, folds = design.predictor(coef), np.zeros(1, int)
        found = max(
            found,
            worst(sum_curvature(family, design, y, w, folds, query, bounds)),
            worst(sum_slopes(family, design, y, w, predictor, bounds)),
            worst(sum_gap(family, y, w, predictor, (1.0, 1.0), bounds)),
            worst(sum_gap(family, y, w, predictor, (0.3, 0.3), bounds)),
        )
        own = settle(family, predictor, y, w, spread)
        assert np.abs(own.shift(predictor)).max() <= whole.largest_predictor
    assert 2.0**20 < found <= weight * most_units(whole, own=True) * (1 + 1e-9)
    assert capacity(whole, 3, own=True) <= capacity(whole, 3)
