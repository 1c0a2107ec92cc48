"""How yes/no predictions are judged: the measures of score histograms, and their words.

What a site adds up is in :mod:`fedrulefit.core.families.yesno_sums`, the mathematics of the
measures in :mod:`fedrulefit.core.families.yesno_measures`; of several hospitals, within and
between, in :mod:`fedrulefit.core.families.yesno_within` and
:mod:`fedrulefit.core.families.yesno_hospitals`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import yesno_hospitals, yesno_published, yesno_within
from fedrulefit.core.families.hospitals import SUMMARY_COLUMNS
from fedrulefit.core.families.judge import Column, Facts, Judge, Summary
from fedrulefit.core.families.telling import tell_gaps, tell_interval, tell_known
from fedrulefit.core.families.yesno_calibration import FEWEST
from fedrulefit.core.families.yesno_measures import (
    FEWEST_RANKED,
    Decision,
    Group,
    Measures,
    bin_means,
    calibration_groups,
    decide,
    measure,
)
from fedrulefit.core.families.yesno_sums import ScoreSums, add_scores, coarsen, count_scores
from fedrulefit.core.families.yesno_within import Within, WithinSums
from fedrulefit.core.rounding import EXACT, Rounding

_HAD_OR_NOT: Final = "had, or had not, the outcome"


class YesNoJudge(Judge[ScoreSums, Measures]):
    """Yes/no outcomes are judged by histograms of the predicted probability."""

    sums = ScoreSums
    measures = Measures
    within_sums = WithinSums
    within = Within

    measure_columns = (
        Column("patients", "Patients"),
        Column("events", "With the outcome"),
        Column("auc", "AUC"),
        Column("auc_low", "AUC, 95 % interval", upto="auc_high"),
        Column("auc_bound", "AUC, most that counting in bins can shift it"),
        Column("within_auc", "AUC within hospitals"),
        Column("within_auc_low", "AUC within hospitals, 95 % interval", upto="within_auc_high"),
        Column("brier", "Brier score"),
        Column("log_loss", "Log-loss"),
        Column("slope", "Calibration slope (1 is right)"),
        Column("slope_low", "Calibration slope, 95 % interval", upto="slope_high"),
        Column("intercept", "Calibration in the large (0 is right)"),
        Column("intercept_low", "Calibration in the large, 95 % interval", upto="intercept_high"),
        Column("observed", "Observed share with the outcome", holds="rate"),
        Column("expected", "Predicted share"),
    )
    summary_columns = SUMMARY_COLUMNS
    group_columns = (
        Column("above", "Predicted risk", upto="below", holds="edge"),
        Column("predicted", "Its mean, estimated"),
        Column("observed", "Observed share", holds="rate"),
        Column("low", "95 % interval", upto="high", holds="rate"),
        Column("patients", "Patients"),
        Column("events", "With the outcome"),
    )
    decision_columns = (
        Column("threshold", "Treat from a risk of"),
        Column("sensitivity", "Sensitivity", holds="rate"),
        Column("specificity", "Specificity", holds="rate"),
        Column("ppv", "Positive predictive value", holds="rate"),
        Column("npv", "Negative predictive value", holds="rate"),
        Column("net_benefit", "Net benefit"),
        Column("treat_all", "Treating all"),
    )

    file_words: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "overall": yesno_published.MEASURE_WORDS,
        "groups": yesno_published.GROUP_WORDS,
        "within": yesno_published.WITHIN_WORDS,
    }

    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> ScoreSums:
        """Return the sums of some patients: :func:`count_scores`."""
        return count_scores(prediction, outcome, weights)

    def add(self, parts: Sequence[ScoreSums]) -> ScoreSums:
        """Add up over sites: :func:`add_scores`."""
        return add_scores(parts)

    def coarsen(self, sums: ScoreSums, least: float, *, each: bool = False) -> ScoreSums | None:
        """Merge bins below `least`, each with its mean: :func:`coarsen`.

        The edges of wide bins alone would tell too low a calibration slope.
        """
        return coarsen(replace(sums, means=bin_means(sums)), least, each=each)

    def measure(self, sums: ScoreSums) -> Measures:
        """Return all measures: :func:`measure`."""
        return measure(sums)

    def place_within(self, sums: ScoreSums, least: float) -> WithinSums:
        """Return what one site adds: :func:`yesno_within.place_within`."""
        return yesno_within.place_within(sums, least)

    def measure_within(self, total: WithinSums) -> Within | None:
        """Return the mean AUC within hospitals: :func:`yesno_within.measure_within`."""
        return yesno_within.measure_within(total)

    def summarise(self, sites: Sequence[Measures]) -> list[Summary]:
        """Return AUC and calibration over hospitals: :func:`yesno_hospitals.summarise`."""
        return yesno_hospitals.summarise(sites)

    def heterogeneity(self, sites: Sequence[Measures]) -> float:
        """Return τ of the AUCs, on the logit scale."""
        return yesno_hospitals.combine_areas(sites).tau

    def groups(
        self, sums: ScoreSums, n_groups: int, rounding: Rounding = EXACT, unit: float = 1.0
    ) -> list[Group]:
        """Return the calibration curve: :func:`calibration_groups`."""
        return calibration_groups(sums, n_groups, rounding.step(unit))

    def decisions(self, sums: ScoreSums) -> list[Decision]:
        """Return a decision for each edge between the bins, where nothing is lost by them."""
        return [decide(sums, edge) for edge in range(len(sums.edges))]

    def publish(
        self, sums: ScoreSums, measures: Measures, rounding: Rounding, unit: float
    ) -> tuple[ScoreSums, Measures] | None:
        """Return what may be published.

        Bins are merged until each holds enough patients with and enough without the outcome; their
        counts are rounded. The measures are those of the bins as they were, to three decimals.
        """
        merged = self.coarsen(sums, rounding.least(unit), each=True)
        if merged is None:
            return None
        told = measures if rounding == EXACT else self.round(measures, rounding, unit)
        return yesno_published.round_groups(merged, told, rounding, unit), told

    def write(self, sums: ScoreSums) -> Facts:
        """Return the bins as rows: :func:`yesno_published.write_groups`."""
        return yesno_published.write_groups(sums)

    def read(self, facts: Facts, measures: Measures) -> ScoreSums:
        """Return the sums of such rows: :func:`yesno_published.read_groups`."""
        return yesno_published.read_groups(facts, measures)

    def tell(self, found: Measures) -> str:
        """Return the measures in a sentence."""
        return (
            f"On {found.patients:g} patients that it was not learnt from, {found.events:g} of them "
            f"with the outcome: AUC {_tell_area(found)}, Brier score {found.brier:.3f}, "
            f"calibration slope {_tell_slope(found)}{_tell_level(found)}."
        )

    def tell_within(self, found: Measures, within: Within) -> str:
        """Return the AUC within hospitals in a sentence."""
        return yesno_within.tell_within(found, within)

    def tell_briefly(self, found: Measures) -> list[tuple[str, str]]:
        """Return the main measures as (heading, number)."""
        return [
            ("patients", f"{found.patients:g}"),
            ("events", f"{found.events:g}"),
            ("AUC (95 % CI)", _tell_area(found)),
            ("Brier", f"{found.brier:.3f}"),
            ("slope", tell_known(found.slope, 2)),
        ]

    def tell_summary(self, sites: Sequence[Measures]) -> str:
        """Return what a further hospital may see: :func:`yesno_hospitals.tell_summary`."""
        return yesno_hospitals.tell_summary(sites)

    def tell_unknown(self, found: Mapping[str, Measures]) -> str:
        """Return which measures of whom are not known, and why."""
        return tell_gaps({name: _list_gaps(measures) for name, measures in found.items()})

    def tell_span(self, sites: Sequence[Measures]) -> str:
        """Return from what to what the sites' AUCs go, in a sentence."""
        known = [found.auc for found in sites if not np.isnan(found.auc)]
        if not known:
            return "The AUC of single sites is not told: some site has too few patients."
        return f"By site the AUC is from {min(known):.3f} to {max(known):.3f}."

    def tell_heterogeneity(self, sites: Sequence[Measures]) -> str:
        """Return how much the sites' AUCs differ, in a sentence; empty where that is not known."""
        return yesno_hospitals.tell_heterogeneity(sites)


def _tell_area(found: Measures) -> str:
    """Return the AUC, with its interval where that is known."""
    return tell_interval(found.auc_low, found.auc, found.auc_high, 3)


def _tell_slope(found: Measures) -> str:
    """Return the calibration slope, with its interval where that is known."""
    return tell_interval(found.slope_low, found.slope, found.slope_high, 2)


def _tell_level(found: Measures) -> str:
    """Return how sure the intervals are, where any is known."""
    none = np.isnan(found.auc_low) and np.isnan(found.slope)
    return "" if none else "; in brackets 95 % intervals"


def _list_gaps(found: Measures) -> list[str]:
    """Return what is not known of some patients, each with the reason.

    Counts may be rounded: where they do not tell which reason it is, both are named.
    """
    fewest = min(found.events, found.patients - found.events)
    if np.isnan(found.auc):
        return ["AUC and calibration, as all patients had the outcome, or none had"]
    gaps = []
    if np.isnan(found.auc_low):
        gaps.append(f"the interval of the AUC, as fewer than {FEWEST_RANKED} {_HAD_OR_NOT}")
    if np.isnan(found.slope):
        why = f"fewer than {FEWEST} {_HAD_OR_NOT}"
        if found.auc in (0, 1):
            why = "predictions separate patients with and without the outcome, and it has no end"
        elif found.auc_bound > 0.499:
            why = "all predictions are nearly alike"
        elif fewest >= FEWEST:
            why += ", or bins of the predictions do not show that both overlap"
        gaps.append(f"the calibration slope, as {why}")
    return gaps
