"""Bins and grids from a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrulefit.core.bins import Bins
from fedrulefit.core.cutoffs import estimate_grid
from fedrulefit.core.grid import Grid


def numbers(
    edges: Any, *, cutoffs: Any = None, step: float | None = None, complete: bool = True
) -> Bins:
    fixed = None if cutoffs is None else np.asarray(cutoffs, float)
    return Bins.numeric(np.asarray(edges, float), cutoffs=fixed, step=step, complete=complete)


def estimate(counts: Any, bins: Bins | list[Bins], **changes: Any) -> Grid:
    options: dict[str, Any] = {
        "n_cutoffs": 3,
        "winsor": 0.0,
        "repair": "clip",
        "centre": False,
        "spreads": None,
    }
    every = bins if isinstance(bins, list) else [bins]
    return estimate_grid(np.asarray(counts, np.int64), every, **{**options, **changes})


def ones(n_rows: int) -> Any:
    return np.ones(n_rows, dtype=np.int64)
