r"""How well a model predicts, from histograms of its scores.

In: predicted probabilities and outcomes. Out: :class:`ScoreSums`, which add up over
sites, and from them the usual measures. Leaves the site: the sums; no score of a
patient.

Scores are counted in bins that are even on the log-odds scale between ±8, with one
more beyond either end. Two patients in one bin count as tied, so that the area under
the ROC curve is known up to

.. math:: \tfrac12 \sum_b n_b^{+} n_b^{-} / (n^{+} n^{-}),

the discretisation bound (:attr:`Discrimination.bound`). Brier score and log-loss are
summed exactly. Calibration by log-odds uses the mean predicted probability of each bin.

Oracle: scikit-learn on the patients themselves, within the bound
(``tests/properties/test_scores.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from scipy.special import expit, logit, ndtri

from fedrulefit.core.arrays import Floats

N_BINS: Final = 514
"""512 bins between log-odds −8 and 8, and one beyond either end."""

EDGES: Final[Floats] = expit(np.linspace(-8, 8, N_BINS - 1))
"""Between the bins, as probabilities: bin b holds EDGES[b − 1] ≤ p < EDGES[b]."""

Z95: Final = float(ndtri(0.975))
"""Standard errors on either side in a 95 % interval."""

_CLIP: Final = 1e-15
"""Probabilities nearer to 0 or 1 count as this near in the log-loss."""


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Sums over patients, of one site or of all.

    Parameters
    ----------
    cases, others : (N_BINS,) float64
        Weights of patients with and without the outcome, per bin of the score.
    chances : (N_BINS,) float64
        Summed predicted probabilities, per bin.
    squares, loss : float
        Summed squared error and log-loss.
    """

    cases: Floats
    others: Floats
    chances: Floats
    squares: float
    loss: float

    @property
    def n_cases(self) -> float:
        """Weight of patients with the outcome."""
        return float(self.cases.sum())

    @property
    def n_others(self) -> float:
        """Weight of patients without it."""
        return float(self.others.sum())

    @property
    def total(self) -> float:
        """Weight of all patients."""
        return self.n_cases + self.n_others


def count_scores(chance: Floats, outcome: Floats, weights: Floats) -> ScoreSums:
    """Return the sums of some patients.

    Parameters
    ----------
    chance : (n_rows,) float64
        Predicted probabilities.
    outcome : (n_rows,) float64
        1 with the outcome, 0 without.
    weights : (n_rows,) float64
    """
    bins = np.searchsorted(EDGES, chance, side="right")

    def per_bin(part: Floats) -> Floats:
        return np.bincount(bins, part, N_BINS).astype(np.float64)

    near = np.clip(chance, _CLIP, 1 - _CLIP)
    losses = -np.where(outcome == 1, np.log(near), np.log1p(-near))
    return ScoreSums(
        cases=per_bin(weights * outcome),
        others=per_bin(weights * (1 - outcome)),
        chances=per_bin(weights * chance),
        squares=float(weights @ (chance - outcome) ** 2),
        loss=float(weights @ losses),
    )


def add_scores(parts: Sequence[ScoreSums]) -> ScoreSums:
    """Add up over sites."""
    return ScoreSums(
        **{f.name: sum(getattr(part, f.name) for part in parts) for f in fields(ScoreSums)}
    )


def coarsen(sums: ScoreSums, least: float) -> ScoreSums:
    """Merge neighbouring bins until each that holds anybody holds a weight of at least `least`.

    A merged group stands in the bin of its mean probability. That mean, or one minus it where
    that is smaller, is rounded to three digits, the sums of squares and losses to four: exact
    sums over a few patients would give their scores away. The bound of the AUC grows, and
    says by how much; a decision counts a group as a whole. A smaller total than `least`
    stands in one bin.
    """
    weight = sums.cases + sums.others
    group = np.zeros(N_BINS, dtype=np.int64)
    k, held, left = 0, 0.0, float(weight.sum())
    for b in range(N_BINS):
        group[b] = k
        held += weight[b]
        left -= weight[b]
        if held >= least and left >= least:  # the last group takes what is left over
            k, held = k + 1, 0.0
    whole = np.bincount(group, weight)
    mean = np.bincount(group, sums.chances) / np.maximum(whole, 1e-300)
    mean = np.where(mean > 0.5, 1 - _round(1 - mean, 3), _round(mean, 3))
    place = np.searchsorted(EDGES, mean, side="right")
    squares, loss = _round(np.array([sums.squares, sums.loss]), 4).tolist()

    def merge(part: Floats) -> Floats:
        return np.bincount(place[group], part, N_BINS).astype(np.float64)

    return ScoreSums(
        cases=merge(sums.cases),
        others=merge(sums.others),
        chances=np.bincount(place, whole * mean, N_BINS).astype(np.float64),
        squares=squares,
        loss=loss,
    )


def _round(values: Floats, digits: int) -> Floats:
    """Round to significant digits."""
    return np.array([float(f"{value:.{digits}g}") for value in values.tolist()])


@dataclass(frozen=True)
class Discrimination:
    """The area under the ROC curve.

    Parameters
    ----------
    auc, low, high : float
        The area and its 95 % interval (DeLong's variance, on the logit scale).
    bound : float
        Most that the area can be off because of the bins.
    """

    auc: float
    low: float
    high: float
    bound: float


def discriminate(sums: ScoreSums) -> Discrimination:
    """Return the area under the ROC curve; NaN where there is one class only."""
    cases, others = sums.cases, sums.others
    n1, n0 = sums.n_cases, sums.n_others
    if not (n1 > 0 and n0 > 0):
        nan = float("nan")
        return Discrimination(nan, nan, nan, nan)
    # For each bin: the share of others below it, and of cases above it; ties count half.
    below = (np.cumsum(others) - 0.5 * others) / n0
    above = 1 - (np.cumsum(cases) - 0.5 * cases) / n1
    auc = float(cases @ below / n1)
    variance = _variance(below, cases, auc) / n1 + _variance(above, others, auc) / n0
    low, high = _logit_interval(auc, float(np.sqrt(variance)))
    return Discrimination(auc, low, high, float(0.5 * cases @ others / (n1 * n0)))


def _variance(places: Floats, weights: Floats, mean: float) -> float:
    total = weights.sum()
    return float(weights @ (places - mean) ** 2 / max(total - 1, 1))


def _logit_interval(value: float, error: float) -> tuple[float, float]:
    if not 0 < value < 1:
        return value, value
    wide = Z95 * error / (value * (1 - value))
    return float(expit(logit(value) - wide)), float(expit(logit(value) + wide))


@dataclass(frozen=True)
class Calibration:
    """How far predicted and observed probabilities agree.

    Parameters
    ----------
    slope, intercept : float
        Of a logistic regression of the outcome on the predicted log-odds; 1 and
        0 are perfect. The intercept is for slope 1 (calibration in the large).
    slope_error, intercept_error : float
        Their standard errors.
    observed, expected : float
        Mean outcome and mean predicted probability.
    """

    slope: float
    slope_error: float
    intercept: float
    intercept_error: float
    observed: float
    expected: float


def calibrate(sums: ScoreSums) -> Calibration:
    """Return slope and intercept of the calibration."""
    weight = sums.cases + sums.others
    held = weight > 0
    score = logit(np.clip(sums.chances[held] / weight[held], 1e-9, 1 - 1e-9))
    cases, weight = sums.cases[held], weight[held]
    both = np.column_stack([score, np.ones_like(score)])
    slopes, slope_errors = _logistic(both, cases, weight, 0 * score)
    large, large_errors = _logistic(np.ones((len(score), 1)), cases, weight, score)
    return Calibration(
        float(slopes[0]),
        float(slope_errors[0]),
        float(large[0]),
        float(large_errors[0]),
        sums.n_cases / sums.total,
        float(sums.chances.sum()) / sums.total,
    )


def _logistic(
    design: Floats, cases: Floats, weight: Floats, offset: Floats
) -> tuple[Floats, Floats]:
    """Fit a small logistic regression by Newton's method; NaN where it does not end.

    Returns coefficients and their standard errors.
    """
    coef = np.zeros(design.shape[1])
    for _ in range(50):
        chance = expit(offset + design @ coef)
        gradient = design.T @ (cases - weight * chance)
        hessian = (design.T * (weight * chance * (1 - chance))) @ design
        try:
            step = np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            break
        coef = coef + step
        if np.abs(step).max() < 1e-10:
            return coef, np.sqrt(np.diag(np.linalg.inv(hessian)))
    unknown = np.full(design.shape[1], np.nan)
    return unknown, unknown


def calibration_groups(sums: ScoreSums, n_groups: int = 10) -> Floats:
    """Return the calibration curve, shape (n_found, 4).

    Neighbouring bins are joined into about `n_groups` groups of equal weight. Columns:
    mean predicted probability, observed share of the outcome, weight, cases.
    """
    weight = sums.cases + sums.others
    middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    group = np.minimum((middle * n_groups).astype(np.int64), n_groups - 1)
    totals = [np.bincount(group, part, n_groups) for part in (weight, sums.chances, sums.cases)]
    in_group, chances, cases = totals
    held = in_group > 0
    return np.column_stack(
        [
            chances[held] / in_group[held],
            cases[held] / in_group[held],
            in_group[held],
            cases[held],
        ]
    )


@dataclass(frozen=True)
class Measures:
    """The usual measures of a model on some patients; NaN where one is not defined.

    Parameters
    ----------
    patients, events : float
    auc, auc_low, auc_high, auc_bound : float
        Area under the ROC curve, its 95 % interval, and the most that the bins can shift it.
    brier, log_loss : float
        Means over patients.
    slope, slope_low, slope_high : float
        Calibration slope and its 95 % interval.
    intercept, intercept_low, intercept_high : float
        Calibration in the large and its 95 % interval.
    observed, expected : float
        Share with the outcome, and mean predicted probability.
    """

    patients: float
    events: float
    auc: float
    auc_low: float
    auc_high: float
    auc_bound: float
    brier: float
    log_loss: float
    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    intercept_low: float
    intercept_high: float
    observed: float
    expected: float

    def __post_init__(self) -> None:
        slack = 1e-6  # sums are in fixed point
        areas = (self.auc, self.auc_low, self.auc_high, self.auc_bound)
        shares = (*areas, self.brier, self.observed, self.expected)
        if any(share < -slack or share > 1 + slack for share in shares):
            raise ValueError("a measure that lies between 0 and 1 does not")
        if not -slack <= self.events <= self.patients + slack or self.log_loss < -slack:
            raise ValueError("a measure contradicts itself")
        for low, value, high in (
            (self.auc_low, self.auc, self.auc_high),
            (self.slope_low, self.slope, self.slope_high),
            (self.intercept_low, self.intercept, self.intercept_high),
        ):
            if low > value or value > high:
                raise ValueError("a measure lies outside of its interval")

    def rounded(self, base: float) -> Measures:
        """Return counts as multiples of `base` and the rest with three decimals.

        Exact measures of few patients give away the table that they were computed from.
        """
        patients, events = round_to(np.array([self.patients, self.events]), base).tolist()
        facts = {name: round(value, 3) for name, value in vars(self).items()}
        observed = round(min(events / patients, 1.0), 3) if patients > 0 else float("nan")
        return Measures(**{**facts, "patients": patients, "events": events, "observed": observed})


def round_to(counts: Floats, base: float) -> Floats:
    """Round to multiples of `base`, so that one patient more or less seldom shows."""
    rounded: Floats = base * np.rint(counts / base)
    return rounded


def measure(sums: ScoreSums) -> Measures:
    """Return all measures."""
    found, fit = discriminate(sums), calibrate(sums)
    return Measures(
        patients=sums.total,
        events=sums.n_cases,
        auc=found.auc,
        auc_low=found.low,
        auc_high=found.high,
        auc_bound=found.bound,
        brier=sums.squares / sums.total,
        log_loss=sums.loss / sums.total,
        slope=fit.slope,
        slope_low=fit.slope - Z95 * fit.slope_error,
        slope_high=fit.slope + Z95 * fit.slope_error,
        intercept=fit.intercept,
        intercept_low=fit.intercept - Z95 * fit.intercept_error,
        intercept_high=fit.intercept + Z95 * fit.intercept_error,
        observed=fit.observed,
        expected=fit.expected,
    )


@dataclass(frozen=True)
class Decision:
    """What a decision at one threshold does.

    Parameters
    ----------
    threshold : float
        The nearest edge of a bin: patients at or above it are treated.
    sensitivity, specificity, ppv, npv : float
    net_benefit, treat_all : float
        Net benefit of the model, and of treating everybody.
    """

    threshold: float
    sensitivity: float
    specificity: float
    ppv: float
    npv: float
    net_benefit: float
    treat_all: float


def decide(sums: ScoreSums, threshold: float) -> Decision:
    """Return what a decision at (the edge nearest to) a threshold does."""
    edge = int(np.abs(logit(EDGES) - logit(threshold)).argmin())
    at = float(EDGES[edge])
    true = float(sums.cases[edge + 1 :].sum())
    false = float(sums.others[edge + 1 :].sum())
    missed, spared = sums.n_cases - true, sums.n_others - false
    odds = at / (1 - at)
    return Decision(
        threshold=at,
        sensitivity=_share(true, true + missed),
        specificity=_share(spared, spared + false),
        ppv=_share(true, true + false),
        npv=_share(spared, spared + missed),
        net_benefit=(true - odds * false) / sums.total,
        treat_all=(sums.n_cases - odds * sums.n_others) / sums.total,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
