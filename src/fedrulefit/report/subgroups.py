"""Outcome rates inside and outside rules, as rows that the page shows.

In: a model. Out: frozen rows, already in words and rounded for reading. Of which patients they
are is said with every table (:mod:`fedrulefit.model.subgroups`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedrulefit.model import Model
from fedrulefit.model.subgroups import NAMES, choose_patients, tell_patients
from fedrulefit.numerals import write_minus
from fedrulefit.report.contents import NOT_TOLD, rate_digits, tell_count


@dataclass(frozen=True)
class SubgroupSide:
    """Patients on one side of a rule, and their outcome rate in percent; None if not told.

    `interval` is empty where none holds.
    """

    patients: str
    rate: float | None
    interval: str


@dataclass(frozen=True)
class SubgroupRow:
    """Patients and outcome rates inside and outside a rule, and how far these differ.

    `site` is empty for all sites together; `interval` of the difference where none holds.
    """

    words: str
    site: str
    inside: SubgroupSide
    outside: SubgroupSide
    difference: str
    interval: str


@dataclass(frozen=True)
class SubgroupTable:
    """Subgroups, and of whom they are."""

    among: str
    caution: str
    rows: Sequence[SubgroupRow]


def tabulate_subgroups(model: Model, *, by_site: bool = False) -> SubgroupTable:
    """Return outcome rates inside and outside every rule (paper, fig. 3), and of whom they are.

    With `by_site` a row per rule and site, where the model tells them.
    """
    patients = choose_patients(model, None, by_site=by_site)
    digits = 0 if by_site else rate_digits(model)
    frame = model.subgroups_frame(by_site=by_site, patients=patients)
    rows = [_subgroup_row(row, digits) for row in frame.to_dict("records")]
    return SubgroupTable(NAMES[patients], tell_patients(model, patients, by_site=by_site), rows)


def _subgroup_row(row: Mapping[Hashable, Any], digits: int) -> SubgroupRow:
    """Return a row of :meth:`Model.subgroups_frame` in words."""

    def side(name: str) -> SubgroupSide:
        rate, ends = row[f"rate_{name}"], (row[f"low_{name}"], row[f"high_{name}"])
        return SubgroupSide(
            tell_count(row[name]),
            None if math.isnan(rate) else 100 * rate,
            _percent_range(*ends, digits),
        )

    gap = row["difference"]
    return SubgroupRow(
        words=row["rule"],
        site=row.get("site", ""),
        inside=side("inside"),
        outside=side("outside"),
        difference=NOT_TOLD if math.isnan(gap) else write_minus(f"{100 * gap:+z.{digits}f}"),
        interval=_percent_range(row["low_difference"], row["high_difference"], digits),
    )


def _percent_range(low: float, high: float, digits: int) -> str:
    """Return the ends of an interval in percent; empty where there is none."""
    if math.isnan(low):
        return ""
    return write_minus(f"{100 * low:z.{digits}f} to {100 * high:z.{digits}f}")
