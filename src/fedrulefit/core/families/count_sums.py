r"""What a site adds up of predicted counts: deviances, their products, and a coarse histogram.

In: predicted rates, counts and exposures. Out: :class:`CountSums`, which add up over sites;
:mod:`fedrulefit.core.families.count_measures` reads the usual measures off them. Leaves the site:
the sums; no prediction of a patient.

Everything but counts of patients and events is relative to the public largest count and exposure:
u is the count, e the exposure, r the predicted rate, :math:`m = e·r` the expected count. A rate
counts as at least 1/4096 and at most 4 largest counts per largest exposure (:data:`RATES`). Of each
patient there are five numbers:

==========  ==================================================================
d           Poisson deviance, :math:`2(u \log(u/m) - u + m)`, m at least 2⁻¹⁶
h           :math:`u \log(u/e)`: with it the deviance from any common rate is known
u, e, m     count, exposure, expected count
==========  ==================================================================

Where the dispersion α of negative binomial counts was learnt, there are three more
(:mod:`fedrulefit.core.families.count_spread`).

Their sums make the explained share of deviance, sums of their products its interval. Beside them
patients are counted by predicted rate, in public bins that grow by a quarter (:data:`EDGES`), with
events, exposure, expected events and Pearson's :math:`(y - μ)^2/μ`, in events, at most 1024 each.

All are sums of what depends on one patient and on public facts alone: any split of the same
patients into sites gives the same totals, to the last bit.

Oracle: scikit-learn and statsmodels on the patients themselves
(``tests/properties/test_count_measures.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from scipy.special import xlogy

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.grouping import merge_bins
from fedrulefit.core.fixed import UNIT_BITS
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import Sum, quantity

STEP: Final = 2.0**-20
"""What a patient adds is a multiple of this, but for counts and Pearson's squares."""

RATES: Final = (2.0**-12, 4.0)
"""Lower and higher rates count as these, relative to the largest count per largest exposure."""

LEAST_EXPECTED: Final = 2.0**-16
"""In a deviance or Pearson's square, fewer expected events count as this share of the largest."""

MOST_PEARSON: Final = 1024.0
"""A larger square counts as this."""

PEARSON_STEP: Final = 1 / 1024

EDGES: Final[Floats] = round_to(np.exp2(np.arange(-35, 6) / 3), 2.0**-30)
"""Between the bins of the predicted rate: bin b holds EDGES[b − 1] ≤ r < EDGES[b]."""

N_BINS: Final = len(EDGES) + 1
PARTS: Final = ("d", "h", "u", "e", "m")
"""The numbers of a patient."""

PAIRS: Final = tuple((i, j) for i in range(len(PARTS)) for j in range(i, len(PARTS)))

PER_BIN: Final = ("people", "people_with", "events", "exposures", "expected", "pearson")
"""What is added up in each bin."""

_COUNT_BITS: Final = 16


@dataclass(frozen=True, eq=False)
class CountSums(Sum):
    """Sums over patients, of one site or of all.

    Parameters
    ----------
    people, people_with : (n_bins,) float64
        Weights of patients per bin of the predicted rate, and of those with an event.
    events, exposures, expected, pearson : (n_bins,) float64
        There: events, and relative exposures, expected events and Pearson's squares.
    losses : (2,) float64
        Summed d and h.
    products : (15,) float64
        Summed products of two of d, h, u, e, m: :data:`PAIRS`.
    misses : float
        Summed |u − m|.
    spread_losses, spread, gains : (n_θ,) float64
        Summed negative binomial deviances, squares over the negative binomial variance, and
        what the log-likelihood is above Poisson's; one of each, or none without an α.
    edges : (n_bins - 1,) float64
        Between the bins: :data:`EDGES`, or some of them where bins were merged.
    """

    people: Floats = quantity("Σ w per public bin of the predicted rate", shape=f"{N_BINS}")
    people_with: Floats = quantity("Σ w there of patients with an event", shape=f"{N_BINS}")
    events: Floats = quantity(
        "Σ w·y there, y the count", shape=f"{N_BINS}", bits=_COUNT_BITS, most="w·largest count"
    )
    exposures: Floats = quantity(
        "Σ w·e there, e the exposure as a share of the largest, to 2⁻²⁰", shape=f"{N_BINS}"
    )
    expected: Floats = quantity(
        "Σ w·m there, m the expected count as a share of the largest, to 2⁻²⁰",
        shape=f"{N_BINS}",
        most="4·w",
    )
    pearson: Floats = quantity(
        "Σ w·(y − μ)²/μ there, μ the expected count, each to 1/1024 and at most 1024",
        shape=f"{N_BINS}",
        bits=UNIT_BITS - 10,
        most="1024·w",
    )
    losses: Floats = quantity(
        "Σ w·d, d the deviance as a share of the largest count, and Σ w·u·log(u/e), "
        "u the count as a share of the largest, each to 2⁻²⁰",
        shape="2",
        most="24·w",
    )
    products: Floats = quantity(
        "Σ w times products of two of d, u·log(u/e), u, e, m, each to 2⁻²⁰",
        shape=f"{len(PAIRS)}",
        bits=UNIT_BITS - 2,
        most="576·w",
    )
    misses: float = quantity("Σ w·|u − m|, each to 2⁻²⁰", most="4·w")
    spread_losses: Floats = quantity(
        "Σ w·(negative binomial deviance), as a share of the largest count, to 2⁻²⁰",
        shape="n_θ",
        most="24·w",
        maybe=True,
    )
    spread: Floats = quantity(
        "Σ w·(y − μ)²/(μ + αμ²), each to 1/1024 and at most 1024",
        shape="n_θ",
        bits=UNIT_BITS - 10,
        most="1024·w",
        maybe=True,
    )
    gains: Floats = quantity(
        "Σ w·(negative binomial log-likelihood above Poisson's), as a share of the largest count, "
        "to 2⁻²⁰",
        shape="n_θ",
        most="64·w",
        maybe=True,
    )
    edges: Floats = field(default_factory=lambda: EDGES)

    @property
    def total(self) -> float:
        """Weight of all patients."""
        return float(self.people.sum())

    @property
    def ends(self) -> Floats:
        """Where bins begin and end, shape (n_bins + 1,); the last holds what is beyond."""
        return np.concatenate([[0.0], self.edges, [RATES[1]]])


def count_events(
    rate: Floats, count: Floats, exposure: Floats, weights: Floats, most: float
) -> CountSums:
    """Return the sums of some patients; all of shape (n_rows,).

    Parameters
    ----------
    rate : (n_rows,) float64
        Predicted events per largest exposure, as a share of `most`.
    count : (n_rows,) float64
        Events.
    exposure : (n_rows,) float64
        As a share of the largest.
    weights : (n_rows,) float64
    most : float
        The public largest count.
    """
    rate = np.clip(rate, *RATES)
    u, e = count / most, np.clip(exposure, STEP, 1.0)
    m = np.maximum(rate * e, LEAST_EXPECTED)
    deviance = 2 * (xlogy(u, u / m) - u + m)
    parts = np.stack([deviance, xlogy(u, u / e), u, e, rate * e])
    squares = np.minimum(most * (u - m) ** 2 / m, MOST_PEARSON)
    bins = np.searchsorted(EDGES, rate, side="right")

    def per_bin(part: Floats) -> Floats:
        return np.bincount(bins, weights * part, N_BINS).astype(np.float64)

    return CountSums(
        people=per_bin(np.ones_like(u)),
        people_with=per_bin((count > 0).astype(np.float64)),
        events=per_bin(np.rint(count)),
        exposures=per_bin(round_to(e, STEP)),
        expected=per_bin(round_to(rate * e, STEP)),
        pearson=per_bin(round_to(squares, PEARSON_STEP)),
        losses=round_to(parts[:2], STEP) @ weights,
        products=np.array([weights @ round_to(parts[i] * parts[j], STEP) for i, j in PAIRS]),
        misses=float(weights @ round_to(np.abs(u - rate * e), STEP)),
    )


def add_counts(parts: Sequence[CountSums]) -> CountSums:
    """Add up over sites."""
    names = CountSums.quantities()
    return CountSums(**{name: sum(getattr(part, name) for part in parts) for name in names})


def coarsen(sums: CountSums, least: float, *, each: bool = False) -> CountSums | None:
    """Merge neighbouring bins until each holds a weight of at least `least`.

    With `each`, patients with an event must reach it, too. None where all together are too few.
    """
    parts = [sums.people, sums.people_with] if each else [sums.people]
    starts = merge_bins(np.stack(parts), least)
    if starts is None:
        return None
    merged: dict[str, Any] = {
        name: np.add.reduceat(getattr(sums, name), starts) for name in PER_BIN
    }
    return replace(sums, **merged, edges=sums.edges[starts[1:] - 1])
