r"""Measured numbers: squared errors, or the pseudo-Huber loss that outliers pull at less.

The study states a public range. Everything is in *half ranges from its middle*,
:math:`t = (y - m)/h \in [-1, 1]`, so that no unit matters and no sum overflows; with
:math:`r = F - t`:

.. math:: ℓ = \tfrac12 r^2,\quad ℓ' = r,\quad ℓ'' = 1,\quad ℓ^*(θ) = \tfrac12 θ^2 + θt

and, from errors of δ half ranges on about linear,

.. math:: ℓ = δ^2(\sqrt{1 + (r/δ)^2} - 1),\quad ℓ' = r/\sqrt{1 + (r/δ)^2},\quad
   ℓ'' = (1 + (r/δ)^2)^{-3/2},\quad ℓ^*(θ) = δ^2\bigl(1 - \sqrt{1 - (θ/δ)^2}\bigr) + θt

The prediction is m + h·F. Values beyond the range count at its nearer end
(:mod:`fedrulefit.table`).

Beside a lasso in the outcome's unit, :math:`\tfrac1{2n}\sum(y - η)^2 + λ\sum|b|`, the loss is
:math:`h^2` times as small and a coefficient h times: our λ is theirs over h.

Oracles: numerical differentiation, the definition of the conjugate, scikit-learn's Lasso
(``tests/unit/core/test_families.py``), glmnet (``tests/reference/test_glmnet.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.base import Family, Words
from fedrulefit.core.families.effects import MeanEvidence
from fedrulefit.core.families.link import Link
from fedrulefit.core.families.number_judge import NumberJudge
from fedrulefit.core.families.scripts import quote_javascript
from fedrulefit.core.families.side_means import MeanLevels
from fedrulefit.core.families.tells import Tells
from fedrulefit.core.rounding import round_up_step
from fedrulefit.numerals import format_number, write_minus

LARGEST_PREDICTOR: Final = 64.0
"""Half ranges from the middle: far beyond any outcome."""

HALVINGS: Final = 60
"""Of an interval in which the constant of least loss lies: to the last digit."""


def _make_link(middle: float, half: float) -> Link:
    def write_sql(predictor: str, real: Callable[[float], str]) -> str:
        return f"{real(middle)} + {real(half)} * ({predictor})"

    return Link(
        name="identity",
        inverse=lambda f: middle + half * f,
        forward=lambda mean: (mean - middle) / half,
        sql=write_sql,
        onnx=(("Mul", half), ("Add", middle)),
        javascript=f"(f) => {middle!r} + {half!r} * f",
    )


def _make_words(unit: str, middle: float, half: float, *, robust: bool) -> Words:
    begin, factor = (format_number(x, digits=6) for x in (middle, half))
    of_unit = f" {unit}" if unit else ""
    return Words(
        predictor="linear predictor",
        predictor_column="linear_predictor",
        prediction="predicted value",
        predictions="predicted values",
        prediction_column="prediction",
        level="value",
        observed="observed mean",
        effect="difference",
        effect_short="",
        effect_column="difference",
        effect_sign="",
        effect_of="value",
        acts="adds to the value",
        effect_meaning="The difference tells what a rule that holds adds to the predicted value"
        f"{f', in {unit}' if unit else ''}; for a linear term, what the change that it names adds.",
        effect_caveat="A difference tells how the model counts, not what causes what: treating a "
        "value need not change the outcome by it.",
        with_outcome="above the median",
        had_outcome="were above the median",
        with_and_without="above and below the median",
        have_or_not="are above, or below, the median",
        had_or_not="were above, or below, the median",
        regression="robust regression (pseudo-Huber)" if robust else "linear regression",
        through_link=f"times {factor}, plus {begin}",
        refers_to="values refer to patients like these.",
        output=f"A value{of_unit and ' in' + of_unit}, the mean of patients like this one.",
        unit=unit,
        little="of 0 when rounded",
        by_hand=f"The predicted value{f', in {unit}' if unit else ''}, is {factor} × that, plus "
        f"{begin}.",
        calculator="Calculator",
    )


TELLS: Final = Tells(
    inside="patients and the sum of their outcomes",
    slopes="of patients above, and below, their prediction apart",
    evaluation="summed powers and products of the held-out patients' outcomes and predictions, "
    "histograms of predictions and of errors",
    subgroups="how many of these patients satisfy each rule, with the sums of their outcomes and "
    "of the squares",
)


class Number(Family):
    """A measured number with a public range.

    Parameters
    ----------
    low, high : float
        The range, in the study's unit.
    robust : bool
        Whether large errors count about linearly; without it, squared.
    outlier : float, optional
        From which error on, in the study's unit; a twentieth of the range by default.
    unit : str
    step : float, optional
        To which the outcome is measured; predictions are told to a tenth of it.
    """

    kind = "number"
    additive = True
    judge_type = NumberJudge
    tells = TELLS
    n_tallies = 2
    evidence = MeanEvidence()
    least_span = 0.05
    largest_predictor = LARGEST_PREDICTOR
    newton_leaves = True
    most_curvature = 1.0
    of_errors = True

    def __init__(
        self,
        low: float,
        high: float,
        *,
        robust: bool = False,
        outlier: float | None = None,
        unit: str = "",
        step: float | None = None,
    ) -> None:
        self.low, self.high, self.unit_name = low, high, unit
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self.offset_unit = self.half
        own = (high - low) / 20 if outlier is None else outlier
        self.delta = own / self.half if robust else None
        self.averages = robust
        self.link = _make_link(self.middle, self.half)
        self.words = _make_words(unit, self.middle, self.half, robust=robust)
        self.judge = NumberJudge(low, high, unit=unit)
        digits = round_up_step((high - low) / 2000 if step is None else step / 10)
        self.decimals = max(0, -math.floor(math.log10(digits) + 1e-9))
        self.levels = MeanLevels(low, high, unit, self.decimals)
        self.effect_javascript = f"(b) => {self.half!r} * b"
        suffix = f" + {quote_javascript(f' {unit}')}" if unit else ""
        fixed = f'.toFixed({self.decimals}).replace("-", "−"){suffix}'
        self.tell_javascript = f"(y) => y{fixed}"
        self.tell_effect_javascript = f'(d) => (d > 0 ? "+" : "") + d{fixed}'
        self.share_javascript = f"(y) => (y - {low!r}) / {high - low!r}"
        reach = LARGEST_PREDICTOR + 1
        self.most_slope = reach if self.delta is None else min(reach, self.delta)
        self.most_conjugate = (
            0.5 * reach**2 + reach if self.delta is None else self.delta**2 + self.most_slope
        )
        self.unit = 2.0 ** math.ceil(math.log2(max(1.0, self.most_slope)))

    def most_value(self, predictor: float) -> float:
        """Return ℓ at the largest error."""
        error = predictor + 1
        return 0.5 * error**2 if self.delta is None else min(0.5 * error**2, self.delta * error)

    def scale(self, outcome: Floats) -> Floats:
        """Return the outcome in half ranges from the middle, shape (n_rows,)."""
        scaled: Floats = np.clip((outcome - self.middle) / self.half, -1.0, 1.0)
        return scaled

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return who is above the median of these patients, shape (n_rows,)."""
        return above_median(outcome, weights)

    def tallies(self, outcome: Floats) -> Floats:
        """Return t and t², shape (n_rows, 2): the mean, and how well it is known."""
        scaled = self.scale(outcome)
        return np.column_stack([scaled, scaled**2])

    def magnitudes(self, outcome: Floats) -> Floats:
        """Return t, shape (n_rows, 1)."""
        return self.scale(outcome)[:, None]

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·½r², or w·δ²(√(1 + (r/δ)²) − 1), shape (n_rows,)."""
        errors = predictor - self.scale(outcome)
        if self.delta is None:
            return 0.5 * weights * errors**2
        # √(1 + x²) − 1 without cancellation, for small errors.
        squared = (errors / self.delta) ** 2
        losses: Floats = weights * self.delta**2 * squared / (np.sqrt(1 + squared) + 1)
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·r, or w·r/√(1 + (r/δ)²), shape (n_rows,)."""
        errors = predictor - self.scale(outcome)
        if self.delta is None:
            return weights * errors
        slope: Floats = weights * errors / np.sqrt(1 + (errors / self.delta) ** 2)
        return slope

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w, or w·(1 + (r/δ)²)^(−3/2), shape (n_rows,)."""
        if self.delta is None:
            return weights * np.ones_like(predictor)
        errors = predictor - self.scale(outcome)
        curvature: Floats = weights * (1 + (errors / self.delta) ** 2) ** -1.5
        return curvature

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·{½θ² + θt}, or w·{δ²(1 − √(1 − (θ/δ)²)) + θt}, with θ = a·ℓ', (n_rows,)."""
        scaled = self.scale(outcome)
        slopes = shrink * self.slope(predictor, outcome, np.ones_like(predictor))
        if self.delta is None:
            return weights * (0.5 * slopes**2 + slopes * scaled)
        part = np.minimum((slopes / self.delta) ** 2, 1.0)
        bent = self.delta**2 * part / (1 + np.sqrt(1 - part))
        conjugate: Floats = weights * (bent + slopes * scaled)
        return conjugate

    def information(self, patients: float, mean: float) -> float:
        """Return n: the curvature is 1."""
        del mean
        return patients

    def effect(self, coefficient: float) -> float:
        """Return the difference h·β, in the study's unit."""
        return self.half * coefficient

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return five or six round differences."""
        step = round_up_step(max(self.half * (high - low) / 5, 1e-300))
        first, last = math.ceil(self.half * low / step), math.floor(self.half * high / step)
        return [(k * step / self.half, k * step) for k in range(first, last + 1)]

    def tell(self, prediction: float) -> str:
        """Return a value in its unit."""
        return f"{prediction:.{self.decimals}f}{f' {self.unit_name}' if self.unit_name else ''}"

    def tell_effect(self, effect: float, *, unit: bool = True) -> str:
        """Return a difference with its sign."""
        decimals = self.decimals
        if effect and self.is_little(effect):  # the digits that tell it from 0
            decimals = min(-math.floor(math.log10(abs(effect))), decimals + 3)
        shown = f" {self.unit_name}" if unit and self.unit_name else ""
        return write_minus(f"{effect:+z.{decimals}f}") + shown

    def is_little(self, effect: float) -> bool:
        """Whether a difference is 0 when rounded."""
        return float(f"{effect:.{self.decimals}f}") == 0

    def tell_tick(self, effect: float) -> str:
        """Return a round difference with its sign."""
        return f"{'+' * (effect > 0)}{write_minus(format_number(effect))}"

    def tell_move(self, most: float) -> str:
        """Return how far a predicted value can move."""
        return f"a patient's predicted value moves by at most {self.tell(self.half * most)}"

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the mean, or the pseudo-Huber centre, shape (1,); None without patients."""
        counted = weights > 0
        scaled, weights = self.scale(outcome[counted]), weights[counted]
        if not len(scaled) or np.ptp(scaled) == 0:
            return None
        if self.delta is None:
            return np.array([weights @ scaled / weights.sum()])
        low, high = -1.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            rises = self.slope(np.full(len(scaled), middle), outcome[counted], weights).sum() > 0
            low, high = (low, middle) if rises else (middle, high)
        return np.array([(low + high) / 2])


def above_median(outcome: Floats, weights: Floats) -> Floats:
    """Return 1 above the median of those who count, else 0, shape (n_rows,).

    Where hardly anybody is above it, since most have the same smallest or largest value, those
    at the median count with the fewer.
    """
    counted = outcome[weights > 0]
    if not len(counted):
        return np.zeros(len(outcome))
    middle = np.median(counted)
    above, least = (counted > middle).sum(), (counted < middle).sum()
    split = outcome > middle if above >= least else outcome >= middle
    return split.astype(np.float64)
