r"""Classes without an order: the symmetric multinomial family, as in glmnet.

Each class c has a predictor with rules and linear terms of its own, :math:`F_c = a_c + f_c`.

.. math:: p = \mathrm{softmax}(F),\quad ℓ = -\log p_y,\quad ℓ' = p - e_y,\quad
   ℓ'' = \mathrm{diag}(p) - pp^⊤,\quad ℓ^*(θ) = \sum_c m_c\log m_c,\; m = e_y + θ

Only differences of predictors count. Baselines are centred, :math:`\sum a_c = 0`; of rules and
linear terms the penalty settles what the loss leaves open: the median of a column's coefficients
is 0. With an even number of classes there may be several such optima, which predict the same.

A term's effect, :math:`e^β`, multiplies the odds of its class against every class of which the
term's coefficient is 0.

Oracles: numerical differentiation, the definition of the conjugate, scikit-learn, and a dense
solver of the symmetric lasso (``tests/unit/core/test_classes.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import xlogy

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.families.base import Family, Words
from fedrulefit.core.families.levels_judge import LevelsJudge
from fedrulefit.core.families.positions import are_level, check_levels, tell_unseen_levels
from fedrulefit.core.families.ratios import (
    LEAST_SPAN,
    TELL_SHARE_JAVASCRIPT,
    ratio_ticks,
    tell_share,
)
from fedrulefit.core.families.recipes import SHARES_JAVASCRIPT, Language, write_shares
from fedrulefit.core.families.side_splits import SplitLevels
from fedrulefit.core.families.yesno import LOGISTIC, WORDS, YesNo
from fedrulefit.core.fixed import LARGEST_PREDICTOR
from fedrulefit.numerals import name_count


def _words(levels: Sequence[str]) -> Words:
    """Return what people read."""
    first = levels[0]
    return replace(
        WORDS,
        predictor="log-odds of a class",
        level="probability",
        effect_meaning="The odds ratio tells by how much a rule that holds multiplies the odds of "
        "its class against classes for which the rule does not count; for a linear term, by how "
        "much the change that it names does.",
        effect_caveat="An odds ratio tells how the model counts, not what causes what: treating a "
        "value need not change the probability of a class by it.",
        with_outcome=f"of another class than {first}",
        had_outcome=f"were of another class than {first}",
        with_and_without=f"of the class {first} and of others",
        have_or_not=f"are of the class {first}, or of others",
        had_or_not=f"were of the class {first}, or of others",
        regression="multinomial logistic regression",
        through_link="for each class apart, through the softmax of all",
        refers_to="probabilities refer to how often these patients had each class.",
        output="The probability of every class; no threshold is part of the model.",
        by_hand="So for each class. Its probability is exp(of that), divided by the sum of the "
        "same over all classes.",
        calculator="Calculator",
        one_of="class",
    )


class Classes(Family):
    """One of a few levels in no order.

    Parameters
    ----------
    levels : sequence of str
        Three or more; the first had better not be rare: smallest counts are of it and of all
        others.
    """

    kind = "classes"
    link = LOGISTIC  # of one class against the rest, where F_c is held against the others' sum
    judge_type = LevelsJudge
    own_terms = crossed = True
    effect_javascript = YesNo.effect_javascript
    tell_javascript = TELL_SHARE_JAVASCRIPT
    share_javascript = YesNo.share_javascript
    levels_javascript = SHARES_JAVASCRIPT
    least_span = LEAST_SPAN
    separated = YesNo.separated
    largest_predictor = LARGEST_PREDICTOR / 2  # a loss is of a difference: so as many patients fit
    # No term is part of two predictors: of one each, and the curvature of no pair is larger.
    most_slope = 1.0
    most_curvature = 0.25

    def __init__(self, levels: Sequence[str]) -> None:
        self.names = check_levels(levels)
        self.words = _words(self.names)
        self.judge = LevelsJudge(self.names, ordered=False)
        self.levels = SplitLevels(
            f"of another class than {self.names[0]}", self.names, ordered=False
        )
        self.n_baseline = self.n_owners = len(self.names)
        self.n_tallies = len(self.names) - 1
        self.most_conjugate = math.log(len(self.names))

    def most_value(self, predictor: float) -> float:
        """Return an upper bound of log Σ exp(F_c − F_y)."""
        return 2 * predictor + math.log(len(self.names))

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return 1 for patients of another class than the first, else 0, shape (n_rows,)."""
        del weights
        return (outcome > 0).astype(np.float64)

    def tell_unseen(self, falling: Floats, rising: Floats) -> str:
        """Return the classes of which nobody's loss falls with their predictor."""
        del rising
        return tell_unseen_levels(self.names, falling < 0)

    def join_baseline(self, baseline: Floats) -> float:
        """Return 0: baselines are centred, and no class has an intercept beside its own."""
        del baseline
        return 0.0

    def centre(self, baseline: Floats) -> Floats:
        """Return the baselines that predict the same and add up to 0, shape (C,)."""
        centred: Floats = baseline - baseline.mean()
        return centred

    def kinds(self, outcome: Floats) -> Bools:
        """Return who is of each class, shape (n_rows, C).

        A term's slopes are summed for each class apart: they tell how many of it are inside a
        rule, and of a single one whether the rule holds for that patient.
        """
        return are_level(outcome, len(self.names)) > 0

    def tallies(self, outcome: Floats) -> Floats:
        """Return whether a patient is of the second, third … class, shape (n_rows, C − 1)."""
        return are_level(outcome, len(self.names))[:, 1:]

    def tree_problems(self, outcome: Floats) -> list[tuple[Family, Floats]]:
        """Return each class against the rest."""
        return [(YesNo(), column) for column in are_level(outcome, len(self.names)).T]

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return −w·log p_y, shape (n_rows,)."""
        largest, where = predictor.max(axis=1), predictor.argmax(axis=1)
        others = np.zeros(len(predictor))
        for c, column in enumerate(predictor.T):
            others += np.where(where == c, 0.0, np.exp(column - largest))
        seen = predictor[np.arange(len(predictor)), outcome.astype(np.int64)]
        losses: Floats = weights * (np.log1p(others) + (largest - seen))
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·(p − e_y), shape (n_rows, C)."""
        slope: Floats = weights[:, None] * (
            self.to_probabilities(predictor) - are_level(outcome, len(self.names))
        )
        return slope

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·(diag(p) − pp⊤), shape (n_rows, C, C)."""
        del outcome
        chances = self.to_probabilities(predictor)
        crossed = -weights[:, None, None] * (chances[:, :, None] * chances[:, None, :])
        for c in range(len(self.names)):
            crossed[:, c, c] = weights * (chances[:, c] * (1 - chances[:, c]))
        return crossed

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·Σ m_c·log m_c with m = e_y + a·(p − e_y), shape (n_rows,)."""
        chances, seen = self.to_probabilities(predictor), are_level(outcome, len(self.names))
        entropy = np.zeros(len(predictor))
        for chance, own in zip(chances.T, seen.T, strict=True):
            shrunk = np.where(own > 0, 1 - shrink * (1 - chance), shrink * chance)
            entropy += xlogy(shrunk, shrunk)
        conjugate: Floats = weights * entropy
        return conjugate

    def information(self, patients: float, mean: float) -> float:
        """Return n·r(1 − r) at the rate r of a class."""
        return patients * mean * (1 - mean)

    def effect(self, coefficient: float) -> float:
        """Return the odds ratio exp(β) against classes with the coefficient 0."""
        return float(np.exp(coefficient))

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return powers of two, or of four and so on."""
        return ratio_ticks(low, high)

    def tell(self, prediction: float) -> str:
        """Return a probability in percent."""
        return tell_share(prediction)

    def tell_move(self, most: float) -> str:
        """Return how far log-odds and probabilities can move, where every F_c does."""
        points = math.ceil(1000 * math.tanh(most / 2)) / 10
        return (
            f"a patient's log-odds of a class move by at most {math.ceil(2000 * most) / 1000:g}, "
            f"its probability by at most {name_count(points, 'percentage point')}"
        )

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the centred logarithms of the classes' shares, shape (C,).

        None where a class has no patient.
        """
        held = weights @ are_level(outcome, len(self.names))
        return self.centre(np.log(held)) if (held > 0).all() else None

    def predict(self, predictor: Floats) -> Floats:
        """Return the probability of each class: :meth:`to_probabilities`."""
        return self.to_probabilities(predictor)

    def write_levels(
        self, language: Language, predictors: Sequence[str], baseline: Sequence[float]
    ) -> list[str]:
        """Return how :meth:`to_probabilities` is written in a language."""
        del baseline
        return write_shares(language, predictors)

    def to_probabilities(self, predictor: Floats) -> Floats:
        """Return the probability of each class, shape (n_rows, C)."""
        most = predictor.max(axis=1)
        heights = [np.exp(column - most) for column in predictor.T]
        whole = np.zeros(len(predictor))
        for height in heights:  # one after another: a patient's sum then is nobody else's concern
            whole += height
        return np.stack([height / whole for height in heights], axis=1)
