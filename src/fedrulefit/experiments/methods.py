"""The methods that the experiments compare, behind one call.

``fit_method(name, task)`` returns what predicts. All methods see the same patients. The
noise of the histograms is drawn from the repetition's seed, so that a run can be
repeated; on real patients that would not be private.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from fedrulefit.baselines.bfi import BFIClassifier
from fedrulefit.baselines.forest import FederatedForestClassifier
from fedrulefit.baselines.rulefit import conventional_rulefit, fit_each_site, sample_share
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.errors import DataError, FedRuleFitError, FitError
from fedrulefit.estimators import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.experiments.scenarios import SCENARIOS
from fedrulefit.study import Study

T = TypeVar("T")

METRICS: Final[Mapping[str, str]] = {"auc": "AUC", "accuracy": "Accuracy", "f1": "F1"}
REFERENCE: Final = "centralised-sampled"
"""Centralised RuleFit as the paper states it: trees on Friedman and Popescu's samples."""
UNSAMPLED: Final = "centralised"
FIXED: Final = "centralised-sampled-fixed"
FIXED_UNSAMPLED: Final = "centralised-fixed"
PROPOSED: Final = "federated"
SAMPLED: Final = "federated-sampled"
OURS: Final = "federated-default"
LOCAL: Final = "local-sampled"
LOCAL_UNSAMPLED: Final = "local"

_FIXED_PENALTY: Final = 0.01
_ALL_PATIENTS: Final[Mapping[str, Any]] = {"subsample": 1.0}


@dataclass(frozen=True)
class Effort:
    """How much work the methods may do.

    Parameters
    ----------
    quick : bool
        Few trees and rounds: to see that everything runs. The numbers then
        mean nothing.
    """

    quick: bool = False

    @property
    def fedda(self) -> dict[str, Any]:
        """Settings of RuleFit by FedDA."""
        return {"n_trees": 5, "rounds": 5} if self.quick else {}

    @property
    def exact(self) -> dict[str, Any]:
        """Settings of RuleFit by the exact solver; quick, it has no cross-validation."""
        return {"n_trees": 5, "penalty": 0.05} if self.quick else {}

    @property
    def n_forest(self) -> int:
        """Trees of the federated forest."""
        return 10 if self.quick else 100


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given.

    Parameters
    ----------
    values : Floats, shape (n_rows, n_features)
    outcome : Ints, shape (n_rows,)
    clients : Ints, shape (n_rows,)
        The client of every patient; methods on pooled data ignore it.
    study : Study
        Public ranges.
    seed : int
    effort : Effort
    """

    values: Floats
    outcome: Ints
    clients: Ints
    study: Study
    seed: int
    effort: Effort = Effort()


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Parameters
    ----------
    label : str
        Its name in tables and figures.
    colour : str
        Of its boxes.
    fit : callable
        Returns fitted classifiers: one, or one per client.
    pooled : bool
        Whether it knows no clients.
    drawn : bool
        Whether it is in the figures.
    scenarios : collection of int
        Scenarios of the simulations in which it is fitted.
    """

    label: str
    colour: str
    fit: Callable[[Task], list[Any]]
    pooled: bool = False
    drawn: bool = True
    scenarios: Collection[int] = tuple(SCENARIOS)


def _federated(task: Task, **settings: Any) -> list[Any]:
    model = FederatedRuleFitClassifier(
        study=task.study, random_state=task.seed, unsafe_noise_seed=task.seed, **settings
    )
    return [model.fit(task.values, task.outcome, sites=task.clients)]


def _fit_paper(task: Task) -> list[Any]:
    return _federated(task, preset="paper", **task.effort.fedda)


def _fit_default(task: Task) -> list[Any]:
    return _federated(task, preset="default", **task.effort.exact)


def _fit_sampled(task: Task) -> list[Any]:
    """Fit the preset with each tree on Friedman and Popescu's sample of its client.

    The share is one setting of the study: that of a client of mean size.
    """
    n_clients = len(np.unique(task.clients))
    return _federated(
        task,
        preset="paper",
        subsample=sample_share(len(task.outcome) // n_clients),
        **task.effort.fedda,
    )


def _conventional(task: Task, n_rows: int, **settings: Any) -> RuleFitClassifier:
    return conventional_rulefit(
        n_rows, study=task.study, random_state=task.seed, **settings | task.effort.exact
    )


def _fit_central(task: Task, **settings: Any) -> list[Any]:
    n_rows = len(task.outcome)
    return [_conventional(task, n_rows, **settings).fit(task.values, task.outcome)]


def _fit_local(task: Task, **settings: Any) -> list[Any]:
    models = fit_each_site(
        lambda n_rows: _conventional(task, n_rows, **settings),
        task.values,
        task.outcome,
        sites=task.clients,
    )
    return list(models.values())


def _fit_bfi(task: Task) -> list[Any]:
    return [BFIClassifier().fit(task.values, task.outcome, sites=task.clients)]


def _fit_forest(task: Task) -> list[Any]:
    model = FederatedForestClassifier(n_trees=task.effort.n_forest, random_state=task.seed)
    return [model.fit(task.values, task.outcome, sites=task.clients)]


METHODS: Final[Mapping[str, Method]] = {
    REFERENCE: Method("Centralised RuleFit", "#4d4d4d", _fit_central, pooled=True),
    UNSAMPLED: Method(
        "Centralised RuleFit, no sampling",
        "#969696",
        partial(_fit_central, **_ALL_PATIENTS),
        pooled=True,
    ),
    FIXED: Method(
        "Centralised RuleFit, λ = 0.01",
        "#737373",
        partial(_fit_central, penalty=_FIXED_PENALTY),
        pooled=True,
        drawn=False,
    ),
    FIXED_UNSAMPLED: Method(
        "Centralised RuleFit, no sampling, λ = 0.01",
        "#d9d9d9",
        partial(_fit_central, penalty=_FIXED_PENALTY, **_ALL_PATIENTS),
        pooled=True,
    ),
    PROPOSED: Method("Federated RuleFit, preset paper", "#b2182b", _fit_paper),
    SAMPLED: Method(
        "Federated RuleFit, preset paper with sampling",
        "#f4a582",
        _fit_sampled,
        drawn=False,
        scenarios=(1,),
    ),
    OURS: Method("Federated RuleFit, our defaults", "#2166ac", _fit_default),
    LOCAL: Method("Local RuleFit", "#e08214", _fit_local),
    LOCAL_UNSAMPLED: Method(
        "Local RuleFit, no sampling",
        "#fdb863",
        partial(_fit_local, **_ALL_PATIENTS),
        drawn=False,
    ),
    "bfi": Method("BFI", "#1b7837", _fit_bfi),
    "forest": Method("Federated random forest", "#762a83", _fit_forest),
}

SAMPLING: Final[Mapping[str, str]] = {
    REFERENCE: UNSAMPLED,
    FIXED: FIXED_UNSAMPLED,
    SAMPLED: PROPOSED,
    LOCAL: LOCAL_UNSAMPLED,
}
"""Methods whose trees see samples, and the same with trees that see all patients."""


def parse_methods(text: str) -> list[str]:
    """Return the methods that `text` names, with commas between, in their usual order.

    Raises
    ------
    DataError
        Where one is unknown.
    """
    names = {name.strip() for name in text.split(",")}
    unknown = sorted(names - set(METHODS))
    if unknown:
        raise DataError(f"there is no method {unknown[0]!r}: choose from {', '.join(METHODS)}")
    return [name for name in METHODS if name in names]


def method_seed(*key: int) -> int:
    """Return the seed of all methods in a repetition."""
    return int(np.random.SeedSequence(key).generate_state(2)[1] % 2**31)


def fit_method(name: str, task: Task) -> list[Any]:
    """Fit a method; returns one classifier, or one per client."""
    method = METHODS[name]
    with warnings.catch_warnings():
        # Small clients separate perfectly; their models are judged as they are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return method.fit(task)
        except FedRuleFitError as error:
            raise FitError(f"{method.label}: {error}") from error


def timed(fit: Callable[[], T]) -> tuple[T, float]:
    """Return what `fit` returns, and the seconds that it took."""
    started = time.perf_counter()
    fitted = fit()
    return fitted, time.perf_counter() - started


def score(models: list[Any], values: Floats, outcome: Ints) -> dict[str, float]:
    """Return AUC, accuracy, F1 and the number of rules, each a mean over `models`.

    An event is predicted where its probability is above 0.5. F1 is 0 where
    none is predicted.
    """
    return {
        name: float(np.mean(column))
        for name, column in zip(
            (*METRICS, "rules"),
            zip(*(_score_one(model, values, outcome) for model in models), strict=True),
            strict=True,
        )
    }


def _score_one(model: Any, values: Floats, outcome: Ints) -> tuple[float, float, float, float]:
    chance = model.predict_proba(values)[:, 1]
    predicted = chance > 0.5
    fitted = getattr(model, "model_", None)
    return (
        roc_auc_score(outcome, chance),
        accuracy_score(outcome, predicted),
        f1_score(outcome, predicted, zero_division=0.0),
        float("nan") if fitted is None else len(fitted.rule_terms),
    )
