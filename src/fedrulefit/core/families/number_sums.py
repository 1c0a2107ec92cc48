r"""What a site adds up of predicted numbers: moments, and coarse histograms.

In: predictions and outcomes, in half ranges from the middle of the public range: t the outcome,
p the prediction. Out: :class:`NumberSums`, which add up over sites;
:mod:`fedrulefit.core.families.number_measures` reads the usual measures off them. Leaves the
site: the sums; no prediction of a patient.

Both count to 1/1024 of the half range (:data:`STEP`), a prediction as at most 2 half ranges from
the middle: half the range beyond its ends. Of these rounded numbers the measures are exact. All
moments of t and p up to the fourth order leave: the second make R² and the calibration, the
fourth their intervals, whatever the distribution.

Beside them patients are counted twice, in public bins: by the prediction (:data:`EDGES`), with
coarse sums of the outcomes there, for the calibration curve; and by how far the prediction is off
(:data:`ERROR_EDGES`), for the prediction interval. A patient who is alone in a bin adds its
outcome to 1/64 of the half range there (:data:`COARSE_STEP`).

All are sums of what depends on one patient and on public facts alone: any split of the same
patients into sites gives the same totals, to the last bit.

Oracle: scikit-learn and statsmodels on the patients themselves
(``tests/properties/test_number_measures.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.grouping import merge_bins
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import Sum, quantity

STEP: Final = 1 / 1024
"""Outcomes and predictions are rounded to multiples of this, in half ranges."""

COARSE_STEP: Final = 1 / 64
"""The same in the sums of single bins."""

MOMENT_STEP: Final = 2.0**-20
"""What a patient adds to a moment is a multiple of this."""

FARTHEST: Final = 2.0
"""A prediction farther from the middle counts as this far, in half ranges."""

POWERS: Final = tuple((i, d - i) for d in range(1, 5) for i in range(d, -1, -1))
"""The moments, as powers of t and of p."""

EDGES: Final[Floats] = np.arange(-15, 16) / 16
"""Between the bins of the prediction, in half ranges: bin b holds EDGES[b − 1] ≤ p < EDGES[b]."""

ERROR_EDGES: Final[Floats] = np.concatenate(
    [np.arange(1, 13) / 256, round_to(np.geomspace(12 / 256, 2, 52)[1:], 2.0**-14)]
)
"""Between the bins of |t − p|: even steps at first, then each edge 8 % above the one before."""

N_BINS: Final = len(EDGES) + 1
N_ERRORS: Final = len(ERROR_EDGES) + 1


@dataclass(frozen=True, eq=False)
class NumberSums(Sum):
    """Sums over patients, of one site or of all.

    Parameters
    ----------
    moments : (14,) float64
        Summed products of powers of t and p: :data:`POWERS`.
    misses : float
        Summed |t − p|.
    people : (n_bins,) float64
        Weights of patients per bin of the prediction.
    outcomes, squares, predictions : (n_bins,) float64
        There: summed outcomes, their squares, and predictions.
    errors : (n_errors,) float64
        Weights of patients per bin of |t − p|.
    edges, error_edges : (n_bins - 1,) and (n_errors - 1,) float64
        Between the bins: :data:`EDGES` and :data:`ERROR_EDGES`, or some of them where bins were
        merged.
    """

    moments: Floats = quantity(
        "Σ w·tⁱ·pʲ for 1 ≤ i + j ≤ 4, each to 2⁻²⁰: t the outcome, p the prediction, both to "
        "1/1024 half ranges, p at most 2 from 0",
        shape=f"{len(POWERS)}",
        most="16·w",
    )
    misses: float = quantity("Σ w·|t − p|", most="3·w")
    people: Floats = quantity("Σ w per public bin of the prediction", shape=f"{N_BINS}")
    outcomes: Floats = quantity("Σ w·t there, each t to 1/64", shape=f"{N_BINS}")
    squares: Floats = quantity("Σ w·t² there, each t to 1/64", shape=f"{N_BINS}")
    predictions: Floats = quantity("Σ w·p there, each p to 1/64", shape=f"{N_BINS}", most="2·w")
    errors: Floats = quantity("Σ w per public bin of |t − p|", shape=f"{N_ERRORS}")
    edges: Floats = field(default_factory=lambda: EDGES)
    error_edges: Floats = field(default_factory=lambda: ERROR_EDGES)

    @property
    def total(self) -> float:
        """Weight of all patients."""
        return float(self.people.sum())

    @property
    def ends(self) -> Floats:
        """Where bins begin and end, shape (n_bins + 1,); the outer ones hold what is beyond."""
        return np.concatenate([[-1.0], self.edges, [1.0]])


def count_numbers(prediction: Floats, outcome: Floats, weights: Floats) -> NumberSums:
    """Return the sums of some patients; all of shape (n_rows,).

    Parameters
    ----------
    prediction, outcome : (n_rows,) float64
        In half ranges from the middle.
    weights : (n_rows,) float64
    """
    t = round_to(np.clip(outcome, -1.0, 1.0), STEP)
    p = round_to(np.clip(prediction, -FARTHEST, FARTHEST), STEP)
    bins = np.searchsorted(EDGES, p, side="right")
    misses = np.abs(t - p)
    coarse_t, coarse_p = round_to(t, COARSE_STEP), round_to(p, COARSE_STEP)

    def per_bin(part: Floats) -> Floats:
        return np.bincount(bins, weights * part, N_BINS).astype(np.float64)

    far = np.searchsorted(ERROR_EDGES, misses, side="right")
    return NumberSums(
        moments=np.array([weights @ round_to(t**i * p**j, MOMENT_STEP) for i, j in POWERS]),
        misses=float(weights @ misses),
        people=per_bin(np.ones_like(t)),
        outcomes=per_bin(coarse_t),
        squares=per_bin(coarse_t**2),
        predictions=per_bin(coarse_p),
        errors=np.bincount(far, weights, N_ERRORS).astype(np.float64),
    )


def add_numbers(parts: Sequence[NumberSums]) -> NumberSums:
    """Add up over sites."""
    names = NumberSums.quantities()
    return NumberSums(**{name: sum(getattr(part, name) for part in parts) for name in names})


def coarsen(sums: NumberSums, least: float) -> NumberSums | None:
    """Merge neighbouring bins, of both kinds, until each holds a weight of at least `least`.

    None where all together are too few.
    """
    starts, far = (merge_bins(part[None], least) for part in (sums.people, sums.errors))
    if starts is None or far is None:
        return None
    merged: dict[str, Any] = {
        name: np.add.reduceat(getattr(sums, name), starts)
        for name in ("people", "outcomes", "squares", "predictions")
    }
    return replace(
        sums,
        **merged,
        errors=np.add.reduceat(sums.errors, far),
        edges=sums.edges[starts[1:] - 1],
        error_edges=sums.error_edges[far[1:] - 1],
    )
