"""What is published of predicted counts, and how a model file holds it.

In: sums of predictions, and the measures that were read off them. Out: merged bins with rounded
counts, as rows of a file and back. Sums of deviances are not published: measures are. Nothing
leaves a site here.

Oracle: ``tests/unit/core/test_count_judge.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.count_measures import Measures, Scale, spread_factors
from fedrulefit.core.families.count_sums import PAIRS, CountSums
from fedrulefit.core.families.file_rows import check_ends, check_rows
from fedrulefit.core.families.judge import Facts
from fedrulefit.core.rounding import EXACT, Rounding, round_digits

MEASURE_WORDS: Final[Mapping[str, str]] = {
    "patients": "Patients judged (with weights).",
    "patients_with": "Those of them with an event.",
    "events": "Events of all of them.",
    "exposure": "Their summed exposure.",
    "ratio": "Observed over expected events; 1 is right. Like all below, null where not known.",
    "ratio_low": "Lower end of its 95 % interval; null with too few events.",
    "ratio_high": "Upper end.",
    "explained": "Share of deviance explained, D².",
    "explained_low": "Lower end of its 95 % interval.",
    "explained_high": "Upper end.",
    "deviance": "Mean Poisson deviance.",
    "mae": "Mean absolute error of a patient's count.",
    "slope": "Calibration slope; 1 is right. Null with too few events.",
    "slope_low": "Lower end of its 95 % interval.",
    "slope_high": "Upper end.",
    "dispersion": "Pearson's dispersion; 1 where counts vary as Poisson's do.",
    "observed": "Observed rate.",
    "expected": "Predicted rate.",
}

GROUP_WORDS: Final[Mapping[str, str]] = {
    "above": "The group's predicted rates are at least this.",
    "below": "And below this; those of the last may be higher.",
    "patients": "Patients.",
    "patients_with": "Those of them with an event.",
    "events": "Their events.",
    "exposure": "Their summed exposure.",
    "predicted": "Their predicted rate, by exposure.",
    "dispersion": "Pearson's dispersion among them.",
}

_DIGITS: Final = 3


def round_groups(merged: CountSums, rounding: Rounding, unit: float) -> CountSums:
    """Return merged bins as they may be published: rounded counts, and three digits of the rest."""
    rates = merged.expected / np.maximum(merged.exposures, 1e-300)
    counts = np.stack([merged.people, merged.people_with, merged.events])
    exposures, factors = merged.exposures, spread_factors(merged)
    if rounding != EXACT:
        counts = np.array([[rounding.count(x, unit) for x in part] for part in counts.tolist()])
        exposures, rates, factors = (
            np.array([round_digits(x, _DIGITS) for x in part.tolist()])
            for part in (exposures, rates, factors)
        )
    return _restore(merged, counts, exposures, rates, factors)


def _restore(
    where: CountSums, counts: Floats, exposures: Floats, rates: Floats, factors: Floats
) -> CountSums:
    """Return sums of these bins; those of deviances are not known."""
    people, people_with, events = counts
    return replace(
        where,
        people=people,
        people_with=people_with,
        events=events,
        exposures=exposures,
        expected=rates * exposures,
        pearson=people * factors,
        losses=np.full(2, np.nan),
        products=np.full(len(PAIRS), np.nan),
    )


def _tell(numbers: Floats, factor: float) -> list[float]:
    """Return numbers with as many digits as survive the way into a file and back."""
    return [float(f"{factor * x:.12g}") for x in numbers.tolist()]


def write_groups(sums: CountSums, scale: Scale) -> Facts:
    """Return published bins as rows of a model file."""
    columns = (
        _tell(sums.ends[:-1], scale.rate),
        _tell(sums.ends[1:], scale.rate),
        sums.people.tolist(),
        sums.people_with.tolist(),
        sums.events.tolist(),
        _tell(sums.exposures, scale.max_exposure),
        _tell(sums.expected / np.maximum(sums.exposures, 1e-300), scale.rate),
        _tell(spread_factors(sums), 1.0),
    )
    return {
        "groups": [dict(zip(GROUP_WORDS, row, strict=True)) for row in zip(*columns, strict=True)]
    }


def read_groups(facts: Facts, measures: Measures, scale: Scale) -> CountSums:
    """Return the sums that a model file holds; the reverse of :func:`write_groups`.

    Raises
    ------
    ValueError
        If the rows contradict themselves.
    """
    groups: Sequence[Mapping[str, Any]] = facts["groups"]
    check_rows(groups, GROUP_WORDS)
    told = {name: np.array([row[name] for row in groups]) for name in GROUP_WORDS}
    check_ends(told["above"], told["below"])
    if min(part.min() for part in told.values()) < 0:
        raise ValueError("a number of the evaluation's groups is below 0")
    counts = np.stack([told[name] for name in ("patients", "patients_with", "events")])
    blank = np.zeros(len(groups))
    where = CountSums(
        people=blank,
        people_with=blank,
        events=blank,
        exposures=blank,
        expected=blank,
        pearson=blank,
        losses=blank,
        products=blank,
        misses=float(told["patients"].sum()) * measures.mae / scale.most,
        edges=told["above"][1:] / scale.rate,
    )
    exposures, rates = told["exposure"] / scale.max_exposure, told["predicted"] / scale.rate
    return _restore(where, counts, exposures, rates, told["dispersion"])
