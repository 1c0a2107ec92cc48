"""Units of work: all numbers of bins and quantiles on the patients of one repetition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.grid import Grid
from fedrulefit.estimators import FederatedRuleFitClassifier
from fedrulefit.estimators.grids import pooled_grid
from fedrulefit.experiments.methods import METRICS, Effort, method_seed, score, timed
from fedrulefit.experiments.scenarios import (
    MODELS,
    SCENARIOS,
    assign_clients,
    draw_repetition,
    simulation_study,
)
from fedrulefit.experiments.units import Row
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

if TYPE_CHECKING:
    pass

BINS: Final = (20, 50, 100)

QUANTILES: Final = (5, 10, 20, 50)

NONE: Final = (0, 0)
"""Bins and quantiles of the run without histograms."""

OWN: Final = (-1, -1)
"""Bins and quantiles where every client splits at values of its own."""

CHOSEN: Final = (100, 20)
"""Bins and quantiles of the paper's main runs (erratum 15)."""

_SCENARIO: Final = 1

_SETTING: Final = next(s for s in SCENARIOS[_SCENARIO] if s.name == "M = 5")

SHOWN: Final = {**METRICS, "seconds": "Seconds", "rules": "Rules", "candidates": "Candidates"}


class ExactCutoffsClassifier(FederatedRuleFitClassifier):
    """Federated RuleFit with cut-offs from the pooled values: no histogram, no noise."""

    def _grid(self, table: Table, study: Study) -> Grid:
        return pooled_grid(table, study)


@dataclass(frozen=True)
class CutoffsUnit:
    """One repetition of one model: all numbers of bins and quantiles."""

    model: int
    repetition: int
    seed: int
    effort: Effort

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"model{self.model}-{self.repetition:04d}"

    def run(self) -> list[Row]:
        """Fit and score with every histogram, and with none."""
        # Each repetition begins with another: a cold start costs all of them alike.
        points = [NONE, *((bins, quantiles) for bins in BINS for quantiles in QUANTILES)]
        first = self.repetition % len(points)
        rows = [self._row(*point) for point in (*points[first:], *points[:first])]
        return [*rows, self.count_own()]

    def _row(self, bins: int, quantiles: int) -> Row:
        train, test = draw_repetition(_SCENARIO, self.model, self.repetition, seed=self.seed)
        if (bins, quantiles) == NONE:
            model = self._exact()
        else:
            model = FederatedRuleFitClassifier(
                n_bins=bins,
                n_cutoffs=quantiles,
                unsafe_noise_seed=self._settings["random_state"],
                **self._settings,
            )
        clients = assign_clients(_SETTING, train.outcome)
        _, seconds = timed(lambda: model.fit(train.values, train.outcome, sites=clients))
        return {
            "model": self.model,
            "bins": bins,
            "quantiles": quantiles,
            "repetition": self.repetition,
            **score([model], test.values, test.outcome),
            "candidates": float(model.model_.provenance.candidates),
            "seconds": seconds,
        }

    def count_own(self) -> Row:
        """Count the rules of clients that split at values of their own, and so share none."""
        train, _ = draw_repetition(_SCENARIO, self.model, self.repetition, seed=self.seed)
        clients = assign_clients(_SETTING, train.outcome)
        candidates = 0
        for client in np.unique(clients):
            own = clients == client
            model = self._exact().set_params(rounds=1)
            # Under its own name: the trees have as many leaves as in the other runs.
            model.fit(train.values[own], train.outcome[own], sites=clients[own])
            candidates += model.model_.provenance.candidates
        return {
            **dict.fromkeys(SHOWN, float("nan")),
            "model": self.model,
            "bins": OWN[0],
            "quantiles": OWN[1],
            "repetition": self.repetition,
            "candidates": float(candidates),
        }

    def _exact(self) -> ExactCutoffsClassifier:
        return ExactCutoffsClassifier(noise=False, n_cutoffs=MAX_CODES - 1, **self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "study": simulation_study(),
            "preset": "paper",
            "random_state": method_seed(self.seed, _SCENARIO, self.model, self.repetition),
            **self.effort.fedda,
        }


def make_units(repetitions: int, *, seed: int, effort: Effort) -> list[CutoffsUnit]:
    """Return the units, both models of a repetition together."""
    return [
        CutoffsUnit(model, repetition, seed, effort)
        for repetition in range(repetitions)
        for model in MODELS
    ]
