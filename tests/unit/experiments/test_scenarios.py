"""The simulated patients: exactly the sizes and prevalences that the paper states."""

from __future__ import annotations

from math import exp, sin

import numpy as np
import pytest

from fedrulefit.experiments.scenarios import (
    MODELS,
    N_PATIENTS,
    SCENARIOS,
    assign_clients,
    draw_balanced,
    draw_repetition,
    log_odds,
)

SIZES = {
    1: [(500,) * 2, (200,) * 5, (100,) * 10, (50,) * 20],
    2: [(200,) * 5, (100, 150, 200, 250, 300), (50, 100, 150, 250, 450)],
    3: [(200,) * 5] * 3,
}
PREVALENCES = [
    (0.5, 0.5, 0.5, 0.5, 0.5),
    (0.25, 0.375, 0.5, 0.625, 0.75),
    (0.125, 0.250, 0.375, 0.875, 0.875),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("repetition", [0, 7])
def test_clients_have_their_stated_sizes(scenario: int, model: int, repetition: int) -> None:
    train, test = draw_repetition(scenario, model, repetition, seed=1)
    assert train.values.shape == test.values.shape == (N_PATIENTS, 10)
    for setting, sizes in zip(SCENARIOS[scenario], SIZES[scenario], strict=True):
        assert tuple(np.bincount(assign_clients(setting, train.outcome))) == sizes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("repetition", [0, 7])
def test_scenario_3_has_exactly_its_stated_prevalences(model: int, repetition: int) -> None:
    train, test = draw_repetition(3, model, repetition, seed=1)
    assert train.outcome.sum() == test.outcome.sum() == 500
    for setting, stated in zip(SCENARIOS[3], PREVALENCES, strict=True):
        clients = assign_clients(setting, train.outcome)
        assert tuple(train.outcome[clients == k].mean() for k in range(5)) == stated


def test_a_rare_outcome_is_drawn_until_there_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fedrulefit.experiments.scenarios.log_odds", lambda values, model: values[:, 0] - 4
    )
    patients = draw_balanced(1, 100, np.random.default_rng(0))
    assert patients.values.shape == (100, 10)
    assert patients.outcome.sum() == 50


def test_a_repetition_depends_on_its_four_numbers_only() -> None:
    first, _ = draw_repetition(1, 2, 3, seed=4)
    draw_repetition(2, 1, 0, seed=4)
    again, _ = draw_repetition(1, 2, 3, seed=4)
    np.testing.assert_array_equal(first.values, again.values)
    for other in [(2, 2, 3, 4), (1, 1, 3, 4), (1, 2, 4, 4), (1, 2, 3, 5)]:
        assert not np.array_equal(
            first.values, draw_repetition(*other[:3], seed=other[3])[0].values
        )


def test_train_and_test_are_different_patients() -> None:
    train, test = draw_repetition(1, 1, 0, seed=1)
    assert not set(train.values[:, 0]) & set(test.values[:, 0])


def test_the_log_odds_are_the_papers() -> None:
    x = np.array([[0.3, -0.7, 1.1, 0.4, -2.0, 9, 9, 9, 9, 9]])
    assert log_odds(x, 1)[0] == pytest.approx(5 * 0.3 + 4 * 0.7 + 3 * 1.1 - 2 * 0.4 - 2.0)
    curved = 10 * exp(-2 * 0.3**2) - 10 * exp(-2 * 0.7**2)
    curved += 6 * sin(1.1) - 4 * sin(0.4) + 2 * sin(-2.0)
    assert log_odds(x, 2)[0] == pytest.approx(curved)
    with pytest.raises(ValueError, match="models 1 and 2"):
        log_odds(x, 3)
