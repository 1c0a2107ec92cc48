"""How well a model predicts patients that it was not learnt from.

In: the sums that the outcome's family judges by, over all sites, and the measures of each
site where they may be seen (:mod:`fedrulefit.core.families.judge`). Out: data frames of the
usual measures; the plots in :mod:`fedrulefit.plot` show the same frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import Family, make_family
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.sums import Packing
from fedrulefit.model import frames

if TYPE_CHECKING:
    import pandas as pd

    from fedrulefit.core.families.time_horizons import Scores

ALL_SITES: Final = "all sites"
AS_NEW: Final = "all sites, as new hospitals"
WITH_OWN: Final = "all sites, with own baselines"
_YES_NO: Final = make_family("yes/no")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model judged on patients that it was not learnt from.

    Parameters
    ----------
    overall : Sum
        Over all sites: what the family's judge adds up.
    sites : mapping of str to Judged
        Of each site; empty where only the total is told.
    measures : Judged, optional
        Over all sites, where they were taken before bins were merged.
    within : Within, optional
        How well patients of one and the same site are told apart; None where fewer than two
        sites have enough patients for that.
    judged : Rounding
        How coarse the model was when it was judged; what is rounded later was judged before.
    family : Family
        Of the outcome.
    over_time : Scores or None
        Of a time to an event: how far off risks by each horizon are.
    published : Rounding
        How its sums were rounded.
    unit : float
        The most that one patient counts.
    own : Evaluation or None
        Where sites have baselines of their own: the same patients judged once more, each with that
        of their site, from those who were learnt from. All else is without, as of new hospitals,
        but for what single sites tell of themselves (`sites`).
    """

    overall: Any
    sites: Mapping[str, Any] = field(default_factory=dict)
    measures: Any = None
    within: Any = None
    judged: Rounding = EXACT
    family: Family = _YES_NO
    over_time: Scores | None = None
    published: Rounding = EXACT
    unit: float = 1.0
    own: Evaluation | None = None

    @classmethod
    def of_predictions(
        cls,
        prediction: Floats,
        outcome: Floats,
        weights: Floats | None = None,
        family: Family = _YES_NO,
        *,
        sites: Sequence[Any] | None = None,
    ) -> Evaluation:
        """Judge predictions of patients at hand.

        Parameters
        ----------
        prediction, outcome, weights : (n_rows,) float64
        family : Family
        sites : (n_rows,), optional
            Each patient's site. With it each site is judged on its own, too, and so is how well
            patients of one and the same site are told apart.
        """
        judge = family.judge
        weights = np.ones(len(prediction)) if weights is None else weights
        if sites is None:
            return cls(judge.count(prediction, outcome, weights), family=family)
        names, place = np.unique(np.asarray(sites), return_inverse=True)
        parts = [
            judge.count(*(part[place == k] for part in (prediction, outcome, weights)))
            for k in range(len(names))
        ]
        least = EXACT.least(float(weights.max()))
        packing = Packing(judge.within_sums)
        rounded = [packing.round(judge.place_within(part, least)) for part in parts]
        return cls(
            judge.add(parts),
            {str(name): judge.measure(part) for name, part in zip(names, parts, strict=True)},
            within=judge.measure_within(packing.read(np.sum(rounded, axis=0))),
            family=family,
        )

    @property
    def total(self) -> Any:
        """The measures over all sites."""
        return self.measures or self.family.judge.measure(self.overall)

    @property
    def all_measures(self) -> Mapping[str, Any]:
        """The measures over all sites, and of each that can be seen."""
        if self.own is None:
            return {ALL_SITES: self.total, **self.sites}
        return {AS_NEW: self.total, WITH_OWN: self.own.total, **self.sites}

    def rounded(self, rounding: Rounding, unit: float = 1.0) -> Evaluation | None:
        """Return what may be published of it; None where too few patients were judged.

        What that is, the family's judge knows
        (:meth:`~fedrulefit.core.families.judge.Judge.publish`). Where one site has too few
        patients, none is told of.

        Parameters
        ----------
        rounding : Rounding
            :data:`~fedrulefit.core.rounding.EXACT` merges bins, and rounds nothing.
        unit : float
            The most that one patient counts.
        """
        judge = self.family.judge
        published = judge.publish(self.overall, self.total, rounding, unit)
        if published is None:
            return None
        sums, measures = published
        sites = dict(self.sites)
        if any(found.fewest < rounding.least(unit) for found in sites.values()):
            sites = {}
        if rounding != EXACT:
            sites = {site: judge.round(found, rounding, unit) for site, found in sites.items()}
        within = self.within and self.within.rounded(rounding, unit)
        over_time = self.over_time
        if rounding != EXACT:
            over_time = over_time and over_time.rounded()
        return replace(
            self,
            overall=sums,
            sites=sites,
            measures=measures,
            within=within,
            over_time=over_time,
            published=self.published.join(rounding),
            unit=unit,
            own=self.own and self.own.rounded(rounding, unit),
        )

    def metrics_frame(self) -> pd.DataFrame:
        """Return a row for all sites, and for each that can be seen.

        Columns, of a yes/no outcome: patients, events, auc with its 95 % interval and the bound of
        its discretisation, brier, log_loss, slope of the calibration and intercept (calibration in
        the large, for slope 1) with their 95 % intervals, observed and expected share of the
        outcome. Where several hospitals were judged, of all sites also within_auc, the mean AUC of
        patients of one and the same hospital, with within_auc_low and within_auc_high, within_sites
        and within_cases, the hospitals and patients that it rests on. NaN where a number is not
        known, of too few patients above all: ``family.judge.tell_unknown`` says why.
        """
        return frames.metrics_frame(self)

    def heterogeneity(self) -> float:
        """Return the standard deviation of the sites' AUCs beyond chance (τ).

        NaN with fewer than two sites that can be seen.
        """
        return self.family.judge.heterogeneity(list(self.sites.values()))

    def calibration_frame(self, n_groups: int = 10) -> pd.DataFrame:
        """Return the calibration curve: predicted and observed, by groups of the score.

        A group holds predictions from ``above`` to ``below``; ``predicted`` is an estimate of
        their mean. ``low`` and ``high`` are the 95 % interval of ``observed`` (Wilson's).
        """
        return frames.calibration_frame(self, n_groups)

    def levels_frame(self) -> pd.DataFrame:
        """Return a row per level of an outcome of several: how well it is told from the rest.

        Of ordered levels each but the lowest, and above it, against those below. Columns: level,
        patients at it (or above), their observed and expected share, auc, calibration slope and
        intercept with their 95 % intervals. Without rows for outcomes of other kinds.
        """
        return frames.levels_frame(self)

    def decision_frame(self) -> pd.DataFrame:
        """Return sensitivity, specificity, PPV, NPV and net benefit by threshold.

        A row for each edge between the bins, where nothing is lost by counting in bins.
        """
        return frames.decision_frame(self)

    def words(self) -> str:
        """Return the evaluation in a sentence or two."""
        judge = self.family.judge
        within = "" if self.within is None else f" {judge.tell_within(self.total, self.within)}"
        over_time = "" if self.over_time is None else f" {judge.tell_over_time(self.over_time)}"
        told = judge.tell(self.total) + within + over_time
        if self.own is None:
            return told
        own = judge.tell(self.own.total)
        return f"As patients of a new hospital: {told} With each hospital's own baseline: {own}"
