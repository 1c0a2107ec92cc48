"""Splits of the trauma patients, and importances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedrulefit.baselines.bfi import BFIClassifier
from fedrulefit.experiments.methods import Effort
from fedrulefit.experiments.trauma import make_units
from fedrulefit.experiments.trauma.patients import load_trauma
from fedrulefit.experiments.trauma.repetitions import (
    COMPARED,
    COVARIATES,
    importances,
    split_within,
    standardise,
)


def test_splits_take_70_percent_of_every_hospital() -> None:
    sites = np.repeat([1, 2, 3], [49, 106, 216])
    train = split_within(sites, np.random.default_rng(0))
    assert [train[sites == k].sum() for k in (1, 2, 3)] == [34, 74, 151]
    other = split_within(sites, np.random.default_rng(1))
    assert not np.array_equal(train, other)


def test_standardising_uses_training_patients_only() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(5, 2, size=(40, 4))
    train = np.arange(40) < 30
    scaled = standardise(values, train)
    sex = COVARIATES.index("sex")
    numbers = np.delete(scaled[train], sex, axis=1)
    np.testing.assert_allclose(numbers.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(numbers.std(axis=0, ddof=1), 1)
    np.testing.assert_array_equal(scaled[:, sex], values[:, sex])


def test_importance_of_bfi_is_coefficient_times_spread() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) * [1, 2, 3, 4]
    model = BFIClassifier().fit(X, X[:, 0] + X[:, 3] > 0)
    expected = np.abs(model.coef_[0]) * X.std(axis=0, ddof=1)
    np.testing.assert_allclose(importances(model, X), 100 * expected / expected.max())


def test_a_split_holds_all_methods(data_dir: Path) -> None:
    patients = load_trauma(data_dir, folder=data_dir)
    (unit,) = make_units(1, seed=1, effort=Effort(quick=True), patients=patients)
    rows = unit.run()
    assert [row["method"] for row in rows] == list(COMPARED)
    for row in rows:
        assert (row["n_train"], row["n_test"]) == (259, 112)
        assert ("tested_1" in row) == (row["method"] != "bfi")
        assert row["auc"] > 0.75
        assert max(row[name] for name in COVARIATES) == pytest.approx(100)
