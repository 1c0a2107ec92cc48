"""What sites add to effects within hospitals: the same as their own held-out patients say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import StratifiedTable
from statsmodels.stats.meta_analysis import combine_effects

from fedrulefit.core.families.evidence import find_grain
from fedrulefit.core.grid import encode
from fedrulefit.core.subgroups import SubgroupSums
from fedrulefit.engines import inprocess
from fedrulefit.model import Model
from fedrulefit.privacy.policy import MIN_COUNT, OPEN
from fedrulefit.protocol.dealing import draw_starts
from fedrulefit.protocol.site import Site
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import OUTCOMES
from tests.oracles import fires
from tests.samples import SOLVERS, make_study, make_tables, take

SIZES = (900, 700, 500)
TOLD = ("yes/no", "number", "count", "time")


def held_out(study: Any, tables: Any) -> dict[str, Table]:
    """Return the patients that each site sets aside."""
    return {name: Site(name, table, study).patients.held_out for name, table in tables.items()}


def fit(
    kind: str, *, secure: bool = False, sizes: Any = SIZES, **changes: Any
) -> tuple[Model, dict[str, Table]]:
    study = make_study(kind, **{**SOLVERS["exact"], "holdout": 0.4, **changes})
    tables = make_tables(study, sizes=sizes)
    return inprocess.fit(study, tables, secure=secure).model, held_out(study, tables)


def cells_of(model: Model, term: Any, table: Table) -> np.ndarray:
    """Count one by one: with and without the outcome inside, and outside."""
    assert table.outcome is not None
    inside, sick = fires(term.rule, encode(table.values, model.grid)), table.outcome == 1
    return np.array(
        [
            [(inside & sick).sum(), (inside & ~sick).sum()],
            [(~inside & sick).sum(), (~inside & ~sick).sum()],
        ]
    )


def round_by_hand(exact: float, reach: float, start: float) -> float:
    """The naive twin of a site's rounding, among three."""
    width = MIN_COUNT * find_grain(len(SIZES))
    width *= 2.0 ** (math.ceil(2 * math.log2(reach)) / 2)
    return width * (round(exact / width - start) + start)


@pytest.mark.parametrize("secure", [False, True])
def test_odds_ratios_are_those_of_every_hospitals_own_counts(secure: bool) -> None:
    model, held = fit("yes/no", secure=secure)
    told = [term for term in model.rule_terms if term.within is not None]
    assert len(told) >= 3
    for term in told:
        tables, sums = [], np.zeros(2)
        for site, table in held.items():
            cells = cells_of(model, term, table)
            if min(*cells.sum(axis=0), *cells.sum(axis=1)) < MIN_COUNT:
                continue
            tables.append(cells.astype(float))
            (a, b), (c, d), n = *cells.tolist(), cells.sum()
            first, second = draw_starts(model.study.settings.seed, site)
            sums[0] += round_by_hand(a * d / n, max(a, d) / n, first)
            sums[1] += round_by_hand(b * c / n, max(b, c) / n, second)
        assert term.within is not None
        assert term.within.sites == len(tables)
        assert term.within.estimate == pytest.approx(math.log(sums[0] / sums[1]), abs=1e-6)
        theirs = StratifiedTable(tables)
        rounding = math.sqrt(max(term.within.error**2 - theirs.logodds_pooled_se**2, 0.0))
        off = abs(term.within.estimate - theirs.logodds_pooled)
        assert off < 3 * rounding + 0.05
        assert 0.95 < term.within.error / theirs.logodds_pooled_se < 1.5


@pytest.mark.parametrize("kind", TOLD)
def test_masks_change_nothing(kind: str) -> None:
    (plain, _), (masked, _) = fit(kind), fit(kind, secure=True)
    found = [term.within for term in plain.rule_terms]
    assert any(effect is not None for effect in found)
    assert found == [term.within for term in masked.rule_terms]


@pytest.mark.parametrize("kind", OUTCOMES)
def test_nothing_is_told_without_held_out_patients_and_of_levels(kind: str) -> None:
    model, _ = fit(kind, holdout=0.0)
    assert all(term.within is None for term in model.rule_terms)
    if model.study.family.evidence is None:
        model, _ = fit(kind)
        assert model.evaluation is not None
        assert all(term.within is None for term in model.rule_terms)


@pytest.mark.parametrize("secure", [False, True])
def test_hospitals_differ_by_what_each_of_them_tells(secure: bool) -> None:
    """Five hospitals: the spread is that of their own effects, as coarse as each tells them."""
    sizes = (500, 420, 380, 460, 300)
    model, held = fit("yes/no", secure=secure, sizes=sizes)
    found = [term for term in model.rule_terms if term.elsewhere is not None]
    assert len(found) >= 2
    for term in found:
        own = []
        for site, table in held.items():
            (a, b), (c, d) = cells_of(model, term, table).tolist()
            n, k = a + b + c + d, MIN_COUNT * find_grain(len(sizes))
            starts = draw_starts(model.study.settings.seed, site)
            widths = [
                k * 2.0 ** (math.ceil(2 * math.log2(reach / n)) / 2)
                for reach in (max(a, d), max(b, c))
            ]
            above, below = (
                width * (round(exact / n / width - start) + start)
                for exact, width, start in zip((a * d, b * c), widths, starts, strict=True)
            )
            p = round(32 * (a + d) / n) / 32
            x = p * above + 2 * widths[0] ** 2 / 12
            y, z = p * below + (1 - p) * above, (1 - p) * below + 2 * widths[1] ** 2 / 12
            variance = (x / above**2 + y / (above * below) + z / below**2) / 2
            own.append((math.log(above / below), math.sqrt(variance)))
        effects, errors = np.array(own).T
        theirs = combine_effects(effects, errors**2, method_re="chi2")
        assert term.elsewhere is not None
        assert term.elsewhere.sites == len(sizes)
        assert term.elsewhere.spread == pytest.approx(math.sqrt(max(theirs.tau2, 0.0)), abs=1e-3)
        middle = (term.elsewhere.low + term.elsewhere.high) / 2
        assert middle == pytest.approx(theirs.mean_effect_fe, abs=1e-4)


def test_four_hospitals_do_not_tell_how_they_differ() -> None:
    model, _ = fit("yes/no", sizes=(600, 500, 500, 500))
    assert any(term.within is not None for term in model.rule_terms)
    assert all(term.elsewhere is None for term in model.rule_terms)


# --- who adds nothing ---------------------------------------------------------------------------


def make_patients(n_inside: int, n_outside: int, *, least: int = 0) -> tuple[Any, Any, Any]:
    """Return one site's patients, of whom so many are held out inside and outside a rule."""
    study = make_study("yes/no", **{**SOLVERS["exact"], "holdout": 0.4})
    model, _ = fit("yes/no")
    (name, table), *_ = make_tables(study, sizes=SIZES).items()
    term = next(term for term in model.rule_terms if term.within is not None)
    inside = np.flatnonzero(fires(term.rule, encode(table.values, model.grid)))
    outside = np.setdiff1d(np.arange(table.n_rows), inside)
    assert table.outcome is not None
    rows = []
    for group, size in ((inside, n_inside), (outside, n_outside)):
        sick, well = (group[table.outcome[group] == y] for y in (1, 0))
        rows += [*sick[: size // 2], *well[: size - size // 2]]
    policy = OPEN.model_copy(update={"min_count": least})
    site = Site(name, table, study, policy=policy)
    public = site.patients.public.with_sites(3).with_grid(model.grid).with_rules((term.rule,))
    patients = replace(site.patients, public=public, held_out=take(table, np.array(rows)))
    return patients, np.array([0, 1]), name


@pytest.mark.parametrize(
    ("inside", "outside", "least", "adds"),
    [(5, 60, 0, True), (4, 60, 0, False), (60, 5, 0, True), (60, 4, 0, False), (11, 60, 12, False),
     (12, 60, 12, True)],
)  # fmt: skip
def test_a_site_with_too_few_held_out_patients_on_a_side_adds_zeros(
    inside: int, outside: int, least: int, adds: bool
) -> None:
    patients, terms, name = make_patients(inside, outside, least=least)
    found = patients.count_evidence(terms, subgroup_sums(patients, terms), name)
    assert found.sites.tolist() == [float(adds)]
    assert (found.above != 0).tolist() == [adds]
    assert (found.first != 0).tolist() == [adds]


def test_a_site_where_hardly_anybody_has_the_outcome_adds_zeros() -> None:
    patients, terms, name = make_patients(40, 60)
    table = patients.held_out
    few = np.flatnonzero(table.outcome == 1)[4:]
    without = take(table, np.setdiff1d(np.arange(table.n_rows), few))
    assert (without.outcome == 1).sum() == 4
    patients = replace(patients, held_out=without)
    found = patients.count_evidence(terms, subgroup_sums(patients, terms), name)
    assert not any(values.any() for values in vars(found).values())


def subgroup_sums(patients: Any, terms: Any) -> SubgroupSums:
    packing = SubgroupSums.packing(len(terms) - 1, patients.public.family)
    return packing.read(patients.count_subgroups(terms))
