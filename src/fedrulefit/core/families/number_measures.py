r"""How well predicted numbers hit, read off moments and histograms.

In: :class:`~fedrulefit.core.families.number_sums.NumberSums`, of one site or of all, in half
ranges. Out: the usual measures, in the study's unit, and the calibration curve. Nothing leaves a
site here.

With t the outcome, p the prediction, :math:`e = t - p`, bars for means over patients:

==============================  ==================================================================
R²                              :math:`1 - \overline{e^2}/\overline{(t - \bar t)^2}`
RMSE, mean absolute error       :math:`\sqrt{\overline{e^2}}`, :math:`\overline{|e|}`
calibration slope               b of the least-squares line :math:`t = a + bp`
calibration in the large        :math:`\bar e`: the line's a where b is 1
reach                           h such that :math:`|e| ≤ h` for 95 % (80 %) of patients
==============================  ==================================================================

What rounding costs
    Outcomes and predictions are rounded to 1/1024 of the half range: RMSE, mean absolute error and
    means are off by at most that. Reach is the upper end of a bin: at most as much
    too wide as the bin (``reach_95_bound``).

Intervals
    None takes errors to be normal, or equally large everywhere. R² and RMSE: of the
    logarithm (:mod:`fedrulefit.core.families.intervals`). The slope has the standard error that
    White's sandwich gives (HC1). Reach is no confidence interval but a prediction interval: the
    k-th smallest :math:`|e|` of n, :math:`k = \lceil .95 (n + 1) \rceil`, holds a new patient's in
    95 % of cases (split conformal prediction), whatever the distribution. Where so few were judged
    that no patient lies beyond, it is not known.

Oracle: scikit-learn and statsmodels (``tests/properties/test_number_measures.py``); simulated
coverage (``tests/unit/core/test_number_judge.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.grouping import group_bins, group_ends
from fedrulefit.core.families.intervals import (
    UNKNOWN,
    Estimate,
    check_interval,
    estimate,
    estimate_explained,
    estimate_ratio,
    reach_student,
    spread_of_logs,
)
from fedrulefit.core.families.number_sums import (
    COARSE_STEP,
    MOMENT_STEP,
    POWERS,
    STEP,
    NumberSums,
)
from fedrulefit.core.rounding import round_to

ALIKE: Final = STEP**2 / 12
"""A smaller variance may be of rounding alone."""

Polynomial = dict[tuple[int, int], float]
"""Coefficients by powers of t − t̄ and p − p̄."""

T: Final[Polynomial] = {(1, 0): 1.0}
P: Final[Polynomial] = {(0, 1): 1.0}


def multiply(*factors: Polynomial) -> Polynomial:
    """Return the product of polynomials."""
    found: Polynomial = {(0, 0): 1.0}
    for factor in factors:
        grown: Polynomial = {}
        for ((i, j), a), ((k, m), b) in product(found.items(), factor.items()):
            grown[i + k, j + m] = grown.get((i + k, j + m), 0.0) + a * b
        found = grown
    return found


@dataclass(frozen=True)
class Moments:
    """Means of outcome and prediction, and their central moments up to the fourth order.

    Parameters
    ----------
    n : float
        Patients.
    outcome, prediction : float
        Means, in half ranges.
    central : dict
        By powers of outcome and prediction.
    """

    n: float
    outcome: float
    prediction: float
    central: dict[tuple[int, int], float]

    @classmethod
    def of(cls, sums: NumberSums) -> Moments:
        """Return those of some patients."""
        n = sums.total
        raw = {(0, 0): 1.0, **dict(zip(POWERS, (sums.moments / n).tolist(), strict=True))}
        t, p = raw[1, 0], raw[0, 1]

        def centre(i: int, j: int) -> float:
            return math.fsum(
                math.comb(i, k) * math.comb(j, m) * raw[k, m] * (-t) ** (i - k) * (-p) ** (j - m)
                for k in range(i + 1)
                for m in range(j + 1)
            )

        return cls(n, t, p, {(0, 0): 1.0, **{(i, j): centre(i, j) for i, j in POWERS}})

    def mean(self, *factors: Polynomial) -> float:
        """Return the mean over patients of a product of polynomials."""
        return sum(a * self.central[powers] for powers, a in multiply(*factors).items())

    @property
    def error(self) -> Polynomial:
        """Return e = t − p."""
        return {(1, 0): 1.0, (0, 1): -1.0, (0, 0): self.outcome - self.prediction}

    @property
    def blur(self) -> float:
        """What fourth moments about the means may be off by: three times what rounding adds.

        Each of n patients adds up to half a step to each of five raw moments, whose squared
        binomial coefficients add up to 70.
        """
        return 3 * MOMENT_STEP * math.sqrt(70 / 12 / self.n)


def square(of: Polynomial) -> Polynomial:
    """Return the square."""
    return multiply(of, of)


def explain(found: Moments, error: Polynomial) -> tuple[float, float, float]:
    """Return A, B and the influence of R², for :func:`estimate_explained`.

    Parameters
    ----------
    found : Moments
    error : Polynomial
        What counts as error: e, or what of it is left once its mean is taken out.
    """
    left, whole = found.mean(error, error), found.mean(T, T)
    if left <= 0 or whole <= ALIKE:
        return max(left, 0.0), whole if whole > ALIKE else 0.0, 0.0
    parts = {powers: a / left for powers, a in square(error).items()}
    parts[2, 0] = parts.get((2, 0), 0.0) - 1 / whole
    return left, whole, found.mean(parts, parts)


def explain_within(found: Moments) -> tuple[float, float, float]:
    """Return the same, the level of these patients aside."""
    return explain(found, {(1, 0): 1.0, (0, 1): -1.0})


def fit_slope(found: Moments) -> Estimate:
    """Return the calibration slope, with White's standard error (HC1)."""
    spread = found.mean(P, P)
    if spread <= ALIKE or found.n <= 2:
        return UNKNOWN
    slope = found.mean(T, P) / spread
    left: Polynomial = {(1, 0): 1.0, (0, 1): -slope}
    fourth = found.mean(left, left, P, P)
    error = math.sqrt(fourth / (found.n - 2)) / spread if fourth > found.blur else math.nan
    return estimate(slope, error, found.n, lost=2)


def find_reach(sums: NumberSums, share: float) -> tuple[float, float]:
    """Return how far from the prediction `share` of new patients lie, and the bin's width.

    In half ranges; NaN where nobody who was judged lies beyond.
    """
    n = sums.total
    place = min(max(math.ceil(share * (n + 1) * (1 - 1e-12)), 1), n + 1)
    b = int(np.searchsorted(np.cumsum(sums.errors), place * (1 - 1e-9)))
    if b >= len(sums.error_edges):
        return math.nan, math.nan
    upper = float(sums.error_edges[b])
    return upper, upper - (float(sums.error_edges[b - 1]) if b else 0.0)


@dataclass(frozen=True)
class Measures:
    """The usual measures on some patients, in the study's unit; NaN where one is not known.

    Parameters
    ----------
    patients : float
    r2, r2_low, r2_high : float
        Share of variance explained, and its 95 % interval.
    rmse, rmse_low, rmse_high : float
        Root of the mean squared error.
    mae, mae_low, mae_high : float
        Mean absolute error.
    slope, slope_low, slope_high : float
        Of a least-squares line of outcomes on predictions; 1 is right.
    intercept, intercept_low, intercept_high : float
        Calibration in the large: how much higher outcomes are than predictions; 0 is right.
    observed, expected : float
        Mean outcome, and mean prediction.
    reach_80, reach_80_bound, reach_95, reach_95_bound : float
        A new patient's outcome is at most this far from the prediction, in 80 and 95 %; and at
        most how much too wide that is.
    """

    patients: float
    r2: float
    r2_low: float
    r2_high: float
    rmse: float
    rmse_low: float
    rmse_high: float
    mae: float
    mae_low: float
    mae_high: float
    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    intercept_low: float
    intercept_high: float
    observed: float
    expected: float
    reach_80: float
    reach_80_bound: float
    reach_95: float
    reach_95_bound: float

    def __post_init__(self) -> None:
        slack = 1e-6  # sums are in fixed point
        errors = (self.patients, self.rmse, self.mae, self.reach_80, self.reach_95)
        if any(value < -slack for value in errors) or self.r2 > 1 + slack:
            raise ValueError("a measure contradicts itself")
        for name in ("r2", "rmse", "mae", "slope", "intercept"):
            check_interval(*(getattr(self, f"{name}{end}") for end in ("_low", "", "_high")))

    @property
    def with_outcome(self) -> float:
        """Nobody is with or without a number."""
        return math.nan

    @property
    def fewest(self) -> float:
        """All patients: they are not told apart."""
        return self.patients

    @property
    def counts(self) -> tuple[float]:
        """Patients."""
        return (self.patients,)

    def rounded(self, base: float) -> Measures:
        """Return counts as multiples of `base`, and the rest coarse.

        R² and slope have three decimals; what is in the outcome's unit has the decimals of three
        digits of the RMSE.
        """
        known = self.rmse > 0
        place = 2 - math.floor(math.log10(self.rmse)) if known else 3
        shares = ("r2", "r2_low", "r2_high", "slope", "slope_low", "slope_high")
        facts = {
            name: round(value, 3 if name in shares else place) for name, value in vars(self).items()
        }
        (patients,) = round_to(np.array(self.counts), base).tolist()
        return Measures(**facts).with_counts(patients)

    def with_counts(self, *counts: float) -> Measures:
        """Return the same with a rounded count."""
        (patients,) = counts
        return replace(self, patients=patients)


def measure(sums: NumberSums, middle: float, half: float) -> Measures:
    """Return all measures, in a unit of which the range's middle and half are told."""
    found = Moments.of(sums)
    n, error = found.n, found.error
    shift, mean_square = error[0, 0], max(found.mean(error, error), 0.0)
    mae = sums.misses / n
    fourth = found.mean(error, error, error, error)
    left, whole, influence = explain(found, error)
    relative = math.nan
    if fourth - mean_square**2 > found.blur:
        relative = spread_of_logs(fourth / mean_square**2 - 1, n) / 2
    else:  # what the interval follows from is lost in rounding
        influence = math.nan
    of_mae = math.sqrt(max(mean_square - mae**2, 0.0) / max(n - 1, 1))
    of_shift = math.sqrt(max(mean_square - shift**2, 0.0) / max(n - 1, 1))

    def scale(found: Estimate) -> Estimate:
        value, low, high = found
        return half * value, half * low, half * high

    told = {
        "r2": estimate_explained(left, whole, influence, n),
        "rmse": scale(estimate_ratio(math.sqrt(mean_square), relative, n)),
        "mae": scale(estimate(mae, of_mae, n)),
        "slope": fit_slope(found),
        "intercept": scale(estimate(shift, of_shift, n)),
    }
    (reach_80, bound_80), (reach_95, bound_95) = (find_reach(sums, x) for x in (0.8, 0.95))
    return Measures(
        patients=n,
        **{
            f"{name}{end}": value
            for name, values in told.items()
            for end, value in zip(("", "_low", "_high"), values, strict=True)
        },
        observed=middle + half * found.outcome,
        expected=middle + half * found.prediction,
        reach_80=half * reach_80,
        reach_80_bound=half * bound_80,
        reach_95=half * reach_95,
        reach_95_bound=half * bound_95,
    )


@dataclass(frozen=True)
class Group:
    """Patients whose predictions lie close together.

    Parameters
    ----------
    predicted : float
        Mean prediction.
    above, below : float
        Where the group begins and ends; the outer ones hold what is beyond, too.
    observed, low, high : float
        Mean outcome, and its 95 % interval; its ends are NaN of a single patient.
    patients : float
    """

    predicted: float
    above: float
    below: float
    observed: float
    low: float
    high: float
    patients: float


def calibration_groups(
    sums: NumberSums, middle: float, half: float, n_groups: int, steps: Floats | None = None
) -> list[Group]:
    """Return the calibration curve: at most `n_groups` groups of similar weight.

    The mean outcome of each bin was rounded to multiples of `steps`, which adds its variance,
    :math:`s^2/12`; None if they are exact.
    """
    group = group_bins(sums.people, n_groups)
    noise = np.zeros_like(sums.people) if steps is None else (sums.people * steps) ** 2 / 12
    parts = (sums.people, sums.predictions, sums.outcomes, sums.squares, noise)
    patients, predictions, outcomes, squares, moved = (
        np.bincount(group, x, n_groups) for x in parts
    )
    found = np.flatnonzero(patients > 0)
    above, below = group_ends(group, sums.ends, found)
    told = []
    for k, start, end in zip(found.tolist(), above.tolist(), below.tolist(), strict=True):
        n = float(patients[k])
        mean = float(outcomes[k]) / n
        spread = max(float(squares[k]) / n - mean**2, 0.0) + COARSE_STEP**2 / 12
        error = math.sqrt(spread / (n - 1) + float(moved[k]) / n**2) if n >= 2 else math.nan
        reach = reach_student(error, n - 1) if n >= 2 else math.nan
        row = (float(predictions[k]) / n, start, end, mean, mean - reach, mean + reach)
        told.append(Group(*[*(middle + half * x for x in row), n]))
    return told


def spread_of(sums: NumberSums) -> Floats:
    """Return the standard deviation of the outcomes in each bin, shape (n_bins,)."""
    people = np.maximum(sums.people, 1e-300)
    spread: Floats = np.sqrt(np.maximum(sums.squares / people - (sums.outcomes / people) ** 2, 0.0))
    return spread
