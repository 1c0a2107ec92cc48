"""Units of work: all methods on one split of the patients; and the models of all patients.

BFI gets age, ISS and GCS standardised by the training patients, sex as it is, as in
the examples of its R package. Its importance of a covariate is |coefficient| ·
standard deviation, as for a linear term of RuleFit.

The noise of the histograms is drawn from the seed, so that a run can be
repeated; a real study would not do that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.baselines.bfi import BFIClassifier
from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.experiments.methods import (
    OURS,
    PROPOSED,
    Effort,
    Task,
    fit_method,
    method_seed,
    score,
    timed,
)
from fedrulefit.experiments.trauma.patients import COLUMNS, trauma_study
from fedrulefit.experiments.trauma.separation import separate
from fedrulefit.experiments.units import Row
from fedrulefit.model import Model

if TYPE_CHECKING:
    import pandas as pd

COVARIATES: Final = trauma_study().names

COMPARED: Final = (PROPOSED, OURS, "bfi")

TRAINING: Final = 0.7


@dataclass(frozen=True)
class TraumaUnit:
    """One split of the patients.

    Parameters
    ----------
    repetition, seed : int
    effort : Effort
    patients : tuple of tuple of int
        The table, row by row, in the order of :data:`COLUMNS`.
    """

    repetition: int
    seed: int
    effort: Effort
    patients: tuple[tuple[int, ...], ...]

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"split-{self.repetition:04d}"

    def run(self) -> list[Row]:
        """Fit and score every method on the split."""
        table = np.array(self.patients)
        train = split_within(table[:, 0], np.random.default_rng([self.seed, self.repetition]))
        seed = method_seed(self.seed, self.repetition)
        return [self._row(method, table, train, seed) for method in COMPARED]

    def _row(self, method: str, table: Any, train: Bools, seed: int) -> Row:
        values, outcome = _values(table), table[:, -1]
        if method == "bfi":
            values = standardise(values, train)
        task = Task(
            values[train], outcome[train], table[train, 0], trauma_study(), seed, self.effort
        )
        (model,), seconds = timed(lambda: fit_method(method, task))
        importance = importances(model, values[train])
        return {
            "repetition": self.repetition,
            "method": method,
            **score([model], values[~train], outcome[~train]),
            **dict(zip(COVARIATES, importance, strict=True)),
            **({} if method == "bfi" else separate(model.model_, values, outcome, train)),
            "n_train": int(train.sum()),
            "n_test": int((~train).sum()),
            "seconds": seconds,
        }


def make_units(
    repetitions: int, *, seed: int, effort: Effort, patients: pd.DataFrame
) -> list[TraumaUnit]:
    """Return one unit per split."""
    rows = tuple(patients[list(COLUMNS)].itertuples(index=False, name=None))
    return [TraumaUnit(repetition, seed, effort, rows) for repetition in range(repetitions)]


def fit_all(patients: pd.DataFrame, *, seed: int, effort: Effort) -> dict[str, Model]:
    """Return the models of all patients: with the paper's settings, and with ours."""
    table = patients[list(COLUMNS)].to_numpy()
    task = Task(
        _values(table), table[:, -1], table[:, 0], trauma_study(), method_seed(seed), effort
    )
    return {name: fit_method(name, task)[0].model_ for name in (PROPOSED, OURS)}


def split_within(sites: Any, rng: np.random.Generator) -> Bools:
    """Return who is in the training set: 70 % of every site, shape (n_rows,)."""
    train = np.zeros(len(sites), np.bool_)
    for site in np.unique(sites):
        members = rng.permutation(np.flatnonzero(sites == site))
        train[members[: round(TRAINING * len(members))]] = True
    return train


def standardise(values: Floats, train: Bools) -> Floats:
    """Return numbers minus their training mean over their training SD; sex as it is."""
    scaled: Floats = (values - values[train].mean(axis=0)) / values[train].std(axis=0, ddof=1)
    sex = COVARIATES.index("sex")
    scaled[:, sex] = values[:, sex]
    return scaled


def importances(model: Any, values: Floats) -> Floats:
    """Return the importance of every covariate, the largest being 100."""
    if isinstance(model, BFIClassifier):
        value: Floats = np.abs(model.coef_[0]) * values.std(axis=0, ddof=1)
    else:
        value = model.model_.variable_importance()
    return 100 * value / max(float(value.max()), 1e-300)


def _values(table: Any) -> Floats:
    return np.asarray(table[:, [COLUMNS.index(name) for name in COVARIATES]], np.float64)
