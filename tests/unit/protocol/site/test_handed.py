"""What is handed out must follow from what the sites sent."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.privacy.policy import OPEN
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from tests.alone import head, refusal
from tests.hospitals import (
    FREE,
    GRID,
    change,
    granted,
    make_site,
    ready_for_rules,
    refused,
)


def test_cut_offs_off_the_public_bins_are_refused() -> None:
    """A cut-off could otherwise be put on either side of one patient."""
    age = GRID.axes[0]
    moved = age.cutoffs.copy()
    moved[len(moved) // 2] += 1e-3
    bad_axes = [
        dataclasses.replace(age, cutoffs=moved),
        dataclasses.replace(age, limits=(age.limits[0] + 1e-3, age.limits[1])),
        dataclasses.replace(age, limits=(age.limits[0], age.limits[1] - 1e-9)),
    ]
    for axis in bad_axes:
        site = make_site(policy=FREE)
        grid = Grid((axis, *GRID.axes[1:]))
        refused(ready_for_rules(site).ask(m.RulesRequest, grid=grid), "grid")
        assert {r.message for r in site.ledger.releases} == {"GridReply"}
        # Without a smallest count the hospital has said that it does not mind.
        free = make_site(policy=change(FREE, min_count=0))
        granted(ready_for_rules(free).ask(m.RulesRequest, grid=grid), m.RulesReply)
    granted(ready_for_rules(make_site(policy=FREE)).ask(m.RulesRequest, grid=GRID), m.RulesReply)


def test_a_grid_of_fewer_more_or_shuffled_covariates_is_refused() -> None:
    for axes in (GRID.axes[:-1], GRID.axes[::-1], (*GRID.axes, GRID.axes[0])):
        for policy in (FREE, OPEN):
            site = make_site(policy=policy)
            refused(ready_for_rules(site).ask(m.RulesRequest, grid=Grid(axes)), "grid")


def test_a_grid_of_other_covariates_is_refused(joined: Site, grid: Grid) -> None:
    age, lactate, gcs, ward, sex = grid.axes

    def reason(*axes: Any) -> str:
        return refusal(joined, m.RulesRequest(head(), Grid(axes)), "grid")

    assert "does not fit the study's covariates" in reason(age)
    assert "does not fit the study's covariates" in reason(age, lactate, gcs, sex, ward)
    complete = dataclasses.replace(age, complete=True)
    assert "does not fit the study's covariates" in reason(complete, lactate, gcs, ward, sex)
    more = dataclasses.replace(ward, n_codes=5)
    assert "category's levels" in reason(age, lactate, gcs, more, sex)
    finer = dataclasses.replace(sex, cutoffs=np.array([0.5, 0.7]), n_codes=3)
    assert "cut-offs that the study fixes" in reason(age, lactate, gcs, ward, finer)


def test_rules_that_do_not_fit_the_grid_are_refused(joined: Site, grid: Grid) -> None:
    joined.handle(m.RulesRequest(head(), grid))

    def reason(*conditions: tuple[int, int]) -> str:
        rule = Rule(tuple(Condition(*c) for c in conditions))
        return refusal(joined, m.TermsRequest(head(), (rule,)))

    assert "names covariate 5" in reason((5, 1))
    assert "a code that its covariate does not have" in reason((3, 1 << 7))
    assert "must be an interval" in reason((0, 0b101))
    assert "not in canonical form" in reason((3, 1), (0, 1))
    assert "not in canonical form" in reason()
