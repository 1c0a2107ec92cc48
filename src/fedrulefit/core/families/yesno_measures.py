r"""How well probabilities predict a yes/no outcome, read off histograms of these scores.

In: :class:`~fedrulefit.core.families.yesno_sums.ScoreSums`, of one site or of all. Out: the
usual measures, calibration curve and decisions. Nothing leaves a site here: it is all in the
sums.

What the bins cost
    Two patients in one bin count as tied, so that the area under the ROC curve is known
    up to :math:`\tfrac12 \sum_b n_b^{+} n_b^{-} / (n^{+} n^{-})`, the discretisation
    bound (:attr:`Discrimination.bound`). It lies below the area of the scores by much
    less: by 0.001 to 0.003 in large samples, where the bound is 0.02 to 0.05. With 20 bins
    both are half as much again, with 33 they are three quarters. Brier score, log-loss and
    mean prediction are off by at most 1/2048; in the log-loss, probabilities nearer to 0 or 1
    than 1/1024 count as that near. The mean prediction of a bin is not known: it lies
    between the bin's edges, and is placed there so that the total is right
    (:func:`bin_means`). In merged bins, which are wide, that would be far off: they keep the
    means of the bins that they were merged from, where these are told
    (:attr:`~fedrulefit.core.families.yesno_sums.ScoreSums.means`). Decisions are known at the
    edges, exactly. What calibration costs: :mod:`fedrulefit.core.families.yesno_calibration`.

Intervals
    Of the AUC: a score interval after Newcombe (2006, Statistics in Medicine 25: 559–573), which
    holds with two patients with the outcome and where the AUC is 1
    (:func:`~fedrulefit.core.families.areas.find_ends`). It holds what the bins hide, too
    (:func:`_sort_inside`). Of observed shares: Wilson's, with the ends of
    Poisson's where few have the outcome (:func:`~fedrulefit.core.shares.wilson_poisson`). Where
    counts of bins were rounded to multiples of s, cases and others each, a share p of n patients
    in b bins has moved with variance :math:`b\,(p^2 + (1 - p)^2)\,s^2/(12 n^2)`: its interval is
    as wide as if it were of so many fewer patients. Brier score and log-loss have none.

Oracle: scikit-learn on the patients themselves, within these bounds
(``tests/properties/test_yesno_scores.py``); coverage by simulation
(``docs/coverage.md``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Floats
from fedrulefit.core.crossing import find_crossing
from fedrulefit.core.families.areas import find_ends
from fedrulefit.core.families.grouping import group_bins, group_ends
from fedrulefit.core.families.intervals import check_interval
from fedrulefit.core.families.yesno_calibration import calibrate
from fedrulefit.core.families.yesno_sums import ScoreSums
from fedrulefit.core.rounding import round_to
from fedrulefit.core.shares import effective_size, wilson_poisson

FEWEST_RANKED: Final = 2
"""The interval of an AUC rests on at least so many patients with and without the outcome."""


def bin_means(sums: ScoreSums) -> Floats:
    """Return where the mean prediction of each bin may lie, shape (n_bins,).

    As told; else between the bin's edges, all at the same share of the way (on the logit
    scale of that share), such that they add up to the summed predictions.
    """
    if sums.means is not None:
        return sums.means
    return place_means(sums.ends, sums.cases + sums.others, sums.chances)


def place_means(ends: Floats, weight: Floats, total: float) -> Floats:
    """Return means between the ends of bins whose weighted sum is `total`, shape (n_bins,)."""

    def place(shift: float) -> Floats:
        means: Floats = np.minimum(ends[:-1] + np.diff(ends) * expit(shift), ends[1:])
        return means

    return place(find_crossing(lambda shift: float(weight @ place(shift)) - total, -40.0, 40.0))


@dataclass(frozen=True)
class Discrimination:
    """The area under the ROC curve; NaN where it is not known.

    Parameters
    ----------
    auc : float
    low, high : float
        Its 95 % interval: :func:`~fedrulefit.core.families.areas.find_ends`.
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
    bound = float(0.5 * cases @ others / (n1 * n0))
    if min(n1, n0) < FEWEST_RANKED:
        return Discrimination(auc, float("nan"), float("nan"), bound)
    variance = _variance(below, cases, auc) / n1 + _variance(above, others, auc) / n0
    low, high = find_ends(auc, variance, n1, n0)
    missed = _sort_inside(sums, auc)
    return Discrimination(
        auc, max(low + min(missed, 0.0), 0.0), min(high + max(missed, 0.0), 1.0), bound
    )


def estimate_area(sums: ScoreSums) -> float:
    """Return the area of the scores themselves, as far as bins and summed log-odds tell it."""
    area = discriminate(sums).auc
    return min(max(area + _sort_inside(sums, area), 0.0), 1.0)


def _variance(places: Floats, weights: Floats, mean: float) -> float:
    total = weights.sum()
    return float(weights @ (places - mean) ** 2 / max(total - 1, 1))


def _sort_inside(sums: ScoreSums, auc: float) -> float:
    """Return by how much the area of the scores is expected to lie above that of the bins.

    Bins take patients as tied whom the scores sort; by how much depends on where cases and others
    stand within a bin (:meth:`~fedrulefit.core.families.yesno_places.Places.sorting`), which is
    an estimate. Of bins that were merged, what they were merged from is known.
    """
    fine = sums.fine
    pairs = fine.cases * fine.others / (fine.n_cases * fine.n_others)
    inside = float(pairs @ fine.place().sorting())
    return inside if fine is sums else inside + discriminate(fine).auc - auc


@dataclass(frozen=True)
class Group:
    """Patients whose predicted probabilities lie close together.

    Parameters
    ----------
    predicted : float
        Mean predicted probability, as far as that is known.
    above, below : float
        Where the group begins and ends.
    observed, low, high : float
        Share with the outcome, and Wilson's 95 % interval.
    patients, events : float
    """

    predicted: float
    above: float
    below: float
    observed: float
    low: float
    high: float
    patients: float
    events: float


def calibration_groups(sums: ScoreSums, n_groups: int = 10, step: float = 0.0) -> list[Group]:
    """Return the calibration curve: at most `n_groups` groups of similar weight.

    Each is of neighbouring bins. Their counts were rounded to multiples of `step`; 0 if they are
    exact.
    """
    weight = sums.cases + sums.others
    group = group_bins(weight, n_groups)
    parts = (weight, weight * bin_means(sums), sums.cases)
    in_group, chances, cases = (np.bincount(group, part, n_groups) for part in parts)
    held = in_group > 0
    found = np.flatnonzero(held)
    above, below = group_ends(group, sums.ends, found)
    patients: Floats = in_group[held].astype(np.float64)
    observed = cases[held] / patients
    bins = np.bincount(group, weight > 0, n_groups)[held]
    noise = bins * (observed**2 + (1 - observed) ** 2) * step**2 / 12 / patients**2
    columns = [
        np.clip(chances[held] / patients, above, below),
        above,
        below,
        observed,
        *wilson_poisson(observed, effective_size(observed, patients, noise)),
        patients,
        cases[held],
    ]
    return [Group(*row) for row in np.column_stack(columns).tolist()]


@dataclass(frozen=True)
class Measures:
    """The usual measures of a model on some patients; NaN where one is not known.

    That is so with one class only; of an interval of the AUC with fewer than two patients of either
    outcome (``FEWEST_RANKED``); of a calibration slope with fewer than ten
    (``yesno_calibration.FEWEST``), or where the bins of both classes
    do not overlap. Intervals take a weight for that many patients.

    Parameters
    ----------
    patients, events : float
    auc, auc_low, auc_high, auc_bound : float
        Area under the ROC curve, its 95 % score interval, and the most that the bins can shift it.
    brier, log_loss : float
        Means over patients.
    slope, slope_low, slope_high : float
        Calibration slope and its 95 % profile likelihood interval.
    intercept, intercept_low, intercept_high : float
        Calibration in the large and its 95 % score interval.
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
            check_interval(low, value, high)

    @property
    def with_outcome(self) -> float:
        """Patients with the outcome."""
        return self.events

    @property
    def fewest(self) -> float:
        """Patients with the outcome, or those without: which are fewer."""
        return min(self.events, self.patients - self.events)

    @property
    def counts(self) -> tuple[float, float]:
        """Patients, and those with the outcome."""
        return self.patients, self.events

    def rounded(self, base: float) -> Measures:
        """Return counts as multiples of `base` and the rest with three decimals.

        Exact measures of few patients give away the table that they were computed from.
        """
        facts = {name: round(value, 3) for name, value in vars(self).items()}
        counts = round_to(np.array(self.counts), base)
        return Measures(**facts).with_counts(*counts.tolist())

    def with_counts(self, *counts: float) -> Measures:
        """Return the same with rounded counts, and the share that follows from them."""
        patients, events = counts
        observed = round(min(events / patients, 1.0), 3) if patients > 0 else float("nan")
        return replace(self, patients=patients, events=events, observed=observed)


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
        **vars(fit),
        observed=sums.n_cases / sums.total,
        expected=sums.chances / sums.total,
    )


@dataclass(frozen=True)
class Decision:
    """What a decision at one threshold does.

    Parameters
    ----------
    threshold : float
        An edge of the bins: patients at or above it are treated.
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


def decide(sums: ScoreSums, edge: int) -> Decision:
    """Return what a decision at one of the edges between bins does."""
    at = float(sums.edges[edge])
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
