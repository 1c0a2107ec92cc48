"""Units of work: all settings and methods on the patients of one repetition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fedrulefit.experiments.methods import (
    METHODS,
    Effort,
    Task,
    fit_method,
    method_seed,
    score,
    timed,
)
from fedrulefit.experiments.scenarios import (
    MODELS,
    SCENARIOS,
    Patients,
    Setting,
    assign_clients,
    draw_repetition,
    simulation_study,
)
from fedrulefit.experiments.units import Row

ALL: Final = "all"
"""The setting of methods that know no clients."""


@dataclass(frozen=True)
class SimulationUnit:
    """One repetition of one scenario and model."""

    scenario: int
    model: int
    repetition: int
    seed: int
    effort: Effort

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"scenario{self.scenario}-model{self.model}-{self.repetition:04d}"

    def run(self) -> list[Row]:
        """Fit and score every method in every setting."""
        train, test = draw_repetition(self.scenario, self.model, self.repetition, seed=self.seed)
        settings = SCENARIOS[self.scenario]
        pooled = [name for name, method in METHODS.items() if method.pooled]
        others = [name for name, method in METHODS.items() if not method.pooled]
        rows = [self._row(name, ALL, settings[0], train, test) for name in pooled]
        for setting in settings:
            rows += [self._row(name, setting.name, setting, train, test) for name in others]
        return rows

    def _row(
        self, method: str, label: str, setting: Setting, train: Patients, test: Patients
    ) -> Row:
        task = Task(
            train.values,
            train.outcome,
            assign_clients(setting, train.outcome),
            simulation_study(),
            method_seed(self.seed, self.scenario, self.model, self.repetition),
            self.effort,
        )
        models, seconds = timed(lambda: fit_method(method, task))
        return {
            "scenario": self.scenario,
            "model": self.model,
            "setting": label,
            "repetition": self.repetition,
            "method": method,
            **score(models, test.values, test.outcome),
            "seconds": seconds,
        }


def make_units(repetitions: int, *, seed: int, effort: Effort) -> list[SimulationUnit]:
    """Return the units, all of a repetition together."""
    return [
        SimulationUnit(scenario, model, repetition, seed, effort)
        for repetition in range(repetitions)
        for scenario in SCENARIOS
        for model in MODELS
    ]
