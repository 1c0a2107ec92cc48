"""What a run costs and the budget pays for, in words."""

from __future__ import annotations

from typing import Any

import pytest

from fedrulefit.privacy.budget import Budget
from fedrulefit.privacy.policy import Policy

FREE = Policy(epsilon_study=None, epsilon_dataset=None)


@pytest.mark.parametrize(
    ("n", "epsilon", "spent", "runs"),
    [
        (4, 1.0, (0, 0), 5),
        (20, 0.5, (0, 0), 2),
        (50, 0.2, (0, 0), 2),
        (50, 0.2, (10, 10), 1),
        (50, 0.2, (0, 35), 0),
        (50, 0.2, (20, 20), 0),
        (21, 1.0, (0, 0), 0),
        (3, 0.1, (19.7, 19.7), 1),  # 0.1 + 0.2 is a little more than 0.3 in floats
    ],
)
def test_runs_that_the_default_policy_pays_for(
    n: int, epsilon: float, spent: tuple[float, float], runs: int
) -> None:
    budget = Budget(n, epsilon, Policy(), *spent)
    assert budget.runs == runs
    assert bool(budget.problem) == (runs == 0)


def test_a_budget_in_words() -> None:
    first, second = Budget(20, 0.5, Policy()).words()
    assert "A run costs ε = 10 (20 covariates × 0.5)" in first
    assert "repeats the same noise, and costs nothing more" in first
    assert second == (
        "The policy pays for 2 runs of this study over changed patients, for 4 runs of all studies "
        "like it, or for one run with 40 covariates of this ε."
    )
    (words, _) = Budget(20, 0.5, Policy(), max_rows=4).words()
    assert "for adding or removing one patient with up to 4 rows." in words
    assert "1 run of this study" in Budget(20, 0.5, Policy(), 10, 10).words()[1]
    assert Budget(20, 0.5, FREE).words()[1] == "The policy sets no limit."
    assert "all studies" not in Budget(20, 0.5, Policy(epsilon_dataset=None)).words()[1]


@pytest.mark.parametrize(
    ("policy", "spent", "words"),
    [
        ({}, (0, 0), ("ε = 30 (30 covariates × 1)", "ε = 20 for one study", "'epsilon_study'")),
        (
            {"epsilon_study": None},
            (12, 12),
            ("ε = 40 for all studies, of which 12 is spent", "raise 'epsilon_dataset'"),
        ),
    ],
)
def test_what_is_not_paid_for_names_both_numbers(
    policy: dict[str, Any], spent: tuple[float, float], words: tuple[str, ...]
) -> None:
    budget = Budget(30, 1.0, Policy(**policy), *spent)
    for part in (*words, "lower 'epsilon_total' or 'epsilon' or take covariates out"):
        assert part in budget.problem
    assert len(budget.words()) == 1


def test_without_noise_no_budget_covers_anything() -> None:
    budget = Budget(30, None, Policy())
    assert (budget.cost, budget.runs, budget.problem) == (None, None, "")
    assert budget.words() == ["The histograms leave WITHOUT noise: no budget covers them."]


def test_the_tighter_of_both_limits_counts() -> None:
    """20 per study and 40 in all; what other studies spent narrows this one."""
    assert Budget(10, 1.0, Policy(), 0.0, 0.0).runs == 2
    assert Budget(10, 1.0, Policy(), 0.0, 25.0).runs == 1
    assert Budget(10, 1.0, Policy(), 10.0, 10.0).runs == 1
    assert Budget(10, 1.0, Policy(), 30.0, 0.0).runs == 0  # more spent than there is
    assert Budget(10, 1.0, FREE).runs is None
    assert Budget(10, 1.0, Policy(epsilon_study=None), 0.0, 0.0).runs == 4


def test_a_limit_counts_up_to_its_last_digit() -> None:
    """A billionth of the limit is rounding; more is not."""
    assert Budget(1, 20.0 * (1 + 0.9e-9), Policy()).runs == 1
    assert Budget(1, 20.0 * (1 + 1.1e-9), Policy()).runs == 0
    assert Budget(10, 2.0, Policy()).words()[1].endswith("10 covariates of this ε.")
    assert (
        Budget(3, 0.1, Policy(epsilon_study=0.3))
        .words()[1]
        .endswith("for one run with 3 covariates of this ε.")
    )


def test_whose_policy_it_is() -> None:
    budget = Budget(30, 1.0, Policy(), whose="the policy of north")
    assert "but the policy of north allows ε = 20" in budget.problem
    assert (
        Budget(1, 1.0, Policy(), whose="the policy of north")
        .words()[1]
        .startswith(
            "The policy of north pays for 20 runs of this study over changed patients, for 40 runs"
        )
    )
