"""Public ranges: those of well-known measures, and round ones well beyond a table's values.

A lowest or highest value of a column is a patient's value, so no range is read off the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_MARGIN: Final = 0.1


@dataclass(frozen=True)
class Measure:
    """A well-known measure: its public range and unit."""

    low: float
    high: float
    unit: str


KNOWN: Final[Mapping[str, Measure]] = {
    **dict.fromkeys(("age", "ageyears", "ageatadmission"), Measure(0, 110, "years")),
    **dict.fromkeys(("alter", "leeftijd", "âge", "età", "edad", "idade"), Measure(0, 110, "years")),
    **dict.fromkeys(("gcs", "gcstotal", "glasgowcomascale"), Measure(3, 15, "")),
    **dict.fromkeys(("iss", "injuryseverityscore"), Measure(1, 75, "")),
    **dict.fromkeys(("sbp", "systolic", "systolicbp", "sysbp"), Measure(40, 300, "mmHg")),
    **dict.fromkeys(("dbp", "diastolic", "diastolicbp", "diabp"), Measure(20, 200, "mmHg")),
    **dict.fromkeys(("hr", "heartrate", "pulse"), Measure(20, 300, "/min")),
    **dict.fromkeys(("rr", "resprate", "respiratoryrate"), Measure(0, 80, "/min")),
    **dict.fromkeys(("temp", "temperature", "bodytemperature"), Measure(25, 45, "°C")),
    **dict.fromkeys(("spo2", "sao2"), Measure(0, 100, "%")),
    "bmi": Measure(10, 80, "kg/m²"),
    "nihss": Measure(0, 42, ""),
    "sofa": Measure(0, 24, ""),
    "apgar": Measure(0, 10, ""),
    "ph": Measure(6.5, 8, ""),
}
"""By name as :func:`~fedrulefit.table.header.fold` gives it. Nothing whose unit differs between
hospitals (glucose, creatinine, haemoglobin) is here."""


def widen(lowest: float, highest: float) -> tuple[float, float]:
    """Return bounds that lie well beyond the data and are 0 or 1, 2, 5 × a power of ten."""
    if highest <= 0:
        low, high = widen(-highest, -lowest)
        return -high, -low
    high = _round_up(highest * (1 + _MARGIN))
    if lowest < 0:
        return -_round_up(-lowest * (1 + _MARGIN)), high
    low = 0.0 if lowest < highest / 2 else round_down(lowest * (1 - _MARGIN))
    return low, high


def _round_up(x: float) -> float:
    power = 10.0 ** math.floor(math.log10(x))
    return next(float(f"{m * power:g}") for m in (1, 2, 5, 10, 20) if m * power >= x)


def round_down(x: float) -> float:
    """Return the largest of 1, 2, 5 × a power of ten that is not above `x`, a number above 0."""
    power = 10.0 ** math.floor(math.log10(x))
    return next(float(f"{m * power:g}") for m in (5, 2, 1, 0.5) if m * power <= x)
