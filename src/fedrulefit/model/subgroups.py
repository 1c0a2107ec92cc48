"""Outcome rates inside and outside rules: of whom, and in which words.

In: a model. Out: rows for people, and the sentence without which they mislead: whether they are
of patients that were held out, or of those that the rules were learnt from. The mathematics is
in :mod:`fedrulefit.core.subgroups`. NaN stands for what is not told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from fedrulefit.core.subgroups import UNKNOWN, Contrast, contrast
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model.terms import Counts, RuleTerm, Told, rate_of
from fedrulefit.model.wording import tell_rows

if TYPE_CHECKING:
    from fedrulefit.model.model import Model

Among = Literal["held-out", "training"]
"""Of which patients rates are told."""

NAMES: Final[dict[Among, str]] = {
    "held-out": "held-out patients",
    "training": "training patients",
}


@dataclass(frozen=True)
class Subgroup:
    """Patients and outcome rates inside and outside a rule.

    Parameters
    ----------
    term : RuleTerm
    site : str
        Empty for all sites together.
    inside, outside : float
        Patients.
    rates : Contrast
        Without intervals for training patients, and for one site: there none would hold.
    """

    term: RuleTerm
    site: str
    inside: float
    outside: float
    rates: Contrast


def choose_patients(model: Model, patients: Among | None, *, by_site: bool = False) -> Among:
    """Return of whom rates are told: as asked for, else of held-out patients where they are known.

    Raises
    ------
    FedRuleFitError
        If held-out patients are asked for, and the model tells nothing of them.
    """
    known = any(t.held_out_by_site if by_site else t.held_out for t in model.rule_terms)
    if patients == "held-out" and not known:
        raise FedRuleFitError(f"{_why_training(model)} Ask for patients='training'.")
    return patients or ("held-out" if known else "training")


def tell_patients(model: Model, patients: Among, *, by_site: bool = False) -> str:
    """Return what must stand beside such rates."""
    if patients == "held-out":
        words = ["Held-out patients: the rules were not learnt from them."]
        if not by_site:
            words.append("Each 95 % interval is for its own rule.")
    else:
        words = ["Patients the rules were learnt from: differences look larger than they are."]
        if not any(term.held_out for term in model.rule_terms):
            words.append(_why_training(model))
    return " ".join(filter(None, [*words, tell_rows(model.study)]))


def _why_training(model: Model) -> str:
    """Return why nothing is told of held-out patients, and what to do."""
    if model.study.settings.holdout > 0:
        return (
            "The model tells no outcome rates of held-out patients: too few were held out, or "
            "the file was made before there were such rates."
        )
    return (
        "No patients were held out: with holdout = 0.2 in the study the next model tells "
        "rates of patients that its rules were not learnt from."
    )


def list_subgroups(
    model: Model, patients: Among, *, top: int | None, min_support: float, by_site: bool
) -> Iterator[Subgroup]:
    """Yield the subgroups of the most important rules."""
    find = _by_site if by_site else _of_all
    for term in model.top_rules(top=top, min_support=min_support):
        yield from find(model, term, patients)


def _of_all(model: Model, term: RuleTerm, patients: Among) -> Iterator[Subgroup]:
    """Yield the subgroup of all sites together."""
    if patients == "training":
        origin = model.provenance
        inside = (term.inside, term.events_inside)
        yield _plain(term, "", inside, (origin.patients, origin.events))
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
    multiple = 1 if model.rounding is None else model.rounding.multiple
    return multiple * model.study.most_weight if multiple > 1 else 0.0


def _by_site(model: Model, term: RuleTerm, patients: Among) -> Iterator[Subgroup]:
    """Yield the subgroup of each site; nothing where that is not told."""
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
