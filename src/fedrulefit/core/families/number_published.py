"""What is published of predicted numbers, and how a model file holds it.

In: sums of predictions, and the measures that were read off them. Out: merged bins with rounded
counts, in the study's unit, as rows of a file and back. Moments are not published: measures are.
Nothing leaves a site here.

Oracle: ``tests/unit/core/test_number_judge.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.file_rows import check_ends, check_rows
from fedrulefit.core.families.judge import Facts
from fedrulefit.core.families.number_measures import Measures, spread_of
from fedrulefit.core.families.number_sums import POWERS, NumberSums
from fedrulefit.core.rounding import EXACT, Rounding, round_step, round_up_step

MEASURE_WORDS: Final[Mapping[str, str]] = {
    "patients": "Patients judged (with weights).",
    "r2": "Share of variance explained; like all below, null where it is not known.",
    "r2_low": "Lower end of its 95 % interval.",
    "r2_high": "Upper end.",
    "rmse": "Root of the mean squared error.",
    "rmse_low": "Lower end of its 95 % interval.",
    "rmse_high": "Upper end.",
    "mae": "Mean absolute error.",
    "mae_low": "Lower end of its 95 % interval.",
    "mae_high": "Upper end.",
    "slope": "Calibration slope; 1 is right.",
    "slope_low": "Lower end of its 95 % interval.",
    "slope_high": "Upper end.",
    "intercept": "Calibration in the large: mean of observed − predicted; 0 is right.",
    "intercept_low": "Lower end of its 95 % interval.",
    "intercept_high": "Upper end.",
    "observed": "Mean outcome.",
    "expected": "Mean prediction.",
    "reach_80": "A new patient's outcome is at most this far from the prediction in 80 %.",
    "reach_80_bound": "Most that this is too wide, for the bins.",
    "reach_95": "The same in 95 %.",
    "reach_95_bound": "Most that this is too wide, for the bins.",
}

GROUP_WORDS: Final[Mapping[str, str]] = {
    "above": "The group's predictions are at least this; those of the first may be lower.",
    "below": "And below this; those of the last may be higher.",
    "patients": "Patients.",
    "predicted": "Their mean prediction.",
    "observed": "Their mean outcome.",
    "spread": "Standard deviation of their outcomes.",
}

SUM_WORDS: Final[Mapping[str, str]] = {
    "error_ends": "Ends of bins of |observed − predicted|, but for 0 and the last, which has none.",
    "errors": "Patients in each of these bins.",
}


@dataclass(frozen=True)
class Scale:
    """From half ranges to the study's unit and back.

    Parameters
    ----------
    middle, half : float
        Of the public range.
    """

    middle: float
    half: float

    def tell(self, numbers: Floats) -> list[float]:
        """Return numbers in the unit, with as many digits as survive the way back."""
        return [float(f"{self.middle + self.half * x:.12g}") for x in numbers.tolist()]

    def tell_widths(self, numbers: Floats) -> list[float]:
        """Return differences in the unit."""
        return [float(f"{self.half * x:.12g}") for x in numbers.tolist()]

    def read(self, told: Sequence[float]) -> Floats:
        """Return half ranges from the middle."""
        return (np.array(told, dtype=np.float64) - self.middle) / self.half


def round_groups(merged: NumberSums, rounding: Rounding, unit: float) -> NumberSums:
    """Return merged bins as they may be published.

    Means and spreads are told no finer than one patient can move them.
    """
    people = np.maximum(merged.people, 1e-300)
    mean, predicted = merged.outcomes / people, merged.predictions / people
    spread, people, errors = spread_of(merged), merged.people, merged.errors
    if rounding != EXACT:
        people, errors = (
            np.array([rounding.count(x, unit) for x in part.tolist()]) for part in (people, errors)
        )
        steps = step_means(people, unit).tolist()
        mean, predicted, spread = (
            np.array([round_step(x, step) for x, step in zip(part.tolist(), steps, strict=True)])
            for part in (mean, predicted, spread)
        )
    return _restore(merged, people, errors, mean, predicted, spread)


def step_means(people: Floats, unit: float) -> Floats:
    """Return what means of bins are rounded to: no finer than one patient can move them."""
    return np.array([round_up_step(max(2 * unit / n, 1e-3)) for n in people.tolist()])


def _restore(
    where: NumberSums, people: Floats, errors: Floats, mean: Floats, predicted: Floats, sd: Floats
) -> NumberSums:
    """Return sums of these bins; moments are not known."""
    return replace(
        where,
        moments=np.full(len(POWERS), np.nan),
        people=people,
        errors=errors,
        outcomes=people * mean,
        predictions=people * predicted,
        squares=people * (mean**2 + sd**2),
    )


def write_groups(sums: NumberSums, scale: Scale) -> Facts:
    """Return published bins as a model file has them."""
    people = np.maximum(sums.people, 1e-300)
    columns = (
        scale.tell(sums.ends[:-1]),
        scale.tell(sums.ends[1:]),
        sums.people.tolist(),
        scale.tell(sums.predictions / people),
        scale.tell(sums.outcomes / people),
        scale.tell_widths(spread_of(sums)),
    )
    return {
        "groups": [dict(zip(GROUP_WORDS, row, strict=True)) for row in zip(*columns, strict=True)],
        "sums": {
            "error_ends": scale.tell_widths(sums.error_edges),
            "errors": sums.errors.tolist(),
        },
    }


def read_groups(facts: Facts, measures: Measures, scale: Scale) -> NumberSums:
    """Return the sums that a model file holds; the reverse of :func:`write_groups`.

    Raises
    ------
    ValueError
        If the file contradicts itself.
    """
    groups: Sequence[Mapping[str, Any]] = facts["groups"]
    check_rows(groups, GROUP_WORDS)
    told = {name: np.array([row[name] for row in groups]) for name in GROUP_WORDS}
    errors, error_ends = (_read_list(facts["sums"], name) for name in ("errors", "error_ends"))
    check_ends(told["above"], told["below"])
    if (np.diff(error_ends) <= 0).any():
        raise ValueError("the bins of errors do not grow")
    if len(errors) != len(error_ends) + 1 or min(errors.min(), told["patients"].min()) < 0:
        raise ValueError("the counts of the evaluation do not fit its groups")
    blank = np.zeros(len(groups))
    where = NumberSums(
        moments=np.empty(0),
        misses=float(told["patients"].sum()) * measures.mae / scale.half,
        people=blank,
        outcomes=blank,
        squares=blank,
        predictions=blank,
        errors=errors,
        edges=scale.read(told["above"][1:].tolist()),
        error_edges=error_ends / scale.half,
    )
    mean, predicted = (scale.read(told[name].tolist()) for name in ("observed", "predicted"))
    sd = told["spread"] / scale.half
    return _restore(where, told["patients"], errors, mean, predicted, sd)


def _read_list(facts: Mapping[str, Any], name: str) -> Floats:
    """Return a list of numbers of a model file."""
    if not isinstance(facts.get(name), list):
        raise ValueError(f"evaluation.sums.{name}: a list of numbers")
    return np.array(facts[name], dtype=np.float64)
