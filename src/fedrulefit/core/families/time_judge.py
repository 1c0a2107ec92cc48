"""How predicted risks of times to an event are judged: measures of a table, and their words.

What a site adds up is in :mod:`fedrulefit.core.families.time_sums`, the mathematics of the
measures in :mod:`fedrulefit.core.families.time_measures`, calibration, decisions and what is
published in :mod:`fedrulefit.core.families.time_groups`; of several hospitals, within and between,
in :mod:`fedrulefit.core.families.time_within` and
:mod:`fedrulefit.core.families.time_hospitals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import time_groups, time_hospitals, time_within
from fedrulefit.core.families.file_rows import check_ends as check_ends_meet
from fedrulefit.core.families.judge import Column, Facts, Judge, Summary
from fedrulefit.core.families.survival import Timeline, tell_time
from fedrulefit.core.families.time_at_risk import check_ends
from fedrulefit.core.families.time_groups import Decision, Group, Told
from fedrulefit.core.families.time_horizons import Scores, score_over_time
from fedrulefit.core.families.time_measures import FEWEST, Measures, bin_means, measure
from fedrulefit.core.families.time_sums import TimeSums, add_times, count_times, find_times
from fedrulefit.core.families.time_within import WITHIN_WORDS, TimeWithin, TimeWithinSums
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.sums import Packing
from fedrulefit.numerals import write_minus

LEAST: Final = 5
"""No published group is of fewer patients with and without the event."""

_TOLD: Final = ("patients", "events", "risks", "errors", "above")

_MAY_LACK: Final = ("risks", "errors", "risk_above")
"""Where follow-up has a gap, nobody knows."""

_GROUP_WORDS: Final[Mapping[str, str]] = {
    "above": "The group's predicted risks are at least this.",
    "below": "And below this.",
    "predicted": "Mean predicted risk, estimated.",
    "patients": "Patients.",
    "events": "Those of them with the event.",
    "risks": "Observed risk by the last horizon, by Kaplan and Meier; null where not known.",
    "errors": "Its standard error.",
    "risk_above": "Observed risk of all patients of this group or higher ones.",
}

_MEASURE_WORDS: Final[Mapping[str, str]] = {
    "patients": "Patients judged (with weights).",
    "events": "Those of them with the event by the last horizon.",
    "concordance": "Harrell's C. Like all below, null where not known.",
    "concordance_low": "Lower end of its 95 % interval; null with too few events.",
    "concordance_high": "Upper end.",
    "concordance_bound": "The most that counting in bins can shift it.",
    "brier": "Brier score at the last horizon, by inverse probability of censoring.",
    "brier_bound": "The most that counting in bins can shift it.",
    "slope": "Calibration slope; 1 is right.",
    "slope_low": "Lower end of its 95 % interval.",
    "slope_high": "Upper end.",
    "ratio": "Observed over predicted risk by the last horizon; 1 is right.",
    "ratio_low": "Lower end of its 95 % interval.",
    "ratio_high": "Upper end.",
    "observed": "Observed risk by the last horizon, by Kaplan and Meier.",
    "expected": "Mean predicted risk.",
}


class TimeJudge(Judge[TimeSums, Measures]):
    """Times to an event are judged by a table of predicted risks and times.

    Parameters
    ----------
    cuts, horizons : sequence of float
        As of the family: public times between which patients are counted.
    unit : str
        Of time.
    """

    sums: type[TimeSums] = TimeSums
    measures: type[Measures] = Measures
    within_sums = TimeWithinSums
    within = TimeWithin
    file_words: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "overall": _MEASURE_WORDS,
        "groups": _GROUP_WORDS,
        "within": WITHIN_WORDS,
    }

    measure_columns: tuple[Column, ...] = (
        Column("patients", "Patients"),
        Column("events", "With the event"),
        Column("concordance", "Concordance (Harrell's C)"),
        Column("concordance_low", "Concordance, 95 % interval", upto="concordance_high"),
        Column("concordance_bound", "Concordance, most that counting in bins can shift it"),
        Column("within_concordance", "Concordance within hospitals"),
        Column(
            "within_concordance_low",
            "Concordance within hospitals, 95 % interval",
            upto="within_concordance_high",
        ),
        Column("brier", "Brier score"),
        Column("brier_bound", "Brier score, most that counting in bins can shift it"),
        Column("slope", "Calibration slope (1 is right)"),
        Column("slope_low", "Calibration slope, 95 % interval", upto="slope_high"),
        Column("ratio", "Observed by predicted risk (1 is right)"),
        Column("ratio_low", "Observed by predicted risk, 95 % interval", upto="ratio_high"),
        Column("observed", "Observed risk (Kaplan and Meier)", holds="rate"),
        Column("expected", "Predicted risk"),
    )
    summary_columns = (
        Column("hospitals", "Hospitals"),
        Column("mean", "Mean over hospitals"),
        Column("low", "95 % interval of the mean", upto="high"),
        Column("new_low", "A further hospital (95 % prediction interval)", upto="new_high"),
        Column("tau", "Differences beyond chance, τ"),
    )
    group_columns: tuple[Column, ...] = (
        Column("above", "Predicted risk", upto="below", holds="edge"),
        Column("predicted", "Its mean, estimated"),
        Column("observed", "Observed risk (Kaplan and Meier)", holds="rate"),
        Column("low", "95 % interval", upto="high", holds="rate"),
        Column("patients", "Patients"),
        Column("events", "With the event"),
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

    def __init__(self, cuts: Sequence[float], horizons: Sequence[float], *, unit: str = "") -> None:
        self.times = find_times(check_ends(cuts, horizons), horizons)
        self.unit = unit
        self.by = tell_time(horizons[-1], unit)

    def packing(self) -> Packing[TimeSums]:
        """Return how the numbers lie that a site sends."""
        return TimeSums.packing(self.times)

    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> TimeSums:
        """Return the sums of some patients.

        Parameters
        ----------
        prediction : (n_rows,) float64
            Predicted risk by the last horizon.
        outcome : (n_rows, 3) float64
            Entry, time and event.
        weights : (n_rows,) float64
        """
        return count_times(prediction, outcome, weights, self.times)

    def add(self, parts: Sequence[TimeSums]) -> TimeSums:
        """Add up over sites: :func:`add_times`."""
        return add_times(parts)

    def coarsen(self, sums: TimeSums, least: float, *, each: bool = False) -> TimeSums | None:
        """Merge bins below `least`: :func:`time_groups.coarsen`."""
        return time_groups.coarsen(sums, least, each=each)

    def measure(self, sums: TimeSums) -> Measures:
        """Return all measures: :func:`measure`."""
        return measure(sums)

    def score_over_time(self, sums: TimeSums, timeline: Timeline | None) -> Scores | None:
        """Return Brier scores by each horizon and over time: :func:`score_over_time`."""
        return None if timeline is None else score_over_time(sums, timeline)

    def tell_over_time(self, scores: Scores) -> str:
        """Return the Brier scores over time in a sentence."""
        told = [
            f"{_tell_number(brier, 3)} by {tell_time(time, self.unit)}"
            for time, brier in zip(scores.times, scores.brier, strict=True)
        ]
        mean = math.nan if scores.integrated is None else scores.integrated
        whole = f"{_tell_number(mean, 3)} on average over time (integrated)"
        return f"Brier score over time: {', '.join([*told, whole])}."

    def publish(
        self, sums: TimeSums, measures: Measures, rounding: Rounding, unit: float
    ) -> tuple[TimeSums, Measures] | None:
        """Return what may be published, None of too few: :func:`time_groups.publish`."""
        least = max(LEAST, rounding.smallest, rounding.multiple) * unit
        return time_groups.publish(sums, measures, least, rounding, unit, self.packing())

    def write(self, sums: TimeSums) -> Facts:
        """Return published sums as rows of a model file, one for each bin."""
        told = time_groups.tell_bins(sums, self.measure(sums))
        ends = np.concatenate([[0.0], sums.edges, [1.0]])
        columns = [ends[:-1], ends[1:], bin_means(sums), *(getattr(told, name) for name in _TOLD)]
        rows = zip(*(_list(column) for column in columns), strict=True)
        return {"groups": [dict(zip(_GROUP_WORDS, row, strict=True)) for row in rows]}

    def read(self, facts: Facts, measures: Measures) -> TimeSums:
        """Return what :meth:`write` wrote.

        Raises
        ------
        ValueError
            If it does not fit itself.
        """
        rows = facts["groups"]
        if any(row.keys() != _GROUP_WORDS.keys() for row in rows):
            raise ValueError(f"evaluation.groups: each has {', '.join(_GROUP_WORDS)}")
        parts = {name: _read(rows, name) for name in _GROUP_WORDS}
        above, below, means = (parts.pop(name) for name in ("above", "below", "predicted"))
        parts["above"] = parts.pop("risk_above")
        check_ends_meet(above, below)
        if (above[0], below[-1]) != (0, 1):
            raise ValueError("the groups of the evaluation do not go from 0 to 1")
        edges, ends = below[:-1], np.concatenate([above, below[-1:]])
        counts, events = parts["patients"], parts["events"]
        if not ((events >= 0) & (events <= counts) & (counts > 0)).all():
            raise ValueError("a group has more events than patients")
        risks = np.concatenate([parts["risks"], parts["above"]])
        if (risks < 0).any() or (risks > 1).any() or (parts["errors"] < 0).any():
            raise ValueError("a risk does not lie between 0 and 1")
        if not ((ends[:-1] <= means) & (means <= ends[1:])).all():
            raise ValueError("a mean lies outside of its group")
        return time_groups.restore(Told(**parts, measures=measures), edges, means, self.packing())

    def place_within(self, sums: TimeSums, least: float) -> TimeWithinSums:
        """Return what one site adds: :func:`time_within.place_within`."""
        return time_within.place_within(sums, least)

    def measure_within(self, total: TimeWithinSums) -> TimeWithin | None:
        """Return the mean concordance within hospitals."""
        return time_within.measure_within(total)

    def summarise(self, sites: Sequence[Measures]) -> list[Summary]:
        """Return concordance and calibration over hospitals: :func:`time_hospitals.summarise`."""
        return time_hospitals.summarise(sites)

    def heterogeneity(self, sites: Sequence[Measures]) -> float:
        """Return τ of the concordances, on the logit scale."""
        return time_hospitals.combine_concordances(sites).tau

    def groups(
        self, sums: TimeSums, n_groups: int, rounding: Rounding = EXACT, unit: float = 1.0
    ) -> list[Group]:
        """Return the calibration curve: :func:`time_groups.calibration_groups`.

        A published risk is rounded to what one patient moves it: that adds less than 2 % to its
        standard error, and nothing here.
        """
        del rounding, unit
        return time_groups.calibration_groups(sums, self.measure(sums), n_groups)

    def decisions(self, sums: TimeSums) -> list[Decision]:
        """Return a decision for each edge between the bins: :func:`time_groups.decide`."""
        return time_groups.decide(sums, self.measure(sums))

    def tell(self, found: Measures) -> str:
        """Return the measures in a sentence."""
        known = not np.isnan([found.concordance_low, found.ratio_low, found.slope_low]).all()
        return (
            f"On {found.patients:g} patients that it was not learnt from, {found.events:g} of them "
            f"with the event: concordance {_tell_concordance(found)}, Brier score by {self.by} "
            f"{_tell_number(found.brier, 3)}, calibration slope "
            f"{_tell(found.slope_low, found.slope, found.slope_high)}, observed by predicted risk "
            f"{_tell(found.ratio_low, found.ratio, found.ratio_high)}"
            f"{'; in brackets 95 % intervals' if known else ''}."
        )

    def tell_within(self, found: Measures, within: TimeWithin) -> str:
        """Return the concordance within hospitals in a sentence."""
        return time_within.tell_within(found, within)

    def tell_briefly(self, found: Measures) -> list[tuple[str, str]]:
        """Return the main measures as (heading, number)."""
        return [
            ("patients", f"{found.patients:g}"),
            ("events", f"{found.events:g}"),
            ("concordance (95 % CI)", _tell_concordance(found)),
            ("Brier", _tell_number(found.brier, 3)),
            ("slope", _tell_number(found.slope, 2)),
            ("observed/predicted", _tell_number(found.ratio, 2)),
        ]

    def tell_summary(self, sites: Sequence[Measures]) -> str:
        """Return what a further hospital may see: :func:`time_hospitals.tell_summary`."""
        return time_hospitals.tell_summary(sites)

    def tell_unknown(self, found: Mapping[str, Measures]) -> str:
        """Return which measures of whom are not known, and why."""
        gaps: dict[str, list[str]] = {}
        for name, measures in found.items():
            for gap in self._list_gaps(measures):
                gaps.setdefault(gap, []).append(name)
        return " ".join(f"Not told of {_join(names)}: {gap}." for gap, names in gaps.items())

    def tell_span(self, sites: Sequence[Measures]) -> str:
        """Return from what to what the sites' concordances go, in a sentence."""
        known = [found.concordance for found in sites if not np.isnan(found.concordance)]
        if not known:
            return "The concordance of single sites is not told: some site has too few patients."
        return f"By site the concordance is from {min(known):.3f} to {max(known):.3f}."

    def tell_heterogeneity(self, sites: Sequence[Measures]) -> str:
        """Return how much the sites' concordances differ; empty where that is not known."""
        return time_hospitals.tell_heterogeneity(sites)

    def _list_gaps(self, found: Measures) -> list[str]:
        """Return what is not known of some patients, each with the reason."""
        gaps = []
        if np.isnan(found.concordance):
            gaps.append(
                "the concordance, as nobody was followed longer than a patient with the event"
            )
        elif np.isnan(found.concordance_low):
            gaps.append(f"intervals, as there are too few events, fewer than {FEWEST}")
        if np.isnan(found.slope):
            why = f"there are too few events, fewer than {FEWEST}"
            if found.events >= FEWEST:
                why = "all predictions are nearly alike, or separate who has the event early"
            gaps.append(f"the calibration slope, as {why}")
        if np.isnan(found.ratio):
            gaps.append(f"the observed risk, as nobody was followed to {self.by}")
        if np.isnan(found.brier):
            gaps.append(f"the Brier score, as nobody was followed to {self.by} without a gap")
        return gaps


def _list(values: Floats) -> list[float | None]:
    """Return numbers as a file has them: null for one that is not known."""
    return [None if math.isnan(value) else float(value) for value in values]


def _read(rows: Sequence[Mapping[str, Any]], name: str) -> Floats:
    """Return a column of rows; NaN where it is not known, which only observed risks may be."""
    found = np.array([math.nan if row[name] is None else row[name] for row in rows])
    if np.isnan(found).any() and name not in _MAY_LACK:
        raise ValueError("a group of the predicted risk lacks a number")
    return found


def _tell_concordance(found: Measures) -> str:
    """Return the concordance, with its interval where that is known."""
    if np.isnan(found.concordance_low):
        return _tell_number(found.concordance, 3)
    low, high = found.concordance_low, found.concordance_high
    return f"{found.concordance:.3f} ({low:.3f} to {high:.3f})"


def _tell(low: float, value: float, high: float) -> str:
    """Return a number to two decimals, with its interval where that is known."""
    if np.isnan(low):
        return _tell_number(value, 2)
    return write_minus(f"{value:.2f} ({low:.2f} to {high:.2f})")


def _tell_number(value: float, digits: int) -> str:
    return "not known" if np.isnan(value) else write_minus(f"{value:.{digits}f}")


def _join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
