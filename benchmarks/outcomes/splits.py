"""Units of work: one method on one split of a data set, judged on the patients left out.

========  =====================================================================================
number    R², and the root mean square error
count     D², the share of the Poisson deviance that is explained, and the mean deviance
time      Harrell's C, the Brier score at the main horizon, and its mean over times before (IBS)
ordered   log-loss, the mean AUC of each level and above against those below, and the ranked
          probability score (RPS)
classes   log-loss, and the mean AUC of each class against the rest
========  =====================================================================================

Times are judged up to the study's last horizon, where our follow-up ends; censoring is allowed for
by weights (scikit-survival). All methods have the same splits and folds.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.metrics import (
    d2_tweedie_score,
    log_loss,
    mean_poisson_deviance,
    r2_score,
    roc_auc_score,
)

from benchmarks.outcomes.methods import METHODS, fit, survival_of
from benchmarks.outcomes.patients import DATA, LEVELS, Patients, load, places_of
from fedrulefit.experiments.methods import method_seed
from fedrulefit.experiments.units import Row

SPLITS: Final = 5
SEED: Final = 2026
MEASURES: Final = (
    "r2", "rmse", "d2", "deviance", "c", "brier", "ibs", "log_loss", "auc", "rps"
)  # fmt: skip
"""Those of other kinds of outcome are not a number: all rows have the same columns."""
N_TIMES: Final = 20
"""Times over which the integrated Brier score is a mean."""


def times_of(data: Patients) -> Any:
    """Return the times at which curves are judged, the main horizon last; none without horizons."""
    if data.kind != "time":
        return np.zeros(0)
    end = data.study.outcome.horizons[-1]
    return end * np.append(np.linspace(0.1, 0.95, N_TIMES - 1), 0.999)


def judge(data: Patients, train: pd.DataFrame, test: pd.DataFrame, found: Any) -> dict[str, float]:
    """Return the measures of the outcome's kind."""
    if data.kind == "time":
        return _judge_times(data, train, test, *found)
    roles = data.study.outcome.columns
    if data.kind in LEVELS:
        return _judge_levels(data, places_of(data, test), np.asarray(found))
    y = test[roles["outcome"]].to_numpy(float)
    if data.kind == "number":
        return {"r2": r2_score(y, found), "rmse": float(np.sqrt(np.mean((y - found) ** 2)))}
    watched = test[roles["exposure"]].to_numpy(float) if "exposure" in roles else np.ones(len(y))
    rate, mean = y / watched, np.maximum(found, 1e-6)
    return {
        "d2": d2_tweedie_score(rate, mean, sample_weight=watched, power=1),
        "deviance": mean_poisson_deviance(rate, mean, sample_weight=watched),
    }


def _judge_levels(data: Patients, place: Any, chances: Any) -> dict[str, float]:
    n_levels = chances.shape[1]
    found = {"log_loss": log_loss(place, chances, labels=range(n_levels))}
    if data.kind == "classes":
        return found | {"auc": roc_auc_score(place, chances, multi_class="ovr")}
    above = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1][:, 1:].clip(0, 1)
    went = place[:, None] >= np.arange(1, n_levels)
    areas = [roc_auc_score(y, p) for y, p in zip(went.T, above.T, strict=True)]
    rps = float(((above - went) ** 2).sum(axis=1).mean())
    return found | {"auc": float(np.mean(areas)), "rps": rps}


def _judge_times(
    data: Patients, train: pd.DataFrame, test: pd.DataFrame, risk: Any, survival: Any
) -> dict[str, float]:
    from sksurv.metrics import brier_score, concordance_index_censored, integrated_brier_score

    times = times_of(data)
    end = data.study.outcome.horizons[-1]
    known, new = (survival_of(data, frame, end) for frame in (train, test))
    return {
        "c": concordance_index_censored(new["event"], new["time"], risk)[0],
        "brier": float(brier_score(known, new, survival[:, -1:], times[-1:])[1][0]),
        "ibs": integrated_brier_score(known, new, survival, times),
    }


@dataclass(frozen=True)
class SplitUnit:
    """One method on one split of a data set.

    Parameters
    ----------
    data, method : str
    split, seed : int
    """

    data: str
    method: str
    split: int
    seed: int

    @property
    def key(self) -> str:
        """Name of its file."""
        place = list(METHODS[load(self.data).kind]).index(self.method)
        return f"{self.data}-{self.split:04d}-{place}"

    def run(self) -> list[Row]:
        """Fit and judge."""
        data = load(self.data)
        train, test = data.draw(self.seed, self.split)
        cpu = time.process_time()
        predict, terms = fit(
            self.method, data, train, times_of(data), method_seed(self.seed, self.split)
        )
        cpu = time.process_time() - cpu
        return [
            {
                "data": self.data,
                "kind": data.kind,
                "split": self.split,
                "method": self.method,
                **dict.fromkeys(MEASURES, float("nan")),
                **judge(data, train, test, predict(test)),
                "terms": terms,
                "n_train": len(train),
                "n_test": len(test),
                "cpu": cpu,
            }
        ]


def make_units(splits: int, *, kinds: Collection[str] = (), seed: int = SEED) -> list[SplitUnit]:
    """Return one unit per data set, split and method; of all kinds of outcome, or of some."""
    return [
        SplitUnit(data, method, split, seed)
        for split in range(splits)
        for data in DATA
        if not kinds or load(data).kind in kinds
        for method in METHODS[load(data).kind]
    ]
