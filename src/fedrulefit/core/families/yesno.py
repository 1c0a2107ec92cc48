r"""Yes/no outcomes: the logistic family of the paper (2.2.3).

With y = 1 for patients with the outcome, σ the logistic function:

.. math:: ℓ = \log(1 + e^F) - yF,\quad ℓ' = σ(F) - y,\quad ℓ'' = σ(F)(1 - σ(F)),\quad
   ℓ^*(θ) = m\log m + (1-m)\log(1-m),\; m = y + θ

Erratum 2: the published settings are for the *mean* loss; dividing by the total weight is left
to whoever has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from scipy.special import expit, logit, xlogy

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.base import Family, Words
from fedrulefit.core.families.effects import OddsEvidence
from fedrulefit.core.families.link import Link
from fedrulefit.core.families.ratios import (
    LEAST_SPAN,
    TELL_SHARE_JAVASCRIPT,
    ratio_ticks,
    tell_share,
)
from fedrulefit.core.families.side_shares import ShareLevels
from fedrulefit.core.families.tells import Tells
from fedrulefit.core.families.yesno_judge import YesNoJudge
from fedrulefit.numerals import name_count

STEEPEST: Final = 708.0
"""exp neither overflows nor underflows up to here; the probability is 1 or 0 to 300 digits."""


def _write_sql(predictor: str, real: Callable[[float], str]) -> str:
    """Return σ(F), for any F that a database can hold."""
    end, one = real(STEEPEST), real(1.0)
    bounded = (
        f"CASE WHEN {predictor} > {end} THEN {end} WHEN {predictor} < -{end} THEN -{end} "
        f"ELSE {predictor} END"
    )
    return f"{one} / ({one} + exp(-({bounded})))"


LOGISTIC: Final = Link(
    name="logistic",
    inverse=expit,
    forward=logit,
    sql=_write_sql,
    onnx=(("Sigmoid",),),
    javascript="(f) => (f >= 0 ? 1 / (1 + Math.exp(-f)) : Math.exp(f) / (1 + Math.exp(f)))",
)

WORDS: Final = Words(
    predictor="log-odds",
    predictor_column="log_odds",
    prediction="probability",
    predictions="probabilities",
    prediction_column="probability",
    level="risk",
    observed="observed share",
    effect="odds ratio",
    effect_short="OR",
    effect_column="odds_ratio",
    effect_sign="×",
    effect_of="odds",
    acts="multiplies the odds",
    effect_meaning="The odds ratio tells by how much a rule that holds multiplies the odds; for a "
    "linear term, by how much the change that it names does.",
    effect_caveat="An odds ratio tells how the model counts, not what causes what: treating a "
    "value need not change the risk by it.",
    with_outcome="with the outcome",
    had_outcome="had the outcome",
    with_and_without="with and without the outcome",
    have_or_not="have, or have not, the outcome",
    had_or_not="had, or had not, the outcome",
    regression="logistic regression",
    through_link="through the logistic",
    refers_to="probabilities refer to the outcome's rate in these patients.",
    output="A probability; no threshold is part of the model.",
    predictor_is="are",
    effect_changes="change",
)


TELLS: Final = Tells(
    inside="patients and outcomes",
    slopes="with and without the outcome apart",
    summary="the number of patients and of outcomes",
    evaluation="histograms of the held-out patients' scores, with and without the outcome",
    subgroups="how many of these patients satisfy each rule",
    results="its patients and outcomes, in all and inside rules",
    held_out_results="the same of its held-out patients, and measures of their predictions",
    as_policy=True,
)


class YesNo(Family):
    """The patient has the outcome, or has not."""

    kind = "yes/no"
    link = LOGISTIC
    words = WORDS
    tells = TELLS
    judge_type = YesNoJudge
    judge = YesNoJudge()
    levels = ShareLevels()
    evidence = OddsEvidence()
    averages = True
    counts_events = True
    effect_javascript = "Math.exp"
    share_javascript = "(p) => p"
    tell_javascript = TELL_SHARE_JAVASCRIPT
    least_span = LEAST_SPAN
    most_slope = 1.0
    most_curvature = 0.25
    most_conjugate = math.log(2)
    separated = 1e-4

    def most_value(self, predictor: float) -> float:
        """Return an upper bound of log(1 + e^F) − yF."""
        return predictor + 1

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return the outcome itself, shape (n_rows,)."""
        del weights
        return outcome

    def tell_nothing_to_learn(self, patients: float, events: float) -> str:
        """Return that there is one class only."""
        if 0 < events < patients:
            return ""
        return "all patients of all sites are of one outcome class: nothing to learn"

    def tallies(self, outcome: Floats) -> Floats:
        """Return the outcome itself, shape (n_rows, 1)."""
        return outcome[:, None]

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

    def information(self, patients: float, mean: float) -> float:
        """Return n·r(1 − r) at the rate r."""
        return patients * mean * (1 - mean)

    def effect(self, coefficient: float) -> float:
        """Return the odds ratio exp(β)."""
        return float(np.exp(coefficient))

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return powers of two, or of four and so on."""
        return ratio_ticks(low, high)

    def tell(self, prediction: float) -> str:
        """Return a probability in percent."""
        return tell_share(prediction)

    def tell_move(self, most: float) -> str:
        """Return how far log-odds and risk can move: σ is steepest at ½."""
        points = math.ceil(1000 * math.tanh(most / 4)) / 10
        return (
            f"a patient's log-odds move by at most {math.ceil(1000 * most) / 1000:g}, the risk by "
            f"at most {name_count(points, 'percentage point')}"
        )

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the log-odds of the outcome, shape (1,); None with one class only."""
        events = weights @ outcome
        others = weights.sum() - events
        if events <= 0 or others <= 0:
            return None
        return np.array([np.log(events / others)])
