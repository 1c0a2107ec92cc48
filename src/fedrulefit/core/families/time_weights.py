r"""What a patient weighs in a Brier score: one over the chance to be under observation still.

In: the table of all patients by interval
(:class:`~fedrulefit.core.families.time_sums.Counts`). Out: :class:`Weights`, of an event in each
interval and of everybody at risk after each public time, with the least and the most that they can
be.

Where all are followed from the start, n patients, the chance is :math:`G(t)`, Kaplan and Meier's
curve of the losses, and the weights are :math:`1/(nG)` (IPCW, Graf 1999). That is
:math:`S(t)/R(t)`, with S the curve of the events and R those at risk; and
:math:`S(T^-)/R(T^-)` for an event at T, by which S falls there. In this form nobody needs to know
who would have been lost, or who has not come: it holds with late entry, too, as long as when
patients come and go tells nothing of their risk. The weights of all add up to 1.

With late entry S is the curve of those at risk, and an event in interval k weighs
:math:`(S_{k-1} - S_k)/D_k`. Bounds: at each event at least those were at risk who were so all
through its interval, and at most all who were so in any part of it.

Oracle: scikit-survival without late entry (``tests/properties/test_time_horizons.py``), the same
formula patient by patient with it, and patients who are all known from the start (ibid.).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.survival import bound_survival, estimate_survival
from fedrulefit.core.families.time_sums import Counts

LATE: Final = 1e-6
"""More than this weight that came late is late entry: sums are in fixed point."""


@dataclass(frozen=True, eq=False)
class Weight:
    """Of the events in each interval, (T,), and of those at risk after each time, (T + 1,)."""

    events: Floats
    others: Floats


@dataclass(frozen=True, eq=False)
class Weights:
    """What patients weigh, likely, at least and at most."""

    likely: Weight
    least: Weight
    most: Weight


def weigh(table: Counts) -> Weights | None:
    """Return what patients weigh; None where nobody is followed to the end, or not without a gap.

    Parameters
    ----------
    table : Counts
        Of all bins.
    """
    pool, n = table.pooled(), float(table.patients.sum())
    if n <= 0 or float(pool.started[0, -1]) <= 0:
        return None
    return _weigh_late(pool) if float(pool.entered.sum()) > LATE else _weigh(pool, n)


def _weigh(pool: Counts, n: float) -> Weights:
    """Return the weights where all are followed from the start."""
    kept = estimate_survival(pool.left, pool.through, pool.events / 2).survival[0]
    low, high = (part[0] for part in bound_survival(pool.left, pool.through, pool.events))
    return Weights(
        Weight(1 / (n * np.sqrt(kept[:-1] * kept[1:])), 1 / (n * kept)),
        Weight(1 / (n * high[:-1]), 1 / (n * high)),
        Weight(1 / (n * low[1:]), 1 / (n * low)),
    )


def _weigh_late(pool: Counts) -> Weights | None:
    """Return them where some came late; None where for a time nobody was at risk throughout."""
    alive = estimate_survival(pool.events, pool.through, pool.partial).survival[0]
    events, through, started = pool.events[0], pool.through[0], pool.started[0]
    if np.isnan(alive).any() or not (through > 0).all():
        return None
    most = through + events + pool.left[0] + np.maximum(pool.entered[0], 0.0)
    # Events of weights that add up to D, each among n or more: S falls to exp(−D/n) at least.
    worst, best = (np.exp(-events / np.maximum(n, LATE)) for n in (through, most))
    low, high = (np.append(1.0, np.cumprod(factor)) for factor in (worst, best))
    falls = np.divide(-np.diff(alive), events, out=np.zeros_like(events), where=events > 0)
    likely, least, other = (
        np.divide(curve, started, out=np.zeros_like(started), where=started > 0)
        for curve in (alive, low, high)
    )
    return Weights(
        Weight(falls, likely),
        Weight(low[1:] / np.maximum(most, LATE), least),
        Weight(high[:-1] / np.maximum(through, LATE), other),
    )
