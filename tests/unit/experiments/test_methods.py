"""Every method takes the same task, and scores are means over its models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from fedrulefit.experiments.methods import (
    FIXED,
    FIXED_UNSAMPLED,
    LOCAL,
    LOCAL_UNSAMPLED,
    METHODS,
    PROPOSED,
    REFERENCE,
    SAMPLED,
    UNSAMPLED,
    Effort,
    Task,
    fit_method,
    score,
)
from fedrulefit.experiments.scenarios import draw_patients, simulation_study


@pytest.fixture(scope="module")
def task() -> Task:
    patients = draw_patients(1, 200, np.random.default_rng(0))
    clients = np.repeat([0, 1], 100)
    return Task(
        patients.values, patients.outcome, clients, simulation_study(), 5, Effort(quick=True)
    )


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_its_task_and_nothing_else(name: str, task: Task) -> None:
    first, again = fit_method(name, task), fit_method(name, task)
    assert len(first) == (2 if name in (LOCAL, LOCAL_UNSAMPLED) else 1)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(
            one.predict_proba(task.values), other.predict_proba(task.values)
        )
    assert score(first, task.values, task.outcome)["auc"] > 0.8


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.pooled])
def test_pooled_methods_know_no_clients(name: str, task: Task) -> None:
    (one,) = fit_method(name, task)
    (other,) = fit_method(name, replace(task, clients=task.clients[::-1].copy()))
    np.testing.assert_array_equal(one.predict_proba(task.values), other.predict_proba(task.values))


def test_trees_see_samples_where_friedman_and_popescu_have_them(task: Task) -> None:
    """Of 200 patients, and of 100 at each client, a tree sees half; else all."""
    shares = {
        name: {model.study_.settings.subsample for model in fit_method(name, task)}
        for name in METHODS
        if name.startswith(("centralised", "local", "federated"))
    }
    sampled = {REFERENCE, FIXED, LOCAL, SAMPLED}
    assert shares == {name: {0.5 if name in sampled else 1.0} for name in shares}
    for one, other in ((REFERENCE, UNSAMPLED), (FIXED, FIXED_UNSAMPLED), (SAMPLED, PROPOSED)):
        first, second = (fit_method(name, task)[0].model_ for name in (one, other))
        assert first.rule_terms != second.rule_terms


def test_full_effort_changes_no_setting() -> None:
    assert Effort().fedda == Effort().exact == {}
    assert Effort().n_forest == 100


class Constant:
    """A model with given probabilities."""

    def __init__(self, chance: list[float]) -> None:
        self._chance = np.array(chance)

    def predict_proba(self, values: np.ndarray) -> np.ndarray:
        return np.column_stack([1 - self._chance, self._chance])


def test_scores_are_means_over_models() -> None:
    y = np.array([0, 1, 1, 0])
    chances = [[0.1, 0.9, 0.4, 0.6], [0.2, 0.3, 0.1, 0.4]]
    found = score([Constant(c) for c in chances], np.empty((4, 1)), y)
    hits = [np.array(c) > 0.5 for c in chances]
    assert found["auc"] == pytest.approx(np.mean([roc_auc_score(y, c) for c in chances]))
    assert found["accuracy"] == pytest.approx(np.mean([accuracy_score(y, h) for h in hits]))
    assert found["f1"] == pytest.approx(f1_score(y, hits[0]) / 2)
    assert np.isnan(found["rules"])
