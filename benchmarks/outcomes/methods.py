"""fedrulefit and its peers on numbers, counts, times and levels, each with fair settings.

==========================  ========================================================================
ridge, lasso                the penalty by 5-fold cross-validation; standardised numbers, a column
                            per level
Poisson regression          scikit-learn's, with a ridge penalty chosen likewise, of rates; weights
                            are exposures
multinomial regression      scikit-learn's, with so little penalty that it only makes the optimum
                            unique, or with a ridge penalty by the log-loss of 5 folds
proportional odds           statsmodels', without a penalty (ordered levels)
LightGBM                    trees of 7 leaves, learning rate 0.05; how many by 5-fold
                            cross-validation; counts as rates, weights are exposures; levels as
                            classes
EBM                         interpret's defaults
Cox                         scikit-survival's, with a ridge of 10⁻⁴
Cox, lasso                  Coxnet; its penalty by 5-fold cross-validation of Harrell's C
random survival forest      scikit-survival's, 200 trees, at least 15 patients in a leaf
==========================  ========================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from sklearn.linear_model import (
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from benchmarks.outcomes.patients import LEVELS, Patients, places_of
from benchmarks.peers import FOLDS, MOST_TREES, PATIENCE, WEAKEST, Columns, encode
from benchmarks.peers import STRENGTHS as PENALTIES

OURS: Final = "fedrulefit, 3 sites"
POOLED: Final = "fedrulefit, pooled"

Predict = Callable[[pd.DataFrame], Any]
"""From patients to the mean, the rate, (log hazard, survival at times), or levels' chances."""

STRENGTHS: Final = np.logspace(-4, 4, 17)


def fit(
    name: str, data: Patients, train: pd.DataFrame, times: Any, seed: int
) -> tuple[Predict, int]:
    """Return what predicts, and how many terms it has (−1: not a number of terms)."""
    return METHODS[data.kind][name](data, train, times, seed)


# --- ours -------------------------------------------------------------------------------------


def _fit_ours(data: Patients, train: pd.DataFrame, times: Any, seed: int) -> tuple[Predict, int]:
    import fedrulefit

    kind = getattr(fedrulefit, f"FederatedRuleFit{_name(data)}")
    model = kind(study=data.study, random_state=seed, unsafe_noise_seed=seed)
    return _go_on(model, data, train, times, sites=train["site"])


def _name(data: Patients) -> str:
    """Return how the estimator of a kind of outcome ends."""
    return "Survival" if data.kind == "time" else "Classifier" if _several(data) else "Regressor"


def _several(data: Patients) -> bool:
    return data.kind in LEVELS


def _fit_pooled(data: Patients, train: pd.DataFrame, times: Any, seed: int) -> tuple[Predict, int]:
    import fedrulefit

    kind = getattr(fedrulefit, f"RuleFit{_name(data)}")
    return _go_on(kind(study=data.study, random_state=seed), data, train, times)


def _go_on(
    model: Any, data: Patients, train: pd.DataFrame, times: Any, **more: Any
) -> tuple[Predict, int]:
    names, roles = list(data.study.names), data.study.outcome.columns
    if data.kind == "time":
        model.fit(train[names], survival_of(data, train), **more)

        def predict(test: pd.DataFrame) -> Any:
            curves = model.predict_survival_function(test[names])
            return model.predict(test[names]), np.array([curve(times) for curve in curves])

        return predict, len(model.model_.terms)
    if "exposure" in roles:
        more["exposure"] = train[roles["exposure"]]
    model.fit(train[names], train[roles["outcome"]], **more)
    found = model.model_
    tell = found.predict_proba if _several(data) else found.predict
    return (lambda test: tell(test[names])), len(found.terms)


# --- peers of numbers and counts --------------------------------------------------------------


def _columns(data: Patients, seed: int) -> Columns:
    of = {name: covariate.kind for name, covariate in data.study.covariates.items()}
    numbers = [name for name, kind in of.items() if kind == "number"]
    return Columns(numbers, [name for name in of if name not in numbers], seed)


def _folds(seed: int) -> KFold:
    return KFold(FOLDS, shuffle=True, random_state=seed)


def _typed(columns: Columns, frame: pd.DataFrame, levels: Mapping[str, Any]) -> pd.DataFrame:
    typed = frame[columns.names].copy()
    for name, known in levels.items():
        typed[name] = pd.Categorical(typed[name], categories=known)
    return typed


def _rates(data: Patients, train: pd.DataFrame) -> tuple[Any, Any]:
    """Return outcomes per exposure, and exposures as weights."""
    roles = data.study.outcome.columns
    y = train[roles["outcome"]].to_numpy(float)
    watched = train[roles["exposure"]].to_numpy(float) if "exposure" in roles else np.ones(len(y))
    return y / watched, watched


def _fit_line(
    make: Callable[[int], Any], data: Patients, train: pd.DataFrame, times: Any, seed: int
) -> tuple[Predict, int]:
    columns, (y, weights) = _columns(data, seed), _rates(data, train)
    model = make_pipeline(encode(columns), make(seed))
    model.fit(train, y, **{f"{model.steps[-1][0]}__sample_weight": weights})
    last = getattr(model[-1], "best_estimator_", model[-1])
    return model.predict, int(np.count_nonzero(last.coef_))


def _ridge(seed: int) -> Any:
    return RidgeCV(100 * STRENGTHS, cv=_folds(seed))


def _lasso(seed: int) -> Any:
    return LassoCV(cv=_folds(seed), random_state=seed)


def _poisson(seed: int) -> Any:
    model = PoissonRegressor(solver="newton-cholesky", max_iter=1000)
    return GridSearchCV(
        model, {"alpha": STRENGTHS}, cv=_folds(seed), scoring="neg_mean_poisson_deviance"
    )


def _fit_trees(data: Patients, train: pd.DataFrame, times: Any, seed: int) -> tuple[Predict, int]:
    import lightgbm

    columns, (y, weights) = _columns(data, seed), _rates(data, train)
    levels = {name: pd.unique(train[name].dropna()) for name in columns.categories}
    X = _typed(columns, train, levels)
    loss = "poisson" if data.kind == "count" else "l2"
    settings = {"num_leaves": 7, "learning_rate": 0.05, "verbosity": -1, "num_threads": 1}
    settings |= {"objective": loss, "seed": seed}
    found = lightgbm.cv(
        settings, lightgbm.Dataset(X, y, weight=weights), num_boost_round=MOST_TREES,
        folds=_folds(seed), callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    n_trees = len(found[f"valid {loss}-mean"])
    model = lightgbm.LGBMRegressor(**settings, n_estimators=n_trees)
    model.fit(X, y, sample_weight=weights)
    return (lambda test: model.predict(_typed(columns, test, levels))), n_trees


def _fit_shapes(data: Patients, train: pd.DataFrame, times: Any, seed: int) -> tuple[Predict, int]:
    from interpret.glassbox import ExplainableBoostingRegressor

    columns, (y, weights) = _columns(data, seed), _rates(data, train)
    model = ExplainableBoostingRegressor(random_state=seed, n_jobs=1)
    model.fit(train[columns.names], y, sample_weight=weights)
    return (lambda test: model.predict(test[columns.names])), len(model.term_features_)


# --- peers of levels --------------------------------------------------------------------------


def _fit_logistic(
    make: Callable[[Columns], Any], data: Patients, train: pd.DataFrame, times: Any, seed: int
) -> tuple[Predict, int]:
    columns = _columns(data, seed)
    model = make_pipeline(encode(columns), make(columns))
    model.fit(train, places_of(data, train))
    return model.predict_proba, int(np.count_nonzero(model[-1].coef_))


def _unpenalised(columns: Columns) -> Any:
    return LogisticRegression(C=WEAKEST, max_iter=10_000)


def _ridged(columns: Columns) -> Any:
    return LogisticRegressionCV(
        Cs=PENALTIES, cv=columns.folds, scoring="neg_log_loss", max_iter=10_000
    )


def _fit_odds(
    make: Any, data: Patients, train: pd.DataFrame, times: Any, seed: int
) -> tuple[Predict, int]:
    encoder = encode(_columns(data, seed))
    X = np.asarray(encoder.fit_transform(train), dtype=float)
    kept = np.flatnonzero(X.std(axis=0) > 0)
    model = make(places_of(data, train), X[:, kept], distr="logit")
    fitted = model.fit(method="bfgs", maxiter=1000, disp=False)

    def predict(test: pd.DataFrame) -> Any:
        return fitted.predict(np.asarray(encoder.transform(test), dtype=float)[:, kept])

    return predict, len(kept)


def _proportional() -> Any:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    return OrderedModel


def _fit_class_trees(
    data: Patients, train: pd.DataFrame, times: Any, seed: int
) -> tuple[Predict, int]:
    import lightgbm

    columns, y = _columns(data, seed), places_of(data, train)
    levels = {name: pd.unique(train[name].dropna()) for name in columns.categories}
    X, n_classes = _typed(columns, train, levels), int(y.max()) + 1
    settings = {"num_leaves": 7, "learning_rate": 0.05, "verbosity": -1, "num_threads": 1}
    settings |= {"objective": "multiclass", "num_class": n_classes, "seed": seed}
    found = lightgbm.cv(
        settings, lightgbm.Dataset(X, y), num_boost_round=MOST_TREES,
        folds=columns.folds, callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    n_trees = len(found["valid multi_logloss-mean"])
    model = lightgbm.LGBMClassifier(**settings, n_estimators=n_trees).fit(X, y)
    return (lambda test: model.predict_proba(_typed(columns, test, levels))), n_trees * n_classes


# --- peers of times ---------------------------------------------------------------------------


def survival_of(data: Patients, frame: pd.DataFrame, end: float = np.inf) -> Any:
    """Return events and times as scikit-survival has them; follow-up ends at `end`."""
    from sksurv.util import Surv

    roles = data.study.outcome.columns
    time, event = frame[roles["outcome"]].to_numpy(float), frame[roles["event"]].to_numpy(bool)
    return Surv.from_arrays(event & (time <= end), np.minimum(time, end))


def _fit_survival(
    make: Callable[[int], Any], data: Patients, train: pd.DataFrame, times: Any, seed: int
) -> tuple[Predict, int]:
    columns = _columns(data, seed)
    model = make_pipeline(encode(columns), make(seed))
    model.fit(train, survival_of(data, train))
    last = getattr(model[-1], "best_estimator_", model[-1])

    def predict(test: pd.DataFrame) -> Any:
        encoded = model[:-1].transform(test)
        curves = last.predict_survival_function(encoded)
        inside = [np.clip(times, *curve.domain) for curve in curves]
        told = [curve(own) for curve, own in zip(curves, inside, strict=True)]
        return last.predict(encoded), np.array(told)

    kept = getattr(last, "coef_", None)
    return predict, -1 if kept is None else int(np.count_nonzero(kept))


def _cox(seed: int) -> Any:
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    return CoxPHSurvivalAnalysis(alpha=1e-4)


def _coxnet(seed: int) -> Any:
    from sksurv.linear_model import CoxnetSurvivalAnalysis

    penalties = [[penalty] for penalty in np.logspace(-3, -0.5, 12)]
    model = CoxnetSurvivalAnalysis(l1_ratio=1.0, fit_baseline_model=True)
    return GridSearchCV(model, {"alphas": penalties}, cv=_folds(seed), error_score=0.5)


def _forest(seed: int) -> Any:
    from sksurv.ensemble import RandomSurvivalForest

    return RandomSurvivalForest(200, min_samples_leaf=15, random_state=seed, n_jobs=1)


Fit = Callable[[Patients, pd.DataFrame, Any, int], tuple[Predict, int]]


def _of(fit: Callable[..., tuple[Predict, int]], make: Callable[[int], Any]) -> Fit:
    def fitted(data: Patients, train: pd.DataFrame, times: Any, seed: int) -> tuple[Predict, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of solvers at penalties that are not chosen
            return fit(make, data, train, times, seed)

    return fitted


def _of_classes(make: Callable[[Columns], Any]) -> Fit:
    return _of(_fit_logistic, make)  # type: ignore[arg-type]


def _fit_proportional(
    data: Patients, train: pd.DataFrame, times: Any, seed: int
) -> tuple[Predict, int]:
    return _of(_fit_odds, _proportional())(data, train, times, seed)


_MULTINOMIAL: Final[dict[str, Fit]] = {
    "multinomial regression, unpenalised": _of_classes(_unpenalised),
    "multinomial regression, ridge": _of_classes(_ridged),
}
_OWN: Final[dict[str, Fit]] = {OURS: _fit_ours, POOLED: _fit_pooled}
METHODS: Final[Mapping[str, Mapping[str, Fit]]] = {
    "number": {
        **_OWN,
        "ridge": _of(_fit_line, _ridge),
        "lasso": _of(_fit_line, _lasso),
        "LightGBM": _fit_trees,
        "EBM": _fit_shapes,
    },
    "count": {
        **_OWN,
        "Poisson regression, ridge": _of(_fit_line, _poisson),
        "LightGBM, Poisson": _fit_trees,
    },
    "time": {
        **_OWN,
        "Cox": _of(_fit_survival, _cox),
        "Cox, lasso": _of(_fit_survival, _coxnet),
        "random survival forest": _of(_fit_survival, _forest),
    },
    "ordered": {
        **_OWN,
        "proportional odds, unpenalised": _fit_proportional,
        **_MULTINOMIAL,
        "LightGBM, multiclass": _fit_class_trees,
    },
    "classes": {**_OWN, **_MULTINOMIAL, "LightGBM, multiclass": _fit_class_trees},
}
"""How each method is fitted, by the kind of outcome."""
