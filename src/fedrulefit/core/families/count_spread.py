r"""How negative binomial counts are judged: as all counts are, and by their spread.

The rates are judged as of any count (:mod:`fedrulefit.core.families.count_judge`): Poisson's
deviance is a fair judge of a mean whatever counts vary by, so D² can be held against that of a
Poisson model, and intervals hold the spread that is seen. What the dispersion α adds is judged by
three more sums over held-out patients, with μ the expected count (at least 2⁻¹⁶ of the largest):

==============================  ==================================================================
negative binomial deviance      :math:`\overline{2\{y\log\tfrac yμ
                                - (y + θ)\log\tfrac{y + θ}{μ + θ}\}}`, θ = 1/α
spread beside θ                 :math:`\overline{(y - μ)^2/(μ + αμ^2)}`: 1 where α is right
gain in log-likelihood          mean of the log-likelihood above that of Poisson counts with the
                                same μ: above 0 where α tells the counts better
==============================  ==================================================================

In: predictions and counts. Leaves the site: these sums, per patient to 2⁻²⁰ of the largest count
(the squares to 1/1024, at most 1024). No prediction of a patient.

Oracle: statsmodels and SciPy on the patients themselves
(``tests/properties/test_count_measures.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.count_losses import half_deviance, log_gain
from fedrulefit.core.families.count_measures import Measures
from fedrulefit.core.families.count_published import MEASURE_WORDS
from fedrulefit.core.families.count_ranges import OF_MEAN_JAVASCRIPT
from fedrulefit.core.families.count_sums import (
    LEAST_EXPECTED,
    MOST_PEARSON,
    PEARSON_STEP,
    RATES,
    STEP,
    CountSums,
)
from fedrulefit.core.families.judge import Column
from fedrulefit.core.families.telling import tell_known
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import Packing

SPREAD_WORDS: Final[Mapping[str, str]] = {
    "spread_deviance": "Mean negative binomial deviance, at the model's dispersion.",
    "spread": "Mean squared error over the negative binomial variance; 1 where the model's "
    "dispersion is right.",
    "gain": "By how much the mean log-likelihood is above that of Poisson counts of the same "
    "rates.",
}


@dataclass(frozen=True)
class SpreadMeasures(Measures):
    """The usual measures of counts, and those of their spread.

    Parameters
    ----------
    spread_deviance : float
        Mean negative binomial deviance.
    spread : float
        Pearson's, over the negative binomial variance: 1 where α is right.
    gain : float
        Of the mean log-likelihood over Poisson's.
    """

    spread_deviance: float
    spread: float
    gain: float

    digits: ClassVar[tuple[str, ...]] = (*Measures.digits, "spread_deviance", "gain")

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.spread_deviance, self.spread) < -1e-6:
            raise ValueError("a measure that is never below 0 is")


class SpreadJudge(CountJudge):
    """Negative binomial counts are judged by their spread, too.

    Parameters
    ----------
    most, max_exposure, per, unit, exposure_unit
        As of :class:`CountJudge`.
    dispersion : float
        α, above 0.
    """

    measures = SpreadMeasures
    measure_columns = (
        *CountJudge.measure_columns,
        Column("spread_deviance", "Mean negative binomial deviance"),
        Column("spread", "Spread beside θ (1 is right)"),
        Column("gain", "Gain in log-likelihood over Poisson"),
    )
    file_words: ClassVar[Mapping[str, Mapping[str, str]]] = {
        **CountJudge.file_words,
        "overall": {**MEASURE_WORDS, **SPREAD_WORDS},
    }

    def __init__(
        self,
        most: float,
        max_exposure: float = 1.0,
        per: float = 1.0,
        *,
        unit: str = "",
        exposure_unit: str = "",
        dispersion: float,
    ) -> None:
        super().__init__(most, max_exposure, per, unit=unit, exposure_unit=exposure_unit)
        self.dispersion = dispersion

    def packing(self) -> Packing[CountSums]:
        """Return how the numbers lie that a site sends: one more of each kind for α."""
        return Packing(self.sums, {"n_θ": 1})

    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> CountSums:
        """Return the sums of some patients, those of their spread among them."""
        sums, scale = super().count(prediction, outcome, weights), self.scale
        rate = np.clip(prediction / scale.rate, *RATES)
        exposure = np.clip(outcome[:, 1] / scale.max_exposure, STEP, 1.0)
        u, m = outcome[:, 0] / scale.most, np.maximum(rate * exposure, LEAST_EXPECTED)
        excess = self.dispersion * scale.most
        squares = np.minimum(scale.most * (u - m) ** 2 / (m * (1 + excess * m)), MOST_PEARSON)
        gains = log_gain(outcome[:, 0], scale.most * m, self.dispersion) / scale.most

        def add(each: Floats, step: float) -> Floats:
            return np.array([weights @ round_to(each, step)])

        return replace(
            sums,
            spread_losses=add(2 * half_deviance(u, m, excess), STEP),
            spread=add(squares, PEARSON_STEP),
            gains=add(gains, STEP),
        )

    def measure(self, sums: CountSums) -> SpreadMeasures:
        """Return all measures."""
        n, most = sums.total, self.scale.most
        return SpreadMeasures(
            **vars(super().measure(sums)),
            spread_deviance=most * max(float(sums.spread_losses[0]), 0.0) / n,
            spread=float(sums.spread[0]) / n,
            gain=most * float(sums.gains[0]) / n,
        )

    range_javascript: ClassVar[str] = OF_MEAN_JAVASCRIPT

    def range_facts(self, found: Measures) -> list[Any]:
        """Return α: the model knows how counts vary."""
        del found
        return [self.dispersion]

    def spread_at(self, mean: Floats, dispersion: float) -> Floats:
        """Return 1 + αμ, shape (n_rows,)."""
        spread: Floats = 1 + dispersion * mean
        return spread

    def _tell_spread(self, found: Measures) -> str:
        """Return whether α told how counts vary, in a sentence with its blank."""
        if not isinstance(found, SpreadMeasures):
            return super()._tell_spread(found)
        better = "better" if found.gain > 0 else "worse"
        return (
            f" Counts vary {found.dispersion:.2g} times as much about the predictions as Poisson's "
            f"would, and {found.spread:.2g} times as much as the model's dispersion says; it "
            f"tells them {better} than Poisson's would, by {tell_known(abs(found.gain), 3)} of "
            "log-likelihood a patient. Intervals hold the spread that was seen."
        )
