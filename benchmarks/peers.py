"""Models on pooled patients that fedrulefit is held against, each with fair settings.

=======================  ===========================================================================
logistic, unpenalised    ridge with C = 10,000: so little that it only makes the optimum unique
logistic, ridge          C of 10⁻⁴ to 10⁴ by the log-loss of 5-fold cross-validation
LightGBM                 trees of 7 leaves, learning rate 0.05; how many (at most 1,000) by the
                         log-loss of the same folds, then from all patients
EBM                      interpret's defaults: shape functions and pairs, 14 bags
=======================  ===========================================================================

Both logistic regressions get numbers minus mean over SD, missing ones as the mean and flagged, and
a column per level of a category, missing being one. LightGBM and EBM get missing values and
categories as such. They stand in all tables alike: ``real``, ``defaults`` and ``run``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

UNPENALISED: Final = "logistic regression, unpenalised"
RIDGE: Final = "logistic regression, ridge"
LIGHTGBM: Final = "LightGBM"
EBM: Final = "EBM"

LOGISTIC: Final = (UNPENALISED, RIDGE)

STRENGTHS: Final = np.logspace(-4, 4, 17)
WEAKEST: Final = STRENGTHS[-1]
FOLDS: Final = 5

MOST_TREES: Final = 1000
PATIENCE: Final = 50
"""Further trees without a better log-loss after which no more are grown."""


@dataclass(frozen=True)
class Columns:
    """What a peer is told of a table.

    Parameters
    ----------
    numbers, categories : sequence of str
    seed : int
        Of folds, bags and trees.
    """

    numbers: Sequence[str]
    categories: Sequence[str]
    seed: int

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [*self.numbers, *self.categories]

    @property
    def folds(self) -> StratifiedKFold:
        """The folds that settings are chosen on."""
        return StratifiedKFold(FOLDS, shuffle=True, random_state=self.seed)


class Typed(BaseEstimator, ClassifierMixin):
    """A model of trees or shapes, which takes missing values and categories as such."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def fit(self, X: pd.DataFrame, y: Any) -> Typed:
        """Fit; levels of categories that are first seen later count as missing."""
        self.classes_ = np.unique(y)
        self.levels_ = {name: pd.unique(X[name].dropna()) for name in self.columns.categories}
        self.model_ = self._fit(self._type(X), np.asarray(y))
        return self

    def predict_proba(self, X: pd.DataFrame) -> Any:
        """Return the probabilities of both classes, shape (n_rows, 2)."""
        return self.model_.predict_proba(self._type(X))

    def _type(self, X: pd.DataFrame) -> pd.DataFrame:
        frame = X[self.columns.names].astype(dict.fromkeys(self.columns.numbers, float))
        for name, levels in self.levels_.items():
            known = frame[name].where(frame[name].isin(levels))
            frame[name] = pd.Categorical(known, categories=levels)
        return frame

    def _fit(self, X: pd.DataFrame, y: Any) -> Any:
        raise NotImplementedError


class BoostedTrees(Typed):
    """LightGBM, with as many trees as predict the folds best."""

    def _fit(self, X: pd.DataFrame, y: Any) -> Any:
        import lightgbm

        settings = {"num_leaves": 7, "learning_rate": 0.05, "verbosity": -1, "num_threads": 1}
        settings |= {"objective": "binary", "seed": self.columns.seed}
        found = lightgbm.cv(
            settings,
            lightgbm.Dataset(X, y),
            num_boost_round=MOST_TREES,
            folds=self.columns.folds,
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        self.n_trees_ = len(found["valid binary_logloss-mean"])
        return lightgbm.LGBMClassifier(**settings, n_estimators=self.n_trees_).fit(X, y)


class Shapes(Typed):
    """An explainable boosting machine."""

    def _fit(self, X: pd.DataFrame, y: Any) -> Any:
        from interpret.glassbox import ExplainableBoostingClassifier

        numbers = set(self.columns.numbers)
        kinds = ["continuous" if name in numbers else "nominal" for name in X.columns]
        model = ExplainableBoostingClassifier(
            feature_types=kinds, random_state=self.columns.seed, n_jobs=1
        )
        return model.fit(X, y)

    def _type(self, X: pd.DataFrame) -> pd.DataFrame:
        frame = super()._type(X)
        return frame.astype(dict.fromkeys(self.columns.categories, object))


def encode(columns: Columns) -> Any:
    """Return a transformer to plain numbers: a column per level, a flag where one is missing."""
    return make_column_transformer(
        (
            make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
            list(columns.numbers),
        ),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), list(columns.categories)),
    )


def _unpenalised(columns: Columns) -> Pipeline:
    return make_pipeline(encode(columns), LogisticRegression(C=WEAKEST, solver="newton-cholesky"))


def _ridge(columns: Columns) -> Pipeline:
    model = LogisticRegressionCV(
        Cs=STRENGTHS, cv=columns.folds, scoring="neg_log_loss", solver="newton-cholesky"
    )
    return make_pipeline(encode(columns), model)


@dataclass(frozen=True)
class Peer:
    """A model that fedrulefit is held against.

    Parameters
    ----------
    make : callable
        Returns it, unfitted.
    count : callable
        Returns how many coefficients, trees or shape functions it has, once fitted.
    """

    make: Callable[[Columns], Any]
    count: Callable[[Any], int]


def _count_coefficients(model: Any) -> int:
    return int(np.count_nonzero(model[-1].coef_))


PEERS: Final[Mapping[str, Peer]] = {
    UNPENALISED: Peer(_unpenalised, _count_coefficients),
    RIDGE: Peer(_ridge, _count_coefficients),
    LIGHTGBM: Peer(BoostedTrees, lambda model: int(model.n_trees_)),
    EBM: Peer(Shapes, lambda model: len(model.model_.term_features_)),
}


def fit_peer(
    name: str, X: pd.DataFrame, y: Any, *, categories: Sequence[str] = (), seed: int = 0
) -> Any:
    """Return the peer `name`, fitted to patients who are all in one place."""
    numbers = [column for column in X.columns if column not in categories]
    model = PEERS[name].make(Columns(numbers, list(categories), seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers' own dependencies
        return model.fit(X, y)


def count_terms(name: str, model: Any) -> int:
    """Return how many coefficients, trees or shape functions a fitted peer has."""
    return PEERS[name].count(model)
