"""Outcomes inside and outside rules, as rows that the page shows.

In: a model. Out: frozen rows, already in words and rounded for reading. Of which patients they
are is said with every table (:mod:`fedrulefit.model.subgroups`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedrulefit.core.families.sides import Levels
from fedrulefit.model import Model
from fedrulefit.model.subgroups import (
    NAMES,
    Row,
    choose_patients,
    tell_gap,
    tell_level,
    tell_patients,
    tells_levels,
)
from fedrulefit.numerals import write_minus
from fedrulefit.report.contents import NOT_TOLD, tell_count


@dataclass(frozen=True)
class SubgroupSide:
    """Patients on one side of a rule, and their level with its unit; empty if not told.

    `interval` is empty where none holds; `bar` is how far a bar goes, in percent. `shares` are of
    patients at each level of an outcome of several, in percent; empty where that is not told.
    """

    patients: str
    level: str
    interval: str
    bar: float
    shares: Sequence[float] = ()


@dataclass(frozen=True)
class SubgroupRow:
    """Patients and levels inside and outside a rule, and how far these differ.

    `site` is empty for all sites together; `interval` of the difference where none holds.
    """

    words: str
    site: str
    inside: SubgroupSide
    outside: SubgroupSide
    gap: str
    interval: str


@dataclass(frozen=True)
class SubgroupTable:
    """Subgroups, and of whom they are; without rows where no level is told."""

    among: str
    caution: str
    rows: Sequence[SubgroupRow]


def tabulate_subgroups(model: Model, *, by_site: bool = False) -> SubgroupTable:
    """Return levels inside and outside every rule (paper, fig. 3), and of whom they are.

    With `by_site` a row per rule and site, where the model tells them.
    """
    patients, levels = choose_patients(model, None, by_site=by_site), model.study.family.levels
    coarse, name = by_site or model.is_rounded, levels.words.level
    frame = model.subgroups_frame(by_site=by_site, patients=patients)
    largest = float(frame[[f"{name}_inside", f"{name}_outside"]].max().max())
    shown = frame.to_dict("records") if tells_levels(model) else []
    names = model.study.family.told_levels if patients == "held-out" else ()
    rows = [_subgroup_row(row, levels, largest, names, coarse=coarse) for row in shown]
    return SubgroupTable(NAMES[patients], tell_patients(model, patients, by_site=by_site), rows)


def _subgroup_row(
    row: Row, levels: Levels, largest: float, names: Sequence[str], *, coarse: bool
) -> SubgroupRow:
    """Return a row of :meth:`Model.subgroups_frame` in words; `names` are the outcome's levels."""

    def side(name: str) -> SubgroupSide:
        told, ends = map(write_minus, tell_level(row, name, levels, coarse=coarse))
        level = row[f"{levels.words.level}_{name}"]
        bar = 0.0 if math.isnan(level) else 100 * levels.share(level, largest)
        shares = [100 * row[f"share_{own}_{name}"] for own in names]
        known = () if any(map(math.isnan, shares)) else shares
        return SubgroupSide(
            tell_count(row[name]), told and told + levels.words.unit, ends, bar, known
        )

    gap, ends = map(write_minus, tell_gap(row, levels, coarse=coarse))
    return SubgroupRow(
        words=row["rule"],
        site=row.get("site", ""),
        inside=side("inside"),
        outside=side("outside"),
        gap=gap or NOT_TOLD,
        interval=ends,
    )
