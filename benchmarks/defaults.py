"""Which settings should be the default? ``python -m benchmarks.defaults``.

Five sites of 200 patients, noise as by default, judged on 10,000 new patients
of the same truth. Each row is one setting, each number a mean over seeds.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.simulation import MODELS, draw
from fedrulefit import FederatedRuleFitClassifier

PLAIN = {"linear_factor": 1.0, "interaction_factor": 1.0}

SETTINGS: dict[str, dict[str, Any]] = {
    "preset paper": {"preset": "paper"},
    "paper's terms, exact, λ by CV": {**PLAIN, "n_cutoffs": 20, "single_cutoffs": False},
    "+ every cut-off": {**PLAIN, "n_cutoffs": 20},
    "+ linear terms × 0.2": {"n_cutoffs": 20, "interaction_factor": 1.0},
    "+ several conditions × 2": {"n_cutoffs": 20},
    "+ 32 cut-offs: the default": {},
    "default, λ by 1se": {"selection": "1se"},
    "default, several conditions × 3": {"interaction_factor": 3.0},
    "default, trees v = 0.1 on half the patients": {"learning_rate": 0.1, "subsample": 0.5},
    "default without trees": {"n_trees": 0},
}


def fit_one(name: str, model: str, seed: int) -> dict[str, float]:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([MODELS.index(model), seed])
    X, y = draw(model, 1000, rng)
    X_new, y_new = draw(model, 10_000, rng)
    if name not in SETTINGS:
        peer = LogisticRegressionCV().fit(X, y)
        terms, rounds, chance = 10, 0, peer.predict_proba(X_new)[:, 1]
    else:
        estimator = FederatedRuleFitClassifier(random_state=seed, **SETTINGS[name])
        estimator.fit(X, y, sites=np.arange(1000) % 5)
        terms, rounds = len(estimator.model_.terms), estimator.model_.provenance.rounds
        chance = estimator.predict_proba(X_new)[:, 1]
    return {
        "auc": roc_auc_score(y_new, chance),
        "loss": log_loss(y_new, chance),
        "terms": terms,
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--only", default="", help="settings whose name contains this")
    options = parser.parse_args()
    heads = [f"{model}: AUC, log-loss, terms" for model in options.models.split(",")]
    print(f"| setting | {' | '.join(heads)} | rounds |")
    print(f"|---|{'---|' * len(heads)}---:|")
    for name in ("pooled logistic regression", *SETTINGS):
        if options.only not in name:
            continue
        cells, rounds = [], []
        for model in options.models.split(","):
            found = Parallel(n_jobs=options.jobs)(
                delayed(fit_one)(name, model, seed) for seed in range(options.seeds)
            )
            mean = {k: np.mean([f[k] for f in found]) for k in found[0]}
            cells.append(f"{mean['auc']:.4f}, {mean['loss']:.3f}, {mean['terms']:.0f}")
            rounds.append(mean["rounds"])
        print(f"| {name} | {' | '.join(cells)} | {np.mean(rounds):.0f} |", flush=True)


if __name__ == "__main__":
    main()
