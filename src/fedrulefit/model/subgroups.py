"""Outcomes inside and outside rules: of whom, and in which words.

In: a model. Out: rows for people, and the sentence without which they mislead: whether they are
of patients that were held out, or of those that the rules were learnt from. The mathematics is
in :mod:`fedrulefit.core.subgroups` and :mod:`fedrulefit.core.families.sides`. NaN stands for
what is not told.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from fedrulefit.core.families.side_splits import SplitLevels
from fedrulefit.core.families.sides import UNKNOWN, Contrast, Levels, MeasuredLevels
from fedrulefit.core.rules import Rule
from fedrulefit.core.subgroups import contrast
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model.terms import Counts, RuleTerm, Told, rate_of
from fedrulefit.model.wording import tell_rows

if TYPE_CHECKING:
    from fedrulefit.model.model import Model

Among = Literal["held-out", "training"]
"""Of which patients levels are told."""

Row = Mapping[Hashable, Any]
"""Of :meth:`Model.subgroups_frame`."""

NAMES: Final[dict[Among, str]] = {
    "held-out": "held-out patients",
    "training": "training patients",
}


class Writer(Protocol):
    """Writes a number as text; `coarse` where counts are rounded."""

    def __call__(self, level: float, /, *, coarse: bool) -> str:
        """Return the text."""


@dataclass(frozen=True)
class Subgroup:
    """Patients and their level (:class:`Levels`) inside and outside a rule.

    Parameters
    ----------
    term : RuleTerm
    site : str
        Empty for all sites together.
    inside, outside : float
        Patients.
    levels : Contrast
        Without intervals for training patients, and for one site: there none would hold.
    """

    term: RuleTerm
    site: str
    inside: float
    outside: float
    levels: Contrast

    def split(self, levels: Levels) -> dict[str, tuple[float, ...]]:
        """Return the share of held-out patients at each level, by side; empty if not told."""
        if not isinstance(levels, SplitLevels) or self.term.sides is None:
            return {}
        sides = dict(zip(("inside", "outside"), self.term.sides, strict=True))
        return {name: levels.split(side) for name, side in sides.items() if side.at_levels}


def choose_patients(model: Model, patients: Among | None, *, by_site: bool = False) -> Among:
    """Return of whom levels are told: as asked for, else of held-out patients where known.

    Raises
    ------
    FedRuleFitError
        If held-out patients are asked for, and the model tells nothing of them.
    """
    known = knows_held_out(model, by_site=by_site)
    if patients == "held-out" and not known:
        raise FedRuleFitError(f"{_why_training(model)} Ask for patients='training'.")
    return patients or ("held-out" if known else "training")


def knows_held_out(model: Model, *, by_site: bool = False) -> bool:
    """Whether a level of held-out patients is told of any rule."""
    if isinstance(model.study.family.levels, MeasuredLevels):
        return not by_site and any(term.sides for term in model.rule_terms)
    return any(t.held_out_by_site if by_site else t.held_out for t in model.rule_terms)


def tells_levels(model: Model) -> bool:
    """Whether any level is told: where counts do not say it, only of held-out patients."""
    measured = isinstance(model.study.family.levels, MeasuredLevels)
    return not measured or knows_held_out(model)


def tell_patients(model: Model, patients: Among, *, by_site: bool = False) -> str:
    """Return what must stand beside such levels."""
    if not tells_levels(model):
        return _why_training(model)
    if patients == "held-out":
        words = ["Held-out patients: the rules were not learnt from them."]
        if not by_site:
            words.append("Each 95 % interval is for its own rule.")
    else:
        words = ["Patients the rules were learnt from: differences look larger than they are."]
        if not knows_held_out(model):
            words.append(_why_training(model))
    return " ".join(filter(None, [*words, tell_rows(model.study)]))


def _why_training(model: Model) -> str:
    """Return why nothing is told of held-out patients, and what to do."""
    levels = model.study.family.levels
    many, measured = levels.words.many, isinstance(levels, MeasuredLevels)
    if model.study.settings.holdout > 0:
        older = "" if measured else ", or the file was made before there were such rates"
        return f"The model tells no {many} of held-out patients: too few were held out{older}."
    return (
        "No patients were held out: with holdout = 0.2 in the study the next model tells "
        f"{many if measured else 'rates'} of patients that its rules were not learnt from."
    )


def list_subgroups(
    model: Model, patients: Among, *, top: int | None, min_support: float, by_site: bool
) -> Iterator[Subgroup]:
    """Yield the subgroups of the most important rules, each once, for whichever class it counts."""
    find = _by_site if by_site else _of_all
    first: dict[Rule, RuleTerm] = {}
    for term in model.top_rules(min_support=min_support):
        first.setdefault(term.rule, term)
    for term in list(first.values())[:top]:
        yield from find(model, term, patients)


def _of_all(model: Model, term: RuleTerm, patients: Among) -> Iterator[Subgroup]:
    """Yield the subgroup of all sites together."""
    levels = model.study.family.levels
    if patients == "training":
        origin = model.provenance
        inside = (term.inside, term.events_inside)
        subgroup = _plain(term, "", inside, (origin.patients, origin.events))
        unknown = isinstance(levels, MeasuredLevels)
        yield replace(subgroup, levels=UNKNOWN) if unknown else subgroup
        return
    if isinstance(levels, MeasuredLevels):
        if term.sides is None:
            yield Subgroup(term, "", math.nan, math.nan, UNKNOWN)
            return
        first, second = term.sides
        yield Subgroup(term, "", first.patients, second.patients, levels.compare(first, second))
        return
    judged, found = model.evaluation, term.held_out
    if judged is None or found is None:
        yield Subgroup(term, "", math.nan, math.nan, UNKNOWN)
        return
    whole = judged.total.patients, judged.total.events
    rates = contrast(*found, *whole, step=_rounding_step(model))
    yield Subgroup(term, "", found.patients, whole[0] - found.patients, rates)


def _rounding_step(model: Model) -> float:
    """Return what counts of all sites are rounded to multiples of; 0 if they are exact."""
    return 0.0 if model.rounding is None else model.rounding.step(model.study.most_weight)


def _by_site(model: Model, term: RuleTerm, patients: Among) -> Iterator[Subgroup]:
    """Yield the subgroup of each site; nothing where that is not told."""
    if isinstance(model.study.family.levels, MeasuredLevels):
        return
    origin, judged = model.provenance, model.evaluation
    sites, counts, wholes = list(origin.sites), term.by_site, list(origin.by_site)
    if patients == "held-out":
        found = {} if judged is None else judged.sites
        sites, counts = list(found), term.held_out_by_site
        wholes = [Counts(f.patients, f.events) for f in found.values()]
    if counts:
        for site, inside, whole in zip(sites, counts, wholes, strict=True):
            yield _plain(term, site, inside, whole)


def _plain(term: RuleTerm, site: str, inside: Told, whole: Told) -> Subgroup:
    """Return rates without intervals."""
    outside = tuple(
        None if part is None or all_of is None else all_of - part
        for part, all_of in zip(inside, whole, strict=True)
    )
    counts = [math.nan if patients is None else patients for patients, _ in (inside, outside)]
    first, second = rate_of(*inside), rate_of(*outside)
    none = math.nan
    rates = Contrast(first, none, none, second, none, none, first - second, none, none)
    return Subgroup(term, site, counts[0], counts[1], rates)


def tell_level(row: Row, side: str, levels: Levels, *, coarse: bool) -> tuple[str, str]:
    """Return the level on one side and its interval as text, without a unit; empty if not told.

    `row` is one of :meth:`Model.subgroups_frame`; `coarse`: of counts that are rounded.
    """
    name = f"{levels.words.level}_{side}"
    return _tell(row, name, side, (levels.write, levels.write), coarse=coarse)


def tell_gap(row: Row, levels: Levels, *, coarse: bool) -> tuple[str, str]:
    """Return what is between the levels of both sides, as :func:`tell_level` does."""
    writers, gap = (levels.write_gap, levels.write_gap_end), levels.words.gap
    return _tell(row, gap, gap, writers, coarse=coarse)


def _tell(
    row: Row, name: str, ends: str, writers: tuple[Writer, Writer], *, coarse: bool
) -> tuple[str, str]:
    value, low, high = row[name], row[f"low_{ends}"], row[f"high_{ends}"]
    write, write_end = writers
    if math.isnan(value):
        return "", ""
    told = write(value, coarse=coarse)
    if math.isnan(low):
        return told, ""
    return told, f"{write_end(low, coarse=coarse)} to {write_end(high, coarse=coarse)}"
