"""How predicted risks of a cause are judged where others compete with it: measures, and words.

What a site adds up is in :mod:`fedrulefit.core.families.competing_sums`, the mathematics of the
measures in :mod:`fedrulefit.core.families.competing_measures`. All else, calibration, decisions,
what is published and what is within hospitals, is as for times to an event of one cause
(:mod:`fedrulefit.core.families.time_judge`), with Aalen and Johansen's cumulative incidence in
place of one minus Kaplan and Meier's curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.competing_measures import (
    CauseMeasures,
    measure_causes,
    score_by_horizon,
)
from fedrulefit.core.families.competing_sums import CompetingSums, count_causes
from fedrulefit.core.families.judge import Column
from fedrulefit.core.families.survival import Timeline, tell_time
from fedrulefit.core.families.time_horizons import Scores
from fedrulefit.core.families.time_judge import TimeJudge
from fedrulefit.core.families.time_measures import Measures
from fedrulefit.core.families.time_sums import TimeSums
from fedrulefit.core.families.time_within import WITHIN_WORDS
from fedrulefit.core.sums import Packing
from fedrulefit.numerals import write_minus

_KAPLAN: Final = "Kaplan and Meier"
_AALEN: Final = "Aalen and Johansen"

_WORDS: Final[Mapping[str, str]] = {
    "events": "Those of them with the event of interest by the last horizon.",
    "concordance": "Wolbers' C. Like all below, null where not known.",
    "brier": "Brier score at the last horizon, by inverse probability of censoring; competing "
    "events are known non-events.",
    "slope": "Calibration slope on the subdistribution (Fine and Gray); 1 is right.",
    "competing": "Patients with a competing event by the last horizon.",
}


def _rename(words: Mapping[str, str]) -> dict[str, str]:
    return {name: told.replace(_KAPLAN, _AALEN) for name, told in words.items()}


def _name(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns with the names of what they hold here."""
    return tuple(
        replace(
            column,
            heading=column.heading.replace(_KAPLAN, _AALEN).replace("Harrell's", "Wolbers'"),
        )
        for column in columns
    )


class CompetingJudge(TimeJudge):
    """Times to events of several causes are judged by the risk of the first of them.

    Parameters
    ----------
    cuts, horizons : sequence of float
        As of the family.
    causes : sequence of str
        The one of interest first.
    unit : str
        Of time.
    """

    sums: type[TimeSums] = CompetingSums
    measures: type[Measures] = CauseMeasures
    file_words: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "overall": {**_rename(TimeJudge.file_words["overall"]), **_WORDS},
        "groups": _rename(TimeJudge.file_words["groups"]),
        "within": WITHIN_WORDS,
    }
    measure_columns = (
        *_name(TimeJudge.measure_columns[:2]),
        Column("competing", "With a competing event"),
        *_name(TimeJudge.measure_columns[2:]),
    )
    group_columns = _name(TimeJudge.group_columns)

    def __init__(
        self,
        cuts: Sequence[float],
        horizons: Sequence[float],
        causes: Sequence[str],
        *,
        unit: str = "",
    ) -> None:
        super().__init__(cuts, horizons, unit=unit)
        self.horizons, self.causes = tuple(horizons), tuple(causes)

    def packing(self) -> Packing[Any]:
        """Return how the numbers lie that a site sends."""
        return CompetingSums.of_horizons(self.times, self.horizons)

    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> CompetingSums:
        """Return the sums of some patients.

        Parameters
        ----------
        prediction : (n_rows, n_horizons) float64
            Predicted risk of the first cause by each horizon.
        outcome : (n_rows, 3) float64
            Entry, time and cause (0 for none).
        weights : (n_rows,) float64
        """
        return count_causes(prediction, outcome, weights, self.packing())

    def measure(self, sums: TimeSums) -> CauseMeasures:
        """Return all measures: :func:`measure_causes`."""
        return measure_causes(sums)  # type: ignore[arg-type]

    def score_over_time(self, sums: TimeSums, timeline: Timeline | None) -> Scores | None:
        """Return Brier scores and risks by each horizon: :func:`score_by_horizon`."""
        del timeline
        return score_by_horizon(sums)  # type: ignore[arg-type]

    def tell_over_time(self, scores: Scores) -> str:
        """Return risks and Brier scores by each horizon in a sentence."""
        rows = zip(scores.times, scores.brier, scores.observed, scores.expected, strict=True)
        told = [
            f"by {tell_time(time, self.unit)} {100 * observed:.1f} % observed and "
            f"{100 * expected:.1f} % predicted, Brier score {brier:.3f}"
            for time, brier, observed, expected in rows
        ]
        return f"Risk of {self.causes[0]} {'; '.join(told)}."

    def tell(self, found: Measures) -> str:
        """Return the measures in a sentence."""
        told = super().tell(found)
        competing = getattr(found, "competing", np.nan)
        if np.isnan(competing):
            return told
        more = f"with the event {self.causes[0]} and {competing:g} with a competing one:"
        return write_minus(told.replace("with the event:", more, 1))

    def _list_gaps(self, found: Measures) -> list[str]:
        """Return what is not known of some patients, each with the reason."""
        start = "the calibration slope, as "
        why = "patients came under observation late, or all predictions are nearly alike"
        return [
            f"{start}{why}" if gap.startswith(start) and "too few" not in gap else gap
            for gap in super()._list_gaps(found)
        ]
