r"""Yes/no outcomes: the logistic family of the paper (2.2.3).

With y = 1 for patients with the outcome, σ the logistic function:

.. math:: ℓ = \log(1 + e^F) - yF,\quad ℓ' = σ(F) - y,\quad ℓ'' = σ(F)(1 - σ(F)),\quad
   ℓ^*(θ) = m\log m + (1-m)\log(1-m),\; m = y + θ

Erratum 2: the published settings are for the *mean* loss; dividing by the total weight is left
to whoever has it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import expit, logit, xlogy

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.base import Family, Link, Words
from fedrulefit.core.families.yesno_scores import YesNoJudge

LOGISTIC: Final = Link("logistic", inverse=expit, forward=logit)


class YesNo(Family):
    """The patient has the outcome, or has not."""

    kind = "yes/no"
    link = LOGISTIC
    words = Words(predictor="log-odds", prediction="probability", effect="odds ratio")
    judge = YesNoJudge()
    most_slope = 1.0
    most_curvature = 0.25

    def most_value(self, predictor: float) -> float:
        """Return an upper bound of log(1 + e^F) − yF."""
        return predictor + 1

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·{log(1 + e^F) − y·F}, shape (n_rows,)."""
        losses: Floats = weights * (np.logaddexp(0.0, predictor) - outcome * predictor)
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·{σ(F) − y}, shape (n_rows,)."""
        slope: Floats = weights * (expit(predictor) - outcome)
        return slope

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·σ(F)·(1 − σ(F)), shape (n_rows,)."""
        chance = expit(predictor)
        curvature: Floats = weights * chance * (1 - chance)
        return curvature

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·{m·log m + (1 − m)·log(1 − m)} with m = y + a·(σ(F) − y), shape (n_rows,)."""
        chance = expit(predictor)
        shrunk = np.where(outcome > 0, 1 - shrink * (1 - chance), shrink * chance)
        entropy: Floats = weights * (xlogy(shrunk, shrunk) + xlogy(1 - shrunk, 1 - shrunk))
        return entropy

    def start(self, outcome: Floats, weights: Floats) -> float | None:
        """Return the log-odds of the outcome; None with one class only."""
        events = weights @ outcome
        others = weights.sum() - events
        if events <= 0 or others <= 0:
            return None
        return float(np.log(events / others))
