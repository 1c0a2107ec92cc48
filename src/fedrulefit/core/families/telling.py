"""Sentences that judges of several kinds of outcome share.

In: measures and their intervals. Out: words for people, with their minus signs. Explained shares
of several hospitals are averaged as log(1 − share), which has no end above.

Oracle: ``tests/unit/core/test_number_judge.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from fedrulefit.core.families.hospitals import change_across, changed_effect, combine_effects
from fedrulefit.core.families.intervals import Estimate
from fedrulefit.core.heterogeneity import Across
from fedrulefit.numerals import write_minus

_FAR: Final = 700.0
"""exp() still holds it."""


def tell_known(value: float, digits: int) -> str:
    """Return a number with so many decimals, or that it is not known."""
    return "not known" if math.isnan(value) else write_minus(f"{value:.{digits}f}")


def tell_interval(low: float, value: float, high: float, digits: int) -> str:
    """Return a number, with its interval where that is known."""
    if math.isnan(low):
        return tell_known(value, digits)
    return write_minus(f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})")


def join_names(names: Sequence[str]) -> str:
    """Return names as a list in words: a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def tell_gaps(found: Mapping[str, Sequence[str]]) -> str:
    """Return which measures of whom are not known, from what is not known of each."""
    gaps: dict[str, list[str]] = {}
    for name, own in found.items():
        for gap in own:
            gaps.setdefault(gap, []).append(name)
    return " ".join(f"Not told of {join_names(names)}: {gap}." for gap, names in gaps.items())


def combine_explained(shares: Sequence[Estimate]) -> tuple[Across, Across]:
    """Return explained shares over hospitals: on the scale log(1 − share), and as they are.

    Parameters
    ----------
    shares : sequence of (low, value, high)
        A hospital of which the share is 1, or has no interval, is left out.
    """

    def change(share: float) -> float:
        return math.log(1 - share) if share < 1 else math.nan

    found = combine_effects([changed_effect(change, *ends) for ends in shares])
    return found, change_across(found, lambda log: 1 - math.exp(min(log, _FAR)))


def tell_explained(found: Across, name: str) -> str:
    """Return an explained share over hospitals, in a sentence without its end."""
    return write_minus(
        f"Over {found.hospitals} hospitals {name} is {found.mean:.3f} in the mean "
        f"({found.low:.3f} to {found.high:.3f}, 95 % interval). A further hospital like them may "
        f"see one from {found.new_low:.3f} to {found.new_high:.3f} (95 % prediction interval)"
    )
