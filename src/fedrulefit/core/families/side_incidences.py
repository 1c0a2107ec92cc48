r"""The risk of a cause by the last horizon, inside and outside a rule, where other causes compete.

Tallies are events :math:`d_{ck}` of each cause and time at risk :math:`e_k` by interval
(:mod:`fedrulefit.core.families.competing`). With hazards that are constant inside intervals,
:math:`h_{ck} = d_{ck}/e_k`, the risk is the cumulative incidence of the first cause
(:mod:`fedrulefit.core.families.incidence`), and by the delta method, :math:`h_{ck}` having the
variance :math:`d_{ck}/e_k^2`,

.. math:: se^2 = \sum_{ck} \Bigl(\frac{∂\,\text{risk}}{∂h_{ck}}\Bigr)^2 \frac{d_{ck}}{e_k^2},\quad
   se(\log H) = \frac{se}{(1 - \text{risk})\,H},\; H = -\log(1 - \text{risk})

Intervals and differences are those of :mod:`fedrulefit.core.families.side_risks`. Unknown where
nobody is followed through some interval.

Oracle: Aalen and Johansen's curve, and simulated coverage (``tests/unit/core/test_sides.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.incidence import accumulate
from fedrulefit.core.families.side_risks import RiskLevels
from fedrulefit.core.families.sides import Side

_STEP = 1e-6
"""Derivatives are differences over so much of a hazard."""


class IncidenceLevels(RiskLevels):
    """Risks of a cause by the last horizon, and their difference.

    Parameters
    ----------
    by : str
        The horizon, with its unit.
    ends : (K,) sequence of float
        Where intervals end, the last at the horizon.
    cause : str
        The cause of interest.
    n_causes : int
    """

    def __init__(self, by: str, ends: Sequence[float], cause: str, n_causes: int) -> None:
        super().__init__(by, ends)
        self.event, self.n_causes = cause, n_causes
        self.words = replace(
            self.words,
            shown=f"and the risk of {cause} by {by} that was observed among them (cumulative "
            "incidence), with follow-up that ended earlier accounted for",
            axis=f"risk of {cause} by {by}: ",
        )

    def find(self, patients: float, sums: Floats) -> Side:
        """Return the risk and the standard error of log H, from Σd and Σe by interval."""
        parts = sums.reshape(self.n_causes + 1, -1)
        return self.follow(patients, parts[:-1], parts[-1])

    def grow(self, events: Floats, watched: Floats) -> tuple[Floats, Floats]:
        """Return the risk by the end of each interval, and the standard error of log H."""
        hazards, variance = events / watched, events / watched**2
        risks = accumulate(hazards)[0]
        errors = np.sqrt((_find_slopes(hazards) ** 2 * variance).sum(axis=(1, 2)))
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = errors / ((1 - risks) * -np.log1p(-risks))
        return risks, np.where(risks > 0, scaled, np.nan)


def _find_slopes(hazards: Floats) -> Floats:
    """Return the derivatives of each risk by each hazard, shape (K, n_causes, K)."""
    moves = np.eye(hazards.size).reshape(-1, *hazards.shape) * _STEP
    up, down = (accumulate(hazards + sign * moves)[:, 0] for sign in (1, -1))
    slopes: Floats = ((up - down) / (2 * _STEP)).T
    return slopes.reshape(-1, *hazards.shape)
