"""The real multi-hospital data as studies, and splits within hospitals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedrulefit import FederatedRuleFitClassifier, Study

OUTCOMES = {"trauma": "mortality", "heart_uci": "outcome", "ist": "outcome"}


@dataclass(frozen=True)
class Run:
    """One split: how well each model ranks the patients left out."""

    auc: float
    auc_logistic: float
    n_terms: int
    importance: pd.Series


def load(folder: Path, name: str) -> tuple[Study, pd.DataFrame]:
    variables = json.loads((folder / "variables.json").read_text(encoding="utf-8"))[name]
    frame = pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values=[""])
    study = Study.from_mapping(
        {
            "name": name,
            "outcome": {"column": OUTCOMES[name]},
            "covariates": {key: _covariate(facts) for key, facts in variables.items()},
        }
    )
    return study, frame


def _covariate(facts: dict[str, Any]) -> dict[str, Any]:
    match facts["kind"]:
        case "numeric":
            return {"kind": "number", "range": [facts["lo"], facts["hi"]], "unit": facts["unit"]}
        case "ordinal":
            ends = [min(facts["levels"]), max(facts["levels"])]
            return {"kind": "number", "range": ends, "step": 1}
        case "binary":
            return {"kind": "yes/no"}
        case _:
            return {"kind": "category", "levels": facts["levels"]}


def splits(frame: pd.DataFrame, repeats: int) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield 70/30 splits drawn within each hospital."""
    for seed in range(repeats):
        yield tuple(train_test_split(frame, test_size=0.3, random_state=seed, stratify=frame.site))


def run(study: Study, train: pd.DataFrame, test: pd.DataFrame, **settings: Any) -> Run:
    names, outcome = list(study.names), study.outcome.column
    model = FederatedRuleFitClassifier(study=study, random_state=0, n_jobs=2, **settings)
    model.fit(train[names], train[outcome], sites=train["site"])
    peer = _logistic(study).fit(train[names], train[outcome])
    return Run(
        auc=roc_auc_score(test[outcome], model.predict_proba(test[names])[:, 1]),
        auc_logistic=roc_auc_score(test[outcome], peer.predict_proba(test[names])[:, 1]),
        n_terms=len(model.model_.terms),
        importance=model.variable_importance_.sort_values(ascending=False),
    )


def _logistic(study: Study) -> Any:
    """Pooled logistic regression: means for missing numbers, levels one by one."""
    categories = [n for n, c in study.covariates.items() if c.kind == "category"]
    numbers = [n for n in study.names if n not in categories]
    encode = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), categories),
    )
    return make_pipeline(encode, LogisticRegression(max_iter=1000))


def describe(values: list[float]) -> str:
    return f"{np.mean(values):.4f} (SD {np.std(values, ddof=1):.4f})"
