r"""The logistic loss of the rule ensemble (paper 2.2.3, the objective).

With F the linear predictor, the loss of one patient is
:math:`\log(1 + e^F) - yF`. Sums are over a site's patients with their weights;
dividing by the total weight is left to whoever has it (erratum 2: the mean
loss is what the published settings are for).

Oracle: :func:`sklearn.metrics.log_loss` and numerical differentiation
(``tests/unit/core/test_losses.py``).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Floats


def logistic_loss(predictor: Floats, outcome: Floats, weights: Floats) -> float:
    """Return the summed loss Σ w·{log(1 + e^F) − y·F}."""
    return float(patient_losses(predictor, outcome, weights).sum())


def patient_losses(predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
    """Return w·{log(1 + e^F) − y·F} per patient, shape (n_rows,)."""
    losses: Floats = weights * (np.logaddexp(0.0, predictor) - outcome * predictor)
    return losses


def logistic_slope(predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
    """Return dloss/dF per patient, w·{σ(F) − y}, shape (n_rows,)."""
    slope: Floats = weights * (expit(predictor) - outcome)
    return slope
