"""The truths that settings are judged on: linear, curved, interacting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MODELS = ("linear", "curved", "interactions")


def draw(
    model: str, n_rows: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draw patients. ``linear`` and ``curved`` are the paper's models 1 and 2."""
    x = rng.standard_normal((n_rows, 10))
    if model == "linear":
        eta = x[:, :5] @ [5, -4, 3, -2, 1]
    elif model == "curved":
        eta = 10 * np.exp(-2 * x[:, 0] ** 2) - 10 * np.exp(-2 * x[:, 1] ** 2)
        eta += 6 * np.sin(x[:, 2]) - 4 * np.sin(x[:, 3]) + 2 * np.sin(x[:, 4])
    else:
        eta = -1 + 3.0 * ((x[:, 0] > 0) & (x[:, 1] > 0))
        eta -= 3.0 * ((x[:, 2] < 0) & (x[:, 3] > 0.3))
        eta += 2.5 * ((x[:, 0] < 0) & (x[:, 4] < 0))
    return x, (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype(np.int64)
