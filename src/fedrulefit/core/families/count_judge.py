"""How predicted counts are judged: the measures, and their words.

What a site adds up is in :mod:`fedrulefit.core.families.count_sums`, the mathematics of the
measures in :mod:`fedrulefit.core.families.count_measures`; within hospitals in
:mod:`fedrulefit.core.families.explained_within`, over several in
:mod:`fedrulefit.core.families.hospitals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import count_measures, count_published, explained_within
from fedrulefit.core.families.count_measures import FEWEST_EVENTS, Group, Measures, Scale
from fedrulefit.core.families.count_ranges import JAVASCRIPT, SHARES, find_count_range
from fedrulefit.core.families.count_sums import CountSums, add_counts, coarsen, count_events
from fedrulefit.core.families.explained_within import ExplainedSums, Within
from fedrulefit.core.families.hospitals import (
    PLAIN,
    SUMMARY_COLUMNS,
    change_across,
    changed_effect,
    combine_effects,
    plain_effect,
    tell_tau,
    tell_too_few,
)
from fedrulefit.core.families.judge import Column, Facts, Judge, Summary
from fedrulefit.core.families.telling import (
    combine_explained,
    tell_explained,
    tell_gaps,
    tell_interval,
    tell_known,
)
from fedrulefit.core.heterogeneity import FEWEST as FEWEST_HOSPITALS
from fedrulefit.core.heterogeneity import Across
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.sums import Packing
from fedrulefit.numerals import format_number, write_minus

MOST: Final = 2.0**20
"""The largest count that sums have room for."""


class CountJudge(Judge[CountSums, Measures]):
    """Counts are judged by their deviance, and by observed over expected events.

    Parameters
    ----------
    most : float
        The public largest count.
    max_exposure, per : float
        The public largest exposure, and how much of it a told rate is of: a prediction is the
        expected count of `per` exposure.
    unit, exposure_unit : str
        What is counted, and what exposure is measured in; empty where that is not said.
    """

    sums = CountSums
    measures: type[Measures] = Measures
    within_sums = ExplainedSums
    within = Within

    measure_columns: tuple[Column, ...] = (
        Column("patients", "Patients"),
        Column("patients_with", "With an event"),
        Column("events", "Events"),
        Column("exposure", "Exposure"),
        Column("ratio", "Observed over expected (1 is right)"),
        Column("ratio_low", "Observed over expected, 95 % interval", upto="ratio_high"),
        Column("explained", "Explained share of deviance, D²"),
        Column("explained_low", "D², 95 % interval", upto="explained_high"),
        Column("within_explained", "D² within hospitals"),
        Column(
            "within_explained_low",
            "D² within hospitals, 95 % interval",
            upto="within_explained_high",
        ),
        Column("deviance", "Mean deviance"),
        Column("mae", "Mean absolute error"),
        Column("slope", "Calibration slope (1 is right)"),
        Column("slope_low", "Calibration slope, 95 % interval", upto="slope_high"),
        Column("dispersion", "Dispersion (1 as Poisson's)"),
        Column("observed", "Observed rate"),
        Column("expected", "Predicted rate"),
    )
    summary_columns = SUMMARY_COLUMNS
    estimates_means = False
    measures_title = "Explained deviance and calibration"
    group_columns = (
        Column("above", "Predicted rate", upto="below", holds="edge"),
        Column("predicted", "Its mean"),
        Column("observed", "Observed rate"),
        Column("low", "95 % interval", upto="high"),
        Column("patients", "Patients"),
        Column("events", "Events"),
    )
    decision_columns = ()
    file_words: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "overall": count_published.MEASURE_WORDS,
        "groups": count_published.GROUP_WORDS,
        "within": explained_within.WITHIN_WORDS,
    }

    def __init__(
        self,
        most: float,
        max_exposure: float = 1.0,
        per: float = 1.0,
        *,
        unit: str = "",
        exposure_unit: str = "",
    ) -> None:
        if not 1 <= most <= MOST:
            raise ValueError(f"the largest count is from 1 to {MOST:.0f}")
        if not (0 < max_exposure < math.inf and 0 < per < math.inf):
            raise ValueError("exposures are above 0")
        self.scale = Scale(float(most), float(max_exposure), float(per))
        self.unit = unit
        self.exposure_unit = exposure_unit

    def packing(self) -> Packing[CountSums]:
        """Return how the numbers lie that a site sends: without an α none is about it."""
        return Packing(self.sums, {"n_θ": 0})

    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> CountSums:
        """Return the sums of some patients: :func:`count_events`.

        Parameters
        ----------
        prediction : (n_rows,) float64
            Rates, per `per` exposure.
        outcome : (n_rows, 2) float64
            Counts and exposures.
        weights : (n_rows,) float64
        """
        scale = self.scale
        return count_events(
            prediction / scale.rate,
            outcome[:, 0],
            outcome[:, 1] / scale.max_exposure,
            weights,
            scale.most,
        )

    def add(self, parts: Sequence[CountSums]) -> CountSums:
        """Add up over sites: :func:`add_counts`."""
        return add_counts(parts)

    def coarsen(self, sums: CountSums, least: float, *, each: bool = False) -> CountSums | None:
        """Merge bins below `least`: :func:`coarsen`."""
        return coarsen(sums, least, each=each)

    def measure(self, sums: CountSums) -> Measures:
        """Return all measures: :func:`count_measures.measure`."""
        return count_measures.measure(sums, self.scale)

    def place_within(self, sums: CountSums, least: float) -> ExplainedSums:
        """Return what one site adds: :func:`explained_within.place_explained`."""
        if sums.total <= 0 or float(sums.people_with.sum()) < max(least, FEWEST_EVENTS):
            return explained_within.NOBODY
        parts = count_measures.explain(sums, self.scale.most, within=True)
        return explained_within.place_explained(*parts, sums.total, least)

    def measure_within(self, total: ExplainedSums) -> Within | None:
        """Return the mean D² within hospitals: :func:`explained_within.measure_within`."""
        return explained_within.measure_within(total)

    def summarise(self, sites: Sequence[Measures]) -> list[Summary]:
        """Return D² and calibration over hospitals; ratios are averaged as logarithms."""
        _, shares = self._combine(sites)
        ratios = combine_effects(
            [changed_effect(_log, f.ratio_low, f.ratio, f.ratio_high) for f in sites]
        )
        slopes = combine_effects([plain_effect(f.slope_low, f.slope, f.slope_high) for f in sites])
        told = change_across(ratios, lambda log: float(np.exp(min(log, 700.0))))
        return [
            Summary("explained", "D²", shares, "log(1 − D²)", math.nan),
            Summary("ratio", "Observed over expected (1 is right)", told, "log", 1.0),
            Summary("slope", "Calibration slope (1 is right)", slopes, PLAIN, 1.0),
        ]

    def _combine(self, sites: Sequence[Measures]) -> tuple[Across, Across]:
        shares = [(f.explained_low, f.explained, f.explained_high) for f in sites]
        return combine_explained(shares)

    def heterogeneity(self, sites: Sequence[Measures]) -> float:
        """Return τ of D², on the scale log(1 − D²)."""
        return self._combine(sites)[0].tau

    def groups(
        self, sums: CountSums, n_groups: int, rounding: Rounding = EXACT, unit: float = 1.0
    ) -> list[Group]:
        """Return the calibration curve: :func:`count_measures.calibration_groups`."""
        step = rounding.step(unit)
        return count_measures.calibration_groups(sums, self.scale, n_groups, step)

    def decisions(self, sums: CountSums) -> list[object]:
        """Return none: nobody treats from a rate on that is not named."""
        return []

    def publish(
        self, sums: CountSums, measures: Measures, rounding: Rounding, unit: float
    ) -> tuple[CountSums, Measures] | None:
        """Return what may be published.

        Bins are merged until each holds enough patients with an event; counts are rounded. The
        measures are those of the bins as they were, to three digits.
        """
        merged = coarsen(sums, rounding.least(unit), each=True)
        if merged is None:
            return None
        told = measures if rounding == EXACT else self.round(measures, rounding, unit)
        return count_published.round_groups(merged, rounding, unit), told

    def write(self, sums: CountSums) -> Facts:
        """Return published bins as a file has them: :func:`count_published.write_groups`."""
        return count_published.write_groups(sums, self.scale)

    def read(self, facts: Facts, measures: Measures) -> CountSums:
        """Return the sums of a file: :func:`count_published.read_groups`."""
        return count_published.read_groups(facts, measures, self.scale)

    def tell(self, found: Measures) -> str:
        """Return the measures in a sentence or two."""
        what = self.unit or "events"
        known = not (math.isnan(found.ratio_low) and math.isnan(found.explained_low))
        return (
            f"On {found.patients:g} patients that it was not learnt from, with {found.events:g} "
            f"{what}: observed over expected {_tell_ratio(found)}, D² {_tell_share(found)}, "
            f"mean deviance {tell_known(found.deviance, 3)}, calibration slope "
            f"{tell_interval(found.slope_low, found.slope, found.slope_high, 2)}"
            f"{'; in brackets 95 % intervals' * known}. {self._tell_rates(found)}."
            f"{self._tell_spread(found) if known else ''}"
        )

    def _tell_spread(self, found: Measures) -> str:
        """Return how counts vary about the predictions, with a blank before it; maybe nothing."""
        if not found.dispersion > 1.1:
            return ""
        return (
            f" Counts vary {found.dispersion:.2g} times as much about the predictions as Poisson's "
            "would; intervals hold that."
        )

    def _tell_rates(self, found: Measures) -> str:
        """Return observed and predicted rate, and of how much exposure they are."""
        per = f"{format_number(self.scale.per)} {self.exposure_unit}".strip()
        of = f" per {per}" if self.exposure_unit or self.scale.per != 1 else " per patient"
        observed, expected = (format_number(x, digits=3) for x in (found.observed, found.expected))
        return f"Observed were {observed}{of}, predicted {expected}"

    range_javascript: ClassVar[str] = JAVASCRIPT

    @property
    def range_words(self) -> str:
        """Whose counts these are."""
        per = self.scale.per
        over = f" over {per:g} {self.exposure_unit}".rstrip()
        over = over if self.exposure_unit or per != 1 else ""
        return f"the number of {self.unit or 'events'} of a new patient like this one{over} lies"

    def range_facts(self, found: Measures) -> list[Any]:
        """Return the dispersion, where enough events tell it."""
        known = found.events >= FEWEST_EVENTS and math.isfinite(found.dispersion)
        return [found.dispersion] if known else []

    def spread_at(self, mean: Floats, dispersion: float) -> Floats:
        """Return variance by mean of counts of this mean, from :meth:`range_facts`, (n_rows,)."""
        return np.full(len(mean), dispersion)

    def find_ranges(
        self, found: Measures, prediction: float, tell: Callable[[float], str]
    ) -> list[tuple[int, str, str]]:
        """Return between what a new patient's count lies: :func:`find_count_range`."""
        del tell
        told = []
        for dispersion in self.range_facts(found):
            for share in SHARES:
                mean = np.array([prediction])
                ends = find_count_range(mean, self.spread_at(mean, dispersion), share / 100)
                low, high = ends[0].tolist()
                told.append((share, f"{low:.0f}", f"{high:.0f}"))
        return told

    def tell_within(self, found: Measures, within: Within) -> str:
        """Return D² within hospitals in a sentence."""
        return explained_within.tell_within(found.explained, within, "D²")

    def tell_briefly(self, found: Measures) -> list[tuple[str, str]]:
        """Return the main measures as (heading, number)."""
        return [
            ("patients", f"{found.patients:g}"),
            ("events", f"{found.events:g}"),
            ("O/E (95 % CI)", _tell_ratio(found)),
            ("D²", tell_known(found.explained, 3)),
            ("slope", tell_known(found.slope, 2)),
        ]

    def tell_summary(self, sites: Sequence[Measures]) -> str:
        """Return what a further hospital may see, in a sentence or two."""
        shares, ratios, _ = (summary.across for summary in self.summarise(sites))
        if few := tell_too_few(shares, "D²"):
            return few
        words = tell_explained(shares, "D²")
        if ratios.hospitals < FEWEST_HOSPITALS:
            return f"{words}."
        ends = f"{ratios.new_low:.2f} to {ratios.new_high:.2f}"
        return f"{words}, and observed over expected events from {ends}."

    def tell_unknown(self, found: Mapping[str, Measures]) -> str:
        """Return which measures of whom are not known, and why."""
        return tell_gaps({name: _list_gaps(measures) for name, measures in found.items()})

    def tell_span(self, sites: Sequence[Measures]) -> str:
        """Return from what to what the sites' D² go, in a sentence."""
        known = [found.explained for found in sites if not math.isnan(found.explained)]
        if not known:
            return "D² of single sites is not told: some site has too few events."
        return write_minus(f"By site D² is from {min(known):.3f} to {max(known):.3f}.")

    def tell_heterogeneity(self, sites: Sequence[Measures]) -> str:
        """Return how much the sites' D² differ, in a sentence; empty where that is not known."""
        return tell_tau(self._combine(sites)[0], "D²", "on the scale log(1 − D²)")


def _log(value: float) -> float:
    return math.log(value) if value > 0 else math.nan


def _tell_ratio(found: Measures) -> str:
    return tell_interval(found.ratio_low, found.ratio, found.ratio_high, 2)


def _tell_share(found: Measures) -> str:
    return tell_interval(found.explained_low, found.explained, found.explained_high, 3)


def _list_gaps(found: Measures) -> list[str]:
    """Return what is not known of some patients, each with the reason."""
    gaps, few = [], f"there are too few events (fewer than {FEWEST_EVENTS})"
    if math.isnan(found.explained):
        gaps.append("D², as nobody has an event, or all have the same rate")
    if math.isnan(found.ratio_low):
        gaps.append(f"the intervals of observed over expected events and of D², as {few}")
    elif math.isnan(found.explained_low) and not math.isnan(found.explained):
        gaps.append("the interval of D², as too few patients were judged")
    if math.isnan(found.slope):
        why = few if found.events < FEWEST_EVENTS else "predictions of events are nearly alike"
        gaps.append(f"the calibration slope, as {why}")
    return gaps
