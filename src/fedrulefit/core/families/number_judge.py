"""How predicted numbers are judged: the measures, in the study's unit, and their words.

What a site adds up is in :mod:`fedrulefit.core.families.number_sums`, the mathematics of the
measures in :mod:`fedrulefit.core.families.number_measures`; within hospitals in
:mod:`fedrulefit.core.families.explained_within`, over several in
:mod:`fedrulefit.core.families.hospitals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import explained_within, number_measures, number_published
from fedrulefit.core.families.explained_within import ExplainedSums, Within
from fedrulefit.core.families.hospitals import (
    PLAIN,
    SUMMARY_COLUMNS,
    combine_effects,
    plain_effect,
    tell_tau,
    tell_too_few,
)
from fedrulefit.core.families.intervals import FEWEST
from fedrulefit.core.families.judge import Column, Facts, Judge, Summary
from fedrulefit.core.families.number_measures import Group, Measures, Moments
from fedrulefit.core.families.number_sums import NumberSums, add_numbers, coarsen, count_numbers
from fedrulefit.core.families.telling import (
    combine_explained,
    join_names,
    tell_explained,
    tell_gaps,
    tell_interval,
    tell_known,
)
from fedrulefit.core.heterogeneity import FEWEST as FEWEST_HOSPITALS
from fedrulefit.core.heterogeneity import Across
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.numerals import format_number, write_minus


class NumberJudge(Judge[NumberSums, Measures]):
    """Numbers are judged by the variance that is explained, and by how far predictions are off.

    Parameters
    ----------
    low, high : float
        The public range.
    unit : str
        Of the outcome; empty where it has none.
    """

    sums = NumberSums
    measures = Measures
    within_sums = ExplainedSums
    within = Within

    measure_columns: tuple[Column, ...] = (
        Column("patients", "Patients"),
        Column("r2", "R²"),
        Column("r2_low", "R², 95 % interval", upto="r2_high"),
        Column("within_explained", "R² within hospitals"),
        Column(
            "within_explained_low",
            "R² within hospitals, 95 % interval",
            upto="within_explained_high",
        ),
        Column("rmse", "Root mean squared error"),
        Column("rmse_low", "Root mean squared error, 95 % interval", upto="rmse_high"),
        Column("mae", "Mean absolute error"),
        Column("mae_low", "Mean absolute error, 95 % interval", upto="mae_high"),
        Column("slope", "Calibration slope (1 is right)"),
        Column("slope_low", "Calibration slope, 95 % interval", upto="slope_high"),
        Column("intercept", "Calibration in the large (0 is right)"),
        Column("intercept_low", "Calibration in the large, 95 % interval", upto="intercept_high"),
        Column("observed", "Observed mean"),
        Column("expected", "Predicted mean"),
        Column("reach_80", "80 % of new patients are at most so far off"),
        Column("reach_80_bound", "Most that this is too wide (80 %)"),
        Column("reach_95", "95 % of new patients are at most so far off"),
        Column("reach_95_bound", "Most that this is too wide (95 %)"),
    )
    summary_columns = SUMMARY_COLUMNS
    group_columns: tuple[Column, ...] = (
        Column("above", "Predicted", upto="below", holds="edge"),
        Column("predicted", "Its mean"),
        Column("observed", "Observed mean"),
        Column("low", "95 % interval", upto="high"),
        Column("patients", "Patients"),
    )
    decision_columns = ()
    estimates_means = False
    measures_title = "Explained variance, errors and calibration"
    file_words: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "overall": number_published.MEASURE_WORDS,
        "groups": number_published.GROUP_WORDS,
        "sums": number_published.SUM_WORDS,
        "within": explained_within.WITHIN_WORDS,
    }

    def __init__(self, low: float, high: float, unit: str = "") -> None:
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError("the range of an outcome goes from a number to a larger one")
        self.scale = number_published.Scale((low + high) / 2, (high - low) / 2)
        self.unit = unit
        if unit:
            self.measure_columns, self.group_columns = (
                tuple(_add_unit(column, unit) for column in columns)
                for columns in (type(self).measure_columns, type(self).group_columns)
            )

    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> NumberSums:
        """Return the sums of some patients: :func:`count_numbers`."""
        middle, half = self.scale.middle, self.scale.half
        return count_numbers((prediction - middle) / half, (outcome - middle) / half, weights)

    def add(self, parts: Sequence[NumberSums]) -> NumberSums:
        """Add up over sites: :func:`add_numbers`."""
        return add_numbers(parts)

    def coarsen(self, sums: NumberSums, least: float, *, each: bool = False) -> NumberSums | None:
        """Merge bins below `least`: :func:`coarsen`; patients are of one kind."""
        return coarsen(sums, least)

    def measure(self, sums: NumberSums) -> Measures:
        """Return all measures: :func:`number_measures.measure`."""
        return number_measures.measure(sums, self.scale.middle, self.scale.half)

    def place_within(self, sums: NumberSums, least: float) -> ExplainedSums:
        """Return what one site adds: :func:`explained_within.place_explained`."""
        if sums.total <= 0:
            return explained_within.NOBODY
        parts = number_measures.explain_within(Moments.of(sums))
        return explained_within.place_explained(*parts, sums.total, least)

    def measure_within(self, total: ExplainedSums) -> Within | None:
        """Return the mean R² within hospitals: :func:`explained_within.measure_within`."""
        return explained_within.measure_within(total)

    def summarise(self, sites: Sequence[Measures]) -> list[Summary]:
        """Return R² and calibration over hospitals; R² is averaged as log(1 − R²)."""
        _, shares = self._combine(sites)
        slopes, large = (
            combine_effects([plain_effect(*ends) for ends in found])
            for found in (
                [(f.slope_low, f.slope, f.slope_high) for f in sites],
                [(f.intercept_low, f.intercept, f.intercept_high) for f in sites],
            )
        )
        return [
            Summary("r2", "R²", shares, "log(1 − R²)", math.nan),
            Summary("slope", "Calibration slope (1 is right)", slopes, PLAIN, 1.0),
            Summary("intercept", "Calibration in the large (0 is right)", large, PLAIN, 0.0),
        ]

    def _combine(self, sites: Sequence[Measures]) -> tuple[Across, Across]:
        return combine_explained([(f.r2_low, f.r2, f.r2_high) for f in sites])

    def heterogeneity(self, sites: Sequence[Measures]) -> float:
        """Return τ of R², on the scale log(1 − R²)."""
        return self._combine(sites)[0].tau

    def groups(
        self, sums: NumberSums, n_groups: int, rounding: Rounding = EXACT, unit: float = 1.0
    ) -> list[Group]:
        """Return the calibration curve: :func:`number_measures.calibration_groups`."""
        middle, half = self.scale.middle, self.scale.half
        steps = None if rounding == EXACT else number_published.step_means(sums.people, unit)
        return number_measures.calibration_groups(sums, middle, half, n_groups, steps)

    def decisions(self, sums: NumberSums) -> list[object]:
        """Return none: nobody treats from a number on that is not named."""
        return []

    def publish(
        self, sums: NumberSums, measures: Measures, rounding: Rounding, unit: float
    ) -> tuple[NumberSums, Measures] | None:
        """Return what may be published.

        Bins are merged until each holds enough patients; their counts are rounded. The measures
        are those of the bins as they were, to three digits.
        """
        merged = coarsen(sums, rounding.least(unit))
        if merged is None:
            return None
        told = measures if rounding == EXACT else self.round(measures, rounding, unit)
        return number_published.round_groups(merged, rounding, unit), told

    def write(self, sums: NumberSums) -> Facts:
        """Return published bins as a file has them: :func:`number_published.write_groups`."""
        return number_published.write_groups(sums, self.scale)

    def read(self, facts: Facts, measures: Measures) -> NumberSums:
        """Return the sums of a file: :func:`number_published.read_groups`."""
        return number_published.read_groups(facts, measures, self.scale)

    def tell(self, found: Measures) -> str:
        """Return the measures in a sentence or two."""
        told = (
            f"On {found.patients:g} patients that it was not learnt from: "
            f"R² {tell_interval(found.r2_low, found.r2, found.r2_high, 3)}, mean absolute error "
            f"{self._tell(found.mae)}, root mean squared error {self._tell(found.rmse)}, "
            f"calibration slope {tell_interval(found.slope_low, found.slope, found.slope_high, 2)}"
        )
        known = not (math.isnan(found.r2_low) and math.isnan(found.slope_low))
        return f"{told}{'; in brackets 95 % intervals' * known}.{self._tell_reach(found)}"

    def find_reaches(self, found: Measures) -> dict[int, float]:
        """Return how far 80 and 95 % of new patients are off at most, where that is known."""
        reaches = {80: found.reach_80, 95: found.reach_95}
        return {share: reach for share, reach in reaches.items() if not math.isnan(reach)}

    def _tell_reach(self, found: Measures) -> str:
        if math.isnan(found.reach_95):
            return ""
        also = f", and within {self._tell(found.reach_80)} in 80 %"
        also = "" if math.isnan(found.reach_80) else also
        return (
            f" A new patient's value lies within {self._tell(found.reach_95)} of the prediction "
            f"in 95 %{also}."
        )

    def _tell(self, value: float) -> str:
        """Return a number in the outcome's unit."""
        if math.isnan(value):
            return "not known"
        return write_minus(f"{format_number(value, digits=3)}{f' {self.unit}' * bool(self.unit)}")

    def tell_within(self, found: Measures, within: Within) -> str:
        """Return R² within hospitals in a sentence."""
        return explained_within.tell_within(found.r2, within, "R²")

    def tell_briefly(self, found: Measures) -> list[tuple[str, str]]:
        """Return the main measures as (heading, number)."""
        return [
            ("patients", f"{found.patients:g}"),
            ("R² (95 % CI)", tell_interval(found.r2_low, found.r2, found.r2_high, 3)),
            ("MAE", self._tell(found.mae)),
            ("RMSE", self._tell(found.rmse)),
            ("slope", tell_known(found.slope, 2)),
        ]

    def tell_summary(self, sites: Sequence[Measures]) -> str:
        """Return what a further hospital may see, in a sentence or two."""
        shares, slopes, _ = (summary.across for summary in self.summarise(sites))
        if few := tell_too_few(shares, "R²"):
            return few
        words = tell_explained(shares, "R²")
        if slopes.hospitals < FEWEST_HOSPITALS:
            return f"{words}."
        ends = f"{slopes.new_low:.2f} to {slopes.new_high:.2f}"
        return write_minus(f"{words}, and a calibration slope from {ends}.")

    def tell_unknown(self, found: Mapping[str, Measures]) -> str:
        """Return which measures of whom are not known, and why."""
        return tell_gaps({name: _list_gaps(measures) for name, measures in found.items()})

    def tell_span(self, sites: Sequence[Measures]) -> str:
        """Return from what to what the sites' R² go, in a sentence."""
        known = [found.r2 for found in sites if not math.isnan(found.r2)]
        if not known:
            return "R² of single sites is not told: some site has too few patients."
        return write_minus(f"By site R² is from {min(known):.3f} to {max(known):.3f}.")

    def tell_heterogeneity(self, sites: Sequence[Measures]) -> str:
        """Return how much the sites' R² differ, in a sentence; empty where that is not known."""
        return tell_tau(self._combine(sites)[0], "R²", "on the scale log(1 − R²)")


_IN_UNIT: Final = frozenset(
    {
        *("rmse", "rmse_low", "mae", "mae_low", "intercept", "intercept_low", "observed"),
        *("expected", "reach_80", "reach_80_bound", "reach_95", "reach_95_bound", "above"),
    }
)
"""Columns of numbers in the outcome's unit; of groups the first says it for all."""


def _add_unit(column: Column, unit: str) -> Column:
    """Return a column whose heading says its unit."""
    return (
        replace(column, heading=f"{column.heading}, {unit}") if column.name in _IN_UNIT else column
    )


def _list_gaps(found: Measures) -> list[str]:
    """Return what is not known of some patients, each with the reason."""
    gaps = []
    few = f"fewer than {FEWEST} patients were judged"
    if found.patients >= FEWEST:
        few = "errors are too small a part of the study's range to tell how they vary"
    if math.isnan(found.r2):
        gaps.append("R², as all outcomes are alike")
    if math.isnan(found.rmse_low):
        why = "predictions hit every outcome" if found.rmse == 0 else few
        gaps.append(f"the intervals of {join_names(['R²', 'errors'])}, as {why}")
    if math.isnan(found.slope):
        gaps.append("the calibration slope, as all predictions are alike")
    elif math.isnan(found.slope_low) and found.rmse != 0:
        gaps.append(f"the interval of the calibration slope, as {few}")
    if math.isnan(found.reach_95):
        gaps.append("how far 95 % of new patients are off, as too few patients were judged")
    return gaps
