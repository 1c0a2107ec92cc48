r"""Predicted times to an event at several hospitals: what they tell of hospitals like them.

In: the measures of each hospital. Out: for the concordance, the calibration slope and the ratio
of observed to predicted risk a mean over hospitals, and a prediction interval for a further
one (:mod:`fedrulefit.core.heterogeneity`). Concordances are averaged on the logit scale, ratios as
logarithms.

A hospital's standard error is half of its 95 % interval on that scale, over 1.96. Hospitals whose
interval is not known, or whose concordance is 1, are not in the summary; their number is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import expit

from fedrulefit.core.families.areas import logit_effect
from fedrulefit.core.families.judge import Summary
from fedrulefit.core.families.time_measures import Measures
from fedrulefit.core.heterogeneity import FEWEST, Across, combine
from fedrulefit.core.shares import Z95

Effect = tuple[float, float]
"""An estimate and its standard error."""

_WELL_KNOWN: Final = 10
"""Of fewer hospitals τ is told with a caution."""


def concordance_effect(found: Measures) -> Effect | None:
    """Return the logit of a hospital's concordance, and its standard error; None if unknown."""
    return logit_effect(found.concordance_low, found.concordance, found.concordance_high)


def ratio_effect(found: Measures) -> Effect | None:
    """Return the logarithm of observed by predicted, and its standard error; None if unknown."""
    low, value, high = found.ratio_low, found.ratio, found.ratio_high
    if not 0 < low <= value <= high:
        return None
    return _known(math.log(value), (math.log(high) - math.log(low)) / (2 * Z95))


def slope_effect(found: Measures) -> Effect | None:
    """Return a hospital's calibration slope, and its standard error; None if unknown."""
    return _known(found.slope, (found.slope_high - found.slope_low) / (2 * Z95))


def _known(value: float, error: float) -> Effect | None:
    return (value, error) if np.isfinite([value, error]).all() and error > 0 else None


def combine_concordances(sites: Sequence[Measures]) -> Across:
    """Return the hospitals' concordances combined, on the logit scale."""
    return _combine([concordance_effect(found) for found in sites])


def _combine(effects: Sequence[Effect | None]) -> Across:
    known = np.array([effect for effect in effects if effect is not None]).reshape(-1, 2)
    return combine(known[:, 0], known[:, 1])


def _scale(across: Across, back: Callable[[float], float]) -> Across:
    """Return all but τ on the measure's own scale."""
    return replace(
        across,
        mean=float(back(across.mean)),
        low=float(back(across.low)),
        high=float(back(across.high)),
        new_low=float(back(across.new_low)),
        new_high=float(back(across.new_high)),
    )


def summarise(sites: Sequence[Measures]) -> list[Summary]:
    """Return what hospitals tell of hospitals like them, by measure."""
    ranked = _scale(combine_concordances(sites), expit)
    slopes = _combine([slope_effect(found) for found in sites])
    ratios = _scale(_combine([ratio_effect(found) for found in sites]), np.exp)
    return [
        Summary("concordance", "Concordance", ranked, "logit", math.nan),
        Summary("slope", "Calibration slope (1 is right)", slopes, "as it is", 1.0),
        Summary("ratio", "Observed by predicted risk (1 is right)", ratios, "logarithm", 1.0),
    ]


def tell_summary(sites: Sequence[Measures]) -> str:
    """Return what a further hospital may see, in a sentence or two."""
    ranked, _, ratios = (summary.across for summary in summarise(sites))
    if ranked.hospitals < FEWEST:
        return (
            f"What a further hospital may see is not told: that takes {FEWEST} hospitals of which "
            f"the concordance and its interval are known, and here it is {ranked.hospitals}."
        )
    words = (
        f"Over {ranked.hospitals} hospitals the concordance is {ranked.mean:.3f} in the mean "
        f"({ranked.low:.3f} to {ranked.high:.3f}, 95 % interval). A further hospital like them may "
        f"see one from {ranked.new_low:.3f} to {ranked.new_high:.3f} (95 % prediction interval)"
    )
    if ratios.hospitals < FEWEST:
        return f"{words}."
    return (
        f"{words}, and {ratios.new_low:.2f} to {ratios.new_high:.2f} times the risk that is "
        "predicted."
    )


def tell_heterogeneity(sites: Sequence[Measures]) -> str:
    """Return how much the hospitals' concordances differ; empty where that is not known."""
    found = combine_concordances(sites)
    if np.isnan(found.tau):
        return ""
    if found.tau < 0.005:
        return (
            f"Beyond chance, no difference between the concordances of {found.hospitals} sites is "
            "seen (Paule and Mandel's τ = 0); with few patients it cannot be excluded."
        )
    doubt = "; of so few sites τ is hardly known" if found.hospitals < _WELL_KNOWN else ""
    return (
        f"Beyond chance, the concordances of {found.hospitals} sites differ by a standard "
        f"deviation of τ = {found.tau:.2f} on the logit scale (Paule and Mandel){doubt}."
    )
