r"""Federated Dual Averaging for the ℓ1-penalised rule ensemble.

Paper 2.2.3, algorithms 2 and 3 (Yuan, Zaheer, Reddi 2021).

In: each site's design, outcome and weights. Out: coefficients. Leaves the site
in every round: the dual increment :math:`z_{r,G} - z_{r,0}` and the summed loss
at the round's start, both multiplied by the site's weight so that they add up.

============================  ======================  ==============
paper                         here                    shape
============================  ======================  ==============
:math:`z_r`                   ``dual``                (n_terms,)
:math:`\tilde\eta_{r,g}`      :meth:`Schedule.total`  scalar
argmin (proximal map)         :func:`soft_threshold`  (n_terms,)
:math:`g_{r,g}^m`             ``gradient``            (n_terms,)
:math:`\Delta_r`              :func:`server_update`   (n_terms,)
============================  ======================  ==============

Departures
----------
* The server *adds* the increment (erratum 1); the loss is the site's mean
  (erratum 2); sites count by their patients unless the study says otherwise
  (erratum 3); the baseline is never penalised (erratum 4).
* Exact short cut: within a round a coefficient whose dual variable is provably
  too small to pass the threshold stays 0. Its increment is then computed once
  from the summed slopes, not in each local step. The iterates are the same.

Oracle: a 30-line textbook version (``tests/unit/core/test_fedda.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.design import Design
from fedrulefit.core.families import Family
from fedrulefit.core.signs import Signs
from fedrulefit.core.sums import Packing, Sum, quantity

FIRST_DRIFT: Final = 0.25
"""First guess of how far slopes move in a round; checked afterwards."""


@dataclass(frozen=True)
class Schedule:
    """The step sizes and counts R, G, η_s, η_c and the penalty λ."""

    rounds: int
    local_steps: int
    server_step: float
    client_step: float
    penalty: float

    def total(self, round_: int, step: int = -1) -> float:
        """Return η̃ at local step `step` of round `round_`.

        ``step = -1`` is the server's η̃_r before the round.
        """
        before = self.server_step * self.client_step * round_ * self.local_steps
        return before + self.client_step * (step + 1)

    def threshold(self, round_: int, step: int = -1) -> float:
        """Return η̃·λ, below which a dual variable means coefficient 0."""
        return self.total(round_, step) * self.penalty


@dataclass(frozen=True, eq=False)
class RoundSums(Sum):
    """A round of FedDA; every field is multiplied by what the site counts, v_m.

    Parameters
    ----------
    increment : (n_terms,) float64
        z_G − z_0.
    loss : float
        Mean loss at the coefficients of the first local step.
    weight : float
        N_m, or the same for every site.
    """

    increment: Floats = quantity("v_m·(z_G − z_0)", shape="n_terms", most="500·v_m")
    loss: float = quantity("v_m·mean loss at the round's start", most="500·v_m")
    weight: float = quantity(
        "v_m: N_m (sum of patient weights), or 1024 if sites count equally", most="v_m"
    )

    @classmethod
    def packing(cls, n_terms: int) -> Packing[RoundSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_terms": n_terms})


def soft_threshold(
    dual: Floats, threshold: float, factors: Floats, signs: Signs | None = None
) -> Floats:
    """Return argmin_w ⟨−z, w⟩ + threshold·Σ π_j|w_j| + ½‖w‖²; π = 0 for the baseline.

    Among the w of the right `signs`, where they are given.
    """
    limit = threshold * factors
    coef: Floats = dual - np.minimum(np.maximum(dual, -limit), limit)
    return coef if signs is None else signs.clip(coef)


def client_update(
    family: Family,
    design: Design,
    outcome: Floats,
    weights: Floats,
    factors: Floats,
    dual: Floats,
    round_: int,
    schedule: Schedule,
    *,
    counts: float = 1.0,
    signs: Signs | None = None,
) -> RoundSums:
    """Run G local dual-averaging steps from `dual` (algorithm 3).

    `factors` are the penalty factors π, 0 for the baseline; the paper's are 1. `counts` is
    what the site counts among the sites, v_m; `signs`, which coefficients may have.
    """
    share = weights / weights.sum()
    start = soft_threshold(dual, schedule.threshold(round_, 0), factors, signs)
    predictor = design.dot(start)
    slope = family.slope(predictor, outcome, share)
    loss = float(family.value(predictor, outcome, share).sum())
    gradient = design.transpose_dot(slope)
    reach = _Reach(dual, gradient, design.largest, factors, round_, schedule)
    live = (factors == 0) | reach.may_wake(FIRST_DRIFT)
    while True:
        summed, drift = _local_steps(
            family, design, outcome, share, factors, dual, live, round_, schedule, signs
        )
        wakes = reach.may_wake(drift) & ~live
        if not wakes.any():
            break
        live |= wakes
    increment = -schedule.client_step * design.transpose_dot(summed)
    return RoundSums(counts * increment, counts * loss, counts)


def server_update(dual: Floats, increment: Floats, server_step: float) -> Floats:
    """Return z_{r+1} = z_r + η_s·Δ_r (erratum 1)."""
    return dual + server_step * increment


@dataclass(frozen=True, eq=False)
class _Reach:
    """Bounds on where the dual variables can get to within a round."""

    dual: Floats
    gradient: Floats
    largest: Floats
    factors: Floats
    round_: int
    schedule: Schedule

    def may_wake(self, drift: float) -> Bools:
        """Return which coefficients could differ from 0 in a local step.

        After g steps the dual variable is within η_c·g·|x|·drift of
        z − η_c·g·gradient, where |x| is the column's largest entry and `drift`
        bounds the summed change of the slopes since the first step. Size minus
        threshold is convex in g, so the first and the last step decide.
        """
        last = self.schedule.local_steps - 1
        way = self.schedule.client_step * last
        at_last = np.abs(self.dual - way * self.gradient) + way * self.largest * drift
        first_limit = self.schedule.threshold(self.round_, 0) * self.factors
        last_limit = self.schedule.threshold(self.round_, last) * self.factors
        return (np.abs(self.dual) > first_limit) | (at_last > last_limit)


def _local_steps(
    family: Family,
    design: Design,
    outcome: Floats,
    share: Floats,
    factors: Floats,
    dual: Floats,
    live: Bools,
    round_: int,
    schedule: Schedule,
    signs: Signs | None,
) -> tuple[Floats, float]:
    """Iterate on the `live` columns only.

    Returns
    -------
    summed : (n_rows,) float64
        Slopes summed over the local steps, from which every column's increment
        follows.
    drift : float
        Largest summed change of the slopes since the first step.
    """
    columns = design.take(np.flatnonzero(live)).unpacked()
    local, own_factors = dual[live], factors[live]
    own_signs = None if signs is None else signs.take(np.flatnonzero(live))
    summed = np.zeros(design.n_rows)
    first: Floats | None = None
    drift = 0.0
    for step in range(schedule.local_steps):
        coef = soft_threshold(local, schedule.threshold(round_, step), own_factors, own_signs)
        slope = family.slope(columns.dot(coef), outcome, share)
        first = slope if first is None else first
        drift = max(drift, float(np.abs(slope - first).sum()))
        summed += slope
        local -= schedule.client_step * columns.transpose_dot(slope)
    return summed, drift
