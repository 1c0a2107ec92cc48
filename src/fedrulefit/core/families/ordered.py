r"""Ordered levels: continuation ratios, a yes/no model for each step up the scale.

The levels are 0 … C − 1, from low to high. A patient at level y tries the steps
:math:`k = 1 … \min(y + 1, C - 1)`, and goes on at step k if :math:`y ≥ k`. With
:math:`F_k = a_k + f` the log-odds of going beyond level k − 1 for those who are there, and rules
and linear terms :math:`f` that all steps share,

.. math:: ℓ = \sum_{k ≤ \min(y+1, C-1)} \log(1 + e^{F_k}) - [y ≥ k]\,F_k,

which is the loss of :mod:`fedrulefit.core.families.yesno` for each step that was tried; so are
slopes, curvatures and conjugates. A positive coefficient means higher levels. With σ the logistic,

.. math:: P(y ≥ k) = \prod_{j ≤ k} σ(F_j),\quad P(y = k) = P(y ≥ k) - P(y ≥ k + 1)

(:meth:`Ordered.probabilities`). The single prediction of a model, its link, is that of the first
step, :math:`P(y ≥ 1) = σ(a_1 + f)`: every other one follows from it and the baselines, and grows
with it.

Oracles: numerical differentiation, the definition of the conjugate, and scikit-learn's logistic
regression with a row for each step (``tests/unit/core/test_ordered.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.families.base import Family, Words
from fedrulefit.core.families.levels_judge import LevelsJudge
from fedrulefit.core.families.positions import (
    are_level,
    check_levels,
    reach_level,
    tell_unseen_levels,
)
from fedrulefit.core.families.ratios import (
    LEAST_SPAN,
    TELL_SHARE_JAVASCRIPT,
    ratio_ticks,
    tell_share,
)
from fedrulefit.core.families.recipes import STEPS_JAVASCRIPT, Language, write_steps
from fedrulefit.core.families.side_splits import SplitLevels
from fedrulefit.core.families.yesno import LOGISTIC, WORDS, YesNo
from fedrulefit.core.fixed import LARGEST_PREDICTOR
from fedrulefit.numerals import name_count

_YES_NO: Final = YesNo()


def _words(levels: Sequence[str]) -> Words:
    """Return what people read."""
    first, second = levels[:2]
    return replace(
        WORDS,
        level="level",
        by=f" above {first}",
        effect_meaning="The odds ratio tells by how much a rule that holds multiplies the odds of "
        "going on to a higher level, at every step of the scale alike; for a linear term, by how "
        "much the change that it names does.",
        effect_caveat="An odds ratio tells how the model counts, not what causes what: treating a "
        "value need not change the level by it.",
        observed="observed share",
        with_outcome=f"above the level {first}",
        had_outcome=f"were above the level {first}",
        with_and_without=f"above the level {first} and at it",
        have_or_not=f"are above the level {first}, or at it",
        had_or_not=f"were above the level {first}, or at it",
        regression="continuation ratio regression with shared odds ratios",
        refers_to="probabilities refer to how often these patients had each level.",
        output=f"The probability of {second} or a higher level, and of every level; no threshold "
        "is part of the model.",
        by_hand="So for each step of the scale, from its own starting point. The probability of "
        "going on at a step is 1 / (1 + exp(−of that)); that of a level, the product of going on "
        "at all steps below it and of not going on from it.",
        calculator="Calculator",
    )


class Ordered(Family):
    """One of a few levels in an order.

    Parameters
    ----------
    levels : sequence of str
        From low to high; three or more.
    """

    kind = "ordered"
    link = LOGISTIC
    judge_type = LevelsJudge
    effect_javascript = YesNo.effect_javascript
    tell_javascript = TELL_SHARE_JAVASCRIPT
    share_javascript = YesNo.share_javascript
    levels_javascript = STEPS_JAVASCRIPT
    least_span = LEAST_SPAN
    separated = YesNo.separated
    own_shift = True
    largest_predictor = LARGEST_PREDICTOR / 2  # a loss then needs no more room than slopes do

    def __init__(self, levels: Sequence[str]) -> None:
        self.names = check_levels(levels)
        self.words = _words(self.names)
        self.judge = LevelsJudge(self.names, ordered=True)
        self.levels = SplitLevels(f"above the level {self.names[0]}", self.names, ordered=True)
        self.n_baseline = self.n_tallies = len(self.names) - 1
        self.most_slope = self.n_baseline * _YES_NO.most_slope
        self.unit = 2.0 ** math.ceil(math.log2(self.most_slope))
        self.most_curvature = self.n_baseline * _YES_NO.most_curvature
        self.most_conjugate = self.n_baseline * _YES_NO.most_conjugate

    def most_value(self, predictor: float) -> float:
        """Return an upper bound of Σ_k log(1 + e^F) − [y ≥ k]·F."""
        return self.n_baseline * _YES_NO.most_value(predictor)

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return 1 for patients above the first level, else 0, shape (n_rows,)."""
        del weights
        return (outcome > 0).astype(np.float64)

    def tell_unseen(self, falling: Floats, rising: Floats) -> str:
        """Return the levels at which nobody stays, and the last if nobody goes on to it."""
        return tell_unseen_levels(self.names, np.append(rising > 0, falling[-1] < 0))

    def join_baseline(self, baseline: Floats) -> float:
        """Return a_1, the intercept of P(y ≥ 1)."""
        return float(baseline[0])

    def kinds(self, outcome: Floats) -> Bools:
        """Return who is at each level, shape (n_rows, C).

        Second derivatives tell how many inside a rule try each step, so how many stay at each
        level: of a single one whether the rule holds for that patient.
        """
        return are_level(outcome, len(self.names)) > 0

    def tallies(self, outcome: Floats) -> Floats:
        """Return whether the level is at least 1 … C − 1, shape (n_rows, C − 1)."""
        return reach_level(outcome, len(self.names))

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return the summed loss of the steps that were tried, shape (n_rows,)."""
        losses = np.zeros(len(outcome))
        for k in range(self.n_baseline):
            losses += _YES_NO.value(predictor[:, k], *self._try(outcome, weights, k))
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·{σ(F_k) − [y ≥ k]} of steps that were tried, shape (n_rows, C − 1)."""
        steps = range(self.n_baseline)
        return np.stack(
            [_YES_NO.slope(predictor[:, k], *self._try(outcome, weights, k)) for k in steps], axis=1
        )

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·σ(F_k)·(1 − σ(F_k)) of steps that were tried, shape (n_rows, C − 1)."""
        steps = range(self.n_baseline)
        return np.stack(
            [_YES_NO.curvature(predictor[:, k], *self._try(outcome, weights, k)) for k in steps],
            axis=1,
        )

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return the summed ℓ* of the steps that were tried, shape (n_rows,)."""
        found = np.zeros(len(outcome))
        for k in range(self.n_baseline):
            found += _YES_NO.conjugate(predictor[:, k], *self._try(outcome, weights, k), shrink)
        return found

    def information(self, patients: float, mean: float) -> float:
        """Return n·r(1 − r) at the rate r above the first level: the first step's alone."""
        return _YES_NO.information(patients, mean)

    def effect(self, coefficient: float) -> float:
        """Return the odds ratio exp(β) of going on."""
        return _YES_NO.effect(coefficient)

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return powers of two, or of four and so on."""
        return ratio_ticks(low, high)

    def tell(self, prediction: float) -> str:
        """Return a probability in percent."""
        return tell_share(prediction)

    def tell_move(self, most: float) -> str:
        """Return how far log-odds and probabilities of a step can move."""
        points = math.ceil(1000 * math.tanh(most / 4)) / 10
        return (
            f"a patient's log-odds of going on move by at most {math.ceil(1000 * most) / 1000:g}, "
            f"the probability of each step by at most {name_count(points, 'percentage point')}"
        )

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the log-odds of going on at each step, shape (C − 1,).

        None where all patients are at one level. A step that nobody tries, or at which all or none
        go on, begins as if half a patient more did and half did not.
        """
        starts = []
        known = False
        for k in range(self.n_baseline):
            went, tried = self._try(outcome, weights, k)
            events, patients = float(tried @ went), float(tried.sum())
            inside = 0 < events < patients
            known = known or inside
            more = 0.0 if inside else 0.5
            starts.append(math.log((events + more) / (patients - events + more)))
        return np.array(starts) if known else None

    def predict(self, predictor: Floats) -> Floats:
        """Return the probability of each level: :meth:`to_probabilities`."""
        return self.to_probabilities(predictor)

    def write_levels(
        self, language: Language, predictors: Sequence[str], baseline: Sequence[float]
    ) -> list[str]:
        """Return how :meth:`to_probabilities` is written in a language."""
        return write_steps(language, predictors[0], baseline)

    def to_probabilities(self, predictor: Floats) -> Floats:
        """Return the probability of each level, shape (n_rows, C), from all F_k."""
        going = expit(predictor)
        staying = expit(-predictor)
        found = np.empty((len(predictor), len(self.names)))
        reached = np.ones(len(predictor))
        for k in range(self.n_baseline):
            found[:, k] = reached * staying[:, k]
            reached = reached * going[:, k]
        found[:, -1] = reached
        return found

    def probabilities(self, intercept: float, baseline: Floats, f: Floats) -> Floats:
        """Return the probability of each level, shape (n_rows, C).

        Parameters
        ----------
        intercept : float
            a_1, of :meth:`join_baseline`.
        baseline : (C − 1,) float64
            a_k − a_1.
        f : (n_rows,) float64
            What rules and linear terms add up to.
        """
        return self.to_probabilities(np.add.outer(f, intercept + baseline))

    def _try(self, outcome: Floats, weights: Floats, k: int) -> tuple[Floats, Floats]:
        """Return who goes on at a step (counted from 0), and the weights of those who try it."""
        return (outcome > k).astype(np.float64), weights * (outcome >= k)
