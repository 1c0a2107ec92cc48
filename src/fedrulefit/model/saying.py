"""Sentences about a model that several pages and commands say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedrulefit.model.at_hospital import AtHospital
from fedrulefit.model.dispersed import Dispersed
from fedrulefit.model.wording import tell_missing
from fedrulefit.privacy.policy import MIN_COUNT

if TYPE_CHECKING:
    from fedrulefit.model.model import Model
    from fedrulefit.model.terms import Term


class Said(Dispersed, AtHospital):
    """What a model says of what is in it, and what is not."""

    @property
    def own_baselines(self: Model) -> float | None:  # type: ignore[misc]
        """τ, the spread of hospitals' own baselines, which are not in the model.

        None where all hospitals share one. Otherwise a prediction without a hospital's own is one
        for a new hospital, of which nothing is known (:mod:`fedrulefit.model.own_file`).
        """
        return self.study.settings.own_spread

    @property
    def tells_between(self: Model) -> bool:  # type: ignore[misc]
        """Whether it is told of any term which share of its variance lies between sites."""
        return any(term.between_sites is not None for term in self.terms)

    @property
    def stand_ins(self: Model) -> tuple[Term, ...]:  # type: ignore[misc]
        """The terms that stand for the hospital, most important first."""
        return tuple(term for term in self.terms if self.stands_for_site(term))

    @property
    def unjudged(self: Model) -> str:  # type: ignore[misc]
        """Why there is no evaluation, in words."""
        if self.study.settings.holdout > 0:
            return "Too few patients were held out to tell how well the model predicts them"
        return "No patients were held out"

    @property
    def hidden(self: Model) -> str:  # type: ignore[misc]
        """Which counts are not told, in words; empty where all are."""
        smallest = 0 if self.rounding is None else self.rounding.smallest
        if smallest < 2:
            return ""
        return (
            f"“Not told”: fewer than {smallest} patients are inside or outside the "
            f"rule{_few(self)}."
        )

    @property
    def few_held_out(self: Model) -> str:  # type: ignore[misc]
        """Of which held-out patients nothing is told even where all counts are, in words."""
        return (
            f"“Not told”: fewer than {MIN_COUNT} held-out patients are inside or outside the "
            f"rule{_few(self)}."
        )

    @property
    def of_missing(self: Model) -> str:  # type: ignore[misc]
        """What the terms make of a missing value, in sentences; empty where there is none."""
        return tell_missing(self.terms, self.grid)

    @property
    def reaches(self: Model) -> Mapping[int, float]:  # type: ignore[misc]
        """How far a new patient may be from the prediction, by percent of patients.

        As far as held-out patients tell; empty where the outcome's family knows no such reach.
        """
        judged = self.evaluation
        return {} if judged is None else judged.family.judge.find_reaches(judged.total)

    @property
    def range_facts(self: Model) -> list[Any]:  # type: ignore[misc]
        """What besides a prediction says between what a new patient's outcome lies; else empty."""
        judged = self.evaluation
        return [] if judged is None else judged.family.judge.range_facts(judged.total)

    def tell_ranges(self: Model, prediction: float) -> str:  # type: ignore[misc]
        """Return between what a new patient's outcome lies, in a sentence; empty if not known."""
        judged = self.evaluation
        if judged is None:
            return ""
        judge, tell = judged.family.judge, self.study.family.tell
        found = judge.find_ranges(judged.total, prediction, tell)
        parts = [f"from {low} to {high} in {share} %" for share, low, high in found]
        told = f"As far as held-out patients tell, {judge.range_words} {', and '.join(parts)}."
        return told if parts else ""

    @property
    def averaged(self: Model) -> str:  # type: ignore[misc]
        """How frequent values are taken to be in averages over patients, in words."""
        if self.distribution is None:
            return (
                "How frequent values are is not known here: all levels, and all ranges between "
                "a number's cut-offs, are taken as equally frequent"
            )
        return (
            "Values are as frequent as the released histograms tell, each variable "
            "independent of the others"
        )


def _few(model: Model) -> str:
    """Return whose few, beside patients, are not told of."""
    family = model.study.family
    if family.counts_events:
        return f", or {family.words.have_or_not} there"
    few = family.levels.words.few
    return f", or {few}" if few else ""
