"""How predictions of several levels are judged, ordered or not, and the words for it.

What a site adds up is in :mod:`fedrulefit.core.families.levels_sums`, the mathematics of the
measures in :mod:`fedrulefit.core.families.levels_measures`; within hospitals in
:mod:`fedrulefit.core.families.levels_within`, what a model file holds in
:mod:`fedrulefit.core.families.levels_published`. Hospitals are compared by their mean areas under
the ROC curve, as for yes/no outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import levels_published, levels_within, yesno_within
from fedrulefit.core.families.areas import logit_effect
from fedrulefit.core.families.hospitals import (
    SUMMARY_COLUMNS,
    change_across,
    combine_effects,
    tell_tau,
    tell_too_few,
)
from fedrulefit.core.families.judge import Column, Facts, Judge, Summary
from fedrulefit.core.families.levels_measures import (
    LevelGroup,
    LevelRow,
    LevelsMeasures,
    group_levels,
    list_levels,
    measure_levels,
    name_splits,
)
from fedrulefit.core.families.levels_sums import (
    LevelsSums,
    add_levels,
    coarsen_levels,
    count_levels,
)
from fedrulefit.core.families.levels_within import LevelsWithinSums
from fedrulefit.core.families.positions import check_levels
from fedrulefit.core.families.telling import tell_gaps, tell_interval
from fedrulefit.core.families.yesno_judge import YesNoJudge
from fedrulefit.core.families.yesno_measures import FEWEST_RANKED
from fedrulefit.core.families.yesno_within import Within
from fedrulefit.core.heterogeneity import Across
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.sums import Packing


class LevelsJudge(Judge[LevelsSums, LevelsMeasures]):
    """Outcomes of several levels are judged by histograms of yes/no questions, the splits.

    Parameters
    ----------
    levels : sequence of str
        Three or more; where they have an order, from low to high.
    ordered : bool
    """

    sums = LevelsSums
    measures = LevelsMeasures
    within_sums = LevelsWithinSums
    within = Within

    measure_columns: tuple[Column, ...] = (
        Column("patients", "Patients"),
        Column("rarest", "At the rarest level"),
        Column("auc", "AUC, mean over levels"),
        Column("auc_low", "AUC, 95 % interval", upto="auc_high"),
        Column("auc_bound", "AUC, most that counting in bins can shift it"),
        Column("within_auc", "AUC within hospitals"),
        Column("within_auc_low", "AUC within hospitals, 95 % interval", upto="within_auc_high"),
        Column("log_loss", "Log-loss"),
        Column("explained", "Share of the log-loss explained"),
        Column("brier", "Brier score of all levels (0 to 2)"),
        Column("rps", "Ranked probability score"),
    )
    summary_columns = SUMMARY_COLUMNS
    group_columns = (
        Column("level", "Level"),
        Column("above", "Predicted probability", upto="below", holds="edge"),
        *YesNoJudge.group_columns[1:-1],
        Column("events", "At the level"),
    )
    decision_columns = ()
    level_columns: ClassVar[tuple[Column, ...]] = (
        Column("level", "Level"),
        Column("patients", "Patients at it"),
        Column("observed", "Observed share", holds="rate"),
        Column("expected", "Predicted share"),
        Column("auc", "AUC"),
        Column("auc_low", "AUC, 95 % interval", upto="auc_high"),
        Column("auc_bound", "AUC, most that counting in bins can shift it"),
        Column("slope", "Calibration slope (1 is right)"),
        Column("slope_low", "Calibration slope, 95 % interval", upto="slope_high"),
        Column("intercept", "Calibration in the large (0 is right)"),
        Column("intercept_low", "Calibration in the large, 95 % interval", upto="intercept_high"),
    )
    """Of a table of :meth:`levels_of`."""

    file_words: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "overall": levels_published.MEASURE_WORDS,
        "groups": levels_published.GROUP_WORDS,
        "sums": levels_published.SUM_WORDS,
        "within": levels_published.WITHIN_WORDS,
    }

    def __init__(self, levels: Sequence[str], *, ordered: bool) -> None:
        self.levels = check_levels(levels)
        self.ordered = ordered
        if not ordered:
            self.measure_columns = tuple(c for c in self.measure_columns if c.name != "rps")

    def packing(self) -> Packing[LevelsSums]:
        """Return how the numbers lie that a site sends."""
        return LevelsSums.packing(len(self.levels), ordered=self.ordered)

    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> LevelsSums:
        """Return the sums of some patients.

        Parameters
        ----------
        prediction : (n_rows, n_levels) float64
            The probability of each level.
        outcome : (n_rows,) float64
            The position of the level that came.
        weights : (n_rows,) float64
        """
        return count_levels(prediction, outcome, weights, ordered=self.ordered)

    def add(self, parts: Sequence[LevelsSums]) -> LevelsSums:
        """Add up over sites."""
        return add_levels(parts)

    def coarsen(self, sums: LevelsSums, least: float, *, each: bool = False) -> LevelsSums | None:
        """Merge bins below `least` in every split: :func:`coarsen_levels`."""
        return coarsen_levels(sums, least, each=each)

    def measure(self, sums: LevelsSums) -> LevelsMeasures:
        """Return all measures: :func:`measure_levels`."""
        return measure_levels(sums)

    def place_within(self, sums: LevelsSums, least: float) -> LevelsWithinSums:
        """Return what one site adds: :func:`levels_within.place_levels`."""
        return levels_within.place_levels(sums, least)

    def measure_within(self, total: LevelsWithinSums) -> Within | None:
        """Return the mean AUC within hospitals: :func:`yesno_within.measure_within`."""
        return yesno_within.measure_within(total)

    def summarise(self, sites: Sequence[LevelsMeasures]) -> list[Summary]:
        """Return the mean AUC over hospitals."""
        told = change_across(_combine_areas(sites), lambda odds: float(expit(odds)))
        return [Summary("auc", "AUC, mean over levels", told, "logit", math.nan)]

    def heterogeneity(self, sites: Sequence[LevelsMeasures]) -> float:
        """Return τ of the mean AUCs, on the logit scale."""
        return _combine_areas(sites).tau

    def groups(
        self, sums: LevelsSums, n_groups: int, rounding: Rounding = EXACT, unit: float = 1.0
    ) -> list[LevelGroup]:
        """Return the calibration curve of each split, one after another."""
        return group_levels(sums, self.levels, n_groups, rounding.step(unit))

    def levels_of(self, sums: LevelsSums) -> list[LevelRow]:
        """Return the table by level: area and calibration of each split."""
        return list_levels(sums, self.levels)

    def decisions(self, sums: LevelsSums) -> list[Any]:
        """Return none: of several levels, a threshold is of one of them."""
        del sums
        return []

    def publish(
        self, sums: LevelsSums, measures: LevelsMeasures, rounding: Rounding, unit: float
    ) -> tuple[LevelsSums, LevelsMeasures] | None:
        """Return what may be published: :func:`levels_published.publish_levels`.

        Areas are those of the bins as they were.
        """
        told = measures if rounding == EXACT else self.round(measures, rounding, unit)
        merged = levels_published.publish_levels(sums, told, rounding, unit)
        return None if merged is None else (merged, told)

    def write(self, sums: LevelsSums) -> Facts:
        """Return what a model file holds: :func:`levels_published.write_levels`."""
        return levels_published.write_levels(sums)

    def read(self, facts: Facts, measures: LevelsMeasures) -> LevelsSums:
        """Return the sums of a model file: :func:`levels_published.read_levels`."""
        return levels_published.read_levels(facts, measures, len(self.levels), ordered=self.ordered)

    def tell(self, found: LevelsMeasures) -> str:
        """Return the measures in a sentence."""
        area = _tell_area(found).replace(")", ", 95 % interval)")
        rps = f", ranked probability score {found.rps:.3f}" if self.ordered else ""
        return (
            f"On {found.patients:g} patients that it was not learnt from: AUC "
            f"{area}, the mean of {self._tell_splits()}; log-loss "
            f"{found.log_loss:.3f}{_tell_explained(found)}, Brier score {found.brier:.3f}{rps}."
        )

    def tell_within(self, found: LevelsMeasures, within: Within) -> str:
        """Return the AUC within hospitals in a sentence."""
        return levels_within.tell_within(found, within)

    def tell_briefly(self, found: LevelsMeasures) -> list[tuple[str, str]]:
        """Return the main measures as (heading, number)."""
        return [
            ("patients", f"{found.patients:g}"),
            ("AUC (95 % CI)", _tell_area(found)),
            ("log-loss", f"{found.log_loss:.3f}"),
            ("Brier", f"{found.brier:.3f}"),
            *([("RPS", f"{found.rps:.3f}")] if self.ordered else []),
        ]

    def tell_summary(self, sites: Sequence[LevelsMeasures]) -> str:
        """Return what a further hospital may see, in a sentence."""
        (areas,) = (summary.across for summary in self.summarise(sites))
        if few := tell_too_few(areas, "AUC"):
            return few
        return (
            f"Over {areas.hospitals} hospitals the AUC, itself the mean over levels, is "
            f"{areas.mean:.3f} in the mean ({areas.low:.3f} to {areas.high:.3f}, 95 % interval). A "
            f"further hospital like them may see one from {areas.new_low:.3f} to "
            f"{areas.new_high:.3f} (95 % prediction interval)."
        )

    def tell_unknown(self, found: Mapping[str, LevelsMeasures]) -> str:
        """Return which measures of whom are not known, and why."""
        return tell_gaps({name: _list_gaps(measures) for name, measures in found.items()})

    def tell_span(self, sites: Sequence[LevelsMeasures]) -> str:
        """Return from what to what the sites' AUCs go, in a sentence."""
        known = [found.auc for found in sites if not np.isnan(found.auc)]
        if not known:
            return "The AUC of single sites is not told: some site has too few patients."
        return f"By site the AUC is from {min(known):.3f} to {max(known):.3f}."

    def tell_heterogeneity(self, sites: Sequence[LevelsMeasures]) -> str:
        """Return how much the sites' AUCs differ, in a sentence; empty where that is not known."""
        return tell_tau(_combine_areas(sites), "the AUCs", "on the logit scale")

    def _tell_splits(self) -> str:
        """Return whose areas are averaged."""
        names = name_splits(self.levels, ordered=self.ordered)
        if self.ordered:
            return f"{len(names)}, of each level and above against those below"
        return f"{len(names)}, of each level against the rest"


def _combine_areas(sites: Sequence[LevelsMeasures]) -> Across:
    """Return the hospitals' mean AUCs combined, on the logit scale."""
    ends = [(found.auc_low, found.auc, found.auc_high) for found in sites]
    return combine_effects([logit_effect(*own) for own in ends])


def _tell_area(found: LevelsMeasures) -> str:
    """Return the AUC, with its interval where that is known."""
    return tell_interval(found.auc_low, found.auc, found.auc_high, 3)


def _list_gaps(found: LevelsMeasures) -> list[str]:
    """Return what is not known of some patients, with the reason."""
    if np.isnan(found.auc):
        return ["the AUC, as no patient had some level"]
    if np.isnan(found.auc_low):
        return [f"the interval of the AUC, as fewer than {FEWEST_RANKED} had some level"]
    return []


def _tell_explained(found: LevelsMeasures) -> str:
    """Return how much the log-loss is better than that of no model, in brackets."""
    if np.isnan(found.explained):
        return ""
    return f" ({100 * found.explained:.0f} % less than by the levels' shares alone)"
