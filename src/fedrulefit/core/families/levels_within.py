r"""How well probabilities of several levels tell patients of one and the same hospital apart.

In: each hospital's own sums. Out: the mean over hospitals of the mean area under the ROC curve
within each, and its interval. It is made as for a yes/no outcome, and as coarse: what the sums can
tell stands in :mod:`fedrulefit.core.families.yesno_within`.

A hospital takes part if either side of every split has enough patients; m is the smallest of
these sides, and the hospital's weight. The variance of the mean of K areas is at most

.. math:: A(1 - A)\,g(A)\,h,\quad h = \Big(\tfrac1K\sum_k \sqrt{h_k}\Big)^2,\quad
   h_k = (\tfrac{m_k + n_k}{2} + 1)/(m_k n_k)

for areas that are alike, since a mean's standard error is at most the mean of the standard errors.

Leaves the site: four numbers (:class:`LevelsWithinSums`), summed over sites.

Oracle: all pairs of patients of one hospital (``tests/unit/core/test_levels_scores.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.families.levels_measures import LevelsMeasures, find_areas
from fedrulefit.core.families.levels_sums import LevelsSums
from fedrulefit.core.families.yesno_within import AREA_STEP, DOUBT_STEP, Within, WithinSums
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import quantity

_BITS = 16
_CLEAR = 0.01
"""A smaller difference of two areas is not worth a sentence."""


@dataclass(frozen=True, eq=False)
class LevelsWithinSums(WithinSums):
    """Sums over sites that have enough patients on either side of every split.

    Parameters
    ----------
    sites : float
        How many they are.
    cases : float
        Σ c: their patients on the smallest side, each site's down to a multiple of its smallest
        count.
    placed : float
        Σ c·A: times the site's own mean area under the ROC curve.
    doubts : float
        Σ c²·h: what the interval rests on.
    """

    sites: float = quantity(
        "1 where a site has enough patients on either side of every split, else all four are 0",
        bits=_BITS,
        most="1 per site",
    )
    cases: float = quantity(
        "the site's patients m on the smallest side of any split, down to a multiple c of its "
        "smallest count",
        bits=_BITS,
        most="m per site",
    )
    placed: float = quantity(
        "c·A, with A the site's own mean area under the ROC curve, to 1/256", bits=_BITS, most="m"
    )
    doubts: float = quantity(
        "c·(c·h), with √h the mean over splits of √{(½n + 1)/(m_k·(n − m_k))}, n all patients, and "
        "c·h up to 1/32",
        bits=_BITS,
        most="m·(n + 2)/(2·(n − m))",
    )


def place_levels(sums: LevelsSums, least: float) -> LevelsWithinSums:
    """Return what one site adds, from the sums of its own patients.

    Parameters
    ----------
    sums : LevelsSums
    least : float
        The site's smallest count, times the most that one patient counts.
    """
    m, n = np.array([[split.n_cases, split.n_others] for split in sums.splits]).T
    fewest = float(min(m.min(), n.min()))
    if fewest < least:
        return LevelsWithinSums(0.0, 0.0, 0.0, 0.0)
    cases = least * math.floor(fewest / least * (1 + 1e-12))
    area = float(round_to(find_areas(sums)[:, 0].mean(keepdims=True), AREA_STEP)[0])
    spread = float(np.sqrt((0.5 * (m + n) + 1) / (m * n)).mean() ** 2)
    doubt = DOUBT_STEP * math.ceil(cases * spread / DOUBT_STEP)
    return LevelsWithinSums(1.0, cases, cases * area, cases * doubt)


def tell_within(found: LevelsMeasures, within: Within) -> str:
    """Return discrimination within hospitals in a sentence, held against that over all."""
    own = f"{within.auc:.3f} ({within.auc_low:.3f} to {within.auc_high:.3f}, 95 % interval)"
    same = f"Between patients of one and the same hospital the AUC is {own}, in the mean over "
    same += f"levels and over {within.sites} hospitals."
    if found.auc > within.auc_high and found.auc - within.auc > _CLEAR:
        return f"{same} Part of the AUC of {found.auc:.3f} tells hospitals apart, not patients."
    if found.auc < within.auc_low and within.auc - found.auc > _CLEAR:
        return (
            f"{same} Over all patients it is {found.auc:.3f} only: hospitals differ in ways that "
            "the model does not know."
        )
    return same
