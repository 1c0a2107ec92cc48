r"""Yes/no predictions at several hospitals: what they tell of hospitals like them.

In: the measures of each hospital. Out: for the area under the ROC curve, the calibration's
slope and the calibration in the large a mean over hospitals, and a prediction interval for a
further one (:mod:`fedrulefit.core.heterogeneity`). Areas are averaged on the logit scale.

A hospital's standard error is half of its 95 % interval, over 1.96. Hospitals whose interval
is not known, or whose area is 1, are not in the summary; their number is told.

Oracle: simulated coverage (``tests/statistics/test_hospitals.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import expit

from fedrulefit.core.families.areas import logit_effect
from fedrulefit.core.families.hospitals import (
    PLAIN,
    Effect,
    change_across,
    combine_effects,
    plain_effect,
    tell_tau,
    tell_too_few,
)
from fedrulefit.core.families.judge import Summary
from fedrulefit.core.families.yesno_measures import Measures
from fedrulefit.core.heterogeneity import FEWEST, Across


def area_effect(found: Measures) -> Effect | None:
    """Return the logit of a hospital's AUC, and its standard error; None if unknown."""
    return logit_effect(found.auc_low, found.auc, found.auc_high)


def slope_effect(found: Measures) -> Effect | None:
    """Return a hospital's calibration slope, and its standard error; None if unknown."""
    return plain_effect(found.slope_low, found.slope, found.slope_high)


def large_effect(found: Measures) -> Effect | None:
    """Return a hospital's calibration in the large, and its standard error; None if unknown."""
    return plain_effect(found.intercept_low, found.intercept, found.intercept_high)


def combine_areas(sites: Sequence[Measures]) -> Across:
    """Return the hospitals' AUCs combined, on the logit scale."""
    return combine_effects([area_effect(found) for found in sites])


def summarise(sites: Sequence[Measures]) -> list[Summary]:
    """Return what hospitals tell of hospitals like them, by measure."""
    areas = combine_areas(sites)
    told = change_across(areas, lambda odds: float(expit(odds)))
    slopes, large = (
        combine_effects([effect(found) for found in sites])
        for effect in (slope_effect, large_effect)
    )
    return [
        Summary("auc", "AUC", told, "logit", math.nan),
        Summary("slope", "Calibration slope (1 is right)", slopes, PLAIN, 1.0),
        Summary("intercept", "Calibration in the large (0 is right)", large, PLAIN, 0.0),
    ]


def tell_summary(sites: Sequence[Measures]) -> str:
    """Return what a further hospital may see, in a sentence or two."""
    areas, slopes, _ = (summary.across for summary in summarise(sites))
    if few := tell_too_few(areas, "AUC"):
        return few
    words = (
        f"Over {areas.hospitals} hospitals the AUC is {areas.mean:.3f} in the mean "
        f"({areas.low:.3f} to {areas.high:.3f}, 95 % interval). A further hospital like them may "
        f"see one from {areas.new_low:.3f} to {areas.new_high:.3f} (95 % prediction interval)"
    )
    if slopes.hospitals < FEWEST:
        return f"{words}."
    return (
        f"{words}, and a calibration slope from {_number(slopes.new_low)} to "
        f"{_number(slopes.new_high)}."
    )


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def tell_heterogeneity(sites: Sequence[Measures]) -> str:
    """Return how much the hospitals' AUCs differ, in a sentence; empty where not known.

    It counts the hospitals that τ rests on.
    """
    return tell_tau(combine_areas(sites), "the AUCs", "on the logit scale")
