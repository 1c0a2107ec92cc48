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
  (erratum 3); the intercept is never penalised (erratum 4).
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
from fedrulefit.core.losses import logistic_loss, logistic_slope

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
class LocalRound:
    """What a site found in one round.

    Parameters
    ----------
    increment : (n_terms,) float64
        z_G − z_0.
    loss : float
        Mean loss at the coefficients of the first local step.
    """

    increment: Floats
    loss: float


def soft_threshold(dual: Floats, threshold: float) -> Floats:
    """Return argmin_w ⟨−z, w⟩ + threshold·‖w‖₁ + ½‖w‖², intercept unpenalised."""
    coef = np.sign(dual) * np.maximum(np.abs(dual) - threshold, 0.0)
    coef[0] = dual[0]
    return coef


def client_update(
    design: Design,
    outcome: Floats,
    weights: Floats,
    dual: Floats,
    round_: int,
    schedule: Schedule,
) -> LocalRound:
    """Run G local dual-averaging steps from `dual` (algorithm 3)."""
    share = weights / weights.sum()
    start = soft_threshold(dual, schedule.threshold(round_, 0))
    predictor = design.dot(start)
    slope = logistic_slope(predictor, outcome, share)
    loss = logistic_loss(predictor, outcome, share)
    gradient = design.transpose_dot(slope)
    drift = FIRST_DRIFT
    live = np.zeros(design.n_terms, dtype=np.bool_)
    while (
        wakes := _may_wake(dual, gradient, design.largest, drift, round_, schedule) & ~live
    ).any():
        live |= wakes
        summed, drift = _local_steps(design, outcome, share, dual, live, round_, schedule)
    return LocalRound(-schedule.client_step * design.transpose_dot(summed), loss)


def server_update(dual: Floats, increment: Floats, server_step: float) -> Floats:
    """Return z_{r+1} = z_r + η_s·Δ_r (erratum 1)."""
    return dual + server_step * increment


def _may_wake(
    dual: Floats,
    gradient: Floats,
    largest: Floats,
    drift: float,
    round_: int,
    schedule: Schedule,
) -> Bools:
    """Return which coefficients could differ from 0 in a local step.

    After g steps the dual variable is within η_c·g·|x|·drift of
    z − η_c·g·gradient, where |x| is the column's largest entry and `drift`
    bounds the summed change of the slopes since the first step. Size minus
    threshold is convex in g, so the first and the last step decide.
    """
    last = schedule.local_steps - 1
    way = schedule.client_step * last
    at_last = np.abs(dual - way * gradient) + way * largest * drift
    wakes = (np.abs(dual) > schedule.threshold(round_, 0)) | (
        at_last > schedule.threshold(round_, last)
    )
    wakes[0] = True
    return wakes


def _local_steps(
    design: Design,
    outcome: Floats,
    share: Floats,
    dual: Floats,
    live: Bools,
    round_: int,
    schedule: Schedule,
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
    local = dual[live].copy()
    summed = np.zeros(design.n_rows)
    first: Floats | None = None
    drift = 0.0
    for step in range(schedule.local_steps):
        coef = soft_threshold(local, schedule.threshold(round_, step))
        slope = logistic_slope(columns.dot(coef), outcome, share)
        first = slope if first is None else first
        drift = max(drift, float(np.abs(slope - first).sum()))
        summed += slope
        local -= schedule.client_step * columns.transpose_dot(slope)
    return summed, drift
