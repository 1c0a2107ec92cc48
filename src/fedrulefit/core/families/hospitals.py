"""Measures of several hospitals, each with its interval: what they tell of hospitals like them.

In: a measure of each hospital, with its 95 % interval. Out: means, and prediction intervals for
a further hospital (:mod:`fedrulefit.core.heterogeneity`). A hospital's standard error is half of
its interval, over 1.96. Nothing leaves a site here.

Oracle: ``tests/unit/core/test_heterogeneity.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fedrulefit.core.families.judge import Column
from fedrulefit.core.heterogeneity import FEWEST, Across, combine
from fedrulefit.core.shares import Z95

Effect = tuple[float, float]
"""An estimate and its standard error."""

PLAIN: Final = "as it is"
"""The scale of a measure that is averaged untransformed."""

_WELL_KNOWN: Final = 10
"""Of fewer hospitals τ is told with a caution."""

SUMMARY_COLUMNS: Final = (
    Column("hospitals", "Hospitals"),
    Column("mean", "Mean over hospitals"),
    Column("low", "95 % interval of the mean", upto="high"),
    Column("new_low", "A further hospital (95 % prediction interval)", upto="new_high"),
    Column("tau", "Differences beyond chance, τ"),
)


def plain_effect(low: float, value: float, high: float) -> Effect | None:
    """Return a hospital's measure, and its standard error; None if unknown."""
    error = (high - low) / (2 * Z95)
    return (value, error) if np.isfinite([value, error]).all() and error > 0 else None


def changed_effect(
    change: Callable[[float], float], low: float, value: float, high: float
) -> Effect | None:
    """Return the effect on another scale, to which `change` takes finite numbers."""
    if not np.isfinite([low, value, high]).all():
        return None
    first, last = sorted((change(low), change(high)))
    return plain_effect(first, change(value), last)


def combine_effects(effects: Sequence[Effect | None]) -> Across:
    """Return the hospitals' estimates combined: those that are known."""
    known = np.array([effect for effect in effects if effect is not None]).reshape(-1, 2)
    return combine(known[:, 0], known[:, 1])


def change_across(found: Across, back: Callable[[float], float]) -> Across:
    """Return it on the measure's own scale, but for its τ; `back` may turn the order around."""
    low, high = sorted((back(found.low), back(found.high)))
    new_low, new_high = sorted((back(found.new_low), back(found.new_high)))
    return replace(
        found, mean=back(found.mean), low=low, high=high, new_low=new_low, new_high=new_high
    )


def tell_too_few(found: Across, measure: str) -> str:
    """Return why nothing is told of a further hospital; empty where it is."""
    if found.hospitals >= FEWEST:
        return ""
    return (
        f"What a further hospital may see is not told: that takes {FEWEST} hospitals of which "
        f"the {measure} and its interval are known, and here it is {found.hospitals}."
    )


def tell_tau(found: Across, measures: str, scale: str) -> str:
    """Return how much hospitals differ, in a sentence; empty where not known.

    Parameters
    ----------
    found : Across
        It counts the hospitals that τ rests on.
    measures, scale : str
        As in "the AUCs", and "on the logit scale".
    """
    if np.isnan(found.tau):
        return ""
    if found.tau < 0.005:
        return (
            f"Beyond chance, no difference between {measures} of {found.hospitals} sites is "
            "seen (Paule and Mandel's τ = 0); with few patients it cannot be excluded."
        )
    doubt = "; of so few sites τ is hardly known" if found.hospitals < _WELL_KNOWN else ""
    return (
        f"Beyond chance, {measures} of {found.hospitals} sites differ by a standard deviation of "
        f"τ = {found.tau:.2f} {scale} (Paule and Mandel){doubt}."
    )
