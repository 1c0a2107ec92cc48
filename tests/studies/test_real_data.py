"""fedrulefit on real hospitals' data, in short; the study itself is ``make study``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.real import patients
from sklearn.metrics import roc_auc_score

from fedrulefit import FederatedRuleFitClassifier, Study


def fit(study: Study, train: pd.DataFrame, **settings: Any) -> FederatedRuleFitClassifier:
    """Fit the preset ``paper``; noise is off, so that a split gives the same every time."""
    model = FederatedRuleFitClassifier(
        study=study, random_state=0, n_jobs=2, preset="paper", noise=False, **settings
    )
    return model.fit(train[list(study.names)], train[study.outcome.column], sites=train["site"])


def auc(model: FederatedRuleFitClassifier, study: Study, test: pd.DataFrame) -> float:
    chance = model.predict_proba(test[list(study.names)])[:, 1]
    return float(roc_auc_score(test[study.outcome.column], chance))


def test_trauma_ranks_gcs_first_and_sex_last(data_dir: Path) -> None:
    study, frame = patients.load(data_dir, "trauma")
    areas = []
    for train, test in patients.splits(frame, 3):
        model = fit(study, train)
        importance = model.variable_importance_
        assert importance.index[0] == "GCS"
        assert importance.index[-1] == "sex"
        areas.append(auc(model, study, test))
    assert np.mean(areas) > 0.93


@pytest.mark.parametrize("name", ["heart_uci", "ist"])
def test_missing_values_and_categories_run_as_they_are(data_dir: Path, name: str) -> None:
    study, frame = patients.load(data_dir, name)
    train, test = next(patients.splits(frame, 1))
    model = fit(study, train, rounds=15, n_trees=40)
    assert auc(model, study, test) > 0.75
    assert len(model.model_.terms) > 0


def test_a_split_takes_the_same_share_of_every_hospital(data_dir: Path) -> None:
    _, frame = patients.load(data_dir, "heart_uci")
    train, test = patients.split(frame, 0, 3)
    assert not set(train.index) & set(test.index)
    assert len(train) + len(test) == len(frame)
    for site, own in frame.groupby("site"):
        assert (train["site"] == site).sum() == round(0.7 * len(own))
    again, _ = patients.split(frame, 0, 3)
    other, _ = patients.split(frame, 0, 4)
    assert again.index.equals(train.index)
    assert not other.index.equals(train.index)
