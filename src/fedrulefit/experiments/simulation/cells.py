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
    """The rows by place and method; methods on pooled data are in every setting.

    A method may have fewer repetitions than others: differences are of those that both have.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        ordered = rows.sort_values("repetition", kind="stable").set_index("repetition")
        self._parts = dict(iter(ordered.groupby(CELL)))

    def has(self, place: Place, method: str) -> bool:
        """Whether a method was run at a place."""
        return self._key(place, method) in self._parts

    def values(self, place: Place, method: str, column: str | None = None) -> Floats:
        """Return one number per repetition: the place's metric, or another column."""
        return np.asarray(self._column(place, method, column), np.float64)

    def mean(self, place: Place, method: str, column: str | None = None) -> Mean:
        """Return the mean of :meth:`values`."""
        return Mean.of(self.values(place, method, column))

    def gap(self, place: Place, method: str, other: str) -> Mean:
        """Return the mean difference between two methods on the same patients."""
        return _paired(self._column(place, method), self._column(place, other))

    def fall(self, high: Place, low: Place, method: str) -> Mean:
        """Return by how much a method falls between two settings of the same patients."""
        return _paired(self._column(high, method), self._column(low, method))

    def _column(self, place: Place, method: str, column: str | None = None) -> pd.Series[float]:
        found: pd.Series[float] = self._parts[self._key(place, method)][column or place.metric]
        return found

    def _key(self, place: Place, method: str) -> tuple[int, int, str, str]:
        setting = ALL if METHODS[method].pooled else place.setting
        return place.scenario, place.model, setting, method


def _paired(one: pd.Series[float], other: pd.Series[float]) -> Mean:
    both = one.index.intersection(other.index)
    return Mean.of(np.asarray(one[both] - other[both], np.float64))


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
    """Return the metric of centralised RuleFit in every row's repetition, NaN where not run."""
    import pandas as pd

    key = ["scenario", "model", "repetition"]
    reference = rows[rows["method"] == REFERENCE].set_index(key)[metric]
    found: pd.Series[float] = reference.reindex(pd.MultiIndex.from_frame(rows[key]))
    return found.set_axis(rows.index)
