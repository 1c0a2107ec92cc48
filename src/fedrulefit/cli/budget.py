"""What a run costs and the budget pays for, as the commands say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from fedrulefit.privacy.budget import Budget
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import Study


def budget_of(
    study: Study, policy: Policy | None, rows: Iterable[Mapping[str, Any]] = ()
) -> Budget:
    """Return the study's budget after what the rows of a ledger spent; None: by default."""
    spent = [(row["study"], row["epsilon"] or 0.0) for row in rows]
    return Budget(
        study.n_features,
        study.epsilon_per_histogram,
        Policy() if policy is None else policy,
        spent_study=sum(epsilon for name, epsilon in spent if name == study.name),
        spent_dataset=sum(epsilon for _, epsilon in spent),
        whose="the default policy" if policy is None else "the policy",
        max_rows=study.max_rows,
    )


def print_budget(console: Console, budget: Budget, *, head: str = "Warning") -> None:
    """Print cost and budget; `head` stands before what is in the way."""
    for line in budget.words():
        console.print(Text(line))
    if budget.problem:
        console.print(Text.assemble((f"{head}: ", "yellow"), budget.problem))
