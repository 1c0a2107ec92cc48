"""What does a budget for the whole study cost? ``python -m benchmarks.budget``.

Each column gives all histograms of a run together so much ε, in equal shares; ``each 1``
gives ε = 1 to every one, and ``none`` adds no noise. There stand mean AUC and log-loss of new
patients, and in the others the mean differences to it with their standard errors. All
columns have the same splits, 100 trees and 3 folds, so that it is done in minutes.

Real data come from the folder that FEDRULEFIT_DATA names; without it, only simulated
studies are run.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.real import patients
from benchmarks.simulation import MODELS, draw
from fedrulefit import FederatedRuleFitClassifier, Study

ROWS: dict[str, float | None] = {"none": None, "each 1": 1.0, "20": 20, "10": 10, "5": 5, "2": 2}
QUICK: dict[str, Any] = {"n_trees": 100, "folds": 3}
REAL = {"trauma": 371, "heart_uci": 920, "ist": 2500}
"""Most patients; of the stroke trial, some of its five largest countries'."""

SIMULATED = (("curved", 20), ("interactions", 20), ("curved", 50), ("interactions", 50))

Split = tuple[pd.DataFrame, pd.DataFrame]


def simulate(model: str, n_features: int) -> Study:
    """Return a study in which ten covariates matter as in ``simulation``, and the rest do not."""
    numbers = {f"x{j}": {"kind": "number", "range": [-5, 5]} for j in range(n_features)}
    facts = {"name": model, "outcome": {"column": "y"}}
    return Study.from_mapping({**facts, "covariates": numbers})


def draw_split(study: Study, model: str, seed: int) -> Split:
    """Draw 5 hospitals of 200 patients, and 5,000 new ones."""
    rng = np.random.default_rng([MODELS.index(model), study.n_features, seed])
    frames = []
    for n_rows in (1000, 5000):
        x, y = draw(model, n_rows, rng)
        x = np.hstack([x, rng.standard_normal((n_rows, study.n_features - x.shape[1]))])
        frame = pd.DataFrame(np.clip(x, -5, 5), columns=list(study.names))
        frames.append(frame.assign(y=y, site=np.arange(n_rows) % 5))
    return frames[0], frames[1]


def load_real(folder: Path, name: str, most: int) -> tuple[Study, pd.DataFrame]:
    study, frame = patients.load(folder, name)
    large = frame["site"].value_counts().index[:5]
    frame = frame[frame["site"].isin(large)]
    return study, frame.sample(n=min(most, len(frame)), random_state=0)


def fit_one(study: Study, split: Split, row: str, seed: int) -> tuple[float, float]:
    """Return AUC and log-loss of new patients."""
    warnings.simplefilter("ignore")
    given, (train, test) = ROWS[row], split
    share = given if given is None or row.startswith("each") else given / study.n_features
    noise = {"noise": False} if share is None else {"epsilon": share, "unsafe_noise_seed": seed}
    names, outcome = list(study.names), study.outcome.column
    model = FederatedRuleFitClassifier(study=study, random_state=seed, **QUICK, **noise)
    model.fit(train[names], train[outcome], sites=train["site"])
    chance = model.predict_proba(test[names])[:, 1]
    return float(roc_auc_score(test[outcome], chance)), float(log_loss(test[outcome], chance))


def find_studies(n_splits: int) -> Iterator[tuple[Study, list[Split]]]:
    folder = os.environ.get("FEDRULEFIT_DATA")
    for name, most in REAL.items() if folder else ():
        study, frame = load_real(Path(folder or ""), name, most)
        yield study, list(patients.splits(frame, n_splits))
    for model, n_features in SIMULATED:
        study = simulate(model, n_features)
        yield study, [draw_split(study, model, seed) for seed in range(n_splits)]


def describe(found: np.ndarray, base: np.ndarray, digits: int) -> str:
    change = found - base
    error = change.std(ddof=1) / np.sqrt(len(change))
    return f"{change.mean():+.{digits}f} ± {error:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"| study | measure | {' | '.join(ROWS)} |")
    print(f"|---|---|{'---:|' * len(ROWS)}", flush=True)
    for study, splits in find_studies(options.splits):
        tasks = [(row, seed) for row in ROWS for seed in range(len(splits))]
        found = Parallel(n_jobs=options.jobs)(
            delayed(fit_one)(study, splits[seed], row, seed) for row, seed in tasks
        )
        table = np.array(found).reshape(len(ROWS), len(splits), 2)
        for k, (measure, digits) in enumerate((("AUC", 4), ("log-loss", 4))):
            base = table[0, :, k]
            rest = [describe(row[:, k], base, digits) for row in table[1:]]
            head = f"{study.name}, {study.n_features} covariates" if k == 0 else ""
            print(f"| {head} | {measure} | {base.mean():.4f} | {' | '.join(rest)} |", flush=True)


if __name__ == "__main__":
    main()
