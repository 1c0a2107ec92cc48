"""What ``verbose`` prints while a fit goes on, to standard output as scikit-learn does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from fedrulefit.protocol.coordinator import STEPS, Progress


def tell_progress(name: str, verbose: int) -> Callable[[Progress], None] | None:
    """Return who is told where a fit is; None where nothing is printed.

    Parameters
    ----------
    name : str
        Of the estimator: it begins each line.
    verbose : int
        1 prints a line for each phase, 2 one for each round.
    """
    if not verbose:
        return None
    began, told = time.monotonic(), ""

    def tell(progress: Progress) -> None:
        nonlocal told
        if progress.step != told or verbose > 1:
            seconds = time.monotonic() - began
            sys.stdout.write(f"[{name}] {_describe(progress)} ({seconds:.1f} s)\n")
        told = progress.step

    return tell


def _describe(progress: Progress) -> str:
    parts = [STEPS[progress.step]]
    if progress.round:
        parts.append(f"after {progress.round} round{'s' * (progress.round != 1)}")
    if progress.objective is not None:
        parts.append(f"objective {progress.objective:.5f}")
    return ", ".join(parts)
