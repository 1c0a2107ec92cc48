r"""The simulated patients of the paper's section 3.

Ten independent standard normal covariates, five of them informative:

.. math:: \eta_1 &= 5x_1 - 4x_2 + 3x_3 - 2x_4 + x_5, \\
          \eta_2 &= 10e^{-2x_1^2} - 10e^{-2x_2^2} + 6\sin x_3 - 4\sin x_4 + 2\sin x_5,

and :math:`y \sim \mathrm{Bernoulli}(\sigma(\eta))`. 1000 patients to learn from are
divided among clients, in one of three scenarios; 1000 more are to test on.

The patients of a repetition depend on (seed, scenario, model, repetition)
only. All settings of a scenario divide the same patients, so that they are
compared in pairs, and what needs no clients is fitted once.

Departures from the paper: in scenario 3 patients are drawn until there are
500 cases and 500 controls, and dealt out by outcome, so that prevalences
are exact (erratum 13). Test patients are not divided: every model is judged on
all of them, which in scenario 3 are half cases, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.study import Study

N_FEATURES: Final = 10
N_PATIENTS: Final = 1000
MODELS: Final[Mapping[int, str]] = {1: "linear", 2: "nonlinear"}


@dataclass(frozen=True)
class Setting:
    """How the patients are divided.

    Parameters
    ----------
    name : str
    sizes : tuple of int
        Patients of each client.
    prevalences : tuple of float, optional
        Share of cases at each client; None leaves it to chance.
    """

    name: str
    sizes: tuple[int, ...]
    prevalences: tuple[float, ...] | None = None


_FIFTHS: Final = (200,) * 5

SCENARIOS: Final[Mapping[int, tuple[Setting, ...]]] = {
    1: tuple(Setting(f"M = {m}", (N_PATIENTS // m,) * m) for m in (2, 5, 10, 20)),
    2: (
        Setting("balanced", _FIFTHS),
        Setting("moderate", (100, 150, 200, 250, 300)),
        Setting("high", (50, 100, 150, 250, 450)),
    ),
    3: (
        Setting("balanced", _FIFTHS, (0.5,) * 5),
        Setting("moderate", _FIFTHS, (0.25, 0.375, 0.5, 0.625, 0.75)),
        Setting("high", _FIFTHS, (0.125, 0.25, 0.375, 0.875, 0.875)),
    ),
}
TITLES: Final[Mapping[int, str]] = {
    1: "number of clients",
    2: "imbalance of sample sizes",
    3: "imbalance of outcomes",
}


@dataclass(frozen=True, eq=False)
class Patients:
    """Covariates (n_rows, 10) and outcomes 0/1 (n_rows,)."""

    values: Floats
    outcome: Ints


def log_odds(values: Floats, model: int) -> Floats:
    """Return η of the paper's model 1 (linear) or 2 (nonlinear), shape (n_rows,)."""
    x1, x2, x3, x4, x5 = values.T[:5]
    if model == 1:
        eta: Floats = 5 * x1 - 4 * x2 + 3 * x3 - 2 * x4 + x5
    elif model == 2:
        eta = 10 * np.exp(-2 * x1**2) - 10 * np.exp(-2 * x2**2)
        eta += 6 * np.sin(x3) - 4 * np.sin(x4) + 2 * np.sin(x5)
    else:
        raise ValueError(f"the paper has models 1 and 2, not {model}")
    return eta


def draw_patients(model: int, n_rows: int, rng: np.random.Generator) -> Patients:
    """Draw independent patients."""
    values = rng.standard_normal((n_rows, N_FEATURES))
    chance = expit(log_odds(values, model))
    return Patients(values, (rng.random(n_rows) < chance).astype(np.int64))


def draw_balanced(model: int, n_rows: int, rng: np.random.Generator) -> Patients:
    """Draw patients until half of `n_rows` are cases and half are controls."""
    half = n_rows // 2
    drawn = draw_patients(model, 2 * n_rows, rng)
    while min(np.bincount(drawn.outcome, minlength=2)) < half:
        more = draw_patients(model, n_rows, rng)
        drawn = Patients(
            np.vstack([drawn.values, more.values]), np.append(drawn.outcome, more.outcome)
        )
    kept = np.sort(np.concatenate([np.flatnonzero(drawn.outcome == c)[:half] for c in (0, 1)]))
    return Patients(drawn.values[kept], drawn.outcome[kept])


def draw_repetition(
    scenario: int, model: int, repetition: int, *, seed: int
) -> tuple[Patients, Patients]:
    """Return the patients to learn from and those to test on."""
    rng = np.random.default_rng([seed, scenario, model, repetition])
    draw = draw_balanced if scenario == 3 else draw_patients
    return draw(model, N_PATIENTS, rng), draw(model, N_PATIENTS, rng)


def assign_clients(setting: Setting, outcome: Ints) -> Ints:
    """Return the client of every patient, from 0, shape (n_rows,).

    Patients come in random order, so that clients take them one after another.
    """
    clients = np.arange(len(setting.sizes))
    if setting.prevalences is None:
        return np.repeat(clients, setting.sizes)
    cases = np.rint(np.multiply(setting.sizes, setting.prevalences)).astype(np.int64)
    assigned = np.empty(len(outcome), np.int64)
    assigned[outcome == 1] = np.repeat(clients, cases)
    assigned[outcome == 0] = np.repeat(clients, np.subtract(setting.sizes, cases))
    return assigned


@cache
def simulation_study() -> Study:
    """Return the study of the simulated patients; the public range is −4 to 4."""
    covariate = {"kind": "number", "range": [-4, 4], "complete": True}
    return Study.from_mapping(
        {
            "name": "Simulated patients",
            "synthetic": True,
            "outcome": {"column": "y"},
            "covariates": {f"x{j + 1}": covariate for j in range(N_FEATURES)},
        }
    )
