"""The truths that settings are judged on: linear, curved, interacting."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from fedrulefit.experiments.scenarios import N_FEATURES, log_odds

MODELS = ("linear", "curved", "interactions")


def draw(
    model: str, n_rows: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draw patients. ``linear`` and ``curved`` are the paper's models 1 and 2."""
    x = rng.standard_normal((n_rows, N_FEATURES))
    if model == "interactions":
        eta = -1 + 3.0 * ((x[:, 0] > 0) & (x[:, 1] > 0))
        eta -= 3.0 * ((x[:, 2] < 0) & (x[:, 3] > 0.3))
        eta += 2.5 * ((x[:, 0] < 0) & (x[:, 4] < 0))
    else:
        eta = log_odds(x, 1 + MODELS.index(model))
    return x, (rng.random(n_rows) < expit(eta)).astype(np.int64)
