r"""How well probabilities tell patients of one and the same hospital apart.

In: each hospital's own score histograms. Out: the mean over hospitals of the area under the
ROC curve within each, :math:`\sum_s c_s A_s / \sum_s c_s`, and its interval. The area over
all patients compares patients of different hospitals, too: a model that only knows how ill a
hospital's patients are on average reaches a large area, and helps nobody to tell two patients
of a ward apart.

Leaves the site: four numbers (:class:`WithinSums`), summed over sites.

What the sums can tell
    Unlike all other sums these depend on who is at which hospital, for that is what they
    measure (``tests/properties/test_splits.py`` leaves them out on purpose). Sums of exact
    products of a site's counts would give the counts away: with few sites and known totals,
    whole numbers leave one solution. So a site's cases count in whole multiples of its
    smallest count, and its area and its ratio of cases to others in coarse public steps; of
    two sites or more, many different ones give the same totals. A site with fewer patients
    with or without the outcome than its smallest count adds nothing. Where a single site is
    left, the totals are that site's own area, unnamed: it is not shown, but a coordinator
    can read it. All but one site together learn the last one's numbers, as from any sum.

The interval
    A score interval in the manner of Newcombe (2006, method 5), with
    :math:`g(A) = \frac{1-A}{2-A} + \frac{A}{1+A}`: a site's area has a variance of about
    :math:`A(1-A)\,g(A)\,h_s`, :math:`h_s = (\tfrac{m+n}{2} + 1)/(mn)` for m cases and n others.
    So :math:`\sum c_s^2 h_s` is all that is needed. It is of these hospitals, not of others.

Oracle: all pairs of patients of one hospital (``tests/unit/core/test_yesno_within.py``), and
simulated coverage there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.families.areas import score_interval
from fedrulefit.core.families.yesno_measures import Measures, estimate_area
from fedrulefit.core.families.yesno_sums import ScoreSums
from fedrulefit.core.rounding import Rounding, round_to
from fedrulefit.core.sums import Sum, quantity

AREA_STEP: Final = 1 / 256
"""A site's own area is told to multiples of this: it is known no better, for the bins."""

DOUBT_STEP: Final = 1 / 32
"""c·h of a site is rounded up to multiples of this; it is ½ where cases are rare."""

_BITS: Final = 16
_FEWEST_SITES: Final = 2
_CLEAR: Final = 0.01
"""A smaller difference of two areas is not worth a sentence."""


@dataclass(frozen=True, eq=False)
class WithinSums(Sum):
    """Sums over sites that have enough patients with and without the outcome.

    Parameters
    ----------
    sites : float
        How many they are.
    cases : float
        Σ c: their cases, each site's down to a multiple of its smallest count.
    placed : float
        Σ c·A: times the site's own area under the ROC curve.
    doubts : float
        Σ c²·h: what the interval rests on.
    """

    sites: float = quantity(
        "1 where a site has enough patients with and without the outcome, else all four are 0",
        bits=_BITS,
        most="1 per site",
    )
    cases: float = quantity(
        "the site's Σ w·y = m, down to a multiple c of its smallest count",
        bits=_BITS,
        most="m per site",
    )
    placed: float = quantity(
        "c·A, with A the site's own area under the ROC curve, as its score sums tell it, to 1/256",
        bits=_BITS,
        most="m",
    )
    doubts: float = quantity(
        "c·(c·h), with h = (½(m + n) + 1)/(m·n), n = Σ w·(1 − y), and c·h up to 1/32",
        bits=_BITS,
        most="m·(m + n + 2)/(2·n)",
    )


NOBODY: Final = WithinSums(0.0, 0.0, 0.0, 0.0)
"""What a site with too few patients adds."""


def place_within(sums: ScoreSums, least: float) -> WithinSums:
    """Return what one site adds, from its score histograms.

    Parameters
    ----------
    sums : ScoreSums
        Of the site's own patients.
    least : float
        The site's smallest count, times the most that one patient counts.
    """
    m, n = sums.n_cases, sums.n_others
    if min(m, n) < least:
        return NOBODY
    cases = least * math.floor(m / least * (1 + 1e-12))
    area = float(round_to(np.array([estimate_area(sums)]), AREA_STEP)[0])
    doubt = DOUBT_STEP * math.ceil(cases * (0.5 * (m + n) + 1) / (m * n) / DOUBT_STEP)
    return WithinSums(1.0, cases, cases * area, cases * doubt)


@dataclass(frozen=True)
class Within:
    """How well patients of one and the same hospital are told apart.

    Parameters
    ----------
    sites : int
        Hospitals with enough patients of either outcome; at least two.
    cases : float
        Their patients with the outcome, roughly.
    auc, auc_low, auc_high : float
        The mean of their own areas under the ROC curve, weighted by cases, and its 95 %
        interval.
    """

    sites: int
    cases: float
    auc: float
    auc_low: float
    auc_high: float

    def __post_init__(self) -> None:
        if self.sites < _FEWEST_SITES or not 0 < self.cases < math.inf:
            raise ValueError("discrimination within hospitals is of two hospitals or more")
        if not 0 <= self.auc_low <= self.auc <= self.auc_high <= 1:
            raise ValueError("the area within hospitals lies outside of its interval")

    def rounded(self, rounding: Rounding, unit: float) -> Within | None:
        """Return what may be published: three decimals; None of too few cases."""
        if self.cases < max(rounding.smallest, rounding.multiple) * unit:
            return None
        areas = {name: round(getattr(self, name), 3) for name in ("auc", "auc_low", "auc_high")}
        return replace(self, cases=rounding.count(self.cases, unit), **areas)


def measure_within(total: WithinSums) -> Within | None:
    """Return discrimination within hospitals; None with fewer than two that have enough."""
    sites = round(total.sites)
    if sites < _FEWEST_SITES or total.cases <= 0:
        return None
    auc = min(max(total.placed / total.cases, 0.0), 1.0)
    doubt = total.doubts / total.cases**2
    return Within(sites, total.cases, auc, *score_interval(auc, doubt))


def tell_within(found: Measures, within: Within) -> str:
    """Return discrimination within hospitals in a sentence, held against that over all."""
    own = f"{within.auc:.3f} ({within.auc_low:.3f} to {within.auc_high:.3f}, 95 % interval)"
    same = f"Between patients of one and the same hospital the AUC is {own}, in the mean over "
    same += f"{within.sites} hospitals."
    if found.auc > within.auc_high and found.auc - within.auc > _CLEAR:
        return (
            f"{same} Part of the AUC of {found.auc:.3f} tells hospitals apart, not patients: a "
            f"doctor who compares patients of one hospital has {within.auc:.3f}."
        )
    hidden = found.auc_bound  # by bins, of the area over all patients
    if found.auc < within.auc_low and within.auc - found.auc > max(_CLEAR, hidden):
        return (
            f"{same} Over all patients it is {found.auc:.3f} only: hospitals differ in ways that "
            "the model does not know."
        )
    return same
