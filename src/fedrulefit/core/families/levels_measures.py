r"""How well probabilities of several levels predict, read off the histograms of their splits.

In: :class:`~fedrulefit.core.families.levels_sums.LevelsSums`, of one site or of all. Out: the
measures, a table by level, calibration curves. Nothing leaves a site here.

========================  ==================================================================
measure                   here
========================  ==================================================================
area under the ROC curve  the mean over splits, each as of a yes/no outcome
its interval              from the mean of the lower ends to the mean of the upper ends
its bound                 the mean of the splits' bounds: most that the bins can shift it
log-loss, Brier score     means over patients, each off by at most 1/2048
explained                 1 − log-loss / log-loss of the shares of the levels among these patients
ranked probability score  Σ over splits of their Brier scores, off by at most (C − 1)/2048
========================  ==================================================================

Of levels without an order the mean area is that of each against the rest (scikit-learn's
``roc_auc_score(multi_class="ovr")``); of ordered ones, of "at least k" against "below".

The mean's interval is as wide as if all splits erred together: the standard error of a mean is
at most the mean of the standard errors, whatever the correlation. So it is wide rather than
narrow; where splits err apart it holds the area more often than in 95 of 100 cases.

Oracles: scikit-learn on the patients themselves, within these bounds
(``tests/properties/test_levels_scores.py``); coverage by simulation
(``tests/unit/core/test_levels_scores.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.levels_sums import LevelsSums
from fedrulefit.core.families.yesno_calibration import calibrate
from fedrulefit.core.families.yesno_measures import calibration_groups, discriminate
from fedrulefit.core.rounding import round_digits


@dataclass(frozen=True)
class LevelsMeasures:
    """Measures of a model on some patients; NaN where one is not known.

    Parameters
    ----------
    patients : float
    rarest : float
        Those of the rarest level.
    auc, auc_low, auc_high, auc_bound : float
        Mean area under the ROC curve over the splits, its interval, and the most that the bins can
        shift it. Unknown where a level has no patient; the interval, where one has but one.
    log_loss, brier : float
        Means over patients; the Brier score is of all levels, from 0 to 2.
    rps : float
        Ranked probability score, from 0 to C − 1; NaN of levels without an order.
    explained : float
        Share of the log-loss that the model explains, beside the mere shares of the levels.
    """

    patients: float
    rarest: float
    auc: float
    auc_low: float
    auc_high: float
    auc_bound: float
    log_loss: float
    brier: float
    rps: float
    explained: float

    def __post_init__(self) -> None:
        slack = 1e-6  # sums are in fixed point
        areas = self.auc, self.auc_low, self.auc_high, self.auc_bound, self.brier / 2
        if any(area < -slack or area > 1 + slack for area in areas) or self.explained > 1 + slack:
            raise ValueError("a measure that lies between 0 and 1 does not")
        if self.log_loss < -slack or self.rps < -slack:
            raise ValueError("a loss is below 0")
        if not -slack <= self.rarest <= self.patients + slack:
            raise ValueError("a measure contradicts itself")
        if self.auc_low > self.auc or self.auc > self.auc_high:
            raise ValueError("a measure lies outside of its interval")
        if math.isnan(self.auc_low) != math.isnan(self.auc_high):
            raise ValueError("a measure knows half of its interval")

    @property
    def with_outcome(self) -> float:
        """NaN: no level is the one that counts."""
        return math.nan

    @property
    def fewest(self) -> float:
        """Patients of the rarest level."""
        return self.rarest

    @property
    def counts(self) -> tuple[float, float]:
        """All patients, and those of the rarest level."""
        return self.patients, self.rarest

    def rounded(self, base: float) -> LevelsMeasures:
        """Return counts as multiples of `base`, and the rest as coarse as is published.

        Areas and shares have three decimals, losses three significant digits: exact ones of few
        patients give away the patients that they are of.
        """
        told = {name: round(value, 3) for name, value in vars(self).items()}
        for name in ("log_loss", "brier", "rps"):
            value = getattr(self, name)
            told[name] = value if math.isnan(value) else round_digits(value, 3)
        patients, rarest = (base * round(x / base) for x in self.counts)
        return replace(self, **{**told, "patients": patients, "rarest": rarest})

    def with_counts(self, *counts: float) -> LevelsMeasures:
        """Return the same with other :attr:`counts`."""
        patients, rarest = counts
        return replace(self, patients=patients, rarest=rarest)


def find_areas(sums: LevelsSums) -> Floats:
    """Return area, lower and upper end and bound of each split, shape (n_splits, 4)."""
    if sums.areas is not None:
        return sums.areas
    return np.array([[*vars(discriminate(split)).values()] for split in sums.splits])


def measure_levels(sums: LevelsSums) -> LevelsMeasures:
    """Return all measures."""
    total, held = sums.total, np.maximum(sums.held, 0.0)
    auc, low, high, bound = find_areas(sums).mean(axis=0).tolist()
    log_loss = sums.log_loss / total
    unknowing = -float(xlogy(held, held / total).sum()) / total
    return LevelsMeasures(
        patients=total,
        rarest=float(held.min()),
        auc=auc,
        auc_low=low,
        auc_high=high,
        auc_bound=bound,
        log_loss=log_loss,
        brier=sums.brier / total,
        rps=float(sums.squares.sum()) / total if sums.ordered else math.nan,
        explained=1 - log_loss / unknowing if unknowing > 0 else math.nan,
    )


@dataclass(frozen=True)
class LevelRow:
    """One split: a level against the rest, or at least a level.

    Parameters
    ----------
    level : str
        The level, or the lowest of those that count.
    patients : float
        Those at it (or above).
    observed, expected : float
        Their share, and the mean predicted probability.
    auc, auc_low, auc_high, auc_bound : float
        Area under the ROC curve, with its interval, and most that the bins can shift it.
    slope, slope_low, slope_high : float
        Calibration slope, and its interval; 1 is right.
    intercept, intercept_low, intercept_high : float
        Calibration in the large, and its interval; 0 is right.
    """

    level: str
    patients: float
    observed: float
    expected: float
    auc: float
    auc_low: float
    auc_high: float
    auc_bound: float
    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    intercept_low: float
    intercept_high: float


def name_splits(levels: tuple[str, ...], *, ordered: bool) -> tuple[str, ...]:
    """Return the level that each split speaks of."""
    return levels[1:] if ordered else levels


def list_levels(sums: LevelsSums, levels: tuple[str, ...]) -> list[LevelRow]:
    """Return the table by level."""
    names, areas = name_splits(levels, ordered=sums.ordered), find_areas(sums).tolist()
    return [
        LevelRow(
            name,
            split.n_cases,
            split.n_cases / split.total,
            split.chances / split.total,
            *area,
            **vars(calibrate(split)),
        )
        for name, split, area in zip(names, sums.splits, areas, strict=True)
    ]


@dataclass(frozen=True)
class LevelGroup:
    """Patients whose predicted probabilities of one split lie close together.

    Parameters
    ----------
    level : str
        The split's, as in :class:`LevelRow`.
    above, below : float
        Where the group begins and ends.
    predicted : float
        Mean predicted probability, as far as that is known.
    observed, low, high : float
        Share at the level (or above), and Wilson's 95 % interval.
    patients, events : float
    """

    level: str
    above: float
    below: float
    predicted: float
    observed: float
    low: float
    high: float
    patients: float
    events: float


def group_levels(
    sums: LevelsSums, levels: tuple[str, ...], n_groups: int, step: float
) -> list[LevelGroup]:
    """Return the calibration curve of each split, one after another."""
    names = name_splits(levels, ordered=sums.ordered)
    return [
        LevelGroup(level=name, **vars(group))
        for name, split in zip(names, sums.splits, strict=True)
        for group in calibration_groups(split, n_groups, step)
    ]
