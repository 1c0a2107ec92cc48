"""What a study plans, as the commands say it before any work."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from fedrulefit.study import Study


def print_plan(console: Console, study: Study, *, head: str = "Warning") -> None:
    """Say what the candidates are thinned to, if they are; or, after `head`, what is wrong."""
    plan = study.plan
    if plan.problem:
        _warn(console, plan.problem, head)
    elif plan.n_left_out:
        console.print(Text(plan.words()))


def print_blur(console: Console, study: Study, n_patients: float, n_sites: int = 1) -> None:
    """Warn where the noise of the histograms leaves little of the cut-offs."""
    problem = study.blur.problem(n_patients, n_sites)
    if problem:
        _warn(console, problem, "Warning")


def _warn(console: Console, words: str, head: str) -> None:
    console.print(Text.assemble((f"{head}: ", "yellow"), words))
