"""How models of all sites but one predict the patients of that one.

In: the measures of each site, by the model of the others. Out: frames of them, and of what
they tell of a further hospital. Nothing is added up over sites: each was judged by a model of
its own, and scores of different models cannot be compared. Sites have different shares of
patients with the outcome, and a site that is left out moves the others' share the other way,
so that scores of all sites together can rank patients upside down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedrulefit.core.families import Family
from fedrulefit.core.families.judge import Summary
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.model import frames

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class SiteValidation:
    """Internal–external validation: each site judged by a model that it took no part in.

    Parameters
    ----------
    sites : mapping of str to Judged
        Of each site with enough patients.
    family : Family
        Of the outcome.
    too_few : tuple of str
        Sites with too few patients with or without the outcome to tell; they are in no
        summary.
    """

    sites: Mapping[str, Any]
    family: Family
    too_few: tuple[str, ...] = ()

    def rounded(self, rounding: Rounding, unit: float = 1.0) -> SiteValidation:
        """Return what may be published of it: sites of fewer patients are named only.

        Parameters
        ----------
        rounding : Rounding
            :data:`~fedrulefit.core.rounding.EXACT` rounds nothing.
        unit : float
            The most that one patient counts.
        """
        judge, least = self.family.judge, rounding.least(unit)
        told, few = {}, list(self.too_few)
        for site, found in self.sites.items():
            if found.fewest < least:
                few.append(site)
                continue
            told[site] = found if rounding == EXACT else judge.round(found, rounding, unit)
        return replace(self, sites=told, too_few=tuple(few))

    @property
    def all_measures(self) -> Mapping[str, Any]:
        """The measures of each site that can be seen."""
        return self.sites

    def summary(self) -> Sequence[Summary]:
        """Return, by measure, the mean over hospitals and what a further one may see."""
        return self.family.judge.summarise(list(self.sites.values()))

    def metrics_frame(self) -> pd.DataFrame:
        """Return a row for each site, as its patients are predicted by the others' model.

        Columns as of :meth:`Evaluation.metrics_frame`; NaN where a site has too few patients.
        """
        return frames.validation_frame(self)

    def summary_frame(self) -> pd.DataFrame:
        """Return a row for each measure, with what the sites tell of hospitals like them.

        Columns: measure, hospitals (that it rests on), mean with its 95 % confidence interval
        ``low`` to ``high``, tau (how much hospitals differ beyond chance, on the scale that
        ``scale`` names), and the 95 % prediction interval ``new_low`` to ``new_high``: where
        the measure of a further hospital may lie. NaN with fewer than three hospitals.
        """
        return frames.summary_frame(self)

    def heterogeneity(self) -> float:
        """Return the standard deviation of the sites' AUCs beyond chance (τ)."""
        return self.family.judge.heterogeneity(list(self.sites.values()))

    def words(self) -> str:
        """Return the validation in a few sentences."""
        sites, judge = list(self.sites.values()), self.family.judge
        told = [judge.tell_span(sites), judge.tell_summary(sites)] if sites else []
        if self.too_few:
            kinds = self.family.words.with_and_without.replace(" and ", " or ")
            told.append(f"Too few patients {kinds} to tell: {', '.join(self.too_few)}.")
        return " ".join(told)
