r"""Counts with exposure: the Poisson and the negative binomial family, with a log link.

The study states public bounds: the largest count C and, where patients are watched for
different times, the longest exposure E. Everything is relative to them: :math:`u = y/C`,
:math:`e = \text{exposure}/E`, and the expected count is :math:`m\,C`, :math:`m = e\,\exp(F)`.
The loss is half the deviance, divided by C (:mod:`fedrulefit.core.families.count_losses`):
of Poisson counts, or of negative binomial ones with variance :math:`μ + αμ^2`, α = 1/θ.

α is learnt in the run (:mod:`fedrulefit.core.dispersion`): the family of a study, which knows none
yet, has Poisson's loss, and :meth:`Count.with_dispersion` returns that of the fit. Bounds, link,
rules' gate and tallies are the same for any α.

From :data:`~fedrulefit.core.families.count_losses.BEND` on, where a patient under full exposure has
e³ times the largest count, losses go straight on: so slopes have a bound that does not depend on
coefficients. Predicted rates end there.

Beside a Poisson lasso of the mean log-likelihood our λ is theirs over C; coefficients are the same.

Oracles: numerical differentiation, the definition of the conjugate, scikit-learn's
``mean_poisson_deviance`` (``tests/unit/core/test_families.py``), glmnet
(``tests/reference/test_glmnet.py``), statsmodels (``tests/unit/core/test_negative_binomial.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Self

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.dispersion import STEPS_PER_OCTAVE
from fedrulefit.core.families.base import Family, Words
from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.count_losses import (
    BEND,
    CountLoss,
    NegativeBinomialLoss,
    PoissonLoss,
    bent_exp,
    dispersion_slopes,
)
from fedrulefit.core.families.count_spread import SpreadJudge
from fedrulefit.core.families.effects import RateEvidence
from fedrulefit.core.families.link import Link
from fedrulefit.core.families.number import HALVINGS, above_median
from fedrulefit.core.families.ratios import LEAST_SHARE, LEAST_SPAN, log_share, ratio_ticks
from fedrulefit.core.families.scripts import quote_javascript
from fedrulefit.core.families.side_rates import N_TALLIES, RateLevels
from fedrulefit.core.families.tells import Tells
from fedrulefit.numerals import format_number

LARGEST_PREDICTOR: Final = 32.0

LEAST_EXPOSURE: Final = 2.0**-10
"""As a share of the longest: shorter ones count as this."""

DENSEST: Final = 16.0
"""An exposure is at least u/16. So a patient's own rate is below e³, and is the mean at some F:
else the loss of a shrunk slope would have no least value, and the certificate no bound."""

LEAST_EXCESS: Final = 2.0**-10
"""Least α that is told from none, times the largest count: a count expected to be that large then
varies by a thousandth more than Poisson's."""

MOST_DISPERSION: Final = 1024.0
"""Largest α."""


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


def _make_words(unit: str, per: str, rate: float, *, negative_binomial: bool) -> Words:
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
        regression=f"{'negative binomial' if negative_binomial else 'Poisson'} regression",
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
    negative_binomial : bool
        Whether counts may vary more than Poisson's: how much is then learnt, too.
    dispersion : float, optional
        α, once it is known; 0 where counts do not vary more.
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
        negative_binomial: bool = False,
        dispersion: float | None = None,
    ) -> None:
        self.most, self.max_exposure, self.per = most, max_exposure, per
        self.likelihoods = float(most)
        self.disperses = negative_binomial
        self.excess = (dispersion or 0.0) * most
        self.loss: CountLoss = (
            NegativeBinomialLoss(self.excess) if self.excess > 0 else PoissonLoss()
        )
        foot, top = LEAST_EXCESS / most, MOST_DISPERSION
        self.ladder = range(
            *(math.ceil(STEPS_PER_OCTAVE * math.log2(end)) for end in (foot, 1.001 * top))
        )
        per_text = f"{per:g} {exposure_unit}".strip()
        self.suffix = f" per {per_text}" if exposure_unit or per != 1 else ""
        self.told = f"{f' {unit}' if unit else ''}{self.suffix}"
        self.rate = most * per / max_exposure
        self.link = _make_link(self.rate)
        self.start_javascript = self.link.javascript
        self.evidence = RateEvidence(most)
        self.words = _make_words(unit, self.suffix, self.rate, negative_binomial=negative_binomial)
        self.levels = RateLevels(self.rate, most, self.suffix, unit or "events")
        facts = {"unit": unit, "exposure_unit": exposure_unit}
        self.judge = (
            SpreadJudge(most, max_exposure, per, dispersion=dispersion, **facts)
            if dispersion
            else CountJudge(most, max_exposure, per, **facts)
        )
        self.tell_javascript = (
            f"(r) => (r >= 100 ? r.toFixed(0) : r.toPrecision(3)) + {quote_javascript(self.told)}"
        )

    def with_dispersion(self, dispersion: float | None) -> Self:
        """Return the family with the α that was learnt; None: not learnt yet."""
        if dispersion is None:
            return self
        if not self.disperses:
            raise ValueError("Poisson's counts have no dispersion")
        args, facts = self._made_of
        return type(self)(*args, **{**facts, "dispersion": dispersion})

    def slope_in_dispersion(
        self, predictor: Floats, outcome: Floats, dispersion: float
    ) -> tuple[Floats, Floats]:
        """Return what the log-likelihood gains as log α grows, and how that falls, over C."""
        counts, exposures = self.scale(outcome)
        mean = self.most * exposures * np.exp(np.minimum(predictor, BEND))
        gain, bend = dispersion_slopes(self.most * counts, mean, dispersion)
        return gain / self.most, bend / self.most

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
        """Return w·ℓ of :attr:`loss`, shape (n_rows,)."""
        return weights * self.loss.value(predictor, *self.scale(outcome))

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·ℓ', shape (n_rows,)."""
        return weights * self.loss.slope(predictor, *self.scale(outcome))

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·ℓ'', shape (n_rows,)."""
        return weights * self.loss.curvature(predictor, *self.scale(outcome))

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·ℓ* at the slope times `shrink`, shape (n_rows,)."""
        return weights * self.loss.conjugate(predictor, *self.scale(outcome), shrink)

    def information(self, patients: float, mean: float) -> float:
        """Return n·m/(1 + κm), m the mean count as a share of the largest."""
        share = mean / self.rate
        return patients * share / (1 + self.excess * share)

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
        """Return log(Σwu / Σwe): at F = 0 the curvature is Σwe, the slope Σwe − Σwu.

        Of negative binomial counts it is the best constant of equal exposures, and near it of
        others.
        """
        if self.excess == 0:
            return log_share(slope, curvature)
        bent = 1 + self.excess
        lacking = slope / np.where(curvature > 0, curvature, 1.0)
        share = (bent - lacking) / np.maximum(bent + self.excess * lacking, LEAST_SHARE)
        best: Floats = np.log(np.clip(share, LEAST_SHARE, math.exp(BEND)))
        return best

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the constant of least loss, log(Σwu / Σwe) of Poisson's, shape (1,).

        None without a count.
        """
        counts, exposures = self.scale(outcome)
        events, watched = float(weights @ counts), float(weights @ exposures)
        if not events > 0:
            return None
        if self.excess == 0:
            return np.array([math.log(events / watched)])
        low, high = -LARGEST_PREDICTOR, BEND
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            rises = self.slope(np.full(len(counts), middle), outcome, weights).sum() > 0
            low, high = (low, middle) if rises else (middle, high)
        return np.array([(low + high) / 2])
