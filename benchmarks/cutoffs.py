"""Which numbers should be cut-offs? ``python -m benchmarks.cutoffs``.

Each study is split anew in each repetition, or drawn anew where patients are made up, and learnt
from twice: the two runs differ in the noise of the histograms alone. For every style of cut-offs,
with the same patients and noise, it tells

* how many cut-offs, and how many rules, the two runs share, of all that either has (1: the same);
* the largest and the mean change of a patient's risk between the two runs;
* log-loss and AUC of new patients, and the number of terms, means of both runs; and beside it
  the mean difference to quantiles with its standard error.

All with 100 trees and 3 folds, so that it is done in minutes. Real data come from the folder that
FEDRULEFIT_DATA names; without it, only the demo and simulated studies are run.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks import budget
from benchmarks.real import patients
from benchmarks.simulation import MODELS
from fedrulefit import FederatedRuleFitClassifier, Study, demo
from fedrulefit.model import Model

STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "32 quantiles": {"cutoff_style": "quantile", "n_cutoffs": 32},
    "round, at most 32": {"cutoff_style": "round", "n_cutoffs": 32},
    "round, at most 48": {"cutoff_style": "round", "n_cutoffs": 48},
    "round, at most 64": {"cutoff_style": "round", "n_cutoffs": 64},
}
"""The first is what the others are compared with."""

REAL: Final = {"trauma": 371, "heart_uci": 920, "ist": 3000}
"""Most patients; of the stroke trial, some of its five largest countries'."""

MEASURES: Final = {
    "cutoffs": "cut-offs shared",
    "rules": "rules shared",
    "largest": "largest change of a risk",
    "change": "mean change of a risk",
    "loss": "log-loss",
    "auc": "AUC",
    "terms": "terms",
}
COMPARED: Final = ("loss", "auc")
RUNS: Final = 2

Split = tuple[pd.DataFrame, pd.DataFrame]


def draw_demo(seed: int) -> Split:
    """Draw the demo's three hospitals anew, and a fourth."""
    X, y, site = demo.pool(demo.draw_registry(seed))
    fresh = demo.draw_fresh(seed)
    return X.assign(mortality=y, site=site), fresh


def find_studies(most: int) -> Iterator[tuple[Study, list[Split]]]:
    """Yield studies, each with its splits."""
    yield demo.demo_study(), [draw_demo(seed) for seed in range(most)]
    for model in MODELS:
        study = budget.simulate(model, 10)
        yield study, [budget.draw_split(study, model, seed) for seed in range(most)]
    folder = os.environ.get("FEDRULEFIT_DATA")
    for name, largest in REAL.items() if folder else ():
        study, frame = budget.load_real(Path(folder or ""), name, largest)
        yield study, list(patients.splits(frame, most))


def fit(study: Study, train: pd.DataFrame, seed: int, run: int, **settings: Any) -> Any:
    """Fit; runs of one seed differ in their noise alone."""
    model = FederatedRuleFitClassifier(
        study=study,
        random_state=seed,
        unsafe_noise_seed=RUNS * seed + run,
        **settings,
        **budget.QUICK,
    )
    return model.fit(train[list(study.names)], train[study.outcome.column], sites=train["site"])


def share(sets: list[set[Any]]) -> float:
    """Return the share of what either of two sets has that both have."""
    ((a, b),) = pairwise(sets)
    return len(a & b) / len(a | b) if a | b else 1.0


def find_cutoffs(model: Model) -> set[tuple[str, float]]:
    """Return the cut-offs that were estimated."""
    pairs = zip(model.study.names, model.study.bins, model.grid.axes, strict=True)
    return {
        (name, cutoff)
        for name, bins, axis in pairs
        if bins.kind == "number" and bins.cutoffs is None
        for cutoff in axis.cutoffs.tolist()
    }


def measure(study: Study, split: Split, seed: int, settings: Mapping[str, Any]) -> list[float]:
    """Return :data:`MEASURES` of two runs on one split."""
    warnings.simplefilter("ignore")
    train, test = split
    outcome = test[study.outcome.column]
    fitted = [fit(study, train, seed, run, **settings) for run in range(RUNS)]
    models = [each.model_ for each in fitted]
    chances = np.array([each.predict_proba(test[list(study.names)])[:, 1] for each in fitted])
    change = np.abs(np.subtract(*chances))
    return [
        share([find_cutoffs(model) for model in models]),
        share([{model.describe(term) for term in model.rule_terms} for model in models]),
        change.max(),
        change.mean(),
        float(np.mean([log_loss(outcome, chance) for chance in chances])),
        float(np.mean([roc_auc_score(outcome, chance) for chance in chances])),
        float(np.mean([len(model.terms) for model in models])),
    ]


def describe(name: str, found: np.ndarray, base: np.ndarray | None) -> str:
    """Return a number of the table; where patients are judged, with the difference."""
    if name not in COMPARED:
        digits = {"terms": 1, "change": 4}.get(name, 2)
        return f"{found.mean():.{digits}f}"
    if base is None:
        return f"{found.mean():.4f}"
    return f"{found.mean():.4f} ({budget.describe(found, base, 4)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"| study | cut-offs | {' | '.join(MEASURES.values())} |")
    print(f"|---|---|{'---:|' * len(MEASURES)}", flush=True)
    for study, splits in find_studies(options.splits):
        tasks = [partial(measure, study, split, seed) for seed, split in enumerate(splits)]
        found = Parallel(n_jobs=options.jobs)(
            delayed(task)(settings) for settings in STYLES.values() for task in tasks
        )
        table = np.array(found).reshape(len(STYLES), len(splits), len(MEASURES))
        for k, style in enumerate(STYLES):
            cells = [
                describe(name, table[k, :, column], table[0, :, column] if k else None)
                for column, name in enumerate(MEASURES)
            ]
            print(f"| {study.name if k == 0 else ''} | {style} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
