"""What do hospitals' own baselines gain? ``python -m benchmarks.own_baselines``.

Log-loss of patients who were held out, in the mean over splits. The first column is that of the
default, one baseline for all hospitals; the others are mean differences to it, with their standard
errors:

afterwards
    that model, and each hospital's own baseline of it, found afterwards from its training patients
site
    a model that was fitted with hospitals' own baselines (``baseline = "site"``), and these
site, as new
    the same model without them

*Same* are patients of the hospitals that it was learnt from (70 % of each hospital's patients, the
rest held out), *left out* those of a hospital that it was not learnt from, each in turn: there the
second column is of nobody, since a new hospital has no training patients. All columns have the same
splits, 100 trees and 3 folds. Real data come from the folder that FEDRULEFIT_DATA names.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.metrics import log_loss

from benchmarks.real import patients
from fedrulefit import FederatedRuleFitClassifier, Study
from fedrulefit.core.families import YesNo
from fedrulefit.core.own import settle

QUICK: Final[dict[str, Any]] = {"n_trees": 100, "folds": 3}
REAL: Final = {"ist": 6000, "heart_uci": 920, "trauma": 371}
"""Most patients, of all hospitals (of the stroke trial: countries)."""

FEWEST: Final = 100
"""Patients of a hospital that is left out in turn."""

COLUMNS: Final = ("shared", "afterwards", "site", "site, as new")
SPREAD: Final = 0.5


def fit(study: Study, train: pd.DataFrame, seed: int, **settings: Any) -> Any:
    """Return a fitted estimator."""
    warnings.simplefilter("ignore")
    names = list(study.names)
    made = FederatedRuleFitClassifier(
        study=study, random_state=seed, unsafe_noise_seed=seed, **QUICK, **settings
    )
    return made.fit(train[names], train[study.outcome.column], sites=train["site"])


def find_own(made: Any, study: Study, train: pd.DataFrame) -> dict[Any, float]:
    """Return each hospital's own baseline of a model, from its training patients."""
    found = {}
    for site, own in train.groupby("site"):
        predictor = made.model_.decision_function(own[list(study.names)])
        outcome = own[study.outcome.column].to_numpy(dtype=np.float64)
        best = settle(YesNo(), predictor, outcome, np.ones(len(own)), SPREAD)
        found[site] = float(best.values[0])
    return found


def judge(made: Any, study: Study, test: pd.DataFrame, own: dict[Any, float]) -> float:
    """Return the log-loss of predictions, with hospitals' own baselines where there are some."""
    shift = test["site"].map(own).fillna(0.0).to_numpy(dtype=np.float64)
    chance = expit(made.model_.decision_function(test[list(study.names)]) + shift)
    return float(log_loss(test[study.outcome.column], chance))


def compare(study: Study, train: pd.DataFrame, test: pd.DataFrame, seed: int) -> list[float]:
    """Return the log-loss of each column."""
    shared = fit(study, train, seed)
    joint = fit(study, train, seed, baseline="site", baseline_spread=SPREAD)
    return [
        judge(shared, study, test, {}),
        judge(shared, study, test, find_own(shared, study, train)),
        judge(joint, study, test, find_own(joint, study, train)),
        judge(joint, study, test, {}),
    ]


def describe(found: Any) -> str:
    """Return a row's numbers."""
    cells = [f"{found[:, 0].mean():.4f}"]
    for column in (found[:, 1:] - found[:, :1]).T:
        error = column.std(ddof=1) / np.sqrt(len(column)) if len(column) > 1 else np.nan
        cells.append(f"{column.mean():+.4f} ± {error:.4f}")
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", choices=[*REAL], nargs="*", default=[*REAL])
    options = parser.parse_args()
    folder = os.environ.get("FEDRULEFIT_DATA")
    if not folder:
        parser.error("set FEDRULEFIT_DATA to the folder of the data (docs/real-data.md)")
    print(f"| data | patients | {' | '.join(COLUMNS)} |")
    print(f"|---|---|{'---:|' * len(COLUMNS)}", flush=True)
    for name in options.data:
        study, frame = patients.load(Path(folder), name)
        frame = frame.sample(n=min(REAL[name], len(frame)), random_state=0)
        same = list(patients.splits(frame, options.splits))
        large = frame["site"].value_counts()
        left_out = [
            (frame[frame["site"] != site], frame[frame["site"] == site])
            for site in large.index[large >= min(FEWEST, large.iloc[-1])][: options.splits]
        ]
        for what, pairs in (("same", same), ("left out", left_out)):
            found = Parallel(n_jobs=options.jobs)(
                delayed(compare)(study, train, test, seed)
                for seed, (train, test) in enumerate(pairs)
            )
            print(f"| {name} | {what} | {describe(np.array(found))} |", flush=True)


if __name__ == "__main__":
    main()
