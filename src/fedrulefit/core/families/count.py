r"""Counts with exposure: the Poisson family with a log link.

The study states public bounds: the largest count C and, where patients are watched for
different times, the longest exposure E. Everything is relative to them: :math:`u = y/C`,
:math:`e = \text{exposure}/E`, and the expected count is :math:`e\,C\,ψ(F)`:

.. math:: ℓ = e\,ψ(F) - uF - \bigl(u - u\log(u/e)\bigr),\quad ℓ' = e\,ψ'(F) - u,\quad
   ℓ'' = e\,ψ'',\quad ℓ^*(θ) = m\log(m/e) - m + u - u\log(u/e),\; m = u + θ

This is half the Poisson deviance of the counts, divided by C. ψ is exp up to :data:`BEND`, where
a patient under full exposure has e³ times the largest count, and its tangent from there on: so
slopes have a bound that does not depend on coefficients. Predicted rates end there.

Beside a Poisson lasso of the mean log-likelihood our λ is theirs over C; coefficients are the same.

Oracles: numerical differentiation, the definition of the conjugate, scikit-learn's
``mean_poisson_deviance`` (``tests/unit/core/test_families.py``), glmnet
(``tests/reference/test_glmnet.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from scipy.special import xlogy

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.base import Family, Link, Words
from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.effects import RateEvidence
from fedrulefit.core.families.number import above_median
from fedrulefit.core.families.ratios import LEAST_SPAN, log_share, ratio_ticks
from fedrulefit.core.families.scripts import quote_javascript
from fedrulefit.core.families.side_rates import N_TALLIES, RateLevels
from fedrulefit.core.families.tells import Tells
from fedrulefit.numerals import format_number

BEND: Final = 3.0
"""From here on ψ is a straight line."""

LARGEST_PREDICTOR: Final = 32.0

LEAST_EXPOSURE: Final = 2.0**-10
"""As a share of the longest: shorter ones count as this."""

DENSEST: Final = 16.0
"""An exposure is at least u/16. So a patient's own rate is below e³, and is the mean at some F:
else the loss of a shrunk slope would have no least value, and the certificate no bound."""


def bent_exp(predictor: Floats) -> Floats:
    """Return ψ(F): exp, and from :data:`BEND` on its tangent."""
    over = np.maximum(predictor - BEND, 0.0)
    bent: Floats = np.exp(np.minimum(predictor, BEND)) * (1 + over)
    return bent


def bent_exp_slope(predictor: Floats) -> Floats:
    """Return ψ'(F)."""
    slope: Floats = np.exp(np.minimum(predictor, BEND))
    return slope


def bent_exp_curvature(predictor: Floats) -> Floats:
    """Return ψ''(F)."""
    curvature: Floats = np.where(predictor < BEND, np.exp(np.minimum(predictor, BEND)), 0.0)
    return curvature


def _make_link(rate: float) -> Link:
    """Return exp times the rate that F = 0 means; no further than to the bend."""

    def write_sql(predictor: str, real: Callable[[float], str]) -> str:
        end = real(BEND)
        return f"{real(rate)} * exp(CASE WHEN {predictor} > {end} THEN {end} ELSE {predictor} END)"

    return Link(
        name="log",
        inverse=lambda f: rate * np.exp(np.minimum(f, BEND)),
        forward=lambda mean: np.log(mean / rate),
        sql=write_sql,
        onnx=(("Min", BEND), ("Exp",), ("Mul", rate)),
        javascript=f"(f) => {rate!r} * Math.exp(Math.min(f, {BEND!r}))",
    )


def _make_words(unit: str, per: str, rate: float) -> Words:
    counted = unit or "events"
    return Words(
        predictor="log rate",
        predictor_column="log_rate",
        prediction="predicted rate",
        predictions="predicted rates",
        prediction_column="rate",
        level="rate",
        observed="observed rate",
        effect="rate ratio",
        effect_short="RR",
        effect_column="rate_ratio",
        effect_sign="×",
        effect_of="rate",
        acts="multiplies the rate",
        effect_meaning="The rate ratio tells by how much a rule that holds multiplies the rate of "
        f"{counted}; for a linear term, by how much the change that it names does.",
        effect_caveat="A rate ratio tells how the model counts, not what causes what: treating a "
        "value need not change the rate by it.",
        with_outcome="above the median count",
        had_outcome="were above the median count",
        with_and_without="above and below the median count",
        have_or_not="are above, or below, the median count",
        had_or_not="were above, or below, the median count",
        regression="Poisson regression",
        through_link="through the exponential",
        refers_to="rates refer to patients like these.",
        output=f"A rate: expected {counted}{per}.",
        by_hand=f"The predicted rate{per} is {format_number(rate, digits=6)} × exp(of that), "
        f"where more than {BEND:g} counts as {BEND:g}.",
        calculator="Rate calculator",
    )


TELLS: Final = Tells(
    inside="patients, their summed counts and their summed exposures",
    slopes="of counts above, and below, their prediction apart",
    evaluation="sums and products of the held-out patients' counts, exposures and deviances, "
    "histograms of predicted rates",
    subgroups="how many of these patients satisfy each rule, with the sums of their counts, of "
    "their exposures, and of products of these",
)


class Count(Family):
    """A count, of patients who may have been watched for different times.

    Parameters
    ----------
    most : float
        The largest count, public.
    max_exposure : float
        The longest exposure, public; 1 where all have the same.
    per : float
        Rates are told for so much exposure.
    unit, exposure_unit : str
        What is counted, and in which unit exposure is.
    """

    kind = "count"
    judge_type = CountJudge
    tells = TELLS
    least_span = LEAST_SPAN
    largest_predictor = LARGEST_PREDICTOR
    newton_leaves = jumps = True
    effect_javascript = "Math.exp"
    n_tallies = N_TALLIES
    most_slope = math.exp(BEND) + 1
    most_curvature = math.exp(BEND)
    most_conjugate = math.exp(BEND) * (BEND + 2) + 10
    unit = 32.0

    def __init__(
        self,
        most: float,
        *,
        max_exposure: float = 1.0,
        per: float = 1.0,
        unit: str = "",
        exposure_unit: str = "",
    ) -> None:
        self.most, self.max_exposure, self.per = most, max_exposure, per
        per_text = f"{per:g} {exposure_unit}".strip()
        self.suffix = f" per {per_text}" if exposure_unit or per != 1 else ""
        self.told = f"{f' {unit}' if unit else ''}{self.suffix}"
        self.rate = most * per / max_exposure
        self.link = _make_link(self.rate)
        self.start_javascript = self.link.javascript
        self.words = _make_words(unit, self.suffix, self.rate)
        self.evidence = RateEvidence(most)
        self.levels = RateLevels(self.rate, most, self.suffix, unit or "events")
        self.judge = CountJudge(
            most, max_exposure=max_exposure, per=per, unit=unit, exposure_unit=exposure_unit
        )
        self.tell_javascript = (
            f"(r) => (r >= 100 ? r.toFixed(0) : r.toPrecision(3)) + {quote_javascript(self.told)}"
        )

    def most_value(self, predictor: float) -> float:
        """Return an upper bound of eψ(F) − uF − u + u·log(u/e)."""
        return float(bent_exp(np.array([predictor]))[0]) + predictor + 7.0

    def scale(self, outcome: Floats) -> tuple[Floats, Floats]:
        """Return counts and exposures as shares of the largest, each of shape (n_rows,)."""
        counts = np.clip(outcome[:, 0] / self.most, 0.0, 1.0)
        exposures = np.clip(outcome[:, 1] / self.max_exposure, LEAST_EXPOSURE, 1.0)
        return counts, np.maximum(exposures, counts / DENSEST)

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return who is above the median count of these patients, shape (n_rows,)."""
        return above_median(outcome[:, 0], weights)

    def tallies(self, outcome: Floats) -> Floats:
        """Return u, e, u², u·e and e², shape (n_rows, 5): the rate, and how well it is known."""
        counts, exposures = self.scale(outcome)
        own = (counts, exposures, counts**2, counts * exposures, exposures**2)
        return np.stack(own, axis=1)

    def magnitudes(self, outcome: Floats) -> Floats:
        """Return u and e, shape (n_rows, 2)."""
        return np.stack(self.scale(outcome), axis=1)

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·{eψ(F) − uF − u + u·log(u/e)}, shape (n_rows,)."""
        counts, exposures = self.scale(outcome)
        losses: Floats = weights * (
            exposures * bent_exp(predictor) - counts * predictor - _best(counts, exposures)
        )
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·{eψ'(F) − u}, shape (n_rows,)."""
        counts, exposures = self.scale(outcome)
        slope: Floats = weights * (exposures * bent_exp_slope(predictor) - counts)
        return slope

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·eψ''(F), shape (n_rows,)."""
        curvature: Floats = weights * self.scale(outcome)[1] * bent_exp_curvature(predictor)
        return curvature

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·{m·log(m/e) − m + u − u·log(u/e)}, m = u + a·ℓ', shape (n_rows,)."""
        counts, exposures = self.scale(outcome)
        mean = (1 - shrink) * counts + shrink * exposures * bent_exp_slope(predictor)
        conjugate: Floats = weights * (
            xlogy(mean, mean / exposures) - mean + _best(counts, exposures)
        )
        return conjugate

    def information(self, patients: float, mean: float) -> float:
        """Return n·mean count, as a share of the largest: ψ'' is ψ."""
        return patients * mean / self.rate

    def effect(self, coefficient: float) -> float:
        """Return the rate ratio exp(β)."""
        return float(np.exp(coefficient))

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return powers of two, or of four and so on."""
        return ratio_ticks(low, high)

    def tell(self, prediction: float) -> str:
        """Return a rate, of what is counted."""
        digits = ".0f" if prediction >= 100 else "#.3g"
        return f"{prediction:{digits}}{self.told}"

    def tell_move(self, most: float) -> str:
        """Return by which factor a rate can move."""
        share = math.ceil(1000 * math.expm1(most)) / 10
        return f"a patient's predicted rate moves by at most {share:g} %"

    def jump(self, slope: Floats, curvature: Floats) -> Floats:
        """Return log(Σwu / Σwe): at F = 0 the curvature is Σwe, the slope Σwe − Σwu."""
        return log_share(slope, curvature)

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return log(Σwu / Σwe), shape (1,); None without a count."""
        counts, exposures = self.scale(outcome)
        events, watched = float(weights @ counts), float(weights @ exposures)
        return np.array([math.log(events / watched)]) if events > 0 else None


def _best(counts: Floats, exposures: Floats) -> Floats:
    """Return u − u·log(u/e): what a perfect prediction leaves."""
    best: Floats = counts - xlogy(counts, counts / exposures)
    return best
