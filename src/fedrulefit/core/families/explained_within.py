r"""How much a model explains between patients of one and the same hospital.

In: the share that it explains within each hospital, the hospital's own level aside. Out: the mean
over hospitals, :math:`\sum_s c_s E_s / \sum_s c_s`, and its interval. The share over all patients
counts what tells hospitals apart, too: a model that only knows the hospital explains much where
hospitals differ, and helps nobody to tell two patients of a ward apart.

Leaves the site: four numbers (:class:`ExplainedSums`), summed over sites. Unlike other sums they
depend on who is at which hospital. So a site's patients count in whole multiples of its smallest
count, and its share and its doubt in coarse public steps; a site with fewer patients adds nothing.
What such sums can tell: :mod:`fedrulefit.core.families.yesno_within`.

Oracle: the hospitals' own patients (``tests/unit/core/test_explained_within.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.families.intervals import FEWEST, spread_of_logs
from fedrulefit.core.rounding import Rounding, round_to
from fedrulefit.core.shares import Z95
from fedrulefit.core.sums import Sum, quantity

SHARE_STEP: Final = 1 / 256
"""A site's own share is told to multiples of this, and as −1 where it is lower."""

DOUBT_STEP: Final = 1 / 32
"""c·v of a site is rounded up to multiples of this, and is at most 64."""

_MOST_DOUBT: Final = 64.0
_BITS: Final = 16
_FEWEST_SITES: Final = 2
_CLEAR: Final = 0.02
"""A smaller difference of two shares is not worth a sentence."""


@dataclass(frozen=True, eq=False)
class ExplainedSums(Sum):
    """Sums over sites that have enough patients, whose outcomes differ.

    Parameters
    ----------
    sites : float
        How many they are.
    patients : float
        Σ c: their patients, each site's down to a multiple of its smallest count.
    placed : float
        Σ c·E: times the share that is explained within the site.
    doubts : float
        Σ c²·v: what the interval rests on.
    """

    sites: float = quantity(
        "1 where a site has enough patients, else all four are 0", bits=_BITS, most="1 per site"
    )
    patients: float = quantity(
        "the site's Σ w = n, down to a multiple c of its smallest count",
        bits=_BITS,
        most="n per site",
    )
    placed: float = quantity(
        "c·E, with E the share explained within the site, to 1/256, at least −1",
        bits=_BITS,
        most="n",
    )
    doubts: float = quantity(
        "c·(c·v), with v the variance of E, and c·v up to 1/32, at most 64", bits=_BITS, most="64·n"
    )


NOBODY: Final = ExplainedSums(0.0, 0.0, 0.0, 0.0)
"""What a site with too few patients adds."""


def place_explained(
    left: float, whole: float, influence: float, patients: float, least: float
) -> ExplainedSums:
    """Return what one site adds.

    Parameters
    ----------
    left, whole, influence : float
        As of :func:`~fedrulefit.core.families.intervals.estimate_explained`, the site's own level
        aside.
    patients : float
    least : float
        The site's smallest count, times the most that one patient counts.
    """
    if patients < max(least, FEWEST) or not whole > 0:
        return NOBODY
    counted = least * math.floor(patients / least * (1 + 1e-12))
    ratio = left / whole
    share = float(round_to(np.array([max(1 - ratio, -1.0)]), SHARE_STEP)[0])
    doubt = min(counted * (ratio * spread_of_logs(influence, patients)) ** 2, _MOST_DOUBT)
    doubt = DOUBT_STEP * math.ceil(doubt / DOUBT_STEP)
    return ExplainedSums(1.0, counted, counted * share, counted * doubt)


@dataclass(frozen=True)
class Within:
    """How much is explained between patients of one and the same hospital.

    Parameters
    ----------
    sites : int
        Hospitals with enough patients; at least two.
    patients : float
        Theirs, roughly.
    explained, explained_low, explained_high : float
        The mean of the shares within each, weighted by patients, and its 95 % interval.
    """

    sites: int
    patients: float
    explained: float
    explained_low: float
    explained_high: float

    def __post_init__(self) -> None:
        if self.sites < _FEWEST_SITES or not 0 < self.patients < math.inf:
            raise ValueError("what is explained within hospitals is of two hospitals or more")
        if not self.explained_low <= self.explained <= self.explained_high <= 1:
            raise ValueError("the share within hospitals lies outside of its interval")

    def rounded(self, rounding: Rounding, unit: float) -> Within | None:
        """Return what may be published: three decimals; None of too few patients."""
        if self.patients < max(rounding.smallest, rounding.multiple) * unit:
            return None
        names = ("explained", "explained_low", "explained_high")
        shares = {name: round(getattr(self, name), 3) for name in names}
        return replace(self, patients=rounding.count(self.patients, unit), **shares)


WITHIN_WORDS: Final[Mapping[str, str]] = {
    "sites": "Sites with enough patients.",
    "patients": "Their patients, roughly.",
    "explained": "Mean of the shares explained within each site, weighted by patients.",
    "explained_low": "Lower end of its 95 % interval.",
    "explained_high": "Upper end.",
}
"""As a model file has them."""


def measure_within(total: ExplainedSums) -> Within | None:
    """Return what is explained within hospitals; None with fewer than two that have enough."""
    sites = round(total.sites)
    if sites < _FEWEST_SITES or total.patients <= 0:
        return None
    share = min(total.placed / total.patients, 1.0)
    reach = Z95 * math.sqrt(max(total.doubts, 0.0)) / total.patients
    return Within(sites, total.patients, share, share - reach, min(share + reach, 1.0))


def tell_within(whole: float, within: Within, name: str) -> str:
    """Return the share within hospitals in a sentence, held against that over all.

    Parameters
    ----------
    whole : float
        Over all patients.
    within : Within
    name : str
        Of the share: ``R²``.
    """
    own = f"{within.explained:.3f} ({within.explained_low:.3f} to {within.explained_high:.3f}, "
    same = f"Between patients of one and the same hospital {name} is {own}95 % interval), in the "
    same = f"{same}mean over {within.sites} hospitals.".replace("-", "−")
    if whole > within.explained_high and whole - within.explained > _CLEAR:
        return (
            f"{same} Part of the {name} of {whole:.3f} tells hospitals apart, not patients: a "
            f"doctor who compares patients of one hospital has {within.explained:.3f}."
        )
    if whole < within.explained_low and within.explained - whole > _CLEAR:
        return (
            f"{same} Over all patients it is {whole:.3f} only: hospitals differ in ways that "
            "the model does not know."
        )
    return same
