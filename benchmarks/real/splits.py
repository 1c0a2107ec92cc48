"""Units of work: one method on one split of a data set, judged on the patients left out.

Each split draws 70 % of every hospital's patients to learn from; all methods have the same splits.
Split, trees, folds and noise are drawn from the seed, so that a run can be repeated; a real study
would not draw its noise so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from benchmarks import peers
from benchmarks.real import patients
from fedrulefit import FederatedRuleFitClassifier, Study
from fedrulefit.experiments.methods import method_seed
from fedrulefit.experiments.units import Row

OURS: Final = "fedrulefit, default"
PAPER: Final = "fedrulefit, preset `paper`"
SPLITS: Final = 20
SEED: Final = 2026
FEWEST: Final = 5
"""Test patients with and without the outcome from which a hospital's own AUC counts."""
SURE: Final = 1e-6
"""Nearer to 0 and 1 no prediction is taken to be."""

Fitted = tuple[Callable[[pd.DataFrame], Any], int]
"""What predicts the probability, and its number of terms."""


def _fit_ours(study: Study, train: pd.DataFrame, seed: int, **settings: Any) -> Fitted:
    names, outcome = list(study.names), study.outcome.column
    model = FederatedRuleFitClassifier(
        study=study, random_state=seed, unsafe_noise_seed=seed, **settings
    )
    model.fit(train[names], train[outcome], sites=train["site"])
    return lambda test: model.predict_proba(test[names])[:, 1], len(model.model_.terms)


def _fit_peer(name: str, study: Study, train: pd.DataFrame, seed: int) -> Fitted:
    names, outcome = list(study.names), study.outcome.column
    categories = [name for name, found in study.covariates.items() if found.kind == "category"]
    model = peers.fit_peer(name, train[names], train[outcome], categories=categories, seed=seed)
    return lambda test: model.predict_proba(test[names])[:, 1], peers.count_terms(name, model)


METHODS: Final[Mapping[str, Callable[[Study, pd.DataFrame, int], Fitted]]] = {
    OURS: _fit_ours,
    PAPER: partial(_fit_ours, preset="paper"),
    **{name: partial(_fit_peer, name) for name in peers.PEERS},
}


def judge(outcome: Any, chance: Any, sites: Any) -> dict[str, float]:
    """Return all measures of predictions, of the test patients themselves.

    ``within_auc`` is the mean of the hospitals' own AUCs, weighted by cases, over the
    ``within_sites`` hospitals with at least :data:`FEWEST` test patients of either outcome.
    """
    odds = logit(np.clip(chance, SURE, 1 - SURE))
    line = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-9)
    slope = line.fit(odds[:, None], outcome).coef_[0, 0]
    return {
        "auc": roc_auc_score(outcome, chance),
        **_judge_within(outcome, chance, sites),
        "loss": log_loss(outcome, expit(odds)),
        "brier": brier_score_loss(outcome, chance),
        "slope": float(slope),
        "intercept": brentq(lambda a: float(np.sum(outcome - expit(odds + a))), -40, 40),
    }


def _judge_within(outcome: Any, chance: Any, sites: Any) -> dict[str, float]:
    areas, cases = [], []
    for site in np.unique(sites):
        own = sites == site
        n_cases = int(outcome[own].sum())
        if min(n_cases, own.sum() - n_cases) >= FEWEST:
            areas.append(roc_auc_score(outcome[own], chance[own]))
            cases.append(n_cases)
    return {"within_auc": float(np.average(areas, weights=cases)), "within_sites": len(areas)}


@dataclass(frozen=True)
class SplitUnit:
    """One method on one split of a data set.

    Parameters
    ----------
    folder : Path
        Of the data.
    data, method : str
    split, seed : int
    """

    folder: Path
    data: str
    method: str
    split: int
    seed: int

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"{self.data}-{self.split:04d}-{list(METHODS).index(self.method)}"

    def run(self) -> list[Row]:
        """Fit and judge."""
        study, frame = _load(self.folder, self.data)
        train, test = patients.split(frame, self.seed, self.split)
        cpu, start = time.process_time(), time.perf_counter()
        predict, terms = METHODS[self.method](study, train, method_seed(self.seed, self.split))
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - start
        outcome, sites = test[study.outcome.column].to_numpy(), test["site"].to_numpy()
        return [
            {
                "data": self.data,
                "split": self.split,
                "method": self.method,
                **judge(outcome, predict(test), sites),
                "terms": terms,
                "n_train": len(train),
                "n_test": len(test),
                "n_sites": len(np.unique(frame["site"])),
                "cpu": cpu,
                "seconds": seconds,
            }
        ]


@cache
def _load(folder: Path, name: str) -> tuple[Study, pd.DataFrame]:
    return patients.load(folder, name)


def make_units(folder: Path, splits: int, *, seed: int = SEED) -> list[SplitUnit]:
    """Return one unit per data set, split and method; small data sets come first."""
    return [
        SplitUnit(folder, data, method, split, seed)
        for data in patients.OUTCOMES
        for split in range(splits)
        for method in METHODS
    ]
