"""What a run costs and the budget pays for, as the commands say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from fedrulefit.privacy.budget import Budget
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import Study


def budget_of(study: Study, policy: Policy, rows: Iterable[Mapping[str, Any]] = ()) -> Budget:
    """Return the study's budget, after what the rows of a ledger spent."""
    spent = [(row["study"], row["epsilon"] or 0.0) for row in rows]
    return Budget(
        study.n_features,
        study.epsilon_per_histogram,
        policy,
        spent_study=sum(epsilon for name, epsilon in spent if name == study.name),
        spent_dataset=sum(epsilon for _, epsilon in spent),
    )


def print_budget(console: Console, budget: Budget, *, given: bool) -> None:
    """Print cost and budget; `given` tells whether the policy is the hospital's own."""
    for line in budget.words():
        console.print(Text(f"  {line}"))
    if budget.problem:
        whose = "" if given else "with the default policy, "
        console.print(Text.assemble(("  Warning: ", "yellow"), f"{whose}{budget.problem}"))
