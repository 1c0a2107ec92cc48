"""The rows by place: scenario, model, setting and metric.

In: rows of all repetitions. Out: means over them, with their Monte-Carlo errors, of one
method or of the difference between two on the same patients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.experiments.claims import Mean
from fedrulefit.experiments.methods import METHODS, METRICS, REFERENCE
from fedrulefit.experiments.scenarios import MODELS, SCENARIOS
from fedrulefit.experiments.simulation.repetitions import ALL

if TYPE_CHECKING:
    import pandas as pd

CELL: Final = ["scenario", "model", "setting", "method"]


@dataclass(frozen=True)
class Place:
    """Where a number stands."""

    scenario: int
    model: int
    setting: str
    metric: str

    def words(self) -> str:
        """Return the place in words."""
        place = f"scenario {self.scenario}, {self.setting}, model {self.model}"
        return f"{METRICS[self.metric]}, {place}"


class Cells:
    """The rows by place and method; methods on pooled data are in every setting."""

    def __init__(self, rows: pd.DataFrame) -> None:
        ordered = rows.sort_values("repetition", kind="stable")
        self._parts = dict(iter(ordered.groupby(CELL)))

    def values(self, place: Place, method: str, column: str | None = None) -> Floats:
        """Return one number per repetition: the place's metric, or another column."""
        setting = ALL if METHODS[method].pooled else place.setting
        part = self._parts[place.scenario, place.model, setting, method]
        return part[column or place.metric].to_numpy(np.float64)

    def mean(self, place: Place, method: str, column: str | None = None) -> Mean:
        """Return the mean of :meth:`values`."""
        return Mean.of(self.values(place, method, column))

    def gap(self, place: Place, method: str, other: str) -> Mean:
        """Return the mean difference between two methods on the same patients."""
        return Mean.of(self.values(place, method) - self.values(place, other))

    def fall(self, high: Place, low: Place, method: str) -> Mean:
        """Return by how much a method falls between two settings of the same patients."""
        return Mean.of(self.values(high, method) - self.values(low, method))


def list_places(
    scenarios: Sequence[int] = tuple(SCENARIOS),
    models: Sequence[int] = tuple(MODELS),
    metrics: Sequence[str] = tuple(METRICS),
) -> list[Place]:
    """Return all places of some scenarios, models and metrics."""
    return [
        Place(scenario, model, setting.name, metric)
        for scenario in scenarios
        for model in models
        for setting in SCENARIOS[scenario]
        for metric in metrics
    ]


def reference_values(rows: pd.DataFrame, metric: str) -> pd.Series[float]:
    """Return the metric of centralised RuleFit in every row's repetition."""
    key = ["scenario", "model", "repetition"]
    reference = rows[rows["method"] == REFERENCE].set_index(key)[metric]
    found: pd.Series[float] = reference.loc[list(rows[key].itertuples(index=False))]
    return found.set_axis(rows.index)
