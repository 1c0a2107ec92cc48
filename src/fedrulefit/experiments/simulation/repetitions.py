"""Units of work: all settings and methods on the patients of one repetition.

A method's rows depend on the repetition only, not on what else is fitted. So a run may have
some methods only, and rows of an earlier run need not be made again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    import pandas as pd

ALL: Final = "all"
"""The setting of methods that know no clients."""


@dataclass(frozen=True)
class SimulationUnit:
    """One repetition of one scenario and model, with some of the methods."""

    scenario: int
    model: int
    repetition: int
    seed: int
    effort: Effort
    methods: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"scenario{self.scenario}-model{self.model}-{self.repetition:04d}"

    def run(self) -> list[Row]:
        """Fit and score every method in every setting."""
        train, test = draw_repetition(self.scenario, self.model, self.repetition, seed=self.seed)
        settings = SCENARIOS[self.scenario]
        pooled = [name for name in self.methods if METHODS[name].pooled]
        others = [name for name in self.methods if not METHODS[name].pooled]
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


def make_units(
    repetitions: int, *, seed: int, effort: Effort, methods: Collection[str] = tuple(METHODS)
) -> list[SimulationUnit]:
    """Return the units, all of a repetition together, with what is fitted of `methods`."""
    fitted = {
        scenario: tuple(n for n in METHODS if n in methods and scenario in METHODS[n].scenarios)
        for scenario in SCENARIOS
    }
    return [
        SimulationUnit(scenario, model, repetition, seed, effort, fitted[scenario])
        for repetition in range(repetitions)
        for scenario in SCENARIOS
        for model in MODELS
        if fitted[scenario]
    ]


def leave_out_known(units: list[SimulationUnit], earlier: pd.DataFrame) -> list[SimulationUnit]:
    """Return what is left to do: the units, with the methods of which `earlier` has no row."""
    key = ["scenario", "model", "repetition", "method"]
    known = set(earlier[key].itertuples(index=False, name=None))
    left = []
    for unit in units:
        place = unit.scenario, unit.model, unit.repetition
        lacking = tuple(name for name in unit.methods if (*place, name) not in known)
        if lacking:
            left.append(replace(unit, methods=lacking))
    return left
