"""Do few terms predict as well as a lasso's many? ``python -m benchmarks.few``.

Each study is split anew in each repetition, or drawn anew where patients are made up. On the same
split the lasso (``selection = "min"``) and few terms (``"pruned"``) are learnt, each twice: the
two runs differ in the noise of the histograms alone. The table tells, as means over the splits,

* the number of terms, rules and linear ones together;
* log-loss and AUC of new patients: of few terms as a difference to the lasso's, with its standard
  error;
* how many rules the two runs share, of all that either has (1: the same), and the largest change
  of a patient's risk between them;
* the most rounds of a run, of the path, the pruning and the last fit together, and the CPU time;
* of the demo, in how many runs both planted rules were found.

Real data come from the folder that FEDRULEFIT_DATA names; without it, only the demo and simulated
studies are run. ``--patients`` is the size of the simulated studies, at five hospitals.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks import budget
from benchmarks.cutoffs import draw_demo, share
from benchmarks.real import patients
from benchmarks.simulation import MODELS, draw
from fedrulefit import FederatedRuleFitClassifier, Study, demo
from fedrulefit.model import Model

METHODS: Final = {"lasso": "min", "few terms": "pruned"}
"""Selections; the first is what the second is compared with."""

REAL: Final = {"trauma": 371, "heart_uci": 920, "ist": 3000}
"""Most patients; of the stroke trial, some of its five largest countries'."""

RUNS: Final = 2
SITES: Final = 5
NEW: Final = 10_000

Split = tuple[pd.DataFrame, pd.DataFrame]


def find_studies(n_patients: int) -> Iterator[tuple[Study, Callable[[int], Split]]]:
    """Yield studies, and what draws a split of each."""
    yield demo.demo_study(), draw_demo
    for model in MODELS:
        study = budget.simulate(model, 10)
        yield study, _Drawn(study, model, n_patients)
    folder = os.environ.get("FEDRULEFIT_DATA")
    for name, most in REAL.items() if folder else ():
        yield budget.load_real(Path(folder or ""), name, most)[0], _Real(folder or "", name, most)


@dataclass(frozen=True)
class _Drawn:
    """New draws of a truth."""

    study: Study
    model: str
    n_patients: int

    def __call__(self, seed: int) -> Split:
        rng = np.random.default_rng([MODELS.index(self.model), self.n_patients, seed])
        frames = []
        for n_rows in (self.n_patients, NEW):
            x, y = draw(self.model, n_rows, rng)
            frame = pd.DataFrame(np.clip(x, -5, 5), columns=list(self.study.names))
            frames.append(frame.assign(y=y, site=np.arange(n_rows) % SITES))
        return frames[0], frames[1]


@dataclass(frozen=True)
class _Real:
    """Splits of real patients."""

    folder: str
    name: str
    most: int

    def __call__(self, seed: int) -> Split:
        _, frame = budget.load_real(Path(self.folder), self.name, self.most)
        return patients.split(frame, 0, seed)


def count_rounds(model: Model) -> int:
    """Return the rounds of the path, the pruning and the last fit."""
    told = [line for line in model.privacy.sums if "variants" in line and "rounds" in line]
    pruning = [int(line.rpartition(" in each of ")[2].split()[0]) for line in told]
    return model.provenance.rounds + sum(pruning)


def find_planted(model: Model, fresh: pd.DataFrame) -> float:
    """Return whether both rules of the demo are found, for nearly the same patients."""
    if model.study.name != demo.demo_study().name:
        return np.nan
    return float(all(match.found for match in demo.match_planted(model, fresh)))


def measure(study: Study, split: Split, seed: int, selection: str) -> dict[str, float]:
    """Return what is told of one selection on one split."""
    warnings.simplefilter("ignore")
    train, test = split
    names, column = list(study.names), study.outcome.column
    models, chances, cpu = [], [], 0.0
    for run in range(RUNS):
        fitted = FederatedRuleFitClassifier(
            study=study,
            random_state=seed,
            unsafe_noise_seed=RUNS * seed + run,
            selection=selection,
        )
        start = time.process_time()
        fitted.fit(train[names], train[column], sites=train["site"])
        cpu += (time.process_time() - start) / RUNS
        models.append(fitted.model_)
        chances.append(fitted.predict_proba(test[names])[:, 1])
    rules = [{model.describe(term) for term in model.rule_terms} for model in models]
    return {
        "terms": float(np.mean([len(model.terms) for model in models])),
        "loss": float(np.mean([log_loss(test[column], chance) for chance in chances])),
        "auc": float(np.mean([roc_auc_score(test[column], chance) for chance in chances])),
        "shared": share([*rules]),
        "change": float(np.abs(np.subtract(*chances)).max()),
        "rounds": float(max(map(count_rounds, models))),
        "cpu": cpu,
        "planted": float(np.mean([find_planted(model, test) for model in models])),
    }


def _line(name: str, method: str, own: pd.DataFrame, base: pd.DataFrame) -> str:
    """Return a row of the table."""
    cells = [name, method, f"{own.terms.mean():.1f}"]
    for measured in ("loss", "auc"):
        cell = f"{own[measured].mean():.4f}"
        if own is not base:
            cell += f" ({budget.describe(own[measured].to_numpy(), base[measured].to_numpy(), 4)})"
        cells.append(cell)
    planted = "" if own.planted.isna().any() else f"{own.planted.mean():.2f}"
    cells += [f"{own.shared.mean():.2f}", f"{own.change.mean():.3f}", f"{own.rounds.max():.0f}"]
    cells += [f"{own.cpu.mean():.1f} ({own.cpu.mean() / base.cpu.mean():.1f})", planted]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first split")
    parser.add_argument("--patients", type=int, default=1000)
    parser.add_argument("--studies", nargs="*", help="names of studies; all by default")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    heads = "terms", "log-loss", "AUC", "rules shared", "largest change", "rounds", "CPU s (×)"
    print(f"| study | selection | {' | '.join(heads)} | planted |")
    print(f"|---|---|{'---:|' * (len(heads) + 1)}", flush=True)
    seeds = range(options.first, options.first + options.splits)
    for study, split in find_studies(options.patients):
        if options.studies and study.name not in options.studies:
            continue
        found = Parallel(n_jobs=options.jobs)(
            delayed(measure)(study, split(seed), seed, selection)
            for selection in METHODS.values()
            for seed in seeds
        )
        parts = [pd.DataFrame(found[k::1][: len(seeds)]) for k in (0, len(seeds))]
        for name, own in zip(METHODS, parts, strict=True):
            print(_line(study.name if own is parts[0] else "", name, own, parts[0]), flush=True)


if __name__ == "__main__":
    main()
