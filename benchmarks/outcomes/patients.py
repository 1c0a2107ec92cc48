"""Patients with a number, a count, a time to an event or one of several levels as outcome.

===============  ==================================================================================
diabetes         scikit-learn: progression of 442 patients
friedman         simulated (Friedman 1991): a curved number of 1,000 patients, 5 of 10 covariates
randhie          statsmodels: visits to a doctor in a year, 4,000 of the RAND experiment's 20,190
visits           simulated: counts of 1,500 patients over unequal times
gbsg2            scikit-survival: recurrence or death of 686 women with breast cancer
whas500          scikit-survival: death of 500 patients after a heart attack
veterans         scikit-survival: death of 137 patients with lung cancer
flchain          scikit-survival: death of 2,500 of 7,874 residents, of free light chains
fair             statsmodels: how women rate their marriage, 2,000 of 6,366 (ordered)
grades           simulated: four grades of 1,500 patients, by steps (ordered)
wine             scikit-learn: the cultivar of 178 wines (classes)
ways             simulated: where 1,500 patients go, each way with causes of its own (classes)
===============  ==================================================================================

All come with the packages. Columns that tell of the outcome (causes of death) are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pandas as pd

from fedrulefit import Study

N_SITES: Final = 3

Outcome = dict[str, Any]
Drawn = tuple[pd.DataFrame, Outcome]


@dataclass(frozen=True)
class Patients:
    """A data set.

    Parameters
    ----------
    study : Study
    frame : DataFrame
        Covariates and the outcome's columns.
    """

    study: Study
    frame: pd.DataFrame

    @property
    def kind(self) -> str:
        """Of the outcome."""
        return self.study.outcome.kind

    def draw(self, seed: int, split: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return 70 % to learn from, each of an artificial site, and 30 % to test on."""
        rng = np.random.default_rng([seed, split])
        order = rng.permutation(len(self.frame))
        n_train = round(0.7 * len(order))
        train = self.frame.iloc[order[:n_train]].reset_index(drop=True)
        train["site"] = np.array(["north", "south", "west"])[np.arange(n_train) % N_SITES]
        return train, self.frame.iloc[order[n_train:]].reset_index(drop=True)


def _diabetes() -> Drawn:
    from sklearn.datasets import load_diabetes

    loaded = load_diabetes(as_frame=True, scaled=False)
    return loaded.frame, {"kind": "number", "column": "target", "range": [0, 400]}


def _friedman() -> Drawn:
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(1000, noise=2.0, random_state=5)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]).assign(y=y.clip(-10, 40))
    return frame, {"kind": "number", "column": "y", "range": [-10, 40]}


def _randhie() -> Drawn:
    import statsmodels.api as sm

    frame = sm.datasets.randhie.load_pandas().data.sample(4000, random_state=5)
    return frame.reset_index(drop=True), {"kind": "count", "column": "mdvis", "most": 80}


def _visits() -> Drawn:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1500, 8)).clip(-4, 4)
    effect = 0.5 * X[:, 0] + 0.7 * (X[:, 1] > 0.5) * (X[:, 2] > 0) - 0.4 * np.abs(X[:, 3])
    watched = rng.uniform(0.1, 2, len(X)).round(2)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    frame = frame.assign(
        years=watched, visits=rng.poisson(1.5 * watched * np.exp(effect)).clip(0, 50)
    )
    outcome = {"kind": "count", "column": "visits", "most": 50, "exposure": "years"}
    return frame, {**outcome, "max_exposure": 2}


def _survival(
    load: str, horizons: list[float], leave_out: tuple[str, ...] = (), most: int = 10_000
) -> Drawn:
    from sksurv import datasets

    X, y = getattr(datasets, load)()
    event, time = y.dtype.names
    frame = X.drop(columns=list(leave_out)).assign(days=y[time], event=y[event].astype(int))
    frame = frame[frame["days"] > 0]
    if len(frame) > most:
        frame = frame.sample(most, random_state=5)
    outcome = {"kind": "time", "time": "days", "event": "event", "unit": "days"}
    return frame.reset_index(drop=True), {**outcome, "horizons": horizons}


def _fair() -> Drawn:
    import statsmodels.api as sm

    frame = sm.datasets.fair.load_pandas().data.sample(2000, random_state=5)
    rated = frame["rate_marriage"].clip(2).astype(int)  # the lowest rate was rarely given
    frame = frame.drop(columns="affairs").assign(rate_marriage=rated)
    outcome = {"kind": "ordered", "column": "rate_marriage", "levels": [2, 3, 4, 5]}
    return frame.reset_index(drop=True), outcome


def _draw_causes(seed: int) -> tuple[Any, pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 8)).clip(-4, 4)
    return rng, pd.DataFrame(X, columns=[f"x{j}" for j in range(8)]), X.T


def _grades() -> Drawn:
    rng, frame, x = _draw_causes(6)
    effect = 0.8 * x[0] + 1.2 * (x[1] > 0.5) * (x[2] > 0) - 0.6 * np.abs(x[3])
    going = 1 / (1 + np.exp(-(effect[:, None] + np.array([0.8, 0.2, -0.4]))))
    place = (rng.random(len(frame))[:, None] < np.cumprod(going, axis=1)).sum(axis=1)
    outcome = {"kind": "ordered", "column": "grade", "levels": [0, 1, 2, 3]}
    return frame.assign(grade=place), outcome


def _wine() -> Drawn:
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame
    return frame, {"kind": "classes", "column": "target", "levels": [0, 1, 2]}


def _ways() -> Drawn:
    rng, frame, x = _draw_causes(7)
    rehab = 1.5 * (x[0] > 0.3) * (x[1] > 0) - 0.3
    pulls = np.column_stack([0 * x[0], rehab, 0.9 * x[2] - 0.5, 1.2 * np.abs(x[3]) - 1.5])
    place = (pulls + rng.gumbel(size=pulls.shape)).argmax(axis=1)
    names = ["home", "rehab", "hospice", "ward"]
    outcome = {"kind": "classes", "column": "way", "levels": names}
    return frame.assign(way=np.array(names, dtype=object)[place]), outcome


DATA: Final[Mapping[str, Callable[[], Drawn]]] = {
    "diabetes": _diabetes,
    "friedman": _friedman,
    "randhie": _randhie,
    "visits": _visits,
    "veterans": lambda: _survival("load_veterans_lung_cancer", [90, 180]),
    "whas500": lambda: _survival("load_whas500", [365, 1461]),
    "gbsg2": lambda: _survival("load_gbsg2", [730, 1826]),
    "flchain": lambda: _survival(
        "load_flchain", [1826, 3652], ("chapter", "flc.grp", "sample.yr"), most=2500
    ),
    "fair": _fair,
    "grades": _grades,
    "wine": _wine,
    "ways": _ways,
}
"""How to draw each data set: the frame, and the outcome's facts."""


LEVELS: Final = ("ordered", "classes")
"""Kinds of outcome with several levels."""


def places_of(data: Patients, frame: pd.DataFrame) -> Any:
    """Return the place of each patient's level, from 0 on."""
    levels = list(data.study.outcome.levels)  # type: ignore[union-attr]
    return np.array([levels.index(value) for value in frame[data.study.outcome.column].tolist()])


@cache
def load(name: str) -> Patients:
    """Return a data set, its study with ranges that hold for all its patients."""
    frame, outcome = DATA[name]()
    frame = frame.rename(
        columns={column: column.replace(".", "_").replace("/", "_") for column in frame}
    )
    own = {outcome.get(role) for role in ("column", "time", "event", "exposure")}
    covariates = {}
    for column in frame.columns:
        if column not in own:
            covariates[column], frame[column] = _declare(frame[column])
    study = Study.from_mapping({"name": name, "outcome": outcome, "covariates": covariates})
    return Patients(study, frame)


def _declare(values: pd.Series[Any]) -> tuple[dict[str, Any], pd.Series[Any]]:
    """Return a covariate's facts, and its values as the study reads them."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return {"kind": "category", "levels": list(values.cat.categories)}, values.astype(object)
    known = values.dropna().astype(float)
    low, high = math.floor(known.min()), math.ceil(known.max())
    return {"kind": "number", "range": [low, high]}, values.astype(float)
