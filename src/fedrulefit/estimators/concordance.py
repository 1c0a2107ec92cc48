"""Harrell's C: how often the patient with the earlier event is the one of higher risk.

Oracle: a loop over pairs (``tests/unit/estimators/test_survival.py``).
"""

from __future__ import annotations

import numpy as np

from fedrulefit.core.arrays import Bools, Floats

ALIKE = 1e-8
"""Risk scores that differ by less are tied, as in scikit-survival."""


def concordance(event: Bools, time: Floats, risk: Floats) -> float:
    """Return the share of comparable pairs in which the earlier event has the higher risk.

    A pair is comparable where one has the event, and the other is known to be without it by
    then: followed longer, or as long without an event. Tied risks count half.

    Parameters
    ----------
    event : (n_rows,) bool
    time : (n_rows,) float64
    risk : (n_rows,) float64

    Raises
    ------
    ValueError
        If no pair is comparable.
    """
    order = np.lexsort((~event, time))  # at the same time, events first
    event, time, risk = event[order], time[order], risk[order]
    first, place = np.unique(time, return_index=True, return_inverse=True)[1:]
    # Comparable with an event: those of its time without one, and all later.
    start = (first + np.bincount(place, event).astype(np.intp))[place]
    pairs = concordant = 0.0
    for i in np.flatnonzero(event):
        later = risk[start[i] :]
        tied = np.abs(later - risk[i]) <= ALIKE
        concordant += ((later < risk[i]) & ~tied).sum() + tied.sum() / 2
        pairs += len(later)
    if not pairs:
        raise ValueError("no two patients can be compared: no event, or nobody followed beyond it")
    return float(concordant / pairs)
