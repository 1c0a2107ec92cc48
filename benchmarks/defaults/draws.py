"""Units of work: one method on one draw of simulated patients.

Five sites of 200 patients, judged on 10,000 new patients of the same truth. Settings are *chosen*
on six seeds; what was chosen, and fair peers on the pooled patients, are then *confirmed* on twenty
fresh ones. The noise of the histograms is drawn from the seed, in its usual amount.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks import peers
from benchmarks.simulation import MODELS, draw
from fedrulefit import FederatedRuleFitClassifier
from fedrulefit.experiments.units import Row

BEFORE: Final = {"cutoff_style": "quantile", "n_cutoffs": 32, "selection": "min"}
"""The default until round cut-offs (:mod:`benchmarks.cutoffs`) and few terms came
(:mod:`benchmarks.few`)."""
PLAIN: Final = {**BEFORE, "linear_factor": 1.0, "interaction_factor": 1.0}
PAPER: Final = "preset paper"
DEFAULT: Final = "+ 32 cut-offs: the default"

SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    PAPER: {"preset": "paper"},
    "paper's terms, exact, λ by CV": {**PLAIN, "n_cutoffs": 20, "single_cutoffs": False},
    "+ every cut-off": {**PLAIN, "n_cutoffs": 20},
    "+ linear terms × 0.2": {**BEFORE, "n_cutoffs": 20, "interaction_factor": 1.0},
    "+ several conditions × 2": {**BEFORE, "n_cutoffs": 20},
    DEFAULT: BEFORE,
    "default, λ by 1se": {**BEFORE, "selection": "1se"},
    "default, several conditions × 3": {**BEFORE, "interaction_factor": 3.0},
    "default, trees v = 0.1 on half the patients": {
        **BEFORE,
        "learning_rate": 0.1,
        "subsample": 0.5,
    },
    "default without trees": {**BEFORE, "n_trees": 0},
}
PATIENTS: Final = 1000
NEW: Final = 10_000
SITES: Final = 5

CHOOSING: Final = range(6)
CONFIRMING: Final = range(6, 26)

STAGES: Final[Mapping[str, tuple[range, tuple[str, ...]]]] = {
    "confirming": (CONFIRMING, (DEFAULT, PAPER, *peers.PEERS)),
    "choosing": (CHOOSING, (*peers.LOGISTIC, *SETTINGS)),
}
"""Seeds and methods of the two tables. No seed is in both."""


@dataclass(frozen=True)
class DrawUnit:
    """One method on one draw of the patients."""

    stage: str
    model: str
    method: str
    seed: int

    @property
    def key(self) -> str:
        """Name of its file."""
        method = [*peers.PEERS, *SETTINGS].index(self.method)
        return f"{self.model}-{self.seed:04d}-{method:02d}"

    def run(self) -> list[Row]:
        """Fit, and judge on new patients."""
        rng = np.random.default_rng([MODELS.index(self.model), self.seed])
        X, y = draw(self.model, PATIENTS, rng)
        X_new, y_new = draw(self.model, NEW, rng)
        fit = self._fit_peer if self.method in peers.PEERS else self._fit_ours
        chance, facts = fit(X, y, X_new)
        return [
            {
                "stage": self.stage,
                "model": self.model,
                "method": self.method,
                "seed": self.seed,
                "auc": roc_auc_score(y_new, chance),
                "loss": log_loss(y_new, chance),
                **facts,
            }
        ]

    def _fit_peer(self, X: Any, y: Any, X_new: Any) -> tuple[Any, dict[str, int]]:
        frame, new = (pd.DataFrame(x).add_prefix("x") for x in (X, X_new))
        fitted = peers.fit_peer(self.method, frame, y, seed=self.seed)
        terms = peers.count_terms(self.method, fitted)
        return fitted.predict_proba(new)[:, 1], {"terms": terms, "rounds": 0}

    def _fit_ours(self, X: Any, y: Any, X_new: Any) -> tuple[Any, dict[str, int]]:
        fitted = FederatedRuleFitClassifier(
            random_state=self.seed, unsafe_noise_seed=self.seed, **SETTINGS[self.method]
        ).fit(X, y, sites=np.arange(PATIENTS) % SITES)
        found = fitted.model_
        facts = {"terms": len(found.terms), "rounds": found.provenance.rounds}
        return fitted.predict_proba(X_new)[:, 1], facts


def make_units(without: Collection[str] = ()) -> list[DrawUnit]:
    """Return the units of both tables, but for some methods; those that take long come last."""
    units = [
        DrawUnit(stage, model, method, seed)
        for stage, (seeds, methods) in STAGES.items()
        for model in MODELS
        for seed in seeds
        for method in methods
        if method not in without
    ]
    return sorted(units, key=lambda unit: unit.method == peers.EBM)
