r"""How well risks tell patients of one and the same hospital apart, by their times to an event.

In: each hospital's own table. Out: the mean over hospitals of the concordance within each,
:math:`\sum_s c_s C_s / \sum_s c_s`, and its interval. The concordance over all patients compares
patients of different hospitals, too.

Leaves the site: four numbers (:class:`TimeWithinSums`), coarse in the manner of, and for the
reasons told in, :mod:`fedrulefit.core.families.yesno_within`: these sums alone depend on who is at
which hospital. The interval is that of an area under the ROC curve of m patients with the event
and n partners: as many others as one of them is held against on average.

Oracle: all pairs of patients of one hospital (``tests/unit/core/test_time_scores.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.families.areas import score_interval
from fedrulefit.core.families.time_measures import Measures, rank
from fedrulefit.core.families.time_sums import TimeSums
from fedrulefit.core.families.yesno_within import AREA_STEP, DOUBT_STEP
from fedrulefit.core.rounding import Rounding, round_to
from fedrulefit.core.sums import Sum, quantity

_BITS: Final = 16
_FEWEST_SITES: Final = 2
_CLEAR: Final = 0.01
"""A smaller difference of two concordances is not worth a sentence."""


@dataclass(frozen=True, eq=False)
class TimeWithinSums(Sum):
    """Sums over sites that have enough patients with and without the event.

    Parameters
    ----------
    sites : float
        How many they are.
    events : float
        Σ c: their events, each site's down to a multiple of its smallest count.
    placed : float
        Σ c·C: times the site's own concordance.
    doubts : float
        Σ c²·h: what the interval rests on.
    """

    sites: float = quantity(
        "1 where a site has enough patients with and without the event, else all four are 0",
        bits=_BITS,
        most="1 per site",
    )
    events: float = quantity(
        "the site's events m, down to a multiple c of its smallest count",
        bits=_BITS,
        most="m per site",
    )
    placed: float = quantity(
        "c·C, with C the site's own concordance, to 1/256", bits=_BITS, most="m"
    )
    doubts: float = quantity(
        "c·(c·h), with h = (½(m + n) + 1)/(m·n), n the mean partners of an event, and c·h up to "
        "1/32",
        bits=_BITS,
        most="m·(m + n + 2)/(2·n)",
    )


WITHIN_WORDS: Final[Mapping[str, str]] = {
    "sites": "Sites with enough patients with and without the event.",
    "events": "Their patients with the event, roughly.",
    "concordance": "Mean of the concordances within each site, weighted by events.",
    "concordance_low": "Lower end of its 95 % interval.",
    "concordance_high": "Upper end.",
}
"""As a model file has them."""

NOBODY: Final = TimeWithinSums(0.0, 0.0, 0.0, 0.0)
"""What a site with too few patients adds."""


def place_within(sums: TimeSums, least: float) -> TimeWithinSums:
    """Return what one site adds, from its table.

    Parameters
    ----------
    sums : TimeSums
        Of the site's own patients.
    least : float
        The site's smallest count, times the most that one patient counts.
    """
    m, others = float(sums.cases.sum()), float((sums.patients - sums.cases).sum())
    if min(m, others) < least:
        return NOBODY
    found = rank(sums)
    n = found.partners
    if n < least:
        return NOBODY
    events = least * math.floor(m / least * (1 + 1e-12))
    area = float(round_to(np.array([found.value]), AREA_STEP)[0])
    doubt = DOUBT_STEP * math.ceil(events * (0.5 * (m + n) + 1) / (m * n) / DOUBT_STEP)
    return TimeWithinSums(1.0, events, events * area, events * doubt)


@dataclass(frozen=True)
class TimeWithin:
    """How well patients of one and the same hospital are told apart.

    Parameters
    ----------
    sites : int
        Hospitals with enough patients with and without the event; at least two.
    events : float
        Their patients with the event, roughly.
    concordance, concordance_low, concordance_high : float
        The mean of their own concordances, weighted by events, and its 95 % interval.
    """

    sites: int
    events: float
    concordance: float
    concordance_low: float
    concordance_high: float

    def __post_init__(self) -> None:
        if self.sites < _FEWEST_SITES or not 0 < self.events < math.inf:
            raise ValueError("discrimination within hospitals is of two hospitals or more")
        if not 0 <= self.concordance_low <= self.concordance <= self.concordance_high <= 1:
            raise ValueError("the concordance within hospitals lies outside of its interval")

    def rounded(self, rounding: Rounding, unit: float) -> TimeWithin | None:
        """Return what may be published: three decimals; None of too few events."""
        if self.events < max(rounding.smallest, rounding.multiple) * unit:
            return None
        names = ("concordance", "concordance_low", "concordance_high")
        areas = {name: round(getattr(self, name), 3) for name in names}
        return replace(self, events=rounding.count(self.events, unit), **areas)


def measure_within(total: TimeWithinSums) -> TimeWithin | None:
    """Return discrimination within hospitals; None with fewer than two that have enough."""
    sites = round(total.sites)
    if sites < _FEWEST_SITES or total.events <= 0:
        return None
    found = min(max(total.placed / total.events, 0.0), 1.0)
    low, high = score_interval(found, total.doubts / total.events**2)
    return TimeWithin(sites, total.events, found, low, high)


def tell_within(found: Measures, within: TimeWithin) -> str:
    """Return discrimination within hospitals in a sentence, held against that over all."""
    own = (
        f"{within.concordance:.3f} ({within.concordance_low:.3f} to "
        f"{within.concordance_high:.3f}, 95 % interval)"
    )
    same = f"Between patients of one and the same hospital the concordance is {own}, in the mean "
    same += f"over {within.sites} hospitals."
    gap = found.concordance - within.concordance
    if found.concordance > within.concordance_high and gap > _CLEAR:
        return (
            f"{same} Part of the concordance of {found.concordance:.3f} tells hospitals apart, not "
            "patients: a doctor who compares patients of one hospital has "
            f"{within.concordance:.3f}."
        )
    if found.concordance < within.concordance_low and -gap > _CLEAR:
        return (
            f"{same} Over all patients it is {found.concordance:.3f} only: hospitals differ in "
            "ways that the model does not know."
        )
    return same
