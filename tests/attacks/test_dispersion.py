"""Attacks on θ's sums: squares of counts, in which one patient can be nearly all there is.

Two numbers leave at each dispersion asked for, summed over all hospitals. At the ladder's foot they
are squares of what counts are off, so one who outweighs all others would be read off the total. And
who asks along the whole ladder, which no run does, learns how many patients of all hospitals
together have one event, two, and so on; never of one hospital.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls

from fedrulefit.core.dispersion import DispersionSums, stand_on
from fedrulefit.core.sums import Packing
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.alone import shared_grid
from tests.samples import SOLVERS, make_study, make_tables

SIZES = (150, 120, 90)
STUDY = make_study("count, negative binomial", **{**SOLVERS["exact"], "n_trees": 0})
FAMILY = STUDY.family
MOST = 60.0
TERMS = np.zeros(1, dtype=np.int64)


def hospital(table: Table, counts: Any, least: int, study: Study = STUDY) -> Patients:
    """Return a hospital whose patients, all watched for a year, have these counts."""
    outcome = np.column_stack([counts, np.full(len(counts), 12.0)]).astype(float)
    events = FAMILY.events(outcome, table.weights)
    table = replace(table, outcome=outcome, events=events)
    held = replace(table, values=table.values[:0], outcome=outcome[:0])
    public = Public(study).with_grid(shared_grid(study)).with_rules(())
    own = Patients(public, table, held, np.zeros(table.n_rows, dtype=np.int64), least)
    return own.on_grid(public).with_terms(public)


def ask(sites: list[Patients], mean: float, dispersion: float) -> DispersionSums:
    """Return the total at one mean count for all."""
    coef = np.array([np.log(mean / MOST * 2)])  # a year is half the longest exposure
    head = m.base.blank_header("a")
    request = m.DispersionRequest(head, TERMS, coef, dispersion)
    request.check(sites[0].public)
    total = np.sum([request.add_up(site)[0] for site in sites], axis=0)
    return Packing(DispersionSums).read(total)


def test_whoever_outweighs_all_others_is_not_in_the_squares() -> None:
    tables = make_tables(STUDY, sizes=SIZES)
    counts = {name: np.arange(table.n_rows) % 10 == 0 for name, table in tables.items()}
    counts["north"] = np.where(np.arange(SIZES[0]) == 7, 58, 0)
    foot = stand_on(FAMILY.ladder[0])
    told = {}
    for least in (0, 5):
        sites = [hospital(table, counts[name], least) for name, table in tables.items()]
        squares = 2 * MOST * ask(sites, 0.1, foot).gain / foot
        # (y − μ)² − y, less what anybody would guess of all others: next to nothing.
        told[least] = np.sqrt(max(squares + 58, 0.0))
    assert told[0] == pytest.approx(58, abs=2), "a hospital that does not look tells it"
    assert told[5] < 10, "ours adds nothing, as it deals no folds and holds nobody out"


def test_usual_patients_are_in_them() -> None:
    table = make_tables(STUDY, sizes=SIZES)["north"]
    counts = np.random.default_rng(0).negative_binomial(1, 0.3, SIZES[0])
    sums = [ask([hospital(table, counts, least)], 2.0, 0.5) for least in (0, 5)]
    assert sums[0].gain == sums[1].gain != 0


def test_who_asks_along_the_ladder_learns_the_table_of_all_hospitals_and_of_none() -> None:
    """The known limit, as of all totals: a coordinator that asks what no run asks."""
    rng = np.random.default_rng(1)
    tables = list(make_tables(STUDY, sizes=SIZES).values())
    pooled = rng.choice(4, size=sum(SIZES), p=[0.6, 0.25, 0.1, 0.05])
    places = range(FAMILY.ladder[0], FAMILY.ladder[-1], 256)
    size = 1 / np.array([stand_on(place) for place in places])

    def ask_along(counts: Any) -> Any:
        parts = np.split(counts, np.cumsum(SIZES)[:-1])
        sites = [hospital(table, own, 5) for table, own in zip(tables, parts, strict=True)]
        return np.array([ask(sites, 0.6, stand_on(place)).gain for place in places])

    told = MOST * ask_along(pooled)
    n, mean = len(pooled), 0.6
    held = size / (size + mean)
    known = n * (size * np.log1p(mean / size) - held * mean)  # of nobody's count
    # Left over: Σ_j (patients with more than j)·{held − θ/(θ + j)}.
    steps = np.arange(4)
    design = held[:, None] - size[:, None] / (size[:, None] + steps)
    found, _ = nnls(design, told - known)
    expected = [(pooled > j).sum() for j in steps]
    np.testing.assert_allclose(found, expected, atol=0.5)
    np.testing.assert_array_equal(ask_along(rng.permutation(pooled)), ask_along(pooled))
